"""Transcribe a recording into blocks that tell when their words were said, with faster-whisper.

    speech(open("minutes.m4a", "rb"), document) -> Block("text", "Good morning. Let us begin.", place="00:14:05"), …

Each window of sound (sound.py) is transcribed by itself and kept, so that a reading which dies goes on after it.
`find_model`, `speech_state` and `bring_model` are for whoever asks whether that works here, and load none of its
libraries. This file doesn't tell speakers apart.
"""

from __future__ import annotations

import json
import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .config import expand, scrub
from .parsers import Block, Document, NeedsAction, ParseError, Recognition
from .sound import RATE, Recording, clock_time, open_recording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AUDIO_VERSION = 1  # raise it when the same sound gives other text: what was kept is then of no use
LEAN_SECONDS = 0.5  # that Whisper lets speech begin early, in the padding around it
PAUSE_SECONDS = 1.5  # between two blocks
BREAK_SECONDS = 5  # of silence, across which Whisper is not to make one sentence
BLOCK_CHARS = 600  # then a new sentence begins a new block
BEAM = 2  # of 1,160 words of real speech, base got 5.3% wrong with 1 (37 CPU s), 5.0% with 2 (43), 5.7% with 5 (53)
SILENCE = 0.001  # of full scale, 60 dB below it: nobody speaks
LOOP = 2.4  # compression, above which the text is a few words over and over
SURE = 0.8  # probability from which a window is in another language than the recording

_TIERS = ((30e9, 24, "large-v2"), (15e9, 12, "medium"), (7e9, 4, "small"), (3e9, 2, "base"))  # bytes, cores, model
_SIZE = re.compile(r"(?:tiny|base|small|medium)(?:\.en)?|large(?:-v[123])?|turbo")
_NEEDS = (
    "config.json, model.bin, tokenizer.json and vocabulary.json (or .txt; preprocessor_config.json where there is one)"
)
_REPEATED = re.compile(r"(\b\w.{0,60}?)\1{3,}")
_SENTENCE_END = re.compile(r"[.?!。？！…][\"'”’)\]]*$")

Said = tuple[float, float, str]  # begin and end in seconds of the recording, text


# --- the model ---


def choose_model(memory_bytes: int, cores: int) -> str:
    """Choose what a CPU transcribes in about the time of the recording at most, in a fraction of its memory.

    2 cores, 8 GB -> base; 4 cores, 8 GB -> small; 12 cores, 16 GB -> medium; 24 cores, 32 GB -> large-v2; else tiny.
    """
    return next((name for memory, least, name in _TIERS if memory_bytes >= memory and cores >= least), "tiny")


def _chosen(model: str) -> str:
    """Return the configured model, or this machine's. "large" is version 2: 3 loops on long recordings."""
    import psutil

    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return {"large": "large-v2", "": choose_model(psutil.virtual_memory().total, cores)}.get(model, model)


def _hub_id(name: str) -> str:
    """`base` -> `Systran/faster-whisper-base`; "" for what is a folder, or nothing at all."""
    if os.path.isabs(expand(name)) or not ("/" in name or _SIZE.fullmatch(name)):
        return ""
    sized = f"Systran/faster-whisper-{name}" if name != "turbo" else "mobiuslabsgmbh/faster-whisper-large-v3-turbo"
    return name if "/" in name else sized


