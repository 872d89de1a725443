"""Untrusted text, made fit to be shown: on a terminal, in a label, in a page."""

from __future__ import annotations

import unicodedata

CUT = "…"
"""Stands where the rest of a text was cut off."""


def visible(text: str, limit: int | None = None) -> str:
    r"""`text` on one line in which nothing acts: what cannot be printed stands there as its escape (`\x1b`, `\n`).

    That covers control characters, ANSI escapes, direction overrides, zero-width characters and lone surrogates. A tab
    and every kind of space become a plain space. At most `limit` characters (>= 1); the last one is `…` when text was
    cut. Markup stays as it is: whoever shows the text must not interpret any.
    """
    shown = text if text.isprintable() else "".join(map(_visible_character, text))
    if limit is not None and len(shown) > limit:
        return shown[: limit - 1] + CUT
    return shown


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
