"""Tests of the indexing run: what is read, reused, passed over, kept and purged, and what a bad file may cost."""

import os
import shutil
import socket
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seoga import index, reading
from seoga.chunks import words
from seoga.config import Config, SeogaError, load_config, new_config, save_config
from seoga.index import Outcome, Stop, compare, run, scan
from seoga.parsers import SUFFIXES
from seoga.search import search
from seoga.store import DEGRADED, FAILED, READY, Store, chunk_words

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
DEADLINE_SECONDS = 20.0


@dataclass
class Shelf:
    """A knowledge base over the folder `docs`."""

    docs: Path
    config: Config

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def index(self, **options: Any) -> Outcome:
        return run(self.config, **options)

    def counts(self, **options: Any) -> dict[str, int]:
        return {name: count for name, count in self.index(**options).counts.items() if count}

    def set(self, **changes: Any) -> None:
        self.config = save_config(self.config, **changes)

    def store(self) -> "closing[Store]":
        return closing(Store.open_reader(self.config.database))

    def find(self, query: str) -> list[str]:
        """Return the names of the files in which all of the query's terms stand, sorted."""
        with self.store() as store:
            hits = search(store, query, top_k=50).hits
        terms = set(words(query))
        return sorted({os.path.basename(hit.chunk.path) for hit in hits if terms <= set(hit.terms)})

    def files(self) -> dict[str, str]:
        """Return name -> state of every indexed file."""
        with self.store() as store:
            return {os.path.relpath(path, self.docs): record.state for path, record in store.files().items()}

    def reason(self, name: str) -> str:
        with self.store() as store:
            return store.files()[str(self.docs / name)].reason

    def skipped(self) -> dict[str, str]:
        with self.store() as store:
            return {os.path.basename(path): reason for path, reason in store.skipped(1000)}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    docs = tmp_path / "docs"
    docs.mkdir()
    return Shelf(docs, new_config(tmp_path / "base", [str(docs)], kb_id="kb"))


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fail when it takes too long."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


# --- what changes, and what it costs ---


