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
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from .config import SeogaError, scrub

PARSER_VERSION = 1  # raise it when a parser gives other text for the same bytes: documents are then read again
MAX_TEXT_CHARS = 20_000_000  # extracted text of one document, then "partial"
MAX_VALUE_CHARS = 500  # of a title or one metadata value
TABLE_ROWS = 1000  # in one block
MAX_RECORD_LINES = 100  # of one CSV record; a longer one is a quotation mark that nobody closed


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
        fault = f"{type(error).__name__}: {scrub(' '.join(str(error).split()))[:200]}"
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
    head, lines, numbers, size, given = "", list[str](), list[int](), 0, False
    for number, cells in rows:
        while cells and not cells[-1].strip():
            cells.pop()
        if not cells:
            continue
        if not head:
            head = f"{_row(cells)}\n{_row(['---'] * len(cells))}"
            continue
        lines.append(_row(cells))
        numbers += [number] if number else []
        size += len(lines[-1])
        if len(lines) >= TABLE_ROWS or size > 1_000_000:
            yield Block("table", "\n".join([head, *lines]), header=2, rows=tuple(numbers))
            lines, numbers, size, given = [], [], 0, True
            head = head if len(head) < 10_000 else "| … |\n| --- |"  # repeating a huge one would be quadratic
    if lines or (head and not given):
        yield Block("table", "\n".join([head, *lines]), header=2, rows=tuple(numbers))


# --- bytes to text ---

_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r\f\b\x1b"))
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


def _text(data: bytes, document: Document, declared: str = "") -> str:
    """Decode bytes whose encoding is unknown, with `\\n` as the only line end; raise ParseError for binary data."""
    text = _decode(data, document, declared)
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
        document.partial.append(f"{broken:,} characters are broken ({encoding.upper()}) and shown as \ufffd")
    return text


def _bare_utf16(data: bytes) -> str:
    """Decode UTF-16 without a mark, known by NULs at only even or only odd places; give "" for anything else."""
    big, little = data[0::2].count(0), data[1::2].count(0)
    if min(big, little) * 20 > max(big, little) or max(big, little) * 100 < len(data):
        return ""
    try:
        text = data.decode("utf-16-be" if big > little else "utf-16-le")
    except UnicodeDecodeError:
        return ""
    sample = text[:10_000]
    return text if sum(c.isprintable() or c.isspace() for c in sample) * 20 > len(sample) * 19 else ""


def _legacy(data: bytes, document: Document, declared: str) -> str:
    """Decode what isn't clean UTF-8: UTF-8 with a few broken bytes, CP949, what it says it is, or a good guess."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if (len(text.encode()) - len(text)) // 2 > 10 * broken:  # about one for each character beyond ASCII
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
        widths = [len(record) for record in csv.reader((line[:10_000] for line in lines[:30]), delimiter=delimiter)]
        wide = [width for width in widths if width > 1]
        return max((wide.count(width) for width in wide), default=0)

    return max(",;\t|", key=evenness)


def _records(lines: list[str], delimiter: str, document: Document) -> Iterator[tuple[int, list[str]]]:
    """Number the records from 1, as a spreadsheet shows them: a quoted line break doesn't begin a new row."""
    csv.field_size_limit(MAX_TEXT_CHARS)
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
        document.partial.append(f"{broken:,} lines are no valid JSON; read as plain text")


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


# --- the formats ---

_PARSERS: dict[str, Parser] = {
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
    ".tsv": _tsv,
    ".txt": _txt,
}
SUFFIXES = frozenset(_PARSERS)
