"""Hostile, broken and ordinary documents through the real indexer: each its status, in time and memory, none hangs."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from seoga.config import Config, new_config
from seoga.index import Outcome, run
from seoga.parsers import SUFFIXES
from seoga.store import FileRecord, Store

_path = Path(__file__).resolve().parent.parent / "bench" / "fuzz.py"
_spec = importlib.util.spec_from_file_location("fuzz", _path)
assert _spec is not None
assert _spec.loader is not None
fuzz = importlib.util.module_from_spec(_spec)
sys.modules["fuzz"] = fuzz  # its dataclasses look themselves up
_spec.loader.exec_module(fuzz)
hostile, ordinary, measured, speech = map(fuzz.helper, ("hostile", "ordinary", "measured", "speech"))

MUTANTS = 300
MAX_SECONDS = 40.0  # for one file: 30, and 10 for what else the machine does
SENTENCE = "On Monday the committee counted seven hundred books in the library."
SPOKEN = {
    f"spoken.{suffix}": lambda suffix=suffix: hostile.sound(suffix, speech.say(SENTENCE)) for suffix in hostile.SOUNDS
}
ORDINARY = ordinary.DOCUMENTS | SPOKEN
FAULTS: dict[str, str] = {}  # that are known, each to be mended
# Read by the same code:
ALIKE = {
    ".htm": ".html",
    ".xhtml": ".html",
    ".markdown": ".md",
    ".jsonl": ".json",
    ".tsv": ".csv",
    ".mht": ".eml",
    ".mhtml": ".eml",
}
LEAKS = re.compile(r"root:x:0:0|lollollollol|x{100_000}")  # of a file outside, of entities


@dataclass
class Indexed:
    """A folder of documents that was indexed, and what it cost."""

    config: Config
    outcome: Outcome
    files: dict[str, FileRecord]  # by the file's name
    costs: dict[str, Any]
    faults: list[str]  # of the index, and what was left behind
    leaks: list[str]  # names of files whose text holds what it must not


def index(folder: Path, documents: dict[str, Callable[[], bytes]]) -> Indexed:
    docs = folder / "docs"
    docs.mkdir()
    for name, make in documents.items():
        (docs / name).write_bytes(make())
    audio = {"model": str(speech.whisper("tiny.en"))}
    config = new_config(folder / "base", [str(docs)], kb_id="kb", audio=audio)
    with measured.measuring() as costs:
        outcome = run(config)
    with closing(Store.open_writer(config.database)) as store:
        faults = store.check() + measured.left_behind(config)
        records = store.files()
        leaks = [path for path in records if any(LEAKS.search(chunk.text) for chunk in store.chunks_of_file(path))]
    files = {os.path.basename(path): record for path, record in records.items()}
    return Indexed(
        config, outcome, files, {os.path.basename(path): cost for path, cost in costs.items()}, faults, leaks
    )


def indexed_once(factory: pytest.TempPathFactory, name: str, documents: dict[str, Callable[[], bytes]]) -> Indexed:
    """Index the documents in the first of the processes that share the tests (`-n 2`); the others take its results."""
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    folder.mkdir(exist_ok=True)
    results = folder / "results"
    with FileLock(folder / "lock"):
        if not results.exists():
            (folder / "run").mkdir()
            results.write_bytes(pickle.dumps(index(folder / "run", documents)))
        indexed: Indexed = pickle.loads(results.read_bytes())
        return indexed


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    return indexed_once(tmp_path_factory, "hostile", {name: case.make for name, case in hostile.CASES.items()})


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    return indexed_once(tmp_path_factory, "ordinary", ORDINARY)


def shown(name: str) -> str:
    return ascii(name[:60])


# --- hostile and broken ---


def test_there_are_hostile_cases_of_every_format() -> None:
    suffixes = {os.path.splitext(name)[1] for name in hostile.CASES}
    assert {ALIKE.get(suffix, suffix) for suffix in SUFFIXES} <= suffixes <= SUFFIXES
    assert len(hostile.CASES) >= 150


def with_faults(names: Iterable[str]) -> list[Any]:
    marks = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in FAULTS.items()}
    return [pytest.param(name, id=shown(name), marks=marks.get(name, [])) for name in names]


@pytest.mark.parametrize("name", with_faults(hostile.CASES))
def test_a_hostile_file_gets_its_status_in_time_and_memory(attacked: Indexed, name: str) -> None:
    case, record = hostile.CASES[name], attacked.files[name]
    status, cost = measured.status_of(record), attacked.costs[name]
    assert status in case.statuses, record.reason
    if status not in ("ok", "empty"):
        assert re.search(case.reason, record.reason), record.reason
    assert not record.reason.startswith("took too long"), record.reason
    assert cost.seconds < MAX_SECONDS
    assert cost.peak <= cost.limit


def test_a_run_over_hostile_files_ends_with_a_sound_index_and_leaves_nothing(attacked: Indexed) -> None:
    assert attacked.outcome.status == "done"
    assert attacked.faults == []
    assert set(attacked.files) == set(hostile.CASES)
    folder = attacked.config.folder.parent.parent
    assert sorted(path.name for path in folder.iterdir()) == ["base", "docs"]  # no name in a zip led anywhere
    assert sorted(path.name for path in attacked.config.folder.iterdir() if path.is_dir()) == []


def test_no_entity_or_reference_brings_in_what_is_not_in_the_file(attacked: Indexed) -> None:
    assert attacked.leaks == []


def test_hostile_files_are_not_read_again_until_they_change(attacked: Indexed) -> None:
    with measured.measuring() as costs:
        outcome = run(attacked.config)
    assert costs == {}
    assert outcome.counts["unchanged"] == len(hostile.CASES)


# --- ordinary ---


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_document_is_read_whole_without_a_false_alarm(office: Indexed, name: str) -> None:
    record = office.files[name]
    assert measured.status_of(record) == "ok", record.reason
    assert office.costs[name].seconds < MAX_SECONDS


def test_ordinary_documents_leave_a_sound_index(office: Indexed) -> None:
    assert office.faults == []
    assert len(ORDINARY) >= 60


# --- mutants ---


@pytest.fixture
def mutants(tmp_path: Path) -> dict[str, Any]:
    assert set(ordinary.SMALL) == SUFFIXES
    counts = dict.fromkeys(sorted(SUFFIXES), -(-MUTANTS // len(SUFFIXES)))
    tallies: dict[str, Any] = fuzz.fuzz(
        counts, 7, tmp_path, say=lambda line: None, speech=str(speech.whisper("tiny.en"))
    )
    return tallies


def test_mutants_of_every_format_neither_hang_nor_kill_the_indexer(mutants: dict[str, Any]) -> None:
    assert [fault for tally in mutants.values() for fault in tally.faults] == []
    assert sum(sum(tally.statuses.values()) for tally in mutants.values()) >= MUTANTS


def test_a_mutant_is_the_same_each_time() -> None:
    good = ordinary.SMALL[".docx"]()
    assert good == ordinary.SMALL[".docx"]()
    assert fuzz.mutant(".docx", good, "docx-1-42") == fuzz.mutant(".docx", good, "docx-1-42") != good
