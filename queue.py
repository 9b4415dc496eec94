"""Keep the queue of knowledge bases that wait to be indexed, and work through it.

    start_reindex, a host program --> {base}/.deferred-queue.json --> exec-queue: one `seoga exec` after the other

Every change of the file is made under a lock and reaches the disk before it counts. An entry leaves the file when its
child process has done the work, so whatever is killed in between, nothing asked for is lost. A wider request (full
> contextualization > embedding) takes the place of a narrower one that waits; behind one that runs it waits.

`prune_orphans` removes knowledge bases whose `config.json` was deleted, which is how a person or a host program deletes
one. Whatever could be something else stays:

    {base}/notes/       rag.db, no config.json        -> removed
    {base}/minutes/     rag.db, config.json           -> a knowledge base
    {base}/pictures/    no rag.db                     -> none of ours
    {base}/_old/        or .old, or notes-backup-1    -> put aside by somebody
    also a link, one changed just now, one whose indexer still runs

This file never touches a source folder, never follows a link, and does not index.
"""

from __future__ import annotations

if __name__ == "queue":
    # With the root on sys.path (`python -m pytest`, `python -c`), `import queue` finds this file, not the standard
    # library's. Hand that over. What follows is then defined for nobody; only the imports below would fail.
    import importlib.util
    import os
    import sys
    from importlib.machinery import PathFinder

    _spec = PathFinder.find_spec("queue", [os.path.dirname(os.__file__)])
    if _spec is None or _spec.loader is None:
        raise ImportError("the standard library's queue is not where os is")
    sys.modules["queue"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["queue"])
else:
    import contextlib
    import json
    import logging
    import os
    import shutil
    import signal
    import socket
    import subprocess
    import sys
    import tempfile
    import threading
    import time
    from collections.abc import Callable, Iterator
    from datetime import UTC, datetime
    from pathlib import Path
    from typing import Any

    from .config import CONFIG_NAME, DATABASE_NAME, SeogaError, check_kb_id, scrub, write_atomically
    from .store import LOCK_NAME, process_start

    log = logging.getLogger(__name__)

QUEUE_NAME = ".deferred-queue.json"
ORCHESTRATOR_NAME = "orchestrator.lock"  # who works through the queue: pid, its start time, host
MAX_QUEUE_BYTES = 16 * 1024 * 1024  # 16 MB; a larger file is none that seoga wrote
LOCK_SECONDS = 30.0  # to wait for another process that changes the queue
LEAVING_SECONDS = 10.0  # that an orchestrator which has signed out may take to end
POLL_SECONDS = 0.25
MAX_SAID_BYTES = 600  # the end of what a child said, kept as last_error
BUSY_SECONDS = 2.0  # until a knowledge base that another indexer holds is tried again
DONE, FAILED, CANCELLED, LOCKED = 0, 1, 2, 3  # exit codes, of `exec` and of `exec-queue`
_WIDTH = {"": 3, "contextualization": 2, "embedding": 1}  # of a request by its partial_mode


# --- the file ---


