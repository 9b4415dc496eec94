"""Where knowledge bases live and what each one is configured to do.

A base folder holds one folder per knowledge base (kb)::

    {base}/{kb_id}/config.json     what to index, how; written by people, host programs and `seoga add`
    {base}/{kb_id}/rag.db          the index (store.py)
    {base}/{kb_id}/cancel          exists: the running indexer is asked to stop

`config.json` is camelCase. Every key is optional but `sourcePaths`; unknown keys survive a rewrite, with a warning.
This file does not look inside the sources and does not open the index.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import sys
import tempfile
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

VERSION = "0.1.0"  # as in pyproject.toml; a test compares them
CONFIG_NAME = "config.json"
DATABASE_NAME = "rag.db"
DEFAULT_LOCAL_MODEL = "intfloat/multilingual-e5-small"
CANCEL_NAME = "cancel"
MAX_CONFIG_BYTES = 1024 * 1024  # 1 MB: no honest configuration comes near it

KB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Names that Windows keeps for devices, with or without an extension (learn.microsoft.com, "Naming Files").
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_UNSAFE = re.compile("[\x00\ud800-\udfff]")
# Up to an ASCII character, where nothing composes: NFC takes time in the square of a run of combining marks.
_PIECES = re.compile("(?s).{1,500}[^\x00-\x7f]{0,500}")


class SeogaError(Exception):
    """Something a person can put right; the message says what, where and how."""


class ConfigError(SeogaError):
    """A `config.json`, a kb_id or a path that can't be used."""


class NotFoundError(SeogaError):
    """No such knowledge base, document or chunk."""


def scrub(text: str) -> str:
    """Make text safe to store, send and compare: NFC, no NUL, no lone surrogates (both become U+FFFD).

    A lone surrogate, which is what a file name outside UTF-8 decodes to, ends an MCP 2.3 server when it is sent.
    """
    if text.isascii():
        return text.replace("\x00", "�") if "\x00" in text else text
    return "".join(unicodedata.normalize("NFC", piece) for piece in _PIECES.findall(_UNSAFE.sub("�", text)))


@dataclass(frozen=True, slots=True)
class Contextualizer:
    """The model that situates each chunk in its document; an empty `model` switches it off."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key_preset: str = ""
    keep_alive: str = ""
    num_ctx: int = 0


@dataclass(frozen=True, slots=True)
class Embedding:
    """The model that turns a chunk into a vector; an empty `model` switches it off."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key_preset: str = ""
    dimension: int = field(default=0, metadata={"max": 65_536})  # 0: whatever the model gives
    max_chunk_chars: int = field(default=4000, metadata={"min": 200, "max": 100_000})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 10_000})
    keep_alive: str = ""


@dataclass(frozen=True, slots=True)
class Ocr:
    languages: str = "eng+kor"
    dpi: int = field(default=200, metadata={"min": 50, "max": 1200})


@dataclass(frozen=True, slots=True)
class Audio:
    model: str = ""  # empty: chosen from memory and cores
    language: str = ""  # empty: detected


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Characters per chunk."""

    target_chars: int = field(default=1000, metadata={"min": 100, "max": 20_000})
    overlap_chars: int = field(default=150, metadata={"max": 5_000})


@dataclass(frozen=True, slots=True)
class Rerank:
    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key_preset: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """One knowledge base's `config.json`, validated."""

    id: str
    folder: Path = field(metadata={"key": None})
    name: str = ""
    created: str = ""
    source_paths: tuple[str, ...] = ()
    system_prompt: str = ""
    contextualizer: Contextualizer = field(default_factory=Contextualizer)
    embedding: Embedding = field(default_factory=Embedding)
    include_globs: tuple[str, ...] = ()
    exclude_globs: tuple[str, ...] = ()
    max_file_size_mb: int = field(default=100, metadata={"min": 1, "max": 4096})
    ocr: Ocr = field(default_factory=Ocr)
    audio: Audio = field(default_factory=Audio)
    chunk: ChunkSizes = field(default_factory=ChunkSizes)
    rerank: Rerank = field(default_factory=Rerank)
    fusion: str = field(default="sum", metadata={"allowed": ("sum", "rrf")})
    raw: Mapping[str, Any] = field(default_factory=dict, metadata={"key": None})
    warnings: tuple[str, ...] = field(default=(), metadata={"key": None})

    @property
    def database(self) -> Path:
        return self.folder / DATABASE_NAME

    @property
    def cancel(self) -> Path:
        return self.folder / CANCEL_NAME

    @property
    def sources(self) -> list[str]:
        """Absolute source folders, `~` and environment variables expanded, in the order given."""
        return [os.path.abspath(expand(path)) for path in self.source_paths]


