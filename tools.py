"""Answer what can be asked of the knowledge bases under a base folder, and what can be asked to be done with them.

`Tools` answers with plain records (dataclasses): the structured results of the MCP tools, which the command line prints
with `--json`. Nothing here writes to an index; what takes long goes into the queue.
"""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .config import (
    CONFIG_NAME,
    DEFAULT_LOCAL_MODEL,
    Config,
    NotFoundError,
    Rerank,
    SeogaError,
    display_path,
    expand,
    find_kb,
    new_config,
    readable_configs,
    save_config,
    scrub,
)
from .queue import Queue, is_alive, start_orchestrator
from .search import RERANKED, Found, Hit, Meaning, merge, rerank, search, similar
from .store import SCHEMA_VERSION, FileRecord, Filters, Store, StoredChunk, join_chunks, read_indexer, writer_lock

if TYPE_CHECKING:
    from .providers import Reranker
    from .watch import Watcher

MAX_ANSWER_TOKENS = 18_000  # clients cut at 20,000 to 25,000
MAX_LISTED = 200  # files in a list; the counts are whole
STOPPING_SECONDS = 5.0  # that an indexer may take to obey when its knowledge base is removed
LINE_CHARS = 2_000  # longer lines are read in parts

Mode = Literal["auto", "hybrid", "bm25", "vector"]


# --- the structured results ---


@dataclass
class KnowledgeBase:
    id: str
    name: str
    folders: list[str]
    total_files: int
    total_chunks: int
    is_indexing: bool
    schema_version: int
    is_schema_stale: bool


@dataclass
class KnowledgeBases:
    knowledge_bases: list[KnowledgeBase]
    total: int
    notes: list[str] = field(default_factory=list)


@dataclass
class Explanation:
    """Why a hit stands where it does. `terms`: matched term -> its part of the score before scaling."""

    legs: list[str]
    terms: dict[str, float]
    cosine: float | None = None  # of the passage's meaning and the query's


@dataclass
class Passage:
    """A chunk of a document, with what cites it: `source_path`, then `location`."""

    chunk_id: str
    kb_id: str
    source_path: str
    location: str
    chunk_index: int
    total_chunks: int
    content: str
    has_previous: bool
    has_next: bool


@dataclass
class SearchHit(Passage):
    score: float  # 0 to 1
    explanation: Explanation | None = None


@dataclass
class SearchResults:
    results: list[SearchHit]
    search_mode: str
    search_mode_reason: str
    total_chunks_searched: int
    notes: list[str] = field(default_factory=list)


@dataclass
class DocumentChunk:
    chunk: Passage
    before: list[Passage]
    after: list[Passage]
    title: str
    metadata: dict[str, str]
    notes: list[str] = field(default_factory=list)


@dataclass
class FileText:
    """Lines `start_line` to `end_line` of a document's extracted text; `next_line` is where to read on, if anywhere.

    `content` keeps each line's end, so that pages joined are the text; a part of a very long line has none.
    """

    path: str
    kb_id: str
    title: str
    content: str
    start_line: int
    end_line: int
    total_lines: int
    next_line: int | None
    notes: list[str] = field(default_factory=list)


@dataclass
class Problem:
    path: str
    state: str
    reason: str


@dataclass
class Queued:
    """A request to index that waits or runs. `position`: 1 for what is next, 0 for what runs."""

    state: str  # running | waiting | deferred
    position: int
    scheduled_at: str
    partial_mode: str
    force: bool
    last_error: str


@dataclass
class Request:
    """What became of a request to index a knowledge base."""

    kb_id: str
    status: str  # queued | already_queued | upgraded | already_running | queued_after_current | not_found
    queue_position: int


@dataclass
class Requests:
    """`status` and `queue_position` are those of the first request; there is one for each knowledge base."""

    status: str
    queue_position: int
    requests: list[Request]
    notes: list[str] = field(default_factory=list)


@dataclass
class Cancelled:
    kb_id: str
    status: str  # cancelled | stopping | nothing_to_cancel
    cancelled: int  # requests that waited
    notes: list[str] = field(default_factory=list)


@dataclass
class FolderChange:
    """A knowledge base after a folder was added or removed, and its place in the queue."""

    kb_id: str
    name: str
    folders: list[str]
    status: str  # as in Request; `removed` if it was the last folder, and the knowledge base is gone with it
    queue_position: int
    notes: list[str] = field(default_factory=list)


