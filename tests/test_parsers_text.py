"""Tests of the dispatcher, and of the formats that are text: txt, md, csv, tsv, json, html, pdf."""

import io
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

from seoga import ocr, parsers
from seoga.config import scrub
from seoga.parsers import SUFFIXES, Document, NeedsAction, ParseError, parse

TEXT_SUFFIXES = [".csv", ".htm", ".html", ".json", ".md", ".tsv", ".txt"]
KOREAN = "회의에서 예산을 검토하였습니다. 다음 회의는 부산에서 합니다."


def read(content: str | bytes, name: str) -> Document:
    return parse(content.encode() if isinstance(content, str) else content, name)


def shown(content: str | bytes, name: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read(content, name).blocks]


def texts(content: str | bytes, name: str) -> list[str]:
    return [block.text for block in read(content, name).blocks]


# --- dispatcher ---


def test_an_unknown_suffix_is_an_error_that_names_it() -> None:
    with pytest.raises(ParseError, match=r"\.xyz is not a format"):
        parse(b"x", "a.xyz")
    with pytest.raises(ParseError, match="a name without a suffix"):
        parse(b"x", "README")


def test_suffixes_are_found_in_any_case() -> None:
    assert shown(b"x", "A.TXT") == [("text", "x")]
    assert set(TEXT_SUFFIXES) | {".pdf"} <= SUFFIXES


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES)
def test_an_empty_file_is_empty_and_no_error(suffix: str) -> None:
    assert parse(b"", f"a{suffix}").status == "empty"
    assert parse(b" \n\n ", f"a{suffix}").status == "empty"


def test_text_is_scrubbed_before_it_leaves() -> None:
    decomposed = "회의"
    document = read(f"---\ntitle: {decomposed}\nauthor: {decomposed}\n---\na\x00b {decomposed} " + "x" * 200, "a.md")
    assert document.title == document.metadata["author"] == "회의"
    assert all(block.text == scrub(block.text) for block in document.blocks)
    assert "�" in document.blocks[-1].text


def test_a_title_is_the_first_heading_if_the_document_has_no_other() -> None:
    assert read("text\n\n# One\n\n# Two", "a.md").title == "One"


def test_a_document_that_takes_too_long_is_kept_as_far_as_it_was_read() -> None:
    document = parse(b"a\n\nb\n\nc", "a.txt", seconds=0)
    assert [block.text for block in document.blocks] == ["a"]
    assert document.partial == ["stopped after 0 s"]
    assert document.status == "partial"


def test_the_place_where_reading_stopped_is_named() -> None:
    document = parse(pdf(["one"], ["two"]), "a.pdf", seconds=0)
    assert document.partial == ["stopped after 0 s, at p. 1"]


def test_text_beyond_the_limit_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "MAX_TEXT_CHARS", 40)
    document = read("x" * 30 + "\n\n" + "y" * 30 + "\n\nz", "a.txt")
    assert [len(block.text) for block in document.blocks] == [30, 10]
    assert document.partial == ["text beyond 40 characters is left out"]


def test_a_table_beyond_the_limit_ends_with_a_whole_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "MAX_TEXT_CHARS", 40)
    (block,) = read("a,b\n" + "1,2\n" * 9, "a.csv").blocks
    assert block.text == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert block.rows == (2,)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("deep"), KeyError("NULL"), OSError("bad\nthing")])
def test_whatever_a_parser_raises_becomes_one_clear_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(data: bytes, document: Document) -> Iterable[parsers.Block]:
        yield parsers.Block("text", "x")
        raise error

    monkeypatch.setitem(parsers._PARSERS, ".txt", broken)
    with pytest.raises(ParseError, match=r"^(needs more memory|damaged or not really a \.txt file: )[^\n]*$"):
        parse(b"x", "a.txt")


def test_importing_the_module_loads_no_library() -> None:
    heavy = ["lxml", "pypdfium2", "pypdf", "charset_normalizer", "openpyxl", "docx", "pptx", "numpy"]
    code = f"import seoga.parsers, sys; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@settings(deadline=None)  # the first example imports a library
@given(st.text(max_size=300), st.sampled_from(TEXT_SUFFIXES))
def test_line_ends_make_no_difference(text: str, suffix: str) -> None:
    unix = text.replace("\r", "")
    try:
        expected = read(unix, f"a{suffix}").blocks
    except ParseError:  # control characters
        return
    assert read(unix.replace("\n", "\r\n"), f"a{suffix}").blocks == expected


