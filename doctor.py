"""Look at what works on this machine, and say what to do about what doesn't.

Each check is one capability: its state, what was seen, and the remedy. `fault` keeps seoga from its main job, `missing`
only switches something off. Nothing is changed, downloaded or started, but `tesseract --version`.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .config import (
    DEFAULT_LOCAL_MODEL,
    KEY_PRESETS,
    VERSION,
    Config,
    NotFoundError,
    SeogaError,
    display_path,
    expand,
    key_variable,
    readable_configs,
)

OK, MISSING, FAULT = "ok", "missing", "fault"
LITTLE_BYTES = 1024**3  # 1 GB of free space
LIBRARIES = ("mcp", "pypdfium2", "lxml", "onnxruntime", "faster-whisper")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: str  # ok | missing | fault
    seen: str
    remedy: str = ""


def examine(base: Path) -> list[Check]:
    """Run all checks for the knowledge bases under `base`."""
    configs, faults = readable_configs(base)
    return [
        _versions(), _sqlite(), _base(base), *_knowledge_bases(configs, faults), _embedding(configs), _ocr(configs),
        _speech(configs), _keys(configs), *_watching(), *_clients(),
    ]  # fmt: skip


def _versions() -> Check:
    libraries = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    seen = f"seoga {VERSION}, Python {platform.python_version()}, {platform.system()} {platform.machine()}; {libraries}"
    return Check("versions", OK, seen)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def _sqlite() -> Check:
    seen = f"SQLite {sqlite3.sqlite_version}"
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("create virtual table t using fts5 (x, tokenize = 'trigram')")
    except sqlite3.Error as error:
        remedy = "seoga needs SQLite 3.34 or newer with FTS5: use a Python from python.org, Homebrew or uv."
        return Check("search engine", FAULT, f"{seen}: {error}", remedy)
    return Check("search engine", OK, f"{seen} with FTS5 and trigram")


def _base(base: Path) -> Check:
    shown = display_path(str(base))
    there = next(folder for folder in (base, *base.parents) if folder.exists())
    if not os.access(there, os.W_OK):
        remedy = "give yourself the right to write there, or choose another folder with SEOGA_HOME or --base-path."
        return Check("base folder", FAULT, f"{shown} can't be written to", remedy)
    free = shutil.disk_usage(there).free
    seen = f"{shown}, {free / 1024**3:,.1f} GB free"
    return Check(
        "base folder", OK if free > LITTLE_BYTES else FAULT, seen, "" if free > LITTLE_BYTES else "free space."
    )


def _knowledge_bases(configs: list[Config], faults: list[str]) -> Iterator[Check]:
    from .store import Store

    for fault in faults:
        yield Check(
            "knowledge base", FAULT, fault, "correct its config.json, or delete it to forget the knowledge base."
        )
    sizes = []
    for config in configs:
        try:
            with closing(Store.open_reader(config.database)) as store:
                sizes.append(f"{config.id} ({sum(store.file_counts().values()):,} files)")
        except NotFoundError:
            sizes.append(f"{config.id} (not indexed yet)")
        except SeogaError as error:
            remedy = f"`seoga exec --path {config.folder} --force` makes it anew and keeps the damaged file."
            yield Check("knowledge base", FAULT, f"{config.id}: {error}", remedy)
    yield Check("knowledge bases", OK, ", ".join(sizes) or "none yet", "" if sizes else "`seoga add FOLDER` makes one.")


def _embedding(configs: list[Config]) -> Check:
    from .local import models_folders

    def is_here(model: str) -> bool:
        folders = [folder / model.replace("/", "--") for folder in models_folders()]
        return any(folder.is_dir() for folder in [Path(expand(model)), *folders])

    local = {config.embedding.model for config in configs if config.embedding.provider == "local"}
    wanted = sorted(local - {""}) or [DEFAULT_LOCAL_MODEL]
    missing = [model for model in wanted if not is_here(model)]
    if missing:
        remedy = "index with a network once, or put the model's folder there by hand; keywords work without it."
        return Check("search by meaning", MISSING, f"not on this machine: {', '.join(missing)}", remedy)
    return Check("search by meaning", OK, ", ".join(wanted))


def _ocr(configs: list[Config]) -> Check:
    from .pages import ocr_engine, ocr_state

    languages = sorted({config.ocr.languages for config in configs}) or ["eng+kor"]
    for wanted in languages:
        if missing := ocr_state(wanted):
            return Check("scanned pages", MISSING, f"no OCR for {wanted}", missing)
    return Check("scanned pages", OK, f"Tesseract {ocr_engine()}, {', '.join(languages)}")


def _speech(configs: list[Config]) -> Check:
    from .audio import find_model, speech_state

    for wanted in sorted({config.audio.model for config in configs}) or [""]:
        if missing := speech_state(wanted):
            return Check("recordings", MISSING, "can't be transcribed yet", missing)
    return Check("recordings", OK, f"faster-whisper, {display_path(str(find_model(wanted)))}")


def _keys(configs: list[Config]) -> Check:
    """Say which keys are there, never what they are."""
    needed = {
        key_variable(part.api_key_preset)
        for config in configs
        for part in (config.embedding, config.contextualizer, config.rerank)
        if part.model and part.api_key_preset
    }
    known = sorted(name for name in {*needed, *map(key_variable, KEY_PRESETS)} if os.environ.get(name))
    missing = sorted(name for name in needed if not os.environ.get(name))
    if missing:
        return Check("keys", MISSING, f"not set: {', '.join(missing)}", "set them where seoga is started.")
    return Check("keys", OK, ", ".join(known) or "none set, and none is needed")


def _watching() -> Iterator[Check]:
    if sys.platform == "linux":
        limit = Path("/proc/sys/fs/inotify/max_user_watches")
        if limit.exists():
            yield Check(
                "watching folders", OK, f"up to {int(limit.read_text()):,} folders (fs.inotify.max_user_watches)"
            )


def _clients() -> Iterator[Check]:
    from .clients import CLIENTS, has_entry

    home = Path.home()
    found = [client.title for client in CLIENTS.values() if has_entry(client, home)]
    remedy = "" if found else f"`seoga setup --client {'|'.join(CLIENTS)}` adds seoga to one."
    yield Check("clients", OK if found else MISSING, ", ".join(found) or "no client starts seoga yet", remedy)
