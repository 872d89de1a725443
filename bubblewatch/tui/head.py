"""The two lines above every page, and the line of keys below it."""

from __future__ import annotations

from bubblewatch.model.findings import Answer, Finding, Health, Severity, SourceHealth, State, TargetView
from bubblewatch.model.visible import visible
from bubblewatch.tui import words
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, fitted, line, shown
from bubblewatch.tui.room import Page, Room, Scene, shown_findings, worst_first

NAME_LENGTH = 40
"""Characters of a server's or host's name in the head; the Settings page has it whole."""

LEAST_FOR_TWO, LEAST_FOR_RULE = 14, 30
"""Rows of the terminal from which the head has a second line, and a rule below it."""

_SHORT = {"telemetry": "gpu", "nvml": "gpu", "processes": "proc", "journal": "log", "log": "log", "endpoint": "page"}
"""Name of a source -> what the head calls it; others are cut at four letters."""

_MARKS = {Health.OK: "+", Health.DEGRADED: "~"}
"""Health of a source -> its mark; `-` for every other."""

_LABELS = {
    Page.OVERVIEW: "over",
    Page.PIPELINE: "pipe",
    Page.FINDING: "find",
    Page.LOGS: "log",
    Page.SETTINGS: "settings",
    Page.HISTORY: "history",
    Page.DOCTOR: "doctor",
}


def head_lines(scene: Scene, room: Room, trouble: str, title: str) -> list[Line]:
    """Who is watched and how it fares; on few rows only the verdict. `trouble` says why there is nothing new."""
    second = _trouble(trouble, room) if trouble else _verdict(scene, room)
    if room.rows < LEAST_FOR_TWO:
        return [second]
    lines = [_who(scene, room, title), second]
    return [*lines, (Span(room.glyphs.rule * room.columns, Ink.RULE),)] if room.rows >= LEAST_FOR_RULE else lines


def waiting_lines(room: Room, trouble: str, title: str) -> list[Line]:
    """The head before the first feed."""
    what = trouble or f"Waiting for the first readings{f' of {title}' if title else ''} …"
    second = cut(line(words_of_trouble(trouble), f" {what}"), room.columns)
    return [second] if room.rows < LEAST_FOR_TWO else [EMPTY, second]


def words_of_trouble(trouble: str) -> Span:
    """The badge before a trouble."""
    return Span(" NO DATA ", Ink.BADGE_BAD) if trouble else Span("")


def _who(scene: Scene, room: Room, title: str) -> Line:
    view, snapshot = scene.view, scene.snapshot
    moment = line(Span(words.clock(snapshot.time_ns), Ink.FAINT))
    if view is None:
        return beside(
            line(Span(_host(scene, title), Ink.NAME), "  no server and no GPU seen yet"), moment, room.columns
        )
    signals, server = view.signals, view.server
    rate = signals.number("throughput.gen_tps")
    shape = " ".join(part for part in (words.server_words(server), words.shape_words(signals)) if part)
    left = fitted(
        [
            (0, _place(scene, view, title)),
            (3, line(visible(shape, NAME_LENGTH))),
            (1, line(Span(words.demand_words(signals), Ink.STRONG))),
            (1, line(Span(f"{words.figure(rate)} tok/s", Ink.STRONG)) if rate is not None else EMPTY),
            (4, _sources(snapshot.sources)),
        ],
        room.columns - 10,
    )
    return beside(left, moment, room.columns)


def _host(scene: Scene, title: str) -> str:
    return visible(" ".join(part for part in (scene.feed.host, title) if part), NAME_LENGTH)


def _place(scene: Scene, view: TargetView, title: str) -> Line:
    name = visible(view.server.key if view.server else view.target.id, NAME_LENGTH)
    views = worst_first(scene.snapshot)
    count = f" {views.index(view) + 1}/{len(views)}" if len(views) > 1 else ""
    host = _host(scene, title)
    # Without a server the target is the host itself: its name once is enough.
    parts = (Span(f"{host} › ", Ink.FAINT),) if host and view.server is not None else ()
    return line(*parts, Span(name if view.server else host or name, Ink.NAME), Span(count, Ink.FAINT))


