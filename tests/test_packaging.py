"""What is shipped: the wheel, the source archive, and the commands that README and Justfile show."""

from __future__ import annotations

import argparse
import email
import email.message
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seoga.config import VERSION
from seoga.rag import build_parser

ROOT = Path(__file__).parents[1]
MODULES = {path.name for path in ROOT.glob("*.py")}
MADE = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "uv.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


DATA = {"py.typed", "page.html", "page.js"}


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive of a copy of the root, and the wheel built from that archive."""
    copy = tmp_path_factory.mktemp("packaging") / "copy"
    shutil.copytree(ROOT, copy, ignore=MADE)
    if (ROOT / ".ci").is_dir():
        shutil.copytree(ROOT / ".ci", copy / ".ci")
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", str(copy)]
    done = subprocess.run(command, cwd=copy.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        yield archive


def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_wheel_holds_the_modules_of_the_root_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {f"seoga/{name}" for name in MODULES} | {f"seoga/{name}" for name in DATA}
    described = {name.split(".dist-info/")[1] for name in wheel.namelist() if ".dist-info/" in name}
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"} <= described


def test_the_wheel_is_for_every_platform_and_starts_rag(wheel: zipfile.ZipFile, dist: Path) -> None:
    assert next(dist.glob("*.whl")).name == f"seoga-{PROJECT['version']}-py3-none-any.whl"
    entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert wheel.read(entry).decode().split() == ["[console_scripts]", "seoga", "=", "seoga.rag:main"]


def test_the_source_archive_holds_what_tests_and_samples_need_and_no_caches(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    generated = {"PKG-INFO", "setup.cfg"} | {name for name in names if name.startswith("seoga.egg-info/")}
    files = {"CHANGELOG.md", "Justfile", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", ".ci/run"} | DATA
    folders = {
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "samples", "bench")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert names - generated == MODULES | files | folders


def test_the_version_is_the_same_everywhere(wheel: zipfile.ZipFile) -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert metadata(wheel)["Version"] == PROJECT["version"] == newest[1] == VERSION


def test_every_dependency_has_a_lower_and_an_upper_bound(wheel: zipfile.ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist") or []
    assert required
    assert [one for one in required if ">=" not in one or "<" not in one] == []


def test_what_is_imported_is_what_is_declared() -> None:
    sources = "".join((ROOT / name).read_text(encoding="utf-8") for name in MODULES)
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)[\w.]*(?= import |$| as |,)", sources, re.MULTILINE))
    declared = {re.split("[<>=]", one)[0].replace("-", "_") for one in PROJECT["dependencies"]}
    imported = {"pillow" if name == "PIL" else name for name in imported}
    with_others = {"anyio", "mcp_types", "pydantic", "_typeshed"}  # of the interface of mcp; of type checkers
    assert imported - set(sys.stdlib_module_names) - with_others == declared


# --- the commands that people copy ---

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL_BLOCKS = re.findall(r"^```(?:sh|console|bash|shell)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
STARTED = re.compile(r"(?:^|.*\buvx (?:--from \S+ )?|.*\buv run (?:-q )?)seoga(?= |$)")


def seoga_commands(block: str) -> list[list[str]]:
    """Return the arguments of each `seoga …` in a shell block, however it is started; fail on one not understood."""
    found = []
    for line in block.splitlines():
        words = shlex.split(line, comments=True, posix=False)  # quotes stay
        for command in " ".join(words).split(" && "):
            if re.search(r"\bseoga\b", command):
                start = STARTED.match(command)
                assert start, f"how does this start seoga? {command}"
                found.append(shlex.split(command[start.end() :]))
    return found


COMMANDS = [command for block in SHELL_BLOCKS for command in seoga_commands(block)]


def subcommands() -> set[str]:
    actions = build_parser()._actions
    return {name for one in actions if isinstance(one, argparse._SubParsersAction) for name in one.choices}


def test_readme_opens_with_two_commands_of_one_line_each() -> None:
    first, second = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[:2]
    assert first.count("\n") == second.count("\n") == 1
    assert [command[0] for command in seoga_commands(first)] == ["add", "search", "search"]
    assert second.rstrip().endswith("pytest -n 2")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_readme_commands_are_understood(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        build_parser().parse_args(arguments)
    except SystemExit:
        pytest.fail(f"seoga {shlex.join(arguments)}: {capsys.readouterr().err}")


def test_commands_named_in_the_text_of_readme_and_changelog_exist() -> None:
    pages = README + (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`seoga ([a-z][a-z-]*)", pages))
    assert named
    assert named - subcommands() == set()
    assert {"add", "search", "status", "remove", "serve"} <= {command[0] for command in COMMANDS if command}


def just(*arguments: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name("just.exe" if sys.platform == "win32" else "just")
    program = str(beside) if beside.exists() else shutil.which("just")
    assert program, "just is missing; it comes with the dev dependencies (rust-just)"
    command = [program, "--justfile", str(ROOT / "Justfile"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=True)


def test_the_justfile_is_a_manual_of_its_recipes() -> None:
    lines = just("--list", "--unsorted").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines][:5] == ["default", "index", "search", "serve", "status"]
    assert [line for line in lines if "#" not in line] == []


@pytest.mark.parametrize("recipe", [["index", "a b"], ["search", "무엇"], ["serve"], ["status"]], ids=" ".join)
def test_the_recipes_for_people_run_commands_that_exist(recipe: list[str]) -> None:
    shown = just("--dry-run", *recipe).stderr
    assert set(re.findall(r"seoga ([a-z-]+)", shown)) <= subcommands()
    assert '"$@"' in shown
