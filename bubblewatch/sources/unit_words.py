"""The text of systemd unit files: sections and keys with their lines, and the words of a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bubblewatch.model.errors import Place, UsageError
from bubblewatch.sources.shell_text import Word

_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]\s*$")
_VARIABLE = re.compile(r"\$(?:\$|\{(?P<braced>\w+)\}|(?P<bare>[A-Za-z_]\w*)$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "s": " "}


@dataclass(frozen=True, slots=True)
class Entry:
    """One `Key=value` of a section. Joined lines are kept apart by line breaks; `lines` holds the number of each."""

    section: str
    key: str
    value: str
    path: str
    lines: tuple[int, ...]

    @property
    def line(self) -> int:
        return self.lines[0]


def entries_of(text: str, path: str) -> Iterator[Entry]:
    """Every assignment of unit file `text`, in order. Comments are left out, also those between joined lines."""
    section = ""
    open_entry: Entry | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith(("#", ";")):
            continue
        joins = bare.endswith("\\")
        part = bare.removesuffix("\\").rstrip()
        if open_entry is not None:
            open_entry = replace(open_entry, value=f"{open_entry.value}\n{part}", lines=(*open_entry.lines, number))
        elif found := _SECTION.match(bare):
            section = found["name"]
            continue
        else:
            key, equals, value = part.partition("=")
            if not equals:
                continue
            open_entry = Entry(section, key.strip(), value.strip(), path, (number,))
        if not joins:
            yield open_entry
            open_entry = None
    if open_entry is not None:
        yield open_entry


def unit_words(entry: Entry) -> list[Word]:
    """The words of a value, quotes and backslashes resolved (systemd.syntax(7), "Quoting").

    Raises UsageError with file and line for a quote that never ends.
    """
    words: list[Word] = []
    text, position = entry.value, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        line = entry.lines[min(text.count("\n", 0, position), len(entry.lines) - 1)]
        word, position = _one_word(text, position, Place(entry.path, line))
        words.append(Word(word, line, file=entry.path))
    return words


def _one_word(text: str, position: int, place: Place) -> tuple[str, int]:
    """The word that starts at `position`, and where it ends."""
    parts: list[str] = []
    quote = ""
    while position < len(text) and (quote or not text[position].isspace()):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            following = text[position + 1]
            parts.append(_ESCAPES.get(following, following))
            position += 2
            continue
        if char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            parts.append(" " if char == "\n" else char)
        position += 1
    if quote:
        raise UsageError(f"{place}: the quote {quote} that opens here is never closed")
    return "".join(parts), position


def expand_specifiers(entry: Entry, unit: str) -> Entry:
    """The entry with `%i`, `%p`, `%n` and `%%` replaced for the unit file name `unit`; others stay as written."""
    stem = unit.rpartition(".")[0] or unit
    prefix, _, instance = stem.partition("@")
    known = {"n": unit, "N": stem, "p": prefix, "i": instance, "I": instance.replace("-", "/"), "%": "%"}
    value = re.sub(r"%([nNpiI%])", lambda found: known[found[1]], entry.value)
    return replace(entry, value=value)


def expand_variables(words: Sequence[Word], variables: Mapping[str, str]) -> list[Word]:
    """The words with `${NAME}` put in, and `$NAME` as a word of its own split into words; unknown ones stay as written.

    systemd.service(5), "Command lines"; `$$` is a dollar sign.
    """
    expanded: list[Word] = []
    for word in words:
        if (bare := re.fullmatch(r"\$([A-Za-z_]\w*)", word.text)) and bare[1] in variables:
            expanded += [replace(word, text=part) for part in variables[bare[1]].split()]
        else:
            text = _VARIABLE.sub(lambda found: _value(found, variables), word.text)
            expanded.append(replace(word, text=text))
    return expanded


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found.group() == "$$":
        return "$"
    return variables.get(found["braced"] or found["bare"], found.group())
