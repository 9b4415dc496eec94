"""Read what office programs write, zipped XML, into blocks: .docx and .pptx.

The XML is read as it stands, because libraries refuse documents over details that don't matter and skip what does:
numbers of clauses, content controls, text boxes, notes, equations. Elements go by their local names, since namespaces
change with the version. Sizes are checked before anything is unpacked. What other zipped XML shares with these is here
too; sheets.py reads .xlsx, hangul.py .hwpx. parsers.py imports this file when the first such document is read.
"""

from __future__ import annotations

import copy
import email
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from .equations import hancom, omml
from .numbering import Level, List
from .parsers import NO_VALUE, Block, Document, NeedsAction, ParseError, parse, table_row

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_ZIP_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 1_000_000_000  # all entries of one zip, read piece by piece; a million full rows take 600 MB
MAX_TREE_BYTES = 40_000_000  # one XML part that is held in memory as a tree, which takes some ten times as much
MAX_ZIP_RATIO = 300  # unpacked to packed, from 50 MB on; text reaches 20, spreadsheets 100
MAX_INSIDE = 2  # documents embedded in one another
MAX_HEADING_CHARS = 200  # a longer "heading" is a paragraph in a heading's style
MAX_COLUMNS = 1_000  # that hold anything, in one block
SHEET_BLOCK_ROWS = 500


# --- zipped XML: .docx, .hwpx, .xlsx, .pptx ---

GridRow = tuple[int, dict[int, str]]  # its number or 0, {column: text} without blanks
Links = dict[str, tuple[str, str]]  # relationships of a part: id -> (the type's last word, the other part's name)
_KEYS = {"creator": "author", "createddate": "created", "modifieddate": "modified", "keyword": "keywords"}
_KEYS |= {
    key: key for key in ("title", "author", "subject", "description", "keywords", "created", "modified", "category")
}
_NO_TITLE = {"presentation", "powerpoint presentation", "powerpoint 프레젠테이션", "제목 없음"}
_SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "huge_tree": False}
_SAFE |= {"remove_comments": True, "remove_pis": True}


class Package:
    """The XML parts of a zip, each checked before any is used. Names are compared without case, as Office does."""

    def __init__(self, data: bytes, document: Document, kind: str) -> None:
        if data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE2 container, which holds no zip
            old = {"hwpx": "hwp", "odt": "sxw"}.get(kind, kind[:-1])
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

    def raw(self, name: str) -> bytes:
        """Read a part that is no XML; raise KeyError if there is none."""
        info = self.archive.getinfo(name)
        if info.file_size > MAX_TREE_BYTES:
            raise ParseError(f"{name} takes {info.file_size:,} bytes; at most {MAX_TREE_BYTES:,} are read.")
        return self.archive.read(info)

    def xml(self, name: str) -> _Element | None:
        """Parse a part; None if it is damaged, or if there is none, as where a dangling relationship leads."""
        from lxml import etree

        info = self.parts.get(_part_name(name))
        if info is None:
            return None
        if info.file_size > MAX_TREE_BYTES:
            self.notes.append(f"{name} is left out: it takes {info.file_size:,} bytes, at most {MAX_TREE_BYTES:,}")
            return None
        try:
            return etree.parse(self.archive.open(info), etree.XMLParser(**_SAFE)).getroot()
        except etree.XMLSyntaxError as error:
            self.damaged(name, error)
            return None

    def stream(self, name: str, parents: str | tuple[str, ...], tags: tuple[str, ...]) -> Iterator[_Element]:
        """Yield the elements called one of `tags` in one of `parents`, each forgotten before the next is read."""
        from lxml import etree

        wanted = [f"{{*}}{tag}" for tag in tags]
        parents = (parents,) if isinstance(parents, str) else parents
        above, inside = None, False
        try:
            for _, element in etree.iterparse(self.open(name), events=("end",), tag=wanted, **_SAFE):
                if element.getparent() is not above:
                    above = element.getparent()
                    inside = above is not None and name_of(above) in parents
                if inside and above is not None:
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

    def relations(self, part: str) -> Links:
        """Return what a part refers to within the file."""
        folder, _, name = part.rpartition("/")
        root = self.xml(f"{folder}/_rels/{name}.rels")
        found = {}
        for link in children(root):
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
        describe(document, ((name_of(item), item.text) for item in children(core)))
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
    probe.file_size = MAX_UNPACKED_BYTES + 1  # zipfile stops, without a word, at the size that is declared
    size, before = 0, b""
    with archive.open(probe) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            if size > MAX_UNPACKED_BYTES:
                raise ParseError(f"{info.filename} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes.")
            if b"<!DOCTYPE" in (before + piece).replace(b"\x00", b""):  # UTF-16 too
                raise ParseError(f"{info.filename} declares a DOCTYPE, which no office program writes.")
            before = piece[-20:]
    if size != info.file_size:
        raise ParseError(f"{info.filename} unpacks to {size:,} bytes instead of {info.file_size:,}: a zip bomb.")