def expand(path: str) -> str:
    return os.path.expandvars(os.path.expanduser(path))


def display_path(path: str) -> str:
    """Return the form of a path that is shown, stored as text and compared: NFC, no lone surrogates."""
    return scrub(path)


# --- the base folder and the knowledge bases in it ---


def base_folder(given: str | None = None) -> Path:
    """Return `--base-path`, else `SEOGA_HOME`, else the platform's folder for a user's data; absolute."""
    chosen = given or os.environ.get("SEOGA_HOME")
    if not chosen:
        import platformdirs

        chosen = platformdirs.user_data_dir("seoga", appauthor=False)
    return Path(os.path.abspath(expand(chosen)))


def check_kb_id(kb_id: str) -> str:
    """Return `kb_id` if it is safe to join to a path on every platform, otherwise raise ConfigError."""
    if not KB_ID.fullmatch(kb_id) or ".." in kb_id or kb_id.endswith(".") or _DEVICES.fullmatch(kb_id):
        raise ConfigError(
            f"{scrub(kb_id)[:80]!r} is no knowledge-base id: use 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter "
            "or digit, without '..' and no Windows device name. `seoga status` lists the ids there are."
        )
    return kb_id


def make_kb_id(name: str, base: Path) -> str:
    """Return an id that is free under `base`: the name itself where that is allowed, otherwise short and random."""
    try:
        stem = check_kb_id(name)[:58].rstrip(".")
    except ConfigError:
        stem = f"kb-{secrets.token_hex(3)}"
    taken = {entry.name.casefold() for entry in base.iterdir()} if base.is_dir() else set()
    candidates = (stem if n == 1 else f"{stem}-{n}" for n in range(1, len(taken) + 2))
    return next(candidate for candidate in candidates if candidate.casefold() not in taken)


def kb_ids(base: Path) -> list[str]:
    """List the knowledge bases under `base`: its folders that hold a `config.json`, sorted."""
    if not base.is_dir():
        return []
    return sorted(
        entry.name
        for entry in os.scandir(base)
        if KB_ID.fullmatch(entry.name) and os.path.isfile(os.path.join(entry.path, CONFIG_NAME))
    )


def find_kb(base: Path, reference: str) -> Config:
    """Load the knowledge base with this id or, failing that, this name; raise NotFoundError for none or several."""
    ids = kb_ids(base)
    if reference in ids:
        return load_config(base / check_kb_id(reference))
    named = [config for config in readable_configs(base)[0] if config.name == scrub(reference)]
    if len(named) == 1:
        return named[0]
    check_kb_id(reference) if not named and not reference.strip() else None
    known = ", ".join(ids) or "none yet: `seoga add FOLDER` makes one"
    several = f" (several have this name: {', '.join(config.id for config in named)})" if named else ""
    raise NotFoundError(f"there is no knowledge base {scrub(reference)[:80]!r}{several} under {base}. Known: {known}.")


def readable_configs(base: Path) -> tuple[list[Config], list[str]]:
    """Load every knowledge base under `base`; the second list holds the messages of those that can't be read."""
    configs, faults = [], []
    for kb_id in kb_ids(base):
        try:
            configs.append(load_config(base / kb_id))
        except SeogaError as error:
            faults.append(str(error))
    return configs, faults


