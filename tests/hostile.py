"""Makes documents that are hostile or broken (`CASES`), and ordinary ones of each format (`ORDINARY`).

    CASES["zip-crc.docx"] -> Case(make, statuses={"failed"}, reason="damaged"); make() -> bytes, the same each time

The name is the file's. Statuses: ok | empty (no text) | partial | failed | needs_action. Nothing here is a test.
"""

# One case is one line, however long; so this file is laid out by hand.
# fmt: off
# ruff: noqa: E501

from __future__ import annotations

import io
import os
import random
import re
import struct
import sys
import wave
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, repeat
from typing import Any

Parts = dict[str, Any]  # name -> str, bytes, an iterable of bytes, or None: left out


@dataclass(frozen=True, slots=True)
class Case:
    make: Callable[[], bytes]
    statuses: frozenset[str]
    reason: str = ""  # a pattern that the reason holds, if there is one


CASES: dict[str, Case] = {}


def case(name: str, statuses: str, make: Callable[[], bytes] | bytes, reason: str = "") -> None:
    assert name not in CASES, name
    CASES[name] = Case(make if callable(make) else lambda: make, frozenset(statuses.split()), reason)


# --- zips ---

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {A} {R}'
H = 'xmlns:hp="http://www.hancom.co.kr/hwpml/2011/paragraph" xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section"'
H += ' xmlns:hh="http://www.hancom.co.kr/hwpml/2011/head"'
ODT = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
ODT += ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
ODT += ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
WORDS = "Honest text 정직한 글"
TYPE = "application/vnd.openxmlformats-officedocument."

def links(*targets: str) -> str:
    """Make a .rels part; a target is `kind=name`, and gets the id rId1, rId2, …"""
    base = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    items = [target.partition("=")[::2] for target in targets]
    inner = "".join(f'<Relationship Id="rId{n}" Type="{base}/{kind}" Target="{name}"/>' for n, (kind, name) in enumerate(items, 1))
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'

def types(**parts: str) -> str:
    """Make [Content_Types].xml: the part's name (`__` for `/`, without .xml) -> its type."""
    inner = "".join(f'<Override PartName="/{name.replace("__", "/")}.xml" ContentType="{TYPE}{kind}+xml"/>' for name, kind in parts.items())
    rels = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{rels}{inner}</Types>'

@dataclass(frozen=True, slots=True)
class Kind:
    """A zipped format: its parts, the main one's name, what surrounds and what makes up a good body."""

    main: str
    before: str
    body: str
    after: str
    parts: Parts

def sheet_parts(number: int = 1) -> Parts:
    names = [f"sheet{n}" for n in range(1, number + 1)]
    entries = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1))
    sheets = {f"xl__worksheets__{name}": "spreadsheetml.worksheet" for name in names}
    return {
        "[Content_Types].xml": types(xl__workbook="spreadsheetml.sheet.main", **sheets),
        "_rels/.rels": links("officeDocument=xl/workbook.xml"),
        "xl/workbook.xml": f"<workbook {S} {R}><sheets>{entries}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": links(*(f"worksheet=worksheets/{name}.xml" for name in names)),
    }

KINDS = {
    "docx": Kind(
        "word/document.xml", f"<w:document {W} {M} {R}><w:body>", f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>", "</w:body></w:document>",
        {"[Content_Types].xml": types(word__document="wordprocessingml.document.main"), "_rels/.rels": links("officeDocument=word/document.xml")},
    ),
    "xlsx": Kind(
        "xl/worksheets/sheet1.xml", f"<worksheet {S} {R}><sheetData>",
        f'<row r="1"><c r="A1" t="inlineStr"><is><t>{WORDS}</t></is></c></row>', "</sheetData></worksheet>", sheet_parts(),
    ),
    "pptx": Kind(
        "ppt/slides/slide1.xml", f"<p:sld {P}><p:cSld><p:spTree>",
        f"<p:sp><p:txBody><a:p><a:r><a:t>{WORDS}</a:t></a:r></a:p></p:txBody></p:sp>", "</p:spTree></p:cSld></p:sld>",
        {
            "_rels/.rels": links("officeDocument=ppt/presentation.xml"), "ppt/_rels/presentation.xml.rels": links("slide=slides/slide1.xml"),
            "ppt/presentation.xml": f'<p:presentation {P}><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>',
        },
    ),
    "hwpx": Kind(
        "Contents/section0.xml", f"<hs:sec {H}>", f"<hp:p><hp:run><hp:t>{WORDS}</hp:t></hp:run></hp:p>", "</hs:sec>",
        {"mimetype": "application/hwp+zip", "Contents/header.xml": f"<hh:head {H}/>", "Contents/content.hpf": "<package/>"},
    ),
    "odt": Kind(
        "content.xml", f"<office:document-content {ODT}><office:body><office:text>", f"<text:p>{WORDS}</text:p>",
        "</office:text></office:body></office:document-content>", {"mimetype": "application/vnd.oasis.opendocument.text"},
    ),
    "epub": Kind(
        "OEBPS/c1.xhtml", '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>', f"<p>{WORDS}</p>", "</body></html>",
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
            'full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "OEBPS/content.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest><item id="c1" href="c1.xhtml" '
            'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="c1"/></spine></package>',
        },
    ),
}

