"""Cut a document's blocks into chunks, the pieces that are indexed and shown.

The document's text is its blocks joined by one empty line. A chunk is a stretch of it, so offsets map back exactly::

    chunk.text == chunk.head + text[chunk.start:chunk.end]          head: a table's header, repeated
    text == the chunks in order, minus overlaps, plus "\\n\\n" where one ends before the next begins

Structure first: a chunk stays within one place (page, slide, sheet) and one section; a section too long for one chunk
is cut between paragraphs, then sentences, then words; tables between rows; code and equations only beyond the hard
maximum. All of it is linear in the length of the text. `words` turns text into the terms that the keyword index counts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from .parsers import Block

CHUNKER_VERSION = 1  # raise it when the same blocks give other chunks or words: documents are then chunked again
SEPARATOR = "\n\n"
MAX_LOCATION_CHARS = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a document's text, `[start, end)` in characters, with what is needed to cite it."""

    text: str
    start: int
    end: int
    location: str  # "p. 12, Budget > Travel"
    headings: str  # "Budget > Travel": indexed and embedded with the text


@dataclass(frozen=True, slots=True)
class Sizes:
    """Characters: wanted per chunk, repeated from the chunk before, and never exceeded."""

    target: int = 1000
    overlap: int = 150
    maximum: int = 4000


@dataclass(slots=True)
class _Section:
    """Blocks `[first, last)` that share a place; `paths` are the heading paths met, in order."""

    first: int
    last: int
    place: str
    paths: list[tuple[str, ...]] = field(default_factory=list)
    has_body: bool = False


@dataclass(slots=True)
class _Layout:
    """The document's text with the offsets of its blocks."""

    blocks: Sequence[Block]
    text: str
    starts: list[int]
    ends: list[int]
    numbered: bool  # some block numbers its rows


def document_text(blocks: Sequence[Block]) -> str:
    """Join blocks into the text that offsets refer to; headings keep Markdown marks."""
    return SEPARATOR.join(_shown(block) for block in blocks)


def _shown(block: Block) -> str:
    return f"{'#' * min(max(block.level, 1), 6)} {block.text}" if block.kind == "heading" else block.text


def make_chunks(blocks: Sequence[Block], sizes: Sizes) -> list[Chunk]:
    """Cut blocks into chunks in reading order; the same input gives the same chunks."""
    target = min(sizes.target, sizes.maximum)
    sizes = Sizes(target, min(sizes.overlap, target - 1), sizes.maximum)
    layout = _lay_out(blocks)
    small = sizes.target // 10
    chunks: list[Chunk] = []
    for section in _merge_small(list(_sections(blocks)), layout, small, sizes.target):
        chunks += _pack(section, layout, sizes)
    return chunks


def _lay_out(blocks: Sequence[Block]) -> _Layout:
    shown = [_shown(block) for block in blocks]
    starts, ends, at = [], [], 0
    for text in shown:
        starts.append(at)
        ends.append(at + len(text))
        at = ends[-1] + len(SEPARATOR)
    return _Layout(blocks, SEPARATOR.join(shown), starts, ends, any(block.rows for block in blocks))


# --- sections ---

ASIDE = frozenset({"header", "footer", "comments", "endnotes"})  # at the end of a document, under none of its headings


def _sections(blocks: Sequence[Block]) -> Iterator[_Section]:
    """Divide at each heading and each change of place. The heading path carries over places (a title spans pages)."""
    path: list[tuple[int, str]] = []  # (level, heading)
    section: _Section | None = None
    for number, block in enumerate(blocks):
        if block.kind == "heading":
            path = [entry for entry in path if entry[0] < block.level] + [(block.level, block.text)]
        if section is None or block.kind == "heading" or block.place != section.place:
            if section is not None:
                yield section
            headings = () if block.place in ASIDE else tuple(text for _, text in path)
            section = _Section(number, number, block.place, [headings])
        section.last = number + 1
        section.has_body |= block.kind != "heading"
    if section is not None:
        yield section


