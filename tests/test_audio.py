"""Tests of audio.py and sound.py: real weights (Whisper tiny.en) on spoken samples, and recordings that are broken."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import wave
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from seoga import audio, local, sound
from seoga.parsers import STREAMED, Block, Document, NeedsAction, ParseError, Recognition, parse

SOUNDS = Path("/usr/share/asterisk/sounds")
RATE = 16_000
Samples = NDArray[np.int16]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_of_audio", Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


helpers = load("speech")


@pytest.fixture(scope="session")
def tiny() -> str:
    return str(helpers.whisper("tiny.en"))


@pytest.fixture(scope="session")
def days() -> Samples:
    return np.frombuffer(helpers.say("Monday. Tuesday. Wednesday. Thursday. Friday."), "<i2")


@pytest.fixture(scope="session")
def numbers() -> Samples:
    return np.frombuffer(helpers.say("One, two, three, four, five, six, seven."), "<i2")


def quiet(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.int16)


def wav(samples: Samples, rate: int = RATE, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(np.repeat(samples, channels).astype("<i2").tobytes())
    return file.getvalue()


def encode(
    samples: Samples,
    kind: str,
    codec: str,
    *,
    rate: int = 48_000,
    tracks: int = 1,
    picture: str = "",
    jump: int = 0,
    **tags: str,
) -> bytes:
    """Encode samples; `picture` is a codec of video beside; timestamps `jump` s ahead at the middle."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        container.metadata.update(tags)
        if picture:
            video: Any = container.add_stream(picture, rate=10)
            video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        streams: list[Any] = [container.add_stream(codec, rate=rate, layout="mono") for _ in range(tracks)]
        if picture:
            frames = [av.VideoFrame(64, 64, "yuv420p") for _ in range(5)]
            container.mux([packet for frame in [*frames, None] for packet in video.encode(frame)])
        for stream in streams:
            mixer = av.AudioResampler(stream.format.name, "mono", rate)
            for at in range(0, len(samples), RATE):
                frame = av.AudioFrame.from_ndarray(samples[None, at : at + RATE], "s16", "mono")
                frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
                frame.pts = at + (jump * RATE if at * 2 > len(samples) else 0)
                container.mux([packet for part in mixer.resample(frame) for packet in stream.encode(part)])
            container.mux([packet for part in [*mixer.resample(None), None] for packet in stream.encode(part)])
    return file.getvalue()


ENCODERS = {
    ".flac": ("flac", "flac"),
    ".m4a": ("ipod", "aac"),
    ".mp3": ("mp3", "libmp3lame"),
    ".ogg": ("ogg", "libopus"),
    ".webm": ("webm", "libopus"),
}


def read(data: bytes, model: str, name: str = "a.wav", **settings: Any) -> Document:
    return parse(io.BytesIO(data), name, recognition=Recognition(model=model, **settings))


def words(document: Document) -> str:
    return " ".join(block.text for block in document.blocks).lower()


# --- what is said, and when ---


def test_words_are_found_where_they_are_said(tiny: str, days: Samples, numbers: Samples) -> None:
    steps: list[tuple[float, float, str]] = []
    data = wav(np.concatenate([days, quiet(70), numbers]))
    document = read(data, tiny, step=lambda *one: steps.append(one))
    first, second = document.blocks
    assert "Tuesday" in first.text
    assert "Friday" in first.text
    assert first.place == "00:00:00"
    at = len(days) // RATE + 70
    assert second.place in (audio.clock_time(at - 1), audio.clock_time(at), audio.clock_time(at + 1))
    assert "seven" in second.text.lower() or "7" in second.text
    assert document.status == "ok"
    assert steps[0][0] == 0
    assert steps[-1][0] > at
    assert all(done <= total and unit == "seconds" for done, total, unit in steps)
    metadata = document.metadata
    assert metadata.pop("audio.transcribed_at").startswith("20")
    assert metadata == {
        "audio.duration": audio.clock_time((len(data) - 44) / 2 / RATE),
        "audio.language": "en",
        "audio.model_size": "tiny.en",
    }


def test_a_persons_voice_is_understood(tiny: str) -> None:
    found = next(SOUNDS.rglob("tt-weasels.wav"), None)
    if found is None:
        pytest.fail("the tests need real speech: `apt-get install asterisk-core-sounds-en-wav` brings it")
    assert "have eaten our phone system" in words(read(found.read_bytes(), tiny))