def zipped(parts: Parts, comment: bytes = b"") -> bytes:
    """Zip parts with a fixed date, so that the bytes are the same each time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for name, content in parts.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            if isinstance(content, (str, bytes)):
                archive.writestr(info, content)
            elif content is not None:
                with archive.open(info, "w") as out:
                    for piece in content:
                        out.write(piece)
    return file.getvalue()

def parts_of(kind: str, body: str | None = None, *, main: Any = None, **others: Any) -> Parts:
    """Give the parts of a document; `main` replaces its main part wholly, `others` (`__` for `/`) are added."""
    k = KINDS[kind]
    others = {name.replace("__", "/") + ".xml": content for name, content in others.items()}
    return k.parts | {k.main: main or f"{k.before}{k.body if body is None else body}{k.after}"} | others

def office(kind: str, body: str | None = None, extra: Parts | None = None, **others: Any) -> bytes:
    return zipped(parts_of(kind, body, **others) | (extra or {}))

_PLACES = {"flags": (8, 6, "<H"), "method": (10, 8, "<H"), "crc": (16, 14, "<L"), "packed": (20, 18, "<L")}
_PLACES |= {"size": (24, 22, "<L"), "offset": (42, 42, "<L")}

def lied(data: bytes, field: str, value: int, *, directory: bool = True, local: bool = True) -> bytes:
    """Set one field of every entry, in the directory or in the headers before the entries or both."""
    changed = bytearray(data)
    in_directory, in_local, form = _PLACES[field]
    for mark, place, wanted in ((b"PK\x01\x02", in_directory, directory), (b"PK\x03\x04", in_local, local)):
        for found in re.finditer(re.escape(mark), data) if wanted else ():
            struct.pack_into(form, changed, found.start() + place, value)
    return bytes(changed)

@cache
def many_entries(number: int) -> bytes:
    """Make a zip of so many empty entries by hand."""
    local = b"".join(b"PK\x03\x04" + bytes(22) + struct.pack("<HH", 7, 0) + b"%07d" % n for n in range(number))
    head = b"PK\x01\x02" + bytes(24) + struct.pack("<H", 7) + bytes(12)
    directory = b"".join(head + struct.pack("<L", 37 * n) + b"%07d" % n for n in range(number))
    end = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, number, number, len(directory), len(local))
    end += struct.pack("<4sLQL", b"PK\x06\x07", 0, len(local) + len(directory), 1)
    return local + directory + end + struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)

def spaces(megabytes: int) -> Iterable[bytes]:
    return repeat(b" " * 1_000_000, megabytes)

def swollen(kind: str, megabytes: int) -> bytes:
    """Make a document with a main part of so many spaces within its marks."""
    k = KINDS[kind]
    return office(kind, main=[k.before.encode(), *spaces(megabytes), k.after.encode()])

def nested_zips(depth: int) -> bytes:
    data = zipped({"zeros": spaces(10)})
    for _ in range(depth):
        data = zipped({f"{n}.zip": data for n in range(10)})
    return data

def zip64(data: bytes, size: int) -> bytes:
    """Give the last entry of the directory a zip64 field with this size."""
    at, end = data.rfind(b"PK\x01\x02"), data.rfind(b"PK\x05\x06")
    head = bytearray(data[at:end])
    struct.pack_into("<L", head, 24, 2**32 - 1)
    struct.pack_into("<H", head, 30, 12)
    extra = struct.pack("<HHQ", 1, 8, size)
    tail = bytearray(data[end:])
    struct.pack_into("<L", tail, 12, struct.unpack_from("<L", tail, 12)[0] + 12)
    return data[:at] + bytes(head) + extra + bytes(tail)

ZIPS: dict[str, tuple[str, Callable[[str], bytes], str]] = {
    "empty": ("failed", lambda k: zipped({}), ""),
    "zero-bytes": ("failed empty", lambda k: b"", ""),
    "noise": ("failed", lambda k: random.Random(1).randbytes(5000), ""),
    "noise-after-mark": ("failed", lambda k: b"PK\x03\x04" + random.Random(2).randbytes(5000), ""),
    "halved": ("failed", lambda k: office(k)[: len(office(k)) // 2], ""),
    "end-cut": ("failed", lambda k: office(k)[:-10], ""),
    "entries": ("failed", lambda k: many_entries(100_000), "entries"),
    "overlap": ("failed", lambda k: lied(office(k), "offset", 0, local=False), "overlap"),
    "beyond-end": ("failed", lambda k: lied(office(k), "offset", 2**31, local=False), ""),
    "ratio": ("failed", lambda k: swollen(k, 60), "bomb|bytes"),
    "500-mb": ("failed", lambda k: swollen(k, 500) if k == "docx" else lied(office(k), "size", 2**31), "bomb|bytes"),
    "size-less": ("failed", lambda k: lied(swollen(k, 30), "size", 100), "bomb|damaged|unpack|bytes"),
    "size-more": ("failed partial", lambda k: lied(office(k), "size", 9999), ""),
    "size-local": ("ok failed", lambda k: lied(office(k), "size", 2**31, directory=False), ""),
    "packed-less": ("failed partial", lambda k: lied(office(k), "packed", 3), ""),
    "packed-more": ("failed", lambda k: lied(office(k), "packed", 2**30), ""),
    "zip64": ("failed", lambda k: zip64(office(k), 2**40), ""),
    "encrypted": ("needs_action", lambda k: lied(office(k), "flags", 1), "password"),
    "crc": ("failed partial", lambda k: lied(office(k), "crc", 7), ""),
    "method": ("failed partial needs_action", lambda k: lied(office(k), "method", 99), ""),
    "names": ("ok", lambda k: office(k, extra={"/etc/x.xml": "<a/>", "../../y.xml": "<a/>", "C:\\z.xml": "<a/>"}), ""),
    "nested": ("ok", lambda k: office(k, extra={"bomb.zip": nested_zips(2)}), ""),
    "comment": ("ok failed", lambda k: zipped(parts_of(k), b"PK\x05\x06" + b"\xff" * 65000), ""),
    "prefixed": ("ok failed", lambda k: b"MZ" + bytes(999) + office(k), ""),
    "twice": ("ok failed", lambda k: twice(k), ""),
    "ole2": ("needs_action", lambda k: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000), "password"),
}

def twice(kind: str) -> bytes:
    """Make a zip in which the main part stands twice."""
    parts = parts_of(kind)
    return zipped(parts | {"z" * len(KINDS[kind].main): parts[KINDS[kind].main]}).replace(
        b"z" * len(KINDS[kind].main), KINDS[kind].main.encode()
    )

# --- xml within them ---

def with_doctype(kind: str, subset: str, inner: str, encoding: str = "utf-8") -> bytes:
    """Put a DOCTYPE before the main part, and `inner` in place of its words."""
    k = KINDS[kind]
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-le")}"?>' if encoding != "utf-8" else ""
    text = f"{declared}<!DOCTYPE x {subset}>{k.before}{k.body.replace(WORDS, inner)}{k.after}"
    bom = b"\xff\xfe" if encoding == "utf-16-le" else b""
    return office(kind, main=bom + text.replace("cp037", "ebcdic-cp-us").encode(encoding, "replace"))

LAUGHS = '[<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10)) + "]"
PASSWD = '[<!ENTITY e SYSTEM "file:///etc/passwd">]'
PARAMETER = '[<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;]'
LONG = '[<!ENTITY e "' + "x" * 100_000 + '">]'

@cache
def attributes(number: int) -> str:
    return "<x " + " ".join(f'a{n}="1"' for n in range(number)) + "/>"

def body_of(kind: str, inner: str) -> str:
    return KINDS[kind].body.replace(WORDS, inner)

XMLS: dict[str, tuple[str, Callable[[str], bytes], str]] = {
    "laughs": ("failed", lambda k: with_doctype(k, LAUGHS, "&l9;"), "DOCTYPE"),
    "quadratic": ("failed", lambda k: with_doctype(k, LONG, "&e;" * 10_000), "DOCTYPE"),
    "external": ("failed", lambda k: with_doctype(k, PASSWD, "&e;"), "DOCTYPE"),
    "parameter": ("failed", lambda k: with_doctype(k, PARAMETER, "x"), "DOCTYPE"),
    "doctype-utf16": ("failed", lambda k: with_doctype(k, LAUGHS, "&l9;", "utf-16-le"), "DOCTYPE"),
    "doctype-ebcdic": ("failed empty partial", lambda k: with_doctype(k, LAUGHS, "&l9;", "cp037"), ""),
    "deep": ("failed partial", lambda k: office(k, "<x>" * 200_000 + "</x>" * 200_000), ""),
    "unclosed": ("failed partial", lambda k: office(k, "<x>" * 200_000), ""),
    "attributes": ("failed partial empty ok", lambda k: office(k, attributes(100_000)), ""),
    "attribute-10-mb": ("failed partial empty ok", lambda k: office(k, f'<x a="{"y" * 10_500_000}"/>'), ""),
    "text-45-mb": ("failed partial ok", lambda k: office(k, body_of(k, "word and word " * 3_200_000)), ""),
    "invalid-utf8": ("failed partial ok", lambda k: office(k, main=office_main(k).encode().replace(b" ", b"\xff\xfe")), ""),
    "controls": ("failed partial", lambda k: office(k, body_of(k, "a\x00b\x01c&#0;&#xD800;")), ""),
    "empty-part": ("failed partial empty", lambda k: office(k, main=b" "), ""),
    "no-part": ("failed partial empty", lambda k: office(k, extra={KINDS[k].main: None}), ""),
    "wrong-root": ("failed empty partial ok", lambda k: office(k, main="<a><b>c</b></a>"), ""),
    "prefix": ("failed partial ok", lambda k: office(k, "<zz:p>x</zz:p>"), ""),
    "html-as-xml": ("failed partial empty ok", lambda k: office(k, main="<html><p>a<br>b&nbsp;</html>"), ""),
    "entity-unknown": ("failed partial ok", lambda k: office(k, body_of(k, f"{WORDS} &unknown;")), ""),
    "wide": ("ok partial", lambda k: office(k, KINDS[k].body * 20_000), ""),
    "no-types": ("ok failed", lambda k: office(k, extra={"[Content_Types].xml": "<Types/>"}), ""),
    "pi": ("ok failed partial", lambda k: office(k, f'<?xml-stylesheet href="http://127.0.0.1:9/"?>{KINDS[k].body}'), ""),
    "cut-in-xml": ("failed partial", lambda k: office(k, main=office_main(k)[: -len(KINDS[k].after) - 9]), ""),
    "cdata": ("ok empty", lambda k: office(k, body_of(k, f"<![CDATA[{WORDS} ]]>" * 20_000)), ""),
    "comments": ("ok", lambda k: office(k, "<!-- x -->" * 100_000 + KINDS[k].body), ""),
}

def office_main(kind: str) -> str:
    return f"{KINDS[kind].before}{KINDS[kind].body}{KINDS[kind].after}"

HEAVY = {"text-45-mb": "docx hwpx odt epub", "attribute-10-mb": "docx xlsx epub", "500-mb": "docx pptx epub"}
HEAVY |= {"entries": "docx hwpx epub", "ratio": "docx hwpx odt", "attributes": "docx xlsx pptx hwpx odt"}
for _kind in KINDS:
    for _name, (_statuses, _make, _reason) in (ZIPS | XMLS).items():
        if _kind == "epub" and _statuses != "ok":  # its chapters are HTML, which is read whatever is wrong with it
            _statuses, _reason = "failed partial empty ok needs_action", ""
        if _kind in HEAVY.get(_name, _kind):
            case(f"{_name}.{_kind}", _statuses, partial(_make, _kind), _reason)

# --- docx ---

def word(body: str, **others: str) -> bytes:
    """Make a .docx with parts such as `styles="<w:style …"`, each with its relationship."""
    inner = {f"word__{n}": f"<w:{n} {W} {M} {R}>{content}</w:{n}>" for n, content in others.items()}
    return office("docx", body, {"word/_rels/document.xml.rels": links(*(f"{n}={n}.xml" for n in others))}, **inner)

def wp(text: str = WORDS, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

def wnested(depth: int) -> str:
    opening = f"<w:tbl><w:tr><w:tc>{wp('a')}</w:tc><w:tc>"
    return opening * depth + wp() + "</w:tc></w:tr></w:tbl>" * depth

def fractions(depth: int) -> str:
    inner = "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den>" * depth + "<m:r><m:t>x</m:t></m:r>"
    return f"<w:p><m:oMath>{inner}{'</m:den></m:f>' * depth}</m:oMath></w:p>{wp()}"

def swollen_word(paragraph: str, megabytes: int) -> bytes:
    """Make a .docx of one paragraph over and over, up to so many MB."""
    k, block = KINDS["docx"], paragraph.encode() * (1_000_000 // len(paragraph))
    return zipped(parts_of("docx", main=[k.before.encode(), *repeat(block, megabytes), k.after.encode()]))

STYLES = '<w:style w:styleId="a"><w:basedOn w:val="b"/></w:style><w:style w:styleId="b"><w:basedOn w:val="a"/></w:style>'
NOTE = '<w:footnote w:id="1"><w:p><w:r><w:t>Note</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r></w:p></w:footnote>'
REFER = '<w:p><w:r><w:t>Text</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'
NUMBERS = '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num><w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="1"/></w:abstractNum>'
SPAN = '<w:tc><w:tcPr><w:gridSpan w:val="{0}"/><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc>' + wp("b") + "</w:tc>"
FALLBACK = "<mc:AlternateContent><mc:Choice>{0}</mc:Choice><mc:Fallback>{0}</mc:Fallback></mc:AlternateContent>"

def alternatives(depth: int) -> str:
    inner = "<w:r><w:t>x</w:t></w:r>"
    for _ in range(depth):
        inner = FALLBACK.format(inner)
    return f'<w:p xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">{inner}</w:p>'

case("200-mb-of-xml.docx", "failed partial", lambda: swollen_word(wp(), 200))
case("300000-empty-paragraphs.docx", "empty partial", lambda: word("<w:p/>" * 300_000))
case("200000-runs.docx", "ok partial", lambda: word(f"<w:p>{'<w:r><w:t>a </w:t></w:r>' * 200_000}</w:p>"))
case("tables-1000-deep.docx", "failed partial", lambda: word(wnested(1000)))
case("tables-60-deep.docx", "ok partial", lambda: word(wnested(60)))
case("42000-merged.docx", "ok", lambda: word(f"<w:tbl>{f'<w:tr>{SPAN.format(3) * 6}</w:tr>' * 7000}</w:tbl>"))
case("styles-loop.docx", "ok", lambda: word(wp(properties='<w:pStyle w:val="a"/>') * 2000, styles=STYLES))
case("numbering-loop.docx", "ok", lambda: word(wp(properties='<w:numPr><w:numId w:val="1"/></w:numPr>'), numbering=NUMBERS))
case("note-in-itself.docx", "ok partial", lambda: word(REFER, footnotes=NOTE))
case("document-as-header.docx", "ok", lambda: office("docx", wp() * 200, {"word/_rels/document.xml.rels": links(*["header=document.xml", "footer=document.xml", "comments=document.xml"] * 20)}))
case("target-null.docx", "ok", lambda: office("docx", extra={"word/_rels/document.xml.rels": links("image=NULL", "styles=NULL", "footnotes=../NULL")}))
case("target-outside.docx", "ok", lambda: office("docx", extra={"word/_rels/document.xml.rels": links("styles=../../../etc/passwd", "header=file:///etc/passwd")}))
case("alternatives-20-deep.docx", "ok partial", lambda: word(alternatives(14)))
case("fractions-100000-deep.docx", "failed partial", lambda: word(fractions(100_000)))
case("fractions-80-deep.docx", "ok partial", lambda: word(fractions(80)))
case("equation-of-200000-runs.docx", "ok partial", lambda: word("<w:p><m:oMath>" + "<m:r><m:t>x^2</m:t></m:r>" * 200_000 + "</m:oMath></w:p>"))
case("heading-1-mb.docx", "ok", lambda: word(wp("word " * 200_000, '<w:outlineLvl w:val="0"/>')))
case("attributes-million.docx", "failed partial empty ok", lambda: word(attributes(1_000_000)))

# --- xlsx ---

def sheet(rows: str, before: str = "", after: str = "", extra: Parts | None = None) -> bytes:
    return office("xlsx", main=f"<worksheet {S} {R}>{before}<sheetData>{rows}</sheetData>{after}</worksheet>", extra=extra)

def cells(*inner: str, row: int = 1) -> str:
    return f'<row r="{row}">{"".join(inner)}</row>'

def with_strings(items: str, rows: str, styles: str = "") -> bytes:
    extra: Parts = {"xl/sharedStrings.xml": f"<sst {S}>{items}</sst>", "xl/styles.xml": f"<styleSheet {S}>{styles}</styleSheet>"}
    extra["xl/_rels/workbook.xml.rels"] = links("worksheet=worksheets/sheet1.xml", "sharedStrings=sharedStrings.xml", "styles=styles.xml")
    extra["[Content_Types].xml"] = types(xl__workbook="spreadsheetml.sheet.main", xl__worksheets__sheet1="spreadsheetml.worksheet", xl__sharedStrings="spreadsheetml.sharedStrings", xl__styles="spreadsheetml.styles")
    return sheet(rows, extra=extra)

def styled(code: str, *values: str) -> bytes:
    """Make a workbook of numbers in one number format."""
    styles = f'<numFmts><numFmt numFmtId="200" formatCode="{code}"/></numFmts><cellXfs><xf/><xf numFmtId="200"/><xf numFmtId="14"/></cellXfs>'
    rows = "".join(cells(f'<c r="A{n}" s="1"><v>{v}</v></c><c r="B{n}" s="2"><v>{v}</v></c>', row=n) for n, v in enumerate(values, 1))
    return with_strings("", rows, styles)

ONE = '<c r="A1"><v>1</v></c>'
TEXT = KINDS["xlsx"].body
TWO = cells('<c r="A1" t="s"><v>0</v></c>', '<c r="B1" t="s"><v>{0}</v></c>')
BOOK = f'<workbook {S} {R}><sheets><sheet name="a" sheetId="1" r:id="rId1"/></sheets><definedNames>{{0}}</definedNames></workbook>'
ALPHABET = [chr(65 + n) for n in range(26)]
COLUMNS = ALPHABET + [a + b for a in ALPHABET for b in ALPHABET] + [a + b + c for a in "ABCDEFGHIJKLMNOPQRSTUVW" for b in ALPHABET for c in ALPHABET]
case("far-cell.xlsx", "ok", lambda: sheet(cells(ONE) + cells('<c r="XFD1048576"><v>2</v></c>', row=1_048_576)))
case("wrong-dimension.xlsx", "ok", lambda: sheet("".join(cells(f'<c r="A{n}"><v>{n}</v></c>', row=n) for n in range(1, 500)), '<dimension ref="A1"/>'))
case("16000-blank-columns.xlsx", "ok", lambda: sheet("".join(cells(*(f'<c r="{c}{n}" s="0"/>' for c in COLUMNS[1:16_000]), f'<c r="A{n}"><v>{n}</v></c>', row=n) for n in range(1, 6))))
case("16000-columns.xlsx", "partial", lambda: sheet("".join(cells(*(f'<c r="{c}{n}"><v>{n}</v></c>' for c in COLUMNS[:16_000]), row=n) for n in range(1, 6))), "columns")
case("300000-columns.xlsx", "ok partial failed", lambda: sheet(cells("<c><v>1</v></c>" * 300_000)))
case("42000-merged.xlsx", "ok", lambda: sheet(TEXT, after="<mergeCells>" + "".join(f'<mergeCell ref="A{n}:C{n}"/>' for n in range(2, 42_002)) + "</mergeCells>"))
case("string-out-of-range.xlsx", "ok partial", lambda: with_strings("<si><t>a</t></si>", TWO.format(99)))
case("300000-strings.xlsx", "ok partial failed", lambda: with_strings("<si><t>abcdef</t></si>" * 300_000, TWO.format(299_999)))
case("formula-32767.xlsx", "ok partial", lambda: sheet(cells(f'<c r="A1"><f>{"1+" * 16_383}1</f><v>1</v></c>')))
case("formulas-without-values.xlsx", "partial", lambda: sheet(cells("<c><v>1</v></c>", "<c><f>A1*2</f></c>" * 10_000)), "formulas")
case("formulas-unclosed.xlsx", "failed partial", lambda: sheet("<row>" + ("<c " + "r" * 200_000) * 3 + "<c><f></f>" + " " * 200_000))
case("dates-out-of-range.xlsx", "ok partial", lambda: styled("yyyy-mm-dd", "1", "1e15", "-1", "99999999", "0", "1e999", "NaN", "60"))
case("numbers-absurd.xlsx", "ok partial", lambda: sheet(cells(*(f"<c><v>{v}</v></c>" for v in ("1e999", "-1e999", "NaN", "1" * 100_000, "", "x", "0x1F", "１")))))
case("sheets-2000-missing.xlsx", "ok partial failed empty", lambda: office("xlsx", extra=sheet_parts(2000)))
case("300000-empty-rows.xlsx", "ok partial empty failed", lambda: sheet(TEXT + "<row/>" * 300_000))
case("300000-blank-cells.xlsx", "failed partial ok", lambda: sheet(cells(ONE, "<c />" * 300_000)))

# --- pptx ---

def slide(inner: str, extra: Parts | None = None) -> bytes:
    return office("pptx", inner, extra)

def deck(number: int, target: str = "slides/slide1.xml") -> bytes:
    """Make a presentation of so many slides that are one part."""
    entries = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in range(1, number + 1))
    main = f"<p:presentation {P}><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>"
    return office("pptx", extra={"ppt/presentation.xml": main, "ppt/_rels/presentation.xml.rels": links(*[f"slide={target}"] * number)})

def groups(depth: int) -> str:
    return "<p:grpSp>" * depth + KINDS["pptx"].body + "</p:grpSp>" * depth

LAYOUT = links("slideLayout=../slideLayouts/l.xml")
LOOP: Parts = {"ppt/slides/_rels/slide1.xml.rels": LAYOUT, "ppt/slideLayouts/l.xml": f"<p:sldLayout {P}/>"}
LOOP |= {"ppt/slideLayouts/_rels/l.xml.rels": links("slideMaster=l.xml", "slideLayout=l.xml")}
CHART = "<p:graphicFrame><a:graphic><c:chart xmlns:c='c' r:id='rId1'/></a:graphic></p:graphicFrame>"
POINTS = f"<c:chartSpace xmlns:c='c' {A}><c:chart><c:ser><c:val><c:pt idx='999999999999999'><c:v>{'9' * 5000}.{'1' * 50}</c:v></c:pt></c:val></c:ser></c:chart></c:chartSpace>"
case("groups-10000-deep.pptx", "failed partial", lambda: slide(groups(10_000)))
case("groups-100-deep.pptx", "ok", lambda: slide(groups(100)))
case("layouts-loop.pptx", "ok", lambda: slide(KINDS["pptx"].body, LOOP))
case("10000-slides-one-part.pptx", "ok partial", lambda: deck(10_000))
case("charts-5000.pptx", "ok partial", lambda: slide(KINDS["pptx"].body + CHART * 5000, {"ppt/slides/_rels/slide1.xml.rels": links("chart=../charts/c.xml"), "ppt/charts/c.xml": POINTS}))
case("places-absurd.pptx", "ok", lambda: slide("<p:sp><p:spPr><a:xfrm><a:off x='NaN' y='-99999999999999999999'/></a:xfrm></p:spPr><p:txBody><a:p><a:pPr lvl='999999'/><a:r><a:t>Honest</a:t></a:r></a:p></p:txBody></p:sp>"))
case("table-250x250.pptx", "ok partial failed", lambda: slide("<p:graphicFrame><a:tbl>" + f"<a:tr>{'<a:tc><a:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></a:txBody></a:tc>' * 250}</a:tr>" * 250 + "</a:tbl></p:graphicFrame>"))

# --- hwpx ---

def hangul(body: str, **others: Any) -> bytes:
    return office("hwpx", body, **others)

def hp(inner: str) -> str:
    return f"<hp:p><hp:run>{inner}</hp:run></hp:p>"

HTABLE = "<hp:tbl><hp:tr><hp:tc><hp:subList>{0}</hp:subList></hp:tc><hp:tc><hp:subList><hp:p/></hp:subList></hp:tc></hp:tr></hp:tbl>"

def htables(depth: int) -> str:
    before, _, after = hp(HTABLE).partition("{0}")
    return before * depth + hp(f"<hp:t>{WORDS}</hp:t>") + after * depth

SCRIPTS = {"over": "1 over {" * 20_000, "left": "LEFT ( " * 20_000, "matrix": "LEFT { matrix { 1 & 2 # " * 5000, "braces": "{" * 100_000 + "}" * 100_000, "root": "root " * 50_000, "quotes": '"' * 99_999}
SCRIPTS |= {"scripts": "x_1^2 " * 50_000, "pile": "pile{" * 20_000, "hash": "#" * 100_000, "rm": "rm it bold " * 30_000, "accents": "hat bar vec " * 20_000}
MANIFEST = '<m:manifest xmlns:m="m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
case("tables-1000-deep.hwpx", "failed partial", lambda: hangul(htables(1000)))
case("tables-30-deep.hwpx", "ok partial", lambda: hangul(htables(30)))
case("encrypted-by-manifest.hwpx", "needs_action", lambda: hangul(KINDS["hwpx"].body, extra={"META-INF/manifest.xml": MANIFEST}), "password")
case("cell-addresses.hwpx", "ok partial", lambda: hangul(hp(HTABLE.replace("<hp:tc>", "<hp:tc><hp:cellAddr colAddr='99999999999999' rowAddr='-1'/><hp:cellSpan colSpan='99999999' rowSpan='99999999'/>").format(KINDS["hwpx"].body))))
case("note-200-deep.hwpx", "ok partial failed", lambda: hangul("<hp:p><hp:run><hp:ctrl><hp:footNote>" * 50 + hp("<hp:t>x</hp:t>") + "</hp:footNote></hp:ctrl></hp:run></hp:p>" * 50))
for _name, _script in SCRIPTS.items():
    case(f"equation-{_name}.hwpx", "ok partial", partial(hangul, hp(f"<hp:t>{WORDS}</hp:t><hp:equation><hp:script>{_script.replace('&', '&amp;')}</hp:script></hp:equation>")))

# --- OLE2, and .hwp in it ---

END, FREE = 0xFFFFFFFE, 0xFFFFFFFF

def ole(streams: dict[str, bytes], *, entry: Callable[[int, list[int]], None] | None = None, fat: Callable[[list[int]], None] | None = None) -> bytes:
    """Make a compound file; a name may be `Folder/Stream`. `entry` changes a directory entry's links, `fat` the chain.

    An entry's links are [left, right, child, first sector, size]. All streams are padded to 4,096 bytes.
    """
    folders = sorted({name.rpartition("/")[0] for name in streams} - {""})
    names = ["Root Entry", *folders, *streams]
    body, chain, rows = list[bytes](), list[int](), list[tuple[str, int, list[int]]]()
    directory = -(-len(names) // 4)
    chain += [*range(1, directory), END]
    for name in names:
        data = streams.get(name, b"").ljust(4096 if name in streams else 0, b"\0")
        first, count = len(chain), -(-len(data) // 512)
        chain += [*range(first + 1, first + count), END] if count else []
        body.append(data.ljust(count * 512, b"\0"))
        rows.append((name.rpartition("/")[2], 5 if name == "Root Entry" else 2 if name in streams else 1, [FREE, FREE, FREE, first if count else END, len(data)]))
    for parent in ("", *folders):
        inside = sorted((n for n, name in enumerate(names) if n and name.rpartition("/")[0] == parent), key=lambda n: (len(rows[n][0]), rows[n][0].upper()))
        rows[names.index(parent) if parent else 0][2][2] = inside[0] if inside else FREE
        for here, after in pairwise(inside):
            rows[here][2][1] = after
    packed = b""
    for n, (name, kind, place) in enumerate(rows):
        if entry:
            entry(n, place)
        text = name.encode("utf-16-le")
        packed += text.ljust(64, b"\0") + struct.pack("<HBB3L", len(text) + 2, kind, 1, *place[:3]) + bytes(36) + struct.pack("<LQ", *place[3:])
    sectors = -(-(len(chain) + -(-(len(chain) + 1) // 127)) // 128)
    table = chain + [0xFFFFFFFD] * sectors
    if fat:
        fat(table)
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<9L", 0, sectors, 0, 0, 4096, END, 0, END, 0)
    head += struct.pack("<109L", *(len(chain) + n if n < sectors else FREE for n in range(109)))
    return head + packed.ljust(directory * 512, b"\0") + b"".join(body) + struct.pack(f"<{len(table)}L", *table).ljust(sectors * 512, b"\xff")

def record(tag: int, level: int, data: bytes = b"", size: int | None = None) -> bytes:
    size = len(data) if size is None else size
    return struct.pack("<L", tag | level << 10 | min(size, 4095) << 20) + (struct.pack("<L", size) if size >= 4095 else b"") + data

def hwp_paragraph(text: str, level: int = 0) -> bytes:
    units = (text + "\r").encode("utf-16-le")
    return record(66, level, struct.pack("<LLHBBHHHL", len(units) // 2 | 0x80000000, 0, 0, 0, 0, 0, 0, 0, 0)) + record(67, level + 1, units)

def deflated(data: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return b"".join(map(packer.compress, data)) + packer.flush()

def hwp(*sections: bytes, flags: int = 1, packed: bool = True, streams: dict[str, bytes] | None = None, mark: bytes = b"HWP Document File", **changes: Any) -> bytes:
    """Make a .hwp of sections' records."""
    sections = sections or (hwp_paragraph(WORDS) * 3,)
    info = record(16, 0, struct.pack("<H24x", len(sections))) + record(17, 0, bytes(72))
    parts = {"FileHeader": mark.ljust(32, b"\0") + struct.pack("<LL", 0x05000300, flags) + bytes(216), "DocInfo": deflated([info])}
    parts |= {f"BodyText/Section{n}": deflated([section]) if packed else section for n, section in enumerate(sections)}
    return ole(parts | (streams or {}), **changes)

