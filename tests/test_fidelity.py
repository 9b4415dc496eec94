"""bench/fidelity.py: documents with known words keep them all the way into the chunks, and the measure can tell."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seoga.parsers import SUFFIXES

BENCH = str(Path(__file__).parents[1] / "bench")


@pytest.fixture(scope="module")
def fidelity() -> Iterator[ModuleType]:
    """Import the bench, which belongs to no package."""
    sys.path.insert(0, BENCH)
    with warnings.catch_warnings(action="ignore"):
        yield importlib.import_module("fidelity")
    sys.path.remove(BENCH)


SUFFIX = """.csv .docx .eml .epub .html .hwp .hwpx .json .md .odt .pdf .pptx .rtf .srt .tsv .txt .vtt .xlsx""".split()  # noqa: SIM905


@pytest.mark.parametrize("suffix", SUFFIX)
def test_generated_documents_keep_their_words_and_their_order(fidelity: Any, suffix: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # of the libraries that make the documents
        (sums,) = fidelity.generated(2, [suffix])
    assert sums.wanted > 90
    assert len(sums.lost) <= 0.001 * sums.wanted, sums.lost
    assert sums.order >= 0.99
    assert not sums.forbidden
    assert not sums.doubled
    assert not sums.faults


def test_every_format_with_text_of_its_own_is_measured() -> None:
    recognised = {".jpeg", ".jpg", ".png", ".tif", ".tiff", ".flac", ".m4a", ".mp3", ".ogg", ".wav", ".webm"}
    aliases = {".htm", ".xhtml", ".markdown", ".jsonl", ".mht", ".mhtml"}  # read by the same code
    assert SUFFIXES - recognised - aliases <= set(SUFFIX)


def test_words_that_are_lost_doubled_moved_or_forbidden_are_told(fidelity: Any) -> None:
    told = fidelity.Told("x", 0)
    first, second, third, fourth, gone = told("«a*1»|«b*1»|«c*1»|«d*1»|«-deleted*1»").split("|")
    figures = fidelity.Figures("x")
    fidelity.compare(figures, told, fidelity.tokens(f"{fourth} {third} {first} {first} {gone} else"))
    assert [structure for structure, _ in figures.lost] == ["b"]
    assert (figures.found, figures.order) == (3, 0.5)
    assert [structure for structure, _ in figures.doubled] == ["a"]
    assert [structure for structure, _ in figures.forbidden] == ["deleted"]
    assert figures.added == {"else": 1}
    assert len({first, second, third, fourth}) == 4


def test_a_file_that_another_program_reads_and_we_do_not_is_flagged(fidelity: Any) -> None:
    empty = {"status": "ok", "partial": [], "chunks": []}
    row = fidelity.against(Path("a.pdf"), empty, ["회의", "예산"])
    assert (row["status"], row["recall"], row["lost"]) == ("SILENTLY EMPTY", 0.0, {"회의": 1, "예산": 1})
    chunk = ("회의 예산 x", 0, 7, "", "")
    row = fidelity.against(Path("a.pdf"), empty | {"chunks": [chunk]}, ["회", "의", "예산"])
    assert (row["status"], row["recall"], row["lost"]) == ("ok", 1.0, {})
