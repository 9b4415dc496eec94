"""office.py, numbering.py, sheets.py and opendocument.py: what documents have beyond paragraphs, tables and cells."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import openpyxl
import pptx
import pytest
from openpyxl.comments import Comment
from pptx.util import Inches

from seoga.numbering import Level, List, numeral
from seoga.office import shown_number
from seoga.parsers import Block, Document, NeedsAction, parse

# What is read goes by local names, so any namespace will do.
PREFIXES = "w r a c dgm wp mc m a14 p xdr v o office text table draw style meta svg dc"
SPACES = " ".join(f'xmlns:{prefix}="urn:{prefix}"' for prefix in PREFIXES.split(" "))
Parts = dict[str, str | bytes]


def zipped(parts: Parts) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def added(data: bytes, parts: Parts, changes: dict[str, tuple[str, str]]) -> bytes:
    """Copy a zip with more parts; in those named by `changes`, the first text gives way to the second."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        old: Parts = {name: archive.read(name) for name in archive.namelist()}
    for name, (before, after) in changes.items():
        text = bytes(old[name]).decode()  # type: ignore[arg-type]
        assert before in text
        old[name] = text.replace(before, after, 1)
    return zipped(old | parts)


def links(**parts: str) -> str:
    """`x="styles styles.xml"` -> the relationship x, of the type styles, to that part."""
    items = ((name, *to.split()) for name, to in parts.items())
    inner = "".join(f'<Relationship Id="{n}" Type="x/{kind}" Target="{part}"/>' for n, kind, part in items)
    return f"<Relationships>{inner}</Relationships>"


def word(body: str, parts: Parts | None = None, related: dict[str, str] | None = None, **others: str) -> bytes:
    """Make a .docx of a body and parts such as `styles="<w:style …"`; `related` is more relationships."""
    made: Parts = {"word/document.xml": f"<w:document {SPACES}><w:body>{body}</w:body></w:document>"}
    made["word/_rels/document.xml.rels"] = links(**{name: f"{name} {name}.xml" for name in others} | (related or {}))
    made |= {f"word/{name}.xml": f"<w:{name} {SPACES}>{content}</w:{name}>" for name, content in others.items()}
    return zipped(made | (parts or {}))


