"""Look after the folders under a base that no running indexer looks after.

For now that is one operation: `prune_orphans` removes knowledge bases whose `config.json` was deleted, which is how a
person or a host program deletes one. Whatever could be something else stays:

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
    import logging
    import os
    import shutil
    import time
    from collections.abc import Iterator
    from pathlib import Path

    from .config import CONFIG_NAME, DATABASE_NAME, scrub
    from .store import LOCK_NAME

    log = logging.getLogger(__name__)

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
