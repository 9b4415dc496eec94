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
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from .chunks import CHUNKER_VERSION, Chunk, Sizes, count_words, make_chunks
from .config import CONFIG_NAME, Config, SeogaError, display_path, scrub
from .parsers import PARSER_VERSION, SUFFIXES, NeedsAction, parse
from .store import (
    DEFERRED,
    FAILED,
    INDEXED,
    NEEDS_ACTION,
    PENDING_EMBEDDING,
    DamagedError,
    DocumentRecord,
    FileRecord,
    Stat,
    Store,
    StoredChunk,
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
GROUP_CHARS = 2_000_000  # text gathered before a commit; a cancelled run still does that, in half a second
GROUP_SECONDS = 2.0  # and the longest that a finished file waits for one
HELD_CHARS = 4_000_000  # of answers that wait while others are committed
PART_CHUNKS = 200  # that a child sends at once
READER_SECONDS = 60.0  # to wait for a program that keeps an old state of the index open
PURGE_FILES = 200  # forgotten at a time
START_SECONDS = 60.0  # for a child to start, on a machine that does much else
TOOK_TOO_LONG = "took too long to read; split it into smaller files"
SUDDEN_LOSS = 5  # files: when as many and more than half of a source are gone, purging needs --force

OWN_FOLDER = "seoga's own folder"
MISSING = "not found where it was, and kept; "  # begins the reason of a file, which `--force` would forget
IN_THE_CLOUD = "kept in the cloud, not on this machine"
_RELIEF = "Close other programs if memory or processes are scarce, else install seoga anew; then run again."
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


def scan(config: Config, stopped: Callable[[], bool] = lambda: False) -> Scan:
    """List the documents under the sources; links are not followed, so nothing outside is ever read.

    What was found so far comes back when `stopped` says so.
    """
    found = Scan()
    for source in config.sources:
        if os.path.isdir(source):
            _scan_source(source, config, found, stopped)
        else:
            found.unlisted[source] = "is not there (unplugged, renamed or deleted?)"
    return found


def _scan_source(root: str, config: Config, found: Scan, stopped: Callable[[], bool]) -> None:
    base = os.path.realpath(config.folder.parent)
    limit = config.max_file_size_mb * 1024 * 1024
    globbed = bool(config.include_globs or config.exclude_globs)
    if _is_kb(root, base):
        found.skipped[root] = OWN_FOLDER
        return
    in_base = os.path.realpath(root) == base
    folders = [root]
    while folders and not stopped():
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
                reason = _why_folder(entry, base, in_base) if is_folder else _why_file(entry)
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


def _why_folder(entry: os.DirEntry[str], base: str, in_base: bool) -> str:
    """Say why a folder is passed over; empty if it isn't. `base` holds the knowledge bases, and may be a source."""
    if entry.name.startswith("."):
        return "hidden folder"
    if entry.name in IGNORED_FOLDERS:
        return "build or system folder"
    is_base = entry.name == os.path.basename(base) and os.path.realpath(entry.path) == base
    return OWN_FOLDER if is_base or (in_base and _is_kb(entry.path, base)) else ""


def _is_kb(folder: str, base: str) -> bool:
    is_inside = os.path.dirname(os.path.realpath(folder)) == base
    return is_inside and os.path.isfile(os.path.join(folder, CONFIG_NAME))


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
    return IN_THE_CLOUD if windows & 0x401000 or mac & 0x40000000 else ""


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

    Returns `status` (ok | same | changed | gone | unreadable | failed | needs_action) with `key`, and for ok `chunks`.
    """
    path = request["path"]
    try:
        data, steady = _read_bytes(path)
    except FileNotFoundError:
        return {"status": "gone"}
    except OSError as error:
        return {"status": "unreadable", "reason": f"can't be read: {error.strerror}"}
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
        "chunks": chunks,
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

    It says hello with an empty object. Then a line of JSON holds a list of requests, and each is answered by a line of
    its own, with as many lines of chunks after it as it says in `parts`.
    """
    import psutil

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not break the answers
    _limit_memory()
    process = psutil.Process()
    lines: Queue[bytes] = Queue()
    threading.Thread(target=_receive, args=(lines,), daemon=True).start()
    _send(answers, {})
    while True:
        for request in json.loads(lines.get()):
            answer = _answer(request)
            chunks = answer.pop("chunks", [])
            answer["parts"] = -(-len(chunks) // PART_CHUNKS)
            answer["last"] = process.memory_info().rss > MEMORY_BYTES // 2
            _send(answers, answer)
            for low in range(0, len(chunks), PART_CHUNKS):
                part = chunks[low : low + PART_CHUNKS]
                _send(answers, {"chunks": list(map(_fields, part)), "terms": list(map(chunk_words, part))})
            if answer["last"]:  # what it still holds would be missing for the next document: a new process takes over
                os._exit(0)


def _receive(lines: Queue[bytes]) -> None:
    """Take requests from standard input; when it closes, the parent is gone, and this process ends whatever it does."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _send(answers: IO[bytes], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    answers.flush()


def _fields(chunk: Chunk) -> tuple[str, int, int, str, str]:
    return chunk.text, chunk.start, chunk.end, chunk.location, chunk.headings


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if hasattr(signal, "alarm"):  # the last resort where no thread gets a turn: the kernel ends this process
        signal.alarm(int(request["seconds"] + 2 * HARD_SECONDS))
    try:
        return read_document(request)
    except (MemoryError, RecursionError) as error:
        return {"status": "failed", "key": "", "reason": _exhausted(error)}
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


def _exhausted(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"needs more than {MEMORY_BYTES // 1024**2} MB of memory to read; split it into smaller files"
    return "is nested too deeply to read"


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass  # Windows has no rlimits; the parent's watch on the child's memory remains


class Child:
    """A process that reads documents, started when first needed and again after each death.

    One thread has it read; another may call `check_limits` and `close` meanwhile.
    """

    # -P: the folder we happen to be in is not searched for modules.
    command: Sequence[str] = (sys.executable, "-P", "-m", f"{__package__}.index")

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()  # a process that was waited for must not be killed: its number may be used again
        self._deadline: float | None = None  # monotonic; None while idle
        self._verdict = ""  # why it was killed while it read the present document
        self._answered = 0  # documents that the present process has read
        self._closed = False

    def read(self, requests: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Have documents read, one after the other; yield (path, answer). Raises SeogaError if no process starts.

        One that the process dies of is `failed` with the reason, and a new process reads the rest. If it had read
        others before, these may have been the cause, so a new process tries that one again.
        """
        waiting = deque(requests)
        while waiting and not self._closed:
            try:
                process = self._process or self._start()
                _write_line(process, list(waiting))
                while waiting and self._process:
                    self._begin(waiting[0]["seconds"] + HARD_SECONDS)
                    answer = _read_answer(process)
                    self._begin(None)
                    self._answered += 1
                    if answer.pop("last", False):
                        self.stop()
                    yield waiting.popleft()["path"], answer
            except (OSError, ValueError):  # half a line, or none: it died
                self._begin(None, keep_verdict=True)
                tired = self._answered > 0 and self._verdict != TOOK_TOO_LONG
                self.stop()
                if not tired and not self._closed:
                    reason = (
                        self._verdict
                        or "crashed the program that reads it, so it is probably damaged; open it, and save it anew"
                    )
                    yield waiting.popleft()["path"], {"status": "failed", "key": "", "reason": reason}

    def _begin(self, seconds: float | None, *, keep_verdict: bool = False) -> None:
        """Set the deadline for the next answer; None: none is due."""
        with self._guard:
            self._deadline = None if seconds is None else time.monotonic() + seconds
            self._verdict = self._verdict if keep_verdict else ""

    def _start(self) -> subprocess.Popen[bytes]:
        with self._guard:
            if self._closed:
                raise OSError("closed")
            try:
                # A session of its own: ctrl-C is the parent's to handle, and all that the child starts dies with it.
                self._process = process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise SeogaError(f"no process starts to read documents: {error.strerror}. {_RELIEF}") from None
        self._begin(START_SECONDS)
        try:
            _read_line(process)
        except ValueError:
            self.stop()
            if self._closed:
                raise
            raise SeogaError(
                f"the process that reads documents ended as it started (exit code {process.returncode}). {_RELIEF}"
            ) from None
        return process

    def check_limits(self) -> None:
        """Kill the process if the document it reads takes too long or too much."""
        with self._guard:
            if self._deadline is None or self._process is None:
                return
            if time.monotonic() > self._deadline:
                self._verdict = TOOK_TOO_LONG
            elif _memory(self._process.pid) > MEMORY_BYTES + 128 * 1024 * 1024:  # the program itself takes about 100 MB
                self._verdict = _exhausted(MemoryError())
            if self._verdict:
                _kill(self._process)

    def close(self) -> None:
        """Kill the process and start none again."""
        with self._guard:
            self._closed = True
            if self._process:
                _kill(self._process)

    def stop(self) -> None:
        """End the process; the next document starts another."""
        with self._guard:
            process, self._process, self._answered = self._process, None, 0
            if process is None:
                return
            _kill(process)
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream:
                    stream.close()
        with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel, on a dead network drive say
            process.wait(timeout=5)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was not waited for yet, with all that it started."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # macOS: no permission for one that is dead already
        os.killpg(process.pid, signal.SIGKILL)


def _write_line(process: subprocess.Popen[bytes], value: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    process.stdin.flush()


def _read_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


def _read_answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Read one answer with its chunks."""
    answer = {"chunks": [], "terms": [], **_read_line(process)}
    for _ in range(answer.pop("parts")):
        part = _read_line(process)
        answer["chunks"] += part["chunks"]
        answer["terms"] += part["terms"]
    return answer


def _memory(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


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
        self._answers: Queue[tuple[str, dict[str, Any]] | None] = Queue()
        self._room = threading.Condition()
        self._held = 0  # characters, about, of answers that wait to be taken
        self._asked_all = threading.Event()
        self._over = threading.Event()
        self._fault: BaseException | None = None

    def read_all(self, requests: Iterator[dict[str, Any]]) -> Generator[tuple[str, dict[str, Any]] | None]:
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
                    with self._room:
                        self._held -= _weight(answer)
                        self._room.notify_all()
        finally:
            self._over.set()
            self._asked_all.set()
            for child in self._children:
                child.close()
            for thread in threads:
                thread.join()
        if self._fault and not self._stop.requested():
            raise self._fault

    def _work(self, child: Child, requests: Iterator[dict[str, Any]], turn: threading.Lock) -> None:
        if child is not self._children[0]:
            self._asked_all.wait(LONE_SECONDS)
        try:
            while not self._is_ending():
                with turn:  # a generator can't be advanced by two threads at once
                    batch = list(_batch(requests))
                if not batch:
                    break
                for answer in child.read(batch):
                    if self._is_ending():
                        break
                    self._hand_over(answer)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that runs it all
            self._fault = error
        finally:
            self._asked_all.set()
            child.stop()
            self._answers.put(None)

    def _is_ending(self) -> bool:
        return self._over.is_set() or self._fault is not None or self._stop.requested()

    def _hand_over(self, answer: tuple[str, dict[str, Any]]) -> None:
        """Give an answer to the run when it has room: it may be slower than its readers."""
        with self._room:
            while self._held > HELD_CHARS and not self._is_ending():
                self._room.wait(0.2)
            self._held += _weight(answer)
            self._answers.put(answer)

    def _watch(self) -> None:
        """Hold the children to their limits, and kill them when the run is to stop."""
        while not self._over.wait(0.1):
            for child in self._children:
                if self._stop.requested():
                    child.close()
                child.check_limits()


def _weight(answer: tuple[str, dict[str, Any]]) -> int:
    """Return the characters in an answer's chunks, and something for the answer itself."""
    return 1000 + sum(len(chunk[0]) for chunk in answer[1].get("chunks", ()))


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
        self.forget()  # left from an earlier run

    def forget(self) -> None:
        with suppress(OSError):  # none is there
            self._cancel.unlink()

    def request(self) -> None:
        self._flag.set()

    def requested(self) -> bool:
        if time.monotonic() - self._looked > 0.1:
            self._looked = time.monotonic()
            if self._cancel.is_file():
                self._flag.set()
        return self._flag.is_set()


@dataclass(slots=True)
class Progress:
    """How far a run is; `total` and `done` count files, or chunks where a model is at work."""

    stage: str = "scanning"
    unit: str = "files"
    total: int = 0
    done: int = 0
    file: str = ""
    started: float = field(default_factory=time.time)

    def as_dict(self) -> dict[str, Any]:
        seconds = max(time.time() - self.started, 0.001)
        rate = self.done / seconds
        remaining = round((self.total - self.done) / rate, 1) if self.done else None
        return {
            "stage": self.stage, "file": self.file, "unit": self.unit, "done": self.done, "total": self.total,
            "per_second": round(rate, 1), "remaining_seconds": remaining,
        }  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """What a run did. `status`: done | cancelled. Counts are files; `enriched` counts chunks and what models cost."""

    status: str = "done"
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    enriched: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            **{name: self.counts[name] for name in COUNTERS},
            **self.enriched,
            "failures": [{"path": path, "reason": reason} for path, reason in self.failures],
            "warnings": self.warnings,
            "seconds": round(self.seconds, 2),
        }


COUNTERS = ("added", "updated", "unchanged", "reused", "removed", "kept", "failed", "needs_action", "skipped")


def run(
    config: Config,
    *,
    force: bool = False,
    partial: str = "",
    report: Callable[[Progress], None] = lambda progress: None,
    on_start: Callable[[Stop], None] = lambda stop: None,
) -> Outcome:
    """Index one knowledge base. `force` reads everything again, and purges also when most of a source is gone.

    `partial` reads nothing, but has models do their part anew: `contextualization` (vectors follow) or `embedding`.

    Raises LockedError if another process is at it, StoreError if the index can't be written.
    """
    began = time.monotonic()
    with writer_lock(config.folder):
        stop = Stop(config.cancel)
        on_start(stop)
        store, notes = _open_store(config, force)
        try:
            work = _Run(config, store, stop, report, force, Outcome(warnings=notes))
            number = store.begin_run()
            outcome = work.go(partial)
            outcome.seconds = time.monotonic() - began
            store.end_run(number, outcome.seconds, outcome.status, outcome.as_dict())
            store.checkpoint()
        finally:
            store.close()
            stop.forget()
    return outcome


def preview(config: Config, *, force: bool = False, partial: str = "") -> dict[str, Any]:
    """Read what a run would read, and count what it would ask models for; nothing is written."""
    from .enrich import estimate

    stop = Stop(config.folder / "no-such-file")
    with tempfile.TemporaryDirectory() as folder:
        made = config.database.exists()
        opened = Store.open_reader(config.database) if made else Store.open_writer(Path(folder) / "rag.db")
        with closing(opened) as store:
            found = Scan() if partial else scan(config)
            work = _Run(config, store, stop, lambda progress: None, force, scan=found, before=store.files())
            todo = [path for path in found.files if work._changed(path)]
            work.known = store.document_keys()
            stays = {
                record.document
                for path, record in work.before.items()
                if partial or (path in found.files and path not in todo)
            }
            counts: Counter[str] = Counter()
            asked = estimate(config, store, work.documents(todo, stays, counts), partial)
            gone = sum(path not in found.files for path in work.before) if not partial else 0
    notes = [f"{display_path(folder)} {reason}" for folder, reason in found.unlisted.items()]
    paths = sorted(map(display_path, todo))
    return {"files": len(todo), "chunks": counts["chunks"], "deleted": gone, **asked, "paths": paths, "notes": notes}


def _open_store(config: Config, force: bool) -> tuple[Store, list[str]]:
    """Open the index, its keyword rows made again if they are out of step; with `force`, a damaged one is set aside.

    Returns it with what the person should know.
    """
    try:
        return _open_sound_store(config, force)
    except DamagedError as error:
        if not force:
            raise
        fault = str(error)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", "-wal", "-shm"):
        if (path := config.database.with_name(config.database.name + suffix)).exists():
            os.replace(path, f"{path}.damaged-{stamp}")
    aside = f"{config.database.name}.damaged-{stamp}"
    return Store.open_writer(config.database), [
        f"the index was damaged ({fault}); it is kept as {aside}, and made anew"
    ]


def _open_sound_store(config: Config, check: bool) -> tuple[Store, list[str]]:
    store = Store.open_writer(config.database)
    try:
        if store.keywords_are_in_step():
            notes = []
        else:
            with store.write():
                store.rebuild_keywords()
            notes = ["the keyword index did not match the text; it was made again"]
        if check and (faults := store.check()):
            raise DamagedError(faults[0])
    except BaseException:
        store.close()
        raise
    return store, notes


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
    renumbered: set[tuple[int, int]] = field(default_factory=set)  # (device before, now) of files that are there
    known: dict[int, list[str]] = field(default_factory=dict)  # size -> content keys of documents read before
    again: list[str] = field(default_factory=list)  # whose document went while they were compared with it
    reported: float = 0.0

    def go(self, partial: str) -> Outcome:
        if not partial:
            self._read_sources()
        if not self.stop.requested():
            self._enrich(partial)
        if self.stop.requested():
            self.outcome.status = "cancelled"
        return self.outcome

    def _read_sources(self) -> None:
        self._say("scanning")
        self.scan = scan(self.config, self.stop.requested)
        self.before = self.store.files()
        self.renumbered = {
            (record.device, self.scan.devices[os.path.dirname(path)])
            for path, record in self.before.items()
            if path in self.scan.files
        }
        todo = [path for path in self.scan.files if self._changed(path)]
        self.outcome.counts["unchanged"] = len(self.scan.files) - len(todo)
        self.outcome.counts["skipped"] = len(self.scan.skipped)
        self.progress.total = len(todo)
        self._say("reading")
        if todo:
            self.known = self.store.document_keys()
            self._read(todo)
            self.known = {}
            self._read(self.again)
        if not self.stop.requested():
            self._say("purging")
            self._purge()
        for folder, reason in self.scan.unlisted.items():
            self.outcome.warnings.append(f"{display_path(folder)} {reason}; what was indexed from it is kept")

    def _enrich(self, partial: str) -> None:
        """Have models add contexts and vectors, if any are configured or were."""
        models = self.config.embedding.model or self.config.contextualizer.model or self.config.rerank.model
        if not models and not partial and self.store.is_settled():
            return
        from .enrich import enrich  # providers take a while to import

        done = enrich(self.config, self.store, stop=self.stop.requested, say=self._say_chunks, partial=partial)
        self.outcome.enriched = done.as_dict()
        self.outcome.warnings += done.warnings

    def _say_chunks(self, stage: str, done: int, total: int) -> None:
        if stage != self.progress.stage:
            self.progress = Progress(stage="", unit="MB" if stage.startswith("downloading") else "chunks")
        self.progress.done, self.progress.total = done, total
        if self.progress.unit == "chunks":  # some were just committed
            self._await_readers()
        self._say(stage)

    def _stage(self) -> str:
        """Return the stage of a chunk that has just been read."""
        return PENDING_EMBEDDING if self.config.embedding.model else INDEXED

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
        chars, since, path = 0, time.monotonic(), ""
        with closing(Readers(self.stop).read_all(map(self._request, todo))) as answers:
            for answer in answers:
                if answer is not None:
                    group.append(answer)
                    chars += _weight(answer)
                    path = answer[0]
                    self.progress.done += 1
                self._say("reading", path)  # also while a long document keeps everybody waiting
                if group and (chars > GROUP_CHARS or time.monotonic() - since > GROUP_SECONDS):
                    self._commit(group)
                    group, chars = [], 0
                since = since if group else time.monotonic()
        self._commit(group)

    def documents(self, todo: list[str], stays: set[int | None], counts: Counter[str]) -> Iterator[list[StoredChunk]]:
        """Have the files read, nothing committed; yield the chunks of each new content, then of what stays."""
        seen: set[str] = set()
        with closing(Readers(self.stop).read_all(map(self._request, todo))) as answers:
            for path, answer in filter(None, answers):
                key = answer.get("key", "")
                if answer["status"] != "ok":
                    before = self.before.get(path)
                    same = answer["status"] == "same"
                    stays.add(self.store.document_of_key(key) if same else before and before.document)
                elif key not in seen:
                    seen.add(key)
                    counts["chunks"] += len(answer["chunks"])
                    chunks = enumerate(Chunk(*values) for values in answer["chunks"])
                    yield [
                        StoredChunk(
                            0, "", path, n, 0, chunk.text, chunk.location, chunk.headings, 0, chunk.start, chunk.end,
                            answer["title"],
                        )
                        for n, chunk in chunks
                    ]  # fmt: skip
        for document in filter(None, stays):
            yield self.store.chunks_of_document(document)

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
            "seconds": round(min(SOFT_SECONDS + 5 * stat.size / 1024**2, MAX_SECONDS), 1),
        }

    def _commit(self, group: list[tuple[str, dict[str, Any]]]) -> None:
        if group:
            with self.store.write():
                for path, answer in group:
                    self._apply(path, answer)
            self._await_readers()

    def _await_readers(self) -> None:
        """Wait while a reader that keeps an old state open makes the write-ahead log grow; in the end give up."""
        began = time.monotonic()
        while not self.store.trim_log() and not self.stop.requested():
            self._say("waiting for a reader of the index")
            if time.monotonic() - began > READER_SECONDS:
                raise StoreError(
                    f"{self.config.database}: another program keeps reading an old state of it, so that its log would "
                    "grow without end. End that program and run again; nothing that was indexed is lost."
                )
            time.sleep(0.1)

    def _apply(self, path: str, answer: dict[str, Any]) -> None:
        """Record one answer: the file points at its document, or keeps its old one with the reason of the failure."""
        status = answer["status"]
        before = self.before.get(path)
        if status in ("gone", "changed"):
            if status == "changed":
                self.outcome.warnings.append(f"{display_path(path)} changed while it was read; the next run reads it")
            return
        if status in ("failed", "needs_action", "unreadable"):
            self._keep_with_reason(path, answer)
            return
        document = self.store.document_of_key(answer["key"])
        reused = document is not None and (status == "same" or not self.force)
        if not reused and status == "same":
            self.again.append(path)  # that document's last file got another content meanwhile: two files swapped
            return
        if document is None or not reused:
            document = self._put_document(answer)
        reason = "; ".join(self.store.partial_of(document))
        self._put(path, self.store.state_of(document), reason, document, answer["key"])
        self.outcome.counts["reused" if reused else "updated" if before else "added"] += 1

    def _keep_with_reason(self, path: str, answer: dict[str, Any]) -> None:
        """Record that a file could not be read; what it held before stays searchable."""
        status, before = answer["status"], self.before.get(path)
        state = NEEDS_ACTION if status == "needs_action" else FAILED
        # A document that can't be read stays as it is until it changes. A file that can't be opened (another program
        # has it locked, say) has a key that no recipe matches, so the next run tries again.
        key = "unreadable" if status == "unreadable" else answer["key"] or f"unread:{recipe(self.config)}"
        self._put(path, state, answer["reason"], before.document if before else None, key)
        self.outcome.failures.append((display_path(path), scrub(answer["reason"])))
        self.outcome.counts["needs_action" if status == "needs_action" else "failed"] += 1

    def _put(self, path: str, state: str, reason: str, document: int | None, key: str) -> None:
        device = self.scan.devices.get(os.path.dirname(path), 0)
        self.store.put_file(FileRecord(path, self.scan.files[path], state, reason, document, key, device))

    def _put_document(self, answer: dict[str, Any]) -> int:
        terms = answer["terms"]
        count = sum(map(count_words, terms))
        record = DocumentRecord(
            answer["key"], answer["size"], count, answer["title"], answer["metadata"], answer["partial"]
        )
        return self.store.put_document(record, [Chunk(*values) for values in answer["chunks"]], terms, self._stage())

    # --- purging ---

    def _purge(self) -> None:
        """Forget files that are gone; keep those of which that isn't certain."""
        gone = [path for path in self.before if path not in self.scan.files]
        doubtful = {path: reason for path in gone if (reason := self._doubt(path))}
        missing = {} if self.force else self._sudden_losses([path for path in gone if path not in doubtful])
        doubtful |= missing
        certain = [path for path in gone if path not in doubtful]
        for low in range(0, len(certain), PURGE_FILES):
            if self.stop.requested():
                return
            with self.store.write():
                for path in certain[low : low + PURGE_FILES]:
                    self.store.drop_file(path)
                    self.outcome.counts["removed"] += 1
            self._await_readers()
        with self.store.write():
            self._mark(missing)
            self.store.put_skipped(self.scan.skipped)
        self.outcome.counts["kept"] = len(doubtful)
        for reason, number in Counter(doubtful.values()).items():
            self.outcome.warnings.append(f"{number} files stay indexed though they weren't found: {reason}")

    def _mark(self, missing: Iterable[str]) -> None:
        """Note which files are missing without a certain reason, and which are back."""
        for path in missing:
            record = self.before[path]
            if not record.reason.startswith(MISSING):
                self.store.put_file(record._replace(reason=f"{MISSING}{record.reason}"))
        for path, record in self.before.items():
            if record.reason.startswith(MISSING) and path in self.scan.files:
                now = self.store.find_file(path) or record  # it may have been read anew in this run
                self.store.put_file(now._replace(reason=now.reason.removeprefix(MISSING)))

    def _doubt(self, path: str) -> str:
        """Say why a missing file may be there after all: its folder could not be listed, or its drive is away."""
        if path in self.scan.skipped:
            return IN_THE_CLOUD if self.scan.skipped[path] == IN_THE_CLOUD else ""
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
                now = self.scan.devices[folder]
                away = not self.force and record.device not in (0, now) and (record.device, now) not in self.renumbered
                return f"{display_path(folder)} is on another drive than before (is one unplugged?)" if away else ""
            if os.path.dirname(folder) == folder:
                return ""  # under no source any more
            folder = os.path.dirname(folder)

    def _sudden_losses(self, certain: list[str]) -> dict[str, str]:
        """Find sources that lost everything, or most of what they held; a moved file is no loss.

        What was missing in an earlier run stays so, however many new files the source has got since.
        """
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
            elif missing := [path for path in lost if self.before[path].reason.startswith(MISSING)]:
                reason = (
                    f"they were lost from {display_path(source)} at once before; run again with --force to forget them"
                )
                doubtful |= dict.fromkeys(missing, reason)
        return doubtful


if __name__ == "__main__":
    _serve_requests()
