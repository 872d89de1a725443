"""A rule as a page to read: its sections in the order in which a person needs them. Text and HTML are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bubblewatch.diagnose.rule import Advice, Case, Rule, Status
from bubblewatch.diagnose.template import Template
from bubblewatch.model.findings import Scope
from bubblewatch.signals.vocabulary import VOCABULARY


class Kind(StrEnum):
    """How a piece of a section is set."""

    PROSE = "prose"
    POINT = "point"
    """One of several things beside each other."""
    CODE = "code"
    """A condition or an option, word for word."""
    LINK = "link"
    """An address."""
    RULE = "rule"
    """The name of another rule."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One paragraph. `label` is a word or two in front of it, empty for none."""

    text: str
    kind: Kind = Kind.PROSE
    label: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page; never without pieces."""

    title: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a rule's file says. `head` is one line."""

    id: str
    name: str
    title: str
    head: str
    sections: tuple[Section, ...]


_EXPLAINED = (
    ("what it means", "what"),
    ("what it costs", "why"),
    ("how to confirm", "confirm"),
    ("how to mend", "fix"),
)
_AFTER = (
    ("price", "price"),
    ("how to check", "check"),
    ("false alarms", "false_positives"),
    ("blind spots", "blind_spots"),
)
_PLACE = re.compile(r"\{([^{}:]+)(?::[^{}]*)?\}")
_SCOPE_WORDS = {Scope.SERVER: "each server", Scope.GPU: "each GPU", Scope.HOST: "the host", Scope.RANK: "each rank"}


def rule_page(rule: Rule) -> Page:
    """The page of this rule."""
    sections = [
        *(_prose(rule, title, name) for title, name in _EXPLAINED),
        *(_section(_for_whom(advice), _advice(advice)) for advice in rule.advice),
        *(_prose(rule, title, name) for title, name in _AFTER),
        _section("when", (piece for case in rule.cases for piece in _case(case))),
        _section("never when", (Piece(_one_line(c.text), Kind.CODE) for c in rule.unless)),
        _section("only when", [Piece(_one_line(rule.gate.text), Kind.CODE)] if rule.gate else []),
        _section("signals", (_signal(name) for name in rule.signals)),
        _section("how long", [Piece(_times(rule))]),
        _section("held back by", (Piece(name, Kind.RULE) for name in rule.held_back_by)),
        _section("possible causes", (Piece(name, Kind.RULE) for name in rule.caused_by)),
        _section("seen in recordings", [Piece(", ".join(rule.recorded))] if rule.recorded else []),
        _section("references", (Piece(address, Kind.LINK) for address in rule.references)),
    ]
    found = tuple(section for section in sections if section is not None)
    return Page(rule.id, rule.name, rule.title, _head(rule), found)


def _head(rule: Rule) -> str:
    status = {
        Status.PREVIEW: "preview: rests on signals that are new or not yet read everywhere",
        Status.DEPRECATED: "deprecated: kept so that its id keeps its meaning",
    }.get(rule.status, str(rule.status))
    effect = ", an effect of other findings" if rule.effect else ""
    return f"{rule.severity.word}{effect}; judged for {_SCOPE_WORDS[rule.scope]}; {status}; since {rule.since}"


def _section(title: str, pieces: Iterator[Piece] | list[Piece]) -> Section | None:
    """None when there is nothing to say."""
    found = tuple(piece for piece in pieces if piece.text)
    return Section(title, found) if found else None


def _prose(rule: Rule, title: str, name: str) -> Section | None:
    return _section(title, [Piece(getattr(rule.explain, name))])


def _case(case: Case) -> Iterator[Piece]:
    yield Piece(_one_line(case.when.text), Kind.CODE)
    if case.unless is not None:
        yield Piece(_one_line(case.unless.text), Kind.CODE, "but not when")
    most = (
        "certain when the setting was read" if case.confidence.word == "certain" else f"{case.confidence.word} at most"
    )
    yield Piece(f'{case.severity.word}, {most}: "{_spoken(case.message)}"', Kind.PROSE, "says")


def _signal(name: str) -> Piece:
    spec = VOCABULARY[name]
    unit = f" [{spec.unit}]" if spec.unit else ""
    return Piece(f"{spec.meaning}{unit}", Kind.POINT, name)


def _times(rule: Rule) -> str:
    text = f"In the daemon it must hold for {rule.for_s:g} s, and be clear for {rule.clear_for_s:g} s."
    if rule.min_readings:
        text += f" Readings must be at least {rule.min_readings} over {rule.min_seconds:g} s."
    return text


def _for_whom(advice: Advice) -> str:
    settings = "".join(f", {name}={value}" for name, value in advice.settings.items())
    whom = " ".join((" or ".join(advice.servers), advice.versions)).strip() or "any other server"
    return f"advice for {whom}{settings}"


def _advice(advice: Advice) -> Iterator[Piece]:
    yield Piece(_spoken(advice.do))
    if advice.when is not None:
        yield Piece(_one_line(advice.when.text), Kind.CODE, "if")
    yield from (Piece(_spoken(template), Kind.CODE, "remove") for template in advice.remove)
    yield from (Piece(_spoken(template), Kind.CODE, "add") for template in advice.add)
    yield from (Piece(_spoken(template), Kind.POINT, "risk") for template in advice.hazards)
    yield Piece(_spoken(advice.check) if advice.check else "", Kind.POINT, "check")
    yield Piece(advice.undo, Kind.POINT, "back")
    yield Piece(advice.source, Kind.POINT, "source")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _spoken(template: Template) -> str:
    """The text with its places as a reader sees them: `<demand.running>` for `{demand.running:.0f}`."""
    return _PLACE.sub(r"<\1>", template.text)