@settings(deadline=None)  # the first example imports a library
@given(st.binary(max_size=300), st.sampled_from(sorted(SUFFIXES)))
def test_random_bytes_are_read_or_refused_but_never_crash(data: bytes, suffix: str) -> None:
    try:
        document = parse(data, f"a{suffix}")
    except (ParseError, NeedsAction):
        return
    assert all(block.text.strip() and block.text == scrub(block.text) for block in document.blocks)


# --- encodings ---


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "cp949", "euc_kr"]
)
def test_korean_text_is_read_in_every_encoding_it_comes_in(encoding: str) -> None:
    document = read((("\ufeff" if encoding == "utf-32-be" else "") + KOREAN).encode(encoding), "a.txt")
    assert [block.text for block in document.blocks] == [KOREAN]
    assert document.partial == []


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Café à la crème, garçon déjà vu", "cp1252"),
        ("25°C outside, £5", "cp1252"),
        ("日本語のテキストです。これは文章です。漢字とひらがな。", "cp932"),
        ("日本語のテキストです。これは文章です。漢字とひらがな。", "euc_jp"),
        ("简体中文文本，这是一个测试文件，用于编码检测。", "gb18030"),
        ("Привет мир, это проверка кодировки текста", "cp1251"),
    ],
)
def test_other_legacy_encodings_are_told_from_korean(text: str, encoding: str) -> None:
    assert texts(text.encode(encoding), "a.txt") == [text]


def test_one_broken_byte_in_utf8_does_not_turn_it_into_something_else() -> None:
    document = read((KOREAN + "\n").encode() * 10_000 + b"\xb0" + KOREAN.encode(), "a.txt")
    assert KOREAN in document.blocks[0].text
    assert document.blocks[0].text.count("�") == 1
    assert document.partial == ["broken characters (UTF-8), shown as �: 1"]


def test_korean_that_begins_late_in_the_file_is_seen() -> None:
    assert texts(b"ascii\n" * 100_000 + KOREAN.encode("cp949"), "a.txt")[0].endswith(KOREAN)


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\x00\x00\x00", bytes(range(256)) * 9, b"\x00" * 99])
def test_binary_data_is_no_text(data: bytes) -> None:
    with pytest.raises(ParseError, match="binary data, not text"):
        parse(data, "a.txt")


# --- txt ---


def test_paragraphs_are_parted_by_blank_lines() -> None:
    assert texts("a\n  b \n \t\n\n\nc\n", "a.txt") == ["a\n  b", "c"]


@pytest.mark.parametrize(
    "text", ["x" * 10_000_000, "\n" * 10_000_000, " \n" * 5_000_000, "\n" + " " * 10_000_000 + "x"]
)
def test_huge_lines_and_gaps_take_linear_time(text: str) -> None:
    began = time.process_time()
    read(text, "a.txt")
    assert time.process_time() - began < 5


# --- md ---


def test_markdown_headings_have_their_level_and_lose_their_marks() -> None:
    source = "# One\n## Two ##\ntext\n#hashtag\n###### C#\nSet\nover two\n===\nSecond\n---\n"
    blocks = read(source, "a.md").blocks
    assert [(block.level, block.text) for block in blocks if block.kind == "heading"] == [
        (1, "One"),
        (2, "Two"),
        (6, "C#"),
        (1, "Set over two"),
        (2, "Second"),
    ]
    assert ("text", "text\n#hashtag") in shown(source, "a.md")


def test_a_rule_under_a_list_makes_no_heading() -> None:
    assert shown("- a\n- b\n---\nc\n\n***\n", "a.md") == [("text", "- a\n- b"), ("text", "c")]


def test_a_rule_under_a_long_paragraph_makes_no_heading() -> None:
    assert shown("line\n" * 12 + "---\n", "a.md") == [("text", "line\n" * 11 + "line")]


def test_front_matter_gives_title_and_metadata_and_stays_searchable() -> None:
    document = read('---\ntitle: "연간 보고서"\nauthor: 김민수\ntags:\n  - a\n---\n# Body\n', "a.md")
    assert document.title == "연간 보고서"
    assert document.metadata == {"author": "김민수"}
    assert document.blocks[0].text == 'title: "연간 보고서"\nauthor: 김민수\ntags:\n  - a'
    assert document.blocks[1].text == "Body"


