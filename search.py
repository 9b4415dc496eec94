"""Find the chunks that answer a query.

    query --> terms  --> candidates by the store's counts --> exact BM25  --> sum --> results
          --> vector --> candidates by cosine             --> exact cosine -->

The words leg ranks by BM25 over English stems and CJK bigrams. Terms too common to be worth a scan don't choose
candidates but do count when these are scored. The substring leg finds what words can't see: a quoted phrase, or part of
an identifier. The vector leg finds what says the same in other words. A score lies between 0 and 1: BM25 divided by the
most that any text could reach for this query, plus what the cosine stands out by. A query whose words are mostly absent
so loses its lexical vote by itself. A query is data: whatever is in it, nothing raises. numpy is imported with the
first vector. This file changes nothing on disk.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .chunks import has_cjk, is_cjk, words
from .config import Config, Embedding, SeogaError, key_variable, scrub
from .store import Filters, Generation, Store, StoredChunk, indexed_text, name_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .providers import Embedder, Reranker

MAX_QUERY_CHARS = 4_000
MAX_TERMS = 48
MAX_TOP_K = 50
CANDIDATES = 60  # chunks that are scored exactly, at least
NEAREST = 200  # chunks that meaning proposes: in a folder in two languages the first ones are in the query's own
NAME_CANDIDATES = 20
POSTINGS = 8_000  # how many index entries the candidates' terms may have together, beyond the rarest
FEW_CHUNKS = 1_000  # a term in fewer is never too common
DOCUMENT_HITS = 3  # of one document, before others get their turn
NEAR_DUPLICATE = 0.8  # of two chunks' terms in common
FUNCTION_WEIGHT = 0.5  # .9161 -> .9236 nDCG@10 on English passages, nothing lost elsewhere
FUNCTION_WORDS = """a about an and are as at be been but by can could did do does for from had has have he her his how
    i if in into is it its may me might my no not of on or our she should so such than that the their them then there
    these they this those to us was we were what when where which while who whom whose why will with would you your"""
K1, B = 1.2, 0.75  # BM25, as FTS5 has them
MEANING_WEIGHT = (
    0.06  # of a standard deviation of cosines, beside a lexical score from 0 to 1: chosen by bench/quality.py
)
SLOW_SECONDS = 2.0  # that a query's embedding took to fail, so that it is not tried for the next REST_SECONDS
REST_SECONDS = 10.0
FOUND_WEIGHT = 0.01  # of both legs' own values, for a hit that would have no score
CHANCE, CHANCE_RANK = 0.5, 20  # of the 20th best lexical score, half is what words share by chance
RRF_K = 60
RERANKED = 30  # hits that a reranker judges, at least
SAMPLE = 2_000  # vectors that a query's usual cosine is told from
FEW_SAMPLED = 10  # passages of one script, too few to tell from what is usual among them
CODE_SCAN = (
    250_000  # vectors from which on sign bits choose what is compared exactly; below, all are, in 40 ms at 100,000
)
RESCORED = 5_000  # chosen by sign bits
SUBSTRING_CANDIDATES = 200

_PHRASE = re.compile(r'["“”]([^"“”]{2,200})["“”]')
_WITH_DIGIT = re.compile(r"[^\W_]*\d[^\W_]*(?:[-_./][^\W_]+)*")


@dataclass(slots=True)
class Hit:
    """A chunk with its score and what earned it."""

    chunk: StoredChunk
    score: float
    terms: dict[str, float] = field(default_factory=dict)  # matched term -> its part of the score
    legs: list[str] = field(default_factory=list)  # words, name, substring, meaning
    cosine: float | None = None


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


def search(
    store: Store,
    query: str,
    *,
    top_k: int = 5,
    mode: str = "auto",
    filters: Filters | None = None,
    threshold: float = 0.3,
    fusion: str = "sum",
    vectors: Vectors | None = None,
) -> Found:
    """Search one knowledge base. `mode`: auto | hybrid | bm25 | vector; auto is hybrid where there are vectors.

    `vectors` are those of the generation that serves, with what embeds a query for them; without them, or when that
    fails, the words answer and a note says why. `threshold` is the least cosine of a hit that only meaning found.
    """
    wanted = filters or Filters()
    found = Found([], "bm25", "asked for", 0)
    if len(query) > MAX_QUERY_CHARS:
        found.notes.append(f"the query was cut to its first {MAX_QUERY_CHARS:,} characters")
    nearest = _meaning(vectors, scrub(query)[:MAX_QUERY_CHARS], mode, found)  # may take seconds: not inside a snapshot
    with store.read():
        total, term_total = store.totals()
        found.searched = total
        if nearest and vectors and all(one.number != vectors.generation for one in store.generations()):
            nearest, found.mode, found.why = None, "bm25", "another model took over while the query was embedded"
            found.notes.append(f"these are keyword results, because {found.why}: search again")
        parsed = _parse(store, query, total)
        if not parsed.weights and not parsed.phrases and nearest is None:
            found.notes.append("the query holds no word to search for")
            return found
        legs = {} if found.mode == "vector" else _candidates(store, parsed, wanted, total)
        cosines = nearest.of(store, wanted, list(legs), threshold) if nearest else {}
        for row in cosines:
            legs.setdefault(row, []).append("meaning")
        chunks = store.fetch_chunks(list(legs), wanted)
    average = term_total / total if total else 1.0
    hits = [_score(chunk, parsed, average, legs[chunk.rowid]) for chunk in chunks]
    if found.mode == "vector":
        for hit in hits:
            hit.score, hit.terms = 0.0, {}
    if nearest:
        (_fuse_by_rank if fusion == "rrf" else _fuse)(hits, cosines, nearest)
    hits = sorted(
        (hit for hit in hits if hit.score > 0), key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.position)
    )
    found.hits = _spread(hits, top_k)
    return found


def similar(
    store: Store,
    like: Sequence[StoredChunk],
    *,
    top_k: int = 5,
    filters: Filters | None = None,
    vectors: Vectors | None = None,
) -> Found:
    """Find the documents closest to some chunks of one document, each by its best chunk; that document is left out.

    By meaning where there are vectors (the score is the cosine), else by the terms most characteristic of the chunks.
    """
    wanted, own = filters or Filters(), {chunk.document for chunk in like}
    with store.read():
        total, term_total = store.totals()
        found = Found([], "bm25", "there are no vectors in this knowledge base", total)
        hits = _near(store, like, wanted, vectors) if vectors and len(vectors.set) else None
        if hits is None:
            query = _characteristic(store, like, total)
            rows = [row for row, _ in store.keyword_candidates(_choosers(query), wanted, 4 * CANDIDATES)]
            average = term_total / total if total else 1.0
            hits = [_score(chunk, query, average, ["words"]) for chunk in store.fetch_chunks(rows, wanted)]
        else:
            found.mode, found.why = "vector", "closeness in meaning"
    best: dict[int, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.position)):
        if hit.chunk.document not in own and hit.score > 0:
            best.setdefault(hit.chunk.document, hit)
    found.hits = list(best.values())[:top_k]
    return found


def _near(store: Store, like: Sequence[StoredChunk], filters: Filters, vectors: Vectors) -> list[Hit] | None:
    """Return the chunks nearest to the middle of some chunks' vectors; None if these have none."""
    import numpy as np

    numbers = store.vectors_of_chunks(vectors.generation, [chunk.rowid for chunk in like])
    middle = vectors.set.rows(list(numbers.values())).sum(axis=0, dtype=np.float32)  # (d,)
    length = float(np.linalg.norm(middle))
    if not numbers or length == 0:
        return None
    allowed = store.vectors_within(vectors.generation, filters) if filters.prefixes or filters.types else None
    near = dict(vectors.set.nearest(middle / np.float32(length), 4 * CANDIDATES + len(like), allowed))
    chunks = store.chunks_of_vectors(vectors.generation, list(near), filters)
    cosine = {row: min(max(near[number], 0.0), 1.0) for row, number in chunks.items()}
    return [
        Hit(chunk, cosine[chunk.rowid], {}, ["meaning"], cosine[chunk.rowid])
        for chunk in store.fetch_chunks(list(chunks))
    ]


