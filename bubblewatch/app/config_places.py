"""Where in a TOML file each key stands; tomllib gives values without their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(rf"\s*({_PATH})\s*=")
_TOKEN = re.compile(r"""\"\"\"|'''|"(?:[^"\\]|\\.)*"|'[^']*'|#.*|[\[\]{}]""")


def key_lines(text: str) -> Mapping[str, int]:
    """Dotted key or table -> 1-based line on which it is first written. `text` is TOML that tomllib accepts.

    Keys within inline tables have the line of the table.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in _statements(text):
        if match := _TABLE.match(line):
            table = _dotted(match[1])
            lines.setdefault(table, number)
        elif match := _KEY.match(line):
            key = _dotted(match[1])
            lines.setdefault(f"{table}.{key}" if table else key, number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Lines that begin a statement, with their numbers: not those inside a long string or a list."""
    quote, depth = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not quote and not depth:
            yield number, line
            is_table = _TABLE.match(line) is not None
            if is_table:
                continue
        quote, depth = _after(line, quote, depth)


def _after(line: str, quote: str, depth: int) -> tuple[str, int]:
    """The long quote that is open at the end of the line ("" = none) and the depth of brackets."""
    at = 0
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return quote, depth
            at, quote = end + 3, ""
        match = _TOKEN.search(line, at)
        if match is None:
            return "", depth
        at, mark = match.end(), match[0]
        if mark in {'"""', "'''"}:
            quote = mark
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1


def _dotted(path: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_NAME, path))
