"""Turn one file's bytes into located blocks of text.

`parse(data, name)` looks at the suffix, runs that format's generator of blocks and returns a `Document`:

    b"# Budget\\n\\nTravel is capped.", "a.md"
    -> Document(blocks=[Block("heading", "Budget", level=1), Block("text", "Travel is capped.")], status="ok")

A block knows its place (page, slide, sheet), so a hit in it can be cited. Documents are untrusted: sizes are checked
before anything is unpacked, and index.py runs this in a child process with memory and time limits. This file does not
chunk and does not touch the index.
"""

from __future__ import annotations

import csv
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain, islice, takewhile, zip_longest
from typing import IO, Any

from .config import SeogaError, scrub

PARSER_VERSION = 2  # raise it when a parser gives other text for the same bytes: documents are then read again
MAX_TEXT_CHARS = 20_000_000  # extracted text of one document, then "partial"
MAX_VALUE_CHARS = 500  # of a title or one metadata value
TABLE_ROWS = 1000  # in one block
MAX_SOURCE_CHARS = 32_000_000  # of a text file, marks and all: what is made of it takes about ten bytes for each
MAX_HTML_CHARS = 16_000_000  # the same for HTML, whose tree takes twice as much
MAX_HTML_COLUMNS = 256  # of a table with cells that span rows
MAX_ATTRIBUTES = 1000  # of one HTML tag
MAX_LIST_DEPTH = 8  # shown by indenting
NO_VALUE = {"", "unspecified", "(unspecified)", "anonymous", "(anonymous)", "untitled"}  # what programs fill in
MAX_RECORD_LINES = 100  # of one CSV record; a longer one is a quotation mark that nobody closed


class ParseError(SeogaError):
    """The file can't be read as what its suffix says; it stays failed until it changes."""


class NeedsAction(SeogaError):
    """A person has to do something first (give a password, install an OCR engine, …); the message says what.

    `lacks` names what is missing on this machine, "ocr" or "speech": once it is there, the file is read again.
    """

    def __init__(self, message: str, *, lacks: str = "") -> None:
        super().__init__(message)
        self.lacks = lacks


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


def _forget(name: str, value: str) -> None:
    pass


def _recall(name: str) -> str | None:
    return None


def _no_report(done: float, total: float, unit: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Recognition:
    """How OCR and speech recognition are set, and who remembers the pieces that they have finished.

    They take long, so each finished page or stretch of sound is handed to `keep` under a name that tells its number
    and the settings; `kept` gives it back when the document is read again. `step` is told of each, so that the one
    who waits knows that the reading goes on: done, total, and the unit ("pages", "seconds"). All three may be called
    from any thread.
    """

    languages: str = "eng+kor"  # of OCR, as Tesseract names them
    dpi: int = 200
    model: str = ""  # of speech: a folder or a name; empty: chosen from memory and cores
    language: str = ""  # spoken; empty: detected
    keep: Callable[[str, str], None] = _forget
    kept: Callable[[str], str | None] = _recall
    step: Callable[[float, float, str], None] = _no_report


@dataclass(slots=True)
class Document:
    """What was read. `partial` lists what was left out and why; blocks may be empty, which is a status of its own."""

    blocks: list[Block] = field(default_factory=list)
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)
    recognition: Recognition = Recognition()
    waited: float = 0.0  # seconds spent on recognition, which has limits of its own
    lacks: set[str] = field(default_factory=set)  # "ocr", "speech": missing here, so that something was left out

    @property
    def status(self) -> str:
        return "partial" if self.partial else "ok" if self.blocks else "empty"


Parser = Callable[[Any, Document], Iterator[Block]]
_INVISIBLE = "\xad\u200b\ufeff"  # soft hyphen, break without a space, byte order mark: they part words for a search
_INVISIBLE_CODES = dict.fromkeys(map(ord, _INVISIBLE))


def parse(
    data: bytes | IO[bytes], name: str, *, seconds: float = 25.0, recognition: Recognition | None = None
) -> Document:
    """Read one file's bytes; `name` tells the format by its suffix, unless the bytes are surely of another.

    Raise ParseError or NeedsAction if it can't be read.
    A recording (STREAMED) is not given as bytes, but as the open file. What takes longer than `seconds`, or holds more
    than MAX_TEXT_CHARS, is kept as far as it was read: "partial".
    """
    suffix = os.path.splitext(name)[1].casefold()
    if suffix not in SUFFIXES:
        raise ParseError(
            f"{suffix or 'a name without a suffix'} is not a format seoga reads ({', '.join(sorted(SUFFIXES))})."
        )
    if isinstance(data, bytes):
        suffix = _true_suffix(data, suffix)
    document = Document(recognition=recognition or Recognition())
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


