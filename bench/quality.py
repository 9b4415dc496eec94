#!/usr/bin/env python3
"""Measure retrieval on labelled sets, through the product's own index and search, beside published figures.

    quality.py FOLDER [--sets a,b] [--model DIR] [--modes bm25,…] [--work DIR]

FOLDER holds sets: `{set}/corpus.jsonl`, lines of {"id", "title", "text"}, and `{set}/queries.jsonl`, lines of
{"id", "text", "relevant": [id]}. Each passage becomes a small Markdown file and each corpus a knowledge base, embedded
with the model folder that --model names; without one, words and substrings are measured. Knowledge bases are kept in
the folder that --work names, where a second run finds them; sets that share their passages share one.

R@k is the share of the relevant passages among the first k, nDCG@10 with a gain of 1. The rows in brackets are other
engines' figures on the same sets, as published before this program was written. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seoga.config import Config, load_config, new_config
from seoga.evaluate import MODES, Evaluation, Question, evaluate
from seoga.index import Progress, run
from seoga.store import Store

NAMES = {"bm25": "words", "substring": "substrings", "vector": "vectors", "rrf": "rrf", "hybrid": "hybrid"}
WITHOUT_MODEL = ("bm25", "substring")
# (R@1, nDCG@10) by set: of SQLite's FTS5 alone, of multilingual-e5-small in 8 bits, of fusions of these.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "trigrams (FTS5)": {
        "belebele_ko": (0.447, 0.546),
        "belebele_en": (0.648, 0.736),
        "belebele_ko2en": (0.031, 0.032),
        "belebele_en2ko": (0.096, 0.107),
    },
    "stems (FTS5)": {
        "belebele_ko": (0.519, 0.610),
        "belebele_en": (0.872, 0.919),
        "belebele_ko2en": (0.070, 0.073),
        "belebele_en2ko": (0.126, 0.142),
    },
    "stems and bigrams (FTS5)": {
        "belebele_ko": (0.823, 0.885),
        "belebele_en": (0.872, 0.919),
        "belebele_ko2en": (0.109, 0.114),
        "belebele_en2ko": (0.158, 0.177),
        "en_scifact_train": (0.54, 0.69),
    },
    "e5-small": {
        "belebele_ko": (0.823, 0.884),
        "belebele_en": (0.881, 0.934),
        "belebele_ko2en": (0.471, 0.612),
        "belebele_en2ko": (0.591, 0.711),
    },
    "bigrams + e5, by rank": {
        "belebele_ko": (0.872, 0.929),
        "belebele_en": (0.917, 0.954),
        "belebele_ko2en": (0.480, 0.618),
        "belebele_en2ko": (0.242, 0.488),
    },
    "bigrams + e5, by size": {
        "belebele_ko": (0.903, 0.941),
        "belebele_en": (0.939, 0.966),
        "belebele_ko2en": (0.480, 0.617),
        "belebele_en2ko": (0.598, 0.717),
    },
}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def build(corpus: Path, model: str, work: Path) -> tuple[Config, dict[str, str]]:
    """Index a corpus, or find it indexed; return its knowledge base, and passage id -> file name."""
    digest = hashlib.sha256(corpus.read_bytes()).hexdigest()[:12]
    passages = read_lines(corpus)
    names = {passage["id"]: f"p{number:06}.md" for number, passage in enumerate(passages)}
    folder = work / "corpora" / digest / "mdfiles"
    if not folder.exists():
        folder.mkdir(parents=True)
    if len(list(folder.iterdir())) < len(passages):
        for passage in passages:
            title = f"# {passage['title']}\n\n" if passage.get("title") else ""
            (folder / names[passage["id"]]).write_text(f"{title}{passage['text']}\n", encoding="utf-8")
    embedding = {"provider": "local", "model": model} if model else {}
    kb_id = f"{digest}-{hashlib.sha256(model.encode()).hexdigest()[:6] if model else 'words'}"
    base = work / "base"
    known = (base / kb_id / "config.json").exists()
    config = load_config(base / kb_id) if known else new_config(base, [str(folder)], kb_id=kb_id, embedding=embedding)
    outcome = run(config, report=Reporter())
    for path, reason in outcome.failures:
        sys.exit(f"{path} was not indexed: {reason}")
    for warning in outcome.warnings:
        print(f"note: {warning}", file=sys.stderr)
    return config, names


class Reporter:
    """A line on standard error now and then."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._last > 20:
            self._last = time.monotonic()
            print(f"{progress.stage} {progress.done:,} of {progress.total:,}", file=sys.stderr, flush=True)


def measure(folder: Path, model: str, work: Path, modes: list[str]) -> Evaluation:
    config, names = build(folder / "corpus.jsonl", model, work)
    questions = [
        Question(query["text"], tuple(names[id] for id in query["relevant"]), number)
        for number, query in enumerate(read_lines(folder / "queries.jsonl"), 1)
    ]
    store = Store.open_reader(config.database)
    try:
        return evaluate(config, store, questions, modes)
    finally:
        store.close()


def show(name: str, found: Evaluation, seconds: float) -> None:
    print(f"\n{name}: {found.documents:,} passages, {found.questions:,} queries, {seconds:.0f} s")
    print(f"  {'':26} {'R@1':>6} {'R@10':>6} {'MRR@10':>6} {'nDCG@10':>7}")
    for one in found.modes:
        figures = (one.recall_at_1, one.recall_at_10, one.mrr_at_10)
        row = " ".join(f"{figure:6.3f}" for figure in figures if figure is not None)
        ndcg = "" if one.ndcg_at_10 is None else f"{one.ndcg_at_10:7.4f}"
        print(f"  {NAMES[one.mode]:26} {row} {ndcg}{one.reason}")
    for engine, sets in PUBLISHED.items():
        if name in sets:
            first, ndcg = sets[name]
            print(f"  {f'({engine})':26} {first:6.3f} {'':6} {'':6} {ndcg:7.3f}")
    for note in found.notes[:5]:
        print(f"  note: {note}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--sets", default="", help="names, with commas (default: all that are there)")
    parser.add_argument("--model", default="", metavar="DIR", help="an ONNX model folder, as bench/bert2onnx.py makes")
    parser.add_argument("--modes", default="", help=f"of {','.join(MODES)} (default: all that can run)")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the knowledge bases here")
    args = parser.parse_args()
    there = sorted(path.parent.name for path in args.folder.glob("*/corpus.jsonl"))
    sets = args.sets.split(",") if args.sets else there
    if unknown := [name for name in sets if name not in there]:
        parser.error(f"{args.folder} has no set {', '.join(unknown)}; it has {', '.join(there) or 'none'}")
    model = str(Path(args.model).resolve()) if args.model else ""
    modes = args.modes.split(",") if args.modes else [mode for mode in NAMES if model or mode in WITHOUT_MODEL]
    if unknown := [mode for mode in modes if mode not in MODES]:
        parser.error(f"there is no mode {', '.join(unknown)}; there are {', '.join(MODES)}")
    with tempfile.TemporaryDirectory() as scratch:
        work = (args.work or Path(scratch)).resolve()
        for name in sets:
            began = time.perf_counter()
            found = measure(args.folder / name, model, work, modes)
            show(name, found, time.perf_counter() - began)


if __name__ == "__main__":
    main()
