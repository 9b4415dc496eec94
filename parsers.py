"""Turn one file's bytes into located blocks of text.

`parse(data, name)` looks at the suffix, runs that format's generator of blocks and returns a `Document`:

    b"# Budget\\n\\nTravel is capped.", "a.md"
    -> Document(blocks=[Block("heading", "Budget", level=1), Block("text", "Travel is capped.")], status="ok")

A block knows its place (page, slide, sheet), so a hit in it can be cited. Documents are untrusted: sizes are checked
before anything is unpacked, and index.py runs this in a child process with memory and time limits. This file does not
chunk and does not touch the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .config import SeogaError, scrub

PARSER_VERSION = 1  # raise it when a parser gives other text for the same bytes: documents are then read again
MAX_TEXT_CHARS = 20_000_000  # extracted text of one document, then "partial"


class ParseError(SeogaError):
    """The file can't be read as what its suffix says; it stays failed until it changes."""


class NeedsAction(SeogaError):
    """A person has to do something first (password, OCR engine, …); the message says what."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, table or code listing, in reading order.

    `text` is not empty. In a table each line is one row, Markdown style (`| a | b |`); its first `header` lines are
    repeated in each chunk. `rows` numbers the lines after the header as the spreadsheet does (1-based), if it does.
    """

    kind: str  # heading | text | table | code
    text: str
    place: str = ""  # "p. 12", "slide 3", "sheet Budget", "notes"; empty where the format has no such thing
    level: int = 0  # of a heading, 1 the highest
    header: int = 0
    rows: tuple[int, ...] = ()


@dataclass(slots=True)
class Document:
    """What was read. `partial` lists what was left out and why; blocks may be empty, which is a status of its own."""

    blocks: list[Block] = field(default_factory=list)
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        return "partial" if self.partial else "ok" if self.blocks else "empty"


Parser = Callable[[bytes, Document], Iterator[Block]]
