"""Audit -> the answer that a person reads: what each launch does wrong, and what it will do under load."""

from __future__ import annotations

from dataclasses import replace

from bubblewatch.model.findings import Answer, Finding
from bubblewatch.model.visible import visible
from bubblewatch.report.finding_text import finding_lines
from bubblewatch.report.layout import EMPTY, Line, Style, labelled, plain, span, with_right
from bubblewatch.report.places import place_of_texts
from bubblewatch.report.text import COLUMN, DEFAULT_WIDTH, LEAST_WIDTH
from bubblewatch.report.words import joined, sentence, server_words, shape_words
from bubblewatch.runtime.audit import Audit, ServerAudit
from bubblewatch.theory.forecast import Fill, Forecast

FORECAST_COLUMN = 12
"""Columns before the text of a line of the prediction: `staggered`, the longest label, behind two spaces."""

_EXITS = {0: "nothing to act on", 1: "something to act on"}


def audit_text(audit: Audit, width: int = DEFAULT_WIDTH, exit_code: int | None = None) -> str:
    """The audit as plain text, at most `width` columns where words allow, ending in a newline."""
    return plain(audit_lines(audit, width, exit_code))


def audit_lines(audit: Audit, width: int = DEFAULT_WIDTH, exit_code: int | None = None) -> list[Line]:
    """The audit as styled lines, a section for each server in the order of the inputs.

    `exit_code`, when given, is explained in the last line. Untrusted text shows as text: nothing in it acts.
    """
    width = max(width, LEAST_WIDTH)
    lines: list[Line] = []
    for number, server in enumerate(audit.servers):
        lines += [EMPTY, (span("-" * width, Style.FAINT),), EMPTY] if number else []
        lines += _section(server, width)
    if exit_code is not None:
        text = f"exit {exit_code}: {_EXITS[exit_code]}" if exit_code in _EXITS else f"exit {exit_code}"
        lines += [EMPTY, with_right(EMPTY, span(text, Style.FAINT), width)]
    return lines


def _section(audited: ServerAudit, width: int) -> list[Line]:
    # Nothing runs yet, so that every measurement is missing from every finding: that is not worth a line each.
    shown = [replace(f, missing=()) for f in audited.view.findings if not f.ignored and f.name != Answer.HEALTHY]
    lines = [*_header(audited, width), EMPTY, *_verdict(audited, shown, width), *_problems(audited, width)]
    quoted = " ".join(plain(lines).split())
    numbers: dict[str, int] = {}
    for number, finding in enumerate(shown, start=1):
        numbers.setdefault(finding.name, number)
    for number, finding in enumerate(shown, start=1):
        lines += [EMPTY, *finding_lines(finding, number, numbers, view=audited.view, quoted=quoted, width=width)]
    if audited.expected is not None:
        lines += [EMPTY, *_prediction(audited.expected, numbers, width)]
    return lines + _tail(audited, width)


def _header(audited: ServerAudit, width: int) -> list[Line]:
    server = audited.server
    version = f" ({server.version_basis})" if server.version_basis == "image tag" else ""
    about = [f"{server_words(server)}{version}", shape_words(audited.view.signals)]
    lines = [(span(visible(server.key, width), Style.NAME), span("".join(f"  {word}" for word in about if word)))]
    where = server.launch.where if server.launch is not None else "nothing"
    image = f"; image {server.container}" if server.container else ""
    return lines + labelled("Read:", f"{where}{image}.  Not read: anything that runs.", width, 6, Style.FAINT)


def _verdict(audited: ServerAudit, shown: list[Finding], width: int) -> list[Line]:
    loud = [finding for finding in shown if finding.is_loud]
    if audited.problems:
        count = len(audited.problems)
        text = f"This launch does not start as meant: {count} setting{'s are' if count > 1 else ' is'} wrong."
        return labelled("VERDICT", text, width, COLUMN, Style.BAD)
    if not loud:
        text = "Nothing to change, as far as settings alone can tell."
        return labelled("VERDICT", text, width, COLUMN, Style.GOOD)
    lines = labelled("VERDICT", sentence(loud[0].summary), width, COLUMN, Style.BAD)
    if loud[0].remedy is not None and loud[0].remedy.do:
        lines += labelled("FIRST", sentence(loud[0].remedy.do), width, COLUMN, Style.STRONG)
    return lines


def _problems(audited: ServerAudit, width: int) -> list[Line]:
    lines: list[Line] = []
    launch = audited.server.launch
    for problem in audited.problems:
        place = place_of_texts((problem,), launch) if launch is not None else None
        where = f" ({place[0]}:{place[1]})" if place is not None else ""
        lines += labelled("PROBLEM", f"{problem}{where}", width, COLUMN, Style.BAD)
    return lines


def _prediction(expected: Forecast, numbers: dict[str, int], width: int) -> list[Line]:
    share = f", {expected.per_replica} for each of {expected.replicas} replicas" if expected.replicas > 1 else ""
    lines = labelled("PREDICTION", f"with {expected.concurrency} requests in flight{share}", width, FORECAST_COLUMN)

    def say(label: str, text: str) -> None:
        lines.extend(labelled(label, text, width, FORECAST_COLUMN, start=2))

    if expected.admitted is None:
        say("admitted", "the limit is computed when the server starts, from its memory")
    elif expected.waiting:
        say("admitted", f"{expected.admitted} run at once, {expected.waiting} wait outside")
    else:
        say("admitted", f"all {expected.admitted}")
    if expected.burst is not None and expected.staggered is not None:
        if expected.capacity is None:
            say("slots", f"{expected.ring} of them; what one may hold is computed at start, so a burst may fit in one")
        else:
            say("slots", f"{expected.ring} of them, each may hold {expected.capacity}")
        say("burst", _fill_words(expected.burst, expected))
        say("staggered", _fill_words(expected.staggered, expected))
    if expected.graph_batch is not None and expected.batch is not None and expected.batch > expected.graph_batch:
        say("graphs", f"batches of up to {expected.batch} are above the largest graph, {expected.graph_batch}: eager")
    if bubble := numbers.get("pipeline-bubble"):
        say("expected", f"pipeline-bubble ({bubble})")
    return lines


def _fill_words(fill: Fill, expected: Forecast) -> str:
    slots = f"{fill.slots:.1f}".removesuffix(".0")
    return f"{slots} of {expected.ring} slots filled: a stage works {100 * fill.duty_at_most:.0f} % of the time at most"


def _tail(audited: ServerAudit, width: int) -> list[Line]:
    lines: list[Line] = []
    for label, texts in (("UNSURE", audited.doubts), ("MISSING", audited.view.missing)):
        if texts:
            lines.append(EMPTY)
        for number, text in enumerate(texts):
            lines += labelled("" if number else label, text, width, COLUMN)
    accepted = dict.fromkeys(finding.name for finding in audited.view.findings if finding.ignored)
    if accepted:
        lines += [EMPTY, *labelled("IGNORED", f"{joined(list(accepted))} (as you asked)", width, COLUMN, Style.FAINT)]
    return lines
