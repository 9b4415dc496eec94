"""Notice changes in the source folders, and ask for what changed to be indexed.

    file events --> quiet for 2 s, or 30 s at most --> enqueue(kb_id)
    no events there (network drives, too many folders) --> a comparison by size and time every few minutes

Knowledge bases that are made, changed or removed meanwhile are noticed within seconds. What is indexed, and whether a
vanished folder counts as deleted, is for the run to decide. This file reads no document and no index but for comparing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from .config import Config, SeogaError, readable_configs, scrub
from .index import IGNORED_FOLDERS, compare
from .parsers import SUFFIXES
from .store import Store

log = logging.getLogger(__name__)

QUIET_SECONDS = 2.0  # without an event before a change is taken as over
LONGEST_SECONDS = 30.0  # that changes which never stop are waited out
REFRESH_SECONDS = 5.0  # between looks at the knowledge bases
POLL_SECONDS = 300.0  # between comparisons, where no events come
START_SECONDS = 2.0  # a server that starts answers its client first
TICK_SECONDS = 0.25
NETWORK = ("nfs", "cifs", "smb", "afp", "9p", "sshfs", "webdav", "davfs", "vboxsf", "drvfs", "fuse.")  # no events there
_CHANGES = frozenset({"created", "modified", "moved", "deleted"})


class Watcher:
    """Watches the sources of all knowledge bases under a base folder, in a thread of its own."""

    def __init__(self, base: Path, enqueue: Callable[[str], object]) -> None:
        self._base = base
        self._enqueue = enqueue
        self._observer: Any = None
        self._watches: dict[str, Any] = {}  # source -> watch; None: compared now and then
        self._owners: dict[str, set[str]] = {}  # source -> kb_ids
        self._changed: dict[str, tuple[float, float]] = {}  # kb_id -> monotonic times of the first and last event
        self._compared: dict[str, float] = {}  # kb_id -> monotonic time
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seoga-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_watching(self, source: str) -> bool:
        """Tell whether events of this source are waited for."""
        return self._watches.get(source) is not None

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        if self._over.wait(START_SECONDS):
            return
        from watchdog.observers import Observer

        self._observer = Observer()
        self._observer.start()
        refreshed = -REFRESH_SECONDS
        while not self._over.wait(TICK_SECONDS):
            try:
                if time.monotonic() - refreshed >= REFRESH_SECONDS:
                    refreshed = time.monotonic()
                    self._refresh()
                for kb_id in self._due():
                    self._enqueue(kb_id)
            except Exception:
                log.exception("watching goes on after a fault")
        self._observer.stop()
        self._observer.join()

    def _refresh(self) -> None:
        """Begin to watch sources that are new or back, end with those that are gone, compare where no events come."""
        configs = {config.id: config for config in readable_configs(self._base)[0]}
        owners: dict[str, set[str]] = {}
        for kb_id, source in ((kb_id, source) for kb_id, config in configs.items() for source in config.sources):
            if os.path.isdir(source):
                owners.setdefault(source, set()).add(kb_id)
        before, self._owners = self._owners, owners
        for source in before.keys() - owners.keys():
            watch = self._watches.pop(source)
            if watch is not None:
                self._observer.unschedule(watch)
            self._note(before[source] & configs.keys())
        for source in sorted(owners.keys() - before.keys()):
            self._watches[source] = self._schedule(source)
        now = time.monotonic()
        for source, kb_ids in owners.items():
            for kb_id in kb_ids - before.get(source, set()) if self._watches[source] else kb_ids:
                # What is new here may have changed before: it is compared once.
                if now - self._compared.get(kb_id, -POLL_SECONDS) >= POLL_SECONDS:
                    self._compared[kb_id] = now
                    self._note({kb_id} if _differs(configs[kb_id]) else set())

    def _schedule(self, source: str) -> Any:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler

        class Handler(FileSystemEventHandler):
            def on_any_event(_, event: FileSystemEvent) -> None:
                if _matters(event, source):
                    self._note(self._owners.get(source, set()))

        if _is_remote(source):
            return None
        try:
            return self._observer.schedule(Handler(), source, recursive=True)
        except OSError as error:  # no more watches (Linux: fs.inotify.max_user_watches), or the folder just went
            log.warning("%s can't be watched (%s): it is compared now and then", scrub(source), error.strerror or error)
            return None

    def _note(self, kb_ids: set[str]) -> None:
        now = time.monotonic()
        with self._turn:
            for kb_id in kb_ids:
                self._changed[kb_id] = (self._changed.get(kb_id, (now, now))[0], now)

    def _due(self) -> list[str]:
        now = time.monotonic()
        with self._turn:
            due = [
                kb_id
                for kb_id, (first, last) in self._changed.items()
                if now - last >= QUIET_SECONDS or now - first >= LONGEST_SECONDS
            ]
            for kb_id in due:
                del self._changed[kb_id]
        return due


def _matters(event: Any, source: str) -> bool:
    """Tell whether an event may change the index: of a document, or of a folder that came, went or moved."""
    if event.event_type not in _CHANGES or (event.is_directory and event.event_type == "modified"):
        return False
    paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
    return any(_is_indexed(os.path.relpath(path, source), event.is_directory) for path in paths)


def _is_indexed(relative: str, is_folder: bool) -> bool:
    parts = Path(relative).parts
    if any(part.startswith(".") or part in IGNORED_FOLDERS for part in parts):
        return False
    return is_folder or os.path.splitext(relative)[1].casefold() in SUFFIXES


def _is_remote(folder: str) -> bool:
    """Tell whether a folder lies on another machine, whose changes come without events."""
    import psutil

    mounts = [(mount.mountpoint, mount.fstype.casefold()) for mount in psutil.disk_partitions(all=True)]
    inside = [mount for mount in mounts if folder == mount[0] or folder.startswith(mount[0].rstrip(os.sep) + os.sep)]
    kind = max(inside, key=lambda mount: len(mount[0]))[1] if inside else ""
    return folder.startswith("\\\\") or kind.startswith(NETWORK)


def _differs(config: Config) -> bool:
    try:
        with closing(Store.open_reader(config.database)) as store:
            records = store.files()
    except SeogaError:
        return False  # it was not indexed yet: whoever made it asks for that
    paths = compare(config, records).paths
    return any(paths[kind] for kind in ("added", "modified", "deleted"))
