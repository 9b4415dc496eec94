"""Read pages, of a PDF or scanned as pictures, into blocks.

    page --> its text by pdfium, in paragraphs
         --> none, next to none, or garbage: drawn, and read by Tesseract (OCR) while the next ones are drawn

pdfium isn't thread-safe: one thread of one process reads and draws; only Tesseract's processes run side by side.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from io import BytesIO
from itertools import count, islice, pairwise, product
from typing import Any

from .ocr import MAX_PIXELS, OCR_VERSION, PAGE_SECONDS, UNSURE, Line, check_size, in_gray, recognise
from .ocr import ocr_engine as ocr_engine
from .ocr import ocr_state as ocr_state
from .parsers import NO_VALUE, Block, Document, NeedsAction, ParseError, table_row

MIN_PAGE_CHARS = 10  # visible; a PDF page that shows a picture and has fewer is a scan with, say, a page number
STAMP_CHARS = 100  # visible; a page that a picture covers and that has fewer is a scan with a stamp on it
MAX_ANNOTATIONS = 2000  # of a page
MAX_RULES, MAX_CELLS = 400, 5000  # lines of a page, and cells of a table, that are looked at
MAX_FRAMES = 5000  # pages of a TIFF
MIN_PICTURE_SIDE = 40  # pixels; a smaller picture holds no text
UNREADABLE = 45  # mean confidence of a page, of 100
MAX_THREADS = 16  # a thread's stack is 8 MB of the memory that a document may take

_BROKEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff]")
_HYPHEN = re.compile("[\x02\ufffe](?=(\\w?))")  # what pdfium makes of a hyphen at a line end; it joins two lines
_OCR_HYPHEN = re.compile(r"(?<=[A-Za-z])- (?=[a-z])")  # at a line end
_LABEL = re.compile(r"[\w.\-/]{1,16}")
_NUMBERING = re.compile(r"(?:제?\d+[장절편]|(?:\d+|[a-z](?=\.\d))(?:\.\d+)*)[.:]?")
_SYMBOL = re.compile(r"^[\uf000-\uf0ff]\s*")  # a bullet in a symbol font
# No 다: a line that begins with `다. ` is the end of a Korean sentence.
_ITEM = re.compile(r"(?:[-*•‣◦▪■□○●※]|\(?(?:\d{1,3}|[A-Za-z가나라마바사아자차카타파하])[.)])\s")
_UPRIGHT = re.compile(r"(?:\S *\n){3,}\S *")  # letters one below the other
_ENDS = tuple('.?!:;。…”"」』)')


def pdf(data: bytes, document: Document) -> Iterator[Block]:
    """Read page by page with pdfium, which isn't thread-safe: one process reads one document at a time."""
    import pypdfium2

    try:
        book = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise NeedsAction("this PDF is protected by a password; save a copy without one.") from None
        raise
    scans, damaged = _Scans(document, len(book)), list[int]()
    try:
        _pdf_metadata(book, document)
        if book.get_formtype():
            book.init_forms()
        titles = _titles(book)
        for number in range(1, len(book) + 1):
            place = _place(book, number)
            try:
                page = book[number - 1]
                try:
                    blocks, is_scan = _pdf_page(page, place, titles.get(number, {}))
                    if is_scan:
                        yield from scans.add(number, place, blocks, *_drawing(page, document.recognition.dpi))
                    else:
                        yield from scans.pass_by(number, place, blocks)
                finally:
                    page.close()
            except pypdfium2.PdfiumError:
                damaged.append(number)
                yield from scans.pass_by(number, place, [])
        yield from scans.rest()
        if damaged and not scans.found and not scans.left_out:
            raise ParseError("damaged: none of its pages can be read. Open it in a PDF viewer, and save it anew.")
        scans.check("scanned images" if len(book) > 1 else "a scanned image")
    finally:  # also when a limit ends the reading early
        scans.close()
        book.close()
        document.partial += [f"p. {_ranges(damaged)}: damaged, left out"] if damaged else []