def test_a_rule_at_the_beginning_is_no_front_matter() -> None:
    assert shown("---\nJust text\n\n---\nmore", "a.md") == [("text", "Just text"), ("text", "more")]


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_nothing_within_a_fence_is_markdown(fence: str) -> None:
    code = f"{fence}python\n# comment\n\n| a |\n<!-- kept -->\n{fence[2:]}\n{fence}"
    assert shown(f"before\n{code}\nafter", "a.md") == [("text", "before"), ("code", code), ("text", "after")]


def test_a_fence_that_is_not_closed_runs_to_the_end() -> None:
    assert shown("```\n# a\n\nb\n", "a.md") == [("code", "```\n# a\n\nb")]


def test_inline_code_with_three_backticks_opens_no_fence() -> None:
    assert shown("```x``` and\n\n# H", "a.md") == [("text", "```x``` and"), ("heading", "H")]


def test_pipe_tables_are_rows_with_two_header_lines() -> None:
    document = read("Intro\na | b\n--- | :-:\n1 | x \\| y\n| 2 | z |\n\nafter", "a.md")
    assert [block.kind for block in document.blocks] == ["text", "table", "text"]
    assert document.blocks[1].text == "| a | b |\n| --- | :-: |\n| 1 | x \\| y |\n| 2 | z |"
    assert document.blocks[1].header == 2


def test_comments_are_left_out_but_for_code_and_what_is_never_closed() -> None:
    source = "a <!-- x --> b <!-- y -->\n\n<!--\n# gone\n```\n-->after\n\n`<!--` c -->\n\n<!-- open\n\nlast"
    assert texts(source, "a.md") == ["a  b", "after", "`<!--` c -->", "<!-- open", "last"]


def test_indented_code_and_lists_are_text() -> None:
    assert shown("- a\n  - b\n\n    # no heading\n", "a.md") == [("text", "- a\n  - b"), ("text", "    # no heading")]


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 500_000 + "-->",
        "<!-- -->" * 200_000,
        "<!--`" * 300_000 + "-->",
        "    ```x\n" * 200_000,
        "-\n" * 300_000,
        "a\n" * 300_000 + "---",
        "a|b\n-|-\n" * 100_000,
        "`" * 1_000_000,
        "#" * 1_000_000,
        "---\n" + "a: b\n" * 200_000,
    ],
)
def test_hostile_markdown_takes_linear_time(text: str) -> None:
    began = time.process_time()
    read(text, "a.md")
    assert time.process_time() - began < 5


# --- csv, tsv ---


def test_a_csv_is_a_table_whose_rows_are_numbered_by_record() -> None:
    document = read('이름,금액,"비고\n줄"\n김,1|2,x\n,,\n이,3,"a\nb"\n', "a.csv")
    (block,) = document.blocks
    assert block.text == "| 이름 | 금액 | 비고 줄 |\n| --- | --- | --- |\n| 김 | 1\\|2 | x |\n| 이 | 3 | a b |"
    assert (block.kind, block.header, block.rows, block.place) == ("table", 2, (2, 4), "")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    source = "\n".join(delimiter.join(row) for row in (["name", "sum"], ['"a, b; c"', "1"], ["c", "2"]))
    assert texts(source, "a.csv")[0].splitlines()[3] == "| c | 2 |"


def test_commas_in_a_tsv_are_text() -> None:
    assert texts("a,b\tc\n1,5\t2", "a.tsv") == ["| a,b | c |\n| --- | --- |\n| 1,5 | 2 |"]


def test_a_long_table_comes_in_blocks_with_the_same_header() -> None:
    blocks = read("id,값\n" + "".join(f"{number},x\n" for number in range(2500)), "a.csv").blocks
    assert [len(block.rows) for block in blocks] == [1000, 1000, 500]
    assert all(block.text.startswith("| id | 값 |\n| --- | --- |\n") for block in blocks)
    assert all(block.text.count("\n") == len(block.rows) + 1 for block in blocks)
    assert blocks[2].rows[-1] == 2501


