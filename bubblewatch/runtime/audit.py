"""Judging a launch before it runs: the same rules on settings alone, and what theory expects of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bubblewatch.diagnose.answer import ASK_VERSION
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Answer, Snapshot, TargetView
from bubblewatch.model.server import Server
from bubblewatch.runtime.assess import assess, facts_of, with_settings
from bubblewatch.servers.base import Facts, ServerKind
from bubblewatch.signals.evidence import ServerEvidence, Stated
from bubblewatch.theory.forecast import Forecast, forecast

ASK_CONCURRENCY = "how many requests clients keep in flight (--concurrency N): then it says what they will do"
ASK_LAYERS = "the layers of the model (--layers N): then it says whether the stages are even"


@dataclass(frozen=True, slots=True)
class ServerAudit:
    """One launch judged.

    `problems` are sentences on settings that keep the server from starting as meant (an option that this version does
    not know); `doubts` on what could not be read or told, which makes the answer less sure. `expected` is None when
    nobody said how many requests to expect.
    """

    view: TargetView
    problems: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    expected: Forecast | None = None

    @property
    def server(self) -> Server:
        """The server of this launch, which is always there."""
        if self.view.server is None:
            raise ValueError("an audited view has a server")
        return self.view.server


@dataclass(frozen=True, slots=True)
class Audit:
    """All launches judged; `snapshot` holds their views in the same order."""

    snapshot: Snapshot
    servers: tuple[ServerAudit, ...]

    @property
    def has_problems(self) -> bool:
        """Whether one of the servers would not start as meant."""
        return any(server.problems for server in self.servers)


def audit_server(
    kind: ServerKind, server: Server, stated: Stated, rules: Sequence[Rule], ignore: Sequence[str]
) -> ServerAudit:
    """The answer about a launch that has not run: FINDINGS when something is loud or a problem, else QUIET.

    Findings that need readings or requests are not raised, except those that `stated` demand lets theory expect.
    """
    server = with_settings(kind, server, ())
    facts = facts_of(kind, server, (), None)
    evidence = ServerEvidence(server=server, facts=facts, stated=stated, window_s=0.0)
    view = assess(evidence, rules, ignore, None, one_shot=True).view
    sure, unsure = _sorted_problems(server, facts)
    loud = any(finding.is_loud for finding in view.findings)
    answer = Answer.FINDINGS if loud or sure else Answer.QUIET
    launch_notes = server.launch.notes if server.launch is not None else ()
    return ServerAudit(
        replace(view, answer=answer, missing=tuple(_asked(server, facts, stated))),
        sure,
        (*unsure, *launch_notes),
        _expected(facts, stated),
    )


def _sorted_problems(server: Server, facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Problems of the settings that are sure, and those that may be none.

    A version newer than every known one may have options that are not known here; and an option file that could not be
    read is no fault of the launch.
    """
    config = server.asked.values.get("config")
    unread = [problem for problem in server.asked.problems if config is not None and config.evidence in problem]
    others = [problem for problem in server.asked.problems if problem not in unread]
    if facts.newer_than_known:
        return (), (*others, *unread)
    return tuple(others), tuple(unread)


def _asked(server: Server, facts: Facts, stated: Stated) -> Iterator[str]:
    if server.version is None:
        yield ASK_VERSION
    if stated.concurrency is None and stated.running is None:
        yield ASK_CONCURRENCY
    if stated.layers is None and (facts.pp or 1) > 1:
        yield ASK_LAYERS


def _expected(facts: Facts, stated: Stated) -> Forecast | None:
    count = stated.concurrency if stated.concurrency is not None else stated.running
    if count is None or facts.pp is None:
        return None
    return forecast(
        count,
        stages=facts.pp,
        ring=facts.ring_slots,
        capacity=facts.slot_capacity,
        max_running=facts.max_running,
        replicas=facts.dp or 1,
        graph_batch=facts.graph_max_batch if facts.decode_graphs is not False else None,
    )