def _part_name(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").casefold()


def describe(document: Document, properties: Iterable[tuple[str, str | None]]) -> None:
    for name, value in properties:
        key = _KEYS.get(name.casefold(), "")
        if not value or value.strip().casefold() in NO_VALUE | _NO_TITLE:
            continue
        if key == "title":
            document.title = value
        elif key:
            document.metadata[key] = value[:10] if key in {"created", "modified"} else value  # the day, of ISO


def name_of(element: _Element) -> str:
    """`{http://…/main}p` -> `p`: namespaces differ between editions of a format, names don't."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: _Element | None, name: str, default: str = "") -> str:
    """Return an attribute whatever its namespace; `r:id`-like names ask for one with a namespace."""
    for key, value in element.attrib.items() if element is not None else ():
        if key == name or str(key).endswith(f"}}{name.removeprefix('r:')}"):
            return str(value)
    return default


def children(element: _Element | None) -> Iterator[_Element]:
    return iter(()) if element is None else iter(element)


def child_of(element: _Element | None, name: str) -> _Element | None:
    return next((child for child in children(element) if name_of(child) == name), None)


def whole(text: str | None, default: int = 0) -> int:
    return int(text) if text and re.fullmatch(r"-?\d{1,15}", text) else default


def within(parent: _Element, name: str) -> Iterator[_Element]:
    """Yield children called `name`, also those wrapped in content controls or insertions."""
    for child in parent:
        if name_of(child) == name:
            yield child
        elif name_of(child) in {"sdt", "sdtContent", "customXml", "ins", "moveTo"}:
            yield from within(child, name)


def plain_table(rows: Iterable[dict[int, str]], place: str) -> Iterator[Block]:
    """Make a table of rows, `{column: text}` without blanks; a single row or column is no table, but text."""
    filled = [(0, row) for row in rows if row]
    if len({column for _, row in filled for column in row}) > 1:
        yield from grid_tables(iter(filled), place, [])
    else:
        yield from (Block("text", text, place) for _, row in filled for text in row.values())


def grid_tables(rows: Iterator[GridRow], place: str, notes: list[str]) -> Iterator[Block]:
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
        lines = [table_row(row.get(column, "") for column in columns[:MAX_COLUMNS]) for _, row in ((0, header), *body)]
        lines.insert(1, table_row(["---"] * len(columns[:MAX_COLUMNS])))
        yield Block("table", "\n".join(lines), place, header=2, rows=tuple(number for number, _ in body if number))
        body = _batch(rows, SHEET_BLOCK_ROWS)


def _batch(rows: Iterator[GridRow], most: int) -> list[GridRow]:
    """Take `most` rows, or what makes a million characters: all cells may share one long text."""
    taken: list[GridRow] = []
    size = 0
    while len(taken) < most and size < 1_000_000 and (row := next(rows, None)):
        taken.append(row)
        size += sum(map(len, row[1].values()))
    return taken


# --- numbers, as spreadsheets and charts show them ---

EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - day 0; spreadsheets have no time zones
_FORMAT_MARKS = re.compile(r'\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].|"([^"]*)"|\\(.)')
# Before, 0, decimals, thousands left out, exponent, after.
_FORMAT = re.compile(r"([^#0?.,/@]*)([#0?,]*[#0?])(?:\.([0#?]{1,10}))?(,*)(E[+-]0+)?([^#0?.,/@]*)")


def shown_number(text: str, code: str, epoch: datetime = EPOCH) -> str:
    """Show a stored number by its format, where that is cheap, and dates as ISO.

    `"1234.5", "#,##0.00"` -> `1,234.50`; `"0.125", "0.0%"` -> `12.5%`; `"46356", "yyyy. m. d"` -> `2026-11-30`
    """
    if code == "General" and len(text) < 16 and text.isdecimal():  # most cells
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    form = _number_format(code, value < 0)
    if form == "date" and 0 <= value < 2_958_466:  # the year 9999
        return _shown_date(value, code, epoch)
    if form is None or isinstance(form, str) or not abs(value) < 1e15:
        return f"{value:.15g}" if abs(value) < 1e15 or "e" in text.casefold() else text
    before, digits, places, thousands, exponent, after = (part or "" for part in form.groups())
    if exponent:
        return f"{value:.{len(places)}E}"
    exact = abs(Decimal(f"{value:.15g}")) * (100 if "%" in after else 1)
    exact = exact.scaleb(-3 * len(thousands)).quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP)
    number, _, decimals = f"{exact:{',' if ',' in digits else ''}f}".partition(".")
    least = places.count("0")  # decimals that are shown even if they are zeros
    decimals = decimals[:least] + decimals[least:].rstrip("0")
    number = number.rjust(digits.count("0"), "0") + ("." if decimals else "") + decimals
    sign = "-" if value < 0 and ";" not in code and number.strip("0.,") else ""
    return f"{sign}{before}{number}{after}".strip()


@lru_cache(maxsize=1000)
def _number_format(code: str, negative: bool) -> re.Match[str] | str | None:
    """Take a simple number format apart; "date"; None for what is shown as it is: General, fractions, conditions."""
    if len(code) > 200 or re.search(r"\[[<>=]", code):
        return None
    if re.search("[dmhys]", _FORMAT_MARKS.sub("", code), re.IGNORECASE) or _ELAPSED.search(code):
        return "date"
    parts = code.split(";")
    part = parts[1] if negative and len(parts) > 1 else parts[0]
    return _FORMAT.fullmatch(_FORMAT_MARKS.sub(lambda mark: mark[1] or mark[2] or mark[3] or "", part))


_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)


def _shown_date(days: float, code: str, epoch: datetime) -> str:
    """`46356.5` -> `2026-11-30 12:00`; below 1, or where hours add up beyond 24: `36:30`."""
    seconds = round(days * 86_400)
    if days < 1 or _ELAPSED.search(code):
        minutes, seconds = divmod(seconds, 60)
        shown = f"{minutes // 60:02}:{minutes % 60:02}"
        return f"{shown}:{seconds:02}" if seconds else shown
    if days < 60 and epoch is EPOCH:  # Excel counts a 29 February 1900
        seconds += 86_400
    moment = epoch + timedelta(seconds=seconds)
    return moment.isoformat(" ", "seconds").removesuffix(" 00:00:00").removesuffix(":00")


# --- flowing text: what .docx, .hwpx and .pptx have in common ---

_MARKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "lineBreak": "\n"}
_MARKS |= {"noBreakHyphen": "-", "hyphen": "-", "nbSpace": " ", "fwSpace": " "}
_LEFT_OUT = frozenset({"pPr", "rPr", "tblPr", "tcPr", "trPr", "sectPr", "sdtPr"})  # properties
_LEFT_OUT |= {"del", "delText", "moveFrom", "instrText", "rt"}  # deletions, field codes, readings of a ruby
_END = ("comments", "header", "footer")
_LIST_ITEM = re.compile(r" *- ")  # a numbered one is a paragraph of its own: a clause may be long
_PAGE_NUMBER = re.compile(r"(?:page|of|쪽|페이지|면|[\W\d_])*", re.IGNORECASE)


@dataclass(slots=True)
class Pieces:
    """One paragraph's pieces: text and the tables in it, then the text boxes that are anchored to it."""

    parts: list[str | _Element] = field(default_factory=list)
    boxes: list[_Element] = field(default_factory=list)
    deleted: bool = False
    codes: list[bool] = field(default_factory=list)  # for each field that is open: is this its code, not its result?

    def add(self, text: str | None) -> None:
        if text and not self.deleted and not (self.codes and any(self.codes)):
            self.parts.append(text)


class Flow:
    """Walks paragraphs, tables in paragraphs and paragraphs in tables; each format says how it differs."""

    def __init__(self) -> None:
        self.place = ""
        self.numbered = 0  # notes met so far
        self.cited: list[Block] = []  # notes, which follow the section that refers to them
        self.aside: list[Block] = []  # comments, headers and footers, which follow the body
        self.seen: set[tuple[str, str]] = set()

    def style(self, paragraph: _Element) -> tuple[int, str]:
        """Return a paragraph's heading level, 0 for none, -1 if it is hidden, and what stands before it, as `  - `."""
        raise NotImplementedError

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        """Yield each row's cells by column, a merged one only where it begins."""
        raise NotImplementedError

    def special(self, element: _Element, name: str, line: Pieces) -> bool:
        """Treat an element that only this format has; False leaves it to the common walk."""
        raise NotImplementedError

    def body(self, elements: Iterable[_Element]) -> Iterator[Block]:
        """Yield the blocks of the body, list items that follow each other as one, notes where their section ends."""
        items: list[str] = []
        for number, element in enumerate(elements):
            before = len(self.cited)  # notes; a heading's own come after it
            for block in self.block(element):
                if block.kind == "text" and _LIST_ITEM.match(block.text):
                    items.append(block.text)
                    continue
                if items:
                    yield Block("text", "\n".join(items))
                    items = []
                if block.kind == "heading":
                    yield from self.cited[:before]
                    del self.cited[:before]
                    before = 0
                yield block
            if number % 1000 == 0:
                yield Block("text", "")  # a million empty paragraphs: parse() looks at its clock
        yield Block("text", "\n".join(items))
        yield from self.cited
        self.cited = []

    def blocks(self, parent: _Element, nested: bool = False) -> Iterator[Block]:
        """Yield the blocks in an element; nested, tables become lines of text."""
        for child in parent:
            yield from self.block(child, nested)

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        name = name_of(element)
        if name == "p":
            yield from self.paragraph(element, nested)
        elif name == "tbl":
            yield from self.table(element, nested)
        elif name not in _LEFT_OUT:
            yield from self.other(element, name, nested)

    def other(self, element: _Element, name: str, nested: bool) -> Iterator[Block]:
        yield from self.blocks(_chosen(element) if name == "AlternateContent" else element, nested)

    def paragraph(self, element: _Element, nested: bool) -> Iterator[Block]:
        line = Pieces()
        self.inline(element, line)
        level, mark = self.style(element)
        if level < 0:
            return
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
            yield from self.box(box, nested)

    def box(self, element: _Element, nested: bool) -> Iterator[Block]:
        yield from self.blocks(element, nested)

    def words(self, text: str, level: int, mark: str) -> Iterator[Block]:
        text = text.strip()
        if text and level and len(text) <= MAX_HEADING_CHARS:
            text = _LIST_ITEM.sub("", mark) + text
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
            yield from plain_table(texts, self.place)

    def cell(self, cell: _Element) -> str:
        return " ".join(self.flat(cell).split())

    def flat(self, element: _Element) -> str:
        """Return all text in an element, a line for each paragraph."""
        return "\n".join(block.text for block in self.blocks(element, nested=True) if block.text)

    def inline(self, element: _Element, line: Pieces) -> None:
        mixed = name_of(element) == "t"  # .hwpx has tabs and breaks amid the text
        for child in element:
            self.piece(child, name_of(child), line)
            if mixed:
                line.add(child.tail)

    def piece(self, element: _Element, name: str, line: Pieces) -> None:
        if name in _LEFT_OUT or self.special(element, name, line):
            return
        if name in _MARKS:
            line.add(_MARKS[name])
        elif name in {"oMath", "oMathPara", "equation"}:
            line.add(equation(element))
        elif name == "tbl":
            line.parts.append(element)
        elif name in {"txbxContent", "drawText", "caption"}:
            line.boxes.append(element)
        else:
            line.add(element.text if name == "t" else "")
            self.inline(_chosen(element) if name == "AlternateContent" else element, line)

    def note(self, body: _Element, place: str) -> str:
        """Number a footnote or endnote, keep its text for the section's end, return its mark."""
        self.numbered += 1
        mark = f"[^{self.numbered}]"
        self.cited.append(Block("text", f"{mark}: {self.flat(body)}", place))
        return mark

    def once(self, text: str, place: str, author: str = "") -> None:
        """Keep a comment, header or footer for the end, unless it was met before or is only a page number."""
        if (place, text) not in self.seen and not (place in {"header", "footer"} and _PAGE_NUMBER.fullmatch(text)):
            self.seen.add((place, text))
            self.aside.append(Block("text", f"{author}: {text}" if author else text, place))

    def end(self) -> Iterator[Block]:
        """Yield what follows the body."""
        yield from self.cited
        yield from sorted(self.aside, key=lambda block: _END.index(block.place))


def _chosen(alternatives: _Element) -> _Element:
    """Return the first form of mc:AlternateContent that is not empty: the same text follows again in an older form."""
    return next((form for form in alternatives if len(form)), alternatives)


def equation(element: _Element) -> str:
    """Return an equation as `[math: LaTeX]`; nothing for an empty one."""
    scripts = (hancom(item.text or "") for item in element.iter("{*}script"))
    latex = " ".join(scripts).strip() if name_of(element) == "equation" else omml(element)
    return f"[math: {latex}]" if latex else ""


# --- what is drawn: shapes, charts, diagrams and pictures, in .docx, .pptx and .xlsx ---

_NOT_SHOWN = frozenset({"sldNum", "dt", "sldImg"})
_SAME_LINE = 228_600  # a quarter inch in EMU: tops closer than this are one line of shapes
# What programs describe pictures with: `Picture 3`, a file's name, a guess.
_NO_DESCRIPTION = re.compile(
    r"(?:picture|image|graphic|shape|diagram|chart|object|그림|이미지|개체|차트|도형)\W*\d*|\S+\.\w{2,4}|\S{0,40}|"
    r".*(?:automatically generated|자동 생성된|그림입니다).*",
    re.IGNORECASE | re.DOTALL,
)


def description(text: str | None) -> str:
    """Return a picture's description as `[text]`, if a person wrote it."""
    text = " ".join((text or "").split())
    return f"[{text}]" if text and not _NO_DESCRIPTION.fullmatch(text) else ""


class Drawing(Flow):
    """Walks shapes; also what .docx has in common with them."""

    def __init__(self, package: Package) -> None:
        super().__init__()
        self.package = package
        self.embedded: dict[str, int] = {}  # what is embedded, such as `Excel.Sheet.12` -> how often

    def draw(self, root: _Element, links: Links, place: str) -> Iterator[Block]:
        """Yield what a sheet's drawing shows."""
        self.place = place
        yield from self.shapes(root, links, {})
        yield from self.end()

    def style(self, paragraph: _Element) -> tuple[int, str]:
        properties = paragraph.find("{*}pPr")
        depth = min(whole(attribute(properties, "lvl")), 9)
        bullet = properties is not None and any(name_of(child) in {"buChar", "buAutoNum"} for child in properties)
        return 0, "  " * depth + "- " if bullet or depth else ""

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in table.iterfind("{*}tr"):
            cells = enumerate(row.iterfind("{*}tc"))
            yield {at: cell for at, cell in cells if not (cell.get("hMerge") or cell.get("vMerge"))}

    def special(self, element: _Element, name: str, line: Pieces) -> bool:
        return name == "fld" and element.get("type", "").startswith(("slidenum", "datetime"))

    def shapes(self, tree: _Element, links: Links, corners: dict[str, tuple[int, int]]) -> Iterator[Block]:
        for shape in _in_reading_order(tree, corners):
            name, holder = name_of(shape), shape.find(".//{*}nvPr/{*}ph")
            kind = attribute(holder, "type") if name != "grpSp" else ""
            if name == "grpSp":
                yield from self.shapes(shape, links, corners)
            elif name == "graphicFrame":
                yield from self.graphic(shape, links)
            elif name == "pic":
                yield from self.picture(shape.find(".//{*}cNvPr"))
            elif kind in {"ftr", "hdr"}:
                self.once(self.flat(shape), "footer")
            elif kind not in _NOT_SHOWN:
                text = self.flat(shape)
                title = kind in {"title", "ctrTitle"} and 0 < len(text) <= MAX_HEADING_CHARS
                yield from self.words(text, int(title), "")

    def graphic(self, frame: _Element, links: Links, nested: bool = False) -> Iterator[Block]:
        """Yield a table, a chart or a diagram (SmartArt)."""
        for element in frame.iter("{*}tbl", "{*}chart", "{*}relIds", "{*}oleObj"):
            if name_of(element) == "tbl":
                yield from self.table(element, nested)
                continue
            if name_of(element) == "oleObj":
                self.embed(element)
                continue
            root = self.package.xml(links.get(attribute(element, "r:id") or attribute(element, "r:dm"), ("", ""))[1])
            if root is None:
                continue
            rows = list(_chart_rows(root)) if name_of(element) == "chart" else []
            if rows and nested:
                yield Block("text", "; ".join(" / ".join(row.values()) for row in rows), self.place)
            yield from () if nested else plain_table(rows, self.place)
            if name_of(element) == "relIds":
                yield from self.words("\n".join(self.diagram(root)), 0, "")

    def diagram(self, root: _Element) -> Iterator[str]:
        """Yield the texts of SmartArt in the order of its hierarchy, indented; the file has them in any order."""
        points = {point.get("modelId") or str(at): point for at, point in enumerate(root.iterfind("{*}ptLst/{*}pt"))}
        below: dict[str, list[tuple[int, str]]] = {}
        for link in root.iterfind("{*}cxnLst/{*}cxn"):
            if link.get("type", "parOf") == "parOf":
                below.setdefault(link.get("srcId", ""), []).append((whole(link.get("srcOrd")), link.get("destId", "")))
        tops = [name for name, point in points.items() if point.get("type") == "doc"]
        todo = [(name, 0) for name in [*reversed(points), *tops]]
        while todo:
            name, depth = todo.pop()
            if (point := points.pop(name, None)) is None:  # met before
                continue
            todo += [(child, depth + 1) for _, child in sorted(below.get(name, ()), reverse=True)]
            text = self.flat(found) if (found := point.find("{*}t")) is not None else ""
            if text:
                yield f"{'  ' * min(depth - 1, 9)}- {text}" if depth > 1 else text

    def picture(self, properties: _Element | None) -> Iterator[Block]:
        """Yield the description that a person gave to a picture, and the name of a film or a recording."""
        yield from self.words(description(attribute(properties, "descr")), 0, "")
        holder = properties.getparent() if properties is not None else None
        media = [] if holder is None else [name_of(item) for item in holder.iter("{*}videoFile", "{*}audioFile")]
        if media:
            yield Block("text", f"[{media[0].removesuffix('File')}: {attribute(properties, 'name')}]", self.place)

    def embed(self, element: _Element) -> None:
        kind = attribute(element, "progId") or attribute(element, "ProgID") or "object"
        self.embedded[kind] = self.embedded.get(kind, 0) + 1

    def end(self) -> Iterator[Block]:
        if self.embedded:
            kinds = ", ".join(f"{kind} ({count:,})" for kind, count in list(self.embedded.items())[:20])
            self.package.notes.append(f"what is embedded is left out: {kinds}")
        yield from super().end()


def _in_reading_order(tree: _Element, corners: dict[str, tuple[int, int]]) -> list[_Element]:
    """Sort shapes from the top down, those on one line from the left; one that has no place comes first."""
    placed = []
    for order, shape in enumerate(_shapes_in(tree)):
        holder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
        inherited = corners.get(attribute(holder, "idx", "-")) or corners.get("body") if holder is not None else None
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
        name = name_of(child)
        if name in {"sp", "grpSp", "graphicFrame", "cxnSp", "pic"}:
            yield child
        elif name in {"cSld", "spTree", "AlternateContent", "twoCellAnchor", "oneCellAnchor", "absoluteAnchor"}:
            yield from _shapes_in(_chosen(child) if name == "AlternateContent" else child)


def _corner(shape: _Element) -> tuple[int, int] | None:
    """Return (top, left) in EMU, if the shape says so itself."""
    for path in ("{*}spPr/{*}xfrm/{*}off", "{*}grpSpPr/{*}xfrm/{*}off", "{*}xfrm/{*}off"):
        offset = shape.find(path)
        if offset is not None:
            return whole(offset.get("y")), whole(offset.get("x"))
    return None


def _chart_rows(root: _Element) -> Iterator[dict[int, str]]:
    """Yield a chart as a table: its title and the series' names, then each category with its values."""
    titles = (_drawn_text(title) for title in root.iter("{*}title"))  # of the chart, then of its axes
    words = " / ".join(filter(None, titles))
    rows: dict[int, dict[int, str]] = {-1: {0: words or "chart"}}
    every = list(root.iterfind(".//{*}ser"))
    first = next((column for column, series in enumerate(every, 1) if series.find("{*}cat") is not None), 0)
    for column, series in enumerate(every, 1):
        name = series.find("{*}tx")
        rows[-1][column] = _drawn_text(name) if name is not None else ""
        for path, at in (("cat", 0), ("xVal", 0), ("val", column), ("yVal", column), ("bubbleSize", column)):
            for point, code in _points(series.find(f"{{*}}{path}") if path != "cat" or column == first else None):
                row, text = rows.setdefault(whole(point.get("idx")), {}), point.findtext("{*}v") or ""
                text = shown_number(text, point.get("formatCode") or code)
                before = row.get(at, "") if path in {"cat", "bubbleSize"} else ""  # categories in levels: `US SF`
                row[at] = f"{before} ({text})" if path == "bubbleSize" else f"{text} {before}".strip()
    for column, data in enumerate(root.iterfind(".//{*}strDim") if len(rows) == 1 else ()):  # charts since 2016
        for at, point in enumerate(data.iter("{*}pt")):
            rows.setdefault(at, {})[column] = point.text or ""
    for _, row in sorted(rows.items()) if words or len(rows) > 1 else ():
        yield {column: text for column, text in row.items() if text.strip()}


def _points(data: _Element | None) -> Iterator[tuple[_Element, str]]:
    """Yield a series' points with the format of their numbers; of categories in levels, the innermost first."""
    for level in (
        data.iter("{*}lvl", "{*}strCache", "{*}numCache", "{*}strLit", "{*}numLit") if data is not None else ()
    ):
        code = level.findtext("{*}formatCode") or "General"
        yield from ((point, code) for point in level.iterfind("{*}pt"))


def _drawn_text(element: _Element) -> str:
    return " ".join("".join(item.text or "" for item in element.iter("{*}t", "{*}v")).split())


# --- .docx ---

_HEADING = re.compile(r"(?:heading|제목)\s*([1-9])", re.IGNORECASE)
_SYMBOL_FONT = dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True))  # its letters are Greek
_SYMBOL_FONT |= zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True)
_SYMBOL_FONT |= {0xA3: "≤", 0xA5: "∞", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB7: "•", 0xB8: "÷", 0xB9: "≠"}
_WINGDINGS = {0x6F: "□", 0xA7: "▪", 0xA8: "☐", 0xD8: "▶", 0xE0: "→", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"}


@dataclass(frozen=True, slots=True)
class _Style:
    """What a style or a paragraph says of itself; None: it inherits."""

    base: str = ""
    level: int | None = None  # of a heading; 0: body text
    depth: int | None = None  # in a list
    number: str | None = None  # which list; "0": none
    hidden: bool | None = None


class _Word(Drawing):
    def __init__(self, package: Package, part: str, inside: int) -> None:
        super().__init__(package)
        self.inside = inside  # how many documents this one is embedded in
        self.links = package.relations(part)
        self.defaults = "" if self.links else posixpath.dirname(part)  # where parts are that no relationship names
        self.own: dict[str, _Style] = {}
        for style in (child for root in self.linked("styles") for child in root.iterfind("{*}style")):
            said = _said({name_of(item): item for item in children(style.find("{*}pPr"))}, style.find("{*}rPr"))
            level = _named_level(attribute(style.find("{*}name"), "val")) if said.level is None else said.level
            base = attribute(style.find("{*}basedOn"), "val")
            self.own[attribute(style, "styleId")] = replace(said, base=base, level=level)
        self.styles = {name: self.inherited(name) for name in self.own}
        self.hiding = {name for name, style in self.styles.items() if style.hidden}
        self.lists: dict[str, List] = {}
        self.levels: dict[tuple[str, str], int] = {}  # (list, paragraph style) -> the level that goes with the style
        for root in self.linked("numbering"):
            self.read_lists(root)
        self.bodies = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote", "comment")
            for root in self.linked(f"{kind}s")
            for note in root
            if attribute(note, "type", "normal") == "normal"
        }

    def linked(self, kind: str) -> Iterator[_Element]:
        names = [part for found, part in self.links.values() if found == kind]
        for name in names or [f"{self.defaults}/{kind}.xml"][: bool(self.defaults)]:
            root = self.package.xml(name)
            if root is not None:
                yield root

    def inherited(self, name: str) -> _Style:
        """Fill in what a style leaves to those that it is based on."""
        found = self.own[name]
        for _ in range(20):  # a chain may be a circle
            base = self.own.get(found.base)
            if base is None:
                break
            keys = ("level", "depth", "number", "hidden")
            said = {key: getattr(found if getattr(found, key) is not None else base, key) for key in keys}
            found = _Style(base.base, **said)
        return found

    def read_lists(self, root: _Element) -> None:
        """Read the definitions of lists, then the lists (`num`), which may change some of a definition's levels."""
        defined = {attribute(item, "abstractNumId"): item for item in root.iterfind("{*}abstractNum")}
        named = {attribute(item, "numId"): item for item in root.iterfind("{*}num")}
        counts: dict[str, dict[int, int]] = {}
        for number, item in named.items():
            name = attribute(item.find("{*}abstractNumId"), "val")
            link = attribute(defined[name].find("{*}numStyleLink"), "val") if name in defined else ""
            if link in self.styles:  # the definition is that of a list style's list
                name = attribute(child_of(named.get(self.styles[link].number or ""), "abstractNumId"), "val")
            overrides = list(item.iterfind("{*}lvlOverride"))
            levels = [*children(defined.get(name)), *(level for change in overrides for level in change)]
            levels = [level for level in levels if name_of(level) == "lvl"]
            starts = [(_level_of(change), child_of(change, "startOverride")) for change in overrides]
            restarts = {at: whole(attribute(start, "val"), 1) for at, start in starts if start is not None}
            parsed = {_level_of(level): _list_level(level) for level in levels}
            self.lists[number] = List(parsed, counts.setdefault(name, {}), restarts)
            for level in levels:
                self.levels[number, attribute(level.find("{*}pStyle"), "val")] = _level_of(level)

    def style(self, paragraph: _Element) -> tuple[int, str]:
        properties = {name_of(item): item for item in children(_first(paragraph, "pPr"))}
        name = attribute(properties.get("pStyle"), "val")
        known = self.styles.get(name) or _Style(level=_named_level(name))
        if known.hidden:
            return -1, ""
        said = _said(properties) if "numPr" in properties or "outlineLvl" in properties else _Style()
        level = (known.level if said.level is None else said.level) or 0
        number = known.number if said.number is None else said.number
        depth = said.depth
        if depth is None and said.number is None:
            depth = self.levels.get((number or "", name), known.depth)
        if number == "0" or (number is None and depth is None) or child_of(properties.get("rPr"), "del") is not None:
            return level, ""
        found = self.lists.get(number or "")
        label = found.label(depth or 0) if found else None
        return level, "  " * min(depth or 0, 9) + "- " if label is None else label

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in within(table, "tr"):
            if row.find("{*}trPr/{*}del") is not None:
                continue
            column, cells = whole(attribute(row.find("{*}trPr/{*}gridBefore"), "val")), {}
            for cell in within(row, "tc"):
                said = {name_of(item): item for item in children(cell.find("{*}tcPr"))}
                merged = "vMerge" in said and attribute(said["vMerge"], "val") != "restart"
                if not (merged or "cellDel" in said or _is_placeholder(cell.getparent().getparent())):  # type: ignore[union-attr]
                    cells[column] = cell
                column += max(whole(attribute(said.get("gridSpan"), "val")), 1)
            yield cells

    def other(self, element: _Element, name: str, nested: bool) -> Iterator[Block]:
        if name == "altChunk":
            yield from self.take_in(element)
        elif not (name == "sdt" and _is_placeholder(element)):
            yield from super().other(element, name, nested)

    def box(self, element: _Element, nested: bool) -> Iterator[Block]:
        if name_of(element) == "docPr":
            yield from self.picture(element)
        elif name_of(element) in {"chart", "relIds"}:
            yield from self.graphic(element, self.links, nested)
        else:
            yield from super().box(element, nested)

    def special(self, element: _Element, name: str, line: Pieces) -> bool:
        if name in {"t", "tab", "hyperlink"}:  # most of all
            return False
        if name == "r":
            return self.is_hidden(element)
        if name == "fldChar":
            _field(element, line)
        elif name in {"footnoteReference", "endnoteReference", "commentReference"}:
            kind = name.removesuffix("Reference")
            body = self.bodies.pop((kind, attribute(element, "id")), None)  # once: a note may refer to itself
            if body is not None and kind == "comment":
                self.comment(body, self.cited)
            elif body is not None:
                line.add(self.note(body, f"{kind}s"))
        elif name in {"chart", "relIds", "docPr"}:
            line.boxes.append(element)
        elif name == "OLEObject":
            self.embed(element)
        elif name == "textpath":  # decorated text, and watermarks
            line.add(element.get("string"))
        elif name == "sym":
            line.add(_symbol(attribute(element, "char"), attribute(element, "font")))
        else:
            return name == "sdt" and _is_placeholder(element)
        return True

    def is_hidden(self, run: _Element) -> bool:
        said = {name_of(item): item for item in children(_first(run, "rPr"))}
        if "vanish" in said:
            return _is_on(said["vanish"])
        return bool(self.hiding) and attribute(said.get("rStyle"), "val") in self.hiding

    def comment(self, comment: _Element, into: list[Block]) -> None:
        """Take a comment, with those who answer in it; it follows the section that it stands in."""
        author, text = attribute(comment, "author"), self.flat(comment)
        into.append(Block("text", f"{author}: {text}" if author and text else text, "comments"))

    def take_in(self, element: _Element) -> Iterator[Block]:
        """Read a document that is embedded as it was, which Word would take in when it opens this one."""
        name = self.links.get(attribute(element, "r:id"), ("", ""))[1]
        kind = posixpath.splitext(name)[1].casefold()
        document = Document()
        try:
            data = self.package.raw(name)
            if kind in {".mht", ".mhtml"}:
                kind, data = ".html", _page_of(data)
            zipped = data.startswith(b"PK")  # whatever its name: parse() goes by content too, and would not count
            if not (zipped or kind in {".htm", ".html", ".xhtml", ".txt"}) or data.startswith(b"%PDF"):
                raise ParseError("it is no page and no text")
            if zipped and self.inside == MAX_INSIDE:
                raise ParseError("it is embedded too deep")
            if zipped:
                yield from docx(data, document, self.inside + 1)
            else:
                yield from parse(data, "part.txt" if kind == ".txt" else "part.html", seconds=5).blocks
        except (ParseError, NeedsAction, KeyError) as error:
            self.package.notes.append(f"{name or 'an embedded document'}, which is embedded, is left out ({error})")
        self.package.notes += document.partial

    def end(self) -> Iterator[Block]:
        for key in [key for key in self.bodies if key[0] == "comment"]:
            if (body := self.bodies.pop(key, None)) is not None:  # one comment may stand in another
                self.comment(body, self.aside)
        for place in ("header", "footer"):
            for root in self.linked(place):
                self.once(self.flat(root), place)
        yield from super().end()


