"""Tests of pages: PDFs in depth, scans and pictures read by the real Tesseract.

They need what the checks of a checkout need: Debian's tesseract-ocr, tesseract-ocr-kor, fonts-nanum, fonts-noto-cjk.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText, Text
from pypdf.generic import NameObject, NumberObject
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table

from seoga import ocr, pages
from seoga.parsers import Document, NeedsAction, ParseError, Recognition, parse

NANUM = "/usr/share/fonts/truetype/nanum"
FONTS = {
    "gothic": (f"{NANUM}/NanumGothic.ttf", 0),
    "myeongjo": (f"{NANUM}/NanumMyeongjo.ttf", 0),
    "noto": ("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", 1),
}
KOREAN = (
    "도서관은 매주 월요일에 쉬고 나머지 요일에는 아침 9시부터 저녁 8시까지 문을 연다. 책은 한 사람이 5권까지 14일 동안"
    " 빌릴 수 있으며, 기다리는 사람이 없으면 7일을 늘릴 수 있다. Wi-Fi 사용은 무료이고, 자료실에는 Linux 컴퓨터 12대가"
    " 놓여 있다. 예약은 전화 02-555-0142로 받는다."
)
ENGLISH = "The library closes on Mondays. Every reader may borrow five books for two weeks."


def drawn(text: str, font: str = "gothic", *, size: int = 31, width: int = 1300) -> Image.Image:
    """Draw a text in lines on white; 31 pixels are 11 points at 200 dpi."""
    face = ImageFont.truetype(FONTS[font][0], size, index=FONTS[font][1])
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if face.getlength(longer) < width - 4 * size else [*lines, word]
    image = Image.new("L", (width, round((len(lines) * 1.6 + 3) * size)), 255)
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((2 * size, round((1.6 * number + 1.5) * size)), line, font=face, fill=0)
    return image


def saved(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **{"dpi": (200, 200), **options})
    return out.getvalue()


def pdf(*contents: Image.Image | str, size: tuple[float, float] = (595, 842), stamp: str = "") -> bytes:
    """Make a PDF: a string is the text of a page, a picture covers its page, as scans do."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=size)
    for content in contents:
        if isinstance(content, str):
            for number, line in enumerate(content.split("\n")):
                canvas.drawString(72, 760 - 14 * number, line)
        else:
            scanned = Image.new("L", (1654, 2339), 255)
            scanned.paste(content, (100, 150))
            canvas.drawImage(ImageReader(scanned), 0, 0, *size)
            canvas.drawString(200, 20, stamp)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def changed(data: bytes, change: Callable[[PdfWriter], object]) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    change(writer)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def shown(document: Document) -> str:
    return " ".join(block.text for block in document.blocks)


def errors(expected: str, found: str) -> float:
    """Return the share of wrong characters, white space aside (Levenshtein's distance)."""
    expected, found = ("".join(unicodedata.normalize("NFC", text).split()) for text in (expected, found))
    row = list(range(len(found) + 1))
    for number, char in enumerate(expected, 1):
        before, row = row, [number]
        for at, other in enumerate(found):
            row.append(min(before[at] + (char != other), before[at + 1] + 1, row[at] + 1))
    return row[-1] / len(expected)


def spaces(expected: str, found: str) -> float:
    """Return the share of word spaces that are right, by the letters beside them."""

    def places(text: str) -> set[str]:
        return {f"{before[-2:]} {after[:2]}" for before, after in zip(text.split(), text.split()[1:], strict=False)}

    return len(places(expected) & places(found)) / len(places(expected) | places(found))