def _characteristic(store: Store, like: Sequence[StoredChunk], total: int) -> _Query:
    """Make a query of the terms that are frequent in some chunks and rare elsewhere."""
    frequency = Counter(term for chunk in like for term in words(indexed_text(chunk.headings, chunk.text)))
    counts = store.term_counts(term for term, _ in frequency.most_common(10 * MAX_TERMS))
    telling = sorted(counts, key=lambda term: -frequency[term] * _weight(term, counts[term], total))[: MAX_TERMS // 2]
    return _Query("", {term: _weight(term, counts[term], total) for term in telling}, counts, [], [])


def rerank(found: Found, query: str, reranker: Reranker, top_k: int) -> None:
    """Have a model judge the hits anew, and keep the best; where that fails the order stays, with a note."""
    try:
        scores = reranker.rerank(query[:MAX_QUERY_CHARS], [hit.chunk.text for hit in found.hits])
    except SeogaError as error:
        found.notes.append(f"the results are not reranked: {error}")
    else:
        plain = all(0 <= score <= 1 for score in scores)
        for hit, score in zip(found.hits, scores, strict=True):
            hit.score = score if plain else 1 / (1 + math.exp(-min(max(score, -60.0), 60.0)))
        found.hits.sort(key=lambda hit: -hit.score)
    del found.hits[top_k:]


# --- meaning ---


def _meaning(vectors: Vectors | None, text: str, mode: str, found: Found) -> _Nearest | None:
    """Embed the query if the mode wants it and it can be; say in `found` which mode that makes, and why."""
    if mode == "bm25" or not text.strip():
        return None
    if vectors is None or not len(vectors.set):
        found.why = "there are no vectors in this knowledge base"
        if mode != "auto":
            found.notes.append(f"{found.why}: these are keyword results")
        return None
    try:
        query = vectors.embed(text)
        if len(query) != vectors.set.size:
            raise SeogaError(f"the model gives vectors of {len(query)} numbers, those stored have {vectors.set.size}")
    except SeogaError as error:
        found.why = "the query could not be embedded"
        found.notes.append(f"these are keyword results, because the query could not be embedded: {error}")
        return None
    found.mode, found.why = (
        ("vector", "asked for") if mode == "vector" else ("hybrid", "words and meaning are both there")
    )
    return _Nearest(vectors, query)


@dataclass(slots=True)
class Vectors:
    """The vectors of the generation that serves, and what embeds a query for them: text -> (d,) float32."""

    generation: int
    set: VectorSet
    embed: Callable[[str], NDArray[np.float32]]


class Meaning:
    """Keeps what searching by meaning needs from one search to the next. Safe to share between threads."""

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        """`keys` holds keys that were given to this process, by the names of the environment's variables."""
        self._keys = {} if keys is None else keys
        self.refused: set[str] = set()  # variables whose key a provider wanted, or did not accept
        self._turn = threading.Lock()
        self._sets: WeakKeyDictionary[Store, tuple[tuple[int, int], int, VectorSet]] = WeakKeyDictionary()
        self._embedders: dict[Embedding, Embedder] = {}
        self._resting: dict[Embedding, tuple[float, SeogaError]] = {}  # until when (monotonic), and why

    def of(self, config: Config, store: Store) -> Vectors | None:
        """Return the vectors of a knowledge base as they are committed, or None if it is not searched by meaning."""
        generation = store.serving() if config.embedding.model else None
        if generation is None:
            return None
        with self._turn:
            version, wanted = store.version(), (generation.number, generation.serial)
            known, seen, vectors = self._sets.get(store, ((0, 0), 0, None))
            if vectors is None or (known, seen) != (wanted, version):
                vectors = VectorSet.load(store, generation.number, vectors if known == wanted else None)
                self._sets[store] = (wanted, version, vectors)
        return Vectors(generation.number, vectors, lambda text: self._embed(config, generation, text))

    def _embed(self, config: Config, generation: Generation, text: str) -> NDArray[np.float32]:
        """Embed a query with what made the generation, whatever model config.json names by now: (d,) float32."""
        from .providers import SEARCHING, Outage, Refused, make_embedder

        settings, now = Embedding(**generation.settings), config.embedding
        if (now.provider, now.model, now.dimension) == (settings.provider, settings.model, settings.dimension):
            settings = now  # an address or a key that was put right counts at once
        with self._turn:
            if (embedder := self._embedders.get(settings)) is None:
                made = make_embedder(settings, policy=SEARCHING, key=self._key)
                assert made is not None
                embedder = self._embedders[settings] = made
        if (made_by := embedder.fingerprint()) != generation.fingerprint:
            raise SeogaError(
                f"the model is another than the one that made the vectors ({made_by}, not {generation.fingerprint})"
            )
        began, (until, why) = time.monotonic(), self._resting.get(settings, (0.0, SeogaError()))
        if began < until:
            raise why
        try:
            vector: NDArray[np.float32] = embedder.embed([text], "query")[0]
        except Refused:
            self.refused.add(key_variable(settings.api_key_preset or settings.provider))
            raise
        except Outage as error:
            if time.monotonic() - began > SLOW_SECONDS:
                self._resting[settings] = (time.monotonic() + REST_SECONDS, error.with_traceback(None))
            raise
        return vector

    def _key(self, variable: str) -> str | None:
        return self._keys.get(variable) or os.environ.get(variable)

    def close(self) -> None:
        with self._turn:
            self._resting.clear()
            while self._embedders:
                self._embedders.popitem()[1].close()


class _Nearest:
    """One query among the vectors. `usual`: is the passage CJK -> mean and deviation of the query's cosines."""

    def __init__(self, vectors: Vectors, query: NDArray[np.float32]) -> None:
        self._vectors, self._query = vectors, query
        self._usual = vectors.set.background(query)

    def of(self, store: Store, filters: Filters, others: list[int], threshold: float) -> dict[int, float]:
        """Return chunk -> cosine: of the nearest chunks, and of `others` that have a vector."""
        generation, vectors = self._vectors.generation, self._vectors.set
        filtered = filters.prefixes or filters.types
        allowed = store.vectors_within(generation, filters) if filtered else None
        chunks: dict[int, int] = {}
        near: dict[int, float] = {}
        limit = NEAREST
        while len(chunks) < NEAREST:  # vectors of texts that are gone may be among the nearest
            found = vectors.nearest(self._query, limit, allowed)
            near = {number: cosine for number, cosine in found if cosine >= threshold}
            chunks = store.chunks_of_vectors(generation, list(near), filters)
            if len(near) < limit:
                break
            limit *= 4
        known = store.vectors_of_chunks(generation, [chunk for chunk in others if chunk not in chunks])
        cosines = near | vectors.cosines(self._query, list(known.values()))
        return {chunk: cosines[number] for chunk, number in (known | chunks).items() if number in cosines}

    def standard(self, cosine: float, text: str) -> float:
        """Return how many standard deviations a cosine lies above what is usual among passages of its script.

        Models put passages in the query's own language nearer, whatever they say. Told apart by script, a folder in
        two languages gives .49 nDCG@10 instead of .16 where the answer is in the other one, and loses nothing else.
        """
        mean, spread = self._usual[is_cjk(text)]
        return (cosine - mean) / max(spread, 1e-3)


def _fuse(hits: list[Hit], cosines: dict[int, float], nearest: _Nearest) -> None:
    """Add what the words stand out by to what the cosine does: a leg to which all look alike has little to say."""
    ranked = sorted((hit.score for hit in hits), reverse=True)
    usual = CHANCE * ranked[CHANCE_RANK] if len(ranked) > CHANCE_RANK else 0.0
    for hit in hits:
        hit.score = max(hit.score - usual, FOUND_WEIGHT * hit.score)
        if (cosine := cosines.get(hit.chunk.rowid)) is not None:
            hit.cosine = cosine
            least = FOUND_WEIGHT * (hit.score + max(cosine, 0.0))  # what a leg found comes last, but it comes
            hit.score = min(max(hit.score + MEANING_WEIGHT * nearest.standard(cosine, hit.chunk.text), least), 1.0)


def _fuse_by_rank(hits: list[Hit], cosines: dict[int, float], nearest: _Nearest) -> None:
    """Reciprocal rank fusion (Cormack et al. 2009): 1 / (60 + rank) of each leg, scaled so that first in both is 1."""
    by_words = sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)
    by_meaning = sorted((hit for hit in hits if hit.chunk.rowid in cosines), key=lambda hit: -cosines[hit.chunk.rowid])
    for hit in hits:
        hit.score, hit.cosine = 0.0, cosines.get(hit.chunk.rowid)
    for ranking in (by_words, by_meaning):
        for rank, hit in enumerate(ranking, 1):
            hit.score += (RRF_K + 1) / (RRF_K + rank) / 2