@pytest.mark.parametrize("suffix", sorted(STREAMED - {".wav"}))
def test_every_format_is_read_with_its_tags(suffix: str, tiny: str, days: Samples) -> None:
    data = encode(days, *ENCODERS[suffix], title="Board", artist="Chair")
    document = read(data, tiny, "a.wav")  # the suffix is no proof
    assert "tuesday" in words(document)
    if suffix != ".webm":
        assert (document.title, document.metadata["author"]) == ("Board", "Chair")


def test_any_channels_and_rate_will_do(tiny: str, days: Samples) -> None:
    assert "tuesday" in words(read(wav(days[::2], 8000, channels=8), tiny))


def test_the_sound_of_a_video_is_read_and_of_several_tracks_the_main_one(tiny: str, days: Samples) -> None:
    assert "tuesday" in words(read(encode(days, "webm", "libopus", picture="libvpx"), tiny, "a.webm"))
    document = read(encode(days, "mp4", "aac", tracks=2), tiny, "a.m4a")
    assert "tuesday" in words(document)
    assert document.partial == ["of 2 sound tracks only the main one is read"]


def test_titles_in_the_code_page_of_korean_windows_are_read(tiny: str) -> None:
    mp3, title = encode(quiet(2), "mp3", "libmp3lame"), "회의 녹음".encode("cp949")
    frame = b"TIT2" + (len(title) + 1).to_bytes(4, "big") + b"\0\0\0" + title
    data = b"ID3\3\0\0\0\0\0" + bytes([len(frame)]) + frame + mp3[mp3.find(b"\xff\xfb") :]
    assert read(data, tiny, "a.mp3").title == "회의 녹음"


def test_reading_again_gives_the_same_and_the_time_is_no_parsing_time(tiny: str, days: Samples) -> None:
    noise = np.random.default_rng(5).normal(0, 1500, len(days)).astype(np.int16)
    data = io.BytesIO(wav(days + noise))
    first = parse(data, "a.wav", seconds=0.01, recognition=Recognition(model=tiny))
    assert first.partial == []
    assert first.waited > 0.05
    assert parse(data, "a.wav", recognition=Recognition(model=tiny)).blocks == first.blocks


# --- no words where none are ---


@pytest.mark.parametrize("kind", ["silence", "noise", "tone"])
def test_silence_noise_and_tones_become_no_words(kind: str, tiny: str) -> None:
    time = np.arange(30 * RATE)
    made = {
        "silence": quiet(30),
        "noise": np.random.default_rng(1).normal(0, 6000, len(time)).clip(-32_000, 32_000),
        "tone": 8000 * np.sin(time * 0.2) * (1 + np.sin(time / 4000)) / 2,
    }
    document = read(wav(made[kind].astype(np.int16)), tiny)
    assert (document.status, document.blocks) == ("empty", [])
    assert document.metadata["audio.duration"] == "00:00:30"


def test_hours_of_silence_are_read_in_seconds_and_in_windows(tiny: str) -> None:
    kept: dict[str, str] = {}
    data = encode(quiet(1800), "flac", "flac", rate=8000)
    document = read(data, tiny, "a.flac", keep=kept.__setitem__)
    assert (document.status, document.metadata["audio.duration"]) == ("empty", "00:30:00")
    assert len(kept) >= 6


def test_what_the_model_repeats_is_said_once(monkeypatch: pytest.MonkeyPatch, tiny: str, days: Samples) -> None:
    loop = SimpleNamespace(
        start=0.0, end=2.0, text=" Thank you. Thank you. Thank you. Thank you. ", compression_ratio=9
    )
    model = SimpleNamespace(
        model=SimpleNamespace(is_multilingual=False), transcribe=lambda *_, **__: (iter([loop, loop, loop]), None)
    )
    monkeypatch.setattr(audio, "_load", lambda folder: model)
    document = read(wav(days), tiny)
    assert words(document).count("thank") == 1
    assert "repeats itself" in document.partial[0]


# --- windows that are kept ---


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch, days: Samples, numbers: Samples) -> bytes:
    """Three windows of a minute, with words in each."""
    monkeypatch.setattr(sound, "WINDOW_SECONDS", 61)
    return wav(np.concatenate([quiet(3), days, quiet(60), numbers, quiet(60), days]))


