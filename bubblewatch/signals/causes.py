"""Signals that tell causes apart, beyond launch, demand and the pipeline: one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from bubblewatch.model.telemetry import GpuReading
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.config import write_config
from bubblewatch.signals.decode import DecodePace
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.failures import write_failures
from bubblewatch.signals.hardware import write_hardware
from bubblewatch.signals.hostside import write_host
from bubblewatch.signals.limits import write_limits
from bubblewatch.signals.links import write_links
from bubblewatch.signals.replicas import write_replicas
from bubblewatch.signals.series import Interval
from bubblewatch.signals.speculation import write_speculation
from bubblewatch.signals.steps import write_steps
from bubblewatch.signals.throttle import write_throttle


def write_causes(
    book: Notebook,
    evidence: ServerEvidence,
    paced: DecodePace,
    mine: Sequence[GpuReading],
    within: Sequence[Interval] | None,
) -> None:
    """Write the signals of every part; launch, demand, slots, GPUs and layers must have been written.

    `mine` are the readings of the server's own GPUs, `within` the spans in which requests ran (None = not known).
    """
    write_config(book, evidence)
    write_limits(book, evidence)
    write_steps(book, evidence, paced)
    write_speculation(book, evidence)
    write_replicas(book, evidence)
    write_links(book, evidence, mine)
    write_throttle(book, mine, evidence.telemetry.end_ns, within)
    write_hardware(book, evidence, mine)
    write_host(book, evidence)
    write_failures(book, evidence)
