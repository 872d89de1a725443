"""Lines of words with a meaning, from which a palette makes colours. No line is ever wider than it is asked to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from bubblewatch.model.visible import CUT, visible


class Ink(StrEnum):
    """Looks by meaning. Nothing is told by colour alone: words, marks and heights say the same."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    NAME = "name"
    KEY = "key"
    BADGE_GOOD = "badge-good"
    BADGE_WARN = "badge-warn"
    BADGE_BAD = "badge-bad"
    BADGE_NEUTRAL = "badge-neutral"
    ADDED = "added"
    REMOVED = "removed"
    DUTY_0 = "duty-0"
    DUTY_1 = "duty-1"
    DUTY_2 = "duty-2"
    DUTY_3 = "duty-3"
    DUTY_4 = "duty-4"
    POWER = "power"
    CAUTION = "caution"
    RULE = "rule"
    TRACK = "track"
    TRACK_POWER = "track-power"
    TRACK_0 = "track-0"
    TRACK_1 = "track-1"
    TRACK_2 = "track-2"
    TRACK_3 = "track-3"
    TRACK_4 = "track-4"
    PART_ACTIVE = "part-active"
    PART_LOW = "part-low"
    PART_ABSENT = "part-absent"
    PART_NOBODY = "part-nobody"
    PART_STARTING = "part-starting"
    PART_UNKNOWN = "part-unknown"


DUTY_INKS = (Ink.DUTY_0, Ink.DUTY_1, Ink.DUTY_2, Ink.DUTY_3, Ink.DUTY_4)


def duty_ink(duty: float) -> Ink:
    """The look of a share of time at work, 0..1."""
    return DUTY_INKS[min(int(max(duty, 0.0) * len(DUTY_INKS)), len(DUTY_INKS) - 1)]


TRACK_INKS = (Ink.TRACK_0, Ink.TRACK_1, Ink.TRACK_2, Ink.TRACK_3, Ink.TRACK_4)


def track_ink(duty: float) -> Ink:
    """The same on the track of a lane, which shows the time that was not worked."""
    return TRACK_INKS[DUTY_INKS.index(duty_ink(duty))]


@dataclass(frozen=True, slots=True)
class Span:
    """Words of one look, fit to be shown. `action`: what a click on them does, as the application names it."""

    text: str
    ink: Ink = Ink.PLAIN
    action: str = ""


Line = tuple[Span, ...]

EMPTY: Line = ()


def shown(text: str, ink: Ink = Ink.PLAIN, action: str = "") -> Span:
    """A span of text from anywhere: what could act on a terminal shows as its escape."""
    return Span(visible(text), ink, action)


def line(*parts: Span | str) -> Line:
    """A line of spans and plain words, empty ones left out."""
    spans = (shown(part) if isinstance(part, str) else part for part in parts)
    return tuple(span for span in spans if span.text)


def columns_of(one: Line) -> int:
    """How many columns of the terminal the line takes: wide characters take two, combining ones none."""
    return sum(cell_len(span.text) for span in one)


def cut(one: Line, columns: int) -> Line:
    """The line in at most so many columns; the last one is `…` when something was cut off."""
    if columns_of(one) <= columns:
        return one
    if columns <= 0:
        return EMPTY
    kept: list[Span] = []
    left = columns - 1
    for span in one:
        size = cell_len(span.text)
        if size >= left:
            kept.append(Span(set_cell_size(span.text, left) + CUT, span.ink, span.action))
            break
        kept.append(span)
        left -= size
    return tuple(kept)


def padded(one: Line, columns: int, *, right: bool = False) -> Line:
    """The line in exactly so many columns, flush left or right."""
    one = cut(one, columns)
    room = columns - columns_of(one)
    if room <= 0:
        return one
    return (Span(" " * room), *one) if right else (*one, Span(" " * room))


def beside(left: Line, right: Line, columns: int) -> Line:
    """`left` and, flush with the last column, `right`; `left` is cut where both do not fit."""
    room = columns - columns_of(right)
    if room < 2:
        return cut(left, columns)
    return (*padded(left, room), *right) if right else cut(left, columns)


def fitted(parts: Sequence[tuple[int, Line]], columns: int, gap: int = 2) -> Line:
    """The parts with a gap between, those of the highest number left out until the rest fits."""
    kept = [(rank, part) for rank, part in parts if part]
    while len(kept) > 1 and sum(columns_of(part) + gap for _, part in kept) - gap > columns:
        worst = max(range(len(kept)), key=lambda place: (kept[place][0], place))
        del kept[worst]
    joined: list[Span] = []
    for _, part in kept:
        joined += [Span(" " * gap), *part] if joined else part
    return cut(tuple(joined), columns)


def wrapped(text: str, columns: int) -> list[str]:
    """`text`, made visible, in pieces of at most so many columns, broken at spaces where it has any."""
    columns, text = max(columns, 2), visible(text)
    size: Callable[[str], int] = len if text.isascii() else cell_len
    if size(text) <= columns:
        return [text]
    pieces: list[str] = []
    current = ""
    for word in text.split(" "):
        joined = f"{current} {word}" if current else word
        if size(joined) <= columns:
            current = joined
            continue
        if current:
            pieces.append(current)
        *full, current = _chopped(word, columns)
        pieces += full
    return [*pieces, current] if current or not pieces else pieces


def _chopped(word: str, columns: int) -> list[str]:
    """A word in pieces of at most so many columns."""
    pieces, current, used = [], "", 0
    for character in word:
        size = get_character_cell_size(character)
        if used + size > columns:
            pieces.append(current)
            current, used = "", 0
        current += character
        used += size
    return [*pieces, current]


def paragraph(label: str, text: str, columns: int, indent: int, ink: Ink = Ink.PLAIN) -> list[Line]:
    """`label`, and `text` from column `indent` on, wrapped there."""
    head = Span(set_cell_size(visible(label), indent), Ink.FAINT)
    rest = Span(" " * indent)
    pieces = wrapped(text, columns - indent)
    return [cut((rest if number else head, Span(piece, ink)), columns) for number, piece in enumerate(pieces)]


def runs(cells: Iterable[tuple[str, Ink]]) -> Line:
    """Single cells as few spans."""
    return tuple(Span("".join(text for text, _ in group), ink) for ink, group in groupby(cells, lambda cell: cell[1]))


def side_by_side(columns: Sequence[Sequence[Line]], widths: Sequence[int], gap: int = 2) -> list[Line]:
    """Blocks of lines next to each other, each in its width."""
    height = max((len(block) for block in columns), default=0)
    lines = []
    for row in range(height):
        spans: list[Span] = []
        for block, width in zip(columns, widths, strict=True):
            spans += [Span(" " * gap)] if spans else []
            spans += padded(block[row] if row < len(block) else EMPTY, width)
        lines.append(tuple(spans))
    return lines


def plain(lines: Iterable[Line]) -> str:
    """The lines as text without any look, no white space at line ends."""
    return "\n".join("".join(span.text for span in one).rstrip() for one in lines)
