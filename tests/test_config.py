"""config.py: which configurations are understood, what is said of the others, and how they are written."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from seoga.config import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    Config,
    ConfigError,
    NotFoundError,
    base_folder,
    check_kb_id,
    find_kb,
    kb_ids,
    key_variable,
    load_config,
    make_kb_id,
    new_config,
    parse_config,
    readable_configs,
    save_config,
    scrub,
    write_atomically,
)

ROOT = os.path.abspath(os.sep)
DOCUMENTS = os.path.join(ROOT, "documents")


def put(base: Path, kb_id: str, content: dict[str, Any] | bytes | str) -> Path:
    """Write a configuration; return its knowledge base's folder."""
    folder = base / kb_id
    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps(content) if isinstance(content, dict) else content
    (folder / CONFIG_NAME).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def fault(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(folder)
    return str(caught.value)


# --- fields ---

EVERY_FIELD: dict[str, Any] = {
    "id": "kb",
    "name": "회의록",
    "created": "2026-01-02T03:04:05Z",
    "sourcePaths": [DOCUMENTS],
    "systemPrompt": "Say it in Korean.",
    "contextualizer": {
        "provider": "ollama",
        "model": "qwen3",
        "baseUrl": "http://localhost:11434",
        "apiKeyPreset": "OpenAI",
        "keepAlive": "5m",
        "numCtx": 8192,
    },
    "embedding": {
        "provider": "openai",
        "model": "text-embedding-3-small",
        "baseUrl": "https://api.example.com/v1",
        "apiKeyPreset": "OpenAI",
        "dimension": 512,
        "maxChunkChars": 3000,
        "batchSize": 16,
        "keepAlive": "-1",
    },
    "includeGlobs": ["*.md"],
    "excludeGlobs": ["drafts/"],
    "maxFileSizeMb": 50,
    "ocr": {"languages": "kor", "dpi": 300},
    "audio": {"model": "small", "language": "ko"},
    "chunk": {"targetChars": 800, "overlapChars": 100},
    "rerank": {"provider": "voyage", "model": "rerank-2", "baseUrl": "", "apiKeyPreset": "Voyage"},
}


def test_every_field_is_read_and_none_is_warned_about(tmp_path: Path) -> None:
    config = load_config(put(tmp_path, "kb", EVERY_FIELD))
    assert config.warnings == ()
    assert (config.id, config.name, config.created) == ("kb", "회의록", "2026-01-02T03:04:05Z")
    assert (config.source_paths, config.system_prompt) == ((DOCUMENTS,), "Say it in Korean.")
    context, embedding = config.contextualizer, config.embedding
    assert (context.provider, context.model, context.base_url) == ("ollama", "qwen3", "http://localhost:11434")
    assert (context.api_key_preset, context.keep_alive, context.num_ctx) == ("OpenAI", "5m", 8192)
    assert (embedding.provider, embedding.model) == ("openai", "text-embedding-3-small")
    assert (embedding.base_url, embedding.api_key_preset) == ("https://api.example.com/v1", "OpenAI")
    assert (embedding.dimension, embedding.max_chunk_chars, embedding.batch_size) == (512, 3000, 16)
    assert embedding.keep_alive == "-1"
    assert (config.include_globs, config.exclude_globs, config.max_file_size_mb) == (("*.md",), ("drafts/",), 50)
    assert (config.ocr.languages, config.ocr.dpi, config.audio.model, config.audio.language) == (
        "kor",
        300,
        "small",
        "ko",
    )
    assert (config.chunk.target_chars, config.chunk.overlap_chars) == (800, 100)
    assert (config.rerank.provider, config.rerank.model, config.rerank.api_key_preset) == (
        "voyage",
        "rerank-2",
        "Voyage",
    )


def test_only_the_sources_need_to_be_given(tmp_path: Path) -> None:
    config = load_config(put(tmp_path, "kb", {"sourcePaths": [DOCUMENTS]}))
    assert (config.id, config.name, config.warnings) == ("kb", "kb", ())
    assert (config.embedding.model, config.contextualizer.model, config.rerank.model) == ("", "", "")
    assert (config.embedding.max_chunk_chars, config.chunk.target_chars, config.chunk.overlap_chars) == (
        4000,
        1000,
        150,
    )
    assert (config.ocr.languages, config.max_file_size_mb) == ("eng+kor", 100)
    assert (config.database, config.cancel) == (tmp_path / "kb" / "rag.db", tmp_path / "kb" / "cancel")


def test_a_host_programs_configuration_loads_unchanged(tmp_path: Path) -> None:
    written = {
        "id": "4f1c2a7e9b",
        "name": "계약 문서",
        "created": "2025-11-02T09:15:22.1234567Z",
        "sourcePaths": [DOCUMENTS, os.path.join(ROOT, "업무 자료")],
        "systemPrompt": None,
        "contextualizer": {
            "provider": "ollama", "model": "", "baseUrl": None, "apiKeyPreset": None, "keepAlive": None, "numCtx": None
        },
        "embedding": {
            "provider": "ollama", "model": "bge-m3", "baseUrl": "http://localhost:11434", "apiKeyPreset": None,
            "dimension": 0, "maxChunkChars": 4000, "batchSize": 32, "keepAlive": 300
        },
    }  # fmt: skip
    config = load_config(put(tmp_path, "4f1c2a7e9b", written))
    assert config.warnings == ()
    assert config.name == "계약 문서"
    assert config.contextualizer == type(config.contextualizer)(provider="ollama")
    assert (config.embedding.model, config.embedding.keep_alive, config.embedding.api_key_preset) == (
        "bge-m3",
        "300",
        "",
    )
    save_config(config)
    assert json.loads((config.folder / CONFIG_NAME).read_text(encoding="utf-8")) == written


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "name is 5; a string is needed."),
    ({"created": []}, "created is []; a string is needed."),
    ({"sourcePaths": DOCUMENTS}, "sourcePaths is"),
    ({"sourcePaths": [5]}, "sourcePaths is [5]; a list of non-empty strings is needed."),
    ({"sourcePaths": [" "]}, 'sourcePaths is [" "]; a list of non-empty strings is needed.'),
    ({"sourcePaths": ["documents"]}, "sourcePaths holds 'documents', which is not an absolute path."),
    ({"sourcePaths": [ROOT]}, f"sourcePaths holds {ROOT!r}, which is a whole drive."),
    ({"sourcePaths": [os.path.join(ROOT, "x", "..")]}, "which is a whole drive."),
    ({"systemPrompt": {}}, "systemPrompt is {}; a string is needed."),
    ({"contextualizer": "ollama"}, 'contextualizer is "ollama"; a JSON object is needed.'),
    ({"contextualizer": {"model": 7}}, "contextualizer.model is 7; a string is needed."),
    ({"contextualizer": {"numCtx": -1}}, "contextualizer.numCtx is -1; a whole number from 0 to 10000000 is needed."),
    ({"contextualizer": {"keepAlive": True}}, "contextualizer.keepAlive is true; a string is needed."),
    ({"embedding": []}, "embedding is []; a JSON object is needed."),
    ({"embedding": {"provider": None, "model": False}}, "embedding.model is false; a string is needed."),
    ({"embedding": {"dimension": 65_537}}, "embedding.dimension is 65537; a whole number from 0 to 65536 is needed."),
    ({"embedding": {"dimension": "512"}}, 'embedding.dimension is "512"; a whole number from 0 to 65536 is needed.'),
    ({"embedding": {"dimension": 5.5}}, "embedding.dimension is 5.5; a whole number from 0 to 65536 is needed."),
    (
        {"embedding": {"maxChunkChars": 10}},
        "embedding.maxChunkChars is 10; a whole number from 200 to 100000 is needed.",
    ),
    ({"embedding": {"batchSize": 0}}, "embedding.batchSize is 0; a whole number from 1 to 10000 is needed."),
    ({"includeGlobs": "*.md"}, 'includeGlobs is "*.md"; a list of non-empty strings is needed.'),
    ({"excludeGlobs": [None]}, "excludeGlobs is [null]; a list of non-empty strings is needed."),
    ({"maxFileSizeMb": 0}, "maxFileSizeMb is 0; a whole number from 1 to 4096 is needed."),
    ({"maxFileSizeMb": True}, "maxFileSizeMb is true; a whole number from 1 to 4096 is needed."),
    ({"ocr": {"dpi": 10_000}}, "ocr.dpi is 10000; a whole number from 50 to 1200 is needed."),
    ({"ocr": {"languages": ["kor"]}}, 'ocr.languages is ["kor"]; a string is needed.'),
    ({"audio": {"model": 1}}, "audio.model is 1; a string is needed."),
    ({"chunk": {"targetChars": 10}}, "chunk.targetChars is 10; a whole number from 100 to 20000 is needed."),
    ({"chunk": {"overlapChars": -1}}, "chunk.overlapChars is -1; a whole number from 0 to 5000 is needed."),
    ({"chunk": {"targetChars": 100}}, "chunk.overlapChars is 150; it must be below chunk.targetChars, 100."),
    ({"rerank": {"baseUrl": 1}}, "rerank.baseUrl is 1; a string is needed."),
]