def at(number: int, index: int, value: int) -> Callable[[int, list[int]], None]:
    """Change one link of one directory entry."""

    def change(n: int, place: list[int]) -> None:
        if n == number:
            place[index] = value

    return change

def loop(table: list[int]) -> None:
    for n, after in enumerate(table):
        if after == END and n:
            table[n] = max(n - 7, 0)

def hwp_table(rows: int, columns: int) -> bytes:
    """Make a table that says it has so many rows and columns, and has one cell."""
    held = struct.pack("<8H", 11, 0x6C20, 0x7462, 0, 0, 0, 0, 11) + "\r".encode("utf-16-le")
    head = record(66, 0, struct.pack("<LLHBBHHHL", 9, 1 << 11, 0, 0, 0, 0, 0, 0, 0)) + record(67, 1, held)
    control = record(71, 1, b" lbt" + bytes(42)) + record(77, 2, struct.pack("<LHHH", 0, rows, columns, 0) + bytes(10) + bytes(2 * min(rows, 99)))
    cell = record(72, 2, struct.pack("<HLHHHHLL", 1, 0, 0, columns - 1, 0xFFFF, 0xFFFF, 1, 1) + bytes(30))
    return head + control + cell + hwp_paragraph(WORDS, 2)

case("zero-bytes.hwp", "failed empty", b"")
case("noise.hwp", "failed", lambda: random.Random(3).randbytes(9000))
case("version-3.hwp", "failed needs_action", lambda: b"HWP Document File V3.00 \x1a\x01\x02\x03\x04\x05".ljust(2000, b"\0"))
case("encrypted.hwp", "needs_action", lambda: hwp(flags=3), "password|encrypt|protect")
case("distribution.hwp", "needs_action failed", lambda: hwp(flags=5))
case("fat-loop.hwp", "failed partial", lambda: hwp(hwp_paragraph(WORDS) * 3000, packed=False, flags=0, fat=loop))
case("directory-sibling-loop.hwp", "failed partial ok", lambda: hwp(entry=at(2, 1, 2)))
case("sector-size-0.hwp", "failed", lambda: hwp()[:30] + b"\0\0" + hwp()[32:])
case("difat-loop.hwp", "failed ok partial", lambda: hwp()[:68] + struct.pack("<LL", 0, 2**31) + hwp()[76:])
case("zlib-bomb.hwp", "failed partial", lambda: hwp(deflated(spaces(300)), packed=False))
case("record-too-long.hwp", "failed partial ok", lambda: hwp(hwp_paragraph(WORDS) + record(67, 1, b"abc", 2**31)))
case("records-1023-deep.hwp", "ok partial failed", lambda: hwp(b"".join(record(71, n, b"rdgs") + hwp_paragraph(WORDS, n) for n in range(1000))))
case("records-200000.hwp", "ok partial failed empty", lambda: hwp(record(66, 0, bytes(24)) * 200_000))
case("table-65535x65535.hwp", "ok partial failed", lambda: hwp(hwp_table(65535, 65535)))

