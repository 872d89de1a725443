"""Snapshot -> the answer that a person reads: what is wrong, what to do first, and how it is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from bubblewatch.model.findings import Answer, Finding, Health, Snapshot, SourceHealth, State, TargetView
from bubblewatch.model.signals import Evidence
from bubblewatch.model.visible import visible
from bubblewatch.report.finding_text import FACTS_SHOWN, finding_lines
from bubblewatch.report.layout import EMPTY, Line, Style, labelled, plain, span, with_right
from bubblewatch.report.order import worst_first
from bubblewatch.report.words import (
    demand_words,
    duration,
    gpu_words,
    joined,
    measured_words,
    sentence,
    server_words,
    shape_words,
)

DEFAULT_WIDTH = 100
"""Columns when the output is no terminal: wide enough for a log line, narrow enough for a mail."""

LEAST_WIDTH = 40
"""Columns below which text is no longer squeezed."""

COLUMN = 9
"""Columns for the words in front of the answer: the longest, `VERDICT`, and two spaces."""

_EXITS: Mapping[int, str] = MappingProxyType(
    {0: "nothing to act on", 1: "something to act on", 3: "not enough evidence to judge", 130: "stopped early"}
)


def answer_text(snapshot: Snapshot, width: int = DEFAULT_WIDTH, exit_code: int | None = None) -> str:
    """The answer as plain text, at most `width` columns where words allow, ending in a newline."""
    return plain(answer_lines(snapshot, width, exit_code))


def answer_lines(snapshot: Snapshot, width: int = DEFAULT_WIDTH, exit_code: int | None = None) -> list[Line]:
    """The answer as styled lines: each server with its verdict and findings, the one in most need first.

    `exit_code`, when given, is explained in the last line. Untrusted text shows as text: nothing in it acts.
    """
    width = max(width, LEAST_WIDTH)
    views = worst_first(snapshot)
    lines: list[Line] = []
    for number, view in enumerate(views):
        lines += [EMPTY, (span("-" * width, Style.FAINT),), EMPTY] if number else []
        lines += _header(view, snapshot, width)
        lines += _read(snapshot, width) if number == 0 else []
        lines += [EMPTY, *_view(view, width)]
    if not views:
        lines += [*_read(snapshot, width), EMPTY, *_nothing_seen(snapshot, width)]
    lines += _mends(snapshot.sources, width)
    if exit_code is not None:
        meaning = _EXITS.get(exit_code)
        text = f"exit {exit_code}: {meaning}" if meaning else f"exit {exit_code}"
        lines += [EMPTY, with_right(EMPTY, span(text, Style.FAINT), width)]
    return lines


def _header(view: TargetView, snapshot: Snapshot, width: int) -> list[Line]:
    ours = view.server.gpus if view.server else {}
    gpus = [gpu for gpu in snapshot.gpus if gpu.uuid in ours or view.server is None]
    words = (server_words(view.server), shape_words(view.signals), gpu_words(gpus))
    name = span(view.server.key if view.server else view.target.id, Style.NAME)
    about = "".join(f"  {visible(word)}" for word in words if word)
    demand = span(demand_words(view.signals), Style.STRONG)
    if len(name.text) + len(about) + 2 + len(demand.text) <= width:
        return [with_right((name, span(about)), demand, width)]
    title = span(visible(name.text, width), Style.NAME)
    return [(title,), *labelled("", about, width, 2), (span("  "), demand)]


def _read(snapshot: Snapshot, width: int) -> list[Line]:
    """Which sources were read, and which were not and why."""
    read = [_source_words(source, source.detail) for source in snapshot.sources if _was_read(source)]
    unread = [
        _source_words(source, source.detail or source.health.value)
        for source in snapshot.sources
        if not _was_read(source)
    ]
    text = f"{'; '.join(read) or 'nothing'}." + (f"  Not read: {'; '.join(unread)}." if unread else "")
    return labelled("Read:", text, width, len("Read: "), Style.FAINT)


def _was_read(source: SourceHealth) -> bool:
    return source.health in (Health.OK, Health.DEGRADED)


def _source_words(source: SourceHealth, detail: str) -> str:
    return f"{source.name} ({detail.rstrip('.')})" if detail else source.name


def _view(view: TargetView, width: int) -> list[Line]:
    shown = [finding for finding in view.findings if finding.state is not State.RESOLVED and not finding.ignored]
    lines = _verdict(view, shown, width)
    if measured := measured_words(view.signals):
        lines += labelled("NOW", measured, width, COLUMN)
    quoted = " ".join(plain(lines).split())
    numbers = _numbers(shown)
    for number, finding in enumerate(_each_fact_once(shown), start=1):
        if finding.name != Answer.HEALTHY:
            lines += [EMPTY, *finding_lines(finding, number, numbers, view=view, quoted=quoted, width=width)]
    lines += _tail(view, width)
    return lines


def _each_fact_once(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without the facts that an earlier one shows: several rest on the same lines."""
    told: set[Evidence] = set()
    fresh = []
    for finding in findings:
        new = tuple(fact for fact in finding.evidence if fact not in told)
        if not finding.held_back_by:
            told.update(new[:FACTS_SHOWN])
        fresh.append(replace(finding, evidence=new))
    return fresh


