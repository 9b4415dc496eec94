"""Read letters (.eml), and pages saved as letters (.mht): headers, body, appointments, the names of attachments.

A letter is a tree of parts. It is divided here, by offsets into the one piece of bytes, because the standard parser
takes quadratic time on deep trees and long headers; decoding is the standard library's. Of alternatives one is read.
Attachments are named, not read.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import collapse_rfc2231_value, parsedate_to_datetime

from .parsers import Block, Document, NeedsAction, ParseError, _decode, _html, _paragraphs, _text

MAX_PARTS = 1000  # of a letter
MAX_PART_DEPTH = 20  # of parts in parts
MAX_HEADER_CHARS = 8_000  # of one header
MAX_HEAD_BYTES = 1_000_000  # of all headers of a part

_HEAD_END = re.compile(rb"\r?\n\r?\n|\r\r")
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_EVENT = {"SUMMARY": "Event", "DTSTART": "From", "DTEND": "Until", "LOCATION": "Where", "DESCRIPTION": "About"}


def eml(data: bytes, document: Document) -> Iterator[Block]:
    return _Letter(document).read(data)


class _Letter:
    """What is met while the parts of one letter are read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.parts = 0
        self.attached: list[str] = []

    def read(self, data: bytes) -> Iterator[Block]:
        message, at = self.head(data, 0, len(data))
        facts = {name: value for name in _SHOWN if (value := _header(message, name))}
        self.document.title = facts.get("Subject", "")
        self.document.metadata |= {name.lower(): value for name, value in facts.items() if name != "Subject"}
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            self.document.metadata["created"] = parsedate_to_datetime(facts.get("Date", "")).date().isoformat()
        yield from self.introduced(facts)
        yield from self.part(message, data, at, len(data), 0)
        if self.attached:
            names = ", ".join(self.attached)
            self.document.metadata["attachments"] = f"not read: {names}"
            yield Block("text", f"Attachments: {names}")

    def introduced(self, facts: dict[str, str]) -> Iterator[Block]:
        yield Block("heading", facts.get("Subject", ""), level=1)
        yield Block("text", "\n".join(f"{name}: {value}" for name, value in facts.items() if name != "Subject"))

    def head(self, data: bytes, start: int, end: int) -> tuple[Message, int]:
        """Return a part's headers and where its body begins."""
        message = Message()
        if data[start : start + 2] == b"\r\n" or data[start : start + 1] == b"\n":
            return message, start
        blank = _HEAD_END.search(data, start, end)
        head = data[start : min(blank.start() if blank else end, start + MAX_HEAD_BYTES)]
        for line in re.split(rb"\r?\n(?![ \t])|\r(?![ \t\n])", head):
            name, colon, value = line.partition(b":")
            if colon and re.fullmatch(rb"[!-9;-~]{1,100}", name):
                message[name.decode("ascii")] = _plain(value[:MAX_HEADER_CHARS])
        if len(head) == MAX_HEAD_BYTES:
            self.document.partial.append(f"headers beyond {MAX_HEAD_BYTES:,} bytes are left out")
        return message, blank.end() if blank else end

    def part(self, message: Message, data: bytes, start: int, end: int, depth: int) -> Iterator[Block]:
        kind, name = message.get_content_type(), _file_name(message)
        is_file = message.get_content_disposition() == "attachment" or not kind.startswith("text/")
        if kind == "multipart/encrypted" or (kind.endswith("pkcs7-mime") and "signed" not in f"{message.get_params()}"):
            if depth == 0:
                raise NeedsAction("encrypted: open it in the mail program that has the key, and save it decrypted.")
            self.document.partial.append("an encrypted part is not read")
        elif kind.startswith("multipart/"):
            yield from self.several(message, data, start, end, depth)
        elif kind == "message/rfc822":
            yield from self.forwarded(message, data, start, end, depth)
        elif kind == "text/calendar":
            yield from _calendar(self.decoded(message, _body(message, data[start:end])))
        elif is_file:
            self.attach(name or kind, message, end - start)
        else:
            yield from self.text(message, data[start:end])

    def several(self, message: Message, data: bytes, start: int, end: int, depth: int) -> Iterator[Block]:
        parts = list(self.divided(message, data, start, end)) if depth < MAX_PART_DEPTH else []
        if depth >= MAX_PART_DEPTH or not parts:
            why = f"parts more than {MAX_PART_DEPTH} deep" if parts or depth else "parts without the boundary they name"
            self.document.partial.append(f"{why} are read as plain text" if not depth else f"{why} are left out")
            yield from () if depth else self.text(Message(), data[start:end])
        elif message.get_content_subtype() == "alternative":
            yield from self.best([(*part, depth + 1) for part in parts], data)
        else:
            if message.get_content_subtype() == "related":  # a page, with the pictures and styles in it
                parts = parts[:1] + [part for part in parts[1:] if part[0].get_content_disposition() == "attachment"]
            for inner, at, until in parts:
                yield from self.part(inner, data, at, until, depth + 1)

    def divided(self, message: Message, data: bytes, start: int, end: int) -> Iterator[tuple[Message, int, int]]:
        boundary = collapse_rfc2231_value(message.get_param("boundary", "") or "").encode("latin-1", "replace")[:200]
        line = re.compile(rb"^--" + re.escape(boundary) + rb"(--)?[ \t]*\r?$", re.MULTILINE)
        before = 0
        for mark in line.finditer(data, start, end) if boundary else ():
            if before and self.counts():
                inner, at = self.head(data, before, mark.start())
                yield inner, at, mark.start()
            before = min(mark.end() + 1, end)
            if mark[1] or self.parts > MAX_PARTS:
                return
        if before and self.counts():  # what isn't closed ends with what holds it
            inner, at = self.head(data, before, end)
            yield inner, at, end

    def counts(self) -> bool:
        self.parts += 1
        if self.parts == MAX_PARTS + 1:
            self.document.partial.append(f"what follows the first {MAX_PARTS:,} parts is left out")
        return self.parts <= MAX_PARTS

    def best(self, parts: list[tuple[Message, int, int, int]], data: bytes) -> Iterator[Block]:
        """Read plain text, unless it only says that there is a page; and what is beside both, such as an invitation."""
        read = [(part[0].get_content_type(), list(self.part(part[0], data, *part[1:]))) for part in parts]
        plain = [block for kind, blocks in read if kind == "text/plain" for block in blocks]
        events = [block for kind, blocks in read if kind == "text/calendar" for block in blocks]
        others = [blocks for kind, blocks in read if kind not in {"text/plain", "text/calendar"}]
        page = max(reversed(others), key=_size, default=[])
        yield from page if _size(plain) * 3 < _size(page) else plain
        yield from events

    def forwarded(self, message: Message, data: bytes, start: int, end: int, depth: int) -> Iterator[Block]:
        if message.get("content-transfer-encoding", "").strip().lower() in {"base64", "quoted-printable"}:
            data = _body(message, data[start:end])
            start, end = 0, len(data)
        start += len(data[start : start + 4]) - len(data[start : start + 4].lstrip(b"\r\n"))
        inner, at = self.head(data, start, end)
        facts = {name: value for name in _SHOWN if (value := _header(inner, name))}
        for block in self.introduced(facts):
            yield replace(block, place="forwarded", level=2 if block.level else 0)
        if depth >= MAX_PART_DEPTH:
            self.document.partial.append(f"letters more than {MAX_PART_DEPTH} deep are left out")
            return
        for block in self.part(inner, data, at, end, depth + 1):
            yield replace(block, place="forwarded")

    def text(self, message: Message, body: bytes) -> Iterator[Block]:
        body = _body(message, body)
        if message.get_content_subtype() == "html":
            page = Document()
            with suppress(ParseError):
                declared = self.decoded(message, body)
                yield from _html(("\ufeff" + declared).encode("utf-8", "replace"), page, framed=False)
            self.document.partial += page.partial
            return
        text = self.decoded(message, body)
        if text.lstrip().startswith("-----BEGIN PGP MESSAGE-----"):
            raise NeedsAction("encrypted (PGP): open it in the mail program that has the key, and save it decrypted.")
        yield from _paragraphs(text)

    def decoded(self, message: Message, body: bytes) -> str:
        charset = collapse_rfc2231_value(message.get_param("charset", "") or "").strip().lower()
        try:
            return _text(body, self.document, declared=charset)
        except ParseError:
            self.document.partial.append("a part that should be text is binary data, and left out")
            return ""

    def attach(self, name: str, message: Message, size: int) -> None:
        if message.get("content-transfer-encoding", "").strip().lower() == "base64":
            size = size * 3 // 4
        self.attached.append(f"{name} ({max(size // 1000, 1):,} KB)")
        if message.get_content_type() == "application/ms-tnef" or name.casefold() == "winmail.dat":
            self.document.partial.append("what Outlook packed into winmail.dat is not read")


