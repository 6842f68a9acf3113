# SPDX-License-Identifier: BSD-3-Clause
"""Reads the files of test/golden (their README says how they are written)."""

import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden"

ITEM = re.compile(r' *(?:"((?:[^"\\]|\\.)*)"(?:\*(\d+))?|([0-9a-f]{2}))')
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")
LETTERS = {b"r": b"\r", b"n": b"\n"}

class Exchange(NamedTuple):
    line: int  # of the request in the file
    request: bytes
    reply: bytes
    any_bytes: int  # bytes of the reply behind it that may be anything
    closes: bool


def unescape(text):
    def one(match):
        if match[1]:
            return bytes.fromhex(match[1].decode())
        return LETTERS.get(match[2], match[2])

    return ESCAPE.sub(one, text.encode("latin-1"))


def bytes_of(items):
    """The bytes that what follows a `>` or `<` stands for."""
    parts = []
    at = 0
    items = items.rstrip()
    while at < len(items):
        match = ITEM.match(items, at)
        assert match, f"cannot parse: {items[at:]}"
        text, times, pair = match.groups()
        parts.append(bytes.fromhex(pair) if pair else unescape(text) * int(times or 1))
        at = match.end()
    return b"".join(parts)


def exchanges(lines):
    """The exchanges of numbered lines."""
    found = []
    before = ""
    for number, line in lines:
        kind, rest = line[:1], line[1:]
        if kind == ">" and before != ">":
            found.append(Exchange(number, bytes_of(rest), b"", 0, False))
        elif kind == ">":
            found[-1] = found[-1]._replace(request=found[-1].request + bytes_of(rest))
        elif kind == "<" and rest.startswith(" *"):
            found[-1] = found[-1]._replace(any_bytes=int(rest[2:]))
        elif kind == "<":
            found[-1] = found[-1]._replace(reply=found[-1].reply + bytes_of(rest))
        elif kind == "=" and (rest.endswith(" close") or rest.split()[0] == "quit"):
            found[-1] = found[-1]._replace(closes=True)
        before = kind
    return found


def dialogues(name):
    """The dialogues of a file: one, or one for each paragraph of a list of errors."""
    text = (FOLDER / name).read_text(encoding="latin-1")
    lines = list(enumerate(text.split("\n"), 1))
    if not name.endswith("_errors.txt"):
        return [exchanges(lines)]
    paragraphs = [[]]
    for number, line in lines:
        if line:
            paragraphs[-1].append((number, line))
        else:
            paragraphs.append([])
    return [found for found in map(exchanges, paragraphs) if found]