def _numbers(findings: Iterable[Finding]) -> dict[str, int]:
    """Name -> number of the first finding of that name."""
    numbers: dict[str, int] = {}
    for number, finding in enumerate(findings, start=1):
        numbers.setdefault(finding.name, number)
    return numbers


def _verdict(view: TargetView, shown: list[Finding], width: int) -> list[Line]:
    match view.answer:
        case Answer.FINDINGS:
            return _verdict_of_findings([finding for finding in shown if finding.is_loud], width)
        case Answer.HEALTHY:
            text = "Healthy: requests and work were both judged, and nothing is wrong."
            return _said(text, Style.GOOD, [finding for finding in shown if finding.name == Answer.HEALTHY], width)
        case Answer.QUIET:
            text = "Nothing is wrong as far as can be seen, and there is nothing to judge now."
            return _said(text, Style.STRONG, shown[:1], width)
        case _:
            text = f"Cannot judge: {_blind_spots(view)}. A healthy server and a slow one would look the same."
            return _said(text, Style.WARN, [], width)


def _verdict_of_findings(loud: list[Finding], width: int) -> list[Line]:
    """VERDICT says what goes wrong, FIRST what to change: the effect of the first finding when one is named."""
    if not loud:
        return _said("Something needs attention.", Style.BAD, [], width)
    first = loud[0]
    effect = next((finding for finding in loud if first.name in finding.caused_by), None)
    lines = labelled("VERDICT", sentence((effect or first).summary), width, COLUMN, Style.BAD)
    do = sentence(first.remedy.do) if first.remedy else ""
    text = f"{sentence(first.summary)} {do}" if effect else do
    return lines + (labelled("FIRST", text, width, COLUMN, Style.STRONG) if text else [])


def _said(text: str, style: Style, because: list[Finding], width: int) -> list[Line]:
    lines = labelled("VERDICT", text, width, COLUMN, style)
    for finding in because:
        lines += labelled("BECAUSE", sentence(finding.summary), width, COLUMN)
        for fact in finding.evidence if finding.name == Answer.HEALTHY else ():
            lines += labelled("", fact.text, width, COLUMN, Style.FAINT)
    return lines


def _blind_spots(view: TargetView) -> str:
    """Which of demand and effect are unknown, and why."""
    signals, blind = view.signals, []
    if signals.value("demand.state") is None:
        blind.append(f"whether requests run is unknown ({signals.why_missing('demand.state')})")
    if signals.value("duty.median") is None and signals.value("throughput.gen_tps") is None:
        blind.append(f"how much the GPUs work is unknown ({signals.why_missing('duty.median')})")
    return joined(blind) or "the evidence is not enough"


def _tail(view: TargetView, width: int) -> list[Line]:
    lines: list[Line] = []
    if view.missing:
        label = "ASK FOR" if view.answer is Answer.CANNOT_JUDGE else "MISSING"
        lines.append(EMPTY)
        for number, text in enumerate(view.missing):
            lines += labelled("" if number else label, text, width, COLUMN)
    accepted = dict.fromkeys(finding.name for finding in view.findings if finding.ignored)
    if accepted:
        lines += [EMPTY, *labelled("IGNORED", f"{joined(list(accepted))} (as you asked)", width, COLUMN, Style.FAINT)]
    return lines


def _mends(sources: Iterable[SourceHealth], width: int) -> list[Line]:
    """The command that would let each unread source be read."""
    lines: list[Line] = []
    for source in sources:
        if source.mend and source.health is not Health.OK:
            lines += labelled("" if lines else "TO SEE", f"{source.name}: {source.mend}", width, COLUMN)
    return [EMPTY, *lines] if lines else []


def _nothing_seen(snapshot: Snapshot, width: int) -> list[Line]:
    watched = f" in {duration(snapshot.watched_s)}" if snapshot.watched_s > 0 else ""
    gpus = f" GPUs here: {gpu_words(list(snapshot.gpus))}." if snapshot.gpus else ""
    return labelled("VERDICT", f"Cannot judge: no inference server was seen{watched}.{gpus}", width, COLUMN, Style.WARN)
