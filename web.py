"""Serve MCP over HTTP, beside it a page for a person who looks on.

    /mcp         MCP, streamable HTTP
    /            the page; /api/info and /api/search are what it shows
    /health      {"status": "ok"} for whoever watches over the process

Only this machine is served unless there is a token. A browser must not be led here by another site's name: `Host` has
to name this server, and `Origin`, where there is one, too. Sessions, bodies and connections are bounded.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import sys
from dataclasses import asdict
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from .config import VERSION, SeogaError, scrub
from .server import make_server
from .tools import Tools, homeless

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_BODY_BYTES = 1024 * 1024  # 1 MB: arguments, not documents
MAX_SESSIONS = 200
MAX_CONNECTIONS = 200
IDLE_SECONDS = 600.0  # of a session that nobody uses
LEAVING_SECONDS = 3.0  # that requests get to end when the server is told to
TOKEN_VARIABLE = "SEOGA_TOKEN"
COOKIE = "seoga_token"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{8,200}")  # what a header and a cookie carry as it is
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with no-referrer, Chromium sends a form with `Origin: null`
    "X-Content-Type-Options": "nosniff",
}


def serve_http(
    base: Path, *, host: str, port: int, token: str = "", read_only: bool = False, watch: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM. Raises SeogaError for an address that can't be used, or that needs a token."""
    import socket

    import uvicorn

    token = token or os.environ.get(TOKEN_VARIABLE, "")
    if token and not _TOKEN.fullmatch(token):
        raise SeogaError("a token is 8 to 200 of A-Z a-z 0-9 . _ ~ + / = -: `openssl rand -hex 16` makes one.")
    if not is_loopback(host) and not token:
        raise SeogaError(
            f"{host} can be reached from other machines, so a token is needed: set {TOKEN_VARIABLE} or give --token. "
            "Without one, --host 127.0.0.1 serves this machine alone."
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        fault = f"{host}:{port} can't be served: {error.strerror}. Choose another --port, or end what uses it."
        raise SeogaError(fault) from None
    port = listener.getsockname()[1]
    tools = Tools(base)
    if watch:
        tools.watch()
    settings = uvicorn.Config(
        make_app(tools, host=host, port=port, token=token, read_only=read_only),
        log_level="warning", access_log=False, server_header=False, limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(LEAVING_SECONDS), timeout_keep_alive=30, lifespan="on",
    )  # fmt: skip
    shown = f"[{host}]" if ":" in host else host
    print(f"seoga serves http://{shown}:{port}/ (MCP at /mcp)", file=sys.stderr, flush=True)
    with listener:
        uvicorn.Server(settings).run(sockets=[listener])


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def make_app(tools: Tools, *, host: str, port: int, token: str = "", read_only: bool = False) -> ASGIApp:
    """Make the ASGI application that `serve_http` runs."""
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.routing import Route

    app = make_server(tools, read_only=read_only).streamable_http_app(
        max_request_body_size=MAX_BODY_BYTES, session_idle_timeout=IDLE_SECONDS, max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard does it
    )  # fmt: skip
    page = _Page(tools, token)
    app.router.routes += [
        Route("/", page.show, methods=["GET"]),
        Route("/page.js", page.script, methods=["GET"]),
        Route("/login", page.log_in, methods=["POST"]),
        Route("/health", page.health, methods=["GET"]),
        Route("/api/info", page.info, methods=["GET"]),
        Route("/api/search", page.search, methods=["GET"]),
    ]
    return Guard(app, names_of(host), port, token)


def names_of(host: str) -> frozenset[str]:
    """Return the names by which a client may call a server that listens on `host`."""
    any_address = host in ("0.0.0.0", "::")
    names = {host.casefold()} | (set(_LOOPBACK) if is_loopback(host) or any_address else set())
    if any_address:
        import socket

        import psutil

        names |= {address.address.partition("%")[0] for each in psutil.net_if_addrs().values() for address in each}
        names |= {socket.gethostname().casefold(), socket.getfqdn().casefold()}
    return frozenset(names)


class Guard:
    """Lets a request pass that names this server, comes from no other site, and brings the token if there is one."""

    def __init__(self, app: ASGIApp, names: frozenset[str], port: int, token: str) -> None:
        self._app = app
        self._names = names
        self._port = port
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "websocket":
            return
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        headers = Headers(scope=scope)
        if not self._is_here(f"http://{headers.get('host', '')}"):
            return PlainTextResponse("this server has another name", 421)
        if (origin := headers.get("origin")) is not None and not self._is_here(origin):
            return PlainTextResponse("requests from other sites are refused", 403)
        if not self._token or scope["path"] in ("/health", "/login") or self._has_token(headers):
            return None
        if scope["path"] == "/" and scope["method"] == "GET":
            return _html(_LOGIN, 401)
        return PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})

    def _is_here(self, url: str) -> bool:
        """Tell whether a URL's scheme, host and port are this server's; the port is parsed, not matched by prefix."""
        try:
            parts = urlsplit(url)
            name, port = parts.hostname or "", 80 if parts.port is None else parts.port
        except ValueError:
            return False
        plain = parts.scheme == "http" and not parts.path and not parts.query and "@" not in parts.netloc
        return plain and name in self._names and port == self._port

    def _has_token(self, headers: Any) -> bool:
        kind, _, value = headers.get("authorization", "").partition(" ")
        given = value.strip() if kind.casefold() == "bearer" else _cookie(headers.get("cookie", ""))
        return is_token(given, self._token)


