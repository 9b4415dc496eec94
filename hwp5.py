"""Turn an HWP 5 file (`.hwp`) into elements as .hwpx has them, which hangul.py reads.

It is an OLE2 container of streams, mostly compressed, of records (tag, level, size); each record belongs to the nearest
one before it of a lower level. The facts are from Hancom's "Hwp Document File Formats 5.0", revision 1.3.

    PARA_HEADER 0, PARA_TEXT 1 "a<fn>b", CTRL_HEADER 1 "fn  ", LIST_HEADER 2, PARA_HEADER 2, PARA_TEXT 3 "note"
    -> <p><t>a</t><footNote><subList><p><t>note</t></p></subList></footNote><t>b</t></p>

Charts and embedded objects are not read.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import olefile
from lxml.etree import Element, SubElement, _Element

from .office import Package, describe
from .parsers import Document, NeedsAction, ParseError

MAX_UNPACKED_BYTES = 100_000_000  # of all streams of one file
MAX_RECORDS = 2_000_000  # of all streams; 1,000 pages take some 200,000
MAX_PARTS = 300_000  # paragraphs, cells, controls in one paragraph of the body, as a table; they take some 250 MB
MAX_TEXT_BYTES = 8_000_000  # of one paragraph
MAX_LEVELS = 60  # of records in each other: 30 tables

_NUMBERING, _PARA_SHAPE, _STYLE = 23, 25, 26  # tags of records
_PARAGRAPH, _TEXT, _LETTERS, _LINES, _RANGES, _CONTROL, _LIST = 66, 67, 68, 69, 70, 71, 72
_OF_TEXT = frozenset({_TEXT, _LETTERS, _LINES, _RANGES})
_COMPONENT, _TABLE, _OLE, _MEMO = 76, 77, 84, 93
_WORDS = {88: ("script", 4), 90: ("t", 32), 91: ("form", 12)}  # tag -> element, where the text is: 90 is decorated text
_DELETED = 17  # kind of a range
_Record = tuple[int, int, bytes]  # tag, level, data

_BEGIN, _END = "\U0010fffe", "\U0010ffff"  # of what is deleted; no unit of UTF-16 is one of them
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010fffd]")
_TOKEN = re.compile(f"[\x00\n\r\x18-\x1f{_BEGIN}{_END}]|[\x01-\x17].{{0,7}}", re.DOTALL)  # most take eight units
_SHOWN = {"\t": "\t", "\n": "\n", "\x18": "-", "\x1e": " ", "\x1f": " "}
_HAS_RECORD = frozenset("\x01\x02\x03\x0b\x0c\x0e\x0f\x10\x11\x12\x15\x16\x17")  # a control's place in the text
_CONTROLS = {"tbl ": "tbl", "gso ": "shape", "fn  ": "footNote", "en  ": "endNote", "head": "header", "foot": "footer"}
_CONTROLS |= {"tcmt": "hiddenComment", "eqed": "equation", "atno": "autoNum", "tcps": "compose", "secd": "secPr"}
_LISTS = {"tbl": "caption", "shape": "caption", "component": "drawText", "secPr": "masterPage", "p": "masterPage"}
_KINDS = {3: "PICTURE", 4: "TABLE", 5: "EQUATION"}  # of automatic numbers
_DIGITS = {1: "CIRCLED_DIGIT", 2: "ROMAN_CAPITAL", 3: "ROMAN_SMALL", 4: "LATIN_CAPITAL", 5: "LATIN_SMALL"}
_DIGITS |= {8: "HANGUL_SYLLABLE", 10: "HANGUL_JAMO", 12: "HANGUL_PHONETIC", 13: "IDEOGRAPH"}
_SUMMARY = {2: "title", 3: "subject", 4: "author", 5: "keywords", 6: "description", 12: "created", 13: "modified"}
_LOCKS = (  # bits of the file header's properties
    (0x002, "protected by a password: save it without one."),
    (0x004, "a distribution document (배포용 문서): ask its author for an ordinary one, or print it to a PDF."),
    (0x510, "locked by DRM or a certificate: save it without, in the program that may open it."),
)


def _number(data: bytes, at: int, size: int = 2) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _string(data: bytes, at: int) -> tuple[str, int]:
    """Read a text that stands after its length (two bytes); return it and where it ends."""
    end = at + 2 + 2 * _number(data, at)
    return _NOT_XML.sub("", data[at + 2 : end].decode("utf-16-le", "replace")), end


class Hwp5:
    """What is damaged is read as far as it is whole, and told in `notes`."""

    def __init__(self, data: bytes, document: Document) -> None:
        self.notes, self.bytes_left, self.records_left = document.partial, MAX_UNPACKED_BYTES, MAX_RECORDS
        try:
            if _number(data, 44, 4) > len(data) >> 9:  # sectors of its table: olefile would read them all
                raise OSError("its table of sectors is larger than the file")
            self.ole = olefile.OleFileIO(io.BytesIO(data))
            head = self.ole.openstream("FileHeader").read()
        except Exception as error:  # noqa: BLE001 - olefile raises IndexError and others, beside its own
            if b"HWP Document File" not in data:
                Package(data, document, "hwpx")  # raises: it is what another program wrote
            raise ParseError(f"damaged ({error}). Open it in Hangul, and save it anew.") from None
        for bits, what in _LOCKS:
            if _number(head, 36, 4) & bits:
                raise NeedsAction(what)
        flags = _number(head, 36, 4)
        self.packed, self.paths = flags & 1, ["/".join(path) for path in self.ole.listdir()]
        tracked = flags & 0x4000 and any(path.startswith("ViewText/") for path in self.paths)
        self.body = "ViewText" if tracked else "BodyText"  # for old programs, a stand-in is where the body should be
        if "\x05HwpSummaryInformation" in self.paths:
            describe(document, _summary(self.ole.openstream("\x05HwpSummaryInformation").read()))

    def head(self) -> _Element:
        """Make of DocInfo what .hwpx has in its header part; a paragraph refers to a shape or style by its number."""
        head, counts = Element("head"), {_NUMBERING: 1, _PARA_SHAPE: 0, _STYLE: 0}
        for tag, _, data in self.records("DocInfo"):
            number = str(counts.get(tag, 0))
            counts[tag] = int(number) + 1
            if counts[tag] > 1 << 16:  # no paragraph can refer to more
                break
            if tag == _STYLE:
                SubElement(head, "style", id=number, name=_string(data, 0)[0])
            elif tag == _PARA_SHAPE and (kind := _number(data, 0, 4) >> 23 & 3):
                depth = _number(data, 54, 4) if len(data) >= 58 else _number(data, 0, 4) >> 25 & 7
                said = {"type": ["", "OUTLINE", "NUMBER", "BULLET"][kind], "idRef": str(_number(data, 30))}
                SubElement(SubElement(head, "paraPr", id=number), "heading", said, level=str(depth))
            elif tag == _NUMBERING:
                levels, end = SubElement(head, "numbering", id=number), 0
                for _ in range(7):
                    digits = _DIGITS.get(_number(data, end, 4) >> 5 & 31, "")
                    text, end = _string(data, end + 12)
                    SubElement(levels, "paraHead", numFormat=digits).text = text
                for level, at in zip(levels, range(end + 2, len(data) - 3, 4), strict=False):
                    level.set("start", str(_number(data, at, 4)))
        return head

    def sections(self) -> Iterator[Iterator[_Element]]:
        """Yield each section's paragraphs."""
        found = ((re.fullmatch(rf"{self.body}/Section(\d{{1,4}})", path), path) for path in self.paths)
        paths = sorted((int(match[1]), path) for match, path in found if match)
        self.notes += [] if paths else ["it holds no section of text"]
        tree = _Tree(self.notes)
        yield from (tree.paragraphs(self.records(path)) for _, path in paths)

    def preview(self) -> str:
        """Return the beginning of the text, which Hangul keeps apart for programs that show only that."""
        data: bytes = self.ole.openstream("PrvText").read() if "PrvText" in self.paths else b""
        return data.decode("utf-16-le", "replace").strip("\0\r\n ")

    def records(self, path: str) -> Iterator[_Record]:
        data, at = self.stream(path), 0
        while at < len(data) and self.records_left > 0:
            self.records_left -= 1
            word, start = _number(data, at, 4), at + 4
            size = word >> 20
            if size == 0xFFF:
                size, start = _number(data, start, 4), start + 4
            at = start + size
            yield word & 0x3FF, word >> 10 & 0x3FF, data[start:at]
        if at != len(data):
            self.notes.append(f"{path} is read in part: a record is cut off, or there are too many")

    def stream(self, path: str) -> bytes:
        unzip, found = zlib.decompressobj(-15), bytearray()
        try:
            data: bytes = self.ole.openstream(path).read()
            for at in range(0, len(data), 4096):
                found += unzip.decompress(data[at : at + 4096]) if self.packed else data[at : at + 4096]  # up to 4 MB
                if len(found) > self.bytes_left:
                    raise OSError(f"the file unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
            if self.packed and not unzip.eof:
                raise OSError("it breaks off")
        except Exception as error:  # noqa: BLE001 - zlib.error, and whatever olefile raises
            self.notes.append(f"{path} is damaged, and read in part ({error})")
        self.bytes_left -= len(found)
        return bytes(found)


def _summary(data: bytes) -> Iterator[tuple[str, str]]:
    """Read the OLE property set of title, author and dates (olefile's own reader loops for hours in a damaged one)."""
    begin = _number(data, 44, 4)
    for at in range(begin + 8, begin + 8 + 8 * min(_number(data, begin + 4, 4), 100), 8):
        key, place = _SUMMARY.get(_number(data, at, 4), ""), begin + _number(data, at + 4, 4)
        kind, size = _number(data, place, 4), min(_number(data, place + 4, 4), 10_000)
        if kind == 31:
            yield key, data[place + 8 : place + 8 + 2 * size].decode("utf-16-le", "replace").partition("\0")[0]
        elif kind == 64 and 0 < (ticks := _number(data, place + 4, 8)) < 1 << 58:  # of 100 ns, since 1601
            yield key, (datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)).isoformat()