def test_a_reading_that_dies_goes_on_after_the_last_window(
    minutes: bytes, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, str] = {}
    whole = read(minutes, tiny, keep=kept.__setitem__)
    assert len(kept) == 3
    assert len(whole.blocks) == 3
    for left in (1, 2):
        some, again = dict(list(kept.items())[:left]), dict[str, str]()
        assert read(minutes, tiny, kept=some.get, keep=again.__setitem__).blocks == whole.blocks
        assert list(again) == list(kept)[left:]
    monkeypatch.setattr(audio, "_load", None)
    monkeypatch.setattr(sound.Recording, "windows", None)
    done = read(minutes, tiny, kept=kept.get)
    assert (done.blocks, done.metadata["audio.language"]) == (whole.blocks, "en")


def test_windows_hold_all_sound_and_end_in_pauses(days: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound, "WINDOW_SECONDS", 62)
    samples = np.tile(np.concatenate([days, quiet(0.7)]), 40)
    with sound.open_recording(io.BytesIO(wav(samples)), Document()) as recording:
        windows = [window for window, _ in recording.windows()]
    expected = samples.astype(np.float32) / 32_768
    np.testing.assert_allclose(np.concatenate(windows), expected, atol=1e-4)
    assert sound._clean(np.array([np.nan, np.inf, 0.5], np.float32)).tolist() == [0, 1, 0.5]
    assert all(np.abs(window[-3000:]).max() < 0.01 for window in windows[:-1])


# --- broken recordings ---


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes"),
        (wav(quiet(0)), "no sound that can be decoded"),
        (b"Dear all, " * 9000, "has no sound track|no recording"),
        (np.random.default_rng(1).bytes(1_000_000), "no recording|no sound"),
        (encode(quiet(0), "webm", "libopus", tracks=0, picture="libvpx"), "no sound track"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, said: str, tiny: str) -> None:
    for name in ("a.mp3", "a.wav"):
        with pytest.raises(ParseError, match=said):
            read(data, tiny, name)