@dataclass
class IndexInfo:
    kb_id: str
    name: str
    status: str  # ready | indexing | not_indexed | damaged
    folders: list[str]
    total_files: int
    total_chunks: int
    files_by_state: dict[str, int]
    skipped: dict[str, int]  # reason -> files and folders passed over
    problems: list[Problem]
    progress: dict[str, Any] | None
    last_run: dict[str, Any] | None
    schema_version: int
    database_bytes: int
    notes: list[str] = field(default_factory=list)
    models: dict[str, Any] = field(default_factory=dict)  # what is configured, done, owed; what the last use cost
    queue: list[Queued] = field(default_factory=list)


@dataclass
class IndexInfos:
    knowledge_bases: list[IndexInfo]
    notes: list[str] = field(default_factory=list)


@dataclass
class Changes:
    """What differs between the source folders and the index. Lists hold at most 200 paths; `counts` are whole."""

    kb_id: str
    counts: dict[str, int]
    added: list[str]
    modified: list[str]
    deleted: list[str]
    failed: list[str]
    pending: list[str]
    stale: list[str] = field(default_factory=list)  # prompt, model or schema that differ from what was used
    notes: list[str] = field(default_factory=list)


# --- the tools ---


class Tools:
    """The knowledge bases under one base folder, opened to read when asked for. Safe to share between threads."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._stores: dict[str, tuple[tuple[int, int], Store]] = {}
        self.keys: dict[str, str] = {}  # variable -> a key that the person gave to this process; nowhere else
        self._meaning = Meaning(self.keys)
        self._rerankers: dict[Rerank, Reranker] = {}
        self._turn = threading.Lock()
        self.queue = Queue(base)

    def configs(self, kb_id: str | None) -> tuple[list[Config], list[str]]:
        """Return the knowledge base meant, or all of them, with the messages of those that can't be read."""
        if kb_id:
            return [find_kb(self.base, kb_id)], []
        configs, faults = readable_configs(self.base)
        with self._turn:  # a store that nobody uses any more closes itself
            for id in self._stores.keys() - {config.id for config in configs}:
                del self._stores[id]
        return configs, list(map(homeless, faults))

    def store(self, config: Config) -> Store:
        """Return the open index of a knowledge base; a database that was replaced meanwhile is opened anew."""
        try:
            status = os.stat(config.database)
        except OSError:
            status = None
        identity = (status.st_dev, status.st_ino) if status else None
        with self._turn:
            known = self._stores.get(config.id)
            if known and known[0] == identity:
                return known[1]
            self._stores.pop(config.id, None)  # not closed here: another thread may be reading from it
            store = Store.open_reader(config.database)
            if identity:
                self._stores[config.id] = (identity, store)
            return store

    def close(self) -> None:
        with self._turn:
            while self._stores:
                self._stores.popitem()[1][1].close()
        self._meaning.close()

    def list_knowledge_bases(self) -> KnowledgeBases:
        configs, notes = self.configs(None)
        bases = [self._knowledge_base(config, notes) for config in configs]
        if not bases:
            notes.append("There are no knowledge bases yet. `seoga add FOLDER` in a terminal makes one.")
        return KnowledgeBases(bases, len(bases), notes)

    def _knowledge_base(self, config: Config, notes: list[str]) -> KnowledgeBase:
        files = chunks = version = 0
        try:
            store = self.store(config)
            files, chunks, version = sum(store.file_counts().values()), store.totals()[0], store.schema_version()
        except SeogaError as error:
            notes.append(homeless(f"{config.id}: {error}"))
        indexing = read_indexer(config.folder) is not None
        folders = [display_path(source) for source in config.sources]
        stale = 0 < version < SCHEMA_VERSION
        return KnowledgeBase(config.id, config.name, folders, files, chunks, indexing, version, stale)

    def search_documents(
        self,
        query: str,
        kb_id: str | None = None,
        top_k: int = 5,
        threshold: float = 0.3,
        search_mode: Mode = "auto",
        path_prefix: str | None = None,
        file_type: str | None = None,
        explain: bool = False,
    ) -> SearchResults:
        configs, notes = self.configs(kb_id)
        answers: list[tuple[str, Found]] = []
        files = 0  # that pass the filters
        for config in configs:
            try:
                filters = _filters(config, path_prefix, file_type)
                store = self.store(config)
                vectors = self._meaning.of(config, store) if search_mode != "bm25" else None
                judged = bool(config.rerank.model) and search_mode != "bm25"
                count = max(top_k, RERANKED) if judged else top_k
                found = search(
                    store, query, top_k=count, mode=search_mode, filters=filters, threshold=threshold,
                    fusion=config.fusion, vectors=vectors,
                )  # fmt: skip
                if judged and found.hits:
                    rerank(found, query, self._reranker(config.rerank), top_k)
                answers.append((config.id, found))
                notes += _completeness(config, store)
                files += store.count_files(filters) if path_prefix or file_type else 0
            except SeogaError as error:
                notes.append(homeless(str(error)))
        if answers and not files and (path_prefix or file_type):
            notes.append("no indexed file passes path_prefix and file_type; leave them out, or correct them")
        if not configs:
            notes.append("There are no knowledge bases yet. `seoga add FOLDER` in a terminal makes one.")
        hits = [_search_hit(id, hit, explain) for id, hit in merge(answers, top_k)]
        notes = list(dict.fromkeys(note for _, found in answers for note in found.notes)) + notes
        mode, why = (answers[0][1].mode, answers[0][1].why) if answers else ("none", "nothing could be searched")
        return SearchResults(hits, mode, why, sum(found.searched for _, found in answers), notes)

    def _reranker(self, settings: Rerank) -> "Reranker":
        from .providers import make_reranker

        with self._turn:
            if settings not in self._rerankers:
                made = make_reranker(settings)
                assert made is not None
                self._rerankers[settings] = made
            return self._rerankers[settings]

    def find_similar(self, like: str, top_k: int = 5, kb_id: str | None = None) -> SearchResults:
        """Find documents like a document (its path) or like a passage (its chunk_id)."""
        for config, store in self._opened(kb_id):
            with store.read():
                chunks = [chunk for chunk in store.chunk_by_id(like) if chunk.chunk_id == like]
                record = None if chunks else self._find(config, store, like)
                chunks = store.chunks_of_file(record.path) if record else chunks
            if not chunks:
                continue
            found = similar(store, chunks, top_k=top_k, vectors=self._meaning.of(config, store))
            hits = [_search_hit(config.id, hit, explain=False) for hit in found.hits]
            return SearchResults(
                hits, found.mode, found.why, found.searched, found.notes + _completeness(config, store)
            )
        raise NotFoundError(
            f"{display_path(like)[:200]!r} is neither an indexed document nor a chunk_id. Use a source_path or a "
            "chunk_id from search_documents."
        )

    def get_document_chunk(
        self, chunk_id: str, kb_id: str | None = None, before: int = 0, after: int = 0
    ) -> DocumentChunk:
        for config, store in self._opened(kb_id):
            chunks = store.chunk_by_id(chunk_id, before, after)
            index = int(chunk_id.rpartition("_")[2]) if chunks else 0
            passages = [_passage(config.id, chunk) for chunk in chunks]
            wanted = [passage for passage in passages if passage.chunk_index == index]
            if wanted:
                earlier = [passage for passage in passages if passage.chunk_index < index]
                later = [passage for passage in passages if passage.chunk_index > index]
                title, metadata = store.title_and_metadata(chunks[0].document)
                return DocumentChunk(wanted[0], earlier, later, title, metadata)
        raise NotFoundError(
            f"there is no chunk {scrub(chunk_id)[:60]!r}. Ids come from search_documents and change when a file is "
            "moved or edited: search again."
        )

    def read_file(
        self, path: str, start_line: int = 1, end_line: int | None = None, kb_id: str | None = None
    ) -> FileText:
        for config, store in self._opened(kb_id):
            with store.read():
                record = self._find(config, store, path)
                if record is None:
                    continue
                lines = _lines(join_chunks(store.chunks_of_file(record.path)))
                title = store.title_and_metadata(record.document)[0] if record.document is not None else ""
            return _page(config, record, title, lines, start_line, end_line)
        raise NotFoundError(
            f"{display_path(path)[:200]!r} is not an indexed document. Use a source_path from search_documents; files "
            "outside the knowledge bases' folders can't be read."
        )

    def documents(self, cursor: str = "") -> tuple[list[tuple[str, str]], str]:
        """List (kb_id, path) of the documents that can be read, and the cursor of the next page, "" at the end."""
        wanted, _, offset = cursor.partition("/")
        if cursor and not (offset.isdecimal() and len(offset) < 10):
            raise SeogaError("this cursor is none that the list gave: begin again without one")
        page: list[tuple[str, str]] = []
        for config, store in self._opened(None):
            if config.id < wanted:
                continue
            start = int(offset) if config.id == wanted else 0
            paths = sorted(path for path, record in store.files().items() if record.document is not None)
            room = MAX_LISTED - len(page)
            page += [(config.id, path) for path in paths[start : start + room]]
            if len(paths) - start > room:
                return page, f"{config.id}/{start + room}"
        return page, ""

    def _find(self, config: Config, store: Store, path: str) -> FileRecord | None:
        """Find a file by its path, or its path within a source."""
        path = os.path.expanduser(path)
        candidates = [path] if os.path.isabs(path) else [os.path.join(source, path) for source in config.sources]
        found = (store.find_file(os.path.normpath(candidate)) for candidate in candidates)
        return next((record for record in found if record is not None), None)

    def _opened(self, kb_id: str | None) -> Iterator[tuple[Config, Store]]:
        configs, _ = self.configs(kb_id)
        for config in configs:
            try:
                yield config, self.store(config)
            except SeogaError:
                if kb_id:
                    raise

    def get_index_info(self, kb_id: str | None = None) -> IndexInfos:
        configs, notes = self.configs(kb_id)
        return IndexInfos([self.index_info(config) for config in configs], notes)

    def progress(self, kb_id: str | None) -> dict[str, Any]:
        """Return what is known of a run that is going on, or about to; empty when all is done."""
        ids = [config.id for config in self.configs(kb_id)[0]]
        running = next(filter(None, (read_indexer(self.base / id) for id in ids)), None)
        waits = any(entry["kb_id"] in ids and not entry.get("deferred") for entry in self.queue.entries())
        return running or ({"stage": "waiting in the queue"} if waits and is_alive(self.base) else {})

    def index_info(self, config: Config) -> IndexInfo:
        folders = [display_path(source) for source in config.sources]
        progress = read_indexer(config.folder)
        info = IndexInfo(
            config.id, config.name, "indexing" if progress else "ready", folders, 0, 0, {}, {}, [], progress,
            None, 0, 0, list(map(homeless, config.warnings)),
        )  # fmt: skip
        try:
            store = self.store(config)
            with store.read():
                info.files_by_state = store.file_counts()
                info.total_files, info.total_chunks = sum(info.files_by_state.values()), store.totals()[0]
                info.skipped = store.skipped_counts()
                info.problems = [Problem(*row) for row in store.problems(MAX_LISTED)]
                info.last_run, info.schema_version = store.last_run(), store.schema_version()
                info.models = _models(config, store)
            info.database_bytes = config.database.stat().st_size
        except NotFoundError as error:
            info.status = "indexing" if progress else "not_indexed"
            info.notes.append(homeless(str(error)))
        except SeogaError as error:
            info.status = "damaged"
            info.notes.append(homeless(str(error)))
        info.queue = self._queued(config.id)
        return info

    def _queued(self, kb_id: str) -> list[Queued]:
        found, position = [], 0
        for entry in self.queue.entries():
            running = bool(entry.get("started_at")) and is_alive(self.base)
            position += not running
            if entry["kb_id"] == kb_id:
                state = "running" if running else "deferred" if entry.get("deferred") else "waiting"
                found.append(
                    Queued(
                        state,
                        0 if running else position,
                        str(entry.get("scheduled_at", "")),
                        entry.get("partial_mode") or "",
                        bool(entry.get("force")),
                        homeless(str(entry.get("last_error") or "")),
                    )
                )
        return found

    def check_changes(self, kb_id: str) -> Changes:
        from .index import compare

        config = find_kb(self.base, kb_id)
        records: dict[str, FileRecord] = {}
        notes: list[str] = []
        stale: list[str] = []
        try:
            records = self.store(config).files()
            stale = _stale(config, self.store(config))
        except NotFoundError as error:
            notes.append(homeless(str(error)))
        difference = compare(config, records)
        lists = {name: sorted(map(display_path, paths)) for name, paths in difference.paths.items()}
        counts = {name: len(paths) for name, paths in lists.items()}
        shown = {name: paths[:MAX_LISTED] for name, paths in lists.items()}
        return Changes(config.id, counts, **shown, stale=stale, notes=notes + difference.notes)

    def wanted_key(self) -> str:
        """Return the variable of a key that a provider refused or missed since the last call, or ""."""
        return self._meaning.refused.pop() if self._meaning.refused else ""

    # --- what changes something ---

    def add_folder(
        self, path: str, include_globs: Sequence[str] = (), exclude_globs: Sequence[str] = (), kb_id: str | None = None
    ) -> FolderChange:
        folder = _folder(path)
        config, is_new = register(self.base, [folder], kb_id or "", kb_id or "", include_globs, exclude_globs)
        notes = list(map(homeless, config.warnings))
        for other in self.configs(None)[0] if is_new else ():
            if other.id != config.id and any(_holds(source, folder) for source in other.sources):
                notes.append(
                    f"{other.id} holds this folder too: searches of all knowledge bases find its documents twice"
                )
        status, place = self._enqueue(config.id, notes, is_reindex=not is_new)
        return FolderChange(config.id, config.name, list(map(display_path, config.sources)), status, place, notes)

    def remove_folder(self, path: str, kb_id: str | None = None) -> FolderChange:
        wanted = display_path(os.path.abspath(expand(path)))
        configs = self.configs(kb_id)[0]
        found = [config for config in configs if wanted in map(display_path, config.sources)]
        if len(found) != 1:
            known = (
                ", ".join(sorted({display_path(source) for config in configs for source in config.sources})) or "none"
            )
            several = f"is in {', '.join(config.id for config in found)}; name one as kb_id"
            raise NotFoundError(
                f"{wanted!r} {several if found else f'is no folder of a knowledge base. Known: {known}'}."
            )
        config = found[0]
        kept = [
            raw for raw, full in zip(config.source_paths, config.sources, strict=True) if display_path(full) != wanted
        ]
        if not kept:
            return FolderChange(config.id, config.name, [], "removed", 0, self._forget(config))
        config = save_config(config, sourcePaths=kept)
        notes = ["its documents are found until that run is over; no source file is touched"]
        status, place = self._enqueue(config.id, notes)
        return FolderChange(config.id, config.name, list(map(display_path, config.sources)), status, place, notes)

    def _forget(self, config: Config) -> list[str]:
        """Remove a knowledge base, whatever works on it; return what is left to say."""
        self.queue.cancel(config.id)
        deadline = time.monotonic() + STOPPING_SECONDS
        while read_indexer(config.folder) is not None and time.monotonic() < deadline:
            config.cancel.touch()
            time.sleep(0.1)
        try:
            forget(config)
        except SeogaError:  # an indexer that does not stop: the knowledge base is gone all the same
            (config.folder / CONFIG_NAME).unlink(missing_ok=True)
            return ["its indexer still runs; `seoga prune-orphans` removes what is left of the index"]
        return ["it was the last folder, so the knowledge base is gone with it; no source file is touched"]

    def start_reindex(
        self, kb_id: str | None = None, partial_mode: str | None = None, force: bool = False, deferred: bool = False
    ) -> Requests:
        notes: list[str] = []
        try:
            configs, notes = self.configs(kb_id)
        except NotFoundError as error:
            return Requests("not_found", 0, [Request(scrub(kb_id or ""), "not_found", 0)], [homeless(str(error))])
        ask = {"partial": partial_mode or "", "force": force, "deferred": deferred}
        requests = [Request(config.id, *self._enqueue(config.id, notes, **ask)) for config in configs]
        if not requests:
            return Requests("not_found", 0, [], [*notes, "there are no knowledge bases yet: add_folder makes one"])
        return Requests(requests[0].status, requests[0].queue_position, requests, notes)

    def _enqueue(self, kb_id: str, notes: list[str], **ask: Any) -> tuple[str, int]:
        """Put a request in the queue, and see to it that somebody works through it."""
        status, place = self.queue.enqueue(kb_id, **ask)
        try:
            if not ask.get("deferred"):
                start_orchestrator(self.base)
        except OSError as error:
            notes.append(f"it waits in the queue, but no process starts to index it: {error.strerror}")
        return status, place

    def watch(self) -> "Watcher":
        """Have what changes in the source folders indexed, from now on until the process ends."""
        from .watch import Watcher

        watcher = Watcher(self.base, lambda kb_id: self._enqueue(kb_id, []))
        watcher.start()
        return watcher

    def cancel_reindex(self, kb_id: str) -> Cancelled:
        config = find_kb(self.base, kb_id)
        waited, running = self.queue.cancel(config.id)
        if running or read_indexer(config.folder) is not None:
            config.cancel.touch()
            return Cancelled(config.id, "stopping", waited, ["what was read so far is kept and can be searched"])
        return Cancelled(config.id, "cancelled" if waited else "nothing_to_cancel", waited)