def _merge_small(sections: list[_Section], layout: _Layout, small: int, target: int) -> Iterator[_Section]:
    """Join a heading without a body, or a very short section, with what follows it in the same place."""
    pending: _Section | None = None
    for section in sections:
        if pending is None:
            pending = section
        elif _joins(pending, section, layout, small, target):
            kept = pending.paths if pending.has_body else []
            pending = _Section(pending.first, section.last, pending.place, kept + section.paths, section.has_body)
        else:
            yield pending
            pending = section
    if pending is not None:
        yield pending


def _joins(first: _Section, then: _Section, layout: _Layout, small: int, target: int) -> bool:
    if first.place != then.place:
        return False
    if not first.has_body:
        return len(first.paths[-1]) < len(then.paths[0]) or not then.has_body
    length = layout.ends[first.last - 1] - layout.starts[first.first]
    whole = layout.ends[then.last - 1] - layout.starts[first.first]
    same_top = first.paths[-1][:1] == then.paths[0][:1]
    return length < small and whole <= target and same_top


# --- packing one section ---


@dataclass(slots=True)
class _Open:
    """The chunk being filled: `[start, end)`, of which `[fresh, end)` is new; blocks `first` to `last`."""

    start: int
    fresh: int
    end: int
    first: int
    last: int
    head: str = ""


def _pack(section: _Section, layout: _Layout, sizes: Sizes) -> list[Chunk]:
    """Fill chunks with the section's pieces up to the target; a short last one joins the one before."""
    first, last = layout.starts[section.first], layout.ends[section.last - 1]
    if last - first <= sizes.target:  # most sections of most documents
        return [_finish(_Open(first, first, last, section.first, section.last - 1), section, layout)]
    done: list[_Open] = []
    current: _Open | None = None
    for number in range(section.first, section.last):
        room = sizes.target - (current.end - current.start) if current else sizes.target
        if current and current.end - current.fresh >= sizes.target // 2 and _length(layout, number) > room:
            done.append(current)
            current = None
        for start, end in _pieces(layout, number, sizes, room if current else sizes.target):
            if current and len(current.head) + end - current.start > sizes.target:
                done.append(current)
                current = None
            if current is None:
                current = _begin(layout, number, start, end, done[-1] if done else None, sizes)
            else:
                current.end, current.last = end, number
    if current:
        done.append(current)
    if len(done) > 1 and _is_short_tail(done[-2], done[-1], sizes):
        tail = done.pop()
        done[-1].end, done[-1].last = tail.end, tail.last
    return [_finish(chunk, section, layout) for chunk in done]


def _length(layout: _Layout, number: int) -> int:
    return layout.ends[number] - layout.starts[number]


def _is_short_tail(before: _Open, tail: _Open, sizes: Sizes) -> bool:
    whole = len(before.head) + tail.end - before.start
    return tail.end - tail.fresh < sizes.target // 4 and whole <= min(sizes.target * 3 // 2, sizes.maximum)


def _begin(layout: _Layout, number: int, start: int, end: int, before: _Open | None, sizes: Sizes) -> _Open:
    """Open a chunk at a piece: with the table's header if it starts within a table, else with some overlap."""
    block, block_start = layout.blocks[number], layout.starts[number]
    if block.kind == "table" and start > block_start and block.header:
        head = _header(block)
        within = start >= block_start + len(head) and len(head) + end - start <= sizes.target
        return _Open(start, start, end, number, number, head if within else "")
    overlap = 0 if block.kind in ("table", "code") else min(sizes.overlap, sizes.maximum - (end - start))
    shared = _overlap_start(layout, before, start, overlap) if before else start
    return _Open(shared, start, end, number, number)


def _header(block: Block) -> str:
    """Return a table's header lines; nothing if there are too many to repeat."""
    end = 0
    for _ in range(block.header if block.header < 10 else 0):
        end = block.text.find("\n", end) + 1
    return block.text[:end]


def _overlap_start(layout: _Layout, before: _Open, start: int, overlap: int) -> int:
    """Return where to start so that the last sentences of the chunk before come again, at most `overlap` characters."""
    last = layout.blocks[before.last]
    low = max(before.fresh, layout.starts[before.last], start - overlap)
    if overlap < 20 or last.kind != "text" or low >= before.end:
        return start
    tail = layout.text[low : before.end]
    cuts = [low] if low in (before.fresh, layout.starts[before.last]) else [low + cut for cut in _sentence_cuts(tail)]
    return next((cut for cut in cuts if cut < before.end), start)


