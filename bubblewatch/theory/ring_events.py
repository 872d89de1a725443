"""The slot ring as an event simulation: SGLang's pipeline loop, pass by pass, with its CPUs, GPUs and streams.

Written from `event_loop_pp` of SGLang 0.5.10 (`managers/scheduler_pp_mixin.py`). A stage's pass over a slot: take new
requests from the stage before, schedule, receive hidden states, launch the forward, pass sampled tokens on round the
ring for the next slot, wait for that slot's tokens on the CPU, process them, send hidden states on. At depth 0 the
tokens go round after the launch, at depth 1 and above before it. What decides the outcome, and is kept here:

- the CPU waits for metadata and for tokens, never for hidden states; those are waited for on the GPU;
- sends and receives share one stream, and a send of hidden states fences it on the forward just launched;
- at depth 0 the last stage sends the tokens of the forward just launched, so its CPU waits for that forward.

Filled slots stand next to each other, as a burst fills them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from bubblewatch.theory.ring import Ring, Steady

EMPTY_PASS_S = 20e-6
"""CPU time of a pass over an empty slot, in seconds: one message of the metadata group. Any small number does."""


@dataclass(slots=True)
class _Stage:
    """One stage while the simulation runs. Lists are by pass; times in seconds."""

    kernel_s: float
    launch_s: float
    passes: int
    cpu: float = 0.0
    gpu: float = 0.0
    stream: float = 0.0
    begun: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    forward_end: list[float] = field(default_factory=list)
    hidden_cpu: list[float] = field(default_factory=list)
    hidden_gpu: list[float] = field(default_factory=list)
    tokens_gpu: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("begun", "sent", "forward_end", "hidden_cpu", "hidden_gpu", "tokens_gpu"):
            setattr(self, name, [0.0] * self.passes)

    def launch(self, n: int) -> None:
        """Launch the forward of pass n: it waits for the stream, and lasts as long as its launches at least."""
        start = max(self.gpu, self.cpu, self.stream)
        self.cpu += self.launch_s
        self.gpu = self.forward_end[n] = max(start + self.kernel_s, self.cpu)
        self.spans.append((start, self.gpu))


class _Loop:
    """The stages of one ring, run in an order in which everything that a half pass waits for is already known."""

    def __init__(self, ring: Ring, laps: int) -> None:
        self.ring = ring
        self.passes = laps * ring.slots
        self.stages = [_Stage(k, ln, self.passes) for k, ln in zip(ring.kernel_s, ring.launch_s, strict=True)]

    def run(self) -> None:
        last = self.ring.stages - 1
        for diagonal in range(self.passes + last):
            todo = [(s, diagonal - s) for s in range(last + 1) if 0 <= diagonal - s < self.passes]
            for s, n in todo:
                self._until_tokens_are_sent(s, n)
            for s, n in todo:
                self._rest_of_pass(s, n)

    def _is_filled(self, n: int) -> bool:
        return n >= 0 and n % self.ring.slots < self.ring.filled

    def _until_tokens_are_sent(self, s: int, n: int) -> None:
        ring, stage = self.ring, self.stages[s]
        before = self.stages[s - 1] if s else None
        if before:
            stage.cpu = max(stage.cpu, before.begun[n])
        stage.begun[n] = stage.cpu
        stage.cpu += ring.host_s / 2 if self._is_filled(n) else EMPTY_PASS_S
        if self._is_filled(n) and before:
            stage.cpu = max(stage.cpu, before.hidden_cpu[n])
            stage.stream = max(stage.stream, before.hidden_gpu[n])
        if self._is_filled(n) and ring.depth == 0:
            stage.launch(n)
        stage.sent[n] = stage.cpu
        is_last = s == ring.stages - 1
        of = n - ring.depth if is_last else n - ring.slots
        if self._is_filled(of):
            made = stage.forward_end[of] if is_last else 0.0
            stage.stream = max(stage.stream, made, stage.cpu)
            stage.tokens_gpu[of] = stage.stream + ring.hop_s

    def _rest_of_pass(self, s: int, n: int) -> None:
        ring, stage = self.ring, self.stages[s]
        of = n + 1 - ring.slots
        tokens_s = None
        if self._is_filled(of):
            sender, its_pass = (self.stages[s - 1], n + 1) if s else (self.stages[-1], n + 1 - ring.stages)
            sent_s = sender.sent[its_pass] if its_pass < self.passes else stage.cpu
            stage.cpu = max(stage.cpu, sent_s)
            tokens_s = stage.stream = max(stage.stream, sender.tokens_gpu[of])
        if self._is_filled(n) and ring.depth > 0:
            stage.launch(n)
        if tokens_s is not None:
            stage.cpu = max(stage.cpu, tokens_s) + ring.host_s / 2
        if self._is_filled(n) and s < ring.stages - 1:
            stage.hidden_cpu[n] = stage.cpu
            stage.stream = max(stage.stream, stage.forward_end[n], stage.cpu)
            stage.hidden_gpu[n] = stage.stream + ring.hop_s


def simulate(ring: Ring, laps: int = 40) -> Steady:
    """The steady state as the simulation finds it: means over the second half of `laps` laps (at least 8)."""
    loop = _Loop(ring, max(laps, 8))
    loop.run()
    half = max(laps, 8) // 2 * ring.filled
    spans, duties = [], []
    for stage in loop.stages:
        seen = [start for start, _ in stage.spans[half : -ring.filled]]
        slot_s = (seen[-1] - seen[0]) / (len(seen) - 1)
        spans.append(slot_s * ring.filled)
        duties.append(stage.kernel_s / slot_s)
    lap_s = statistics.fmean(spans)
    return Steady(lap_s, lap_s / ring.filled, tuple(duties))


def work_spans(ring: Ring, laps: int = 8) -> tuple[tuple[tuple[float, float], ...], ...]:
    """For each stage the spans in which a forward was on the GPU, in seconds from the start: for sensor models."""
    loop = _Loop(ring, laps)
    loop.run()
    return tuple(tuple(stage.spans) for stage in loop.stages)
