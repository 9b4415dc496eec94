"""Bring a knowledge base up to date with its source folders.

    scan --> what changed --> parse, chunk (child processes) --> commit in small groups --> purge what is gone

A file is skipped by size and times, then by content. Documents are untrusted: children read them under limits of time
and memory, and one that hangs, swells or crashes costs that file only. Killing the run at any moment leaves a
consistent index; the next run goes on from there. This file does not search.
"""

from __future__ import annotations

import json
import os
import signal
import stat as modes
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from queue import Empty, Full, Queue
from typing import IO, Any

from .chunks import CHUNKER_VERSION, Chunk, Sizes, count_words, make_chunks
from .config import Config, SeogaError, display_path, scrub
from .parsers import PARSER_VERSION, SUFFIXES, NeedsAction, parse
from .store import (
    DEFERRED,
    DEGRADED,
    FAILED,
    INDEXED,
    NEEDS_ACTION,
    READY,
    DocumentRecord,
    FileRecord,
    Stat,
    Store,
    StoreError,
    chunk_words,
    write_indexer,
    writer_lock,
)

WORKERS = max(1, min(2, os.cpu_count() or 1))
MEMORY_BYTES = 512 * 1024 * 1024  # 512 MB of data in a child that reads documents
SOFT_SECONDS = 20.0  # then a document is partial; a large one gets 5 s more for each MB
LONE_SECONDS = 2.0  # of a run before a second child is worth its start
HARD_SECONDS = 8.0  # beyond the soft limit the child is killed
MAX_SECONDS = 600.0
BATCH_FILES, BATCH_BYTES = 16, 256 * 1024  # sent to a child at once, at most
GROUP_CHARS = 10_000_000  # text gathered before a commit
GROUP_SECONDS = 2.0  # and the longest that a finished file waits for one
SUDDEN_LOSS = 5  # files: when as many and more than half of a source are gone, purging needs --force

IGNORED_FOLDERS = frozenset(
    ["node_modules", "bower_components", "__pycache__", "$RECYCLE.BIN", "System Volume Information", "lost+found"]
)


# --- scanning ---


@dataclass(slots=True)
class Scan:
    """What lies in the sources. `skipped`: exact path -> reason. `unlisted`: folder that couldn't be read -> reason."""

    files: dict[str, Stat] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)  # folder -> file system it is on
    skipped: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)


def scan(config: Config) -> Scan:
    """List the documents under the sources; links are not followed, so nothing outside is ever read."""
    found = Scan()
    for source in config.sources:
        if os.path.isdir(source):
            _scan_source(source, config, found)
        else:
            found.unlisted[source] = "is not there (unplugged, renamed or deleted?)"
    return found


