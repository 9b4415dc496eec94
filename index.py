"""Bring a knowledge base up to date with its source folders.

    scan --> what changed --> read (reading.py's child processes) --> commit in small groups --> purge what is gone

A file is skipped by size and times, then by content. Killing the run at any moment leaves a consistent index; the next
run goes on from there. This file neither parses nor searches.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

from .chunks import Chunk, count_words
from .config import CONFIG_NAME, Config, SeogaError, display_path, scrub
from .parsers import PICTURES, STREAMED, SUFFIXES
from .reading import Readers, engine_state, is_current, make_request, read_bytes, recipe, weigh
from .store import (
    DEFERRED,
    FAILED,
    INDEXED,
    NEEDS_ACTION,
    PENDING_EMBEDDING,
    RECOGNITION,
    DamagedError,
    DocumentRecord,
    FileRecord,
    Stat,
    Store,
    StoredChunk,
    StoreError,
    write_indexer,
    writer_lock,
)

GROUP_CHARS = 2_000_000  # text gathered before a commit; a cancelled run still does that, in half a second
GROUP_SECONDS = 2.0  # and the longest that a finished file waits for one
READER_SECONDS = 60.0  # to wait for a program that keeps an old state of the index open
PURGE_FILES = 200  # forgotten at a time
SLOWEST = 2  # rank of recordings among files to read
SUDDEN_LOSS = 5  # files: when as many and more than half of a source are gone, purging needs --force

OWN_FOLDER = "seoga's own folder"
MISSING = "not found where it was, and kept; "  # begins the reason of a file, which `--force` would forget
IN_THE_CLOUD = "kept in the cloud, not on this machine"
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


def _slowness(path: str) -> int:
    """Rank files by how long they take to read: what is quick can be searched first."""
    suffix = os.path.splitext(path)[1].casefold()
    return SLOWEST if suffix in STREAMED else 1 if suffix in PICTURES else 0


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
        elif record.state == DEFERRED or not is_current(record.key, config, path):
            paths["pending"].append(path)
    paths["deleted"] = [path for path in records if path not in found.files]
    return Difference(paths, [f"{display_path(folder)} {reason}" for folder, reason in found.unlisted.items()])


def _differs(record: FileRecord, stat: Stat) -> bool:
    """Tell whether a file differs from what was indexed. Only its ctime may have moved: then its content decides."""
    if record.stat[:2] != stat[:2]:
        return True
    try:
        return not record.key.startswith(sha256(read_bytes(record.path)).hexdigest())
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
    within: tuple[float, float, str] | None = None  # of a long file: pages or seconds done, in all (0: unknown), unit
    started: float = field(default_factory=time.time)

    @property
    def where(self) -> str:
        """Say how far a long file is: `page 12 of 500`, `00:14:05 of 02:00:00`."""
        if self.within is None:
            return ""
        done, total, unit = self.within
        if unit == "seconds":
            return f"{_clock(done)} of {_clock(total)}" if total else _clock(done)
        return f"{unit.removesuffix('s')} {done:,.0f} of {total:,.0f}"

    def as_dict(self) -> dict[str, Any]:
        seconds = max(time.time() - self.started, 0.001)
        rate = self.done / seconds
        remaining = round((self.total - self.done) / rate, 1) if self.done else None
        return {
            "stage": self.stage, "file": self.file, "unit": self.unit, "done": self.done, "total": self.total,
            "per_second": round(rate, 1), "remaining_seconds": remaining,
            "within_file": self.where,
        }  # fmt: skip


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


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
            store.forget_recognized()
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
            work = _Run(
                config,
                store,
                stop,
                lambda progress: None,
                force,
                scan=found,
                before=store.files(),
                temporary=Path(folder) / "reading",
            )
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
    temporary: Path | None = None  # folder for the children's temporary files, if not within the knowledge base

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
        self._bring_speech_model()
        todo = sorted(filter(self._changed, self.scan.files), key=_slowness)
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

    def _bring_speech_model(self) -> None:
        """Download what transcribes recordings, if there are any; without it they stay, with the remedy as reason."""
        if self.stop.requested() or not any(_slowness(path) == SLOWEST for path in self.scan.files):
            return
        from .audio import bring_model, find_model

        if find_model(self.config.audio.model):
            return

        def report(name: str, done: int, total: int) -> None:
            self._say_chunks(f"downloading {name}", done // 1024**2, total // 1024**2)

        try:
            bring_model(self.config.audio.model, report, self.stop.requested)
        except SeogaError as error:
            self.outcome.warnings.append(str(error))
        engine_state.cache_clear()
        self.progress = Progress(stage="")

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
        return not is_current(record.key, self.config, path)

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
        with closing(self._readers().read_all(map(self._request, todo))) as answers:
            for answer in answers:
                if answer is not None and "status" not in answer[1]:
                    path = self._hear(*answer)
                elif answer is not None:
                    group.append(answer)
                    chars += weigh(answer)
                    path = answer[0]
                    self.progress.done, self.progress.within = self.progress.done + 1, None
                self._say("reading", path)  # also while a long document keeps everybody waiting
                if group and (chars > GROUP_CHARS or time.monotonic() - since > GROUP_SECONDS):
                    self._commit(group)
                    group, chars = [], 0
                since = since if group else time.monotonic()
        self._commit(group)

    def _hear(self, path: str, news: dict[str, Any]) -> str:
        """Take news of a document that is being read: how far it is, or a piece of it that is to be kept."""
        if "keep" in news:
            name, value = news["keep"]
            with self.store.write():
                self.store.keep(RECOGNITION, name, value.encode("utf-8", "replace"))
        if "step" in news:
            self.progress.within = tuple(news["step"])
        return path

    def documents(self, todo: list[str], stays: set[int | None], counts: Counter[str]) -> Iterator[list[StoredChunk]]:
        """Have the files read, nothing committed; yield the chunks of each new content, then of what stays."""
        seen: set[str] = set()
        with closing(self._readers().read_all(map(self._request, todo))) as answers:
            for path, answer in filter(None, answers):
                key = answer.get("key", "")
                if "status" not in answer:
                    continue
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
        size = self.scan.files[path].size
        known = [] if self.force else self.known.get(size, [])
        return make_request(self.config, path, size, known, self.store.path)

    def _readers(self) -> Readers:
        return Readers(self.stop, self.temporary or self.config.folder / "reading")

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
        key = "unreadable" if status == "unreadable" else answer["key"] or f"unread:{recipe(self.config, path)}"
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
