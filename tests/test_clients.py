"""clients.py, doctor.py: a client's settings change by the entry alone, and what is missing here is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from seoga import clients, doctor
from seoga.clients import CLIENTS, Client, set_up, with_entry, without
from seoga.config import ConfigError, new_config

START = ["/opt/bin/uvx", "seoga"]
ENTRY = {"command": "/opt/bin/uvx", "args": ["seoga", "serve"]}
SETTINGS = [
    "",
    "{}",
    "{ }\n",
    '{"a":1}',
    '{\n    "a": [1, {"b": "}"}],\n    "mcpServers": {\n        "x": {"command": "y"}\n    }\n}\n',
    '{\r\n  // "mcpServers": {}\r\n  "mcpServers": {\r\n    "x": {"command": "y"}, /* } */\r\n  },\r\n}\r\n',
    '{"mcpServers":{"seoga":{"command":"old"}},"z":1}',
    '{"mcpServers":{"seoga":{"command":"old"},"b":{}}}',
    '{"mcpServers":{"a":{},"seoga":{"command":"old"},"b":{}}}',
    '{"mcpServers": {}, "p": {"mcpServers": {"k": "\\u003c\\"{"}}}',
    '{\n\t"한글": "값",\n\t"mcpServers": {\n\t\t"x": {}\n\t}\n}',
]


def values(text: str) -> dict[str, Any]:
    return dict(clients._value(text)) if text.strip() else {}


def rest(text: str) -> dict[str, Any]:
    """Return all that a file says but seoga's entry."""
    found = values(text)
    servers = {name: value for name, value in found.get("mcpServers", {}).items() if name != "seoga"}
    return {**found, "mcpServers": servers}


@pytest.mark.parametrize("text", SETTINGS)
def test_the_entry_is_added_and_taken_out_and_all_else_stays(text: str) -> None:
    added = with_entry(text, "mcpServers", ENTRY)
    assert values(added)["mcpServers"]["seoga"] == ENTRY
    assert rest(added) == rest(text)
    assert with_entry(added, "mcpServers", ENTRY) == added
    assert rest(without(added, "mcpServers")) == rest(text)
    assert "seoga" not in values(without(added, "mcpServers"))["mcpServers"]


def test_every_other_character_stays_where_it_was() -> None:
    text = SETTINGS[4]
    assert without(with_entry(text, "mcpServers", ENTRY), "mcpServers") == text
    for text in SETTINGS[3:5] + SETTINGS[10:]:
        lines = with_entry(text, "mcpServers", ENTRY).splitlines()
        for line in text.splitlines():
            assert any(line.rstrip(",}") in kept for kept in lines), line
    assert "\r\n" in with_entry(SETTINGS[5], "mcpServers", ENTRY).replace("\n", "\r\n")
    assert "\n" not in with_entry(SETTINGS[5], "mcpServers", ENTRY).replace("\r\n", "")


@pytest.mark.parametrize("text", ["[1]", "{", '{"mcpServers": 3}', '{"a" 1}', "nul", '{"a": 1} x', '{"a": "\n"}'])
def test_what_is_not_understood_is_not_touched(tmp_path: Path, text: str) -> None:
    path = CLIENTS["cursor"].path(tmp_path)
    path.parent.mkdir()
    path.write_text(text)
    for undo in (False, True):
        if undo and text == '{"mcpServers": 3}':
            continue
        with pytest.raises(ConfigError, match="left as it is"):
            set_up(CLIENTS["cursor"], tmp_path, start=START, undo=undo)
    assert path.read_text() == text
    assert [name.name for name in path.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.title)
def test_each_clients_file_is_made_and_undone(tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    change = set_up(client, tmp_path, start=START, variables={"SEOGA_HOME": "/데이터"})
    assert change.backup is None
    made = json.loads(change.path.read_text(encoding="utf-8"))[client.key]["seoga"]
    assert made == {**({"type": "stdio"} if client.typed else {}), **ENTRY, "env": {"SEOGA_HOME": "/데이터"}}
    assert clients.has_entry(client, tmp_path)
    undone = set_up(client, tmp_path, start=START, undo=True)
    assert undone.backup is not None
    assert json.loads(undone.backup.read_text(encoding="utf-8"))[client.key]["seoga"] == made
    assert not clients.has_entry(client, tmp_path)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    change = set_up(CLIENTS["cursor"], tmp_path, start=START, dry_run=True)
    assert change.is_needed
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link_and_a_mark_a_mark(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_bytes(b"\xef\xbb\xbf{}")
    path = CLIENTS["cursor"].path(tmp_path)
    path.parent.mkdir()
    path.symlink_to(real)
    set_up(CLIENTS["cursor"], tmp_path, start=START)
    assert path.is_symlink()
    assert real.read_bytes().startswith(b"\xef\xbb\xbf{")
    assert clients.has_entry(CLIENTS["cursor"], tmp_path)


def test_the_paths_of_each_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("APPDATA", str(tmp_path / "Roaming"))
    desktop = CLIENTS["claude-desktop"].path
    for platform, folder in (
        ("linux", tmp_path / ".config"),
        ("darwin", tmp_path / "Library" / "Application Support"),
        ("win32", tmp_path / "Roaming"),
    ):
        monkeypatch.setattr(clients.sys, "platform", platform)
        assert desktop(tmp_path) == folder / "Claude" / "claude_desktop_config.json"


def test_the_command_is_one_that_starts(tmp_path: Path) -> None:
    start = clients.command()
    assert os.path.isabs(start[0])
    assert os.path.exists(start[0])


# --- doctor ---


def test_every_check_that_finds_something_missing_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    new_config(tmp_path / "base", [str(tmp_path / "docs")], kb_id="kb")
    (tmp_path / "base" / "broken").mkdir()
    (tmp_path / "base" / "broken" / "config.json").write_text("{")
    checks = doctor.examine(tmp_path / "base")
    assert [check.name for check in checks if check.state != doctor.OK and not check.remedy] == []
    (fault,) = [check for check in checks if check.state == doctor.FAULT]
    assert "broken" in fault.seen
    assert {"scanned pages", "recordings", "search by meaning", "keys", "clients"} <= {check.name for check in checks}


def test_keys_are_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    (tmp_path / "docs").mkdir()
    model = {"provider": "voyage", "model": "voyage-3", "apiKeyPreset": "Voyage"}
    new_config(tmp_path / "base", [str(tmp_path / "docs")], kb_id="kb", embedding=model)
    (check,) = [check for check in doctor.examine(tmp_path / "base") if check.name == "keys"]
    assert (check.state, "VOYAGE_API_KEY" in check.seen) == (doctor.MISSING, True)
    assert "sk-secret" not in str(doctor.examine(tmp_path / "base"))