def _finish(chunk: _Open, section: _Section, layout: _Layout) -> Chunk:
    headings = _joined_paths(section.paths)
    place = section.place
    if layout.numbered and (rows := _rows(chunk, layout)):
        place = f"{place}, rows {rows}" if place else f"rows {rows}"
    location = ", ".join(part for part in (place, headings) if part)
    body = layout.text[chunk.start : chunk.end]
    return Chunk(chunk.head + body, chunk.start, chunk.end, location[:MAX_LOCATION_CHARS], headings)


def _joined_paths(paths: list[tuple[str, ...]]) -> str:
    """`[("A","B"), ("A","C")]` -> `"A > B; C"`."""
    shown = [" > ".join(paths[0])] if paths else []
    for before, path in pairwise(paths):
        shown.append(" > ".join(path[1:] if path[:1] == before[:1] and len(path) > 1 else path))
    joined = "; ".join(part for part in dict.fromkeys(shown) if part)
    return " ".join(joined.split())[:MAX_LOCATION_CHARS]


def _rows(chunk: _Open, layout: _Layout) -> str:
    """Name the spreadsheet rows that a chunk covers: `2-40`, or nothing when its blocks don't number rows."""
    numbers: list[int] = []
    for number in range(chunk.first, chunk.last + 1):
        block, base = layout.blocks[number], layout.starts[number]
        if not block.rows:
            continue
        line = layout.text.count("\n", base, max(base, chunk.start)) - block.header
        until = layout.text.count("\n", base, min(layout.ends[number], chunk.end)) - block.header + 1
        until -= chunk.end <= layout.ends[number] and layout.text[chunk.end - 1 : chunk.end] == "\n"
        numbers += block.rows[max(line, 0) : max(until, 0)]
    return "" if not numbers else str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]}-{numbers[-1]}"


# --- pieces: what a block can be cut into ---


def _pieces(layout: _Layout, number: int, sizes: Sizes, room: int) -> Iterator[tuple[int, int]]:
    """Yield the block's pieces as offsets that touch: whole if it has room, else rows, lines or sentences."""
    block, start, end = layout.blocks[number], layout.starts[number], layout.ends[number]
    whole = sizes.maximum if block.kind == "code" else min(room, sizes.maximum)
    if end - start <= whole:
        yield start, end
        return
    text = layout.text[start:end]
    at = 0
    cuts = _line_cuts(text) if block.kind in ("table", "code") else _sentence_cuts(text)
    limit = sizes.maximum if block.kind in ("table", "code") else sizes.target
    spans = _equations(text)
    for cut in [*cuts, len(text)]:
        while cut - at > limit:
            middle = _cut_long(text, at, limit, sizes.maximum, spans)
            yield start + at, start + min(middle, cut)
            at = min(middle, cut)
        if cut > at:
            yield start + at, start + cut
            at = cut


def _cut_long(text: str, at: int, limit: int, maximum: int, spans: list[tuple[int, int]]) -> int:
    """Return where to cut a piece that is too long: after the last blank before the limit, never in an equation."""
    cut = max(text.rfind(" ", at + limit // 2, at + limit), text.rfind("\t", at + limit // 2, at + limit)) + 1
    cut = cut or at + limit
    position = bisect_left(spans, (cut, 0)) - 1
    if position >= 0 and spans[position][0] < cut < spans[position][1]:
        begin, end = spans[position]
        cut = begin if begin > at else end if end - at <= maximum else at + maximum
    return cut


def _line_cuts(text: str) -> list[int]:
    return [match.end() for match in re.finditer("\n", text)]


# Whitespace after a sentence's end (and what closes after it), or a line's end.
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])[\"'”’»)\]」』】]*\s+|\n\s*")
# What ends in a full stop without ending a sentence: numbers (dates, items), initials, item letters, abbreviations.
_NO_END = re.compile(
    r"(?:^|[\s(\[])(?:\d{1,4}|[A-Za-z]|[가나다라마바사아자차카타파하]|dr|mr|mrs|ms|prof|st|vs|no|nos|fig|vol|pp|e\.g|i\.e|cf|"
    r"al|inc|ltd|co|corp|approx|dept|est|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)\.$",
    re.IGNORECASE,
)


