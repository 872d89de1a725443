"""The first page: is anything wrong, where, why, and what to change."""

from __future__ import annotations

from bubblewatch.model.findings import Finding, Severity, TargetView
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.model.visible import visible
from bubblewatch.runtime.feed import ShownLine
from bubblewatch.tui import words
from bubblewatch.tui.account import Account, Part, account_of
from bubblewatch.tui.charts import stacked
from bubblewatch.tui.ink import (
    EMPTY,
    Ink,
    Line,
    Span,
    beside,
    columns_of,
    cut,
    fitted,
    line,
    padded,
    shown,
    side_by_side,
)
from bubblewatch.tui.pages.finding import fact_lines, more_lines, remedy_lines
from bubblewatch.tui.pages.gpu_grid import grid_lines
from bubblewatch.tui.pages.gpu_table import table_lines
from bubblewatch.tui.room import Room, Scene, Sheet

DEFAULT_WINDOW_S = 30.0
"""Seconds of a window whose length the telemetry does not say; only shares are shown of it."""

MOST_LIVE = 8
"""Log lines at the end of the page at most; the Logs page has the rest."""

LEAST_PREVIEW = 5
"""Rows from which the change is shown below the list: a blank one, what to do, an option, the gain."""

TWO_BLOCKS_FROM = 150
"""Columns from which the evidence stands beside it."""

PREVIEW_INDENT = 3
"""Columns before it: below the names of the findings."""

_PART_INKS = {
    Part.ACTIVE: Ink.PART_ACTIVE,
    Part.LOW: Ink.PART_LOW,
    Part.ABSENT: Ink.PART_ABSENT,
    Part.NOBODY: Ink.PART_NOBODY,
    Part.STARTING: Ink.PART_STARTING,
    Part.UNKNOWN: Ink.PART_UNKNOWN,
}

_PART_SIGNS = {
    True: {Part.ACTIVE: "█", Part.LOW: "▓", Part.ABSENT: "░", Part.NOBODY: "·", Part.STARTING: "▒", Part.UNKNOWN: "?"},
    False: {Part.ACTIVE: "#", Part.LOW: "=", Part.ABSENT: ".", Part.NOBODY: "_", Part.STARTING: "+", Part.UNKNOWN: "?"},
}
"""Whether there are block elements -> the sign of each part, so that it is not told by colour alone."""


def overview(scene: Scene, room: Room) -> Sheet:
    """The page. On few rows the findings come before the GPUs; with many GPUs a grid stands for the table."""
    view = scene.view
    gpus = gpus_of(scene, view)
    findings = scene.findings
    account = _account_lines(scene, view, gpus, room) if view and room.rows >= 14 else []
    listed, cursor = finding_lines(scene, room)
    live = _live_lines(scene, room) if room.rows >= 12 else []
    free = room.rows - len(account) - len(listed) - min(len(live), 1) - 1
    if gpus and (len(gpus) + 1 <= free or (len(gpus) <= 16 and room.rows >= 12)):
        drawn = table_lines(scene, gpus, room)
    else:
        drawn = grid_lines(scene, gpus, room)
    if room.rows < 12:
        lines = [*listed, *drawn]
        return Sheet(tuple(lines), cursor if findings else None)
    lines = [*account, *drawn, EMPTY, *listed]
    cursor += len(lines) - len(listed)
    lines += _preview(scene, room, room.rows - len(lines) - 3)
    spare = max(room.rows - len(lines) - 1, 1)
    lines += [EMPTY] if spare > 1 and live else []
    lines += live[-spare:]
    return Sheet(tuple(lines), cursor if findings else None)


def gpus_of(scene: Scene, view: TargetView | None) -> list[GpuInfo]:
    """The GPUs of the server in the order of its stages; all of the host when there is no server."""
    ranks = view.server.gpus if view and view.server else {}
    if not ranks:
        return sorted(scene.snapshot.gpus, key=lambda gpu: gpu.index)
    mine = [gpu for gpu in scene.snapshot.gpus if gpu.uuid in ranks]

    def place(gpu: GpuInfo) -> tuple[bool, int, int, int, int]:
        rank = ranks[gpu.uuid]
        return (rank is None, rank.dp if rank else 0, rank.pp if rank else 0, rank.tp if rank else 0, gpu.index)

    return sorted(mine, key=place)


def _account_lines(scene: Scene, view: TargetView, gpus: list[GpuInfo], room: Room) -> list[Line]:
    """Where the GPU-seconds went, as a bar, and what the idle part is put down to."""
    signals = [scene.snapshot.gpu_signals.get(gpu.uuid, Signals()) for gpu in gpus]
    window_s = view.signals.number("telemetry.seconds") or min(scene.snapshot.watched_s, DEFAULT_WINDOW_S)
    account = account_of(view, signals, window_s)
    signs = _PART_SIGNS[room.glyphs.full != "#"]
    present = [part for part in Part if account.shares[part] >= 0.005]
    legend = [
        (5 - min(round(10 * account.shares[part]), 5), (Span(f"{signs[part]} ", _PART_INKS[part]),
                                                        Span(f"{part} {100 * account.shares[part]:.0f}%")))
        for part in present
    ]  # fmt: skip
    label = f"{account.gpu_seconds:.0f} GPU-s " if room.columns >= 60 else ""
    legend_line = fitted(legend, max(room.columns - len(label) - 14, 10))
    size = room.columns - len(label) - columns_of(legend_line) - 1
    bar = stacked([(account.shares[part], (signs[part], _PART_INKS[part])) for part in present], min(size, 60))
    first: Line = (Span(label, Ink.FAINT), *bar, Span(" "), *legend_line)
    causes = _cause_line(account, room.columns)
    return [first, *([causes] if causes else []), EMPTY] if room.rows >= 24 else [first, *([causes] if causes else [])]