# --- the query ---


def _parse(store: Store, query: str, total: int) -> _Query:
    """Take a query apart; keep its rarest terms if there are too many."""
    text = scrub(query)[:MAX_QUERY_CHARS]
    phrases = [phrase for match in _PHRASE.finditer(text) if len(phrase := " ".join(match.group(1).split())) >= 3]
    terms = list(dict.fromkeys(words(text)))
    counts = store.term_counts(terms[: 4 * MAX_TERMS])
    kept = sorted(counts, key=lambda term: counts[term])[:MAX_TERMS]
    weights = {term: _weight(term, counts[term], total) for term in terms if term in set(kept)}
    parts = [part for part in _WITH_DIGIT.findall(text) if len(part) >= 3 and _is_unseen(part, counts)]
    return _Query(text, weights, counts, phrases, parts)


def _is_unseen(part: str, counts: dict[str, int]) -> bool:
    return any(not counts.get(term) for term in words(part))


def _weight(term: str, count: int, total: int) -> float:
    """Weigh a term by its rarity, English function words at half: among Korean documents they are rare, and no clue."""
    return _idf(count, total) * (FUNCTION_WEIGHT if term in _function_words() else 1.0)


@cache
def _function_words() -> frozenset[str]:
    return frozenset(words(FUNCTION_WORDS))


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
    body = indexed_text(chunk.headings, chunk.text, chunk.context)
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


