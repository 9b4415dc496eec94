"""Read the words of a page's picture with Tesseract (OCR).

    picture --> columns --> lines of words, in Korean alone --> what is not Hangul, in the other languages --> lines

Tesseract runs as a process of its own, one for a thread; nothing here knows documents.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from statistics import median
from typing import Any

from .parsers import ParseError

OCR_VERSION = 1  # raise it when OCR gives other text for the same page: pages that were kept are then read again
PAGE_SECONDS = 120  # for one page
MAX_PIXELS = 40_000_000  # of a page that is read
MAX_PICTURE_BYTES = 200_000_000  # of a picture file, unpacked
MAX_PIECES = 400  # of a page that are read in a second language
UNSURE = 70  # mean confidence of a page, of 100, below which it may lie on its side

TEMPORARY = "seoga-ocr-"  # folders

_HANGUL = re.compile("[가-힣]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page; places in points from the lower left corner. Two lines that a hyphen joins are one."""

    text: str
    left: float
    right: float  # of the last character
    bottom: float  # of the first character
    end: float  # bottom of the last character
    height: float


_REMEDIES = {
    "darwin": "run `brew install tesseract tesseract-lang`",
    "win32": "install it from https://github.com/UB-Mannheim/tesseract/wiki with the languages ticked (Korean); seoga"
    " finds it in Program Files or through PATH",
}


@lru_cache
def _tesseract() -> tuple[str, str, frozenset[str]]:
    """Find Tesseract: its path, version and languages, all empty if it isn't there."""
    _sweep()
    folders = [os.environ.get(name, "") for name in ("ProgramFiles", "ProgramFiles(x86)", "LOCALAPPDATA")]
    usual = [os.path.join(folder, part, "Tesseract-OCR") for folder in folders if folder for part in ("", "Programs")]
    path = shutil.which("tesseract") or shutil.which("tesseract", path=os.pathsep.join(usual))
    if not path:
        return "", "", frozenset()
    try:
        version = re.search(r"tesseract v?(\d[\w.]*)", _said(path, "--version"))
        return path, version[1] if version else "", frozenset(_said(path, "--list-langs").split("\n")[1:])
    except (OSError, subprocess.SubprocessError):
        return "", "", frozenset()


def _sweep() -> None:
    """Remove what readings left that were killed."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{TEMPORARY}*")):
        with suppress(OSError):
            if time.time() - os.path.getmtime(folder) > 3600:
                shutil.rmtree(folder)


def _said(*command: str) -> str:
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
    )
    return ran.stdout.decode("utf-8", "replace").replace("\r", "")


def ocr_engine() -> str:
    """Return Tesseract's version, "" if it isn't there."""
    return _tesseract()[1]


def ocr_state(languages: str) -> str:
    """Return "" if pages can be read in these languages (`eng+kor`), else what is missing and the remedy."""
    path, _, known = _tesseract()
    missing = [language for language in languages.split("+") if language not in known]
    if path and not missing:
        return ""
    packages = ["tesseract-ocr", *(f"tesseract-ocr-{language.replace('_', '-')}" for language in languages.split("+"))]
    remedy = _REMEDIES.get(
        sys.platform, f"run `apt install {' '.join(packages)}` (Debian, Ubuntu), or what does the same"
    )
    what = f"lacks the language data of {', '.join(missing)}" if path else "is not installed"
    return f"Tesseract, which reads scanned pages (OCR), {what}: {remedy}."


def check_size(image: Any) -> int:
    """Return a picture's pixels; raise ParseError, before they are unpacked, if they are too many."""
    asked = image.size
    if image.format in ("JPEG", "MPO"):
        image.draft("L", (4000, 4000))  # unpacks a large one smaller
    pixels = int(image.width * image.height)
    if pixels * (1 if image.mode in ("1", "L", "P") else 4) > MAX_PICTURE_BYTES:
        raise ParseError(
            f"{asked[0]:,} x {asked[1]:,} pixels are too many to read; save a smaller copy of the picture."
        )
    return pixels