def register(
    base: Path, folders: Sequence[str], name: str, kb_id: str, include: Sequence[str], exclude: Sequence[str],
    *, embedding: bool = True,
) -> tuple[Config, bool]:  # fmt: skip
    """Make a knowledge base of folders (absolute), or add those that it lacks to the one that is meant.

    That is the one with this id, else with this name, else, if neither is given, one that holds all the folders.
    Returns it, and whether it is new.
    """
    known = readable_configs(base)[0]
    found = [config for config in known if kb_id and config.id == kb_id]
    found = found or [config for config in known if name and config.name == scrub(name) and kb_id in ("", name)]
    if not (kb_id or name):
        found = [config for config in known if set(folders) <= set(config.sources)]
    if not found:
        settings: dict[str, Any] = {"includeGlobs": list(include)} if include else {}
        settings |= {"excludeGlobs": list(exclude)} if exclude else {}
        settings |= {"embedding": {"provider": "local", "model": DEFAULT_LOCAL_MODEL}} if embedding else {}
        return new_config(base, list(folders), name=name if name != kb_id else "", kb_id=kb_id, **settings), True
    config = found[0]
    new = [folder for folder in folders if folder not in config.sources]
    changes: dict[str, Any] = {"sourcePaths": [*config.source_paths, *new]} if new else {}
    for key, before, globs in (
        ("includeGlobs", config.include_globs, include),
        ("excludeGlobs", config.exclude_globs, exclude),
    ):
        if globs:
            changes[key] = list(dict.fromkeys([*before, *globs]))
    return (save_config(config, **changes) if changes else config), False


