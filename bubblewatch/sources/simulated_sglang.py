"""The log of the simulated SGLang 0.5.10, as a pure function of time: what it printed between two moments.

Formats read in the wheel of 0.5.10: `observability/scheduler_metrics_mixin.py` (decode and prefill lines), uvicorn's
access lines with SGLang's prefix. Under pipeline parallelism every stage prints; over tensors only the first rank does.
The decode line shows the requests of one slot and the throughput of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bubblewatch.model.clock import NS
from bubblewatch.sources.simulated_load import PROMPT_TOKENS, Load
from bubblewatch.sources.simulated_noise import noise
from bubblewatch.sources.simulated_startup import KV_TOKENS, startup_lines, tags

LOG_INTERVAL = 40
"""Decode forwards of a rank between two decode lines (`decode_log_interval` of 0.5.10)."""

PROBE_EVERY_S = 15.0
"""Time between two rounds of probes, in seconds: the usual scrape interval."""

_WRITE_DELAY_S = 0.0012
"""Most time between a step and its line, in seconds."""


@dataclass(frozen=True, slots=True, order=True)
class Printed:
    """One line: host time in seconds, the rank that printed it (None = main process), and the message."""

    at_s: float
    rank: int | None
    message: str
    tag: str = ""

    def text(self, wall_ns: int) -> str:
        """The line as it stands in the log when it was printed at this wall time."""
        return f"[{datetime.fromtimestamp(wall_ns // NS, UTC):%Y-%m-%d %H:%M:%S}{self.tag}] {self.message}"


class SglangLog:
    """What the server of one load prints."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._scenario = load.scenario
        self._tags = tags(self._scenario)
        self._startup = [
            Printed(at_s, self._tags.index(tag) if tag else None, message, tag)
            for at_s, tag, message in startup_lines(self._scenario)
        ]

    def between(self, after_s: float, until_s: float) -> Sequence[Printed]:
        """Lines printed after `after_s` and up to `until_s` (host time in seconds), in order of time."""
        found = [line for line in self._startup if after_s < line.at_s <= until_s]
        if until_s > self._scenario.ready_s:
            near = (*self._wave_lines(after_s, until_s), *self._decode_lines(after_s, until_s))
            found.extend(line for line in near if after_s < line.at_s <= until_s)
            found.extend(self._probes(after_s, until_s))
        return sorted(found, key=lambda line: line.at_s)

    def _decode_lines(self, after_s: float, until_s: float) -> Iterator[Printed]:
        load, stages = self._load, self._scenario.pp
        from_s, to_s = load.work_time(after_s - _WRITE_DELAY_S), load.work_time(until_s)
        for stage in range(stages):
            first = load.forwards_done(stage, from_s) // LOG_INTERVAL
            last = load.forwards_done(stage, to_s) // LOG_INTERVAL
            for number in range(max(first, 1), last + 1):
                yield self._decode_line(stage, number)

    def _decode_line(self, stage: int, number: int) -> Printed:
        load = self._load
        at_s, slot, tokens = self._printed_at(stage, number)
        running = load.batches[slot]
        made = LOG_INTERVAL * self._scenario.running / load.slots_filled
        before_s = self._printed_at(stage, number - 1)[0] if number > 1 else load.host_time(0.0)
        used = self._scenario.running * (PROMPT_TOKENS + tokens)
        message = (
            f"Decode batch, #running-req: {running}, #token: {used}, token usage: {used / KV_TOKENS:.2f}, "
            f"cuda graph: {self._scenario.graphs}, gen throughput (token/s): {made / (at_s - before_s):.2f}, "
            f"#queue-req: 0"
        )
        return Printed(at_s, stage, message, self._tags[stage])

    def _printed_at(self, stage: int, number: int) -> tuple[float, int, int]:
        end_s, slot, tokens = self._load.forward_end(stage, number * LOG_INTERVAL)
        delay_s = _WRITE_DELAY_S * (noise(self._scenario.seed, 1, stage, number) + 1) / 2
        return self._load.host_time(end_s) + delay_s, slot, tokens

    def _wave_lines(self, after_s: float, until_s: float) -> Iterator[Printed]:
        """Prefill lines at the beginning of each wave, access lines at its end."""
        load = self._load
        from_s, to_s = load.work_time(after_s), load.work_time(until_s)
        for number in range(max(load.wave_at(from_s) - 1, 0), load.wave_at(to_s) + 1):
            yield from self._prefill_lines(number, to_s)
            if load.wave(number).end_s <= to_s:
                yield from self._access_lines(number)

    def _prefill_lines(self, number: int, to_s: float) -> Iterator[Printed]:
        load, step_s = self._load, self._load.prefill_step_s
        start_s = load.wave(number).start_s
        for stage in range(self._scenario.pp):
            before = 0
            for position, seqs in enumerate(load.prefills):
                at_work_s = start_s + (stage + position) * step_s
                if at_work_s >= to_s:
                    break
                message = self._prefill_message(position, before)
                before += seqs
                yield Printed(load.host_time(at_work_s) + 0.001, stage, message, self._tags[stage])

    def _prefill_message(self, position: int, before: int) -> str:
        """The message of one prefill batch of a wave, with `before` requests of the wave already prefilled."""
        prefills, step_s = self._load.prefills, self._load.prefill_step_s
        fresh = prefills[position] * PROMPT_TOKENS
        # the rate is over the time since the prefill before: of the same wave, or of the one before it
        rate = fresh / step_s if position else prefills[-1] * PROMPT_TOKENS / self._load.wave(0).end_s
        return (
            f"Prefill batch, #new-seq: {prefills[position]}, #new-token: {fresh}, #cached-token: 0, "
            f"token usage: {before * PROMPT_TOKENS / KV_TOKENS:.2f}, "
            f"#running-req: {before if self._scenario.pp == 1 else 0}, "
            f"#queue-req: {sum(prefills[position + 1 :])}, cuda graph: False, "
            f"input throughput (token/s): {rate:.2f}"
        )

    def _access_lines(self, number: int) -> Iterator[Printed]:
        end_s = self._load.host_time(self._load.wave(number).end_s)
        for request in range(self._scenario.running):
            port = 40_000 + round(9_000 * (noise(self._scenario.seed, 2, number, request) + 1))
            message = f'INFO:     10.0.0.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
            yield Printed(end_s + 0.002 + 0.0007 * request, None, message)

    def _probes(self, after_s: float, until_s: float) -> Iterator[Printed]:
        ready_s = self._scenario.ready_s
        first = max(int((after_s - ready_s) // PROBE_EVERY_S), 0)
        for number in range(first, int((until_s - ready_s) // PROBE_EVERY_S) + 1):
            for place, path in enumerate(self._scenario.probe_paths):
                at_s = ready_s + number * PROBE_EVERY_S + 0.4 * place
                if after_s < at_s <= until_s:
                    port = 50_000 + number % 5_000
                    yield Printed(at_s, None, f'INFO:     10.0.0.3:{port} - "GET {path} HTTP/1.1" 200 OK')
