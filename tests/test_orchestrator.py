"""queue.py: requests survive whatever happens to those who make them and to those who work through them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import seoga.queue as queue_module
from seoga.config import Config, SeogaError, new_config
from seoga.queue import CANCELLED, DONE, FAILED, LOCKED, ORCHESTRATOR_NAME, QUEUE_NAME, Queue, is_alive, work_through
from seoga.store import Store, writer_lock

DEADLINE_SECONDS = 60.0
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
ENQUEUE = """
import sys
from pathlib import Path
from seoga.queue import Queue
queue = Queue(Path(sys.argv[1]))
for number in range(200):
    queue.enqueue(f"kb-{sys.argv[2]}-{number}", deferred=True)
"""
# Makes every `seoga` process of a test read `.slow` files, which take as many seconds as they say.
SLOW = """
import sys
if any("seoga." in word for word in sys.orig_argv):
    import time
    from seoga import index, parsers, reading

    def slow(data, document):
        time.sleep(float(data))
        yield parsers.Block("text", "walnut")

    parsers._PARSERS[".slow"] = slow
    parsers.SUFFIXES |= {".slow"}
    index.SUFFIXES = parsers.SUFFIXES
"""


def until(condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until something is so; fail when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@pytest.fixture
def queue(base: Path) -> Queue:
    return Queue(base)


def make(base: Path, kb_id: str, **files: str) -> Config:
    folder = base.parent / f"docs-{kb_id}"
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return new_config(base, [str(folder)], kb_id=kb_id)


def count(config: Config) -> int:
    try:
        store = Store.open_reader(config.database)
    except SeogaError:
        return 0
    try:
        return len(store.files())
    finally:
        store.close()


def start(base: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "seoga.rag", "exec-queue", "--queue-file", str(base / QUEUE_NAME), *more]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the processes that a test starts read `.slow` files."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW)
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


# --- the file ---


@pytest.mark.parametrize(
    ("first", "second", "status", "left"),
    [
        ({}, {}, "already_queued", {"force": False}),
        ({}, {"partial": "embedding"}, "already_queued", {}),
        ({"partial": "embedding"}, {"partial": "contextualization"}, "upgraded", {"partial_mode": "contextualization"}),
        ({"partial": "contextualization"}, {"partial": "embedding"}, "already_queued", {}),
        ({"partial": "embedding"}, {}, "upgraded", {"partial_mode": None}),
        ({}, {"force": True}, "upgraded", {"force": True}),
        ({"force": True}, {"partial": "embedding"}, "already_queued", {"force": True}),
        ({"partial": "embedding", "force": True}, {}, "upgraded", {"partial_mode": None, "force": True}),
        ({"deferred": True}, {}, "upgraded", {"deferred": False}),
        ({}, {"deferred": True}, "already_queued", {"deferred": False}),
    ],
)
def test_a_wider_request_takes_the_place_of_a_narrower_one(
    queue: Queue, first: dict[str, Any], second: dict[str, Any], status: str, left: dict[str, Any]
) -> None:
    assert queue.enqueue("kb", **first) == ("queued", 1)
    assert queue.enqueue("kb", **second) == (status, 1)
    (entry,) = queue.entries()
    assert {key: entry.get(key) for key in left} == left


def test_behind_one_that_runs_a_request_waits(queue: Queue, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.enqueue("kb")
    queue.enqueue("other")
    queue.change(lambda entries: entries[0].update(started_at="2026-01-01T00:00:00Z"))
    monkeypatch.setattr(queue_module, "is_alive", lambda base: True)
    assert queue.enqueue("kb") == ("queued_after_current", 2)
    assert queue.enqueue("kb", partial="embedding") == ("already_queued", 2)
    assert [entry["kb_id"] for entry in queue.entries()] == ["kb", "other", "kb"]


def test_the_file_is_the_one_that_host_programs_know(queue: Queue, base: Path) -> None:
    queue.enqueue("kb", partial="embedding", force=True)
    content = json.loads((base / QUEUE_NAME).read_text())
    entry = content["entries"][0]
    assert content["version"] == 1
    assert entry.pop("scheduled_at").endswith("Z")
    assert entry == {
        "kb_id": "kb",
        "is_reindex": True,
        "force": True,
        "deferred": False,
        "partial_mode": "embedding",
    }


def test_what_other_programs_write_is_kept(queue: Queue, base: Path) -> None:
    base.mkdir()
    theirs = {"kb_id": "kb", "scheduled_at": "x", "is_reindex": False, "force": False, "deferred": True, "color": "red"}
    (base / QUEUE_NAME).write_text(json.dumps({"version": 1, "entries": [theirs]}))
    queue.enqueue("other")
    assert queue.entries()[0] == theirs


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x00" * 1000,
        b"[]",
        b'{"version": 2, "entries": []}',
        b'{"version": 1, "entries": [3]}',
        b'{"version": 1, "entries": [{"kb_id": "../../x"}]}',
        b'{"version": 1, "entries": [{"kb_id": "kb", "partial_mode": "all"}]}',
        b'{"version": 1, "entries": [' + b" " * (17 * 1024 * 1024),
        b"\xff\xfe{}",
    ],
)
def test_a_damaged_file_is_set_aside_and_never_taken_for_nothing_to_do(
    queue: Queue, base: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    base.mkdir()
    (base / QUEUE_NAME).write_bytes(content)
    assert queue.enqueue("kb") == ("queued", 1)
    (aside,) = base.glob(f"{QUEUE_NAME}.corrupt-*")
    assert aside.read_bytes() == content
    assert "is damaged" in caplog.text


def test_no_request_of_eight_processes_is_lost_or_doubled(queue: Queue, base: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-P", "-c", ENQUEUE, str(base), str(n)]) for n in range(8)]
    assert [worker.wait(DEADLINE_SECONDS) for worker in workers] == [0] * 8
    ids = [entry["kb_id"] for entry in queue.entries()]
    assert len(ids) == len(set(ids)) == 1600


def test_a_full_disk_loses_no_request(queue: Queue, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.enqueue("one")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SeogaError, match="No space left"):
            queue.enqueue("two")
    assert [entry["kb_id"] for entry in queue.entries()] == ["one"]
    assert [path.name for path in base.iterdir() if path.name.startswith(f".{QUEUE_NAME}")] == []


# --- working through it ---


def test_what_waits_is_indexed_and_leaves_the_queue(queue: Queue, base: Path) -> None:
    configs = [make(base, kb_id, a_txt="walnut") for kb_id in ("one", "two")]
    for config in configs:
        queue.enqueue(config.id)
    said: list[str] = []
    assert work_through(queue, say=said.append) == DONE
    assert [count(config) for config in configs] == [1, 1]
    assert queue.entries() == []
    assert said == ["one: indexing.", "one: done.", "two: indexing.", "two: done."]
    assert not (base / ORCHESTRATOR_NAME).exists()


def test_deferred_entries_wait_for_a_sweep(queue: Queue, base: Path) -> None:
    config = make(base, "kb", a_txt="walnut")
    queue.enqueue("kb", deferred=True)
    assert work_through(queue, say=str) == DONE
    assert count(config) == 0
    assert work_through(queue, sweep_all=True, say=str) == DONE
    assert count(config) == 1
    assert queue.entries() == []


def test_a_knowledge_base_that_is_gone_leaves_the_queue(queue: Queue) -> None:
    queue.enqueue("gone")
    assert work_through(queue, say=str) == DONE
    assert queue.entries() == []


def test_failed_documents_are_no_failed_run(queue: Queue, base: Path) -> None:
    make(base, "kb", a_json="{")
    queue.enqueue("kb")
    assert work_through(queue, say=str) == DONE
    assert queue.entries() == []


def test_a_run_that_fails_keeps_its_place_with_the_reason(queue: Queue, base: Path) -> None:
    config = make(base, "kb", a_txt="walnut")
    queue.enqueue("kb")
    config.database.mkdir()  # no index can be made
    assert work_through(queue, say=str) == FAILED
    (entry,) = queue.entries()
    assert "rag.db" in entry["last_error"]
    assert "started_at" not in entry
    config.database.rmdir()
    assert work_through(queue, say=str) == DONE
    assert queue.entries() == []


def test_work_that_another_process_does_is_waited_for(queue: Queue, base: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(queue_module, "BUSY_SECONDS", 0.1)
    config = make(base, "kb", a_txt="walnut")
    queue.enqueue("kb")
    said: list[str] = []
    lock = writer_lock(config.folder)
    lock.__enter__()

    def say(text: str) -> None:
        said.append(text)
        if text.endswith("is indexing it.") and said.count(text) == 2:
            lock.__exit__(None, None, None)

    assert work_through(queue, say=say) == DONE
    assert count(config) == 1


def test_only_one_works_through_a_queue(queue: Queue, base: Path, slow: None) -> None:
    config = make(base, "kb", a_slow="2")
    queue.enqueue("kb")
    first = start(base)
    until(lambda: is_alive(base))
    assert [start(base).wait(DEADLINE_SECONDS) for _ in range(3)] == [LOCKED] * 3
    assert first.wait(DEADLINE_SECONDS) == DONE
    assert count(config) == 1


def test_a_lock_whose_process_is_gone_or_another_counts_for_nothing(base: Path) -> None:
    base.mkdir()
    host = __import__("socket").gethostname()
    for info in ({"pid": 2**22 - 3, "started": 1.0}, {"pid": os.getpid(), "started": 1.0}, {"pid": 1, "started": None}):
        (base / ORCHESTRATOR_NAME).write_text(json.dumps({**info, "host": host}))
        assert not is_alive(base)
    (base / ORCHESTRATOR_NAME).write_bytes(b"\x00")
    assert not is_alive(base)


@POSIX
@pytest.mark.parametrize("victim", ["orchestrator", "worker", "both"])
def test_killing_who_works_loses_no_request(queue: Queue, base: Path, slow: None, victim: str) -> None:
    config = make(base, "kb", a_slow="1.5", b_txt="walnut")
    other = make(base, "other", a_txt="walnut")
    queue.enqueue("kb")
    queue.enqueue("other")
    process = start(base)
    until(lambda: count(config) or psutil.Process(process.pid).children())
    (worker, *_) = psutil.Process(process.pid).children()
    if victim != "worker":
        process.kill()
        process.wait()
    if victim != "orchestrator":
        worker.kill()
    if victim == "worker":
        assert process.wait(DEADLINE_SECONDS) == FAILED
    assert "kb" in [entry["kb_id"] for entry in queue.entries()]
    assert start(base).wait(DEADLINE_SECONDS) == DONE
    assert queue.entries() == []
    assert (count(config), count(other)) == (2, 1)


@POSIX
def test_a_signal_stops_the_work_and_keeps_it_queued(queue: Queue, base: Path, slow: None) -> None:
    config = make(base, "kb", a_slow="100")
    queue.enqueue("kb")
    process = start(base)
    until(lambda: (config.folder / "indexer.json").exists())
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_SECONDS) == CANCELLED
    assert time.monotonic() - began < 5
    (entry,) = queue.entries()
    assert entry["kb_id"] == "kb"
    assert "started_at" not in entry
    assert not is_alive(base)


def test_cancelling_drops_what_waits_and_stops_what_runs(queue: Queue, base: Path, slow: None) -> None:
    config = make(base, "kb", a_slow="100")
    queue.enqueue("kb")
    process = start(base)
    until(lambda: (config.folder / "indexer.json").exists())
    assert queue.enqueue("kb", force=True)[0] == "queued_after_current"
    began = time.monotonic()
    assert queue.cancel("kb") == (1, True)
    assert process.wait(DEADLINE_SECONDS) == DONE
    assert time.monotonic() - began < 4
    assert queue.entries() == []


def test_what_happened_in_the_background_is_in_the_log(queue: Queue, base: Path, slow: None) -> None:
    make(base, "kb", a_txt="the text of a document")
    queue.enqueue("kb")
    assert start(base).wait(DEADLINE_SECONDS) == DONE
    log = (base / ".logs" / "queue.log").read_text(encoding="utf-8")
    assert "INFO kb: done." in log
    assert "the text of a document" not in log


def test_a_request_made_as_the_last_work_ends_is_not_forgotten(base: Path) -> None:
    config = make(base, "kb", a_txt="walnut")
    queue = Queue(base)
    for _ in range(3):
        queue.enqueue("kb")
        queue_module.start_orchestrator(base)
        until(lambda: not queue.entries())
    until(lambda: not is_alive(base))
    assert count(config) == 1