def forget(config: Config) -> None:
    """Remove a knowledge base and its index; no document is touched. Raises LockedError while it is being indexed."""
    with writer_lock(config.folder):
        (config.folder / CONFIG_NAME).unlink()  # first: that alone makes it vanish from running servers
    shutil.rmtree(config.folder)


def _folder(given: str) -> str:
    path = expand(given)
    if not os.path.isabs(path):
        raise SeogaError(f"{scrub(given)[:200]!r} is not an absolute path. Write it from the root, or from ~.")
    path = os.path.normpath(path)
    if not os.path.isdir(path):
        what = "is a file: name the folder it lies in" if os.path.isfile(path) else "is no folder here"
        raise NotFoundError(f"{display_path(path)!r} {what}. Check the spelling, or whether its drive is connected.")
    return path


def _holds(source: str, folder: str) -> bool:
    return folder == source or folder.startswith(source.rstrip(os.sep) + os.sep)


def _filters(config: Config, path_prefix: str | None, wanted_type: str | None) -> Filters:
    """Make filters of what a caller wrote: a prefix may be absolute or within a source; types may be several."""
    prefixes: list[str] = []
    if path_prefix:
        wanted = os.path.expanduser(path_prefix)
        end = os.sep if wanted.endswith(("/", os.sep)) else ""
        roots = [""] if os.path.isabs(wanted) else config.sources
        prefixes = [display_path(os.path.normpath(os.path.join(root, wanted)) + end) for root in roots]
    types = [part.strip().lstrip(".").casefold() for part in (wanted_type or "").split(",")]
    return Filters(tuple(prefixes), tuple(part for part in types if part))