@pytest.fixture
def engine() -> Iterator[None]:
    """Have Tesseract looked for anew, in this test and after it."""
    ocr._tesseract.cache_clear()
    yield
    ocr._tesseract.cache_clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Count the runs of Tesseract: languages and width of each."""
    counted, run = list[tuple[str, int]](), ocr._run

    def counting(image: Image.Image, languages: str, *rest: Any) -> Any:
        counted.append((languages, image.width))
        return run(image, languages, *rest)

    monkeypatch.setattr(ocr, "_run", counting)
    return counted


# --- what is read ---


@pytest.mark.parametrize("font", FONTS)
def test_korean_with_english_in_it_is_read_with_its_spaces(font: str) -> None:
    found = shown(parse(saved(drawn(KOREAN, font)), "scan.png"))
    assert errors(KOREAN, found) <= 0.015
    assert spaces(KOREAN, found) >= 0.97


def test_english_is_read_by_the_same_settings_and_broken_words_are_joined() -> None:
    document = parse(saved(drawn(ENGLISH.replace("borrow", "bor-\u200b row"), width=900)), "scan.png")
    assert errors(ENGLISH, shown(document).replace("- ", "")) <= 0.03
    assert len(document.blocks) == 1


def test_other_languages_are_read_all_at_once(runs: list[tuple[str, int]]) -> None:
    document = parse(saved(drawn(ENGLISH)), "scan.png", recognition=Recognition(languages="eng"))
    assert errors(ENGLISH, shown(document)) <= 0.02
    assert {languages for languages, _ in runs} == {"eng"}


def test_columns_are_read_one_after_the_other_below_their_title() -> None:
    column = drawn(f"{KOREAN} {KOREAN} {KOREAN}", size=26, width=700)
    page = Image.new("L", (1654, column.height + 300), 255)
    page.paste(drawn("두 단으로 짠 쪽의 제목은 너비를 모두 쓴다", size=44, width=1400), (100, 20))
    page.paste(column, (80, 250))
    page.paste(column, (840, 259))
    boxes = ocr._columns(page, 200)
    assert [round(box[0] / 800) for box in boxes] == [0, 0, 1]
    assert boxes[0][3] <= boxes[1][1] + 8
    assert boxes[1][2] <= boxes[2][0] + 16


def test_a_table_is_no_text_in_columns() -> None:
    page = Image.new("L", (1654, 2000), 255)
    face = ImageFont.truetype(FONTS["gothic"][0], 30)
    for number in range(30):
        cells = ("항목 이름", 100), ("값", 700), ("비고", 1200)
        for text, left in cells:
            ImageDraw.Draw(page).text((left, 60 * number + 50), text[: 2 + number % 4], font=face, fill=0)
    assert len(ocr._columns(page, 200)) == 1


@pytest.mark.parametrize("turn", [Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90])
def test_a_scan_on_its_side_or_its_head_is_turned(turn: Image.Transpose) -> None:
    assert errors(ENGLISH, shown(parse(saved(drawn(ENGLISH).transpose(turn)), "scan.png"))) <= 0.03


def test_a_photo_is_turned_as_its_exif_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned to the right
    data = saved(drawn(KOREAN).transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif)
    assert ocr.in_gray(Image.open(io.BytesIO(data)), 200).size == drawn(KOREAN).size


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA", "CMYK", "I;16"])
def test_pictures_of_every_mode_are_black_on_white(mode: str) -> None:
    plain = drawn("가나다")
    if mode == "RGBA":  # black everywhere, and transparent where there is no letter
        image = Image.new("RGBA", plain.size, (0, 0, 0, 0))
        image.putalpha(plain.point([255 - value for value in range(256)]))
    elif mode == "I;16":
        image = plain.convert("I").point(lambda value: value * 257).convert("I;16")
    else:
        image = plain.convert(mode)
    gray = ocr.in_gray(Image.open(io.BytesIO(saved(image, "TIFF" if mode in ("CMYK", "I;16") else "PNG"))), 200)
    assert gray.mode == "L"
    assert gray.getpixel((2, 2)) == 255
    assert gray.getextrema()[0] < 20


def test_a_fax_of_72_dpi_is_enlarged_and_a_large_scan_is_made_smaller() -> None:
    fax = Image.open(io.BytesIO(saved(Image.new("L", (595, 842), 255), dpi=(72, 72))))
    assert ocr.in_gray(fax, 200).height == pytest.approx(2300, abs=30)
    large = Image.open(io.BytesIO(saved(Image.new("L", (1600, 1200), 255), dpi=(800, 800))))
    assert ocr.in_gray(large, 200).size == (400, 300)


def test_a_tiny_picture_is_empty_without_ocr(runs: list[tuple[str, int]]) -> None:
    assert parse(saved(Image.new("RGB", (39, 500), "red")), "dot.png").status == "empty"
    assert not runs


def test_the_pages_of_a_tiff_have_their_places() -> None:
    image = drawn(ENGLISH)
    data = saved(image, "TIFF", save_all=True, append_images=[drawn("1234567 first of all"), image])
    document = parse(data, "fax.tif")
    assert [block.place for block in document.blocks] == ["p. 1", "p. 2", "p. 3"]
    assert "first of all" in document.blocks[1].text
    assert [block.place for block in parse(saved(image, "TIFF"), "fax.tiff").blocks] == [""]


def test_a_picture_of_30_000_by_30_000_is_refused_before_it_is_unpacked() -> None:
    head = saved(Image.new("L", (50, 50)))
    huge = head[:16] + (30_000).to_bytes(4, "big") * 2 + head[24:]
    huge = huge[:29] + _crc(huge[12:29]) + huge[33:]
    with pytest.raises(ParseError, match="30,000 x 30,000 pixels are too many"):
        parse(huge, "huge.png")


def _crc(data: bytes) -> bytes:
    import zlib

    return zlib.crc32(data).to_bytes(4, "big")


def test_a_broken_picture_is_an_error_in_plain_words() -> None:
    for data in (b"", b"no picture", saved(drawn(ENGLISH))[:3000]):
        with pytest.raises(ParseError, match=r"damaged or not really a \.png file"):
            parse(data, "a.png")


# --- which pages of a PDF are read ---


def test_only_scanned_pages_are_read_and_what_was_done_is_told() -> None:
    text = "A page of text that needs no engine to be read"
    steps = list[tuple[float, float, str]]()
    recognition = Recognition(step=lambda *step: steps.append(step))
    document = parse(pdf(text, drawn(ENGLISH), text, drawn(ENGLISH)), "a.pdf", recognition=recognition)
    assert [block.place for block in document.blocks] == ["p. 1", "p. 2", "p. 3", "p. 4"]
    assert document.status == "ok"
    assert document.metadata["ocr.engine"] == f"tesseract {ocr.ocr_engine()}, eng+kor, 200 dpi"
    assert document.metadata["ocr.pages"] == "2, 4"
    assert 80 <= int(document.metadata["ocr.confidence"]) <= 100
    assert "ocr.unsure_pages" not in document.metadata
    assert {(2, 4, "pages"), (1, 4, "pages")} <= set(steps)
    assert document.waited > 0


def test_a_stamp_on_a_scan_is_kept_once() -> None:
    document = parse(pdf(drawn(ENGLISH), stamp="Scanned by SomeScanner"), "a.pdf")
    assert shown(document).count("Scanned by SomeScanner") == 1
    assert errors(ENGLISH, shown(document).replace("Scanned by SomeScanner", "")) <= 0.03


def test_text_that_an_earlier_ocr_hid_under_a_scan_is_taken(runs: list[tuple[str, int]]) -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    text = canvas.beginText(72, 700)
    text.setTextRenderMode(3)
    text.textLine("Hidden words of an earlier run")
    canvas.drawText(text)
    canvas.drawImage(ImageReader(drawn(ENGLISH)), 0, 0, 595, 842)
    canvas.save()
    assert shown(parse(out.getvalue(), "a.pdf")) == "Hidden words of an earlier run"
    assert not runs


def test_a_page_whose_characters_mean_nothing_is_read_from_its_picture() -> None:
    data = pdf("Quick brown foxes jump over\nlazy dogs all day and night")
    cmap = b"1 beginbfrange <00> <ff> <e000> endbfrange"

    def spoil(writer: PdfWriter) -> None:
        from pypdf.generic import DecodedStreamObject

        stream = DecodedStreamObject()
        stream.set_data(cmap)
        for font in writer.pages[0]["/Resources"]["/Font"].values():  # type: ignore[index]
            font.get_object()[NameObject("/ToUnicode")] = writer._add_object(stream)

    document = parse(changed(data, spoil), "a.pdf")
    assert shown(document) == "Quick brown foxes jump over lazy dogs all day and night"
    assert document.metadata["ocr.pages"] == "1"


def test_a_scan_that_its_page_turns_is_upright() -> None:
    data = pdf(drawn(ENGLISH).transpose(Image.Transpose.ROTATE_270))
    document = parse(changed(data, lambda writer: writer.pages[0].rotate(270)), "a.pdf")
    assert errors(ENGLISH, shown(document)) <= 0.05


def test_a_page_of_200_000_points_is_drawn_within_limits() -> None:
    drawing = pages._drawing
    with pytest.MonkeyPatch.context() as patch:
        sizes = list[tuple[int, int]]()

        def measuring(page: Any, dpi: int) -> Any:
            _, pixels, dpi = drawing(page, dpi)
            sizes.append((pixels, dpi))
            return lambda: Image.new("L", (60, 60), 255), pixels, dpi

        patch.setattr(pages, "_drawing", measuring)
        document = parse(pdf(drawn("x"), size=(200_000, 200_000)), "a.pdf")
    assert sizes == [(pytest.approx(30_864_197, rel=0.01), 2)]
    assert document.partial == ["p. 1: too large to be read at 200 dpi, read at 2"]


# --- limits, and what is kept ---


def test_finished_pages_are_kept_and_not_read_again(runs: list[tuple[str, int]]) -> None:
    kept = dict[str, str]()
    data = pdf(*[drawn(f"Page number {number}") for number in range(1, 4)])

    def keep(name: str, value: str) -> None:
        kept[name] = value
        if len(kept) == 2:
            raise KeyboardInterrupt  # as if the process were killed

    with pytest.raises(KeyboardInterrupt):
        parse(data, "a.pdf", recognition=Recognition(keep=keep))
    whole, before, steps = dict(kept), len(runs), list[float]()
    done = {name.split()[-1] for name in kept}
    assert len(done) >= 2
    recognition = Recognition(kept=kept.get, keep=whole.__setitem__, step=lambda done, *_: steps.append(done))
    document = parse(data, "a.pdf", recognition=recognition)
    assert [block.place for block in document.blocks] == ["p. 1", "p. 2", "p. 3"]
    assert {name.split()[-1] for name in whole} - done == {"1", "2", "3"} - done
    assert max(steps) == 3
    again = len(runs)
    assert (again > before) == (len(done) < 3)
    assert shown(parse(data, "a.pdf", recognition=Recognition(kept=whole.get))) == shown(document)
    assert len(runs) == again
    other = Recognition(kept=whole.get, dpi=100)
    assert parse(data, "a.pdf", recognition=other).metadata["ocr.pages"] == "1-3"
    assert len(runs) > again


@pytest.mark.parametrize("value", ["", "{", "[]", '{"paragraphs": 3}', json.dumps({"paragraphs": []})])
def test_a_kept_page_that_is_broken_is_read_again(value: str) -> None:
    assert pages._unpacked(value) is None


def test_pages_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    def meeting(*_: Any) -> tuple[list[ocr.Line], float, int]:
        together.wait(timeout=20)
        return [ocr.Line("met", 0, 9, 0, 0, 9)], 90.0, 1

    monkeypatch.setattr(pages, "recognise", meeting)
    assert shown(parse(pdf(*[drawn("x")] * 4), "a.pdf")) == "met met met met"


def test_a_page_that_takes_too_long_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "PAGE_SECONDS", 0)
    document = parse(pdf("A page of text that is read at once", drawn(KOREAN)), "a.pdf")
    assert document.partial == ["p. 2: not read by OCR within 120 s, left out"]
    with pytest.raises(ParseError, match="not read by OCR within 120 s"):
        parse(saved(drawn(KOREAN)), "a.png")


def test_time_spent_waiting_is_not_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> tuple[list[ocr.Line], float, int]:
        time.sleep(0.05)
        return [ocr.Line("slow", 0, 9, 0, 0, 9)], 90.0, 1

    monkeypatch.setattr(pages, "recognise", slow)
    assert len(parse(pdf(*[drawn("x")] * 9), "a.pdf", seconds=5).blocks) == 9
    document = Document()
    list(pages.pdf(pdf(drawn("x")), document))
    assert document.waited >= 0.05


def test_a_page_that_is_hardly_readable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "recognise", lambda *_: ([ocr.Line("q#|", 0, 9, 0, 0, 9)], 31.0, 1))
    document = parse(pdf("A page of text that is read at once", drawn("x")), "a.pdf")
    assert document.metadata["ocr.unsure_pages"] == "2"
    assert document.partial == ["p. 2: hardly readable for OCR"]


# --- what is missing ---


@pytest.mark.usefixtures("engine")
def test_without_tesseract_the_person_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "ProgramFiles", "ProgramFiles(x86)", "LOCALAPPDATA"):
        monkeypatch.setenv(name, "")
    with pytest.raises(NeedsAction, match=r"Tesseract.*is not installed: run `apt install tesseract-ocr") as raised:
        parse(saved(drawn(KOREAN)), "a.png")
    assert raised.value.lacks == "ocr"
    document = parse(pdf("A page of text that is read at once", drawn(KOREAN)), "a.pdf")
    assert document.lacks == {"ocr"}
    assert document.partial[0].startswith("p. 2: scanned images, left out. Tesseract")
    assert ocr.ocr_engine() == ""
    for platform, remedy in (("darwin", "brew install"), ("win32", "UB-Mannheim")):
        monkeypatch.setattr("sys.platform", platform)
        assert remedy in ocr.ocr_state("eng+kor")


@pytest.mark.usefixtures("engine")
def test_missing_language_data_is_named() -> None:
    assert ocr.ocr_state("eng+kor") == ""
    assert ocr.ocr_state("eng+xyz") == (
        "Tesseract, which reads scanned pages (OCR), lacks the language data of xyz:"
        " run `apt install tesseract-ocr tesseract-ocr-eng tesseract-ocr-xyz` (Debian, Ubuntu), or what does the same."
    )
    with pytest.raises(NeedsAction, match="lacks the language data of xyz"):
        parse(saved(drawn(KOREAN)), "a.png", recognition=Recognition(languages="xyz"))


@pytest.mark.usefixtures("engine")
def test_language_data_that_is_elsewhere_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    assert "lacks the language data of eng, kor" in ocr.ocr_state("eng+kor")


@pytest.mark.usefixtures("engine")
def test_what_a_killed_reading_left_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, new = tmp_path / f"{ocr.TEMPORARY}old", tmp_path / f"{ocr.TEMPORARY}new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "page.pgm").touch()
    os.utime(old, (0, 0))
    assert ocr.ocr_engine()
    assert not old.exists()
    assert new.exists()


# --- PDF in depth ---


def test_ruled_tables_become_rows_and_their_text_is_not_repeated() -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    cells = [["Item", "Price", "Count"], ["Pencil", "1,000", "3"], ["Paper, red", "both cells", ""]]
    table = Table(cells, style=[("GRID", (0, 0), (-1, -1), 0.5, "black"), ("SPAN", (1, 2), (2, 2))])
    table.wrapOn(canvas, 400, 400)
    canvas.drawString(72, 760, "Before the table")
    table.drawOn(canvas, 72, 650)
    canvas.drawString(72, 600, "After the table")
    canvas.save()
    blocks = parse(out.getvalue(), "a.pdf").blocks
    assert [block.text for block in blocks] == [
        "Before the table",
        "| Item | Price | Count |\n| --- | --- | --- |\n| Pencil | 1,000 | 3 |\n| Paper, red | both cells |  |",
        "After the table",
    ]
    assert (blocks[1].kind, blocks[1].header, blocks[1].place) == ("table", 2, "p. 1")


def test_titles_of_the_outline_are_headings() -> None:
    data = pdf("1.2 Costs\nare told on this page, line by line, and so on.", "Costs\nonce more, but no title")

    def mark(writer: PdfWriter) -> None:
        above = writer.add_outline_item(title="Report", page_number=1)
        writer.add_outline_item(title="Costs", page_number=0, parent=above)

    blocks = parse(changed(data, mark), "a.pdf").blocks
    assert [(block.kind, block.text, block.level) for block in blocks][:2] == [
        ("heading", "1.2 Costs", 2),
        ("text", "are told on this page, line by line, and so on.", 0),
    ]
    assert {block.kind for block in blocks[2:]} == {"text"}


def test_labels_of_pages_are_named_beside_their_numbers() -> None:
    data = pdf("The preface of it all", "The preface goes on", "The first chapter", "The second")

    def label(writer: PdfWriter) -> None:
        writer.set_page_label(0, 1, "/r")
        writer.set_page_label(2, 3, "/D", prefix="A-")

    places = [block.place for block in parse(changed(data, label), "a.pdf").blocks]
    assert places == ["p. i (1)", "p. ii (2)", "p. A-1 (3)", "p. A-2 (4)"]


def test_values_of_forms_comments_and_names_of_attachments_are_read() -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.drawString(72, 760, "Please fill in this form")
    canvas.acroForm.textfield(name="name", value="the library", x=72, y=700)
    canvas.acroForm.checkbox(name="agreed", checked=True, x=72, y=650)
    canvas.acroForm.checkbox(name="declined", checked=False, x=72, y=600)
    canvas.save()

    def annotate(writer: PdfWriter) -> None:
        writer.add_annotation(0, Text(rect=(50, 550, 200, 650), text="Is this right?", title_bar="Reviewer"))
        writer.add_annotation(0, FreeText(rect=(50, 450, 200, 500), text="Checked in May"))
        writer.add_attachment("costs.xlsx", b"x")

    document = parse(changed(out.getvalue(), annotate), "a.pdf")
    assert [block.text for block in document.blocks] == [
        "Please fill in this form",
        "name: the library\nagreed: yes\ndeclined: no",
        "Reviewer: Is this right?",
        "Checked in May",
    ]
    assert document.metadata["attachments"] == "costs.xlsx"


def test_letters_one_below_the_other_are_a_word() -> None:
    assert shown(parse(pdf("V\nE\nR\nT\nI\nC\nA\nL"), "a.pdf")) == "VERTICAL"


def test_an_outline_that_goes_round_in_circles_ends() -> None:
    def loop(writer: PdfWriter) -> None:
        item = writer.add_outline_item(title="Costs", page_number=0)
        item.get_object()[NameObject("/Next")] = item  # type: ignore[index]
        writer.root_object["/Outlines"].get_object()[NameObject("/Count")] = NumberObject(9)  # type: ignore[index]

    assert parse(changed(pdf("Costs are told on this page"), loop), "a.pdf").status == "ok"
