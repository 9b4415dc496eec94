"""Read the documents of Hangul, the Korean word processor, into blocks: .hwpx and .hwp (HWP 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .office import Flow, Package, Pieces, attribute, describe, name_of, whole
from .parsers import Block, Document, NeedsAction

if TYPE_CHECKING:
    from lxml.etree import _Element

_SECTION = re.compile(r"contents/section(\d+)\.xml")


class _Hangul(Flow):
    def __init__(self, header: _Element | None) -> None:
        super().__init__()
        items = header.iter("{*}paraPr", "{*}style") if header is not None else iter(())
        self.memos: list[str] = []
        self.formats: dict[tuple[str, str], tuple[int, str]] = {}  # (element, id) -> what style() returns
        for item in items:
            heading = item.find("{*}heading")
            depth = min(whole(attribute(heading, "level")), 9)
            kind = attribute(heading, "type")
            named = re.fullmatch(r"개요 ?([1-9])", item.get("name", ""))
            level = int(named[1]) if named else min(depth + 1, 9) if kind == "OUTLINE" else 0
            mark = "  " * depth + "- " if kind in {"BULLET", "NUMBER"} else ""
            self.formats[name_of(item), item.get("id", "")] = (level, mark)

    def style(self, paragraph: _Element) -> tuple[int, str]:
        level, mark = self.formats.get(("paraPr", paragraph.get("paraPrIDRef", "")), (0, ""))
        return level or self.formats.get(("style", paragraph.get("styleIDRef", "")), (0, ""))[0], mark

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in table.iterfind("{*}tr"):
            cells: dict[int, _Element] = {}
            for cell in row.iterfind("{*}tc"):
                cells[whole(attribute(cell.find("{*}cellAddr"), "colAddr"), len(cells))] = cell
            yield cells

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        if name_of(element) == "memogroup":  # the same again stands where it is anchored, with its author
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

    def special(self, element: _Element, name: str, line: Pieces) -> bool:
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


def hwpx(data: bytes, document: Document) -> Iterator[Block]:
    package = Package(data, document, "hwpx")
    if "meta-inf/manifest.xml" in package.parts and b"encryption-data" in package.open("META-INF/manifest.xml").read():
        raise NeedsAction("protected by a password: save it without one.")
    about = package.xml("Contents/content.hpf")
    for item in about.iter("{*}title", "{*}meta") if about is not None else ():
        value = item.text or item.get("content", "").removeprefix("text")  # content="text" tells its kind
        describe(document, [(item.get("name", name_of(item)), value)])
    sections = sorted((int(match[1]), name) for name in package.parts if (match := _SECTION.fullmatch(name)))
    hangul = _Hangul(package.xml("Contents/header.xml"))
    for _, name in sections or [(0, "Contents/section0.xml")]:
        yield from hangul.body(package.stream(name, "sec", ("p", "memogroup")))
    yield from hangul.end()
