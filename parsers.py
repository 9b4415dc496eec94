"""Turn one file's bytes into located blocks of text.

`parse(data, name)` looks at the suffix, runs that format's generator of blocks and returns a `Document`:

    b"# Budget\\n\\nTravel is capped.", "a.md"
    -> Document(blocks=[Block("heading", "Budget", level=1), Block("text", "Travel is capped.")], status="ok")

A block knows its place (page, slide, sheet), so a hit in it can be cited. Documents are untrusted: sizes are checked
before anything is unpacked, and index.py runs this in a child process with memory and time limits. This file does not
chunk and does not touch the index.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import posixpath
import re
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from datetime import time as clock
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import IO, TYPE_CHECKING, Any

from .config import SeogaError, scrub

if TYPE_CHECKING:
    from lxml.etree import _Element

PARSER_VERSION = 1  # raise it when a parser gives other text for the same bytes: documents are then read again
MAX_TEXT_CHARS = 20_000_000  # extracted text of one document, then "partial"
MAX_VALUE_CHARS = 500  # of a title or one metadata value
TABLE_ROWS = 1000  # in one block
MAX_SOURCE_CHARS = 32_000_000  # of a text file, marks and all: what is made of it takes about ten bytes for each
MAX_HTML_CHARS = 16_000_000  # the same for HTML, whose tree takes twice as much
MAX_HTML_COLUMNS = 256  # of a table with cells that span rows
MAX_LIST_DEPTH = 8  # shown by indenting
MIN_PAGE_CHARS = 10  # visible; a PDF page that shows a picture and has fewer is a scan with, say, a page number
MAX_RECORD_LINES = 100  # of one CSV record; a longer one is a quotation mark that nobody closed
MAX_ZIP_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 400_000_000  # all entries of one zip
MAX_PART_BYTES = 120_000_000  # one XML part, read piece by piece
MAX_TREE_BYTES = 40_000_000  # one XML part that is held in memory as a tree, which takes some ten times as much
MAX_ZIP_RATIO = 300  # unpacked to packed, from 50 MB on; text reaches 20, spreadsheets 100
MAX_HEADING_CHARS = 200  # a longer "heading" is a paragraph in a heading's style
MAX_SHEET_ROWS = 200_000  # of one workbook
MAX_COLUMNS = 1_000  # that hold anything, in one block
SHEET_BLOCK_ROWS = 500
MAX_BLANK_CELLS = 5_000_000  # of one sheet; openpyxl takes some 3 s for a million


class ParseError(SeogaError):
    """The file can't be read as what its suffix says; it stays failed until it changes."""


class NeedsAction(SeogaError):
    """A person has to do something first (password, OCR engine, …); the message says what."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, table or code listing, in reading order.

    `text` is not empty. In a table each line is one row, Markdown style (`| a | b |`); its first `header` lines are
    repeated in each chunk. `rows` numbers the lines after the header as the spreadsheet does (1-based), if it does.
    """

    kind: str  # heading | text | table | code
    text: str
    place: str = ""  # "p. 12", "slide 3", "sheet Budget", "notes"; empty where the format has no such thing
    level: int = 0  # of a heading, 1 the highest
    header: int = 0
    rows: tuple[int, ...] = ()


@dataclass(slots=True)
class Document:
    """What was read. `partial` lists what was left out and why; blocks may be empty, which is a status of its own."""

    blocks: list[Block] = field(default_factory=list)
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        return "partial" if self.partial else "ok" if self.blocks else "empty"


Parser = Callable[[bytes, Document], Iterator[Block]]


def parse(data: bytes, name: str, *, seconds: float = 25.0) -> Document:
    """Read one file's bytes; `name` tells the format by its suffix. Raise ParseError or NeedsAction if it can't be.

    What takes longer than `seconds`, or holds more than MAX_TEXT_CHARS, is kept as far as it was read: "partial".
    """
    suffix = os.path.splitext(name)[1].casefold()
    if suffix not in SUFFIXES:
        raise ParseError(
            f"{suffix or 'a name without a suffix'} is not a format seoga reads ({', '.join(sorted(SUFFIXES))})."
        )
    document = Document()
    try:
        _collect(_PARSERS[suffix](data, document), document, seconds)
    except SeogaError:
        raise
    except MemoryError:
        raise ParseError("needs more memory than one document may take; split it into smaller files.") from None
    except Exception as error:  # noqa: BLE001 - libraries raise anything at all on damaged files
        fault = f"{type(error).__name__}: {scrub(' '.join(str(error).split()))[:200].rstrip('.')}"
        raise ParseError(f"damaged or not really a {suffix} file: {fault}. Open it, and save it anew.") from None
    first = next((block.text for block in document.blocks if block.kind == "heading"), "")
    document.title = scrub(" ".join((document.title or first).split()))[:MAX_VALUE_CHARS]
    document.metadata = {scrub(key): scrub(value)[:MAX_VALUE_CHARS] for key, value in document.metadata.items()}
    document.partial = [scrub(note) for note in document.partial]
    return document


def _collect(blocks: Iterable[Block], document: Document, seconds: float) -> None:
    """Move blocks into the document, scrubbed, until there are no more or a limit is met."""
    deadline = time.monotonic() + seconds
    room = MAX_TEXT_CHARS
    for block in blocks:
        if len(block.text) > room:
            block = _cut(block, room)
            document.partial.append(f"text beyond {MAX_TEXT_CHARS:,} characters is left out{_at(block)}")
            room = 0
        text = scrub(block.text)
        if text and not text.isspace():
            document.blocks.append(block if text is block.text else replace(block, text=text))
        if room == 0:
            return
        room -= len(block.text)
        if time.monotonic() > deadline:
            document.partial.append(f"stopped after {seconds:g} s{_at(block)}")
            return


def _at(block: Block) -> str:
    return f", at {block.place}" if block.place else ""


def _cut(block: Block, room: int) -> Block:
    """Shorten a block's text; a table ends with a whole row."""
    text = block.text[:room]
    if block.kind != "table":
        return replace(block, text=text)
    text = text[: text.rfind("\n") + 1].rstrip("\n")
    return replace(block, text=text, rows=block.rows[: max(text.count("\n") + 1 - block.header, 0)])


# --- tables: what every format makes of its rows ---


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _row(cells: Iterable[str]) -> str:
    """`["a", "b|c"]` -> `| a | b\\|c |`."""
    return f"| {' | '.join(map(_cell, cells))} |"


def _tables(rows: Iterable[tuple[int, list[str]]]) -> Iterator[Block]:
    """Make table blocks of numbered rows, the first one the header; number 0 is a row without a number.

    One block holds at most 1,000 rows (or about a million characters), so memory and time stay linear.
    """
    head, lines, numbers, size, given = list[str](), list[str](), list[int](), 0, False
    for number, cells in rows:
        while cells and not cells[-1].strip():
            cells.pop()
        if not cells or not head:
            head = head or cells
            continue
        if not given and not lines:
            head += [""] * (len(cells) - len(head))
        lines.append(_row(cells))
        numbers += [number] if number else []
        size += len(lines[-1])
        if len(lines) >= TABLE_ROWS or size > 1_000_000:
            yield _table(head, lines, numbers)
            head = head if size > sum(map(len, head)) else ["…"]  # repeating a huge one would be quadratic
            lines, numbers, size, given = [], [], 0, True
    if lines or (head and not given):
        yield _table(head, lines, numbers)


def _table(head: list[str], lines: list[str], numbers: list[int]) -> Block:
    text = "\n".join([_row(head), _row(["---"] * len(head)), *lines])
    return Block("table", text, header=2, rows=tuple(numbers))


# --- bytes to text ---

