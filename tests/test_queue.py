"""queue.py: the standard module keeps its name, and only orphans are pruned."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

import seoga.queue
from seoga.queue import prune_orphans

ROOT = Path(seoga.queue.__file__).parent
NOTHING = {"scanned": 0, "orphans_found": 0, "cleaned": 0, "failed": 0}

# --- the guard: processes that have the root on sys.path ---


def run_in_root(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def test_pytest_starts_in_the_root() -> None:
    done = run_in_root("-m", "pytest", "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pytest")


def test_pip_starts_in_the_root() -> None:
    if run_in_root("-P", "-m", "pip", "--version").returncode:
        pytest.skip("this environment was made without pip")
    done = run_in_root("-m", "pip", "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pip")


def test_threads_and_asyncio_work_in_the_root() -> None:
    code = (
        "import asyncio, concurrent.futures, queue; queue.SimpleQueue(); "
        "asyncio.run(asyncio.to_thread(print, 1)); print(queue.Queue.__module__, queue.__file__)"
    )
    done = run_in_root("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1"
    assert done.stdout.split()[1:] == ["queue", os.path.join(os.path.dirname(os.__file__), "queue.py")]


def test_the_bare_name_is_handed_over_and_ours_is_reached_by_package() -> None:
    code = (
        "import queue; from queue import Empty; import sys; sys.path[:0] = sys.argv[1:]; import seoga.queue; "
        "print(hasattr(queue, 'prune_orphans'), sys.modules['queue'] is queue, seoga.queue.prune_orphans.__module__)"
    )
    done = run_in_root("-c", code, str(Path(seoga.__path__[0]).parent))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "seoga.queue"]
    assert prune_orphans.__module__ == "seoga.queue"


# --- prune_orphans ---


def age(folder: Path, seconds: float = 3600) -> Path:
    """Set every time in the folder back."""
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)
    return folder


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return age(folder)


def test_an_orphan_is_removed_whole(tmp_path: Path) -> None:
    make(tmp_path / "gone", "rag.db", "rag.db-wal", "indexer.lock", "cache/deep/page.txt")
    make(tmp_path / "kept", "rag.db", "config.json")
    assert prune_orphans(tmp_path) == {"scanned": 2, "orphans_found": 1, "cleaned": 1, "failed": 0}
    assert os.listdir(tmp_path) == ["kept"]
    assert prune_orphans(tmp_path) == {**NOTHING, "scanned": 1}


def test_a_left_over_write_ahead_log_makes_an_orphan_too(tmp_path: Path) -> None:
    make(tmp_path / "gone", "rag.db-wal")
    assert prune_orphans(tmp_path)["cleaned"] == 1


@pytest.mark.parametrize("name", [".gone", "_gone", "gone-backup-2026"])
def test_folders_put_aside_stay(tmp_path: Path, name: str) -> None:
    make(tmp_path / name, "rag.db")
    assert prune_orphans(tmp_path) == {**NOTHING, "scanned": 1}
    assert (tmp_path / name / "rag.db").exists()


def test_folders_that_are_no_knowledge_base_stay(tmp_path: Path) -> None:
    make(tmp_path / "pictures", "rag.dbx", "a.png", "below/rag.db")
    make(tmp_path / "empty")
    (tmp_path / "rag.db").write_bytes(b"")
    assert prune_orphans(tmp_path) == {**NOTHING, "scanned": 2}
    assert (tmp_path / "pictures" / "below" / "rag.db").exists()


def test_a_config_that_is_a_broken_link_still_protects(tmp_path: Path) -> None:
    folder = make(tmp_path / "kept", "rag.db")
    (folder / "config.json").symlink_to(tmp_path / "unplugged" / "config.json")
    assert prune_orphans(age(tmp_path)) == {**NOTHING, "scanned": 1}


@pytest.mark.parametrize("touched", [".", "rag.db", "cache/page.txt"])
@pytest.mark.parametrize("seconds", [0, -3600])
def test_what_changed_just_now_or_in_the_future_stays(tmp_path: Path, touched: str, seconds: float) -> None:
    folder = make(tmp_path / "new", "rag.db", "cache/page.txt")
    os.utime(folder / touched, (time.time() - seconds,) * 2)
    assert prune_orphans(tmp_path) == {**NOTHING, "scanned": 1}
    age(folder)
    assert prune_orphans(tmp_path)["cleaned"] == 1


def test_an_orphan_whose_indexer_runs_stays_until_it_ends(tmp_path: Path) -> None:
    folder = make(tmp_path / "busy", "rag.db")
    code = "import sys, filelock\nwith filelock.FileLock(sys.argv[1]): print('held', flush=True); input()"
    command = [sys.executable, "-P", "-c", code, str(folder / "indexer.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as indexer:
        assert indexer.stdout
        assert indexer.stdout.readline() == "held\n"
        age(folder)
        assert prune_orphans(tmp_path) == {**NOTHING, "scanned": 1}
        indexer.kill()
    age(folder)  # trying its lock may have touched it
    assert prune_orphans(tmp_path)["cleaned"] == 1
    assert not folder.exists()


def test_a_lock_file_without_a_holder_is_no_protection(tmp_path: Path) -> None:
    folder = make(tmp_path / "gone", "rag.db", "indexer.lock")
    with FileLock(folder / "indexer.lock"):
        pass
    age(folder)
    assert prune_orphans(tmp_path)["cleaned"] == 1


@pytest.mark.parametrize("name", ["elsewhere", "indexer.lock"])
def test_links_are_never_followed(tmp_path: Path, name: str) -> None:
    precious = make(tmp_path / "precious", "letter.txt", "rag.db")
    base = tmp_path / "base"
    folder = make(base / "gone", "rag.db", "below/x")
    (base / "link").symlink_to(precious, target_is_directory=True)
    (folder / name).symlink_to(precious, target_is_directory=True)
    (folder / "below" / "letter").symlink_to(precious / "letter.txt")
    age(folder)
    counts = prune_orphans(base)
    assert counts["scanned"] == 1
    assert counts["cleaned"] + counts["failed"] == 1
    assert (precious / "letter.txt").read_bytes() == b"x"
    assert (precious / "rag.db").exists()
    assert (base / "link").is_symlink()


def test_a_failure_is_counted_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        make(tmp_path / name, "rag.db", "other")

    def unlink(path: str, *, real: object = os.unlink) -> None:
        if path.endswith(os.path.join("b", "other")):
            raise PermissionError(13, "Permission denied", path)
        assert callable(real)
        real(path)

    monkeypatch.setattr("seoga.queue.os.unlink", unlink)
    assert prune_orphans(tmp_path) == {"scanned": 3, "orphans_found": 3, "cleaned": 2, "failed": 1}
    assert "Permission denied" in caplog.text
    monkeypatch.undo()
    age(tmp_path / "b")
    assert prune_orphans(tmp_path) == {"scanned": 1, "orphans_found": 1, "cleaned": 1, "failed": 0}


def test_a_base_that_is_not_there_or_no_folder(tmp_path: Path) -> None:
    assert prune_orphans(tmp_path / "nowhere") == NOTHING
    (tmp_path / "file").write_bytes(b"")
    assert prune_orphans(tmp_path / "file") == {**NOTHING, "failed": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the name")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    make(tmp_path / os.fsdecode(b"caf\xe9"), "rag.db", os.fsdecode(b"\xff"))
    assert prune_orphans(tmp_path)["cleaned"] == 1
    assert os.listdir(tmp_path) == []