_SIGNATURES = {b"%PDF-": ".pdf", b"{\\rtf": ".rtf", b"HWP Document File": ".hwp", b"\x89PNG\r\n": ".png"}
_SIGNATURES |= {b"\xff\xd8\xff": ".jpg", b"Rar!\x1a\x07": "a RAR archive", b"7z\xbc\xaf": "a 7-Zip archive"}
_ZIPPED = {".docx": b"word/document", ".xlsx": b"xl/workbook", ".pptx": b"ppt/presentation"}  # what is in such a zip
_ZIPPED |= {".hwpx": b"Contents/content.hpf", ".epub": b"mimetypeapplication/epub", ".odt": b"opendocument.text"}
_PLAIN = frozenset({".csv", ".eml", ".htm", ".html", ".json", ".jsonl", ".markdown", ".md", ".rtf", ".srt", ".tsv"})
_PLAIN |= {".mht", ".mhtml", ".txt", ".vtt", ".xhtml"}
# Of companies' encryption, as drm() of hangul.py names it:
_WRAPPED = (b"SCDSA0", b"<DOCUMENT SAFER", b"\x9b DRMONE", b"<!-- FasooSecure", b"<## NASCA")


def _true_suffix(data: bytes, suffix: str) -> str:
    """Return the suffix that the content should have. Raise an error that tells what it is, if it isn't read at all."""
    if data.startswith(_WRAPPED) and (product := import_module(".hangul", __package__).drm(data)):
        raise NeedsAction(f"protected by {product}: save it unprotected in the company's program, or ask who can.")
    found = next((kind for mark, kind in _SIGNATURES.items() if data.startswith(mark)), "")
    binary = suffix not in _PLAIN and suffix != ".pdf"
    if data.startswith(b"PK\x03\x04") and not (binary and _ZIPPED.get(suffix, b"PK") in data):
        found = next((kind for kind, mark in _ZIPPED.items() if mark in data), "" if binary else "a zip archive")
    elif data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") and not binary:
        found = ".hwp" if b"HWP Document File" in data else "an Office file older than .docx, .xlsx and .pptx"
    elif suffix not in _PLAIN and re.match(rb"(?i)\s*<(?:!doctype html|html)[\s>]", data):
        found = ".html"
    if not found or suffix in PICTURES or (found == ".pdf" and b"startxref" not in data[-2048:]):
        return suffix
    if found not in _PARSERS:
        raise ParseError(f"this is {found}, not really a {suffix} file: save it in a format seoga reads.")
    return found


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
        if not text.isascii() and any(mark in text for mark in _INVISIBLE):
            text = text.translate(_INVISIBLE_CODES)
        if text and not text.isspace():
            document.blocks.append(block if text is block.text else replace(block, text=text))
        if room == 0:
            return
        room -= len(block.text)
        if time.monotonic() > deadline + document.waited:
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


def table_row(cells: Iterable[str]) -> str:
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
        lines.append(table_row(cells))
        numbers += [number] if number else []
        size += len(lines[-1])
        if len(lines) >= TABLE_ROWS or size > 1_000_000:
            yield _table(head, lines, numbers)
            head = head if size > sum(map(len, head)) else ["…"]  # repeating a huge one would be quadratic
            lines, numbers, size, given = [], [], 0, True
    if lines or (head and not given):
        yield _table(head, lines, numbers)


