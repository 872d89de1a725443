"""From the evidence about one server to its signals and those of its GPUs. Pure: the same evidence, the same
signals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import DecodeStep, PrefillStep, Retraction, StatsLine
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signals
from bubblewatch.model.telemetry import GpuReading, Telemetry
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.causes import write_causes
from bubblewatch.signals.decode import DecodePace, pace, stats_totals
from bubblewatch.signals.demand import (
    Activity,
    activity,
    running_intervals,
    write_demand,
    write_demand_by_work,
    write_share,
)
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.gpus import GpuActivity, gpu_signals
from bubblewatch.signals.gpus import activity as gpu_activity
from bubblewatch.signals.launch import write_launch, write_layers
from bubblewatch.signals.pipeline import own_gpus, stages_of, write_gpus, write_pipeline
from bubblewatch.signals.placement import placed
from bubblewatch.signals.progress import write_progress, write_standstill, write_startup
from bubblewatch.signals.roofline import write_roofline
from bubblewatch.signals.series import Interval

RECENT_DECODE_S = 120.0
"""How far back decode lines count as "now", in seconds, at least: a slow rank prints one line in 4 to 20 s, and a
median wants several."""

LOG_INTERVAL = 40
"""Decode forwards between two decode lines where the launch says nothing else (SGLang 0.4.3 .. 0.5.23)."""


@dataclass(frozen=True, slots=True)
class Computed:
    """Signals of the server, and of every GPU of the host by uuid."""

    server: Signals
    gpus: Mapping[str, Signals]


def compute(evidence: ServerEvidence) -> Computed:
    """All signals that this evidence carries; each name that it does not carry is missing, with the reason."""
    evidence = replace(evidence, telemetry=_named(evidence.telemetry, evidence.stated.gpu_model))
    evidence = replace(evidence, facts=placed(evidence))
    book = Notebook(Scope.SERVER)
    facts, telemetry = evidence.facts, evidence.telemetry
    signs = activity(evidence.events)
    steps = _recent_steps(evidence)
    paced = pace(steps, facts.decode_log_interval or LOG_INTERVAL)
    write_launch(book, evidence, paced)
    write_demand(book, evidence, signs, paced)
    window = Interval(telemetry.start_ns, telemetry.end_ns)
    within = _loaded_time(signs, telemetry, window, book.text("demand.state"))
    if within is not None:
        write_share(book, within, window)
    seen = [gpu_activity(g, telemetry.end_ns, within or None) for g in telemetry.gpus]
    world = facts.pp * facts.tp * facts.dp if facts.pp and facts.tp and facts.dp else None
    mine, reason = own_gpus(seen, evidence.server.gpus, world)
    write_gpus(book, mine, reason, telemetry.seconds)
    write_demand_by_work(book)
    if facts.pp is not None and facts.pp > 1:
        stages = stages_of(mine, evidence.server.gpus, facts.pp, facts.tp or 1, facts.dp or 1)
        write_pipeline(book, replace(stages, reason=reason or stages.reason), facts.pp, telemetry.seconds)
    elif facts.pp == 1:
        book.know("pipeline.stages", 1, "launch", Confidence.CERTAIN)
    _write_throughput(book, evidence, paced)
    _write_slots(book, paced, facts.pp)
    _write_memory(book, evidence)
    write_startup(book, evidence)
    write_progress(book, evidence, signs)
    write_standstill(book, evidence)
    _write_layers(book, evidence)
    assigned = evidence.server.gpus
    write_roofline(book, evidence, [g.gpu for g in telemetry.gpus if not assigned or g.gpu.uuid in assigned])
    own = {gpu.uuid for gpu in mine}
    write_causes(book, evidence, paced, [g for g in telemetry.gpus if g.gpu.uuid in own], within)
    return Computed(book.signals(), _gpu_signals(telemetry, seen))


def gpu_only(telemetry: Telemetry) -> Mapping[str, Signals]:
    """Signals of every GPU of the host, when there is no server to speak of."""
    return _gpu_signals(telemetry, [gpu_activity(g, telemetry.end_ns) for g in telemetry.gpus])


def _gpu_signals(telemetry: Telemetry, seen: list[GpuActivity]) -> Mapping[str, Signals]:
    return {
        reading.gpu.uuid: gpu_signals(reading, activity, telemetry.end_ns)
        for reading, activity in zip(telemetry.gpus, seen, strict=True)
    }


def _named(telemetry: Telemetry, model: str | None) -> Telemetry:
    """The telemetry with the stated product name on cards whose own name says nothing."""
    if model is None:
        return telemetry
    gpus = tuple(GpuReading(replace(g.gpu, name=model), g.series) for g in telemetry.gpus)
    return replace(telemetry, gpus=gpus)


def _recent_steps(evidence: ServerEvidence) -> list[DecodeStep]:
    """Decode lines that count as now: those of the window, at least the last two minutes; all when nothing has a
    time.
    """
    if evidence.now_ns is None:
        return [e for e in evidence.events if isinstance(e, DecodeStep)]
    oldest = evidence.now_ns - round(max(RECENT_DECODE_S, evidence.window_s) * NS)
    return [
        e for e in evidence.events if isinstance(e, DecodeStep) and (e.line.time_ns is None or e.line.time_ns >= oldest)
    ]


def _loaded_time(
    signs: Activity, telemetry: Telemetry, window: Interval, state: str | None
) -> tuple[Interval, ...] | None:
    """The parts of the window in which requests ran, None when log and telemetry share no clock or nothing runs now."""
    if telemetry.wall_offset_ns is None or not telemetry.gpus or state != "running":
        return None
    if not signs.times_ns:
        return None
    return running_intervals(signs, telemetry.wall_offset_ns, window)


def _write_layers(book: Notebook, evidence: ServerEvidence) -> None:
    """The number of layers as stated, else by the model's own files."""
    stated, model = evidence.stated.layers, evidence.model
    if stated is not None or model is None:
        proof = [Evidence(EvidenceKind.STATED, "you", f"--layers {stated}")] if stated is not None else []
        write_layers(book, stated, evidence.facts.pp, proof)
        return
    fact = Evidence(EvidenceKind.SETTING, "model", f"{len(model.layers)} layers ({model.where})")
    write_layers(book, len(model.layers), evidence.facts.pp, [fact], "model")