@pytest.mark.parametrize(("content", "message"), FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_each_fault_has_one_message_with_file_key_value_and_what_is_allowed(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    folder = put(tmp_path, "kb", {"sourcePaths": [DOCUMENTS], **content})
    said = fault(folder)
    assert said.startswith(f"{folder / CONFIG_NAME}: ")
    assert message in said
    assert "\n" not in said


def test_unknown_keys_are_warned_about_and_survive_a_rewrite(tmp_path: Path) -> None:
    content = {"sourcePaths": [DOCUMENTS], "colour": {"deep": [1, None]}, "ocr": {"engine": "x", "dpi": 100}}
    config = load_config(put(tmp_path, "kb", content))
    assert len(config.warnings) == 2
    assert "colour is not a key seoga knows; it is kept." in " ".join(config.warnings)
    assert "ocr.engine is not a key" in " ".join(config.warnings)
    changed = save_config(config, includeGlobs=["*.md"])
    assert changed.include_globs == ("*.md",)
    written = json.loads((config.folder / CONFIG_NAME).read_text(encoding="utf-8"))
    assert written == {**content, "includeGlobs": ["*.md"]}
    assert load_config(config.folder).warnings == config.warnings


def test_another_id_than_the_folders_is_warned_about(tmp_path: Path) -> None:
    config = load_config(put(tmp_path, "kb", {"id": "other", "sourcePaths": []}))
    assert config.id == "kb"
    assert "'other' differs from its folder's name" in config.warnings[0]


def test_a_change_that_is_not_allowed_is_refused_and_not_written(tmp_path: Path) -> None:
    config = load_config(put(tmp_path, "kb", {"sourcePaths": [DOCUMENTS]}))
    before = (config.folder / CONFIG_NAME).read_bytes()
    with pytest.raises(ConfigError, match="maxFileSizeMb is 0"):
        save_config(config, maxFileSizeMb=0)
    assert (config.folder / CONFIG_NAME).read_bytes() == before


def test_home_and_variables_in_paths_are_expanded_and_kept_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("SEOGA_TEST_DOCS", str(tmp_path / "here"))
    paths = ["~/papers", "$SEOGA_TEST_DOCS/sub", "${SEOGA_TEST_DOCS}"]
    config = load_config(put(tmp_path, "kb", {"sourcePaths": paths}))
    assert config.sources == [str(tmp_path / "papers"), str(tmp_path / "here" / "sub"), str(tmp_path / "here")]
    assert json.loads((save_config(config).folder / CONFIG_NAME).read_text())["sourcePaths"] == paths
    monkeypatch.delenv("SEOGA_TEST_DOCS")
    assert "not an absolute path" in fault(config.folder)


# --- files that are no configuration ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"sourcePaths": []', "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b"\x00" * 100, "is not JSON"),
        (bytes(range(256)), "is not JSON"),
        ('{"name": "회의"}'.encode("utf-16"), "is not JSON"),
        ('{"name": "회의"}'.encode("cp949"), "is not JSON"),
        (b'{"maxFileSizeMb": NaN}', "NaN is no JSON value"),
        (b'{"other": -Infinity}', "-Infinity is no JSON value"),
        (b'{"other": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a":' * 100_000, "is not JSON"),
        (b" " * (MAX_CONFIG_BYTES + 1), "larger than 1 MB"),
        (b"null", "holds null, where one JSON object is needed."),
        (b"[]", "holds a list"),
        (b'"x"', "holds a string"),
        (b"1.5", "holds a number"),
        (b"true", "holds true or false"),
    ],
    ids=range(19),
)
def test_what_is_no_configuration_is_said_shortly(tmp_path: Path, content: bytes, message: str) -> None:
    said = fault(put(tmp_path, "kb", content))
    assert message in said
    assert len(said) < 400 + len(str(tmp_path))
    assert "\n" not in said


