"""Makes honest documents of each format (`DOCUMENTS`): long, wide, full of pictures, Korean. Each has to be read whole.

Nothing here is a test. Large ones are as large as such files are in offices; `SMALL` names one small document a format.
"""

# ruff: noqa: E501 - one document is one line

from __future__ import annotations

import csv
import importlib.util
import io
import json
import random
import re
import sys
import zipfile
from collections.abc import Callable
from datetime import date, timedelta
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

_spec = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
assert _spec is not None
assert _spec.loader is not None
hostile = sys.modules.get("hostile") or importlib.util.module_from_spec(_spec)
if "hostile" not in sys.modules:
    sys.modules["hostile"] = hostile  # its dataclasses look themselves up
    _spec.loader.exec_module(hostile)

ENGLISH = """The committee met on Tuesday and agreed on the budget. Travel is capped at two trips a year. Each branch
keeps its own list of loans; the main office keeps the accounts. Repairs under 500,000 won need no second signature."""
KOREAN = """위원회는 화요일에 모여 예산을 의결하였다. 출장은 한 해에 두 번까지로 한다. 분관마다 대출 목록을 따로 관리하고 본관이
회계를 맡는다. 오십만 원이 되지 않는 수리는 결재를 한 번만 받는다."""
SENTENCES = [part.strip() + "." for part in f"{ENGLISH} {KOREAN}".replace("\n", " ").split(".") if part.strip()]
OMML = '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>'


def paragraphs(number: int, seed: int = 0) -> list[str]:
    """Make paragraphs of three to eight sentences, some English, some Korean."""
    chance = random.Random(seed)
    return [f"{n}. {' '.join(chance.choices(SENTENCES, k=chance.randint(3, 8)))}" for n in range(1, number + 1)]


def rows(number: int, columns: int = 5) -> list[list[Any]]:
    """Make a header and rows of a day, an item, sums."""
    days = (date(2026, 1, 1) + timedelta(days=n % 365) for n in range(number))
    body = [[day, f"품목 item {n}", *(n * 17 % 1000 * 100 for _ in range(columns - 2))] for n, day in enumerate(days)]
    return [["날짜", "Item", *(f"금액 {n}" for n in range(1, columns - 1))], *body]