def _write_throughput(book: Notebook, evidence: ServerEvidence, paced: DecodePace) -> None:
    totals = [e for e in evidence.events if isinstance(e, StatsLine)]
    if paced.gen_tps is not None:
        proof = [Evidence(EvidenceKind.LOG, paced.lines[-1].line.source or "log", paced.lines[-1].line.text[:300])]
        book.know("throughput.gen_tps", paced.gen_tps, "log", Confidence.HIGH, proof)
    elif totals and (tps := stats_totals(totals)[2]) is not None:
        proof = [Evidence(EvidenceKind.LOG, totals[-1].line.source or "log", totals[-1].line.text[:300])]
        book.know("throughput.gen_tps", tps, "log", Confidence.HIGH, proof)
    else:
        book.lack("throughput.gen_tps", "no line or page told a token rate")
    if paced.step_s is not None:
        sure = Confidence.HIGH if paced.step_basis == "times" else Confidence.MEDIUM
        book.know("throughput.step_s", paced.step_s, paced.step_basis, sure)
    else:
        book.lack("throughput.step_s", "two decode lines of one rank are needed")


def _write_slots(book: Notebook, paced: DecodePace, pp: int | None) -> None:
    """Filled slots: requests in all over the mean micro-batch (SGLang study §3.2)."""
    if pp is None or pp < 2:
        for name in ("slots.batch", "slots.filled", "slots.wanted"):
            book.lack(name, "there is no pipeline" if pp == 1 else "the number of stages is not known")
        return
    running, ring = book.get("demand.running"), book.number("slots.ring")
    count = book.number("demand.running")
    if running is not None and count is not None and ring is not None:
        book.know("slots.wanted", min(count, ring), running.basis, running.confidence, running.evidence)
    if paced.batch is None or paced.batch <= 0 or paced.step_s is None or paced.gen_tps is None:
        for name in ("slots.batch", "slots.filled"):
            book.lack(name, "needs two decode lines of one rank with times")
        return
    sure = Confidence.HIGH if paced.step_basis == "times" else Confidence.MEDIUM
    sum_text = f"{paced.step_s * 1e3:.1f} ms a step x {paced.gen_tps:.1f} tok/s = {paced.batch:.1f} requests a batch"
    book.know("slots.batch", paced.batch, paced.step_basis, sure, [Evidence(EvidenceKind.LOG, "log", sum_text)])
    if running is None or count is None:
        book.lack("slots.filled", "how many requests run in all is not known (--running N)")
        return
    filled = count / max(paced.batch, 1.0)
    text = f"{sum_text}; {count:.0f} running -> {max(filled, 1.0):.0f} of {ring or pp:.0f} slots filled"
    proof = [Evidence(EvidenceKind.LOG, "log", text), *running.evidence]
    if not math.isnan(filled) and count > 0:
        book.know("slots.filled", filled, "log", min(sure, running.confidence), proof)


def _write_memory(book: Notebook, evidence: ServerEvidence) -> None:
    usages = [
        e.kv_usage_ratio
        for e in evidence.events
        if isinstance(e, DecodeStep | PrefillStep | StatsLine) and e.kv_usage_ratio is not None
    ]
    if usages:
        book.know("kv.usage_ratio", max(usages[-20:]), "log")
    if evidence.log_read:
        thrown = [e for e in evidence.events if isinstance(e, Retraction)]
        proof = (
            [Evidence(EvidenceKind.LOG, thrown[-1].line.source or "log", thrown[-1].line.text[:300])] if thrown else []
        )
        book.know("retraction.count", sum(max(e.count, 1) for e in thrown), "log", evidence=proof)
