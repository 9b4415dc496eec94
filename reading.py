"""Have documents read by child processes that are limited, since documents are untrusted.

    request --> child: bytes, hash --> known? --> blocks --> chunks, terms --> answer
                  |  memory, time and output are limited, by the kernel and by the parent
                  +--> a page or a stretch of speech that is done --> the parent keeps it

One that hangs, swells or crashes costs that file only. The children write nothing into the index; what they have
recognised so far (OCR, speech) is kept by the parent, so a reading that dies goes on from there the next time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat as modes
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from functools import cache
from hashlib import file_digest, sha256
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any, Protocol

from .chunks import CHUNKER_VERSION, Chunk, Sizes, make_chunks
from .config import Config, SeogaError
from .parsers import PARSER_VERSION, PICTURES, STREAMED, NeedsAction, Recognition, parse
from .store import Store, StoreError, chunk_words

WORKERS = max(1, min(2, os.cpu_count() or 1))
MEMORY_BYTES = 512 * 1024 * 1024  # 512 MB of data in a child that reads documents
SPEECH_BYTES = 700 * 1024 * 1024  # of one that listens, beside twice its model's weights
SOFT_SECONDS = 20.0  # then a document is partial; a large one gets 5 s more for each MB
LONE_SECONDS = 2.0  # of a run before a second child is worth its start
HARD_SECONDS = 8.0  # beyond the soft limit the child is killed
STEP_SECONDS = 300.0  # the longest for a page or a stretch of speech
MAX_SECONDS = 600.0
BATCH_FILES, BATCH_BYTES = 16, 256 * 1024  # sent to a child at once, at most
HELD_CHARS = 4_000_000  # of answers that wait while others are committed
PART_CHUNKS = 200  # that a child sends at once
MAX_LINE_BYTES = 256 * 1024 * 1024  # 256 MB: of an answer; 20 million characters, escaped, take less
MAX_FILE_BYTES = 1024 * 1024 * 1024  # 1 GB: of a temporary file that a library writes
START_SECONDS = 60.0  # for a child to start, on a machine that does much else
TOOK_TOO_LONG = "took too long to read; split it into smaller files"
_RELIEF = "Close other programs if memory or processes are scarce, else install seoga anew; then run again."


# --- what makes a document's text ---


def recipe(config: Config, path: str) -> str:
    """Name everything but the bytes and suffix that decides the chunks of the document at `path`."""
    suffix = os.path.splitext(path)[1].casefold()
    sizes = (config.chunk.target_chars, config.chunk.overlap_chars, config.embedding.max_chunk_chars)
    made_by: list[object] = [PARSER_VERSION, CHUNKER_VERSION, *sizes]
    if suffix in STREAMED:
        made_by.append(_short_hash(config.audio.model, config.audio.language))
    elif suffix in PICTURES or suffix == ".pdf":
        made_by.append(_short_hash(config.ocr.languages, config.ocr.dpi))
    return ".".join(map(str, made_by))


def _short_hash(*settings: object) -> str:
    return sha256(repr(settings).encode()).hexdigest()[:8]


def is_current(key: str, config: Config, path: str) -> bool:
    """Tell whether reading the document with this key would give the same again: same recipe, same engines lacking."""
    key, _, lacks = key.partition("~")
    return key.endswith(f":{recipe(config, path)}") and _still_lacks(lacks, config.ocr.languages, config.audio.model)


def _still_lacks(lacks: str, languages: str, model: str) -> bool:
    """Tell whether all that a reading lacked ("ocr+speech") is lacking now, too."""
    return all(engine_state(lack, languages, model) for lack in lacks.split("+") if lack)


@cache
def engine_state(engine: str, languages: str, model: str) -> str:
    """Say what keeps the engine, "ocr" or "speech", from working here, and the remedy; "" if it works."""
    if engine == "ocr":
        from .pages import ocr_state

        return ocr_state(languages)
    from .audio import speech_state

    return speech_state(model)


# --- reading one document, in a child process ---

Send = Callable[[dict[str, Any]], None]


def make_request(config: Config, path: str, size: int, known: Sequence[str], database: Path | None) -> dict[str, Any]:
    """Ask for one document, of `size` bytes; `known` are keys of documents of that size."""
    streamed = os.path.splitext(path)[1].casefold() in STREAMED
    return {
        "path": path,
        "size": size,
        "known": known,
        "recipe": recipe(config, path),
        "target": config.chunk.target_chars,
        "overlap": config.chunk.overlap_chars,
        "maximum": config.embedding.max_chunk_chars,
        "seconds": round(min(SOFT_SECONDS + 5 * size / 1024**2, MAX_SECONDS), 1),
        "memory": _speech_memory(config.audio.model) if streamed else MEMORY_BYTES,
        "ocr": [config.ocr.languages, config.ocr.dpi],
        "audio": [config.audio.model, config.audio.language],
        "database": str(database or ""),
    }


@cache
def _speech_memory(model: str) -> int:
    """Return the bytes of memory that a child which listens may hold."""
    from .audio import find_model

    folder = find_model(model)
    weights = folder / "model.bin" if folder else Path()
    return SPEECH_BYTES + 2 * (weights.stat().st_size if weights.is_file() else 0)


def read_document(request: dict[str, Any], send: Send = lambda news: None) -> dict[str, Any]:
    """Read, parse and chunk one file. `request`: what make_request gives. `send` is told of steps and finished pieces.

    Returns `status` (ok | same | changed | gone | unreadable | failed | needs_action) with `key`, and for ok `chunks`.
    """
    try:
        with _open_regular(request["path"]) as file:
            return _read_open(file, request, send)
    except FileNotFoundError:
        return {"status": "gone"}
    except OSError as error:
        return {"status": "unreadable", "reason": f"can't be read: {error.strerror}"}


def read_bytes(path: str) -> bytes:
    """Return a regular file's bytes. Never waits on a pipe."""
    with _open_regular(path) as file:
        return file.read()


