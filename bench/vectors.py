#!/usr/bin/env python3
"""Measure search among many vectors, kept by a store and mapped from its files, beside a bare product of matrices.

    load       milliseconds from an open store to the first answer, the files out of the system's cache where it can be
    search     milliseconds of VectorSet.nearest for one query, ten results
    numpy      milliseconds of `matrix @ query` alone on a matrix in memory, the queries taking turns with the above
    recall     share of the true ten nearest among the ten found
    memory     of the process, beyond what it had before the load: its own, and pages of the files that it shares

Vectors are of unit length, in clusters as those of texts are, and drawn from a seed. Each size runs in a process of its
own. Ratios of one run are worth more than its milliseconds, since machines differ. Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from seoga.search import VectorSet
from seoga.store import Store

GROUP = 2_000  # vectors in a commit
CLUSTERS = 2_000
TIGHTNESS = 1.0  # of a cluster: its middle's length, where what is added to it has 1
LIMIT = 10


def groups(count: int, size: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield (GROUP, size) float32 rows of unit length, `count` in all, around the same middles whatever the seed."""
    middles = np.random.default_rng(0).normal(size=(CLUSTERS, size)).astype(np.float32)
    random = np.random.default_rng(seed)
    for low in range(0, count, GROUP):
        n = min(GROUP, count - low)
        rows = random.normal(size=(n, size)) + TIGHTNESS * middles[random.integers(CLUSTERS, size=n)]
        yield (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def fill(database: Path, count: int, size: int) -> None:
    """Write a generation of vectors as an indexing run does."""
    store = Store.open_writer(database)
    with store.write():
        generation = store.begin_generation("bench", {})
    written = 0
    for rows in groups(count, size, seed=1):
        keys = [(written + n).to_bytes(16, "big") for n in range(len(rows))]
        with store.write():
            store.put_vectors(generation.number, [(key, row.tobytes()) for key, row in zip(keys, rows, strict=True)])
        written += len(rows)
    store.map_vectors(generation.number)
    store.checkpoint()
    store.close()


def forget_pages(folder: Path) -> bool:
    """Put the files out of the system's cache; tell whether that can be asked for here."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    return True


def memory() -> tuple[float, float]:
    """Return MB of this process: its own, and those shared with files."""
    info = psutil.Process().memory_info()
    shared = getattr(info, "shared", 0)
    return (info.rss - shared) / 1e6, shared / 1e6


def measure(database: Path, queries: NDArray[np.float32]) -> dict[str, float]:
    """Search in this process; `queries` is (n, d)."""
    cold = forget_pages(database.parent)
    store = Store.open_reader(database)
    generation = store.serving()
    assert generation is not None
    before, began = memory(), time.perf_counter()
    vectors = VectorSet.load(store, generation.number)
    loaded = time.perf_counter() - began
    vectors.nearest(queries[0], LIMIT)
    first = time.perf_counter() - began
    after = memory()
    matrix = np.concatenate([part.matrix for part in vectors._parts])  # (n, d) float32, in memory
    ids = np.concatenate([part.ids for part in vectors._parts])
    search, bare, right = [], [], 0
    for query in queries:
        began = time.perf_counter()
        found = vectors.nearest(query, LIMIT)
        search.append(time.perf_counter() - began)
        began = time.perf_counter()
        cosines = matrix @ query
        bare.append(time.perf_counter() - began)
        nearest = set(ids[np.argpartition(-cosines, LIMIT)[:LIMIT]].tolist())
        right += len(nearest & {number for number, _ in found})
    return {
        "cold": float(cold),
        "load": 1e3 * loaded,
        "first": 1e3 * first,
        "p50": 1e3 * float(np.percentile(search, 50)),
        "p95": 1e3 * float(np.percentile(search, 95)),
        "bare_p50": 1e3 * float(np.percentile(bare, 50)),
        "bare_p95": 1e3 * float(np.percentile(bare, 95)),
        "recall": right / (LIMIT * len(queries)),
        "own": after[0] - before[0],
        "mapped": after[1] - before[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[100_000], metavar="N")
    parser.add_argument("--sizes", type=int, nargs="+", default=[384, 1024], metavar="D")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        database, size, queries = Path(args.child[0]), int(args.child[1]), int(args.child[2])
        rows = np.concatenate(list(groups(queries, size, seed=2)))
        print(json.dumps(measure(database, rows)))
        return
    print(HEAD)
    for count in args.counts:
        for size in args.sizes:
            with tempfile.TemporaryDirectory() as folder:
                fill(Path(folder, "rag.db"), count, size)
                command = [sys.executable, "-P", __file__, "--child", str(Path(folder, "rag.db"))]
                command += [str(size), str(args.queries)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(row(count, size, json.loads(done.stdout)), flush=True)


HEAD = """\
                      load ms    search ms      numpy ms        ratio     recall      memory, MB
   vectors     d    all  first   p50    p95    p50    p95    p50   p95      @10      own  mapped"""


def row(count: int, size: int, one: dict[str, float]) -> str:
    times = " ".join(f"{one[name]:6.1f}" for name in ("load", "first", "p50", "p95", "bare_p50", "bare_p95"))
    ratios = " ".join(f"{one[name] / one[f'bare_{name}']:5.2f}" for name in ("p50", "p95"))
    warm = "" if one["cold"] else "  (files from the cache)"
    return f"{count:10,} {size:5} {times}  {ratios}   {one['recall']:.4f} {one['own']:8.0f} {one['mapped']:7.0f}{warm}"


if __name__ == "__main__":
    main()
