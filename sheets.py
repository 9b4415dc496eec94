"""Read Excel workbooks, .xlsx, into blocks: each sheet's rows as tables, then its charts, shapes and comments.

The sheets are read as they stand, row by row: a third of the time that openpyxl takes, and it drops more (comments,
charts, text boxes, workbooks in the strict namespaces). Hidden rows and columns are read like others, a hidden sheet is
marked. Formulas give the values that were stored with them; nothing is calculated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from .office import EPOCH, Drawing, GridRow, Package, attribute, children, grid_tables, name_of, shown_number, whole
from .parsers import Block, Document, ParseError

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_SHEET_ROWS = 500_000  # of one workbook; 100,000 of ten columns take some 7 s
MAX_BLANK_CELLS = 4_000_000  # and empty rows, of one workbook; a million takes some 2 s

# What the numbers of built-in formats stand for; those left out are General or text.
_BUILT_IN = {1: "0", 2: "0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss"}
_BUILT_IN |= dict.fromkeys((3, 5, 6, 37, 38, 41, 42), "#,##0")
_BUILT_IN |= dict.fromkeys((4, 7, 8, 39, 40, 43, 44), "#,##0.00")
_BUILT_IN |= dict.fromkeys((*range(14, 23), *range(27, 37), *range(50, 59)), "yyyy-mm-dd")
_RUNNING = tuple(f"{page}{part}" for page in ("odd", "even", "first") for part in ("Header", "Footer"))
_RUNNING_CODE = re.compile(r'&(?:"[^"]*"|K[\w+-]{6}|\d{1,3}|[LCRPNDTZFAGBIUEXYSHO])')  # places, fonts, page numbers
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_DEFAULT_NAME = re.compile(r"(?:table|표|表|テーブル|tabelle|tableau|tabla)_?\d*", re.IGNORECASE)


class _Book:
    def __init__(self, package: Package, part: str, root: _Element) -> None:
        self.package = package
        self.links = package.relations(part)
        self.epoch = EPOCH
        if attribute(root.find("{*}workbookPr"), "date1904") in {"1", "true"}:
            self.epoch = datetime(1904, 1, 1)  # noqa: DTZ001
        kinds = dict(self.links.values())
        self.codes = _number_formats(package.xml(kinds.get("styles", "xl/styles.xml")))
        strings = kinds.get("sharedStrings", "xl/sharedStrings.xml")
        found = package.stream(strings, "sst", ("si",)) if strings.casefold() in package.parts else ()
        self.strings = [_text(item) for item in found]
        persons = package.xml(kinds.get("person", ""))
        self.persons = {item.get("id"): item.get("displayName", "") for item in children(persons)}
        self.running: list[str] = []  # headers and footers of the sheet that is being read
        self.unvalued = self.lost = self.blank = 0  # formulas without a stored value; texts that are missing; cells

    def rows(self, part: str, place: str) -> Iterator[GridRow]:
        """Yield the rows of a sheet that hold anything: (number, {column: text})."""
        number, column = 0, 0
        cells: dict[int, str] = {}
        for element in self.package.stream(part, ("row", "sheetData", "headerFooter"), ("c", "row", *_RUNNING)):
            if name_of(element) == "c":
                column = _column(element.get("r", "").rstrip("0123456789")) or column + 1
                if text := self.cell(element):
                    cells[column] = text
                else:
                    self.blank += 1
            elif name_of(element) != "row":
                self.running.append(" ".join(_RUNNING_CODE.sub(" ", element.text or "").replace("&&", "&").split()))
            else:
                number = whole(element.get("r"), number + 1)
                self.blank += not cells
                if cells:
                    yield number, cells
                column, cells = 0, {}
            if self.blank > MAX_BLANK_CELLS:
                self.package.notes.append(f"{place} is read to row {number:,}: its blank cells are too many")
                break
        if cells:  # the file ends amid a row
            yield number + 1, cells

    def cell(self, cell: _Element) -> str:
        """Return a cell as the spreadsheet shows it, where that is cheap; dates as ISO."""
        value, kind, formula = "", cell.get("t", "n"), False
        for child in cell:
            name = name_of(child)
            if name == "v":
                value = child.text or ""
            elif name == "is":
                return _text(child).strip()
            formula |= name == "f"
        if not value:
            self.unvalued += formula and kind != "str"  # an empty text is a value
        elif kind == "n":
            value = shown_number(value, self.codes.get(cell.get("s", "0"), "General"), self.epoch)
        elif kind == "s":
            return self.string(whole(value, -1))
        elif kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        elif kind == "d":
            return value.replace("T", " ").removesuffix(" 00:00:00")
        return _unescaped(value).strip()

    def string(self, at: int) -> str:
        if 0 <= at < len(self.strings):
            return self.strings[at].strip()
        self.lost += 1
        return ""

    def beside(self, part: str, place: str) -> Iterator[Block]:
        """Yield what a sheet has beside its cells: headers and footers of its pages, charts, text boxes, comments."""
        yield from (Block("text", text, place) for text in dict.fromkeys(filter(None, self.running)))
        self.running = []
        links = self.package.relations(part).values()
        for kind, name in links:
            root = self.package.xml(name) if kind in {"drawing", "comments", "threadedComment"} else None
            if root is None:
                continue
            if kind == "drawing":
                yield from Drawing(self.package).draw(root, self.package.relations(name), place)
            elif kind == "threadedComment":
                for item in root.iterfind("{*}threadedComment"):
                    author = self.persons.get(item.get("personId"), "")
                    yield _comment(item, author, item.findtext("{*}text") or "", place)
            else:
                yield from _comments(root, place)

    def tables(self, part: str, place: str) -> Iterator[Block]:
        """Yield the names that people gave to tables of a sheet."""
        for kind, name in self.package.relations(part).values():
            root = self.package.xml(name) if kind == "table" else None
            named = attribute(root, "displayName") or attribute(root, "name")
            if named and not _DEFAULT_NAME.fullmatch(named):
                yield Block("text", f"{named} ({attribute(root, 'ref')})", place)


def _number_formats(styles: _Element | None) -> dict[str, str]:
    """Return the number format of each cell style that has one, by the style's number as cells name it."""
    if styles is None:
        return {}
    own = {form.get("numFmtId"): form.get("formatCode", "") for form in styles.iterfind("{*}numFmts/{*}numFmt")}
    named = [style.get("numFmtId", "0") for style in styles.iterfind("{*}cellXfs/{*}xf")]
    codes = (own.get(number) or _BUILT_IN.get(whole(number), "General") for number in named)
    return {str(at): code for at, code in enumerate(codes)}


