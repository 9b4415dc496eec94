"""Read OpenDocument texts, .odt, which LibreOffice and Hangul write, into blocks.

Numbers of lists and headings are not counted: list items begin with a dash. Of equations, which are documents of their
own, the signs are read in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .office import Flow, Package, Pieces, attribute, child_of, children, describe, description, name_of, whole
from .parsers import Block, Document, NeedsAction

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_REPEATED = 100  # cells or rows that stand once in the file and show the same text

_SKIPPED = frozenset({"tracked-changes", "ruby-text", "page-number", "page-count", "sequence-decls"})
_CHARACTERS = {"tab": "\t", "line-break": "\n"}
_PROPERTIES = {"initial-creator": "author", "creation-date": "created", "date": "modified"}
_TAGS: tuple[str, ...] = (
    "p",
    "h",
    "list",
    "numbered-paragraph",
    "table",
    "section",
    "table-of-content",
    "bibliography",
    "frame",
)
_TAGS += ("custom-shape", "g")


class _Text(Flow):
    def __init__(self, package: Package) -> None:
        super().__init__()
        self.package = package
        self.depth = 0  # of the list that is being read

    def style(self, paragraph: _Element) -> tuple[int, str]:
        if name_of(paragraph) == "h":
            return max(whole(attribute(paragraph, "outline-level"), 1), 1), ""
        title = attribute(paragraph, "style-name") == "Title"
        return int(title), "  " * min(self.depth - 1, 9) + "- " if self.depth else ""

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in (child for child in table.iter("{*}table-row") if _table_of(child) is table):
            column = 0
            cells: dict[int, _Element] = {}
            for cell in row:
                repeated = max(whole(attribute(cell, "number-columns-repeated"), 1), 1)
                if name_of(cell) == "table-cell" and len(cell):
                    cells |= dict.fromkeys(range(column, column + min(repeated, MAX_REPEATED)), cell)
                column += repeated if name_of(cell) in {"table-cell", "covered-table-cell"} else 0
            repeated = whole(attribute(row, "number-rows-repeated"), 1)
            yield from [cells] * (min(max(repeated, 1), MAX_REPEATED) if cells else 1)

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        name = name_of(element)
        if name in {"p", "h"}:
            yield from self.paragraph(element, nested)
        elif name == "table":
            yield from self.table(element, nested)
        elif name == "object":
            yield from self.words(self.equation(element), 0, "")
        elif name == "desc":
            yield from self.words(description(element.text), 0, "")
        elif name == "list":
            self.depth += 1
            yield from self.blocks(element, nested)
            self.depth -= 1
        elif not (name in _SKIPPED or name.endswith("-source") or attribute(element, "display") == "none"):
            yield from self.blocks(element, nested)

    def equation(self, element: _Element) -> str:
        """Return the signs of an equation, which is a document of its own, in their order; "" for other objects."""
        root = self.package.xml(f"{attribute(element, 'href').removeprefix('./')}/content.xml")
        if root is None or name_of(root) != "math":
            return ""
        signs = (item.text.strip() for item in root.iter("{*}mi", "{*}mn", "{*}mo", "{*}mtext") if item.text)
        text = " ".join(filter(None, signs))
        return f"[math: {text}]" if text else ""

    def inline(self, element: _Element, line: Pieces) -> None:
        line.add(re.sub(r"\s+", " ", element.text or ""))
        for child in element:
            self.piece(child, name_of(child), line)
            line.add(re.sub(r"\s+", " ", child.tail or ""))

    def piece(self, element: _Element, name: str, line: Pieces) -> None:
        if name in _CHARACTERS:
            line.add(_CHARACTERS[name])
        elif name == "s":
            line.add(" " * min(max(whole(attribute(element, "c"), 1), 1), MAX_REPEATED))
        elif name == "note" and (body := child_of(element, "note-body")) is not None:
            line.add(self.note(body, f"{attribute(element, 'note-class', 'footnote')}s"))
        elif name == "annotation":
            author = child_of(element, "creator")
            self.once(self.flat(element), "comments", (author.text or "") if author is not None else "")
        elif name == "frame" and (part := child_of(element, "object")) is not None and self.equation(part):
            line.add(self.equation(part))
        elif name in {"frame", "custom-shape", "g", "rect", "text-box"}:
            line.boxes.append(element)
        elif name not in _SKIPPED:
            self.inline(element, line)


def _table_of(row: _Element) -> _Element | None:
    """Return the table that a row belongs to, through groups and header rows: a cell may hold a table too."""
    return next(row.iterancestors("{*}table"), None)


def odt(data: bytes, document: Document) -> Iterator[Block]:
    package = Package(data, document, "odt")
    if "meta-inf/manifest.xml" in package.parts and b"encryption-data" in package.open("META-INF/manifest.xml").read():
        raise NeedsAction("protected by a password: save it without one.")
    about = child_of(package.xml("meta.xml"), "meta")
    describe(document, ((_PROPERTIES.get(name_of(item), name_of(item)), item.text) for item in children(about)))
    text = _Text(package)
    yield from text.body(package.stream("content.xml", "text", _TAGS))
    for part in (part for page in children(child_of(package.xml("styles.xml"), "master-styles")) for part in page):
        place = name_of(part).partition("-")[0]
        if place in {"header", "footer"}:
            text.once(text.flat(part), place)
    yield from text.end()