@pytest.mark.parametrize("depth", [10, 300, 600, 900, 950, 990])
def test_deep_nesting_is_kept_or_refused_but_never_raises_anything_else(tmp_path: Path, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    for text in (f'{{"sourcePaths": {nested}}}', f'{{"ocr": {{"dpi": {nested}}}}}'):
        assert fault(put(tmp_path, "kb", text))
    put(tmp_path, "kb", f'{{"other": {nested}}}')
    before = (tmp_path / "kb" / CONFIG_NAME).read_bytes()
    try:
        save_config(load_config(tmp_path / "kb"))
    except ConfigError:
        assert (tmp_path / "kb" / CONFIG_NAME).read_bytes() == before


def test_a_number_too_large_for_json_is_refused_when_it_would_be_written(tmp_path: Path) -> None:
    config = load_config(put(tmp_path, "kb", b'{"other": 1e999}'))
    with pytest.raises(ConfigError, match="a number too large"):
        save_config(config)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    folder = put(tmp_path, "kb", b"\xef\xbb\xbf" + json.dumps({"name": "회의", "sourcePaths": []}).encode())
    assert load_config(folder).name == "회의"


def test_a_missing_file_is_not_found_and_a_folder_in_its_place_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    with pytest.raises(NotFoundError, match="seoga add FOLDER"):
        load_config(tmp_path / "kb")
    (tmp_path / "kb" / CONFIG_NAME).mkdir()
    with pytest.raises(ConfigError, match="can't be read"):
        load_config(tmp_path / "kb")
    assert kb_ids(tmp_path) == []


# --- ids ---


@pytest.mark.parametrize(
    "kb_id", ["a", "0", "A-b_c.d", "notes-2024", "x" * 64, "console", "com", "lpt", "nul1", "aux-1"]
)
def test_safe_ids_are_taken(kb_id: str) -> None:
    assert check_kb_id(kb_id) == kb_id


@pytest.mark.parametrize(
    "kb_id",
    [
        "", " ", "a b", "-a", "_a", ".a", ".", "..", "a..b", "a.", "a/b", "a\\b", "/a", "C:", "../../x", "%2e%2e",
        "a\x00", "a\n", "회의", "ａ", "x" * 65, "con", "CON", "Con.txt", "prn", "aux", "nul", "NUL.", "com1", "COM9.x",
        "lpt0", "lpt3.tar.gz", "a:b", "a*", "~", "\ud800",
    ],
)  # fmt: skip
def test_unsafe_ids_are_refused_with_what_is_allowed(kb_id: str) -> None:
    with pytest.raises(ConfigError, match="use 1 to 64 of A-Z a-z 0-9"):
        check_kb_id(kb_id)


def test_an_id_is_checked_before_a_path_is_made_of_it(tmp_path: Path) -> None:
    put(tmp_path, "outside", {"sourcePaths": []})
    base = tmp_path / "base"
    base.mkdir()
    for kb_id in ("../outside", str(tmp_path / "outside")):
        with pytest.raises(NotFoundError):
            find_kb(base, kb_id)
        with pytest.raises(ConfigError):
            new_config(base, [DOCUMENTS], kb_id=kb_id)
    assert list(base.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["notes", "x" * 64, "a" * 57 + "." + "b" * 6, "회의록", "con", "../x", "", "a b", ".", "x" * 300]
)
def test_a_made_id_is_always_allowed_and_free(tmp_path: Path, name: str) -> None:
    made = []
    for _ in range(12):
        made.append(check_kb_id(make_kb_id(name, tmp_path)))
        (tmp_path / made[-1]).mkdir()
    assert len({kb_id.casefold() for kb_id in made}) == 12


def test_a_made_id_differs_from_others_by_more_than_case(tmp_path: Path) -> None:
    (tmp_path / "Notes").mkdir()
    assert make_kb_id("Notes", tmp_path) == make_kb_id("Notes", tmp_path / "none") + "-2"
    assert make_kb_id("notes", tmp_path) == "notes-2"


# --- finding knowledge bases ---


def test_one_is_found_by_id_or_by_name_in_any_unicode_form(tmp_path: Path) -> None:
    put(tmp_path, "one", {"name": unicodedata.normalize("NFD", "회의록"), "sourcePaths": []})
    put(tmp_path, "two", {"name": "one", "sourcePaths": []})
    assert find_kb(tmp_path, "회의록").id == "one"
    assert find_kb(tmp_path, unicodedata.normalize("NFD", "회의록")).id == "one"
    assert find_kb(tmp_path, "one").id == "one", "an id comes before a name"


def test_none_or_several_of_a_name_are_said_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="none yet: `seoga add FOLDER` makes one"):
        find_kb(tmp_path / "none", "x")
    for kb_id in ("a", "b", "c"):
        put(tmp_path, kb_id, {"name": "same" if kb_id != "c" else "", "sourcePaths": []})
    with pytest.raises(NotFoundError, match=r"several have this name: a, b\).*Known: a, b, c"):
        find_kb(tmp_path, "same")
    with pytest.raises(NotFoundError, match="there is no knowledge base 'x'"):
        find_kb(tmp_path, "x")