@dataclass(slots=True)
class _Node:
    """An element that is open at one level of records."""

    element: _Element
    inner: _Element | None = None  # where its paragraphs go
    marks: deque[tuple[str, _Element]] = field(default_factory=deque)  # controls in its text, whose records follow


class _Tree:
    def __init__(self, notes: list[str]) -> None:
        self.notes, self.parts = notes, 0
        self.path = [_Node(Element("sec"))]
        self.text: tuple[_Node, str] | None = None  # waits for the ranges of it that are deleted
        self.authors: deque[str] = deque()  # of memos, whose text follows the body

    def paragraphs(self, records: Iterable[_Record]) -> Iterator[_Element]:
        for tag, level, data in records:
            depth = min(level + 1, len(self.path), MAX_LEVELS)
            if tag == _PARAGRAPH and depth == 1:
                yield from self.done()
            self.parts += tag not in _OF_TEXT
            if self.parts < MAX_PARTS:
                self.take(tag, self.path[depth - 1], depth, data[:MAX_TEXT_BYTES])
            if len(data) > MAX_TEXT_BYTES:
                self.notes.append(f"a paragraph of {len(data):,} bytes is cut short")
        yield from self.done()

    def done(self) -> list[_Element]:
        """Return the paragraph of the body that ends here, and forget it."""
        self.write()
        if self.parts >= MAX_PARTS:
            self.notes.append(f"a paragraph or table of more than {MAX_PARTS:,} parts is cut short")
        root = self.path[0].element
        self.path[1:], self.parts, ready = [], 0, list(root)
        root.clear()
        return ready

    def take(self, tag: int, node: _Node, depth: int, data: bytes) -> None:
        if tag == _RANGES and self.text:
            self.text = (self.text[0], _with_deletions(self.text[1], data))
        if tag in _OF_TEXT - {_TEXT}:
            return
        self.write()
        if tag == _TEXT:
            units = array(
                "I", array("H", data[: len(data) // 2 * 2])
            )  # a character for each unit, as places are counted
            self.text = (node, units.tobytes().decode("utf-32", "surrogatepass"))
        elif tag == _PARAGRAPH:
            shape = {"paraPrIDRef": str(_number(data, 8)), "styleIDRef": str(_number(data, 10, 1))}
            self.path[depth:] = [_Node(SubElement(node.element if node.inner is None else node.inner, "p", shape))]
        elif tag == _CONTROL:
            self.path[depth:] = [_Node(self.control(node, data))]
        elif tag == _COMPONENT:
            self.path[depth:] = [_Node(SubElement(node.element, "component"))]
        elif tag == _LIST:
            self.path[depth:], node.inner = [], _list(node, data)
        elif tag == _TABLE:
            node.inner = node.element  # what follows are cells; a caption stood before
        elif tag == _MEMO:
            author = self.authors.popleft() if self.authors else ""
            node.inner = SubElement(node.element, "hiddenComment", author=author)
        elif tag in _WORDS:
            name, at = _WORDS[tag]
            SubElement(node.element, name).text = _string(data, at)[0]
        elif tag == _OLE:
            SubElement(node.element, "ole")

    def write(self) -> None:
        """Put a paragraph's text into its element, with a place for each of its controls."""
        if self.text is None:
            return
        (node, units), self.text, pieces, at = self.text, None, list[str](), 0
        for found in _TOKEN.finditer(units + "\r"):
            token = found[0]
            pieces += units[at : found.start()], _SHOWN.get(token[0], "")
            at = found.end()
            if token[0] not in _HAS_RECORD and token not in (_BEGIN, _END) and at <= len(units):
                continue
            if text := "".join(pieces):
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
                SubElement(node.element, "t").text = _NOT_XML.sub("", text)
            pieces = []
            if token in (_BEGIN, _END):
                SubElement(node.element, "deleteBegin" if token == _BEGIN else "deleteEnd")
            elif token[0] in _HAS_RECORD and self.parts < MAX_PARTS:
                self.parts += 1
                name = "".join(chr(ord(unit) >> 8) + chr(ord(unit) & 255) for unit in token[2:0:-1])
                node.marks.append((name, SubElement(node.element, _CONTROLS.get(name, "ctrl"))))

    def control(self, node: _Node, data: bytes) -> _Element:
        """Find the element that a control's record belongs to; give it what the record says."""
        name = data[3::-1].decode("latin-1")  # its four letters stand backwards
        while node.marks and node.marks[0][0] != name and not node.marks[0][0][:1] == name[:1] == "%":  # kinds of field
            node.marks.popleft()  # a control without a record
        element = node.marks.popleft()[1] if node.marks else SubElement(node.element, _CONTROLS.get(name, "ctrl"))
        if name == "atno":
            element.set("num", str(_number(data, 8)))
            element.set("numType", _KINDS.get(_number(data, 4, 4) & 15, ""))
        elif name == "secd":
            element.set("outlineShapeIDRef", str(_number(data, 18)))
        elif name == "tcps":
            element.set("composeText", _string(data, 4)[0])
        elif name == "tdut":
            SubElement(element, "mainText").text, end = _string(data, 4)
            SubElement(element, "subText").text = _string(data, end)[0]
        elif name == "gso ":
            SubElement(element, "shapeComment").text = _string(data, 44)[0]
        elif name[:1] == "%" and (command := _string(data, 9)[0]).startswith("MEMO/"):
            self.authors.append("".join(command.split("/")[5:6]))
        return element


def _list(node: _Node, data: bytes) -> _Element:
    """Begin a list of paragraphs: a cell, a caption, a text box, a memo, what a note or a header holds."""
    parent, inner = node.element, node.inner
    if inner is not None and inner.tag == "hiddenComment" and next(iter(inner), None) is None:
        return inner
    if parent.tag != "tbl" or inner is None or inner.tag == "caption":
        return SubElement(parent, _LISTS.get(parent.tag, "subList"))
    column, row = str(_number(data, 8)), str(_number(data, 10))
    last = next(parent.iterchildren(reversed=True), None)
    if last is None or last.get("row") != row:
        last = SubElement(parent, "tr", row=row)
    return SubElement(last, "tc", colAddr=column)


def _with_deletions(units: str, ranges: bytes) -> str:
    """Mark what a tracked change deletes; a range is (begin, end, kind), twelve bytes."""
    pieces, at = list[str](), 0
    for begin, end, kind in sorted(struct.iter_unpack("<III", ranges[: len(ranges) // 12 * 12])):
        if kind >> 24 == _DELETED and at < end:
            pieces += units[at:begin], _BEGIN, units[max(begin, at) : end], _END
            at = end
    return "".join(pieces) + units[at:]