# --- pdf ---

def stream(data: bytes, keys: bytes = b"") -> bytes:
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), keys, data)

HELLO = b"BT /F 12 Tf 72 700 Td (Hello hostile world) Tj ET\n"

def pdf(content: bytes = HELLO, keys: bytes = b"", *, box: bytes = b"0 0 612 792", kids: bytes = b"3 0 R", count: int = 1, page: bytes = b"", catalog: bytes = b"", resources: bytes = b"", more: Iterable[bytes] = (), trailer: bytes = b"", font: bytes = b"") -> bytes:
    """Make a one-page PDF by hand; 4 is its content, 5 its font, `more` are the objects from 6 on."""
    objects = [b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog, b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count)]
    objects.append(b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Resources<</Font<</F 5 0 R>>%s>>/Contents 4 0 R%s>>" % (box, resources, page))
    objects += [stream(content, keys), font or b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", *more]
    out, places = [b"%PDF-1.7\n"], [0]
    size = len(out[0])
    for number, body in enumerate(objects, 1):
        places.append(size)
        out.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        size += len(out[-1])
    table = b"".join(b"%010d 00000 n \n" % place for place in places[1:])
    tail = b"trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(places), trailer.replace(b"@", b"%d" % size), size)
    return b"".join([*out, b"xref\n0 %d\n0000000000 65535 f \n" % len(places), table, tail])

def chained(data: bytes, times: int) -> bytes:
    packer = [data]
    for _ in range(times):
        packer.append(zlib.compress(packer[-1], 9))
    return pdf(packer[-1], b"/Filter[%s]" % (b"/FlateDecode" * times))

def locked(user: str, algorithm: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf())))
    writer.encrypt(user, "owner", algorithm=algorithm)
    return saved(writer, "write")

