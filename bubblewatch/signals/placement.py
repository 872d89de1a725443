"""How a model is spread over GPUs where the launch does not say it in numbers."""

from __future__ import annotations

from dataclasses import replace

from bubblewatch.model.logs import Offload
from bubblewatch.servers.base import DeviceSplit, Facts
from bubblewatch.signals.evidence import ServerEvidence


def placed(evidence: ServerEvidence) -> Facts:
    """The facts with pp, tp and dp filled in where the GPUs that the server uses settle them.

    A layer split has one stage on each GPU (llama.cpp, device maps), a row split one tensor rank. A server of which
    nothing else is known and that has one GPU has no one to share with.
    """
    facts = evidence.facts
    count = _gpu_count(evidence)
    if count is None:
        return facts
    if facts.device_split is DeviceSplit.LAYERS:
        return replace(facts, pp=facts.pp or count, tp=facts.tp or 1, dp=facts.dp or 1)
    if facts.device_split is DeviceSplit.ROWS:
        return replace(facts, pp=facts.pp or 1, tp=facts.tp or count, dp=facts.dp or 1)
    nothing_known = facts.pp is None and facts.tp is None and facts.dp is None
    if facts.device_split is DeviceSplit.ONE or (count == 1 and nothing_known):
        return replace(facts, pp=1, tp=1, dp=1)
    return facts


def _gpu_count(evidence: ServerEvidence) -> int | None:
    """GPUs that the server uses: by its processes, by its log, else all that were read; None when nothing tells."""
    if evidence.server.gpus:
        return len(evidence.server.gpus)
    told = [e.devices for e in evidence.events if isinstance(e, Offload) and e.devices]
    if told:
        return told[-1]
    return len(evidence.telemetry.gpus) or None
