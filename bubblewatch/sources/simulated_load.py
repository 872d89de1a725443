"""The work of a simulated server over time: waves of requests on the slot ring, as a pure function of time.

A client sends all its requests at once, waits until they are answered, and sends the next lot: that is the burst that
fills slots in order (`theory/ring`, `filled_by_burst`). A wave is a prefill and then one lap of the ring a token.

Two clocks are at work. Host time is seconds since the server was started. Work time is the seconds of work
since it was ready; it runs up to 3 % faster or slower than host time, as steps of real servers do, and stands still
when the work has ended.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass

from bubblewatch.sources.simulated_scenarios import Scenario
from bubblewatch.theory import ring as slot_ring
from bubblewatch.theory import story
from bubblewatch.theory.activity import SquareWave

PROMPT_TOKENS = 512
"""Length of a prompt: short, so that a burst of eight fits in one prefill batch of 8,192 tokens."""

ANSWER_TOKENS = (500, 437, 561, 512)
"""Tokens of the answers of one wave after another, repeated: about 500."""

PREFILL_TOKENS_PER_S = 30_000.0
"""Prompt tokens a second through one stage: 4 billion active weights a stage and token are 8 GFLOP, so 240 TFLOP/s."""

CHUNK_TOKENS = 8192
"""Most prompt tokens of one prefill batch: SGLang's default on cards of 96 GB (0.5.10)."""

_DRIFTS = ((37.0, 0.015), (5.3, 0.013))
"""Slow drifts of the speed of work: period in seconds, and by how much."""


@dataclass(frozen=True, slots=True)
class Wave:
    """One lot of requests; times in seconds of work time within the cycle of waves."""

    start_s: float
    decode_s: float
    end_s: float
    tokens: int
    forwards_before: int


@dataclass(frozen=True, slots=True)
class _Pace:
    """Times of one step in seconds: lap, slot period, a stage's kernels and forward, and from stage to stage."""

    lap_s: float
    slot_s: float
    kernel_s: float
    forward_s: float
    turn_s: float