def saved(thing: Any, method: str = "save", **options: Any) -> bytes:
    file = io.BytesIO()
    getattr(thing, method)(file, **options)
    return file.getvalue()

def modern_pdf() -> bytes:
    """Make a PDF whose objects lie in a compressed stream, with a table of references that is a stream."""
    from pypdf import PdfReader

    inner = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    heads, offset = b"", 0
    for number, body in zip((1, 2, 3, 5), inner, strict=True):
        heads, offset = heads + b"%d %d " % (number, offset), offset + len(body) + 1
    objects = b"%PDF-1.7\n"
    content_at = len(objects)
    objects += b"4 0 obj\n" + stream(HELLO) + b"\nendobj\n"
    held_at = len(objects)
    objects += b"6 0 obj\n" + stream(zlib.compress(heads + b" ".join(inner)), b"/Type/ObjStm/N 4/First %d/Filter/FlateDecode" % len(heads)) + b"\nendobj\n"
    rows = [(0, 0, 255), (2, 6, 0), (2, 6, 1), (2, 6, 2), (1, content_at, 0), (2, 6, 3), (1, held_at, 0), (1, len(objects), 0)]
    packed = zlib.compress(b"".join(struct.pack(">BHB", *row) for row in rows))
    table = stream(packed, b"/Type/XRef/Size 8/W[1 2 1]/Root 1 0 R/Filter/FlateDecode")
    data = objects + b"7 0 obj\n" + table + b"\nendobj\nstartxref\n%d\n%%%%EOF\n" % len(objects)
    assert len(PdfReader(io.BytesIO(data)).pages) == 1
    return data

