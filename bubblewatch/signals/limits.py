"""What holds the batch down: the KV pool, the admission limit, device memory; and who waits for it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from bubblewatch.model.logs import DecodeStep, Event, Offload, PoolSized, PrefillStep, StatsLine
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals import series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, quoted, recent

FULL = 0.98
"""Share of the KV pool in use from which it counts as full: one request more does not fit. vLLM shows 98.6 to 100 % and
SGLang 0.99 to 1.00 when it begins to throw requests out (public logs)."""

LINES = 20
"""Lines of usage that count as now: one every 5 to 10 s in vLLM, so up to three minutes."""

TREND_LINES = 3
"""Lines in a row that make a trend: two may be chance."""


_STEPS: tuple[type[Event], ...] = (DecodeStep, PrefillStep, StatsLine)


def write_limits(book: Notebook, evidence: ServerEvidence) -> None:
    """Write kv.full_ratio, kv.tokens, queue.*, limits.used_ratio and offload.gpu_layers_ratio."""
    _write_pool(book, evidence)
    _write_queue(book, evidence)
    running, most = book.number("demand.running"), _admitted(book, evidence)
    used = running / most if running is not None and most else None
    limit = book.get("limits.max_running")
    proof = [*limit.evidence] if limit else []
    if used is not None and most:
        proof.append(counted(f"{running:.0f} requests run, {most:.0f} are admitted at once"))
    book.know(
        "limits.used_ratio",
        used,
        "count",
        Confidence.HIGH,
        proof,
        otherwise="the running requests or their limit are not known",
    )
    _write_layers_on_gpus(book, evidence)


def write_memory(book: Notebook, mine: Sequence[GpuReading]) -> None:
    """Write memory.used_ratio and memory.free_ratio over these GPUs."""
    shares = []
    for reading in mine:
        used = series.last(reading.series.get("memory_used_bytes", Series()))
        if used is not None and reading.gpu.memory_total_bytes:
            shares.append(used / reading.gpu.memory_total_bytes)
    if not mine or len(shares) != len(mine):
        for name in ("memory.used_ratio", "memory.free_ratio"):
            book.lack(name, "memory in use was not read on every GPU")
        return
    text = f"device memory in use {min(shares):.0%}-{max(shares):.0%}"
    proof = [Evidence(EvidenceKind.TELEMETRY, "GPUs", text)]
    book.know("memory.used_ratio", statistics.median(shares), "memory", evidence=proof)
    book.know("memory.free_ratio", 1.0 - max(shares), "memory", evidence=proof)


def _admitted(book: Notebook, evidence: ServerEvidence) -> float | None:
    return evidence.facts.max_running or book.number("limits.max_running")


def _write_pool(book: Notebook, evidence: ServerEvidence) -> None:
    usages = [usage for e in recent(evidence, *_STEPS) if (usage := _usage(e)) is not None][-LINES:]
    full = [usage for usage in usages if usage >= FULL]
    if usages:
        text = f"{len(full)} of {len(usages)} lines show the KV pool at {FULL:.0%} or more"
        book.know("kv.full_ratio", len(full) / len(usages), "log", Confidence.HIGH, [counted(text)] if full else ())
    else:
        book.lack("kv.full_ratio", "no line tells how full the KV pool is")
    sized = [e for e in evidence.events if isinstance(e, PoolSized) and e.max_total_tokens is not None]
    if sized:
        book.know("kv.tokens", sized[-1].max_total_tokens, "log", Confidence.CERTAIN, [quoted(sized[-1])])


def _usage(event: Event) -> float | None:
    return event.kv_usage_ratio if isinstance(event, DecodeStep | PrefillStep | StatsLine) else None


def _waiting(event: Event) -> int | None:
    if isinstance(event, StatsLine):
        return event.waiting
    return event.queued if isinstance(event, DecodeStep | PrefillStep) else None


def _write_queue(book: Notebook, evidence: ServerEvidence) -> None:
    lines = [e for e in recent(evidence, *_STEPS) if _waiting(e) is not None]
    known = book.get("demand.queued")
    newest = lines[-1] if lines else None
    seen = _waiting(newest) if newest else None
    if known is not None and isinstance(known.value, int) and known.value >= (seen or 0):
        book.know("queue.seen", known.value, known.basis, known.confidence, known.evidence)
    elif newest is not None:
        book.know("queue.seen", seen, "log", Confidence.HIGH, [quoted(newest)])
    else:
        book.lack("queue.seen", "nothing counted waiting requests")
    trends = [_displacing(of_one) for of_one in _by_writer(lines) if len(of_one) >= TREND_LINES]
    if trends:
        hits = [fact for fact in trends if fact]
        book.know("queue.displacing", bool(hits), "log", Confidence.HIGH, [counted(text) for text in hits[:1]])
    else:
        book.lack("queue.displacing", f"{TREND_LINES} lines in a row are needed")


def _by_writer(lines: Sequence[Event]) -> list[list[Event]]:
    """Lines of each engine or rank; prefill lines count another moment and are left out."""
    groups: dict[object, list[Event]] = {}
    for line in lines:
        if not isinstance(line, PrefillStep):
            groups.setdefault(line.engine if isinstance(line, StatsLine) else line.rank, []).append(line)
    return list(groups.values())


def _displacing(lines: Sequence[Event]) -> str:
    """What the last lines of one writer show when running falls while waiting rises; empty when it does not."""
    last = [(_running(e), _waiting(e) or 0) for e in lines[-2 * TREND_LINES :]]
    steady = all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(last))
    (running, waiting), (now_running, now_waiting) = last[0], last[-1]
    if steady and now_running < running and now_waiting > waiting and now_running > 0:
        return f"running {running} -> {now_running} while waiting {waiting} -> {now_waiting}"
    return ""


def _running(event: Event) -> int:
    return event.running if isinstance(event, DecodeStep | StatsLine) else 0


def _write_layers_on_gpus(book: Notebook, evidence: ServerEvidence) -> None:
    said = [e for e in evidence.events if isinstance(e, Offload) and e.layers is not None and e.of_layers]
    if said and said[-1].layers is not None and said[-1].of_layers:
        share = min(said[-1].layers / said[-1].of_layers, 1.0)
        book.know("offload.gpu_layers_ratio", share, "log", Confidence.CERTAIN, [quoted(said[-1])])
    else:
        book.lack("offload.gpu_layers_ratio", "no line says how many layers are on GPUs")