def _sentence_cuts(text: str) -> list[int]:
    """Return the offsets at which sentences begin, the first left out."""
    spans = _equations(text)
    cuts = []
    for match in _SENTENCE_END.finditer(text):
        before = text[max(0, match.start() - 8) : match.start()]
        if "\n" not in match.group() and _NO_END.search(before):
            continue
        if match.end() < len(text) and not _inside(match.end(), spans):
            cuts.append(match.end())
    return cuts


def _inside(offset: int, spans: list[tuple[int, int]]) -> bool:
    position = bisect_right(spans, (offset, 0)) - 1
    return position >= 0 and spans[position][0] < offset < spans[position][1]


def _equations(text: str) -> list[tuple[int, int]]:
    """Find `[math: …]` with its brackets balanced, as sorted offsets; one left open ends with its line."""
    spans: list[tuple[int, int]] = []
    at = text.find("[math:")
    while at >= 0:
        depth, end = 0, at
        for match in re.compile(r"[\[\]\n]").finditer(text, at):
            depth += {"[": 1, "]": -1}.get(match.group(), -depth)
            end = match.end()
            if depth == 0:
                break
        else:
            end = len(text)
        spans.append((at, end))
        at = text.find("[math:", end)
    return spans


# --- words: the terms that the keyword index counts ---

CJK_SHARE = 0.15  # of a passage's characters, from which on it is a Korean, Japanese or Chinese one
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_CJK = _HANGUL + "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_NOT_CJK = re.compile(f"[^{_CJK}]+")
_RUN = re.compile(f"([{_CJK}]+)|[^\\W_{_CJK}]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MAX_TERM_CHARS = 64  # longer runs (base64, hashes) are indexed by their beginning
_CACHE_ENTRIES = 200_000


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


class _Words(dict[str, str]):
    """Cache: a word between white space -> its terms, joined by blanks. Words repeat: this is where the speed is."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _CACHE_ENTRIES:
            self.clear()
        self[word] = terms = " ".join(_terms_of(word))
        return terms


_cache = _Words()


def words(text: str) -> list[str]:
    """Return the terms of a text, in order: English words stemmed, CJK runs as bigrams, numbers without separators.

    >>> words("임피던스는 42 Ohms")
    ['임피', '피던', '던스', '스는', '42', 'ohm']
    """
    return word_string(text).split()


def word_string(text: str) -> str:
    """Return `words(text)` joined by white space: what the keyword index takes."""
    return " ".join(map(_cache.__getitem__, text.casefold().split()))


def has_cjk(text: str) -> bool:
    return any(match.group(1) for match in _RUN.finditer(text))


def is_cjk(text: str) -> bool:
    """Tell a Korean, Japanese or Chinese passage by its beginning."""
    head = text[:400]
    return len(_NOT_CJK.sub("", head)) > CJK_SHARE * len(head)


def count_words(string: str) -> int:
    """Count the terms in a `word_string`, near enough: a word without terms leaves a blank that counts."""
    return string.count(" ") + 1 if string else 0


def _terms_of(word: str) -> Iterator[str]:
    if not word.isascii():
        word = unicodedata.normalize("NFKC", word).casefold()
    for match in _RUN.finditer(_THOUSANDS.sub("", word)):
        run = match.group()
        if not match.group(1):
            yield _stem(run)
        elif len(run) == 1:
            yield run
        else:
            yield from map("".join, pairwise(run))


@lru_cache(maxsize=_CACHE_ENTRIES)
def _stem(run: str) -> str:
    if not run.isascii():
        run = "".join(c for c in unicodedata.normalize("NFKD", run) if not unicodedata.combining(c)) or run
    if run.isascii() and run.isalpha() and 2 < len(run) < 32:
        return str(_stemmer().stemWord(run))
    return run[:-1] if run[-1] == "s" and run[:-1].isdigit() else run[:_MAX_TERM_CHARS]  # 1980s
