"""Read the documents of Hangul, the Korean word processor, into blocks: .hwpx, .hwp and HWPML.

What a file is, its content tells, not its suffix. All of them become the elements of .hwpx (OWPML, KS X 6101), which
`_Hangul` walks; for HWP 5 that is the work of hwp5.py. Not read: HWP 3 and older, and what is locked.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .numbering import Level, List
from .office import (
    _NO_DESCRIPTION,
    _SAFE,
    Flow,
    Package,
    Pieces,
    _chart_rows,
    attribute,
    describe,
    name_of,
    plain_table,
    whole,
)
from .parsers import Block, Document, NeedsAction, ParseError

if TYPE_CHECKING:
    from lxml.etree import _Element

_DRM = {b"SCDSA0": "Softcamp Document Security", b"<DOCUMENT SAFER ": "MarkAny Document SAFER"}
_DRM |= {b"\x9b DRMONE": "Fasoo DRM", b"<!-- FasooSecureContainer": "Fasoo DRM", b"<## NASCA DRM": "NASCA DRM"}


def drm(data: bytes) -> str:
    """Name the product that locked a company's file, of whatever suffix, by how the bytes begin; "": none known."""
    return next((product for mark, product in _DRM.items() if data.startswith(mark)), "")


def hwp(data: bytes, document: Document) -> Iterator[Block]:
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return _hwp5(data, document)
    if data.startswith(b"HWP Document File V"):
        raise NeedsAction("written by an old Hangul (HWP 3 or before): open it in Hangul, and save it as .hwpx.")
    if product := drm(data):
        raise NeedsAction(f"protected by {product}: save it unprotected in the company's program, or ask who can.")
    return (_hwpml if b"<HWPML" in data[:2000].replace(b"\x00", b"") else _hwpx)(data, document)


hwpx = hwp

# --- what all have in common ---

_WALKED = frozenset({"run", "ctrl", "t", "deleteEnd"})  # also within a deletion, to find its end
_FORMS = {"CIRCLEDDIGIT": "decimalEnclosedCircle", "HANGULSYLLABLE": "ganada", "HANGULJAMO": "chosung"}
_FORMS |= {"ROMANCAPITAL": "upperRoman", "ROMANSMALL": "lowerRoman", "LATINCAPITAL": "upperLetter"}
_FORMS |= {"LATINSMALL": "lowerLetter", "HANGULPHONETIC": "koreanCounting", "IDEOGRAPH": "japaneseCounting"}


