"""Whether speculative decoding is on, and how many tokens it brings a step."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bubblewatch.model.logs import DecodeStep, SpecDecode
from bubblewatch.model.signals import Confidence
from bubblewatch.servers.base import NO_SPECULATION
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, recent
from bubblewatch.signals.steps import LOG_INTERVAL

_LENGTHS = ("spec.accept_len", "spec.accept_low", "spec.accept_high", "spec.tokens")


def write_speculation(book: Notebook, evidence: ServerEvidence) -> None:
    """Write spec.*. An accept length counts tokens a step and request, 1.0 when every draft is refused."""
    ever = [s for s in evidence.events if isinstance(s, DecodeStep) and _tells(s)]
    steps = [s for s in recent(evidence, DecodeStep) if _tells(s)]
    reports = [r for r in recent(evidence, SpecDecode) if r.accept_len is not None]
    stated = evidence.facts.speculative
    on = True if steps or reports else None if stated is None else stated != NO_SPECULATION
    book.know("spec.enabled", on, "log" if steps or reports else "launch", otherwise="the launch does not say")
    if steps:
        _write_steps(book, steps, evidence.facts.decode_log_interval or LOG_INTERVAL)
        _write_spread(book, ever)
    elif reports:
        _write_reports(book, reports)
    else:
        for name in _LENGTHS:
            book.lack(name, "no line tells how many drafted tokens were accepted")


def _tells(step: DecodeStep) -> bool:
    """Whether the line tells how speculation fares.

    At large batches the server stops speculating: length 1.00 and no graph on one line, and nothing is wrong.
    """
    return step.accept_len is not None and not (step.accept_len <= 1.0 and step.cuda_graph is False)


def _write_steps(book: Notebook, steps: Sequence[DecodeStep], interval: int) -> None:
    tokens = round(sum(step.running * (step.accept_len or 1.0) * interval for step in steps))
    length = statistics.median(step.accept_len or 1.0 for step in steps)
    proof = [counted(f"accept length {length:.2f} (median of {len(steps)} lines)")]
    book.know("spec.accept_len", length, "log", Confidence.HIGH, proof)
    book.know("spec.tokens", tokens, "log", Confidence.MEDIUM)


def _write_spread(book: Notebook, steps: Sequence[DecodeStep]) -> None:
    """The rank with the least and the one with the most, over everything that was read: earlier is a yardstick too."""
    by_rank: dict[object, list[float]] = {}
    for step in steps:
        by_rank.setdefault(step.rank, []).append(step.accept_len or 1.0)
    medians = [statistics.median(lengths) for lengths in by_rank.values()]
    text = f"accept length {min(medians):.2f} to {max(medians):.2f} over {len(medians)} rank(s)"
    proof = [counted(text)] if len(medians) > 1 else []
    book.know("spec.accept_low", min(medians), "log", Confidence.HIGH, proof)
    book.know("spec.accept_high", max(medians), "log", Confidence.HIGH, proof)


def _write_reports(book: Notebook, reports: Sequence[SpecDecode]) -> None:
    """Reports of an interval, weighted by what was drafted in it; a running total speaks for itself."""
    lengths = [(r.accept_len or 1.0, r.drafted_tokens or 0) for r in reports]
    drafted = lengths[-1][1] if reports[-1].total else sum(count for _, count in lengths)
    weight = sum(count for _, count in lengths)
    if reports[-1].total or weight == 0:
        length = lengths[-1][0]
    else:
        length = sum(value * count for value, count in lengths) / weight
    proof = [counted(f"accept length {length:.2f} over {drafted} drafted tokens")]
    book.know("spec.accept_len", length, "log", Confidence.HIGH, proof)
    book.know("spec.tokens", drafted, "log", Confidence.HIGH)
    for name in ("spec.accept_low", "spec.accept_high"):
        book.lack(name, "the server reports all ranks together")