def is_token(given: str, token: str) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


class _Page:
    """What the page in page.html shows: the answers of the tools, as JSON."""

    def __init__(self, tools: Tools, token: str) -> None:
        self._tools = tools
        self._token = token

    async def show(self, request: Request) -> Response:
        return _html((Path(__file__).with_name("page.html")).read_text(encoding="utf-8"), 200)

    async def script(self, request: Request) -> Response:
        from starlette.responses import Response

        code = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
        return Response(code, 200, _HEADERS, media_type="text/javascript")

    async def health(self, request: Request) -> Response:
        return _json({"status": "ok", "version": VERSION})

    async def log_in(self, request: Request) -> Response:
        from starlette.responses import RedirectResponse

        body = (await request.body())[:10_000].decode("utf-8", "replace")
        given = parse_qs(body).get("token", [""])[0]
        if not is_token(given, self._token):
            return _html(_LOGIN, 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
        return response

    async def info(self, request: Request) -> Response:
        return await _answer(lambda: asdict(self._tools.get_index_info()))

    async def search(self, request: Request) -> Response:
        asked = request.query_params
        top_k = int(asked["top_k"]) if asked.get("top_k", "").isdecimal() and len(asked["top_k"]) < 4 else 10
        mode: Any = asked.get("mode", "auto")
        if mode not in ("auto", "hybrid", "bm25", "vector"):
            return _json({"error": "mode is one of auto, hybrid, bm25, vector"}, 400)
        kb_id, query = asked.get("kb_id") or None, asked.get("q", "")[:4096]

        def work() -> dict[str, Any]:
            top = max(1, min(top_k, 50))
            return asdict(self._tools.search_documents(query, kb_id, top, search_mode=mode, explain=True))

        return await _answer(work)


async def _answer(work: Any) -> Response:
    """Do the work in a thread; an error becomes a message without private paths."""
    from anyio import to_thread

    try:
        return _json(await to_thread.run_sync(work))
    except SeogaError as error:
        return _json({"error": scrub(homeless(str(error)))}, 400)


def _json(value: Any, status: int = 200) -> Response:
    from starlette.responses import Response

    content = scrub(json.dumps(value, ensure_ascii=False))
    return Response(content.encode("utf-8", "replace"), status, _HEADERS, media_type="application/json")


def _html(text: str, status: int) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text, status, _HEADERS)


_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>seoga</title><style>:root{color-scheme:light dark;font:16px system-ui,sans-serif}body{margin:15vh auto;
max-width:22rem;padding:0 1rem}input,button{font:inherit;padding:.5rem;width:100%;box-sizing:border-box;margin:.3rem 0}
</style><h1>seoga</h1><form method="post" action="/login"><label>Token of this server
<input name="token" type="password" autofocus autocomplete="current-password"></label><button>Open</button></form>
"""
