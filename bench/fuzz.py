#!/usr/bin/env python3
"""Index mutants of one good document per format, and say what they cost: whatever is in a file, the indexer lives on.

    mutant = good document, damaged by a seed: `docx-1-42` is the 42nd of seed 1, and the same each time

Each round is a folder of mutants and a run of the real indexer over it. By format: statuses,
children that died, longest seconds, largest memory. Exit code 1 if the run itself broke, the index isn't sound, a file
took over MAX_SECONDS, a child held more than its limit, or anything was left behind. A child that died of a mutant is
counted and named, no more: the file is `failed`. How seconds and memory are measured stands in tests/measured.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import random
import re
import struct
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from seoga.config import Config, new_config
from seoga.index import run
from seoga.parsers import SUFFIXES
from seoga.store import Store

MAX_SECONDS = 30.0
ROUND = 400  # mutants in a folder


def helper(name: str) -> Any:
    """Import a file of tests/ by its path."""
    path = Path(__file__).resolve().parent.parent / "tests" / f"{name}.py"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


measured = helper("measured")

# --- mutants ---

ZIPPED = {".docx", ".xlsx", ".pptx", ".hwpx", ".odt", ".epub"}
TEXTUAL = {".txt", ".md", ".markdown", ".html", ".htm", ".csv", ".tsv", ".json", ".jsonl", ".rtf", ".eml", ".pdf"}
NUMBERS = [b"0", b"-1", b"65536", b"2147483648", b"99999999999999999999", b"1e999", b"NaN", b""]


def damaged(data: bytes, chance: random.Random, *, textual: bool) -> bytes:
    """Damage bytes in one to four ways."""
    for _ in range(chance.randint(1, 4)):
        low, high = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        high = min(high, low + chance.choice((1, 4, 64, 1024, 1 << 30)))
        block, way = data[low:high], chance.randrange(9)
        if way == 0 and data:
            at = chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        elif way == 1:
            data = data[:low] + chance.randbytes(min(len(block), 64)) + data[low + min(len(block), 64) :]
        elif way == 2:
            data = data[:low]
        elif way == 3:
            data = data[:high] + block[:5000] * chance.choice((1, 2, 50)) + data[high:]
        elif way == 4:
            data = data[:low] + data[high:]
        elif way == 5:
            data = data[:low] + chance.randbytes(chance.randint(1, 64)) + data[low:]
        elif way == 6:
            data = data[high:] + block + data[:low]
        elif way == 7:
            data = data[:low] + bytes([chance.choice((0, 255, 32, 127))]) * len(block[:5000]) + data[low + 5000 :]
        elif textual:
            data = with_another_number(data, chance)
        else:
            value = chance.choice((0, 1, 2**15, 2**31 - 1, 2**32 - 1))
            data = data[:low] + struct.pack(chance.choice("<>") + "L", value) + data[low + 4 :]
    return data


def with_another_number(data: bytes, chance: random.Random) -> bytes:
    places = list(re.finditer(rb"\d{1,20}", data))
    place = chance.choice(places) if places else None
    return data[: place.start()] + chance.choice(NUMBERS) + data[place.end() :] if place else data


def mutant(suffix: str, good: bytes, seed: str) -> bytes:
    """Damage a good document; what is packed in it is mostly damaged within, so that its checksums are right."""
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return damaged(good, chance, textual=suffix in TEXTUAL)
    if suffix in ZIPPED:
        return damaged_zip(good, chance)
    if suffix == ".hwp":
        return damaged_hwp(chance)
    if suffix == ".png":
        return damaged_png(good, chance)
    if suffix == ".pdf" and chance.random() < 0.5:
        return damaged_pdf(good, chance)
    return damaged(good, chance, textual=suffix in TEXTUAL)


def damaged_zip(good: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in chance.sample(sorted(parts), chance.choice((1, 1, 1, 2))):
        parts[name] = damaged(parts[name], chance, textual=chance.random() < 0.9)
    if chance.random() < 0.1:
        parts.pop(chance.choice(sorted(parts)))
    return bytes(helper("hostile").zipped(parts))


def damaged_hwp(chance: random.Random) -> bytes:
    """Damage the records of a section before they are packed, or a link of the container."""
    hostile, ordinary = helper("hostile"), helper("ordinary")
    section = b"".join(map(hostile.hwp_paragraph, ordinary.paragraphs(6))) + hostile.hwp_table(2, 2)
    if chance.random() < 0.7:
        return bytes(hostile.hwp(damaged(section, chance, textual=False)))
    number, index, value = chance.randrange(5), chance.randrange(5), chance.choice((0, 1, 2, 7, 2**31, 2**32 - 2))
    return bytes(hostile.hwp(section, entry=hostile.at(number, index, value)))


def damaged_png(good: bytes, chance: random.Random) -> bytes:
    """Damage one chunk, packed data before it is packed, and give it the right checksum."""
    chunks, at = list[tuple[bytes, bytes]](), 8
    while at < len(good):
        size = int.from_bytes(good[at : at + 4], "big")
        chunks.append((good[at + 4 : at + 8], good[at + 8 : at + 8 + size]))
        at += size + 12
    place = chance.randrange(len(chunks))
    kind, inner = chunks[place]
    packed = kind == b"IDAT" and chance.random() < 0.7
    inner = damaged(zlib.decompress(inner) if packed else inner, chance, textual=False)
    chunks[place] = kind, zlib.compress(inner) if packed else inner
    made = (struct.pack(">L", len(i)) + k + i + struct.pack(">L", zlib.crc32(k + i)) for k, i in chunks)
    return good[:8] + b"".join(made)


def damaged_pdf(good: bytes, chance: random.Random) -> bytes:
    """Unpack a stream, damage it and pack it again; the references behind it no longer fit, which viewers mend."""
    places = list(re.finditer(rb"stream\r?\n(.*?)endstream", good, re.DOTALL))
    place = chance.choice(places)
    inner = place[1]
    with suppress(zlib.error):
        inner = zlib.compress(damaged(zlib.decompress(inner), chance, textual=True))
    return good[: place.start(1)] + inner + good[place.end(1) :]


# --- rounds ---


@dataclass(slots=True)
class Tally:
    """What became of a format's mutants."""

    statuses: Counter[str] = field(default_factory=Counter)
    deaths: dict[str, str] = field(default_factory=dict)  # seed -> reason
    faults: list[str] = field(default_factory=list)  # for which the exit code is 1
    seconds: float = 0.0
    peak: int = 0