def r(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{r(text) if text and text[0] != '<' else text}</w:p>"


def styled(text: str, style: str, more: str = "") -> str:
    return p(text, f'<w:pStyle w:val="{style}"/>{more}')


def style(name: str, inner: str) -> str:
    return f'<w:style w:styleId="{name}">{inner}</w:style>'


def saved(thing: Any) -> bytes:
    file = io.BytesIO()
    thing.save(file)
    return file.getvalue()


def texts(document: Document, place: str | None = None) -> list[str]:
    return [block.text for block in document.blocks if place is None or block.place == place]


# --- .docx: numbers ---


def level(at: int, text: str, form: str = "decimal", more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


def listed(*levels: str, number: int = 1, more: str = "") -> str:
    return (
        f'<w:abstractNum w:abstractNumId="{number}">{"".join(levels)}</w:abstractNum>'
        f'<w:num w:numId="{number}"><w:abstractNumId w:val="{number}"/>{more}</w:num>'
    )


def item(text: str, at: int = 0, number: int = 1, more: str = "") -> str:
    return p(text, f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>{more}')


def test_clauses_of_a_contract_have_their_numbers_and_bullets_stay() -> None:
    clause = level(0, "제%1조", more='<w:suff w:val="space"/>')
    numbering = listed(clause, level(1, "%2.", "ganada"), level(2, "", "bullet"))
    body = item("(목적)") + item("하나", 1) + item("둘", 1) + item("점", 2) + item("점", 2) + item("(정의)")
    document = parse(word(body + item("셋", 1), numbering=numbering), "a.docx")
    after = ["제2조 (정의)", "가. 셋"]
    assert texts(document) == ["제1조 (목적)", "가. 하나", "나. 둘", "    - 점\n    - 점", *after]


def test_headings_are_numbered_by_the_level_that_goes_with_their_style() -> None:
    linked = [level(at, text, more=f'<w:pStyle w:val="H{at + 1}"/>') for at, text in enumerate(("%1", "%1.%2"))]
    numbering = listed(*linked, number=5) + listed(level(0, "%1)"))
    number = "<w:pPr><w:numPr><w:numId w:val='5'/></w:numPr></w:pPr>"
    styles = "".join(style(f"H{n}", f'<w:name w:val="heading {n}"/>{number}') for n in (1, 2))
    body = "".join(styled("Scope", name) for name in ("H1", "H2", "H1", "H2"))
    off = styled("Annex", "H1", '<w:numPr><w:numId w:val="0"/></w:numPr>')
    blocks = parse(word(body + off, styles=styles, numbering=numbering), "a.docx").blocks
    assert [block.level for block in blocks] == [1, 2, 1, 2, 1]
    assert [block.text for block in blocks] == ["1 Scope", "1.1 Scope", "2 Scope", "2.1 Scope", "Annex"]


def test_lists_of_one_definition_count_on_and_an_override_begins_anew() -> None:
    anew = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    changed = f'<w:lvlOverride w:ilvl="0">{level(0, "[%1]", "upperRoman")}</w:lvlOverride>'
    num = '<w:num w:numId="{0}"><w:abstractNumId w:val="1"/>{1}</w:num>'
    numbering = listed(level(0, "%1.")) + num.format(2, "") + num.format(3, anew) + num.format(4, changed)
    body = item("a") + item("b", number=2) + item("c", number=3) + item("d", number=3) + item("e") + item("f", number=4)
    labelled = ["1. a", "2. b", "7. c", "8. d", "9. e", "[X] f"]
    assert texts(parse(word(body, numbering=numbering), "a.docx")) == labelled


def test_a_definition_may_be_that_of_a_list_style_and_deleted_paragraphs_do_not_count() -> None:
    numbering = listed(level(0, "(%1)", "lowerRoman"), number=8)
    numbering += '<w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="L"/></w:abstractNum>'
    numbering += '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    styles = style("L", '<w:pPr><w:numPr><w:numId w:val="8"/></w:numPr></w:pPr>')
    gone = item("<w:del><w:r><w:delText>x</w:delText></w:r></w:del>", more="<w:rPr><w:del/></w:rPr>")
    body = item("a") + gone + item("") + item("b")
    assert texts(parse(word(body, styles=styles, numbering=numbering), "a.docx")) == ["(i) a", "(iii) b"]


def test_levels_restart_after_the_level_that_they_name() -> None:
    levels = {0: Level("%1"), 1: Level("%1.%2"), 2: Level("%3", restart=1), 3: Level("§%1.%4", restart=0, decimal=True)}
    made = List({**levels, 0: Level("%1", "upperLetter")}, {})
    shown = [made.label(depth) for depth in (2, 0, 1, 2, 3, 1, 2, 3, 0, 2, 3)]
    assert shown == ["1 ", "A ", "A.1 ", "1 ", "§1.1 ", "A.2 ", "2 ", "§1.2 ", "B ", "1 ", "§2.3 "]
    assert (made.label(8), List({0: Level("", "none")}, {}).label(0)) == (None, "")


NUMERALS = """3 ganada 다, 14 chosung ㅎ, 28 lowerLetter bb, 1994 upperRoman MCMXCIV, 10 koreanDigital 일영,
21 koreanCounting 이십일, 110 koreanCounting 백십, 12 koreanLegal 열둘, 20 ideographDigital 二〇, 23 ordinal 23rd,
2 ideographTraditional 乙, 12 japaneseCounting 十二, 20 decimalEnclosedCircle ⑳, 51 decimalEnclosedCircle 51,
7 decimalZero 07, 12 ordinal 12th, 99999999999999 lowerLetter 99999999999999, 5 invented 5"""


@pytest.mark.parametrize("case", NUMERALS.split(","))
def test_numbers_are_written_as_their_form_asks(case: str) -> None:
    number, form, shown = case.split()
    assert numeral(int(number), form) == shown


# --- .docx: fields, controls, what is hidden, what is drawn ---


def field(code: str, result: str = "", data: str = "") -> str:
    middle = f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{result}' if result else ""
    return (
        f'<w:r><w:fldChar w:fldCharType="begin">{data}</w:fldChar></w:r><w:r><w:instrText>{code}</w:instrText></w:r>'
        f'{middle}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def test_only_results_of_fields_are_text_and_forms_keep_what_was_chosen() -> None:
    nested = field("IF </w:instrText></w:r>" + field("MERGEFIELD", r("not shown")) + "<w:r><w:instrText>", r("shown"))
    box = '<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>'
    check = field("FORMCHECKBOX", data=f"<w:ffData>{box}</w:ffData>")
    off = check.replace("<w:checked/>", "")
    entries = '<w:listEntry w:val="갑"/><w:listEntry w:val="을"/>'
    drop = field("FORMDROPDOWN", data=f'<w:ffData><w:ddList><w:result w:val="1"/>{entries}</w:ddList></w:ffData>')
    simple = f'<w:fldSimple w:instr="REF a">{r(" simple")}</w:fldSimple>'
    endless = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
    body = p(nested + check + off + drop + simple) + p(r("x") + endless) + p("next")
    assert texts(parse(word(body), "a.docx")) == ["shown☒☐을 simple", "x", "next"]


def test_a_table_of_contents_stands_once_and_is_no_heading() -> None:
    styles = style("TOC1", '<w:name w:val="toc 1"/>')
    body = f"<w:sdt><w:sdtPr/><w:sdtContent>{styled('Scope 3', 'TOC1')}</w:sdtContent></w:sdt>"
    document = parse(word(body + p("Scope", '<w:outlineLvl w:val="0"/>'), styles=styles), "a.docx")
    assert [(block.kind, block.text) for block in document.blocks] == [("text", "Scope 3"), ("heading", "Scope")]


def test_placeholders_of_content_controls_are_no_text() -> None:
    def control(inner: str, properties: str) -> str:
        return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

    empty = "<w:showingPlcHdr/>"
    cells = f"<w:tc>{p('Name')}</w:tc>" + control(f"<w:tc>{p('Click here')}</w:tc>", empty) + f"<w:tc>{p('end')}</w:tc>"
    body = control(p("Click here"), empty) + p(r("on ") + control(r("a date"), empty) + control(r("☒ yes"), ""))
    body += control(p("filled"), '<w:showingPlcHdr w:val="0"/>')
    second = "".join(f"<w:tc>{p(text)}</w:tc>" for text in "ABC")
    body += f"<w:tbl><w:tr>{cells}</w:tr><w:tr>{second}</w:tr></w:tbl>"
    shown = "| Name |  | end |\n| --- | --- | --- |\n| A | B | C |"
    assert texts(parse(word(body), "a.docx")) == ["on ☒ yes", "filled", shown]


def test_text_hidden_by_a_style_is_left_out() -> None:
    styles = style("c", "<w:rPr><w:vanish/></w:rPr>") + style("d", '<w:basedOn w:val="c"/>')
    body = p(r("a") + r("b", '<w:rStyle w:val="d"/>') + r("c", '<w:rStyle w:val="d"/><w:vanish w:val="0"/>'))
    assert texts(parse(word(body + styled("gone", "c"), styles=styles), "a.docx")) == ["ac"]


def test_marks_of_direction_and_order_of_letters_are_kept() -> None:
    inner = '<w:dir w:val="ltr">' + r(" \u200fabc\u200e") + "</w:dir>"
    body = f'<w:bdo w:val="rtl">{r("שלום 12")}</w:bdo><w:smartTag>{inner}</w:smartTag>'
    assert texts(parse(word(p(body)), "a.docx")) == ["שלום 12 \u200fabc\u200e"]


def series(name: str, values: str, categories: str) -> str:
    return f"<c:ser><c:tx><c:v>{name}</c:v></c:tx>{categories}<c:val><c:numCache>{values}</c:numCache></c:val></c:ser>"


DATES = '<c:numCache><c:formatCode>yyyy\\-mm</c:formatCode><c:pt idx="0"><c:v>46356</c:v></c:pt></c:numCache>'
CHART = (
    f"<c:chartSpace {SPACES}><c:chart><c:title><a:t>매출</a:t></c:title><c:plotArea><c:lineChart>"
    + series("A", '<c:formatCode>0%</c:formatCode><c:pt idx="0"><c:v>0.25</c:v></c:pt>', f"<c:cat>{DATES}</c:cat>")
    + series("B", '<c:pt idx="0"><c:v>3.0</c:v></c:pt>', f"<c:cat>{DATES}</c:cat>")
    + "</c:lineChart><c:valAx><c:title><a:t>rate</a:t></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>"
)
SHOWN_CHART = "| 매출 / rate | A | B |\n| --- | --- | --- |\n| 2026-11-30 | 25% | 3 |"


def said(prefix: str, text: str) -> str:
    return f"<{prefix}:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></{prefix}:txBody>"


def point(name: str, text: str, kind: str = "node") -> str:
    return f'<dgm:pt modelId="{name}" type="{kind}"><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'


def below(parent: str, child: str, order: int) -> str:
    return f'<dgm:cxn modelId="{parent}{child}" srcId="{parent}" destId="{child}" srcOrd="{order}"/>'


DIAGRAM = (
    f"<dgm:dataModel {SPACES}><dgm:ptLst>{point('3', 'under one')}{point('2', 'two')}{point('1', 'one')}"
    f"{point('0', '', 'doc')}</dgm:ptLst><dgm:cxnLst>{below('0', '2', 1)}{below('0', '1', 0)}{below('1', '3', 0)}"
    f"{below('3', '1', 0)}</dgm:cxnLst></dgm:dataModel>"
)
SHOWN_DIAGRAM = "one\n  - under one\ntwo"


def test_docx_charts_diagrams_descriptions_and_decorated_text_are_read() -> None:
    drawn = '<w:r><w:drawing><wp:docPr name="x" descr="{0}"/><a:graphic>{1}</a:graphic></w:drawing></w:r>'
    body = p(r("see") + drawn.format("", '<c:chart r:id="c"/>') + drawn.format("", '<dgm:relIds r:dm="d"/>'))
    body += p(drawn.format("A map of the two branches and the road between them", ""))
    for text in ("Picture 3", "그림 2", "photo.png", "A cat, automatically generated"):
        body += p(drawn.format(text, ""))
    body += p('<w:r><w:pict><v:textpath string="대외비"/></w:pict></w:r>')
    body += p('<w:r><w:object><o:OLEObject ProgID="Excel.Sheet.12" r:id="e"/></w:object></w:r>')
    kinds = {"c": "chart c.xml", "d": "diagramData d.xml"}
    document = parse(word(body, {"word/c.xml": CHART, "word/d.xml": DIAGRAM}, kinds), "a.docx")
    map_ = "[A map of the two branches and the road between them]"
    assert texts(document) == ["see", SHOWN_CHART, SHOWN_DIAGRAM, map_, "대외비"]
    assert document.partial == ["what is embedded is left out: Excel.Sheet.12 (1)"]


def test_pages_embedded_in_a_docx_are_read_where_they_stand() -> None:
    page = "<html><body><h1>Inside</h1><p>본문</p></body></html>"
    archive = f"MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n{page}".encode()
    kinds = {"h": "a.html", "m": "b.mht", "w": "c.txt", "x": "d.bin", "n": "NULL"}
    related = {key: f"aFChunk {name}" for key, name in kinds.items()}
    own, chunk = {"w": "aFChunk c.txt"}, '<w:altChunk r:id="w"/>'
    inner = word(p("too deep"))
    for text in ("deeper", "deep"):
        inner = word(p(text) + chunk, {"word/c.txt": inner}, own)
    parts: Parts = {"word/a.html": page, "word/b.mht": archive, "word/c.txt": inner, "word/d.bin": b"x"}
    body = p("before") + "".join(f'<w:altChunk r:id="{key}"/>' for key in kinds) + p("after")
    document = parse(word(body, parts, related), "a.docx")
    assert texts(document) == ["before", "Inside", "본문", "Inside", "본문", "deep", "deeper", "after"]
    assert len(document.partial) == 3
    assert all("which is embedded, is left out" in note for note in document.partial)


def test_notes_and_comments_follow_the_section_that_refers_to_them() -> None:
    def mark(kind: str, number: int) -> str:
        return f'<w:r><w:{kind}Reference w:id="{number}"/></w:r>'

    def heading(text: str, more: str = "") -> str:
        return p(r(text) + more, '<w:outlineLvl w:val="0"/>')

    footnotes = f'<w:footnote w:id="1">{p("first")}</w:footnote><w:footnote w:id="2">{p("second")}</w:footnote>'
    comments = "".join(f'<w:comment w:id="{n}" w:author="Lee">{p(f"say {n}")}</w:comment>' for n in (1, 2))
    cell = f"<w:tc>{p(r('x') + mark('comment', 1))}</w:tc>"
    row = f"<w:tr>{cell * 2}</w:tr>"
    body = heading("One", mark("footnote", 1)) + p("text") + f"<w:tbl>{row * 2}</w:tbl>"
    body += heading("Two") + p(r("end") + mark("footnote", 2))
    document = parse(word(body, footnotes=footnotes, comments=comments), "a.docx")
    shown = [f"{block.place}{block.text.splitlines()[0]}" for block in document.blocks]
    one = ["One[^1]", "text", "| x | x |", "footnotes[^1]: first", "commentsLee: say 1"]
    assert shown == [*one, "Two", "end[^2]", "footnotes[^2]: second", "commentsLee: say 2"]


def test_parts_that_no_relationship_names_are_found_and_a_strict_document_is_read() -> None:
    level = style("x", '<w:pPr><w:outlineLvl w:val="2"/></w:pPr>')
    styles = f"<w:styles {SPACES}>{level}</w:styles>"
    body = f"<w:document {SPACES}><w:body>{styled('Title', 'x')}</w:body></w:document>"
    glossary = f"<w:glossaryDocument {SPACES}><w:docParts>{p('building block')}</w:docParts></w:glossaryDocument>"
    parts: Parts = {"word/document.xml": body, "word/styles.xml": styles, "word/glossary/document.xml": glossary}
    strict = {name: str(part).replace("urn:w", "http://purl.oclc.org/ooxml/w") for name, part in parts.items()}
    for data in (zipped(parts), zipped({**strict})):
        assert parse(data, "a.docx").blocks == [Block("heading", "Title", level=3)]


# --- .xlsx ---


FORMATS = """46356 ~ yyyy. m. d. ~ 2026-11-30
46356.75 ~ [$-412]yyyy"년" m"월" ~ 2026-11-30 18:00
0.5875 ~ h:mm ~ 14:06
1.0625 ~ [h]:mm ~ 25:30
1 ~ yyyy-mm-dd ~ 1900-01-01
61 ~ yyyy-mm-dd ~ 1900-03-01
-1 ~ yyyy-mm-dd ~ -1
1234567 ~ #,##0,"천원" ~ 1,235천원
-1500 ~ #,##0;[Red]"△"#,##0 ~ △1,500
-1500 ~ #,##0_);(#,##0) ~ (1,500)
0.000123 ~ 0.00E+00 ~ 1.23E-04
0.125 ~ # ?/? ~ 0.125
12345678901234567890 ~ General ~ 12345678901234567890
nan ~ 0.00 ~ nan"""


@pytest.mark.parametrize("case", FORMATS.split("\n"))
def test_numbers_are_shown_by_their_formats(case: str) -> None:
    stored, code, shown = case.split(" ~ ")
    assert shown_number(stored, code) == shown


def raw_book(sheet: str, parts: Parts | None = None, **others: str) -> bytes:
    """Make an .xlsx of one sheet's XML; `others` are more relationships of the workbook."""
    book = f'<workbook {SPACES}><workbookPr date1904="1"/><sheets><sheet name="S" r:id="s"/></sheets></workbook>'
    made: Parts = {"xl/workbook.xml": book, "xl/s.xml": f"<worksheet>{sheet}</worksheet>"}
    made["xl/_rels/workbook.xml.rels"] = links(s="worksheet s.xml", **others)
    return zipped(made | (parts or {}))


def test_cells_of_every_type_are_read_by_their_addresses_or_without() -> None:
    strings = "<sst><si><r><t>漢</t></r><rPh><t>かん</t></rPh><r><t>字_x000D_</t></r></si></sst>"
    styles = '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
    rows = (
        '<row r="3"><c r="B3" t="s"><v>0</v></c><c t="b"><v>1</v></c><c t="e"><v>#DIV/0!</v></c></row>'
        '<row><c r="B4" s="1"><v>0.25</v></c><c s="1"><v>44894</v></c><c t="inlineStr"><is><t>in</t></is></c></row>'
        '<row r="9" hidden="1"><c r="B9" t="s"><v>7</v></c><c t="str"><f>x</f><v></v></c>'
        '<c t="d"><v>2026-11-30T00:00:00</v></c></row>'
    )
    parts: Parts = {"xl/sharedStrings.xml": strings, "xl/styles.xml": styles}
    document = parse(raw_book(f"<sheetData>{rows}</sheetData>", parts, a="sharedStrings sharedStrings.xml"), "a.xlsx")
    first, _, *others = document.blocks[0].text.splitlines()
    assert first == "| 漢字 | TRUE | #DIV/0! |"
    assert others == ["| 06:00 | 2026-11-30 | in |", "|  |  | 2026-11-30 |"]
    assert document.blocks[0].rows == (4, 9)
    assert document.partial == ["1 cells are left out: the file doesn't hold their text"]


def anchored(inner: str, top: int) -> str:
    inner = inner.format(f'<a:off x="0" y="{top}"/>')
    return f"<xdr:twoCellAnchor>{inner}</xdr:twoCellAnchor>"


def test_charts_text_boxes_and_names_of_tables_go_with_their_sheet() -> None:
    box = f"<xdr:sp><xdr:spPr><a:xfrm>{{0}}</a:xfrm></xdr:spPr>{said('xdr', 'boxed')}</xdr:sp>"
    chart = "<xdr:graphicFrame><xdr:xfrm>{0}</xdr:xfrm><a:graphic><c:chart r:id='c'/></a:graphic></xdr:graphicFrame>"
    drawing = f"<xdr:wsDr {SPACES}>{anchored(box, 900_000)}{anchored(chart, 10)}</xdr:wsDr>"
    parts: Parts = {"xl/d.xml": drawing, "xl/c.xml": CHART, "xl/_rels/d.xml.rels": links(c="chart c.xml")}
    parts["xl/_rels/s.xml.rels"] = links(d="drawing d.xml", t="table t.xml", u="table u.xml")
    parts["xl/t.xml"] = '<table displayName="RegionSums" ref="A1:B3"/>'
    parts["xl/u.xml"] = '<table displayName="표1" ref="D1:E3"/>'
    parts |= {"xl/o.xml": "<chartsheet/>", "xl/_rels/o.xml.rels": links(d="drawing d.xml")}
    cells = "<sheetData><row><c><v>1</v></c></row></sheetData>"
    data = raw_book(cells, parts, o="chartsheet o.xml", g="worksheet gone.xml")
    more = '<sheet name="Only" r:id="o"/><sheet name="Gone" state="veryHidden" r:id="g"/></sheets>'
    document = parse(added(data, {}, {"xl/workbook.xml": ("</sheets>", more)}), "a.xlsx")
    assert texts(document, "sheet S") == ["RegionSums (A1:B3)", "1", SHOWN_CHART, "boxed"]
    assert texts(document, "sheet Only") == [SHOWN_CHART, "boxed"]
    assert document.partial == ["sheet Gone (hidden) is missing or damaged"]


def test_comments_of_a_workbook_name_cell_and_author() -> None:
    book = openpyxl.Workbook()
    book.worksheets[0]["B2"].comment = Comment("Kim:\ncheck this", "Kim")
    assert parse(saved(book), "a.xlsx").blocks == [Block("text", "B2, Kim: check this", "sheet Sheet, comments")]


def test_threaded_comments_stand_in_place_of_their_old_form() -> None:
    old = '<comment ref="A1" authorId="0"><text><t>[Threaded comment]</t></text></comment>'
    old = f"<x><authors><author>tc={{1}}</author></authors><commentList>{old}</commentList></x>"
    new = '<x><threadedComment ref="A1" personId="{P}"><text>왜?</text></threadedComment></x>'
    parts: Parts = {"xl/c.xml": old, "xl/t.xml": new}
    parts["xl/p.xml"] = '<personList><person displayName="이서가" id="{P}"/></personList>'
    parts["xl/_rels/s.xml.rels"] = links(c="comments c.xml", t="threadedComment t.xml", n="drawing NULL")
    document = parse(raw_book("<sheetData/>", parts, p="person p.xml"), "a.xlsx")
    assert document.blocks == [Block("text", "A1, 이서가: 왜?", "sheet S, comments")]


# --- .pptx ---


def deck(*titles: str) -> bytes:
    made = pptx.Presentation()
    for title in titles:
        made.slides.add_slide(made.slide_layouts[5]).shapes.title.text = title
    return saved(made)


def test_slides_have_comments_of_both_kinds_diagrams_descriptions_media_and_equations() -> None:
    picture = '<p:pic><p:nvPicPr><p:cNvPr id="9" name="{0}" descr="{1}"/><p:nvPr>{2}</p:nvPr></p:nvPicPr></p:pic>'
    formula = "<m:oMath><m:r><m:t>x+1</m:t></m:r></m:oMath>"
    choice = f"<mc:Choice><a14:m>{formula}</a14:m></mc:Choice><mc:Fallback><a:r><a:t>?</a:t></a:r></mc:Fallback>"
    text = f"<a:r><a:t>so </a:t></a:r><mc:AlternateContent>{choice}</mc:AlternateContent>"
    inner = (
        f"<p:grpSp>{picture.format('a', 'Sales grew in each of the four regions since 2020', '')}"
        f"{picture.format('intro.mp4', 'video', '<a:videoFile/>')}</p:grpSp>"
        '<p:graphicFrame><a:graphic><dgm:relIds r:dm="d"/></a:graphic></p:graphicFrame>'
        '<p:graphicFrame><a:graphic><p:oleObj progId="Word.Document.12"/></a:graphic></p:graphicFrame>'
        f"<p:sp><p:txBody><a:p>{text}</a:p></p:txBody></p:sp>"
    )
    inner = f"<p:grpSp {SPACES}>{inner}</p:grpSp></p:spTree>"
    old = f'<p:cmLst {SPACES}><p:cm authorId="0"><p:text>old way</p:text></p:cm></p:cmLst>'
    reply = f'<p:replyLst><p:reply authorId="?">{said("p", "yes")}</p:reply></p:replyLst>'
    new = f'<p:cmLst {SPACES}><p:cm authorId="{{A}}">{reply}{said("p", "new way")}</p:cm></p:cmLst>'
    parts: Parts = {"ppt/d.xml": DIAGRAM, "ppt/old.xml": old, "ppt/new.xml": new}
    parts["ppt/a.xml"] = '<x><cmAuthor id="0" name="Kim"/></x>'
    parts["ppt/b.xml"] = '<x><author id="{A}" name="Lee"/></x>'
    own = links(d="diagramData ../d.xml", o="comments ../old.xml", n="comments ../new.xml").partition(">")[2]
    whole = links(a="commentAuthors a.xml", b="authors b.xml").partition(">")[2]
    changes = {"ppt/slides/slide1.xml": ("</p:spTree>", inner)}
    changes["ppt/slides/_rels/slide1.xml.rels"] = ("</Relationships>", own)
    changes["ppt/_rels/presentation.xml.rels"] = ("</Relationships>", whole)
    document = parse(added(deck("Title"), parts, changes), "a.pptx")
    described = ["[Sales grew in each of the four regions since 2020]", "[video: intro.mp4]"]
    assert texts(document, "slide 1") == ["Title", *described, SHOWN_DIAGRAM, "so [math: x+1]"]
    assert texts(document, "slide 1, comments") == ["Kim: old way", "Lee: new way", "yes"]
    assert document.partial == ["what is embedded is left out: Word.Document.12 (1)"]


def test_sections_of_a_presentation_are_headings_above_the_slides() -> None:
    one = '<p:section name="{0}"><p:sldIdLst><p:sldId id="{1}"/></p:sldIdLst></p:section>'
    named = one.format("기본 구역", 256) + one.format("Results", 257)
    named = f"<p:extLst><p:ext><p:sectionLst>{named}</p:sectionLst></p:ext></p:extLst></p:presentation>"
    data = added(deck("First", "Second"), {}, {"ppt/presentation.xml": ("</p:presentation>", named)})
    shown = [(block.level, block.text, block.place) for block in parse(data, "a.pptx").blocks]
    assert shown == [(2, "First", "slide 1"), (1, "Results", "slide 2"), (2, "Second", "slide 2")]


def test_what_master_and_layout_say_is_not_repeated() -> None:
    made = pptx.Presentation()
    made.slide_master.shapes[0].text_frame.text = "of the master"
    made.slide_layouts[5].placeholders[0].text_frame.text = "of the layout"
    slide = made.slides.add_slide(made.slide_layouts[5])
    slide.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "own"
    assert texts(parse(saved(made), "a.pptx")) == ["own"]


# --- .odt ---


def odt(body: str, **parts: str) -> bytes:
    content = f"<office:document-content {SPACES}><office:text>{body}</office:text></office:document-content>"
    made: Parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}
    return zipped(made | {f"{name}.xml": f"<x {SPACES}>{part}</x>" for name, part in parts.items()})


def test_odt_is_read_like_other_texts() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    note = "<text:note-citation>1</text:note-citation><text:note-body><text:p>각주</text:p></text:note-body>"
    twice = cell("same", 'table:number-columns-repeated="2"')
    deep = "<text:list><text:list-item><text:p>deep</text:p></text:list-item></text:list>"
    picture = "<svg:desc>The road to the old mill in the spring of 1950</svg:desc>"
    box = f"<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box>{picture}</draw:frame>"
    marks = 'a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>'
    head = (
        f"<table:table-header-rows><table:table-row>{cell('A')}{cell('B')}</table:table-row></table:table-header-rows>"
    )
    rest = '<table:table-cell table:number-columns-repeated="16000"/>'
    about = "<dc:creator>Kim</dc:creator><dc:date>2026-11-30</dc:date><text:p>why</text:p>"
    body = (
        "<text:tracked-changes><text:deletion><text:p>gone</text:p></text:deletion></text:tracked-changes>"
        f'<text:h text:outline-level="2">개요<text:note text:note-class="footnote">{note}</text:note></text:h>'
        f"<text:p>{marks}<text:span>d\n  e</text:span> <text:page-number>4</text:page-number>{box}</text:p>"
        f"<text:list><text:list-header/><text:list-item><text:p>one</text:p>{deep}</text:list-item></text:list>"
        '<text:section text:display="none"><text:p>hidden</text:p></text:section>'
        f'<table:table>{head}<table:table-row table:number-rows-repeated="2">{twice}</table:table-row>'
        f"<table:table-row><table:covered-table-cell/>{cell('end')}{rest}</table:table-row>"
        '<table:table-row table:number-rows-repeated="1048576"><table:table-cell/></table:table-row></table:table>'
        f"<text:p>z<office:annotation>{about}</office:annotation></text:p>"
    )
    styles = "<style:master-page><style:header><text:p>대외비</text:p></style:header></style:master-page>"
    styles = f"<office:master-styles>{styles}</office:master-styles>"
    about = "<office:meta><dc:title>계획</dc:title><meta:initial-creator>이서가</meta:initial-creator></office:meta>"
    document = parse(odt(body, styles=styles, meta=about), "a.odt")
    assert [(block.level, block.place, block.text) for block in document.blocks] == [
        (2, "", "개요[^1]"),
        (0, "", "a   b\tc\nd e"),
        (0, "", "boxed"),
        (0, "", "[The road to the old mill in the spring of 1950]"),
        (0, "", "- one\n  - deep"),
        (0, "", "| A | B |\n| --- | --- |\n| same | same |\n| same | same |\n|  | end |"),
        (0, "", "z"),
        (0, "footnotes", "[^1]: 각주"),
        (0, "comments", "Kim: why"),
        (0, "header", "대외비"),
    ]
    assert (document.title, document.metadata, document.partial) == ("계획", {"author": "이서가"}, [])


def test_an_encrypted_odt_needs_a_person() -> None:
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    with pytest.raises(NeedsAction, match="password"):
        parse(zipped({"content.xml": b"\x01\x02", "META-INF/manifest.xml": manifest}), "a.odt")
