"""Decode a recording into windows of 16 kHz mono sound that end in pauses, with PyAV.

    with open_recording(file, document) as recording:
        for sound, is_last in recording.windows(): …  # (samples,) float32, of about five minutes

Files are hostile: FFmpeg sees bytes, not a path, opens no further file, and memory holds one window. What is damaged is
left out and said; timestamps stay right, as silence takes the place of what is missing. This file hears no words.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self

from .parsers import Document, ParseError, looks_korean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE = 16_000  # samples a second, as Whisper takes them
WINDOW_SECONDS = 300  # the spectra of ten minutes would take 200 MB more
MOST_SECONDS = 24 * 3600  # of one recording, then "partial"
GAP_SECONDS = 0.5  # by which timestamps may jump before that means missing sound

_FORMATS = "aac,asf,flac,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mp3,ogg,w64,wav"  # none that opens further files
_TAGS = {"artist": "author", "album": "album", "date": "date", "comment": "description"}


@dataclass(slots=True)
class Recording:
    """An open recording, and what was met while decoding it. Times are seconds."""

    container: Any
    track: Any
    announced: float  # 0: unknown
    clock: float = 0.0  # decoded so far, with what is missing
    lost: float = 0.0  # of it damaged or missing
    lost_at: float = 0.0
    ending: str = ""  # why decoding ended before the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.container.close()

    def notes(self) -> list[str]:
        """Say what could not be read."""
        notes, ending = [], self.ending
        if self.lost > GAP_SECONDS:
            notes.append(f"{self.lost:.1f} s of sound are damaged or missing, the first at {clock_time(self.lost_at)}")
        if not ending and self.announced - self.clock > max(2.0, self.announced / 50):
            ending = f"{clock_time(self.announced)} are announced, so the file is cut off or damaged"
        return notes + ([f"the sound ends at {clock_time(self.clock)}: {ending}"] if ending else [])

    def windows(self, at: int = 0) -> Iterator[tuple[NDArray[np.float32], bool]]:
        """Cut the sound in pauses, from sample `at` on; yield each window (samples,) and whether it is the last."""
        import numpy as np

        held, size = [np.zeros(0, np.float32)], -at
        for some in self._sound():
            size += len(some)
            if size > 0:
                held.append(some[max(0, len(some) - size) :])
            if size >= WINDOW_SECONDS * RATE:
                window = _clean(np.concatenate(held))
                end = _pause(window)
                yield window[:end], False
                held, size = [window[end:].copy()], size - end
        yield _clean(np.concatenate(held)), True

    def _sound(self) -> Iterator[NDArray[np.float32]]:
        """Decode to 16 kHz mono, (samples,) of any number; silence where timestamps tell of missing sound."""
        import av
        import numpy as np

        mixer, shape, begin, lost = None, None, (self.container.start_time or 0) / 1_000_000, 0.0
        for frame in self._frames():
            if shape != (shape := (frame.format.name, frame.layout.name, frame.sample_rate)):
                yield from _mixed(mixer, None)
                mixer = av.AudioResampler("fltp", "mono", RATE)
            gap = frame.time - begin - self.clock if frame.pts is not None else 0.0
            if GAP_SECONDS < gap < min(MOST_SECONDS, max(WINDOW_SECONDS, self.announced - self.clock)):
                self._lose(gap - (self.lost - lost) if self.clock else 0.0)  # beyond the packets lost before it
                self.clock += gap
                yield from (np.zeros(RATE, np.float32) for _ in range(round(gap)))
            lost = self.lost
            self.clock += frame.samples / frame.sample_rate
            frame.pts = None
            yield from _mixed(mixer, frame)
        yield from _mixed(mixer, None)

    def _frames(self) -> Iterator[Any]:
        """Decode; a packet that is damaged is counted and left out."""
        import av

        try:
            for packet in self.container.demux(self.track):
                try:
                    frames = packet.decode()
                except av.FFmpegError:
                    self._lose(float((packet.duration or 0) * (packet.time_base or 0)))
                    continue
                yield from frames
                if self.clock > MOST_SECONDS:
                    self.ending = "what follows is left out"
                    return
        except av.FFmpegError as error:
            self.ending = error.strerror or type(error).__name__

    def _lose(self, seconds: float) -> None:
        self.lost_at = self.lost_at if self.lost else self.clock
        self.lost += max(0.0, seconds)


def open_recording(file: IO[bytes], document: Document) -> Recording:
    """Open a recording and read its tags into the document; raise ParseError where there is no sound."""
    import av

    if not file.seek(0, os.SEEK_END):
        raise ParseError("is empty: 0 bytes. Copy or save it anew.")
    file.seek(0)
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        container = av.open(file, mode="r", options=options, metadata_errors="replace")
    except (av.FFmpegError, OSError) as error:
        raise ParseError(f"is no recording that can be read ({error.strerror}). Play it, and save it anew.") from None
    track: Any = container.streams.best("audio")
    if track is None or track.codec_context is None:
        what = "has no sound track" if track is None else "holds sound in a coding that FFmpeg doesn't know"
        raise ParseError(f"{what}. If you hear something when you play it, save that as FLAC or MP3.")
    if len(container.streams.audio) > 1:
        document.partial.append(f"of {len(container.streams.audio)} sound tracks only the main one is read")
    tags = {key.casefold(): _tag(value) for key, value in {**container.metadata, **track.metadata}.items()}
    document.title = tags.get("title", "")
    document.metadata.update({_TAGS[key]: value for key, value in tags.items() if key in _TAGS and value.strip()})
    length = float(track.duration * track.time_base if track.duration else (container.duration or 0) / 1_000_000)
    return Recording(container, track, max(0.0, length * _announcement(file, container.format.name)))


def _announcement(file: IO[bytes], kind: str) -> float:
    """Return by what to multiply the length FFmpeg tells to have the one that the file itself announces.

    FFmpeg takes a WAV's length from the file's size where that is less than the header says (which may also hold a mark
    for "unknown", near 2 or 4 GB), and makes a guess for an MP3 without a header of its own: 0.
    """
    here, size = file.tell(), file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(10)
    if kind == "mp3":
        tag = sum(byte << 7 * place for place, byte in enumerate(head[:5:-1])) + 10 if head[:3] == b"ID3" else 0
        file.seek(tag)
        head = file.read(4096)
    file.seek(here)
    if kind == "mp3":
        return float(b"Xing" in head or b"Info" in head)
    announced = int.from_bytes(head[4:8], "little") + 8 if head[:4] == b"RIFF" else 0
    return announced / size if size < announced < 2**31 - 2**16 else 1.0


def _tag(text: str) -> str:
    """Undo what programs of Korean Windows do to ID3: they write CP949 and call it Latin-1."""
    data = text.encode("latin-1", "ignore")
    return data.decode("cp949") if len(data) == len(text) and looks_korean(data) else text


def _mixed(mixer: Any, frame: Any) -> Iterator[NDArray[np.float32]]:
    """Resample one frame, or flush with None."""
    try:
        mixed = mixer.resample(frame) if mixer else []
    except (RuntimeError, ValueError, OSError):  # as FFmpeg's errors are
        raise ParseError("holds channels that can't be mixed to one. Save it as mono or stereo.") from None
    return (one.to_ndarray()[0] for one in mixed if one is not None)


def _clean(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Files of floating-point sound may hold anything."""
    import numpy as np

    return np.clip(np.nan_to_num(sound, copy=False), -1, 1, out=sound)


def _pause(window: NDArray[np.float32]) -> int:
    """Return the middle of the quietest half second in the last minute, so that no word is cut."""
    import numpy as np

    tenth = RATE // 10
    tail = np.square(window[-600 * tenth :]).reshape(-1, tenth).mean(axis=1)
    calm = np.convolve(tail, np.ones(5), "valid")[::-1]  # the last of several
    return len(window) - tenth * int(calm.argmin()) - 5 * tenth // 2


def clock_time(seconds: float) -> str:
    """`845.3` -> `00:14:05`."""
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
