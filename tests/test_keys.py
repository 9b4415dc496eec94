"""A key that is missing is asked for when a search needs it, kept in memory, and given up on after some tries."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import ElicitResult

from seoga.config import new_config
from seoga.index import run
from seoga.server import MAX_ASKED, make_server
from seoga.tools import Tools

_spec = importlib.util.spec_from_file_location("fake_providers", Path(__file__).with_name("fake_providers.py"))
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
sys.modules["fake_providers"] = fakes  # its dataclasses look themselves up
_spec.loader.exec_module(fakes)

KEY = "sk-the-right-one"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A knowledge base whose vectors were made with a key that is gone from the environment now."""
    provider = fakes.FakeProvider()
    provider.key = KEY
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("walnut")
    monkeypatch.setenv("VOYAGE_API_KEY", KEY)
    model = {"provider": "voyage", "model": "voyage-3", "apiKeyPreset": "Voyage", "baseUrl": provider.url}
    run(new_config(tmp_path / "base", [str(tmp_path / "docs")], kb_id="kb", embedding=model))
    monkeypatch.delenv("VOYAGE_API_KEY")
    yield tmp_path / "base"
    provider.close()


def search(base: Path, answers: list[ElicitResult], searches: list[dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """Search with a client that answers so; return the messages it was asked with, and the results."""
    messages: list[str] = []

    async def asked(context: Any, params: Any) -> ElicitResult:
        messages.append(params.message)
        return answers[min(len(messages), len(answers)) - 1]

    async def work() -> list[Any]:
        with closing(Tools(base)) as tools:
            async with Client(make_server(tools), mode="legacy", elicitation_callback=asked) as client:
                found = [await client.call_tool("search_documents", {"query": "walnut", **more}) for more in searches]
        return [answer.structured_content for answer in found]

    return messages, anyio.run(work)


def accept(key: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"key": key})


def test_the_key_is_asked_for_once_and_kept(base: Path) -> None:
    messages, found = search(base, [accept(KEY)], [{}, {}])
    assert len(messages) == 1
    assert "VOYAGE_API_KEY" in messages[0]
    assert [one["search_mode"] for one in found] == ["hybrid", "hybrid"]
    assert [one["notes"] for one in found] == [[], []]
    for path in base.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_keywords_need_no_key(base: Path) -> None:
    messages, (found,) = search(base, [accept(KEY)], [{"search_mode": "bm25"}])
    assert messages == []
    assert len(found["results"]) == 1


def test_a_wrong_key_is_asked_for_again_but_not_for_ever(base: Path) -> None:
    messages, found = search(base, [accept("sk-of-someone-else")], [{}, {}])
    assert len(messages) == MAX_ASKED
    for one in found:
        assert len(one["results"]) == 1  # by its words
        assert any("VOYAGE_API_KEY" in note for note in one["notes"])
        assert "sk-of-someone-else" not in str(one)


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_does_not_want_to_give_it_is_not_asked_again(base: Path, action: Any) -> None:
    messages, found = search(base, [ElicitResult(action=action)], [{}, {}])
    assert len(messages) == 1
    assert [len(one["results"]) for one in found] == [1, 1]


def test_a_client_that_can_not_be_asked_gets_results_all_the_same(base: Path) -> None:
    async def work() -> Any:
        with closing(Tools(base)) as tools:
            async with Client(make_server(tools)) as client:
                return (await client.call_tool("search_documents", {"query": "walnut"})).structured_content

    found = anyio.run(work)
    assert len(found["results"]) == 1
    assert any("VOYAGE_API_KEY" in note for note in found["notes"])


def test_progress_is_told_while_one_waits_for_an_indexer(base: Path) -> None:
    from seoga.store import write_indexer, writer_lock

    seen: list[tuple[float, float | None, str | None]] = []

    async def told(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async def work() -> Any:
        with closing(Tools(base)) as tools, writer_lock(base / "kb"):
            write_indexer(base / "kb", {"stage": "reading", "done": 3, "total": 12})
            async with Client(make_server(tools)) as client:
                return await client.call_tool("get_index_info", {"wait_seconds": 2}, progress_callback=told)

    assert not anyio.run(work).is_error
    assert seen[0] == (3, 12, "reading")