# --- vectors: one generation in memory ---


class VectorSet:
    """The vectors of one generation, searched exactly while they are few, by sign bits and then exactly when many.

    Vectors come in parts: the first may be mapped from a file, later ones are what was committed since.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._sample: NDArray[np.float32]  # (about SAMPLE, d)
        self._cjk: NDArray[np.bool_]  # (about SAMPLE,)

    def __len__(self) -> int:
        return sum(len(part.ids) for part in self._parts)

    @property
    def size(self) -> int:
        """How many numbers a vector here has."""
        return self._parts[0].matrix.shape[1] if self._parts else 0

    @property
    def last(self) -> int:
        """The highest number of a vector here; numbers only grow."""
        return int(self._parts[-1].ids[-1]) if self._parts else 0

    @classmethod
    def load(cls, store: Store, generation: int, before: VectorSet | None = None) -> VectorSet:
        """Return the vectors of a generation: `before`, brought up to date, or all of them."""
        import numpy as np

        found = cls()
        count, size, numbers, vectors = store.mapped_vectors(generation)
        if before is not None:
            found._parts = list(before._parts)
        elif count:
            with suppress(OSError, ValueError):  # files that are gone or cut short: all comes from the database then
                mapped = np.memmap(vectors, dtype="<f4", mode="r", shape=(count, size))
                ids = np.fromfile(numbers, dtype="<i8", count=count)
                if len(ids) == count:
                    found.add(ids, mapped)
        new = store.vectors_since(generation, found.last)
        if new:
            matrix = np.frombuffer(b"".join(vector for _, vector in new), dtype="<f4").reshape(len(new), -1)
            found.add(np.array([number for number, _ in new], dtype=np.int64), matrix)
        if len(found):
            found.sample(store, generation)
        return found

    def add(self, ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> None:
        """Add vectors above all that are here: ids (n,) ascending, matrix (n, d) with rows of unit length."""
        import numpy as np

        if len(ids):
            self._parts.append(_Part.of(ids, matrix))
        while len(self._parts) > 2 and len(self._parts[-2].ids) < 4 * len(self._parts[-1].ids):
            last, before = self._parts.pop(), self._parts.pop()
            both = np.concatenate([before.matrix, last.matrix])  # (n, d) float32
            self._parts.append(_Part.of(np.concatenate([before.ids, last.ids]), both))

    def sample(self, store: Store, generation: int) -> None:
        """Choose the vectors that a query's usual cosines are told from, by the script of what they stand for."""
        import numpy as np

        step = max(1, len(self) // SAMPLE)
        numbers = [number for part in self._parts for number in part.ids[::step].tolist()]
        texts = store.texts_of_vectors(generation, numbers)
        self._cjk = np.array([is_cjk(texts.get(number, "")) for number in numbers], dtype=np.bool_)
        self._sample = np.concatenate([part.matrix[::step] for part in self._parts])

    def background(self, query: NDArray[np.float32]) -> dict[bool, tuple[float, float]]:
        """Return mean and standard deviation of the cosines of `query` (d,) with passages in CJK script, and others."""
        cosines = self._sample @ query  # (about SAMPLE,) float32
        usual = {}
        for script in (True, False):
            own = cosines[self._cjk == script]
            own = own if len(own) >= FEW_SAMPLED else cosines
            usual[script] = float(own.mean()), float(own.std())
        return usual

    def nearest(
        self, query: NDArray[np.float32], limit: int, allowed: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine) of the `limit` vectors nearest to `query` (d,), best first."""
        import numpy as np

        found: list[tuple[int, float]] = []
        within = None if allowed is None else np.array(allowed, dtype=np.int64)
        for part in self._parts:
            rows = None if within is None else np.flatnonzero(np.isin(part.ids, within))
            found += part.nearest(query, limit, rows)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def rows(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors asked for, those that are here, in no order: (m, d)."""
        import numpy as np

        wanted = np.unique(np.array(numbers, dtype=np.int64))
        return np.concatenate([part.matrix[np.isin(part.ids, wanted)] for part in self._parts])

    def cosines(self, query: NDArray[np.float32], numbers: Sequence[int]) -> dict[int, float]:
        """Return number -> cosine of the vectors asked for, those that are here."""
        import numpy as np

        wanted = np.unique(np.array(numbers, dtype=np.int64))
        result: dict[int, float] = {}
        for part in self._parts:
            here = wanted[np.isin(wanted, part.ids)]
            scores = part.matrix[np.searchsorted(part.ids, here)] @ query
            result |= dict(zip(here.tolist(), scores.tolist(), strict=True))
        return result


@dataclass(slots=True)
class _Part:
    """Some vectors: ids (n,) int64 ascending, matrix (n, d) float32, their centre (d,), codes (d/64, n) uint64."""

    ids: NDArray[np.int64]
    matrix: NDArray[np.float32]
    centre: NDArray[np.float32]
    codes: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> _Part:
        import numpy as np

        part = cls(ids, matrix, matrix[:: max(1, len(ids) // SAMPLE)].mean(axis=0, dtype=np.float32))
        if len(ids) > CODE_SCAN:
            pieces = [part._codes(matrix[at : at + 8192]) for at in range(0, len(ids), 8192)]
            part.codes = np.concatenate(pieces, axis=1)
        return part

    def _codes(self, rows: NDArray[np.float32]) -> NDArray[np.uint64]:
        """Return the signs of rows (m, d) about the centre, packed: (ceil(d / 64), m) uint64."""
        import numpy as np

        bits = np.packbits(rows > self.centre, axis=1)
        return np.ascontiguousarray(np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64).T)

    def nearest(self, query: NDArray[np.float32], limit: int, rows: NDArray[np.intp] | None) -> list[tuple[int, float]]:
        import numpy as np

        if self.codes is not None and (rows is None or len(rows) > CODE_SCAN):
            rows = self._likely(query, max(RESCORED, limit), rows)
        scores = (self.matrix if rows is None else self.matrix[rows]) @ query  # (m,) float32
        best = np.argpartition(-scores, limit)[:limit] if len(scores) > limit else np.arange(len(scores))
        ids = self.ids[best if rows is None else rows[best]]
        return list(zip(ids.tolist(), scores[best].tolist(), strict=True))

    def _likely(self, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Return the rows whose signs differ least from the query's."""
        import numpy as np

        codes = self.codes if rows is None or self.codes is None else self.codes[:, rows]
        assert codes is not None
        differing = np.zeros(codes.shape[1], dtype=np.uint16)  # (m,)
        for word, own in zip(codes, self._codes(query[None, :])[:, 0], strict=True):
            differing += np.bitwise_count(word ^ own)
        chosen = np.argpartition(differing, count)[:count] if len(differing) > count else np.arange(len(differing))
        return np.sort(chosen if rows is None else rows[chosen])