def in_gray(image: Any, dpi: int) -> Any:
    """Give a picture upright, in shades of grey on white, and so large that letters have the size Tesseract likes."""
    from PIL import Image, ImageOps

    known = float(image.info.get("dpi", (0, 0))[0])
    image.load()
    gray = image.convert("I").point(lambda value: value / 256) if image.mode.startswith("I;16") else image
    if "A" in gray.getbands() or "transparency" in gray.info:
        gray = gray.convert("LA" if gray.mode == "LA" else "RGBA")
        gray = Image.composite(gray.convert("L"), Image.new("L", gray.size, 255), gray.getchannel("A"))
    gray = ImageOps.exif_transpose(gray.convert("L"))
    longest = max(gray.size)
    if 100 <= known <= 2400:  # 72 and 96 are what programs write that know nothing
        scale = min(max(dpi / known, 1), 3) if known <= 2 * dpi else dpi / known
    else:
        scale = min(3, 11.5 * dpi / longest) if longest < 11.5 * dpi else 1  # as if it were a whole page
    return scaled(gray, scale)


def scaled(image: Any, scale: float) -> Any:
    from PIL import Image

    scale = min(scale, (MAX_PIXELS / (image.width * image.height)) ** 0.5, 32_000 / max(image.size))
    if abs(scale - 1) < 0.05:
        return image
    size = max(round(image.width * scale), 1), max(round(image.height * scale), 1)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3)


@dataclass(frozen=True, slots=True)
class _Word:
    """What Tesseract found, a word or a part of one; places in pixels from the upper left corner."""

    text: str
    line: int
    left: int
    top: int
    right: int
    bottom: int
    confidence: float  # 0-100
    glued: bool  # to the one before, without a space


def _run(image: Any, languages: str, dpi: int, mode: int, deadline: float) -> list[_Word]:
    """Run Tesseract once; raise RuntimeError if it fails or isn't ready at the deadline."""
    from pytesseract import pytesseract

    pytesseract.tesseract_cmd = _tesseract()[0]
    os.environ["OMP_THREAD_LIMIT"] = "1"  # its own threads only get into each other's way
    options = f"--psm {mode} --dpi {dpi} -c preserve_interword_spaces=1 -c tessedit_create_tsv=1"
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
        base = os.path.join(folder, "page")
        image.save(f"{base}.pgm", "PPM")
        seconds = max(deadline - time.monotonic(), 0.01)
        pytesseract.run_tesseract(f"{base}.pgm", base, "txt", languages, options, timeout=seconds)
        with open(f"{base}.txt", encoding="utf-8") as text, open(f"{base}.tsv", encoding="utf-8") as table:
            return _words(table.read(), text.read())


def _words(table: str, text: str) -> list[_Word]:
    """Read Tesseract's table of words; only its text tells which of them are parted by a space."""
    words, at = list[_Word](), 0
    for row in table.split("\n")[1:]:
        cells = row.rstrip("\r").split("\t")
        if len(cells) < 12 or not (word := cells[11].strip()):
            continue
        found = max(text.find(word, at), at)
        left, top, width, height = map(int, cells[6:10])
        line = sum(int(cell) * 10**power for cell, power in zip(cells[2:5], (8, 4, 0), strict=True))
        glued = found == at > 0
        words.append(_Word(word, line, left, top, left + width, top + height, float(cells[10]), glued))
        at = found + len(word)
    return words


def recognise(image: Any, dpi: int, languages: str) -> tuple[list[Line], float, int]:
    """Read a page's picture in shades of grey: its lines, their mean confidence (0-100), and how many words there are.

    Raise RuntimeError, as pytesseract does, if Tesseract fails, or ("timeout") takes longer than PAGE_SECONDS.
    """
    deadline = time.monotonic() + PAGE_SECONDS
    words = _read_page(image, dpi, languages, deadline)
    if _sureness(words) < UNSURE and (turned := _upright(image, dpi, languages, deadline)):
        image = turned
        words = _read_page(image, dpi, languages, deadline)
    height = median(word.bottom - word.top for word in words) if len(words) >= 5 else 30
    if not 15 <= height <= 90:
        larger = scaled(image, min(max(30 / height, 0.25), 3))
        again = _read_page(larger, dpi, languages, deadline)
        words = max(words, again, key=_sureness)
    return _lines(words), _sureness(words), len(words)