def test_a_playlist_opens_no_other_file(tiny: str, days: Samples, tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(wav(days))
    for text in ("#EXTM3U\n#EXTINF:9,\nfile://{}\n", "ffconcat version 1.0\nfile {}\n"):
        with pytest.raises(ParseError):
            read(text.format(tmp_path / "secret.wav").encode(), tiny, "a.mp3")


@pytest.mark.parametrize("suffix", [".flac", ".mp3", ".wav", ".webm"])
def test_of_a_file_that_is_cut_off_the_beginning_is_read(suffix: str, tiny: str, days: Samples) -> None:
    samples = np.concatenate([days, quiet(2), np.random.default_rng(2).normal(0, 900, 20 * RATE).astype(np.int16)])
    data = wav(samples) if suffix == ".wav" else encode(samples, *ENCODERS[suffix])
    document = read(data[: len(data) * 6 // 10], tiny, f"a{suffix}")
    assert "tuesday" in words(document)
    assert "the sound ends at 00:00:" in document.partial[0]


@pytest.mark.parametrize("suffix", [".flac", ".m4a", ".ogg", ".webm"])
def test_damage_in_the_middle_is_left_out_and_said(
    suffix: str, tiny: str, days: Samples, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(3).normal(0, 900, 20 * RATE).astype(np.int16)
    data = bytearray(encode(np.concatenate([noise, days]), *ENCODERS[suffix]))
    low, high = len(data) * 3 // 10, len(data) * 5 // 10
    data[low:high] = np.random.default_rng(4).bytes(high - low)
    document = read(bytes(data), tiny, f"a{suffix}")
    assert "of sound are damaged or missing, the first at 00:00:" in " ".join(document.partial)
    assert document.blocks[-1].place >= "00:00:18"  # times stay right
    assert capfd.readouterr().err == ""


def test_missing_sound_moves_the_times_after_it(tiny: str, days: Samples, numbers: Samples) -> None:
    half = np.concatenate([days, quiet(max(0, len(numbers) - len(days)) / RATE + 2)])
    data = encode(np.concatenate([half, half]), "webm", "libopus", jump=100)
    document = read(data, tiny, "a.webm")
    assert [block.place > "00:01:40" for block in document.blocks] == [False, True]


@pytest.mark.parametrize("size", [0, 0x7FFFFF00, 0xFFFFFFFF])
def test_a_header_that_lies_about_the_size_does_no_harm(size: int, tiny: str, days: Samples) -> None:
    data, mark = wav(days), size.to_bytes(4, "little")
    document = read(data[:4] + mark + data[8:40] + mark + data[44:], tiny)
    assert "tuesday" in words(document)
    assert document.partial == []


def test_a_huge_picture_does_no_harm(tiny: str, days: Samples) -> None:
    picture = b"\0image/png\0\3\0" + np.random.default_rng(0).bytes(8_000_000)
    frame = b"APIC" + len(picture).to_bytes(4, "big") + b"\0\0" + picture
    tag = b"ID3\3\0\0" + bytes(len(frame) >> shift & 127 for shift in (21, 14, 7, 0)) + frame
    assert "tuesday" in words(read(tag + encode(days, "mp3", "libmp3lame")[45:], tiny, "a.mp3"))


# --- models and languages ---


@pytest.mark.parametrize(
    ("gigabytes", "cores", "model"),
    [(2, 1, "tiny"), (7.7, 2, "base"), (64, 2, "base"), (7.7, 4, "small"), (15.5, 12, "medium"), (64, 32, "large-v2")],
)
def test_the_model_is_chosen_by_memory_and_cores(gigabytes: float, cores: int, model: str) -> None:
    assert audio.choose_model(int(gigabytes * 1e9), cores) == model


def place(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes(b"{}")
    return folder


def test_models_are_found_in_folders_and_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOGA_HOME", str(tmp_path))
    monkeypatch.delenv("SEOGA_MODELS", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    own = place(tmp_path / ".models" / "Systran--faster-whisper-large-v2")
    cached = place(tmp_path / "hub" / "models--acme--whisper" / "snapshots" / "abc")
    assert audio.find_model("large") == audio.find_model("Systran/faster-whisper-large-v2") == own
    assert audio.find_model("acme/whisper") == cached
    assert audio.find_model(str(cached)) == cached
    (cached / "model.bin").unlink()
    assert audio.find_model("acme/whisper") is None
    state = audio.speech_state("small")
    for part in ("small", "model.bin", "tokenizer.json", str(tmp_path / ".models" / "Systran--faster-whisper-small")):
        assert part in state
    assert "tiny, base, small" in audio.speech_state("enormous")
    with pytest.raises(NeedsAction, match=r"model\.bin") as caught:
        read(wav(quiet(1)), "small")
    assert caught.value.lacks == "speech"
    with pytest.raises(NeedsAction, match="can't be loaded"):
        audio._load(own)


def test_looking_for_a_model_imports_no_library_of_speech() -> None:
    code = "import sys; from seoga import audio; audio.find_model(''); audio.speech_state('base'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"av", "ctranslate2", "faster_whisper", "huggingface_hub", "numpy"} & set(ran.stdout.split())


def test_a_model_is_brought_once_or_the_message_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOGA_HOME", str(tmp_path))
    monkeypatch.setattr(local, "bring", Mock(side_effect=OSError("no route to the hub")))
    with pytest.raises(NeedsAction, match=r"downloaded \(no route to the hub\).*put config\.json.*by hand \(https://"):
        audio.bring_model("base", Mock())
    names = ["config.json", "model.bin", "tokenizer.json", "vocabulary.txt", "README.md"]

    def bring(hub_id: str, folder: Path, *_: Any, wanted: Any, needs: str) -> None:
        assert (hub_id, sorted(wanted(names)), wanted(names[2:])) == ("Systran/faster-whisper-base", names[:4], [])
        place(folder)

    monkeypatch.setattr(local, "bring", Mock(side_effect=bring))
    assert audio.bring_model("base", Mock()) == audio.bring_model("base", Mock()) == audio.find_model("base")
    assert local.bring.call_count == 1  # type: ignore[attr-defined]


def test_a_language_is_detected_or_given(tiny: str, days: Samples) -> None:
    assert "knows English only, not ko" in read(wav(days), tiny, language="ko").partial[0]
    base = str(helpers.whisper("base"))  # a download of 150 MB
    assert read(wav(days), base).metadata["audio.language"] == "en"
    assert read(wav(days), base, language="ko").metadata["audio.language"] == "ko"
    with pytest.raises(NeedsAction, match=r"audio\.language.*'korean'"):
        read(wav(days), base, language="korean")


def test_blocks_end_at_pauses_and_at_sentences_once_they_are_long() -> None:
    said = [(float(n), n + 1.0, "So it goes on and on for a while." if n % 2 else "And then") for n in range(60)]
    blocks = list(audio._blocks([*said, (70.0, 71.0, "At last."), (3725.0, 3726.0, "The end.")]))
    assert all(block.text.endswith(".") for block in blocks)
    assert max(len(block.text) for block in blocks) < 700
    assert blocks[-1] == Block("text", "The end.", place="01:02:05")
