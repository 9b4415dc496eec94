"""Keep one knowledge base's index in a SQLite file, `rag.db`.

    files --> documents --> chunks --> words, trigrams (FTS5, by rowid), vectors
    a path     its content   pieces     what finds them

A document belongs to a content (bytes, suffix, recipe), not to a path: a renamed, moved, copied or touched file points
at the document that is there. One process writes (`writer_lock`, `Store.write`); readers neither write nor block, and
see each commit at once. Nothing above this file writes SQL, so that another engine can take its place: it would have to
keep records, count terms and compare vectors. This file decides nothing about ranking and does not read documents.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from .chunks import SEPARATOR, Chunk, count_words, word_string
from .config import NotFoundError, SeogaError, display_path, scrub

KEYWORD_TABLES = ("words", "trigrams", "names")
LOCK_NAME = "indexer.lock"
INDEXER_NAME = "indexer.json"  # who holds the lock and how far it is
BUSY_SECONDS = 10
LOG_BYTES = 24 * 1024 * 1024  # the write-ahead log is emptied when it has 24 MB
JOURNAL_BYTES = 16 * 1024 * 1024  # the write-ahead log is cut back to 16 MB after a checkpoint
FTS_HASH_BYTES = 64 * 1024 * 1024  # FTS5 gathers a transaction's postings in memory up to this

# States of a file. Those in SETTLED are left alone until the file changes.
READY, DEGRADED, DEFERRED = "Ready", "Degraded", "PartiallyDeferred"
FAILED, NEEDS_ACTION = "Failed", "NeedsAction"
RECOGNITION = "recognition"  # the kind of what is kept of OCR and speech recognition
RECOGNIZED_SECONDS = 30 * 24 * 3600.0  # that it is kept for a file that is gone
MAX_TRIES = 3  # of embedding a text that is refused
IDLE_VECTORS = 1000  # of texts that are gone, kept at least, and one for each four chunks
MAPPED_AT_ONCE = 4096  # vectors
# Stages of a chunk: searchable by keyword only, or by everything that is configured.
PENDING_EMBEDDING, INDEXED, UNEMBEDDABLE = "PendingEmbedding", "Indexed", "Unembeddable"


class StoreError(SeogaError):
    """The index can't be opened, read or written."""


class DamagedError(StoreError):
    """The index's file is not what was written: made anew, it can be used again."""


class LockedError(SeogaError):
    """Another process is indexing this knowledge base."""


class Stat(NamedTuple):
    """What tells a changed file from an unchanged one without reading it. Times in nanoseconds.

    `changed` is ctime: it also moves when a tool restores a file's size and modification time.
    """

    size: int
    modified: int
    changed: int


class FileRecord(NamedTuple):
    """A file as it was last indexed. `path` is exact; lone surrogates in it stand for bytes outside UTF-8."""

    path: str
    stat: Stat
    state: str
    reason: str = ""
    document: int | None = None
    key: str = ""  # content key of its document, or of the content that failed
    device: int = 0  # of the file system it was on: tells an unplugged drive from a deleted file


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A content that was read: `key` names its bytes and how they were read."""

    key: str
    size: int
    term_count: int
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as search and tools see it, with the file it is cited by."""

    rowid: int
    chunk_id: str
    path: str  # for display
    position: int
    total: int
    text: str
    location: str
    headings: str
    document: int
    start: int = 0
    end: int = 0
    title: str = ""
    context: str = ""  # what a model said of it; indexed and embedded with the text, not shown


@dataclass(frozen=True, slots=True)
class Generation:
    """One vector space: what made it (`fingerprint`), what embeds a query for it (`settings`, config.json's keys)."""

    number: int
    fingerprint: str
    settings: dict[str, Any]
    state: str  # building | serving
    serial: int  # of its mapped files; another one says that vectors have gone