def _places(name: str) -> list[Path]:
    """List the folders where a model may lie, the one to bring it into first."""
    from .local import models_folders

    if not _hub_id(name):
        return [Path(expand(name))]
    folder = _hub_id(name).replace("/", "--")
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    hub = Path(expand(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")))
    return [*(models / folder for models in models_folders()), *sorted(hub.glob(f"models--{folder}/snapshots/*"))]


def find_model(model: str) -> Path | None:
    """Return the folder of `model` (a folder, hub id or size; empty: this machine's choice), None if it isn't here."""

    def is_whole(folder: Path) -> bool:
        files = ("config.json", "model.bin", "tokenizer.json")
        return all((folder / name).is_file() for name in files) and any(folder.glob("vocabulary.*"))

    return next(filter(is_whole, _places(_chosen(model))), None)


def speech_state(model: str) -> str:
    """Say what keeps speech recognition from working here, and the remedy; "" if it works."""
    packages = ("av", "ctranslate2", "faster_whisper", "onnxruntime", "tokenizers")
    if missing := [name for name in packages if find_spec(name) is None]:
        return f"speech recognition needs {', '.join(missing)}: `pip install 'faster-whisper>=1.1,<2'` brings them."
    return "" if find_model(model) else _lacking(_chosen(model), "is not on this machine")


def _lacking(name: str, what: str) -> str:
    hub_id, remedy = _hub_id(name), f"put {_NEEDS} of a faster-whisper model into {_places(name)[0]}"
    if hub_id:
        remedy = f"index with a network once, or {remedy} by hand (https://huggingface.co/{hub_id})"
    sizes = "tiny, base, small, medium, large, turbo"
    remedy = f"{remedy}; or set audio.model in config.json to one of {sizes}, a hub id or a folder."
    return f"the speech model {scrub(name)} {what}. To bring it: {remedy}"


def bring_model(model: str, report: Callable[[str, int, int], None], stop: Callable[[], bool] = lambda: False) -> Path:
    """Return the model's folder; download it first if it isn't here. `report`: file name, bytes done, bytes in all.

    Raises NeedsAction, which tells how to bring it by hand, where it can't be had; providers.Cancelled when stopped.
    """
    name, found = _chosen(model), find_model(model)
    if found or not _hub_id(name):
        if found:
            return found
        raise NeedsAction(_lacking(name, "is not on this machine"), lacks="speech")
    from .local import CANCELLED, bring
    from .providers import Cancelled

    folder = _places(name)[0]
    try:
        bring(_hub_id(name), folder, report, stop, wanted=_wanted_files, needs=_NEEDS)
    except InterruptedError:
        raise Cancelled(f"{name} was not downloaded: {CANCELLED}.", provider="local", model=name) from None
    except Exception as error:  # noqa: BLE001  the hub's client has many, and urllib's beside
        said = " ".join(scrub(str(error)).split())[:300] or type(error).__name__
        raise NeedsAction(_lacking(name, f"can't be downloaded ({said})"), lacks="speech") from None
    return folder


def _wanted_files(names: Sequence[str]) -> list[str]:
    vocabulary = [name for name in names if re.fullmatch(r"vocabulary\.\w+", name)]
    wanted = ["config.json", "tokenizer.json", *vocabulary, "model.bin"]
    settings = [name for name in names if name == "preprocessor_config.json"]
    return settings + wanted if vocabulary and set(wanted) <= set(names) else []


def _fingerprint(folder: Path) -> str:
    """Tell one model's weights from another's, wherever they lie, by their size and a megabyte at either end."""
    with open(folder / "model.bin", "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2**20))
        tail = file.read()
        file.seek(0)
        return sha256(b"%d %b" % (size, file.read(2**20) + tail)).hexdigest()[:12]


@lru_cache(maxsize=1)
def _load(folder: Path) -> Any:
    from faster_whisper import WhisperModel

    from .local import cores

    try:
        return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=cores(), local_files_only=True)
    except Exception as error:  # noqa: BLE001  CTranslate2 and tokenizers raise bare ones
        said = " ".join(scrub(str(error)).split())[:200] or "it needs more memory than there is"
        remedy = "Remove that folder to have it brought anew, or set audio.model in config.json to a smaller one."
        raise NeedsAction(f"the speech model in {folder} can't be loaded: {said}. {remedy}", lacks="speech") from None


# --- from sound to words ---


class _Window(NamedTuple):
    """What was said in one window; kept as a JSON list."""

    end: int  # in samples of the recording
    language: str  # "" where nobody speaks
    said: list[Said]
    notes: list[str]
    is_last: bool


def speech(file: IO[bytes], document: Document) -> Iterator[Block]:
    """Transcribe an open recording; the time it takes goes into `document.waited`.

    Raises NeedsAction where the model or its libraries are missing, ParseError where there is no sound.
    """
    blocks, began = _blocks(_passages(file, document)), time.monotonic()
    for block in blocks:
        document.waited += time.monotonic() - began
        yield block
        began = time.monotonic()
    document.waited += time.monotonic() - began


def _passages(file: IO[bytes], document: Document) -> Iterator[Said]:
    asked = document.recognition
    state, folder = speech_state(asked.model), find_model(asked.model)
    if state or not folder:
        raise NeedsAction(state, lacks="speech")
    languages = dict[str, None]()
    with open_recording(file, document) as recording:
        for window in _heard(recording, asked, folder):
            yield from window.said
            languages |= {window.language: None} if window.language else {}
            document.partial += window.notes
            document.metadata["audio.duration"] = clock_time(window.end / RATE)
    size = _SIZE.search(asked.model.rpartition("/")[2]) or _SIZE.search(folder.name)
    document.metadata["audio.language"] = ", ".join(languages)
    document.metadata["audio.model_size"] = size[0] if size else _chosen(asked.model)
    document.metadata["audio.transcribed_at"] = datetime.now(UTC).isoformat(timespec="seconds")


def _heard(recording: Recording, asked: Recognition, folder: Path) -> Iterator[_Window]:
    """Give the windows that are kept, then transcribe and keep the others."""
    at, main, settings = 0, "", f"{_fingerprint(folder)} {asked.language or 'auto'} {AUDIO_VERSION}"
    while kept := asked.kept(f"speech {at / RATE:.2f} {settings}"):
        window = _Window(*json.loads(kept))
        yield window
        if window.is_last:
            return
        at, main = window.end, main or window.language
    for sound, is_last in recording.windows(at):
        if is_last and not at and recording.lost >= recording.clock:
            raise ParseError("holds no sound that can be decoded. Play it, and save it anew.")
        window = _transcribe(sound, at, main, recording, asked, folder)
        if is_last:
            window = window._replace(notes=window.notes + recording.notes(), is_last=True)
        asked.keep(f"speech {at / RATE:.2f} {settings}", json.dumps(window, ensure_ascii=False))
        yield window
        at, main = window.end, main or window.language


def _transcribe(
    sound: NDArray[np.float32], at: int, main: str, recording: Recording, asked: Recognition, folder: Path
) -> _Window:
    """Transcribe one window (samples,) that begins at sample `at`. Whisper hears only where someone speaks.

    What it hears in silence it invents, and what it said before tempts it to say it again.
    """
    import ctranslate2  # type: ignore[import-untyped]
    import numpy as np
    from faster_whisper.vad import get_speech_timestamps

    def step(done: float) -> None:
        asked.step(done, max(recording.announced, done) if recording.announced else 0.0, "seconds")

    def moment(seconds: float) -> float:
        """Say when in the recording a second of the joined speech is."""
        i = min(bisect_right(ends, (seconds + LEAN_SECONDS) * RATE), len(ends) - 1)
        return float(round((at + spans[i][1] - ends[i]) / RATE + seconds, 2))

    step(at / RATE)
    is_silent = not sound.size or np.abs(sound).max() < SILENCE
    spans = [] if is_silent else [(span["start"], span["end"]) for span in get_speech_timestamps(sound)]
    window = _Window(at + len(sound), "", [], [], False)
    if not spans:
        return window
    model, speech = _load(folder), np.concatenate([sound[begin:end] for begin, end in spans])
    window = window._replace(language=_language(model, speech, asked.language, main))
    if asked.language not in ("", window.language) and not at:
        window.notes.append(f"the speech model knows English only, not {scrub(asked.language)}")
    ends: list[int] = list(accumulate(end - begin for begin, end in spans))
    ctranslate2.set_random_seed(1)  # where it is unsure, Whisper draws; the same file must give the same text
    segments, _ = model.transcribe(
        speech,
        language=window.language,
        beam_size=BEAM,
        condition_on_previous_text=False,
        clip_timestamps=_clips(spans, ends),
    )
    for segment in segments:
        begin, text = moment(segment.start), segment.text.strip()
        end = begin + segment.end - segment.start
        step(end)
        if segment.compression_ratio > LOOP:
            if not window.notes:
                window.notes.append(f"words may be missing from {clock_time(begin)} on: the model repeats itself there")
            text = _REPEATED.sub(r"\1", f"{text} ").strip()
            if window.said and window.said[-1][2] == text:
                continue
        window.said.append((begin, end, text))
    return window


def _clips(spans: list[tuple[int, int]], ends: list[int]) -> list[float]:
    """Return begin, end, begin, end, … in seconds of the joined speech, of what is said without a long silence.

    No sentence of Whisper's goes beyond one. Each costs as much as half a minute, so there is none for each pause.
    """
    clips = list[int]()
    for i, (begin, end) in enumerate(spans):
        if not i or begin - spans[i - 1][1] > BREAK_SECONDS * RATE:
            clips += [ends[i] - (end - begin), 0]
        clips[-1] = ends[i]
    return [at / RATE for at in clips]


def _language(model: Any, speech: NDArray[np.float32], asked: str, main: str) -> str:
    """Return the language to transcribe in: the one asked for, else the recording's unless another is sure."""
    if not model.model.is_multilingual:
        return "en"
    if asked and asked not in model.supported_languages:
        what = f"audio.language in config.json is {scrub(asked)[:40]!r}, no language of Whisper"
        raise NeedsAction(f"{what}. Use a code such as ko or en, or leave it out to have it detected.", lacks="speech")
    if asked:
        return asked
    found, probability, _ = model.detect_language(speech, language_detection_segments=3)
    return main if main and (probability < SURE or len(speech) < 10 * RATE) else found


def _blocks(passages: Iterable[Said]) -> Iterator[Block]:
    """Join what is said without a pause, a few sentences at most."""
    held, last, size, place = list[str](), 0.0, 0, ""
    for begin, end, text in passages:
        is_long = size > BLOCK_CHARS and (_SENTENCE_END.search(held[-1]) or size > 2 * BLOCK_CHARS)
        if held and (begin - last > PAUSE_SECONDS or is_long):
            yield Block("text", " ".join(held), place=place)
            held, size = [], 0
        place = place if held else clock_time(begin)
        held.append(text)
        last, size = end, size + len(text)
    if held:
        yield Block("text", " ".join(held), place=place)
