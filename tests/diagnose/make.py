"""Signals, servers and rules as tests need them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from bubblewatch.diagnose.rule import Rule
from bubblewatch.diagnose.schema import read_rule
from bubblewatch.model.findings import Scope, Target
from bubblewatch.model.server import Launch, Origin, Server, Setting, Settings, SettingValue
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signal, Signals, SignalValue
from bubblewatch.signals.vocabulary import VOCABULARY

TARGET = Target(Scope.SERVER, "sglang-k26")

STORY: Mapping[str, SignalValue] = {
    "server.kind": "sglang",
    "server.version": "0.5.10",
    "demand.state": "running",
    "demand.running": 8,
    "demand.queued": 0,
    "parallel.pp": 8,
    "parallel.tp": 1,
    "throughput.gen_tps": 95.6,
    "throughput.step_s": 0.0837,
    "slots.filled": 1.0,
    "slots.batch": 8.0,
    "slots.wanted": 8.0,
    "slots.ring": 8,
    "slots.capacity": 8,
    "depth.available": True,
    "depth.value": 0,
    "graphs.decode_enabled": False,
    "graphs.decode_share": 0.0,
    "pipeline.stages_busy": 0.5,
    "pipeline.basis_tells": True,
    "telemetry.readings": 300,
    "telemetry.seconds": 30.0,
    "duty.median": 0.06,
    "failure.watchdog": False,
}
"""The story's signals as the live machine gives them."""


def signals(values: Mapping[str, SignalValue], confidence: Confidence = Confidence.CERTAIN) -> Signals:
    """These values as signals, each with one piece of evidence that names it; all others are missing."""
    known = {
        name: Signal(value, "test", confidence, (Evidence(EvidenceKind.LOG, "log", f"seen {name}"),))
        for name, value in values.items()
    }
    missing = {name: f"no {name}" for name in VOCABULARY if name not in known}
    return Signals(known, missing)


def server(
    kind: str = "sglang",
    version: str | None = "0.5.10",
    argv: tuple[str, ...] = (),
    **settings: SettingValue,
) -> Server:
    """A server with these settings, read from its command line."""
    read = {name: Setting(name, value, Origin.ARGV, name) for name, value in settings.items()}
    return Server(kind, "sglang-k26", version=version, settings=Settings(read), launch=Launch(argv) if argv else None)


RULE = """\
id: BW999
name: example-rule
title: An example
status: stable
since: "0.1"
severity: warning
category: example
scope: server
signals: [parallel.pp, demand.running]
when: |
  parallel.pp > 1
  && demand.running >= 1
confidence: high
message: "{demand.running} over {parallel.pp}"
for: 30s
clear_for: 60s
"""
"""The text of a small rule that loads; the condition starts at line 11."""


def rule(text: str = RULE, path: str = "rules/example/example-rule.yaml") -> Rule:
    """The rule of this text, which must have no problem."""
    found, problems = read_rule(path, text)
    assert found is not None
    assert not problems, problems
    return found


def values() -> st.SearchStrategy[Mapping[str, SignalValue]]:
    """Any part of the vocabulary with values of the right type, often near the thresholds of rules."""
    by_type: Mapping[str, st.SearchStrategy[SignalValue]] = {
        "bool": st.booleans(),
        "int": st.one_of(st.integers(0, 10), st.integers(-(10**9), 10**9)),
        "double": st.one_of(st.floats(0.0, 10.0), st.floats(allow_nan=False)),
        "string": st.sampled_from(["running", "none", "sglang", "sm", ""]),
    }
    optional = {name: by_type[spec.type] for name, spec in VOCABULARY.items() if spec.scope is Scope.SERVER}
    return st.fixed_dictionaries({}, optional=optional)
