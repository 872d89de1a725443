"""A rule file's text to a `Rule`. Everything that is wrong in it is found in one reading, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import TypeVar

from bubblewatch.diagnose.condition import (
    Condition,
    ConditionError,
    Formula,
    compile_condition,
    compile_formula,
    nearest,
)
from bubblewatch.diagnose.rule import Advice, Case, Explain, GainModel, Rule, RuleTest, Stage, Status
from bubblewatch.diagnose.template import Template, read_template
from bubblewatch.diagnose.yaml_text import Problem, Section, Text, read_yaml
from bubblewatch.model.errors import RuleError
from bubblewatch.model.findings import Scope, Severity, Verdict
from bubblewatch.model.server import SettingValue
from bubblewatch.model.signals import Confidence, SignalValue
from bubblewatch.servers.versions import Version
from bubblewatch.signals.vocabulary import VOCABULARY, Spec

_SEVERITIES: Mapping[str, Severity] = MappingProxyType({s.word: s for s in Severity})
_CONFIDENCES: Mapping[str, Confidence] = MappingProxyType({c.word: c for c in Confidence})
_SCOPES: Mapping[str, Scope] = MappingProxyType({str(s): s for s in Scope})
_STATUSES: Mapping[str, Status] = MappingProxyType({str(s): s for s in Status})
_STAGES: Mapping[str, Stage] = MappingProxyType({s.name.lower(): s for s in Stage})
_GAINS: Mapping[str, GainModel] = MappingProxyType({str(g): g for g in GainModel})
_VERDICTS: Mapping[str, Verdict] = MappingProxyType({str(v): v for v in Verdict})
_EXPLAIN = ("what", "why", "confirm", "fix", "price", "check", "false_positives", "blind_spots")
_SAMPLES: Mapping[str, SignalValue] = MappingProxyType({"bool": True, "int": 1, "double": 0.5, "string": "text"})
_EVIDENCE_SIGNALS = ("telemetry.readings", "telemetry.seconds")

_P = TypeVar("_P", Condition, Formula)


def read_rule(path: str, text: str) -> tuple[Rule | None, tuple[Problem, ...]]:
    """The rule that `text` holds, and everything that is wrong with it. A rule with problems must not be used.

    None when nothing can be made of the text. `path` is what problems are shown with; its last part without suffix must
    be the rule's name.
    """
    file, top = read_yaml(path, text)
    if top is None:
        return None, tuple(file.problems)
    rule = _Reader(path, top).rule()
    return rule, tuple(sorted(file.problems, key=lambda problem: (problem.place.line or 0, problem.place.column or 0)))


class _Reader:
    """Reads one file; keeps the signals that the file declares."""

    def __init__(self, path: str, top: Section) -> None:
        self._path = path
        self._top = top
        self._specs: Mapping[str, Spec] = self._declared()
        self._figures: Mapping[str, Formula] = self._read_figures()
        self._severity = top.choice("severity", _SEVERITIES, Severity.WARNING, required=True)
        self._message = self._template(top.text("message", required=True))

    def rule(self) -> Rule:
        top = self._top
        name = top.string("name", required=True)
        if name and name != PurePath(self._path).stem:
            top.complain(f"the file must be named {name}.yaml after its rule", "name")
        evidence = top.section("min_evidence")
        rule = Rule(
            id=top.string("id", required=True),
            name=name,
            title=top.string("title", required=True),
            status=top.choice("status", _STATUSES, Status.PREVIEW, required=True),
            since=top.string("since", required=True),
            severity=self._severity,
            category=top.string("category", required=True),
            scope=top.choice("scope", _SCOPES, Scope.SERVER, required=True),
            signals=tuple(self._specs),
            cases=self._cases(),
            path=self._path,
            unless=tuple(c for text in top.texts("unless") if (c := self._condition(text)) is not None),
            gate=self._condition(top.text("gate")),
            held_back_by=_names(top.texts("held_back_by")),
            caused_by=_names(top.texts("caused_by")),
            effect=top.flag("effect"),
            alone=top.flag("alone"),
            stage=top.choice("stage", _STAGES, Stage.OTHER),
            for_s=top.duration_s("for", 30.0),
            clear_for_s=top.duration_s("clear_for", 60.0),
            min_seconds=evidence.number("seconds", 0.0) if evidence else 0.0,
            min_readings=int(evidence.number("readings", 0)) if evidence else 0,
            evidence=self._evidence(top.texts("evidence")),
            figures=self._figures,
            explain=self._explain(),
            references=_names(top.texts("references")),
            recorded=_names(top.texts("recorded")),
            gain=top.choice("gain", _GAINS, GainModel.NONE),
            advice=tuple(self._advice(section) for section in top.sections("advice")),
            tests=tuple(self._test(section) for section in top.sections("tests")),
        )
        if evidence:
            evidence.close()
        top.close()
        return rule

    def _declared(self) -> Mapping[str, Spec]:
        specs: dict[str, Spec] = {}
        for text in self._top.texts("signals"):
            name = str(text)
            if name in specs:
                text.complain(f"signal '{name}' is declared twice")
            elif name not in VOCABULARY:
                text.complain(f"there is no signal '{name}'{nearest(name, VOCABULARY)}")
            else:
                specs[name] = VOCABULARY[name]
        if not specs:
            self._top.complain("'signals' must name the signals that the rule uses", "signals")
        return MappingProxyType(specs)

    def _read_figures(self) -> Mapping[str, Formula]:
        section = self._top.section("figures")
        if section is None:
            return MappingProxyType({})
        found = {key: self._compile(section.text(key), compile_formula) for key in section.keys}
        return MappingProxyType({key: formula for key, formula in found.items() if formula is not None})

    def _cases(self) -> tuple[Case, ...]:
        """The list `cases`, or the one case that `when` and `confidence` at the top are short for."""
        sections = self._top.sections("cases") or ([self._top] if "when" in self._top else [])
        if not sections:
            self._top.complain("a rule needs 'when' or 'cases'")
        return tuple(case for section in sections if (case := self._case(section)) is not None)

    def _case(self, section: Section) -> Case | None:
        when = self._condition(section.text("when", required=True))
        own = section is not self._top
        severity = section.choice("severity", _SEVERITIES, self._severity) if own else self._severity
        message = (self._template(section.text("message")) if own else None) or self._message
        confidence = section.choice("confidence", _CONFIDENCES, Confidence.LOW, required=True)
        unless = self._condition(section.text("unless")) if own else None
        needs_telemetry, optional = section.flag("needs_telemetry"), section.flag("optional")
        if own:
            section.close()
        if when is None or message is None:
            return None
        return Case(when, confidence, severity, message, unless, needs_telemetry=needs_telemetry, optional=optional)

    def _evidence(self, texts: Sequence[Text]) -> tuple[str, ...]:
        for text in texts:
            if str(text) not in self._specs:
                text.complain(f"signal '{text}' is not among the declared signals{nearest(str(text), self._specs)}")
        return tuple(str(text) for text in texts if str(text) in self._specs)

    def _explain(self) -> Explain:
        section = self._top.section("explain")
        if section is None:
            return Explain()
        explain = Explain(**{key: " ".join(section.string(key).split()) for key in _EXPLAIN})
        section.close()
        return explain

    def _advice(self, section: Section) -> Advice:
        versions = section.text("versions")
        if versions is not None:
            try:
                Version((0, 0, 0)).satisfies(str(versions))
            except ValueError:
                versions.complain(f"'{versions}' is no range of versions such as >=0.5.7,<0.5.20")
        do = self._template(section.text("do", required=True))
        advice = Advice(
            do=do or read_template(""),
            servers=_names(section.texts("server")),
            versions=str(versions) if versions else "",
            settings=_plain_values(section.section("settings")),
            when=self._condition(section.text("if")),
            remove=self._templates(section.texts("remove")),
            add=self._templates(section.texts("add")),
            check=self._template(section.text("check")),
            hazards=self._templates(section.texts("hazards")),
            undo=" ".join(section.string("undo").split()),
            source=" ".join(section.string("source").split()),
        )
        section.close()
        return advice

    def _test(self, section: Section) -> RuleTest:
        test = RuleTest(
            name=section.string("name", required=True),
            given=self._given(section),
            expect=section.choice("expect", _VERDICTS, Verdict.UNKNOWN, required=True),
            confidence=section.choice("confidence", _CONFIDENCES, Confidence.LOW) if "confidence" in section else None,
            severity=section.choice("severity", _SEVERITIES, Severity.INFO) if "severity" in section else None,
            held_back=section.flag("held_back") if "held_back" in section else None,
            firing=_names(section.texts("firing")),
            server=section.string("server", "unknown"),
            version=section.string("version") or None,
            settings=_plain_values(section.section("settings")),
            says=_names(section.texts("says")),
            silent=_names(section.texts("silent")),
            line=section.line,
        )
        section.close()
        return test

    def _given(self, section: Section) -> Mapping[str, SignalValue]:
        given = section.section("given")
        if given is None:
            return MappingProxyType({})
        allowed = {**self._specs, **{name: VOCABULARY[name] for name in _EVIDENCE_SIGNALS}}
        values: dict[str, SignalValue] = {}
        for name in given.keys:
            value = given.scalar(name)
            if name not in allowed:
                given.complain(f"signal '{name}' is not among the declared signals{nearest(name, allowed)}", name)
            elif value is None or not _suits(allowed[name], value):
                given.complain(f"signal '{name}' is {allowed[name].type}, this is {value!r}", name)
            else:
                values[name] = float(value) if allowed[name].type == "double" else value
        return MappingProxyType(values)

    def _condition(self, text: Text | None) -> Condition | None:
        return self._compile(text, compile_condition)

    def _compile(self, text: Text | None, compile_: Callable[[str, Mapping[str, Spec]], _P]) -> _P | None:
        if text is None:
            return None
        if text.is_folded:
            text.complain("write '|' instead of '>', so that places in the condition can be found")
            return None
        try:
            return compile_(str(text), self._specs)
        except ConditionError as error:
            for fault in error.faults:
                text.complain(fault.message, fault.line, fault.column)
            return None

    def _templates(self, texts: Sequence[Text]) -> tuple[Template, ...]:
        return tuple(t for text in texts if (t := self._template(text)) is not None)

    def _template(self, text: Text | None) -> Template | None:
        """The template of `text`, tried on a sample value of each name's type."""
        if text is None:
            return None
        try:
            template = read_template(" ".join(str(text).split()))
            unknown = [n for n in template.names if n not in self._specs and n not in self._figures]
            for name in unknown:
                text.complain(f"'{{{name}}}' is no declared signal or figure{nearest(name, self._specs)}")
            if not unknown:
                template.render({name: self._sample(name) for name in template.names})
        except RuleError as error:
            text.complain(error.what)
            return None
        return None if unknown else template

    def _sample(self, name: str) -> SignalValue:
        kind = self._specs[name].type if name in self._specs else "int"
        return _SAMPLES[kind]


def _names(texts: Sequence[Text]) -> tuple[str, ...]:
    return tuple(str(text).strip() for text in texts)


def _plain_values(section: Section | None) -> Mapping[str, SettingValue]:
    if section is None:
        return MappingProxyType({})
    return MappingProxyType({key: section.scalar(key) for key in section.keys})


def _suits(spec: Spec, value: SignalValue) -> bool:
    if spec.type == "double":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is {"bool": bool, "int": int, "string": str}[spec.type]
