"""Read pages, of a PDF or scanned as pictures, into blocks.

    page --> its text by pdfium, in paragraphs
         --> none, next to none, or garbage: rendered, and read by Tesseract (OCR)

pdfium isn't thread-safe: one process reads one document at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from .parsers import NO_VALUE, Block, Document, NeedsAction, ParseError

MIN_PAGE_CHARS = 10  # visible; a PDF page that shows a picture and has fewer is a scan with, say, a page number

_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff]")
_HYPHEN = re.compile("[\x02\ufffe](?=(\\w?))")  # what pdfium makes of a hyphen at a line end; it joins two lines
_SYMBOL = re.compile(r"^[\uf000-\uf0ff]\s*")  # a bullet in a symbol font
# No 다: a line that begins with `다. ` is the end of a Korean sentence.
_ITEM = re.compile(r"(?:[-*•‣◦▪■□○●※]|\(?(?:\d{1,3}|[A-Za-z가나라마바사아자차카타파하])[.)])\s")
_ENDS = tuple('.?!:;。…”"」』)')


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a page; places in points from the lower left corner. Two lines that a hyphen joins are one."""

    text: str
    left: float
    right: float  # of the last character
    bottom: float  # of the first character
    end: float  # bottom of the last character
    height: float


def pdf(data: bytes, document: Document) -> Iterator[Block]:
    """Read page by page with pdfium, which isn't thread-safe: one process reads one document at a time."""
    import pypdfium2

    try:
        book = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise NeedsAction("this PDF is protected by a password; save a copy without one.") from None
        raise
    scans, damaged, read = list[int](), list[int](), 0
    try:
        _pdf_metadata(book, document)
        for number in range(1, len(book) + 1):
            blocks, is_scan = list[Block](), False
            try:
                blocks, is_scan = _pdf_page(book[number - 1], f"p. {number}")
            except pypdfium2.PdfiumError:
                damaged.append(number)
            scans += [number] if is_scan else []
            read += bool(blocks) and not is_scan
            yield from blocks or [Block("text", "", f"p. {number}")]  # a blank one lets the clock be looked at
        if damaged and not read and not scans:
            raise ParseError("damaged: none of its pages can be read. Open it in a PDF viewer, and save it anew.")
        if scans and not read:
            pages = (
                f"all {len(book):,} pages are scanned images" if len(book) > 1 else "its one page is a scanned image"
            )
            remedy = "Run the file through an OCR program, and save it as a PDF with text."
            raise NeedsAction(f"{pages}; this version of seoga has no OCR yet. {remedy}")
    finally:  # also when a limit ends the reading early
        book.close()
        document.partial += [f"p. {_ranges(scans)}: scanned images without text"] if scans else []
        document.partial += [f"p. {_ranges(damaged)}: damaged, left out"] if damaged else []


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
    """Give a page's paragraphs, and whether it has to be read by OCR instead: no text, next to none, or garbage."""
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        visible = "".join(_HYPHEN.sub("", text).split())
        if len(_UNREADABLE.findall(visible)) * 2 > len(visible):  # a broken ToUnicode map
            return [], True
        is_scan = len(visible) < MIN_PAGE_CHARS and _is_picture(page, bool(visible))
        paragraphs = _pdf_paragraphs(_pdf_lines(textpage, text))
        return [Block("text", paragraph, place) for paragraph in paragraphs], is_scan
    finally:
        textpage.close()
        page.close()


def _is_picture(page: Any, has_text: bool) -> bool:
    """Tell whether a page shows an image, or, without any text, so many shapes that they may be drawn letters."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    kinds = [item.type for item in islice(page.get_objects(max_depth=3), 5000)]
    return FPDF_PAGEOBJ_IMAGE in kinds or (not has_text and len(kinds) >= 50)


def _pdf_lines(textpage: Any, text: str) -> list[_Line]:
    """Find each line's place by its first and last character."""
    lines, start = list[_Line](), 0
    for part in text.split("\r\n"):
        end = start + len(part.encode("utf-16-le", "surrogatepass")) // 2  # pdfium counts in UTF-16
        if part.strip():
            left, bottom, _, top = _box(textpage, start)
            _, last, right, _ = _box(textpage, end - 1)
            lines.append(_Line(_SYMBOL.sub("• ", part), left, right, bottom, last, top - bottom))
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


def _pdf_paragraphs(lines: list[_Line]) -> Iterator[str]:
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


def _begins_paragraph(above: _Line, line: _Line, usual: float, is_full: bool) -> bool:
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