def _open_regular(path: str) -> BufferedReader:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    if not modes.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(0, "it is no regular file any more")
    return file


def _read_open(file: BufferedReader, request: dict[str, Any], send: Send) -> dict[str, Any]:
    before = os.fstat(file.fileno())
    suffix = os.path.splitext(request["path"])[1].casefold()
    data = b"" if suffix in STREAMED else file.read(before.st_size + 1)
    digest = file_digest(file, "sha256").hexdigest() if suffix in STREAMED else sha256(data).hexdigest()
    if not _is_steady(file, before):
        return {"status": "changed"}
    key = f"{digest}{suffix}:{request['recipe']}"
    for known in request["known"]:
        same, _, lacks = known.partition("~")
        if same == key and _still_lacks(lacks, request["ocr"][0], request["audio"][0]):
            return {"status": "same", "key": known}
    file.seek(0)
    answer = _parsed(file if suffix in STREAMED else data, key, request, _Memory(digest, request["database"], send))
    return answer if _is_steady(file, before) or suffix not in STREAMED else {"status": "changed"}


def _is_steady(file: BufferedReader, before: os.stat_result) -> bool:
    """Tell whether the file is still what it was, and was read to its end."""
    after = os.fstat(file.fileno())
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def _parsed(data: bytes | IO[bytes], key: str, request: dict[str, Any], memory: _Memory) -> dict[str, Any]:
    (languages, dpi), (model, language) = request["ocr"], request["audio"]
    recognition = Recognition(languages, dpi, model, language, memory.keep, memory.kept, memory.step)
    name = os.path.basename(request["path"])
    try:
        document = parse(data, name, seconds=request["seconds"], recognition=recognition)
        chunks = make_chunks(document.blocks, Sizes(request["target"], request["overlap"], request["maximum"]))
    except NeedsAction as error:
        return {"status": "needs_action", "key": _lacking(key, {error.lacks} - {""}), "reason": str(error)}
    except SeogaError as error:
        return {"status": "failed", "key": key, "reason": str(error)}
    return {
        "status": "ok",
        "key": _lacking(key, document.lacks),
        "size": request["size"],
        "title": document.title,
        "metadata": document.metadata,
        "partial": document.partial if chunks else ["no text was found in it", *document.partial],
        "chunks": chunks,
    }


def _lacking(key: str, lacks: set[str]) -> str:
    return f"{key}~{'+'.join(sorted(lacks))}" if lacks else key


