"""Lines of styled words, and the two ways to put them out: plain text and rich."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text

from bubblewatch.model.visible import visible


class Style(StrEnum):
    """Looks by meaning; the values are rich styles."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    GOOD = "bold green"
    WARN = "bold yellow"
    BAD = "bold red"
    NAME = "bold cyan"


@dataclass(frozen=True, slots=True)
class Span:
    """Words of one look, fit to be shown: `span()` makes them so."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]

EMPTY: Line = ()


def span(text: str, style: Style = Style.PLAIN) -> Span:
    """`text` with everything in it that acts on a terminal made visible."""
    return Span(visible(text), style)


def labelled(
    label: str, text: str, width: int, column: int, style: Style = Style.PLAIN, *, start: int = 0
) -> list[Line]:
    """`label` after `start` spaces, then `text` from `column` on, wrapped there, not at hyphens: options stay whole.

    At least 20 columns stay for text. What comes from outside begins no line: it is always behind `column`.
    """
    head = (" " * start + visible(label)).ljust(column)
    pieces = _wrapped(visible(text), max(width - len(head), 20))
    lead = Span(head, Style.STRONG if label and not start else Style.FAINT)
    rest = Span(" " * column)
    return [(lead if number == 0 else rest, Span(piece, style)) for number, piece in enumerate(pieces)]


def with_right(left: Line, right: Span, width: int) -> Line:
    """`left`, and `right` flush with column `width`; two spaces between them when there is no room."""
    used = sum(len(part.text) for part in left)
    gap = max(width - used - len(right.text), 2)
    return (*left, Span(" " * gap), right)


def plain(lines: Iterable[Line]) -> str:
    """The lines as text without any style, no white space at line ends, one newline at the end."""
    return "".join("".join(part.text for part in line).rstrip() + "\n" for line in lines)


def styled(lines: Iterable[Line]) -> Text:
    """The lines as one rich text. Markup in them is not interpreted."""
    return Text("\n").join(Text.assemble(*((part.text, part.style.value) for part in line)) for line in lines)


def wants_color(is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """Whether to colour: only on a terminal that can, and not when `NO_COLOR` is set (no-color.org) and not empty."""
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]