def pages_pdf(number: int) -> bytes:
    """Make a PDF of so many pages that share one content."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>"
    kids = b" ".join(b"%d 0 R" % n for n in range(6, 6 + number))
    return pdf(kids=kids, count=number, more=repeat(page, number))

def image_pdf(data: bytes, keys: bytes, size: bytes = b"/Width 800/Height 800") -> bytes:
    image = stream(data, b"/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent 8" + size + keys)
    return pdf(HELLO + b"q 500 0 0 500 0 0 cm /X Do Q", resources=b"/XObject<</X 6 0 R>>", more=[image])

def outline(number: int) -> bytes:
    return pdf(catalog=b"/Outlines 6 0 R", more=[b"<</Type/Outlines/First 7 0 R/Last 7 0 R/Count %d>>" % number, *(b"<</Title(t)/Parent 6 0 R/Next %d 0 R>>" % min(8 + n, 6 + number) for n in range(number))])

def font_map(cmap: bytes) -> bytes:
    return pdf(font=b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>", more=[stream(cmap)])

NOISE = random.Random(7).randbytes(4000)
SELF = b"/XObject<</X 6 0 R>>"
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<%s>>"
FORMS = [stream(b"/A Do /A Do " if n < 40 else HELLO, FORM % (b"/XObject<</A %d 0 R>>/Font<</F 5 0 R>>" % (7 + n))) for n in range(41)]
READS = "ok partial"
case("zero-bytes.pdf", "failed empty", b"")
case("noise.pdf", "failed", NOISE)
case("prev-loop.pdf", "ok", lambda: pdf(trailer=b"/Prev @"))
case("kids-loop.pdf", READS, lambda: pdf(kids=b"3 0 R 2 0 R", count=3))
case("kids-parent-of-itself.pdf", "failed empty partial", lambda: pdf(kids=b"2 0 R"))
case("kids-20000-same.pdf", READS, lambda: pdf(kids=b"3 0 R " * 20_000, count=20_000))
case("count-1e9.pdf", READS, lambda: pdf(count=1_000_000_000))
case("inline-image-without-end.pdf", READS, lambda: pdf(HELLO + b"BI /W 9 /H 9 /BPC 8 /CS /G ID " + NOISE))
case("flate-chain-120-mb.pdf", "ok partial empty failed", lambda: chained(b"BT ET " * 20_000_000, 3))
for _name, _box in {"200000-pt": b"0 0 200000 200000", "nan": b"0 0 NaN inf", "zero": b"0 0 0 0", "negative": b"0 0 -612 -792", "1e38": b"0 0 1e38 3.4e38", "short": b"0 0", "empty": b"", "names": b"/A (b) null <</C 1>>"}.items():
    case(f"box-{_name}.pdf", "ok partial empty", partial(pdf, box=_box))
    if _name in ("200000-pt", "nan"):
        case(f"box-{_name}-scan.pdf", "ok partial empty failed needs_action", partial(pdf, b"q 99999 0 0 99999 0 0 cm /X Do Q", box=_box, resources=SELF, more=[stream(bytes(64), b"/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent 8/Width 8/Height 8")]))
for _tenth in range(1, 10):
    case(f"cut-at-{_tenth}-tenths.pdf", "failed ok partial empty", lambda tenth=_tenth: pdf(HELLO * 20)[: len(pdf(HELLO * 20)) * tenth // 10])  # type: ignore[misc]
for _algorithm in ("RC4-40", "RC4-128", "AES-128", "AES-256"):
    case(f"user-password-{_algorithm}.pdf", "needs_action", partial(locked, "secret", _algorithm), "password")
    case(f"owner-password-{_algorithm}.pdf", "ok", partial(locked, "", _algorithm))
case("encrypt-damaged.pdf", "failed needs_action ok", lambda: pdf(trailer=b"/Encrypt<</Filter/Standard/V 99/R 99/O(x)/U(y)/P -1/Length 99999>>"))
case("streams-damaged.pdf", "failed ok partial empty", lambda: modern_pdf().replace(b"/W[1 2 1]", b"/W[9 9 9]"))
case("map-broken.pdf", "ok partial failed empty needs_action", lambda: font_map(b"1 beginbfrange <00> <ff> <e000> endbfrange"))
case("map-huge.pdf", READS, lambda: font_map(b"1 beginbfrange <00000000> <ffffffff> <0041> endbfrange"))
for _filter in ("JBIG2Decode", "JPXDecode", "CCITTFaxDecode", "DCTDecode", "RunLengthDecode"):
    case(f"image-{_filter}.pdf", READS, partial(image_pdf, NOISE, b"/Filter/" + _filter.encode()))
case("image-30000x30000.pdf", READS, lambda: image_pdf(b"x", b"", b"/Width 30000/Height 30000"))
case("images-only-30000.pdf", "ok partial empty failed needs_action", lambda: pdf(b"q 612 0 0 792 0 0 cm /X Do Q", resources=SELF, more=[stream(zlib.compress(bytes(30_000 * 3_750)), b"/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent 1/Width 30000/Height 30000/Filter/FlateDecode")]))
case("million-paths.pdf", READS, lambda: pdf(HELLO + b"0 0 m 9 9 l S\n" * 1_000_000))
case("15000-pages.pdf", READS, lambda: pages_pdf(15_000))
case("form-in-itself.pdf", READS, lambda: pdf(HELLO + b"/X Do", resources=SELF, more=[stream(b"/X Do", FORM % SELF)]))
case("forms-2-to-the-40.pdf", "ok partial failed empty", lambda: pdf(HELLO + b"/X Do", resources=SELF, more=FORMS))
case("outline-million.pdf", READS, lambda: outline(200_000))
case("outline-loop.pdf", "ok", lambda: pdf(catalog=b"/Outlines 6 0 R", more=[b"<</First 7 0 R/Last 7 0 R>>", b"<</Title(t)/Parent 6 0 R/Next 7 0 R/First 6 0 R/Dest[3 0 R/Fit]>>"]))
case("annotations-200000.pdf", READS, lambda: pdf(page=b"/Annots[%s]" % (b"6 0 R " * 200_000), more=[b"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(a)/Parent 6 0 R/Popup 6 0 R>>"]))
case("info-absurd.pdf", "ok", lambda: pdf(trailer=b"/Info 6 0 R", more=[b"<</Title(%s)/Author 6 0 R/CreationDate(D:99999999)>>" % (b"\\376\\377\\330\\000" * 50_000)]))

# --- pictures ---

PICTURE = "empty partial ok"

def png(width: int, height: int, data: bytes | None = None, *, depth: int = 1, more: bytes = b"") -> bytes:
    """Make a grey PNG by hand; without data, a white one."""

    def chunk(kind: bytes, inner: bytes) -> bytes:
        return struct.pack(">L", len(inner)) + kind + inner + struct.pack(">L", zlib.crc32(kind + inner))

    if data is None:
        packer, row = zlib.compressobj(6), b"\0" + b"\xff" * ((width * depth + 7) // 8)
        data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, depth, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", data) + chunk(b"IEND", b"")

def drawn(form: str, words: str = "", size: tuple[int, int] = (60, 40), mode: str = "L", **options: Any) -> bytes:
    """Have Pillow draw words on white."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new(mode, size, "white")
    if words:
        ImageDraw.Draw(image).multiline_text((30, 20), words, "black", ImageFont.load_default(28), spacing=14)
    return saved(image, form=form) if form == "" else saved(image, "save", format=form, **options)

def tiff(entries: list[tuple[int, int, int, int]], after: int, data: bytes = b"") -> bytes:
    """Make a TIFF of one directory; `after` is the place of the next."""
    inner = b"".join(struct.pack("<HHLL", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<LH", 8, len(entries)) + inner + struct.pack("<L", after) + data

def tiff_pages(number: int) -> bytes:
    """Make a TIFF of so many pages of 8 x 8 pixels that share their bytes."""
    size = 2 + 8 * 12 + 4
    tags = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, 8), (279, 4, 1, 64)]
    page = struct.pack("<H", 8) + b"".join(struct.pack("<HHLL", *tag) for tag in tags)
    pages = (page + struct.pack("<L", 72 + size * (n + 1) if n + 1 < number else 0) for n in range(number))
    return b"II*\0" + struct.pack("<L", 72) + b"\xff" * 64 + b"".join(pages)

