"""Search finds what contains the words, ranks it sensibly, and takes any query."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seoga.chunks import Sizes, count_words, make_chunks
from seoga.parsers import parse
from seoga.providers import Outage, Usage
from seoga.search import MAX_QUERY_CHARS, Found, Vectors, VectorSet, rerank, search, similar
from seoga.store import INDEXED, READY, DocumentRecord, FileRecord, Filters, Stat, Store, chunk_words

Shelf = Callable[[dict[str, str]], Store]


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """Make an index of files given as {name: text}, read as the children of a run read them."""
    opened: list[Store] = []

    def make(files: dict[str, str]) -> Store:
        store = Store.open_writer(tmp_path / "rag.db")
        opened.append(store)
        with store.write():
            for name, text in files.items():
                path = tmp_path / "docs" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                put(store, path)
        return store

    yield make
    for store in opened:
        store.close()


def put(store: Store, path: Path) -> None:
    chunks = make_chunks(parse(path.read_bytes(), path.name).blocks, Sizes())
    terms = [chunk_words(chunk) for chunk in chunks]
    key, size = sha256(path.read_bytes()).hexdigest(), path.stat().st_size
    document = store.document_of_key(key)
    if document is None:
        record = DocumentRecord(key, size, sum(map(count_words, terms)))
        document = store.put_document(record, chunks, terms, INDEXED)
    store.put_file(FileRecord(str(path), Stat(size, 1, 1), READY, "", document, key))


def names(found: Found) -> list[str]:
    return [os.path.basename(hit.chunk.path) for hit in found.hits]


WORDS = ["회의", "예산", "견적", "부산", "검진"]
FORMS = ["{}", "{}를 다시 본다", "{}에서는", "정기{}록", "{}이었다고", "({})", "「{}」라 한다", "2026년도{}안"]


@pytest.mark.parametrize("word", WORDS)
def test_a_korean_word_finds_every_document_that_contains_it(shelf: Shelf, word: str) -> None:
    files = {f"{number}.md": f"앞말 {form.format(word)} 뒷말" for number, form in enumerate(FORMS)}
    others = {f"other{number}.md": f"{other}에 대하여" for number, other in enumerate(WORDS) if other != word}
    store = shelf({**files, **others})
    assert set(names(search(store, word, top_k=50))) == set(files)


def test_a_word_in_nfd_meets_its_nfc_query_and_the_other_way_round(shelf: Shelf) -> None:
    nfd = unicodedata.normalize("NFD", "부산 출장")
    store = shelf({"가.md": nfd, "나.md": "부산 출장 보고"})
    assert set(names(search(store, "부산"))) == {"가.md", "나.md"}
    assert set(names(search(store, unicodedata.normalize("NFD", "부산")))) == {"가.md", "나.md"}


def test_a_file_is_found_by_its_name_and_its_folders(shelf: Shelf) -> None:
    store = shelf({"계약/견적서 최종.md": "내용은 다른 이야기다", "other.md": "아무 내용"})
    assert names(search(store, "견적서"))[0] == "견적서 최종.md"
    assert names(search(store, "계약"))[0] == "견적서 최종.md"


def test_particles_and_inflections_meet(shelf: Shelf) -> None:
    store = shelf({"a.md": "임피던스를 측정한다", "b.md": "We were running the meetings", "c.md": "무관한 글"})
    assert names(search(store, "임피던스는")) == ["a.md"]
    assert names(search(store, "meeting runs")) == ["b.md"]


@pytest.mark.parametrize("query", ["AI", "UK", "42", "1,250,000", "1250000"])
def test_short_terms_and_numbers_are_words_too(shelf: Shelf, query: str) -> None:
    store = shelf({"a.md": "AI in the UK: 42 cases, 1,250,000원", "b.md": "nothing of the kind"})
    assert names(search(store, query)) == ["a.md"]


def test_one_syllable_is_found_anywhere_in_a_word(shelf: Shelf) -> None:
    store = shelf({"a.md": "빌린 돈을 갚다", "b.md": "목돈이 들다", "c.md": "용돈", "d.md": "무관"})
    assert set(names(search(store, "돈"))) == {"a.md", "b.md", "c.md"}


def test_a_part_of_an_identifier_is_found_as_a_substring(shelf: Shelf) -> None:
    store = shelf({"a.md": "order PRJ4502C0X99 shipped", "b.md": "order PRJ9999 waits"})
    found = search(store, "4502C0")
    assert names(found) == ["a.md"]
    assert "substring" in found.hits[0].legs


def test_part_of_a_word_is_found_when_no_word_matches(shelf: Shelf) -> None:
    store = shelf({"a.md": "electroencephalography", "b.md": "an unrelated text"})
    assert names(search(store, "cephalogr")) == ["a.md"]


def test_a_quoted_phrase_ranks_what_holds_it_word_for_word_first(shelf: Shelf) -> None:
    scattered = "budget, travel; travel and budget; a budget for travel"
    store = shelf({"a.md": scattered, "b.md": "We keep a long list, and the travel budget is on it, among much else."})
    assert names(search(store, '"travel budget"'))[0] == "b.md"


def test_common_words_do_not_drown_the_rare_one(shelf: Shelf) -> None:
    files = {f"{n}.md": f"the report of the meeting of the board {n}" for n in range(30)}
    store = shelf({**files, "x.md": "the zymurgy of it"})
    assert names(search(store, "the zymurgy of the board"))[0] == "x.md"


def test_scores_lie_between_0_and_1_and_fall(shelf: Shelf) -> None:
    store = shelf({"a.md": "예산 예산 예산안 확정", "b.md": "예산", "c.md": "예산 그리고 " + "다른 말 " * 80})
    scores = [hit.score for hit in search(store, "예산 확정").hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len(scores) == 3


def test_a_hit_explains_itself(shelf: Shelf) -> None:
    hit = search(shelf({"a.md": "travel budget"}), "travel budgets zzz").hits[0]
    assert set(hit.terms) == {"travel", "budget"}
    assert hit.legs[0] == "words"


def test_the_location_of_a_hit_names_its_headings(shelf: Shelf) -> None:
    store = shelf({"a.md": "# 규정\n\n" + "가나다. " * 80 + "\n\n## 여비\n\n출장 여비는 이만 원이다."})
    assert search(store, "출장 여비").hits[0].chunk.location == "규정 > 여비"


def test_filters_apply_before_the_cut(shelf: Shelf, tmp_path: Path) -> None:
    many = {f"많음/{n}.md": "예산 예산 예산" for n in range(80)}
    distinct = {name: f"{text} {name}" for name, text in many.items()}
    store = shelf({**distinct, "드묾/a.txt": "예산이 한 번 나오는 긴 글 " + "말 " * 200})
    prefix = unicodedata.normalize("NFC", str(tmp_path / "docs" / "드묾"))
    assert names(search(store, "예산", filters=Filters(prefixes=(prefix,)))) == ["a.txt"]
    assert names(search(store, "예산", filters=Filters(types=("txt",)))) == ["a.txt"]
    assert names(search(store, "예산", filters=Filters(types=("pdf",)))) == []


def test_a_content_in_two_files_is_one_hit_cited_by_the_file_that_passes_the_filter(
    shelf: Shelf, tmp_path: Path
) -> None:
    store = shelf({"a/x.md": "같은 내용의 예산", "b/x.md": "같은 내용의 예산"})
    assert len(search(store, "예산").hits) == 1
    only_b = Filters(prefixes=(str(tmp_path / "docs" / "b"),))
    assert search(store, "예산", filters=only_b).hits[0].chunk.path == str(tmp_path / "docs" / "b" / "x.md")


def test_one_long_document_does_not_crowd_out_the_others(shelf: Shelf) -> None:
    long = "\n\n".join(f"## 절 {n}\n\n예산 예산 예산 심의 {n} " + f"항목{n} " * 40 for n in range(12))
    store = shelf({"long.md": long, "short.md": "예산 심의라는 말이 한 번 나오고 그 밖의 말이 많다 " + "여담 " * 30})
    assert "short.md" in names(search(store, "예산 심의", top_k=5))


def test_neighbours_are_told(shelf: Shelf) -> None:
    store = shelf({"a.md": "\n\n".join(f"# 장 {n}\n\n{'내용이 길다. ' * 60}표지{n}" for n in range(3))})
    hits = {hit.chunk.position: hit.chunk for hit in search(store, "표지0 표지1 표지2").hits}
    assert hits[0].total == max(hits) + 1


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_a_mode_that_needs_vectors_falls_back_with_a_note(shelf: Shelf, mode: str) -> None:
    found = search(shelf({"a.md": "예산"}), "예산", mode=mode)
    assert found.mode == "bm25"
    assert any("no vectors" in note for note in found.notes)
    assert names(found) == ["a.md"]


HOSTILE = [
    "", " ", '"', '""', '"unclosed', "AND", "OR", "NOT", "NEAR(a b)", "a AND", "(", ")", "*", "a*", "^a", "-a", "+a",
    "body:a", "{a b}:c", "a\x00b", "'; drop table files; --", "\\", "%", "_", "🙂", "🙂🙂🙂", "é", "가", "ㄱ",
    "\u202e예산", "(((((", '"a" "b" "c', "a" * 5000, "예산 " * 3000, "\ud800", "\n\t\r",
    "a:b:c", "NEAR", "col : x", "𠮷野家", "..", "C++",
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_raises(shelf: Shelf, query: str) -> None:
    search(shelf({"a.md": "예산 a b c 🙂 C++ 𠮷野家"}), query, top_k=50)


def test_any_text_is_a_query(shelf: Shelf) -> None:
    store = shelf({"a.md": "예산 회의 travel budget 42"})

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.text(max_size=60))
    def check(query: str) -> None:
        assert all(0 < hit.score <= 1 for hit in search(store, query).hits)

    check()


def test_a_long_query_is_cut_and_says_so(shelf: Shelf) -> None:
    found = search(shelf({"a.md": "예산"}), "예산 " + "x" * (MAX_QUERY_CHARS * 2))
    assert names(found) == ["a.md"]
    assert any("cut" in note for note in found.notes)


def test_a_query_without_words_says_so(shelf: Shelf) -> None:
    assert any("no word" in note for note in search(shelf({"a.md": "예산"}), "!?").notes)


def test_similar_documents_share_what_is_characteristic_of_one(shelf: Shelf, tmp_path: Path) -> None:
    lease = "임대차 계약서 보증금 반환 임차인 원상복구 계약 기간"
    files = {"lease.md": lease, "lease-2025.md": f"{lease} 갱신 특약", "menu.md": "점심 식단 김치찌개 된장국 현미밥"}
    store = shelf({**files, **{f"{n}.md": f"회의 안건 {n} 다음 회의" for n in range(6)}})
    found = similar(store, store.chunks_of_file(str(tmp_path / "docs" / "lease.md")))
    assert names(found)[0] == "lease-2025.md"
    assert "lease.md" not in names(found)
    assert found.mode == "bm25"


def test_similar_documents_are_those_near_in_meaning_where_there_are_vectors(shelf: Shelf, tmp_path: Path) -> None:
    store = shelf({"fine.md": "연체료", "late.md": "overdue charge", "soup.md": "된장국"})
    directions = {"연체료": (1.0, 0.0), "overdue charge": (0.9, 0.1), "된장국": (0.0, 1.0)}
    with store.write():
        store._db.execute("update chunks set stage = 'PendingEmbedding'")
        generation = store.begin_generation("toy", {})
        vectors = [(owed.key, np.array(directions[owed.text], dtype=np.float32)) for owed in store.owed(0, 9)]
        store.put_vectors(generation.number, [(key, (v / np.linalg.norm(v)).tobytes()) for key, v in vectors])
    known = Vectors(generation.number, VectorSet.load(store, generation.number), lambda text: vectors[0][1])
    found = similar(store, store.chunks_of_file(str(tmp_path / "docs" / "fine.md")), vectors=known)
    assert names(found)[:1] == ["late.md"]
    assert found.mode == "vector"
    assert 0.9 < found.hits[0].score <= 1


class Judge:
    """A reranker that prefers what is short, or is not there."""

    provider, model, usage = "toy", "judge", Usage()

    def __init__(self, works: bool) -> None:
        self.works = works

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        if not self.works:
            raise Outage("out of reach", provider="toy")
        return [1 / len(text) for text in texts]

    def close(self) -> None: ...


def test_a_reranker_orders_the_hits_anew_and_its_absence_is_a_note(shelf: Shelf) -> None:
    store = shelf({"long.md": "예산 예산 예산안 심의 결과를 알린다", "short.md": "예산 심의"})
    found = search(store, "예산 심의 결과", top_k=10)
    assert names(found)[0] == "long.md"
    rerank(found, "예산 심의 결과", Judge(works=True), 10)
    assert names(found) == ["short.md", "long.md"]
    found = search(store, "예산 심의 결과", top_k=10)
    rerank(found, "예산 심의 결과", Judge(works=False), 1)
    assert names(found) == ["long.md"]
    assert any("not reranked" in note for note in found.notes)