def _models(config: Config, store: Store) -> dict[str, Any]:
    """Tell what each configured model has done and owes, and what its last use cost."""
    models: dict[str, Any] = {}
    if config.embedding.model:
        owed = store.owed_count()
        generations = {one.state: one.fingerprint for one in store.generations()}
        about = {"provider": config.embedding.provider, "model": config.embedding.model}
        models["embedding"] = {**about, "chunks_owed": owed, **generations}
    if config.contextualizer.model:
        from .enrich import context_key

        missing = store.count_without_context(context_key(config))
        about = {"provider": config.contextualizer.provider, "model": config.contextualizer.model}
        models["contextualizer"] = {**about, "chunks_without_current_context": missing}
    if usage := store.last_usage():
        models["last_usage"] = usage
    return models


def _stale(config: Config, store: Store) -> list[str]:
    """Say what of the index was made with another schema, prompt or model than those of now."""
    models, stale = _models(config, store), []
    if store.schema_version() < SCHEMA_VERSION:
        stale.append("schema: the next `seoga exec` migrates it")
    if missing := models.get("contextualizer", {}).get("chunks_without_current_context"):
        stale.append(f"contexts: {missing:,} chunks have none of the present prompt and model")
    if owed := models.get("embedding", {}).get("chunks_owed"):
        stale.append(f"vectors: {owed:,} chunks have none of the present model")
    if config.embedding.model and "building" in models["embedding"]:
        stale.append(f"vectors: {models['embedding'].get('serving')} still serves")
    return stale