def photo(form: str = "JPEG", words: str = "", size: tuple[int, int] = (640, 480)) -> bytes:
    """Make a picture: words on white, or without any a grainy one like a photograph."""
    if words:
        return bytes(hostile.drawn(form, words, size))
    from PIL import Image

    grain = Image.frombytes(
        "L", (size[0] // 8, size[1] // 8), random.Random(size[0]).randbytes(size[0] * size[1] // 64)
    )
    return bytes(hostile.saved(grain.resize(size), format=form))


# --- what office programs write ---


def settled(thing: Any) -> bytes:
    """Save something as a zip without the time of day, so that it is the same each time."""
    with zipfile.ZipFile(io.BytesIO(thing if isinstance(thing, bytes) else hostile.saved(thing))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    chance = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d|(?<= id=\")\d{6,}")  # moments, random ids
    return bytes(hostile.zipped({name: chance.sub(b"2026-03-02T09:00:00", part) for name, part in parts.items()}))


def docx(number: int = 40, table: int = 0, pictures: int = 0, equations: int = 0, lists: int = 0) -> bytes:
    import docx
    from docx.oxml import parse_xml

    made = docx.Document()
    made.add_heading("연차 보고서 Annual report", 0)
    made.sections[0].header.paragraphs[0].text = "나루마을도서관"
    for n, text in enumerate(paragraphs(number)):
        if n % 10 == 0:
            made.add_heading(f"제{n // 10 + 1}장 Part {n // 10 + 1}", 1 + n // 10 % 3)
        made.add_paragraph(text)
    for _ in range(pictures):
        made.add_picture(io.BytesIO(photo(size=(320, 240))))
    for _ in range(equations):
        made.add_paragraph("평균은 ")._p.append(parse_xml(OMML))
    for n in range(lists):
        made.add_paragraph(f"항목 {n}", style="List Bullet" if n % 3 else "List Number")
    if table:
        grid = made.add_table(0, 5)
        for row in rows(table):
            for cell, value in zip(grid.add_row()._tr.tc_lst, row, strict=True):
                cell.p_lst[0].add_r().text = str(value)
    return settled(made)


def xlsx(number: int = 200, columns: int = 5, sheets: int = 1, merged: int = 0) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for n in range(sheets):
        sheet = book.active if n == 0 else book.create_sheet(f"{n}월")
        for row in rows(number, columns):
            sheet.append(row)
        for low in range(2, 2 + 2 * merged, 2):
            sheet.merge_cells(start_row=low, end_row=low + 1, start_column=3, end_column=4)
        sheet["B3"].number_format, sheet["C3"].number_format = "0.00%", '#,##0"원"'
    return settled(book)


def pptx(slides: int = 8, pictures: int = 0, table: int = 0) -> bytes:
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    for text in paragraphs(slides):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = text[:30], text
        slide.notes_slide.notes_text_frame.text = f"발표 메모: {text[:50]}"
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, Inches(2), Inches(1)).text_frame.text = "그룹 안의 글"
        for n in range(pictures):
            slide.shapes.add_picture(io.BytesIO(photo(size=(160 + 8 * n, 120))), 0, 0)
        if table:
            grid = slide.shapes.add_table(table, 3, 0, 0, Inches(6), Inches(3)).table
            for n in range(table):
                grid.cell(n, 0).text, grid.cell(n, 2).text = f"항목 {n}", str(n * 100)
    return settled(deck)


def hwpx(number: int = 30, table: int = 0) -> bytes:
    from hwpx import HwpxDocument

    made = HwpxDocument.new()
    for text in paragraphs(number):
        made.add_paragraph(text)
    if table:
        grid = made.add_table(table, 3)
        for n in range(table):
            for column, text in enumerate((f"항목 {n}", "수량", str(n * 100))):
                grid.set_cell_text(n, column, text)
    return settled(bytes(made.to_bytes()))


def hwp(number: int = 30, sections: int = 1) -> bytes:
    return bytes(hostile.hwp(*[b"".join(map(hostile.hwp_paragraph, paragraphs(number, n))) for n in range(sections)]))


def odt(number: int = 30, table: int = 0) -> bytes:
    body = "".join(
        f"<text:h text:outline-level='1'>제목</text:h><text:p>{text}</text:p>" for text in paragraphs(number)
    )
    line = "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in ("항목", "수량", "100"))
    body += f"<table:table>{f'<table:table-row>{line}</table:table-row>' * table}</table:table>" if table else ""
    return bytes(hostile.office("odt", body))


def epub(chapters: int = 3) -> bytes:
    names = [f"c{n}" for n in range(chapters)]
    text = {f"OEBPS/{name}.xhtml": page(10, n) for n, name in enumerate(names)}
    items = "".join(hostile.ITEM.format(name, f"{name}.xhtml") for name in names)
    return bytes(hostile.book(items, "".join(f'<itemref idref="{name}"/>' for name in names), text))


# --- pages ---


def pdf(pages: int = 3, pictures: int = 0, columns: int = 1, password: bool = False) -> bytes:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen.canvas import Canvas

    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    out = io.BytesIO()
    canvas = Canvas(out, invariant=True, encrypt=StandardEncryption("", "owner") if password else None)
    image = ImageReader(io.BytesIO(photo(size=(320, 240))))
    for number in range(1, pages + 1):
        canvas.setFont("HYSMyeongJo-Medium", 9)
        for n, text in enumerate(paragraphs(30 * columns, number)):
            canvas.drawString(50 + n % columns * 260, 780 - n // columns * 20, text[: 90 // columns])
        for n in range(pictures):
            canvas.drawImage(image, 50 + n % 5 * 100, 20 + n // 5 * 60, 90, 50)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def tiff(pages: int) -> bytes:
    from PIL import Image

    first, *rest = (Image.open(io.BytesIO(photo("PNG", f"Page {n} of the minutes"))) for n in range(1, pages + 1))
    return bytes(hostile.saved(first, format="TIFF", save_all=True, append_images=rest))


# --- text ---


def page(number: int = 20, seed: int = 0) -> str:
    """Make a web page, well-formed so that an EPUB can hold it too."""
    body = "".join(f"<h2>제{n}장</h2><p>{text}</p>" for n, text in enumerate(paragraphs(number, seed)))
    table = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows(30))
    head = "<head><title>보고서</title><style>p { margin: 0 }</style></head>"
    return f'<html xmlns="http://www.w3.org/1999/xhtml">{head}<body><ul><li>하나</li></ul>{body}<table>{table}</table></body></html>'


def lines(number: int, delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(rows(number))
    return out.getvalue()


def records(number: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "제목": text[:20], "tags": ["가", "b"], "in": {"text": text}}
        for n, text in enumerate(paragraphs(number))
    ]


def rtf(number: int = 20) -> bytes:
    escaped = ("".join(c if c < "\x80" else f"\\u{ord(c)}?" for c in text) for text in paragraphs(number))
    return (
        "{\\rtf1\\ansi{\\fonttbl{\\f0 Malgun Gothic;}}" + "".join(f"\\pard\\f0 {text}\\par\n" for text in escaped) + "}"
    ).encode()


def mail(number: int = 5, html: bool = False, attached: int = 0) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = "office@example.org", "branch@example.org"
    message["Subject"], message["Date"] = "회의록 Minutes", "Mon, 2 Mar 2026 09:00:00 +0900"
    message.set_content("\n\n".join(paragraphs(number)))
    if html:
        message.add_alternative(page(number), subtype="html")
    for n in range(attached):
        message.add_attachment(photo(size=(320, 240)), maintype="image", subtype="jpeg", filename=f"사진 {n}.jpg")
    for n, part in enumerate(message.walk()):
        if part.is_multipart():
            part.set_boundary(f"boundary-{n}")  # a random one otherwise
    return message.as_bytes()


def subtitles() -> bytes:
    times = (f"{n}\n00:{n // 60:02}:{n % 60:02},000 --> 00:{n // 60:02}:{n % 60:02},900\n" for n in range(600))
    return "".join(f"{time}{words[:60]}\n\n" for time, words in zip(times, paragraphs(600), strict=True)).encode()


def text(number: int = 40) -> str:
    return "\n\n".join(paragraphs(number))


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "letter.docx": docx, "long.docx": partial(docx, 1500), "table.docx": partial(docx, table=800),
    "pictures.docx": partial(docx, pictures=60), "equations.docx": partial(docx, equations=200),
    "lists.docx": partial(docx, lists=300),
    "budget.xlsx": xlsx, "long.xlsx": partial(xlsx, 8000), "wide.xlsx": partial(xlsx, 50, 250),
    "months.xlsx": partial(xlsx, sheets=12), "merged.xlsx": partial(xlsx, 3000, merged=1400),
    "one-row.xlsx": partial(xlsx, 2),
    "talk.pptx": pptx, "long.pptx": partial(pptx, 60), "pictures.pptx": partial(pptx, pictures=8),
    "tables.pptx": partial(pptx, 4, table=12),
    "notice.hwpx": hwpx, "long.hwpx": partial(hwpx, 600), "table.hwpx": partial(hwpx, table=60),
    "notice.hwp": hwp, "long.hwp": partial(hwp, 2000), "sections.hwp": partial(hwp, sections=20),
    "letter.odt": odt, "long.odt": partial(odt, 1500), "table.odt": partial(odt, table=800),
    "story.epub": epub, "long.epub": partial(epub, 120),
    "handbook.pdf": pdf, "long.pdf": partial(pdf, 150), "pictures.pdf": partial(pdf, pictures=20),
    "columns.pdf": partial(pdf, columns=2), "locked-by-owner.pdf": partial(pdf, password=True),
    "modern.pdf": hostile.modern_pdf,
    "sign.png": partial(photo, "PNG", "Opening hours 9 to 6"), "sign.jpg": partial(photo, "JPEG", "Closed on Mondays"),
    "large.jpeg": partial(photo, "JPEG", "Reading room", (3000, 2000)), "sign.tif": partial(photo, "TIFF", "Silence please"),
    "minutes.tiff": partial(tiff, 3),
    "report.html": lambda: page().encode(), "report.htm": lambda: page().encode("cp949"),
    "long.html": lambda: page(4000).encode(), "utf16.html": lambda: page().encode("utf-16"),
    "notes.txt": lambda: text().encode(), "cp949.txt": lambda: text().encode("cp949"),
    "utf16.txt": lambda: text().encode("utf-16"), "long.txt": lambda: text(8000).encode(),
    "crlf.txt": lambda: text().replace("\n", "\r\n").encode("utf-8-sig"), "few.txt": lambda: "메모".encode(),
    "minutes.md": lambda: f"---\ntitle: 회의록\n---\n# 회의\n\n{text()}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode(),
    "long.markdown": lambda: "".join(f"## 제{n}장\n\n{p}\n\n" for n, p in enumerate(paragraphs(4000))).encode(),
    "code.md": lambda: ("```python\nprint('안녕')\n```\n\n" * 300).encode(),
    "loans.csv": lambda: lines(300).encode(), "long.csv": lambda: lines(50_000).encode("cp949"),
    "semicolons.csv": lambda: lines(300, ";").encode("utf-8-sig"), "loans.tsv": lambda: lines(300, "\t").encode(),
    "records.json": lambda: json.dumps(records(60), ensure_ascii=False, indent=1).encode(),
    "long.json": lambda: json.dumps(records(5000)).encode(),
    "records.jsonl": lambda: "\n".join(json.dumps(record) for record in records(200)).encode(),
    "talk.srt": subtitles, "talk.vtt": lambda: b"WEBVTT\n\n" + subtitles().replace(b",", b"."), "page.xhtml": lambda: page().encode(),
    "letter.rtf": rtf, "long.rtf": partial(rtf, 2000),
    "saved.mht": partial(mail, 40, html=True), "minutes.eml": mail, "html.eml": partial(mail, html=True), "pictures.eml": partial(mail, attached=12),
}  # fmt: skip
SMALL: dict[str, Callable[[], bytes]] = {
    ".docx": partial(docx, 6, table=3, equations=2, lists=3, pictures=1), ".xlsx": partial(xlsx, 12, merged=1),
    ".pptx": partial(pptx, 2, table=2, pictures=1), ".hwpx": partial(hwpx, 4, table=3), ".hwp": partial(hwp, 6),
    ".odt": partial(odt, 4, table=3), ".epub": epub, ".pdf": partial(pdf, 1, pictures=1),
    ".png": partial(photo, "PNG", "Hi", (90, 70)), ".jpg": partial(photo, "JPEG", "Hi", (90, 70)),
    ".tif": partial(photo, "TIFF", "Hi", (90, 70)),
    ".html": lambda: page(4).encode(), ".txt": lambda: text(6).encode("cp949"), ".md": DOCUMENTS["minutes.md"],
    ".csv": lambda: lines(40).encode(), ".tsv": lambda: lines(40, "\t").encode(),
    ".json": lambda: json.dumps(records(6), ensure_ascii=False).encode(), ".jsonl": lambda: b"\n".join(b'{"a": [1, {"b": "c"}]}' for _ in range(30)),
    ".rtf": partial(rtf, 5), ".eml": partial(mail, html=True, attached=1),
    **{f".{suffix}": partial(hostile.sound, suffix) for suffix in hostile.SOUNDS},
}  # fmt: skip
SMALL |= {
    ".srt": partial(str.encode, hostile.CUE * 9),
    ".vtt": lambda: ("WEBVTT\n\n" + hostile.CUE.replace(",", ".") * 9).encode(),
}
SMALL |= {
    ".htm": SMALL[".html"],
    ".xhtml": SMALL[".html"],
    ".mht": SMALL[".eml"],
    ".mhtml": SMALL[".eml"],
    ".markdown": SMALL[".md"],
    ".jpeg": SMALL[".jpg"],
    ".tiff": SMALL[".tif"],
}