class Queue:
    """The queue of a base folder. Entries are dicts as in the file; what other programs add to them is kept."""

    def __init__(self, base: Path, name: str = QUEUE_NAME) -> None:
        self.base = base
        self.path = base / name
        self._lock = base / f"{name}.lock"

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries in their order; a file that can't be read is set aside first."""
        try:
            return _parse(self.path)
        except FileNotFoundError:
            return []
        except ValueError:
            return list(self.change(lambda entries: entries))

    def change(self, edit: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """Have `edit` change the list of entries in place, alone; return what it returns. Raises SeogaError."""
        import filelock

        try:
            self.base.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(self._lock, timeout=LOCK_SECONDS):
                entries = self._read()
                before = json.dumps(entries)
                result = edit(entries)
                if json.dumps(entries) != before:
                    content = json.dumps({"version": 1, "entries": entries}, ensure_ascii=False, indent=2)
                    write_atomically(self.path, content.encode("utf-8", "replace"))
                return result
        except filelock.Timeout:
            raise SeogaError(f"{self.path} has been locked for {LOCK_SECONDS:g} s; which program holds it?") from None
        except OSError as error:
            fault = f"{self.path} can't be changed: {error.strerror}. Check permissions and free space."
            raise SeogaError(fault) from None

    def _read(self) -> list[dict[str, Any]]:
        try:
            return _parse(self.path)
        except FileNotFoundError:
            return []
        except ValueError as error:
            aside = self.path.with_name(f"{self.path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}")
            os.replace(self.path, aside)
            log.error("%s is damaged (%s); it is kept as %s, and the queue begins anew", self.path, error, aside.name)
            return []

    def enqueue(
        self, kb_id: str, *, partial: str = "", force: bool = False, deferred: bool = False, is_reindex: bool = True
    ) -> tuple[str, int]:
        """Ask for a knowledge base to be indexed; return what became of the request, and its place in the queue.

        That is `queued`, `already_queued` (by the same or a wider request), `upgraded` (a narrower one that waited),
        `already_running` or `queued_after_current`. The place is 1 for what is next, 0 for what runs.
        """
        new: dict[str, Any] = {
            "kb_id": check_kb_id(kb_id), "scheduled_at": _now(), "is_reindex": is_reindex, "force": force,
            "deferred": deferred, **({"partial_mode": partial} if partial else {}),
        }  # fmt: skip
        return self.change(lambda entries: _merge(entries, new, is_alive(self.base)))  # type: ignore[no-any-return]

    def cancel(self, kb_id: str) -> tuple[int, bool]:
        """Drop what waits for a knowledge base, and ask what runs to stop; return how many waited, and if one runs."""

        def drop(entries: list[dict[str, Any]]) -> tuple[int, bool]:
            mine = [entry for entry in entries if entry["kb_id"] == kb_id]
            running = any(entry.get("started_at") for entry in mine) and is_alive(self.base)
            entries[:] = [entry for entry in entries if entry["kb_id"] != kb_id]
            return len(mine) - running, running

        dropped: tuple[int, bool] = self.change(drop)
        return dropped


def _parse(path: Path) -> list[dict[str, Any]]:
    """Read the file; raises ValueError saying what is wrong with it."""
    if path.stat().st_size > MAX_QUEUE_BYTES:
        raise ValueError(f"larger than {MAX_QUEUE_BYTES // 1024**2} MB")
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, dict) or content.get("version") != 1 or not isinstance(content.get("entries"), list):
        raise ValueError("not a queue of version 1")
    for entry in content["entries"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("kb_id"), str):
            raise ValueError(f"no kb_id in {json.dumps(entry)[:100]}")
        if entry.get("partial_mode") not in (None, *_WIDTH):
            raise ValueError(f"partial_mode {json.dumps(entry['partial_mode'])[:100]}")
        try:
            check_kb_id(entry["kb_id"])
        except SeogaError as error:
            raise ValueError(str(error)) from None
    return content["entries"]  # type: ignore[no-any-return]


def _merge(entries: list[dict[str, Any]], new: dict[str, Any], alive: bool) -> tuple[str, int]:
    """Put a request in the queue, or into the one that waits for the same knowledge base."""
    mine = [entry for entry in entries if entry["kb_id"] == new["kb_id"]]
    running = next((entry for entry in mine if alive and entry.get("started_at")), None)
    waiting = next((entry for entry in mine if entry is not running), None)
    if waiting is None:
        if running is not None and new["deferred"] and _covers(running, new):
            return "already_running", 0
        entries.append(new)
        return "queued" if running is None else "queued_after_current", _place(entries, new)
    if _covers(waiting, new):
        return "already_queued", _place(entries, waiting)
    width = max(waiting, new, key=lambda entry: _WIDTH[entry.get("partial_mode") or ""]).get("partial_mode")
    waiting.pop("partial_mode", None)
    waiting |= {"partial_mode": width} if width else {}
    waiting["force"] = bool(waiting.get("force") or new["force"])
    waiting["deferred"] = bool(waiting.get("deferred") and new["deferred"])
    return "upgraded", _place(entries, waiting)