def _first(element: _Element, name: str) -> _Element | None:
    """Return the first child, if it is the one that `name` names: properties come first."""
    return element[0] if len(element) and name_of(element[0]) == name else None


def _is_on(switch: _Element) -> bool:
    return attribute(switch, "val") not in {"0", "false", "off"}


def _is_placeholder(control: _Element | None) -> bool:
    """Tell a content control that nobody has filled in: `Click here to enter text`."""
    shown = control.find("{*}sdtPr/{*}showingPlcHdr") if control is not None and name_of(control) == "sdt" else None
    return shown is not None and _is_on(shown)


def _said(said: dict[str, _Element], letters: _Element | None = None) -> _Style:
    """Read the properties of a paragraph or a style, and those of a style's letters."""
    level = whole(attribute(said.get("outlineLvl"), "val"), -1)
    numbers = {name_of(item): attribute(item, "val") for item in children(said.get("numPr"))}
    depth = whole(numbers["ilvl"]) if "ilvl" in numbers else None
    hidden = child_of(letters, "vanish")
    return _Style(
        level=None if level < 0 else (level + 1) % 10 if level < 10 else 0,
        depth=depth,
        number=numbers.get("numId"),
        hidden=None if hidden is None else _is_on(hidden),
    )


def _level_of(element: _Element) -> int:
    return whole(attribute(element, "ilvl"))