def _sources(sources: tuple[SourceHealth, ...]) -> Line:
    spans: list[Span] = []
    for source in sources:
        mark = _MARKS.get(source.health, "-")
        name = _SHORT.get(source.name, source.name[:4])
        ink = Ink.FAINT if source.health is Health.OK else Ink.WARN
        spans.append(shown(f"{' ' if spans else ''}{name}{mark}", ink, "page('doctor')"))
    return tuple(spans)


def _trouble(trouble: str, room: Room) -> Line:
    return cut(line(words_of_trouble(trouble), Span(f" {visible(trouble)}", Ink.BAD)), room.columns)


def _verdict(scene: Scene, room: Room) -> Line:
    view = scene.view
    paused = (Span(" PAUSED ", Ink.BADGE_NEUTRAL, "pause"), Span(" ")) if scene.choice.paused else ()
    if view is None:
        return cut((*paused, *line(Span(" CANNOT JUDGE ", Ink.BADGE_WARN))), room.columns)
    badge, text = verdict_words(view)
    hint = line(Span("[?]", Ink.KEY, "help"), Span(" keys", Ink.FAINT)) if room.columns >= 70 else EMPTY
    return beside((*paused, badge, Span(" "), *text), hint, room.columns)


def verdict_words(view: TargetView) -> tuple[Span, Line]:
    """The verdict as a badge, and in words: what to change first, and the effect that it has."""
    findings = shown_findings(view)
    loud = [finding for finding in findings if finding.is_loud]
    label, ink = words.ANSWERS[view.answer]
    if view.answer is not Answer.FINDINGS and loud and all(f.state is State.PENDING for f in loud):
        return Span(" WATCHING ", Ink.BADGE_NEUTRAL), line(f"{loud[0].summary.rstrip('.')} (not yet for long enough)")
    match view.answer:
        case Answer.FINDINGS if loud:
            return _of_findings(loud, label, ink)
        case Answer.HEALTHY:
            text = "requests and work were both judged, and nothing is wrong"
        case Answer.QUIET:
            text = findings[0].summary if findings else "nothing to judge now"
        case _:
            text = f"to judge, give it {view.missing[0]}" if view.missing else "the evidence is not enough"
    return Span(f" {label} ", ink), line(text)


def _of_findings(loud: list[Finding], label: str, ink: Ink) -> tuple[Span, Line]:
    first = loud[0]
    effect = next((finding for finding in loud if first.name in finding.caused_by), None)
    spans = [Span(visible(first.summary).rstrip("."), Ink.STRONG, "open_finding(0)")]
    spans.append(Span(f" ({first.confidence.word})", Ink.FAINT))
    if effect is not None:
        spans.append(Span(f".  {visible(words.mended(effect.summary))}", Ink.PLAIN))
    if first.severity is Severity.CRITICAL:
        label, ink = "BROKEN", Ink.BADGE_BAD
    return Span(f" {label} ", ink), tuple(spans)


def foot_line(scene: Scene | None, room: Room, can_switch: bool, message: str) -> Line:
    """The keys of this page, each of them also a place to click; a short message in their stead."""
    if message:
        return cut(line(Span(f" {visible(message)}", Ink.STRONG)), room.columns)
    choice = scene.choice if scene else None
    parts: list[tuple[int, Line]] = []
    for number, page in enumerate(Page, start=1):
        here = choice is not None and page is choice.page
        name = Span(f" {_LABELS[page]}", Ink.STRONG if here else Ink.FAINT, f"page('{page}')")
        digit = Span(str(number), Ink.BADGE_NEUTRAL if here else Ink.KEY, f"page('{page}')")
        parts.append((1 if here or number <= 3 else 3, (digit, name)))
    for rank, key, label, action in (
        (2, "/", "filter", "filter"),
        (4, ":", "command", "command_palette"),
        (5, "space", "pause", "pause"),
        (4, "s", "scenario", "scenarios") if can_switch else (9, "", "", ""),
        (0, "q", "quit", "quit"),
    ):
        if key:
            parts.append((rank, (Span(key, Ink.KEY, action), Span(f" {label}", Ink.FAINT, action))))
    return fitted(parts, room.columns)