def _table(head: list[str], lines: list[str], numbers: list[int]) -> Block:
    text = "\n".join([table_row(head), table_row(["---"] * len(head)), *lines])
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
_WIDER = {  # what a declared name means in practice
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ks_c_5601-1989", "ksc5601", "korean", "windows-949"), "cp949"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("iso-8859-1", "latin1", "x-user-defined"), "cp1252"),
    "ks_c_5601-1992": "johab",
}
_MULTIBYTE = ("cp949", "gb18030", "cp932", "euc-jp", "big5", "johab", "iso-2022")
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
    if b"\x1b$" in data and data.isascii():
        for encoding in ("iso2022_kr", "iso2022_jp_2"):
            with suppress(UnicodeDecodeError):
                return data.decode(encoding)
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
    """Decode what isn't clean UTF-8 by the evidence of all its bytes; what it says it is counts only where it fits."""
    codec = _WIDER.get(declared, declared)
    known = re.fullmatch(r"(euc|iso|windows|cp|gb|big5|shift|koi|mac|johab)[\w.:-]*", codec)
    high = len(data.translate(None, _ASCII))  # three bytes a character in UTF-8: ten good ones for a broken one
    is_utf8 = high > 30 * data.decode("utf-8", "replace").count("\ufffd")
    with suppress(LookupError, UnicodeDecodeError):
        if known and codec.startswith(_MULTIBYTE) and not is_utf8:
            return data.decode(codec)
    with suppress(UnicodeDecodeError):
        if looks_korean(data):
            return data.decode("cp949")
    text = "\n".join(map(_mixed_line, data.split(b"\n")))
    broken = text.count("\ufffd") - data.count("\ufffd".encode())
    if high > 30 * broken:
        if broken > 0:
            document.partial.append(
                f"broken characters ({'UTF-8' if is_utf8 else 'CP949'}), shown as \ufffd: {broken:,}"
            )
        return text
    with suppress(LookupError, UnicodeDecodeError):
        if known:
            return data.decode(codec)
    return _guessed(data, document)