def _scan_source(root: str, config: Config, found: Scan) -> None:
    own = str(config.folder.parent)
    limit = config.max_file_size_mb * 1024 * 1024
    globbed = bool(config.include_globs or config.exclude_globs)
    folders = [root]
    while folders:
        folder = folders.pop()
        if folder in found.devices:  # sources overlap
            continue
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            found.devices[folder] = os.stat(folder).st_dev
        except OSError as error:
            found.unlisted[folder] = f"can't be listed: {error.strerror}"
            continue
        for entry in entries:
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                reason = _why_folder(entry, own) if is_folder else _why_file(entry)
                if not reason and globbed:
                    reason = _why_globs(os.path.relpath(entry.path, root), is_folder, config)
                if not reason and is_folder:
                    folders.append(entry.path)
                    continue
                status = None if reason else entry.stat(follow_symlinks=False)
            except OSError as error:
                found.unlisted[entry.path] = f"can't be looked at: {error.strerror}"
                continue
            if status is not None:
                reason = _why_status(status, limit)
            if status is not None and not reason:
                found.files[entry.path] = Stat(status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            elif reason:
                found.skipped[entry.path] = reason


def _why_folder(entry: os.DirEntry[str], own: str) -> str:
    """Say why a folder is passed over; empty if it isn't."""
    if entry.name.startswith("."):
        return "hidden folder"
    if entry.name in IGNORED_FOLDERS:
        return "build or system folder"
    is_own = entry.name == os.path.basename(own) and os.path.realpath(entry.path) == os.path.realpath(own)
    return "seoga's own folder" if is_own else ""


def _why_file(entry: os.DirEntry[str]) -> str:
    """Say why a file is passed over, as far as its name and kind tell."""
    name = entry.name
    if entry.is_symlink():
        return "link (what it points to is indexed where it lies, if that is in a source)"
    if not entry.is_file(follow_symlinks=False):
        return "not a regular file (pipe, socket or device)"
    if name.startswith(("~$", ".~lock.")):
        return "lock file of an office program"
    if name.startswith("."):
        return "hidden file"
    suffix = os.path.splitext(name)[1].casefold()
    return "" if suffix in SUFFIXES else f"no reader for {scrub(suffix)[:20] or 'files without a suffix'}"


def _why_status(status: os.stat_result, limit: int) -> str:
    if status.st_size > limit:
        return f"larger than maxFileSizeMb ({status.st_size / 1024 / 1024:.0f} MB)"
    # Reading a placeholder would download the file: Windows RECALL_ON_DATA_ACCESS or OFFLINE, macOS SF_DATALESS.
    windows, mac = getattr(status, "st_file_attributes", 0), getattr(status, "st_flags", 0)
    return "kept in the cloud, not on this machine" if windows & 0x401000 or mac & 0x40000000 else ""


def _why_globs(relative: str, is_folder: bool, config: Config) -> str:
    parts = display_path(relative).replace(os.sep, "/").split("/")
    if any(_glob(pattern, parts) for pattern in config.exclude_globs):
        return "excluded by excludeGlobs"
    if is_folder or not config.include_globs or any(_glob(pattern, parts) for pattern in config.include_globs):
        return ""
    return "not in includeGlobs"


def _glob(pattern: str, parts: Sequence[str]) -> bool:
    """Match a path against a glob: `*.md` at any depth, `drafts/` with all below it, `a/**/b.txt` across folders."""
    wanted = display_path(pattern).strip("/").split("/")
    if len(wanted) == 1 and not pattern.startswith("/"):
        wanted = ["**", *wanted]
    return _match_parts(wanted, parts)


def _match_parts(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_match_parts(wanted[1:], parts[n:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], wanted[0]) and _match_parts(wanted[1:], parts[1:])


# --- reading one document, in a child process ---


def recipe(config: Config) -> str:
    """Name everything but the bytes and suffix that decides a document's chunks."""
    sizes = (config.chunk.target_chars, config.chunk.overlap_chars, config.embedding.max_chunk_chars)
    return ".".join(map(str, (PARSER_VERSION, CHUNKER_VERSION, *sizes)))


def read_document(request: dict[str, Any]) -> dict[str, Any]:
    """Read, parse and chunk one file. `request`: path, known (content keys), recipe, target, overlap, maximum, seconds.

    Returns `status` (ok | same | changed | gone | failed | needs_action) with `key`, and for ok chunks and their terms.
    """
    path = request["path"]
    try:
        data, steady = _read_bytes(path)
    except FileNotFoundError:
        return {"status": "gone"}
    except OSError as error:
        return {"status": "failed", "key": "", "reason": f"can't be read: {error.strerror}"}
    if not steady:
        return {"status": "changed"}
    suffix = os.path.splitext(path)[1].casefold()
    key = f"{sha256(data).hexdigest()}{suffix}:{request['recipe']}"
    if key in request["known"]:
        return {"status": "same", "key": key}
    try:
        document = parse(data, os.path.basename(path), seconds=request["seconds"])
        sizes = Sizes(request["target"], request["overlap"], request["maximum"])
        chunks = make_chunks(document.blocks, sizes)
    except NeedsAction as error:
        return {"status": "needs_action", "key": key, "reason": str(error)}
    except SeogaError as error:
        return {"status": "failed", "key": key, "reason": str(error)}
    return {
        "status": "ok",
        "key": key,
        "size": len(data),
        "title": document.title,
        "metadata": document.metadata,
        "partial": document.partial if chunks else ["no text was found in it", *document.partial],
        "chunks": [(chunk.text, chunk.start, chunk.end, chunk.location, chunk.headings) for chunk in chunks],
        "terms": (terms := [chunk_words(chunk) for chunk in chunks]),
        "term_count": sum(map(count_words, terms)),
    }


def _read_bytes(path: str) -> tuple[bytes, bool]:
    """Return a regular file's bytes, and whether it stayed the same meanwhile. Never waits on a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        before = os.fstat(file.fileno())
        if not modes.S_ISREG(before.st_mode):
            raise OSError(0, "it is no regular file any more")
        data = file.read(before.st_size + 1)
        after = os.fstat(file.fileno())
    return data, len(data) == before.st_size and before.st_mtime_ns == after.st_mtime_ns


def _serve_requests() -> None:
    """Answer requests on standard input until it closes. Runs in the child.

    A line of JSON holds a list of requests; each is answered by a line of its own.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not break the answers
    _limit_memory()
    for line in sys.stdin.buffer:
        for request in json.loads(line):
            answer = _answer(request)
            answers.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            answers.flush()
            if "last" in answer:
                return  # what is left of this process's memory is in pieces: a new one takes over


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if hasattr(signal, "alarm"):  # the last resort, should the parent have died: the kernel ends this process
        signal.alarm(int(request["seconds"] + 2 * HARD_SECONDS))
    try:
        return read_document(request)
    except (MemoryError, RecursionError) as error:
        return {"status": "failed", "key": "", "reason": _exhausted(error), "last": True}


def _exhausted(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"needs more than {MEMORY_BYTES // 1024**2} MB of memory to read"
    return "is nested too deeply to read"


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass  # Windows has no rlimits; the parent's watch on the child's memory remains


class Child:
    """A process that reads documents, started when first needed and again after each death."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.deadline: float | None = None  # monotonic; None while idle
        self.verdict = ""  # why it was killed

    def read(self, requests: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Have documents read, one after the other; yield (path, answer).

        One that the child dies of is `failed` with the reason, and a new child reads the rest.
        """
        waiting = deque(requests)
        while waiting:
            self.verdict = ""
            try:
                process = self._process or self._start()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(list(waiting)).encode() + b"\n")
                process.stdin.flush()
                while waiting and self._process:
                    self.deadline = time.monotonic() + waiting[0]["seconds"] + HARD_SECONDS
                    answer = json.loads(process.stdout.readline())  # fails on half a line: it died
                    self.deadline = None
                    if answer.pop("last", False):
                        self.stop()
                    yield waiting.popleft()["path"], answer
            except (OSError, ValueError):
                self.deadline = None
                verdict = self.verdict or "crashed the program that reads it; the file is probably damaged"
                self.stop()
                yield waiting.popleft()["path"], {"status": "failed", "key": "", "reason": verdict}

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the folder we happen to be in is not searched for modules. A session of its own: ctrl-C is the parent's to
        # handle, and what the child starts can be killed with it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.index"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self._process

    def kill(self, verdict: str) -> None:
        self.verdict = verdict
        if self._process and self._process.poll() is None:
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process:
            _quietly_close(process.stdin)
            _quietly_close(process.stdout)
            try:
                process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def memory(self) -> int:
        """Return the bytes of memory that the child holds."""
        import psutil

        try:
            return int(psutil.Process(self._process.pid).memory_info().rss) if self._process else 0
        except psutil.Error:
            return 0


def _quietly_close(stream: IO[bytes] | None) -> None:
    try:
        if stream:
            stream.close()
    except OSError:
        pass


def _batch(requests: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Take the next requests: one that is large, or several that are small."""
    size = 0
    for request in requests:
        yield request
        size += BATCH_BYTES // BATCH_FILES + request["size"]
        if size >= BATCH_BYTES:
            return


class Readers:
    """Reads many documents in child processes and hands over the answers as they come."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._children = [Child() for _ in range(WORKERS)]
        self._answers: Queue[tuple[str, dict[str, Any]] | None] = Queue(maxsize=64)
        self._asked_all = threading.Event()
        self._over = threading.Event()

    def read_all(self, requests: Iterator[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]] | None]:
        """Yield (path, answer) in the order of completion, and None when there was nothing for a while."""
        turn = threading.Lock()
        threads = [threading.Thread(target=self._work, args=(child, requests, turn)) for child in self._children]
        threads.append(threading.Thread(target=self._watch))
        for thread in threads:
            thread.daemon = True
            thread.start()
        try:
            working = len(self._children)
            while working:
                try:
                    answer = self._answers.get(timeout=0.2)
                except Empty:
                    yield None
                    continue
                if answer is None:
                    working -= 1
                else:
                    yield answer
        finally:
            self._over.set()
            self._asked_all.set()
            for child in self._children:
                child.kill("the run ended")
            for thread in threads:
                thread.join()

    def _work(self, child: Child, requests: Iterator[dict[str, Any]], turn: threading.Lock) -> None:
        if child is not self._children[0]:
            self._asked_all.wait(LONE_SECONDS)
        while not self._over.is_set() and not self._stop.requested():
            with turn:  # a generator can't be advanced by two threads at once
                batch = list(_batch(requests))
            if not batch:
                self._asked_all.set()
                break
            for path, answer in child.read(batch):
                if self._stop.requested() or self._over.is_set():
                    break
                self._hand_over((path, answer))
        child.stop()
        self._hand_over(None)

    def _hand_over(self, answer: tuple[str, dict[str, Any]] | None) -> None:
        while not self._over.is_set():
            with suppress(Full):
                self._answers.put(answer, timeout=0.2)
                return

    def _watch(self) -> None:
        """Kill children that take too long or too much, and all of them when the run is to stop."""
        while not self._over.wait(0.1):
            stopping = self._stop.requested()
            for child in self._children:
                deadline = child.deadline
                if deadline is None:
                    continue
                if stopping:
                    child.kill("the run was stopped")
                elif time.monotonic() > deadline:
                    child.kill("took too long to read")
                elif child.memory() > MEMORY_BYTES + 128 * 1024 * 1024:  # the program itself takes about 100 MB
                    child.kill(_exhausted(MemoryError()))


# --- comparing without reading ---


@dataclass(slots=True)
class Difference:
    """Paths by kind of change: added, modified, deleted, failed, pending."""

    paths: dict[str, list[str]]
    notes: list[str]


def compare(config: Config, records: dict[str, FileRecord]) -> Difference:
    """Compare the sources with what is indexed, by size and times; contents are read only where these leave a doubt."""
    found = scan(config)
    paths: dict[str, list[str]] = {name: [] for name in ("added", "modified", "deleted", "failed", "pending")}
    for path, stat in found.files.items():
        record = records.get(path)
        if record is None:
            paths["added"].append(path)
        elif record.stat != stat and _differs(record, stat):
            paths["modified"].append(path)
        elif record.state in (FAILED, NEEDS_ACTION):
            paths["failed"].append(path)
        elif record.state == DEFERRED or not record.key.endswith(f":{recipe(config)}"):
            paths["pending"].append(path)
    paths["deleted"] = [path for path in records if path not in found.files]
    return Difference(paths, [f"{display_path(folder)} {reason}" for folder, reason in found.unlisted.items()])


def _differs(record: FileRecord, stat: Stat) -> bool:
    """Tell whether a file differs from what was indexed. Only its ctime may have moved: then its content decides."""
    if record.stat[:2] != stat[:2]:
        return True
    try:
        return not record.key.startswith(sha256(_read_bytes(record.path)[0]).hexdigest())
    except OSError:
        return True


# --- the run ---


class Stop:
    """Tells whether the run is to stop: asked by the `cancel` file or by a signal."""

    def __init__(self, cancel: Path) -> None:
        self._cancel = cancel
        self._flag = threading.Event()
        self._looked = 0.0
        cancel.unlink(missing_ok=True)  # left from an earlier run

    def request(self) -> None:
        self._flag.set()

    def requested(self) -> bool:
        if time.monotonic() - self._looked > 0.1:
            self._looked = time.monotonic()
            if self._cancel.exists():
                self._flag.set()
        return self._flag.is_set()


@dataclass(slots=True)
class Progress:
    """How far a run is; `total` and `done` count files."""

    stage: str = "scanning"
    total: int = 0
    done: int = 0
    file: str = ""
    started: float = field(default_factory=time.time)

    def as_dict(self) -> dict[str, Any]:
        seconds = max(time.time() - self.started, 0.001)
        rate = self.done / seconds
        remaining = round((self.total - self.done) / rate, 1) if self.done else None
        return {
            "stage": self.stage, "file": self.file, "done": self.done, "total": self.total,
            "files_per_second": round(rate, 1), "remaining_seconds": remaining,
        }  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """What a run did. `status`: done | cancelled. Counts are files; `warnings` are for the person."""

    status: str = "done"
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            **{name: self.counts[name] for name in COUNTERS},
            "failures": [{"path": path, "reason": reason} for path, reason in self.failures],
            "warnings": self.warnings,
            "seconds": round(self.seconds, 2),
        }


COUNTERS = ("added", "updated", "unchanged", "reused", "removed", "kept", "failed", "needs_action", "skipped")


def run(
    config: Config,
    *,
    force: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    on_start: Callable[[Stop], None] = lambda stop: None,
) -> Outcome:
    """Index one knowledge base. `force` reads everything again and purges without a doubt.

    Raises LockedError if another process is at it, StoreError if the index can't be written.
    """
    began = time.monotonic()
    with writer_lock(config.folder):
        stop = Stop(config.cancel)
        on_start(stop)
        store = _open_store(config, force)
        try:
            work = _Run(config, store, stop, report, force)
            number = store.begin_run()
            outcome = work.go()
            outcome.seconds = time.monotonic() - began
            store.end_run(number, outcome.seconds, outcome.status, outcome.as_dict())
            store.checkpoint()
        finally:
            store.close()
            config.cancel.unlink(missing_ok=True)
    return outcome


def _open_store(config: Config, force: bool) -> Store:
    """Open the index, its keyword rows made again if they are out of step; with `force`, a damaged one is set aside."""
    try:
        store = Store.open_writer(config.database)
        if not store.keywords_are_in_step():
            with store.write():
                store.rebuild_keywords()
        return store
    except StoreError as error:
        if not force or "damaged" not in str(error):
            raise
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", "-wal", "-shm"):
        if (path := config.database.with_name(config.database.name + suffix)).exists():
            os.replace(path, f"{path}.damaged-{stamp}")
    return Store.open_writer(config.database)


@dataclass(slots=True)
class _Run:
    """The state of one run."""

    config: Config
    store: Store
    stop: Stop
    report: Callable[[Progress], None]
    force: bool
    outcome: Outcome = field(default_factory=Outcome)
    progress: Progress = field(default_factory=Progress)
    scan: Scan = field(default_factory=Scan)
    before: dict[str, FileRecord] = field(default_factory=dict)
    known: dict[int, list[str]] = field(default_factory=dict)  # size -> content keys of documents read before
    reported: float = 0.0

    def go(self) -> Outcome:
        self._say("scanning")
        self.scan = scan(self.config)
        self.before = self.store.files()
        todo = [path for path in self.scan.files if self._changed(path)]
        self.outcome.counts["unchanged"] = len(self.scan.files) - len(todo)
        self.outcome.counts["skipped"] = len(self.scan.skipped)
        self.progress.total = len(todo)
        self._say("reading")
        if todo:
            self.known = self.store.document_keys()
            self._read(todo)
        if self.stop.requested():
            self.outcome.status = "cancelled"
        else:
            self._say("purging")
            with self.store.write():
                self._purge()
                self.store.put_skipped(self.scan.skipped)
        for folder, reason in self.scan.unlisted.items():
            self.outcome.warnings.append(f"{display_path(folder)} {reason}; what was indexed from it is kept")
        return self.outcome

    def _changed(self, path: str) -> bool:
        record = self.before.get(path)
        if self.force or record is None or record.stat != self.scan.files[path]:
            return True
        return not record.key.endswith(f":{recipe(self.config)}")

    def _say(self, stage: str, file: str = "") -> None:
        """Report progress to the person and beside the lock, a few times a second at most."""
        now = time.monotonic()
        if stage == self.progress.stage and now - self.reported < 0.25:
            return
        self.reported = now
        self.progress.stage, self.progress.file = stage, display_path(file)
        write_indexer(self.config.folder, self.progress.as_dict())
        self.report(self.progress)

    # --- reading and committing ---

    def _read(self, todo: list[str]) -> None:
        """Have the files read and commit the answers in groups: by amount of text, and before any waits long."""
        group: list[tuple[str, dict[str, Any]]] = []
        chars, since = 0, time.monotonic()
        for answer in Readers(self.stop).read_all(map(self._request, todo)):
            if answer is not None:
                group.append(answer)
                chars += sum(len(chunk[0]) for chunk in answer[1].get("chunks", ()))
                self.progress.done += 1
                self._say("reading", answer[0])
            if group and (chars > GROUP_CHARS or time.monotonic() - since > GROUP_SECONDS):
                self._commit(group)
                group, chars = [], 0
            since = since if group else time.monotonic()
        self._commit(group)

    def _request(self, path: str) -> dict[str, Any]:
        stat, sizes = self.scan.files[path], self.config.chunk
        return {
            "path": path,
            "size": stat.size,
            "known": [] if self.force else self.known.get(stat.size, []),
            "recipe": recipe(self.config),
            "target": sizes.target_chars,
            "overlap": sizes.overlap_chars,
            "maximum": self.config.embedding.max_chunk_chars,
            "seconds": min(SOFT_SECONDS + 5 * stat.size / 1024**2, MAX_SECONDS),
        }

    def _commit(self, group: list[tuple[str, dict[str, Any]]]) -> None:
        if group:
            with self.store.write():
                for path, answer in group:
                    self._apply(path, answer)

    def _apply(self, path: str, answer: dict[str, Any]) -> None:
        """Record one answer: the file points at its document, or keeps its old one with the reason of the failure."""
        status = answer["status"]
        before = self.before.get(path)
        if status in ("gone", "changed"):
            if status == "changed":
                self.outcome.warnings.append(f"{display_path(path)} changed while it was read; the next run reads it")
            return
        if status in ("failed", "needs_action"):
            state = FAILED if status == "failed" else NEEDS_ACTION
            key = answer["key"] or f"unread:{recipe(self.config)}"
            self._put(path, state, answer["reason"], before.document if before else None, key)
            self.outcome.failures.append((display_path(path), scrub(answer["reason"])))
            self.outcome.counts[status] += 1
            return
        document = self.store.document_of_key(answer["key"])
        reused = document is not None and (status == "same" or not self.force)
        if not reused and status == "same":
            return  # its twin was purged or replaced between question and answer; the next run reads it
        if document is None or not reused:
            document = self._put_document(answer)
        partial = self.store.partial_of(document)
        self._put(path, DEGRADED if partial else READY, "; ".join(partial), document, answer["key"])
        self.outcome.counts["reused" if reused else "updated" if before else "added"] += 1

    def _put(self, path: str, state: str, reason: str, document: int | None, key: str) -> None:
        device = self.scan.devices.get(os.path.dirname(path), 0)
        self.store.put_file(FileRecord(path, self.scan.files[path], state, reason, document, key, device))

    def _put_document(self, answer: dict[str, Any]) -> int:
        record = DocumentRecord(
            answer["key"], answer["size"], answer["term_count"], answer["title"], answer["metadata"], answer["partial"]
        )
        return self.store.put_document(
            record, [Chunk(*values) for values in answer["chunks"]], answer["terms"], INDEXED
        )

    # --- purging ---

    def _purge(self) -> None:
        """Forget files that are gone; keep those of which that isn't certain."""
        gone = [path for path in self.before if path not in self.scan.files]
        doubtful = {path: reason for path in gone if (reason := self._doubt(path))}
        certain = [path for path in gone if path not in doubtful]
        if not self.force:
            doubtful |= self._sudden_losses(certain)
        for path in gone:
            if self.force or path not in doubtful:
                self.store.drop_file(path)
                self.outcome.counts["removed"] += 1
        if doubtful and not self.force:
            self.outcome.counts["kept"] = len(doubtful)
            for reason, number in Counter(doubtful.values()).items():
                self.outcome.warnings.append(f"{number} files stay indexed though they weren't found: {reason}")

    def _doubt(self, path: str) -> str:
        """Say why a missing file may be there after all: its folder could not be listed, or its drive is away."""
        if path in self.scan.skipped:
            return ""
        record = self.before[path]
        folder = os.path.dirname(path)
        if path in self.scan.unlisted:
            return f"{display_path(path)} {self.scan.unlisted[path]}"
        while True:
            if folder in self.scan.unlisted:
                return f"{display_path(folder)} {self.scan.unlisted[folder]}"
            if folder in self.scan.skipped:
                return ""
            if folder in self.scan.devices:
                away = record.device and self.scan.devices[folder] != record.device
                return f"{display_path(folder)} is on another drive than before (is one unplugged?)" if away else ""
            if os.path.dirname(folder) == folder:
                return ""  # under no source any more
            folder = os.path.dirname(folder)

    def _sudden_losses(self, certain: list[str]) -> dict[str, str]:
        """Find sources that lost everything, or most of what they held; a moved file is no loss."""
        now = self.store.files() if certain else {}
        still = {record.document for path, record in now.items() if path in self.scan.files}
        doubtful: dict[str, str] = {}
        for source in self.config.sources if certain else ():
            inside = source.rstrip(os.sep) + os.sep
            held = [path for path in self.before if path.startswith(inside)]
            lost = [
                path
                for path in certain
                if path.startswith(inside)
                and path not in self.scan.skipped
                and (self.before[path].document is None or self.before[path].document not in still)
            ]
            everything = len(lost) == len(held)
            if lost and (everything or (len(lost) >= SUDDEN_LOSS and 2 * len(lost) > len(held))):
                what = "everything in" if everything else "most of"
                reason = f"{what} {display_path(source)} is gone at once; if that is right, run again with --force"
                doubtful |= dict.fromkeys(lost, reason)
        return doubtful


if __name__ == "__main__":
    _serve_requests()
