"""web.py: MCP over HTTP on this machine, closed to other sites and strangers, with a page for a person."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from seoga import web
from seoga.config import SeogaError, new_config
from seoga.index import run

TOKEN = "swordfish-1.~+/="
CLIENT = {"name": "test", "version": "1"}
ENDS_SECONDS = 5.0
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("# Budget\n\nTravel is capped; the walnut <b>desk</b> is not.")
    (folder / "docs" / "회의.txt").write_text("다음 회의는 월요일에 연다.")
    (folder / "docs" / "broken.json").write_text("{")
    run(new_config(folder / "base", [str(folder / "docs")], kb_id="kb", name="서류"))
    return folder / "base"


class Server:
    """A `seoga serve --transport http` of its own, on a free port."""

    def __init__(self, base: Path, *more: str, **variables: str) -> None:
        command = [sys.executable, "-P", "-m", "seoga.rag", "serve", "--base-path", str(base)]
        self.process = subprocess.Popen(
            [*command, "--transport", "http", "--port", "0", *more],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables},
        )  # fmt: skip
        assert self.process.stderr is not None
        found = re.search(r"http://\S+?:(\d+)/", line := self.process.stderr.readline())
        assert found, line
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._drain = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._drain.start()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=30)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._drain.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[Server]:
    server = Server(base)
    yield server
    server.end()


@pytest.fixture(scope="module")
def closed(base: Path) -> Iterator[Server]:
    """A server that wants a token."""
    server = Server(base, SEOGA_TOKEN=TOKEN)
    yield server
    server.end()


# --- who may come in ---


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LocalHost:{port}", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1:{port}.evil.example", 421),
        ("127.0.0.1.evil.example:{port}", 421),
        ("evil.example:{port}", 421),
        ("evil.example", 421),
        ("127.0.0.1", 421),
        ("127.0.0.1:1", 421),
        ("127.0.0.1:{port}@evil.example", 421),
        ("user@127.0.0.1:{port}", 421),
        ("127.0.0.1:{port}/x", 421),
        ("127.0.0.1:99999999", 421),
        ("", 421),
    ],
)
def test_only_a_host_that_names_this_server_is_served(server: Server, host: str, status: int) -> None:
    assert server.get("/health", Host=host.format(port=server.port)).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://localhost:{port}", 200),
        ("http://127.0.0.1:{port}.evil.example", 403),
        ("https://127.0.0.1:{port}", 403),
        ("http://127.0.0.1:1", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_other_sites_are_refused(server: Server, origin: str, status: int) -> None:
    assert server.get("/api/info", Origin=origin.format(port=server.port)).status_code == status


def test_no_other_address_is_served_without_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(SeogaError, match="token"):
            web.serve_http(tmp_path, host=host, port=0)


def test_a_token_that_no_header_carries_is_refused(tmp_path: Path) -> None:
    for token in ("short", "with a space", "열려라참깨열려라참깨", "semi;colon", "x" * 201):
        with pytest.raises(SeogaError, match="a token is"):
            web.serve_http(tmp_path, host="127.0.0.1", port=0, token=token)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SeogaError, match="Choose another --port"):
        web.serve_http(tmp_path, host="127.0.0.1", port=taken.getsockname()[1])


@pytest.mark.parametrize("path", ["/", "/mcp", "/api/info", "/api/search?q=walnut", "/page.js"])
def test_without_the_token_nothing_is_told(closed: Server, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Cookie": "seoga_token=wrong"},
        {"Authorization": "Bearer"},
    ):
        answer = closed.get(path, **headers)
        assert answer.status_code == 401
        assert "walnut" not in answer.text
        assert "서류" not in answer.text
    assert closed.get("/health").json()["status"] == "ok"


def test_the_token_opens_by_header_and_by_cookie(closed: Server) -> None:
    assert closed.get("/api/info", Authorization=f"Bearer {TOKEN}").status_code == 200
    assert httpx.post(closed.url + "/login", data={"token": "wrong"}).status_code == 401
    with httpx.Client(base_url=closed.url) as client:
        entered = client.post("/login", data={"token": TOKEN})
        assert entered.status_code == 303
        cookie = entered.headers["set-cookie"].casefold()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/api/info").status_code == 200


def test_large_bodies_are_refused(server: Server) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = httpx.post(server.url + "/mcp", content=b" " * (web.MAX_BODY_BYTES + 1), headers=headers, timeout=30)
    assert answer.status_code == 413


# --- MCP ---


async def session(url: str, work: Any) -> Any:
    async with streamable_http_client(f"{url}/mcp") as streams, ClientSession(streams[0], streams[1]) as client:
        await client.initialize()
        return await work(client)


def test_the_sdks_client_lists_and_calls_tools(server: Server) -> None:
    async def work(client: ClientSession) -> Any:
        listed = await client.list_tools()
        answer = await client.call_tool("search_documents", {"query": "walnut"})
        return len(listed.tools), answer.structured_content

    tools, answer = anyio.run(session, server.url, work)
    assert tools == 11
    assert answer["results"][0]["source_path"].endswith("a.md")


def test_eight_clients_are_served_at_once(server: Server) -> None:
    async def work(client: ClientSession) -> int:
        found = 0
        for _ in range(10):
            answer = await client.call_tool("search_documents", {"query": "회의"})
            found += len(answer.structured_content["results"])
        return found

    async def all_of_them() -> list[int]:
        found: list[int] = []

        async def one() -> None:
            found.append(await session(server.url, work))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(one)
        return found

    assert anyio.run(all_of_them) == [10] * 8


def test_a_read_only_server_offers_nothing_that_changes(base: Path) -> None:
    server = Server(base, "--read-only")
    try:

        async def work(client: ClientSession) -> Any:
            return [tool.name for tool in (await client.list_tools()).tools if not tool.annotations.read_only_hint]

        assert anyio.run(session, server.url, work) == []
    finally:
        server.end()


@POSIX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_also_with_a_client_connected(base: Path, number: int) -> None:
    server = Server(base)
    with httpx.Client() as client:
        hello = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
        }  # fmt: skip
        headers = {"Accept": "application/json, text/event-stream"}
        opened = client.post(f"{server.url}/mcp", json=hello, headers=headers)
        headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        with client.stream("GET", f"{server.url}/mcp", headers=headers):
            began = time.monotonic()
            server.process.send_signal(number)
            server.process.wait(timeout=ENDS_SECONDS)
            assert time.monotonic() - began < ENDS_SECONDS
    server.end()


# --- the page ---


def test_what_the_page_shows_is_what_the_tools_answer(server: Server) -> None:
    (info,) = server.get("/api/info").json()["knowledge_bases"]
    assert (info["name"], info["total_files"]) == ("서류", 3)
    assert info["problems"][0]["path"].endswith("broken.json")
    answer = server.get("/api/search?q=walnut&top_k=1").json()
    assert "walnut" in answer["results"][0]["explanation"]["terms"]
    for wrong in ("mode=x", "kb_id=../../x", "kb_id=%00"):
        refused = server.get(f"/api/search?q=x&{wrong}")
        assert refused.status_code == 400
        assert refused.json()["error"]
    assert server.get("/api/search?q=x&top_k=-5").status_code == 200


def test_the_page_runs_no_script_but_its_own(server: Server) -> None:
    policy = server.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "innerHTML" not in server.get("/page.js").text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "the page is tested in Chromium: `python tests/engines.py` installs it"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1200])
def test_a_person_searches_by_keyboard(server: Server, browser: Any, scheme: str, width: int) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 700})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(server.url)
    page.wait_for_function("document.activeElement.name === 'q'")  # nobody has to reach for the mouse
    page.keyboard.type("walnut")
    page.keyboard.press("Enter")
    page.wait_for_selector("article")
    assert page.inner_text("article h3") == "a.md, Budget"
    assert page.inner_text("article mark") == "walnut"
    assert "<b>desk</b>" in page.inner_text("article pre")  # text, not markup
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "kb"
    page.wait_for_selector(".base")
    assert "서류" in page.inner_text(".base")
    page.click(".base summary")
    assert "broken.json" in page.inner_text(".base details")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert contrast(ink, paper) > 7
    assert faults == []
    page.close()


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio of two `rgb(…)` colours."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_a_korean_word_is_marked_whole(server: Server, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{server.url}/?q=월요일")
    page.wait_for_selector("article")
    assert page.inner_text("article mark") == "월요일"
    page.close()


def test_the_page_asks_for_the_token_and_then_opens(closed: Server, browser: Any) -> None:
    page = browser.new_page()
    page.goto(closed.url)
    page.wait_for_function("document.activeElement.name === 'token'")
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".base")
    assert json.loads(page.evaluate("JSON.stringify(document.cookie)")) == ""  # no script reads it
    page.close()


def test_progress_is_shown_while_an_indexer_runs(base: Path, server: Server, browser: Any) -> None:
    from seoga.store import write_indexer, writer_lock

    page = browser.new_page()
    with writer_lock(base / "kb"):
        write_indexer(
            base / "kb", {"stage": "reading", "done": 3, "total": 12, "unit": "files", "within_file": "page 2 of 9"}
        )
        page.goto(server.url)
        page.wait_for_selector("progress")
        assert page.get_attribute("progress", "value") == "3"
        assert "reading: 3 of 12 files, page 2 of 9" in page.inner_text(".base")
    page.wait_for_selector("progress", state="detached")
    page.close()
