"""Tests of what the index survives: kill -9, cancelling, damage, a full disk, two writers, readers that stay."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from seoga import index, store
from seoga.config import Config, SeogaError, load_config, new_config
from seoga.index import run
from seoga.search import search
from seoga.store import LockedError, Store, StoreError, read_indexer, writer_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")

DEADLINE_SECONDS = 20.0
GONE_SECONDS = 5.0
KILLS = 20
QUERIES = ["예산 회의", "walnut number7", "임피던스", "section"]

# `seoga` with a reader for `.slow` files, which never ends, in its children.
SLOW = """
import sys, time
from seoga import index, parsers, rag, reading

def slow(data, document):
    while True:
        time.sleep(0.01)
    yield

parsers._PARSERS[".slow"] = slow
parsers.SUFFIXES |= {".slow"}
index.SUFFIXES = parsers.SUFFIXES
index.GROUP_SECONDS = 0.1
reading.Child.command = (sys.executable, "-P", __file__, "child")
reading.serve_requests() if sys.argv[1:2] == ["child"] else sys.exit(rag.main())
"""

# `seoga` that commits after each few files.
EAGER = """
import sys
from seoga import index, rag

index.GROUP_CHARS = 2000
sys.exit(rag.main())
"""


def until(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until something is so; fail when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def kb(tmp_path: Path) -> Config:
    """A knowledge base over an empty folder."""
    (tmp_path / "docs").mkdir()
    return new_config(tmp_path / "base", [str(tmp_path / "docs")], kb_id="kb")


def docs(kb: Config) -> Path:
    return Path(kb.sources[0])


def fill(kb: Config, number: int, paragraphs: int = 3) -> None:
    for n in range(number):
        body = "\n\n".join(
            f"## section {p}\n\n예산 회의에서 임피던스를 다뤘다. walnut number{n}" for p in range(paragraphs)
        )
        (docs(kb) / f"n{n}.md").write_text(f"# 문서 {n}\n\n{body}", encoding="utf-8")


def seoga(*arguments: str, script: Path | None = None, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", *([str(script)] if script else ["-m", "seoga.rag"]), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def indexing(kb: Config, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return seoga("exec", "--path", str(kb.folder), *arguments, **options)


@pytest.fixture
def slow(tmp_path: Path, kb: Config) -> Path:
    """A script that is `seoga`, for a knowledge base with a document that never ends among others."""
    fill(kb, 5)
    (docs(kb) / "z.slow").write_text("slow")
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    return script


def is_reading(process: "subprocess.Popen[str]", kb: Config) -> bool:
    """Tell whether the slow document is all that is left to read, everything else committed."""
    assert process.poll() is None, process.communicate()
    try:
        with closing(Store.open_reader(kb.database)) as reader:
            return len(reader.files()) == 5
    except SeogaError:
        return False


def snapshot(kb: Config) -> dict[str, Any]:
    """Return all that a person could tell an index by: files, chunks, search results, totals."""
    with closing(Store.open_reader(kb.database)) as reader:
        files = {
            path: (record.state, record.reason, record.key, [chunk.text for chunk in reader.chunks_of_file(path)])
            for path, record in reader.files().items()
        }
        found = {query: [(hit.chunk.chunk_id, hit.score) for hit in search(reader, query).hits] for query in QUERIES}
        return {"files": files, "found": found, "totals": reader.totals()}


def assert_sound(kb: Config) -> None:
    """Hold the index to the one invariant for every fault."""
    if not kb.database.exists():
        return
    with closing(Store.open_writer(kb.database)) as writer:
        assert writer.check() == []
        for path, record in writer.files().items():
            chunks = writer.chunks_of_file(path)
            assert record.state == "Ready"
            assert chunks
            assert [chunk.position for chunk in chunks] == list(range(chunks[0].total))


# --- kill -9 ---


def kill_with_family(process: "subprocess.Popen[str]") -> int:
    """Kill a process that runs (or just ended) and wait until the children it had are gone too; return their number."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.communicate()
    assert psutil.wait_procs(family, timeout=GONE_SECONDS)[1] == []
    return len(family)


