"""One finding as a block of text: its name and how sure it is, then facts, remedy, gain, risk and check."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.findings import Finding, Remedy, Severity, State, TargetView
from bubblewatch.report.layout import Line, Span, Style, labelled, span, with_right
from bubblewatch.report.words import LABEL_COLUMNS, evidence_words, gain_words, sentence, title_target

INDENT = 2
"""Columns before the lines of a finding."""

FACTS_SHOWN = 4
"""Evidence lines of one finding; the JSON document has them all."""

DIFF_SHOWN = 12
"""Lines of a launch change that are shown: an option, what stands around it, and the place, three times over."""

_DIFF_STYLES = MappingProxyType({"-": Style.BAD, "+": Style.GOOD})

RISKS_SHOWN = 3
"""Hazards of one finding that are shown, for the same reason."""

FACT_LENGTH = 240
"""Characters of one fact that are shown: a decode line of SGLang has about 200."""


def finding_lines(
    finding: Finding, number: int, numbers: Mapping[str, int], *, view: TargetView, quoted: str, width: int
) -> list[Line]:
    """The block of one finding. `numbers` maps names to the numbers that links show.

    A summary that stands in `quoted` already, the text above the findings, is not said again.
    """
    block = _Block(width)
    block.lines.append(_title(finding, number, numbers, view, width))
    summary = " ".join(sentence(finding.summary).split())
    if summary not in quoted:
        block.say("", summary)
    if finding.held_back_by:
        _say_gain(block, finding)
        return block.lines
    _say_facts(block, finding)
    if _is_folded(finding, numbers):
        return block.lines
    if finding.remedy:
        _say_remedy(block, finding.remedy)
    _say_gain(block, finding)
    for hazard in finding.hazards[:RISKS_SHOWN]:
        block.say("risk", hazard)
    if finding.remedy and finding.remedy.undo:
        block.say("back", finding.remedy.undo)
    if finding.check:
        block.say("check", finding.check)
    return block.lines


def _is_folded(finding: Finding, numbers: Mapping[str, int]) -> bool:
    """Whether this is a symptom of something that is shown too and has no launch change of its own: what to do stands
    there.
    """
    is_explained = any(name in numbers for name in finding.caused_by)
    return is_explained and not (finding.remedy and (finding.remedy.remove or finding.remedy.add))


class _Block:
    """Collects the lines of one finding."""

    def __init__(self, width: int) -> None:
        self.lines: list[Line] = []
        self._width = width

    def say(self, label: str, text: str, style: Style = Style.PLAIN) -> None:
        column = INDENT + (LABEL_COLUMNS if label else 0)
        self.lines += labelled(label, text, self._width, column, style, start=INDENT)

    def go_on(self, text: str, style: Style = Style.PLAIN) -> None:
        """More text under the last label."""
        self.lines += labelled("", text, self._width, INDENT + LABEL_COLUMNS, style)


def _title(finding: Finding, number: int, numbers: Mapping[str, int], view: TargetView, width: int) -> Line:
    name = span(f"{number} {finding.name}{title_target(finding, view)}", Style.STRONG)
    if finding.held_back_by:
        return (name, span(f"  HELD BACK by {_links(finding.held_back_by, numbers)}", Style.FAINT))
    effect = f"  effect of {_links(finding.caused_by, numbers)}" if finding.caused_by else ""
    waiting = "  not yet for long enough" if finding.state is State.PENDING else ""
    return with_right((name, span(effect + waiting, Style.FAINT)), _sureness(finding), width)


def _links(names: tuple[str, ...], numbers: Mapping[str, int]) -> str:
    """Numbers of the findings that are shown, else their names."""
    return ", ".join(str(numbers.get(name, name)) for name in names)


def _sureness(finding: Finding) -> Span:
    word = finding.confidence.word
    match finding.severity:
        case Severity.CRITICAL:
            return span(f"CRITICAL, {word.upper()}", Style.BAD)
        case Severity.WARNING:
            return span(word.upper(), Style.WARN)
        case _:
            return span(f"info, {word}", Style.FAINT)


def _say_facts(block: _Block, finding: Finding) -> None:
    for fact in finding.evidence[:FACTS_SHOWN]:
        label, text = evidence_words(fact, FACT_LENGTH)
        block.say(label, text)
    if (more := len(finding.evidence) - FACTS_SHOWN) > 0:
        block.go_on(f"and {more} more in --json", Style.FAINT)
    if finding.missing:
        block.say("without", "; ".join(finding.missing), Style.FAINT)


def _say_remedy(block: _Block, remedy: Remedy) -> None:
    block.say("do", remedy.do, Style.STRONG)
    if remedy.diff:
        for line in remedy.diff[:DIFF_SHOWN]:
            block.go_on(line, _DIFF_STYLES.get(line[:1], Style.FAINT))
        return
    for option in remedy.remove:
        if option not in remedy.do:
            block.go_on(f"- {option}")
    for option in remedy.add:
        if option not in remedy.do:
            block.go_on(f"+ {option}")


def _say_gain(block: _Block, finding: Finding) -> None:
    if finding.expected_gain:
        block.say("gain", gain_words(finding.expected_gain))
