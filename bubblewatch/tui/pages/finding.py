"""One finding in full: three kinds of evidence side by side, what it means, what to change, and how to check it."""

from __future__ import annotations

from collections.abc import Sequence

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Finding
from bubblewatch.model.signals import Evidence, EvidenceKind
from bubblewatch.model.visible import visible
from bubblewatch.tui import words
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, line, paragraph, side_by_side, wrapped
from bubblewatch.tui.room import Room, Scene, Sheet

INDENT = 9
"""Columns before the text of a paragraph: the longest label, `held by`, and two spaces."""

WIDEST = 110
"""Columns beyond which prose is hard to read."""

FACT_LENGTH = 400
"""Characters of one fact that are shown; a log line of SGLang has about 200."""

SIDE_BY_SIDE_FROM = 96
"""Columns from which the kinds of evidence stand next to each other: three of 30 each."""

_PLAIN_PLACES = ("", "log", "journal", "gpus")
"""Places of facts that the title of their column says already."""

_KINDS = (
    ("GPUs", (EvidenceKind.TELEMETRY,)),
    ("Log and pages", (EvidenceKind.LOG, EvidenceKind.ENDPOINT)),
    ("Settings", (EvidenceKind.SETTING, EvidenceKind.PROCESS, EvidenceKind.STATED)),
)
"""Title of a column -> the kinds of evidence in it."""


def finding_page(scene: Scene, room: Room) -> Sheet:
    """The finding that the cursor is on; says so when there is none."""
    finding = scene.finding
    if finding is None:
        return Sheet((EMPTY, line(Span("  There is no finding to show.", Ink.FAINT))))
    columns = min(room.columns, WIDEST)
    lines = _title(scene, finding, room.columns)
    lines += [EMPTY, *_evidence(finding, room.columns)]
    lines += remedy_lines(finding, columns)
    lines += more_lines(finding, columns)
    rule = next((rule for rule in scene.rules if rule.name == finding.name), None)
    lines += _explanation(rule, columns) if rule else []
    return Sheet(tuple(lines))


def remedy_text(finding: Finding) -> str:
    """The change as text to paste: a line for each option that goes or comes, as in a diff; else the advice."""
    remedy = finding.remedy
    if remedy is None:
        return finding.summary
    changes = [f"- {option}" for option in remedy.remove] + [f"+ {option}" for option in remedy.add]
    return "\n".join(changes) or remedy.do


def finding_text(finding: Finding) -> str:
    """The finding as plain text for a ticket or a chat."""
    remedy = finding.remedy
    parts = [f"{finding.name} ({finding.confidence.word}): {finding.summary}"]
    parts += [f"  {fact.where}: {fact.text}" for fact in finding.evidence]
    parts += [f"do: {remedy.do}", remedy_text(finding)] if remedy else []
    parts += [f"risk: {hazard}" for hazard in finding.hazards]
    parts += [f"check: {finding.check}"] if finding.check else []
    return "\n".join("\n".join(map(visible, part.splitlines())) for part in parts)


def _title(scene: Scene, finding: Finding, columns: int) -> list[Line]:
    findings = scene.findings
    word, ink = words.sureness(finding)
    place = f"{findings.index(finding) + 1} of {len(findings)}"
    name = line(Span(f"{finding.name}  ", Ink.NAME), Span(word, ink))
    since = words.age(finding.since_ns, scene.snapshot.time_ns)
    keys = (
        Span(f"{f'for {since}  ' if since else ''}{place}  ", Ink.FAINT),
        Span("n", Ink.KEY, "step(1)"), Span(" next  ", Ink.FAINT, "step(1)"),
        Span("y", Ink.KEY, "copy"), Span(" copy the change", Ink.FAINT, "copy"),
    )  # fmt: skip
    lines = [beside(name, keys if columns >= 70 else (), columns)]
    lines += [line(Span(piece, Ink.STRONG)) for piece in wrapped(words.sentence(finding.summary), columns)]
    about = []
    if finding.caused_by:
        about.append(f"an effect of {', '.join(finding.caused_by)}")
    if finding.held_back_by:
        about.append(f"held back by {', '.join(finding.held_back_by)}: do that first")
    if standing := words.standing(finding):
        about.append(standing)
    lines += [cut(line(Span(f"({visible('; '.join(about))})", Ink.FAINT)), columns)] if about else []
    return lines