_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r\f\b\x1b"))
_ASCII = bytes(range(128))
_BOMS = (  # UTF-32 before UTF-16, whose little-endian mark is the beginning of UTF-32's
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_WIDER = {
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "gb2312": "gb18030",
    "shift_jis": "cp932",
    "iso-8859-1": "cp1252",
}
_LEGACY = ["cp932", "euc_jp", "gb18030", "big5", "cp1251", "cp1252", "koi8_r"]


def _text(data: bytes, document: Document, *, declared: str = "", most: int = MAX_SOURCE_CHARS) -> str:
    """Decode bytes whose encoding is unknown, with `\\n` as the only line end; raise ParseError for binary data."""
    text = _decode(data, document, declared)
    if len(text) > most:
        document.partial.append(f"what follows the first {most:,} characters of the file is left out")
        text = text[:most]
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decode(data: bytes, document: Document, declared: str) -> str:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _replacing(data[len(bom) :], encoding, document)
    if b"\x00" in data and (text := _bare_utf16(data)):
        return text
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if controls * 100 > len(data):
        raise ParseError("this is binary data, not text. If it is a document, give it the suffix of its format.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _legacy(data, document, declared)


def _replacing(data: bytes, encoding: str, document: Document) -> str:
    """Decode, putting U+FFFD for what is broken, and say how much that was."""
    text = data.decode(encoding, "replace")
    broken = text.count("\ufffd") - data.count("\ufffd".encode(encoding))
    if broken > 0:
        document.partial.append(f"broken characters ({encoding.upper()}), shown as \ufffd: {broken:,}")
    return text


def _bare_utf16(data: bytes) -> str:
    """Decode UTF-16 without a mark, known by NULs at only even or only odd places; give "" for anything else."""
    big, little = data[0::2].count(0), data[1::2].count(0)
    if min(big, little) * 4 > max(big, little) or max(big, little) * 100 < len(data):  # U+AC00, 가, has one elsewhere
        return ""
    try:
        text = data.decode("utf-16-be" if big > little else "utf-16-le")
    except UnicodeDecodeError:
        return ""
    sample = text[:10_000]
    return text if sum(c.isprintable() or c.isspace() for c in sample) * 20 > len(sample) * 19 else ""


def _legacy(data: bytes, document: Document, declared: str) -> str:
    """Decode what isn't clean UTF-8: UTF-8 with a few broken bytes, CP949, what it says it is, or a good guess."""
    broken = data.decode("utf-8", "replace").count("\ufffd")
    if len(data.translate(None, _ASCII)) > 30 * broken:  # three bytes a character: ten good ones for a broken one
        return _replacing(data, "utf-8", document)
    if not re.search(rb"[\x80-\xff]{2}", data):  # lone high bytes: Western letters among ASCII
        return data.decode("cp1252", "replace")
    if _looks_korean(data):
        return data.decode("cp949")
    if re.fullmatch(r"(euc|iso|ks_c|windows|cp|gb|big5|shift|koi|mac)[\w.:-]{,20}", declared):
        try:
            return data.decode(_WIDER.get(declared, declared))
        except (LookupError, UnicodeDecodeError):
            pass
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=_LEGACY).best()
    if best is not None:
        return str(best)
    document.partial.append("the encoding is unknown; read as Western European (cp1252)")
    return data.decode("cp1252", "replace")


def _looks_korean(data: bytes) -> bool:
    """Tell whether this is CP949: it decodes, and most pairs are the 2,350 everyday syllables (KS X 1001)."""
    try:
        data.decode("cp949")
    except UnicodeDecodeError:
        return False
    pairs = [match[0] for match in islice(re.finditer(rb"[\x80-\xff][\x00-\xff]", data), 20_000)]
    return sum(0xB0 <= pair[0] <= 0xC8 and pair[1] >= 0xA1 for pair in pairs) * 4 >= len(pairs) * 3


# --- txt, csv, tsv, json ---

_BLANK_LINES = re.compile(r"\n[ \t\f\v\u3000\n]*\n")


def _txt(data: bytes, document: Document) -> Iterator[Block]:
    return _paragraphs(_text(data, document))


def _paragraphs(text: str) -> Iterator[Block]:
    """Split at blank lines."""
    at = 0
    for gap in _BLANK_LINES.finditer(text):
        yield Block("text", text[at : gap.start()].strip("\n").rstrip())
        at = gap.end()
    yield Block("text", text[at:].strip("\n").rstrip())


def _csv(data: bytes, document: Document) -> Iterator[Block]:
    lines = _text(data, document).split("\n")
    return _tables(_records(lines, _delimiter(lines), document))


def _tsv(data: bytes, document: Document) -> Iterator[Block]:
    return _tables(_records(_text(data, document).split("\n"), "\t", document))


def _delimiter(lines: list[str]) -> str:
    """Choose the delimiter that divides the first records into the most even columns."""

    def evenness(delimiter: str) -> int:
        widths = [len(record) for record in csv.reader((line[:4000] for line in lines[:30]), delimiter=delimiter)]
        wide = [width for width in widths if width > 1]
        return max((wide.count(width) for width in wide), default=0)

    return max(",;\t|", key=evenness)


def _records(lines: list[str], delimiter: str, document: Document) -> Iterator[tuple[int, list[str]]]:
    """Number the records from 1, as a spreadsheet shows them: a quoted line break doesn't begin a new row."""
    csv.field_size_limit(MAX_SOURCE_CHARS)
    number, start = 0, 0
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    for number, record in enumerate(reader, start=1):
        if reader.line_num - start > MAX_RECORD_LINES:
            break
        start = reader.line_num
        yield number, record
    else:
        return
    document.partial.append(
        f"row {number} opens a quotation mark that isn't closed; from there on quotes are plain text"
    )
    rest = (line + "\n" for line in islice(lines, start, None))
    yield from enumerate(csv.reader(rest, delimiter=delimiter, quoting=csv.QUOTE_NONE), start=number)


def _json(data: bytes, document: Document) -> Iterator[Block]:
    """Flatten to lines such as `customer.name: 김민수`; also JSON Lines. What is no JSON is read as plain text."""
    text = _text(data, document)
    if not text.strip():
        return iter(())
    try:
        return _grouped(_entries(_load(text)))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text[: error.pos].rstrip(" \t").endswith("\n"):
            return _grouped(("", value) for value in _json_lines(text, document))
        document.partial.append(f"no valid JSON ({error.msg}, line {error.lineno}); read as plain text")
    except RecursionError:
        document.partial.append("nested too deeply to be read as JSON; read as plain text")
    return _paragraphs(text)


def _load(text: str) -> Any:
    """Parse JSON, keeping each number as it is written (`1.10`, `NaN`, 5,000 digits)."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


def _json_lines(text: str, document: Document) -> Iterator[Any]:
    broken = 0
    for line in text.split("\n"):
        if line.strip():
            try:
                yield _load(line)
            except (ValueError, RecursionError):
                broken += 1
                yield line
    if broken:
        document.partial.append(f"lines that are no valid JSON, read as plain text: {broken:,}")


def _entries(value: Any) -> Iterable[tuple[str, Any]]:
    """Give (key, value) of an object, ("", value) of a list's items or of anything else."""
    if isinstance(value, dict):
        return value.items()
    return (("", item) for item in (value if isinstance(value, list) else [value]))


def _grouped(entries: Iterable[tuple[str, Any]]) -> Iterator[Block]:
    """Make one block of each entry that holds others, and of each run of plain values."""
    lines, size = list[str](), 0
    for key, value in entries:
        nested = isinstance(value, (dict, list))
        if nested and lines:
            yield Block("text", "\n".join(lines))
            lines, size = [], 0
        for line in _flat(key, value):
            lines.append(line)
            size += len(line)
            if size > 100_000:  # long paths repeat in each line: hand over before they pile up
                yield Block("text", "\n".join(lines))
                lines, size = [], 0
        if nested:
            yield Block("text", "\n".join(lines))
            lines, size = [], 0
    yield Block("text", "\n".join(lines))


def _flat(key: str, value: Any) -> Iterator[str]:
    """`"a", {"b": [1, 2], "c": [{"d": null}]}` -> `a.b: 1, 2` and `a.c[0].d: null`. Iterative: depth is hostile."""
    stack: list[Iterator[tuple[str, Any]]] = [iter([(key, value)])]
    while stack:
        for path, item in stack[-1]:
            if isinstance(item, dict) or (isinstance(item, list) and any(isinstance(x, (dict, list)) for x in item)):
                stack.append(_children(path, item))
                break
            shown = ", ".join(map(_scalar, item)) if isinstance(item, list) else _scalar(item)
            if shown:
                yield f"{path}: {shown}" if path else shown
        else:
            stack.pop()


def _children(path: str, item: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(item, list):
        return ((f"{path}[{number}]", child) for number, child in enumerate(item))
    return ((f"{path}.{key}" if path else key, child) for key, child in item.items())


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- md ---

_NOTHING = Block("text", "")  # ends a paragraph; `_collect` drops it
_ATX = re.compile(r"#{1,6}(?=[ \t]|$)")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_LIST_OR_QUOTE = re.compile(r"(?:[-*+>]|\d+[.)])(?:\s|$)")
_PROPERTY = re.compile(r"([^\s:#-][^:]{,60}):(?:\s+(.*))?")


def _markdown(data: bytes, document: Document) -> Iterator[Block]:
    """Read line by line: a Markdown library takes twenty times as long, and inline syntax is fine as it is."""
    text = _text(data, document)
    last_comment = text.count("\n", 0, text.rfind("-->")) if "-->" in text else -1
    lines, paragraph = text.split("\n"), list[str]()
    at = _front_matter(lines, document)
    yield Block("text", "\n".join(lines[1 : max(at - 1, 1)]))
    while at < len(lines):
        line, after = lines[at], at + 1
        if "<!--" in line and at <= last_comment:
            line, after = _without_comments(lines, at, last_comment)
        found = _special(line, lines, after, paragraph)
        if found is None:
            paragraph.append(line.rstrip())
            at = after
            continue
        if paragraph:
            yield Block("text", "\n".join(paragraph))
            paragraph.clear()
        yield found[0]
        at = found[1]
    yield Block("text", "\n".join(paragraph))


def _front_matter(lines: list[str], document: Document) -> int:
    """Read the simple `key: value` lines of YAML at the start; return the number of the line after it, or 0."""
    if lines[0].rstrip() != "---":
        return 0
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    inside = [line.rstrip() for line in lines[1:end] if line.strip() and not line.startswith("#")]
    if end == 0 or (inside and not _PROPERTY.fullmatch(inside[0])):
        return 0  # a rule between paragraphs
    for found in islice(filter(None, map(_PROPERTY.fullmatch, inside)), 50):
        if value := (found[2] or "").strip(" \t'\""):
            document.metadata[found[1].strip()] = value
    document.title = document.metadata.pop("title", "")
    return end + 1


def _without_comments(lines: list[str], at: int, last: int) -> tuple[str, int]:
    """Take `<!-- … -->` out of a line; it may end some lines later. Return what is left and the next line's number."""
    first, line, kept, done, ticks = at, lines[at], list[str](), 0, 0
    while (start := line.find("<!--", done)) >= 0:
        kept.append(line[done:start])
        ticks += kept[-1].count("`")
        done = start + 4
        if ticks % 2:  # within `code`
            kept.append("<!--")
            continue
        while (end := line.find("-->", done)) < 0 and at < last:
            at, done = at + 1, 0
            line = lines[at]
        if end < 0:  # never closed: text after all
            return lines[first], first + 1
        done = end + 3
    return "".join(kept) + line[done:], at + 1


def _special(line: str, lines: list[str], after: int, paragraph: list[str]) -> tuple[Block, int] | None:
    """Give the block that this line makes, and the number of the line after it; None for a line of a paragraph.

    A setext heading takes its text from the paragraph so far, a table its header.
    """
    start = line.strip()
    mark = start[:1]
    if not mark:
        return _NOTHING, after
    if mark in "`~" and (fence := _FENCE.match(start)):
        return _fenced(line, fence[1] or fence[2], lines, after)
    if mark not in "#=-|:*_" or line[:4].isspace():
        return None
    if mark == "#" and (atx := _ATX.match(start)):
        return Block("heading", _without_closing(start[atx.end() :].strip()), level=atx.end()), after
    if paragraph and mark in "=-" and not start.strip(mark):
        heading = " ".join(part.strip() for part in paragraph[:9])
        if len(paragraph) < 9 and len(heading) <= MAX_VALUE_CHARS and not _LIST_OR_QUOTE.match(paragraph[-1].lstrip()):
            paragraph.clear()
            return Block("heading", heading, level=1 if mark == "=" else 2), after
    if paragraph and "|" in paragraph[-1] and {"|", "-"} <= set(start) <= set("|:- \t"):
        return _pipe_table([paragraph.pop(), start], lines, after)
    if mark in "-*_" and start.count(mark) >= 3 and not start.strip(f"{mark} \t"):
        return _NOTHING, after
    return None


def _without_closing(heading: str) -> str:
    """`Budget ##` -> `Budget`, but `C#` stays."""
    opened = heading.rstrip("#")
    return heading if opened and opened[-1] not in " \t" else opened.rstrip()


def _fenced(opening: str, mark: str, lines: list[str], after: int) -> tuple[Block, int]:
    end = after
    while end < len(lines) and not (lines[end].lstrip().startswith(mark) and not lines[end].strip(f"{mark[0]} \t")):
        end += 1
    return Block("code", "\n".join([opening, *lines[after : end + 1]]).rstrip()), end + 1


def _pipe_table(rows: list[str], lines: list[str], after: int) -> tuple[Block, int]:
    end = after
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return Block("table", "\n".join(map(_piped, rows + lines[after:end])), header=2), end


def _piped(row: str) -> str:
    """`a | b` -> `| a | b |`."""
    row = row.strip()
    row = row if row.startswith("|") else f"| {row}"
    return row if row.endswith("|") and not row.endswith("\\|") else f"{row} |"


# --- html ---

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LISTS = frozenset({"ul", "ol", "dl", "menu"})
_TABLE_PARTS = frozenset({"caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr"})
_MAIN = ("main", "article")
_FRAME = frozenset({"nav", "footer", "aside", "header"})  # of the page, not the document, where that is marked
_DROPPED = frozenset({"head", "script", "style", "noscript", "template", "svg", "iframe", "canvas", "object"})
_LINE_TAGS = """address article aside blockquote body caption center dd details dialog div dt fieldset figcaption figure
    footer form header hr legend li main nav option p pre section summary table tbody td tfoot th thead tr"""
_LINES = _LISTS.union(_HEADINGS, _LINE_TAGS.split())  # begin and end a line; everything else runs on within it
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\f\xa0\x01]+")
_MARK = "\x01"  # ends "- " and "1. ", so that a paragraph within a list item begins no new line


def _html(data: bytes, document: Document) -> Iterator[Block]:
    declared = _DECLARED.search(data[:2048])
    encoding = declared[1].decode("ascii", "replace").lower() if declared else ""
    text = _text(data, document, declared=encoding, most=MAX_HTML_CHARS)
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    root = etree.fromstring(text.encode(), parser)
    if any("depth" in entry.message for entry in parser.error_log):
        document.partial.append("tags are nested too deeply; read as plain text without its structure")
        yield from _paragraphs(re.sub(r"<[^<>]*>", "", text))
    elif root is not None:
        document.title = root.findtext(".//head/title") or ""
        for meta in root.iter("meta"):
            name, value = (meta.get("name") or "").casefold(), meta.get("content")
            if name in ("author", "description", "keywords") and value:
                document.metadata[name] = value
        yield from _html_blocks(root, _kept_frames(root))


def _kept_frames(root: Any) -> set[Any] | None:
    """Give the headers and the like that hold the document or its title; None if no element says which that is."""
    outermost = [main for main in root.iter(*_MAIN) if next(main.iterancestors(*_MAIN), None) is None]
    marked = [main for main in outermost if any(text.strip() for text in main.itertext())]
    if not marked:
        return None
    titles = list(root.iter("h1"))
    if any(next(title.iterancestors(*_MAIN), None) is not None for title in titles):
        titles = []
    kept = set[Any]()
    for element in marked + titles:
        for ancestor in element.iterancestors():
            if ancestor in kept:
                break
            kept.add(ancestor)
    return kept


def _html_blocks(root: Any, kept: set[Any] | None) -> Iterator[Block]:
    """Walk the tree in document order, gathering lines until something ends the block. Iterative: depth is hostile."""
    from lxml.etree import iterwalk

    line, lists, inside = list[str](), list[int](), 0  # `lists` counts the items of each open list
    walk = iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag, starts = element.tag, event == "start"
        inside += (1 if starts else -1) if tag in _MAIN else 0
        if not starts and tag in _LISTS and not _is_hidden(element):
            lists.pop()
        if tag in _LINES and lists:
            _end_line(line)
        elif tag in _LINES:
            yield from _gathered(line)
        if not starts:
            _add(line, element.tail if element is not root else "")
            continue
        is_frame = kept is not None and not inside and tag in _FRAME and element not in kept
        own = iter(()) if is_frame or _is_hidden(element) else _own_blocks(element)
        if own is not None:
            yield from _gathered(line) if tag in _LINES else ()
            yield from own
            walk.skip_subtree()
            continue
        if tag in _LISTS:
            lists.append(0)
        _add(line, _leading(element, lists), as_it_is=True)
        _add(line, element.text)
    yield from _gathered(line)


def _leading(element: Any, lists: list[int]) -> str:
    """Give what stands before an element's own text: a list mark, a line end, a picture's description."""
    if element.tag == "br":
        return "\n"
    if element.tag == "dd":
        return f": {_MARK}"
    if element.tag == "img":
        alt = " ".join((element.get("alt") or "").split())
        return f"[{alt}]" if alt else ""
    if element.tag != "li":
        return ""
    lists[-1:] = [number + 1 for number in lists[-1:]]
    parent = element.getparent()
    numbered = lists and parent is not None and parent.tag == "ol"
    return "\t" * (min(len(lists), MAX_LIST_DEPTH) - 1) + (f"{lists[-1]}. {_MARK}" if numbered else f"- {_MARK}")


def _is_hidden(element: Any) -> bool:
    return (
        element.tag in _DROPPED
        or element.get("hidden") is not None
        or _HIDDEN_STYLE.search(element.get("style") or "") is not None
    )


def _add(line: list[str], text: str | None, *, as_it_is: bool = False) -> None:
    """Add running text: any white space is one space, and none stands at the beginning of a line."""
    text = (text or "") if as_it_is else _SPACES.sub(" ", text or "")
    if text and (text != " " or (line and line[-1][-1] not in f" \n\t{_MARK}")):
        line.append(text)


def _end_line(line: list[str]) -> None:
    if line and line[-1][-1] not in f"\n{_MARK}":
        line.append("\n")


def _gathered(line: list[str]) -> Iterator[Block]:
    if line:
        text = re.sub(" ?\n ?", "\n", re.sub(" +", " ", "".join(line).replace(_MARK, ""))).replace("\t", "  ")
        line.clear()
        yield from _paragraphs(text.strip(" "))


def _own_blocks(element: Any) -> Iterator[Block] | None:
    """Give the blocks of a heading, a listing or a table; None for what is just walked through."""
    if element.tag in _HEADINGS:
        return iter([Block("heading", " ".join(_inner_text(element).split()), level=int(element.tag[1]))])
    if element.tag == "pre":
        return iter([Block("code", _inner_text(element).strip("\n").rstrip())])
    if element.tag == "table" and not _is_layout(element):
        return _html_table(element)
    return None


def _inner_text(element: Any) -> str:
    """Join all text within, white space as it is; `<br>` and the edges of lines (cells, paragraphs) are line ends."""
    from lxml.etree import iterwalk

    pieces = [""]
    walk = iterwalk(element, events=("start", "end"))
    for event, inner in walk:
        starts = event == "start"
        edge = inner is not element and inner.tag in _LINES and not pieces[-1].endswith("\n")
        if edge or (inner.tag == "br" and starts):
            pieces.append("\n")
        if starts and _is_hidden(inner):
            walk.skip_subtree()
        elif starts:
            pieces.append(inner.text or (inner.get("alt") if inner.tag == "img" else "") or "")
        elif inner is not element:
            pieces.append(inner.tail or "")
    return "".join(pieces)


# --- html tables ---


def _own_rows(table: Any) -> list[Any]:
    groups = [table, *table.iterchildren("thead", "tbody", "tfoot")]
    return [row for group in groups for row in group.iterchildren("tr")]


def _is_layout(table: Any) -> bool:
    """Tell whether a table only places things on the page: then its cells are read one after the other."""
    inside = list(islice(table.iter(), 1, 2000))  # bounded, as tables nest
    tags = [element.tag for element in inside]
    if table.get("role") in ("presentation", "none") or tags.count("td") + tags.count("th") < 2:
        return True
    if not _TABLE_PARTS.issuperset(child.tag for child in table) or not set(_HEADINGS).isdisjoint(tags):
        return True
    size = sum(len(element.text or "") + len(element.tail or "") for element in inside)
    return "table" in tags and "th" not in tags and size > 2000


def _html_table(table: Any) -> Iterator[Block]:
    for caption in table.iterchildren("caption"):
        yield Block("text", " ".join(_inner_text(caption).split()))
    yield from _tables((0, cells) for cells in _filled(row for row in _own_rows(table) if not _is_hidden(row)))


def _filled(rows: Iterable[Any]) -> Iterator[list[str]]:
    """Lay cells on the grid: one that spans rows is repeated in each, one that spans columns has blanks beside it."""
    hanging: dict[int, tuple[int, str]] = {}  # column -> rows still to fill, text
    for row in rows:
        cells = list[str]()
        for cell in row.iterchildren("td", "th"):
            _hang(cells, hanging)
            text = " ".join(_inner_text(cell).split())
            down = _span(cell, "rowspan", 1000)
            for shown in [text, *[""] * (_span(cell, "colspan", 100) - 1)]:
                if down > 1 and len(cells) < MAX_HTML_COLUMNS:
                    hanging[len(cells)] = (down - 1, shown if len(shown) <= 100 else "")
                cells.append(shown)
        _hang(cells, hanging)
        yield cells


def _hang(cells: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    while len(cells) in hanging:
        left, text = hanging.pop(len(cells))
        if left > 1:
            hanging[len(cells)] = (left - 1, text)
        cells.append(text)


def _span(cell: Any, name: str, most: int) -> int:
    found = re.match(r"\s*(\d{1,6})", cell.get(name) or "")
    return min(max(int(found[1]), 1), most) if found else 1


# --- pdf ---

_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff]")
_HYPHEN = re.compile("[\x02\ufffe](?=(\\w?))")  # what pdfium makes of a hyphen that ends a line; it joins the two lines
_SYMBOL = re.compile(r"^[\uf000-\uf0ff]\s*")  # a bullet in a symbol font
# No 다: a line that begins with `다. ` is the end of a Korean sentence.
_ITEM = re.compile(r"(?:[-*•‣◦▪■□○●※]|\(?(?:\d{1,3}|[A-Za-z가나라마바사아자차카타파하])[.)])\s")
_ENDS = tuple('.?!:;。…”"」』)')
_NO_VALUE = {"", "unspecified", "(unspecified)", "anonymous", "(anonymous)", "untitled"}  # what programs fill in


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a page; places in points from the lower left corner. Two lines that a hyphen joins are one."""

    text: str
    left: float
    right: float  # of the last character
    bottom: float  # of the first character
    end: float  # bottom of the last character
    height: float


def _pdf(data: bytes, document: Document) -> Iterator[Block]:
    """Read page by page with pdfium, which isn't thread-safe: one process reads one document at a time."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise NeedsAction("this PDF is protected by a password; save a copy without one.") from None
        raise
    scans, damaged, read = list[int](), list[int](), 0
    try:
        _pdf_metadata(pdf, document)
        for number in range(1, len(pdf) + 1):
            blocks, is_scan = list[Block](), False
            try:
                blocks, is_scan = _pdf_page(pdf[number - 1], f"p. {number}")
            except pypdfium2.PdfiumError:
                damaged.append(number)
            scans += [number] if is_scan else []
            read += bool(blocks) and not is_scan
            yield from blocks or [Block("text", "", f"p. {number}")]  # a blank one lets the clock be looked at
        if damaged and not read and not scans:
            raise ParseError("damaged: none of its pages can be read. Open it in a PDF viewer, and save it anew.")
        if scans and not read:
            pages = f"all {len(pdf):,} pages are scanned images" if len(pdf) > 1 else "its one page is a scanned image"
            remedy = "Run the file through an OCR program, and save it as a PDF with text."
            raise NeedsAction(f"{pages}; this version of seoga has no OCR yet. {remedy}")
    finally:  # also when a limit ends the reading early
        pdf.close()
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
    values = {key: value for key, value in values.items() if value.casefold() not in _NO_VALUE}
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


# --- zipped XML: .docx, .hwpx, .xlsx, .pptx ---

_GridRow = tuple[int, dict[int, str]]  # its number or 0, {column: text} without blanks
_KEYS = {"creator": "author", "createddate": "created", "modifieddate": "modified", "keyword": "keywords"}
_KEYS |= {key: key for key in ("title", "subject", "description", "keywords", "created", "modified", "category")}
_SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "huge_tree": False}
_SAFE |= {"remove_comments": True, "remove_pis": True}


