"""The main job: a mixed folder goes in whole, and each fact in it is found first, with the place to cite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from seoga.tools import Tools

Writer = Callable[[Path], None]
FILLER = "이 문단은 자리를 채운다. 특별한 내용은 없다. This paragraph fills the page and says nothing in particular. "


def write_docx(path: Path) -> None:
    import docx

    document = docx.Document()
    document.add_heading("용역 계약서", 1)
    document.add_paragraph(FILLER * 3)
    document.add_heading("제7조 지체상금", 2)
    document.add_paragraph("지체상금은 하루에 계약금액의 천분의 이로 한다.")
    document.add_heading("제8조 대금", 2)
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(
        (c for row in table.rows for c in row.cells), ["구분", "금액", "착수금", "삼백칠십만원"], strict=True
    ):
        cell.text = text
    document.save(str(path))


def write_docx_en(path: Path) -> None:
    import docx

    document = docx.Document()
    document.add_heading("Lease", 1)
    document.add_heading("Deposit", 2)
    document.add_paragraph("The deposit is returned within seventeen days of moving out.")
    document.save(str(path))


def write_xlsx(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "예산"
    sheet.append(["부서", "항목", "금액"])
    for number in range(30):
        sheet.append([f"부서{number}", "사무용품", 1000 + number])
    sheet.append(["시설과", "승강기 정밀점검", 4820000])
    other = book.create_sheet("Travel")
    other.append(["Trip", "Cost"])
    other.append(["Tallinn symposium", 912])
    book.save(path)


def write_pptx(path: Path) -> None:
    from pptx import Presentation

    deck = Presentation()
    for title, text in (
        ("Kickoff", "Welcome"),
        ("Timeline", "Freeze begins on the ninth of October"),
        ("끝", "감사합니다"),
    ):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    deck.slides[2].notes_slide.notes_text_frame.text = "발표자는 예비 열쇠를 챙긴다"
    deck.save(str(path))


def write_pdf(path: Path) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen import canvas

    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    page = canvas.Canvas(str(path))
    for lines in (
        ["Handbook", "Nothing of note stands on the first page."],
        ["Lockers", "Lockers are emptied on the last Friday of August."],
        ["당직", "당직 수당은 한 번에 사만 원이다."],
    ):
        page.setFont("HYSMyeongJo-Medium", 12)
        for number, line in enumerate(lines):
            page.drawString(72, 720 - 40 * number, line)
        page.showPage()
    page.save()


HWPX_SECTION = """<?xml version="1.0" encoding="UTF-8"?>
<hs:sec xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section" xmlns:hp="http://www.hancom.co.kr/hwpml/2011/paragraph">
<hp:p><hp:run><hp:t>소방 점검 안내</hp:t></hp:run></hp:p>
<hp:p><hp:run><hp:t>합동 소방훈련은 구월 셋째 주 수요일에 한다.</hp:t></hp:run></hp:p>
<hp:p><hp:run><hp:tbl rowCnt="2" colCnt="2"><hp:tr>
<hp:tc><hp:subList><hp:p><hp:run><hp:t>동</hp:t></hp:run></hp:p></hp:subList></hp:tc>
<hp:tc><hp:subList><hp:p><hp:run><hp:t>대피 장소</hp:t></hp:run></hp:p></hp:subList></hp:tc></hp:tr><hp:tr>
<hp:tc><hp:subList><hp:p><hp:run><hp:t>나동</hp:t></hp:run></hp:p></hp:subList></hp:tc>
<hp:tc><hp:subList><hp:p><hp:run><hp:t>느티나무 광장</hp:t></hp:run></hp:p></hp:subList></hp:tc></hp:tr>
</hp:tbl></hp:run></hp:p>
</hs:sec>"""


def write_hwpx(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/hwp+zip")
        archive.writestr("Contents/section0.xml", HWPX_SECTION)


def text(content: str, encoding: str = "utf-8") -> Writer:
    return lambda path: path.write_bytes(content.encode(encoding)) and None


HTML = """<!doctype html><html><head><title>Opening hours</title></head><body><nav>menu menu</nav><main>
<h1>Opening hours</h1><h2>Holidays</h2><p>On holidays the reading room closes at half past three.</p>
<table><tr><th>Day</th><th>Desk</th></tr><tr><td>Saturday</td><td>Marigold desk</td></tr></table>
</main></body></html>"""
MINUTES = (
    f"# 회의록\n\n{FILLER * 4}\n\n## 안건 3 주차장\n\n주차장 바닥은 청록색으로 다시 칠한다.\n\n## 안건 4\n\n{FILLER}"
)
CSV = "품목,수량,비고\n의자,12,\n책상,4,접이식 책상은 자작나무 합판이다\n"

FOLDER: dict[str, Writer] = {
    "계약/용역 계약서.docx": write_docx,
    "contracts/lease.docx": write_docx_en,
    "예산.xlsx": write_xlsx,
    "kickoff.pptx": write_pptx,
    "handbook.pdf": write_pdf,
    "공문/소방 점검.hwpx": write_hwpx,
    "hours.html": text(HTML),
    "회의록.md": text(MINUTES),
    "notes.md": text("# Notes\n\n## Backups\n\nThe tapes are rotated every eleven weeks.\n"),
    "물품.csv": text(CSV),
    "people.tsv": text("name\troom\nReception\tThe kingfisher room\n"),
    "settings.json": text(json.dumps({"printer": {"tray": "ochre paper"}, "목록": ["분홍 봉투"]}, ensure_ascii=False)),
    "옛 규칙.txt": text("연체료는 하루에 백이십 원이다.\n\n" + FILLER, "cp949"),
    "utf16.txt": text("무선망 이름은 갈매기이다.\n", "utf-16"),
    "readme.txt": text("The spare fuse is kept behind the tapestry.\n"),
}

# question -> (file, what its location must say, what the passage must hold)
FACTS = [
    ("지체상금은 얼마인가", "용역 계약서.docx", "제7조 지체상금", "천분의 이"),
    ("착수금 금액", "용역 계약서.docx", "제8조 대금", "삼백칠십만원"),
    ("When is the deposit returned?", "lease.docx", "Lease > Deposit", "seventeen days"),
    ("승강기 정밀점검 예산", "예산.xlsx", "sheet 예산, rows", "4820000"),
    ("Tallinn symposium cost", "예산.xlsx", "sheet Travel", "912"),
    ("When does the freeze begin?", "kickoff.pptx", "slide 2", "ninth of October"),
    ("예비 열쇠는 누가 챙기나", "kickoff.pptx", "slide 3", "발표자"),
    ("When are lockers emptied?", "handbook.pdf", "p. 2", "last Friday"),
    ("당직 수당", "handbook.pdf", "p. 3", "사만 원"),
    ("합동 소방훈련은 언제", "소방 점검.hwpx", "", "셋째 주 수요일"),
    ("나동 대피 장소", "소방 점검.hwpx", "", "느티나무 광장"),
    ("reading room on holidays", "hours.html", "Opening hours > Holidays", "half past three"),
    ("Saturday desk", "hours.html", "Holidays", "Marigold"),
    ("주차장 바닥 색", "회의록.md", "회의록 > 안건 3 주차장", "청록색"),
    ("How often are tapes rotated?", "notes.md", "Notes > Backups", "eleven weeks"),
    ("접이식 책상 재질", "물품.csv", "rows", "자작나무"),
    ("reception room", "people.tsv", "rows", "kingfisher"),
    ("printer tray", "settings.json", "", "ochre"),
    ("분홍 봉투", "settings.json", "", "분홍"),
    ("연체료", "옛 규칙.txt", "", "백이십 원"),
    ("무선망 이름", "utf16.txt", "", "갈매기"),
    ("spare fuse", "readme.txt", "", "tapestry"),
]


def seoga(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SEOGA_HOME": str(home)}
    command = [sys.executable, "-P", "-m", "seoga.rag", *arguments]
    return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=120, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base folder with one knowledge base: the mixed folder, indexed by the command line."""
    root = tmp_path_factory.mktemp("main-job")
    for name, write in FOLDER.items():
        path = root / "papers" / unicodedata.normalize("NFD", name)  # as macOS writes names
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    done = seoga("add", str(root / "papers"), "--name", "서류", "--no-embedding", home=root / "home")
    assert done.returncode == 0, done.stderr
    return root / "home"