def _completeness(config: Config, store: Store) -> list[str]:
    """Say what may be missing from the results."""
    notes = []
    progress = read_indexer(config.folder)
    if progress:
        done, total = progress.get("done"), progress.get("total")
        known = isinstance(done, int) and isinstance(total, int)
        within = f", {progress['within_file']}" if progress.get("within_file") else ""
        far = (
            f" ({progress.get('stage')}, {done:,} of {total:,} {progress.get('unit', 'files')}{within})"
            if known
            else ""
        )
        notes.append(f"{config.id} is being indexed{far}: results may be incomplete")
    states = store.file_counts()
    if owed := states.get("PartiallyDeferred"):
        notes.append(f"{config.id}: {owed:,} files are found by their words only; their vectors are still owed")
    missing = {state: count for state, count in states.items() if state in ("Failed", "NeedsAction")}
    if missing:
        parts = ", ".join(f"{count:,} {state}" for state, count in sorted(missing.items()))
        notes.append(f"{config.id}: not all files are searchable ({parts}); get_index_info says which and why")
    if not states:
        notes.append(f"{config.id} holds no documents yet")
    return notes


def _passage(kb_id: str, chunk: StoredChunk) -> Passage:
    return Passage(
        chunk.chunk_id, kb_id, chunk.path, chunk.location, chunk.position, chunk.total, chunk.text,
        chunk.position > 0, chunk.position + 1 < chunk.total,
    )  # fmt: skip


