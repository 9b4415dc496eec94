"""Tests of chunks: nothing is lost, nothing is too long, cuts fall where a reader would make them; and of words."""

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seoga.chunks import SEPARATOR, Chunk, Sizes, document_text, make_chunks, words
from seoga.parsers import Block, parse

SMALL = Sizes(target=120, overlap=30, maximum=300)


def put_together(chunks: list[Chunk]) -> str:
    """Join chunks as a reader of a file sees them: overlaps once, an empty line where one ends before the next."""
    text, at = "", 0
    for chunk in chunks:
        if chunk.start > at:
            text += SEPARATOR
            at = chunk.start
        body = chunk.text[len(chunk.text) - (chunk.end - chunk.start) :]
        text += body[at - chunk.start :]
        at = max(at, chunk.end)
    return text


def cut(text: str, sizes: Sizes = SMALL) -> list[str]:
    return [chunk.text for chunk in make_chunks([Block("text", text)], sizes)]


# --- any document ---

WORDS = (
    "회의는", "예산을", "임피던스가", "부산에서", "좋습니다.", "했다.", "the", "committee", "agreed.", "3.14",
    "2024. 5. 3.",
    "e.g.", "(", "((", ")", "“", "”", "…", "。", "x" * 90, "가" * 400, "[math: \\frac{a}{b}]", "[math: x_{[1]} ( y ]",
    "[math: " + "a + " * 30 + "b]", "[math: open", "]", "1.", "가.", "\U0001f600", "e\u0301",
)  # fmt: skip
prose = st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).flatmap(
    lambda parts: st.sampled_from([" ", " ", "\n", ""]).map(lambda glue: glue.join(parts))
)
places = st.sampled_from(["", "p. 1", "p. 2", "slide 3", "sheet 예산"])
cells = st.lists(st.sampled_from(["a", "금액", "1,200", "x" * 40, ""]), min_size=1, max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> Block:
    rows = ["| " + " | ".join(row) + " |" for row in draw(st.lists(cells, min_size=1, max_size=40))]
    lines = [draw(st.sampled_from(["| name | amount |", "| " + "n" * 400 + " |"])), "| --- | --- |", *rows]
    numbers = tuple(range(2, len(rows) + 2)) if draw(st.booleans()) else ()
    return Block("table", "\n".join(lines), draw(places), header=2, rows=numbers)


headings = st.builds(
    Block, st.just("heading"), st.sampled_from(["개요", "Budget", "여비 규정", "h " * 700]), places, st.integers(1, 4)
)
paragraphs = st.builds(Block, st.just("text"), prose.filter(str.strip), places)
listings = st.builds(
    Block,
    st.just("code"),
    st.lists(st.sampled_from(["if x:", "", "    y()"])).map("\n".join).map("# x\n".__add__),
    places,
)
documents = st.lists(st.one_of(headings, paragraphs, paragraphs, tables(), listings), max_size=12)
sizes = st.sampled_from([SMALL, Sizes(100, 0, 200), Sizes(), Sizes(1000, 150, 200), Sizes(300, 299, 301)])
thorough = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(documents, sizes)
def test_nothing_is_lost_and_offsets_are_exact(blocks: list[Block], sizes: Sizes) -> None:
    text = document_text(blocks)
    chunks = make_chunks(blocks, sizes)
    for chunk in chunks:
        assert chunk.text.endswith(text[chunk.start : chunk.end])
        assert chunk.end > chunk.start
    assert put_together(chunks) == text
    assert [chunk.end for chunk in chunks] == sorted({chunk.end for chunk in chunks})


@thorough
@given(documents, sizes)
def test_no_chunk_is_longer_than_the_maximum(blocks: list[Block], sizes: Sizes) -> None:
    assert all(len(chunk.text) <= sizes.maximum for chunk in make_chunks(blocks, sizes))


@thorough
@given(documents, sizes)
def test_a_chunk_stays_in_one_place_and_says_which(blocks: list[Block], sizes: Sizes) -> None:
    begins, at = [], 0
    for block in blocks:
        shown = len(document_text([block]))
        begins.append((at, at + shown, block.place))
        at += shown + len(SEPARATOR)
    for chunk in make_chunks(blocks, sizes):
        touched = {place for start, end, place in begins if start < chunk.end and end > chunk.start}
        assert len(touched) == 1
        assert chunk.location.startswith(touched.pop())


@thorough
@given(documents, sizes)
def test_the_same_blocks_give_the_same_chunks(blocks: list[Block], sizes: Sizes) -> None:
    assert make_chunks(blocks, sizes) == make_chunks(list(blocks), sizes)


@thorough
@given(
    st.lists(st.sampled_from([*WORDS[:20], "[math: \\frac{a}{b}]", "[math: x_{[1]} ( y ]"]), min_size=20, max_size=90)
)
def test_no_equation_is_cut(parts: list[str]) -> None:
    for glue in (" ", ""):
        text = glue.join(parts)
        spans = [match.span() for match in re.finditer(r"\[math: \\frac{a}{b}\]|\[math: x_{\[1\]} \( y \]", text)]
        for chunk in make_chunks([Block("text", text)], SMALL):
            for start, end in spans:
                assert not start < chunk.start < end
                assert not start < chunk.end < end


@pytest.mark.parametrize("equation", ["[math: \\frac{a}{b} + c]", "[math:x_{[1]}(y]"])
def test_an_equation_at_the_limit_moves_to_one_side(equation: str) -> None:
    for padding in range(90, 125):
        pieces = cut("가" * padding + equation + "나" * 200, Sizes(120, 0, 300))
        assert sum(equation in piece for piece in pieces) == 1, padding


def test_an_equation_longer_than_the_maximum_is_cut_all_the_same() -> None:
    pieces = cut("So [math: " + "a + " * 200 + "b] holds.")
    assert max(map(len, pieces)) <= SMALL.maximum


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
@thorough
@given(st.lists(st.sampled_from([*WORDS, "# 제목", "- item", "| a | b |", "| --- | --- |", "```", ""]), max_size=40))
def test_crlf_gives_the_same_chunks_as_lf(name: str, lines: list[str]) -> None:
    def chunks(end: str) -> list[Chunk]:
        return make_chunks(parse(end.join(lines).encode(), name).blocks, SMALL)

    assert chunks("\r\n") == chunks("\n")
    assert chunks("\r") == chunks("\n")


@pytest.mark.parametrize("unit", ["(", "a", ". ", "가", "[math: ", "[", "\n", "1. ", "”", " ", ".\n", "|", "a\t"])
def test_two_million_characters_of_one_kind_are_cut_in_linear_time(unit: str) -> None:
    text = unit * (2_000_000 // len(unit))  # quadratic work would take hours
    chunks = make_chunks([Block("text", text)], Sizes())
    assert put_together(chunks) == text
    assert max(len(chunk.text) for chunk in chunks) <= Sizes().maximum


@pytest.mark.parametrize("kind", ["table", "code"])
def test_long_tables_and_listings_take_linear_time(kind: str) -> None:
    text = "| a | b |\n| --- | --- |\n" + "\n".join(f"| {n} | {'x' * 20} |" for n in range(60_000))
    block = Block(kind, text, "sheet 1", header=2, rows=tuple(range(2, 60_002)) if kind == "table" else ())
    assert put_together(make_chunks([block], Sizes())) == text


def test_many_short_blocks_and_sections_take_linear_time() -> None:
    blocks = [Block("heading", f"h{n}", level=n % 6 + 1) if n % 2 else Block("text", f"t{n}") for n in range(100_000)]
    assert put_together(make_chunks(blocks, Sizes())) == document_text(blocks)


# --- sentences ---

SENTENCE = "위원회는 예산안을 심의하고 다음 회의에서 의결하기로 하였습니다. "


def test_an_open_bracket_does_not_glue_the_rest_together() -> None:
    plain = SENTENCE * 60
    pieces = cut("(" + plain)
    assert len(pieces) >= len(cut(plain))


@pytest.mark.parametrize(
    "ending",
    [
        "했습니다.",
        "합니까?",
        "합시다!",
        "했다.",
        "그렇지요…",
        "好的。",
        "“좋습니다.”",
        "(했다.)",
        "했다.」",
        "done.",
        "done!”",
        "why?)",
    ],
)
def test_chunks_begin_after_the_end_of_a_sentence(ending: str) -> None:
    pieces = cut(f"이 문장은 그저 길이를 채우려고 쓴 것이며 {ending} " * 20)
    assert len(pieces) >= 5
    assert all(piece.rstrip().endswith(ending) for piece in pieces)
    assert all(piece.startswith("이 문장은") for piece in pieces)


@pytest.mark.parametrize(
    "kept",
    [
        "2024. 5. 3. 회의",
        "1. 개요",
        "가. 목적",
        "e.g. this",
        "Dr. Kim",
        "No. 7",
        "J. Smith",
        "3.14 배",
        "vol. 2",
        "v1.2.3 판",
    ],
)
def test_numbers_dates_items_and_abbreviations_end_no_sentence(kept: str) -> None:
    for padding in range(40, 110):
        pieces = cut(
            "말" * padding + ". " + kept + " 에 관한 이야기가 이어진다. " + "끝맺는 말이 또 길게 이어지고 있다. " * 6,
            Sizes(120, 0, 300),
        )
        assert any(kept in piece for piece in pieces), padding


def test_overlap_repeats_the_last_sentences() -> None:
    text = " ".join(f"Number {n:03} was counted." for n in range(60))
    chunks = make_chunks([Block("text", text)], SMALL)
    for before, after in pairwise(chunks):
        shared = text[after.start : before.end]
        assert re.fullmatch(r"Number \d{3} was counted\. ", shared)
    assert make_chunks([Block("text", text)], Sizes(120, 0, 300))[1].start == chunks[0].end


def test_overlap_never_crosses_a_heading_or_a_place() -> None:
    blocks = [
        Block("text", SENTENCE * 9, "p. 1"),
        Block("text", SENTENCE * 9, "p. 2"),
        Block("heading", "제목", "p. 2", 1),
    ]
    blocks.append(Block("text", SENTENCE * 9, "p. 2"))
    chunks = make_chunks(blocks, SMALL)
    starts = [chunk.start for chunk in chunks]
    assert len(document_text(blocks[:1])) + len(SEPARATOR) in starts
    assert len(document_text(blocks[:2])) + len(SEPARATOR) in starts


def test_a_short_tail_joins_the_chunk_before() -> None:
    four = "Number one was counted. " * 4  # 96 characters
    pieces = cut(four * 2 + "The end is here.", Sizes(100, 0, 300))
    assert pieces == [four, four + "The end is here."]


# --- structure ---


def test_a_table_is_cut_between_rows_and_repeats_its_header() -> None:
    head = "| 부서 | 금액 |\n| --- | --- |\n"
    rows = [f"| 부서 {n} | {n * 1000:,} |" for n in range(50)]
    chunks = make_chunks(
        [Block("table", head + "\n".join(rows), "sheet 예산", header=2, rows=tuple(range(2, 52)))], SMALL
    )
    assert len(chunks) > 5
    for chunk in chunks:
        assert chunk.text.startswith(head)
        assert set(chunk.text.removeprefix(head).splitlines()) <= set(rows)
    assert chunks[0].location.startswith("sheet 예산, rows 2-")
    first = int(chunks[1].location.rpartition(" ")[2].split("-")[0])
    assert chunks[1].text.removeprefix(head).startswith(rows[first - 2])
    assert chunks[-1].location.endswith("-51")


def test_row_numbers_with_gaps_are_those_of_the_spreadsheet() -> None:
    block = Block("table", "| a |\n| --- |\n| x |\n| y |", "sheet 1", header=2, rows=(7, 9))
    assert make_chunks([block], Sizes())[0].location == "sheet 1, rows 7-9"


def test_code_stays_whole_up_to_the_maximum() -> None:
    listing = "\n".join(f"line({n})" for n in range(20))
    assert SMALL.target < len(listing) <= SMALL.maximum
    blocks = [Block("text", SENTENCE), Block("code", listing), Block("text", SENTENCE)]
    assert sum(listing in chunk.text for chunk in make_chunks(blocks, SMALL)) == 1


def test_code_beyond_the_maximum_is_cut_between_lines() -> None:
    listing = "\n".join(f"line({n})" for n in range(200))
    pieces = [chunk.text for chunk in make_chunks([Block("code", listing)], SMALL)]
    assert all(re.fullmatch(r"(line\(\d+\)\n?)+", piece) for piece in pieces)


def test_headings_are_kept_as_a_path() -> None:
    blocks = [
        Block("heading", "규정", level=1),
        Block("heading", "여비", level=2),
        Block("text", SENTENCE * 4),
        Block("heading", "휴가", level=2),
        Block("text", SENTENCE * 4, "p. 2"),
    ]
    chunks = make_chunks(blocks, Sizes(200, 0, 400))
    assert (chunks[0].headings, chunks[0].location) == ("규정 > 여비", "규정 > 여비")
    assert (chunks[-1].headings, chunks[-1].location) == ("규정 > 휴가", "p. 2, 규정 > 휴가")


def test_very_short_sections_share_a_chunk_that_names_them_all() -> None:
    blocks = [Block("heading", "Hours", level=1)]
    for day in ("Monday", "Tuesday"):
        blocks += [Block("heading", day, level=2), Block("text", "nine to five")]
    chunks = make_chunks(blocks, Sizes())
    assert [chunk.headings for chunk in chunks] == ["Hours > Monday; Tuesday"]


def test_top_level_sections_are_not_merged() -> None:
    blocks = [Block("heading", "A", level=1), Block("text", "x"), Block("heading", "B", level=1), Block("text", "y")]
    assert [chunk.headings for chunk in make_chunks(blocks, Sizes())] == ["A", "B"]


def test_a_heading_is_not_left_alone_at_the_end_of_a_chunk() -> None:
    blocks = [Block("text", SENTENCE * 3), Block("heading", "제목", level=2), Block("text", SENTENCE * 3)]
    assert not any(chunk.text.rstrip().endswith("제목") for chunk in make_chunks(blocks, SMALL))


def test_no_blocks_give_no_chunks() -> None:
    assert make_chunks([], Sizes()) == []


# --- words ---


def test_a_korean_word_is_found_with_any_particle_and_inside_a_compound() -> None:
    for noun in ("회의", "예산", "견적", "부산", "검진", "임피던스"):
        for text in (noun, f"{noun}는", f"{noun}에서의", f"정기{noun}록", f"「{noun}」", f"({noun})를"):
            assert set(words(noun)) <= set(words(text)), (noun, text)


def test_nfd_text_gives_the_words_of_nfc_text() -> None:
    text = "회의록 예산안 résumé café 각"
    assert words(unicodedata.normalize("NFD", text)) == words(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,250,000", "1250000"), ("1,250,000원", "1250000 원"), ("ＡＢＣ１２３", "abc123"), ("ｶﾀｶﾅ", "カタカナ"),
        ("CAFÉ", "cafe"),
        ("meetings", "Meeting"), ("budgeted", "budgets"), ("STRASSE", "straße"), ("ﬁle", "file"),
        ("1980s", "1980"), ("①", "1"), ("㎏", "kg"),
    ],
)  # fmt: skip
def test_two_ways_to_write_one_word_meet(one: str, other: str) -> None:
    assert words(one) == words(other)


def test_short_terms_count_too() -> None:
    assert words("AI in the UK, 42") == ["ai", "in", "the", "uk", "42"]
    assert words("값 은 물") == ["값", "은", "물"]


def test_numbers_that_are_no_thousands_stay_apart() -> None:
    assert words("1,25 3,4") == ["1", "25", "3", "4"]


def test_punctuation_and_marks_are_no_terms() -> None:
    assert words("— … ()[]{} _ \u200b\u202e\x1b") == []
    assert words("") == []


def test_a_very_long_run_is_indexed_by_its_beginning() -> None:
    (term,) = words("a1" * 5000)
    assert len(term) == 64


@thorough
@given(st.text(max_size=200))
def test_any_text_gives_terms_without_white_space(text: str) -> None:
    terms = words(text)
    assert all(term and not term.isspace() and " " not in term for term in terms)
    assert words(" ".join(terms)) is not None


def test_what_stands_beside_the_body_is_under_no_heading() -> None:
    blocks = [
        Block("heading", "Budget", level=1),
        Block("text", "Travel is capped."),
        Block("text", "[^1]: In won.", "footnotes"),
        Block("text", "Association of Readers", "header"),
    ]
    assert [chunk.location for chunk in make_chunks(blocks, Sizes())] == ["Budget", "footnotes, Budget", "header"]