class _Memory:
    """Gives back what earlier readings of the same bytes recognised, and hands what is new to the parent."""

    def __init__(self, digest: str, database: str, send: Send) -> None:
        self._digest = digest
        self._database = database
        self._send = send
        self._turn = threading.Lock()
        self._pieces: dict[str, str] | None = None  # name -> value, once asked for

    def kept(self, name: str) -> str | None:
        with self._turn:
            if self._pieces is None:
                self._pieces = self._recall() if self._database else {}
            return self._pieces.get(name)

    def _recall(self) -> dict[str, str]:
        try:
            with closing(Store.open_reader(Path(self._database))) as store:  # closed soon: a reader holds the log up
                return store.recognized(self._digest)
        except StoreError:
            return {}  # it is only recognised once more

    def keep(self, name: str, value: str) -> None:
        self._send({"keep": [f"{self._digest} {name}", value]})

    def step(self, done: float, total: float, unit: str) -> None:
        self._send({"step": [done, total, unit]})


# --- the child ---


def serve_requests() -> None:
    """Answer requests on standard input until it closes. Runs in the child; its argument is its memory in bytes.

    It says hello with an empty object. Then a line of JSON holds a list of requests, and each is answered by a line of
    its own, with as many lines of chunks after it as it says in `parts`. Lines before an answer tell of steps and of
    pieces to keep.
    """
    import psutil

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not break the answers
    most = int(sys.argv[-1]) if sys.argv[-1].isdigit() else MEMORY_BYTES
    _limit(most)
    process = psutil.Process()
    lines: Queue[bytes] = Queue()
    turn = threading.Lock()
    threading.Thread(target=_receive, args=(lines,), daemon=True).start()

    def send(line: dict[str, Any]) -> None:
        with turn:  # pages are recognised in several threads
            answers.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            answers.flush()

    def tell(news: dict[str, Any]) -> None:
        _allow(STEP_SECONDS)
        send(news)

    send({})
    while True:
        for request in json.loads(lines.get()):
            answer = _answer(request, tell)
            chunks = answer.pop("chunks", [])
            answer["parts"] = -(-len(chunks) // PART_CHUNKS)
            answer["last"] = process.memory_info().rss > most // 2
            send(answer)
            for low in range(0, len(chunks), PART_CHUNKS):
                part = chunks[low : low + PART_CHUNKS]
                send({"chunks": list(map(_fields, part)), "terms": list(map(chunk_words, part))})
            if answer["last"]:  # what it still holds would be missing for the next document: a new process takes over
                os._exit(0)


def _receive(lines: Queue[bytes]) -> None:
    """Take requests from standard input; when it closes, the parent is gone, and this process ends whatever it does."""
    for line in sys.stdin.buffer:
        lines.put(line)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with what it started
    os._exit(0)


def _fields(chunk: Chunk) -> tuple[str, int, int, str, str]:
    return chunk.text, chunk.start, chunk.end, chunk.location, chunk.headings


def _answer(request: dict[str, Any], send: Send) -> dict[str, Any]:
    _allow(request["seconds"] + HARD_SECONDS)
    try:
        return read_document(request, send)
    except (MemoryError, RecursionError) as error:
        return {"status": "failed", "key": "", "reason": _exhausted(error, request["memory"])}
    finally:
        _allow(0)


def _exhausted(error: BaseException, most: int) -> str:
    if isinstance(error, MemoryError):
        return f"needs more than {most // 1024**2} MB of memory to read; split it into smaller files"
    return "is nested too deeply to read"


def _limit(memory: int) -> None:
    """Have the kernel limit memory and files that are written; Windows has no such limits, only the parent's watch."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _allow(seconds: float) -> None:
    """Have the kernel end this process after so long, where no thread of it gets a turn and the parent is gone."""
    if hasattr(signal, "alarm"):
        signal.alarm(int(seconds + HARD_SECONDS) if seconds else 0)


# --- its parent ---


class Child:
    """A process that reads documents, started when first needed and again after each death.

    One thread has it read; another may call `check_limits` and `close` meanwhile.
    """

    # -P: the folder we happen to be in is not searched for modules.
    command: Sequence[str] = (sys.executable, "-P", "-m", f"{__package__}.reading")

    def __init__(self, folder: str, speech: threading.Lock) -> None:
        self._folder = folder  # for temporary files
        self._speech = speech  # held while one child listens: a model takes all cores, and much memory
        self._memory = 0  # bytes that the present process may hold
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()  # a process that was waited for must not be killed: its number may be used again
        self._deadline: float | None = None  # monotonic; None while idle
        self._verdict = ""  # why it was killed while it read the present document
        self._answered = 0  # documents that the present process has read
        self._closed = False

    def read(self, requests: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Have documents read, one after the other; yield (path, answer). Raises SeogaError if no process starts.

        Before a document's answer may come news of it, which have no `status`: steps, and pieces to keep.

        One that the process dies of is `failed` with the reason, and a new process reads the rest. If it had read
        others before, these may have been the cause, so a new process tries that one again.
        """
        for memory, group in groupby(requests, key=lambda request: int(request["memory"])):
            with self._speech if memory > MEMORY_BYTES else nullcontext():
                yield from self._read_group(deque(group), memory)

    def _read_group(self, waiting: deque[dict[str, Any]], memory: int) -> Iterator[tuple[str, dict[str, Any]]]:
        while waiting and not self._closed:
            try:
                process = self._suited(memory)
                _write_line(process, list(waiting))
                while waiting and self._process:
                    self._begin(waiting[0]["seconds"] + HARD_SECONDS)
                    while "status" not in (answer := _read_line(process)):
                        self._begin(STEP_SECONDS)
                        yield waiting[0]["path"], answer
                    _read_parts(process, answer)
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

    def _suited(self, memory: int) -> subprocess.Popen[bytes]:
        """Return a running process with this much memory."""
        if self._process and self._memory != memory:
            self.stop()
        self._memory = memory
        return self._process or self._start()

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
                    [*self.command, str(self._memory)],
                    env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder)},
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
            elif _resident(self._process.pid) > self._memory + 128 * 1024 * 1024:  # the program takes about 100 MB
                self._verdict = _exhausted(MemoryError(), self._memory)
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
        import psutil

        with suppress(psutil.Error):
            for started in psutil.Process(process.pid).children(recursive=True):
                started.kill()
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
    line: dict[str, Any] = json.loads(process.stdout.readline(MAX_LINE_BYTES))
    return line