def _cause_line(account: Account, columns: int) -> Line:
    if not account.causes:
        return EMPTY
    parts = [(0, line(Span(f"idle {100 * account.idle:.0f}% put down to", Ink.FAINT)))]
    parts += [
        (1, line(shown(f"{cause.name} {100 * cause.share:.0f}%"), Span(f" {cause.confidence.word}", Ink.FAINT)))
        for cause in account.causes
    ]
    return fitted(parts, columns)


def finding_lines(scene: Scene, room: Room) -> tuple[list[Line], int]:
    """The findings by what to do first, and the number of the line that the cursor is on."""
    findings = scene.findings
    if not findings:
        view = scene.view
        text = "No findings." if view is not None else ""
        asked = [line(Span(f"  ask for  {visible(one)}", Ink.FAINT)) for one in (view.missing[:3] if view else ())]
        return [line(Span(text, Ink.FAINT)), *asked], 0
    numbers = {finding.name: number for number, finding in reversed(list(enumerate(findings, start=1)))}
    at = min(scene.choice.finding, len(findings) - 1)
    widest = max(len(finding.name) for finding in findings)
    lines: list[Line] = []
    cursor = 0
    for place, finding in enumerate(findings):
        if place == at:
            cursor = len(lines)
        row = _finding_row(scene, finding, place, numbers, widest, room, here=place == at)
        lines.append(cut(row, room.columns))
        if place == at and room.rows < 12 and finding.remedy:
            lines.append(cut(line(Span(f"   {visible(words.sentence(finding.remedy.do))}", Ink.STRONG)), room.columns))
    return lines, cursor


def _finding_row(
    scene: Scene, finding: Finding, place: int, numbers: dict[str, int], widest: int, room: Room, *, here: bool
) -> Line:
    action = f"open_finding({place})"
    quiet = bool(finding.held_back_by) or finding.ignored or finding.severity is Severity.INFO
    name_ink = Ink.FAINT if quiet else Ink.STRONG
    mark = Span(f"{room.glyphs.cursor if here else ' '}{place + 1} ", Ink.KEY if here else Ink.FAINT, action)
    name = Span(f"{finding.name:{widest}}", name_ink, action)
    word, ink = words.sureness(finding)
    sure = padded(line(Span(word, Ink.FAINT if quiet else ink)), 15 if "CRITICAL" in word else 9)
    since = words.age(finding.since_ns, scene.snapshot.time_ns)
    head: Line = (mark, name, Span("  "), *sure)
    head = (*head, Span(f" {since:>6}", Ink.FAINT)) if room.columns >= 60 and since else head
    if room.columns < 60:
        return head
    links = _link_words(finding, numbers)
    gain = words.gain_words(finding.expected_gain)
    right = line(Span(links or gain, Ink.FAINT if links or "uncertain" in gain else Ink.GOOD))
    left = (*head, Span("  "), shown(finding.summary, Ink.FAINT if quiet else Ink.PLAIN, action))
    return beside(left, (Span("  "), *right) if right else EMPTY, room.columns)


def _link_words(finding: Finding, numbers: dict[str, int]) -> str:
    def joined(names: tuple[str, ...]) -> str:
        return ", ".join(str(numbers.get(name, name)) for name in names)

    if finding.held_back_by:
        return f"held back by {joined(finding.held_back_by)}"
    if standing := words.standing(finding):
        return standing
    return f"effect of {joined(finding.caused_by)}" if finding.caused_by else ""


def _preview(scene: Scene, room: Room, free: int) -> list[Line]:
    """What to do about the finding under the cursor, where there is room for it."""
    finding = scene.finding
    if finding is None or free < LEAST_PREVIEW:
        return []
    with_evidence = room.columns >= TWO_BLOCKS_FROM
    columns = min((room.columns // 2 if with_evidence else room.columns) - PREVIEW_INDENT, 100)
    lines = [*remedy_lines(finding, columns), *more_lines(finding, columns)]
    if with_evidence:
        width = room.columns - columns - PREVIEW_INDENT - 2
        facts = [line(Span("because", Ink.FAINT)), *fact_lines(finding.evidence, width)]
        lines = side_by_side([lines, facts], [columns, width])
    return [EMPTY, *((Span(" " * PREVIEW_INDENT), *one) for one in lines[: free - 1])]


def _live_lines(scene: Scene, room: Room) -> list[Line]:
    """The newest log lines of this server."""
    view = scene.view
    key = view.server.key if view and view.server else None
    lines = [one for one in scene.memory.lines or scene.feed.lines if one.server == key]
    return [cut(_live_line(one, room), room.columns) for one in lines[-MOST_LIVE:]]


def _live_line(one: ShownLine, room: Room) -> Line:
    known = bool(one.meaning)
    mark = Span(f"{room.glyphs.live if known else room.glyphs.unmarked} ", Ink.GOOD if known else Ink.FAINT)
    text = shown(one.text, Ink.BAD if one.is_failure else Ink.FAINT, "page('logs')")
    return line(mark, Span(f"{words.clock(one.time_ns)} ", Ink.FAINT), text)
