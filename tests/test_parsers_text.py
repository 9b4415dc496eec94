"""Tests of the dispatcher, and of the formats that are text: txt, md, csv, tsv, json, html, pdf."""

import pytest

from seoga.parsers import SUFFIXES, Document, ParseError, parse


def read(text: str | bytes, name: str) -> Document:
    return parse(text.encode() if isinstance(text, str) else text, name)


def shown(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in document.blocks]


# --- dispatcher ---


def test_an_unknown_suffix_is_an_error_that_names_it() -> None:
    with pytest.raises(ParseError, match=r"\.xyz is not a format"):
        parse(b"x", "a.xyz")


def test_suffixes_are_found_in_any_case() -> None:
    assert shown(parse(b"x", "A.TXT")) == [("text", "x")]


@pytest.mark.parametrize("suffix", sorted(SUFFIXES & {".txt", ".md", ".csv", ".tsv", ".json", ".html", ".htm"}))
def test_an_empty_file_is_empty_and_no_error(suffix: str) -> None:
    assert parse(b"", f"a{suffix}").status == "empty"
    assert parse(b" \n\n ", f"a{suffix}").status == "empty"