def _drawing(page: Any, dpi: int) -> tuple[Callable[[], Any], int, int]:
    """Give what draws a page in shades of grey, the pixels that it will have, and its resolution, in dots per inch."""
    area = page.get_width() * page.get_height() / 72**2  # square inches
    longest = max(page.get_width(), page.get_height()) / 72
    dpi = max(min(dpi, int((MAX_PIXELS / max(area, 0.001)) ** 0.5), int(32_000 / max(longest, 0.001))), 1)
    return lambda: page.render(scale=dpi / 72, grayscale=True).to_pil(), int(area * dpi**2), dpi


def _ranges(numbers: list[int]) -> str:
    """`[3, 7, 8, 9]` -> `3, 7-9`; at most 20 of them."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        first = spans.pop()[0] if spans and spans[-1][1] == number - 1 else number
        spans.append((first, number))
    shown = [f"{first}-{last}" if last > first else str(first) for first, last in spans[:20]]
    return ", ".join(shown) + (", …" if len(spans) > 20 else "")


def _pdf_metadata(pdf: Any, document: Document) -> None:
    from pypdfium2 import PdfiumError

    values: dict[str, str] = {}
    for key in ("Title", "Author", "Subject", "Keywords", "CreationDate"):
        with suppress(UnicodeDecodeError):  # half a surrogate pair
            values[key] = pdf.get_metadata_value(key).strip()
    values = {key: value for key, value in values.items() if value.casefold() not in NO_VALUE}
    document.title = values.get("Title", "")
    for key in ("Author", "Subject", "Keywords"):
        if key in values:
            document.metadata[key.lower()] = values[key]
    if made := re.match(r"D:(\d{4})(\d\d)(\d\d)", values.get("CreationDate", "")):
        document.metadata["created"] = "-".join(made.groups())
    with suppress(PdfiumError):
        attached = [pdf.get_attachment(index).get_name() for index in range(min(pdf.count_attachments(), 100))]
        document.metadata |= {"attachments": ", ".join(attached)} if attached else {}


def _place(pdf: Any, number: int) -> str:
    """Name a page as it is labelled, if that differs: `p. xii (12)`."""
    label = pdf.get_page_label(number - 1).strip()
    return f"p. {label} ({number})" if label != str(number) and _LABEL.fullmatch(label) else f"p. {number}"


def _titles(pdf: Any) -> dict[int, dict[str, int]]:
    """Read the outline: page number -> title, without its number and spaces -> level."""
    titles: dict[int, dict[str, int]] = {}
    for mark in islice(pdf.get_toc(max_depth=6), 5000):
        target = mark.get_dest()
        index = target.get_index() if target else None
        if index is not None and (title := _bare(mark.get_title())):
            titles.setdefault(index + 1, {})[title] = mark.level + 1
    return titles


def _bare(title: str) -> str:
    title = "".join(title.split()).casefold()
    return _NUMBERING.sub("", title) or title


def _pdf_page(page: Any, place: str, titles: dict[str, int]) -> tuple[list[Block], bool]:
    """Give a page's blocks, and whether it has to be read by OCR too: no text, next to none, or garbage."""
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        visible = "".join(_HYPHEN.sub("", text).split())
        extras = [Block("text", extra, place) for extra in _extras(page)]
        if len(_BROKEN.findall(visible)) * 2 > len(visible) or _is_unmapped(textpage):  # a broken ToUnicode map
            return extras, True
        is_scan = len(visible) < STAMP_CHARS and _is_picture(page, len(visible))
        blocks, lines, tables = list[Block](), list[Line](), _tables(page, textpage)
        for line in _pdf_lines(textpage, text):
            at = next((at for at, table in enumerate(tables) if table.holds(line)), None)
            if at is None:
                lines.append(line)
            elif table := tables[at].text:
                blocks += [*_paragraphs(lines, place, titles), Block("table", table, place, header=2)]
                lines, tables[at] = [], replace(tables[at], text="")
        return [*blocks, *_paragraphs(lines, place, titles), *extras], is_scan
    finally:
        textpage.close()