class _Package:
    """The XML parts of a zip, each checked before any is used. Names are compared without case, as Office does."""

    def __init__(self, data: bytes, document: Document, kind: str) -> None:
        if data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE2 container, which holds no zip
            old = "hwp" if kind == "hwpx" else kind[:-1]
            raise NeedsAction(f"protected by a password, or an old .{old}: save it without a password, as .{kind}.")
        if data.count(b"PK\x01\x02") > MAX_ZIP_ENTRIES:  # before zipfile makes an object for each
            raise ParseError(f"the zip holds more than {MAX_ZIP_ENTRIES:,} entries, so it is no honest .{kind}.")
        try:
            self.archive = zipfile.ZipFile(io.BytesIO(data))
        except Exception as error:  # noqa: BLE001 - struct.error, ValueError and others, beside BadZipFile
            raise ParseError(f"damaged, or not really a .{kind} ({error}). Open it, and save it anew.") from None
        _check_zip(self.archive, len(data))
        self.notes = document.partial
        self.parts: dict[str, zipfile.ZipInfo] = {}
        for info in self.archive.infolist():
            if info.filename.casefold().endswith((".xml", ".rels", ".hpf")):
                try:
                    _check_part(self.archive, info)
                except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
                    self.damaged(info.filename, error)
                else:
                    self.parts[_part_name(info.filename)] = info

    def open(self, name: str) -> IO[bytes]:
        """Open a part that has to be there."""
        if _part_name(name) not in self.parts:
            raise ParseError(f"holds no {name}, which such a file needs. Open it, and save it anew.")
        return self.archive.open(self.parts[_part_name(name)])

    def xml(self, name: str) -> _Element | None:
        """Parse a part; None if it is damaged, or if there is none, as where a dangling relationship leads."""
        from lxml import etree

        info = self.parts.get(_part_name(name))
        if info is None:
            return None
        if info.file_size > MAX_TREE_BYTES:
            raise ParseError(f"{name} takes {info.file_size:,} bytes; at most {MAX_TREE_BYTES:,} are read.")
        try:
            return etree.parse(self.archive.open(info), etree.XMLParser(**_SAFE)).getroot()
        except etree.XMLSyntaxError as error:
            self.damaged(name, error)
            return None

    def stream(self, name: str, parent: str, tags: tuple[str, ...]) -> Iterator[_Element]:
        """Yield the children of `parent` called one of `tags`, each forgotten before the next is read."""
        from lxml import etree

        wanted = [f"{{*}}{tag}" for tag in tags]
        above = None
        try:
            for _, element in etree.iterparse(self.open(name), events=("end",), tag=wanted, **_SAFE):
                above = element.getparent()
                if above is not None and _name(above) == parent:
                    yield element
                    element.clear()
                    while element.getprevious() is not None:
                        del above[0]
        except etree.XMLSyntaxError as error:
            if above is None:
                raise
            self.damaged(name, error)  # what was read before is kept

    def damaged(self, name: str, error: Exception) -> None:
        self.notes.append(f"{name} is damaged ({error})")

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return what a part refers to: id -> (the type's last word, the part's name)."""
        folder, _, name = part.rpartition("/")
        root = self.xml(f"{folder}/_rels/{name}.rels")
        found = {}
        for link in root if root is not None else ():
            if link.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, link.get("Target", "")))
                found[link.get("Id", "")] = (link.get("Type", "").rpartition("/")[2], target.lstrip("/"))
        return found

    def main(self, default: str, document: Document) -> str:
        """Return the name of an OOXML file's main part; put its title, author and so on into `document`."""
        kinds = dict(self.relations("").values())
        part = kinds.get("officeDocument", default)
        self.open(part).close()
        core = self.xml(kinds.get("core-properties", "docProps/core.xml"))
        _describe(document, ((_name(item), item.text) for item in (core if core is not None else ())))
        return part


