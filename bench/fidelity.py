#!/usr/bin/env python3
"""Measure how much of a document's text reaches the index, and in which order.

    python bench/fidelity.py                    documents made here, whose words are known, in each format
    python bench/fidelity.py --ocr              pictures of pages, read by Tesseract
    python bench/fidelity.py --folder DIR       your own, each compared with another program that reads it

recall    share of the words that are there of those that should be
order     the longest run of words in their right order, as a share of those that were found
added     words that come twice, or that the document doesn't say

Words are compared in NFC and lower case. Looked at is what the index keeps: the chunks of each document, their
overlaps taken out. Nothing here passes or fails; tests/test_fidelity.py does.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from fidelity_corpus import MAKERS, MANY, PICTURE_MAKERS, Told, make

from seoga.chunks import Sizes, document_text, make_chunks
from seoga.config import SeogaError, new_config
from seoga.parsers import PICTURES, STREAMED, SUFFIXES, Document, parse
from seoga.reading import Readers, make_request

ALIASES = {".htm", ".jsonl", ".markdown", ".mht", ".mhtml", ".xhtml"}  # read as .html, .json, .md and .eml are
MAX_FILES = 500
PROGRAM_SECONDS = 120
_TOKEN = re.compile(r"[^\W_]+(?:[.,:-]\d+(?![^\W\d_]))*%?")
_MATH = re.compile(r"\[math:|\\[A-Za-z]+")
# Numbers of list items and notes, letters of equations, cells of comments, marks of Markdown and mail as they stand.
_OURS = re.compile(
    r"\d{1,3}|[a-z가-힣]|b2|title|tags|python|https|example|org|png|pdf|div|from|to|date|subject|mon|mar|2026|09:00:00|0900"
)


def tokens(text: str) -> list[str]:
    """`"Sum: 1,234.50 (강물0042)"` -> `["sum", "1,234.50", "강물0042"]`"""
    return _TOKEN.findall(unicodedata.normalize("NFC", _MATH.sub(" ", text)).casefold())


def in_order(positions: Sequence[int]) -> int:
    """Return the length of the longest increasing subsequence."""
    ends: list[int] = []
    for position in positions:
        at = bisect_left(ends, position)
        ends[at : at + 1] = [position]
    return len(ends)


def order(expected: Sequence[str], actual: Sequence[str]) -> float:
    """Look at words that stand once on either side."""
    once = {word for word, count in Counter(actual).items() if count == 1}
    place = {word: at for at, word in enumerate(actual) if word in once}
    mine = Counter(expected)
    positions = [place[word] for word in expected if word in place and mine[word] == 1]
    return in_order(positions) / len(positions) if positions else 1.0


def indexed(chunks: Iterable[tuple[str, int, int]]) -> str:
    """Join chunks, as (text, start, end), without the headers and overlaps that they repeat."""
    pieces, at = list[str](), 0
    for text, start, end in chunks:
        pieces.append("" if start <= at else "\n\n")
        pieces.append(text[len(text) - (end - start) :][max(at - start, 0) :])
        at = max(at, end)
    return "".join(pieces)


# --- documents made here ---


@dataclass(slots=True)
class Figures:
    """Of one document or the documents of one format."""

    name: str
    documents: int = 1
    wanted: int = 0
    found: int = 0
    order: float = 1.0
    added: Counter[str] = field(default_factory=Counter)
    lost: list[tuple[str, str]] = field(default_factory=list)  # (structure, word)
    doubled: list[tuple[str, str]] = field(default_factory=list)
    forbidden: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # not read, silently empty, partial

    @property
    def recall(self) -> float:
        return self.found / self.wanted if self.wanted else 1.0

    def row(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "documents": self.documents,
            "words": self.wanted,
            "recall": round(self.recall, 5),
            "order": round(self.order, 4),
            "added": sum(self.added.values()) + len(self.doubled),
            "forbidden": len(self.forbidden),
            "faults": self.faults,
        }


def measure(name: str, data: bytes, told: Told) -> Figures:
    figures = Figures(name)
    document, actual = Document(partial=["not read"]), list[str]()
    try:
        document = parse(data, name)
        chunks = make_chunks(document.blocks, Sizes())
        actual = tokens(indexed((chunk.text, chunk.start, chunk.end) for chunk in chunks))
        if Counter(actual) != Counter(tokens(document_text(document.blocks))):
            figures.faults.append(f"{name}: the chunks hold other words than the document")
    except SeogaError as error:
        figures.faults.append(f"{name}: {error}")
    figures.faults += [f"{name}: {note}" for note in document.partial]
    if not actual and document.status != "partial":
        figures.faults.append(f"{name}: silently empty")
    compare(figures, told, actual)
    return figures


def compare(figures: Figures, told: Told, actual: list[str]) -> None:
    left = Counter(actual)
    flows: dict[str, list[str]] = defaultdict(list)
    for word in told.words:
        text = unicodedata.normalize("NFC", word.text).casefold()
        if word.wanted is False:
            figures.forbidden += [(word.structure, text)] * (left.pop(text, 0) > 0)
        elif word.wanted is None:
            left.pop(text, None)
        else:
            figures.wanted += 1
            figures.found += left[text] > 0
            if left[text] == 0:
                figures.lost.append((word.structure, text))
            left[text] -= 1
            if word.structure in MANY:
                left.pop(text)
            flows[word.flow].append(text)
    structures = {word.text.casefold(): word.structure for word in told.words}
    for text, count in left.items():
        if count > 0 and text in structures:
            figures.doubled.append((structures[text], text))
        elif count > 0 and not _OURS.fullmatch(text):
            figures.added[text] += count
    figures.order = min((order(flow, actual) for flow in flows.values()), default=1.0)


def generated(count: int, suffixes: Iterable[str]) -> list[Figures]:
    """Measure `count` documents of each format, summed by format."""
    sums = []
    for suffix in suffixes:
        total = Figures(suffix, 0)
        for number in range(count):
            one = measure(*make(suffix, number))
            total.documents += 1
            total.wanted, total.found, total.added = (
                total.wanted + one.wanted,
                total.found + one.found,
                total.added + one.added,
            )
            total.order = min(total.order, one.order)
            for name in ("lost", "doubled", "forbidden", "faults"):
                getattr(total, name).extend(getattr(one, name))
        sums.append(total)
    return sums


def losses(sums: Sequence[Figures]) -> list[dict[str, Any]]:
    """Count what is lost, doubled or wrongly there, by format and structure."""
    rows = []
    for total in sums:
        for what in ("lost", "doubled", "forbidden"):
            counted: dict[str, list[str]] = defaultdict(list)
            for structure, word in getattr(total, what):
                counted[structure].append(word)
            rows += [
                {"format": total.name, "structure": structure, "what": what, "words": len(words), "such as": words[0]}
                for structure, words in counted.items()
            ]
    return sorted(rows, key=lambda row: -row["words"])


# --- a folder of the user's ---


def run(*command: str) -> str:
    """Run another program; raise RuntimeError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROGRAM_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"{command[0]} failed: {error}"[:200]) from None
    return done.stdout.decode("utf-8", "replace")


