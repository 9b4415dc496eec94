"""Make documents whose words are known, in each format that seoga reads, with all the structures that it has.

    make(".docx", 0)  ->  ("a0.docx", bytes, Told)     number 0 has every structure, the others a shuffled part of them

Each word is unique (`river0042`, `강물0043`), so one that is lost, doubled or moved can be told, and so can the
structure it stood in. Documents are written as templates, in which a mark is replaced by new words, in reading order:

    «heading» three words   «paragraph*40» forty   «@footnote» in a flow of their own: they may follow the body
    «-deleted» must not be read   «?author» may be read or not
"""

# ruff: noqa: E501 - a template is one line

from __future__ import annotations

import io
import json
import random
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from email.message import EmailMessage
from typing import Any, NamedTuple

ENGLISH = [
    "river",
    "budget",
    "meeting",
    "travel",
    "report",
    "engine",
    "harbor",
    "signal",
    "garden",
    "copper",
    "window",
    "market",
    "planet",
    "winter",
    "bridge",
]
KOREAN = [
    "강물",
    "예산",
    "회의",
    "출장",
    "보고서",
    "기관",
    "항구",
    "신호",
    "정원",
    "구리",
    "창문",
    "시장",
    "행성",
    "겨울",
    "다리",
    "전압",
    "계약",
    "서가",
]
FILLERS = ["the", "of", "and", "with", "및", "그리고", "또는", "위한"]  # ordinary words, which come again and again
MANY = {"merged cell", "key", "column header"}  # may be read more than once: repeated in each row or piece
_MARK = re.compile(r"«([-?@]?)([^«»*]+)(?:\*(\d+))?»")


class Word(NamedTuple):
    text: str
    structure: str
    flow: str = "body"  # order is looked at within one flow
    wanted: bool | None = True  # None: may be read or not