def log_folder(base: Path) -> Path:
    """Return where logs go: the platform's place, or beside the knowledge bases if their place was chosen."""
    import platformdirs

    usual = os.path.abspath(platformdirs.user_data_dir("seoga", appauthor=False))
    return Path(platformdirs.user_log_dir("seoga", appauthor=False)) if str(base) == usual else base / ".logs"


def log_to_file(base: Path, name: str) -> None:
    """Have what `seoga.*` logs written to a file too, of 1 MB at most and two before it; never a document's text.

    Without a place to write it all goes to standard error alone.
    """
    import logging
    from logging.handlers import RotatingFileHandler

    logger = logging.getLogger(__package__)
    try:
        log_folder(base).mkdir(parents=True, exist_ok=True)
        path = log_folder(base) / f"{name}.log"
        to_file = RotatingFileHandler(path, maxBytes=1024 * 1024, backupCount=2, encoding="utf-8", errors="replace")
    except OSError:
        return
    to_file.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    to_stderr = logging.StreamHandler()
    to_stderr.setLevel(logging.WARNING)
    for handler in (to_file, to_stderr):
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


# --- config.json: reading, checking, writing ---


def load_config(folder: Path) -> Config:
    """Read and validate `folder/config.json`; raise ConfigError naming file, key, value and what is allowed."""
    check_kb_id(folder.name)
    path = folder / CONFIG_NAME
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no {path}. `seoga add FOLDER` makes a knowledge base.") from None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}. Check its permissions.") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path} is larger than 1 MB, so it is no configuration. Restore it from a copy.")
    try:
        raw = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON ({scrub(str(error))}). Correct it, or restore it from a copy.") from None
    return parse_config(raw, folder)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def parse_config(raw: Any, folder: Path) -> Config:
    """Validate one parsed `config.json`, which lies in `folder`, whose name is the kb_id."""
    path = folder / CONFIG_NAME
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: holds {_kind(raw)}, where one JSON object is needed.")
    warnings: list[str] = []
    config = _read(Config, raw, f"{path}: ", "", warnings, {"id": folder.name, "folder": folder, "raw": raw})
    if raw.get("id") not in (None, "", folder.name):
        warnings.append(f"{path}: id {raw['id']!r} differs from its folder's name, which counts: {folder.name!r}")
    if config.chunk.overlap_chars >= config.chunk.target_chars:
        raise ConfigError(
            f"{path}: chunk.overlapChars is {config.chunk.overlap_chars}; it must be below chunk.targetChars, "
            f"{config.chunk.target_chars}."
        )
    for source in config.source_paths:
        check_source(source, f"{path}: sourcePaths holds {source!r}")
    name = scrub(config.name) or folder.name
    return dataclasses.replace(config, name=name, warnings=tuple(warnings))


def check_source(source: str, what: str) -> None:
    """Refuse a source that is relative or a whole drive; `what` begins the message."""
    full = expand(source)
    if not os.path.isabs(full):
        raise ConfigError(f"{what}, which is not an absolute path. Write it from the root (or from ~).")
    if os.path.dirname(os.path.abspath(full)) == os.path.abspath(full):
        raise ConfigError(f"{what}, which is a whole drive. Name the folders in it that hold documents.")


_Section = TypeVar("_Section")