def test_a_header_longer_than_its_rows_is_not_repeated_without_end() -> None:
    blocks = read("h" * 100_000 + ",b\n" + "1,2\n" * 2500, "a.csv").blocks
    assert [block.text.split("\n")[0][:9] for block in blocks] == ["| hhhhhhh", "| … |", "| … |"]


def test_a_header_alone_is_kept_and_blank_columns_are_not() -> None:
    assert texts("a,b,,,,\n", "a.csv") == ["| a | b |\n| --- | --- |"]
    assert texts("a\n" + "1" + "," * 16_000, "a.csv") == ["| a |\n| --- |\n| 1 |"]


def test_a_quotation_mark_that_is_never_closed_does_not_swallow_the_rest() -> None:
    document = read('a,b\n1,"open\n' + "2,x\n" * 500, "a.csv")
    assert len(document.blocks[0].rows) == 501
    assert document.partial[0].startswith("row 2 opens a quotation mark")


def test_a_wide_csv_takes_linear_time() -> None:
    began = time.process_time()
    read(",".join(f"column {number}" for number in range(20_000)) + "\n" + "1,2\n" * 100_000, "a.csv")
    read("," * 3_000_000, "a.csv")
    read('"' * 3_000_000, "a.csv")
    assert read('a,"' + ("x" * 10_000 + "\n") * 50, "a.csv").status == "ok"
    assert time.process_time() - began < 5


# --- json ---


def test_json_becomes_lines_with_paths() -> None:
    customer = '{"name": "김민수", "tags": ["a", 1.50], "orders": [{"id": 7}, {"id": null}]}'
    source = f'{{"customer": {customer}, "n": NaN, "ok": true}}'
    assert texts(source, "a.json") == [
        "customer.name: 김민수\ncustomer.tags: a, 1.50\ncustomer.orders[0].id: 7\ncustomer.orders[1].id: null",
        "n: NaN\nok: true",
    ]


def test_each_item_of_a_json_list_is_a_block_and_so_is_each_json_line() -> None:
    assert texts('[{"a": 1}, {"a": 2}]', "a.json") == ["a: 1", "a: 2"]
    assert texts('{"a": 1}\n{"a": {"b": 2}}\n', "a.json") == ["a: 1", "a.b: 2"]


def test_broken_json_is_read_as_text_and_said() -> None:
    document = read('{"a": 1,\n\n"b": }', "a.json")
    assert [block.text for block in document.blocks] == ['{"a": 1,', '"b": }']
    assert document.partial == ["no valid JSON (Expecting value, line 3); read as plain text"]
    assert read('{"a": 1}\nbroken\n', "a.json").partial == ["lines that are no valid JSON, read as plain text: 1"]


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "[1," * 200_000, "1" * 100_000, '{"a":1}\n' * 50_000]
)
def test_hostile_json_ends_quickly(text: str) -> None:
    began = time.process_time()
    assert read(text, "a.json").blocks
    assert time.process_time() - began < 5


def test_a_long_key_over_many_values_stays_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "MAX_TEXT_CHARS", 1_000_000)
    document = read('{"' + "k" * 100_000 + '": [[1], ' + ", ".join("[2]" for _ in range(50_000)) + "]}", "a.json")
    assert document.partial == ["text beyond 1,000,000 characters is left out"]


# --- html ---


def test_html_too_large_for_memory_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "MAX_HTML_CHARS", 40)
    document = read("<p>one</p>" * 9, "a.html")
    assert [block.text for block in document.blocks] == ["one"] * 4
    assert document.partial == ["what follows the first 40 characters of the file is left out"]


def test_html_gives_headings_paragraphs_lists_and_code_in_order() -> None:
    source = """<html><head><title> 사내
      규정 </title><meta name="Author" content="김민수"><meta name="description" content="d"></head>
      <body><h2>휴가 <b>규</b>정</h2><p>연차는 <b>십오</b>일<i>이다</i>.<br>둘째 줄 &amp;&nbsp;끝</p>
      loose <span>te</span>xt<ul><li>하나<li><p>둘</p><ul><li>안</ul><li>셋</ul>tail<ol><li>a<li>b</ol>
      <dl><dt>용어<dd>설명</dl><pre>def f():\n    # no\n  <b>x</b> &lt; 1</pre><img src="x" alt="그림"></body></html>"""
    document = read(source, "a.html")
    assert (document.title, document.metadata) == ("사내 규정", {"author": "김민수", "description": "d"})
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("heading", "휴가 규정"),
        ("text", "연차는 십오일이다.\n둘째 줄 & 끝"),
        ("text", "loose text"),
        ("text", "- 하나\n- 둘\n  - 안\n- 셋"),
        ("text", "tail"),
        ("text", "1. a\n2. b"),
        ("text", "용어\n: 설명"),
        ("code", "def f():\n    # no\n  x < 1"),
        ("text", "[그림]"),
    ]
    assert document.blocks[0].level == 2


