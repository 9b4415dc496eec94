"""Read books, rich text and subtitles into blocks: .epub, .rtf, .srt and .vtt.

A book's chapters are pages of HTML, in the order of its spine. Rich text is a stream of control words in nested groups;
a group that leads elsewhere (fonts, pictures, properties) is passed over. Neither sizes nor depths that the file tells
are trusted. Pictures and formulas in rich text are not read.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote

from .parsers import Block, Document, NeedsAction, ParseError, _html, _tables, _text

MAX_BOOK_ENTRIES = 20_000
MAX_CHAPTER_BYTES = 16_000_000  # unpacked
MAX_BOOK_BYTES = 200_000_000  # all chapters, unpacked
MAX_GROUPS = 10_000  # of rich text, in each other
CUE_SECONDS = 30  # of subtitles in one block


# --- books ---

_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}  # hide fonts, lock no text


def epub(data: bytes, document: Document) -> Iterator[Block]:
    book = _Book(data, document)
    if any(method.get("Algorithm") not in _FONTS for method in book.xml("META-INF/encryption.xml", "EncryptionMethod")):
        raise NeedsAction("protected by the shop's DRM: it can be read only in the shop's own program.")
    roots = [root.get("full-path", "") for root in book.xml("META-INF/container.xml", "rootfile")]
    package = roots[0] if roots else ""
    items = {item.get("id"): item for item in book.xml(package, "item")}
    chapters = [item for link in book.xml(package, "itemref") if (item := items.get(link.get("idref"))) is not None]
    if not chapters:
        raise ParseError("names no chapters (META-INF/container.xml, its package and spine). Save the book anew.")
    for name, key in (("title", "title"), ("creator", "author"), ("language", "language"), ("date", "created")):
        values = [" ".join(found.text.split()) for found in book.xml(package, name) if found.text]
        document.metadata |= {key: ", ".join(values) if key == "author" else values[0]} if values else {}
    document.title = document.metadata.pop("title", "")
    titles = book.titles(package, list(items.values()))
    for number, item in enumerate(chapters, 1):
        path = book.path(package, item.get("href", ""))
        if "nav" not in item.get("properties", "").split():
            yield from book.chapter(path, titles.get(path, ""), f"section {number}")


class _Book:
    """The entries of an EPUB. What is unpacked is measured as it comes, whatever the directory says."""

    def __init__(self, data: bytes, document: Document) -> None:
        if data.count(b"PK\x01\x02") > MAX_BOOK_ENTRIES:
            raise ParseError(f"the zip holds more than {MAX_BOOK_ENTRIES:,} entries, so it is no honest .epub.")
        self.archive, self.document, self.left = zipfile.ZipFile(io.BytesIO(data)), document, MAX_BOOK_BYTES
        self.names = {info.filename.casefold(): info for info in self.archive.infolist()}

    def read(self, path: str) -> bytes:
        """Unpack an entry; b"" if it is missing, which is noted where it matters."""
        if (info := self.names.get(path.casefold())) is None:
            return b""
        if info.flag_bits & 1:
            raise NeedsAction("protected by a password: save it without one.")
        try:
            content = self.archive.open(info).read(min(MAX_CHAPTER_BYTES, self.left) + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            self.document.partial.append(f"{path} is damaged ({error})")
            return b""
        self.left -= len(content)
        if len(content) > MAX_CHAPTER_BYTES or self.left < 0:
            raise ParseError(f"{path} unpacks to more than a book may hold, so it is taken for a zip bomb.")
        return content

    def xml(self, path: str, name: str) -> list[Any]:
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, remove_comments=True)
        root = etree.fromstring(content, parser) if (content := self.read(path)) else None
        return [] if root is None else list(root.iter(f"{{*}}{name}"))

    def path(self, base: str, link: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(link.partition("#")[0])))

    def titles(self, package: str, items: list[Any]) -> dict[str, str]:
        """Return each chapter's first title in the table of contents, of either edition of the format."""
        found: dict[str, str] = {}
        for item in items:
            path = self.path(package, item.get("href", ""))
            is_new = "nav" in item.get("properties", "").split()
            is_old = item.get("media-type") == "application/x-dtbncx+xml"
            for link in self.xml(path, "a" if is_new else "navPoint") if is_new or is_old else ():
                to = link.get("href") if is_new else next((place.get("src") for place in link.iter("{*}content")), "")
                label = link if is_new else next(link.iter("{*}text"), link)
                found.setdefault(self.path(path, to or ""), " ".join("".join(label.itertext()).split()))
        return found

    def chapter(self, path: str, title: str, place: str) -> Iterator[Block]:
        page = Document()
        content = self.read(path)
        if not content:
            self.document.partial.append(f"{place} is missing or empty: {path}")
        elif not path.casefold().endswith((".svg", ".jpg", ".png")):
            blocks = (block for block in _html(content, page, framed=False) if block.text.strip())
            first = next(blocks, None)
            if first is not None and first.text == title:
                first = replace(first, kind="heading", level=first.level or 1, header=0)
            elif title and first is not None:
                yield Block("heading", title, place, 1)
            for block in chain([first] if first else [], blocks):
                yield replace(block, place=place)
            self.document.partial += [f"{note}, {place}" for note in page.partial]


