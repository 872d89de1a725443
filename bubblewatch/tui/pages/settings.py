"""The settings of a server: what holds, where each was read, and what differs from what the launch asks for."""

from __future__ import annotations

from bubblewatch.model.server import Origin, Server, Setting, SettingValue
from bubblewatch.model.visible import visible
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, line, padded, paragraph, shown
from bubblewatch.tui.room import Room, Scene, Sheet, matches

VALUE_LENGTH = 300
"""Characters of a value that are shown; a model path fits, a JSON override is cut."""


def settings_page(scene: Scene, room: Room) -> Sheet:
    """Settings that somebody made first, drift marked; defaults of the version only when asked for."""
    view = scene.view
    server = view.server if view else None
    if server is None:
        return Sheet((EMPTY, line(Span("  No server is seen, so there are no settings.", Ink.FAINT))))
    choice = scene.choice
    every = sorted(server.settings, key=lambda one: (not _is_made(server, one), one.name))
    chosen = [one for one in every if choice.with_defaults or choice.filter or _is_made(server, one)]
    kept = [one for one in chosen if matches(f"{one.name} {one.value} {one.origin}", choice.filter)]
    lines = [_head(scene, len(kept), len(every), room), *_launch(server, room)]
    lines += [
        piece for text in server.settings.problems for piece in paragraph("note", text, room.columns, 9, Ink.WARN)
    ]
    lines += [EMPTY] if room.rows >= 20 else []
    widths = _widths(kept, room.columns)
    for one in kept:
        lines.append(_row(server, one, widths, room.columns))
    if not kept:
        lines.append(line(Span("  No setting fits." if every else "  No setting is known.", Ink.FAINT)))
    return Sheet(tuple(lines), pinned=1)


def _is_made(server: Server, setting: Setting) -> bool:
    """Whether somebody set this, rather than the server: the launch asks for it, or something other than its log says
    it.
    """
    asked = server.asked.values.get(setting.name)
    by_launch = asked is not None and asked.origin is not Origin.DEFAULT
    return by_launch or setting.origin in (Origin.ENVIRONMENT, Origin.FILE, Origin.ARGV, Origin.STATED)


def drift(server: Server, setting: Setting) -> SettingValue | None:
    """What the launch asks for where that is not what holds; None where both agree or nothing was asked."""
    asked = server.asked.values.get(setting.name)
    if asked is None or asked.origin is Origin.DEFAULT or asked.value == setting.value:
        return None
    return asked.value


def _head(scene: Scene, kept: int, of: int, room: Room) -> Line:
    said = "d", " only what was set" if scene.choice.with_defaults else " all settings"
    left = line(
        Span(f"{kept} of {of} settings", Ink.STRONG),
        Span(f"   filter: {visible(scene.choice.filter)}", Ink.KEY) if scene.choice.filter else Span(""),
    )
    keys = line(Span(said[0], Ink.KEY, "with_defaults"), Span(said[1], Ink.FAINT, "with_defaults"))
    return beside(left, keys if room.columns >= 60 else (), room.columns)


def _launch(server: Server, room: Room) -> list[Line]:
    """Who runs: the version and how it is known, and the command."""
    known = f" (by {server.version_basis})" if server.version_basis else ""
    lines = [
        cut(
            line(
                Span(f"{'server':9}", Ink.FAINT),
                shown(f"{server.kind} {server.version or 'version unknown'}{known}"),
                shown(f"  pid {server.main_pid}" if server.main_pid else "", Ink.FAINT),
                shown(f"  unit {server.unit}" if server.unit else "", Ink.FAINT),
            ),
            room.columns,
        )
    ]
    launch = server.launch
    if launch is None or not launch.argv:
        return lines
    words = paragraph("launch", " ".join(launch.argv), room.columns, 9, Ink.FAINT)
    return [*lines, *(words if room.rows >= 20 else words[:1])]


def _widths(settings: list[Setting], columns: int) -> tuple[int, int, int]:
    """Columns of name, value and origin; the evidence gets what is left."""
    name = min(max((len(one.name) for one in settings), default=10), 34 if columns >= 100 else 26)
    origin = 18 if columns >= 90 else 8
    value = min(
        max((len(visible(str(one.value))) for one in settings), default=10), max(columns - name - origin - 30, 12)
    )
    return name, value, origin


def _row(server: Server, one: Setting, widths: tuple[int, int, int], columns: int) -> Line:
    name, value, origin = widths
    is_default = not _is_made(server, one)
    asked = drift(server, one)
    ink = Ink.WARN if asked is not None else Ink.FAINT if is_default else Ink.STRONG
    cells: Line = (
        *padded(line(shown(one.name, Ink.FAINT if is_default else Ink.PLAIN)), name), Span(" "),
        *padded(line(shown(visible(_said(one.value), VALUE_LENGTH), ink)), value), Span(" "),
        *padded(line(Span(_read_in(server, one), Ink.FAINT)), origin), Span(" "),
    )  # fmt: skip
    by_launch = server.asked.values.get(one.name)
    places = (by_launch.evidence if by_launch else "", one.evidence)
    known = "; ".join(dict.fromkeys(place for place in places if place))
    note = f"the launch asks for {_said(asked)}: {known}" if asked is not None else known
    return cut((*cells, shown(note, Ink.WARN if asked is not None else Ink.FAINT)), columns)


def _read_in(server: Server, setting: Setting) -> str:
    """Where it was read: `argv, log` when the launch asks for what the server says."""
    asked = server.asked.values.get(setting.name)
    origins = (asked.origin if asked and asked.origin is not Origin.DEFAULT else setting.origin, setting.origin)
    return ", ".join(dict.fromkeys(map(str, origins)))


def _said(value: SettingValue) -> str:
    """A value as people write it: switches as on and off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unset" if value is None else str(value)
