"""The shape of a rule file as a JSON Schema, so that an editor completes keys and marks wrong ones.

It says what can be said without compiling: which keys there are, of which type, and which words they take. Everything
else is found by `rules lint`, with its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bubblewatch.diagnose.rule import GainModel, Stage, Status
from bubblewatch.model.findings import Scope, Severity, Verdict
from bubblewatch.model.signals import Confidence
from bubblewatch.signals.vocabulary import VOCABULARY

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Shape = Mapping[str, Any]

_TEXT: Shape = {"type": "string"}
_FLAG: Shape = {"type": "boolean"}
_DURATION: Shape = {"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s|m|h)$"}
_VALUES: Shape = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}


def rule_schema() -> Shape:
    """The schema of one rule file."""
    signal = {"enum": list(VOCABULARY)}
    severity = _words(s.word for s in Severity)
    confidence = _words(c.word for c in Confidence)
    case = _object(
        {
            "when": _described(_TEXT, "CEL over the declared signals; true means that the rule matches"),
            "unless": _described(_TEXT, "this case is clear when that is known to hold"),
            "confidence": confidence,
            "severity": severity,
            "message": _described(_TEXT, "what is said; {signal.name:format} stands for a value that `when` needs"),
            "needs_telemetry": _described(_FLAG, "min_evidence must be there"),
            "optional": _described(_FLAG, "when it is unknown, other cases decide"),
        },
        required=("when", "confidence"),
    )
    shape = {
        "id": {"type": "string", "pattern": r"^[A-Z]{2,8}\d{3}$"},
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "title": _TEXT,
        "status": _words(Status),
        "since": _described(_TEXT, "version of bubblewatch that brought it"),
        "severity": severity,
        "category": _described(_TEXT, "the folder that the file lies in"),
        "scope": _words(Scope),
        "stage": _described(_words(s.name.lower() for s in Stage), "where its advice stands in the order of advice"),
        "effect": _described(_FLAG, "a consequence of one of caused_by"),
        "alone": _described(_FLAG, "said only when nothing loud is"),
        "signals": _list(signal),
        "evidence": _described(_list(signal), "signals whose evidence is quoted although no condition needs them"),
        "unless": _described(_texts(), "the rule is clear when one of these is known to hold"),
        **{key: case["properties"][key] for key in ("when", "confidence", "message", "needs_telemetry", "optional")},
        "cases": _described(_list(case), "several ways to match; the first one counts"),
        "gate": _described(_TEXT, "CEL that must hold before the finding may be loud"),
        "held_back_by": _texts(),
        "caused_by": _texts(),
        "min_evidence": _object({"seconds": {"type": "number"}, "readings": {"type": "integer"}}),
        "for": _described(_DURATION, "how long it must hold before it fires"),
        "clear_for": _described(_DURATION, "how long it must be clear before it is resolved"),
        "figures": _described({"type": "object", "additionalProperties": _TEXT}, "numbers in CEL that texts show"),
        "gain": _words(GainModel),
        "explain": _object(dict.fromkeys(EXPLAINED, _TEXT)),
        "references": _list({"type": "string", "pattern": "^https://"}),
        "recorded": _described(_texts(), "stored recordings (tests/recording/stored) in which it fires"),
        "advice": _list(_advice()),
        "tests": _list(_test(severity, confidence)),
    }
    required = ("id", "name", "title", "status", "since", "severity", "category", "scope", "signals", "message")
    return {"$schema": DRAFT, "title": "A rule of bubblewatch", **_object(shape, required=required)}


EXPLAINED = ("what", "why", "confirm", "fix", "price", "check", "false_positives", "blind_spots")
"""Sections of `explain`."""


def schema_text() -> str:
    """The schema as the file that editors read."""
    return json.dumps(rule_schema(), indent=2) + "\n"


def _advice() -> Shape:
    return _object(
        {
            "server": _described(_texts(), "kinds of server that it is for; every kind when absent"),
            "versions": _described(_TEXT, "range such as >=0.5.7,<0.5.20; only a known version fits one"),
            "settings": _described(_VALUES, "settings that must have these values"),
            "if": _described(_TEXT, "CEL that must hold"),
            "do": _TEXT,
            "remove": _described(_texts(), "options that are taken out, as they are written"),
            "add": _texts(),
            "check": _TEXT,
            "hazards": _texts(),
            "undo": _described(_TEXT, "the way back"),
            "source": _described(_TEXT, "where this is known from: file and versions, or thread"),
        },
        required=("do",),
    )


def _test(severity: Shape, confidence: Shape) -> Shape:
    given = {spec.name: {"type": _JSON_TYPES[spec.type]} for spec in VOCABULARY.values()}
    return _object(
        {
            "name": _TEXT,
            "given": {"type": "object", "properties": given, "additionalProperties": False},
            "expect": _words(Verdict),
            "confidence": confidence,
            "severity": severity,
            "held_back": _FLAG,
            "firing": _described(_texts(), "other rules that fire at the same time"),
            "server": _TEXT,
            "version": {"type": ["string", "number"]},
            "settings": _VALUES,
            "says": _texts(),
            "silent": _texts(),
        },
        required=("name", "expect"),
    )


_JSON_TYPES: Mapping[str, str] = {"bool": "boolean", "int": "integer", "double": "number", "string": "string"}


def _object(properties: Mapping[str, Shape], required: Iterable[str] = ()) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return shape | ({"required": list(required)} if required else {})


def _words(words: Iterable[str]) -> Shape:
    return {"enum": [str(word) for word in words]}


def _list(item: Shape) -> Shape:
    return {"type": "array", "items": item}


def _texts() -> Shape:
    """A list of texts, or one text for a list of one."""
    return {"oneOf": [_TEXT, _list(_TEXT)]}


def _described(shape: Shape, text: str) -> Shape:
    return {**shape, "description": text}
