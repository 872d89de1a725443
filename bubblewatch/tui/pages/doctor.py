"""What can be seen from here, what cannot, which findings that loses, and what mends it."""

from __future__ import annotations

from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.visible import visible
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, cut, line, paragraph
from bubblewatch.tui.room import Room, Scene, Sheet

INDENT = 24
"""Columns before what a source says: its name and its health."""

_INKS = {Health.OK: Ink.GOOD, Health.DEGRADED: Ink.WARN, Health.OFF: Ink.FAINT, Health.ABSENT: Ink.WARN}


def doctor_page(scene: Scene, room: Room) -> Sheet:
    """A paragraph for each source, then what would make the judgement better."""
    snapshot, columns = scene.snapshot, min(room.columns, 120)
    loses = dict(scene.loses)
    lines: list[Line] = []
    for source in snapshot.sources:
        lines += _source(source, loses.get(source.name, ()), columns)
    if not snapshot.sources:
        lines.append(line(Span("No source was opened.", Ink.FAINT)))
    for view in snapshot.views:
        if view.missing:
            name = view.server.key if view.server else view.target.id
            lines += [EMPTY, line(Span("To judge ", Ink.FAINT), Span(visible(name, 40), Ink.NAME), " better, give it")]
            lines += [piece for text in view.missing for piece in paragraph("  -", text, columns, 4)]
    unread = _unread(scene)
    if unread:
        lines += [EMPTY, line(Span("Signals that are not known, and why", Ink.KEY))]
        lines += [piece for name, why in unread for piece in paragraph(f"  {name}", why, columns, 30, Ink.FAINT)]
    lines += [
        EMPTY,
        cut(line(Span(f"watched for {snapshot.watched_s:.0f} s, {len(snapshot.gpus)} GPUs", Ink.FAINT)), columns),
    ]
    return Sheet(tuple(lines))


def _source(source: SourceHealth, loses: tuple[str, ...], columns: int) -> list[Line]:
    name = Span(f"{visible(source.name, 14):14} ", Ink.STRONG)
    health = Span(f"{source.health.upper():8} ", _INKS.get(source.health, Ink.BAD))
    indent = INDENT if columns >= 70 else 4
    said = paragraph("", source.detail or "-", columns, indent)
    if columns >= 70:
        first: Line = (name, health, *said[0][1:])
        lines = [cut(first, columns), *said[1:]]
    else:
        lines = [(name, health), *said]
    if source.health is not Health.OK and source.mend:
        lines += paragraph(
            " " * (indent - 6) + "mend" if indent > 6 else "mend", source.mend, columns, indent, Ink.ADDED
        )
    if source.health is not Health.OK and loses:
        label = " " * (indent - 6) + "loses" if indent > 6 else "lose"
        lines += paragraph(label, ", ".join(loses), columns, indent, Ink.FAINT)
    return lines


def _unread(scene: Scene) -> list[tuple[str, str]]:
    """Signals of the shown server that have a particular reason to be missing."""
    view = scene.view
    if view is None:
        return []
    return [(name, why) for name, why in sorted(view.signals.missing.items()) if why != "not measured"]