def _evidence(finding: Finding, columns: int) -> list[Line]:
    """What it rests on, by kind."""
    groups = [(title, [fact for fact in finding.evidence if fact.kind in kinds]) for title, kinds in _KINDS]
    if columns < SIDE_BY_SIDE_FROM:
        lines: list[Line] = []
        for title, facts in groups:
            if facts:
                lines += [line(Span(title, Ink.KEY)), *fact_lines(facts, columns)]
        return [*lines, EMPTY] if lines else []
    width = (columns - 4) // 3
    blocks = [[line(Span(title, Ink.KEY)), *fact_lines(facts, width)] for title, facts in groups]
    return [*side_by_side(blocks, [width] * 3), EMPTY]


def fact_lines(facts: Sequence[Evidence], columns: int) -> list[Line]:
    """Each fact as a point, wrapped."""
    if not facts:
        return [line(Span("  nothing was used", Ink.FAINT))]
    lines: list[Line] = []
    for fact in facts:
        where = visible(fact.where, 24)
        text = visible(fact.text, FACT_LENGTH)
        said = text if where in text or where.lower() in _PLAIN_PLACES else f"{where}: {text}"
        pieces = wrapped(said, columns - 2)
        lines += [line(Span("  " if number else "- ", Ink.FAINT), Span(piece)) for number, piece in enumerate(pieces)]
    return lines


def remedy_lines(finding: Finding, columns: int) -> list[Line]:
    """What to do, the options that go and come, and what that should gain."""
    remedy = finding.remedy
    if remedy is None:
        return _gain(finding, columns)
    lines = paragraph("do", words.sentence(remedy.do), columns, INDENT, Ink.STRONG)
    for sign, options, ink in (("-", remedy.remove, Ink.REMOVED), ("+", remedy.add, Ink.ADDED)):
        lines += [cut(line(Span(" " * INDENT), Span(f"{sign} {visible(option)}", ink)), columns) for option in options]
    return [*lines, *_gain(finding, columns)]


def _gain(finding: Finding, columns: int) -> list[Line]:
    gain = finding.expected_gain
    if gain is None:
        return []
    lines = paragraph("gain", words.gain_words(gain), columns, INDENT, Ink.GOOD if gain.low is not None else Ink.PLAIN)
    return [*lines, *(paragraph("", gain.assumption, columns, INDENT) if gain.assumption else [])]


def more_lines(finding: Finding, columns: int) -> list[Line]:
    """Risks, the way back, the check, where the advice is from, and what would make it surer."""
    lines: list[Line] = []
    for hazard in finding.hazards:
        lines += paragraph("risk", hazard, columns, INDENT, Ink.CAUTION)
    remedy = finding.remedy
    for label, text in (
        ("back", remedy.undo if remedy else ""),
        ("check", finding.check),
        ("source", remedy.source if remedy else ""),
    ):
        lines += paragraph(label, text, columns, INDENT) if text else []
    for missing in finding.missing:
        lines += paragraph("missing", missing, columns, INDENT, Ink.FAINT)
    return lines


def _explanation(rule: Rule, columns: int) -> list[Line]:
    """What the rule says about itself."""
    said = rule.explain
    lines: list[Line] = []
    for label, text in (
        ("means", said.what),
        ("costs", said.why),
        ("confirm", said.confirm),
        ("price", said.price),
        ("false?", said.false_positives),
        ("blind", said.blind_spots),
    ):
        lines += paragraph(label, " ".join(text.split()), columns, INDENT, Ink.FAINT) if text else []
    return [EMPTY, *lines] if lines else []