class _Hangul(Flow):
    def __init__(self, notes: list[str], head: _Element | None = None, package: Package | None = None) -> None:
        super().__init__()
        self.notes, self.package = notes, package
        self.formats: dict[tuple[str, str], tuple[int, int, str, str]] = {}  # (element, id) -> level, depth, kind, list
        self.lists: dict[str, List] = {}
        self.outline, self.embedded = "", 0  # the list that numbers this section's headings; objects
        self.paired = self.deleting = False  # paired: all deletions end, so that one may go on in the next paragraph
        if head is not None:
            self.learn(head)

    def learn(self, head: _Element) -> None:
        """Take in the styles, the shapes of paragraphs and the lists of a document."""
        for item in head.iter("{*}numbering", "{*}paraPr", "{*}style"):
            if name_of(item) == "numbering":
                levels = enumerate(map(_level, item.iterfind("{*}paraHead")))
                self.lists[item.get("id", "")] = List(dict(levels), {})
                continue
            heading = next(item.iter("{*}heading"), item)
            kind, depth = attribute(heading, "type").upper(), max(min(whole(attribute(heading, "level")), 9), 0)
            named = re.fullmatch(r"개요 ?([1-9])", item.get("name", ""))
            level = int(named[1]) if named else min(depth + 1, 9) if kind == "OUTLINE" else 0
            self.formats[name_of(item), item.get("id", "")] = (level, depth, kind, attribute(heading, "idRef"))

    def style(self, paragraph: _Element) -> tuple[int, str]:
        plain = (0, 0, "", "")
        level, depth, kind, name = self.formats.get(("paraPr", paragraph.get("paraPrIDRef", "")), plain)
        level = level or self.formats.get(("style", paragraph.get("styleIDRef", "")), plain)[0]
        found = self.lists.get({"OUTLINE": self.outline, "NUMBER": name}.get(kind, ""))
        label = (found.label(depth) if found else None) or ("  " * depth + "- " if kind in {"NUMBER", "BULLET"} else "")
        cited = not level or label.startswith("제")  # `제2장`; `2.` and `나.` only order headings
        return level, label if cited else ""

    def grid(self, table: _Element) -> Iterator[dict[int, _Element]]:
        for row in table.iterfind("{*}tr"):
            cells: dict[int, _Element] = {}
            for cell in row.iterfind("{*}tc"):
                address = cell.get("colAddr") or attribute(cell.find("{*}cellAddr"), "colAddr")
                at = whole(address, len(cells))
                cells[at if at not in cells else max(cells) + 1] = cell  # a damaged file says one address twice
            yield cells

    def block(self, element: _Element, nested: bool = False) -> Iterator[Block]:
        if name_of(element) != "memogroup":
            yield from super().block(element, nested)
        else:  # after the body; the same stands where it is anchored, with its author
            for memo in element:
                self.once(self.flat(memo), "comments")

    def end(self) -> Iterator[Block]:
        if self.embedded:
            self.notes.append(f"what is embedded is left out: {self.embedded:,} objects, such as charts")
        yield from super().end()

    def table(self, element: _Element, nested: bool) -> Iterator[Block]:
        if name_of(element) == "chart":
            root = self.package.xml(attribute(element, "chartIDRef")) if self.package else None
            rows = list(_chart_rows(root)) if root is not None else []
            if nested:
                yield Block("text", "; ".join(" / ".join(row.values()) for row in rows), self.place)
            yield from () if nested else plain_table(rows, self.place)
            return
        for caption in element.iterfind("{*}caption"):
            yield from self.blocks(caption, nested)
        yield from super().table(element, nested)

    def inline(self, element: _Element, line: Pieces) -> None:
        if name_of(element) == "p":
            line.deleted = self.deleting
        super().inline(element, line)

    def special(self, element: _Element, name: str, line: Pieces) -> bool:
        if line.deleted and name not in _WALKED:
            return True
        if name in {"footNote", "endNote"}:
            line.add(self.note(element, f"{name.lower()}s"))
        elif name in {"header", "footer", "masterPage"}:
            self.once(self.flat(element), "footer" if name == "footer" else "header")
        elif name == "hiddenComment" or (name == "fieldBegin" and element.get("type") == "MEMO"):
            authors = [item.text or "" for item in element.iter("{*}stringParam") if item.get("name") == "Author"]
            self.once(self.flat(element), "comments", "".join(authors[:1]) or element.get("author", ""))
        elif name == "deleteBegin":
            line.deleted, self.deleting = True, self.paired
        elif name == "deleteEnd":
            if not line.deleted:  # the deletion began in an earlier paragraph
                line.parts = [part for part in line.parts if not isinstance(part, str)]
            line.deleted = self.deleting = False
        elif name == "chart":
            line.parts.append(element)
        elif name == "ole":
            self.embedded += 1
            return False
        elif name == "switch":  # the same in forms for newer and older programs
            self.inline(next(iter(element), element), line)
        elif name == "secPr":
            self.outline = element.get("outlineShapeIDRef", "")
            return False
        else:
            text = _own_text(element, name)
            before = line.parts[-1] if line.parts else " "
            if text and name in _FORMS_ON_PAGE and isinstance(before, str) and not before[-1].isspace():
                line.add(" ")  # boxes side by side are two words
            line.add(text)
            return text is not None
        return True


def _level(head: _Element) -> Level:
    text = re.sub(r"\^([1-9])", r"%\1", (head.text or "").replace("%", ""))
    form = _FORMS.get(head.get("numFormat", "").upper().replace("_", ""), "decimal")
    return Level(text, form, whole(head.get("start"), 1))