def _search_hit(kb_id: str, hit: Hit, explain: bool) -> SearchHit:
    parts = {term: round(part, 3) for term, part in hit.terms.items()}
    cosine = None if hit.cosine is None else round(hit.cosine, 4)
    explanation = Explanation(hit.legs, parts, cosine) if explain else None
    return SearchHit(**vars(_passage(kb_id, hit.chunk)), score=round(hit.score, 4), explanation=explanation)


def _lines(text: str) -> list[str]:
    """Split into lines that keep their ends, the longest of them into parts; joined, they are the text."""
    lines: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        lines += [line[at : at + LINE_CHARS] for at in range(0, len(line), LINE_CHARS)]
    return lines


def _page(config: Config, record: FileRecord, title: str, lines: list[str], start: int, until: int | None) -> FileText:
    """Cut the lines asked for to what one answer may hold."""
    if start > max(len(lines), 1):
        raise NotFoundError(f"the document has {len(lines)} lines; start_line {start} is beyond its end")
    if until is not None and until < start:
        raise SeogaError(f"end_line {until} is before start_line {start}")
    last = min(until or len(lines), len(lines))
    room, end = MAX_ANSWER_TOKENS, start - 1
    while end < last and (cost := json_tokens(lines[end])) <= room:
        room -= cost
        end += 1
    content = "".join(lines[start - 1 : end])
    notes = [record.reason] if record.reason else []
    if end < last:
        notes.append(f"cut at line {end} to keep the answer short; read on from start_line {end + 1}")
    following = end + 1 if end < len(lines) else None
    path = display_path(record.path)
    return FileText(path, config.id, title, content, start, end, len(lines), following, notes)


def tokens(text: str) -> int:
    """Estimate tokens from above: four ASCII characters, or one other, to a token."""
    other = 0 if text.isascii() else sum(1 for character in text if character > "\x7f")
    return (len(text) - other + 3) // 4 + other


def json_tokens(value: Any) -> int:
    """Estimate the tokens of a value in the structured form, where quotes and line ends take two characters."""
    return tokens(json.dumps(value, ensure_ascii=False))


def homeless(text: str) -> str:
    """Write the home folder as `~`: nobody needs to be told whose it is."""
    home = os.path.expanduser("~").rstrip("/\\")
    return re.sub(rf"(?<![\w./\\-]){re.escape(home)}(?![\w.-])", "~", text) if home else text