def test_html_tables_fill_their_spans_and_flatten_what_is_nested() -> None:
    source = """<table><caption>표 1</caption><tr><th>이름<th colspan="2">값</tr>
      <tr><td rowspan="2">김<td>1<td>2|3</tr><tr><td>4<td>5<p>six</p>seven</tr><tr><td>이<td>8</tr></table>
      <table><tr><td>o<table><tr><td>in<td>side</table></td><td>x</td></tr></table>"""
    blocks = read(source, "a.html").blocks
    assert [block.kind for block in blocks] == ["text", "table", "table"]
    assert (
        blocks[1].text
        == "| 이름 | 값 |  |\n| --- | --- | --- |\n| 김 | 1 | 2\\|3 |\n| 김 | 4 | 5 six seven |\n| 이 | 8 |"
    )
    assert blocks[2].text == "| o in side | x |\n| --- | --- |"
    assert blocks[1].header == 2


def test_a_table_that_only_places_things_is_read_cell_by_cell() -> None:
    assert shown("<table><tr><td><h1>Title</h1><p>para</p><td>side</table>", "a.html") == [
        ("heading", "Title"),
        ("text", "para"),
        ("text", "side"),
    ]
    assert texts("<table><tr><td>a<td>b</tr><form><tr><td>c<td>d</tr></form></table>", "a.html") == ["a", "b", "c", "d"]


def test_the_frame_of_a_page_is_left_out_only_where_the_document_is_marked() -> None:
    frame = "<nav>menu</nav>{}<aside>ads</aside><footer>foot</footer>"
    assert texts(frame.format("<main><header>by Kim</header><p>text</p></main>"), "a.html") == ["by Kim", "text"]
    assert texts(frame.format("<div>text</div>"), "a.html") == ["menu", "text", "ads", "foot"]
    assert texts(frame.format("<div>text</div><main> </main>"), "a.html") == ["menu", "text", "ads", "foot"]
    titled = "<header><h1>Title</h1><nav>menu</nav></header><article>text</article>"
    assert texts(titled, "a.html") == ["Title", "text"]


def test_what_a_reader_cannot_see_is_left_out_but_not_what_follows_it() -> None:
    source = """<p>a<script>alert()</script>b<style>x{}</style>c<span hidden>d</span>e<i style="DISPLAY : none">f</i>g
      <template>h</template><noscript>i</noscript><!-- j --></p><ul hidden><li>k</ul><ul><li>l</ul>"""
    assert texts(source, "a.html") == ["abceg", "- l"]


@pytest.mark.parametrize("declared", ["euc-kr", "ks_c_5601-1987", "utf-8", "iso-8859-1", "zlib", "no-such"])
def test_an_html_declaration_counts_only_if_it_decodes(declared: str) -> None:
    source = f'<meta http-equiv="content-type" content="text/html; charset={declared}"><p>{KOREAN}'
    assert texts(source.encode("cp949"), "a.html") == [KOREAN]
    assert texts(source, "a.htm") == [KOREAN]


def test_a_declared_encoding_settles_what_can_only_be_guessed() -> None:
    text = "Příliš žluťoučký kůň"
    assert texts(f'<meta charset="windows-1250"><p>{text}'.encode("cp1250"), "a.html") == [text]
    assert texts(f'<?xml version="1.0" encoding="utf-8"?><p>{KOREAN}', "a.html") == [KOREAN]


def test_html_entities_of_a_doctype_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    source = f'<!DOCTYPE x [<!ENTITY a SYSTEM "file://{tmp_path}/secret"><!ENTITY b "bomb">]><p>&a;&b;ok</p>'
    joined = "".join(texts(source, "a.html"))
    assert "ok" in joined
    assert "secret" not in joined
    assert "bomb" not in joined


