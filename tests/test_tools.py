"""tools.py: folders come and go, runs are asked for and cancelled, and no document is ever touched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seoga.config import CONFIG_NAME, SeogaError, load_config, save_config
from seoga.queue import is_alive
from seoga.tools import Tools

DEADLINE_SECONDS = 60.0


def until(condition: Callable[[], Any]) -> None:
    """Wait until something is so; fail when it takes too long."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("walnut")
    return tmp_path / "docs"


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    """Tools over an empty base; whatever they started has ended afterwards."""
    made = Tools(tmp_path / "base")
    yield made
    for config in made.configs(None)[0]:
        made.cancel_reindex(config.id)
    until(lambda: not is_alive(made.base))
    made.close()


def settled(tools: Tools) -> None:
    until(lambda: not tools.queue.entries() and not is_alive(tools.base))


def found(tools: Tools, query: str) -> list[str]:
    hits = tools.search_documents(query, search_mode="bm25").results
    return sorted(os.path.basename(hit.source_path) for hit in hits)


def keywords_only(tools: Tools) -> None:
    """Take the model out, which would be asked for over the network."""
    for config in tools.configs(None)[0]:
        save_config(config, embedding={})


def test_an_added_folder_is_indexed_in_the_background(tools: Tools, docs: Path) -> None:
    added = tools.add_folder(str(docs))
    assert (added.kb_id, added.folders, added.status, added.queue_position) == ("docs", [str(docs)], "queued", 1)
    assert load_config(tools.base / "docs").embedding.provider == "local"
    keywords_only(tools)
    until(lambda: found(tools, "walnut") == ["a.txt"])
    settled(tools)


def test_a_second_folder_reads_nothing_again(tools: Tools, docs: Path, tmp_path: Path) -> None:
    tools.add_folder(str(docs))
    keywords_only(tools)
    settled(tools)
    second = tmp_path / "second"
    second.mkdir()
    (second / "b.txt").write_text("walnut too")
    assert tools.add_folder(str(second), kb_id="docs").folders == [str(docs), str(second)]
    settled(tools)
    info = tools.index_info(load_config(tools.base / "docs"))
    assert info.last_run is not None
    assert (info.last_run["added"], info.last_run["unchanged"], info.last_run["updated"]) == (1, 1, 0)
    assert tools.add_folder(str(docs / ".."), kb_id="docs").folders[-1] == str(tmp_path)  # holds both, found once
    settled(tools)
    assert found(tools, "walnut") == ["a.txt", "b.txt"]


@pytest.mark.parametrize("path", ["docs", "", "../docs", "/", "/no/such/folder", "/etc/hostname", "\x00", "~nobody/x"])
def test_what_is_no_folder_is_refused_with_its_reason(tools: Tools, path: str) -> None:
    with pytest.raises((SeogaError, ValueError)):
        tools.add_folder(path)
    assert tools.configs(None)[0] == []