def _list_level(element: _Element) -> Level:
    form, restart = element.find(".//{*}numFmt"), element.find("{*}lvlRestart")
    gap = attribute(element.find("{*}suff"), "val")
    return Level(
        text=attribute(element.find("{*}lvlText"), "val"),
        form=attribute(form, "val", "decimal"),
        start=whole(attribute(element.find("{*}start"), "val")),
        restart=None if restart is None else whole(attribute(restart, "val")),
        decimal=(legal := element.find("{*}isLgl")) is not None and _is_on(legal),
        gap="" if gap == "nothing" else " ",
    )


def _field(mark: _Element, line: Pieces) -> None:
    """Follow a field: code from its beginning, then its result, which alone is text; forms keep what was chosen."""
    kind = attribute(mark, "fldCharType")
    if kind == "begin":
        form = mark.find("{*}ffData")
        box, choice = (None, None) if form is None else (form.find("{*}checkBox"), form.find("{*}ddList"))
        if box is not None:
            state = child_of(box, "checked") if child_of(box, "checked") is not None else child_of(box, "default")
            line.add("☒" if state is not None and _is_on(state) else "☐")
        if choice is not None:
            entries = [attribute(entry, "val") for entry in choice.iterfind("{*}listEntry")]
            at = whole(attribute(child_of(choice, "result"), "val"))
            line.add(entries[at] if 0 <= at < len(entries) else "")
        line.codes.append(True)
    elif kind == "separate" and line.codes:
        line.codes[-1] = False
    elif kind == "end" and line.codes:
        line.codes.pop()


