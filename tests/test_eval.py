"""evaluate.py and `seoga eval`: the figures, the faults, the draft, and how well the sample documents are found."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seoga import rag
from seoga.config import find_kb, new_config, save_config
from seoga.evaluate import Evaluation, evaluate, measures, parse_question, read_questions
from seoga.index import run
from seoga.store import Store

ROOT = Path(__file__).parents[1]
QUESTIONS = ROOT / "samples" / "questions.jsonl"
Ask = Callable[..., tuple[int, str, str]]


def load(path: Path) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look their module up
    with warnings.catch_warnings(action="ignore"):
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base folder in which the sample documents are indexed by words, as knowledge base `words`."""
    base = tmp_path_factory.mktemp("library")
    outcome = run(new_config(base, [str(ROOT / "samples" / "library")], kb_id="words"))
    assert outcome.counts["added"] == 9
    return base


@pytest.fixture
def ask(library: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run `seoga eval` in this process: (exit code, stdout, stderr)."""

    def ask(*arguments: str | Path, base: Path = library) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = rag.main(["eval", "--base-path", str(base), *map(str, arguments)])
        except SystemExit as leaving:  # argparse
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ask


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def measured(base: Path, kb: str, kind: str, modes: list[str], scratch: Path) -> Evaluation:
    """Measure the sample questions of one kind, or of all."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    questions = read_questions(write(scratch / f"{kind}.jsonl", *(row for row in rows if row["kind"] in kind)))
    config = find_kb(base, kb)
    store = Store.open_reader(config.database)
    try:
        return evaluate(config, store, questions, modes)
    finally:
        store.close()


# --- figures ---


@pytest.mark.parametrize(
    ("ranking", "relevant", "expected"),
    [
        ([1, 2], {1}, (1, 1, 1, 1)),
        ([9, 1], {1}, (0, 1, 1 / 2, 0.6309)),
        ([7, 3, 5], {3, 9}, (0, 1 / 2, 1 / 2, 0.3869)),  # 1/log2(3) of 1 + 1/log2(3)
        ([1, 2, 3], {1, 2, 3}, (1 / 3, 1, 1, 1)),
        ([1, 8, 2], {1, 2}, (1 / 2, 1, 1, 0.9197)),  # 1 + 1/2 of 1 + 1/log2(3)
        ([*range(10, 20), 1], {1}, (0, 0, 0, 0)),  # the eleventh
        (list(range(12)), set(range(12)), (1 / 12, 10 / 12, 1, 1)),  # no ranking of ten could do better
        ([], {1}, (0, 0, 0, 0)),
    ],
)
def test_figures_are_those_computed_by_hand(
    ranking: list[int], relevant: set[int], expected: tuple[float, ...]
) -> None:
    assert measures(ranking, relevant) == pytest.approx(expected, abs=5e-5)


def test_a_document_counts_once_where_its_best_passage_stands(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "long.md", *(f"## {n}\n\n" + f"walnut and plum {n}. " * 30 for n in range(12)))
    write(tmp_path / "in" / "short.md", "# Plum\n\nOne walnut among much else: " + "pear, cherry, quince. " * 30)
    config = new_config(tmp_path / "base", [str(tmp_path / "in")], kb_id="kb")
    run(config)
    store = Store.open_reader(config.database)
    questions = read_questions(write(tmp_path / "q.jsonl", {"query": "walnut", "relevant": ["short.md"]}))
    found = evaluate(config, store, questions, ["bm25", "substring"])
    store.close()
    assert [asked.place for asked in found.asked] == [{"bm25": 2, "substring": 2}]
    assert [(one.recall_at_1, one.mrr_at_10) for one in found.modes] == [(0, 0.5)] * 2


# --- the sample documents ---


def test_the_sample_questions_are_of_all_kinds_and_answered_by_documents_that_exist() -> None:
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(read_questions(QUESTIONS)) == len({row["query"] for row in rows}) >= 30
    kinds = [row["kind"] for row in rows]
    assert {kind: kinds.count(kind) >= 10 for kind in kinds} == {"words": True, "paraphrase": True, "cross": True}
    library = {path.name for path in (ROOT / "samples" / "library").iterdir()}
    assert {name for row in rows for name in row["relevant"]} == library


def test_words_find_the_sample_documents(library: Path, tmp_path: Path) -> None:
    words, substrings = measured(library, "words", "words", ["bm25", "substring"], tmp_path).modes
    assert words.recall_at_1 is not None
    assert words.ndcg_at_10 is not None
    assert words.recall_at_1 >= 0.95
    assert words.ndcg_at_10 >= 0.97
    assert substrings.recall_at_1 is not None
    assert words.recall_at_1 > substrings.recall_at_1 > 0.7
    (everything,) = measured(library, "words", "words paraphrase cross", ["bm25"], tmp_path).modes
    assert everything.recall_at_1 is not None
    assert everything.ndcg_at_10 is not None
    assert everything.recall_at_1 >= 0.49  # by chance .11
    assert everything.ndcg_at_10 >= 0.62


@pytest.fixture(scope="session")
def meaning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base folder in which the sample documents have vectors of the real multilingual-e5-small in 8 bits."""
    with warnings.catch_warnings(action="ignore"):
        folder: Path = load(ROOT / "bench" / "bert2onnx.py").model_folder("e5", int8=True)
    base = tmp_path_factory.mktemp("meaning")
    embedding = {"provider": "local", "model": str(folder)}
    outcome = run(new_config(base, [str(ROOT / "samples" / "library")], kb_id="kb", embedding=embedding))
    assert outcome.enriched["owed"] == 0, outcome.warnings
    return base


@pytest.mark.parametrize(
    ("kind", "vectors_alone", "both"),  # nDCG@10; words alone have .52 of the paraphrases and .21 of the others
    [("words", 0.88, 0.97), ("paraphrase", 0.70, 0.70), ("cross", 0.55, 0.60)],
)
def test_meaning_finds_what_words_do_not_and_costs_nothing_that_they_find(
    kind: str, vectors_alone: float, both: float, meaning: Path, tmp_path: Path
) -> None:
    modes = measured(meaning, "kb", kind, ["bm25", "vector", "hybrid", "rrf"], tmp_path).modes
    assert [one.reason for one in modes] == ["", "", "", ""]
    words, vectors, hybrid, rrf = (one.ndcg_at_10 or 0.0 for one in modes)
    assert vectors >= vectors_alone
    assert hybrid >= max(both, words - 0.01)
    assert hybrid >= rrf - 0.01
    assert modes[2].recall_at_10 == 1


# --- the command ---


def test_every_mode_is_shown_side_by_side_and_one_that_cannot_run_says_why(ask: Ask) -> None:
    code, out, _ = ask("--queries", QUESTIONS)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "49 questions, 9 documents"
    assert lines[1].split() == ["mode", "recall@1", "recall@10", "MRR@10", "nDCG@10"]
    assert [line.split()[0] for line in lines[2:7]] == ["bm25", "vector", "hybrid", "rrf", "substring"]
    assert all(0 < float(figure) <= 1 for figure in lines[2].split()[1:])
    assert lines[3] == "vector     can't run: there are no vectors in this knowledge base"
    assert any(line.startswith("not among the first ten of bm25: line ") for line in lines[7:])


def test_json_holds_the_figures_and_the_place_of_each_answer(ask: Ask, tmp_path: Path) -> None:
    rows = ({"query": "연체료", "relevant": ["이용-규칙.txt"]}, {"query": "quince", "relevant": ["kickoff.pptx"]})
    code, out, _ = ask("--queries", write(tmp_path / "q.jsonl", *rows), "--modes", "bm25,hybrid", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kb_id"], found["questions"], found["documents"], found["notes"]) == ("words", 2, 9, [])
    words, hybrid = found["modes"]
    half = {"recall_at_1": 0.5, "recall_at_10": 0.5, "mrr_at_10": 0.5, "ndcg_at_10": 0.5}
    assert words == {"mode": "bm25", **half, "reason": ""}
    assert hybrid["recall_at_1"] is None
    assert hybrid["reason"] == "there are no vectors in this knowledge base"
    assert [(one["line"], one["place"]) for one in found["asked"]] == [(1, {"bm25": 1}), (2, {"bm25": None})]


def test_a_document_is_named_by_its_path_its_end_or_a_chunk_id(ask: Ask, library: Path, tmp_path: Path) -> None:
    store = Store.open_reader(find_kb(library, "words").database)
    path = str(ROOT / "samples" / "library" / "kickoff.pptx")
    chunk = store.chunks_of_file(path)[1].chunk_id
    store.close()
    names = [path, "kickoff.pptx", "library/kickoff.pptx", "./kickoff.pptx", chunk]
    rows = [
        {"query": "catalogue migration kickoff", "relevant": [name], "why": "other keys are let be"} for name in names
    ]
    code, out, err = ask("--queries", write(tmp_path / "q.jsonl", "", *rows, ""), "--modes", "bm25")
    assert (code, err) == (0, "")
    assert out.splitlines()[2].split() == ["bm25", "1.000", "1.000", "1.000", "1.000"]


def test_a_name_that_no_document_has_is_named_and_counts_as_not_found(ask: Ask, tmp_path: Path) -> None:
    rows = [
        {"query": "연체료", "relevant": ["이용-규칙.txt", "gone.pdf"]},
        {"query": "연체료", "relevant": ["이용-규칙.txt"]},
    ]
    code, out, err = ask("--queries", write(tmp_path / "q.jsonl", *rows), "--modes", "bm25", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["notes"] == ["line 1: no indexed document is 'gone.pdf'; it counts as not found"]
    assert (found["modes"][0]["recall_at_10"], found["modes"][0]["mrr_at_10"]) == (0.75, 1)
    code, _, err = ask("--queries", write(tmp_path / "q.jsonl", {"query": "연체료", "relevant": ["gone.pdf"]}))
    assert code == 1
    assert "line 1: no indexed document is 'gone.pdf'" in err


def test_an_end_that_several_documents_share_is_refused(ask: Ask, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "in" / name).mkdir(parents=True)
        write(tmp_path / "in" / name / "page.md", f"walnut {name}")
    run(new_config(tmp_path / "base", [str(tmp_path / "in")], kb_id="kb"))
    queries = write(tmp_path / "q.jsonl", {"query": "walnut", "relevant": ["page.md"]})
    code, _, err = ask("--queries", queries, base=tmp_path / "base")
    assert code == 1
    assert "line 1: 'page.md' means 2 documents; write more of its path" in err
    queries = write(tmp_path / "q.jsonl", {"query": "walnut two", "relevant": ["two/page.md"]})
    assert ask("--queries", queries, "--modes", "bm25", base=tmp_path / "base")[0] == 0


def test_every_bad_line_is_named_with_what_is_allowed(ask: Ask, tmp_path: Path) -> None:
    good = {"query": "q", "relevant": ["a.md"]}
    bad = ["{", [], {"relevant": ["a.md"]}, {"query": " ", "relevant": ["a.md"]}, {"query": "q", "relevant": "a.md"},
           {"query": "q", "relevant": []}, {"query": "q", "relevant": ["a.md", 7]}]  # fmt: skip
    code, out, err = ask("--queries", write(tmp_path / "my.jsonl", good, *bad))
    assert (code, out) == (1, "")
    assert "my.jsonl, line 1" not in err
    assert "my.jsonl, line 2 is not JSON" in err
    assert "my.jsonl, line 3 is no JSON object" in err
    assert 'my.jsonl, line 4: "query" is missing; text is needed' in err
    assert 'my.jsonl, line 5: "query" is " "; text is needed' in err
    assert 'my.jsonl, line 6: "relevant" is "a.md"; a list of at least one name is needed' in err
    assert 'line 7: "relevant" is []' in err
    assert 'line 8: "relevant" is ["a.md", 7]' in err
    assert err.rstrip().endswith("source paths, their ends, or chunk ids.")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read"), (b"\n\n", "holds no question"), (b'{"query": "\xff"}', "is not UTF-8")],
)
def test_a_file_that_is_none_of_questions_is_refused(
    content: bytes | None, message: str, ask: Ask, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "q.jsonl").write_bytes(content)
    code, out, err = ask("--queries", tmp_path / "q.jsonl")
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queries", "q.jsonl", "--modes", "bm25,best"], "'best' is none of bm25, vector, hybrid, rrf, substring"),
        (["--queries", "q.jsonl", "--modes", ","], "',' is none of bm25"),
        ([], "one of the arguments --queries --make is required"),
        (["--make", "0"], "'0' is not a whole number from 1 to 10000"),
        (["--queries", "q.jsonl", "--out", "x"], "--out is where --make writes"),
        (["--queries", "q.jsonl", "--kb", "other"], "there is no knowledge base 'other'"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_allowed(arguments: list[str], message: str, ask: Ask) -> None:
    code, out, err = ask(*arguments)
    assert (code, out) == (1, "")
    assert message in err


def test_without_kb_the_only_one_is_meant_and_of_several_none(ask: Ask, tmp_path: Path) -> None:
    code, _, err = ask("--queries", QUESTIONS, base=tmp_path / "empty")
    assert code == 1
    assert "none yet" in err
    for id in ("a", "b"):
        new_config(tmp_path / "two", [str(tmp_path)], kb_id=id)
    code, _, err = ask("--queries", QUESTIONS, base=tmp_path / "two")
    assert code == 1
    assert "Known: a, b." in err


# --- the draft ---


@pytest.fixture(scope="module")
def provider() -> Iterator[Any]:
    fake = load(Path(__file__).with_name("fake_providers.py")).FakeProvider()
    yield fake
    fake.close()


@pytest.fixture
def drafting(library: Path, provider: Any, tmp_path: Path) -> Path:
    """A base folder with the sample documents and a configured model."""
    provider.reset()
    provider.text = "**Question:** 무엇이 어디에 있나요?"
    base = tmp_path / "drafting"
    config = new_config(base, [str(ROOT / "samples" / "library")], kb_id="kb")
    run(config)
    save_config(config, contextualizer={"provider": "openai", "model": "m", "baseUrl": provider.url})
    return base


def test_make_drafts_questions_that_eval_reads(ask: Ask, drafting: Path, provider: Any, tmp_path: Path) -> None:
    out = tmp_path / "drafts.jsonl"
    code, printed, err = ask("--make", "12", "--out", out, base=drafting)
    assert (code, printed) == (0, "")
    assert "12 questions in" in err
    questions = read_questions(out)
    assert [one.query for one in questions] == ["무엇이 어디에 있나요?"] * 12
    documents = [one.relevant[0] for one in questions]
    assert len(set(documents[:9])) == 9  # each document before any has a second
    assert set(documents) == {str(path) for path in (ROOT / "samples" / "library").iterdir()}
    assert len({json.dumps(request.json) for request in provider.requests}) == 12
    assert ask("--queries", out, "--modes", "bm25", base=drafting)[0] == 0


def test_make_asks_about_the_same_passages_each_time(ask: Ask, drafting: Path, provider: Any) -> None:
    first = ask("--make", "5", base=drafting)
    asked = [request.json for request in provider.requests]
    assert ask("--make", "5", base=drafting) == first
    assert [request.json for request in provider.requests] == asked * 2
    assert len(first[1].splitlines()) == 5


def test_make_ends_when_every_passage_was_asked_about(ask: Ask, drafting: Path, provider: Any) -> None:
    code, out, _ = ask("--make", "9999", base=drafting)
    assert code == 0
    assert 9 <= len(out.splitlines()) == len(provider.requests) < 100


def test_make_leaves_a_file_that_is_there(ask: Ask, drafting: Path, provider: Any, tmp_path: Path) -> None:
    out = write(tmp_path / "mine.jsonl", "corrected by hand")
    code, _, err = ask("--make", "2", "--out", out, base=drafting)
    assert code == 1
    assert "is there already" in err
    assert out.read_text(encoding="utf-8") == "corrected by hand\n"
    assert provider.requests == []


def test_make_without_a_model_says_what_to_set(ask: Ask) -> None:
    code, out, err = ask("--make", "3")
    assert (code, out) == (1, "")
    assert "names no contextualizer.model" in err
    assert "Set one (a provider and a model)" in err


def test_make_reports_a_model_that_refuses_and_answers_without_a_question(
    ask: Ask, drafting: Path, provider: Any
) -> None:
    provider.text = ""
    code, out, err = ask("--make", "2", base=drafting)
    assert (code, out) == (1, "")
    assert "Try another contextualizer.model" in err
    provider.key = "right"
    code, out, err = ask("--make", "2", base=drafting)
    assert (code, out) == (1, "")
    assert "401" in err


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("When is it due?", "When is it due?"),
        ("  위약금은 얼마인가요?\n", "위약금은 얼마인가요?"),
        ('Sure, here is one:\n\n**Question:** "When is it due?"', "When is it due?"),
        ("질문: 위약금은 얼마인가요?\n답: 10퍼센트", "위약금은 얼마인가요?"),
        ("1. When is it due?\n2. Who pays?", "When is it due?"),
        ("- *Q: When is it due?*", "When is it due?"),
        ('```json\n{"question": "When is \\"it\\" due?"}\n```', 'When is "it" due?'),
        ('{"question": "When is \\q it?"}\nWhen is it due?', "When is it due?"),
        ("<think>Who asks?\nHm.</think>When is it due?", "When is it due?"),
        ("위약금의 액수를 알려 주세요", "위약금의 액수를 알려 주세요"),
        ("2026년 예산은 얼마인가요?", "2026년 예산은 얼마인가요?"),
        ("", None),
        ("Here is a question:", None),
        ("?", None),
        ("no line is that long " * 100, None),
    ],
)
def test_a_question_is_found_in_whatever_stands_around_it(answer: str, question: str | None) -> None:
    assert parse_question(answer) == question