class Load:
    """What one scenario's server does, and when."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        batches = _batches(scenario)
        self.batches = batches
        self.slots_filled = len(batches)
        self._pace = _pace(scenario, len(batches))
        self.lap_s, self.slot_s = self._pace.lap_s, self._pace.slot_s
        self.prefills = _prefills(batches)
        self.prefill_step_s = max(self.prefills) * PROMPT_TOKENS / PREFILL_TOKENS_PER_S
        self._waves = tuple(self._lay_out())
        self._cycle_s = self._waves[-1].end_s
        self._forwards = self._waves[-1].forwards_before + self._waves[-1].tokens * self.slots_filled
        self._work_before = tuple(
            tuple(itertools.accumulate((self._wave_work(stage, w, math.inf) for w in self._waves), initial=0.0))
            for stage in range(scenario.pp)
        )
        self._stop_s = self._find_stop()

    # layout of the cycle

    def _lay_out(self) -> list[Wave]:
        waves, at_s, forwards = [], 0.0, 0
        prefill_s = (self.scenario.pp + len(self.prefills) - 1) * self.prefill_step_s
        for tokens in ANSWER_TOKENS:
            end_s = at_s + prefill_s + tokens * self.lap_s
            waves.append(Wave(at_s, at_s + prefill_s, end_s, tokens, forwards))
            at_s, forwards = end_s, forwards + tokens * self.slots_filled
        return waves

    def _wave_work(self, stage: int, wave: Wave, until_s: float) -> float:
        """Kernel-seconds of a stage from the beginning of a wave until `until_s` (work time within the cycle)."""
        prefilling_s = len(self.prefills) * self.prefill_step_s
        into_s = min(until_s, wave.decode_s) - wave.start_s - stage * self.prefill_step_s
        done = min(max(into_s, 0.0), prefilling_s)
        decoding_s = min(until_s, wave.end_s) - wave.decode_s
        if decoding_s <= 0:
            return done
        pace = self._pace
        steps = SquareWave(pace.slot_s, pace.forward_s, stage * pace.turn_s, pace.kernel_s / pace.forward_s)
        return done + steps.integral(decoding_s)

    def _find_stop(self) -> float | None:
        """Work time at which the work ended: in the middle when frozen, else with the wave before."""
        scenario = self.scenario
        if scenario.quiet_s is None:
            return None
        raw_s = _warped(scenario.up_s - scenario.quiet_s - scenario.ready_s)
        if scenario.frozen:
            return raw_s
        cycles, rest_s = divmod(raw_s, self._cycle_s)
        ended = max((w.end_s for w in self._waves if w.end_s <= rest_s), default=0.0)
        return cycles * self._cycle_s + ended

    # time

    def work_time(self, host_s: float) -> float:
        """Work time at a host time, both in seconds."""
        worked_s = _warped(max(host_s - self.scenario.ready_s, 0.0))
        return worked_s if self._stop_s is None else min(worked_s, self._stop_s)

    def host_time(self, work_s: float) -> float:
        """Host time of a work time before the end of the work."""
        return self.scenario.ready_s + _unwarped(work_s)

    @property
    def stop_host_s(self) -> float | None:
        """Host time at which the work ended, None when it goes on."""
        return None if self._stop_s is None else self.host_time(self._stop_s)

    # what the GPUs did, as integrals over host time

    def work(self, gpu: int, host_s: float) -> float:
        """Kernel-seconds of useful work of a GPU until then."""
        stage = gpu // self.scenario.tp
        cycles, rest_s = divmod(self.work_time(host_s), self._cycle_s)
        index = bisect.bisect_right(self._waves, rest_s, key=lambda w: w.start_s) - 1
        before = self._work_before[stage]
        return cycles * before[-1] + before[index] + self._wave_work(stage, self._waves[index], rest_s)

    def waiting(self, gpu: int, host_s: float) -> float:
        """Seconds in which only a waiting kernel was on a GPU until then.

        In a split over tensors every rank waits in all-reduces whenever it does not compute. A pipeline's stages wait
        on the host, unless the scenario lets them spin after the end of the work.
        """
        spun_s = self._since_stop(host_s) if gpu in self.scenario.spinning else 0.0
        if self.scenario.tp > 1:
            spun_s += self.work_time(host_s) - self.work(gpu, host_s)
        return spun_s

    def awake(self, host_s: float) -> float:
        """Seconds in which requests were worked on until then."""
        return max(host_s - self.scenario.ready_s, 0.0) - self._since_stop(host_s)

    def _since_stop(self, host_s: float) -> float:
        stop_s = self.stop_host_s
        return 0.0 if stop_s is None else max(host_s - stop_s, 0.0)

    def connections(self, host_s: float) -> int:
        """Open connections on the server's port."""
        at_work = self.stop_host_s is None or host_s < self.stop_host_s or self.scenario.frozen
        return self.scenario.running if at_work and host_s >= self.scenario.ready_s else 0

    # forwards and waves, for the log

    def wave(self, number: int) -> Wave:
        """The wave with this number from the beginning, in absolute work time and forwards."""
        cycles, index = divmod(number, len(self._waves))
        wave, shift_s = self._waves[index], cycles * self._cycle_s
        return Wave(
            wave.start_s + shift_s,
            wave.decode_s + shift_s,
            wave.end_s + shift_s,
            wave.tokens,
            wave.forwards_before + cycles * self._forwards,
        )

    def wave_at(self, work_s: float) -> int:
        """Number of the wave that is on at a work time."""
        cycles, rest_s = divmod(work_s, self._cycle_s)
        return int(cycles) * len(self._waves) + bisect.bisect_right(self._waves, rest_s, key=lambda w: w.start_s) - 1

    def forwards_done(self, stage: int, work_s: float) -> int:
        """Decode forwards that a stage has finished by a work time."""
        wave = self.wave(self.wave_at(work_s))
        decoding_s = work_s - wave.decode_s - stage * self._pace.turn_s
        done = math.floor(decoding_s / self.slot_s) if decoding_s > 0 else 0
        return wave.forwards_before + min(done, wave.tokens * self.slots_filled)

    def forward_end(self, stage: int, number: int) -> tuple[float, int, int]:
        """Work time at which a stage ends its forward `number` (from 1), the slot, and the tokens of an answer by then.

        Forwards of late stages that would reach into the next wave are taken to end with theirs.
        """
        cycles, rest = divmod(number - 1, self._forwards)
        index = bisect.bisect_right(self._waves, rest, key=lambda w: w.forwards_before) - 1
        wave = self.wave(cycles * len(self._waves) + index)
        within = number - 1 - wave.forwards_before
        end_s = wave.decode_s + stage * self._pace.turn_s + (within + 1) * self.slot_s
        tokens, slot = divmod(within, self.slots_filled)
        return min(end_s, wave.end_s), slot, tokens + 1


def _pace(scenario: Scenario, filled: int) -> _Pace:
    """The steady state of the scenario, from the theory."""
    batch = scenario.running / filled
    if scenario.pp == 1:
        split = story.tensor_parallel(batch)
        kernel_s = split.model_s / split.gpus
        return _Pace(split.step_s, split.step_s, kernel_s, kernel_s, 0.0)
    ring = story.pipeline(batch, filled=filled, depth=scenario.depth, graphs=scenario.graphs)
    steady = slot_ring.steady(ring)
    return _Pace(steady.lap_s, steady.slot_s, ring.kernel_s[0], ring.forward_s[0], ring.forward_s[0] + ring.hop_s)


def _batches(scenario: Scenario) -> tuple[int, ...]:
    """Requests in each filled slot after a burst."""
    if scenario.pp == 1:
        return (scenario.running,)
    slots = slot_ring.ring_slots(scenario.pp, scenario.depth)
    capacity = slot_ring.slot_capacity(scenario.max_running, scenario.pp, scenario.micro_batch)
    filled = slot_ring.filled_by_burst(scenario.running, capacity, slots)
    return tuple(min(capacity, scenario.running - slot * capacity) for slot in range(filled))


def _prefills(batches: tuple[int, ...]) -> tuple[int, ...]:
    """Requests in each prefill batch of a wave: a slot's at once, cut where the chunk is full."""
    most = CHUNK_TOKENS // PROMPT_TOKENS
    return tuple(min(most, batch - first) for batch in batches for first in range(0, batch, most))


def _warped(host_s: float) -> float:
    """Work time after this many seconds of host time."""
    return host_s + sum(share * period / math.tau * math.sin(math.tau * host_s / period) for period, share in _DRIFTS)


def _unwarped(work_s: float) -> float:
    """Inverse of `_warped`: the drift is a contraction, four rounds leave less than a microsecond."""
    host_s = work_s
    for _ in range(5):
        host_s = work_s - (_warped(host_s) - host_s)
    return host_s