class Owed(NamedTuple):
    """A chunk that waits for its vector: the text to embed, and the key to keep the vector by."""

    chunk: int
    text: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search is limited to. Prefixes of the displayed path (any of them); file types without the dot."""

    prefixes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def sql(self) -> tuple[str, list[str]]:
        """Return a condition on the table `files`, beginning with `and`, with its parameters."""
        parts, values = "", []
        if self.prefixes:
            one = "(files.shown >= ? and files.shown < ?)"
            parts += f" and ({' or '.join([one] * len(self.prefixes))})"
            values += [bound for prefix in self.prefixes for bound in (prefix, prefix + "\U0010ffff")]
        if self.types:
            parts += f" and files.type in ({', '.join('?' * len(self.types))})"
            values += self.types
        return parts, values


def path_hash(path: str) -> str:
    """Return the 16 hex digits that begin the chunk ids of a file."""
    return sha256(os.fsencode(path)).hexdigest()[:16]


# --- schema: numbered, each applied once, never edited after a release ---


def m001_first_schema(db: sqlite3.Connection) -> None:
    for statement in (
        """create table documents (
            id integer primary key, key text not null unique, size integer not null,
            title text not null, metadata text not null, partial text not null,
            chunk_count integer not null, term_count integer not null)""",
        """create table files (
            id integer primary key, path blob not null unique, hash text not null unique, shown text not null,
            type text not null, size integer not null, modified integer not null, changed integer not null,
            state text not null, reason text not null, document integer references documents (id),
            key text not null, device integer not null, indexed_at real not null)""",
        "create index files_by_document on files (document)",
        "create index files_by_name on files (shown)",
        """create table chunks (
            id integer primary key, document integer not null references documents (id), position integer not null,
            first integer not null, last integer not null, location text not null, headings text not null,
            context text not null, context_key text not null, stage text not null, vector_key blob not null,
            found_key blob not null, text text not null, unique (document, position))""",
        # What a chunk is embedded as; and what it was embedded as when it last was, by which it is found until then.
        "create index chunks_by_vector on chunks (vector_key)",
        "create index chunks_by_found on chunks (found_key)",
        "create index chunks_owed on chunks (stage) where stage != 'Indexed'",
        # Contentless: what was indexed can be made again from the chunk, so it is not stored twice. The index counts
        # terms made by chunks.word_string; trigrams find substrings (detail=none: a fifth of the size).
        "create virtual table words using fts5 (body, content='', tokenize='ascii')",
        "create virtual table trigrams using fts5 (body, content='', detail='none', tokenize='trigram')",
        "create virtual table names using fts5 (body, content='', tokenize='ascii')",
        "create virtual table word_counts using fts5vocab (words, row)",
        "create table totals (chunks integer not null, terms integer not null)",
        "insert into totals values (0, 0)",
        "create table skipped (path blob primary key, shown text not null, reason text not null) without rowid",
        """create table runs (
            id integer primary key, started real not null, seconds real, outcome text not null,
            counters text not null)""",
        # A vector belongs to a text, not to a chunk: chunks that say the same share it, and an old text finds its own
        # again. `settings` is what embeds a query for the generation; `mapped` counts its vectors in the mapped files.
        # Numbers are never used again (autoincrement): readers keep vectors by them.
        """create table generations (
            id integer primary key autoincrement, fingerprint text not null, settings text not null,
            state text not null, created real not null, mapped integer not null, serial integer not null)""",
        """create table vectors (
            id integer primary key autoincrement, generation integer not null references generations (id),
            key blob not null, vector blob not null, unique (generation, key))""",
        # Texts that a model refused, how often, and what it said. Like vectors they belong to a text and a model.
        """create table refusals (
            generation integer not null references generations (id), key blob not null, tries integer not null,
            reason text not null, primary key (generation, key)) without rowid""",
        # Results worth keeping beside documents (OCR pages, contexts), by a hash of all that made them.
        """create table reuse (
            kind text not null, key text not null, value blob not null, used real not null,
            primary key (kind, key)) without rowid""",
    ):
        db.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (m001_first_schema,)
SCHEMA_VERSION = len(MIGRATIONS)


# --- one writer ---


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the knowledge base's writer lock, which the operating system frees when its holder dies.

    Raises LockedError naming the holder.
    """
    import filelock

    lock = filelock.FileLock(folder / LOCK_NAME, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        holder = read_indexer(folder)
        who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
        raise LockedError(
            f"{who} is indexing {folder.name}. Wait for it, or stop it with the file {folder / 'cancel'}."
        ) from None
    except OSError as error:
        raise StoreError(f"{folder} can't be written to: {error.strerror}. Check permissions and free space.") from None
    try:
        write_indexer(folder, {})
        yield
    finally:
        (folder / INDEXER_NAME).unlink(missing_ok=True)
        lock.release()


def write_indexer(folder: Path, progress: dict[str, Any]) -> None:
    """Say beside the lock who holds it and how far it is. Not fsynced: worthless after a crash."""
    info = {"pid": os.getpid(), "host": socket.gethostname(), "started": process_start(os.getpid()), **progress}
    temporary = folder / f".{INDEXER_NAME}"
    with suppress(OSError):  # a full disk, or on Windows a reader that has it open
        temporary.write_text(json.dumps(info, ensure_ascii=True), encoding="utf-8")
        os.replace(temporary, folder / INDEXER_NAME)


def read_indexer(folder: Path) -> dict[str, Any] | None:
    """Return what the living indexer of this folder says, or None. A pid that another program got doesn't count."""
    try:
        info = json.loads((folder / INDEXER_NAME).read_text(encoding="utf-8"))
        same_host = info["host"] == socket.gethostname()
        alive = not same_host or process_start(int(info["pid"])) == info["started"]
        return dict(info) if alive else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def process_start(pid: int) -> float | None:
    """Return when a process began (seconds since the epoch), or None if there is none; with the pid, its identity."""
    import psutil

    try:
        return round(float(psutil.Process(pid).create_time()), 1)
    except psutil.Error:
        return None


# --- the store ---

_SELECT_FILES = "select path, size, modified, changed, state, reason, document, key, device from files"


# The state of a file whose content was read. A chunk that is owed nothing and has no vector was given up.
_STAGE = "exists (select 1 from chunks where chunks.document = files.document and chunks.stage = "
_STATE = f"""
    case when {_STAGE} 'PendingEmbedding') then '{DEFERRED}' when {_STAGE} 'Unembeddable') then '{DEGRADED}'
        when exists (select 1 from documents where documents.id = files.document and documents.partial != '[]')
        then '{DEGRADED}' else '{READY}' end
    """
# Conditions on chunks. Each `?` is a generation, the last of _REFUSED the most tries.
_LACKS = "not exists (select 1 from vectors where generation = ? and key = chunks.vector_key)"
_REFUSED = "exists (select 1 from refusals where generation = ? and key = chunks.vector_key and tries >= ?)"
_SERVES = "(select state from generations where id = ?) = 'serving'"


def _file_record(row: tuple[Any, ...]) -> FileRecord:
    path, size, modified, changed, *rest = row
    return FileRecord(os.fsdecode(path), Stat(size, modified, changed), *rest)


class Store:
    """An open index. Safe to share between threads: operations take turns."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._turn = threading.RLock()
        self.path = path

    @classmethod
    def open_writer(cls, path: Path) -> Store:
        """Open to write, making or migrating the file. The caller holds `writer_lock`."""
        with _translated(path):
            _check_version(path)
            db = _connect(f"{path.absolute().as_uri()}?mode=rwc")
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")  # a power loss may cost the last commits, never consistency
            db.execute(f"pragma journal_size_limit = {JOURNAL_BYTES}")
            db.execute("pragma foreign_keys = on")
            store = cls(db, path)
            try:
                store._migrate()
            except BaseException:
                store.close()
                raise
            return store

    @classmethod
    def open_reader(cls, path: Path) -> Store:
        """Open to read only. Raises NotFoundError if nothing was indexed yet."""
        with _translated(path):
            if not path.exists() or not _check_version(path):  # none, or the first run is just making it
                raise NotFoundError(
                    f"{path.parent.name} has not been indexed yet. `seoga exec --path {path.parent}` does it."
                )
            return cls(_connect_reader(path), path)

    def close(self) -> None:
        with self._turn:
            self._db.close()

    def __del__(self) -> None:
        self._db.close()

    def _migrate(self) -> None:
        with self.write():
            at = int(self._db.execute("pragma user_version").fetchone()[0])
            for number, migration in enumerate(MIGRATIONS[at:], at + 1):
                migration(self._db)
                self._db.execute(f"pragma user_version = {number}")
        for table in ("words", "trigrams"):
            self._db.execute(f"insert into {table} ({table}, rank) values ('hashsize', ?)", (FTS_HASH_BYTES,))

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction: everything inside is committed together, or nothing if it raises."""
        with self._turn, _translated(self.path):
            self._db.execute("begin immediate")  # a deferred one that reads first fails at once when it is not alone
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    @contextmanager
    def read(self) -> Iterator[None]:
        """One snapshot: all reads inside see the same commit."""
        with self._turn, _translated(self.path):
            if self._db.in_transaction:
                yield
                return
            self._db.execute("begin")
            try:
                yield
            finally:
                self._db.execute("rollback")

    def sync_each_commit(self) -> None:
        """Have each further commit on the disk before it returns: it holds what models were paid for."""
        with self._turn, _translated(self.path):
            self._db.execute("pragma synchronous = full")

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database and to the disk: what is acknowledged survives a power loss."""
        with self._turn, _translated(self.path):
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()

    def trim_log(self) -> bool:
        """Empty the write-ahead log once it has grown; tell whether it is short, which a reader can prevent."""
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or log.stat().st_size < LOG_BYTES:
            return True
        with self._turn, _translated(self.path):
            self._db.execute("pragma busy_timeout = 100")
            try:
                return not self._db.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
            finally:
                self._db.execute(f"pragma busy_timeout = {BUSY_SECONDS * 1000}")

    def version(self) -> int:
        """Return a number that changes with each commit of another process."""
        with self._turn, _translated(self.path):
            return int(self._db.execute("pragma data_version").fetchone()[0])

    def schema_version(self) -> int:
        return int(self._rows("pragma user_version")[0][0])

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._turn, _translated(self.path):
            return self._db.execute(sql, values).fetchall()  # all at once: an open cursor would pin the log

    # --- files ---

    def files(self) -> dict[str, FileRecord]:
        """Return every file by its exact path."""
        return {record.path: record for record in map(_file_record, self._rows(_SELECT_FILES))}

    def put_file(self, record: FileRecord) -> None:
        """Add or replace a file. Its former document goes when no other file has that content."""
        shown, where = display_path(record.path), os.fsencode(record.path)
        before = self._rows("select id, document from files where path = ?", (where,))
        stat, reason = record.stat, scrub(record.reason)
        values = (
            stat.size, stat.modified, stat.changed, record.state, reason,
            record.document, record.key, record.device, time.time(),
        )  # fmt: skip
        # In a transaction, plain statements on one row only: upserts, `returning`, triggers and updates of many rows
        # open a savepoint, at which FTS5 writes out what it has gathered; indexing then takes twice as long.
        with _translated(self.path):
            if before:
                self._db.execute(
                    """
                    update files set size = ?, modified = ?, changed = ?, state = ?, reason = ?, document = ?, key = ?,
                        device = ?, indexed_at = ? where id = ?
                    """,
                    (*values, before[0][0]),
                )
            else:
                cursor = self._db.execute(
                    """
                    insert into files (path, hash, shown, type, size, modified, changed, state, reason, document, key,
                        device, indexed_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                    (where, path_hash(record.path), shown, file_type(shown), *values),
                )
                terms = name_words(shown)
                self._db.execute("insert into names (rowid, body) values (?, ?)", (cursor.lastrowid, terms))
        if before and before[0][1] is not None and before[0][1] != record.document:
            self._drop_if_unused(before[0][1])

    def drop_file(self, path: str) -> None:
        """Forget a file, and its document when no other file has that content."""
        rows = self._rows("select id, shown, document from files where path = ?", (os.fsencode(path),))
        for file, shown, document in rows:
            with _translated(self.path):
                values = (file, name_words(shown))
                self._db.execute("insert into names (names, rowid, body) values ('delete', ?, ?)", values)
                self._db.execute("delete from files where id = ?", (file,))
            if document is not None:
                self._drop_if_unused(document)

    def find_file(self, path: str) -> FileRecord | None:
        """Find a file by its exact or its displayed path."""
        rows = self._rows(f"{_SELECT_FILES} where path = ?", (os.fsencode(path),))
        rows = rows or self._rows(f"{_SELECT_FILES} where shown = ? limit 1", (display_path(path),))
        return _file_record(rows[0]) if rows else None

    def file_counts(self) -> dict[str, int]:
        """Return how many files are in each state."""
        return {str(state): int(n) for state, n in self._rows("select state, count(*) from files group by state")}

    def problems(self, limit: int) -> list[tuple[str, str, str]]:
        """Return (displayed path, state, reason) of files that are not wholly indexed."""
        given_up = """
            select count(*), max(refusals.reason) from chunks left join refusals on refusals.key = chunks.vector_key
            where chunks.document = ? and chunks.stage = 'Unembeddable'
            """
        sql = """
            select shown, state, reason, document from files
            where state in ('Failed', 'NeedsAction', 'Degraded') or reason != '' order by shown limit ?
            """
        found = []
        for path, state, reason, document in self._rows(sql, (limit,)):
            [(count, refusal)] = self._rows(given_up, (document,)) if state == DEGRADED else [(0, "")]
            chunks = f"{count} of its chunks have no vector, and are found by their words only: {refusal}"
            found.append((str(path), str(state), "; ".join(filter(None, (reason, chunks if count else "")))))
        return found

    def count_files(self, filters: Filters) -> int:
        """Count the files that pass the filters."""
        condition, values = filters.sql()
        return int(self._rows(f"select count(*) from files where true {condition}", values)[0][0])

    def put_skipped(self, skipped: dict[str, str]) -> None:
        """Replace the list of files that were passed over: exact path -> reason."""
        rows = self._rows("select path, reason from skipped")
        before = {os.fsdecode(path): str(reason) for path, reason in rows}
        gone = [(os.fsencode(path),) for path in before if path not in skipped]
        new = [
            (os.fsencode(path), display_path(path), scrub(reason))
            for path, reason in skipped.items()
            if before.get(path) != reason
        ]
        with _translated(self.path):
            self._db.executemany("delete from skipped where path = ?", gone)
            self._db.executemany("insert or replace into skipped (path, shown, reason) values (?, ?, ?)", new)

    def skipped(self, limit: int) -> list[tuple[str, str]]:
        return [
            (str(a), str(b))
            for a, b in self._rows("select shown, reason from skipped order by shown limit ?", (limit,))
        ]

    def skipped_counts(self) -> dict[str, int]:
        return {
            str(a): int(n)
            for a, n in self._rows("select reason, count(*) from skipped group by reason order by 2 desc")
        }

    # --- documents and their chunks ---

    def document_keys(self) -> dict[int, list[str]]:
        """Return the content keys of all documents by the number of bytes they were read from."""
        keys: dict[int, list[str]] = {}
        for size, key in self._rows("select size, key from documents"):
            keys.setdefault(int(size), []).append(str(key))
        return keys

    def document_of_key(self, key: str) -> int | None:
        rows = self._rows("select id from documents where key = ?", (key,))
        return int(rows[0][0]) if rows else None

    def title_and_metadata(self, document: int) -> tuple[str, dict[str, str]]:
        rows = self._rows("select title, metadata from documents where id = ?", (document,))
        return (str(rows[0][0]), dict(json.loads(rows[0][1]))) if rows else ("", {})

    def partial_of(self, document: int) -> list[str]:
        """Return what was left out of a document, and why."""
        return list(json.loads(self._rows("select partial from documents where id = ?", (document,))[0][0]))

    def put_document(self, record: DocumentRecord, chunks: Sequence[Chunk], terms: Sequence[str], stage: str) -> int:
        """Add a content, or replace it, with its chunks and their `chunk_words`; return the document's number."""
        count = record.term_count
        values = (record.size, record.title, _json(record.metadata), _json(record.partial), len(chunks), count)
        document = self.document_of_key(record.key)
        with _translated(self.path):
            if document is not None:
                self._drop_chunks(document)
                sql = """
                    update documents set size = ?, title = ?, metadata = ?, partial = ?, chunk_count = ?, term_count = ?
                    where id = ?
                    """
                self._db.execute(sql, (*values, document))
            else:
                sql = """
                    insert into documents (size, title, metadata, partial, chunk_count, term_count, key)
                    values (?, ?, ?, ?, ?, ?, ?)
                    """
                document = int(self._db.execute(sql, (*values, record.key)).lastrowid or 0)
            self._db.execute(
                "update totals set chunks = chunks + ?, terms = terms + ? where rowid = 1", (len(chunks), count)
            )
            first = int(self._db.execute("select coalesce(max(id), 0) + 1 from chunks").fetchone()[0])
            self._db.executemany(
                """
                insert into chunks (id, document, position, first, last, location, headings, context, context_key,
                    stage, vector_key, found_key, text)
                values (?, ?, ?, ?, ?, ?, ?, '', '', ?, ?, ?, ?)
                """,
                [
                    (first + n, document, n, chunk.start, chunk.end, chunk.location, chunk.headings, stage,
                     *2 * (vector_key(indexed_text(chunk.headings, chunk.text)),), chunk.text)
                    for n, chunk in enumerate(chunks)
                ],
            )  # fmt: skip
            numbered = list(enumerate(terms, first))
            self._db.executemany("insert into words (rowid, body) values (?, ?)", numbered)
            bodies = [(first + n, indexed_text(chunk.headings, chunk.text)) for n, chunk in enumerate(chunks)]
            self._db.executemany("insert into trigrams (rowid, body) values (?, ?)", bodies)
        return document

    def _drop_if_unused(self, document: int) -> None:
        if not self._rows("select 1 from files where document = ? limit 1", (document,)):
            self.drop_document(document)

    def drop_document(self, document: int) -> None:
        """Remove a content with its chunks."""
        self._drop_chunks(document)
        with _translated(self.path):
            self._db.execute("delete from documents where id = ?", (document,))

    def _drop_chunks(self, document: int) -> None:
        """Remove a document's chunks, their terms and vectors."""
        rows = self._rows("select id, headings, text, context from chunks where document = ?", (document,))
        bodies = [(id, indexed_text(*parts)) for id, *parts in rows]
        sql = """
            update totals set chunks = chunks - (select chunk_count from documents where id = :document),
                terms = terms - (select term_count from documents where id = :document)
            where rowid = 1
            """
        with _translated(self.path):
            self._db.execute(sql, {"document": document})
            # FTS5 takes a contentless row out only when told what was in it.
            self._db.executemany(
                "insert into words (words, rowid, body) values ('delete', ?, ?)",
                [(id, word_string(body)) for id, body in bodies],
            )
            self._db.executemany("insert into trigrams (trigrams, rowid, body) values ('delete', ?, ?)", bodies)
            self._db.execute("delete from chunks where document = ?", (document,))

    def keywords_are_in_step(self) -> bool:
        """Tell whether each chunk and file has its rows in the keyword indexes (by count, which is cheap)."""
        sql = """
            select (select count(*) from chunks), (select count(*) from words_docsize),
                (select count(*) from trigrams_docsize),
                (select count(*) from files), (select count(*) from names_docsize)
            """
        chunks, words, trigrams, files, names = self._rows(sql)[0]
        return bool(chunks == words == trigrams and files == names)

    def rebuild_keywords(self) -> None:
        """Make the keyword indexes again from the chunks and the files' names."""
        for table in KEYWORD_TABLES:
            self._db.execute(f"insert into {table} ({table}) values ('delete-all')")
        named = [(id, name_words(shown)) for id, shown in self._rows("select id, shown from files")]
        self._db.executemany("insert into names (rowid, body) values (?, ?)", named)
        for low, high in self._id_ranges(1000):
            rows = self._rows("select id, headings, text, context from chunks where id between ? and ?", (low, high))
            bodies = [(id, indexed_text(*parts)) for id, *parts in rows]
            self._db.executemany("insert into trigrams (rowid, body) values (?, ?)", bodies)
            self._db.executemany(
                "insert into words (rowid, body) values (?, ?)", [(i, word_string(b)) for i, b in bodies]
            )

    def _id_ranges(self, step: int) -> Iterable[tuple[int, int]]:
        last = int(self._rows("select coalesce(max(id), 0) from chunks")[0][0])
        return [(low, low + step - 1) for low in range(1, last + 1, step)]

    def check(self) -> list[str]:
        """Return what is wrong with the file and the keyword indexes; nothing if all is well. Slow; writers only."""
        faults = [str(row[0]) for row in self._rows("pragma integrity_check(20)") if row[0] != "ok"]
        faults += [str(row) for row in self._rows("pragma foreign_key_check")]
        for table in KEYWORD_TABLES:
            try:
                self._rows(f"insert into {table} ({table}) values ('integrity-check')")
            except DamagedError:
                faults.append(f"the keyword index {table} is damaged")
        return faults + ([] if self.keywords_are_in_step() else ["keyword indexes out of step with the chunks"])

    # --- searching: candidates are (chunk number, engine's score, higher is better) ---

    def totals(self) -> tuple[int, int]:
        """Return how many chunks and how many terms in them there are."""
        chunks, terms = self._rows("select chunks, terms from totals")[0]
        return int(chunks), int(terms)

    def term_counts(self, terms: Iterable[str]) -> dict[str, int]:
        """Return in how many chunks each term occurs."""
        sql = "select coalesce(max(doc), 0) from word_counts where term = ?"
        return {term: int(self._rows(sql, (term,))[0][0]) for term in terms}

    def terms_containing(self, character: str, limit: int) -> list[str]:
        """Return the commonest indexed terms in which one character occurs."""
        sql = "select term from word_counts where instr(term, ?) order by doc desc limit ?"
        return [str(row[0]) for row in self._rows(sql, (character, limit))]

    def keyword_candidates(self, terms: Sequence[str], filters: Filters, limit: int) -> list[tuple[int, float]]:
        """Return the chunks that hold any of the terms, best BM25 first."""
        return self._match("words", " OR ".join(map(_quoted, terms)), filters, limit)

    def substring_candidates(self, text: str, filters: Filters, limit: int) -> list[tuple[int, float]]:
        """Return chunks that may hold `text` (3 characters or more) as it stands: each holds all its trigrams."""
        grams = dict.fromkeys(text[n : n + 3] for n in range(len(text) - 2))
        return self._match("trigrams", " AND ".join(map(_quoted, grams)), filters, limit)

    def _match(self, table: str, expression: str, filters: Filters, limit: int) -> list[tuple[int, float]]:
        if not expression:
            return []
        condition, values = filters.sql()
        if condition:
            condition = f"""
                and (select document from chunks where id = {table}.rowid)
                in (select document from files where document is not null {condition})
                """
        sql = f"select rowid, -rank from {table} where {table} match ? {condition} order by rank limit ?"
        rows = self._rows(sql, (expression, *values, limit))
        if not rows and not self.keywords_are_in_step():
            raise DamagedError(f"{self.path}: its keyword index is incomplete. {_rebuild(self.path)}")
        return [(int(row), float(score)) for row, score in rows]

    def name_candidates(self, terms: Sequence[str], filters: Filters, limit: int) -> list[int]:
        """Return the first chunk of each document whose file or folder name holds any of the terms, best first."""
        if not terms:
            return []
        condition, values = filters.sql()
        sql = f"""
            select chunks.id from names join files on files.id = names.rowid
            join chunks on chunks.document = files.document and chunks.position = 0
            where names match ? {condition} order by rank limit ?
            """
        return [int(row[0]) for row in self._rows(sql, (" OR ".join(map(_quoted, terms)), *values, limit))]

    def fetch_chunks(self, ids: Sequence[int], filters: Filters | None = None) -> list[StoredChunk]:
        """Return chunks by number, in the order given. A content in several files is cited by the first that passes."""
        condition, values = (filters or Filters()).sql()
        found: dict[int, StoredChunk] = {}
        for low in range(0, len(ids), 500):
            some = ids[low : low + 500]
            marks = ", ".join("?" * len(some))
            for chunk in self._chunks(f"chunks.id in ({marks}) {condition} order by files.shown", (*some, *values)):
                found.setdefault(chunk.rowid, chunk)
        return [found[id] for id in ids if id in found]

    def chunk_by_id(self, chunk_id: str, before: int = 0, after: int = 0) -> list[StoredChunk]:
        """Return a chunk named `{16 hex}_{index}` between its neighbours; an empty list if there is none."""
        hash, _, index = chunk_id.rpartition("_")
        if not index.isascii() or not index.isdigit() or len(index) > 9:
            return []
        position = int(index)
        values = (hash, position - before, position + after)
        return list(self._chunks("files.hash = ? and chunks.position between ? and ? order by chunks.position", values))

    def chunks_of_file(self, path: str) -> list[StoredChunk]:
        """Return all chunks of a file in order; `path` is exact."""
        return list(self._chunks("files.path = ? order by chunks.position", (os.fsencode(path),)))

    def _chunks(self, condition: str, values: Sequence[Any]) -> Iterator[StoredChunk]:
        sql = f"""
            select chunks.id, files.hash, files.shown, chunks.position, documents.chunk_count, chunks.text,
                chunks.location, chunks.headings, chunks.document, chunks.first, chunks.last, documents.title,
                chunks.context
            from chunks join documents on documents.id = chunks.document join files on files.document = documents.id
            where {condition}
            """
        for id, hash, shown, position, *rest in self._rows(sql, values):
            yield StoredChunk(id, f"{hash}_{position}", shown, position, *rest)

    # --- contexts: what a model says of a chunk ---

    def chunks_without_context(self, key: str, after: int, limit: int) -> list[StoredChunk]:
        """Return chunks that have no context of this prompt and model (`key`), from a number on."""
        condition = "chunks.id > ? and chunks.context_key != ? group by chunks.id order by chunks.id limit ?"
        return list(self._chunks(condition, (after, key, limit)))

    def count_without_context(self, key: str) -> int:
        return int(self._rows("select count(*) from chunks where context_key != ?", (key,))[0][0])

    def numbers_with_context(self, key: str) -> set[int]:
        return {int(row[0]) for row in self._rows("select id from chunks where context_key = ?", (key,))}

    def forget_contexts(self, kind: str) -> None:
        """Have every chunk's context made anew, those kept under `kind` too; what is there is searched until then."""
        with _translated(self.path):
            self._db.execute("update chunks set context_key = ''")
            self._db.execute("delete from reuse where kind = ?", (kind,))

    def neighbours(self, chunk: int) -> list[StoredChunk]:
        """Return a chunk between the ones before and after it, in order, each once."""
        condition = """
            chunks.document = (select document from chunks where id = ?)
            and abs(chunks.position - (select position from chunks where id = ?)) <= 1
            group by chunks.id order by chunks.position
            """
        return list(self._chunks(condition, (chunk, chunk)))

    def chunks_of_document(self, document: int) -> list[StoredChunk]:
        """Return a document's chunks in order, each once."""
        return list(self._chunks("chunks.document = ? group by chunks.id order by chunks.position", (document,)))

    def text_of(self, document: int) -> str:
        """Return a document's text, put together again from its chunks."""
        return join_chunks(self.chunks_of_document(document))

    def set_contexts(self, contexts: Sequence[tuple[int, str]], key: str, stage: str) -> None:
        """Give chunks (number, context) their contexts; they are found by them at once, and owed a new vector.

        Until that is there they are found by the one they had.
        """
        for chunk, context in contexts:
            rows = self._rows("select document, headings, text, context from chunks where id = ?", (chunk,))
            for document, headings, text, before in rows:
                old, new = indexed_text(headings, text, before), indexed_text(headings, text, context)
                old_terms, new_terms = word_string(old), word_string(new)
                more = count_words(new_terms) - count_words(old_terms)
                with _translated(self.path):
                    for table, was, body in (("words", old_terms, new_terms), ("trigrams", old, new)):
                        delete = f"insert into {table} ({table}, rowid, body) values ('delete', ?, ?)"
                        self._db.execute(delete, (chunk, was))
                        self._db.execute(f"insert into {table} (rowid, body) values (?, ?)", (chunk, body))
                    columns = "context = ?, context_key = ?, stage = ?, vector_key = ?"
                    sql = f"update chunks set {columns} where id = ?"
                    self._db.execute(sql, (context, key, stage, vector_key(new), chunk))
                    self._db.execute("update documents set term_count = term_count + ? where id = ?", (more, document))
                    self._db.execute("update totals set terms = terms + ? where rowid = 1", (more,))
                    if stage == PENDING_EMBEDDING:
                        sql = "update files set state = ? where document = ? and state in (?, ?)"
                        self._db.execute(sql, (DEFERRED, document, READY, DEGRADED))

    def reused(self, kind: str, key: str) -> bytes | None:
        """Return what was kept under a hash of all that made it."""
        rows = self._rows("select value from reuse where kind = ? and key = ?", (kind, key))
        return bytes(rows[0][0]) if rows else None

    def keep(self, kind: str, key: str, value: bytes) -> None:
        sql = "insert or replace into reuse (kind, key, value, used) values (?, ?, ?, ?)"
        with _translated(self.path):
            self._db.execute(sql, (kind, key, value, time.time()))

    def recognized(self, digest: str) -> dict[str, str]:
        """Return what OCR or speech recognition has finished of a file with this SHA-256, by the pieces' names."""
        sql = "select key, value from reuse where kind = ? and key between ? || ' ' and ? || '!'"
        return {key.partition(" ")[2]: value.decode() for key, value in self._rows(sql, (RECOGNITION, digest, digest))}

    def forget_recognized(self) -> None:
        """Drop pieces of files that are indexed no more and were not read for a month."""
        with self.write():
            self._db.execute(
                """delete from reuse where kind = ? and used < ? and not exists (
                    select 1 from documents where documents.key between substr(reuse.key, 1, 64) || '.'
                        and substr(reuse.key, 1, 64) || '/')""",
                (RECOGNITION, time.time() - RECOGNIZED_SECONDS),
            )

    # --- vectors: generations, what is owed, what is there ---

    def generations(self) -> list[Generation]:
        rows = self._rows("select id, fingerprint, settings, state, serial from generations order by id")
        return [Generation(number, print_, json.loads(settings), *rest) for number, print_, settings, *rest in rows]

    def serving(self) -> Generation | None:
        """Return the generation that answers queries."""
        return next((generation for generation in self.generations() if generation.state == "serving"), None)

    def begin_generation(self, fingerprint: str, settings: dict[str, Any], *, anew: bool = False) -> Generation:
        """Return the generation to fill; another that was being filled goes.

        A new one is built beside the one that serves; so is one of the same fingerprint if it is to be made `anew`. The
        very first serves at once, as far as it goes.
        """
        before = self.generations()
        usable = [one for one in before if one.fingerprint == fingerprint and not (anew and one.state == "serving")]
        known = usable[-1] if usable else None  # an unfinished one is younger than the one that serves
        with _translated(self.path):
            for one in before:
                if one.state == "building" and one is not known:
                    self._drop_generation(one.number)
            if known:
                self._db.execute("update generations set settings = ? where id = ?", (_json(settings), known.number))
                return known
            state = "building" if any(one.state == "serving" for one in before) else "serving"
            sql = """
                insert into generations (fingerprint, settings, state, created, mapped, serial)
                values (?, ?, ?, ?, 0, ?)
                """
            now = time.time()
            serial = int(now * 1000)  # not that of files which another database left here
            number = self._db.execute(sql, (fingerprint, _json(settings), state, now, serial)).lastrowid
        return Generation(number or 0, fingerprint, settings, state, serial)

    def _drop_generation(self, generation: int) -> None:
        self._db.execute("delete from vectors where generation = ?", (generation,))
        self._db.execute("delete from refusals where generation = ?", (generation,))
        self._db.execute("delete from generations where id = ?", (generation,))

    def owe_none(self) -> None:
        """Without an embedding model nothing is owed."""
        with _translated(self.path):
            self._db.execute("update chunks set stage = ? where stage != 'Indexed'", (INDEXED,))

    def is_complete(self, generation: int) -> bool:
        """Tell whether no chunk waits for a vector of this generation, or lacks one without a reason."""
        lacking = f"select 1 from chunks where {_LACKS} and not {_REFUSED}"  # an index alone answers that
        sql = f"select not exists (select 1 from chunks where stage = 'PendingEmbedding') and not exists ({lacking})"
        return bool(self._rows(sql, (generation, generation, MAX_TRIES))[0][0])

    def match_vectors(self, generation: int) -> int:
        """Have those chunks wait that have no vector in this generation; return how many that waited had one.

        Chunks whose text was refused too often don't wait.
        """
        with _translated(self.path):
            keys = f"select vector_key from chunks where {_LACKS}"
            sql = f"update chunks set stage = ? where stage = 'Indexed' and vector_key in ({keys})"
            self._db.execute(sql, (PENDING_EMBEDDING, generation))
            sql = f"update chunks set stage = ? where stage != 'Indexed' and not {_LACKS}"
            claimed = self._db.execute(sql, (INDEXED, generation)).rowcount
            sql = f"update chunks set stage = iif({_REFUSED}, ?, ?) where stage != 'Indexed'"
            self._db.execute(sql, (generation, MAX_TRIES, UNEMBEDDABLE, PENDING_EMBEDDING))
            sql = (
                f"update chunks set found_key = vector_key where found_key != vector_key and {_SERVES} and not {_LACKS}"
            )
            self._db.execute(sql, (generation, generation))
        return claimed

    def owed(self, after: int, limit: int) -> list[Owed]:
        """Return chunks that wait for a vector, from a number on."""
        sql = """
            select id, headings, text, context, vector_key from chunks where stage = 'PendingEmbedding' and id > ?
            order by id limit ?
            """
        return [Owed(id, indexed_text(*parts), key) for id, *parts, key in self._rows(sql, (after, limit))]

    def owed_count(self) -> int:
        return int(self._rows("select count(*) from chunks where stage = 'PendingEmbedding'")[0][0])

    def is_settled(self) -> bool:
        """Tell whether every chunk has all that is configured, and no file's state says otherwise."""
        waiting = "exists (select 1 from chunks where stage != 'Indexed')"
        sql = f"select {waiting} or exists (select 1 from files where state = ?)"
        return not self._rows(sql, (DEFERRED,))[0][0]

    def put_vectors(self, generation: int, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Add vectors (key, float32 bytes); every chunk that waits for one of them has it then."""
        with _translated(self.path):
            sql = "insert or ignore into vectors (generation, key, vector) values (?, ?, ?)"
            self._db.executemany(sql, [(generation, key, vector) for key, vector in vectors])
            sql = f"update chunks set found_key = vector_key where vector_key = ? and {_SERVES}"
            self._db.executemany(sql, [(key, generation) for key, _ in vectors])
            sql = "update chunks set stage = 'Indexed' where vector_key = ? and stage != 'Indexed'"
            self._db.executemany(sql, [(key,) for key, _ in vectors])

    def refuse_vector(self, generation: int, key: bytes, reason: str) -> None:
        """Count a refusal of a text; after the third its chunks are given up until text or model change."""
        sql = """
            insert into refusals (generation, key, tries, reason) values (?, ?, 1, ?)
            on conflict do update set tries = tries + 1, reason = excluded.reason returning tries
            """
        with _translated(self.path):
            [(tries,)] = self._db.execute(sql, (generation, key, scrub(reason))).fetchall()
            if tries >= MAX_TRIES:
                sql = "update chunks set stage = ? where vector_key = ? and stage = 'PendingEmbedding'"
                self._db.execute(sql, (UNEMBEDDABLE, key))

    def has_vector(self, generation: int, key: bytes) -> bool:
        return bool(self._rows("select 1 from vectors where generation = ? and key = ?", (generation, key)))

    def vector_size(self, generation: int) -> int:
        """Return how many numbers a vector of this generation has; 0 while there is none."""
        sql = "select length(vector) / 4 from vectors where generation = ? limit 1"
        rows = self._rows(sql, (generation,))
        return int(rows[0][0]) if rows else 0

    def promote(self, generation: int) -> None:
        """Let a generation serve; the others go, with their vectors."""
        with _translated(self.path):
            for other in self.generations():
                if other.number != generation:
                    self._drop_generation(other.number)
            self._db.execute("update generations set state = 'serving' where id = ?", (generation,))
            self._db.execute("update chunks set found_key = vector_key where found_key != vector_key")

    def drop_idle_vectors(self, generation: int) -> None:
        """Remove vectors of texts that are gone, once they are many: till then a text that comes back costs nothing."""
        used = "select vector_key from chunks union all select found_key from chunks"
        idle = f"generation = ? and key not in ({used})"
        sql = f"select count(*), (select count(*) from chunks) from vectors where {idle}"
        [(count, chunks)] = self._rows(sql, (generation,))
        if count > IDLE_VECTORS + chunks // 4:
            with _translated(self.path):
                self._db.execute(f"delete from vectors where {idle}", (generation,))
                self._db.execute("update generations set mapped = 0, serial = serial + 1 where id = ?", (generation,))

    def settle_states(self) -> None:
        """Bring the states of files into line with their chunks."""
        with _translated(self.path):
            states = f"state in (?, ?, ?) and state != {_STATE}"
            self._db.execute(f"update files set state = {_STATE} where {states}", (READY, DEGRADED, DEFERRED))

    def state_of(self, document: int) -> str:
        """Return the state of a file with this content."""
        sql = f"select {_STATE} from (select ? as document) as files"
        return str(self._rows(sql, (document,))[0][0])

    def vectors_since(self, generation: int, last: int, limit: int = -1) -> list[tuple[int, bytes]]:
        """Return (number, float32 bytes) of the vectors added after a number; at most `limit`, -1 for all."""
        sql = "select id, vector from vectors where generation = ? and id > ? order by id limit ?"
        return [(int(id), bytes(vector)) for id, vector in self._rows(sql, (generation, last, limit))]

    # Reading 100,000 vectors from SQLite takes seconds. So the indexer also leaves them in two files to be mapped: the
    # numbers and the vectors, appended to only, of which `generations.mapped` entries are certain to be on the disk.

    def map_vectors(self, generation: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Append what is new to the mapped files. They only save time: without room for them nothing is lost."""
        with suppress(OSError):
            count, size, *paths = self.mapped_vectors(generation)
            if any(_size(path) < entry * count for path, entry in zip(paths, (8, 4 * size), strict=True)):
                count = 0  # they are gone, or were cut; a program that has mapped them must not see them change
                with self.write():
                    sql = "update generations set mapped = 0, serial = serial + 1 where id = ?"
                    self._db.execute(sql, (generation,))
                _, size, *paths = self.mapped_vectors(generation)
            for path in set(self.path.parent.glob("vectors-*")) - set(paths):
                with suppress(OSError):  # Windows keeps a file that a reader has mapped; the next run tries again
                    path.unlink()
            last = _last_number(paths[0], count)
            while not stop() and (new := self.vectors_since(generation, last, MAPPED_AT_ONCE)):
                numbers = b"".join(number.to_bytes(8, "little", signed=True) for number, _ in new)
                _append(paths[0], 8 * count, numbers)
                _append(paths[1], 4 * size * count, b"".join(vector for _, vector in new))
                count, last = count + len(new), new[-1][0]
                with self.write():
                    self._db.execute("update generations set mapped = ? where id = ?", (count, generation))

    def mapped_vectors(self, generation: int) -> tuple[int, int, Path, Path]:
        """Return count and dimension of the mapped vectors, the file of their numbers (int64), theirs (float32)."""
        rows = self._rows("select mapped, serial from generations where id = ?", (generation,))
        count, serial = rows[0] if rows else (0, 0)
        stem = f"vectors-{generation}-{serial}"
        numbers, vectors = self.path.with_name(f"{stem}.i64"), self.path.with_name(f"{stem}.f32")
        return int(count), self.vector_size(generation), numbers, vectors

    def chunks_of_vectors(self, generation: int, numbers: Sequence[int], filters: Filters) -> dict[int, int]:
        """Return chunk -> vector number, for vectors given by number, the chunks limited by filters."""
        condition, values = filters.sql()
        found: dict[int, int] = {}
        for low in range(0, len(numbers), 500):
            some = numbers[low : low + 500]
            sql = f"""
                select distinct chunks.id, vectors.id from vectors join chunks on chunks.found_key = vectors.key
                join files on files.document = chunks.document
                where vectors.generation = ? and vectors.id in ({", ".join("?" * len(some))}) {condition}
                """
            found |= {int(chunk): int(vector) for chunk, vector in self._rows(sql, (generation, *some, *values))}
        return found

    def texts_of_vectors(self, generation: int, numbers: Sequence[int]) -> dict[int, str]:
        """Return vector number -> the beginning of a text that it stands for."""
        found: dict[int, str] = {}
        for low in range(0, len(numbers), 500):
            some = numbers[low : low + 500]
            sql = f"""
                select vectors.id, substr(chunks.text, 1, 400) from vectors
                join chunks on chunks.found_key = vectors.key
                where vectors.generation = ? and vectors.id in ({", ".join("?" * len(some))})
                """
            found |= {int(vector): str(text) for vector, text in self._rows(sql, (generation, *some))}
        return found

    def vectors_of_chunks(self, generation: int, chunks: Sequence[int]) -> dict[int, int]:
        """Return chunk -> vector number, for those chunks that have a vector."""
        found: dict[int, int] = {}
        for low in range(0, len(chunks), 500):
            some = chunks[low : low + 500]
            sql = f"""
                select chunks.id, vectors.id from chunks join vectors
                on vectors.generation = ? and vectors.key = chunks.found_key
                where chunks.id in ({", ".join("?" * len(some))})
                """
            found |= {int(chunk): int(vector) for chunk, vector in self._rows(sql, (generation, *some))}
        return found

    def vectors_within(self, generation: int, filters: Filters) -> list[int]:
        """Return the numbers of all vectors whose chunks pass the filters."""
        condition, values = filters.sql()
        sql = f"""
            select distinct vectors.id from files join chunks on chunks.document = files.document
            join vectors on vectors.generation = ? and vectors.key = chunks.found_key where 1 {condition}
            """
        return [int(row[0]) for row in self._rows(sql, (generation, *values))]

    # --- runs ---

    def begin_run(self) -> int:
        with self.write():
            values = (time.time(), "interrupted", "{}")
            sql = "insert into runs (started, outcome, counters) values (?, ?, ?) returning id"
            run = int(self._db.execute(sql, values).fetchone()[0])
            self._db.execute("delete from runs where id <= ? - 100", (run,))
        return run

    def end_run(self, run: int, seconds: float, outcome: str, counters: dict[str, Any]) -> None:
        with self.write():
            sql = "update runs set seconds = ?, outcome = ?, counters = ? where id = ?"
            self._db.execute(sql, (seconds, outcome, _json(counters), run))

    def last_usage(self) -> dict[str, Any]:
        """Return what models cost in the last run that asked any: by provider and model."""
        for (counters,) in self._rows("select counters from runs order by id desc limit 100"):
            if usage := json.loads(counters).get("usage"):
                return dict(usage)
        return {}

    def last_run(self) -> dict[str, Any] | None:
        rows = self._rows("select started, seconds, outcome, counters from runs order by id desc limit 1")
        if not rows:
            return None
        started, seconds, outcome, counters = rows[0]
        return {"started": started, "seconds": seconds, "outcome": outcome, **json.loads(counters)}


def join_chunks(chunks: Iterable[StoredChunk]) -> str:
    """Put a document's text together again from its chunks in order: without overlaps and repeated headers."""
    text: list[str] = []
    at = 0
    for chunk in chunks:
        if chunk.start > at:
            text.append(SEPARATOR)
            at = chunk.start
        body = chunk.text[len(chunk.text) - (chunk.end - chunk.start) :]
        text.append(body[at - chunk.start :])
        at = max(at, chunk.end)
    return "".join(text)


def indexed_text(headings: str, text: str, context: str = "") -> str:
    """Return what is indexed and embedded of a chunk: its heading path, the context a model gave it, its text."""
    return "\n".join(part for part in (headings, context, text) if part)


def vector_key(text: str) -> bytes:
    """Name the text that a vector stands for: 16 bytes."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def chunk_words(chunk: Chunk) -> str:
    """Return a chunk's terms for the keyword index."""
    return word_string(indexed_text(chunk.headings, chunk.text))


def file_type(path: str) -> str:
    """`Report.PDF` -> `pdf`."""
    return os.path.splitext(path)[1][1:].casefold()


def name_words(shown: str) -> str:
    """Return the terms of the part of a path that is searched: the file's name and its folder's."""
    folder, name = os.path.split(shown)
    return word_string(f"{os.path.basename(folder)} {os.path.splitext(name)[0]}")


def _quoted(term: str) -> str:
    """Make a term an FTS5 string: data, whatever is in it."""
    return '"' + term.replace("\x00", " ").replace('"', '""') + '"'


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_number(path: Path, count: int) -> int:
    """Return the last of `count` numbers in a mapped file; 0 if there are none."""
    if not count:
        return 0
    with open(path, "rb") as file:
        file.seek(8 * (count - 1))
        return int.from_bytes(file.read(8), "little", signed=True)


def _append(path: Path, at: int, data: bytes) -> None:
    """Write `data` to the disk behind the first `at` bytes of a file; what a run that was killed left there goes."""
    with open(path, "ab") as file:
        file.truncate(at)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# --- connections and errors ---


def _connect(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.execute("pragma busy_timeout = 10000")
    return db


def _connect_reader(path: Path) -> sqlite3.Connection:
    """Connect without ever writing. In a folder that can't be written to, only `immutable` opens a WAL database."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    db = _connect(uri)
    try:
        db.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if os.access(path.parent, os.W_OK):
            raise
        db = _connect(uri + "&immutable=1")
    db.execute("pragma query_only = on")
    return db


def _check_version(path: Path) -> int:
    """Return the schema's version, 0 if there is none yet; refuse one newer than this program's, changing no byte."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    db = _connect_reader(path)
    try:
        version = int(db.execute("pragma user_version").fetchone()[0])
    finally:
        db.close()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer seoga (schema {version}, this one knows {SCHEMA_VERSION}). "
            "Upgrade seoga; the index was left as it is."
        )
    return version


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into messages with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if isinstance(error, sqlite3.OperationalError) and "locked" in text:
            remedy = "Another program holds it; try again in a moment."
        elif "full" in text or "disk I/O" in text:
            remedy = "Free some disk space and run again; nothing that was indexed is lost."
        elif "readonly" in text or "unable to open" in text:
            remedy = "Check the permissions of the file and its folder."
        else:
            raise DamagedError(f"{path}: {text}. It may be damaged. {_rebuild(path)}") from error
        raise StoreError(f"{path}: {text}. {remedy}") from error


def _rebuild(path: Path) -> str:
    return f"Make it anew: `seoga exec --path {path.parent} --force` (the old file is kept beside it)."