def test_folders_that_are_no_knowledge_bases_are_passed_over_and_broken_ones_named(tmp_path: Path) -> None:
    put(tmp_path, "good", {"sourcePaths": []})
    put(tmp_path, "bad", "{")
    put(tmp_path, "a..b", {"sourcePaths": []})
    put(tmp_path, ".hidden", {"sourcePaths": []})
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    configs, faults = readable_configs(tmp_path)
    assert [config.id for config in configs] == ["good"]
    assert len(faults) == 2
    assert kb_ids(tmp_path / "file") == []


def test_a_new_one_is_refused_where_there_is_one(tmp_path: Path) -> None:
    new_config(tmp_path, [DOCUMENTS], kb_id="kb", name="이름")
    with pytest.raises(ConfigError, match="already"):
        new_config(tmp_path, [DOCUMENTS], kb_id="kb")
    config = load_config(tmp_path / "kb")
    assert (config.name, config.sources, config.warnings) == ("이름", [DOCUMENTS], ())
    assert config.created


def test_the_base_is_given_or_from_the_environment_or_the_users_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("SEOGA_HOME", "~/mine")
    assert base_folder() == tmp_path / "mine"
    assert base_folder(str(tmp_path / "given")) == tmp_path / "given"
    monkeypatch.delenv("SEOGA_HOME")
    assert base_folder().name == "seoga"
    assert base_folder().is_absolute()


