"""From evidence to an answer about one server: signals, findings, verdict, what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bubblewatch.diagnose.answer import answer
from bubblewatch.diagnose.judge import Judgement, judge_all
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Scope, Target, TargetView, Verdict
from bubblewatch.model.logs import Event, PoolSized, SettingsSeen
from bubblewatch.model.server import Server, Settings
from bubblewatch.servers.base import Facts, ServerKind
from bubblewatch.servers.versions import Bounds
from bubblewatch.signals.compute import Computed, compute
from bubblewatch.signals.evidence import ServerEvidence


@dataclass(frozen=True, slots=True)
class Assessment:
    """The view of one server, what every rule said, and the signals of every GPU that was computed beside it."""

    view: TargetView
    judgements: tuple[Judgement, ...]
    computed: Computed


def with_settings(kind: ServerKind | None, server: Server, events: Sequence[Event]) -> Server:
    """The server with what its launch asks for, and what holds: what it printed itself, the newest print last, wins."""
    asked = Settings()
    if kind is not None and server.launch is not None and server.launch.argv:
        asked = kind.settings(server.launch, server.version)
    settings = asked
    for event in events:
        if isinstance(event, SettingsSeen):
            settings = event.settings.over(settings)
    return replace(server, settings=settings, asked=asked)


def facts_of(kind: ServerKind | None, server: Server, events: Sequence[Event], bounds: Bounds | None) -> Facts:
    """What the resolved settings mean for this version; empty for a server that we do not know."""
    if kind is None:
        return Facts()
    pool = next((e for e in reversed(events) if isinstance(e, PoolSized) and e.max_running is not None), None)
    return kind.facts(server.settings, server.version, bounds=bounds, pool=pool)


def assess(
    evidence: ServerEvidence, rules: Sequence[Rule], ignore: Sequence[str], watched_s: float | None, *, one_shot: bool
) -> Assessment:
    """The answer about this server. `watched_s` is how long we looked ourselves, None for evidence files."""
    target = Target(Scope.SERVER, evidence.server.key)
    computed = compute(evidence)
    judged = judge_all(
        target, computed.server, evidence.server, rules, ignore=ignore, watched_s=watched_s, one_shot=one_shot
    )
    findings = tuple(j.finding for j in judged if j.finding is not None)
    verdict, missing = answer(computed.server, findings)
    clear = {j.rule.name: j.rule.severity for j in judged if j.verdict is Verdict.CLEAR}
    view = TargetView(target, verdict, computed.server, findings, evidence.server, missing, clear)
    return Assessment(view, judged, computed)
