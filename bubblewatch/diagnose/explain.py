"""A rule as a person reads it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from bubblewatch.diagnose.rule import Advice, Case, Rule
from bubblewatch.diagnose.template import Template

_SECTIONS = (
    ("what it means", "what"),
    ("what it costs", "why"),
    ("how to confirm", "confirm"),
    ("how to mend", "fix"),
    ("price", "price"),
    ("how to check", "check"),
    ("false alarms", "false_positives"),
    ("blind spots", "blind_spots"),
)
_INDENT = "  "


def explain_text(rule: Rule, width: int) -> str:
    """Everything that the rule's file says, in lines of at most `width` characters (longer ones only inside a word)."""
    blocks = [f"{rule.id} {rule.name}: {rule.title} ({rule.severity.word}, {rule.status}, since {rule.since})"]
    blocks += [_block(title, [getattr(rule.explain, name)], width) for title, name in _SECTIONS]
    blocks.append(_block("when", [line for case in rule.cases for line in _case(case)], width))
    blocks.append(_block("never when", [_one_line(condition.text) for condition in rule.unless], width))
    blocks.append(_block("only when", [_one_line(rule.gate.text)] if rule.gate else [], width))
    blocks.append(_block("how long", [_times(rule)], width))
    blocks.append(_block("held back by", [", ".join(rule.held_back_by)], width))
    blocks.append(_block("possible causes", [", ".join(rule.caused_by)], width))
    blocks += [_block(_for_whom(advice), list(_advice(advice)), width) for advice in rule.advice]
    blocks.append(_block("references", list(rule.references), width))
    return "\n\n".join(block for block in blocks if block)


def _block(title: str, paragraphs: list[str], width: int) -> str:
    """A title with its paragraphs below it; empty when there is nothing to say."""
    lines = [line for text in paragraphs if text for line in _wrapped(text, width)]
    return "\n".join([title, *lines]) if lines else ""


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _case(case: Case) -> Iterator[str]:
    yield f"{_one_line(case.when.text)} -> {case.severity.word}, {case.confidence.word} at most"
    if case.unless is not None:
        yield f"but not when {_one_line(case.unless.text)}"


def _times(rule: Rule) -> str:
    text = f"must hold for {rule.for_s:g} s, and be clear for {rule.clear_for_s:g} s"
    if rule.min_readings:
        text += f"; takes {rule.min_readings} readings over {rule.min_seconds:g} s"
    return text


def _for_whom(advice: Advice) -> str:
    settings = "".join(f", {name}={value}" for name, value in advice.settings.items())
    whom = " ".join((*advice.servers, advice.versions)).strip() or "any other server"
    return f"advice for {whom}{settings}"


def _advice(advice: Advice) -> Iterator[str]:
    yield advice.do.text
    for label, texts in (("remove", advice.remove), ("add", advice.add), ("risk:", advice.hazards)):
        yield from (f"{label} {text}" for text in _texts(texts))
    for label, said in (("check:", advice.check.text if advice.check else ""), ("back:", advice.undo)):
        if said:
            yield f"{label} {said}"
    if advice.source:
        yield f"source: {advice.source}"


def _texts(templates: tuple[Template, ...]) -> Iterator[str]:
    return (template.text for template in templates)


def _one_line(text: str) -> str:
    return " ".join(text.split())
