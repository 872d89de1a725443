"""Which cards there are and how their sensors and driver fare."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import Xid
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals import series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.limits import write_memory
from bubblewatch.signals.recent import quoted
from bubblewatch.theory.cards import card_levels

LOST = 79
"""Xid of a GPU that has fallen off the bus (NVIDIA's list of Xid errors)."""

IN_USE_BYTES = 1 << 30
"""Device memory from which somebody holds a card: a driver keeps some hundred MB for itself."""


def write_hardware(book: Notebook, evidence: ServerEvidence, mine: Sequence[GpuReading]) -> None:
    """Write gpus.*, memory.*, duty.spread, power.above_cold_w, sensor.* and xid.*."""
    write_memory(book, mine)
    names = {reading.gpu.name for reading in mine}
    book.know(
        "gpus.model", names.pop() if len(names) == 1 else None, "name", otherwise="its cards are not known or not alike"
    )
    sizes = [reading.gpu.memory_total_bytes for reading in mine]
    smallest = min((size for size in sizes if size), default=None) if all(sizes) else None
    book.know("gpus.memory_bytes", smallest, "memory", otherwise="the size of the cards' memory was not read")
    _write_count(book, evidence)
    low, high = book.number("duty.min"), book.number("duty.max")
    if low is not None and high is not None and (duty := book.get("duty.median")) is not None:
        book.know("duty.spread", high - low, duty.basis, duty.confidence, duty.evidence)
        book.know("duty.basis", duty.basis, duty.basis, duty.confidence)
    _write_cold(book, mine)
    _write_sensors(book, evidence, mine)
    _write_driver(book, evidence)


def _write_count(book: Notebook, evidence: ServerEvidence) -> None:
    """Cards that nobody uses: not held by a server, and without memory in use where that was read."""
    here = evidence.telemetry.gpus
    if not here:
        for name in ("gpus.visible", "gpus.unassigned"):
            book.lack(name, "no GPU telemetry")
        return
    book.know("gpus.visible", len(here), "count", Confidence.CERTAIN)
    facts = evidence.facts
    if evidence.server.gpus:
        taken = {*evidence.server.gpus, *evidence.taken}
        free = [g.gpu.index for g in here if g.gpu.uuid not in taken and not _is_used(g)]
        text = f"no server holds GPU {', '.join(map(str, free))}"
    elif facts.pp and facts.tp and facts.dp and not evidence.live and facts.device_split is None:
        world = facts.pp * facts.tp * facts.dp
        if facts.nodes is not None and facts.nodes > 1:
            world = -(-world // facts.nodes)
        free = list(range(world, len(here)))
        text = f"{len(here)} GPUs here, {world} in the launch"
    else:
        book.lack("gpus.unassigned", "which GPUs the server uses is not known")
        return
    proof = [Evidence(EvidenceKind.TELEMETRY, "GPUs", text)] if free else []
    book.know("gpus.unassigned", len(free), "count", Confidence.HIGH, proof)


def _is_used(reading: GpuReading) -> bool:
    used = series.last(reading.series.get("memory_used_bytes", Series()))
    return used is not None and used >= IN_USE_BYTES


def _write_cold(book: Notebook, mine: Sequence[GpuReading]) -> None:
    """What the cards draw above their idle draw without any context, by the card table."""
    power = book.number("power.median_w")
    cards = [card_levels(reading.gpu.name) for reading in mine]
    cold = [sum(card.cold_w) / 2 for card in cards if card is not None]
    if power is None or not cold or len(cold) != len(cards):
        book.lack("power.above_cold_w", "power or the idle draw of this card is not known")
        return
    floor = statistics.median(cold)
    proof = [Evidence(EvidenceKind.TELEMETRY, "GPUs", f"{power:.0f} W each, {floor:.0f} W without a context")]
    book.know("power.above_cold_w", power - floor, "card", Confidence.MEDIUM, proof)


def _write_sensors(book: Notebook, evidence: ServerEvidence, mine: Sequence[GpuReading]) -> None:
    telemetry = evidence.telemetry
    newest = [
        (max(int(s.times_ns[-1]) for s in reading.series.values() if len(s)), reading.gpu.index)
        for reading in mine
        if any(len(s) for s in reading.series.values())
    ]
    if newest and evidence.live:
        at, index = min(newest)
        age = max(telemetry.end_ns - at, 0) / NS
        proof = [Evidence(EvidenceKind.TELEMETRY, f"GPU {index}", f"newest reading {age:.0f} s old")]
        book.know("sensor.age_s", age, "clock", Confidence.HIGH, proof)
    else:
        book.lack("sensor.age_s", "nothing is read live")
    modes = [reading.gpu.persistence for reading in mine]
    off = [reading.gpu.index for reading in mine if reading.gpu.persistence is False]
    if not modes or (None in modes and not off):
        book.lack("sensor.persistence_off", "persistence mode was not read")
        return
    proof = [Evidence(EvidenceKind.TELEMETRY, f"GPU {off[0]}", "persistence mode is off")] if off else []
    book.know("sensor.persistence_off", bool(off), "driver", Confidence.CERTAIN, proof)


def _write_driver(book: Notebook, evidence: ServerEvidence) -> None:
    """Errors of the driver, where its lines are in the log. The first of a chain is the one to blame."""
    errors = [e for e in evidence.events if isinstance(e, Xid)]
    if not errors:
        for name in ("xid.count", "xid.code", "gpus.lost"):
            book.lack(name, "no line of the kernel log was read")
        return
    first = next((e for e in errors if e.cause is None), errors[0])
    proof = [quoted(first)]
    book.know("xid.count", len(errors), "log", Confidence.HIGH, proof)
    book.know("xid.code", first.code, "log", Confidence.HIGH, proof, otherwise="the line has no number")
    lost = {e.bus for e in errors if e.code in (LOST, None)}
    book.know("gpus.lost", len(lost), "log", Confidence.HIGH, [quoted(e) for e in errors if e.code in (LOST, None)][:2])