def _mixed_line(line: bytes) -> str:
    """Decode one line of a file that was put together from UTF-8 and CP949."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp949" if looks_korean(line) else "utf-8", "replace")


def _guessed(data: bytes, document: Document) -> str:
    if not re.search(rb"[\x80-\xff]{2}", data):  # lone high bytes: Western letters among ASCII
        return data.decode("cp1252", "replace")
    with suppress(UnicodeDecodeError):
        if _is_everyday(text := data.decode("johab")):  # Korean before Windows
            return text
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=_LEGACY).best()
    if best is not None:
        return str(best)
    document.partial.append("the encoding is unknown; read as Western European (cp1252)")
    return data.decode("cp1252", "replace")


def looks_korean(data: bytes) -> bool:
    """Tell whether this is CP949, by its pairs of bytes: most are the 2,350 everyday syllables (KS X 1001)."""
    pairs = [match[0] for match in islice(re.finditer(rb"[\x80-\xff][\x00-\xff]", data), 20_000)]
    return sum(0xB0 <= pair[0] <= 0xC8 and pair[1] >= 0xA1 for pair in pairs) * 4 >= len(pairs) * 3 > 0


def _is_everyday(text: str) -> bool:
    """The same of text: random codes would give any of 11,172 syllables."""
    letters = [letter for letter in text[:100_000] if letter > "\x7f"]
    syllables = "".join(letter for letter in letters if "가" <= letter <= "힣")
    return len(syllables.encode("euc_kr", "ignore")) * 2 >= len(letters) * 3


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
    said = re.fullmatch(r'"?sep=(.)"?', lines[0])  # Excel's own first line, which it neither shows nor counts
    lines = lines[1:] if said else lines
    return _tables(_records(lines, said[1] if said else _delimiter(lines), document))


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


def _jsonl(data: bytes, document: Document) -> Iterator[Block]:
    return _grouped(("", value) for value in _json_lines(_text(data, document), document))


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
_LONG_TAG = re.compile(r"<([A-Za-z][\w:-]{0,30})(\s[^<>]{4000,})>")
_LISTS = frozenset({"ul", "ol", "dl", "menu"})
_TABLE_PARTS = frozenset({"caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr"})
_MAIN = ("main", "article")
_FRAME = ("nav", "footer", "aside")
_FRAME_ROLES = frozenset({"navigation", "contentinfo", "complementary", "search"})
_POPUP = "//div[@id or @class][contains(concat(@id, @class), 'ookie') or contains(concat(@id, @class), 'onsent')]"
_POPUP_NAME = re.compile(r"(?i)(?:cookie|consent)s?[-_]?(?:consent|banner|bar|box|notice|popup|modal|overlay)")
_DROPPED = frozenset(("head", "script", "style", "noscript", "template", "iframe", "canvas", "object"))
_DROPPED |= {"datalist", "rt", "rp"}  # the readings of a ruby
_FIELDS = frozenset({"button", "label", "textarea"})
_STANDING_FOR = frozenset({"img", "input", "math", "select", "svg"})  # by what _instead() makes of them
_LINE_TAGS = """address article aside blockquote body caption center dd details dialog div dt fieldset figcaption figure
    footer form header hr legend li main nav option p pre section summary table tbody td tfoot th thead tr"""
_LINES = _LISTS.union(_HEADINGS, _LINE_TAGS.split())  # begin and end a line; everything else runs on within it
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_TAG = re.compile(rb"""<!(?=--).*?(?:-->|\Z)|<[!/?][^>]*|<([a-z]+)((?:[^"'>]|"[^"]*"|'[^']*')*+)""", re.I | re.S)
_ATTRIBUTE = re.compile(rb"""([^\s"'>/=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_FACTS = {name: name for name in ("author", "description", "keywords")}
_FACTS |= {"article:author": "author", "dc.creator": "author", "og:description": "description", "date": "created"}
_FACTS |= {"dc.date": "created", "article:published_time": "created", "article:modified_time": "modified"}
_SPACES = re.compile(r"[ \t\n\f\xa0\x01]+")
_MARK = "\x01"  # ends "- " and "1. ", so that a paragraph within a list item begins no new line


def _html(data: bytes, document: Document, *, framed: bool = True) -> Iterator[Block]:
    """Read a page; `framed` if it may have menus and the like around the document."""
    text = _text(data, document, declared=_declared(data[:1024]), most=MAX_HTML_CHARS)
    if subset := re.match(r"\s*(?:<\?[^>]*>\s*)?<!DOCTYPE[^<>\[]*\[[^\]]*\]\s*>", text, re.IGNORECASE):
        text = text[subset.end() :]  # declarations, which no browser reads
    text = _LONG_TAG.sub(_without_many, text)
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    root = etree.fromstring(text.encode(), parser)
    if any("depth" in entry.message for entry in parser.error_log):
        document.partial.append("tags are nested too deeply; read as plain text without its structure")
        yield from _paragraphs(re.sub(r"<[^<>]*>", "", text))
    elif root is not None:
        _describe(root, document)
        _hide_frame(root) if framed else None
        if not _holds(root, 1):  # a page that its script would fill
            for element in list(root.iter("noscript")):
                element.tag = "div"
                root.append(element)  # out of the head
        yield from _html_blocks(root)


def _without_many(tag: re.Match[str]) -> str:
    """Leave out attributes where there are thousands: lxml compares each with all others."""
    return tag[0] if len(tag[2].split(None, MAX_ATTRIBUTES)) <= MAX_ATTRIBUTES else f"<{tag[1]}>"


def _declared(head: bytes) -> str:
    """Return the encoding that a page's first bytes declare, found as the HTML standard's prescan does; or ""."""
    for tag, inside in _TAG.findall(head):
        said = {name.lower(): value.strip(b"\"'") for name, value in reversed(_ATTRIBUTE.findall(inside))}
        label = said.get(b"charset", b"")
        if not label and said.get(b"http-equiv", b"").lower() == b"content-type":
            found = re.search(rb"""charset\s*=\s*["']?([^\s;"']+)""", said.get(b"content", b""), re.IGNORECASE)
            label = found[1] if found else b""
        if label and tag.lower() == b"meta":
            return str(label, "ascii", "replace").strip().lower()
    xml = re.match(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([^"'>]+)""", head)
    return xml[1].decode("ascii", "replace").lower() if xml else ""


def _describe(root: Any, document: Document) -> None:
    document.title = root.findtext(".//head/title") or ""
    document.metadata |= {"language": root.get("lang")} if root.get("lang") else {}
    for meta in root.iter("meta"):
        name = (meta.get("name") or meta.get("property") or "").casefold()
        value = " ".join((meta.get("content") or "").split())
        if name == "og:title" and not document.title.strip():
            document.title = value
        elif value and name in _FACTS:
            is_time = re.match(r"\d{4}-\d\d-\d\dT", value)
            document.metadata.setdefault(_FACTS[name], value[:10] if is_time else value)


def _hide_frame(root: Any) -> None:
    """Hide what belongs to the page, not the document: menus, footers, pop-ups; unless little else would be left."""
    marked, kept = _kept_frames(root)
    within = _MAIN if marked else (*_MAIN, "section", "blockquote", "td", "li")
    tags, roles = (("header", *_FRAME), {"banner", *_FRAME_ROLES}) if marked else (_FRAME, _FRAME_ROLES)
    labelled = root.xpath("//*[@role or @aria-hidden]")  # unions and parents in XPath take quadratic time
    found = [*root.iter(*tags), *(element for element in labelled if element.get("role") in roles)]
    frames = [frame for frame in found if frame not in kept and next(frame.iterancestors(*within), None) is None]
    small = [popup for popup in root.xpath(_POPUP) if _POPUP_NAME.search(f"{popup.get('id')} {popup.get('class')}")]
    small += (element for element in labelled if element.get("aria-hidden") == "true")
    small = [element for element in small if element not in kept and _is_small(element)]
    for hidden, least in ((small, 1), (frames, 1 if marked else 1000)):
        for element in hidden:
            element.set("hidden", "")
        for element in () if not hidden or _holds(root, least) else hidden:
            element.attrib.pop("hidden", None)


def _is_small(element: Any) -> bool:
    """Count elements and characters; bounded, as such things nest."""
    inside = islice(element.iter(), 2000)
    return sum(1 + len(item.text or "") + len(item.tail or "") for item in inside) - len(element.tail or "") < 2000


def _holds(element: Any, size: int) -> bool:
    """Tell whether there are so many characters to be read in an element."""
    for block in islice(_html_blocks(element), size):
        size -= len(block.text.strip())
        if size <= 0:
            return True
    return False


def _kept_frames(root: Any) -> tuple[bool, set[Any]]:
    """Tell whether an element says which is the document, and give what holds it, or its title."""
    outermost = [main for main in root.iter(*_MAIN) if next(main.iterancestors(*_MAIN), None) is None]
    marked = [main for main in outermost if any(text.strip() for text in main.itertext())]
    titles = list(root.iter("h1"))
    if any(next(title.iterancestors(*_MAIN), None) is not None for title in titles):
        titles = []
    kept = set[Any](marked)
    for element in marked + titles:
        for ancestor in element.iterancestors():
            if ancestor in kept:
                break
            kept.add(ancestor)
    return bool(marked), kept


def _html_blocks(root: Any) -> Iterator[Block]:
    """Walk the tree in document order, gathering lines until something ends the block. Iterative: depth is hostile."""
    from lxml.etree import iterwalk

    line, lists = list[str](), list[int]()  # `lists` counts the items of each open list
    walk = iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag, starts = element.tag, event == "start"
        if not starts and tag in _LISTS and not _is_hidden(element):
            lists.pop()
        if tag in _LINES and lists:
            _end_line(line)
        elif tag in _LINES:
            yield from _gathered(line)
        if not starts:
            _add(line, element.tail if element is not root else "")
            continue
        own = iter(()) if _is_hidden(element) else _own_blocks(element)
        if own is not None:
            yield from _gathered(line) if tag in _LINES else ()
            yield from own
            walk.skip_subtree()
            continue
        if tag in _STANDING_FOR or (tag == "a" and _is_note_mark(element)):
            _add(line, _instead(element), as_it_is=True)
            walk.skip_subtree()
            continue
        if tag in _LISTS:
            start = element.get("start", "") if tag == "ol" else ""
            lists.append(int(start) - 1 if re.fullmatch(r"\d{1,6}", start) else 0)
        _add(line, _leading(element, lists), as_it_is=True)
        _add(line, element.text)
    yield from _gathered(line)


def _leading(element: Any, lists: list[int]) -> str:
    """Give what stands before an element's own text: a list mark, a line end, the gap before a form's control."""
    if element.tag == "br":
        return "\n"
    if element.tag == "dd":
        return f": {_MARK}"
    if element.tag in _FIELDS:
        return " "
    if element.tag != "li":
        return ""
    lists[-1:] = [number + 1 for number in lists[-1:]]
    parent = element.getparent()
    numbered = lists and parent is not None and parent.tag == "ol"
    return "\t" * (min(len(lists), MAX_LIST_DEPTH) - 1) + (f"{lists[-1]}. {_MARK}" if numbered else f"- {_MARK}")


def _instead(element: Any) -> str:
    """Give what is seen of a picture, an equation, a form's control, a note's mark: description, source, value."""
    if element.tag == "a":
        return f"[^{_inner_text(element).strip()}]"
    if element.tag == "svg":
        return "".join(f" {text.strip()} " for label in element.iter("text") for text in label.itertext())
    if element.tag == "img":
        alt = " ".join((element.get("alt") or "").split())
        return f"[{alt}]" if alt else ""
    if element.tag == "select":
        options = list(element.iter("option"))
        chosen = [option for option in options if option.get("selected") is not None] or options[:1]
        return f" {', '.join(' '.join((option.text or '').split()) for option in chosen)} "
    if element.tag == "input":
        kind = (element.get("type") or "text").casefold()
        if kind in {"checkbox", "radio"}:
            return " [x] " if element.get("checked") is not None else " [ ] "
        is_text = kind in {"text", "search", "email", "url", "tel", "number"} or kind.startswith(("date", "time"))
        return f" {element.get('value') or ''} " if is_text else ""
    source = next((note.text for note in element.iter("annotation") if "tex" in note.get("encoding", "")), None)
    tex = " ".join((element.get("alttext") or source or "").split())
    plain = (item.text or "" for item in element.iter() if not str(item.tag).startswith("annotation"))
    return f"[math: {tex}]" if tex else " ".join("".join(plain).split())


def _is_note_mark(link: Any) -> bool:
    """Tell whether a link is only a number that would else run into the word before it."""
    kind = link.get("role", "") + link.get("epub:type", "")
    return ("noteref" in kind or link.getparent().tag == "sup") and _inner_text(link).strip().isdigit()


def _is_hidden(element: Any) -> bool:
    return (
        element.tag in _DROPPED
        or element.get("hidden", "until-found") != "until-found"
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
        elif starts and inner.tag in _STANDING_FOR:
            pieces.append(_instead(inner))
            walk.skip_subtree()
        elif starts:
            pieces.append(inner.text or "")
        elif inner is not element:
            pieces.append(inner.tail or "")
    return "".join(pieces)


# --- html tables ---


def _own_rows(table: Any) -> list[Any]:
    parts = (child.iterchildren("tr") if child.tag != "tr" else (child,) for child in table)
    return [row for part in parts for row in part]


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
    rows = [row for row in _own_rows(table) if not _is_hidden(row)]
    heads = sum(1 for _ in takewhile(_is_head, rows[:4]))
    grid = _filled(rows, heads if 1 < heads < len(rows) else 0)
    if 1 < heads < len(rows):  # several rows of header become one
        top = zip_longest(*islice(grid, heads), fillvalue="")
        grid = chain([[" ".join(dict.fromkeys(filter(None, column))) for column in top]], grid)
    yield from _tables((0, cells) for cells in grid)


def _is_head(row: Any) -> bool:
    return (len(row) > 0 and all(cell.tag == "th" for cell in row)) or row.getparent().tag == "thead"


def _filled(rows: Iterable[Any], heads: int) -> Iterator[list[str]]:
    """Lay cells on the grid: one that spans rows is repeated in each, one that spans columns has blanks beside it.

    In the first `heads` rows, it is repeated, as what stands below in each of its columns needs it.
    """
    hanging: dict[int, tuple[int, str]] = {}  # column -> rows still to fill, text
    for number, row in enumerate(rows):
        cells = list[str]()
        for cell in row.iterchildren("td", "th"):
            _hang(cells, hanging)
            text = " ".join(_inner_text(cell).split())
            down = _span(cell, "rowspan", 1000)
            beside = text if number < heads and len(text) <= 100 and len(row) > 1 else ""
            for shown in [text, *[beside] * (_span(cell, "colspan", 100) - 1)]:
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


# --- the formats ---


def _in(module: str, name: str) -> Parser:
    """Return a reader of another file, which is imported with the first document that needs it."""

    def read(data: Any, document: Document) -> Iterator[Block]:
        reader: Parser = getattr(import_module(f".{module}", __package__), name)
        return reader(data, document)

    return read


PICTURES = frozenset({".jpeg", ".jpg", ".png", ".tif", ".tiff"})
STREAMED = frozenset({".flac", ".m4a", ".mp3", ".ogg", ".wav", ".webm"})  # recordings
_PARSERS: dict[str, Parser] = {
    ".csv": _csv,
    ".docx": _in("office", "docx"),
    ".eml": _in("mail", "eml"),
    ".epub": _in("prose", "epub"),
    ".htm": _html,
    ".html": _html,
    ".hwp": _in("hangul", "hwp"),
    ".hwpx": _in("hangul", "hwpx"),
    ".json": _json,
    ".jsonl": _jsonl,
    ".markdown": _markdown,
    ".md": _markdown,
    ".mht": _in("mail", "eml"),
    ".mhtml": _in("mail", "eml"),
    ".odt": _in("opendocument", "odt"),
    ".pdf": _in("pages", "pdf"),
    ".pptx": _in("office", "pptx"),
    ".rtf": _in("prose", "rtf"),
    ".srt": _in("prose", "subtitles"),
    ".tsv": _tsv,
    ".txt": _txt,
    ".vtt": _in("prose", "subtitles"),
    ".xhtml": _html,
    ".xlsx": _in("sheets", "xlsx"),
    **dict.fromkeys(PICTURES, _in("pages", "picture")),
    **dict.fromkeys(STREAMED, _in("audio", "speech")),
}
SUFFIXES = frozenset(_PARSERS)
