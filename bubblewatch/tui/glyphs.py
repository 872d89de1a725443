"""The signs that are drawn with: block elements where the terminal has them, plain ASCII elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs. `levels` are the heights of a sparkline from nothing to full, each one column wide."""

    levels: str
    full: str
    empty: str
    rule: str
    cursor: str
    marked: str
    unmarked: str
    live: str
    up: str
    down: str
    arrow: str
    gap: str
    dot: str


BLOCKS = Glyphs(" ▁▂▃▄▅▆▇█", "█", "░", "─", "▶", "●", "·", "●", "▲", "▼", "→", "·", "·")

ASCII = Glyphs(" .:-=+*#@", "#", ".", "-", ">", "*", ".", "*", "^", "v", "->", " ", "-")


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """Blocks where the locale is UTF-8 and the terminal is not the bare Linux console, which lacks most of them."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    is_utf8 = "utf-8" in locale.lower() or "utf8" in locale.lower()
    return BLOCKS if is_utf8 and environ.get("TERM") != "linux" else ASCII


def ascii_only(text: str) -> str:
    """`text` with `?` for everything beyond ASCII; for terminals whose font has nothing else."""
    return text if text.isascii() else text.encode("ascii", "replace").decode("ascii")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal cannot place a cursor."""
    return environ.get("TERM", "") in {"", "dumb", "unknown"}