def _named_level(name: str) -> int | None:
    match = _HEADING.fullmatch(name)
    return int(match[1]) if match else 1 if name.casefold() in {"title", "제목"} else None


def _page_of(data: bytes) -> bytes:
    """Return the page in a web archive (MIME)."""
    for part in email.message_from_bytes(data).walk():
        if part.get_content_type() == "text/html":
            page = part.get_payload(decode=True)
            return page if isinstance(page, bytes) else b""
    raise ParseError("a web archive without a page")


def _symbol(code: str, font: str) -> str:
    number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0
    if 0xF000 <= number <= 0xF0FF:  # a font of its own, in the private area
        table = _SYMBOL_FONT if font.casefold() == "symbol" else _WINGDINGS if "wingdings" in font.casefold() else {}
        return table.get(number - 0xF000, "")
    return chr(number) if number >= 32 else ""


def docx(data: bytes, document: Document, inside: int = 0) -> Iterator[Block]:
    package = Package(data, document, "docx")
    part = package.main("word/document.xml", document)
    word = _Word(package, part, inside)
    tags = ("p", "tbl", "sdt", "customXml", "ins", "moveTo", "AlternateContent", "altChunk")
    yield from word.body(package.stream(part, "body", tags))
    yield from word.end()


# --- .pptx ---