def ask(home: Path, query: str) -> dict[str, Any]:
    tools = Tools(home)
    answer = asdict(tools.search_documents(query))
    tools.close()
    return answer


def test_all_files_are_indexed(home: Path) -> None:
    [info] = json.loads(seoga("status", "--json", home=home).stdout)
    assert info["files_by_state"] == {"Ready": len(FOLDER)}
    assert info["problems"] == []
    assert info["skipped"] == {}


@pytest.mark.parametrize(("query", "file", "location", "words"), FACTS, ids=[fact[0] for fact in FACTS])
def test_each_fact_is_found_first_with_its_place(home: Path, query: str, file: str, location: str, words: str) -> None:
    first = ask(home, query)["results"][0]
    assert os.path.basename(first["source_path"]) == file
    assert location in first["location"]
    assert words in first["content"]
    assert first["kb_id"]


def test_the_command_line_prints_what_the_tool_returns(home: Path) -> None:
    query = FACTS[0][0]
    done = seoga("search", "--json", query, home=home)
    assert json.loads(done.stdout) == ask(home, query)
    assert "용역 계약서.docx, 용역 계약서 > 제7조 지체상금" in seoga("search", query, home=home).stdout


def test_a_second_run_reads_nothing_and_a_changed_file_is_found_at_once(home: Path) -> None:
    papers = home.parent / "papers"
    outcome = json.loads(seoga("add", str(papers), "--json", home=home).stdout)
    assert (outcome["unchanged"], outcome["added"], outcome["updated"]) == (len(FOLDER), 0, 0)
    (papers / "notes.md").write_text("# Notes\n\nThe tapes are rotated every nineteen weeks.\n", encoding="utf-8")
    outcome = json.loads(seoga("add", str(papers), "--json", home=home).stdout)
    assert (outcome["unchanged"], outcome["updated"]) == (len(FOLDER) - 1, 1)
    assert "nineteen" in ask(home, "tapes rotated")["results"][0]["content"]