def _own_text(element: _Element, name: str) -> str | None:
    """Return what an element shows of its own attributes and text; None: it shows what is in it."""
    if name == "autoNum":
        kind = element.get("numType", "").upper()
        return element.get("num", "") if kind in {"TABLE", "PICTURE", "FIGURE", "EQUATION"} else ""
    if name in {"compose", "textart"}:  # characters laid over each other; decorated text
        return element.get("composeText") or element.get("text", "")
    if name in {"mainText", "subText"}:  # of a ruby (덧말): the words, and the small ones beside them
        return f"({element.text})" if element.text and name == "subText" else element.text or ""
    if name in {"checkBtn", "radioBtn", "btn"}:
        return {"CHECKED": "☑ ", "UNCHECKED": "☐ "}.get(element.get("value", ""), "") + element.get("caption", "")
    if name in {"edit", "comboBox"}:
        items = (item.get("displayText") or item.get("value") or "" for item in element.iterfind("{*}listItem"))
        return element.findtext("{*}text") or element.get("selectedValue") or "/".join(filter(None, items))
    if name == "form":  # of HWP 5: `… Value:int:1 … Caption:wstring:2:동의 …`
        found = re.search(r"(?:Caption|Text):wstring:(\d{1,5}):(.*)", element.text or "", re.DOTALL)
        mark = {"1": "☑ ", "0": "☐ "}.get("".join(re.findall(r"ButtonSet.* Value:int:(\d)", element.text or "")), "")
        return mark + (found[2][: int(found[1])] if found else "")
    if name == "shapeComment":
        text = " ".join((element.text or "").split())
        return f"[{text}]" if text and not _NO_DESCRIPTION.fullmatch(text) else ""
    return None


_FORMS_ON_PAGE = frozenset({"checkBtn", "radioBtn", "btn", "edit", "comboBox", "form"})


# --- .hwpx ---

_SECTION = re.compile(r"contents/section(\d+)\.xml")


def _hwpx(data: bytes, document: Document) -> Iterator[Block]:
    package = Package(data, document, "hwpx")
    if "meta-inf/manifest.xml" in package.parts and b"encryption-data" in package.open("META-INF/manifest.xml").read():
        raise NeedsAction("protected by a password, or a distribution document (배포용 문서): save it as a plain one.")
    about = package.xml("Contents/content.hpf")
    for item in about.iter("{*}title", "{*}meta") if about is not None else ():
        value = item.text or item.get("content", "").removeprefix("text")  # content="text" tells its kind
        describe(document, [(item.get("name", name_of(item)), value)])
    hangul, read = _Hangul(document.partial, package.xml("Contents/header.xml"), package), False
    for name in _sections(package, about):
        with package.open(name) as file:
            pieces = iter(lambda file=file: file.read(1 << 20), b"")  # type: ignore[misc]
            hangul.paired = sum(piece.count(b"deleteBegin") - piece.count(b"deleteEnd") for piece in pieces) == 0
        hangul.deleting = False
        try:
            for block in hangul.body(package.stream(name, "sec", ("p", "memogroup"))):
                read = read or bool(block.text)
                yield block
        except SyntaxError as error:  # lxml's, of a section that is damaged from its beginning
            package.damaged(name, error)
    for name in package.parts:
        page = package.xml(name) if name.startswith("contents/masterpage") else None
        hangul.once(hangul.flat(page) if page is not None else "", "header")
    if document.partial and not read and not hangul.aside:
        raise ParseError(f"{'; '.join(document.partial)}. Open the file, and save it anew.")
    yield from hangul.end()


def _sections(package: Package, about: _Element | None) -> list[str]:
    """Return the names of the sections: by number, then those of the spine that are named otherwise."""
    items = [item.attrib for item in about.iter("{*}item", "{*}itemref")] if about is not None else []
    parts = {item.get("id", ""): item.get("href", "").casefold() for item in items}
    numbered = sorted((int(match[1]), name) for name in package.parts if (match := _SECTION.fullmatch(name)))
    spine = [name for item in items if (name := parts.get(item.get("idref", ""), "")) in package.parts]
    names = [name for _, name in numbered] + [name for name in spine if not re.search(r"section\d+|header", name)]
    return names or ["Contents/section0.xml"]


