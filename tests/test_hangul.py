"""hangul.py and hwp5.py: what is read of Hangul's documents (.hwpx, HWP 5, HWPML), and what is refused."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest
from hwpx import HwpxDocument

from seoga import hwp5
from seoga.hangul import drm
from seoga.parsers import Block, Document, NeedsAction, ParseError, parse

# --- .hwpx by hand ---

SPACES = " ".join(
    f'xmlns:{prefix}="http://www.hancom.co.kr/hwpml/2011/{name}"'
    for prefix, name in (("hp", "paragraph"), ("hs", "section"), ("hh", "head"), ("hm", "master-page"))
)


def hwpx(*sections: str, head: str = "", **others: str) -> bytes:
    """Make a .hwpx; `others` are parts by name, with `__` for `/`, such as `Chart__chart1`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Contents/header.xml", f"<hh:head {SPACES}>{head}</hh:head>")
        for number, section in enumerate(sections):
            archive.writestr(f"Contents/section{number}.xml", f"<hs:sec {SPACES}>{section}</hs:sec>")
        for name, content in others.items():
            archive.writestr(name.replace("__", "/") + (".xml" if "." not in name else ""), content)
    return file.getvalue()


def p(inner: str, shape: int = 0) -> str:
    return f'<hp:p paraPrIDRef="{shape}"><hp:run>{inner}</hp:run></hp:p>'


def t(text: str) -> str:
    return f"<hp:t>{text}</hp:t>"


def texts(document: Document, place: str = "") -> list[str]:
    return [block.text for block in document.blocks if block.place == place]


# --- HWP 5 by hand ---

Part = str | tuple[int, str, bytes, Callable[[int], bytes]]  # text, or a control: its mark, name, data and records
END, NONE = 0xFFFFFFFE, 0xFFFFFFFF


def record(tag: int, level: int, data: bytes = b"") -> bytes:
    size = min(len(data), 0xFFF)
    return pack("<I", tag | level << 10 | size << 20) + (pack("<I", len(data)) if size == 0xFFF else b"") + data