def _read_parts(process: subprocess.Popen[bytes], answer: dict[str, Any]) -> None:
    """Read the chunks that follow an answer, into it."""
    answer |= {"chunks": [], "terms": []}
    for _ in range(answer.pop("parts")):
        part = _read_line(process)
        answer["chunks"] += part["chunks"]
        answer["terms"] += part["terms"]


def _resident(pid: int) -> int:
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


class Stopper(Protocol):
    """Tells whether the run is to stop."""

    def requested(self) -> bool: ...


class Readers:
    """Reads many documents in child processes and hands over the answers as they come."""

    def __init__(self, stop: Stopper, folder: Path) -> None:
        """`folder`, of the children's temporary files, is made, and gone afterwards."""
        self._stop = stop
        self._folder = folder
        speech = threading.Lock()
        self._children = [Child(str(folder), speech) for _ in range(WORKERS)]
        self._answers: Queue[tuple[str, dict[str, Any]] | None] = Queue()
        self._room = threading.Condition()
        self._held = 0  # characters, about, of answers that wait to be taken
        self._asked_all = threading.Event()
        self._over = threading.Event()
        self._fault: BaseException | None = None

    def read_all(self, requests: Iterator[dict[str, Any]]) -> Generator[tuple[str, dict[str, Any]] | None]:
        """Yield (path, answer) in the order of completion, and None when there was nothing for a while."""
        shutil.rmtree(self._folder, ignore_errors=True)  # of a run that was killed
        self._folder.mkdir(parents=True)
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
                        self._held -= weigh(answer)
                        self._room.notify_all()
        finally:
            self._over.set()
            self._asked_all.set()
            for child in self._children:
                child.close()
            for thread in threads:
                thread.join()
            shutil.rmtree(self._folder, ignore_errors=True)
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
            self._held += weigh(answer)
            self._answers.put(answer)

    def _watch(self) -> None:
        """Hold the children to their limits, and kill them when the run is to stop."""
        while not self._over.wait(0.1):
            for child in self._children:
                if self._stop.requested():
                    child.close()
                child.check_limits()


def weigh(answer: tuple[str, dict[str, Any]]) -> int:
    """Return the characters in an answer's chunks, and something for the answer itself."""
    return 1000 + sum(len(chunk[0]) for chunk in answer[1].get("chunks", ()))


if __name__ == "__main__":
    serve_requests()
