"""Find the chunks that answer a query.

    query --> terms --> candidates (the store's counts) --> exact BM25 over the candidates --> results

The words leg ranks by BM25 over English stems and CJK bigrams. Terms too common to be worth a scan don't choose
candidates but do count when these are scored. The substring leg finds what words can't see: a quoted phrase, or part of
an identifier. Scores lie between 0 and 1: BM25 divided by the most that any text could reach for this query. A query is
data: whatever is in it, nothing raises. This file changes nothing on disk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .chunks import has_cjk, words
from .config import scrub
from .store import Filters, Store, StoredChunk, indexed_text, name_words

MAX_QUERY_CHARS = 4_000
MAX_TERMS = 48
MAX_TOP_K = 50
CANDIDATES = 60  # chunks that are scored exactly, at least
NAME_CANDIDATES = 20
POSTINGS = 8_000  # how many index entries the candidates' terms may have together, beyond the rarest
FEW_CHUNKS = 1_000  # a term in fewer is never too common
DOCUMENT_HITS = 3  # of one document, before others get their turn
NEAR_DUPLICATE = 0.8  # of two chunks' terms in common
K1, B = 1.2, 0.75  # BM25, as FTS5 has them
SUBSTRING_CANDIDATES = 200

_PHRASE = re.compile(r'["“”]([^"“”]{2,200})["“”]')
_WITH_DIGIT = re.compile(r"[^\W_]*\d[^\W_]*(?:[-_./][^\W_]+)*")


@dataclass(slots=True)
class Hit:
    """A chunk with its score and what earned it."""

    chunk: StoredChunk
    score: float
    terms: dict[str, float] = field(default_factory=dict)  # matched term -> its part of the score
    legs: list[str] = field(default_factory=list)  # words, name, substring


@dataclass(slots=True)
class Found:
    """The answer of one knowledge base: hits, best first, and how they were found."""

    hits: list[Hit]
    mode: str  # the mode really used
    why: str
    searched: int  # chunks
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Query:
    """A query taken apart. `weights`: term -> idf; `phrases` and `parts` are matched as substrings."""

    text: str
    weights: dict[str, float]
    counts: dict[str, int]
    phrases: list[str]
    parts: list[str]

    @property
    def most(self) -> float:
        """The highest BM25 that any text could reach: every term's frequency saturated."""
        return (K1 + 1) * sum(self.weights.values())


def search(store: Store, query: str, *, top_k: int = 5, mode: str = "auto", filters: Filters | None = None) -> Found:
    """Search one knowledge base by keywords. `mode`: auto | hybrid | bm25 | vector; without vectors all mean bm25."""
    wanted = filters or Filters()
    with store.read():
        total, term_total = store.totals()
        parsed = _parse(store, query, total)
        why = "no embedding model is configured" if mode in ("hybrid", "vector") else "keywords are what this index has"
        found = Found([], "bm25", why, total)
        if len(query) > MAX_QUERY_CHARS:
            found.notes.append(f"the query was cut to its first {MAX_QUERY_CHARS:,} characters")
        if mode in ("hybrid", "vector"):
            found.notes.append("there are no vectors in this knowledge base: these are keyword results")
        if not parsed.weights and not parsed.phrases:
            found.notes.append("the query holds no word to search for")
            return found
        legs = _candidates(store, parsed, wanted, total)
        chunks = store.fetch_chunks(list(legs), wanted)
    average = term_total / total if total else 1.0
    hits = [hit for chunk in chunks if (hit := _score(chunk, parsed, average, legs[chunk.rowid])).score > 0]
    hits.sort(key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.position))
    found.hits = _spread(hits, top_k)
    return found


# --- the query ---


def _parse(store: Store, query: str, total: int) -> _Query:
    """Take a query apart; keep its rarest terms if there are too many."""
    text = scrub(query)[:MAX_QUERY_CHARS]
    phrases = [phrase for match in _PHRASE.finditer(text) if len(phrase := " ".join(match.group(1).split())) >= 3]
    terms = list(dict.fromkeys(words(text)))
    counts = store.term_counts(terms[: 4 * MAX_TERMS])
    kept = sorted(counts, key=lambda term: counts[term])[:MAX_TERMS]
    weights = {term: _idf(counts[term], total) for term in terms if term in set(kept)}
    parts = [part for part in _WITH_DIGIT.findall(text) if len(part) >= 3 and _is_unseen(part, counts)]
    return _Query(text, weights, counts, phrases, parts)


def _is_unseen(part: str, counts: dict[str, int]) -> bool:
    return any(not counts.get(term) for term in words(part))