BASIC = [(256, 4, 1, 40), (257, 4, 1, 40), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, 40), (279, 4, 1, 1600)]
APNG = struct.pack(">L", 8) + b"acTL" + struct.pack(">LL", 2**31 - 1, 0) + struct.pack(">L", zlib.crc32(b"acTL" + struct.pack(">LL", 2**31 - 1, 0)))
EXIF = b"\xff\xe1\x03\xeaExif\0\0II*\0" + b"\x08\0\0\0\xff\xff" + b"\x12\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" * 82 + bytes(8)

def jpeg() -> bytes:
    return drawn("JPEG", "ab", (120, 80))

for _suffix in ("png", "jpg", "jpeg", "tif", "tiff"):
    case(f"zero-bytes.{_suffix}", "failed empty", b"")
    case(f"noise.{_suffix}", "failed", NOISE)
    case(f"text.{_suffix}", "failed", b"this is no picture, it is plain text\n" * 20)
case("1x1.png", PICTURE, lambda: png(1, 1))
case("30000x30000.png", "failed partial empty", lambda: png(30_000, 30_000))
case("size-2-31.png", "failed partial", lambda: png(2**31 - 1, 2**31 - 1, b"x"))
case("text-bomb.png", "failed empty partial ok", lambda: png(40, 40, more=struct.pack(">L", 100_000) + b"zTXt" + (b"a\0\0" + zlib.compress(bytes(90_000_000), 9)).ljust(100_000, b"\0")[:100_000] + bytes(4)))
case("animated.png", "empty ok partial failed", lambda: png(40, 40, more=APNG))
case("cut.jpg", "failed empty partial ok", lambda: jpeg()[: len(jpeg()) * 2 // 3])
case("exif-damaged.jpg", "empty ok partial failed", lambda: jpeg()[:2] + EXIF + jpeg()[2:])
case("size-65535.jpg", "failed empty partial", lambda: re.sub(rb"(\xff\xc0...)....", lambda found: found[1] + b"\xff" * 4, jpeg(), count=1, flags=re.S))
case("scans-10000.jpg", "failed empty ok partial", lambda: jpeg()[:-2] + jpeg()[jpeg().rfind(b"\xff\xda"):-2] * 3000 + b"\xff\xd9")
case("directory-loop.tif", "failed empty partial ok", lambda: tiff(BASIC, 8, bytes(2000)))
case("10000-pages.tif", "empty partial failed ok", lambda: tiff_pages(10_000))

# --- recordings ---

SOUNDS = ("flac", "m4a", "mp3", "ogg", "wav", "webm")
QUIET = "empty partial"
CODECS = {"flac": "flac", "m4a": "aac", "mp3": "mp3", "ogg": "libopus", "wav": "pcm_s16le", "webm": "libopus"}

def wav(samples: bytes, rate: int = 16_000, **lies: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, 0, "NONE", ""))
        out.writeframes(samples)
    data = bytearray(file.getvalue())
    for place, value in lies.items():
        struct.pack_into("<L", data, int(place[1:]), value)
    return bytes(data)

def sound(suffix: str, samples: bytes = bytes(32_000), rate: int = 16_000) -> bytes:
    """Encode 16-bit samples as the suffix says; by default a second of silence."""
    import av
    import numpy as np

    file = io.BytesIO()
    form = {"m4a": "ipod"}.get(suffix, suffix)
    with av.open(file, "w", format=form, options={"fflags": "+bitexact"}) as out:
        track = out.add_stream(CODECS[suffix], rate=48_000 if "opus" in CODECS[suffix] else rate, layout="mono", options={"flags": "+bitexact"})
        frame = av.AudioFrame.from_ndarray(np.frombuffer(samples, np.int16).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = rate
        for packet in [*track.encode(frame), *track.encode(None)]:
            out.mux(packet)
    return file.getvalue()

def film(form: str) -> bytes:
    """Make a video without sound."""
    import av
    import numpy as np

    file = io.BytesIO()
    with av.open(file, "w", format=form) as out:
        track = out.add_stream({"webm": "libvpx", "ipod": "mpeg4"}[form], rate=10)
        track.width = track.height = 32
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        for packet in [*track.encode(frame), *track.encode(None)]:
            out.mux(packet)
    return file.getvalue()

for _suffix in SOUNDS:
    case(f"zero-bytes.{_suffix}", "failed empty", b"")
    case(f"noise.{_suffix}", "failed empty partial", lambda: random.Random(8).randbytes(50_000))
    case(f"silence.{_suffix}", QUIET, partial(sound, _suffix))
    case(f"head-only.{_suffix}", "failed empty partial", lambda suffix=_suffix: sound(suffix)[:40])  # type: ignore[misc]
    case(f"cut.{_suffix}", "failed empty partial", lambda suffix=_suffix: sound(suffix)[: len(sound(suffix)) // 2])  # type: ignore[misc]
    case(f"text.{_suffix}", "failed empty partial", b"this is no recording, it is plain text\n" * 50)
case("white-noise.wav", QUIET, lambda: wav(random.Random(9).randbytes(96_000)))
case("length-2-32.wav", "empty partial failed", lambda: wav(bytes(32_000), p4=2**32 - 1, p40=2**32 - 1))
case("tag-20-mb.mp3", "empty partial failed", lambda: b"ID3\x04\0\0" + bytes([9, 63, 127, 127]) + bytes(20_971_519) + sound("mp3"))
case("film-without-sound.webm", "failed empty partial", partial(film, "webm"))
case("film-without-sound.m4a", "failed empty partial", partial(film, "ipod"))
case("playlist.m4a", "failed", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")

# --- text ---

TEXTS = ("txt", "md", "html", "csv", "json")
LINE = "word 가나다 " * 8
UNITS = {"round": "(", "square": "[", "quotes": '."', "stops": "1. ", "names": "Mr. ", "less": "<", "ticks": "`", "breaks": "\n", "spaces": " \t", "dashes": "- \n", "pipes": "|", "stars": "*_", "ands": "&#x", "marks": "! ? … ", "slashes": "\\", "colons": "a: ", "hangul": "다.", "accents": "e\u0301", "joiners": "a\u200d", "bidi": "\u202e\u2066", "emoji": "👩‍👩‍👧", "combined": "\u0301"}
READ = "ok partial empty"

def long_line(megabytes: int) -> bytes:
    return (LINE * (megabytes * 20_000)).encode()[: megabytes * 1_000_000]

for _suffix in TEXTS:
    case(f"long-line.{_suffix}", "ok partial failed", partial(long_line, 100 if _suffix == "txt" else 10))
    case(f"nul.{_suffix}", "failed partial ok", lambda: b"Honest text\0 and more of it " * 50)
    case(f"nul-only.{_suffix}", "failed", bytes(5000))
    case(f"bom-within.{_suffix}", READ, "Honest text\ufeff and\ufffe more\r\r\n of\x85it\u2028".encode() * 50)
    case(f"utf16-odd.{_suffix}", READ, b"\xff\xfe" + "Honest text".encode("utf-16-le") * 50 + b"x")
    case(f"utf16-surrogates.{_suffix}", READ, b"\xff\xfe" + b"\x00\xd8a\x00\x00\xdc" * 500)
    case(f"utf32-beyond.{_suffix}", READ, b"\xff\xfe\0\0" + b"\xff\xff\xff\x7f" * 500)
    case(f"surrogates-as-utf8.{_suffix}", READ, b"Honest text \xed\xa0\x80\xed\xb0\x80 " * 50)
    case(f"cp949-and-utf8.{_suffix}", READ, ("정직한 글입니다. " * 30).encode("cp949") + ("정직한 글입니다. " * 30).encode())
    case(f"overlong.{_suffix}", "ok partial empty failed", b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf Honest" * 200)
    case(f"latin1.{_suffix}", READ, "Société générale à l'été ".encode("latin-1") * 50)
    case(f"noise.{_suffix}", "failed partial ok", NOISE)
    for _name, _unit in UNITS.items():
        if _suffix in ("txt", "md", "html") or _name in ("square", "quotes", "pipes"):
            case(f"{_name}.{_suffix}", "ok partial empty failed", partial(str.encode, _unit * (400_000 // len(_unit))))

def both(name: str, statuses: str, text: Callable[[], str]) -> None:
    case(name, statuses, lambda: text().encode())

both("tags-50000-deep.html", READ, lambda: "<div>" * 50_000 + WORDS)
both("tables-5000-deep.html", READ, lambda: "<table><tr><td>a" * 5000)
both("script-unclosed.html", READ, lambda: f"<p>{WORDS}<script>" + "x<" * 300_000)
both("table-unclosed.html", READ, lambda: f"<p>{WORDS}<table><tr><td>" + "x<td>" * 100_000)
both("spans-65534.html", READ, lambda: "<table>" + "<tr><td rowspan=65534 colspan=65534>a<td>b" * 3000)
both("attributes-30000.html", READ, lambda: f"<p {' '.join(f'a{n}=1' for n in range(30_000))}>{WORDS}")
both("doctype-entities.html", READ, lambda: f"<!DOCTYPE x {LAUGHS}><p>{WORDS}&l9;")
both("doctype-external.html", READ, lambda: f"<!DOCTYPE x {PASSWD}><p>{WORDS}&e;")
both("style-display.html", READ, lambda: f"<p>{WORDS}" + f"<p style='display{' ' * 2000}:{' ' * 2000}x'>a" * 200)
both("100000-columns.csv", READ, lambda: "a," * 100_000 + "\n" + "1," * 100_000 + "\n")
both("quote-unclosed.csv", READ, lambda: "a,b\n1,2\n" * 1000 + '3,"4\n' + "5,6\n" * 100_000)
both("lists-200000-deep.json", READ, lambda: "[" * 200_000 + "1" + "]" * 200_000)
both("objects-200000-deep.json", READ, lambda: '{"a":' * 200_000 + "1" + "}" * 200_000)
both("opening.json", READ, lambda: "[" * 1_000_000)
both("numbers.json", READ, lambda: f"[NaN, Infinity, -Infinity, 1e99999, -0.0, {'9' * 200_000}, 1E+{'9' * 5000}]")
both("300000-nulls.json", "ok partial empty", lambda: "[" + "null," * 300_000 + "1]")
both("quotes-10000-deep.md", READ, lambda: "> " * 10_000 + WORDS)
both("fence-unclosed.md", READ, lambda: f"{WORDS}\n```\n" + "x\n" * 200_000)
both("blank.txt", "empty", lambda: " \n\t\u3000\f" * 300_000)

# --- subtitles, rtf, mail, epub ---

def mail(parts: str, head: str = "") -> bytes:
    return f"From: a@example.org\r\nSubject: Honest\r\n{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{parts}".encode()

def nested_mail(depth: int) -> bytes:
    opening = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n" for n in range(depth))
    return f"Subject: Honest\r\n{opening}\r\n{WORDS}".encode()

def forwarded(depth: int) -> bytes:
    return ("Subject: Honest\r\nContent-Type: message/rfc822\r\n\r\n" * depth + f"Subject: x\r\n\r\n{WORDS}\r\n").encode()

def book(chapters: str, spine: str, extra: Parts | None = None) -> bytes:
    opf = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{chapters}</manifest><spine>{spine}</spine></package>'
    return office("epub", extra={"OEBPS/content.opf": opf} | (extra or {}))

ITEM = '<item id="{0}" href="{1}" media-type="application/xhtml+xml"/>'
PART = f"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{WORDS}\r\n"
FILE = "--b\r\nContent-Type: application/x; name=a.docx\r\nContent-Disposition: attachment; filename={0}\r\nContent-Transfer-Encoding: base64\r\n\r\n{1}\r\n"
SOME = "ok partial empty failed"
CUE = "1\n00:00:01,000 --> 00:00:02,000\nHonest\n\n"
both("cues-50000.srt", READ, lambda: CUE * 50_000)
both("tags.vtt", SOME, lambda: "WEBVTT\n\n" + CUE.replace(",", ".").replace("Honest", "<v a>" * 50_000 + "Honest"))
both("deep.xhtml", READ, lambda: "<html>" + "<div>" * 50_000 + WORDS)
both("laughs.xhtml", READ, lambda: f"<!DOCTYPE x {LAUGHS}><html><body><p>{WORDS}&l9;</p></body></html>")
both("braces-100000-deep.rtf", SOME, lambda: "{\\rtf1 " + "{" * 100_000 + "Honest" + "}" * 100_001)
both("bin-lies.rtf", SOME, lambda: "{\\rtf1 Honest {\\pict\\bin2147483647 xx} more}")
both("word-long.rtf", SOME, lambda: "{\\rtf1 \\" + "a" * 500_000 + "9" * 500_000 + " Honest}")
both("unicode-absurd.rtf", SOME, lambda: "{\\rtf1\\uc99999 Honest \\u-1? \\u55296? \\u99999999999? " + "\\u44032?" * 50_000 + "}")
case("zero-bytes.rtf", "failed empty", b"")
case("text.rtf", "failed ok partial", b"this is no RTF, it is plain text\n" * 20)
case("parts-100000.eml", "ok partial", lambda: mail(PART * 100_000 + "--b--"))
case("depth-1000.eml", SOME, lambda: nested_mail(1000))
case("forwarded-1000.eml", SOME, lambda: forwarded(1000))
case("boundary-missing.eml", SOME, lambda: mail(PART).replace(b"; boundary=b", b""))
case("head-50-mb.eml", SOME, lambda: mail(PART + "--b--", f"X-A: {'x' * 50_000_000}\r\n"))
case("html-deep.eml", SOME, lambda: mail("--b\r\nContent-Type: text/html\r\n\r\n" + "<div>" * 50_000 + WORDS + "\r\n--b--"))
case("zero-bytes.eml", "failed empty", b"")
case("noise.eml", SOME, NOISE)
case("spine-20000.epub", SOME, lambda: book(ITEM.format("c1", "c1.xhtml"), '<itemref idref="c1"/>' * 20_000))
case("items-100000.epub", SOME, lambda: book("".join(ITEM.format(f"i{n}", f"{n}.xhtml") for n in range(100_000)), "".join(f'<itemref idref="i{n}"/>' for n in range(100_000))))
case("encrypted-by-manifest.odt", "needs_action", lambda: office("odt", extra={"META-INF/manifest.xml": MANIFEST}), "password")
case("repeated-columns.odt", SOME, lambda: office("odt", "<table:table><table:table-column table:number-columns-repeated='999999999'/>" + f"<table:table-row table:number-rows-repeated='999999999'><table:table-cell table:number-columns-repeated='999999999'><text:p>{WORDS}</text:p></table:table-cell></table:table-row>" * 3 + "</table:table>"))

# --- names and suffixes ---

EXE = b"MZ" + bytes(58) + struct.pack("<L", 64) + b"PE\0\0" + random.Random(10).randbytes(4000)
for _name in ("new\nline", "tab\tab", "escape\x1b[31m", "bidi\u202egpj", "quote\"'`$(x)", "-rf", "%s%n{0}", "nfd-각", "a" * 250, "가" * 83, " space ", "trailing.", "back\\slash", "\U0001f600", "nbsp\u00a0\ufeff", "x" * 200 + ".pdf"):
    case(f"{_name}.txt", "ok", partial(str.encode, f"{WORDS} in {len(_name)}"))
if sys.platform == "linux":
    case(os.fsdecode(b"invalid\xff\xfe\xed\xa0\x80.txt"), "ok", WORDS.encode())
    case(os.fsdecode(b"cp949-\xb0\xa1\xb3\xaa.md"), "ok", WORDS.encode())
for _suffix in (*KINDS, "pdf", "hwp"):
    for _name, _content in {"html": b"<html><p>Honest text</p></html>", "exe": EXE, "text": WORDS.encode(), "png": png(9, 9)}.items():
        case(f"{_name}-named.{_suffix}", {"html": "ok", "png": "empty failed"}.get(_name, "failed"), _content)
for _name, _suffix in (("docx", "xlsx"), ("xlsx", "pptx"), ("hwpx", "docx"), ("pptx", "hwpx"), ("docx", "pdf"), ("epub", "odt"), ("odt", "epub")):
    case(f"{_name}-named.{_suffix}", "ok", partial(office, _name))
for _name, _make in {"pdf": pdf, "docx": partial(office, "docx"), "png": partial(png, 9, 9), "exe": lambda: EXE, "hwp": hwp}.items():
    for _suffix in ("txt", "html", "csv", "rtf", "eml"):
        case(f"{_name}-named.{_suffix}", {"exe": "failed empty", "png": "empty failed"}.get(_name, "ok"), _make)
case("pdf-named.docx", "ok", pdf)
case("pdf-named.hwp", "ok", pdf)
case("hwp-named.hwpx", "ok", hwp)