def _check_zip(archive: zipfile.ZipFile, packed: int) -> None:
    """Refuse an encrypted zip, and one that can't be honest, by its directory alone."""
    entries = sorted(archive.infolist(), key=lambda info: info.header_offset)
    total = sum(info.file_size for info in entries)
    ends = [info.header_offset for info in entries[1:]] + [archive.start_dir]
    if any(info.flag_bits & 1 for info in entries):
        raise NeedsAction("protected by a password: save it without one.")
    if total > MAX_UNPACKED_BYTES or (total > 50_000_000 and total > MAX_ZIP_RATIO * packed):
        raise ParseError(f"unpacks from {packed:,} to {total:,} bytes, so it is taken for a zip bomb.")
    if any(info.header_offset + info.compress_size > end for info, end in zip(entries, ends, strict=True)):
        raise ParseError("has entries that overlap, so it is taken for a zip bomb.")


def _check_part(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Unpack one XML part in pieces: it is as long as the directory says, and has no DOCTYPE (entities expand)."""
    probe = copy.copy(info)
    probe.file_size = MAX_PART_BYTES + 1  # zipfile stops, without a word, at the size that is declared
    size, before = 0, b""
    with archive.open(probe) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            if size > MAX_PART_BYTES:
                raise ParseError(f"{info.filename} unpacks to more than {MAX_PART_BYTES:,} bytes.")
            if b"<!DOCTYPE" in (before + piece).replace(b"\x00", b""):  # UTF-16 too
                raise ParseError(f"{info.filename} declares a DOCTYPE, which no office program writes.")
            before = piece[-20:]
    if size != info.file_size:
        raise ParseError(f"{info.filename} unpacks to {size:,} bytes instead of {info.file_size:,}: a zip bomb.")


def _part_name(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").casefold()


def _describe(document: Document, properties: Iterable[tuple[str, str | None]]) -> None:
    for name, value in properties:
        key = _KEYS.get(name.casefold(), "")
        if not value or value.strip().casefold() in _NO_VALUE:
            continue
        if key == "title":
            document.title = value
        elif key:
            document.metadata[key] = value[:10] if key in {"created", "modified"} else value  # the day, of ISO


def _name(element: _Element) -> str:
    """`{http://…/main}p` -> `p`: namespaces differ between editions of a format, names don't."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _attribute(element: _Element | None, name: str, default: str = "") -> str:
    """Return an attribute whatever its namespace; `r:id`-like names ask for one with a namespace."""
    for key, value in element.attrib.items() if element is not None else ():
        if key == name or str(key).endswith(f"}}{name.removeprefix('r:')}"):
            return str(value)
    return default


def _whole(text: str | None, default: int = 0) -> int:
    return int(text) if text and re.fullmatch(r"-?\d{1,15}", text) else default


def _within(parent: _Element, name: str) -> Iterator[_Element]:
    """Yield children called `name`, also those wrapped in content controls or insertions."""
    for child in parent:
        if _name(child) == name:
            yield child
        elif _name(child) in {"sdt", "sdtContent", "customXml", "ins", "moveTo"}:
            yield from _within(child, name)


def _plain_table(rows: Iterable[dict[int, str]], place: str) -> Iterator[Block]:
    """Make a table of rows, `{column: text}` without blanks; a single row or column is no table, but text."""
    filled = [(0, row) for row in rows if row]
    if len({column for _, row in filled for column in row}) > 1:
        yield from _grid_tables(iter(filled), place, [])
    else:
        yield from (Block("text", text, place) for _, row in filled for text in row.values())


def _grid_tables(rows: Iterator[_GridRow], place: str, notes: list[str]) -> Iterator[Block]:
    """Make table blocks of numbered rows; the first one is the header, lone cells at the left above it are titles.

    Columns that are blank throughout a block are left out.
    """
    body = _batch(rows, SHEET_BLOCK_ROWS)
    left = min((min(row) for _, row in body), default=0)
    wide = next((at for at, (_, row) in enumerate(body[:6]) if list(row) != [left]), 0)
    yield from (Block("text", row[left], place) for _, row in body[:wide])
    header = body[wide][1] if body else {}
    body = body[wide + 1 :] + _batch(rows, wide + 1)
    if header and not body:
        yield Block("text", " | ".join(header[column] for column in sorted(header)), place)
    while body:
        columns = sorted({*header, *(column for _, row in body for column in row)})
        note = f"columns beyond {MAX_COLUMNS:,} that hold anything are left out, {place}"
        if len(columns) > MAX_COLUMNS and note not in notes:
            notes.append(note)
        lines = [_row(row.get(column, "") for column in columns[:MAX_COLUMNS]) for _, row in ((0, header), *body)]
        lines.insert(1, _row(["---"] * len(columns[:MAX_COLUMNS])))
        yield Block("table", "\n".join(lines), place, header=2, rows=tuple(number for number, _ in body if number))
        body = _batch(rows, SHEET_BLOCK_ROWS)


def _batch(rows: Iterator[_GridRow], most: int) -> list[_GridRow]:
    """Take `most` rows, or what makes a million characters: all cells may share one long text."""
    taken: list[_GridRow] = []
    size = 0
    while len(taken) < most and size < 1_000_000 and (row := next(rows, None)):
        taken.append(row)
        size += sum(map(len, row[1].values()))
    return taken


# --- flowing text: what .docx, .hwpx and .pptx have in common ---

_MARKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "lineBreak": "\n"}
_MARKS |= {"noBreakHyphen": "-", "hyphen": "-", "nbSpace": " ", "fwSpace": " "}
_LEFT_OUT = frozenset({"pPr", "rPr", "tblPr", "tcPr", "trPr", "sectPr", "sdtPr"})  # properties
_LEFT_OUT |= {"del", "delText", "moveFrom", "instrText", "rt"}  # deletions, field codes, readings of a ruby
_END = ("footnotes", "endnotes", "comments", "header", "footer")
_LIST_ITEM = re.compile(r" *- ")
_PAGE_NUMBER = re.compile(r"(?:page|of|쪽|페이지|면|[\W\d_])*", re.IGNORECASE)