def fuzz(
    counts: dict[str, int], seed: int, folder: Path, *, say: Callable[[str], None] = print, speech: str = ""
) -> dict[str, Tally]:
    """Index so many mutants of each suffix, in rounds that mix them; returns suffix -> tally."""
    small = helper("ordinary").SMALL
    good = {suffix: small[suffix]() for suffix in counts}
    names = [f"{suffix[1:]}-{seed}-{n}" for suffix, count in counts.items() for n in range(count)]
    random.Random(seed).shuffle(names)
    tallies = {suffix: Tally() for suffix in counts}
    for low in range(0, len(names), ROUND):
        docs = folder / f"mutants-{low}"
        docs.mkdir()
        for name in names[low : low + ROUND]:
            suffix = f".{name.split('-')[0]}"
            (docs / f"{name}{suffix}").write_bytes(mutant(suffix, good[suffix], name))
        settings = {"audio": {"model": speech or str(folder / "no model")}}  # otherwise one would be downloaded
        index_round(docs, new_config(folder / "base", [str(docs)], kb_id=f"kb{low}", **settings), tallies)
        say(f"{min(low + ROUND, len(names)):,} of {len(names):,}")
    return tallies


def index_round(docs: Path, config: Config, tallies: dict[str, Tally]) -> None:
    any_tally = next(iter(tallies.values()))
    try:
        with measured.measuring() as costs:
            run(config)
        with closing(Store.open_writer(config.database)) as store:
            any_tally.faults += [f"{docs.name}: {fault}" for fault in store.check()]
            files = store.files()
    except Exception as error:  # noqa: BLE001 - a dead indexer is what is looked for
        any_tally.faults.append(f"{docs.name}: the indexer died: {type(error).__name__}: {error}")
        return
    any_tally.faults += [f"{docs.name} left {what}" for what in measured.left_behind(config)]
    for path in sorted(docs.iterdir()):
        record, cost, tally = files.get(str(path)), costs.get(str(path), measured.Cost()), tallies[path.suffix]
        if record is None:
            tally.faults.append(f"{path.stem}: it is not in the index")
            continue
        tally.statuses[measured.status_of(record)] += 1
        tally.seconds, tally.peak = max(tally.seconds, cost.seconds), max(tally.peak, cost.peak)
        if record.reason.startswith(measured.DIED):
            tally.deaths[path.stem] = record.reason
        if cost.seconds > MAX_SECONDS or "took too long" in record.reason:
            tally.faults.append(f"{path.stem}: {cost.seconds:.1f} s")
        if cost.peak > cost.limit:
            tally.faults.append(f"{path.stem}: {cost.peak / 1e6:,.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="mutants in all, shared among the formats")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", help="a suffix without its dot; again for more (default: all)")
    parser.add_argument("--speech-model", default="", help="a folder; without one, recordings wait for a model")
    parser.add_argument("--keep", type=Path, help="write the mutants that a child died of into this folder")
    options = parser.parse_args()
    suffixes = [f".{name}" for name in options.format] if options.format else sorted(SUFFIXES)
    shares = {suffix: -(-options.count // len(suffixes)) for suffix in suffixes}
    with tempfile.TemporaryDirectory() as folder:
        say = partial(print, file=sys.stderr)
        tallies = fuzz(shares, options.seed, Path(folder), say=say, speech=options.speech_model)
    for suffix, tally in tallies.items():
        counts = ", ".join(f"{count} {status}" for status, count in tally.statuses.most_common())
        print(f"{suffix:10} {counts}; at most {tally.seconds:.1f} s, {tally.peak / 1e6:,.0f} MB")
        for name, reason in tally.deaths.items():
            print(f"           a child died of {name}: {reason[:60]}")
            if options.keep:
                options.keep.mkdir(exist_ok=True)
                (options.keep / f"{name}{suffix}").write_bytes(mutant(suffix, helper("ordinary").SMALL[suffix](), name))
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    print(*(f"FAULT {fault}" for fault in faults), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
