"""Put seoga into the settings of MCP clients, and take it out again.

    {"mcpServers": {"other": {…}}}  ->  {"mcpServers": {"other": {…}, "seoga": {"command": "uvx", "args": ["seoga"]}}}

A client's file is its user's: only the entry's own characters change, comments and order stay, and a copy is kept
beside it. A file that isn't understood isn't touched. This file starts no client.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import ConfigError, write_atomically

NAME = "seoga"
MAX_SETTINGS_BYTES = 64 * 1024 * 1024  # 64 MB; Claude Code keeps histories in its file


@dataclass(frozen=True, slots=True)
class Client:
    """Where a client keeps its servers: its file on each platform, and the key they are under."""

    title: str
    path: Callable[[Path], Path]  # home -> file
    key: str = "mcpServers"
    typed: bool = False  # an entry says "type": "stdio"
    next_step: str = ""


def _settings_folder(home: Path) -> Path:
    """Return where programs keep a user's settings."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


CLIENTS = {
    "claude-desktop": Client(
        "Claude Desktop", lambda home: _settings_folder(home) / "Claude" / "claude_desktop_config.json",
        next_step="Quit Claude Desktop fully and start it again; seoga is then among its tools.",
    ),
    "claude-code": Client(
        "Claude Code", lambda home: home / ".claude.json", typed=True,
        next_step="Start a new session; `/mcp` shows seoga.",
    ),
    "cursor": Client(
        "Cursor", lambda home: home / ".cursor" / "mcp.json",
        next_step="Open Cursor's settings, MCP, and see that seoga is switched on.",
    ),
    "vscode": Client(
        "VS Code", lambda home: _settings_folder(home) / "Code" / "User" / "mcp.json", key="servers", typed=True,
        next_step="Run the command `MCP: List Servers` and start seoga.",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What was done, or would be, to a client's file. `before` and `after` are its whole text."""

    path: Path
    before: str
    after: str
    backup: Path | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def command() -> list[str]:
    """Return what starts this seoga: `uvx seoga` if it came so, else the full path of its script.

    Programs with windows have another PATH than terminals, so the path is written out.
    """
    script = Path(sys.executable).with_name("seoga.exe" if sys.platform == "win32" else "seoga")
    uvx = shutil.which("uvx")
    is_passing = any(
        part.startswith(("archive-v", "builds-v", "environments-v")) for part in script.parts
    )  # uv's cache
    if uvx and (is_passing or not script.exists()):
        return [uvx, "seoga"]
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "seoga.rag"]


def entry(client: Client, start: list[str], variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Make the entry that a client needs; bare `seoga` serves, as its input is a pipe."""
    kind = {"type": "stdio"} if client.typed else {}
    env = {"env": dict(variables)} if variables else {}
    return {**kind, "command": start[0], "args": [*start[1:], "serve"], **env}


def set_up(
    client: Client, home: Path, *, start: list[str], variables: Mapping[str, str] | None = None, undo: bool = False,
    dry_run: bool = False,
) -> Change:  # fmt: skip
    """Write the entry into the client's file, or take it out (`undo`), after a copy was put beside it.

    Raises ConfigError if the file is not what it should be, or can't be written; then nothing has changed.
    """
    path = client.path(home)
    path = Path(os.path.realpath(path))  # a link, to a folder of dotfiles say, stays a link
    before, bom = _read(path)
    try:
        after = without(before, client.key) if undo else with_entry(before, client.key, entry(client, start, variables))
    except ValueError as error:
        raise ConfigError(f"{path} is left as it is: {error}. Correct it in an editor, then try again.") from None
    backup = None
    if before != after and not dry_run:
        try:
            backup = _back_up(path)
            write_atomically(path, bom + after.encode("utf-8", "surrogatepass"))
            if backup:
                shutil.copymode(backup, path)
        except OSError as error:
            raise ConfigError(f"{path} can't be written: {error.strerror}. Nothing was changed.") from None
    return Change(path, before, after, backup)


def has_entry(client: Client, home: Path) -> bool:
    """Tell whether the client's file has seoga's entry; one that can't be read has none."""
    try:
        text, _ = _read(client.path(home))
        section = _root(text).find(client.key) if text.strip() else None
        return section is not None and _object(text, section, client.key).find(NAME) is not None
    except (ConfigError, ValueError):
        return False


def _read(path: Path) -> tuple[str, bytes]:
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_SETTINGS_BYTES else None
    except FileNotFoundError:
        return "", b""
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from None
    if data is None:
        raise ConfigError(f"{path} is larger than {MAX_SETTINGS_BYTES // 1024**2} MB, so it is no settings file.")
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    try:
        return data[len(bom) :].decode(), bom
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text, so it is left as it is.") from None


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.seoga-backup-{time.strftime('%Y%m%d-%H%M%S')}")
    shutil.copy2(path, backup)
    return backup


# --- changing JSON with comments in its place ---

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|[{}\[\]:,]|[^\s{}\[\]:,"/]+|\S', re.DOTALL)


@dataclass(slots=True)
class _Member:
    name: str
    start: int  # of its name
    value: int  # where its value begins
    end: int  # and ends


@dataclass(slots=True)
class _Object:
    """An object's place in the text: of its braces, and of its members."""

    start: int
    end: int
    members: list[_Member]

    def find(self, name: str) -> _Member | None:
        return next((member for member in self.members if member.name == name), None)


def with_entry(text: str, key: str, value: dict[str, Any]) -> str:
    """Return the text with `{key: {"seoga": value}}` in it; raises ValueError saying what is wrong with the text."""
    root = _root(text or "{}")
    text = text or "{}"
    section = root.find(key)
    if section is None:
        return _inserted(text, root, key, {NAME: value}, 1)
    inside = _object(text, section, key)
    known = inside.find(NAME)
    if known is None:
        return _inserted(text, inside, NAME, value, 2)
    if _value(text[known.value : known.end]) == value:
        return text
    return text[: known.value] + _shown(text, value, 2) + text[known.end :]


def without(text: str, key: str) -> str:
    """Return the text without the entry; one that has none comes back as it is."""
    section = _root(text).find(key) if text.strip() else None
    known = _object(text, section, key).find(NAME) if section else None
    if section is None or known is None:
        return text
    others = _object(text, section, key).members
    at = others.index(known)
    if at > 0:  # with the comma before it
        return text[: others[at - 1].end] + text[known.end :]
    end = others[1].start if len(others) > 1 else known.end
    start = known.start if len(others) > 1 else len(text[: known.start].rstrip())
    return text[:start] + (text[end:] if len(others) > 1 else text[end:].lstrip(", \t\r\n"))


def _object(text: str, member: _Member, name: str) -> _Object:
    if text[member.value] != "{":
        raise ValueError(f'"{name}" holds no object')
    return _objects(text)[member.value]


def _root(text: str) -> _Object:
    first = next((token for token in _tokens(text)), None)
    if first is None or first[0] != "{" or not isinstance(_value(text), dict):
        raise ValueError("it holds no JSON object")
    return _objects(text)[first[1]]


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return tokens and their places, without comments."""
    found = ((match[0], match.start()) for match in _TOKEN.finditer(text))
    return [token for token in found if not token[0].startswith(("//", "/*"))]


def _objects(text: str) -> dict[int, _Object]:
    """Find every object of a text that is known to be sound, by the place of its brace."""
    objects: dict[int, _Object] = {}
    stack: list[tuple[str, int]] = []  # open brackets
    tokens = _tokens(text)
    for number, (token, at) in enumerate(tokens):
        if token in "{[":
            stack.append((token, at))
            if token == "{":
                objects[at] = _Object(at, at, [])
        elif token in "}]":
            objects.get(stack.pop()[1], _Object(0, 0, [])).end = at + 1
            if stack and stack[-1][0] == "{":
                objects[stack[-1][1]].members[-1].end = at + 1
        elif stack and stack[-1][0] == "{" and token not in ",:":
            members = objects[stack[-1][1]].members
            if tokens[number + 1][0] == ":":
                members.append(_Member(json.loads(token), at, tokens[number + 2][1], 0))
            else:
                members[-1].end = at + len(token)
    return objects


def _value(text: str) -> Any:
    """Read JSON that may have comments and commas before a closing bracket."""
    tokens = [token for token, _ in _tokens(text)]
    kept = [
        token
        for number, token in enumerate(tokens)
        if not (token == "," and number + 1 < len(tokens) and tokens[number + 1] in "}]")
    ]
    try:
        return json.loads("\n".join(kept))  # no broken string becomes a sound one
    except ValueError:
        raise ValueError("it is no sound JSON") from None


def _inserted(text: str, into: _Object, name: str, value: dict[str, Any], depth: int) -> str:
    """Add a member after the last one, in the text's own way of indenting."""
    end, indent = _line_end(text), _indent(text)
    member = f"{end}{indent * depth}{json.dumps(name)}: {_shown(text, value, depth)}"
    if into.members:
        last = into.members[-1].end
        return f"{text[:last]},{member}{text[last:].removeprefix(',') if _has_comma(text, last) else text[last:]}"
    closing = f"{end}{indent * (depth - 1)}"
    return f"{text[: into.start + 1]}{member}{closing}{text[into.end - 1 :]}"


def _has_comma(text: str, at: int) -> bool:
    return text[at : at + 1] == ","


def _shown(text: str, value: dict[str, Any], depth: int) -> str:
    indent = _indent(text)
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return (_line_end(text) + indent * depth).join(lines)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    found = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return found[0] if found else "  "
