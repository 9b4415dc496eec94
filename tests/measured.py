"""Measures what each document costs the indexer's children: seconds and memory. Nothing here is a test.

    with measuring() as costs:
        run(config)
    costs["/docs/a.pdf"] -> Cost(seconds=0.2, peak=90_000_000, limit=671_088_640)

Seconds are those between a child's answers, its start included. Memory is the child's peak resident set: exact on
Linux, elsewhere sampled each SAMPLE_SECONDS. Programs that it starts (Tesseract) have the same limit, each their own.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from seoga import reading
from seoga.config import Config
from seoga.store import FAILED, NEEDS_ACTION, FileRecord

SLACK_BYTES = 128 * 1024 * 1024  # the program itself; reading.py allows as much
SAMPLE_SECONDS = 0.02
EMPTY = "no text was found in it"
DIED = ("crashed the program", "took too long", "needs more than")  # of a child that ended while it read


@dataclass(slots=True)
class Cost:
    seconds: float = 0.0
    peak: int = 0  # bytes beyond nothing: the whole resident set
    limit: int = 0  # what the child may hold


class Measured(reading.Child):
    """A child that is timed and weighed with each document it reads."""

    costs: dict[str, Cost] = {}  # noqa: RUF012 - of the run at hand, by path
    all: list[Measured] = []  # noqa: RUF012

    def __init__(self, folder: str, speech: threading.Lock) -> None:
        super().__init__(folder, speech)
        self.path = ""
        self.all.append(self)

    def read(self, requests: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        waiting = list(requests)
        began = self.next(waiting)
        for path, answer in super().read(requests):
            if "status" not in answer:
                yield path, answer
                continue
            self.weigh()
            self.costs[path].seconds = time.monotonic() - began
            waiting.pop(0)
            self.path = ""
            yield path, answer
            began = self.next(waiting)

    def next(self, waiting: list[dict[str, Any]]) -> float:
        if waiting:
            self.path = waiting[0]["path"]
            self.costs[self.path] = Cost(limit=waiting[0]["memory"] + SLACK_BYTES)
            if self._process:
                with suppress(OSError):
                    Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")  # the peak begins anew
        return time.monotonic()

    def weigh(self) -> None:
        process, path = self._process, self.path
        if process and path:
            self.costs[path].peak = max(self.costs[path].peak, peak_of(process.pid))


def peak_of(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    except OSError:
        with suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
        return 0


@contextmanager
def measuring() -> Iterator[dict[str, Cost]]:
    """Have the indexer's children measured; gives path -> cost."""
    over, child = threading.Event(), reading.Child
    Measured.costs, Measured.all = {}, []

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            for one in list(Measured.all):
                one.weigh()

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    reading.Child = Measured  # type: ignore[misc]
    try:
        yield Measured.costs
    finally:
        reading.Child = child  # type: ignore[misc]
        over.set()
        sampler.join()


def status_of(record: FileRecord) -> str:
    if record.state in (FAILED, NEEDS_ACTION):
        return "failed" if record.state == FAILED else "needs_action"
    return "empty" if record.reason == EMPTY else "partial" if record.reason else "ok"


def left_behind(config: Config) -> list[str]:
    """Name the processes and temporary files that a run left."""
    started = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]
    started = [command for command in started if "seoga.reading" in command or "tesseract" in command]
    return started + [str(path) for path in [config.folder / "reading"] if path.exists()]