def _paragraphs(lines: list[Line], place: str, titles: dict[str, int]) -> Iterator[Block]:
    """Give paragraphs; one that is a title of the outline, or begins with it on a line of its own, is a heading."""
    for text in _pdf_paragraphs(lines):
        first, _, rest = text.partition("\n")
        if titles and (level := titles.pop(_bare(text), 0)):
            yield Block("heading", " ".join(text.split()), place, level)
        elif titles and (level := titles.pop(_bare(first), 0)):
            yield from (Block("heading", first.strip(), place, level), Block("text", rest, place))
        else:
            yield Block("text", text, place)


def _is_unmapped(textpage: Any) -> bool:
    """Tell whether pdfium could only guess most of the characters; a sample is looked at."""
    from pypdfium2.raw import FPDFText_HasUnicodeMapError

    sample = range(0, textpage.count_chars(), max(textpage.count_chars() // 50, 1))
    return sum(int(FPDFText_HasUnicodeMapError(textpage, index)) == 1 for index in sample) * 2 > len(sample)


def _is_picture(page: Any, visible: int) -> bool:
    """Tell whether a page with next to no text is a scan, or, without any, drawn in so many shapes that it may be one.

    With a few more characters it is one if a picture covers it and no text is hidden under it by an earlier OCR.
    """
    from pypdfium2 import raw

    kinds, covered, hidden = list[int](), False, False
    for item in islice(page.get_objects(max_depth=3), 5000):
        kinds.append(item.type)
        hidden |= item.type == raw.FPDF_PAGEOBJ_TEXT and raw.FPDFTextObj_GetTextRenderMode(item) == 3
        if item.type == raw.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered |= (right - left) * (top - bottom) >= 0.7 * page.get_width() * page.get_height()
    if visible >= MIN_PAGE_CHARS:
        return bool(covered and not hidden)
    return raw.FPDF_PAGEOBJ_IMAGE in kinds or (not visible and len(kinds) >= 50)


def _pdf_lines(textpage: Any, text: str) -> list[Line]:
    """Find each line's place by its first and last character."""
    lines, start = list[Line](), 0
    for part in text.split("\r\n"):
        end = start + len(part.encode("utf-16-le", "surrogatepass")) // 2  # pdfium counts in UTF-16
        if part.strip():
            left, bottom, _, top = _box(textpage, start)
            _, last, right, _ = _box(textpage, end - 1)
            lines.append(Line(_SYMBOL.sub("• ", part), left, right, bottom, last, top - bottom))
        start = end + 2
    return lines


def _box(textpage: Any, index: int) -> tuple[float, float, float, float]:
    from pypdfium2 import PdfiumError, raw

    try:
        left, bottom, right, top = textpage.get_charbox(
            raw.FPDFText_GetCharIndexFromTextIndex(textpage, index), loose=True
        )
    except PdfiumError:
        return 0.0, 0.0, 0.0, 0.0
    return left, bottom, right, top


def _pdf_paragraphs(lines: list[Line]) -> Iterator[str]:
    """Join the lines of a paragraph; a wider gap, another column, an indent or another letter size begins a new one."""
    steps = sorted(step for above, line in pairwise(lines) if (step := above.end - line.bottom) > 0)
    usual = steps[len(steps) // 2] if steps else 0.0
    hangul = [line.text for line in lines if _is_hangul(line.text.rstrip()[-1])]
    keeps_spaces = sum(text[-1] == " " for text in hangul) * 3 >= max(len(hangul), 3)
    narrow = 0.35 * (max((line.right for line in lines), default=0) - min((line.left for line in lines), default=0))
    text = ""
    for number, line in enumerate(lines):
        if number:
            above = lines[number - 1]
            edge = max(above.right, line.right, lines[number - 2].right if number > 1 else 0)
            is_full = above.right >= edge - 0.15 * (edge - above.left) and above.right - above.left >= narrow
            if _begins_paragraph(above, line, usual, is_full):
                yield _joined(text)
                text = ""
            elif not is_full or _ITEM.match(line.text):
                text = f"{text.rstrip()}\n"
            elif not (keeps_spaces and _is_hangul(text[-1]) and _is_hangul(line.text[0])):
                text = f"{text.rstrip()} "
        text += line.text
    yield _joined(text)


def _begins_paragraph(above: Line, line: Line, usual: float, is_full: bool) -> bool:
    step = above.end - line.bottom
    if step < -0.3 * line.height or step > 1.4 * usual or step > 2.5 * max(line.height, 1):
        return True
    ended = not is_full or above.text.rstrip().endswith(_ENDS)
    if ended and abs(above.height - line.height) > 0.15 * max(above.height, line.height):
        return True
    indented = line.left > above.left + 0.5 * line.height and not _ITEM.match(above.text)
    return indented and (is_full or above.text.rstrip().endswith(_ENDS))


def _is_hangul(char: str) -> bool:
    return "가" <= char <= "힣"


def _joined(text: str) -> str:
    """Take out hyphens at line ends within a Latin word (`exam-ple`), but keep that of `COVID-19`."""
    if _UPRIGHT.fullmatch(text):
        return "".join(text.split())
    return _HYPHEN.sub(lambda match: "" if match[1].islower() else "-", text).strip()


# --- PDF: forms and comments ---


def _extras(page: Any) -> list[str]:
    """Give the fields of a form as lines `name: value`, then the comments, each with its author."""
    from pypdfium2 import raw

    fields, comments = list[str](), list[str]()
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)):
        note = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(note)
        if kind == raw.FPDF_ANNOT_WIDGET and page.formenv:
            fields += _field(page.formenv, note)
        elif kind not in (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
            author, text = (_utf16(raw.FPDFAnnot_GetStringValue, note, key) for key in (b"T", b"Contents"))
            comments += [f"{author}: {text}" if author else text] if text.strip() else []
        raw.FPDFPage_CloseAnnot(note)
    return (["\n".join(fields)] if fields else []) + comments


def _field(form: Any, note: Any) -> list[str]:
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetFormFieldType(form, note)
    value = _utf16(raw.FPDFAnnot_GetFormFieldValue, form, note)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        checked = raw.FPDFAnnot_IsChecked(form, note)
        value = "yes" if kind == raw.FPDF_FORMFIELD_CHECKBOX else value
        value = value if checked else "no" if kind == raw.FPDF_FORMFIELD_CHECKBOX else ""
    name = _utf16(raw.FPDFAnnot_GetFormFieldName, form, note)
    return [f"{name}: {value}"] if value.strip() and kind != raw.FPDF_FORMFIELD_PUSHBUTTON else []


def _utf16(function: Any, *arguments: Any) -> str:
    size = min(function(*arguments, None, 0), 1_000_000)  # bytes, a final NUL among them
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    function(*arguments, buffer, size)
    return bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace")


# --- PDF: ruled tables ---


@dataclass(frozen=True, slots=True)
class _Table:
    text: str
    left: float
    bottom: float
    right: float
    top: float

    def holds(self, line: Line) -> bool:
        return self.left - 2 <= line.left <= self.right and self.bottom <= line.bottom + line.height / 2 <= self.top


@dataclass(frozen=True, slots=True)
class _Rule:
    """A straight line, level or upright: at a height or a distance from the left, from one end to the other."""

    at: float
    low: float
    high: float

    def meets(self, other: _Rule) -> bool:
        """Tell whether a line of the other direction crosses or touches it."""
        return self.low - 3 <= other.at <= self.high + 3 and other.low - 3 <= self.at <= other.high + 3


def _tables(page: Any, textpage: Any) -> list[_Table]:
    """Read the tables whose cells are drawn with lines."""
    level, upright = _rules(page)
    if len(level) < 3 or len(upright) < 3:
        return []
    groups = list[tuple[set[_Rule], set[_Rule]]]()  # lines that hang together
    for rule in upright[:MAX_RULES]:
        across, along = {other for other in level[:MAX_RULES] if rule.meets(other)}, {rule}
        for group in [group for group in groups if group[0] & across]:
            groups.remove(group)
            across, along = across | group[0], along | group[1]
        groups.append((across, along))
    return [table for across, along in groups if (table := _table(textpage, across, along))]


def _rules(page: Any) -> tuple[list[_Rule], list[_Rule]]:
    """Find the level and the upright lines on a page: thin shapes, and the edges of outlined ones."""
    from pypdfium2 import raw

    level, upright = list[_Rule](), list[_Rule]()
    sides = [ctypes.c_float() for _ in range(4)]
    for index in range(min(raw.FPDFPage_CountObjects(page), 5000)):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_PATH or not raw.FPDFPageObj_GetBounds(item, *sides):
            continue
        left, bottom, right, top = (side.value for side in sides)
        if top - bottom <= 2.5 < right - left:
            level.append(_Rule((top + bottom) / 2, left, right))
        elif right - left <= 2.5 < top - bottom:
            upright.append(_Rule((left + right) / 2, bottom, top))
        elif raw.FPDFPath_CountSegments(item) in (4, 5) and _is_outlined(item):
            level += [_Rule(bottom, left, right), _Rule(top, left, right)]
            upright += [_Rule(left, bottom, top), _Rule(right, bottom, top)]
    return level, upright


def _is_outlined(item: Any) -> bool:
    from pypdfium2.raw import FPDFPath_GetDrawMode

    fill, stroke = ctypes.c_int(), ctypes.c_int()
    return bool(FPDFPath_GetDrawMode(item, fill, stroke) and stroke.value)


def _table(textpage: Any, level: set[_Rule], upright: set[_Rule]) -> _Table | None:
    """Read the cells row by row; cells that no line parts are one, whose text stands in the first of them."""
    rows, columns = _edges(level)[::-1], _edges(upright)
    if len(rows) < 3 or len(columns) < 3 or len(rows) * len(columns) > MAX_CELLS:
        return None
    cells = [[""] * (len(columns) - 1) for _ in rows[1:]]
    taken = set[tuple[int, int]]()
    for row, column in product(range(len(rows) - 1), range(len(columns) - 1)):
        if (row, column) in taken:
            continue
        under, behind = row + 1, column + 1
        middle = (columns[column] + columns[behind]) / 2, (rows[row] + rows[under]) / 2
        while behind < len(columns) - 1 and not _parts(upright, columns[behind], middle[1]):
            behind += 1
        while under < len(rows) - 1 and not _parts(level, rows[under], middle[0]):
            under += 1
        taken |= set(product(range(row, under), range(column, behind)))
        cells[row][column] = textpage.get_text_bounded(columns[column], rows[under], columns[behind], rows[row])
    lines = [table_row(cells) for cells in cells if any(cell.strip() for cell in cells)]
    lines[1:1] = [table_row(["---"] * (len(columns) - 1))]
    return _Table("\n".join(lines), columns[0], rows[-1], columns[-1], rows[0]) if len(lines) > 2 else None


def _edges(rules: set[_Rule]) -> list[float]:
    """Give the places of lines, those that almost coincide once."""
    places = sorted(rule.at for rule in rules)
    return [place for before, place in pairwise([-1e9, *places]) if place - before > 3]


def _parts(rules: set[_Rule], place: float, middle: float) -> bool:
    return any(abs(rule.at - place) <= 3 and rule.low < middle < rule.high for rule in rules)


# --- pictures ---


def picture(data: bytes, document: Document) -> Iterator[Block]:
    """Read a scan or photo of a page; a TIFF may hold many."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # check_size has a limit of its own
    image = Image.open(BytesIO(data), formats=("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP"))
    total = _frames(image) if image.format == "TIFF" else 1
    scans, damaged = _Scans(document, total), list[int]()
    try:
        for number in range(1, total + 1):
            place = f"p. {number}" if total > 1 else ""
            try:
                if total > 1:
                    image.seek(number - 1)
                pixels, dpi = check_size(image), document.recognition.dpi
                if min(image.size) < MIN_PICTURE_SIDE:
                    yield from scans.pass_by(number, place, [])
                else:
                    yield from scans.add(number, place, [], partial(in_gray, image, dpi), pixels, dpi)
            except (OSError, SyntaxError, ParseError):
                if total == 1:
                    raise
                damaged.append(number)
        yield from scans.rest()
        if len(damaged) == total:
            raise ParseError("damaged: none of its pages can be read. Open it in a picture viewer, and save it anew.")
        scans.check("pictures" if total > 1 else "a picture")
    finally:
        scans.close()
        document.partial += [f"p. {_ranges(damaged)}: damaged or too large, left out"] if damaged else []
        document.partial += [f"what follows p. {total:,} is left out"] if total == MAX_FRAMES else []


def _frames(image: Any) -> int:
    for number in range(1, MAX_FRAMES):
        try:
            image.seek(number)
        except EOFError:
            image.seek(0)
            return number
    return MAX_FRAMES


# --- OCR: pages in order, read side by side ---


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    place: str
    blocks: list[Block]  # of its text
    reading: Future[dict[str, Any]] | None = None  # what `_recognise` gives
    pixels: int = 0


class _Scans:
    """Has pages read by OCR on threads, and gives the blocks of all pages in order."""

    def __init__(self, document: Document, total: int) -> None:
        self.total, self.found = total, 0  # `found`: pages that have text, or were read by OCR
        self._document, self._settings = document, document.recognition
        self._state, self._missing = "", list[int]()  # what OCR lacks on this machine, and the pages that wait for it
        self._read = dict[int, dict[str, Any]]()
        self._faults: dict[str, list[int]] = {}
        self._waiting = deque[_Page]()
        self._pool: ThreadPoolExecutor | None = None
        self._threads = min(os.cpu_count() or 1, MAX_THREADS)
        self._done, self._finished = 0, count(1)  # counted on several threads

    @property
    def left_out(self) -> bool:
        return bool(self._missing or self._faults)

    def pass_by(self, number: int, place: str, blocks: list[Block]) -> Iterator[Block]:
        """Take a page that needs no OCR."""
        self.found += bool(blocks)
        self._waiting.append(_Page(number, place, blocks))
        yield from self._ready()

    def add(
        self, number: int, place: str, blocks: list[Block], draw: Callable[[], Any], pixels: int, dpi: int
    ) -> Iterator[Block]:
        """Take a page to be read. `draw` gives its picture, which has about so many pixels and dots per inch."""
        self.found += sum(len(block.text) for block in blocks) >= MIN_PAGE_CHARS
        self._state = self._state or ocr_state(self._settings.languages)
        if self._state:
            self._missing.append(number)
            self._waiting.append(_Page(number, place, blocks))
            return (yield from self._ready())
        began = time.monotonic()
        name = f"ocr {OCR_VERSION} {ocr_engine()} {self._settings.languages} {self._settings.dpi} {number}"
        reading = Future[dict[str, Any]]()
        if (kept := _unpacked(self._settings.kept(name))) is not None:
            reading.set_result(kept)
            pixels = 0
            self._step()
        else:
            while self._waiting and sum(page.pixels for page in self._waiting) + pixels > 2 * MAX_PIXELS:
                yield from self._next()
            began = time.monotonic()
            self._pool = self._pool or ThreadPoolExecutor(self._threads)
            reading = self._pool.submit(self._recognise, draw(), name, dpi)
        self._document.waited += time.monotonic() - began
        self._waiting.append(_Page(number, place, blocks, reading, pixels))
        if dpi < 0.75 * self._settings.dpi:
            note = f"too large to be read at {self._settings.dpi} dpi, read at {dpi}"
            self._document.partial.append(f"p. {number}: {note}")
        yield from self._ready()

    def _recognise(self, image: Any, name: str, dpi: int) -> dict[str, Any]:
        """Read one page, on a thread of the pool: {"paragraphs", "confidence", "words"} or {"fault"}."""
        try:
            lines, confidence, words = recognise(image, dpi, self._settings.languages)
        except (RuntimeError, OSError) as error:  # pytesseract's; a full disk
            fault = f"within {PAGE_SECONDS} s" if "timeout" in str(error) else f"({' '.join(str(error).split())[:200]})"
            return {"fault": f"not read by OCR {fault}"}
        finally:
            self._step()
        paragraphs = [_OCR_HYPHEN.sub("", text) for text in _pdf_paragraphs(lines)]
        reading = {"paragraphs": paragraphs, "confidence": round(confidence, 1), "words": words}
        self._settings.keep(name, json.dumps(reading, ensure_ascii=False))
        return reading

    def _step(self) -> None:
        self._done = next(self._finished)
        self._tell()

    def _tell(self) -> None:
        self._settings.step(self._done, self.total, "pages")

    def _ready(self) -> Iterator[Block]:
        while self._waiting:
            reading = self._waiting[0].reading
            if reading and not reading.done() and len(self._waiting) <= 2 * self._threads:
                return
            yield from self._next()

    def rest(self) -> Iterator[Block]:
        while self._waiting:
            yield from self._next()

    def _next(self) -> Iterator[Block]:
        """Give the blocks of the first page that waits, a blank one at least: it lets the clock be looked at."""
        page = self._waiting.popleft()
        blocks = page.blocks
        if page.reading:
            began = time.monotonic()
            while not page.reading.done():
                wait([page.reading], timeout=5)
                self._tell()  # that the work goes on
            self._document.waited += time.monotonic() - began
            blocks = self._joined(page, page.reading.result())
        yield from blocks or [Block("text", "", page.place)]

    def _joined(self, page: _Page, reading: dict[str, Any]) -> list[Block]:
        """Put the text that a page has of its own, such as a stamp, before what OCR found, but only once."""
        if fault := reading.get("fault"):
            self._faults.setdefault(fault, []).append(page.number)
            return page.blocks
        self.found += 1
        self._read[page.number] = reading
        found = "".join("".join(reading["paragraphs"]).split())
        own = [block for block in page.blocks if "".join(block.text.split()) not in found]
        similar = [SequenceMatcher(None, "", block.text, autojunk=False) for block in own]
        blocks = list[Block]()
        for text in reading["paragraphs"]:
            for matcher in similar:
                matcher.set_seq1(text)
            if all(matcher.quick_ratio() < 0.7 or matcher.ratio() < 0.7 for matcher in similar):
                blocks.append(Block("text", text, page.place))
        return own + blocks

    def check(self, what: str) -> None:
        """Raise NeedsAction or ParseError if nothing of the document could be read."""
        if self.found or not self.left_out:
            return
        subject = f"all {self.total:,} pages are" if self.total > 1 else "its one page is"
        if self._missing:
            raise NeedsAction(f"{subject} {what}. {self._state}", lacks="ocr")
        raise ParseError(f"{subject} {what}, and {', '.join(self._faults)}. Scan it anew, or give it as text.")

    def close(self) -> None:
        """Let the threads end, and tell what was done."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
        document = self._document
        if self._missing:
            document.lacks.add("ocr")
            document.partial.append(f"p. {_ranges(self._missing)}: scanned images, left out. {self._state}")
        document.partial += [f"p. {_ranges(pages)}: {fault}, left out" for fault, pages in self._faults.items()]
        if not self._read:
            return
        words = sum(reading["words"] for reading in self._read.values())
        mean = sum(reading["words"] * reading["confidence"] for reading in self._read.values()) / max(words, 1)
        settings = self._settings
        document.metadata["ocr.engine"] = f"tesseract {ocr_engine()}, {settings.languages}, {settings.dpi} dpi"
        document.metadata["ocr.pages"] = _ranges(sorted(self._read))
        document.metadata["ocr.confidence"] = f"{mean:.0f}"
        unsure = [
            number for number, reading in self._read.items() if reading["words"] and reading["confidence"] < UNSURE
        ]
        if unsure:
            document.metadata["ocr.unsure_pages"] = _ranges(unsure)
        bad = [number for number in unsure if self._read[number]["confidence"] < UNREADABLE]
        document.partial += [f"p. {_ranges(bad)}: hardly readable for OCR"] if bad else []


def _unpacked(kept: str | None) -> dict[str, Any] | None:
    """Give a page that was kept; None if there is none, or it is broken."""
    try:
        reading = json.loads(kept or "")
        paragraphs = [str(text) for text in reading["paragraphs"]]
        return {"paragraphs": paragraphs, "confidence": float(reading["confidence"]), "words": int(reading["words"])}
    except (ValueError, TypeError, KeyError):
        return None