class Told:
    """What a document says, noted while it is made."""

    def __init__(self, seed: str, number: int) -> None:
        self.random = random.Random(seed)
        self.number = number
        self.letters = [*ENGLISH, *KOREAN]
        self.numbered = True  # else words come again: recognising a picture is about words, not serial numbers
        self.words: list[Word] = []
        self.serial = 0

    def __call__(self, template: str) -> str:
        """Replace the marks of a template by words, and note these."""
        return _MARK.sub(lambda mark: self._new(mark[1], mark[2], int(mark[3] or 3)), template)

    def _new(self, kind: str, structure: str, count: int) -> str:
        made = list[str]()
        for _ in range(count):
            word = self.random.choice(self.letters)
            made.append(f"{word}{self.next():04d}" if self.numbered else word)
            if kind in "@" and count > 3 and self.random.random() < 0.2:
                made.append(self.random.choice([word for word in FILLERS if word.isascii() or self.letters != ENGLISH]))
        flow, wanted = structure if kind == "@" else "body", {"-": False, "?": None}.get(kind, True)
        self.words += [Word(text, structure, flow, wanted) for text in made]
        return " ".join(made)

    def next(self) -> int:
        self.serial += 1
        return self.serial

    def shown(self, structure: str, text: str, flow: str = "body") -> str:
        """Note a number or a date as it is displayed."""
        self.words.append(Word(text, structure, flow))
        return text

    def mix(self, parts: Sequence[str | Callable[[], str]]) -> list[str]:
        """Write all parts, or two thirds of them in another order; a part is a template or makes its own text."""
        chosen = list(parts)
        if self.number:
            chosen = self.random.sample(chosen, max(1, len(chosen) * 2 // 3))
        return [self(part) if isinstance(part, str) else part() for part in chosen]


def zipped(parts: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def saved(thing: Any) -> bytes:
    file = io.BytesIO()
    thing.save(file)
    return file.getvalue()


def short(text: str, **forms: str) -> str:
    """Write out short tags: `P="<p>…</p>"` makes `<P>x</P>` to `<p>x</p>`."""
    for tag, form in forms.items():
        before, after = form.split("…")
        text = text.replace(f"<{tag}>", before).replace(f"</{tag}>", after)
    return text


# --- what Office's formats share ---

OOXML = "http://schemas.openxmlformats.org"
RELATION = f"{OOXML}/officeDocument/2006/relationships"
WPS = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
DRAWN = "application/vnd.openxmlformats-officedocument.drawingml"
SPACES = (
    f'xmlns="{OOXML}/wordprocessingml/2006/main" xmlns:w="{OOXML}/wordprocessingml/2006/main" xmlns:r="{RELATION}" '
    f'xmlns:m="{OOXML}/officeDocument/2006/math" xmlns:a="{OOXML}/drawingml/2006/main" xmlns:c="{OOXML}/drawingml/2006/chart" '
    f'xmlns:wp="{OOXML}/drawingml/2006/wordprocessingDrawing" xmlns:dgm="{OOXML}/drawingml/2006/diagram" '
    f'xmlns:mc="{OOXML}/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    f'xmlns:wps="{WPS}" xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"'
)
MATH = "<m:oMath><N>«equation*1»</N><m:f><m:num><N>«equation*1»</N></m:num><m:den><N>«equation*1»</N></m:den></m:f></m:oMath>"
NORMAL = "<m:r><m:rPr><m:nor/></m:rPr><m:t>…</m:t></m:r>"


def chart(s: Told) -> bytes:
    """Write a chart part: one series over three categories."""
    title = "<c:title><c:tx><c:rich><a:bodyPr/><a:p><a:r><a:t>…</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    names, values = [s("«@chart*1»") for _ in range(4)], [str(7000 + s.next()) for _ in range(3)]
    for value in values:
        s.shown("chart value", value, "chart value")
    points = [
        "".join(f'<c:pt idx="{at}"><c:v>{text}</c:v></c:pt>' for at, text in enumerate(texts))
        for texts in (names[:1], names[1:], values)
    ]
    text = s(
        f"<c:chartSpace {SPACES}><c:chart><TITLE>«@chart title»</TITLE><c:plotArea><c:barChart><c:barDir val='col'/><c:ser><c:idx val='0'/><c:order val='0'/><c:tx><c:strRef><c:f>B1</c:f><c:strCache><c:ptCount val='1'/>{points[0]}</c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:f>A2:A4</c:f><c:strCache><c:ptCount val='3'/>{points[1]}</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:f>B2:B4</c:f><c:numCache><c:ptCount val='3'/>{points[2]}</c:numCache></c:numRef></c:val></c:ser><c:axId val='1'/><c:axId val='2'/></c:barChart><c:catAx><c:axId val='1'/><c:scaling/><c:axPos val='b'/><TITLE>«@chart axis title»</TITLE><c:crossAx val='2'/></c:catAx><c:valAx><c:axId val='2'/><c:scaling/><c:axPos val='l'/><c:crossAx val='1'/></c:valAx></c:plotArea></c:chart></c:chartSpace>"
    )
    return short(text, TITLE=title).encode()


def diagram(s: Told) -> bytes:
    point = "<dgm:pt modelId='%d'><dgm:t><a:bodyPr/><a:p><a:r><a:t>«@SmartArt»</a:t></a:r></a:p></dgm:t></dgm:pt>"
    points = "".join(point % at for at in (1, 2, 3))
    return s(f"<dgm:dataModel {SPACES}><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>").encode()


# --- .docx, in the default namespace; <P> paragraph, <T> run, <C> cell ---

WORD = {
    "N": NORMAL,
    "P": "<p><T>…</T></p>",
    "C": "<tc><p><T>…</T></p></tc>",
    "T": '<r><t xml:space="preserve"> … </t></r>',
    "GRAPHIC": "<r><drawing><wp:inline><wp:extent cx='3000000' cy='2000000'/><wp:docPr id='1' name='x'/><a:graphic>…</a:graphic></wp:inline></drawing></r>",
    "TABLE": "<tbl><tblPr/><tblGrid><gridCol w:w='3000'/><gridCol w:w='3000'/><gridCol w:w='3000'/></tblGrid>…</tbl>",
}
_FIELD = "<r><fldChar w:fldCharType='%s'/></r>"
DOCX = [
    "<p><pPr><pStyle w:val='Heading1'/></pPr><T>«heading»</T></p><P>«paragraph*40»</P>",
    "<p><pPr><pStyle w:val='Heading2'/></pPr><T>«heading»</T></p><p><pPr><pStyle w:val='Caption'/></pPr><T>«caption»</T></p>",
    "".join(
        f"<p><pPr><pStyle w:val='List{style}'/></pPr><T>«list item»</T></p>"
        for style in ("Bullet", "Bullet2", "Number")
    ),
    "<TABLE><tr><C>«column header»</C><C>«column header»</C><C>«column header»</C></tr><tr><C>«table cell»</C><C>«table cell»</C><C>«table cell»</C></tr></TABLE>",
    "<TABLE><tr><C>«table cell»</C><tc><TABLE><tr><C>«nested table»</C><C>«nested table»</C></tr><tr><C>«nested table»</C><C>«nested table»</C></tr></TABLE><p/></tc></tr><tr><C>«table cell»</C><C>«table cell»</C></tr></TABLE>",
    "<TABLE><tr><tc><tcPr><gridSpan w:val='2'/></tcPr><P>«merged cell»</P></tc><C>«table cell»</C></tr><tr><tc><tcPr><vMerge w:val='restart'/></tcPr><P>«merged cell»</P></tc><C>«table cell»</C><C>«table cell»</C></tr><tr><tc><tcPr><vMerge/></tcPr><p/></tc><C>«table cell»</C><C>«table cell»</C></tr></TABLE>",
    "<TABLE><tr><C>«table cell»</C><C>«table cell»</C></tr><tr><trPr><del w:id='9'/></trPr><C>«-deleted row»</C><C>«-deleted row»</C></tr><tr><C>«table cell»</C><C>«table cell»</C></tr></TABLE>",
    "<p><T>«paragraph»</T><del w:id='1'><r><delText>«-deleted»</delText></r></del><ins w:id='2'><T>«inserted»</T></ins></p>",
    "<p><moveFrom w:id='3'><T>«-moved away»</T></moveFrom><moveTo w:id='4'><T>«moved here»</T></moveTo></p>",
    f"<p>{_FIELD % 'begin'}<r><instrText>REF «-field code*1»</instrText></r>{_FIELD % 'separate'}<T>«field result»</T>{_FIELD % 'end'}<fldSimple w:instr='REF «-field code*1»'><T>«simple field»</T></fldSimple></p>",
    "<sdt><sdtPr/><sdtContent><P>«content control»</P></sdtContent></sdt><p><sdt><sdtPr/><sdtContent><T>«inline control»</T></sdtContent></sdt><smartTag w:uri='u' w:element='e'><T>«smart tag»</T></smartTag></p>",
    "<p><r><ruby><rt><T>«?ruby reading*1»</T></rt><rubyBase><T>«ruby base»</T></rubyBase></ruby></r><r><rPr><vanish/></rPr><t>«-hidden text»</t></r></p>",
    "<p><hyperlink w:anchor='x'><T>«hyperlink»</T></hyperlink><r><t>«after a tab*1»</t><tab/><t>«after a tab*1»</t><br/><t>«after a break*1»</t></r></p>",
    f"<p><T>«paragraph»</T>{MATH}</p><p><m:oMathPara>{MATH}</m:oMathPara></p>",
    "<p><r><pict><v:shape><v:textbox><txbxContent><P>«VML text box»</P></txbxContent></v:textbox></v:shape></pict></r></p>",
]


def docx(s: Told) -> bytes:
    import docx
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part
    from docx.oxml import parse_xml

    made = docx.Document()
    notes: dict[str, list[str]] = {"footnote": [], "endnote": [], "comment": []}

    def link(kind: str, name: str, content: bytes, media: str) -> str:
        part = Part(PackURI(f"/word/{name}"), media, content, made.part.package)
        return str(made.part.relate_to(part, f"{RELATION}/{kind}"))

    def noted(kind: str) -> str:
        before = s("<p><T>«paragraph»</T>")
        notes[kind].append(s(f"<{kind} w:id='{len(notes[kind]) + 2}' w:author='«?author*1»'><P>«@{kind}»</P></{kind}>"))
        return s(f"{before}<r><{kind}Reference w:id='{len(notes[kind]) + 1}'/></r><T>«paragraph»</T></p>")

    def graphic(kind: str, name: str, content: bytes, inner: str) -> str:
        media = f"{DRAWN}.{'chart' if kind == 'chart' else 'diagramData'}+xml"
        inner = inner.replace("ID", link(kind, name, content, media))
        uri = f"{OOXML}/drawingml/2006/{kind.removesuffix('Data')}"
        return f"<p><GRAPHIC><a:graphicData uri='{uri}'>{inner}</a:graphicData></GRAPHIC></p>"

    def box() -> str:
        anchor, text = s("<p><T>«paragraph»</T>"), s("<txbxContent><P>«text box»</P></txbxContent>")
        shape = f"<a:graphicData uri='{WPS}'><wps:wsp><wps:txbx>{text}</wps:txbx><wps:bodyPr/></wps:wsp>"
        old = f"<pict><v:shape><v:textbox>{text}</v:textbox></v:shape></pict>"
        new = short(f"<GRAPHIC>{shape}</a:graphicData></GRAPHIC>", GRAPHIC=WORD["GRAPHIC"])[3:-4]
        choice = f"<mc:Choice Requires='wps'>{new}</mc:Choice><mc:Fallback>{old}</mc:Fallback>"
        return f"{anchor}<r><mc:AlternateContent>{choice}</mc:AlternateContent></r></p>"

    def split() -> str:
        word = s("«word split over runs*1»")
        return f"<p><r><t>{word[:2]}</t></r><proofErr/><r><t>{word[2:]}</t></r></p>"

    parts: list[str | Callable[[], str]] = [
        *DOCX, box, split, lambda: noted("footnote") + noted("footnote"), lambda: noted("endnote"), lambda: noted("comment"),
        lambda: unicodedata.normalize("NFD", s("<P>«decomposed Hangul»</P>")),
        lambda: graphic("chart", "charts/chart1.xml", chart(s), "<c:chart r:id='ID'/>"),
        lambda: graphic("diagramData", "diagrams/data1.xml", diagram(s), "<dgm:relIds r:dm='ID' r:lo='ID'/>"),
        lambda: f"<altChunk r:id='{link('aFChunk', 'chunk1.html', s('<p>«altChunk (HTML)»</p>').encode(), 'text/html')}'/>",
    ]  # fmt: skip
    body = made.element.body
    for element in parse_xml(short(f"<body {SPACES}>{''.join(s.mix(parts))}</body>", **WORD)):
        body.insert(len(body) - 1, element)
    section = made.sections[0]
    section.different_first_page_header_footer = made.settings.odd_and_even_pages_header_footer = True
    for name in ("header", "footer", "first_page_header", "first_page_footer", "even_page_header"):
        getattr(section, name).paragraphs[0].text = s(f"«@{name[-6:]}»")
    for kind, texts in notes.items():
        media = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}s+xml"
        root = short(f"<{kind}s {SPACES}>{''.join(texts)}</{kind}s>", **WORD)
        if texts:
            link(f"{kind}s", f"{kind}s.xml", root.encode(), media)
    return saved(made)


# --- .pptx; <S> shape, <P> paragraph, <T> run, <C> cell, AT its place ---

_FRAME = "<p:nvGraphicFramePr><p:cNvPr id='99' name='x'/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>"
SLIDE = {
    "N": NORMAL,
    "S": "<p:sp><p:nvSpPr><p:cNvPr id='9' name='x'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr><a:xfrm>AT</a:xfrm></p:spPr><p:txBody><a:bodyPr/>…</p:txBody></p:sp>",
    "G": "<p:grpSp><p:nvGrpSpPr><p:cNvPr id='8' name='x'/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr><a:xfrm>AT</a:xfrm></p:grpSpPr>…</p:grpSp>",
    "TABLE": f"<F><a:graphicData uri='{OOXML}/drawingml/2006/table'><a:tbl><a:tblPr/><a:tblGrid><a:gridCol w='900000'/><a:gridCol w='900000'/></a:tblGrid>…</a:tbl></a:graphicData></F>",
    "F": f"<p:graphicFrame>{_FRAME}<p:xfrm>AT</p:xfrm><a:graphic>…</a:graphic></p:graphicFrame>",
    "R": "<a:tr h='370000'>…</a:tr>",
    "C": "<a:tc><a:txBody><a:bodyPr/><P>…</P></a:txBody></a:tc>",
    "P": "<a:p><T>…</T></a:p>",
    "T": "<a:r><a:t>…</a:t></a:r>",
}
_EMPTY = "<a:tc {}='1'><a:txBody><a:bodyPr/><a:p/></a:txBody></a:tc>"
PPTX = [
    "<S><P>«text box*30»</P></S>",
    "<S><P>«bullet»</P><a:p><a:pPr lvl='1'><a:buChar char='-'/></a:pPr><T>«bullet»</T></a:p><a:p><a:pPr lvl='2'/><T>«bullet»</T></a:p></S>",
    "<G><S><P>«group»</P></S><G><S><P>«nested group»</P></S></G></G>",
    "<TABLE><R><C>«column header»</C><C>«column header»</C></R><R><C>«table cell»</C><C>«table cell»</C></R></TABLE>",
    f"<TABLE><R><a:tc gridSpan='2'><a:txBody><a:bodyPr/><P>«merged cell»</P></a:txBody></a:tc>{_EMPTY.format('hMerge')}</R><R><C>«table cell»</C><C>«table cell»</C></R></TABLE>",
    f"<S><a:p><T>«paragraph»</T><mc:AlternateContent><mc:Choice Requires='a14'><a14:m>{MATH}</a14:m></mc:Choice><mc:Fallback><T> </T></mc:Fallback></mc:AlternateContent></a:p></S>",
    "<S><a:p><T>«paragraph»</T><a:br/><T>«after a break»</T><a:fld type='slidenum' id='{B}'><a:t>«-slide number»</a:t></a:fld></a:p></S>",
]


def pptx(s: Told) -> bytes:
    import pptx
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI
    from pptx.oxml import parse_xml

    made = pptx.Presentation()
    parts: list[str | Callable[[Any], str]] = [
        *PPTX,
        lambda slide: graphic(slide, "chart"),
        lambda slide: graphic(slide, "diagram"),
    ]

    def graphic(slide: Any, kind: str) -> str:
        content, media = (chart(s), "chart") if kind == "chart" else (diagram(s), "diagramData")
        part = Part(PackURI(f"/ppt/{media}s/{media}{s.next()}.xml"), f"{DRAWN}.{media}+xml", made.part.package, content)
        link = slide.part.relate_to(part, f"{RELATION}/{media}")
        inner = f"<c:chart r:id='{link}'/>" if kind == "chart" else f"<dgm:relIds r:dm='{link}' r:lo='{link}'/>"
        return f"<F><a:graphicData uri='{OOXML}/drawingml/2006/{kind}'>{inner}</a:graphicData></F>"

    for at in range(5):
        slide = made.slides.add_slide(made.slide_layouts[5])
        slide.shapes.title.text, text = s("«slide title»"), ""
        chosen = parts[2 * at : 2 * at + 2] if not s.number else s.random.sample(parts, 2)
        for part in chosen:
            text += s(part) if isinstance(part, str) else part(slide)
        space = f"{SPACES} xmlns:p='{OOXML}/presentationml/2006/main'"
        text = short(f"<p:spTree {space}>{text}</p:spTree>", **SLIDE)
        for top in range(1_600_000, 9_000_000, 900_000):
            text = text.replace(">AT<", f"><a:off x='900000' y='{top}'/><a:ext cx='7000000' cy='800000'/><", 1)
        slide.shapes._spTree.extend(list(parse_xml(text)))
        slide.notes_slide.notes_text_frame.text = s("«@notes»")
    made.slides[4]._element.set("show", "0")  # the last one is hidden
    return saved(made)


# --- .xlsx ---

_DAY = datetime(2026, 3, 1)  # noqa: DTZ001 - spreadsheets have no time zones
SHOWN: list[tuple[str, Callable[[int], tuple[Any, str, str]]]] = [  # serial -> (value, number format, as displayed)
    ("number", lambda n: (n + 1000.5, "#,##0.00", f"{n + 1000.5:,.2f}")),
    ("number", lambda n: (n + 5000, "General", str(n + 5000))),
    ("percentage", lambda n: (n / 1000, "0.0%", f"{n / 10:.1f}%")),
    ("currency", lambda n: (n + 20000, '"₩"#,##0', f"{n + 20000:,}")),
    ("date", lambda n: (_DAY + timedelta(n), "yyyy-mm-dd", str((_DAY + timedelta(n)).date()))),
    ("date", lambda n: (_DAY + timedelta(n + 400), 'yyyy"년" m"월" d"일"', str((_DAY + timedelta(n + 400)).date()))),
    ("time", lambda n: (time(n % 24, n % 60), "hh:mm", f"{n % 24:02}:{n % 60:02}")),
]


HEAD = "|".join(["«column header*2»"] * 3)
ROW = "|".join(["«cell*2»"] * 3)


def xlsx(s: Told) -> bytes:
    import openpyxl
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont
    from openpyxl.chart import BarChart, Reference
    from openpyxl.comments import Comment

    made, cached = openpyxl.Workbook(), list[str]()

    def put(sheet: Any, *rows: str) -> None:
        for row in rows:
            sheet.append([s(text) or None for text in row.split("|")])

    def figures(sheet: Any) -> None:
        put(sheet, HEAD)
        for structure, make in SHOWN:
            value, form, shown = make(s.next())
            put(sheet, "«cell*2»")
            sheet.cell(sheet.max_row, 2, value).number_format = form
            s.shown(structure, shown)

    def formulas(sheet: Any) -> None:
        put(sheet, HEAD)
        for _ in range(3):
            put(sheet, "«cell*2»|=1+1")
            cached.append(s.shown("formula's value", str(8000 + s.next())))

    def merged(sheet: Any) -> None:
        put(sheet, HEAD, ROW, "«merged cell»||«cell»", "||«cell»")
        sheet.merge_cells("A3:B4")

    def noted(sheet: Any) -> None:
        put(sheet, HEAD, ROW, ROW)
        sheet["B2"].comment = Comment(s("«@comment»"), s("«?author*1»"))
        sheet["C2"].hyperlink = "https://example.org/"
        sheet.oddHeader.center.text, sheet.oddFooter.center.text = s("«@header»"), s("«@footer»")

    def rich(sheet: Any) -> None:
        first = s("«rich text*1»")
        put(sheet, f"x|{s('«cell»')}", "«cell»|«line break*1»\n«line break*1»", "«cell»")
        sheet["A1"] = CellRichText(TextBlock(InlineFont(b=True), first[:3]), first[3:])
        sheet["B3"], _ = True, s.shown("boolean", "TRUE")

    def charted(sheet: Any) -> None:
        put(sheet, HEAD, ROW, ROW, ROW)
        bars = BarChart()
        bars.add_data(Reference(sheet, min_col=2, min_row=1, max_row=4), titles_from_data=True)
        bars.title, bars.x_axis.title = s("«@chart title»"), s("«@chart axis title»")
        sheet.add_chart(bars, "H2")

    def hidden(sheet: Any) -> None:
        put(sheet, HEAD, ROW, ROW)
        sheet.sheet_state = "hidden"
        sheet.row_dimensions[3].hidden = True

    tables = "«second table»|«second table»"
    makers: list[Callable[[Any], None]] = [figures, formulas, merged, noted, rich, charted, hidden]
    makers += [
        lambda sheet: put(sheet, HEAD, *[ROW] * 8),
        lambda sheet: put(sheet, HEAD, ROW, "", f"||{tables}", f"||{tables}"),
    ]
    for maker in makers if not s.number else s.random.sample(makers, 6):
        maker(made.create_sheet(s("«?sheet name*1»")))
    del made["Sheet"]
    made.active = next(at for at, sheet in enumerate(made) if sheet.sheet_state == "visible")
    with zipfile.ZipFile(io.BytesIO(saved(made))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in sorted(parts, key=lambda name: (len(name), name)):  # openpyxl writes no results of formulas
        if name.startswith("xl/worksheets/sheet"):
            calculated = re.sub(
                rb"<f>1\+1</f><v ?(/>|></v>)", lambda _: f"<f>1+1</f><v>{cached.pop(0)}</v>".encode(), parts[name]
            )
            parts[name] = calculated
    return zipped(dict(parts))


# --- text ---

HTML = [
    "<h1>«heading»</h1><p>«paragraph*40»</p><h2>«heading»</h2><blockquote>«quotation»</blockquote>",
    "<ul><li>«list item»<ol><li>«nested item»</li><li><p>«nested item»</p></li></ol></li><li>«list item»</li></ul>",
    "<dl><dt>«term»</dt><dd>«definition»</dd><dt>«term»</dt><dd>«definition»</dd></dl>",
    "<table><caption>«caption»</caption><thead><tr><th>«column header»</th><th>«column header»</th></tr></thead><tbody><tr><td>«table cell»</td><td>«table cell»</td></tr></tbody><tfoot><tr><td>«table cell»</td><td>«table cell»</td></tr></tfoot></table>",
    "<table><tr><td rowspan=2>«merged cell»</td><td>«table cell»</td></tr><tr><td>«table cell»</td></tr><tr><td colspan=2>«merged cell»</td></tr></table>",
    "<table><tr><td>«table cell»</td><td><table><tr><td>«nested table»</td><td>«nested table»</td></tr></table></td></tr></table>",
    "<pre><code>«code»\n  «code»</code></pre><figure><img src='x.png' alt='«alt text»'><figcaption>«caption»</figcaption></figure>",
    "<script>var a='«-script»'</script><style>.«-style*1»{}</style><!-- «-HTML comment» --><template>«-template»</template><div style='display: none'>«-hidden»</div><p hidden>«-hidden»</p>",
    "<details><summary>«summary»</summary><p>«details»</p></details><section><aside>«aside»</aside></section><address>«address»</address>",
    "<form><label>«label»</label><textarea>«text area»</textarea><select><option>«?option»</option><option selected>«option»</option></select><button>«button»</button><input type=text value='«input value»'></form>",
    "<p>«line break*1»<br>«line break*1» <a href='#'>«link»</a> <em>«emphasis»</em>, <code>«inline code»</code></p>",
    "<p>«ruby base*1» <ruby>«ruby base*1»<rp>(</rp><rt>«?ruby reading*1»</rt><rp>)</rp></ruby> «entity*1»&nbsp;«entity*1»&#44;</p>",
    "<math><mtext>«MathML»</mtext></math><section><h3>«heading»</h3><div>«division»<div>«division»</div></div></section>",
    "<div>«loose text»<p>«paragraph»</p>«loose text»</div><p>«unclosed»<p>«unclosed»<ul><li>«unclosed»<li>«unclosed»</ul>",
    "<p><ins>«inserted»</ins> <sup>«superscript*1»</sup> <span title='x'>«span»</span></p><svg><text>«SVG text»</text></svg>",
]
MARKDOWN = [
    "# «heading»\n\n«paragraph*40»\n\n«heading»\n===\n\n> «quotation»\n> > «quotation»\n",
    "- «list item»\n  - «nested item»\n    1. «nested item»\n- [ ] «task»\n* [x] «task»\n",
    "| «column header» | «column header» |\n|:--|--:|\n| «table cell» | «table cell» |\n| `«table cell»` | «table cell» \\| x |\n",
    "```python\n«code»\n# «code»\n```\n\n~~~\n«code»\n~~~\n\n    «indented code»\n",
    "[«link»](https://example.org/) ![«alt text»](x.png) **«emphasis»** *«emphasis»* ~~«struck»~~ `«inline code»`\n",
    "«paragraph»[^«?label*1»]\n\n[^x]: «footnote»\n\n«term»\n: «definition»\n",
    "<!-- «-HTML comment»\n«-HTML comment» -->\n\n<div>«HTML in Markdown»</div>\n\n$$ \\text{«equation»} $$\n",
    "«line break*1»  \n«line break*1»\\\n«line break*1»\n\n---\n\n#### «heading» ####\n\n«paragraph»\n",
]
ENCODINGS = ("utf-8", "cp949", "utf-16", "utf-8-sig", "utf-16-be")


def encoded(s: Told, text: str) -> bytes:
    encoding = ENCODINGS[s.number % len(ENCODINGS)]
    return (b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding)


def html(s: Told) -> bytes:
    head = f"<meta charset='{ENCODINGS[s.number % 5]}'>" if s.number % 5 < 2 else ""
    body = "".join(s.mix(HTML))
    frame = s("<nav>«-navigation»</nav><main>") + body + s("</main><footer>«-page footer»</footer>")
    page = frame if s.number % 2 else body
    return encoded(s, f"<!DOCTYPE html><html><head>{head}<title>x</title></head><body>{page}</body></html>")


def md(s: Told) -> bytes:
    front = s("---\ntitle: «front matter»\ntags:\n  - «front matter»\n---\n\n")
    return encoded(s, front + "\n".join(s.mix(MARKDOWN)))


def txt(s: Told) -> bytes:
    ends = "\r\n" if s.number % 2 else "\n"
    parts = [
        "«paragraph*80»",
        "1. «numbered line»\n2) «numbered line»\n가. «numbered line»",
        "\t«indented» : «indented»",
        "«line*9»\n«line»",
    ]
    return encoded(s, "\n\n".join(s.mix(parts)).replace("\n", ends))


def csv(s: Told, delimiter: str = "") -> bytes:
    delimiter = delimiter or ",;|,\t"[s.number % 5]
    rows = [
        ["«column header»"] * 4,
        *[["«cell»"] * 4] * 8,
        ['"«quoted»"', f'"«quoted»{delimiter}«quoted»"', '"«quoted»\n«quoted»"'],
    ]
    rows += [['"«quoted» ""«quoted»"""', "", "«cell»"], ["«short row»"], ["«cell»"] * 4]
    return encoded(s, "\r\n".join(s(delimiter.join(row)) for row in rows))


def tsv(s: Told) -> bytes:
    return csv(s, "\t")


def json_(s: Told) -> bytes:
    def value(depth: int) -> Any:
        kind = s.random.choice(["text", "list", "object", "rows"]) if depth else "text"
        if kind == "object":
            return {s("«key*1»"): value(depth - 1) for _ in range(3)}
        if kind == "rows":
            return [{s("«key*1»"): s("«value»"), s("«key*1»"): [s("«value»"), s("«value»")]} for _ in range(2)]
        return s("«value»") if kind == "text" else [s("«value»"), s("«value»")]

    items = [{s("«key*1»"): value(3) for _ in range(4)} for _ in range(3)]
    lines = [json.dumps(item, ensure_ascii=bool(s.number % 2)) for item in items]
    return encoded(s, "\n".join(lines) if s.number % 2 else f"[{', '.join(lines)}]")


# --- .hwpx and .hwp; <P> paragraph, <C> cell, <T> text ---

HANCOM = "http://www.hancom.co.kr/hwpml/2011"
HANGUL = {
    "P": "<hp:p><hp:run><hp:t>…</hp:t></hp:run></hp:p>",
    "H": "<hp:p styleIDRef='1'><hp:run><hp:t>…</hp:t></hp:run></hp:p>",
    "L": "<hp:p paraPrIDRef='1'><hp:run><hp:t>…</hp:t></hp:run></hp:p>",
    "R": "<hp:p><hp:run>…</hp:run></hp:p>",
    "S": "<hp:subList>…</hp:subList>",
    "C": "<hp:tc><hp:subList><hp:p><hp:run><hp:t>…</hp:t></hp:run></hp:p></hp:subList><hp:cellSpan colSpan='1' rowSpan='1'/></hp:tc>",
    "T": "<hp:t>…</hp:t>",
    "TABLE": "<hp:p><hp:run><hp:tbl>…</hp:tbl></hp:run></hp:p>",
}
_ROW = "<hp:tr><C>«{0}»</C><C>«{0}»</C></hp:tr>"
HWPX = [
    "<H>«heading»</H><P>«paragraph*40»</P><L>«list item»</L><L>«list item»</L>",
    f"<TABLE>{_ROW.format('column header')}{_ROW.format('table cell')}{_ROW.format('table cell')}</TABLE>",
    f"<TABLE><hp:caption><S><P>«caption»</P></S></hp:caption>{_ROW.format('table cell')}<hp:tr><C>«table cell»</C><hp:tc><S><TABLE>{_ROW.format('nested table') * 2}</TABLE></S></hp:tc></hp:tr></TABLE>",
    "<TABLE><hp:tr><hp:tc><S><P>«merged cell»</P></S><hp:cellAddr colAddr='0' rowAddr='0'/><hp:cellSpan colSpan='1' rowSpan='2'/></hp:tc><C>«table cell»</C></hp:tr><hp:tr><hp:tc><S><P>«table cell»</P></S><hp:cellAddr colAddr='1' rowAddr='1'/></hp:tc></hp:tr></TABLE>",
    "<R><T>«paragraph»</T><hp:ctrl><hp:footNote><S><P>«@footnote»</P></S></hp:footNote></hp:ctrl><T>«paragraph»</T></R>",
    "<R><T>«paragraph»</T><hp:ctrl><hp:endNote><S><P>«@endnote»</P></S></hp:endNote></hp:ctrl><T>«paragraph»</T></R>",
    "<R><hp:ctrl><hp:header><S><P>«@header»</P></S></hp:header></hp:ctrl><hp:ctrl><hp:footer><S><P>«@footer»</P></S></hp:footer></hp:ctrl><T>«paragraph»</T></R>",
    "<R><T>«paragraph»</T><hp:ctrl><hp:fieldBegin type='MEMO'><S><P>«@memo»</P></S></hp:fieldBegin></hp:ctrl><T> «memo anchor»</T><hp:ctrl><hp:fieldEnd/></hp:ctrl><hp:ctrl><hp:hiddenComment><S><P>«@hidden comment»</P></S></hp:hiddenComment></hp:ctrl></R>",
    "<R><T>«paragraph»</T><hp:rect><hp:drawText><S><P>«text box»</P></S></hp:drawText></hp:rect></R><R><hp:container><hp:rect><hp:drawText><S><P>«text box in a group»</P></S></hp:drawText></hp:rect></hp:container></R>",
    "<R><hp:t>«paragraph*2» <hp:deleteBegin/>«-deleted»<hp:deleteEnd/> <hp:insertBegin/>«inserted»<hp:insertEnd/></hp:t></R>",
    "<R><hp:t>«after a tab*1»<hp:tab/>«after a tab*1»<hp:lineBreak/>«after a break*1»<hp:nbSpace/>«after a space*1»</hp:t></R>",
    "<R><T>«paragraph»</T><hp:equation><hp:script>{\"«equation*1»\"} over {\"«equation*1»\"}</hp:script></hp:equation></R>",
    "<R><hp:ctrl><hp:fieldBegin type='HYPERLINK'><hp:parameters><hp:stringParam name='Command'>«-field code*1»</hp:stringParam></hp:parameters></hp:fieldBegin></hp:ctrl><T>«hyperlink»</T><hp:ctrl><hp:fieldEnd/></hp:ctrl></R>",
    "<R><hp:ctrl><hp:fieldBegin type='CLICK_HERE'/></hp:ctrl><T>«click-here field»</T><hp:ctrl><hp:fieldEnd/></hp:ctrl></R>",
    "<R><hp:edit><hp:text>«form field»</hp:text></hp:edit><hp:checkBtn caption='«form caption»'/></R>",
    "<R><hp:dutmal><hp:mainText>«ruby base»</hp:mainText><hp:subText>«?ruby reading*1»</hp:subText></hp:dutmal></R>",
    "<R><hp:textart text='«text art»'/></R>",
]  # fmt: skip


def hwpx(s: Told) -> bytes:
    spaces = " ".join(f'xmlns:h{name[0]}="{HANCOM}/{name}"' for name in ("paragraph", "section", "core"))
    parts = s.mix(HWPX)
    half = len(parts) // 2
    styles = "<hh:style id='1' name='개요 1'/><hh:paraPr id='1'><hh:heading type='BULLET' level='0'/></hh:paraPr>"
    files: dict[str, str | bytes] = {"mimetype": "application/hwp+zip"}
    files["Contents/header.xml"] = f"<hh:head xmlns:hh='{HANCOM}/head'>{styles}</hh:head>"
    for name, some in (("10", parts[half:]), ("2", parts[:half])):  # in the order of numbers
        files[f"Contents/section{name}.xml"] = short(f"<hs:sec {spaces}>{''.join(some)}</hs:sec>", **HANGUL)
    return zipped(files)


def _record(tag: int, level: int, content: bytes) -> bytes:
    size = len(content)
    return (
        struct.pack("<I", tag | level << 10 | min(size, 4095) << 20)
        + (struct.pack("<I", size) * (size > 4094))
        + content
    )


def _hwp_paragraph(text: str, level: int = 0, *, style: int = 0, control: bytes = b"") -> bytes:
    """Write a paragraph's records (HWP 5.0, 4.3); `control` is what stands at its end, with its records."""
    units = text.encode("utf-16-le")
    if control:
        code = 11 if control[:4] in (b" lbt", b" osg", b"deqe") else 17 if control[:4] in (b"  nf", b"  ne") else 16
        units += struct.pack("<H", code) + control[:4] + bytes(8) + struct.pack("<H", code)
    units += b"\r\0"
    head = struct.pack("<IIHBBHHHI", len(units) // 2, 1 << 11 if control else 0, 0, style, 0, 1, 0, 1, 0)
    return _record(66, level, head) + _record(67, level + 1, units) + control[4:]


def _hwp_list(paragraphs: Sequence[str], level: int, cell: bytes = b"") -> bytes:
    listed = _record(72, level, struct.pack("<HHI", len(paragraphs), 0, 0) + cell)
    return listed + b"".join(_hwp_paragraph(text, level) for text in paragraphs)


def _hwp_table(rows: list[list[str]], level: int) -> bytes:
    made = b" lbt" + _record(71, level, b" lbt" + bytes(42))
    made += _record(77, level + 1, struct.pack("<IHHH", 0, len(rows), len(rows[0]), 0) + bytes(8 + 2 * len(rows) + 4))
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            made += _hwp_list([text], level + 1, struct.pack("<HHHHIIHHHHH", x, y, 1, 1, 9000, 900, 0, 0, 0, 0, 1))
    return made


def hwp(s: Told) -> bytes:
    def noted(kind: str, name: str) -> bytes:
        before, code = s("«paragraph»"), kind.encode()
        return _hwp_paragraph(before, control=code + _record(71, 1, code + bytes(8)) + _hwp_list([s(f"«@{name}»")], 2))

    def table() -> bytes:
        rows = [[s(f"«{name}»") for _ in range(3)] for name in ("column header", "table cell", "table cell")]
        return _hwp_paragraph("", control=_hwp_table(rows, 1))

    def box() -> bytes:
        text = _hwp_paragraph(s("«paragraph»"))
        shape = b" osg" + _record(71, 1, b" osg" + bytes(42)) + _record(76, 2, b"cer$" * 2 + bytes(60))
        return text + _hwp_paragraph("", control=shape + _hwp_list([s("«text box»")], 3))

    def equation() -> bytes:
        script = s('{"«equation*1»"} over {"«equation*1»"}').encode("utf-16-le")
        content = struct.pack("<IH", 0, len(script) // 2) + script + bytes(12)
        return _hwp_paragraph("", control=b"deqe" + _record(71, 1, b"deqe" + bytes(42)) + _record(88, 2, content))

    parts: list[Callable[[], Any]] = [
        lambda: _hwp_paragraph(s("«heading»"), style=1) + _hwp_paragraph(s("«paragraph*40»")),
        lambda: _hwp_paragraph(f"{s('«after a tab*1»')}\t\0\0\0\0\0\0\t{s('«after a tab*1»')}"), table, box, equation,
        lambda: noted("  nf", "footnote"), lambda: noted("  ne", "endnote"), lambda: noted("daeh", "header"),
        lambda: noted("toof", "footer"),
    ]  # fmt: skip
    body = b"".join(s.mix(parts))
    header = b"HWP Document File".ljust(32, b"\0") + struct.pack("<II", 0x05000300, 1) + bytes(216)
    information = _record(16, 0, bytes(26))
    for name in ("바탕글", "개요 1"):
        letters = struct.pack("<H", len(name)) + name.encode("utf-16-le")
        information += _record(26, 1, letters + struct.pack("<HBBHHHH", 0, 0, 0, 1042, 0, 0, 0))
    return compound(header, deflated(information), deflated(body))


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def compound(header: bytes, information: bytes, section: bytes) -> bytes:
    """Write an OLE2 file of the streams FileHeader, DocInfo and BodyText/Section0, none of them in the mini stream."""
    none, end = 0xFFFFFFFF, 0xFFFFFFFE
    fat, data, directory = [0xFFFFFFFD], b"", b""
    entries = [  # name, kind, right sibling, child, content
        ("Root Entry", 5, none, 1, b""), ("DocInfo", 2, 2, none, information), ("BodyText", 1, 3, 4, b""),
        ("FileHeader", 2, none, none, header), ("Section0", 2, none, none, section),
    ]  # fmt: skip
    for name, kind, right, child, content in entries:
        sectors = max(-(-len(content) // 512), 8) if content else 0
        letters, start = name.encode("utf-16-le"), len(fat) if content else end
        directory += letters.ljust(64, b"\0") + struct.pack("<HBBIII", len(letters) + 2, kind, 1, none, right, child)
        directory += bytes(36) + struct.pack("<IQ", start, sectors * 512)
        fat += [*range(start + 1, start + sectors), end] if content else []
        data += content.ljust(sectors * 512, b"\0")
    root = len(fat)
    fat += [root + 1, end]
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    head += struct.pack("<9I", 1, root, 0, 4096, end, 0, end, 0, 0) + b"\xff" * 432
    return head + struct.pack(f"<{len(fat)}I", *fat).ljust(512, b"\xff") + data + directory.ljust(1024, b"\0")


# --- .odt, .rtf, .eml, .epub ---

OASIS = "urn:oasis:names:tc:opendocument:xmlns"
ODF = " ".join(
    f'xmlns:{name}="{OASIS}:{path}:1.0"'
    for name, path in zip(
        ["office", "text", "table", "style", "draw", "svg", "fo", "form", "number", "presentation"],
        [
            "office",
            "text",
            "table",
            "style",
            "drawing",
            "svg-compatible",
            "xsl-fo-compatible",
            "form",
            "datastyle",
            "presentation",
        ],
        strict=True,
    )
)
ODF += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
ODT_SHORT = {
    "P": "<text:p>…</text:p>",
    "C": "<table:table-cell><text:p>…</text:p></table:table-cell>",
    "R": "<table:table-row>…</table:table-row>",
    "L": "<text:list>…</text:list>",
    "I": "<text:list-item>…</text:list-item>",
    "TABLE": "<table:table><table:table-column table:number-columns-repeated='2'/>…</table:table>",
}
ODT = [
    "<text:h text:outline-level='1'>«heading»</text:h><P>«paragraph*40»</P><text:h text:outline-level='2'>«heading»</text:h>",
    "<L><I><P>«list item»</P><L><I><P>«nested item»</P></I></L></I><I><P>«list item»</P></I></L>",
    "<TABLE><table:table-header-rows><R><C>«column header»</C><C>«column header»</C></R></table:table-header-rows><R><C>«table cell»</C><C>«table cell»</C></R></TABLE>",
    "<TABLE><R><table:table-cell table:number-columns-spanned='2'><P>«merged cell»</P></table:table-cell><table:covered-table-cell/></R><R><table:table-cell table:number-rows-spanned='2'><P>«merged cell»</P></table:table-cell><C>«table cell»</C></R><R><table:covered-table-cell/><C>«table cell»</C></R></TABLE>",
    "<TABLE><R><C>«table cell»</C><table:table-cell><TABLE><R><C>«nested table»</C><C>«nested table»</C></R></TABLE></table:table-cell></R><R><C>«table cell»</C><C>«table cell»</C></R></TABLE>",
    "<P>«paragraph»<text:note text:id='f' text:note-class='footnote'><text:note-citation>1</text:note-citation><text:note-body><P>«@footnote»</P></text:note-body></text:note> «paragraph»</P>",
    "<P>«paragraph»<text:note text:id='e' text:note-class='endnote'><text:note-citation>i</text:note-citation><text:note-body><P>«@endnote»</P></text:note-body></text:note> «paragraph»</P>",
    "<P>«paragraph» <office:annotation><dc:creator>«?author*1»</dc:creator><P>«@comment»</P></office:annotation>«paragraph»</P>",
    "<P>«paragraph» <draw:frame draw:name='x'><draw:text-box><P>«@text box»</P></draw:text-box></draw:frame></P>",
    "<P>«paragraph» <draw:g><draw:custom-shape><P>«@shape in a group»</P></draw:custom-shape></draw:g></P>",
    "<P>«paragraph» <draw:frame><draw:image/><svg:title>«?alt text»</svg:title></draw:frame></P>",
    "<P>«paragraph» <text:change text:change-id='c'/><text:change-start text:change-id='i'/>«inserted»<text:change-end text:change-id='i'/></P>",
    "<P><text:a xlink:href='#'>«hyperlink»</text:a> <text:span>«span*1»</text:span><text:s text:c='2'/>«after spaces*1»<text:tab/>«after a tab*1»<text:line-break/>«after a break*1»</P>",
    "<P><text:user-defined>«field»</text:user-defined> <text:sequence>12</text:sequence> «caption»</P>",
    "<text:section text:name='x'><P>«section»</P></text:section><text:numbered-paragraph><P>«numbered»</P></text:numbered-paragraph>",
    "<P><text:ruby><text:ruby-base>«ruby base»</text:ruby-base><text:ruby-text>«?ruby reading*1»</text:ruby-text></text:ruby></P>",
    "<P>«paragraph» <draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></P>",
]  # fmt: skip


def odt(s: Told) -> bytes:
    gone = s("<text:tracked-changes><text:changed-region text:id='c'><text:deletion><P>«-deleted»</P></text:deletion></text:changed-region>"
        "<text:changed-region text:id='i'><text:insertion/></text:changed-region></text:tracked-changes>")  # fmt: skip
    body = "".join(s.mix(ODT))
    frame = s("<style:master-page style:name='S'><style:header><P>«@header»</P></style:header><style:footer><P>«@footer»</P></style:footer>"
        "</style:master-page>")  # fmt: skip
    math = "<math xmlns='http://www.w3.org/1998/Math/MathML'><semantics><mtext>WORDS</mtext><annotation>\"WORDS\"</annotation></semantics></math>"
    files: dict[str, str | bytes] = {"mimetype": "application/vnd.oasis.opendocument.text"}
    for name, root, inner in (
        ("content", "document-content", f"<office:body><office:text>{gone}{body}</office:text></office:body>"),
        ("styles", "document-styles", f"<office:master-styles>{frame}</office:master-styles>"),
    ):
        files[f"{name}.xml"] = short(f"<office:{root} {ODF} office:version='1.2'>{inner}</office:{root}>", **ODT_SHORT)
    if "Object 1" in body:
        files["Object 1/content.xml"] = math.replace("WORDS", s("«@equation»"))
    entry = "<manifest:file-entry manifest:full-path='{}' manifest:media-type='{}'/>"
    kinds = {
        "/": files["mimetype"],
        "content.xml": "text/xml",
        "styles.xml": "text/xml",
        "Object 1/content.xml": "text/xml",
    }
    listed = "".join(entry.format(name, kind) for name, kind in kinds.items())
    files["META-INF/manifest.xml"] = (
        f"<manifest:manifest xmlns:manifest='{OASIS}:manifest:1.0'>{listed}</manifest:manifest>"
    )
    return zipped(files)


RTF = [
    r"{\pard\s1\outlinelevel0 «heading»\par}{\pard «paragraph*40»\par}",
    r"{\pard{\listtext\'b7\tab}«list item»\par}{\pard{\listtext 1.\tab}«list item»\par}",
    r"\trowd\cellx3000\cellx6000\pard\intbl «table cell»\cell «table cell»\cell\row\trowd\cellx3000\cellx6000\pard\intbl «table cell»\cell «table cell»\cell\row\pard ",
    r"\trowd\cellx3000\cellx6000\pard\intbl «table cell»\cell\pard\intbl\itap2 «nested table»\nestcell «nested table»\nestcell{\*\nesttableprops\trowd\cellx1000\cellx2000\nestrow}{\nonesttables\par}\pard\intbl «table cell»\cell\row\pard ",
    r"\trowd\clvmgf\cellx3000\cellx6000\pard\intbl «merged cell»\cell «table cell»\cell\row\trowd\clvmrg\cellx3000\cellx6000\pard\intbl\cell «table cell»\cell\row\pard ",
    r"{\pard «paragraph»{\super\chftn}{\footnote\pard{\super\chftn} «@footnote»} «paragraph»\par}",
    r"{\pard «paragraph»{\super\chftn}{\footnote\ftnalt\pard{\super\chftn} «@endnote»} «paragraph»\par}",
    r"{\pard «paragraph» {\*\atnid «?author*1»}{\*\atnauthor «?author*1»}\chatn{\*\annotation\pard «@comment»}«paragraph»\par}",
    r'{\pard «paragraph» {\field{\*\fldinst HYPERLINK "«-field code*1»"}{\fldrslt «hyperlink»}}\par}',
    r"{\pard «paragraph» {\deleted «-deleted»}{\revised «inserted»}{\v «-hidden text»}\par}",
    r"{\pard «paragraph» {\shp{\*\shpinst{\sp{\sn x}{\sv «-shape property*1»}}{\shptxt\pard «@text box»\par}}}\par}",
    r"{\pard «after a tab*1»\tab «after a tab*1»\line «after a break*1»\~«after a space*1»\emdash «after a dash*1»\par}",
    r"{\pard «paragraph» {\pict\pngblip 89504e470d0a1a0a}{\*\unknown «-unknown destination»}\par}",
    r"{\pard{\b «bold*1»} {\i «italic*1»} {\*\bkmkstart x}«bookmark»{\*\bkmkend x}\par}",
]  # fmt: skip


def rtf(s: Told) -> bytes:
    body = "".join(s.mix(RTF))
    frame = s(r"{\header\pard «@header»\par}{\footer\pard «@footer»\par}")
    coded = s.number % 2 == 1  # Korean as bytes of code page 949, else as Unicode with a substitute

    def letters(match: re.Match[str]) -> str:
        if coded:
            return "".join(f"\\'{byte:02x}" for byte in match[0].encode("cp949"))
        return "".join(f"\\u{code - 65536 * (code > 32767)}?" for code in map(ord, match[0]))

    fonts = r"{\fonttbl{\f0\fcharset129 Batang;}}{\stylesheet{\s1 heading 1;}}{\info{\title x}}"
    return re.sub("[가-힣]+", letters, rf"{{\rtf1\ansi\ansicpg949\uc1\deff0{fonts}{frame}{body}}}").encode("ascii")


def eml(s: Told) -> bytes:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = s("«subject»"), f"{s('«sender*1»')} <a@example.org>"
    mail["To"], mail["Date"] = f"{s('«recipient*1»')} <b@example.org>", "Mon, 02 Mar 2026 09:00:00 +0900"
    charset, cte = [("utf-8", "base64"), ("euc-kr", "8bit"), ("utf-8", "quoted-printable")][s.number % 3]
    if s.number % 4 == 1:
        mail.set_content("".join(s.mix(HTML[:7])), subtype="html", charset="utf-8")
    else:
        plain = s.mix(
            ["«paragraph*40»", "«paragraph»\n«paragraph»", "> «quotation»\n> «quotation»", "-- \n«signature»"]
        )
        mail.set_content("\n\n".join(plain), charset=charset, cte=cte)
        if s.number % 4 == 0:
            mail.add_alternative("".join(f"<p>{part}</p>" for part in plain), subtype="html")
    if s.number % 2 == 0:
        mail.add_attachment(
            b"%PDF-1.4", maintype="application", subtype="pdf", filename=f"{s('«@attachment name*1»')}.pdf"
        )
        inner = EmailMessage()
        inner["Subject"] = s("«@forwarded subject»")
        inner.set_content(s("«@forwarded mail»"))
        mail.add_attachment(inner)
    return mail.as_bytes()


def epub(s: Told) -> bytes:
    made, files = list[str](), dict[str, str | bytes]()
    files["mimetype"] = "application/epub+zip"
    for number in (3, 1, 2):  # the spine's order is not that of names
        body = "".join(s.mix(HTML[:9])) + s(
            "<p>«text»<a epub:type='noteref' href='#n'>1</a></p><aside id='n' epub:type='footnote'>«footnote»</aside>"
        )
        body = re.sub(r"(<img[^>]*[^/])>", r"\1/>", body.replace("<br>", "<br/>")).replace(
            " hidden>", " hidden='hidden'>"
        )
        body = re.sub(r"span=(\d)", r"span='\1'", body)
        files[f"text/c{number}.xhtml"] = (f"<html xmlns='http://www.w3.org/1999/xhtml' xmlns:epub='http://www.idpf.org/2007/ops'>"
            f"<head><title>x</title></head><body>{body}</body></html>")  # fmt: skip
        made.append(f"c{number}")
    files["META-INF/container.xml"] = ("<container xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles>"
        "<rootfile full-path='book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>")  # fmt: skip
    items = "".join(
        f"<item id='{name}' href='text/{name}.xhtml' media-type='application/xhtml+xml'/>" for name in sorted(made)
    )
    spine = "".join(f"<itemref idref='{name}'/>" for name in made)
    files["book.opf"] = (
        f"<package xmlns='http://www.idpf.org/2007/opf' version='3.0'><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    return zipped(files)


# --- .pdf and pictures ---


def pdf(s: Told) -> bytes:
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table

    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    font = "HYSMyeongJo-Medium" if s.number % 2 == 0 else "Helvetica"
    s.letters = [*ENGLISH, *KOREAN] if s.number % 2 == 0 else ENGLISH
    body = ParagraphStyle("body", fontName=font, fontSize=10, leading=14)
    head = ParagraphStyle("head", fontName=font, fontSize=16, leading=22)
    ruled = [("GRID", (0, 0), (-1, -1), 0.5, "#000000"), ("FONT", (0, 0), (-1, -1), font, 10)]

    def text(template: str, style: ParagraphStyle = body) -> list[Any]:
        return [Paragraph(s(template), style), Spacer(1, 12)]

    def table(rules: list[Any], name: str) -> list[Any]:
        return [Table([[s(f"«{name}*1»") for _ in range(3)] for _ in range(4)], style=rules), Spacer(1, 12)]

    def columns() -> list[Any]:
        left, right = text("«left column*60»")[0], text("«right column*60»")[0]
        return [
            Table([[left, right]], colWidths=[220, 220], style=[("VALIGN", (0, 0), (-1, -1), "TOP")]),
            Spacer(1, 12),
        ]

    parts: list[Callable[[], Any]] = [
        lambda: text("«heading»", head) + text("«paragraph*60»") + text("«heading»", head) + text("«paragraph*30»"),
        lambda: [*text("1. «list item*20»"), *text("- «list item*20»")], lambda: text("<b>«bold*2»</b> «paragraph*1»<i>,</i> «paragraph*20»"),
        lambda: table(ruled, "ruled table"), lambda: table(ruled[1:], "bare table"), columns,
        lambda: text("«paragraph*10» <super>1</super>, «paragraph*10»"), lambda: text("<a href='https://example.org/'>«link»</a>"),
    ]  # fmt: skip
    story = [flowable for part in s.mix(parts) for flowable in part]
    extras = [s(f"«@{name}»") for name in ("page header", "page footer", "form field", "annotation", "rotated text")]

    def page(canvas: Any, _: Any) -> None:
        canvas.setFont(font, 9)
        canvas.drawString(72, 800, extras[0])
        canvas.drawString(72, 40, extras[1])
        if font == "Helvetica":
            canvas.acroForm.textfield(value=extras[2], x=300, y=30, width=250, height=16, fontSize=9, borderWidth=0)
            canvas.textAnnotation(extras[3], Rect=[500, 780, 520, 800])
        canvas.saveState()
        canvas.rotate(90)
        canvas.drawString(200, -30, extras[4])
        canvas.restoreState()
        canvas.bookmarkPage("x")
        canvas.addOutlineEntry("outline", "x", 0)

    if font != "Helvetica":
        s.words = [word for word in s.words if word.structure not in ("form field", "annotation")]
    file = io.BytesIO()
    SimpleDocTemplate(file, invariant=1).build(story, onFirstPage=page)
    return file.getvalue()


def picture(s: Told, form: str) -> bytes:
    """Draw a page at 150 dots per inch, as a scanner would give it: black on white, 11 points."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("L", (1240, 1754), 255)
    font = next(filter(None, map(_font, FONTS)), None) or ImageFont.load_default(24)
    s.letters = ENGLISH if s.number % 2 or font.getname()[0] == "Aileron" else KOREAN
    s.numbered = False
    for line in range(20):
        ImageDraw.Draw(page).text((120, 120 + 60 * line), s("«line*6»" if line % 5 else "«heading*2»"), 0, font)
    file = io.BytesIO()
    page.save(file, form, resolution=150)
    return file.getvalue()


def _font(name: str) -> Any:
    from PIL import ImageFont

    try:
        return ImageFont.truetype(name, 24)
    except OSError:
        return None


def subtitles(s: Told, form: str) -> bytes:
    point = "," if form == "srt" else "."
    cues = [
        f"{at}\n00:00:{at:02}{point}000 --> 00:00:{at:02}{point}900\n" + s("«cue»\n<i>«cue»</i>\n")
        for at in range(1, 9)
    ]
    return encoded(s, "\n".join(["WEBVTT\n"] * (form == "vtt") + cues))


FONTS = ("NanumGothic.ttf", "malgun.ttf", "AppleSDGothicNeo.ttc", "NotoSansCJK-Regular.ttc")
MAKERS: dict[str, Callable[[Told], bytes]] = {
    ".csv": csv, ".docx": docx, ".eml": eml, ".epub": epub, ".html": html, ".hwp": hwp, ".hwpx": hwpx, ".json": json_, ".md": md,
    ".odt": odt, ".pdf": pdf, ".pptx": pptx, ".rtf": rtf, ".tsv": tsv, ".txt": txt, ".xlsx": xlsx,
    ".srt": lambda s: subtitles(s, "srt"), ".vtt": lambda s: subtitles(s, "vtt"),
}  # fmt: skip
PICTURE_MAKERS: dict[str, Callable[[Told], bytes]] = {
    ".png": lambda s: picture(s, "PNG"), ".jpg": lambda s: picture(s, "JPEG"), ".tif": lambda s: picture(s, "TIFF"),
    ".scan.pdf": lambda s: picture(s, "PDF"),
}  # fmt: skip


def make(suffix: str, number: int) -> tuple[str, bytes, Told]:
    told = Told(f"{suffix}{number}", number)
    return f"a{number}{suffix}", (MAKERS | PICTURE_MAKERS)[suffix](told), told