# --- .hwp: HWP 5, HWPML ---

_LOCKED = "상위 버전의 배포용 문서입니다"  # stands where an older program finds a newer locked document
# What HWPML calls the elements and attributes of .hwpx, unless the name only begins with a capital, or has no others.
_HWPML = {"P": "p", "TEXT": "run", "CHAR": "t", "TABLE": "tbl", "ROW": "tr", "CELL": "tc", "FOOTNOTE": "footNote"}
_HWPML |= {"ENDNOTE": "endNote", "HIDDENCOMMENT": "hiddenComment", "DRAWTEXT": "drawText", "AUTONUM": "autoNum"}
_HWPML |= {"LINEBREAK": "lineBreak", "NBSPACE": "nbSpace", "FWSPACE": "fwSpace", "PARASHAPE": "paraPr"}
_HWPML |= {"PARAHEAD": "paraHead", "SHAPECOMMENT": "shapeComment", "SECDEF": "secPr", "MASTERPAGE": "masterPage"}
_HWPML |= {"ParaShape": "paraPrIDRef", "Style": "styleIDRef", "Number": "num", "HeadingType": "type"}
_HWPML |= {"Heading": "idRef", "OutlineShape": "outlineShapeIDRef"}


def _hwp5(data: bytes, document: Document) -> Iterator[Block]:
    from .hwp5 import Hwp5

    file, read = Hwp5(data, document), False
    hangul = _Hangul(document.partial, file.head())
    for section in file.sections():
        for block in hangul.body(section):
            if not read and _LOCKED in block.text:
                raise NeedsAction("a distribution document (배포용 문서): ask its author for an ordinary one.")
            read = read or bool(block.text)
            yield block
    yield from hangul.end()
    if not read and not hangul.aside and document.partial:
        preview = file.preview()
        if not preview:
            raise ParseError(f"{'; '.join(document.partial)}. Open it in Hangul, and save it anew.")
        document.partial.append("the body can't be read: this is the preview, which is only its beginning")
        yield Block("text", preview)


def _hwpml(data: bytes, document: Document) -> Iterator[Block]:
    from lxml import etree

    if b"<!DOCTYPE" in data[:2000].replace(b"\x00", b""):
        raise ParseError("declares a DOCTYPE, which Hangul does not write.")
    walk = etree.iterparse(io.BytesIO(data), events=("start", "end"), tag=("HEAD", "P", "TAIL"), recover=True, **_SAFE)
    hangul = _Hangul(document.partial)
    yield from hangul.body(_hwpml_paragraphs(walk, hangul, document))
    faults = [fault.message for fault in walk.error_log if "ntity" not in fault.message]  # &nbsp; is none
    document.partial += [f"it is damaged, and read in part ({fault})" for fault in faults[:1]]
    yield from hangul.end()


def _hwpml_paragraphs(walk: Iterable[tuple[str, Any]], hangul: _Hangul, document: Document) -> Iterator[_Element]:
    for event, element in walk:
        above = element.getparent()
        if event == "start" and element.tag == "TAIL":  # pictures follow
            return
        if event == "end" and element.tag == "HEAD":
            about = {"TITLE": "title", "AUTHOR": "author", "SUBJECT": "subject", "KEYWORDS": "keywords"}
            describe(document, ((about.get(item.tag, ""), item.text) for item in element.iterfind("DOCSUMMARY/*")))
            hangul.learn(_as_hwpx(element))
        elif event == "end" and above is not None and above.tag == "SECTION":
            yield _as_hwpx(element)
            element.clear()
            while element.getprevious() is not None:
                del above[0]


def _as_hwpx(tree: _Element) -> _Element:
    for element in tree.iter("*"):
        element.tag = _HWPML.get(name_of(element), name_of(element).lower())
        for key, value in [(str(key), value) for key, value in element.items()]:
            element.set(_HWPML.get(key, key[:1].lower() + key[1:]), value)
    return tree