def _read(
    section: type[_Section], raw: dict[str, Any], where: str, prefix: str, warnings: list[str], given: dict[str, Any]
) -> _Section:
    """Build one dataclass from its JSON object. Sections recurse; `given` are the fields that JSON doesn't set."""
    values = dict(given)
    known = set()
    for spec in fields(cast(Any, section)):
        key = spec.metadata.get("key", camel(spec.name))
        known.add(key)
        value = raw.get(key)
        if key is None or spec.name in given or value is None:
            continue
        label = f"{where}{prefix}{key}"
        default = spec.default_factory() if spec.default_factory is not dataclasses.MISSING else spec.default
        if dataclasses.is_dataclass(default):
            if not isinstance(value, dict):
                raise ConfigError(f"{label} is {_show(value)}; a JSON object is needed.")
            values[spec.name] = _read(type(default), value, where, f"{prefix}{key}.", warnings, {})
        else:
            values[spec.name] = _value(value, default, dict(spec.metadata), label)
    warnings += [f"{where}{prefix}{key} is not a key seoga knows; it is kept." for key in raw if key not in known]
    return section(**values)


def _value(value: Any, default: Any, limits: dict[str, Any], label: str) -> Any:
    """Check one scalar or list of strings against its default's type and its limits."""
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise ConfigError(f"{label} is {_show(value)}; a list of non-empty strings is needed.")
        return tuple(value)
    if isinstance(default, int):
        low, high = limits.get("min", 0), limits.get("max", 10_000_000)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{label} is {_show(value)}; a whole number from {low} to {high} is needed.")
        return value
    if label.endswith(".keepAlive") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ConfigError(f"{label} is {_show(value)}; a string is needed.")
    if value not in limits.get("allowed", (value,)):
        raise ConfigError(f"{label} is {_show(value)}; one of {', '.join(limits['allowed'])} is needed.")
    return value


def camel(name: str) -> str:
    """`max_file_size_mb` -> `maxFileSizeMb`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _show(value: Any) -> str:
    try:
        return scrub(json.dumps(value, ensure_ascii=False))[:80]
    except RecursionError:
        return "nested too deeply"


def new_config(base: Path, sources: list[str], *, name: str = "", kb_id: str = "", **settings: Any) -> Config:
    """Make and write a knowledge base over `sources` (absolute). `settings` are JSON keys, such as includeGlobs."""
    label = scrub(name or os.path.basename(sources[0].rstrip("/\\")) or "documents")
    chosen = check_kb_id(kb_id) if kb_id else make_kb_id(label, base)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    raw = {"id": chosen, "name": label, "created": created, "sourcePaths": sources, **settings}
    config = parse_config(raw, base / chosen)
    if (config.folder / CONFIG_NAME).exists():
        raise ConfigError(f"there is a knowledge base {chosen!r} already. Choose another --id, or remove it first.")
    save_config(config)
    return config


def save_config(config: Config, **changes: Any) -> Config:
    """Write `config.json` with `changes` (JSON keys) over what it holds, every other key kept; return it as read."""
    raw = {**config.raw, **changes}
    checked = parse_config(raw, config.folder)
    try:
        text = json.dumps(raw, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (ValueError, RecursionError):
        what = f"{config.folder / CONFIG_NAME} holds a number too large or lists nested too deeply to be written again"
        raise ConfigError(f"{what}. Correct it by hand.") from None
    if not text.isascii() and _UNSAFE.search(text):  # a source whose name is not UTF-8: kept as \udcXX escapes
        text = json.dumps(raw, indent=2, allow_nan=False) + "\n"
    write_atomically(config.folder / CONFIG_NAME, text.encode())
    return checked


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` so that a crash or power loss leaves the old bytes or the new ones, nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if sys.platform != "win32":  # the rename itself reaches the disk with the folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# --- keys ---

KEY_PRESETS = {
    "openai": "OPENAI_API_KEY",
    "claude": "ANTHROPIC_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "google": "GEMINI_API_KEY",
    "voyage": "VOYAGE_API_KEY",
    "groq": "GROQ_API_KEY",
}


def key_variable(preset: str) -> str:
    """Return the environment variable that holds the key of an `apiKeyPreset`: `OpenAI` -> `OPENAI_API_KEY`."""
    return KEY_PRESETS.get(preset.casefold(), re.sub(r"[^A-Z0-9]+", "_", preset.upper()).strip("_") + "_API_KEY")
