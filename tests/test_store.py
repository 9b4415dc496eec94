"""The store keeps files, documents and chunks together: all of a change is there, or nothing of it."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seoga.chunks import Chunk
from seoga.config import NotFoundError
from seoga.store import (
    FAILED,
    INDEXED,
    READY,
    SCHEMA_VERSION,
    DocumentRecord,
    FileRecord,
    Filters,
    LockedError,
    Stat,
    Store,
    StoreError,
    chunk_words,
    read_indexer,
    writer_lock,
)

TEXTS = ["예산 회의", "travel budget", "부산 출장"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open_writer(tmp_path / "rag.db")
    yield opened
    opened.close()


def chunks(*texts: str) -> list[Chunk]:
    return [Chunk(text, 0, len(text), "p. 1", "제목") for text in texts]


def put(store: Store, path: str, key: str, *texts: str) -> int:
    made = chunks(*texts)
    record = DocumentRecord(key, 10, 2 * len(made), "title", {"author": "x"})
    document = store.document_of_key(key) or store.put_document(record, made, list(map(chunk_words, made)), INDEXED)
    store.put_file(FileRecord(path, Stat(10, 1, 1), READY, "", document, key))
    return document


def found(store: Store, term: str) -> list[str]:
    rows = [row for row, _ in store.keyword_candidates([term], Filters(), 50)]
    return [chunk.text for chunk in store.fetch_chunks(rows)]


def sound(path: Path) -> None:
    """Check the file as SQLite and FTS5 do."""
    with sqlite3.connect(path) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        for table in ("words", "trigrams", "names"):
            db.execute(f"insert into {table} ({table}) values ('integrity-check')")
    db.close()


def test_what_is_put_is_found_by_word_and_substring(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", *TEXTS)
    assert found(store, "예산") == ["예산 회의"]
    rows = [row for row, _ in store.substring_candidates("avel bud", Filters(), 5)]
    assert [chunk.text for chunk in store.fetch_chunks(rows)] == ["travel budget"]
    assert store.totals() == (3, 6)
    assert store.check() == []


def test_a_change_is_whole_or_not_at_all(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", *TEXTS)

    def half_a_change() -> None:
        store.drop_file("/d/a.md")
        put(store, "/d/b.md", "other", "새 글")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.write():
        half_a_change()
    assert found(store, "예산") == ["예산 회의"]
    assert list(store.files()) == ["/d/a.md"]
    assert store.check() == []


def test_a_reader_sees_each_commit_and_nothing_before_it(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", "첫째 글")
    reader = Store.open_reader(store.path)
    with store.write():
        put(store, "/d/b.md", "l", "둘째 글")
        assert found(reader, "둘째") == []
    assert found(reader, "둘째") == ["둘째 글"]
    reader.close()


def test_a_snapshot_does_not_change_while_it_is_read(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", "옛 글")
    reader = Store.open_reader(store.path)
    with reader.read():
        assert found(reader, "옛") == ["옛 글"]
        with store.write():
            put(store, "/d/a.md", "l", "새 글")
        assert found(reader, "옛") == ["옛 글"]
    assert found(reader, "옛") == []
    assert found(reader, "새") == ["새 글"]
    reader.close()


def test_a_reader_cannot_write(store: Store) -> None:
    reader = Store.open_reader(store.path)
    with pytest.raises(StoreError), reader.write():
        reader.put_skipped({"/d/x": "why"})
    reader.close()


def test_two_files_share_a_content_until_the_last_is_gone(store: Store) -> None:
    with store.write():
        first = put(store, "/d/a.md", "k", "같은 글")
        assert put(store, "/d/b.md", "k", "같은 글") == first
        store.drop_file("/d/a.md")
    assert found(store, "같은") == ["같은 글"]
    with store.write():
        store.drop_file("/d/b.md")
    assert found(store, "같은") == []
    assert store.totals() == (0, 0)
    assert store.check() == []


def test_a_file_that_gets_a_new_content_lets_go_of_the_old(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", "옛 글")
        put(store, "/d/a.md", "l", "새 글")
    assert found(store, "옛") == []
    assert found(store, "새") == ["새 글"]
    assert store.document_of_key("k") is None


def test_a_failed_file_keeps_the_content_it_had(store: Store) -> None:
    with store.write():
        document = put(store, "/d/a.md", "k", "옛 글")
        store.put_file(FileRecord("/d/a.md", Stat(11, 2, 2), FAILED, "damaged", document, "bad"))
    assert found(store, "옛") == ["옛 글"]
    assert store.file_counts() == {FAILED: 1}
    assert store.problems(10) == [("/d/a.md", FAILED, "damaged")]


def test_putting_a_content_again_replaces_its_chunks(store: Store) -> None:
    with store.write():
        document = put(store, "/d/a.md", "k", "옛 글", "둘째 글")
        made = chunks("새 글")
        assert store.put_document(DocumentRecord("k", 10, 2), made, list(map(chunk_words, made)), INDEXED) == document
    assert found(store, "옛") == []
    assert found(store, "새") == ["새 글"]
    assert store.totals() == (1, 2)
    assert store.check() == []


def test_random_changes_leave_what_a_plain_record_of_them_holds(store: Store, tmp_path: Path) -> None:
    random_ = random.Random(7)
    model: dict[str, str] = {}
    for _ in range(300):
        path, key = f"/d/{random_.randrange(12)}.md", f"k{random_.randrange(8)}"
        with store.write():
            if random_.random() < 0.3:
                store.drop_file(path)
                model.pop(path, None)
            else:
                put(store, path, key, f"글{key}", f"둘째{key}")
                model[path] = key
    assert {path: record.key for path, record in store.files().items()} == model
    keys = set(model.values())
    assert store.totals()[0] == 2 * len(keys)
    for number in range(8):
        assert found(store, f"k{number}") == ([f"글k{number}", f"둘째k{number}"] if f"k{number}" in keys else [])
    assert store.check() == []
    store.checkpoint()
    sound(store.path)


def test_a_path_outside_utf8_is_kept_exactly_and_shown_harmlessly(store: Store) -> None:
    path = os.fsdecode(b"/d/caf\xe9.md")
    with store.write():
        put(store, path, "k", "글")
    assert list(store.files()) == [path]
    rows = [row for row, _ in store.keyword_candidates(["글"], Filters(), 5)]
    shown = store.fetch_chunks(rows)[0].path
    assert shown == "/d/caf\ufffd.md"
    assert store.find_file(shown) == store.find_file(path) is not None


def test_chunks_are_named_by_their_file_and_position(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", *TEXTS)
    first = store.chunks_of_file("/d/a.md")[0]
    hash, _, index = first.chunk_id.rpartition("_")
    assert (len(hash), index) == (16, "0")
    assert [chunk.position for chunk in store.chunk_by_id(f"{hash}_1", before=1, after=5)] == [0, 1, 2]
    for wrong in ("", "_", "x_1", f"{hash}_-1", f"{hash}_99", f"{hash}_²", "a" * 5000):
        assert all(chunk.chunk_id != wrong for chunk in store.chunk_by_id(wrong))


def test_keywords_are_made_again_from_the_chunks(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", *TEXTS)
    with store.write():
        store._db.execute("insert into words (words) values ('delete-all')")
    assert not store.keywords_are_in_step()
    assert store.check() != []
    with store.write():
        store.rebuild_keywords()
    assert store.check() == []
    assert found(store, "예산") == ["예산 회의"]


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rag.db"
    Store.open_writer(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    db.close()
    before = path.read_bytes()
    for opens in (Store.open_writer, Store.open_reader):
        with pytest.raises(StoreError, match="newer seoga"):
            opens(path)
    assert path.read_bytes() == before


def test_an_index_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="seoga exec"):
        Store.open_reader(tmp_path / "rag.db")
    assert not (tmp_path / "rag.db").exists()


def test_a_file_that_is_no_database_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "rag.db"
    path.write_bytes(b"not a database at all" * 300)
    for opens in (Store.open_writer, Store.open_reader):
        with pytest.raises(StoreError, match="--force"):
            opens(path)


def test_threads_share_a_store(store: Store) -> None:
    with store.write():
        put(store, "/d/a.md", "k", *TEXTS)
    reader = Store.open_reader(store.path)
    wrong: list[list[str]] = []

    def ask() -> None:
        for _ in range(100):
            if (answer := found(reader, "예산")) != ["예산 회의"]:
                wrong.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        with store.write():
            put(store, f"/d/{number}.md", f"n{number}", "다른 글")
    for thread in threads:
        thread.join()
    reader.close()
    assert wrong == []


def test_one_writer_at_a_time_and_the_second_learns_who(tmp_path: Path) -> None:
    with writer_lock(tmp_path):
        assert (read_indexer(tmp_path) or {})["pid"] == os.getpid()
        with pytest.raises(LockedError, match=str(os.getpid())), writer_lock(tmp_path):
            pass
    assert read_indexer(tmp_path) is None
    with writer_lock(tmp_path):
        pass


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from seoga.store import writer_lock\n"
        "with writer_lock(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, str(tmp_path)], check=False)
    assert done.returncode != 0
    assert read_indexer(tmp_path) is None
    with writer_lock(tmp_path):
        pass


def test_a_pid_that_another_program_got_is_no_indexer(tmp_path: Path) -> None:
    with writer_lock(tmp_path):
        told = (tmp_path / "indexer.json").read_text()
    (tmp_path / "indexer.json").write_text(told.replace('"started": ', '"started": 1'))
    assert read_indexer(tmp_path) is None


def test_runs_are_remembered(store: Store) -> None:
    run = store.begin_run()
    assert (store.last_run() or {})["outcome"] == "interrupted"
    store.end_run(run, 1.5, "done", {"added": 3})
    last = store.last_run() or {}
    assert (last["outcome"], last["seconds"], last["added"]) == ("done", 1.5, 3)