def test_a_run_killed_at_any_moment_leaves_a_sound_index_and_the_next_one_completes_it(
    kb: Config, tmp_path: Path
) -> None:
    fill(kb, 100)
    eager = tmp_path / "eager.py"
    eager.write_text(EAGER)
    clean = new_config(tmp_path / "clean", [str(docs(kb))], kb_id="kb")
    began = time.monotonic()
    process = indexing(clean, script=eager)
    process.communicate()
    assert process.returncode == 0
    usual = time.monotonic() - began
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    draw = random.Random(7)
    for number in range(KILLS):
        force = ["--force"] if number % 3 == 2 else []  # then there is everything to do again
        process = indexing(kb, *force, script=eager, env={**os.environ, "TMPDIR": str(temporary)})
        with suppress(subprocess.TimeoutExpired):
            process.wait(usual * draw.uniform(0.2, 0.95))
        kill_with_family(process)
        if number % 2:  # else twice in a row
            assert_sound(kb)
    assert run(kb).status == "done"
    assert_sound(kb)
    assert snapshot(kb) == snapshot(clean)
    assert sorted(os.listdir(kb.folder)) == sorted(os.listdir(clean.folder))
    assert os.listdir(temporary) == []


def test_children_end_with_a_killed_parent_whatever_they_read(kb: Config, slow: Path) -> None:
    process = indexing(kb, script=slow)
    until(lambda: is_reading(process, kb))
    assert kill_with_family(process) > 0


# --- one writer ---


def test_a_second_writer_is_refused_with_the_first_ones_pid(kb: Config, slow: Path) -> None:
    process = indexing(kb, script=slow)
    until(lambda: is_reading(process, kb))
    before = kb.database.stat().st_size
    with pytest.raises(LockedError, match=rf"process {process.pid} on .* is indexing kb"):
        run(kb)
    second = indexing(kb)
    assert str(process.pid) in second.communicate()[1]
    assert second.returncode == 3
    assert kb.database.stat().st_size >= before
    info = read_indexer(kb.folder)
    assert info is not None
    assert info["pid"] == process.pid
    process.kill()
    process.communicate()
    with writer_lock(kb.folder):  # free at once
        assert read_indexer(kb.folder)["pid"] == os.getpid()  # type: ignore[index]
    assert read_indexer(kb.folder) is None


def test_a_refused_second_writer_leaves_the_cancel_file_and_the_progress_alone(kb: Config) -> None:
    with writer_lock(kb.folder):
        kb.cancel.touch()
        with pytest.raises(LockedError):
            run(kb)
        assert kb.cancel.exists()
        assert read_indexer(kb.folder) is not None


def test_eight_indexers_at_once_end_well_or_as_refused(kb: Config) -> None:
    fill(kb, 30)
    processes = [indexing(kb) for _ in range(8)]
    codes = [(process.communicate(), process.returncode)[1] for process in processes]
    assert set(codes) <= {0, 3}
    assert 0 in codes
    assert_sound(kb)


# --- being asked to stop ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_as_cancelled_and_keeps_what_was_read(
    kb: Config, slow: Path, number: signal.Signals
) -> None:
    process = indexing(kb, "--json", script=slow)
    until(lambda: is_reading(process, kb))
    children = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    process.send_signal(number)
    output, said = process.communicate()
    assert time.monotonic() - began < 2 + GONE_SECONDS  # the interpreter's end included, on a busy machine
    assert process.returncode == 2
    assert "Stopping" in said
    assert json.loads(output)["status"] == "cancelled"
    assert json.loads(output)["added"] == 5
    assert psutil.wait_procs(children, timeout=GONE_SECONDS)[1] == []
    assert_sound(kb)


def test_a_second_signal_ends_the_process_at_once(kb: Config, slow: Path) -> None:
    process = indexing(kb, script=slow)
    until(lambda: is_reading(process, kb))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in (2, 128 + signal.SIGINT)
    assert_sound(kb)


def test_the_cancel_file_ends_a_run_of_another_process(kb: Config, slow: Path) -> None:
    kb.cancel.touch()  # an old one is ignored
    process = indexing(kb, script=slow)
    until(lambda: is_reading(process, kb))
    assert not kb.cancel.exists()
    began = time.monotonic()
    kb.cancel.touch()
    until(lambda: read_indexer(kb.folder) is None)
    assert time.monotonic() - began < 2
    process.communicate()
    assert process.returncode == 2


# --- damage ---