# --- rich text ---

_RTF = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?|((?:\\'[0-9a-fA-F]{2})+)|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_ELSEWHERE = frozenset(
    b"""fonttbl colortbl stylesheet pict objdata fldinst listtable listoverridetable revtbl sn sv filetbl nonesttables
    themedata datastore latentstyles generator xe tc pgptbl rsidtbl bkmkstart bkmkend atnid atnauthor""".split()
)
_KNOWN_STARRED = frozenset((b"shpinst", b"footnote", b"nesttableprops", b"annotation"))
_SIGNS = {b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"bullet": "•", b"lquote": "‘", b"rquote": "’"}
_SIGNS |= {b"ldblquote": "“", b"rdblquote": "”", b"~": " ", b"_": "-", b"{": "{", b"}": "}", b"\\": "\\"}
_CHARSETS = {77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5", 161: "cp1253"}
_CHARSETS |= {162: "cp1254", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250"}
_HEADING_STYLE = re.compile(rb"\{\\s(\d{1,5})\b[^{};]*[Hh]eading ([1-9]);\}")
_FONT = re.compile(rb"\\f(\d+)(?:(?!\\f\d)[^;}]){0,200}?\\fcharset(\d+)")


@dataclass(slots=True)
class _Group:
    codec: str
    elsewhere: bool = False  # it leads to what is no text
    hidden: bool = False
    skip: int = 1  # bytes after \\u, for programs without Unicode
    note: str = ""  # "footnotes", "header", "title", …: where the text goes, if not into the body


def rtf(data: bytes, document: Document) -> Iterator[Block]:
    if not data.lstrip()[:5] == b"{\\rtf":
        raise ParseError("does not begin as rich text does. Open it, and save it anew.")
    page = re.search(rb"\\ansicpg(\d{3,5})", data[:1000])
    rich = _Rich(f"cp{int(page[1])}" if page else "cp1252", data)
    while match := _RTF.match(data, rich.at):
        rich.at = match.end()
        rich.token(match)
        if rich.blocks:
            yield from rich.blocks
            rich.blocks.clear()
    rich.paragraph()
    yield from rich.blocks
    for note in ("footnotes", "comments", "header", "footer"):
        yield from (Block("text", line.strip(), note) for line in "".join(rich.notes.get(note, [])).split("\n"))
    document.title = "".join(rich.notes.get("title", []))
    document.metadata |= {"author": "".join(rich.notes["author"])} if rich.notes.get("author") else {}


class _Rich:
    """What the tokens read so far make: open groups, the paragraph, the table."""

    def __init__(self, codec: str, data: bytes) -> None:
        self.at = 0
        self.codec = codec if _is_codec(codec) else "cp1252"
        fonts = ((number, _CHARSETS.get(int(charset), self.codec)) for number, charset in _FONT.findall(data[:200_000]))
        self.fonts = {int(number): codec for number, codec in fonts}
        self.styles = {int(style): int(level) for style, level in _HEADING_STYLE.findall(data[:1_000_000])}
        self.group, self.outer = _Group(self.codec), list[_Group]()
        self.raw, self.to_skip, self.starred, self.in_table, self.level = bytearray(), 0, False, False, 0
        self.line, self.cells, self.rows = list[str](), list[str](), list[list[str]]()
        self.notes: dict[str, list[str]] = {}
        self.blocks: list[Block] = []

    def token(self, match: re.Match[bytes]) -> None:
        word, number, codes, sign, brace, text = match.groups()
        if codes or text:
            plain = text or bytes.fromhex(codes.replace(b"\\'", b"").decode())
            self.raw += plain[self.to_skip :] if not self.group.elsewhere else b""
            self.to_skip = max(self.to_skip - len(plain), 0)
            return
        self.flush()
        if brace == b"{":
            if len(self.outer) >= MAX_GROUPS:
                raise ParseError(f"groups are nested more than {MAX_GROUPS:,} deep.")
            self.outer.append(self.group)
            self.group = replace(self.group)
        elif brace and self.outer:
            self.group = self.outer.pop()
        elif sign == b"*":
            self.starred = True
            return
        elif sign in (b"\n", b"\r"):
            self.control(b"par", None)
        elif sign or word in _SIGNS:
            self.add(_SIGNS.get(sign or word, ""))
        elif word:
            self.control(word, int(number) if number else None)
        self.starred, self.to_skip = False, self.to_skip if word == b"u" else 0

    def control(self, word: bytes, number: int | None) -> None:
        group = self.group
        if word in _ELSEWHERE or (self.starred and word not in _KNOWN_STARRED):
            group.elsewhere = True
        elif group.note == "info" or word == b"info":  # title, author and so on, each a group
            group.note = "info" if word == b"info" else word.decode()
        elif word == b"u":
            self.add(chr((number or 0) & 0xFFFF))
            self.to_skip = group.skip
        elif word == b"uc":
            group.skip = number or 0
        elif word == b"bin":
            self.at += max(number or 0, 0)
        elif word in (b"v", b"deleted"):
            group.hidden = number != 0
        elif word == b"plain":
            group.hidden, group.codec = False, self.codec
        elif word == b"f":
            group.codec = self.fonts.get(number or 0, self.codec)
        elif word == b"footnote":
            self.add(f"[^{len(self.notes.setdefault('marks', [])) + 1}]")
            self.notes["marks"].append("")
            group.note = "footnotes"
            self.add(f"\n[^{len(self.notes['marks'])}]: ")
        elif word == b"annotation":
            group.note = "comments"
            self.add("\n")
        elif found := re.match(rb"(header|footer)[lrf]?$", word):
            group.note = found[1].decode()
        elif word in (b"par", b"sect", b"page", b"cell", b"row", b"nestcell", b"nestrow", b"pard", b"intbl"):
            self.structure(word)
        elif word == b"s":
            self.level = self.styles.get(number or 0, 0)
        elif word == b"outlinelevel" and number is not None and number < 9:
            self.level = number + 1

    def structure(self, word: bytes) -> None:
        if word == b"pard":
            self.in_table, self.level = False, 0
        elif word == b"intbl":
            self.in_table = True
        elif word.startswith(b"nest") or self.group.note or (self.in_table and word in (b"par", b"sect", b"page")):
            self.add("\n")
        elif word == b"cell":
            self.cells.append("".join(self.line))
            self.line.clear()
        elif word == b"row":
            self.rows.append(self.cells)
            self.cells = []
        else:
            self.paragraph()

    def paragraph(self) -> None:
        self.flush()
        self.rows += [self.cells] if self.cells else []
        self.blocks += _tables((0, row) for row in self.rows)
        text = re.sub(r"^[^\w\s\[(]\t", "- ", "".join(self.line).strip(" "))
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # \u gives the halves of a pair
        self.blocks.append(Block("heading" if self.level and text.strip() else "text", text, level=self.level))
        self.line, self.cells, self.rows = [], [], []

    def flush(self) -> None:
        if self.raw:
            raw = bytes(self.raw)
            self.raw.clear()
            self.add(raw.decode(self.group.codec, "replace"))

    def add(self, text: str) -> None:
        if not self.group.elsewhere and not self.group.hidden:
            (self.notes.setdefault(self.group.note, []) if self.group.note else self.line).append(text)


def _is_codec(name: str) -> bool:
    try:
        return bool(b"x".decode(name))
    except LookupError:
        return False


# --- subtitles ---

_CUE = re.compile(r"(?:(\d{1,4}):)?(\d\d):(\d\d)[.,]\d{1,3}[ \t]+-->[^\n]*\n")


def subtitles(data: bytes, document: Document) -> Iterator[Block]:
    """Read .srt and .vtt. Cues of half a minute are one block, whose place is when it begins: 00:14:05."""
    pieces = _CUE.split(_text(data, document))  # what is before, then hours, minutes, seconds and text of each cue
    lines, began, place = list[str](), -CUE_SECONDS, ""
    for hours, minutes, seconds, cue in zip(*(islice(pieces, at, None, 4) for at in (1, 2, 3, 4)), strict=True):
        start = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
        if not began <= start < began + CUE_SECONDS:
            yield Block("text", "\n".join(lines), place)
            lines, began, place = [], start, f"{int(hours or 0):02}:{minutes}:{seconds}"
        said = re.sub(r"\n\n[^\n]*\s*$", "", f"{cue}\n")  # the next cue's number or name
        said = re.sub(r"<v(?:\.\S*)? ([^>\n]*)>", r"\1: ", said)
        lines.append(re.sub(r"<[^<>\n]*>|\{\\[^{}\n]*\}", "", said).strip())
    yield Block("text", "\n".join(lines) if len(pieces) > 1 else pieces[0], place)
