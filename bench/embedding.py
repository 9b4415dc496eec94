#!/usr/bin/env python3
"""Measure local embedding beside a plain loop: one thread, one text at a time, the same weights in float32.

    plain      an ONNX Runtime session on one thread, and the texts one after another
    fp32       LocalEmbedder on every core, the same weights
    int8       LocalEmbedder on every core, the weights in 8 bits

for all-MiniLM-L6-v2 and multilingual-e5-small, chunks of 1,000 characters, English and Korean. All run the same windows
(a Korean chunk is about 480 tokens to e5, and 1,000 to MiniLM, which takes 256 at once). Each way runs in a process of
its own, in turn, `--rounds` times; the best round counts. Memory is the most that the process had, its start included.

Ratios of one run are worth more than its rates, since machines differ and are shared. CPU seconds depend less on what
else runs: `chunks / CPU s` tells the work, `chunks / s` the wait. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from bert2onnx import model_folder
from gen_corpus import documents

CHUNK_CHARS = 1000
QUERIES = 20
NAMES = {"minilm": "all-MiniLM-L6-v2", "e5": "multilingual-e5-small"}


def chunks(language: str, count: int) -> list[str]:
    """Return `count` chunks of the generated corpus in one language ("en" or "ko")."""
    found: list[str] = []
    for _, text, its_language in documents(10 * count):
        if its_language == language:
            found += [text[low : low + CHUNK_CHARS] for low in range(0, len(text) - CHUNK_CHARS + 1, CHUNK_CHARS)]
        if len(found) >= count:
            break
    return found[:count]


def measure(way: str, folder: str, texts: list[str]) -> dict[str, float]:
    """Embed the texts in this process; return rates, milliseconds of one query, and MB at most."""
    began = time.perf_counter()
    embed = plain(folder) if way == "plain" else ours(folder)
    embed([texts[0][:20]])
    loaded = time.perf_counter() - began
    wall, cpu = time.perf_counter(), time.process_time()
    embed(texts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    queries = []
    for n in range(QUERIES):
        began = time.perf_counter()
        embed([f"{texts[0][n : n + 30]}"])
        queries.append(time.perf_counter() - began)
    unit = 1024 if sys.platform != "darwin" else 1
    return {
        "rate": len(texts) / wall,
        "cpu_rate": len(texts) / cpu,
        "load": loaded,
        "query": 1e3 * sorted(queries)[QUERIES // 2],
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
    }


def ours(folder: str):
    from seoga.local import LocalEmbedder

    embedder = LocalEmbedder(folder)
    return lambda texts: embedder.embed(texts, "document")


def plain(folder: str):
    """The loop that a first version of such a program has, less its fault of cutting what exceeds the model."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    from seoga.local import LocalEmbedder, _text_windows

    model = LocalEmbedder(folder)._runner.model()
    prefix = model.prefix["document"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options)
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def embed(texts: list[str]) -> list[object]:
        vectors = []
        for text in texts:
            for window in _text_windows(tokenizer.encode(prefix + text), len(prefix.rstrip()), model.limit):
                ids = np.array([window.ids])
                (hidden,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
                mean = hidden[0].mean(axis=0)
                vectors.append(mean / np.linalg.norm(mean))
        return vectors

    return embed


def in_child(way: str, folder: Path, texts: list[str]) -> dict[str, float]:
    command = [sys.executable, "-P", __file__, "--child", way, str(folder)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--chunks", type=int, default=40, help="in each language; MiniLM, which is faster, gets 4 times"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=sorted(NAMES), default=["minilm", "e5"])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(*args.child, json.load(sys.stdin))))
        return
    for kind in args.models:
        float32, int8 = model_folder(kind), model_folder(kind, int8=True)
        ways = {"plain": float32, "fp32": float32, "int8": int8}
        for language in ("en", "ko"):
            texts = chunks(language, args.chunks * (4 if kind == "minilm" else 1))
            rounds = [{way: in_child(way, ways[way], texts) for way in ways} for _ in range(args.rounds)]
            print(f"\n{NAMES[kind]}, {language}, {len(texts)} chunks")
            print("         chunks/s  / plain  chunks/CPU s  / plain  query ms  load s  MB")
            best = {way: {key: max(one[way][key] for one in rounds) for key in ("rate", "cpu_rate")} for way in ways}
            for way in ways:
                least = {key: min(one[way][key] for one in rounds) for key in ("query", "load", "memory")}
                rate, cpu_rate = best[way]["rate"], best[way]["cpu_rate"]
                print(
                    f"{way:8} {rate:8.2f} {rate / best['plain']['rate']:8.2f} {cpu_rate:13.2f} "
                    f"{cpu_rate / best['plain']['cpu_rate']:8.2f} {least['query']:9.1f} {least['load']:7.2f} "
                    f"{least['memory']:5.0f}"
                )


if __name__ == "__main__":
    main()