def test_tags_nested_beyond_reason_keep_their_text() -> None:
    document = read("<div>" * 50_000 + "deep &lt; text" + "</div>" * 50_000, "a.html")
    assert "deep" in document.blocks[0].text
    assert document.partial == ["tags are nested too deeply; read as plain text without its structure"]


@pytest.mark.parametrize(
    "text",
    [
        ("<div>" * 1900 + "x" + "</div>" * 1900) * 20,
        "<table><tr><td>" * 600 + "<p>x" * 20_000,
        "<ul><li>" * 600 + "<li>x" * 20_000,
        "<table>" + "<tr><td rowspan=65000 colspan=1000>x<td>" * 3000,
        "<main>" * 600 + "<h1></h1>" * 50_000 + "x",
        "<nav>" * 600 + "<p>x" * 50_000 + "<main>x",
        "<br>" * 200_000,
        "<b> </b>" * 100_000,
        "&nbsp; " * 300_000,
    ],
)
def test_hostile_html_takes_linear_time(text: str) -> None:
    began = time.process_time()
    read(text, "a.html")
    assert time.process_time() - began < 5


# --- pdf ---

pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
PICTURE = ImageReader(Image.new("RGB", (50, 50), "red"))


def pdf(*pages: list[str], title: str = "untitled") -> bytes:
    """Make a PDF. Each string is one line of its page; "" leaves a gap and "[picture]" covers the page."""
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.setTitle(title)
    for page in pages:
        canvas.setFont("HYSMyeongJo-Medium", 11)
        for number, line in enumerate(page):
            if line == "[picture]":
                canvas.drawImage(PICTURE, 0, 0, 590, 840)
            elif line:
                canvas.drawString(72 + 15 * (len(line) - len(line.lstrip("\t"))), 760 - 14 * number, line.lstrip("\t"))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def raw_pdf(
    content: bytes, *, count: int = 1, kids: bytes = b"3 0 R", box: bytes = b"612 792", keys: bytes = b""
) -> bytes:
    """Make a one-page PDF by hand, with whatever is wrong in it."""
    itself = b"/XObject<</X 6 0 R>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %s]/Resources<</Font<</F 5 0 R>>%s>>/Contents 4 0 R>>" % (box, itself),
        b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(content), keys, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<%s>>/Length 5>>\nstream\n/X Do\nendstream" % itself,
    ]
    out, places = b"%PDF-1.7\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = b"trailer\n<</Size 7/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 7\n0000000000 65535 f \n" + table + tail


def encrypted(user: str, algorithm: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["Readable after all"]))))
    writer.encrypt(user, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


HELLO = b"BT /F 12 Tf 72 700 Td (Hello hostile world) Tj ET"


def test_pdf_text_is_placed_on_physical_pages() -> None:
    document = parse(pdf(["첫째 쪽입니다"], [], ["셋째 쪽입니다"], title="연간 보고서"), "a.pdf")
    assert [(block.text, block.place) for block in document.blocks] == [
        ("첫째 쪽입니다", "p. 1"),
        ("셋째 쪽입니다", "p. 3"),
    ]
    assert document.title == "연간 보고서"
    assert document.status == "ok"
    assert len(document.metadata["created"]) == len("2026-01-31")


def test_wrapped_lines_of_a_pdf_are_joined_and_paragraphs_parted() -> None:
    page = [
        "The committee met in Busan and agreed on the bud-",
        "get for the coming year, which the treasurer had",
        "laid before it.",
        "",
        "회의에서 예산을 검토하고 다음 분기 계획을 논의하였고",
        "그 결과를 공유하기로 했다.",
        "",
        "\tAn indented one runs on, and so far it is only a line",
        "and a half of it.",
    ]
    assert texts(pdf(page), "a.pdf") == [
        "The committee met in Busan and agreed on the budget for the coming year, which the treasurer had laid before"
        " it.",
        "회의에서 예산을 검토하고 다음 분기 계획을 논의하였고 그 결과를 공유하기로 했다.",
        "An indented one runs on, and so far it is only a line and a half of it.",
    ]


def test_a_korean_word_broken_at_a_line_end_is_mended_only_where_spaces_are_kept_there() -> None:
    kept = [
        "예산을 검토하고 다음 분기 계획을 논의하였고 그 ",
        "결과를 모두에게 공유하기로 그리고 다시 결정하였습",
        "니다.",
    ]
    assert texts(pdf(kept), "a.pdf")[0].endswith("논의하였고 그 결과를 모두에게 공유하기로 그리고 다시 결정하였습니다.")
    lost = [line.rstrip() for line in kept]
    assert "논의하였고 그 결과를" in texts(pdf(lost), "a.pdf")[0]


def test_list_items_of_a_pdf_stay_on_their_lines() -> None:
    assert texts(pdf(["1. First item of the list", "2. Second item of the list", "3. Third"]), "a.pdf") == [
        "1. First item of the list\n2. Second item of the list\n3. Third"
    ]


@pytest.fixture
def no_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "_tesseract", lambda: ("", "", frozenset()))


