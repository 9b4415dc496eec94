"""rag.py: what people type and programs read: results, messages, exit codes, terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from seoga import rag
from seoga.config import CONFIG_NAME, DEFAULT_LOCAL_MODEL, find_kb, kb_ids, load_config
from seoga.index import Outcome
from seoga.server import make_server
from seoga.store import read_indexer, writer_lock
from seoga.tools import Tools

SEOGA = [sys.executable, "-P", "-m", "seoga.rag"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and signals are POSIX's")


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The base folder that commands find; signal handlers are put back."""
    monkeypatch.setenv("SEOGA_HOME", str(tmp_path / "base"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path / "base"
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return write(
        tmp_path / "documents",
        {
            "minutes.md": "# 3월 회의\n\n예산은 42억 원이다.\n\n## 안건\n\n주차장 공사를 정했다.",
            "lease.txt": "The rent is 1,200 a month. Notice is three months.",
            "sub/table.csv": "name,city\n김,부산\nLee,Seoul\n",
            "picture.xyz": "no reader for this",
        },
    )


def write(folder: Path, documents: dict[str, str | bytes]) -> Path:
    for name, content in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


class Ran:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def words_only(arguments: Sequence[str | Path]) -> list[str]:
    """Have `add` configure no model, which would be downloaded."""
    given = [str(argument) for argument in arguments]
    return [*given, "--no-embedding"] if given[:1] == ["add"] else given


@pytest.fixture
def seoga(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        try:
            code = rag.main(words_only(arguments))
        except SystemExit as leaving:  # argparse
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def spawn(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60, "check": False, **options}
    return subprocess.run([*SEOGA, *words_only(arguments)], **options)


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Poll until the condition holds, and return what it returned; fail after the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return value


# --- add ---


def test_add_makes_a_knowledge_base_named_after_the_folder_and_indexes_it(
    seoga: Run, base: Path, documents: Path
) -> None:
    ran = seoga("add", documents)
    assert ran.code == 0
    assert ran.out == "documents: 3 added, 1 skipped\n"
    assert "New knowledge base documents (id documents)" in ran.err
    config = find_kb(base, "documents")
    assert (config.id, config.name, config.sources) == ("documents", "documents", [str(documents)])
    assert seoga("search", "예산", "--json").json()["results"][0]["source_path"] == str(documents / "minutes.md")


def test_add_again_indexes_what_changed_and_makes_no_second_one(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    write(documents, {"new.md": "new", "lease.txt": "The rent is 1,300."})
    (documents / "minutes.md").unlink()
    ran = seoga("add", documents)
    assert ran.out == "documents: 1 added, 1 updated, 1 unchanged, 1 removed, 1 skipped\n"
    assert "up to date" in ran.err
    assert kb_ids(base) == ["documents"]
    assert seoga("add", documents / "").out == "documents: 3 unchanged, 1 skipped\n"


def test_add_takes_a_name_and_an_id_and_finds_them_again(
    seoga: Run, base: Path, documents: Path, tmp_path: Path
) -> None:
    other = write(tmp_path / "other", {"other.md": "other rent"})
    assert seoga("add", documents, "--name", "계약서", "--id", "contracts").code == 0
    assert seoga("add", other, "--id=contracts").code == 0
    assert seoga("add", documents, "--name", unicodedata.normalize("NFD", "계약서")).code == 0
    assert kb_ids(base) == ["contracts"]
    config = find_kb(base, "계약서")
    assert config.sources == [str(documents), str(other)]
    assert {hit["kb_id"] for hit in seoga("search", "rent", "--json").json()["results"]} == {"contracts"}


def test_a_korean_folder_gets_a_random_id_and_is_found_by_its_name(seoga: Run, base: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / unicodedata.normalize("NFD", "회의록 모음"), {"a.md": "회의에서 정했다."})
    assert seoga("add", folder).code == 0
    [kb_id] = kb_ids(base)
    assert kb_id.startswith("kb-")
    assert find_kb(base, "회의록 모음").id == kb_id
    assert seoga("search", "회의", "--kb", "회의록 모음", "--json").json()["results"]
    assert seoga("add", folder).out.endswith("1 unchanged\n")
    assert kb_ids(base) == [kb_id]


def test_several_folders_make_one_knowledge_base(seoga: Run, base: Path, documents: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", {"other.md": "other rent"})
    assert seoga("add", documents, other).code == 0
    [kb_id] = kb_ids(base)
    assert load_config(base / kb_id).sources == [str(documents), str(other)]
    names = {Path(hit["source_path"]).name for hit in seoga("search", "rent", "--json").json()["results"]}
    assert names == {"lease.txt", "other.md"}


def test_globs_limit_what_is_indexed_and_are_added_to(seoga: Run, base: Path, documents: Path) -> None:
    ran = seoga("add", documents, "--include", "*.md", "--include=*.csv", "--exclude", "sub/")
    assert ran.out.startswith("documents: 1 added")
    config = find_kb(base, "documents")
    assert (config.include_globs, config.exclude_globs) == (("*.md", "*.csv"), ("sub/",))
    seoga("add", documents, "--include", "*.txt")
    assert find_kb(base, "documents").include_globs == ("*.md", "*.csv", "*.txt")
    assert seoga("status", "--json").json()[0]["total_files"] == 2


def test_a_file_and_a_missing_folder_are_refused_with_a_remedy(seoga: Run, base: Path, documents: Path) -> None:
    ran = seoga("add", documents / "lease.txt")
    assert (ran.code, ran.out) == (1, "")
    assert "is a file. Name the folder it lies in" in ran.err
    ran = seoga("add", documents / "nowhere")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no folder" in ran.err
    assert "a whole drive" in seoga("add", os.path.abspath(os.sep)).err
    assert kb_ids(base) == []


@pytest.mark.parametrize("kb_id", ["../x", "CON", "a/b", "a..b", "-x", "x" * 65, "", "한글"])
def test_an_id_that_is_no_id_is_refused(seoga: Run, base: Path, documents: Path, kb_id: str) -> None:
    ran = seoga("add", documents, f"--id={kb_id}")
    if kb_id:
        assert ran.code == 1
        assert "is no knowledge-base id" in ran.err
        assert kb_ids(base) == []
    else:
        assert kb_ids(base) == ["documents"], "empty is as left out"


def test_a_failed_file_is_named_with_its_reason_and_the_exit_code_says_so(seoga: Run, documents: Path) -> None:
    write(documents, {"broken.pdf": b"no pdf"})
    ran = seoga("add", documents)
    assert ran.code == 1
    assert ran.out == "documents: 3 added, 1 failed, 1 skipped\n"
    assert str(documents / "broken.pdf") in ran.err
    again = seoga("add", documents)
    assert again.code == 0, "it is not read again until it changes"


def test_add_prints_its_outcome_as_json(seoga: Run, documents: Path) -> None:
    outcome = seoga("add", documents, "--json").json()
    assert (outcome["kb_id"], outcome["status"], outcome["added"], outcome["failures"]) == ("documents", "done", 3, [])


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_a_folder_whose_name_is_not_utf8_is_added_found_and_added_again(seoga: Run, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    write(folder, {"a.md": "budget"})
    assert seoga("add", folder).code == 0
    assert seoga("add", folder).out.endswith("1 unchanged\n")
    assert seoga("search", "budget", "--json").json()["results"][0]["source_path"].endswith("d\ufffd/a.md")
    assert seoga("status").code == 0


def test_a_base_that_can_not_be_written_is_a_message(seoga: Run, documents: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = seoga("add", documents, "--base-path", tmp_path / "file")
    assert ran.code == 1
    assert "Check permissions" in ran.err


# --- search ---


def test_results_are_plain_text_with_a_citation_when_they_are_piped(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    ran = seoga("search", "예산")
    lines = ran.out.splitlines()
    assert lines[0].startswith("1. minutes.md, ")
    assert "3월 회의" in lines[0]
    assert lines[1].strip() == str(documents / "minutes.md")
    assert "예산은 42억 원이다." in lines[2]
    assert "\x1b" not in ran.out


def asked(base: Path, tool: str, **arguments: Any) -> Any:
    """Return a tool's structured result, as an MCP client gets it."""

    async def main() -> Any:
        async with Client(make_server(Tools(base))) as client:
            return (await client.call_tool(tool, arguments)).structured_content

    return anyio.run(main)


def test_json_equals_what_the_tool_returns(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    ran = seoga("search", "rent", "예산", "--top-k=2", "--mode=hybrid", "--file-type", "txt,md", "--json")
    expected = asked(base, "search_documents", query="rent 예산", top_k=2, search_mode="hybrid", file_type="txt,md")
    assert len(expected["results"]) == 2
    assert ran.json() == expected
    assert ran.err == ""
    explained = seoga("search", "rent", "--json", "--explain").json()["results"][0]["explanation"]
    assert explained["legs"] == ["words"]
    assert explained["terms"]
    assert seoga("status", "--json").json() == asked(base, "get_index_info")["knowledge_bases"]


def test_filters_and_explanations_work_on_the_command_line(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    assert "table.csv" in seoga("search", "부산", "--path-prefix", "sub").out
    assert "Nothing found." in seoga("search", "부산", "--path-prefix", "minutes").out
    assert "no indexed file passes" in seoga("search", "부산", "--file-type=pptx").err
    explained = seoga("search", "rent", "month", "--explain").out
    assert "found by words; terms: " in explained
    assert "rent" in explained.split("terms: ")[1]


def test_nothing_found_is_said_and_is_no_error(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    ran = seoga("search", "존재하지않는낱말")
    assert (ran.code, ran.out) == (0, "Nothing found.\n")
    assert seoga("search", "xyzzy", "--json").json()["results"] == []


def test_without_a_knowledge_base_commands_say_how_to_make_one(seoga: Run) -> None:
    assert "seoga add" in seoga("search", "x").err
    assert "seoga add FOLDER" in seoga("status").out
    ran = seoga("search", "x", "--kb", "none")
    assert ran.code == 1
    assert "there is no knowledge base 'none'" in ran.err
    assert seoga("status", "--json").json() == []


@pytest.mark.parametrize(
    "wrong", [["--top-k", "0"], ["--top-k=51"], ["--top-k", "five"], ["--mode", "fast"], ["--nope"]]
)
def test_wrong_arguments_are_an_error_and_not_a_cancellation(seoga: Run, wrong: list[str]) -> None:
    ran = seoga("search", "x", *wrong)
    assert (ran.code, ran.out) == (1, "")
    assert "usage: seoga" in ran.err
    assert wrong[0].partition("=")[0] in ran.err.splitlines()[-1]


CONTROLS = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eevil\u2066 \r\x08\x7f budget"


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not possible there")
def test_no_control_character_of_a_document_reaches_the_terminal(seoga: Run, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "d\x1b[31m",
        {
            f"budget {CONTROLS}\n2. trusted.md.txt": f"{CONTROLS}\n\n{CONTROLS}",
            f"broken{CONTROLS}.pdf": b"x",
            f"{CONTROLS}.{CONTROLS[:6]}": b"",
        },
    )
    runs = [
        seoga("add", folder, "--name", f"name{CONTROLS}"),
        seoga("search", "budget", "--explain"),
        seoga("status", "--changes"),
        seoga("search", CONTROLS),
        seoga("search", "x", "--kb", CONTROLS),
        seoga("add", CONTROLS),
        seoga("search", "x", "--top-k", CONTROLS),
    ]
    for ran in runs:
        for character in ran.out + ran.err:
            assert character == "\n" or (ord(character) >= 32 and not 0x7F <= ord(character) <= 0x9F), repr(ran.out)
            assert not 0x202A <= ord(character) <= 0x202E
            assert not 0x2066 <= ord(character) <= 0x2069
    assert sum(line.startswith("2. ") for line in runs[1].out.splitlines()) == 0


# --- status ---


def test_status_tells_totals_problems_and_changes(seoga: Run, documents: Path) -> None:
    write(documents, {"broken.pdf": b"no pdf"})
    seoga("add", documents)
    write(documents, {"later.md": "later"})
    ran = seoga("status", "--changes")
    assert ran.code == 0
    assert "documents (id documents): ready" in ran.out
    assert "4 files (1 Failed, 3 Ready)" in ran.out
    assert f"Failed: {documents / 'broken.pdf'}: " in ran.out
    assert "passed over: 1, no reader for .xyz" in ran.out
    assert "changes: 1 added, 1 failed" in ran.out
    [info] = seoga("status", "documents", "--json").json()
    assert (info["kb_id"], info["status"], info["total_files"]) == ("documents", "ready", 4)


def test_status_names_a_broken_configuration_and_shows_the_others(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    write(base / "bad", {CONFIG_NAME: "{"})
    ran = seoga("status")
    assert ran.code == 1
    assert "id documents" in ran.out
    assert os.path.join("bad", CONFIG_NAME) in ran.err
    assert [info["kb_id"] for info in seoga("status", "--json").json()] == ["documents"]


# --- remove ---


def test_remove_forgets_the_index_and_touches_no_document(seoga: Run, base: Path, documents: Path) -> None:
    before = {path: path.read_bytes() for path in documents.rglob("*") if path.is_file()}
    seoga("add", documents, "--name", "서류")
    ran = seoga("remove", "서류", "--yes")
    assert (ran.code, "No document was touched." in ran.out) == (0, True)
    assert list(base.iterdir()) == []
    assert {path: path.read_bytes() for path in documents.rglob("*") if path.is_file()} == before
    assert seoga("remove", "서류", "--yes").code == 1


def test_remove_asks_first_and_refuses_without_a_terminal(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    done = spawn("remove", "documents", input=b"y\n", stdin=None)
    assert done.returncode == 1
    assert b"--yes" in done.stderr
    assert kb_ids(base) == ["documents"]


@posix
@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 2, ["documents"]), (b"y\n", 0, [])])
def test_remove_does_what_is_answered(
    seoga: Run, base: Path, documents: Path, answer: bytes, code: int, left: list[str]
) -> None:
    seoga("add", documents)
    ran = on_terminal("remove", "documents", typed=answer)
    assert ran.code == code
    assert "The documents stay. [y/N]" in ran.err
    assert kb_ids(base) == left


def test_remove_leaves_a_knowledge_base_that_is_being_indexed(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    with writer_lock(base / "documents"):
        ran = seoga("remove", "documents", "--yes")
    assert ran.code == 3
    assert f"process {os.getpid()}" in ran.err
    assert kb_ids(base) == ["documents"]


# --- exec ---


def configure(base: Path, folder: Path, **settings: Any) -> Path:
    return write(base / "kb", {CONFIG_NAME: json.dumps({"sourcePaths": [str(folder)], **settings})})


def test_exec_indexes_by_folder_in_either_way_to_write_flags(seoga: Run, base: Path, documents: Path) -> None:
    kb = configure(base, documents)
    ran = seoga("exec", f"--path={kb}")
    assert (ran.code, ran.out) == (0, "kb: 3 added, 1 skipped\n")
    ran = seoga("exec", "--path", kb, "--json", "--force")
    assert (ran.code, ran.json()["status"], ran.json()["updated"] + ran.json()["reused"]) == (0, "done", 3)


def test_exec_verbose_names_each_file_on_standard_error(seoga: Run, base: Path, documents: Path) -> None:
    ran = seoga("exec", "--path", configure(base, documents), "-v")
    assert "reading" in ran.err
    assert ran.out == "kb: 3 added, 1 skipped\n"


def test_exec_tells_failure_of_a_file_by_its_exit_code(seoga: Run, base: Path, documents: Path) -> None:
    write(documents, {"broken.pdf": b"no pdf"})
    assert seoga("exec", "--path", configure(base, documents)).code == 1


def test_exec_says_who_holds_the_lock(seoga: Run, base: Path, documents: Path) -> None:
    kb = configure(base, documents)
    with writer_lock(kb):
        done = spawn("exec", "--path", kb)
    assert done.returncode == 3
    assert f"process {os.getpid()}" in done.stderr.decode()
    assert done.stdout == b""


def slow(tmp_path: Path) -> Path:
    """Documents that take a while to index."""
    text = "\n\n".join(f"# Part {n}\n\n{'회의 예산 견적 부산 검진 ' * 60}" for n in range(40))
    return write(tmp_path / "slow", {f"{n}.md": f"{n} {text}" for n in range(300)})


@posix
@pytest.mark.parametrize("how", ["cancel file", "SIGINT", "SIGTERM"])
def test_exec_that_is_cancelled_ends_soon_with_two_and_keeps_what_was_read(
    seoga: Run, base: Path, tmp_path: Path, how: str
) -> None:
    kb = configure(base, slow(tmp_path))
    (kb / "cancel").touch()  # left from an earlier run: ignored
    with subprocess.Popen([*SEOGA, "exec", "--path", str(kb), "--json"], stdout=subprocess.PIPE, text=True) as process:
        until(lambda: (read_indexer(kb) or {}).get("done"))
        if how == "cancel file":
            (kb / "cancel").touch()
        else:
            process.send_signal(getattr(signal, how))
        began = time.monotonic()
        out, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert process.returncode == 2
    assert json.loads(out)["status"] == "cancelled"
    assert not (kb / "cancel").exists()
    [info] = seoga("status", "--json").json()
    assert (info["status"], info["last_run"]["outcome"]) == ("ready", "cancelled")


def test_a_dry_run_reads_and_writes_nothing(seoga: Run, base: Path, documents: Path) -> None:
    kb = configure(base, documents)

    def state() -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in kb.iterdir()}

    before = state()
    ran = seoga("exec", "--path", kb, "--dry-run", "--json")
    counts = ran.json()
    assert (counts["files"], counts["deleted"], counts["notes"]) == (3, 0, [])
    assert counts["chunks"] >= 3
    assert (counts["contexts"]["calls"], counts["embedding"]["calls"]) == (0, 0)
    assert state() == before
    seoga("exec", "--path", kb)
    write(documents, {"later.md": "later"})
    (documents / "lease.txt").unlink()
    before = state()
    ran = seoga("exec", "--path", kb, "--dry-run", "-v")
    assert ran.out == f"{documents / 'later.md'}\n1 files would be read, 1 would be looked at for purging.\n"
    assert {name: value for name, value in state().items() if name in before} == before
    assert seoga("exec", "--path", kb, "--dry-run", "--force", "--json").json()["files"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "holds a list, where one JSON object is needed"),
        ('{"sourcePaths": "x"}', 'sourcePaths is "x"; a list of non-empty strings is needed'),
        ('{"maxFileSizeMb": -5}', "maxFileSizeMb is -5; a whole number from 1 to 4096 is needed"),
        ('{"ocr": {"dpi": "high"}}', 'ocr.dpi is "high"; a whole number from 50 to 1200 is needed'),
        ('{"sourcePaths": ["docs"]}', "which is not an absolute path"),
    ],
)
def test_a_bad_configuration_is_told_by_file_key_value_and_what_is_allowed(
    seoga: Run, base: Path, text: str, message: str
) -> None:
    kb = write(base / "kb", {CONFIG_NAME: text})
    ran = seoga("exec", "--path", kb)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert str(kb / CONFIG_NAME) in ran.err
    assert "Traceback" not in ran.err


def test_exec_without_a_configuration_or_path_is_an_error(seoga: Run, base: Path) -> None:
    assert seoga("exec", "--path", base / "none").code == 1
    assert seoga("exec").code == 1


def test_an_unknown_key_is_warned_about_and_indexing_goes_on(seoga: Run, base: Path, documents: Path) -> None:
    ran = seoga("exec", "--path", configure(base, documents, colour="blue"))
    assert ran.code == 0
    assert "colour is not a key seoga knows; it is kept" in ran.err


# --- prune-orphans ---


def test_prune_orphans_prints_its_counts_as_json_only(seoga: Run, base: Path, documents: Path) -> None:
    seoga("add", documents)
    orphan = write(base / "gone", {"rag.db": b""})
    for path in (orphan / "rag.db", orphan):
        os.utime(path, (1, 1))
    ran = seoga("prune-orphans", f"--base-path={base}")
    assert ran.code == 0
    assert ran.json() == {"scanned": 2, "orphans_found": 1, "cleaned": 1, "failed": 0}
    assert not orphan.exists()


# --- where things are ---


def test_the_base_is_the_flag_else_the_variable(seoga: Run, documents: Path, tmp_path: Path) -> None:
    seoga("add", documents, "--base-path", tmp_path / "one")
    assert kb_ids(tmp_path / "one") == ["documents"]
    assert seoga("status", "--json").json() == []
    assert len(seoga("status", f"--base-path={tmp_path / 'one'}", "--json").json()) == 1


def test_the_version_and_the_help_are_printed(seoga: Run) -> None:
    assert seoga("--version").out.startswith("seoga ")
    for arguments in (["--help"], ["add", "--help"], ["search", "--help"], ["exec", "--help"], ["serve", "--help"]):
        ran = seoga(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert "usage: seoga" in ran.out


# --- pipes and terminals ---


def on_terminal(*arguments: str | Path, piped: bool = False, typed: bytes = b"", **env: str) -> Ran:
    """Run a command on a terminal; `err` is what that shows, `out` is standard output if it is piped."""
    import pty

    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **env}
    out = subprocess.PIPE if piped else slave
    with subprocess.Popen(
        [*SEOGA, *words_only(arguments)], stdin=slave, stdout=out, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        os.write(master, typed)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        written = process.stdout.read() if process.stdout else b""
        code = process.wait(30)
    os.close(master)
    return Ran(code, written.decode(), shown.decode())


@posix
def test_bare_seoga_prints_help_on_a_terminal() -> None:
    ran = on_terminal()
    assert ran.code == 0
    assert "usage: seoga" in ran.err
    assert "seoga add FOLDER" in ran.err


def test_bare_seoga_serves_when_its_input_is_a_pipe() -> None:
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    with subprocess.Popen(SEOGA, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "seoga"
        process.stdin.close()
        assert process.wait(5) == 0


@posix
def test_results_are_coloured_on_a_terminal_unless_no_color_is_set(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    assert "\x1b[1;33m예산" in on_terminal("search", "예산").err
    assert "\x1b[1;33m예산" in on_terminal("search", "예산", NO_COLOR="").err
    assert "\x1b" not in on_terminal("search", "예산", NO_COLOR="1").err
    assert "\x1b" not in on_terminal("search", "예산", piped=True).out


@posix
def test_progress_is_a_bar_on_a_terminal_and_results_stay_apart(documents: Path) -> None:
    ran = on_terminal("add", documents, piped=True)
    assert ran.code == 0
    assert ran.out == "documents: 3 added, 1 skipped\n"
    assert "\x1b[" in ran.err
    assert "━" in ran.err


def test_progress_is_plain_lines_elsewhere(seoga: Run, documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rag, "PLAIN_SECONDS", 0.0)
    ran = seoga("add", documents)
    assert "purging: 3 of 3 files" in ran.err
    assert "\x1b" not in ran.err
    assert "\r" not in ran.err
    assert ran.out.count("\n") == 1


@posix
def test_a_reader_that_leaves_early_causes_no_traceback(seoga: Run, documents: Path) -> None:
    seoga("add", write(documents, {f"{n}.md": f"# Rent {n}\n\nrent {n}" for n in range(60)}))
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    for arguments in (["search", "rent", "--top-k=50"], ["search", "rent", "--json"], ["status"], ["--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as out:
            done = spawn(*arguments, capture_output=False, stdout=out, stderr=subprocess.PIPE, env=buffered)
        assert b"Traceback" not in done.stderr, arguments
        assert b"Exception ignored" not in done.stderr, arguments


@posix
def test_a_closed_standard_output_causes_no_traceback(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *SEOGA, "search", "rent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr


def test_korean_is_printed_whatever_the_locale(seoga: Run, documents: Path) -> None:
    seoga("add", documents)
    for locale in ({"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}):
        done = spawn("search", "예산", env={**os.environ, **locale})
        assert done.returncode == 0, done.stderr
        assert "예산은 42억 원이다." in done.stdout.decode()
        assert done.stderr == b""


def test_add_configures_the_local_model_unless_told_otherwise(
    seoga: Run, documents: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seoga.rag.run", lambda config, **options: Outcome())
    assert rag.main(["add", str(documents), "--id", "meaning"]) == 0
    made = json.loads((base / "meaning" / "config.json").read_text(encoding="utf-8"))
    assert made["embedding"] == {"provider": "local", "model": DEFAULT_LOCAL_MODEL}
    assert seoga("add", documents, "--id", "words").code == 0
    assert "embedding" not in json.loads((base / "words" / "config.json").read_text(encoding="utf-8"))
