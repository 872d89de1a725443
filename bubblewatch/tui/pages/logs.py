"""The server's log as it was read, each line with what it was understood as."""

from __future__ import annotations

from bubblewatch.model.visible import visible
from bubblewatch.runtime.feed import ShownLine
from bubblewatch.tui import words
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, line, wrapped
from bubblewatch.tui.room import Room, Scene, Sheet, matches

MEANING = 14
"""Columns for what a line was understood as; longer words are cut."""

WITH_MEANING_FROM = 100
"""Columns from which a line is shown with its meaning and whole; below it is cut at the end of the row."""

MOST_ROWS = 3
"""Rows of one line at most."""

PREFIX = 2 + 9 + MEANING + 1
"""Columns before the text of a line: mark, time, meaning."""


def logs_page(scene: Scene, room: Room) -> Sheet:
    """The newest lines last. On narrow terminals the meaning is only a mark."""
    view = scene.view
    key = view.server.key if view and view.server else None
    choice = scene.choice
    mine = [one for one in scene.memory.lines or scene.feed.lines if key is None or one.server == key]
    kept = [
        one
        for one in mine
        if (one.meaning or not choice.known_only) and matches(f"{one.meaning} {one.text}", choice.filter)
    ]
    head = _head(scene, len(kept), len(mine), room)
    if not kept:
        why = "No line fits." if mine else "No log of this server was read: the Doctor page says why."
        return Sheet((head, EMPTY, line(Span(f"  {why}", Ink.FAINT))))
    lines = [piece for one in kept for piece in _row(one, room)]
    return Sheet((head, *lines), follows=True, pinned=1)


def _head(scene: Scene, kept: int, of: int, room: Room) -> Line:
    understood = sum(bool(one.meaning) for one in scene.memory.lines or scene.feed.lines)
    left = line(
        Span(f"{kept} of {of} lines" if kept != of else f"{of} lines", Ink.STRONG),
        Span(f", {understood} understood", Ink.FAINT),
        Span(f"   filter: {visible(scene.choice.filter)}", Ink.KEY) if scene.choice.filter else Span(""),
    )
    only = "all" if scene.choice.known_only else "only understood"
    keys = line(
        Span("u", Ink.KEY, "known_only"), Span(f" {only}  ", Ink.FAINT, "known_only"),
        Span("G", Ink.KEY, "end"), Span(" follow", Ink.FAINT, "end"),
    )  # fmt: skip
    return beside(left, keys if room.columns >= 60 else (), room.columns)


def _row(one: ShownLine, room: Room) -> list[Line]:
    mark = Span(
        f"{room.glyphs.marked if one.meaning else room.glyphs.unmarked} ", Ink.GOOD if one.meaning else Ink.FAINT
    )
    ink = Ink.BAD if one.is_failure else Ink.PLAIN if one.meaning else Ink.FAINT
    at = Span(f"{words.clock(one.time_ns)} ", Ink.FAINT)
    if room.columns < WITH_MEANING_FROM:
        return [cut((mark, at, Span(visible(one.text), ink)), room.columns)]
    meaning = Span(f"{visible(one.meaning, MEANING):{MEANING}} ", Ink.KEY)
    pieces = wrapped(one.text, room.columns - PREFIX)[:MOST_ROWS]
    first: Line = (mark, at, meaning, Span(pieces[0], ink))
    return [first, *(line(Span(" " * PREFIX), Span(piece, ink)) for piece in pieces[1:])]
