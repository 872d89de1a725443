"""What the steps of the engine do: prefill or decode, in a graph or not, compiling."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bubblewatch.model.logs import Compiling, DecodeStep, Event, PrefillStep, Ready, StatsLine
from bubblewatch.model.signals import Confidence
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.decode import DecodePace
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, quoted, recent

LOG_INTERVAL = 40
"""Decode forwards between two decode lines where the launch says nothing else (SGLang 0.4.3 .. 0.5.23)."""

MIN_LINES = 10
"""Lines of steps below which their mix says nothing: one request alone prints two."""

MIN_TOTALS = 3
"""Lines of totals below which their mix says nothing: each covers 5 or 10 s."""

EACH_SIDE = 2
"""Lines with a graph and lines without that a change at one batch size must show: one may be a stray step."""


def write_steps(book: Notebook, evidence: ServerEvidence, paced: DecodePace) -> None:
    """Write prefill.*, graphs.running_batch, graphs.eager_above and compile.stalls."""
    book.know(
        "prefill.is_mixed", evidence.facts.mixes_prefill, "launch", otherwise="the launch or version does not tell"
    )
    _write_mix(book, evidence, paced)
    _write_token_mix(book, evidence)
    _write_batch(book, evidence, paced)
    _write_ceiling(book, recent(evidence, DecodeStep))
    _write_compiling(book, evidence)


def _write_mix(book: Notebook, evidence: ServerEvidence, paced: DecodePace) -> None:
    """Prefill steps print a line each, decode steps one in `decode_log_interval`."""
    names = ("prefill.step_ratio", "prefill.blocking_ratio")
    steps = recent(evidence, PrefillStep, DecodeStep)
    mine = [e for e in steps if paced.rank is None or e.rank is None or e.rank == paced.rank]
    prefills = [e for e in mine if isinstance(e, PrefillStep)]
    decodes = [e for e in mine if isinstance(e, DecodeStep)]
    if len(mine) < MIN_LINES or not decodes:
        for name in names:
            book.lack(name, f"{MIN_LINES} lines of steps are needed, some of them decode")
        return
    interval = evidence.facts.decode_log_interval or LOG_INTERVAL
    between, spans = _between(mine, prefills, decodes)
    share = between / (between + spans * interval)
    text = f"{between} prefill steps beside about {spans * interval} decode steps"
    book.know(names[0], share, "log", Confidence.MEDIUM, [counted(text)])
    waiting = [e for e in prefills if e.running]
    if prefills:
        said = f"in {len(waiting)} of {len(prefills)} prefill steps running requests wait for their next token"
        book.know(names[1], len(waiting) / len(prefills), "log", Confidence.HIGH, [counted(said)])
    else:
        book.know(names[1], 0.0, "log")


def _between(mine: Sequence[Event], prefills: Sequence[PrefillStep], decodes: Sequence[DecodeStep]) -> tuple[int, int]:
    """Prefill steps between the first and the last decode line, and how many intervals of decode steps these span.

    A decode line ends an interval, so the steps before the first one are not in the log. One decode line alone ends the
    one interval that was seen.
    """
    if len(decodes) < 2:
        return len(prefills), len(decodes)
    first, last = mine.index(decodes[0]), len(mine) - 1 - mine[::-1].index(decodes[-1])
    return sum(isinstance(e, PrefillStep) for e in mine[first:last]), len(decodes) - 1


def _write_token_mix(book: Notebook, evidence: ServerEvidence) -> None:
    lines = [e for e in recent(evidence, StatsLine) if e.prompt_tps is not None and e.gen_tps is not None]
    sums = [(e.prompt_tps or 0.0, e.gen_tps or 0.0) for e in lines]
    shares = [prompt / (prompt + generated) for prompt, generated in sums if prompt + generated > 0]
    if len(shares) < MIN_TOTALS:
        book.lack("prefill.token_ratio", f"{MIN_TOTALS} lines with both token rates are needed")
        return
    share = statistics.median(shares)
    text = f"{share:.0%} of the computed tokens are prompts ({len(shares)} lines)"
    book.know("prefill.token_ratio", share, "log", Confidence.HIGH, [counted(text)])


def _write_batch(book: Notebook, evidence: ServerEvidence, paced: DecodePace) -> None:
    """Requests in one decode step: a slot's under a pipeline, else those that one replica runs."""
    facts = evidence.facts
    slot = book.get("slots.batch")
    if facts.pp is not None and facts.pp > 1:
        if slot is not None and isinstance(slot.value, float):
            book.know("graphs.running_batch", slot.value, slot.basis, slot.confidence, slot.evidence)
        else:
            book.lack("graphs.running_batch", "the size of a micro-batch is not known")
        return
    if paced.lines:
        size = statistics.median(step.running for step in paced.lines)
        text = f"{size:.0f} requests run in a decode step (median of {len(paced.lines)} lines)"
        book.know("graphs.running_batch", size, "log", Confidence.HIGH, [counted(text)])
        return
    running, replicas = book.get("demand.running"), facts.dp
    count = book.number("demand.running")
    if running is not None and count is not None and replicas:
        sure = running.confidence if replicas == 1 else min(running.confidence, Confidence.MEDIUM)
        book.know("graphs.running_batch", count / replicas, running.basis, sure, running.evidence)
    else:
        book.lack("graphs.running_batch", "how many requests a step holds is not known")


def _write_ceiling(book: Notebook, steps: Sequence[DecodeStep]) -> None:
    """The batch above which graphs end, where the lines show one: the flag alone hides it when both kinds are mixed."""
    with_graph = [s.running for s in steps if s.cuda_graph is True]
    without = [s.running for s in steps if s.cuda_graph is False]
    if len(with_graph) < EACH_SIDE or len(without) < EACH_SIDE or max(with_graph) >= min(without):
        book.lack("graphs.eager_above", "no batch size is seen above which steps run without a graph")
        return
    top = max(with_graph)
    text = f'"cuda graph: True" up to {top} running, False from {min(without)}'
    book.know("graphs.eager_above", top, "log", Confidence.HIGH, [counted(text)])


def _write_compiling(book: Notebook, evidence: ServerEvidence) -> None:
    """Compiling that the line itself places into serving, or that comes after the server was ready."""
    if not evidence.log_read:
        book.lack("compile.stalls", "no log was read")
        return
    ready = next((i for i, e in enumerate(evidence.events) if isinstance(e, Ready | DecodeStep | StatsLine)), None)
    stalls = [
        e
        for i, e in enumerate(evidence.events)
        if isinstance(e, Compiling) and (e.serving or (ready is not None and i > ready))
    ]
    book.know("compile.stalls", len(stalls), "log", Confidence.HIGH, [quoted(e) for e in stalls[:2]])