@dataclass(slots=True)
class _Pieces:
    """One paragraph's pieces: text and the tables in it, then the text boxes that are anchored to it."""

    parts: list[str | _Element] = field(default_factory=list)
    boxes: list[_Element] = field(default_factory=list)
    deleted: bool = False

    def add(self, text: str | None) -> None:
        if text and not self.deleted:
            self.parts.append(text)


class _Flow:
    """Walks paragraphs, tables in paragraphs and paragraphs in tables; each format says how it differs."""

    def __init__(self) -> None:
        self.place = ""
        self.numbered = 0  # notes met so far
        self.aside: list[Block] = []  # notes, comments, headers and footers, which follow the body
        self.seen: set[tuple[str, str]] = set()

    def style(self, paragraph: _Element) -> tuple[int, str]:
        """Return a paragraph's heading level, or 0, and the mark of a list item, such as `  - `."""
        raise NotImplementedError

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        """Yield each row's cells by column, a merged one only where it begins."""
        raise NotImplementedError

    def special(self, element: _Element, name: str, line: _Pieces) -> bool:
        """Treat an element that only this format has; False leaves it to the common walk."""
        raise NotImplementedError

    def body(self, elements: Iterable[_Element]) -> Iterator[Block]:
        """Yield the blocks of the body, list items that follow each other as one."""
        items: list[str] = []
        for number, element in enumerate(elements):
            for block in self.block(element):
                if block.kind == "text" and _LIST_ITEM.match(block.text):
                    items.append(block.text)
                    continue
                if items:
                    yield Block("text", "\n".join(items))
                    items = []
                yield block
            if number % 1000 == 0:
                yield Block("text", "")  # a million empty paragraphs: parse() looks at its clock
        yield Block("text", "\n".join(items))

    def blocks(self, parent: _Element, nested: bool = False) -> Iterator[Block]:
        """Yield the blocks in an element; nested, tables become lines of text."""
        for child in parent:
            yield from self.block(child, nested)

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        name = _name(element)
        if name == "p":
            yield from self.paragraph(element, nested)
        elif name == "tbl":
            yield from self.table(element, nested)
        elif name not in _LEFT_OUT:
            yield from self.blocks(_chosen(element) if name == "AlternateContent" else element, nested)

    def paragraph(self, element: _Element, nested: bool) -> Iterator[Block]:
        line = _Pieces()
        self.inline(element, line)
        level, mark = self.style(element)
        text = ""
        for part in line.parts:
            if isinstance(part, str):
                text += part
            else:
                yield from self.words(text, level, mark)
                yield from self.table(part, nested)
                text = ""
        yield from self.words(text, level, mark)
        for box in line.boxes:
            yield from self.blocks(box, nested)

    def words(self, text: str, level: int, mark: str) -> Iterator[Block]:
        text = text.strip()
        if text and level and len(text) <= MAX_HEADING_CHARS:
            yield Block("heading", " ".join(text.split()), self.place, level=level)
        elif text:
            yield Block("text", mark + text, self.place)

    def table(self, element: _Element, nested: bool) -> Iterator[Block]:
        """Yield a table; one of a single row or column is layout, whose cells are read like the page."""
        grid = list(self.grid(element))
        if nested:
            rows = (" / ".join(filter(None, map(self.cell, row.values()))) for row in grid)
            yield Block("text", "; ".join(filter(None, rows)), self.place)
        elif len(grid) < 2 or len({column for row in grid for column in row}) < 2:
            for cell in chain.from_iterable(row.values() for row in grid):
                yield from self.blocks(cell)
        else:
            texts = ({at: text for at, cell in row.items() if (text := self.cell(cell))} for row in grid)
            yield from _plain_table(texts, self.place)

    def cell(self, cell: _Element) -> str:
        return " ".join(self.flat(cell).split())

    def flat(self, element: _Element) -> str:
        """Return all text in an element, a line for each paragraph."""
        return "\n".join(block.text for block in self.blocks(element, nested=True) if block.text)

    def inline(self, element: _Element, line: _Pieces) -> None:
        mixed = _name(element) == "t"  # .hwpx has tabs and breaks amid the text
        for child in element:
            self.piece(child, _name(child), line)
            if mixed:
                line.add(child.tail)

    def piece(self, element: _Element, name: str, line: _Pieces) -> None:
        if name in _LEFT_OUT or self.special(element, name, line):
            return
        if name in _MARKS:
            line.add(_MARKS[name])
        elif name in {"oMath", "oMathPara", "equation"}:
            line.add(_equation(element))
        elif name == "tbl":
            line.parts.append(element)
        elif name in {"txbxContent", "drawText", "caption"}:
            line.boxes.append(element)
        else:
            line.add(element.text if name == "t" else "")
            self.inline(_chosen(element) if name == "AlternateContent" else element, line)

    def note(self, body: _Element, place: str) -> str:
        """Number a footnote or endnote, keep its text for the end, return its mark."""
        self.numbered += 1
        mark = f"[^{self.numbered}]"
        self.aside.append(Block("text", f"{mark}: {self.flat(body)}", place))
        return mark

    def once(self, text: str, place: str, author: str = "") -> None:
        """Keep a comment, header or footer for the end, unless it was met before or is only a page number."""
        if (place, text) not in self.seen and not (place in {"header", "footer"} and _PAGE_NUMBER.fullmatch(text)):
            self.seen.add((place, text))
            self.aside.append(Block("text", f"{author}: {text}" if author else text, place))

    def end(self) -> Iterator[Block]:
        """Yield what follows the body."""
        yield from sorted(self.aside, key=lambda block: _END.index(block.place))