@pytest.fixture
def indexed(kb: Config) -> Config:
    fill(kb, 20)
    run(kb)
    return kb


def sql(kb: Config, *statements: str) -> None:
    with closing(sqlite3.connect(kb.database, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def answers(kb: Config) -> int:
    with closing(Store.open_reader(kb.database)) as reader:
        return len(search(reader, "walnut").hits)


def test_a_newer_schema_is_refused_and_no_byte_changes(indexed: Config) -> None:
    sql(indexed, f"pragma user_version = {store.SCHEMA_VERSION + 1}", "pragma wal_checkpoint(truncate)")
    before = indexed.database.read_bytes()
    for force in (False, True):
        with pytest.raises(StoreError, match="newer seoga"):
            run(indexed, force=force)
    with pytest.raises(StoreError, match="newer seoga"):
        Store.open_reader(indexed.database)
    assert indexed.database.read_bytes() == before
    assert not list(indexed.folder.glob("*damaged*"))


def cut_off(kb: Config) -> None:
    data = kb.database.read_bytes()
    kb.database.write_bytes(data[: len(data) // 2])


def overwrite_the_beginning(kb: Config) -> None:
    data = kb.database.read_bytes()
    kb.database.write_bytes(b"no database at all" + data[18:])


def overwrite_the_middle(kb: Config) -> None:
    data = bytearray(kb.database.read_bytes())
    data[8192 : len(data) - 4096] = b"\xa5" * (len(data) - 12288)
    kb.database.write_bytes(data)


def drop_words(kb: Config) -> None:
    sql(kb, "drop table words")


def drop_chunks(kb: Config) -> None:
    sql(kb, "pragma foreign_keys = off", "drop table chunks")


def empty_the_words_data(kb: Config) -> None:
    sql(kb, "delete from words_data")


DAMAGES = [cut_off, overwrite_the_beginning, overwrite_the_middle, drop_words, drop_chunks, empty_the_words_data]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_reported_and_set_aside_by_force(indexed: Config, damage: Callable[[Config], None]) -> None:
    sql(indexed, "pragma wal_checkpoint(truncate)")
    damage(indexed)
    with pytest.raises(StoreError, match="--force"):
        answers(indexed)
    outcome = run(indexed, force=True)
    assert outcome.counts["added"] == 20
    assert "kept as rag.db.damaged-" in outcome.warnings[0]
    assert list(indexed.folder.glob("rag.db.damaged-*"))
    assert_sound(indexed)
    assert answers(indexed) > 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_on_a_damaged_index_never_ends_as_if_all_were_well(
    indexed: Config, damage: Callable[[Config], None]
) -> None:
    damage(indexed)
    fill(indexed, 25, paragraphs=4)
    try:
        run(indexed)
    except StoreError as error:
        assert "--force" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert_sound(indexed)


@pytest.mark.parametrize("table", ["words", "trigrams", "names"])
def test_damage_inside_a_keyword_index_is_found_and_set_aside_by_force(indexed: Config, table: str) -> None:
    sql(indexed, f"update {table}_data set block = zeroblob(length(block)) where id > 10")
    run(indexed, force=True)
    assert_sound(indexed)
    assert answers(indexed) > 0
    assert list(indexed.folder.glob("rag.db.damaged-*"))


@pytest.mark.parametrize("table", ["words", "trigrams", "names"])
def test_an_emptied_keyword_index_is_made_again_by_the_next_run(indexed: Config, table: str) -> None:
    before = snapshot(indexed)
    sql(indexed, f"insert into {table} ({table}) values ('delete-all')")
    if table == "words":
        with pytest.raises(StoreError, match="--force"):
            answers(indexed)
    outcome = run(indexed)
    assert "made again" in outcome.warnings[0]
    assert_sound(indexed)
    assert snapshot(indexed) == before


def test_an_empty_database_file_is_as_none(kb: Config) -> None:
    fill(kb, 3)
    kb.database.touch()
    assert run(kb).counts["added"] == 3


# --- a full disk ---


def test_a_full_disk_ends_the_run_with_a_message_and_loses_nothing(indexed: Config) -> None:
    import resource

    before = snapshot(indexed)
    for n in range(400):
        (docs(indexed) / f"more{n}.md").write_text(f"# {n}\n\n" + f"cherry{n} maple oak\n\n" * 200)
    most = indexed.database.stat().st_size + 300_000
    process = indexing(
        indexed, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    )  # a file may grow no more, as on a full disk
    said = process.communicate()[1]
    assert process.returncode == 1
    assert "Free some disk space" in said
    assert "Traceback" not in said
    assert_sound(indexed)
    after = snapshot(indexed)
    assert before["files"].items() <= after["files"].items()
    assert run(indexed).status == "done"
    assert len(snapshot(indexed)["files"]) == 420


# --- readers ---


def test_readers_see_each_commit_and_never_wait(kb: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(kb, 120)
    run(kb)
    fill(kb, 240, paragraphs=4)
    monkeypatch.setattr(index, "GROUP_CHARS", 20_000)
    seen: list[int] = []
    faults: list[BaseException] = []
    over = threading.Event()

    def look() -> None:
        try:
            with closing(Store.open_reader(kb.database)) as reader:
                while not over.is_set():
                    began = time.monotonic()
                    with reader.read():
                        records = reader.files()
                        seen.append(len(records))
                        path = str(docs(kb) / "n7.md")
                        chunks = reader.chunks_of_file(path)
                        assert [chunk.position for chunk in chunks] == list(range(chunks[0].total))
                    assert search(reader, "walnut number7").hits
                    assert time.monotonic() - began < store.BUSY_SECONDS / 2
        except BaseException as error:  # noqa: BLE001 - told to the test
            faults.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for thread in readers:
        thread.start()
    outcome = run(kb)
    over.set()
    for thread in readers:
        thread.join()
    assert faults == []
    assert outcome.counts["added"] == 120
    assert len(set(seen)) > 2  # not all at once
    assert seen[0] <= 240


def test_the_log_stays_small_when_a_reader_keeps_an_old_state_open(
    indexed: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOG_BYTES", 200_000)
    monkeypatch.setattr(index, "READER_SECONDS", 0.5)
    monkeypatch.setattr(index, "GROUP_CHARS", 20_000)
    fill(indexed, 300, paragraphs=6)
    log = indexed.database.with_name("rag.db-wal")
    with closing(sqlite3.connect(indexed.database)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from files").fetchall()
        with pytest.raises(StoreError, match="another program keeps reading"):
            run(indexed)
        assert log.stat().st_size < 2_000_000
        assert reader.execute("select count(*) from files").fetchone() == (20,)
    assert run(indexed).status == "done"
    assert len(snapshot(indexed)["files"]) == 300
    assert_sound(indexed)


def test_a_reader_that_goes_away_lets_the_run_go_on(indexed: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOG_BYTES", 200_000)
    monkeypatch.setattr(index, "GROUP_CHARS", 20_000)
    fill(indexed, 300, paragraphs=6)
    reader = sqlite3.connect(indexed.database, check_same_thread=False)
    reader.execute("begin")
    reader.execute("select count(*) from files").fetchall()
    stages: list[str] = []

    def report(progress: index.Progress) -> None:
        stages.append(progress.stage)
        if progress.stage.startswith("waiting"):
            reader.close()

    assert run(indexed, report=report).counts["added"] == 280
    assert any(stage.startswith("waiting") for stage in stages)


def test_an_index_killed_in_mid_run_is_readable_at_once(kb: Config, slow: Path) -> None:
    process = indexing(kb, script=slow)
    until(lambda: is_reading(process, kb))
    process.kill()
    process.communicate()
    assert answers(kb) > 0


def test_a_base_folder_that_can_not_be_written_to_is_named(kb: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(StoreError, match="can't be written to: Permission denied"):
        run(kb)


def test_a_source_is_never_written_to(kb: Config) -> None:
    fill(kb, 5)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in docs(kb).iterdir()}
    folder = docs(kb).stat().st_mtime_ns
    run(kb)
    run(kb, force=True)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in docs(kb).iterdir()} == before
    assert docs(kb).stat().st_mtime_ns == folder


def test_removing_the_configuration_does_not_bring_the_index_down(indexed: Config) -> None:
    shutil.copy(indexed.folder / "config.json", indexed.folder.parent / "kept.json")
    (indexed.folder / "config.json").unlink()
    with pytest.raises(SeogaError, match=r"there is no .*config\.json"):
        load_config(indexed.folder)
    assert answers(indexed) > 0
