"""How evenly requests are spread over the data-parallel replicas of one server."""

from __future__ import annotations

from dataclasses import dataclass

from bubblewatch.model.logs import DecodeStep, StatsLine
from bubblewatch.model.signals import Confidence
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, recent

_NAMES = ("dp.seen", "dp.load_ratio", "dp.queue_max", "dp.queue_min")


@dataclass(frozen=True, slots=True)
class _Replica:
    """The newest that one replica said: requests that run and wait (None = its line does not count them)."""

    running: int
    waiting: int | None

    @property
    def load(self) -> int:
        return self.running + (self.waiting or 0)


def write_replicas(book: Notebook, evidence: ServerEvidence) -> None:
    """Write dp.*: the load of the fullest replica over an even share of all requests.

    When not every replica spoke, the share is taken of what the client keeps in flight, if that was stated.
    """
    replicas = evidence.facts.dp
    if replicas is None or replicas < 2:
        for name in _NAMES:
            book.lack(name, "there is one replica" if replicas == 1 else "the number of replicas is not known")
        return
    found = _newest(evidence)
    book.know("dp.seen", len(found), "log", Confidence.HIGH)
    if len(found) < 2:
        for name in _NAMES[1:]:
            book.lack(name, "fewer than two replicas said what they do")
        return
    loads = {name: replica.load for name, replica in found.items()}
    queues = [replica.waiting for replica in found.values() if replica.waiting is not None]
    total, stated = sum(loads.values()), evidence.stated.concurrency
    if len(found) < replicas:
        total = stated if stated is not None and stated >= total else 0
    text = ", ".join(f"{name}: {r.running} running {r.waiting or 0} waiting" for name, r in list(found.items())[:8])
    proof = [counted(text)]
    if total > 0:
        ratio = max(loads.values()) * replicas / total
        book.know("dp.load_ratio", ratio, "log", Confidence.HIGH, proof)
    else:
        book.lack(
            "dp.load_ratio", f"{len(found)} of {replicas} replicas spoke, and the total is not known (--concurrency N)"
        )
    if len(queues) == len(found):
        book.know("dp.queue_max", max(queues), "log", Confidence.HIGH, proof)
        book.know("dp.queue_min", min(queues), "log", Confidence.HIGH, proof)


def _newest(evidence: ServerEvidence) -> dict[str, _Replica]:
    """The newest line of each replica: vLLM's engines, or the first tensor rank of SGLang's DP ranks."""
    found: dict[str, _Replica] = {}
    for event in recent(evidence, StatsLine, DecodeStep):
        if isinstance(event, StatsLine) and event.engine is not None:
            found[f"engine {event.engine}"] = _Replica(event.running, event.waiting)
        elif isinstance(event, DecodeStep) and event.rank is not None:
            found[f"DP{event.rank.dp}"] = _Replica(event.running, event.queued)
    return dict(sorted(found.items()))