def by_pdftotext(path: Path, _: Path) -> str:
    return run("pdftotext", "-q", "-enc", "UTF-8", str(path), "-")


def by_office(path: Path, folder: Path, form: str = "txt:Text (encoded):UTF8") -> str:
    """Have LibreOffice convert a file, with a profile of its own: it may be open beside this."""
    target = Path(tempfile.mkdtemp(dir=folder))
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    run("soffice", profile, "--headless", "--convert-to", form, "--outdir", str(target), str(path))
    made = sorted(target.iterdir())
    if not made:
        raise RuntimeError("soffice gave nothing")
    return "\n".join(by_pdftotext(file, folder) if form == "pdf" else file.read_text("utf-8-sig") for file in made)


def by_calc(path: Path, folder: Path) -> str:
    return by_office(path, folder, "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1")


def by_impress(path: Path, folder: Path) -> str:
    return by_office(path, folder, "pdf")


def by_w3m(path: Path, _: Path) -> str:
    return run("w3m", "-dump", "-cols", "500", "-T", "text/html", "-O", "UTF-8", str(path))


def by_pandoc(path: Path, _: Path) -> str:
    return run("pandoc", "--to", "plain", "--wrap", "none", str(path))


def by_hwp5txt(path: Path, _: Path) -> str:
    return run("hwp5txt", str(path))


def as_it_is(path: Path, _: Path) -> str:
    data = path.read_bytes()
    for encoding in ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "cp949"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    raise RuntimeError("neither UTF-8, UTF-16 nor CP949")


Oracle = tuple[str, str, Callable[[Path, Path], str]]  # program, how to get it, what asks it
_WRITER: Oracle = ("soffice", "apt-get install libreoffice-writer-nogui", by_office)
_WEB: Oracle = ("w3m", "apt-get install w3m", by_w3m)
_TEXT: Oracle = ("", "", as_it_is)
ORACLES: dict[str, Oracle] = {
    ".pdf": ("pdftotext", "apt-get install poppler-utils", by_pdftotext),
    ".xlsx": ("soffice", "apt-get install libreoffice-calc-nogui", by_calc),
    ".pptx": ("soffice", "apt-get install libreoffice-impress-nogui", by_impress),
    ".epub": ("pandoc", "apt-get install pandoc", by_pandoc),
    ".hwp": ("hwp5txt", "pip install pyhwp", by_hwp5txt),
    **dict.fromkeys((".docx", ".odt", ".rtf"), _WRITER),
    **dict.fromkeys((".html", ".htm"), _WEB),
    **dict.fromkeys((".txt", ".md", ".csv", ".tsv"), _TEXT),
}