def _chosen(alternatives: _Element) -> _Element:
    """Return the first form of mc:AlternateContent that is not empty: the same text follows again in an older form."""
    return next((form for form in alternatives if len(form)), alternatives)


def _equation(element: _Element) -> str:
    """Return an equation's text as it stands in the file."""
    return "".join(item.text or "" for item in element.iter("{*}t", "{*}script"))


# --- .docx ---

_HEADING = re.compile(r"(?:heading|제목)\s*([1-9])", re.IGNORECASE)
_SYMBOL_FONT = dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True))  # its letters are Greek
_SYMBOL_FONT |= zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True)
_SYMBOL_FONT |= {0xA3: "≤", 0xA5: "∞", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB7: "•", 0xB8: "÷", 0xB9: "≠"}
_WINGDINGS = {0x6F: "□", 0xA7: "▪", 0xA8: "☐", 0xD8: "▶", 0xE0: "→", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"}


@dataclass(frozen=True, slots=True)
class _Style:
    """A paragraph style; None: it inherits from `base`."""

    base: str
    level: int | None
    list_level: int | None  # -1: no list


class _Word(_Flow):
    def __init__(self, package: _Package, part: str) -> None:
        super().__init__()
        self.package = package
        self.links = list(package.relations(part).values())
        self.styles: dict[str, _Style] = {}
        for style in (child for root in self.linked("styles") for child in root.iterfind("{*}style")):
            name = _attribute(style.find("{*}name"), "val")
            level, list_level = _outline(style.find("{*}pPr"))
            level = _named_level(name) if level is None else level
            base = _attribute(style.find("{*}basedOn"), "val")
            self.styles[_attribute(style, "styleId")] = _Style(base, level, list_level)
        self.bodies = {
            (kind, _attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            for root in self.linked(f"{kind}s")
            for note in root
            if _attribute(note, "type", "normal") == "normal"
        }

    def linked(self, kind: str) -> Iterator[_Element]:
        for found, part in self.links:
            root = self.package.xml(part) if found == kind else None
            if root is not None:
                yield root

    def style(self, paragraph: _Element) -> tuple[int, str]:
        properties = paragraph.find("{*}pPr")
        level, depth = _outline(properties)
        style = _attribute(properties.find("{*}pStyle"), "val") if properties is not None else ""
        for _ in range(20):  # a chain may be a circle
            known = self.styles.get(style)
            if known is None:
                level = _named_level(style) if level is None else level
                break
            level = known.level if level is None else level
            depth = known.list_level if depth is None else depth
            style = known.base
        return level or 0, "" if depth is None or depth < 0 else "  " * min(depth, 9) + "- "

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in _within(table, "tr"):
            if row.find("{*}trPr/{*}del") is not None:
                continue
            column, cells = _whole(_attribute(row.find("{*}trPr/{*}gridBefore"), "val")), {}
            for cell in _within(row, "tc"):
                merge = cell.find("{*}tcPr/{*}vMerge")
                if merge is None or _attribute(merge, "val") == "restart":
                    cells[column] = cell
                column += max(_whole(_attribute(cell.find("{*}tcPr/{*}gridSpan"), "val")), 1)
            yield cells

    def special(self, element: _Element, name: str, line: _Pieces) -> bool:
        if name == "r":
            hidden = element.find("{*}rPr/{*}vanish")
            return hidden is not None and _attribute(hidden, "val") not in {"0", "false", "off"}
        if name in {"footnoteReference", "endnoteReference"}:
            kind = name.removesuffix("Reference")
            body = self.bodies.get((kind, _attribute(element, "id")))
            line.add(self.note(body, f"{kind}s") if body is not None else "")
            return True
        if name == "sym":
            line.add(_symbol(_attribute(element, "char"), _attribute(element, "font")))
        return name == "sym"

    def end(self) -> Iterator[Block]:
        for comment in (child for root in self.linked("comments") for child in root):
            self.once(self.flat(comment), "comments", _attribute(comment, "author"))
        for place in ("header", "footer"):
            for root in self.linked(place):
                self.once(self.flat(root), place)
        yield from super().end()


def _outline(properties: _Element | None) -> tuple[int | None, int | None]:
    """Read a heading level (0: body text) and a list level (-1: no list) from paragraph properties; None: not said."""
    if properties is None:
        return None, None
    outline = _whole(_attribute(properties.find("{*}outlineLvl"), "val"), -1)
    number = properties.find("{*}numPr")
    depth = _whole(_attribute(number.find("{*}ilvl"), "val")) if number is not None else None
    if number is not None and _attribute(number.find("{*}numId"), "val") == "0":
        depth = -1
    return (None if outline < 0 else (outline + 1) % 10 if outline < 10 else 0), depth


def _named_level(name: str) -> int | None:
    match = _HEADING.fullmatch(name)
    return int(match[1]) if match else 1 if name.casefold() in {"title", "제목"} else None


def _symbol(code: str, font: str) -> str:
    number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0
    if 0xF000 <= number <= 0xF0FF:  # a font of its own, in the private area
        table = _SYMBOL_FONT if font.casefold() == "symbol" else _WINGDINGS if "wingdings" in font.casefold() else {}
        return table.get(number - 0xF000, "")
    return chr(number) if number >= 32 else ""


def _docx(data: bytes, document: Document) -> Iterator[Block]:
    package = _Package(data, document, "docx")
    part = package.main("word/document.xml", document)
    word = _Word(package, part)
    tags = ("p", "tbl", "sdt", "customXml", "ins", "moveTo", "AlternateContent")
    yield from word.body(package.stream(part, "body", tags))
    yield from word.end()


# --- .hwpx ---

_SECTION = re.compile(r"contents/section(\d+)\.xml")


class _Hangul(_Flow):
    def __init__(self, header: _Element | None) -> None:
        super().__init__()
        items = header.iter("{*}paraPr", "{*}style") if header is not None else iter(())
        self.memos: list[str] = []
        self.formats: dict[tuple[str, str], tuple[int, str]] = {}  # (element, id) -> what style() returns
        for item in items:
            heading = item.find("{*}heading")
            depth = min(_whole(_attribute(heading, "level")), 9)
            kind = _attribute(heading, "type")
            named = re.fullmatch(r"개요 ?([1-9])", item.get("name", ""))
            level = int(named[1]) if named else min(depth + 1, 9) if kind == "OUTLINE" else 0
            mark = "  " * depth + "- " if kind in {"BULLET", "NUMBER"} else ""
            self.formats[_name(item), item.get("id", "")] = (level, mark)

    def style(self, paragraph: _Element) -> tuple[int, str]:
        level, mark = self.formats.get(("paraPr", paragraph.get("paraPrIDRef", "")), (0, ""))
        return level or self.formats.get(("style", paragraph.get("styleIDRef", "")), (0, ""))[0], mark

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in table.iterfind("{*}tr"):
            cells: dict[int, _Element] = {}
            for cell in row.iterfind("{*}tc"):
                cells[_whole(_attribute(cell.find("{*}cellAddr"), "colAddr"), len(cells))] = cell
            yield cells

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        if _name(element) == "memogroup":  # the same again stands where it is anchored, with its author
            self.memos += map(self.flat, element)
        else:
            yield from super().block(element, nested)

    def end(self) -> Iterator[Block]:
        for memo in self.memos:
            self.once(memo, "comments")
        yield from super().end()

    def table(self, element: _Element, nested: bool) -> Iterator[Block]:
        for caption in element.iterfind("{*}caption"):
            yield from self.blocks(caption, nested)
        yield from super().table(element, nested)

    def special(self, element: _Element, name: str, line: _Pieces) -> bool:
        if name in {"footNote", "endNote"}:
            line.add(self.note(element, f"{name.lower()}s"))
        elif name in {"header", "footer"}:
            self.once(self.flat(element), name)
        elif name == "hiddenComment" or (name == "fieldBegin" and element.get("type") == "MEMO"):
            author = next((item.text for item in element.iter("{*}stringParam") if item.get("name") == "Author"), "")
            self.once(self.flat(element), "comments", author or "")
        elif name == "autoNum":
            line.add(element.get("num") if element.get("numType") in {"TABLE", "PICTURE", "EQUATION"} else "")
        elif name == "deleteBegin":
            line.deleted = True
        elif name == "deleteEnd":
            if not line.deleted:  # the deletion began in an earlier paragraph
                line.parts = [part for part in line.parts if not isinstance(part, str)]
            line.deleted = False
        elif name in {"compose", "textart"}:  # characters laid over each other; decorated text
            line.add(element.get("composeText") or element.get("text"))
        elif name == "mainText":  # of a ruby
            line.add(element.text)
        else:
            return False
        return True


def _hwpx(data: bytes, document: Document) -> Iterator[Block]:
    package = _Package(data, document, "hwpx")
    if "meta-inf/manifest.xml" in package.parts and b"encryption-data" in package.open("META-INF/manifest.xml").read():
        raise NeedsAction("protected by a password: save it without one.")
    about = package.xml("Contents/content.hpf")
    for item in about.iter("{*}title", "{*}meta") if about is not None else ():
        value = item.text or item.get("content", "").removeprefix("text")  # content="text" tells its kind
        _describe(document, [(item.get("name", _name(item)), value)])
    sections = sorted((int(match[1]), name) for name in package.parts if (match := _SECTION.fullmatch(name)))
    hangul = _Hangul(package.xml("Contents/header.xml"))
    for _, name in sections or [(0, "Contents/section0.xml")]:
        yield from hangul.body(package.stream(name, "sec", ("p", "memogroup")))
    yield from hangul.end()


# --- .pptx ---

_NOT_SHOWN = frozenset({"sldNum", "dt", "sldImg"})
_SAME_LINE = 228_600  # a quarter inch in EMU: tops closer than this are one line of shapes


class _Deck(_Flow):
    def __init__(self, package: _Package) -> None:
        super().__init__()
        self.package = package
        self.layouts: dict[str, dict[str, tuple[int, int]]] = {}

    def style(self, paragraph: _Element) -> tuple[int, str]:
        properties = paragraph.find("{*}pPr")
        depth = min(_whole(_attribute(properties, "lvl")), 9)
        bullet = properties is not None and any(_name(child) in {"buChar", "buAutoNum"} for child in properties)
        return 0, "  " * depth + "- " if bullet or depth else ""

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in table.iterfind("{*}tr"):
            cells = enumerate(row.iterfind("{*}tc"))
            yield {at: cell for at, cell in cells if not (cell.get("hMerge") or cell.get("vMerge"))}

    def special(self, element: _Element, name: str, line: _Pieces) -> bool:
        return name == "fld" and element.get("type", "").startswith(("slidenum", "datetime"))

    def slide(self, part: str, number: int) -> Iterator[Block]:
        """Yield a slide's title, its shapes in reading order, then its notes."""
        root = self.package.xml(part)
        if root is None:
            raise ParseError("it is missing or damaged")
        links = self.package.relations(part)
        self.place = f"slide {number}"
        if root.get("show") in {"0", "false"}:
            self.place += " (hidden)"
        kinds = dict(links.values())
        corners = self.corners(kinds.get("slideLayout", ""))
        shapes = list(self.shapes(root, links, corners))
        yield from sorted(shapes, key=lambda block: block.kind != "heading")
        notes = self.package.xml(kinds.get("notesSlide", ""))
        if notes is not None:
            self.place = f"slide {number}, notes"
            yield from (replace(block, kind="text", level=0) for block in self.shapes(notes, {}, {}))

    def corners(self, layout: str) -> dict[str, tuple[int, int]]:
        """Return where a layout puts its placeholders, by idx: a slide's own often say nothing of their place."""
        if layout not in self.layouts:
            master = dict(self.package.relations(layout).values()).get("slideMaster", "")
            found: dict[str, tuple[int, int]] = {}
            for part in (layout, master):
                root = self.package.xml(part)
                for shape in root.iter("{*}sp") if root is not None else ():
                    holder = shape.find(".//{*}nvPr/{*}ph")
                    corner = _corner(shape)
                    if holder is not None and corner is not None:
                        key = holder.get("idx", "") if part == layout else holder.get("type", "body")
                        found.setdefault(key, corner)
            self.layouts[layout] = found
        return self.layouts[layout]

    def shapes(
        self, tree: _Element, links: dict[str, tuple[str, str]], corners: dict[str, tuple[int, int]]
    ) -> Iterator[Block]:
        for shape in _in_reading_order(tree, corners):
            name, holder = _name(shape), shape.find(".//{*}nvPr/{*}ph")
            kind = _attribute(holder, "type") if name != "grpSp" else ""
            if name == "grpSp":
                yield from self.shapes(shape, links, corners)
            elif name == "graphicFrame":
                yield from self.graphic(shape, links)
            elif kind in {"ftr", "hdr"}:
                self.once(self.flat(shape), "footer")
            elif kind not in _NOT_SHOWN:
                text = self.flat(shape)
                title = kind in {"title", "ctrTitle"} and 0 < len(text) <= MAX_HEADING_CHARS
                yield from self.words(text, int(title), "")

    def graphic(self, frame: _Element, links: dict[str, tuple[str, str]]) -> Iterator[Block]:
        """Yield a table, a chart or a diagram (SmartArt)."""
        for element in frame.iter("{*}tbl", "{*}chart", "{*}relIds"):
            if _name(element) == "tbl":
                yield from self.table(element, nested=False)
                continue
            link = _attribute(element, "r:id") or _attribute(element, "r:dm")
            root = self.package.xml(links.get(link, ("", ""))[1])
            if root is None:
                continue
            if _name(element) == "chart":
                yield from _plain_table(_chart_rows(root), self.place)
            else:
                yield from self.words(self.flat(root), 0, "")


def _in_reading_order(tree: _Element, corners: dict[str, tuple[int, int]]) -> list[_Element]:
    """Sort shapes from the top down, those on one line from the left; one that has no place comes first."""
    placed = []
    for order, shape in enumerate(_shapes_in(tree)):
        holder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
        inherited = corners.get(_attribute(holder, "idx", "-")) or corners.get("body") if holder is not None else None
        top, left = _corner(shape) or inherited or (0, 0)
        placed.append((top, left, order, shape))
    placed.sort(key=lambda item: item[:3])
    line = 0
    lines: list[tuple[int, int, int, _Element]] = []
    for top, left, order, shape in placed:
        line = top if not lines or top - line > _SAME_LINE else line
        lines.append((line, left, order, shape))
    return [shape for *_, shape in sorted(lines, key=lambda item: item[:3])]


def _shapes_in(tree: _Element) -> Iterator[_Element]:
    for child in tree:
        name = _name(child)
        if name in {"sp", "grpSp", "graphicFrame", "cxnSp"}:
            yield child
        elif name in {"cSld", "spTree", "AlternateContent"}:
            yield from _shapes_in(_chosen(child) if name == "AlternateContent" else child)


def _corner(shape: _Element) -> tuple[int, int] | None:
    """Return (top, left) in EMU, if the shape says so itself."""
    for path in ("{*}spPr/{*}xfrm/{*}off", "{*}grpSpPr/{*}xfrm/{*}off", "{*}xfrm/{*}off"):
        offset = shape.find(path)
        if offset is not None:
            return _whole(offset.get("y")), _whole(offset.get("x"))
    return None


def _chart_rows(root: _Element) -> Iterator[dict[int, str]]:
    """Yield a chart as a table: its title and the series' names, then each category with its values."""
    title = root.find(".//{*}chart/{*}title")
    words = "".join(item.text or "" for item in title.iter("{*}t")) if title is not None else ""
    rows: dict[int, dict[int, str]] = {-1: {0: words.strip() or "chart"}}
    for column, series in enumerate(root.iterfind(".//{*}ser"), 1):
        name = series.find("{*}tx")
        rows[-1][column] = "".join(item.text or "" for item in name.iter("{*}v")) if name is not None else ""
        for path, at in (("cat", 0), ("xVal", 0), ("val", column), ("yVal", column)):
            for point in series.iterfind(f"{{*}}{path}//{{*}}pt"):
                rows.setdefault(_whole(point.get("idx")), {})[at] = _chart_value(point.findtext("{*}v") or "")
    for _, row in sorted(rows.items()) if words or len(rows) > 1 else ():
        yield {column: text for column, text in row.items() if text.strip()}


def _chart_value(text: str) -> str:
    return f"{float(text):.15g}" if re.fullmatch(r"-?\d+\.\d{15,}", text) else text  # 4.4000000000000004


def _pptx(data: bytes, document: Document) -> Iterator[Block]:
    package = _Package(data, document, "pptx")
    part = package.main("ppt/presentation.xml", document)
    links = package.relations(part)
    deck = _Deck(package)
    slides = package.xml(part)
    if slides is None:
        raise ParseError(f"{part} is damaged. Open the file, and save it anew.")
    for number, entry in enumerate(slides.iterfind(".//{*}sldId"), 1):
        try:
            yield from list(deck.slide(links.get(_attribute(entry, "r:id"), ("", ""))[1], number))
        except ParseError as error:
            document.partial.append(f"slide {number} is left out: {error}")
    yield from deck.end()


# --- .xlsx ---

_FORMAT_MARKS = re.compile(r'\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].|"([^"]*)"|\\(.)')
_FORMAT = re.compile(r"([^#0?.,/@]*)([#0?,]*[#0?])(?:\.([0#?]{1,10}))?([^#0?.,/@]*)")  # before, 0, decimals, after
# A formula whose value was not stored; an empty text (t="str") is a value.
_UNVALUED = re.compile(rb'<c\b(?![^<>]*t="str")[^<>]*+>\s*+<f\b[^<]*+(?:</f>)?\s*+(?:<v\s*+/>|<v>\s*+</v>)?\s*+</c>')


def _xlsx(data: bytes, document: Document) -> Iterator[Block]:
    package = _Package(data, document, "xlsx")
    package.main("xl/workbook.xml", document)
    _look_over(package, document)
    import openpyxl

    warnings.filterwarnings("ignore", module="openpyxl")  # it prints what it does not support
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    room = MAX_SHEET_ROWS
    for sheet in book.worksheets:
        place = f"sheet {sheet.title}" + (" (hidden)" if sheet.sheet_state != "visible" else "")
        rows = _sheet_rows(sheet)
        try:
            for block in _grid_tables(islice(rows, room), place, document.partial):
                room = max(room - max(len(block.rows), 1), 0)
                yield block
            if next(rows, None):
                document.partial.append(f"only the first {MAX_SHEET_ROWS:,} rows are read; the rest begins in {place}")
                return
        except Exception as error:  # noqa: BLE001 - one broken sheet must not lose the others
            document.partial.append(f"{place} can't be read to its end ({error})")


def _look_over(package: _Package, document: Document) -> None:
    """Refuse sheets of millions of blank cells; tell of formulas whose values were not stored, which read as blank."""
    unvalued = 0
    for name in package.parts:
        if name.startswith("xl/worksheets/") and name.endswith(".xml"):
            xml = package.open(name).read()
            blank = xml.count(b"<c ") - xml.count(b"<v>") - xml.count(b"<is>")
            if blank > MAX_BLANK_CELLS:
                raise ParseError(f"{name} has {blank:,} blank cells. Delete those beyond the data.")
            unvalued += len(_UNVALUED.findall(xml)) if b"<f" in xml else 0
    if unvalued:
        document.partial.append(f"{unvalued:,} formulas have no stored value: save the file in a spreadsheet program")


def _sheet_rows(sheet: Any) -> Iterator[tuple[int, dict[int, str]]]:
    """Yield the rows of a sheet that hold anything: (number, {column: text})."""
    sheet.reset_dimensions()  # the declared size may be wrong, and rows beyond it would be dropped
    for cells in sheet.iter_rows(max_row=1_048_576):
        row = {cell.column: text for cell in cells if cell.value is not None and (text := _shown_cell(cell))}
        if row:
            yield next(cell.row for cell in cells if cell.value is not None), row


def _shown_cell(cell: Any) -> str:
    """Return a cell as the spreadsheet shows it, where that is cheap; dates as ISO."""
    value = cell.value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _shown_number(value, cell.number_format or "")
    if isinstance(value, datetime):
        value = (value + timedelta(microseconds=500_000)).replace(microsecond=0)  # 11:59:59.9999 is noon
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00").removesuffix(":00")
    if isinstance(value, clock):
        return value.isoformat("seconds")
    return str(value).strip()


def _shown_number(value: float, code: str) -> str:
    """`1234.5, '#,##0.00'` -> `1,234.50`; `0.125, '0.0%'` -> `12.5%`; `0.1 + 0.2, 'General'` -> `0.3`."""
    form = _number_format(code)
    if form is None or abs(value) >= 1e15:
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    before, whole, places, after = (part or "" for part in form.groups())
    exact = abs(Decimal(f"{value:.15g}")) * (100 if "%" in after else 1)
    rounded = exact.quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP)
    number, _, decimals = f"{rounded:{',' if ',' in whole else ''}f}".partition(".")
    least = places.count("0")  # decimals that are shown even if they are zeros
    decimals = decimals[:least] + decimals[least:].rstrip("0")
    number = number.rjust(whole.count("0"), "0") + ("." if decimals else "") + decimals
    sign = "-" if value < 0 and number.strip("0.,") else ""
    return f"{sign}{before}{number}{after}".strip()


@lru_cache(maxsize=1000)
def _number_format(code: str) -> re.Match[str] | None:
    """Take a simple number format apart; None for what is shown as it is: General, dates, fractions, conditions."""
    if len(code) > 200 or re.search(r"\[[<>=]", code):
        return None
    positive = code.split(";")[0]
    return _FORMAT.fullmatch(_FORMAT_MARKS.sub(lambda mark: mark[1] or mark[2] or mark[3] or "", positive))


# --- the formats ---

_PARSERS: dict[str, Parser] = {
    ".csv": _csv,
    ".docx": _docx,
    ".htm": _html,
    ".html": _html,
    ".hwpx": _hwpx,
    ".json": _json,
    ".md": _markdown,
    ".pdf": _pdf,
    ".pptx": _pptx,
    ".tsv": _tsv,
    ".txt": _txt,
    ".xlsx": _xlsx,
}
SUFFIXES = frozenset(_PARSERS)