class _Deck(Drawing):
    def __init__(self, package: Package, links: Links) -> None:
        super().__init__(package)
        self.layouts: dict[str, dict[str, tuple[int, int]]] = {}
        self.title_level = 1
        self.authors: dict[str, str] = {}  # of comments, by number or by id
        for kind, part in links.values():
            for author in children(package.xml(part) if kind in {"authors", "commentAuthors"} else None):
                self.authors[author.get("id", "")] = author.get("name", "")

    def slide(self, part: str, number: int, section: str) -> Iterator[Block]:
        """Yield a slide's section where that begins, its title, its shapes in reading order, notes and comments."""
        root = self.package.xml(part)
        if root is None:
            raise ParseError("it is missing or damaged")
        links = self.package.relations(part)
        self.place = place = f"slide {number}" + (" (hidden)" if root.get("show") in {"0", "false"} else "")
        kinds = dict(links.values())
        corners = self.corners(kinds.get("slideLayout", ""))
        shapes = [
            replace(block, level=self.title_level if block.level else 0) for block in self.shapes(root, links, corners)
        ]
        yield from self.words(section, 1, "")
        yield from sorted(shapes, key=lambda block: block.kind != "heading")
        notes = self.package.xml(kinds.get("notesSlide", ""))
        if notes is not None:
            self.place = f"slide {number}, notes"
            yield from (replace(block, kind="text", level=0) for block in self.shapes(notes, {}, {}))
        for comments in (self.package.xml(name) for kind, name in links.values() if kind == "comments"):
            yield from self.comments(comments, place)

    def comments(self, root: _Element | None, place: str) -> Iterator[Block]:
        """Yield comments and the replies to them, of old and of new presentations."""
        for item in root.iter("{*}cm", "{*}reply") if root is not None else ():
            body = item.find("{*}txBody")
            text = item.findtext("{*}text") or (self.flat(body) if body is not None else "")
            author = self.authors.get(item.get("authorId", ""), "")
            yield Block("text", f"{author}: {text}" if author and text else text, f"{place}, comments")

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