def readings(paths: Sequence[Path], folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Read files as `seoga exec` does: in a child process with limits."""
    config = new_config(folder / "base", [str(folder)], name="fidelity", embedding={})
    requests = (make_request(config, str(path), path.stat().st_size, [], None) for path in paths)
    for answer in Readers(Never(), folder / "reading").read_all(requests):
        if answer is not None and "status" in answer[1]:
            yield Path(answer[0]), answer[1]


class Never:
    def requested(self) -> bool:
        return False


def against(path: Path, answer: dict[str, Any], oracle: list[str]) -> dict[str, Any]:
    """Compare what we read with what another program did."""
    actual = tokens(indexed(chunk[:3] for chunk in answer.get("chunks", ())))
    left, pairs, ours = Counter(actual), set(map("".join, pairwise(actual))), set(actual)
    lost, split = Counter[str](), 0  # split: there, but in two pieces
    broken = [a + b in ours for a, b in pairwise(oracle)]  # a word that the other program broke at a line's end
    for at, word in enumerate(oracle):
        if left[word] > 0 or any(broken[max(at - 1, 0) : at + 1]):
            left[word] -= 1
        elif word in pairs:
            split += 1
        else:
            lost[word] += 1
    status = answer["status"] if answer["status"] != "ok" else "partial" if answer["partial"] else "ok"
    silent = bool(oracle) and not actual and not answer.get("partial") and answer["status"] == "ok"
    return {
        "path": str(path),
        "status": "SILENTLY EMPTY" if silent else status,
        "reason": answer.get("reason") or "; ".join(answer.get("partial", ())),
        "words": len(oracle),
        "recall": round(1 - lost.total() / len(oracle), 4) if oracle else 1.0,
        "order": round(order(oracle, actual), 4),
        "split": split,
        "more": sum((Counter(actual) - Counter(oracle)).values()),
        "lost": dict(lost.most_common(8)),
    }


def folder_rows(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each file that could be compared, worst first, and why others were not."""
    rows, apart = list[dict[str, Any]](), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        able = list[Path]()
        for path in paths:
            program, remedy, _ = ORACLES.get(path.suffix.casefold(), ("none", "", as_it_is))
            if program == "none":
                apart[f"{path.suffix}: no other program is known here"] += 1
            elif program and not shutil.which(program):
                apart[f"{path.suffix}: needs {program} ({remedy})"] += 1
            else:
                able.append(path)
        for path, answer in readings(able, Path(temporary)):
            try:
                oracle = tokens(ORACLES[path.suffix.casefold()][2](path, Path(temporary)))
            except RuntimeError as error:
                apart[f"{path}: {error}; read by seoga: {answer['status']}"] += 1
            else:
                rows.append(against(path, answer, oracle))
    rows.sort(key=lambda row: (row["status"] != "SILENTLY EMPTY", row["recall"], row["order"]))
    return rows, [f"not compared, {count} file(s) {why}" for why, count in apart.items()]


def files_in(folder: Path) -> list[Path]:
    found = [path for path in sorted(folder.rglob("*")) if path.suffix.casefold() in SUFFIXES - STREAMED - PICTURES]
    return [path for path in found if path.is_file() and not path.is_symlink()]


# --- what is printed ---


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Write rows in columns, numbers to the right."""
    shown = [[str(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    lines = []
    for cells in [list(columns), *shown]:
        padded = [c.rjust(w) if re.match(r"[\d.]+$", c) else c.ljust(w) for c, w in zip(cells, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5, help="documents of each format")
    parser.add_argument("--format", action="append", help="only this one, such as .docx; may be repeated")
    parser.add_argument("--folder", type=Path, help="compare the documents in this folder with other programs instead")
    parser.add_argument("--ocr", action="store_true", help="pictures of pages, which take OCR")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.folder:
        paths = [path for path in files_in(args.folder) if not args.format or path.suffix in args.format]
        rows, notes = folder_rows(paths[:MAX_FILES])
        notes += [f"not compared, {len(paths) - MAX_FILES} files beyond {MAX_FILES}"] * (len(paths) > MAX_FILES)
        result: dict[str, Any] = {"files": rows, "notes": notes}
        text = table(rows, ("recall", "order", "words", "split", "more", "status", "path", "lost")) if rows else ""
    else:
        made = list(PICTURE_MAKERS) if args.ocr else args.format or sorted(SUFFIXES - STREAMED - PICTURES - ALIASES)
        known = MAKERS | PICTURE_MAKERS
        sums = generated(args.count, [suffix for suffix in made if suffix in known])
        rows, lost = [total.row() for total in sums], losses(sums)
        notes = [f"{suffix}: no documents are made of it" for suffix in made if suffix not in known]
        notes += [fault for total in sums for fault in total.faults]
        result = {"formats": rows, "losses": lost, "notes": notes}
        text = table(rows, ("name", "documents", "words", "recall", "order", "added", "forbidden"))
        text += "\n\n" + (
            table(lost, ("format", "structure", "what", "words", "such as")) if lost else "nothing is lost"
        )
    print(json.dumps(result, ensure_ascii=False, indent=1) if args.json else "\n".join([text, "", *notes]).rstrip())


if __name__ == "__main__":
    main()