def paragraph(level: int, *parts: Part, shape: int = 0, style: int = 0, ranges: bytes = b"") -> bytes:
    text, records = b"", b""
    for part in parts:
        if isinstance(part, str):
            text += part.encode("utf-16-le")
            continue
        mark, name, data, inner = part
        text += pack("<H4s8xH", mark, name[::-1].encode(), mark)
        records += record(71, level + 1, name[::-1].encode() + data) + inner(level + 2)
    head = pack("<IIHB", len(text) // 2 + 1, 0, shape, style) + bytes(11)
    records = (record(70, level + 1, ranges) if ranges else b"") + records
    return record(66, level, head) + record(67, level + 1, text + b"\r\0") + records


def held(*paragraphs: Part) -> Callable[[int], bytes]:
    """Make a list of paragraphs, as a note or a header holds."""
    return lambda level: record(72, level, bytes(16)) + b"".join(paragraph(level, part) for part in paragraphs)


def table(*cells: tuple[int, int, Part], caption: str = "") -> Part:
    """Make a table of (row, column, text)."""

    def records(level: int) -> bytes:
        made = held(caption)(level) if caption else b""
        made += record(77, level, bytes(18))
        for row, column, part in cells:
            made += record(72, level, pack("<HIHHHHH", 1, 0, 0, column, row, 1, 1)) + paragraph(level, part)
        return made

    return (11, "tbl ", bytes(44), records)


def string(text: str) -> bytes:
    return pack("<H", len(text)) + text.encode("utf-16-le")


class Sectors:
    """Bytes in sectors of one size, and the table that chains them."""

    def __init__(self, size: int) -> None:
        self.size, self.data, self.chain = size, b"", list[int]()

    def add(self, data: bytes) -> tuple[int, int]:
        """Return (first sector, size)."""
        start, count = len(self.chain), max(-(-len(data) // self.size), 1)
        self.chain += [*range(start + 1, start + count), END]
        self.data += data.ljust(count * self.size, b"\0")
        return start, len(data)


def ole2(streams: dict[str, bytes]) -> bytes:
    """Make an OLE2 container; a small stream is in the mini stream, as it has to be."""
    big, small = Sectors(512), Sectors(64)
    places = {path: (small if len(data) < 4096 else big).add(data) for path, data in streams.items()}

    def entry(name: str, kind: int, right: int, child: int, start: int = 0, size: int = 0) -> bytes:
        raw = name.encode("utf-16-le") + b"\0\0"
        return raw.ljust(64, b"\0") + pack("<HBBIII36xIQ", len(raw), kind, 1, NONE, right, child, start, size)

    top = list(dict.fromkeys(path.partition("/")[0] for path in streams))
    below, number = b"", 1 + len(top)
    entries = [entry("Root Entry", 5, NONE, 1, *big.add(small.data))]
    for at, name in enumerate(top, 2):
        inside = [path for path in streams if path.startswith(f"{name}/")]
        after = at if at <= len(top) else NONE
        child, kind = (number, 1) if inside else (NONE, 2)
        entries.append(entry(name, kind, after, child, *places.get(name, (0, 0))))
        for path in inside:
            number += 1
            below += entry(path.partition("/")[2], 2, number if path != inside[-1] else NONE, NONE, *places[path])
    directory, _ = big.add(b"".join(entries) + below)
    chains, _ = big.add(pack(f"<{len(small.chain)}I", *small.chain).ljust(-(-len(small.chain) // 128) * 512, b"\xff"))
    at, count = len(big.chain), -(-(len(big.chain) + 8) // 128)
    table = pack(f"<{at + count}I", *big.chain, *[0xFFFFFFFD] * count).ljust(count * 512, b"\xff")
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + pack("<HHHHH6xII", 62, 3, 0xFFFE, 9, 6, 0, count)
    head += pack("<IIIIIII", directory, 0, 4096, chains, -(-len(small.chain) // 128), END, 0)
    return (head + pack(f"<{count}I", *range(at, at + count))).ljust(512, b"\xff") + big.data + table


def hwp(*sections: bytes, flags: int = 1, docinfo: bytes = b"", **others: bytes) -> bytes:
    """Make an HWP 5 file; bit 0 of `flags` says that its streams are compressed."""

    def packed(data: bytes) -> bytes:
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(data) + deflate.flush() if flags & 1 else data

    streams = {"FileHeader": (b"HWP Document File".ljust(32, b"\0") + pack("<II", 0x05000300, flags)).ljust(256, b"\0")}
    streams["DocInfo"] = packed(docinfo)
    streams |= {f"BodyText/Section{number}": packed(section) for number, section in enumerate(sections)}
    return ole2(streams | {name.replace("__", "/"): data for name, data in others.items()})


def read(*parts: Part, **others: bytes) -> Document:
    return parse(hwp(paragraph(0, *parts), **others), "a.hwp")


# --- both formats alike ---


def made(tmp_path: Path, suffix: str) -> Document:
    """Read a document that a library wrote."""
    document = HwpxDocument.new()
    document.add_heading("사업 개요", level=1)
    first = document.add_paragraph("첫 문단", style="바탕글")
    document.notes.add_footnote("각주 내용", first)
    document.notes.add_endnote("미주 내용", first)
    document.notes.add_memo("검토 바람", anchor=first, author="이검토")
    grid = document.add_table(3, 3)
    for row in range(3):
        for column in range(3):
            grid.set_cell_text(row, column, f"{row}{column}")
    document.tables.merge_cells(grid, "A1:B1")
    document.tables.merge_cells(grid, "C2:C3")
    grid.set_caption("표 제목")
    inner = grid.cell(1, 0).add_table(2, 2)
    for row in range(2):
        for column in range(2):
            inner.set_cell_text(row, column, f"n{row}{column}")
    document.page.set_header(text="대외비")
    document.page.set_footer(text="총무과")
    document.shapes.add_rectangle().set_draw_text("글상자")
    document.shapes.add_equation("a over b", paragraph=document.add_paragraph("수식 ", style="바탕글"))
    document.shapes.add_dutmal("漢字", "한자", paragraph=document.add_paragraph("덧말 ", style="바탕글"))
    form = document.add_paragraph("서식 ", style="바탕글")
    document.fields.add_check_box("동의", checked=True, paragraph=form)
    document.fields.add_check_box("거부", paragraph=form)
    document.fields.add("성명", prompt="이름", paragraph=form)
    link = document.add_paragraph("링크 ", style="바탕글")
    document.refs.add_hyperlink("https://example.org/a", "누리집", paragraph=link)
    start = len(document.paragraphs)
    for text in ("하나", "둘"):
        document.add_paragraph(text, style="바탕글")
    document.styles.apply_list_format(paragraph_indexes=[start, start + 1], kind="number")
    document.add_paragraph("점", style="바탕글")
    document.styles.apply_list_format(paragraph_index=start + 2, kind="bullet")
    document.add_paragraph("탭\t뒤 😀", style="바탕글")
    edited = document.add_paragraph("초안 확정", style="바탕글")
    document.tracking.delete(edited, match="초안 ")
    document.tracking.insert(edited, "본")
    path = tmp_path / f"a.{suffix}"
    document.save_to_path(str(path))
    return parse(path.read_bytes(), path.name)


@pytest.mark.parametrize("suffix", ["hwpx", "hwp"])
def test_a_document_reads_the_same_in_either_format(tmp_path: Path, suffix: str) -> None:
    document = made(tmp_path, suffix)
    assert document.blocks[0] == Block("heading", "사업 개요", level=1)
    assert [block.text for block in document.blocks[1:]] == [
        "첫 문단[^1][^2]",
        "표 제목",
        "| 00 01 |  | 02 |\n| --- | --- | --- |\n| 10 n00 / n01; n10 / n11 | 11 | 12 22 |\n| 20 | 21 |  |",
        "글상자",
        "수식 [math: \\frac{a}{b}]",
        "덧말 漢字(한자)",
        "서식 ☑ 동의 ☐ 거부이름",
        "링크 누리집",
        "1. 하나",
        "2. 둘",
        "- 점",
        "탭\t뒤 😀",
        "확정본",
        "[^1]: 각주 내용",
        "[^2]: 미주 내용",
        "이검토: 검토 바람",
        "대외비",
        "총무과",
    ]
    assert [block.place for block in document.blocks[-5:]] == ["footnotes", "endnotes", "comments", "header", "footer"]
    assert document.metadata["author"].isprintable()
    assert len(document.metadata["created"]) == len("2026-11-30")
    assert document.status == "ok"


@pytest.mark.parametrize(
    ("head", "product"),
    [
        (b"SCDSA002\x00\x00\xf0\x06", "Softcamp"),
        (b"<DOCUMENT SAFER V2010 R2>\r\n", "MarkAny"),
        (b"\x9b DRMONE  This Document is encrypted and protected by Fasoo DRM ", "Fasoo"),
        (b"<!-- FasooSecureContainer - Ver 1 -->", "Fasoo"),
        (b"<## NASCA DRM FILE - VER1.00 ##>", "NASCA"),
    ],
)
def test_a_companys_locked_file_is_named_by_its_product(head: bytes, product: str) -> None:
    assert product in drm(head + bytes(100))
    with pytest.raises(NeedsAction, match=product):
        parse(head + bytes(100), "a.hwp")
    assert not any(map(drm, (b"", b"SCD", b"PK\x03\x04SCDSA002", b"<!DOCTYPE html>", b"<!-- a comment -->")))


def test_content_decides_not_the_suffix() -> None:
    assert texts(parse(hwpx(p(t("zip"))), "a.hwp")) == ["zip"]
    assert texts(parse(hwp(paragraph(0, "ole")), "a.hwpx")) == ["ole"]


def test_an_old_hangul_needs_a_person() -> None:
    with pytest.raises(NeedsAction, match="HWP 3"):
        parse(b"HWP Document File V3.00 \x1a\x01\x02\x03\x04\x05" + bytes(200), "a.hwp")


def test_hwpml_is_read_whatever_it_is_called() -> None:
    body = (
        '<P ParaShape="1"><TEXT><CHAR>제목</CHAR></TEXT></P>'
        '<P ParaShape="0"><TEXT><CHAR>가<TAB/>나&nbsp;다</CHAR><TABLE><ROW><CELL ColAddr="0" RowAddr="0"><PARALIST>'
        '<P><TEXT><CHAR>갑</CHAR></TEXT></P></PARALIST></CELL><CELL ColAddr="1"><PARALIST><P><TEXT><CHAR>을</CHAR>'
        '</TEXT></P></PARALIST></CELL></ROW><ROW><CELL ColAddr="1"><PARALIST><P><TEXT><CHAR>병</CHAR></TEXT></P>'
        "</PARALIST></CELL></ROW></TABLE><FOOTNOTE><PARALIST><P><TEXT><AUTONUM Number='1' NumberType='Footnote'/>"
        "<CHAR>주석</CHAR></TEXT></P></PARALIST></FOOTNOTE></TEXT></P>"
    )
    head = (
        "<HEAD><DOCSUMMARY><TITLE>공고</TITLE><AUTHOR>김서가</AUTHOR></DOCSUMMARY><MAPPINGTABLE><PARASHAPELIST>"
        '<PARASHAPE Id="1" HeadingType="Outline" Level="1"/></PARASHAPELIST></MAPPINGTABLE></HEAD>'
    )
    tail = "<TAIL><BINDATASTORAGE><BINDATA>AAAA</BINDATA></BINDATASTORAGE></TAIL>"
    data = f'<?xml version="1.0"?><HWPML>{head}<BODY><SECTION>{body}</SECTION></BODY>{tail}</HWPML>'.encode()
    for name in ("a.hwp", "a.hwpx"):
        document = parse(data, name)
        assert document.blocks[0] == Block("heading", "제목", level=2)
        assert texts(document)[1:] == ["가\t나다", "| 갑 | 을 |\n| --- | --- |\n|  | 병 |", "[^1]"]
        assert texts(document, "footnotes") == ["[^1]: 주석"]
        assert (document.title, document.metadata, document.status) == ("공고", {"author": "김서가"}, "ok")


# --- .hwpx ---


def test_numbers_of_lists_are_counted_and_a_chapters_number_belongs_to_its_heading() -> None:
    numbering = (
        '<hh:numbering id="1"><hh:paraHead start="1" numFormat="DIGIT">제^1장</hh:paraHead></hh:numbering>'
        '<hh:numbering id="2"><hh:paraHead start="3" numFormat="HANGUL_SYLLABLE">^1)</hh:paraHead>'
        '<hh:paraHead start="1" numFormat="CIRCLED_DIGIT">^2</hh:paraHead></hh:numbering>'
    )
    shapes = "".join(
        f'<hh:paraPr id="{at}"><hh:heading type="{kind}" idRef="2" level="{level}"/></hh:paraPr>'
        for at, (kind, level) in enumerate([("OUTLINE", 0), ("NUMBER", 0), ("NUMBER", 1)])
    )
    setup = '<hp:secPr outlineShapeIDRef="1"/>'
    body = p(setup + t("총칙")) + p(t("ㄱ"), 1) + p(t("ㄴ"), 2) + p(t("ㄷ"), 1) + p(t("ㄹ"), 2) + p(t("부칙"))
    blocks = parse(hwpx(body, head=numbering + shapes), "a.hwpx").blocks
    assert [block.text for block in blocks] == ["제1장 총칙", "다) ㄱ", "① ㄴ", "라) ㄷ", "① ㄹ", "제2장 부칙"]
    assert [block.level for block in blocks] == [1, 0, 0, 0, 0, 1]


def test_deletions_reach_over_runs_and_paragraphs_with_the_tables_and_notes_in_them() -> None:
    note = f"<hp:ctrl><hp:footNote><hp:subList>{p(t('지운 각주'))}</hp:subList></hp:footNote></hp:ctrl>"
    grid = f"<hp:tbl><hp:tr><hp:tc><hp:subList>{p(t('지운 칸'))}</hp:subList></hp:tc></hp:tr></hp:tbl>"
    first = p(t("남고 <hp:deleteBegin/>지움") + note + grid)
    last = p(t("지움<hp:deleteEnd/>남는다 <hp:insertBegin/>새것<hp:insertEnd/>"))
    document = parse(hwpx(first + p(t("사이도 지움")) + last + p(t("다음"))), "a.hwpx")
    assert [block.text for block in document.blocks] == ["남고", "남는다 새것", "다음"]


def test_a_deletion_without_an_end_takes_no_more_than_its_paragraph() -> None:
    assert texts(parse(hwpx(p(t("가<hp:deleteBegin/>나")) + p(t("다"))), "a.hwpx")) == ["가", "다"]


def test_form_fields_decorated_characters_and_descriptions_are_read() -> None:
    inner = (
        '<hp:radioBtn caption="남" value="CHECKED"/><hp:radioBtn caption="여" value="UNCHECKED"/>'
        '<hp:edit><hp:text>입력한 값</hp:text></hp:edit><hp:comboBox selectedValue="서울"/>'
        '<hp:compose composeText="㊞"/><hp:textart text="표어"/><hp:ctrl><hp:bookmark name="b"/></hp:ctrl>'
        "<hp:pic><hp:shapeComment>본관 앞에서 찍은 사진</hp:shapeComment></hp:pic>"
        "<hp:pic><hp:shapeComment>그림입니다.\n원본 그림의 이름: a.bmp</hp:shapeComment></hp:pic>"
    )
    assert texts(parse(hwpx(p(inner)), "a.hwpx")) == ["☑ 남 ☐ 여 입력한 값 서울㊞표어[본관 앞에서 찍은 사진]"]


def test_a_chart_becomes_a_table_and_an_embedded_object_is_told() -> None:
    points = '<c:pt idx="0"><c:v>{}</c:v></c:pt>'
    chart = (
        '<c:chartSpace xmlns:c="urn:c"><c:chart><c:plotArea><c:ser><c:tx><c:v>매출</c:v></c:tx><c:cat><c:strCache>'
        f"{points.format('1분기')}</c:strCache></c:cat><c:val><c:numCache>{points.format('10')}</c:numCache></c:val>"
        "</c:ser></c:plotArea></c:chart></c:chartSpace>"
    )
    old = "<hp:default><hp:ole/></hp:default>"
    body = f'<hp:switch><hp:case><hp:chart chartIDRef="Chart/chart1.xml"/></hp:case>{old}</hp:switch>'
    document = parse(hwpx(p(body), Chart__chart1=chart), "a.hwpx")
    assert document.blocks == [Block("table", "| chart | 매출 |\n| --- | --- |\n| 1분기 | 10 |", header=2)]
    assert document.status == "ok"
    document = parse(hwpx(p(t("가") + "<hp:ole/>")), "a.hwpx")
    assert (texts(document), len(document.partial)) == (["가"], 1)


def test_master_pages_are_headers_and_page_numbers_are_nothing() -> None:
    page = f"<hm:masterPage {SPACES}><hp:subList>{p(t('경영 비밀'))}</hp:subList></hm:masterPage>"
    footer = f"<hp:ctrl><hp:footer><hp:subList>{p(t('- 3 -'))}</hp:subList></hp:footer></hp:ctrl>"
    document = parse(hwpx(p(footer + t("본문")), Contents__masterpage0=page), "a.hwpx")
    assert [(block.place, block.text) for block in document.blocks] == [("", "본문"), ("header", "경영 비밀")]


def test_a_section_that_only_the_spine_names_follows_those_with_numbers() -> None:
    items = '<item id="x" href="Contents/appendix.xml"/><item id="s" href="Contents/section0.xml"/>'
    hpf = f'<package><manifest>{items}</manifest><spine><itemref idref="x"/><itemref idref="s"/></spine></package>'
    more = {"Contents__content.hpf": hpf, "Contents__appendix": f"<hs:sec {SPACES}>{p(t('부록'))}</hs:sec>"}
    assert texts(parse(hwpx(p(t("본문")), **more), "a.hwpx")) == ["본문", "부록"]


def test_a_damaged_section_is_told_and_the_others_are_read() -> None:
    document = parse(hwpx(p(t("하나")), p(t("둘")), Contents__section2="<broken"), "a.hwpx")
    assert (texts(document), document.status) == (["하나", "둘"], "partial")
    with pytest.raises(ParseError, match="section0"):
        parse(hwpx(Contents__section0="<broken"), "a.hwpx")


# --- HWP 5 ---


def test_hwp5_tables_notes_and_boxes_stand_where_they_are_anchored() -> None:
    note: Part = (17, "fn  ", bytes(8), held("각주"))
    inner = table((0, 0, "ㄱ"), (0, 1, "ㄴ"), (1, 1, "ㄷ"))
    grid = table((0, 0, "구분"), (0, 1, "갑"), (0, 2, "을"), (1, 0, "넓다"), (1, 2, inner), caption="표 제목")
    box: Part = (11, "gso ", bytes(44), lambda level: record(76, level) + held("글상자")(level + 1))
    document = read("앞", note, " 사이", grid, "뒤", box)
    assert texts(document) == [
        "앞[^1] 사이",
        "표 제목",
        "| 구분 | 갑 | 을 |\n| --- | --- | --- |\n| 넓다 |  | ㄱ / ㄴ; ㄷ |",
        "뒤",
        "글상자",
    ]
    assert texts(document, "footnotes") == ["[^1]: 각주"]


def test_hwp5_headers_comments_equations_and_numbers_are_read() -> None:
    memo: Part = (3, "%%me", pack("<IB", 0, 0) + string("MEMO/1/1/0/0/이검토/;;"), held())
    number: Part = (18, "atno", pack("<IH", 4, 7), held())
    page: Part = (18, "atno", pack("<IH", 0, 9), held())
    script: Part = (11, "eqed", bytes(44), lambda level: record(88, level, bytes(4) + string("x sup 2")))
    parts: list[Part] = [(16, "head", bytes(8), held("대외비")), (16, "foot", bytes(8), held(page, "- 1 -"))]
    parts += [(15, "tcmt", b"", held("숨은 설명")), "표 ", number, " ", script, memo, "\x04" * 8, " 끝"]
    last = record(93, 1, bytes(4)) + held("메모")(1)
    document = parse(hwp(paragraph(0, *parts) + last), "a.hwp")
    assert texts(document) == ["표 7 [math: x^{2}] 끝"]
    assert texts(document, "comments") == ["숨은 설명", "이검토: 메모"]
    assert (texts(document, "header"), texts(document, "footer")) == (["대외비"], [])


def test_hwp5_marks_of_text_are_kept_and_deleted_ranges_are_not() -> None:
    tab = "\t" + "\x02" * 6 + "\t"
    text = f"가{tab}나\n다\x1e라\x18마\x1f바😀\ud800사\x00"
    made = hwp(paragraph(0, *text.split("\ud800"), (22, "bokm", b"", held()), "아"))
    assert texts(parse(made, "a.hwp")) == ["가\t나\n다 라-마 바😀사아"]
    ranges = pack("<III", 1, 3, 17 << 24) + pack("<III", 4, 6, 16 << 24) + pack("<III", 2, 4, 17 << 24)
    assert texts(parse(hwp(paragraph(0, "0123456", ranges=ranges)), "a.hwp")) == ["0456"]


def test_hwp5_headings_and_lists_come_from_docinfo() -> None:
    def shape(kind: int, level: int, numbering: int = 0) -> bytes:
        return record(25, 0, pack("<I26xH", kind << 23 | level << 25, numbering).ljust(54, b"\0"))

    level = pack("<III", 0, 0, 0)
    numbering = b"".join(level + string(form) for form in ("(^1)", *[""] * 6)) + pack("<HI", 0, 5)
    docinfo = shape(0, 0) + shape(1, 1) + shape(2, 0, 1) + shape(3, 1) + record(23, 0, numbering)
    docinfo += record(26, 0, string("바탕글") + string("Normal")) + record(26, 0, string("개요 3") + string(""))
    body = paragraph(0, "하나", shape=1) + paragraph(0, "둘", style=1) + paragraph(0, "셋", shape=2)
    body += paragraph(0, "넷", shape=2) + paragraph(0, "다섯", shape=3) + paragraph(0, "여섯")
    blocks = parse(hwp(body, docinfo=docinfo), "a.hwp").blocks
    assert [(block.level, block.text) for block in blocks] == [
        (2, "하나"),
        (3, "둘"),
        (0, "(5) 셋"),
        (0, "(6) 넷"),
        (0, "  - 다섯"),
        (0, "여섯"),
    ]


def test_hwp5_sections_come_in_numeric_order_compressed_or_not() -> None:
    sections = [paragraph(0, f"section {number}") for number in range(12)]
    for flags in (0, 1):
        assert texts(parse(hwp(*sections, flags=flags), "a.hwp")) == [f"section {number}" for number in range(12)]


def test_hwp5_body_of_a_document_with_tracked_changes_is_in_viewtext() -> None:
    document = parse(hwp(paragraph(0, "대역"), flags=0x4000, ViewText__Section0=paragraph(0, "본문")), "a.hwp")
    assert texts(document) == ["본문"]


@pytest.mark.parametrize(
    ("flags", "reason"), [(3, "password"), (5, "distribution"), (0x11, "DRM"), (0x101, "DRM"), (0x401, "DRM")]
)
def test_a_locked_hwp5_needs_a_person(flags: int, reason: str) -> None:
    with pytest.raises(NeedsAction, match=reason):
        parse(hwp(paragraph(0, "본문"), flags=flags), "a.hwp")


def test_what_stands_in_for_a_locked_hwp5_is_not_its_text() -> None:
    with pytest.raises(NeedsAction, match="distribution"):
        read("이 문서는 상위 버전의 배포용 문서입니다. 문서를 읽으려면 최신 버전이 필요합니다.")


def test_what_is_whole_of_a_damaged_hwp5_is_read_and_told() -> None:
    section = paragraph(0, "하나") + paragraph(0, "둘")
    cut = parse(hwp(section[:-1], flags=0), "a.hwp")
    assert (texts(cut), cut.status) == (["하나", "둘"], "partial")
    huge = parse(hwp(section + pack("<II", 67 | 0xFFF << 20, 0xFFFFFFFF), flags=0), "a.hwp")
    assert (texts(huge), huge.status) == (["하나", "둘"], "partial")


def test_the_preview_is_the_last_resort() -> None:
    preview = "미리 보기의 글".encode("utf-16-le")
    document = parse(hwp(BodyText__Section0=b"\xff\xff not packed", PrvText=preview), "a.hwp")
    assert (texts(document), document.status) == (["미리 보기의 글"], "partial")
    assert "preview" in " ".join(document.partial)
    with pytest.raises(ParseError, match="damaged"):
        parse(hwp(BodyText__Section0=b"\xff\xff not packed"), "a.hwp")
    with pytest.raises(ParseError, match="no section"):
        parse(hwp(), "a.hwp")


def test_an_ole2_file_of_another_kind_or_broken_is_refused() -> None:
    with pytest.raises((NeedsAction, ParseError)):
        parse(ole2({"WordDocument": bytes(5000)}), "a.hwp")
    data = hwp(paragraph(0, "본문"))
    for broken in (data[:700] + bytes(len(data) - 700), data[:44] + b"\xff\xff\xff\x7f" + data[48:]):
        with pytest.raises((NeedsAction, ParseError)):
            parse(broken, "a.hwp")


def test_hwp5_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hwp5, "MAX_UNPACKED_BYTES", 10_000)
    document = parse(hwp(paragraph(0, "앞") * 500), "a.hwp")
    assert "unpacks to more" in document.partial[0]
    monkeypatch.undo()
    monkeypatch.setattr(hwp5, "MAX_RECORDS", 100)
    document = parse(hwp(paragraph(0, "앞") * 500), "a.hwp")
    assert (len(document.blocks), document.status) == (50, "partial")
    monkeypatch.undo()
    monkeypatch.setattr(hwp5, "MAX_PARTS", 50)
    document = parse(hwp(paragraph(0, table(*((row, 0, "칸") for row in range(99)))) + paragraph(0, "뒤")), "a.hwp")
    assert (texts(document)[-1], document.status) == ("뒤", "partial")


def test_records_nested_a_thousand_deep_are_read_flat() -> None:
    deep = b"".join(paragraph(level, f"글{level}") for level in range(1023))
    document = parse(hwp(deep), "a.hwp")
    assert "글0" in document.blocks[0].text