def _sections(presentation: _Element) -> dict[str, str]:
    """Return the names of sections by the id of the slide that each begins with."""
    found = {}
    for section in presentation.iter("{*}section"):
        first, name = section.find("{*}sldIdLst/{*}sldId"), section.get("name", "")
        if first is not None and not _NO_SECTION.fullmatch(name):
            found[first.get("id", "")] = name
    return found


_NO_SECTION = re.compile(r"default section|untitled section|기본 구역|제목 없는 구역", re.IGNORECASE)


def pptx(data: bytes, document: Document) -> Iterator[Block]:
    package = Package(data, document, "pptx")
    part = package.main("ppt/presentation.xml", document)
    links = package.relations(part)
    deck = _Deck(package, links)
    slides = package.xml(part)
    if slides is None:
        raise ParseError(f"{part} is damaged. Open the file, and save it anew.")
    sections = _sections(slides)
    deck.title_level = 2 if sections else 1
    for number, entry in enumerate(slides.iterfind("{*}sldIdLst/{*}sldId"), 1):
        name = links.get(attribute(entry, "r:id"), ("", ""))[1]
        try:
            yield from list(deck.slide(name, number, sections.get(entry.get("id", ""), "")))
        except ParseError as error:
            document.partial.append(f"slide {number} is left out: {error}")
    yield from deck.end()