def _idf(count: int, total: int) -> float:
    """Weigh a term that `count` of `total` chunks hold: BM25's idf, never below a trace that still tells terms apart.

    The trace is a twentieth of Lucene's always positive idf: with that in full, common words cost .008 nDCG@10.
    """
    odds = (total - count + 0.5) / (count + 0.5)
    return max(math.log(odds), math.log1p(odds) / 20)


# --- candidates ---


def _candidates(store: Store, query: _Query, filters: Filters, total: int) -> dict[int, list[str]]:
    """Return chunk number -> the legs that found it."""
    legs: dict[int, list[str]] = {}
    terms = _choosers(query)
    for row, _ in store.keyword_candidates(terms, filters, CANDIDATES):
        legs.setdefault(row, []).append("words")
    for row in store.name_candidates(terms, filters, NAME_CANDIDATES):
        legs.setdefault(row, []).append("name")
    single = [term for term in query.weights if len(term) == 1 and has_cjk(term)]
    if single and len(single) == len(query.weights):  # one syllable alone: it may be anywhere in a word
        for term in single:
            for row, _ in store.keyword_candidates(store.terms_containing(term, 200), filters, CANDIDATES):
                legs.setdefault(row, []).append("substring")
    substrings = query.phrases + query.parts
    if not legs and not substrings and len(query.text.strip()) >= 3:
        substrings = [query.text.strip(), *(word for word in query.text.split() if len(word) >= 3)]
    for text in dict.fromkeys(substrings[:8]):
        for row, _ in store.substring_candidates(text, filters, SUBSTRING_CANDIDATES):
            legs.setdefault(row, []).append("substring")
        query.parts += [] if text in query.phrases or text in query.parts else [text]
    return legs


def _choosers(query: _Query) -> list[str]:
    """Return the terms that choose candidates: from the rarest on, while they have few entries together."""
    rare_first = sorted((term for term in query.weights if query.counts[term]), key=lambda term: query.counts[term])
    chosen: list[str] = []
    entries = 0
    for term in rare_first:
        entries += query.counts[term]
        if chosen and query.counts[term] > FEW_CHUNKS and entries > POSTINGS:
            break
        chosen.append(term)
    return chosen or list(query.weights)


# --- scoring ---


def _score(chunk: StoredChunk, query: _Query, average: float, legs: list[str]) -> Hit:
    """Score one chunk exactly: BM25 over its text, headings and file name, as a part of the most it could be."""
    body = indexed_text(chunk.headings, chunk.text)
    terms = words(body)
    named = set(name_words(chunk.path).split())
    norm = K1 * (1 - B + B * len(terms) / max(average, 1.0))
    parts: dict[str, float] = {}
    for term, weight in query.weights.items():
        frequency = terms.count(term) + (term in named)
        if not frequency and len(term) == 1 and "substring" in legs and has_cjk(term):
            frequency = body.count(term)
        if frequency:
            parts[term] = weight * frequency * (K1 + 1) / (frequency + norm)
    most = query.most + _add_substrings(parts, body, query)
    return Hit(chunk, min(sum(parts.values()) / most, 1.0) if most else 0.0, parts, list(dict.fromkeys(legs)))


def _add_substrings(parts: dict[str, float], body: str, query: _Query) -> float:
    """Count phrases and parts of words that stand in the text as they are; return the most that they could add."""
    folded = body.casefold()
    most = 0.0
    for text in dict.fromkeys(query.phrases + query.parts):
        weight = sum(query.weights.get(term, 0.0) for term in set(words(text))) or 1.0
        most += weight * (K1 + 1)
        if text.casefold() in folded:
            parts[f'"{text}"'] = weight * (K1 + 1)
    return most


def _spread(hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Take the best, but let neither near-duplicates nor a fourth chunk of one document crowd out the rest."""
    first: list[Hit] = []
    later: list[Hit] = []
    seen: dict[int, list[set[str]]] = {}
    for hit in hits:
        if len(first) >= top_k:
            break
        terms = set(words(hit.chunk.text))
        others = seen.setdefault(hit.chunk.document, [])
        if len(others) >= DOCUMENT_HITS or any(_overlap(terms, other) >= NEAR_DUPLICATE for other in others):
            later.append(hit)
        else:
            others.append(terms)
            first.append(hit)
    return sorted((first + later)[:top_k], key=lambda hit: -hit.score)


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def merge(found: Iterable[tuple[str, Found]], top_k: int) -> list[tuple[str, Hit]]:
    """Merge the hits of several knowledge bases (kb_id, answer) by score."""
    pairs = [(kb_id, hit) for kb_id, answer in found for hit in answer.hits]
    return sorted(pairs, key=lambda pair: -pair[1].score)[:top_k]