def _covers(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Tell whether a request that is there does all that a new one asks for, and as soon."""
    as_wide = _WIDTH[old.get("partial_mode") or ""] >= _WIDTH[new.get("partial_mode") or ""]
    return as_wide and bool(old.get("force")) >= new["force"] and bool(old.get("deferred")) <= new["deferred"]


def _place(entries: list[dict[str, Any]], entry: dict[str, Any]) -> int:
    return sum(not other.get("started_at") for other in entries[: entries.index(entry) + 1])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# --- who works through it ---


def is_alive(base: Path) -> bool:
    """Tell whether an orchestrator works through the queue: the process with that pid and start time, on this host."""
    try:
        info = json.loads((base / ORCHESTRATOR_NAME).read_text(encoding="utf-8"))
        elsewhere = info["host"] != socket.gethostname()
        return elsewhere or bool(process_start(int(info["pid"])) == info["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def start_orchestrator(base: Path) -> bool:
    """Start `exec-queue` as a process of its own, that outlives this one; False if one is alive already."""
    if is_alive(base):
        return False
    command = [sys.executable, "-P", "-m", f"{__package__}.rag", "exec-queue", "--queue-file", str(base / QUEUE_NAME)]
    names = ("DETACHED_PROCESS", "CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")  # of Windows, and 0 elsewhere
    flags = sum(getattr(subprocess, name, 0) for name in names)
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, cwd=base, creationflags=flags, start_new_session=True
    )
    threading.Thread(target=process.wait, daemon=True).start()  # or it would stay as a zombie when it ends
    return True


def work_through(queue: Queue, *, sweep_all: bool = False, say: Callable[[str], None]) -> int:
    """Index what waits, one knowledge base at a time, until nothing does; with `sweep_all` also what is `deferred`.

    Returns DONE, FAILED if something could not be done (it stays in the queue with its `last_error`), CANCELLED after
    a signal (it stays, too), LOCKED if another process works through this queue.
    """
    import filelock

    queue.base.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(queue.base / f"{ORCHESTRATOR_NAME}.held")
    try:
        lock.acquire(timeout=0 if is_alive(queue.base) else LEAVING_SECONDS)
    except filelock.Timeout:
        say("Another process works through this queue.")
        return LOCKED
    try:
        return _Orchestrator(queue, sweep_all, say).run()
    finally:
        lock.release()


class _Orchestrator:
    """Works through the queue. Only the process that holds the lock makes one."""

    def __init__(self, queue: Queue, sweep_all: bool, say: Callable[[str], None]) -> None:
        self.queue = queue
        self.sweep_all = sweep_all
        self.say = say
        self.tried: dict[str, float] = {}  # kb_id -> when it may be tried again; never, if it failed
        self.failed = False
        self.signalled = False

    def run(self) -> int:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name) and threading.current_thread() is threading.main_thread():
                signal.signal(getattr(signal, name), self._signal)
        try:
            self.queue.change(self._take_over)
            while not self.signalled and (entry := self.queue.change(self._claim)):
                if "kb_id" in entry:
                    self._work(entry)
                else:
                    time.sleep(POLL_SECONDS)
        finally:
            self.queue.change(self._leave)
        return CANCELLED if self.signalled else FAILED if self.failed else DONE

    def _signal(self, number: int, frame: object) -> None:
        self.signalled = True

    def _take_over(self, entries: list[dict[str, Any]]) -> None:
        """Sign in; what an orchestrator that died left as running waits again."""
        me = {"pid": os.getpid(), "started": process_start(os.getpid()), "host": socket.gethostname()}
        write_atomically(self.queue.base / ORCHESTRATOR_NAME, json.dumps(me).encode())
        for entry in entries:
            entry.pop("started_at", None)

    def _leave(self, entries: list[dict[str, Any]]) -> None:
        """Sign out, under the queue's lock: whoever adds an entry later sees that nobody is there to take it."""
        for entry in entries:
            entry.pop("started_at", None)
        (self.queue.base / ORCHESTRATOR_NAME).unlink(missing_ok=True)

    def _claim(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Mark the next entry as running and return it; {"wait": …} if one may be tried later, {} if none is left.

        With the last one goes the name of who works here: an entry that is added after this starts another process.
        """
        now = time.monotonic()
        open_ = [
            entry
            for entry in entries
            if (self.sweep_all or not entry.get("deferred")) and self.tried.get(entry["kb_id"], 0) != float("inf")
        ]
        for entry in open_:
            if self.tried.get(entry["kb_id"], 0) <= now:
                entry["started_at"] = _now()
                return dict(entry)
        if not open_:
            self._leave(entries)
        return {"wait": True} if open_ else {}

    def _work(self, entry: dict[str, Any]) -> None:
        kb_id = entry["kb_id"]
        if not (self.queue.base / kb_id / CONFIG_NAME).is_file():
            self.say(f"{kb_id}: no such knowledge base; it is taken out of the queue.")
            self._finish(entry, None)
            return
        self.say(f"{kb_id}: indexing.")
        code, fault = self._exec(entry)
        self.say(f"{kb_id}: {_TOLD.get(code, f'failed. {fault}')}")
        if code == LOCKED:
            self.tried[kb_id] = time.monotonic() + BUSY_SECONDS
        elif code not in (DONE, CANCELLED):
            self.tried[kb_id] = float("inf")
            self.failed = True
        self._finish(entry, None if code == DONE else _TOLD.get(code) or fault, deferred=code == CANCELLED)

    def _exec(self, entry: dict[str, Any]) -> tuple[int, str]:
        """Have a child index one knowledge base; return its exit code, and what it said if that isn't a good one.

        A child that got through is DONE, though some documents failed: their reasons are kept in the index.
        """
        folder = self.queue.base / entry["kb_id"]
        command = [sys.executable, "-P", "-m", f"{__package__}.rag", "exec", "--path", str(folder), "--json"]
        command += ["--force"] if entry.get("force") else []
        command += ["--partial", entry["partial_mode"]] if entry.get("partial_mode") else []
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # a pipe would die with us
            try:
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
            except OSError as error:
                return FAILED, f"no process starts: {error.strerror}"
            while not _has_ended(child):
                if self.signalled or not self._is_wanted(entry):
                    (folder / "cancel").touch()  # again and again: a run that just begins forgets an earlier request
            output.seek(0)
            got_through = child.returncode == FAILED and output.read(1) == b"{"
            errors.seek(max(errors.seek(0, os.SEEK_END) - MAX_SAID_BYTES, 0))
            return DONE if got_through else child.returncode, " ".join(errors.read().decode(errors="replace").split())

    def _is_wanted(self, entry: dict[str, Any]) -> bool:
        return any(_same(entry, other) for other in self.queue.entries())

    def _finish(self, done: dict[str, Any], fault: str | None, *, deferred: bool = False) -> None:
        """Take an entry out, or, if its work was not done, let it wait with the reason; a cancelled one is deferred."""

        def edit(entries: list[dict[str, Any]]) -> None:
            entry = next((entry for entry in entries if _same(entry, done)), None)
            if entry is None:  # cancelled
                return
            if fault is None:
                entries.remove(entry)
                return
            entry.pop("started_at", None)
            entry |= {"last_error": scrub(fault), "deferred": bool(entry.get("deferred") or deferred)}

        self.queue.change(edit)


_TOLD = {DONE: "done.", CANCELLED: "cancelled; it stays in the queue.", LOCKED: "another process is indexing it."}


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for a process; tell whether it has ended."""
    try:
        child.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("kb_id", "scheduled_at", "started_at"))


# --- orphans ---

RECENT_SECONDS = 30.0  # a host program that is just making a knowledge base may write its config.json last


def prune_orphans(base: Path) -> dict[str, int]:
    """Remove the knowledge bases under `base` whose `config.json` is gone; log what fails, raise nothing.

    Returns `{scanned, orphans_found, cleaned, failed}`: folders looked at, those that nobody owns, those removed, and
    those that could not be looked at or not be removed whole (the next call tries again).
    """
    counts = {"scanned": 0, "orphans_found": 0, "cleaned": 0, "failed": 0}
    try:
        folders = sorted(entry.path for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return counts
    except OSError as error:
        log.warning("can't list %s: %s", scrub(str(base)), error.strerror)
        return {**counts, "failed": 1}
    for folder in folders:
        for outcome in ("scanned", *_prune(folder)):
            counts[outcome] += 1
    return counts


def _prune(folder: str) -> list[str]:
    """Remove one folder if it is an orphan; return what to count."""
    import filelock  # here: a server that starts doesn't wait for it

    outcomes: list[str] = []
    try:
        if not _is_orphan(folder) or _changed_lately(folder):
            return outcomes
        lock = filelock.FileLock(os.path.join(folder, LOCK_NAME))
        with lock.acquire(blocking=False):
            if not _is_orphan(folder):  # it got its config.json back while we looked
                return outcomes
            outcomes.append("orphans_found")
            _empty(folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock.lock_file)
        os.rmdir(folder)  # refuses if anything was put there meanwhile
        outcomes.append("cleaned")
        log.info("removed %s, which has no %s", scrub(folder), CONFIG_NAME)
    except filelock.Timeout:
        log.info("kept %s: its indexer is running", scrub(folder))
    except OSError as error:
        outcomes.append("failed")
        log.warning("can't remove %s: %s", scrub(folder), scrub(str(error)))
    return outcomes


def _is_orphan(folder: str) -> bool:
    name = os.path.basename(folder)
    if name.startswith((".", "_")) or "-backup-" in name:
        return False
    names = os.listdir(folder)
    return CONFIG_NAME not in names and any(_is_database(name) for name in names)


def _is_database(name: str) -> bool:
    return name == DATABASE_NAME or name.startswith(f"{DATABASE_NAME}-")  # -wal, -shm, -journal


def _changed_lately(folder: str) -> bool:
    """Tell whether the folder or anything in it changed just now, or in the future (of a clock that jumped)."""
    return max(_mtimes(folder)) > time.time() - RECENT_SECONDS


def _mtimes(folder: str) -> Iterator[float]:
    yield os.lstat(folder).st_mtime
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _mtimes(entry.path)
        else:
            yield entry.stat(follow_symlinks=False).st_mtime


def _empty(folder: str) -> None:
    """Delete what is in the folder now, but its lock; the database last, since the next call knows the folder by it."""
    for entry in sorted(os.scandir(folder), key=lambda entry: (_is_database(entry.name), entry.name)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != LOCK_NAME:
            os.unlink(entry.path)