@pytest.mark.parametrize("kb_id", ["../../x", "/abs", "CON", "a\x00b", "%2e%2e", "x" * 65, ".hidden"])
def test_no_id_leads_out_of_the_base(tools: Tools, docs: Path, kb_id: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for call in (
        lambda: tools.add_folder(str(docs), kb_id=kb_id),
        lambda: tools.remove_folder(str(docs), kb_id=kb_id),
        lambda: tools.cancel_reindex(kb_id),
        lambda: tools.check_changes(kb_id),
    ):
        with pytest.raises(SeogaError):
            call()
    assert tools.start_reindex(kb_id).status == "not_found"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_removed_folder_leaves_the_index_and_stays_on_the_disk(tools: Tools, docs: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "b.txt").write_text("walnut too")
    tools.add_folder(str(docs))
    keywords_only(tools)
    tools.add_folder(str(second), kb_id="docs")
    settled(tools)
    assert found(tools, "walnut") == ["a.txt", "b.txt"]
    assert tools.remove_folder(str(second)).folders == [str(docs)]
    settled(tools)
    assert found(tools, "walnut") == ["a.txt"]
    assert tools.remove_folder(str(docs)).status == "removed"
    assert not (tools.base / "docs").exists()
    assert [(docs / "a.txt").read_text(), (second / "b.txt").read_text()] == ["walnut", "walnut too"]


def test_a_folder_that_no_knowledge_base_has_is_said(tools: Tools, docs: Path, tmp_path: Path) -> None:
    tools.add_folder(str(docs), kb_id="one")
    tools.add_folder(str(docs), kb_id="two")
    with pytest.raises(SeogaError, match=r"is in one, two; name one as kb_id"):
        tools.remove_folder(str(docs))
    with pytest.raises(SeogaError, match=r"is no folder of a knowledge base\. Known:"):
        tools.remove_folder(str(tmp_path))


def test_globs_limit_what_is_indexed(tools: Tools, docs: Path) -> None:
    (docs / "b.md").write_text("walnut")
    tools.add_folder(str(docs), include_globs=["*.md"], exclude_globs=["drafts/"])
    config = load_config(tools.base / "docs")
    assert (config.include_globs, config.exclude_globs) == (("*.md",), ("drafts/",))


def test_requests_are_merged_and_shown(tools: Tools, docs: Path) -> None:
    tools.add_folder(str(docs))
    keywords_only(tools)
    settled(tools)
    assert tools.start_reindex("docs", deferred=True).status == "queued"
    assert tools.start_reindex("docs", partial_mode="embedding", deferred=True).status == "already_queued"
    assert tools.start_reindex("docs", force=True, deferred=True).status == "upgraded"
    (entry,) = tools.index_info(load_config(tools.base / "docs")).queue
    assert (entry.state, entry.position, entry.force) == ("deferred", 1, True)
    assert not is_alive(tools.base)
    cancelled = tools.cancel_reindex("docs")
    assert (cancelled.status, cancelled.cancelled) == ("cancelled", 1)
    assert tools.cancel_reindex("docs").status == "nothing_to_cancel"


def test_without_an_id_all_knowledge_bases_are_asked_for(tools: Tools, docs: Path) -> None:
    assert tools.start_reindex().status == "not_found"
    for kb_id in ("one", "two"):
        tools.add_folder(str(docs), kb_id=kb_id)
    keywords_only(tools)
    settled(tools)
    answer = tools.start_reindex(deferred=True)
    assert [(request.kb_id, request.queue_position) for request in answer.requests] == [("one", 1), ("two", 2)]


def test_a_knowledge_base_whose_configuration_vanishes_is_gone(tools: Tools, docs: Path) -> None:
    tools.add_folder(str(docs))
    keywords_only(tools)
    settled(tools)
    (tools.base / "docs" / CONFIG_NAME).unlink()
    assert tools.list_knowledge_bases().total == 0
    assert tools.start_reindex("docs").status == "not_found"


def test_a_change_in_a_watched_folder_is_indexed(tools: Tools, docs: Path) -> None:
    tools.add_folder(str(docs))
    keywords_only(tools)
    settled(tools)
    watcher = tools.watch()
    try:
        until(lambda: watcher.is_watching(str(docs)))
        (docs / "b.txt").write_text("cherry")
        (docs / ".hidden.txt").write_text("cherry")
        until(lambda: found(tools, "cherry") == ["b.txt"])
        (docs / "a.txt").unlink()
        until(lambda: found(tools, "walnut") == [])
    finally:
        watcher.stop()
        settled(tools)


def test_what_changed_before_the_watching_began_is_indexed(tools: Tools, docs: Path) -> None:
    tools.add_folder(str(docs))
    keywords_only(tools)
    settled(tools)
    (docs / "b.txt").write_text("cherry")
    watcher = tools.watch()
    try:
        until(lambda: found(tools, "cherry") == ["b.txt"])
    finally:
        watcher.stop()
        settled(tools)