def _sureness(words: list[_Word]) -> float:
    """Return the mean confidence, by characters."""
    return sum(word.confidence * len(word.text) for word in words) / max(sum(len(word.text) for word in words), 1)


def _upright(image: Any, dpi: int, languages: str, deadline: float) -> Any:
    """Turn a page that lies on its side or its head, judged by its middle; None if it stands."""
    from PIL import Image

    width, height = image.size
    middle = image.crop((width // 4, height // 4, width - width // 4, height - height // 4))

    def worth(turn: Any) -> float:
        trial = middle if turn is None else middle.transpose(turn)
        words = _run(trial, languages, dpi, 11, deadline)
        return sum(len(word.text) for word in words if word.confidence > 80)

    turns = [None, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270]
    worths = [worth(turn) for turn in turns]
    best = worths.index(max(worths))
    return image.transpose(turns[best]) if best and worths[best] > 1.5 * worths[0] + 10 else None


def _read_page(image: Any, dpi: int, languages: str, deadline: float) -> list[_Word]:
    words = list[_Word]()
    for left, top, right, bottom in _columns(image, dpi):
        found = _read_column(image.crop((left, top, right, bottom)), dpi, languages, deadline)
        words += [replace(_moved(word, left, top), line=word.line + len(words)) for word in found]
    return words


def _moved(word: _Word, x: int, y: int) -> _Word:
    return replace(word, left=word.left + x, top=word.top + y, right=word.right + x, bottom=word.bottom + y)


def _read_column(image: Any, dpi: int, languages: str, deadline: float) -> list[_Word]:
    """Read Korean alone first: beside it, English is found in many a Korean word.

    Tesseract's small Korean model knows no Latin letters, so what is not Hangul is then read in the other languages.
    """
    parts = languages.split("+")
    others = "+".join(part for part in parts if part != "kor") if "kor" in parts else ""
    found = _run(image, "kor" if others else languages, dpi, 6, deadline)  # as one block of lines
    if others and _sureness(found) < 60:
        other = _run(image, others, dpi, 6, deadline)
        if _sureness(other) > _sureness(found) + 15:  # a column without Korean
            return [word for line in _in_order(other) for word in line]
    elif _overlooked(image, found) > 0.03:
        again = _run(image, "kor" if others else languages, dpi, 4, deadline)  # as blocks of various sizes
        found = max(found, again, key=lambda some: _sureness(some) * sum(len(word.text) for word in some))
    words = [word for line in _in_order(found) for word in line]
    return _corrected(image, words, others, dpi, deadline) if others else words


def _overlooked(image: Any, words: list[_Word]) -> float:
    """Return the share of the ink that lies in no word."""
    import numpy

    ink = numpy.array(image.reduce(4)) < 190
    total = max(int(ink.sum()), 1)
    for word in words:
        if word.confidence >= 40:
            ink[max(word.top // 4 - 1, 0) : word.bottom // 4 + 2, max(word.left // 4 - 2, 0) : word.right // 4 + 3] = 0
    return int(ink.sum()) / total


def _in_order(words: list[_Word]) -> list[list[_Word]]:
    """Order a column's lines from top to bottom, which Tesseract doesn't if it takes them for several blocks."""
    lines = [list(line) for _, line in groupby(words, key=lambda word: word.line)]
    height = median(word.bottom - word.top for word in words) if words else 0
    rows = list[list[_Word]]()
    middle = 0.0
    for line in sorted(lines, key=_middle):
        if rows and _middle(line) - middle < 0.4 * height:
            parts = sorted([rows[-1], line], key=lambda part: part[0].left)
            rows[-1] = [*parts[0], replace(parts[1][0], glued=False), *parts[1][1:]]
        else:
            rows.append(line)
            middle = _middle(line)
    return [[replace(word, line=number) for word in row] for number, row in enumerate(rows)]


def _middle(line: list[_Word]) -> float:
    return median(word.top + word.bottom for word in line) / 2


def _columns(image: Any, dpi: int) -> list[tuple[int, int, int, int]]:
    """Part a page where a gutter runs down between columns of text; the boxes are in reading order."""
    import numpy

    cell = max(dpi // 25, 1)  # 1 mm
    small = numpy.asarray(image.reduce(cell))
    ink = small < numpy.percentile(small, 90) - 20
    boxes = _parted(ink, 0, 0, ink.shape[1], ink.shape[0], 4)
    edge = (image.width, image.height) * 2
    return [tuple(min(side * cell, most) for side, most in zip(box, edge, strict=True)) for box in boxes]


def _parted(ink: Any, left: int, top: int, right: int, bottom: int, depth: int) -> list[tuple[int, int, int, int]]:
    """Find the longest gutter, 3 mm wide, with lines that reach it from the left, and part there, again and again."""
    import numpy

    best = (0, 0, 0)  # height, column, top
    width, part = right - left, ink[top:bottom, left:right]
    for x in range(width // 5, width - width // 5 - 3) if depth and width > 60 else ():
        rows = numpy.flatnonzero(part[:, x : x + 3].any(axis=1))
        ends = numpy.concatenate(([-1], rows, [bottom - top]))
        gaps = numpy.diff(ends)
        at = int(gaps.argmax())
        best = max(best, (int(gaps[at]) - 1, x, int(ends[at]) + 1))
    height, x, start = best
    beside = part[start : start + height]
    if height < 60 or not (_is_column(beside[:, :x]) and _is_column(beside[:, x + 3 :])):
        return [(left, top, right, bottom)]
    above, below = top + start, top + start + height
    boxes = [(left, top, right, above)] if part[:start].any() else []
    for low, high in ((left, left + x + 1), (left + x + 2, right)):
        boxes += _parted(ink, low, above, high, below, depth - 1)
    return boxes + (_parted(ink, left, below, right, bottom, depth - 1) if part[start + height :].any() else [])


def _is_column(ink: Any) -> bool:
    """Tell whether most rows with ink are lines as long as the column is wide; a table's cells are shorter."""
    import numpy

    rows = ink[ink.any(axis=1)]
    if len(rows) < 30:
        return False
    spread = numpy.flatnonzero(rows.any(axis=0))
    lengths = rows.shape[1] - rows[:, ::-1].argmax(axis=1) - rows.argmax(axis=1)
    return bool(numpy.median(lengths) > 0.65 * (spread[-1] - spread[0]))


def _lines(words: list[_Word]) -> list[Line]:
    height = median(word.bottom - word.top for word in words) if words else 0.0
    lines = list[Line]()
    for _, group in groupby(words, key=lambda word: word.line):
        line = list(group)
        bottom = -median(word.bottom for word in line)
        own = median(word.bottom - word.top for word in line)
        own = height if abs(own - height) < 0.4 * height else own  # no letters that go up or down
        lines.append(Line(_text(line), line[0].left, line[-1].right, bottom, bottom, own))
    return lines


def _text(words: list[_Word]) -> str:
    return "".join(f"{'' if word.glued else ' '}{word.text}" for word in words).strip()


# --- what is not Hangul, in a Korean text ---


def _corrected(image: Any, words: list[_Word], languages: str, dpi: int, deadline: float) -> list[_Word]:
    """Read again, in other languages, what is not Hangul: all of it at once, each piece on a line of its own."""
    from PIL import Image

    lines = [list(line) for _, line in groupby(range(len(words)), key=lambda at: words[at].line)]
    spans = [span for line in lines for span in _foreign(words, line)][:MAX_PIECES]
    if not spans:
        return words
    pieces = [image.crop(_cut(image, words, *span)) for span in spans]
    gap = max(dpi // 8, 8)
    size = max(piece.width for piece in pieces) + 2 * gap, sum(piece.height + gap for piece in pieces) + gap
    sheet, y, places = Image.new("L", size, 255), gap, [0]
    for piece in pieces:
        sheet.paste(piece, (gap, y))
        y += piece.height + gap
        places.append(y - gap // 2)
    found = _run(sheet, languages, dpi, 11, deadline)
    for (first, last), (low, high) in reversed(list(zip(spans, pairwise(places), strict=True))):
        room = sorted((word for word in found if low <= _middle([word]) < high), key=lambda word: word.left)
        words[first:last] = _better(words[first:last], room)
    return words


def _foreign(words: list[_Word], line: list[int]) -> Iterator[tuple[int, int]]:
    """Find the runs of words in a line (first, behind the last) that are probably not Hangul."""
    text = "".join(words[at].text for at in line)
    is_latin = len(_HANGUL.findall(text)) * 2 < len(text) or _sureness([words[at] for at in line]) < 60

    def is_foreign(at: int) -> bool:
        word, hangul = words[at], len(_HANGUL.findall(words[at].text))
        if not hangul:
            return word.confidence < 88 or len(word.text) > 1
        return word.confidence < 80 if is_latin else word.confidence < 60 and hangul * 2 < len(word.text)

    for foreign, group in groupby(line, key=is_foreign):
        run = list(group)
        if foreign:
            yield run[0], run[-1] + 1


def _cut(image: Any, words: list[_Word], first: int, last: int) -> tuple[int, int, int, int]:
    """Give the box of some neighbours, cut between letters: Tesseract's own boxes reach into the next ones."""
    import numpy

    some = words[first:last]
    top, bottom = max(min(word.top for word in some) - 4, 0), min(max(word.bottom for word in some) + 4, image.height)
    left, right, room = min(word.left for word in some), max(word.right for word in some), (bottom - top) // 4
    after = words[last] if last < len(words) and words[last].line == some[0].line else None
    if after and after.glued and after.left > left + (right - left) // 3:
        right = min(right, after.left)
    edge = max(left - 4 * room, 0)
    ink = (numpy.asarray(image.crop((edge, top, min(right + 4 * room, image.width), bottom))) < 140).any(axis=0)
    left = edge + _blank(ink, left - edge, room, range(-room, room + 1) if some[0].glued else range(0, -4 * room, -1))
    is_glued = after is not None and after.glued
    right = edge + _blank(ink, right - edge, room, range(-room, room + 1) if is_glued else range(4 * room))
    return left, top, max(right, left + 1), bottom


def _blank(ink: Any, at: int, room: int, steps: range) -> int:
    """Find the nearest gap between letters (`steps` go both ways), or between words, among a strip's columns."""
    width = 1 if steps[0] < 0 else max(room // 2, 1)
    for x in sorted((at + step for step in steps), key=lambda x: abs(x - at)):
        low, high = (x - width + 1, x + 1) if steps.step < 0 else (x, x + width)
        if high <= 0 or low >= len(ink) or not ink[max(low, 0) : high].any():
            return min(max(x, 0), len(ink))
    return min(max(at, 0), len(ink))


def _better(old: list[_Word], new: list[_Word]) -> list[_Word]:
    """Choose between two readings of the same piece."""
    while new and new[-1].confidence < 50 and len(new[-1].text) <= 2:  # a letter cut in two
        new = new[:-1]
    text, was = _text(new), _text(old)
    sure, doubt = _sureness(new), _sureness(old)
    if re.search("[A-Za-zÀ-ÿ]", text):
        least = max(70, doubt + 15) if _HANGUL.search(was) else max(40, doubt - 10)
        wins = sure > least and len(text) * 2 >= len(was)
    else:
        wins = text[:1].isdigit() and sure >= 60 and sure > doubt
    return [replace(old[0], text=text, right=old[-1].right, confidence=sure)] if wins else old