def test_added_files_are_found_and_an_unchanged_rescan_reads_none(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("회의록.md", "# 예산\n\n여비는 오십만 원까지다.")
    shelf.put("sub/a.txt", "walnut shelves")
    assert shelf.counts() == {"added": 2}
    assert shelf.find("walnut") == ["a.txt"]
    assert shelf.find("여비") == ["회의록.md"]
    monkeypatch.setattr(index, "Readers", None)  # any reading would raise
    assert shelf.counts() == {"unchanged": 2}


def test_a_modified_file_is_found_by_its_new_words_only(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut shelves")
    shelf.put("b.txt", "oak desk")
    shelf.index()
    shelf.put("a.txt", "maple shelves, wide")
    assert shelf.counts() == {"updated": 1, "unchanged": 1}
    assert shelf.find("walnut") == []
    assert shelf.find("maple") == ["a.txt"]


def test_a_deleted_file_is_purged(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut shelves")
    shelf.put("b.txt", "oak desk")
    shelf.index()
    (shelf.docs / "a.txt").unlink()
    assert shelf.counts() == {"removed": 1, "unchanged": 1}
    assert shelf.find("walnut") == []
    assert shelf.files() == {"b.txt": READY}


def test_renaming_moving_copying_and_touching_read_but_parse_nothing(shelf: Shelf) -> None:
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        shelf.put(name, f"walnut {name}")
    shelf.index()
    with shelf.store() as store:
        before = {chunk.rowid for name in "acd" for chunk in store.chunks_of_file(str(shelf.docs / f"{name}.txt"))}
    (shelf.docs / "sub").mkdir()
    (shelf.docs / "a.txt").rename(shelf.docs / "renamed.txt")
    (shelf.docs / "b.txt").rename(shelf.docs / "sub" / "b.txt")
    shutil.copy(shelf.docs / "c.txt", shelf.docs / "copy.txt")
    os.utime(shelf.docs / "d.txt", (1, 1))
    assert shelf.counts() == {"reused": 4, "unchanged": 1, "removed": 2}
    assert shelf.find("walnut") == ["b.txt", "c.txt", "d.txt", "renamed.txt"]  # a content is cited by one of its files
    with shelf.store() as store:
        after = {
            chunk.rowid
            for name in ("renamed", "c", "d")
            for chunk in store.chunks_of_file(str(shelf.docs / f"{name}.txt"))
        }
        copied = {chunk.rowid for chunk in store.chunks_of_file(str(shelf.docs / "copy.txt"))}
    assert after == before
    assert copied <= before
    assert shelf.counts() == {"unchanged": 5}


def test_switching_back_finds_the_first_words_again(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut shelves")
    shelf.put("b.txt", "walnut shelves")
    shelf.index()
    shelf.put("a.txt", "maple")
    shelf.index()
    shelf.put("a.txt", "walnut shelves")
    assert shelf.counts() == {"reused": 1, "unchanged": 1}
    assert shelf.find("maple") == []


def test_files_that_swap_their_contents_are_right_after_one_run(shelf: Shelf) -> None:
    names = ["a.txt", "b.txt", "c.txt"]
    for name in names:
        shelf.put(name, f"walnut {name[0] * 3}")
    shelf.index()
    for old, new in (("a", "x"), ("b", "a"), ("c", "b"), ("x", "c")):
        (shelf.docs / f"{old}.txt").rename(shelf.docs / f"{new}.txt")
    outcome = shelf.index()
    assert outcome.counts["reused"] + outcome.counts["updated"] == 3
    assert [shelf.find(word) for word in ("bbb", "ccc", "aaa")] == [["a.txt"], ["b.txt"], ["c.txt"]]
    assert shelf.counts() == {"unchanged": 3}


def test_other_content_with_the_same_size_and_time_is_noticed(shelf: Shelf) -> None:
    path = shelf.put("a.txt", "walnut")
    shelf.index()
    status = path.stat()
    path.write_text("cherry")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert shelf.counts() == {"updated": 1}
    assert shelf.find("cherry") == ["a.txt"]


def test_files_of_the_same_content_share_one_document(shelf: Shelf) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        shelf.put(name, "walnut shelves")
    assert shelf.counts() == {"added": 1, "reused": 2}
    with shelf.store() as store:
        assert store.totals()[0] == 1
    (shelf.docs / "a.txt").unlink()
    shelf.index()
    assert shelf.find("walnut") == ["b.txt"]


def test_other_chunk_sizes_make_every_file_be_read_again(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut shelves. " * 100)
    shelf.index()
    shelf.set(chunk={"targetChars": 200, "overlapChars": 0})
    assert shelf.counts() == {"updated": 1}
    with shelf.store() as store:
        assert store.totals()[0] > 5


def test_force_reads_everything_again(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut")
    shelf.index()
    assert shelf.counts(force=True) == {"updated": 1}
    assert shelf.find("walnut") == ["a.txt"]


def test_changes_are_told_without_indexing(shelf: Shelf) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        shelf.put(name, f"walnut {name}")
    shelf.index()
    shelf.put("a.txt", "maple, more of it")
    (shelf.docs / "b.txt").unlink()
    os.chmod(shelf.docs / "c.txt", 0o600)  # moves only its ctime
    shelf.put("d.txt", "new")
    with shelf.store() as store:
        paths = compare(shelf.config, store.files()).paths
    changed = {kind: [os.path.basename(path) for path in found] for kind, found in paths.items() if found}
    assert changed == {"added": ["d.txt"], "modified": ["a.txt"], "deleted": ["b.txt"]}


# --- files that can't be read ---


def test_a_file_that_fails_keeps_its_old_version_and_waits_for_a_change(shelf: Shelf) -> None:
    path = shelf.put("a.json", '{"wood": "walnut"}')
    shelf.put("b.txt", "oak")
    shelf.index()
    path.write_bytes(b"\x00\x01\x02\x03" * 100)
    outcome = shelf.index()
    assert (outcome.counts["failed"], outcome.counts["unchanged"]) == (1, 1)
    assert "binary data" in outcome.failures[0][1]
    assert shelf.files()["a.json"] == FAILED
    assert shelf.find("walnut") == ["a.json"]
    assert shelf.counts() == {"unchanged": 2}
    assert shelf.counts(force=True) == {"failed": 1, "updated": 1}
    path.write_bytes(b'{"wood": "maple"}')
    assert shelf.counts() == {"updated": 1, "unchanged": 1}
    assert (shelf.find("walnut"), shelf.find("maple")) == ([], ["a.json"])


def test_a_damaged_document_says_so_and_the_rest_is_indexed(shelf: Shelf) -> None:
    shelf.put("a.pdf", b"%PDF-1.7 and no more")
    shelf.put("b.txt", "oak")
    assert shelf.counts() == {"failed": 1, "added": 1}
    assert "Open it, and save it anew" in shelf.reason("a.pdf")
    assert shelf.find("oak") == ["b.txt"]


@pytest.mark.parametrize("data", [b"", b" \n\n\t", "\ufeff".encode()])
def test_a_file_without_text_is_degraded_not_ready(shelf: Shelf, data: bytes) -> None:
    shelf.put("a.txt", data)
    assert shelf.counts() == {"added": 1}
    assert shelf.files() == {"a.txt": DEGRADED}
    assert shelf.reason("a.txt") == "no text was found in it"


def test_a_file_that_can_not_be_opened_is_tried_again_by_the_next_run(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have it locked; nothing about the file changes when that ends."""
    shelf.put("a.txt", "walnut")
    shelf.index()
    shelf.put("a.txt", "maple, more")
    real = index._Run._request
    wrong = lambda self, path: {**real(self, path), "path": os.path.join(path, "below")}  # noqa: E731 - ENOTDIR
    with monkeypatch.context() as patch:
        patch.setattr(index._Run, "_request", wrong)
        patch.setattr(index._Run, "_apply", _named(index._Run._apply))
        assert shelf.counts() == {"failed": 1}
    assert shelf.find("walnut") == ["a.txt"]
    assert shelf.reason("a.txt").startswith("can't be read: ")
    assert shelf.counts() == {"updated": 1}
    assert shelf.find("maple") == ["a.txt"]


def _named(apply: Callable[..., None]) -> Callable[..., None]:
    return lambda self, path, answer: apply(self, path.removesuffix(os.sep + "below"), answer)


def overwrite(path: Path, text: str) -> None:
    path.write_text(text)


def mutate_when_asked(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], None]) -> None:
    """Change a file between its listing and its reading."""
    real = index._Run._request

    def request(self: index._Run, path: str) -> dict[str, Any]:
        asked = real(self, path)
        change(path)
        return asked

    monkeypatch.setattr(index._Run, "_request", request)


def test_a_file_that_vanishes_before_it_is_read_is_no_failure(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.put("a.txt", "walnut")
    shelf.put("b.txt", "oak")
    with monkeypatch.context() as patch:
        mutate_when_asked(patch, lambda path: os.unlink(path) if path.endswith("a.txt") else None)
        assert shelf.counts() == {"added": 1}
    assert shelf.counts() == {"unchanged": 1}


def test_a_file_that_changes_before_it_is_read_is_read_again_by_the_next_run(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shelf.put("a.txt", "walnut")
    with monkeypatch.context() as patch:
        mutate_when_asked(patch, lambda _: overwrite(path, "maple, and more of it"))
        assert shelf.counts() == {"added": 1}
    assert shelf.find("maple") == ["a.txt"]
    assert shelf.counts() == {"reused": 1}
    assert shelf.counts() == {"unchanged": 1}


@POSIX
def test_a_file_that_becomes_a_pipe_or_a_link_is_not_followed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("walnut")
    shelf.put("a.txt", "x")
    shelf.put("b.txt", "y")

    def change(path: str) -> None:
        os.unlink(path)
        if path.endswith("a.txt"):
            os.mkfifo(path)
        else:
            os.symlink(tmp_path / "secret.txt", path)

    with monkeypatch.context() as patch:
        mutate_when_asked(patch, change)
        assert shelf.counts() == {"failed": 2}
    assert shelf.find("walnut") == []
    assert shelf.counts() == {"skipped": 2, "removed": 2}


def test_bytes_that_change_while_they_are_read_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("walnut")
    real = os.fstat

    def growing(handle: int) -> os.stat_result:
        status = real(handle)
        with path.open("a") as file:
            file.write("more")
        return status

    monkeypatch.setattr(os, "fstat", growing)
    request = reading.make_request(new_config(tmp_path, [str(tmp_path)], kb_id="kb"), str(path), 6, [], None)
    assert reading.read_document(request) == {"status": "changed"}


# --- what is passed over ---


def test_what_is_no_document_is_passed_over_with_its_reason(shelf: Shelf, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("walnut")
    shelf.put("a.txt", "oak")
    shelf.put(".hidden.txt", "walnut")
    shelf.put(".git/b.txt", "walnut")
    shelf.put("node_modules/c.txt", "walnut")
    shelf.put("~$report.docx", "walnut")
    shelf.put("program.exe", "walnut")
    shelf.put("README", "walnut")
    shelf.put("x.pdf/inside.txt", "oak in a folder, whatever its name")
    os.symlink(outside / "secret.txt", shelf.docs / "leaving.txt")
    os.symlink(shelf.docs / "a.txt", shelf.docs / "within.txt")
    os.symlink(outside, shelf.docs / "folder")
    os.symlink(shelf.docs, shelf.docs / "loop")
    os.symlink(tmp_path / "nothing", shelf.docs / "dangling.txt")
    assert shelf.counts() == {"added": 2, "skipped": 11}
    assert (shelf.find("walnut"), shelf.find("oak")) == ([], ["a.txt", "inside.txt"])
    skipped = shelf.skipped()
    assert skipped[".git"] == "hidden folder"
    assert skipped[".hidden.txt"] == "hidden file"
    assert skipped["node_modules"] == "build or system folder"
    assert skipped["~$report.docx"] == "lock file of an office program"
    assert skipped["program.exe"] == "no reader for .exe"
    assert skipped["README"] == "no reader for files without a suffix"
    assert all(
        skipped[name].startswith("link") for name in ("leaving.txt", "within.txt", "folder", "loop", "dangling.txt")
    )


@POSIX
def test_pipes_and_sockets_are_never_opened(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(shelf.docs / "pipe.txt")
    monkeypatch.chdir(shelf.docs)  # the name of a socket may not be long
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind("socket.txt")
        assert shelf.counts() == {"skipped": 2}
    assert set(shelf.skipped().values()) == {"not a regular file (pipe, socket or device)"}


def test_a_file_beyond_the_size_limit_is_passed_over(shelf: Shelf) -> None:
    shelf.set(maxFileSizeMb=1)
    shelf.put("small.txt", "x" * 1024 * 1024)
    shelf.put("large.txt", "x" * (1024 * 1024 + 1))
    assert shelf.counts() == {"added": 1, "skipped": 1}
    assert shelf.skipped() == {"large.txt": "larger than maxFileSizeMb (1 MB)"}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["*.md"], [], {"a.md", "sub/b.md", "sub/deep/d.md", "초안/e.md"}),
        (["sub/*.md"], [], {"sub/b.md"}),
        (["sub/**/*.md"], [], {"sub/b.md", "sub/deep/d.md"}),
        (["/*.md"], [], {"a.md"}),
        ([], ["sub"], {"a.md", "c.txt", "초안/e.md"}),
        ([], ["sub/deep/**"], {"a.md", "c.txt", "sub/b.md", "초안/e.md"}),
        ([], [unicodedata.normalize("NFD", "초안") + "/"], {"a.md", "c.txt", "sub/b.md", "sub/deep/d.md"}),
        (["*.md"], ["b.*"], {"a.md", "sub/deep/d.md", "초안/e.md"}),
        (["[ab].md"], ["**/deep/**"], {"a.md", "sub/b.md"}),
        (["nothing"], [], set()),
    ],
)
def test_globs_choose_files(shelf: Shelf, include: list[str], exclude: list[str], expected: set[str]) -> None:
    for name in ("a.md", "c.txt", "sub/b.md", "sub/deep/d.md", "초안/e.md"):
        shelf.put(name, name)
    shelf.set(includeGlobs=include, excludeGlobs=exclude)
    found = scan(shelf.config)
    assert {os.path.relpath(path, shelf.docs).replace(os.sep, "/") for path in found.files} == expected
    assert set(found.skipped.values()) <= {"not in includeGlobs", "excluded by excludeGlobs"}


def test_a_file_that_becomes_excluded_is_forgotten(shelf: Shelf) -> None:
    for name in ("a.md", "b.txt"):
        shelf.put(name, f"walnut {name}")
    shelf.index()
    shelf.set(excludeGlobs=["*.txt"])
    assert shelf.counts() == {"unchanged": 1, "skipped": 1, "removed": 1}


ODD_NAMES = [
    "new\nline.txt", "tab\there.txt", "escape\x1b[31m.txt", "right\u202eto-left.txt", "quote\"'`.txt", "100%.txt",
    "-rf.txt",
    "[a-z]*.txt", "가" * 83 + ".txt", "n" * 251 + ".txt", "\U0001f600.txt", " .txt", "a b  c.txt", "CON.txt",
    unicodedata.normalize("NFD", "회의록.txt"),
]  # fmt: skip


@POSIX
def test_any_name_is_indexed_once_and_rescanned_for_nothing(shelf: Shelf) -> None:
    for number, name in enumerate(ODD_NAMES):
        shelf.put(name, f"walnut number{number}")
    assert shelf.counts() == {"added": len(ODD_NAMES)}
    assert set(shelf.files()) == set(ODD_NAMES)
    assert shelf.counts() == {"unchanged": len(ODD_NAMES)}
    for number in range(len(ODD_NAMES)):
        assert len(shelf.find(f"number{number}")) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_not_utf8_are_told_apart_and_shown_without_surrogates(shelf: Shelf) -> None:
    names = [b"\xff.txt", b"\xfe.txt", b"\xc7\xd1\xb1\xdb.txt"]
    for number, name in enumerate(names):
        with open(os.path.join(os.fsencode(shelf.docs), name), "w") as file:
            file.write(f"walnut number{number}")
    assert shelf.counts() == {"added": 3}
    assert shelf.find("number0") == shelf.find("number1") == ["\ufffd.txt"]
    assert shelf.counts() == {"unchanged": 3}
    os.unlink(os.path.join(os.fsencode(shelf.docs), names[0]))
    assert shelf.counts() == {"unchanged": 2, "removed": 1}
    assert (shelf.find("number0"), shelf.find("number1")) == ([], ["\ufffd.txt"])


def test_a_name_in_nfd_is_found_by_an_nfc_query(shelf: Shelf) -> None:
    shelf.put(unicodedata.normalize("NFD", "이사회.txt"), "oak")
    shelf.index()
    with shelf.store() as store:
        assert [hit.legs for hit in search(store, "이사회").hits] == [["name"]]


# --- sources ---


def test_the_base_folder_in_a_source_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("walnut")
    shelf = Shelf(tmp_path, new_config(tmp_path / "base", [str(tmp_path)], kb_id="kb"))
    assert shelf.counts() == {"added": 1, "skipped": 1}
    assert shelf.skipped() == {"base": "seoga's own folder"}
    assert shelf.counts() == {"unchanged": 1, "skipped": 1}


def test_the_base_folder_as_a_source_is_read_without_the_knowledge_bases(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "a.txt").write_text("walnut")
    shelf = Shelf(tmp_path, new_config(tmp_path, [str(tmp_path)], kb_id="kb"))
    assert shelf.counts() == {"added": 1, "skipped": 1}
    assert shelf.skipped() == {"kb": "seoga's own folder"}


def test_a_knowledge_base_as_a_source_is_not_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, new_config(tmp_path, [str(tmp_path / "kb")], kb_id="kb"))
    assert shelf.counts() == {"skipped": 1}


def test_sources_that_overlap_give_each_file_once(shelf: Shelf) -> None:
    shelf.put("sub/a.txt", "walnut")
    shelf.put("b.txt", "oak")
    docs = str(shelf.docs)
    for paths in ([docs, f"{docs}/sub"], [f"{docs}/sub", docs], [docs, docs + "/"]):
        shelf.set(sourcePaths=paths)
        assert len(scan(shelf.config).files) == 2


def test_a_file_reached_by_two_sources_is_cited_by_one(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("a.txt", "walnut")
    os.symlink(shelf.docs, tmp_path / "link")
    shelf.set(sourcePaths=[str(shelf.docs), str(tmp_path / "link")])
    assert shelf.counts() == {"added": 1, "reused": 1}
    with shelf.store() as store:
        assert len(search(store, "walnut").hits) == 1


# --- careful deletion ---


@pytest.fixture
def library(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Twenty indexed files, half of them in a subfolder. No children read them: nothing is tried here."""
    for number in range(20):
        shelf.put(f"{'sub/' if number % 2 else ''}n{number}.txt", f"walnut number{number}")
    monkeypatch.setattr(
        reading.Readers, "read_all", lambda self, requests: (read_here(request) for request in requests)
    )
    shelf.index()
    return shelf


def read_here(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    answer = reading.read_document(request)
    chunks = answer.pop("chunks", [])
    return request["path"], {
        **answer,
        "chunks": list(map(reading._fields, chunks)),
        "terms": list(map(chunk_words, chunks)),
    }


def vanish(shelf: Shelf) -> None:
    shelf.docs.rename(shelf.docs.with_name("away"))


def empty(shelf: Shelf) -> None:
    vanish(shelf)
    shelf.docs.mkdir()


def become_file(shelf: Shelf) -> None:
    vanish(shelf)
    shelf.docs.write_text("no folder")


def become_dangling_link(shelf: Shelf) -> None:
    vanish(shelf)
    shelf.docs.symlink_to(shelf.docs.with_name("nowhere"))


def become_link_to_empty(shelf: Shelf) -> None:
    vanish(shelf)
    shelf.docs.with_name("bare").mkdir()
    shelf.docs.symlink_to(shelf.docs.with_name("bare"))


def become_link_to_itself(shelf: Shelf) -> None:
    vanish(shelf)
    shelf.docs.symlink_to(shelf.docs)


def become_link_to_others(shelf: Shelf) -> None:
    vanish(shelf)
    other = shelf.docs.with_name("other")
    other.mkdir()
    (other / "new.txt").write_text("something else")
    shelf.docs.symlink_to(other)


def lose_most(shelf: Shelf) -> None:
    for number in range(19):
        (shelf.docs / f"{'sub/' if number % 2 else ''}n{number}.txt").unlink()


def lose_more_than_half(shelf: Shelf) -> None:
    shutil.rmtree(shelf.docs / "sub")
    (shelf.docs / "n0.txt").unlink()


def leave_only_empty_folders(shelf: Shelf) -> None:
    for path in [*shelf.docs.glob("*.txt"), *shelf.docs.glob("sub/*.txt")]:
        path.unlink()


def be_replaced_by_others(shelf: Shelf) -> None:
    leave_only_empty_folders(shelf)
    for number in range(20):
        shelf.put(f"other{number}.txt", f"cherry {number}")


@pytest.mark.parametrize(
    "fault",
    [
        vanish, empty, become_file, become_dangling_link, become_link_to_empty, become_link_to_itself,
        become_link_to_others,
        lose_most, lose_more_than_half, leave_only_empty_folders, be_replaced_by_others,
    ],
)  # fmt: skip
def test_a_source_that_is_lost_purges_nothing_and_says_so(library: Shelf, fault: Callable[[Shelf], None]) -> None:
    fault(library)
    for _ in range(2):
        outcome = library.index()
        assert outcome.counts["removed"] == 0
        assert outcome.warnings
        assert "walnut" in outcome_text(library)
    with library.store() as store:
        assert sum(path.startswith(str(library.docs)) for path in store.files()) >= 20


def outcome_text(shelf: Shelf) -> str:
    with shelf.store() as store:
        return " ".join(hit.chunk.text for hit in search(store, "walnut").hits)


@pytest.mark.parametrize("call", ["scandir", "stat"])
def test_a_folder_that_can_not_be_listed_purges_nothing(
    library: Shelf, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)

    def failing(path: str, **options: Any) -> Any:
        if os.fspath(path).endswith(os.sep + "sub"):
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    shutil.rmtree(library.docs / "sub")
    (library.docs / "sub").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        for force in (False, True):  # force is for what was listed and is gone
            outcome = library.index(force=force)
            assert (outcome.counts["removed"], outcome.counts["kept"]) == (0, 10)
            assert any("can't be listed: Permission denied" in warning for warning in outcome.warnings)


def test_a_folder_whose_listing_breaks_off_purges_nothing(library: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def failing(path: str) -> Iterator[Any]:
        entries = list(real(path))
        yield from entries[:1]
        if os.fspath(path).endswith(os.sep + "sub"):
            raise OSError(5, "Input/output error")
        yield from entries[1:]

    monkeypatch.setattr(os, "scandir", failing)
    assert library.index().counts["removed"] == 0


def test_a_file_that_can_not_be_looked_at_is_kept(library: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    real = index._why_file

    def failing(entry: "os.DirEntry[str]") -> str:
        if entry.name == "n0.txt":
            raise OSError(5, "Input/output error")
        return real(entry)

    monkeypatch.setattr(index, "_why_file", failing)
    outcome = library.index()
    assert (outcome.counts["removed"], outcome.counts["kept"]) == (0, 1)


def remount(library: Shelf, monkeypatch: pytest.MonkeyPatch, device: Callable[[str], int]) -> None:
    """Let folders lie on other file systems than they do."""
    real = index.scan

    def moved(*arguments: Any) -> index.Scan:
        found = real(*arguments)
        found.devices = {folder: device(folder) for folder in found.devices}
        return found

    monkeypatch.setattr(index, "scan", moved)


def test_an_unmounted_drive_within_a_source_purges_nothing(library: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    with library.store() as store:
        inside = next(iter(store.files().values())).device
    with closing(Store.open_writer(library.config.database)) as store, store.write():
        for path, record in store.files().items():
            if f"{os.sep}sub{os.sep}" in path:
                store.put_file(record._replace(device=inside + 1))  # a drive was mounted at sub
    shutil.rmtree(library.docs / "sub")
    for mountpoint in (False, True):
        if mountpoint:
            (library.docs / "sub").mkdir()
        outcome = library.index()
        assert (outcome.counts["removed"], outcome.counts["kept"]) == (0, 10)
        assert any("another drive" in warning for warning in outcome.warnings)
    assert library.counts(force=True) == {"updated": 10, "removed": 10}


def test_a_drive_that_only_got_another_number_is_not_away(library: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device numbers change when a drive is plugged in again or the machine starts anew."""
    remount(library, monkeypatch, lambda folder: 4711)
    (library.docs / "n0.txt").unlink()
    assert library.counts() == {"unchanged": 19, "removed": 1}


def test_a_file_that_went_to_the_cloud_is_kept(library: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    real = index._why_status
    inode = (library.docs / "n0.txt").stat().st_ino
    monkeypatch.setattr(
        index,
        "_why_status",
        lambda status, limit: index.IN_THE_CLOUD if status.st_ino == inode else real(status, limit),
    )
    assert library.counts() == {"unchanged": 19, "skipped": 1, "kept": 1}
    assert library.find("number0") == ["n0.txt"]


@pytest.mark.parametrize("number", [1, 4, 10])
def test_some_deleted_files_are_purged_without_a_question(library: Shelf, number: int) -> None:
    for gone in range(number):
        (library.docs / f"{'sub/' if gone % 2 else ''}n{gone}.txt").unlink()
    assert library.counts() == {"unchanged": 20 - number, "removed": number}


def test_moving_everything_is_no_loss(library: Shelf) -> None:
    (library.docs / "archive").mkdir()
    for path in list(library.docs.glob("*.txt")):
        path.rename(library.docs / "archive" / path.name)
    (library.docs / "sub").rename(library.docs / "archive" / "sub")
    assert library.counts() == {"reused": 20, "removed": 20}


def test_force_purges_what_is_gone(library: Shelf) -> None:
    lose_most(library)
    assert library.counts(force=True) == {"updated": 1, "removed": 19}
    assert library.find("walnut") == [] or list(library.files()) == ["sub/n19.txt"]


def test_force_does_not_purge_a_source_that_is_not_there(library: Shelf) -> None:
    vanish(library)
    assert library.counts(force=True) == {"kept": 20}


def test_a_source_removed_from_the_configuration_is_purged(library: Shelf, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    library.set(sourcePaths=[str(tmp_path / "second")])
    assert library.counts() == {"removed": 20}


def test_a_lost_source_comes_back_for_nothing(library: Shelf) -> None:
    vanish(library)
    library.index()
    library.docs.with_name("away").rename(library.docs)
    assert library.counts() == {"unchanged": 20}


def test_another_source_is_indexed_while_one_is_away(library: Shelf, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "new.txt").write_text("cherry")
    vanish(library)
    library.set(sourcePaths=[str(library.docs), str(second)])
    assert library.counts() == {"added": 1, "kept": 20}


# --- what a document may cost: a reader for `.trial` files does as they say ---

TRIALS = """
import os, re, subprocess, sys, time
from seoga import index, parsers, reading

read = 0

def trial(data, document):
    global read
    read += 1
    what, *rest = data.decode().split()
    if what == "sleep":
        time.sleep(float(rest[0]))
    elif what == "spin":
        while True:
            pass
    elif what == "regex":
        re.match("(a+)+$", "a" * 50 + "b")
    elif what == "allocate":
        held = [bytearray(1 << 24) for _ in range(100)]
    elif what == "recurse":
        (lambda f: f(f))(lambda f: f(f))
    elif what == "abort" or (what == "moody" and read > 1):
        os.abort()
    elif what == "exit":
        os._exit(0)
    elif what == "quit":
        sys.exit(1)
    elif what == "print":
        print("{}")
        os.write(1, b"{}\\n")
        subprocess.run([sys.executable, "-c", "print('{}')"])
    elif what == "start":
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        open(rest[0], "w").write(str(started.pid))
        if rest[1] == "abort":
            os.abort()
    elif what == "write":
        with open(os.path.join(os.environ["TMPDIR"], "much"), "wb") as file:
            file.truncate(1 << 40)
    elif what == "leave":
        open(os.path.join(os.environ["TMPDIR"], "left"), "w").write("x")
    elif what == "recognize":
        yield from recognize(document.recognition, *rest)
    elif what == "lack":
        document.lacks.add("ocr")
        document.partial.append("a page without OCR")
    elif what == "need":
        raise parsers.NeedsAction("no OCR here", lacks="ocr")
    yield parsers.Block("text", "trial survived: " + data.decode())

def recognize(recognition, pages, seconds, log, die_at=""):
    for page in map(str, range(int(pages))):
        text = recognition.kept(page)
        if text is None:
            if page == die_at and not os.path.exists(log + ".died"):
                open(log + ".died", "w").close()
                os.abort() if os.path.exists(log + ".abort") else time.sleep(1000)
            time.sleep(float(seconds))
            open(log, "a").write(page + " ")
            text = f"page{page} recognized"
            recognition.keep(page, text)
        recognition.step(int(page) + 1, int(pages), "pages")
        yield parsers.Block("text", text, f"p. {page}")

parsers._PARSERS[".trial"] = trial
parsers.SUFFIXES |= {".trial"}
reading.serve_requests()
"""


@pytest.fixture
def trials(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    script = tmp_path / "trials.py"
    script.write_text(TRIALS)
    monkeypatch.setattr(reading.Child, "command", (sys.executable, "-P", str(script)))
    monkeypatch.setattr(index, "SUFFIXES", SUFFIXES | {".trial"})
    monkeypatch.setattr(reading, "LONE_SECONDS", 0.0)
    return shelf


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SOFT_SECONDS", 0.5)
    monkeypatch.setattr(reading, "HARD_SECONDS", 0.5)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("sleep 100", "took too long to read"),
        ("spin", "took too long to read"),
        ("regex", "took too long to read"),
        ("allocate", "memory"),
        ("recurse", "recursion"),
        ("abort", "crashed"),
        ("exit", "crashed"),
        ("quit", "crashed"),
    ],
)
def test_a_bad_document_costs_only_itself(
    trials: Shelf, monkeypatch: pytest.MonkeyPatch, what: str, reason: str
) -> None:
    if "long" in reason:
        hurry(monkeypatch)
    for name in ("a.txt", "c.txt"):
        trials.put(name, f"walnut {name}")
    trials.put("b.trial", what)
    outcome = trials.index()
    assert outcome.counts["added"] == 2
    assert outcome.counts["failed"] == 1
    assert reason in outcome.failures[0][1]
    assert trials.counts() == {"unchanged": 3}


def test_a_document_that_takes_its_time_keeps_what_was_read(trials: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SOFT_SECONDS", 0.5)
    trials.put("a.trial", "sleep 0.7")  # beyond the soft limit, below the hard one
    assert trials.counts() == {"added": 1}
    assert trials.files() == {"a.trial": DEGRADED}
    assert trials.reason("a.trial") == "stopped after 0.5 s"


def test_what_a_library_prints_breaks_no_answer(trials: Shelf) -> None:
    trials.put("a.trial", "print")
    trials.put("b.txt", "walnut")
    assert trials.counts() == {"added": 2}
    assert trials.find("survived") == ["a.trial"]


def test_a_document_can_not_fill_the_disk(trials: Shelf) -> None:
    trials.put("a.trial", "write")
    assert trials.counts() == {"failed": 1}
    assert "too large" in trials.reason("a.trial")


def test_temporary_files_go_with_the_run(trials: Shelf) -> None:
    trials.put("a.trial", "leave")
    assert trials.counts() == {"added": 1}
    assert [path.name for path in trials.config.folder.iterdir() if path.is_dir()] == []


def test_a_long_document_goes_on_while_it_tells_of_its_steps(
    trials: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hurry(monkeypatch)
    trials.put("a.trial", f"recognize 8 0.3 {tmp_path / 'log'}")  # 2.4 s, beyond both limits
    seen: set[str] = set()
    outcome = trials.index(report=lambda progress: seen.add(progress.where))
    assert outcome.counts["added"] == 1
    assert "stopped after 0.5 s" in trials.reason("a.trial")  # that a reader waits is for it to say
    assert "page 1 of 8" in seen


def test_recognized_pages_outlive_a_killed_run(trials: Shelf, tmp_path: Path) -> None:
    log = tmp_path / "log"
    trials.put("a.trial", f"recognize 6 0 {log} 4")
    outcome, _ = cancelled_when(trials, log.with_name("log.died").exists)
    assert outcome.status == "cancelled"
    assert log.read_text() == "0 1 2 3 "
    assert trials.counts() == {"added": 1}
    assert log.read_text() == "0 1 2 3 4 5 "
    assert trials.find("page0 recognized") == ["a.trial"]


def test_pages_recognized_before_a_crash_are_kept_for_the_next_try(trials: Shelf, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.with_name("log.abort").touch()
    trials.put("a.trial", f"recognize 6 0 {log} 4")
    assert trials.counts() == {"failed": 1}
    trials.index(force=True)
    assert log.read_text() == "0 1 2 3 4 5 "
    assert trials.files() == {"a.trial": READY}


@pytest.mark.parametrize("what", ["lack", "need"])
def test_what_lacked_an_engine_is_read_again_once_it_is_there(
    trials: Shelf, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    missing = "no OCR here"
    monkeypatch.setattr(reading, "engine_state", lambda engine, languages, model: missing)
    trials.put("a.trial", what)
    assert trials.counts() == {"added" if what == "lack" else "needs_action": 1}
    assert trials.counts() == {"unchanged": 1}
    missing = ""
    assert "unchanged" not in trials.counts()


def test_a_document_is_not_blamed_for_those_read_before_it(trials: Shelf) -> None:
    for number in range(6):
        trials.put(f"{number}.trial", f"moody {number}")  # crashes any process that read something before
    assert trials.counts() == {"added": 6}


@POSIX
@pytest.mark.parametrize("ending", ["abort", "well"])
def test_what_a_document_starts_ends_with_it(trials: Shelf, tmp_path: Path, ending: str) -> None:
    import psutil

    pid = tmp_path / "pid"
    trials.put("a.trial", f"start {pid} {ending}")
    trials.index()
    until(lambda: not psutil.pid_exists(int(pid.read_text())) or _is_dead(int(pid.read_text())))


def _is_dead(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_process_that_can_not_start_is_no_fault_of_the_documents(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("a.txt", "walnut")
    for command, message in (
        ((sys.executable, "-c", "raise SystemExit(3)"), r"ended as it started \(exit code 3\)"),
        ((str(shelf.docs / "nothing"),), "no process starts"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(reading.Child, "command", command)
            with pytest.raises(SeogaError, match=message):
                shelf.index()
    assert shelf.files() == {}
    assert shelf.counts() == {"added": 1}


def test_an_error_in_a_reading_thread_ends_the_run(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: reading.Child, requests: Any) -> Any:
        raise ZeroDivisionError

    shelf.put("a.txt", "walnut")
    monkeypatch.setattr(reading.Child, "read", broken)
    with pytest.raises(ZeroDivisionError):
        shelf.index()


def test_an_error_while_committing_ends_the_children(trials: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: index._Run, path: str, answer: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(index._Run, "_apply", broken)
    monkeypatch.setattr(index, "GROUP_CHARS", 0)
    trials.put("a.txt", "walnut")
    trials.put("b.trial", "sleep 100")
    before, began = threading.active_count(), time.monotonic()
    with pytest.raises(ZeroDivisionError):
        trials.index()
    assert time.monotonic() - began < DEADLINE_SECONDS
    assert threading.active_count() == before
    assert not _children()


def _children() -> list[Any]:
    import psutil

    return [child for child in psutil.Process().children(recursive=True) if not _is_dead(child.pid)]


def test_a_document_of_many_chunks_comes_whole(shelf: Shelf) -> None:
    number = 2 * reading.PART_CHUNKS + 1
    shelf.put("a.md", "\n\n".join(f"# Part {n}\n\nwalnut{n}" for n in range(number)))
    shelf.index()
    with shelf.store() as store:
        chunks = store.chunks_of_file(str(shelf.docs / "a.md"))
    assert [chunk.headings for chunk in chunks] == [f"Part {n}" for n in range(number)]
    assert shelf.find(f"walnut{number - 1}") == ["a.md"]


# --- stopping ---


def cancelled(shelf: Shelf, ask: Callable[[], None]) -> tuple[Outcome, float]:
    """Ask a run to stop while it reads a document that never ends; return its outcome and how long it took to obey."""
    asked: list[float] = []

    def report(progress: index.Progress) -> None:
        if progress.done and not asked:
            asked.append(time.monotonic())
            ask()

    outcome = run(shelf.config, report=report)
    return outcome, time.monotonic() - asked[0]


def cancelled_when(shelf: Shelf, condition: Callable[[], bool]) -> tuple[Outcome, float]:
    """Ask a run to stop once something is so; return its outcome and how long it took to obey."""
    asked: list[float] = []

    def report(progress: index.Progress) -> None:
        if condition() and not asked:
            asked.append(time.monotonic())
            shelf.config.cancel.touch()

    outcome = run(shelf.config, report=report)
    return outcome, time.monotonic() - asked[0]


def test_the_cancel_file_is_honoured_within_two_seconds_inside_a_long_file(trials: Shelf) -> None:
    for number in range(40):
        trials.put(f"a{number}.txt", f"walnut {number}")
    trials.put("b.trial", "spin")
    outcome, seconds = cancelled(trials, trials.config.cancel.touch)
    assert outcome.status == "cancelled"
    assert seconds < 2
    assert not trials.config.cancel.exists()
    assert outcome.counts["failed"] == 0
    assert outcome.counts["added"] > 0
    assert len(trials.files()) == outcome.counts["added"]
    trials.put("b.trial", "well")
    assert trials.index().status == "done"
    assert set(trials.files().values()) == {READY}
    assert len(trials.files()) == 41


def test_a_cancelled_run_purges_nothing(trials: Shelf) -> None:
    for number in range(4):
        trials.put(f"a{number}.txt", f"walnut {number}")
    trials.index()
    (trials.docs / "a0.txt").unlink()
    assert run(trials.config, on_start=Stop.request).status == "cancelled"
    assert len(trials.files()) == 4


def test_a_cancel_file_from_an_earlier_run_is_ignored(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut")
    shelf.config.cancel.write_bytes(b"\x00" * 100)
    outcome = shelf.index()
    assert (outcome.status, outcome.counts["added"]) == ("done", 1)
    assert not shelf.config.cancel.exists()


def test_a_folder_named_cancel_is_no_request(shelf: Shelf) -> None:
    shelf.config.cancel.mkdir()
    assert shelf.index().status == "done"


def test_a_cancel_during_the_listing_ends_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        shelf.put(f"d{number}/a.txt", "walnut")
    stop = Stop(shelf.config.cancel)
    stop.request()
    assert len(scan(shelf.config, stop.requested).files) == 0


def test_progress_is_told(shelf: Shelf) -> None:
    for number in range(10):
        shelf.put(f"{number}.txt", f"walnut {number}")
    seen: list[str] = []
    shelf.index(report=lambda progress: seen.append(progress.stage))
    assert list(dict.fromkeys(seen)) == ["scanning", "reading", "purging"]


def test_a_run_is_remembered_with_its_counters(shelf: Shelf) -> None:
    shelf.put("a.txt", "walnut")
    shelf.put("b.json", b"\x00\x01" * 50)
    shelf.index()
    with shelf.store() as store:
        last = store.last_run()
    assert last is not None
    assert (last["outcome"], last["added"], last["failed"]) == ("done", 1, 1)
    assert last["failures"][0]["path"].endswith("b.json")


def test_the_configuration_is_read_anew_by_its_folder(shelf: Shelf) -> None:
    assert load_config(shelf.config.folder).sources == [str(shelf.docs)]
