#!/usr/bin/env python3
"""Measure keyword indexing and search on a generated corpus, beside the least that SQLite itself needs for it.

    index      CPU seconds of `seoga exec` on a fresh knowledge base, its child processes included
    floor      CPU seconds to put the same chunks, their terms made beforehand, into the same two FTS5 tables
    rescan     wall seconds of a run when nothing changed, within this process and as a command
    query      milliseconds of one search within this process, over all queries of the corpus

Ratios of one run are worth more than its seconds, since machines differ and are shared. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gen_corpus import Query, write_corpus

from seoga.chunks import word_string
from seoga.config import load_config, new_config
from seoga.index import run
from seoga.search import search
from seoga.store import Store, indexed_text

HASH_BYTES = 64 * 1024 * 1024  # FTS5 keeps this much of a transaction in memory, as the store has it
ROUNDS = 3  # of all queries


def cpu_seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def run_exec(kb: Path) -> tuple[float, float]:
    """Run `seoga exec` to its end; return (CPU seconds, wall seconds)."""
    command = [sys.executable, "-P", "-c", "import sys; from seoga.rag import main; sys.exit(main())"]
    cpu, wall = cpu_seconds_of_children(), time.perf_counter()
    done = subprocess.run([*command, "exec", "--path", str(kb)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"seoga exec ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return cpu_seconds_of_children() - cpu, time.perf_counter() - wall


def floor_seconds(database: Path, scratch: Path) -> tuple[float, int]:
    """Fill both keyword tables with the chunks of `database` in one transaction; return its CPU seconds, and chunks."""
    source = sqlite3.connect(database)
    texts = [indexed_text(*row) for row in source.execute("select headings, text from chunks order by id")]
    source.close()
    terms = [word_string(text) for text in texts]
    db = sqlite3.connect(scratch, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("create virtual table words using fts5 (body, content='', tokenize='ascii')")
    db.execute("create virtual table trigrams using fts5 (body, content='', detail='none', tokenize='trigram')")
    began = time.process_time()
    db.execute("begin immediate")
    for table, bodies in (("words", terms), ("trigrams", texts)):
        db.execute(f"insert into {table} ({table}, rank) values ('hashsize', {HASH_BYTES})")
        db.executemany(f"insert into {table} (rowid, body) values (?, ?)", enumerate(bodies, 1))
    db.execute("commit")
    seconds = time.process_time() - began
    db.close()
    return seconds, len(texts)


def rescan_seconds(kb: Path) -> float:
    """Return the seconds of an indexing run in this process, where nothing changed."""
    outcome = run(load_config(kb))
    assert not outcome.counts["added"] + outcome.counts["updated"], outcome.as_dict()
    return outcome.seconds


def query_seconds(kb: Path, queries: list[Query]) -> tuple[list[float], str]:
    """Return the seconds of each search, the first round left out, and how often the one right file came first."""
    store = Store.open_reader(kb / "rag.db")
    seconds, first = [], []
    for counted in (False, *[True] * ROUNDS):
        for query in queries:
            began = time.perf_counter()
            found = search(store, query.q)
            if counted:
                seconds.append(time.perf_counter() - began)
            elif query.expect:
                first.append(bool(found.hits) and found.hits[0].chunk.path.endswith(query.expect))
    store.close()
    return seconds, f"{sum(first)} of {len(first)}"


def row(name: str, value: str, note: str = "") -> None:
    print(f"{name:34} {value:>12}  {note}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, base = Path(folder, "corpus"), Path(folder, "base")
        size, queries = write_corpus(corpus, args.files)
        kb = new_config(base, [str(corpus)], name="bench", embedding={}).folder
        cpu, wall = run_exec(kb)
        floor, chunks = floor_seconds(kb / "rag.db", Path(folder, "floor.db"))
        print(f"{args.files:,} files, {size / 1e6:.1f} MB, {chunks:,} chunks")
        row("index, CPU s", f"{cpu:.2f}", f"{wall:.2f} s wall, {1e3 * cpu / args.files:.2f} ms a file")
        row("FTS5 floor, CPU s", f"{floor:.2f}")
        row("index / floor", f"{cpu / floor:.2f}")
        row("database / corpus, bytes", f"{(kb / 'rag.db').stat().st_size / size:.2f}")
        row("rescan, wall s", f"{min(rescan_seconds(kb) for _ in range(3)):.3f}", f"as a command {run_exec(kb)[1]:.2f}")
        times, right = query_seconds(kb, queries)
        times.sort()
        slow = times[int(0.95 * len(times))]
        row("query, median ms", f"{1e3 * statistics.median(times):.2f}", f"p95 {1e3 * slow:.2f}, n {len(times)}")
        row("numbers found first", right)


if __name__ == "__main__":
    main()