def _size(blocks: list[Block]) -> int:
    return sum(len(block.text.strip()) for block in blocks)


def _plain(value: bytes) -> str:
    """Return a header as text, in whatever encoding its bytes are."""
    try:
        return re.sub(r"[\r\n]+[ \t]*", " ", _decode(value, Document(), "")).strip()
    except ParseError:
        return value.decode("ascii", "replace")


def _header(message: Message, name: str) -> str:
    return _words(str(message.get(name, "")))


def _words(value: str) -> str:
    """Decode `=?charset?…?=`; what can't be is shown as it is."""
    pieces = list[str]()
    try:
        for piece, charset in decode_header(value):
            if isinstance(piece, bytes) and charset and charset != "unknown-8bit":
                pieces.append(_decode(piece, Document(), charset.lower()))
            else:
                pieces.append(piece if isinstance(piece, str) else piece.decode("raw_unicode_escape"))
    except (HeaderParseError, ParseError, ValueError):
        return value
    return " ".join("".join(pieces).split())


def _file_name(message: Message) -> str:
    name = message.get_filename("") or ""
    return _words(name).replace("\\", "/").rpartition("/")[2][:200]


def _body(message: Message, body: bytes) -> bytes:
    """Undo the transfer encoding; of what is damaged, as much as there is."""
    encoding = message.get("content-transfer-encoding", "").strip().lower()
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    if encoding != "base64":
        return body
    letters = body.translate(None, _BASE64)
    whole = len(letters) - (len(letters) % 4 == 1)  # a letter too many makes no byte
    return binascii.a2b_base64(letters[:whole] + b"=" * (-whole % 4))


def _calendar(text: str) -> Iterator[Block]:
    """`SUMMARY:예산 회의` and its like of each event -> `Event: 예산 회의`."""
    for piece in re.sub(r"\n[ \t]", "", text).split("BEGIN:VEVENT")[1:]:
        event = piece.partition("END:VEVENT")[0]
        lines = list[str]()
        for name, value in re.findall(r"^([A-Z]+)(?:;[^:\n]*)?:(.*)$", event, re.MULTILINE):
            if name in _EVENT and value.strip():
                shown = re.sub(r"\\([,;\\])", r"\1", value.replace("\\n", "\n").replace("\\N", "\n")).strip()
                shown = re.sub(r"^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d*(Z?))?$", _moment, shown)
                lines.append(f"{_EVENT[name]}: {shown}")
        yield Block("text", "\n".join(lines))


def _moment(found: re.Match[str]) -> str:
    clock = f" {found[4]}:{found[5]}{' UTC' if found[6] else ''}" if found[4] else ""
    return f"{found[1]}-{found[2]}-{found[3]}{clock}"