# --- writing ---


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(OSError, match="No space"):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_source_whose_name_is_not_utf8_survives_a_rewrite(tmp_path: Path) -> None:
    odd = os.path.join(ROOT, "odd \udcff 회의")
    config = new_config(tmp_path, [odd], kb_id="kb")
    assert config.sources == [odd]
    assert load_config(save_config(config, name="x").folder).sources == [odd]


def test_names_are_scrubbed() -> None:
    assert scrub("a\x00b\ud800") == "a\ufffdb\ufffd"
    assert scrub(unicodedata.normalize("NFD", "회의")) == "회의"
    parsed: Config = parse_config({"name": "x\x00\udc80", "sourcePaths": []}, Path("kb"))
    assert parsed.name == "x\ufffd\ufffd"


@pytest.mark.parametrize(
    ("preset", "variable"),
    [
        ("OpenAI", "OPENAI_API_KEY"), ("Claude", "ANTHROPIC_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"),
        ("Gemini", "GEMINI_API_KEY"), ("Google", "GEMINI_API_KEY"), ("Voyage", "VOYAGE_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("My Host-2", "MY_HOST_2_API_KEY"),
    ],
)  # fmt: skip
def test_a_preset_names_the_variable_of_its_key(preset: str, variable: str) -> None:
    assert key_variable(preset) == variable
