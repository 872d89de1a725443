"""Checks of the catalogue that loading alone does not make. Part of `make check`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from bubblewatch.diagnose.rule import Case, Rule, Status
from bubblewatch.diagnose.selftest import run_inline_tests
from bubblewatch.diagnose.verdict import TELEMETRY_FAMILIES
from bubblewatch.diagnose.yaml_text import Problem
from bubblewatch.model.errors import Place
from bubblewatch.model.findings import Verdict

__all__ = ["MIN_WORDS", "lint", "run_inline_tests"]

MIN_WORDS = 5
"""Words that an `explain` text needs at least: fewer say nothing that the title does not."""

_ID = re.compile(r"[A-Z]{2,8}\d{3}")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|[a-z]+")
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b")  # the words that this check exists to find
_EXPLAINED = ("what", "why", "confirm", "fix", "false_positives", "blind_spots")
_OPTION = re.compile(r"-{1,2}[A-Za-z]\S*(?: \S+)?|[A-Z][A-Z0-9_]*(?:=\S*)?")
_Check = Callable[[Rule], Iterator[str]]


def lint(rules: Sequence[Rule], flat: Sequence[Path] = (), absent: Sequence[str] = ()) -> tuple[Problem, ...]:
    """Everything that is wrong with these loaded rules, in their order; empty when all is well.

    `flat` are folders whose rules need not lie in a folder of their category: those of users. `absent` are names that
    may be spoken of although no rule has them: rules that were taken out, or could not be read.
    """
    names = {*absent, *(rule.name for rule in rules)}
    problems = []
    for rule in rules:
        checks = [pair for pair in _CHECKS if pair[1] is not _folder or not _is_below(rule, flat)]
        messages = [f"{code}: {message}" for code, check in checks for message in check(rule)]
        messages += [
            f"BWL013: there is no rule '{name}'"
            for name in (*rule.held_back_by, *rule.caused_by, *(n for test in rule.tests for n in test.firing))
            if name not in names
        ]
        problems += [Problem(Place(rule.path), message) for message in messages]
    return tuple(problems)


def _is_below(rule: Rule, folders: Sequence[Path]) -> bool:
    return any(PurePath(rule.path).is_relative_to(folder) for folder in folders)


def _identity(rule: Rule) -> Iterator[str]:
    if not _ID.fullmatch(rule.id):
        yield f"the id '{rule.id}' is not capital letters and three digits (BW is for shipped rules)"
    if not _NAME.fullmatch(rule.name):
        yield f"the name '{rule.name}' is not words in small letters joined by hyphens"


def _folder(rule: Rule) -> Iterator[str]:
    folder, first = PurePath(rule.path).parent.name, rule.category.split(maxsplit=1)[0] if rule.category else ""
    if folder != first:
        yield f"the rule lies in folder '{folder}', its category says '{first}'"


def _unused_signals(rule: Rule) -> Iterator[str]:
    conditions = [case.when for case in rule.cases] + list(rule.unless) + ([rule.gate] if rule.gate else [])
    conditions += [case.unless for case in rule.cases if case.unless]
    conditions += [advice.when for advice in rule.advice if advice.when]
    texts = [case.message for case in rule.cases] + [t for advice in rule.advice for t in advice.templates]
    used = {name for condition in conditions for name in condition.names}
    used |= {name for formula in rule.figures.values() for name in formula.names}
    used |= {name for text in texts for name in text.names} | set(rule.evidence)
    for name in rule.signals:
        if name not in used:
            yield f"signal '{name}' is declared and not used"
    for name in rule.figures:
        if not any(name in text.names for text in texts):
            yield f"figure '{name}' is not used"


def _nothing_from_nothing(rule: Rule) -> Iterator[str]:
    for case in rule.cases:
        if case.when.evaluate({})[0] is not Verdict.UNKNOWN:
            yield f"the condition '{_short(case)}' decides although it knows nothing"
    for condition in (*rule.unless, *(c.unless for c in rule.cases if c.unless), *([rule.gate] if rule.gate else [])):
        if condition.evaluate({})[0] is not Verdict.UNKNOWN:
            yield f"'{' '.join(condition.text.split())}' decides although it knows nothing"


def _messages(rule: Rule) -> Iterator[str]:
    for case in rule.cases:
        sure = {*case.when.names, *(n for n, f in rule.figures.items() if set(f.names) <= set(case.when.names))}
        for name in case.message.names:
            if name not in sure:
                yield f"the message of '{_short(case)}' shows {{{name}}}, which that condition does not need"


def _readings(rule: Rule) -> Iterator[str]:
    for case in rule.cases:
        uses = any(name.partition(".")[0] in TELEMETRY_FAMILIES for name in case.when.names)
        if uses and not (case.needs_telemetry and rule.min_readings > 1):
            yield f"'{_short(case)}' judges readings without needs_telemetry and min_evidence"
        if case.needs_telemetry and not uses:
            yield f"'{_short(case)}' says needs_telemetry and looks at no reading"


def _links(rule: Rule) -> Iterator[str]:
    if rule.effect and not rule.caused_by:
        yield "an effect must name its possible causes in caused_by"
    if rule.gate and not rule.held_back_by:
        yield "a gate without held_back_by never says what is to be done first"
    if rule.name in (*rule.held_back_by, *rule.caused_by):
        yield "a rule cannot cause or hold back itself"


def _durations(rule: Rule) -> Iterator[str]:
    if rule.clear_for_s < rule.for_s:
        yield f"clear_for ({rule.clear_for_s:g} s) is shorter than for ({rule.for_s:g} s), so it would flap"


def _explained(rule: Rule) -> Iterator[str]:
    for section in _EXPLAINED:
        if len(getattr(rule.explain, section).split()) < MIN_WORDS:
            yield f"explain.{section} has fewer than {MIN_WORDS} words"


def _references(rule: Rule) -> Iterator[str]:
    for reference in rule.references:
        if not reference.startswith("https://"):
            yield f"reference '{reference}' is no https address"


def _unfinished(rule: Rule) -> Iterator[str]:
    explain = rule.explain
    texts = [rule.title, explain.what, explain.why, explain.confirm, explain.fix, explain.price, explain.check]
    texts += [template.text for advice in rule.advice for template in advice.templates]
    for text in texts:
        if match := _UNFINISHED.search(text):
            yield f"'{match.group()}' in a text for people"


def _advice(rule: Rule) -> Iterator[str]:
    for advice in rule.advice:
        options = (*advice.remove, *advice.add)
        if advice.versions and not advice.servers:
            yield f"advice for versions {advice.versions} names no server"
        if options and not (advice.source and advice.undo and advice.check):
            yield f"advice '{advice.do.text}' changes options and lacks source, undo or check"
        for option in options:
            if not _OPTION.fullmatch(option.text):
                yield f"'{option.text}' is neither an option nor a variable"
    last = rule.advice[-1] if rule.advice else None
    if last and (last.servers or last.versions or last.settings or last.when or last.remove):
        yield "the last advice must fit any server of any version"


def _examples(rule: Rule) -> Iterator[str]:
    needed = {Verdict.MATCH, Verdict.CLEAR} if rule.status is Status.PREVIEW else set(Verdict)
    for verdict in sorted(needed - {test.expect for test in rule.tests}):
        yield f"no test expects {verdict}"


def _short(case: Case) -> str:
    return " ".join(case.when.text.split())


_CHECKS: tuple[tuple[str, _Check], ...] = (
    ("BWL001", _identity),
    ("BWL002", _folder),
    ("BWL003", _unused_signals),
    ("BWL004", _nothing_from_nothing),
    ("BWL005", _messages),
    ("BWL006", _readings),
    ("BWL007", _links),
    ("BWL008", _durations),
    ("BWL009", _explained),
    ("BWL010", _references),
    ("BWL011", _unfinished),
    ("BWL012", _advice),
    ("BWL014", _examples),
)