@pytest.mark.usefixtures("no_ocr")
def test_a_pdf_of_scans_asks_for_ocr_and_a_page_number_is_no_text() -> None:
    with pytest.raises(NeedsAction, match="all 2 pages are scanned images"):
        parse(pdf(["[picture]"], ["[picture]", "12"]), "a.pdf")


@pytest.mark.usefixtures("no_ocr")
def test_scanned_pages_among_others_are_named() -> None:
    page = ["Real text on this page"]
    document = parse(pdf(page, page, ["[picture]"], page, [], *[["[picture]"]] * 3, ["12"]), "a.pdf")
    assert [note.split(".")[1] for note in document.partial] == [" 3, 6-8: scanned images, left out"]
    assert document.blocks[-1].text == "12"


@pytest.mark.usefixtures("no_ocr")
def test_scanned_pages_are_named_even_if_the_reading_ends_early() -> None:
    document = parse(pdf(["[picture]"], ["Real text on this page"]), "a.pdf", seconds=0)
    assert document.partial[0] == "stopped after 0 s, at p. 1"
    assert document.partial[1].startswith("p. 1: scanned images, left out")


def test_blank_pages_are_no_scans() -> None:
    assert parse(pdf([], []), "a.pdf").status == "empty"


@pytest.mark.usefixtures("no_ocr")
def test_a_page_of_garbage_from_a_broken_font_map_counts_as_a_scan() -> None:
    cmap = b"beginbfrange <00> <ff> <e000> endbfrange"
    broken = raw_pdf(HELLO).replace(
        b"/BaseFont/Helvetica>>",
        b"/BaseFont/Helvetica/ToUnicode 7 0 R>>\nendobj\n7 0 obj\n<</Length %d>>\nstream\n%s\nendstream"
        % (len(cmap), b"1 " + cmap),
    )
    with pytest.raises(NeedsAction, match="scanned"):
        parse(broken, "a.pdf")


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256"])
def test_a_password_is_asked_for_only_if_there_is_one(algorithm: str) -> None:
    with pytest.raises(NeedsAction, match="protected by a password"):
        parse(encrypted("secret", algorithm), "a.pdf")
    assert texts(encrypted("", algorithm), "a.pdf") == ["Readable after all"]


@pytest.mark.parametrize("data", [b"", b"hello", b"%PDF-1.7 junk", raw_pdf(HELLO)[:300]])
def test_a_damaged_pdf_is_an_error_in_plain_words(data: bytes) -> None:
    with pytest.raises(ParseError, match=r"damaged or not really a \.pdf file"):
        parse(data, "a.pdf")


@pytest.mark.parametrize(
    "data",
    [
        raw_pdf(HELLO, count=1_000_000_000),
        raw_pdf(HELLO, kids=b"3 0 R 2 0 R", count=3),
        raw_pdf(HELLO, box=b"200000 200000"),
        raw_pdf(b"/X Do " + HELLO),
    ],
    ids=["count", "loop", "huge page", "form in itself"],
)
def test_a_hostile_pdf_gives_its_text_quickly(data: bytes) -> None:
    began = time.process_time()
    assert parse(data, "a.pdf").blocks[0].text == "Hello hostile world"
    assert time.process_time() - began < 5


def test_a_chain_of_compression_ends_quickly() -> None:
    data = b"BT ET " * 3_000_000
    for _ in range(3):
        data = zlib.compress(data, 9)
    began = time.process_time()
    parse(raw_pdf(data, keys=b"/Filter[/FlateDecode/FlateDecode/FlateDecode]"), "a.pdf")
    assert time.process_time() - began < 5
