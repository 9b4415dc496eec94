"""Read pages, of a PDF or scanned as pictures, into blocks.

    page --> its text by pdfium, in paragraphs
         --> none, next to none, or garbage: drawn, and read by Tesseract (OCR) while the next ones are drawn

pdfium isn't thread-safe: one thread of one process reads and draws; only Tesseract's processes run side by side.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from io import BytesIO
from itertools import count, islice, pairwise
from typing import Any

from .ocr import MAX_PIXELS, OCR_VERSION, PAGE_SECONDS, UNSURE, Line, recognise, scaled
from .ocr import ocr_engine as ocr_engine
from .ocr import ocr_state as ocr_state
from .parsers import NO_VALUE, Block, Document, NeedsAction, ParseError

MIN_PAGE_CHARS = 10  # visible; a PDF page that shows a picture and has fewer is a scan with, say, a page number
STAMP_CHARS = 100  # visible; a page that a picture covers and that has fewer is a scan with a stamp on it
MAX_FRAMES = 5000  # pages of a TIFF
MAX_PICTURE_BYTES = 200_000_000  # of a picture file, unpacked
MIN_PICTURE_SIDE = 40  # pixels; a smaller picture holds no text
UNREADABLE = 45  # mean confidence of a page, of 100
MAX_THREADS = 16  # a thread's stack is 8 MB of the memory that a document may take

_BROKEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff]")
_HYPHEN = re.compile("[\x02\ufffe](?=(\\w?))")  # what pdfium makes of a hyphen at a line end; it joins two lines
_OCR_HYPHEN = re.compile(r"(?<=[A-Za-z])- (?=[a-z])")  # at a line end
_SYMBOL = re.compile(r"^[\uf000-\uf0ff]\s*")  # a bullet in a symbol font
# No 다: a line that begins with `다. ` is the end of a Korean sentence.
_ITEM = re.compile(r"(?:[-*•‣◦▪■□○●※]|\(?(?:\d{1,3}|[A-Za-z가나라마바사아자차카타파하])[.)])\s")
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
        for number in range(1, len(book) + 1):
            place = f"p. {number}"
            try:
                page = book[number - 1]
                try:
                    blocks, is_scan = _pdf_page(page, place)
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
    values = {key: value.strip() for key, value in pdf.get_metadata_dict(skip_empty=True).items()}
    values = {key: value for key, value in values.items() if value.casefold() not in NO_VALUE}
    document.title = values.get("Title", "")
    for key in ("Author", "Subject", "Keywords"):
        if key in values:
            document.metadata[key.lower()] = values[key]
    if made := re.match(r"D:(\d{4})(\d\d)(\d\d)", values.get("CreationDate", "")):
        document.metadata["created"] = "-".join(made.groups())


def _pdf_page(page: Any, place: str) -> tuple[list[Block], bool]:
    """Give a page's paragraphs, and whether it has to be read by OCR too: no text, next to none, or garbage."""
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        visible = "".join(_HYPHEN.sub("", text).split())
        if len(_BROKEN.findall(visible)) * 2 > len(visible) or _is_unmapped(textpage):  # a broken ToUnicode map
            return [], True
        is_scan = len(visible) < STAMP_CHARS and _is_picture(page, len(visible))
        paragraphs = _pdf_paragraphs(_pdf_lines(textpage, text))
        return [Block("text", paragraph, place) for paragraph in paragraphs], is_scan
    finally:
        textpage.close()


def _is_unmapped(textpage: Any) -> bool:
    """Tell whether pdfium could only guess most of the characters; a sample is looked at."""
    from pypdfium2.raw import FPDFText_HasUnicodeMapError

    sample = range(0, textpage.count_chars(), max(textpage.count_chars() // 50, 1))
    return sum(FPDFText_HasUnicodeMapError(textpage, index) == 1 for index in sample) * 2 > len(sample)


def _is_picture(page: Any, visible: int) -> bool:
    """Tell whether a page with next to no text is a scan, or, without any, drawn in so many shapes that it may be one.

    With a few more characters it is one if a picture covers it and no text is hidden under it by an earlier OCR.
    """
    from pypdfium2 import raw

    kinds, covered = list[int](), False
    for item in islice(page.get_objects(max_depth=3), 5000):
        kinds.append(item.type)
        if item.type == raw.FPDF_PAGEOBJ_TEXT and raw.FPDFTextObj_GetTextRenderMode(item) == 3:
            return False
        if item.type == raw.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered |= (right - left) * (top - bottom) >= 0.7 * page.get_width() * page.get_height()
    if visible >= MIN_PAGE_CHARS:
        return bool(covered)
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
    return _HYPHEN.sub(lambda match: "" if match[1].islower() else "-", text).strip()


# --- pictures ---


def picture(data: bytes, document: Document) -> Iterator[Block]:
    """Read a scan or photo of a page; a TIFF may hold many."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # _gray has a limit of its own
    image = Image.open(BytesIO(data), formats=("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP"))
    total = _frames(image) if image.format == "TIFF" else 1
    scans, damaged = _Scans(document, total), list[int]()
    try:
        for number in range(1, total + 1):
            place = f"p. {number}" if total > 1 else ""
            try:
                if total > 1:
                    image.seek(number - 1)
                pixels, dpi = _check_size(image), document.recognition.dpi
                if min(image.size) < MIN_PICTURE_SIDE:
                    yield from scans.pass_by(number, place, [])
                else:
                    yield from scans.add(number, place, [], partial(_gray, image, dpi), pixels, dpi)
            except (OSError, SyntaxError):
                if total == 1:
                    raise
                damaged.append(number)
        yield from scans.rest()
        if len(damaged) == total:
            raise ParseError("damaged: none of its pages can be read. Open it in a picture viewer, and save it anew.")
        scans.check("pictures" if total > 1 else "a picture")
    finally:
        scans.close()
        document.partial += [f"p. {_ranges(damaged)}: damaged, left out"] if damaged else []
        document.partial += [f"what follows p. {total:,} is left out"] if total == MAX_FRAMES else []


def _frames(image: Any) -> int:
    for number in range(1, MAX_FRAMES):
        try:
            image.seek(number)
        except EOFError:
            image.seek(0)
            return number
    return MAX_FRAMES


def _check_size(image: Any) -> int:
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


def _gray(image: Any, dpi: int) -> Any:
    """Give a picture upright, in shades of grey on white, and so large that letters have the size Tesseract likes."""
    from PIL import Image, ImageOps

    known = image.info.get("dpi", (0, 0))[0]
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
        except RuntimeError as error:  # pytesseract's
            return {"fault": f"not read by OCR within {PAGE_SECONDS} s" if "timeout" in str(error) else "OCR failed"}
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
        paragraphs: list[str] = reading["paragraphs"]
        for block in page.blocks:
            own = block.text.split()
            paragraphs = [text for text in paragraphs if SequenceMatcher(None, text.split(), own).ratio() < 0.7]
        return [*page.blocks, *(Block("text", text, page.place) for text in paragraphs)]

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
