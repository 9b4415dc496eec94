"""parsers.py, the office formats: what is read from .docx, .hwpx, .xlsx and .pptx, and what is refused."""

from __future__ import annotations

import contextlib
import io
import re
import struct
import time
import zipfile
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from hwpx import HwpxDocument
from openpyxl.chart import BarChart, Reference
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from seoga.parsers import Block, Document, NeedsAction, ParseError, parse

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NAMESPACES = (
    f'xmlns:w="{WORD}" xmlns:r="{TYPES}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)


def zipped(parts: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def word(body: str, **others: str) -> bytes:
    """Make a .docx of a body and of other parts, such as `footnotes="<w:footnote …"`, each with its relationship."""
    kinds = {name: re.sub(r"\d", "", name) for name in others}
    links = "".join(f'<Relationship Id="{n}" Type="{TYPES}/{k}" Target="{n}.xml"/>' for n, k in kinds.items())
    parts: dict[str, str | bytes] = {
        "word/document.xml": f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{LINKS}">{links}</Relationships>',
    }
    parts |= {f"word/{name}.xml": f"<w:{name} {NAMESPACES}>{content}</w:{name}>" for name, content in others.items()}
    return zipped(parts)


def p(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{r(text)}</w:p>"


def r(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def hangul(*sections: str, head: str = "", **others: str) -> bytes:
    """Make a .hwpx in the 2011 namespaces of what stands in its sections."""
    spaces = (
        'xmlns:hp="http://www.hancom.co.kr/hwpml/2011/paragraph" xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section" '
        'xmlns:hh="http://www.hancom.co.kr/hwpml/2011/head" xmlns:opf="http://www.idpf.org/2007/opf/"'
    )
    parts: dict[str, str | bytes] = {"Contents/header.xml": f"<hh:head {spaces}>{head}</hh:head>"}
    for number, section in enumerate(sections):
        parts[f"Contents/section{number}.xml"] = f"<hs:sec {spaces}>{section}</hs:sec>"
    if "hpf" in others:
        parts["Contents/content.hpf"] = f"<opf:package {spaces}>{others['hpf']}</opf:package>"
    return zipped(parts)


def hp(inner: str, **attributes: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<hp:p{given}><hp:run>{inner}</hp:run></hp:p>"


def ht(text: str) -> str:
    return f"<hp:t>{text}</hp:t>"


def saved(thing: Any) -> bytes:
    file = io.BytesIO()
    thing.save(file)
    return file.getvalue()


def texts(document: Document, place: str | None = None) -> list[str]:
    return [block.text for block in document.blocks if place is None or block.place == place]


def changed(data: bytes, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """Copy a zip with each entry passed through `change(name, content)`; None drops it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        new = {name: change(name, archive.read(name)) for name in archive.namelist()}
    return zipped({name: content for name, content in new.items() if content is not None})


# --- .docx ---


def test_docx_body_keeps_order_headings_and_tables_with_their_header() -> None:
    made = docx.Document()
    made.add_heading("Annual report", 0)
    made.add_heading("Budget", 1)
    made.add_paragraph("Travel is capped.")
    table = made.add_table(3, 2)
    for row, (name, sum_) in enumerate([("Item", "Cost"), ("Train | bus", "120"), ("Hotel\nand breakfast", "300")]):
        table.cell(row, 0).text, table.cell(row, 1).text = name, sum_
    made.add_heading("Deadlines", 2)
    made.core_properties.title, made.core_properties.author = "보고서", "Kim"
    document = parse(saved(made), "report.docx")
    assert [(block.kind, block.level) for block in document.blocks] == [
        ("heading", 1),
        ("heading", 1),
        ("text", 0),
        ("table", 0),
        ("heading", 2),
    ]
    assert document.blocks[3] == Block(
        "table", "| Item | Cost |\n| --- | --- |\n| Train \\| bus | 120 |\n| Hotel and breakfast | 300 |", header=2
    )
    assert (document.title, document.metadata["author"], document.status) == ("보고서", "Kim", "ok")


def test_docx_headings_come_from_the_style_chain_its_name_or_the_paragraph() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="a"><w:name w:val="제목 3"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="b"><w:name w:val="Own"/><w:basedOn w:val="a"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="c"><w:name w:val="x"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="d"><w:name w:val="y"/><w:basedOn w:val="c"/>'
        '<w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="e"><w:name w:val="z"/><w:basedOn w:val="e"/></w:style>'
    )
    body = "".join(p(name, f'<w:pStyle w:val="{name}"/>') for name in ("a", "b", "c", "d", "e", "Heading4"))
    document = parse(word(body + p("f", '<w:outlineLvl w:val="0"/>'), styles=styles), "a.docx")
    levels = {block.text: block.level for block in document.blocks}
    assert levels == {"a": 3, "b": 3, "c": 2, "d": 0, "e": 0, "Heading4": 4, "f": 1}


def test_a_whole_paragraph_in_a_heading_style_is_text() -> None:
    document = parse(word(p("long " * 100, '<w:pStyle w:val="Heading1"/>')), "a.docx")
    assert document.blocks[0].kind == "text"


def test_docx_list_items_that_follow_each_other_are_one_block() -> None:
    def item(text: str, depth: int) -> str:
        return p(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="1"/></w:numPr>')

    styles = (
        '<w:style w:type="paragraph" w:styleId="List"><w:name w:val="List Bullet"/>'
        '<w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>'
    )
    plain = p("none", '<w:pStyle w:val="List"/><w:numPr><w:numId w:val="0"/></w:numPr>')
    body = item("one", 0) + item("two", 1) + p("styled", '<w:pStyle w:val="List"/>') + p("between") + item("three", 0)
    assert texts(parse(word(body + plain, styles=styles), "a.docx")) == [
        "- one\n  - two\n- styled",
        "between",
        "- three",
        "none",
    ]


def test_docx_reads_content_controls_hyperlinks_insertions_and_moves_but_no_deletions() -> None:
    body = (
        f"<w:sdt><w:sdtPr/><w:sdtContent>{p('controlled')}</w:sdtContent></w:sdt>"
        f"<w:p>{r('see ')}<w:hyperlink>{r('the site')}</w:hyperlink>"
        f"<w:ins>{r(' added')}</w:ins><w:del><w:r><w:delText> gone</w:delText></w:r></w:del>"
        f"<w:moveFrom>{r(' moved away')}</w:moveFrom><w:moveTo>{r(' moved here')}</w:moveTo>"
        f"<w:sdt><w:sdtContent>{r(' inline')}</w:sdtContent></w:sdt></w:p>"
    )
    assert texts(parse(word(body), "a.docx")) == ["controlled", "see the site added moved here inline"]


def test_docx_marks_become_characters() -> None:
    body = (
        "<w:p><w:pPr><w:tabs><w:tab w:val='left'/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/>"
        "<w:t>c</w:t><w:cr/><w:t>co</w:t><w:softHyphen/><w:t>op e</w:t><w:noBreakHyphen/><w:t>mail </w:t>"
        '<w:sym w:font="Symbol" w:char="F06D"/><w:sym w:font="Wingdings" w:char="F0FE"/>'
        '<w:sym w:font="Arial" w:char="20AC"/><w:sym w:font="Arial" w:char="D800"/></w:r></w:p>'
    )
    assert texts(parse(word(body), "a.docx"))[0] == "a\tb\nc\ncoop e-mail μ☑€�"


def test_docx_field_codes_and_hidden_text_are_left_out_and_results_kept() -> None:
    body = (
        "<w:p><w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>REF x</w:instrText></w:r>"
        f"<w:r><w:fldChar w:fldCharType='separate'/></w:r>{r('Chapter 3')}<w:r><w:fldChar w:fldCharType='end'/></w:r>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t> hidden</w:t></w:r>"
        "<w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t> shown</w:t></w:r></w:p>"
    )
    assert texts(parse(word(body), "a.docx")) == ["Chapter 3 shown"]


def test_docx_text_boxes_are_read_once() -> None:
    box = f"<w:txbxContent>{p('in the box')}</w:txbxContent>"
    body = (
        f"<w:p>{r('around ')}<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wps:txbx>{box}</wps:txbx>"
        f"</w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback>"
        f"</mc:AlternateContent></w:r>{r('the box')}</w:p>"
    )
    assert texts(parse(word(body), "a.docx")) == ["around the box", "in the box"]


def test_docx_notes_are_numbered_as_they_are_referred_to_and_separators_go_by_type() -> None:
    def note(kind: str, number: int, text: str, more: str = "") -> str:
        return f'<w:{kind} w:id="{number}" {more}>{p(text)}</w:{kind}>'

    def mark(kind: str, number: int) -> str:
        return f'<w:r><w:{kind}Reference w:id="{number}"/></w:r>'

    footnotes = (
        note("footnote", 7, "line", 'w:type="separator"') + note("footnote", 0, "zero") + note("footnote", 3, "b")
    )
    body = (
        f"<w:p>{r('x')}{mark('footnote', 3)}{mark('endnote', 5)}</w:p><w:p>{r('y')}{mark('footnote', 0)}"
        f"{mark('footnote', 7)}{mark('footnote', 99)}</w:p>"
    )
    document = parse(word(body, footnotes=footnotes, endnotes=note("endnote", 5, "end")), "a.docx")
    assert texts(document, "") == ["x[^1][^2]", "y[^3]"]
    assert texts(document, "footnotes") == ["[^1]: b", "[^3]: zero"]
    assert texts(document, "endnotes") == ["[^2]: end"]


def test_docx_comments_have_authors_and_headers_come_once_without_page_numbers() -> None:
    others = {
        "comments": f'<w:comment w:id="1" w:author="Lee">{p("why?")}</w:comment>',
        "header1": p("Confidential"),
        "header2": p("Confidential"),
        "footer1": p("- 3 / 12 쪽 -"),
        "footer2": p("ACME, page 2"),
    }
    document = parse(word(p("body"), **others), "a.docx")
    assert [(block.place, block.text) for block in document.blocks] == [
        ("", "body"),
        ("comments", "Lee: why?"),
        ("header", "Confidential"),
        ("footer", "ACME, page 2"),
    ]


def test_docx_merged_cells_hold_their_text_once_and_deleted_rows_are_gone() -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"

    start, more, two = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    body = (
        f"<w:tbl><w:tr>{cell('A')}{cell('B')}{cell('C')}</w:tr>"
        f"<w:sdt><w:sdtContent><w:tr>{cell('wide', two)}{cell('tall', start)}</w:tr></w:sdtContent></w:sdt>"
        f"<w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr>{cell('late')}{cell('covered', more)}</w:tr>"
        f"<w:tr><w:trPr><w:del/></w:trPr>{cell('gone')}</w:tr></w:tbl>"
    )
    assert texts(parse(word(body), "a.docx")) == [
        "| A | B | C |\n| --- | --- | --- |\n| wide |  | tall |\n|  | late |  |"
    ]


def test_nested_tables_keep_their_text_in_the_cell_and_layout_tables_are_opened() -> None:
    def table(*rows: list[str]) -> str:
        return "".join(
            [
                "<w:tbl>",
                *(f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in row)}</w:tr>" for row in rows),
                "</w:tbl>",
            ]
        )

    inner = table([p("1"), p("2")], [p("3"), p("4")])
    nested = table([p("head"), p("other")], [p("before") + inner + p("after"), p("z")])
    document = parse(word(table([p("Form", '<w:pStyle w:val="Heading1"/>') + nested])), "a.docx")
    assert [block.kind for block in document.blocks] == ["heading", "table"]
    assert document.blocks[1].text.splitlines()[2] == "| before 1 / 2; 3 / 4 after | z |"


def test_docx_equations_keep_their_text_in_place() -> None:
    body = f"<w:p>{r('area ')}<m:oMath><m:r><m:t>x+1</m:t></m:r></m:oMath>{r(' here')}</w:p>"
    assert texts(parse(word(body), "a.docx")) == ["area [math: x+1] here"]


def test_a_dangling_relationship_loses_nothing() -> None:
    made = docx.Document()
    made.add_paragraph("still here")

    def dangle(name: str, content: bytes) -> bytes:
        link = f'<Relationship Id="rId99" Type="{TYPES}/footnotes" Target="NULL"/></Relationships>'.encode()
        return content.replace(b"</Relationships>", link) if name == "word/_rels/document.xml.rels" else content

    assert texts(parse(changed(saved(made), dangle), "a.docx")) == ["still here"]


def test_a_main_part_of_another_name_in_another_case_is_found() -> None:
    link = f'<Relationship Id="1" Type="{TYPES}/officeDocument" Target="/Word/Document2.xml"/>'
    body = f"<w:document xmlns:w='{WORD}'><w:body>{p('found')}</w:body></w:document>"
    parts = {"_rels/.rels": f'<Relationships xmlns="{LINKS}">{link}</Relationships>', "word\\document2.xml": body}
    assert texts(parse(zipped({**parts}), "a.docx")) == ["found"]


# --- .hwpx ---


def test_hwpx_as_a_library_writes_it() -> None:
    made = HwpxDocument.new()
    made.add_heading("사업 개요", level=2)
    paragraph = made.add_paragraph("본문 문단", style="바탕글")
    made.notes.add_footnote("각주 내용", paragraph)
    made.notes.add_endnote("미주 내용", paragraph)
    table = made.add_table(2, 2)
    for row, column, text in ((0, 0, "항목"), (0, 1, "금액"), (1, 0, "교통비"), (1, 1, "120")):
        table.set_cell_text(row, column, text)
    made.notes.add_memo("검토 바람", anchor=paragraph)
    made.page.set_header(text="대외비")
    edited = made.add_paragraph("초안 확정", style="바탕글")
    made.tracking.delete(edited, match="초안 ")
    made.tracking.insert(edited, "본")
    document = parse(made.to_bytes(), "a.hwpx")
    assert document.blocks[0] == Block("heading", "사업 개요", level=2)
    assert texts(document, "")[1:] == [
        "본문 문단[^1][^2]",
        "| 항목 | 금액 |\n| --- | --- |\n| 교통비 | 120 |",
        "확정본",
    ]
    assert texts(document, "footnotes") == ["[^1]: 각주 내용"]
    assert texts(document, "endnotes") == ["[^2]: 미주 내용"]
    assert [text for text in texts(document, "comments") if text.endswith("검토 바람")]
    assert texts(document, "header") == ["대외비"]
    assert document.metadata["author"]


def test_hwpx_sections_come_in_numeric_order() -> None:
    document = parse(hangul(*(hp(ht(f"section {number}")) for number in range(12))), "a.hwpx")
    assert texts(document) == [f"section {number}" for number in range(12)]


def test_hwpx_text_keeps_what_stands_between_its_marks() -> None:
    inner = (
        '가<hp:tab width="1"/>나<hp:lineBreak/>다<hp:nbSpace/>라<hp:fwSpace/>마<hp:markpenBegin/>바<hp:markpenEnd/>사'
    )
    assert texts(parse(hangul(hp(ht(inner))), "a.hwpx")) == ["가\t나\n다 라 마바사"]


def test_hwpx_headings_and_lists_come_from_the_header_part() -> None:
    head = (
        '<hh:paraPr id="1"><hh:heading type="OUTLINE" level="0"/></hh:paraPr>'
        '<hh:paraPr id="2"><hh:heading type="BULLET" level="1"/></hh:paraPr>'
        '<hh:style id="5" name="개요 3"/>'
    )
    body = hp(ht("하나"), paraPrIDRef="1") + hp(ht("둘"), styleIDRef="5") + hp(ht("셋"), paraPrIDRef="2")
    blocks = parse(hangul(body, head=head), "a.hwpx").blocks
    assert [(block.level, block.text) for block in blocks] == [(1, "하나"), (3, "둘"), (0, "  - 셋")]


def test_hwpx_tables_stand_in_their_place_merged_nested_and_captioned() -> None:
    def cell(row: int, column: int, inner: str) -> str:
        address = f'<hp:cellAddr colAddr="{column}" rowAddr="{row}"/>'
        return f"<hp:tc><hp:subList>{hp(inner)}</hp:subList>{address}</hp:tc>"

    nested = f"<hp:tbl><hp:tr>{cell(0, 0, ht('ㄱ'))}{cell(0, 1, ht('ㄴ'))}</hp:tr></hp:tbl>"
    table = (
        f"<hp:tbl><hp:caption><hp:subList>{hp(ht('표 ') + AUTO_NUMBER + ht(' 예산'))}</hp:subList></hp:caption>"
        f"<hp:tr>{cell(0, 0, ht('구분'))}{cell(0, 1, ht('갑'))}{cell(0, 2, ht('을'))}</hp:tr>"
        f"<hp:tr>{cell(1, 0, ht('넓다'))}{cell(1, 2, nested)}</hp:tr></hp:tbl>"
    )
    document = parse(hangul(hp(ht("앞") + table + ht("뒤"))), "a.hwpx")
    assert texts(document) == [
        "앞",
        "표 7 예산",
        "| 구분 | 갑 | 을 |\n| --- | --- | --- |\n| 넓다 |  | ㄱ / ㄴ |",
        "뒤",
    ]


AUTO_NUMBER = '<hp:ctrl><hp:autoNum num="7" numType="TABLE"/></hp:ctrl>'


def test_hwpx_text_boxes_groups_hidden_comments_and_equations_are_read() -> None:
    box = f"<hp:rect><hp:drawText><hp:subList>{hp(ht('상자'))}</hp:subList></hp:drawText></hp:rect>"
    hidden = f"<hp:ctrl><hp:hiddenComment><hp:subList>{hp(ht('숨은 설명'))}</hp:subList></hp:hiddenComment></hp:ctrl>"
    equation = (
        "<hp:equation><hp:shapeComment>수식입니다.</hp:shapeComment><hp:script>a over b</hp:script></hp:equation>"
    )
    body = hp(ht("글 ") + f"<hp:container>{box}</hp:container>" + hidden + equation)
    document = parse(hangul(body), "a.hwpx")
    assert [(block.place, block.text) for block in document.blocks] == [
        ("", r"글 [math: \frac{a}{b}]"),
        ("", "상자"),
        ("comments", "숨은 설명"),
    ]


def test_hwpx_deletions_end_where_they_are_marked_to_end() -> None:
    first = hp(ht("keep <hp:deleteBegin/>gone") + ht("gone too<hp:deleteEnd/> kept"))
    second = hp(ht("tail of a deletion<hp:deleteEnd/>rest"))
    assert texts(parse(hangul(first + second), "a.hwpx")) == ["keep  kept", "rest"]


def test_hwpx_metadata_is_read_by_name_attribute_and_any_namespace_will_do() -> None:
    hpf = (
        '<opf:metadata><opf:title>규정집</opf:title><opf:meta name="creator" content="text">김서가</opf:meta>'
        '<opf:meta name="CreatedDate" content="text">2026-11-30T01:02:03Z</opf:meta>'
        '<opf:meta name="subject" content="text"/></opf:metadata>'
    )
    data = hangul(hp(ht("본문")), hpf=hpf)
    newer = changed(data, lambda name, content: content.replace(b"/2011/", b"/2024/"))
    for document in (parse(data, "a.hwpx"), parse(newer, "a.hwpx")):
        assert (document.title, texts(document)) == ("규정집", ["본문"])
        assert document.metadata == {"author": "김서가", "created": "2026-11-30"}


def test_an_encrypted_hwpx_needs_a_person() -> None:
    manifest = '<odf:manifest xmlns:odf="urn:x"><odf:file-entry><odf:encryption-data/></odf:file-entry></odf:manifest>'
    with pytest.raises(NeedsAction, match="password"):
        parse(zipped({"META-INF/manifest.xml": manifest, "Contents/section0.xml": b"\x01\x02\x03"}), "a.hwpx")


# --- .xlsx ---


def workbook(rows: Iterable[Iterable[Any]], title: str = "Budget") -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = title
    for row in rows:
        sheet.append(list(row))
    return book


def test_xlsx_sheets_are_tables_with_real_row_numbers() -> None:
    book = workbook([["Year plan"], [], ["Item", "Cost"], ["Train", 120], [], ["Hotel", 300]])
    hidden = book.create_sheet("Old")
    hidden.append(["a", "b"])
    hidden.append([1, 2])
    hidden.sheet_state = "hidden"
    book.properties.title = "Plan"
    document = parse(saved(book), "a.xlsx")
    assert document.blocks == [
        Block("text", "Year plan", "sheet Budget"),
        Block(
            "table", "| Item | Cost |\n| --- | --- |\n| Train | 120 |\n| Hotel | 300 |", "sheet Budget", 0, 2, (4, 6)
        ),
        Block("table", "| a | b |\n| --- | --- |\n| 1 | 2 |", "sheet Old (hidden)", 0, 2, (2,)),
    ]
    assert (document.title, document.status) == ("Plan", "ok")


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (datetime(2026, 11, 30), "yyyy-mm-dd", "2026-11-30"),  # noqa: DTZ001 - spreadsheets have no time zones
        (datetime(2026, 11, 30, 14, 5), "yyyy-mm-dd h:mm", "2026-11-30 14:05"),  # noqa: DTZ001
        (0.1 + 0.2, "General", "0.3"),
        (3.0, "General", "3"),
        (12345678901234, "General", "12345678901234"),
        (True, "General", "TRUE"),
        (0.125, "0.0%", "12.5%"),
        (1234567.891, "#,##0.00", "1,234,567.89"),
        (-1500, "#,##0", "-1,500"),
        (2.5, "0", "3"),
        (1234, '[$₩-412]#,##0"원"', "₩1,234원"),
        (7, "000", "007"),
        (12.5, "0.00E+00", "1.25E+01"),
        (5, "[>9]0.0;0", "5"),
        (1e300, "0.00", "1e+300"),
        (-0.001, "0.0", "0.0"),
    ],
)
def test_xlsx_values_are_shown_as_the_spreadsheet_shows_them(value: Any, code: str, shown: str) -> None:
    book = workbook([["name", "value"], ["x", value]])
    book.worksheets[0]["B2"].number_format = code
    assert parse(saved(book), "a.xlsx").blocks[0].text.splitlines()[2] == f"| x | {shown} |"


def test_xlsx_merged_cells_hold_their_value_once_and_blank_columns_are_skipped() -> None:
    book = workbook([["Region", None, "Sum"], ["Seoul", None, 1], [None, None, 2]])
    book.worksheets[0].merge_cells("A2:A3")
    assert parse(saved(book), "a.xlsx").blocks[0].text == "| Region | Sum |\n| --- | --- |\n| Seoul | 1 |\n|  | 2 |"


def test_xlsx_repeats_the_header_in_blocks_of_500_rows() -> None:
    blocks = parse(saved(workbook([["n", "m"], *([n, n] for n in range(1200))])), "a.xlsx").blocks
    assert [len(block.rows) for block in blocks] == [500, 500, 200]
    assert all(block.text.startswith("| n | m |\n| --- | --- |\n") for block in blocks)
    assert blocks[2].rows[-1] == 1201


def test_xlsx_row_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seoga.sheets.MAX_SHEET_ROWS", 3)
    document = parse(saved(workbook([["n", "m"], *([n, n] for n in range(9))])), "a.xlsx")
    assert document.blocks[0].rows == (2, 3)
    assert document.partial == ["only the first 3 rows are read; the rest begins in sheet Budget"]


def test_xlsx_a_wrong_dimension_loses_no_rows() -> None:
    data = saved(workbook([["a", "b"], [1, 2], [3, 4]]))
    wrong = changed(data, lambda _, content: content.replace(b'<dimension ref="A1:B3"', b'<dimension ref="A1"'))
    assert wrong != data
    assert parse(wrong, "a.xlsx").blocks == parse(data, "a.xlsx").blocks


def test_xlsx_far_and_wide_sheets_are_quick() -> None:
    book = workbook([["a", "b"], [1, 2]])
    book.worksheets[0]["XFD1048576"] = "far"
    for number in range(300):
        book.worksheets[0].cell(number + 3, 16_000, number)
    document, seconds = timed(lambda: parse(saved(book), "a.xlsx"))
    assert document.blocks[-1].rows[-1] == 1_048_576
    assert seconds < 10


def test_xlsx_a_row_number_beyond_the_sheet_does_not_hang() -> None:
    data = saved(workbook([["a", "b"], [1, 2]]))
    far = changed(data, lambda _, content: content.replace(b'<row r="2"', b'<row r="2000000000"'))
    assert timed(lambda: parse(far, "a.xlsx"))[1] < 10


def test_xlsx_more_than_a_thousand_columns_are_partial() -> None:
    document = parse(saved(workbook([range(1500), range(1500)])), "a.xlsx")
    assert document.partial == ["columns beyond 1,000 that hold anything are left out, sheet Budget"]


def test_xlsx_formulas_give_their_stored_values_or_are_told_of() -> None:
    book = workbook([["a", "sum"], [1, "=A2+1"], [2, "=A3+1"]])
    document = parse(saved(book), "a.xlsx")
    assert document.partial == ["2 formulas have no stored value: save the file in a spreadsheet program"]
    stored = changed(saved(book), lambda _, content: re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>42</v>", content))
    document = parse(stored, "a.xlsx")
    assert (document.status, document.blocks[0].text.splitlines()[2]) == ("ok", "| 1 | 42 |")


def test_xlsx_markup_that_never_ends_does_not_hang() -> None:
    for endless in (b"<c " * 2_000_000, b"<c><f></f>" + b" " * 2_000_000, b"<c " + b" " * 2_000_000):
        with zipfile.ZipFile(io.BytesIO(saved(workbook([["a", "b"], [1, 2]])))) as archive:
            sheet = archive.read("xl/worksheets/sheet1.xml")
        data = with_part("xlsx", "xl/worksheets/sheet1.xml", sheet.replace(b"</sheetData>", endless))
        document, seconds = timed(lambda data=data: parse(data, "a.xlsx"))  # type: ignore[misc]
        assert (document.status, document.blocks[0].rows, seconds < 10) == ("partial", (2,), True)


def test_xlsx_millions_of_blank_cells_end_the_reading_of_a_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seoga.sheets.MAX_BLANK_CELLS", 1000)
    rows = b'<row r="7"><c><v>5</v></c></row><row r="8">' + b'<c s="1"/>' * 1001 + b"<c><v>6</v></c></row>"
    sheet = b"<worksheet><sheetData>" + rows + b"</sheetData></worksheet>"
    document = parse(with_part("xlsx", "xl/worksheets/sheet1.xml", sheet), "a.xlsx")
    assert texts(document) == ["5"]
    assert document.partial == ["sheet Budget is read to row 7: its blank cells are too many"]


def test_xlsx_chart_sheets_are_skipped() -> None:
    book = workbook([["a", "b"], [1, 2]])
    chart = BarChart()
    chart.add_data(Reference(book.worksheets[0], min_col=1, min_row=1, max_row=2))
    book.create_chartsheet("Chart").add_chart(chart)
    book.create_sheet("Last").append(["x", "y"])
    document = parse(saved(book), "a.xlsx")
    assert [block.place for block in document.blocks] == ["sheet Budget", "sheet Last"]


def test_xlsx_with_42_000_merged_cells_is_quick() -> None:
    merges = "".join(f'<mergeCell ref="A{n}:B{n}"/>' for n in range(2, 42_002)).encode()
    data = changed(
        saved(workbook([["a", "b"], [1, 2]])),
        lambda _, content: content.replace(b"</sheetData>", b"</sheetData><mergeCells>" + merges + b"</mergeCells>"),
    )
    assert timed(lambda: parse(data, "a.xlsx"))[1] < 10


# --- .pptx ---


def test_pptx_slides_are_read_title_first_then_from_the_top_and_the_left() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    for left, top, text in ((5, 3, "right"), (1, 3.1, "left"), (1, 6, "bottom"), (1, 0, "above")):
        slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1)).text_frame.text = text
    slide.shapes.title.text = "Plan\vfor 2027"
    deck.core_properties.title = "Deck"
    document = parse(saved(deck), "a.pptx")
    assert document.blocks[0] == Block("heading", "Plan for 2027", "slide 1", 1)
    assert texts(document)[1:] == ["above", "left", "right", "bottom"]
    assert document.title == "Deck"


def test_pptx_body_placeholders_take_their_place_from_the_layout() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.add_textbox(0, Inches(0.1), Inches(2), Inches(1)).text_frame.text = "banner"
    frame = slide.placeholders[1].text_frame
    frame.text = "first"
    frame.add_paragraph().text = "deeper"
    frame.paragraphs[1].level = 1
    assert texts(parse(saved(deck), "a.pptx")) == ["banner", "first\n  - deeper"]


def test_pptx_groups_tables_charts_and_notes_are_read() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    group = slide.shapes.add_group_shape()
    for _ in range(30):
        group = group.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 1, 1).text_frame.text = "deep inside"
    table = slide.shapes.add_table(2, 3, Inches(1), Inches(2), Inches(5), Inches(1)).table
    for number, cell in enumerate(table.iter_cells()):
        cell.text = f"cell {number}"
    table.cell(1, 0).merge(table.cell(1, 1))
    table.cell(1, 1).text = "covered"
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["Q1", "Q2"]
    data.add_series("Sales", (4.4000000000000004, 2))
    place = (Inches(1), Inches(4), Inches(5), Inches(2))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.PIE, *place, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Revenue"
    slide.notes_slide.notes_text_frame.text = "Say hello"
    document = parse(saved(deck), "a.pptx")
    assert texts(document, "slide 1") == [
        "deep inside",
        "| cell 0 | cell 1 | cell 2 |\n| --- | --- | --- |\n| cell 3 cell 4 |  | cell 5 |",
        "| Revenue | Sales |\n| --- | --- |\n| Q1 | 4.4 |\n| Q2 | 2 |",
    ]
    assert texts(document, "slide 1, notes") == ["Say hello"]


def test_pptx_numbers_dates_and_repeated_footers_are_not_text_of_a_slide() -> None:
    deck = pptx.Presentation()
    for _ in range(2):
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        for kind, text in (("sldNum", "12"), ("dt", "1 May"), ("ftr", "ACME internal")):
            box = slide.shapes.add_textbox(0, 0, 1, 1)
            box.text_frame.text = text
            nvpr = box._element.find(".//{*}nvPr")
            nvpr.append(nvpr.makeelement(nvpr.tag.replace("nvPr", "ph"), {"type": kind}))
    assert parse(saved(deck), "a.pptx").blocks == [Block("text", "ACME internal", "footer")]


def test_pptx_shapes_with_equations_and_smart_art_are_read() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_textbox(0, 0, 1, 1).text_frame.text = "EQ"
    dgm = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    draw = "http://schemas.openxmlformats.org/drawingml/2006/main"
    frame = (
        f'<p:graphicFrame><a:graphic><a:graphicData><d:relIds xmlns:d="{dgm}" xmlns:r="{TYPES}" r:dm="rId77"/>'
        "</a:graphicData></a:graphic></p:graphicFrame></p:spTree>"
    )
    model = (
        f'<d:dataModel xmlns:d="{dgm}" xmlns:a="{draw}"><d:ptLst><d:pt><d:t><a:p><a:r><a:t>Step 1</a:t></a:r>'
        "</a:p></d:t></d:pt><d:pt><d:t><a:p><a:r><a:t>Step 2</a:t></a:r></a:p></d:t></d:pt></d:ptLst></d:dataModel>"
    )

    def change(name: str, content: bytes) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        if name == "ppt/slides/slide1.xml":
            compatible = "http://schemas.openxmlformats.org/markup-compatibility/2006"
            text = text.replace("<p:sp>", f'<mc:AlternateContent xmlns:mc="{compatible}"><mc:Choice><p:sp>')
            text = text.replace(
                "</p:sp>", "</p:sp></mc:Choice><mc:Fallback><p:pic/></mc:Fallback></mc:AlternateContent>"
            )
            text = text.replace("<a:t>EQ</a:t>", "<a:t>E = </a:t>").replace(
                "</a:r></a:p>", "</a:r><m:oMath xmlns:m='urn:m'><m:r><m:t>mc²</m:t></m:r></m:oMath></a:p>"
            )
            text = text.replace("</p:spTree>", frame)
        if name == "ppt/slides/_rels/slide1.xml.rels":
            link = f'<Relationship Id="rId77" Type="{TYPES}/diagramData" Target="../diagrams/data1.xml"/>'
            text = text.replace("</Relationships>", f"{link}</Relationships>")
        return text.encode("utf-8", "surrogateescape")

    with zipfile.ZipFile(file := io.BytesIO(changed(saved(deck), change)), "a") as archive:
        archive.writestr("ppt/diagrams/data1.xml", model)
    assert sorted(texts(parse(file.getvalue(), "a.pptx"))) == ["E = [math: mc^{2}]", "Step 1\nStep 2"]


def test_pptx_hidden_slides_are_marked_and_a_broken_one_loses_no_other() -> None:
    deck = pptx.Presentation()
    for text in ("one", "two", "three", "four"):
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 1, 1).text_frame.text = text
    slide._element.set("show", "0")

    def damage(name: str, content: bytes) -> bytes | None:
        if name == "ppt/slides/slide2.xml":
            return content[: len(content) // 2]
        return None if name == "ppt/slides/slide3.xml" else content

    document = parse(changed(saved(deck), damage), "a.pptx")
    assert [(block.place, block.text) for block in document.blocks] == [
        ("slide 1", "one"),
        ("slide 4 (hidden)", "four"),
    ]
    assert [note.split(" (")[0] for note in document.partial] == [
        "ppt/slides/slide2.xml is damaged",
        "slide 2 is left out: it is missing or damaged",
        "slide 3 is left out: it is missing or damaged",
    ]


# --- hostile and broken files ---


def timed(action: Callable[[], Document]) -> tuple[Document, float]:
    start = time.monotonic()
    return action(), time.monotonic() - start


SUFFIXES = ("docx", "hwpx", "xlsx", "pptx")
MAIN = {
    "docx": "word/document.xml",
    "hwpx": "Contents/section0.xml",
    "xlsx": "xl/workbook.xml",
    "pptx": "ppt/presentation.xml",
}


@pytest.fixture(params=SUFFIXES)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sample(suffix: str) -> bytes:
    if suffix == "hwpx":
        return hangul(hp(ht("hello")))
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, 1, 1).text_frame.text = "hello"
    return word(p("hello")) if suffix == "docx" else saved(deck if suffix == "pptx" else workbook([["a", "b"], [1, 2]]))


def with_part(suffix: str, part: str, content: bytes) -> bytes:
    return changed(sample(suffix), lambda name, old: content if name == part else old)


def fails_or_is_empty(data: bytes, suffix: str) -> None:
    start = time.monotonic()
    with contextlib.suppress(ParseError):
        assert all(block.kind == "text" for block in parse(data, f"a.{suffix}").blocks)
    assert time.monotonic() - start < 10


def refused(data: bytes, suffix: str, match: str) -> None:
    start = time.monotonic()
    with pytest.raises(ParseError, match=match):
        parse(data, f"a.{suffix}")
    assert time.monotonic() - start < 10


def test_what_is_no_zip_is_refused(suffix: str) -> None:
    refused(b"plain text", suffix, "not really")
    refused(b"", suffix, "not really")
    refused(sample(suffix)[:-100], suffix, "damaged")
    refused(zipped({"readme.txt": "x"}), suffix, "holds no|not really")


def test_a_password_or_an_old_format_needs_a_person(suffix: str) -> None:
    with pytest.raises(NeedsAction, match=rf"protected by a password, or an old .*as \.{suffix}"):
        parse(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), f"a.{suffix}")


def test_an_encrypted_zip_needs_a_person(suffix: str) -> None:
    data = bytearray(sample(suffix))
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    with pytest.raises(NeedsAction, match="password"):
        parse(bytes(data), f"a.{suffix}")


def test_a_doctype_is_refused_in_any_encoding(suffix: str) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>'
    for content in (bomb, b" " * 5000 + bomb, b"\xff\xfe" + bomb.decode().encode("utf-16-le")):
        refused(with_part(suffix, MAIN[suffix], content), suffix, "DOCTYPE")


def test_zip_bombs_are_refused_by_their_directory(suffix: str) -> None:
    refused(zipped({MAIN[suffix]: b" " * 121_000_000}), suffix, "zip bomb|unpacks to more than")
    refused(zipped({f"media/{n}.bin": bytes(50_000_000) for n in range(9)}), suffix, "zip bomb")
    refused(zipped({f"{n}.xml": b"" for n in range(10_001)}), suffix, "entries")


def test_a_lying_size_is_refused(suffix: str) -> None:
    data = bytearray(zipped({MAIN[suffix]: b"<x>" + b" " * 30_000_000 + b"</x>"}))
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 1000)
    refused(bytes(data), suffix, "zip bomb")


def test_overlapping_entries_are_refused(suffix: str) -> None:
    data = bytearray(zipped({"a.xml": b"<a/>", "b.xml": b"<b/>"}))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<I", data, second + 42, 0)
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 42, 0)
    refused(bytes(data), suffix, "overlap")


@pytest.mark.parametrize(
    ("suffix", "part", "before", "after"),
    [
        ("docx", "word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>', "</w:body></w:document>"),
        ("hwpx", "Contents/section0.xml", '<hs:sec xmlns:hs="urn:hs">', "</hs:sec>"),
        ("xlsx", "xl/worksheets/sheet1.xml", "<worksheet><sheetData>", "</sheetData></worksheet>"),
        ("pptx", "ppt/slides/slide1.xml", '<p:sld xmlns:p="urn:p">', "</p:sld>"),
    ],
)
def test_xml_200_000_levels_deep_fails_fast(suffix: str, part: str, before: str, after: str) -> None:
    deep = before + "<x>" * 200_000 + "</x>" * 200_000 + after
    fails_or_is_empty(with_part(suffix, part, deep.encode()), suffix)


def test_a_table_nested_as_deep_as_the_parser_allows_is_read() -> None:
    inner = p("core")
    for _ in range(60):
        inner = f"<w:tbl><w:tr><w:tc>{inner}</w:tc><w:tc>{p('x')}</w:tc></w:tr></w:tbl>"
    assert "core" in "".join(texts(parse(word(inner), "a.docx")))


def test_a_damaged_part_beside_the_text_is_partial() -> None:
    data = word(p("the text"), styles=f"<!--{'unlikely bytes ' * 9}-->")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("word/styles.xml")
    broken = bytearray(data)
    at = info.header_offset + 30 + len(info.filename) + 12
    broken[at : at + 8] = b"\xff" * 8
    document = parse(bytes(broken), "a.docx")
    assert (texts(document), document.status) == (["the text"], "partial")


def test_text_before_the_damage_is_kept() -> None:
    document = parse(
        with_part("docx", MAIN["docx"], f"<w:d xmlns:w='{WORD}'><w:body>{p('kept')}<w:p>".encode()), "a.docx"
    )
    assert (texts(document), document.status) == (["kept"], "partial")


def test_a_hundred_thousand_paragraphs_take_seconds() -> None:
    document, seconds = timed(lambda: parse(word("".join(p(f"paragraph {n}") for n in range(100_000))), "a.docx"))
    assert len(document.blocks) == 100_000
    assert seconds < 15