def _text(item: _Element) -> str:
    """Return the text of a string, formatted or not, without the readings of its characters (phonetic runs)."""
    if len(item) == 1 and name_of(item[0]) == "t":
        return _unescaped(item[0].text or "")
    runs = (child if name_of(child) == "r" else (child,) for child in item)
    return _unescaped("".join(part.text or "" for run in runs for part in run if name_of(part) == "t"))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text  # _x000D_


@lru_cache(maxsize=20_000)
def _column(letters: str) -> int:
    """`"BC"` -> 55, `""` -> 0."""
    column = 0
    for letter in letters[:3].upper():
        column = column * 26 + ord(letter) - 64
    return column


def _comments(root: _Element, place: str) -> Iterator[Block]:
    authors = [item.text or "" for item in root.iterfind("{*}authors/{*}author")]
    for item in root.iterfind("{*}commentList/{*}comment"):
        at, body = whole(item.get("authorId"), -1), item.find("{*}text")
        author = authors[at] if 0 <= at < len(authors) else ""
        if body is not None and not author.startswith("tc="):  # a threaded comment, which has a part of its own
            yield _comment(item, author, _text(body), place)


def _comment(item: _Element, author: str, text: str, place: str) -> Block:
    text = text.strip().removeprefix(f"{author}:").strip()  # Excel begins a comment with its author
    named = ", ".join(filter(None, (item.get("ref"), author)))
    return Block("text", f"{named}: {text}" if text else "", f"{place}, comments")


def xlsx(data: bytes, document: Document) -> Iterator[Block]:
    package = Package(data, document, "xlsx")
    part = package.main("xl/workbook.xml", document)
    root = package.xml(part)
    if root is None:
        raise ParseError(f"{part} is damaged. Open the file, and save it anew.")
    book = _Book(package, part, root)
    room = MAX_SHEET_ROWS
    for sheet in root.iterfind("{*}sheets/{*}sheet"):
        kind, name = book.links.get(attribute(sheet, "r:id"), ("", ""))
        place = f"sheet {sheet.get('name', '')}" + (" (hidden)" if sheet.get("state", "visible") != "visible" else "")
        if name.casefold() not in package.parts:
            document.partial.append(f"{place} is missing or damaged")
            continue
        yield from book.tables(name, place)
        rows = book.rows(name, place) if kind == "worksheet" else iter(())
        try:
            for block in grid_tables(islice(rows, room), place, document.partial):
                room = max(room - max(len(block.rows), 1), 0)
                yield block
        except Exception as error:  # noqa: BLE001 - one broken sheet must not lose the others
            document.partial.append(f"{place} can't be read to its end ({error})")
        yield from book.beside(name, place)
        if next(rows, None):
            document.partial.append(f"only the first {MAX_SHEET_ROWS:,} rows are read; the rest begins in {place}")
            break
    if book.unvalued:
        document.partial.append(
            f"{book.unvalued:,} formulas have no stored value: save the file in a spreadsheet program"
        )
    if book.lost:
        document.partial.append(f"{book.lost:,} cells are left out: the file doesn't hold their text")
