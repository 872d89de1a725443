"""What holds the cards back: power cap, temperature, locked clocks; and a card that is slower than its equals.

The flag that a card is at its power cap says nothing by itself: nearly every capped card shows it. The loss follows
the SM clock (705 of 1695 MHz about -30 %, 1605 about -3 %, the flag at 100 % in both: a public sweep of an RTX 3090).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals import series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.series import Interval
from bubblewatch.theory.cards import card_levels

SETTING, POWER, THERMAL, BRAKE = 0x2, 0x4, 0x8 | 0x20 | 0x40, 0x80
"""Bits of the clock event reasons: application clocks, power cap, slowdown by heat (hardware, software, thermal),
power brake (nvml.h, nvmlClocksEventReason...)."""

_SHARES = (
    ("throttle.power_ratio", POWER, "at the power cap"),
    ("throttle.thermal_ratio", THERMAL, "held back by temperature"),
    ("throttle.brake_ratio", BRAKE, "held back by the power brake"),
    ("throttle.setting_ratio", SETTING, "held by application clocks"),
)

LOADED_QUANTILE = 0.75
"""The clock under load is the 75th percentile of the readings: a card that idles half of the time shows its clock at
work in the other half, and one that is held back now and then only is none that is slow."""

EQUAL_UTIL = 0.9
"""Utilization from which all cards of a group count as having a kernel resident all the time, so that their power can
be compared."""


@dataclass(frozen=True, slots=True)
class _Card:
    """One GPU with a number: which it is, and what it shows in words."""

    value: float
    index: int
    text: str

    @property
    def evidence(self) -> Evidence:
        return Evidence(EvidenceKind.TELEMETRY, f"GPU {self.index}", self.text)


def write_throttle(book: Notebook, mine: Sequence[GpuReading], end_ns: int, within: Sequence[Interval] | None) -> None:
    """Write throttle.* and straggler.* over these GPUs; the evidence names the GPU that shows the number."""
    spans = within or None
    for name, mask, words in _SHARES:
        cards = [
            _Card(share, g.gpu.index, f"{words} {share:.0%} of the time")
            for g in mine
            if (share := _bit_share(g, mask, end_ns, spans)) is not None
        ]
        _most(book, name, cards, "the cards did not say what holds their clocks")
    clocks = [(g, clock) for g in mine if (clock := _loaded_clock(g)) is not None]
    ratios = [
        _Card(clock / g.gpu.sm_clock_max_mhz, g.gpu.index, f"SM clock {clock:.0f} of {g.gpu.sm_clock_max_mhz:.0f} MHz")
        for g, clock in clocks
        if g.gpu.sm_clock_max_mhz
    ]
    _least(book, "throttle.clock_ratio", ratios, "SM clocks or their maximum were not read")
    _most(book, "throttle.clock_best_ratio", ratios, "SM clocks or their maximum were not read")
    _least(book, "throttle.limit_ratio", list(_limits(mine)), "the power limit or the usual one is not known")
    _most(book, "throttle.at_limit_ratio", list(_draws(mine, end_ns, spans)), "power or its limit was not read")
    hot = [
        _Card(celsius, g.gpu.index, f"{celsius:.0f} C")
        for g in mine
        if (celsius := series.last(g.series.get("temperature_c", Series()))) is not None
    ]
    _most(book, "throttle.hottest_c", hot, "temperatures were not read")
    _write_straggler(book, mine, clocks, end_ns, spans)


def _most(book: Notebook, name: str, cards: Sequence[_Card], otherwise: str) -> None:
    card = max(cards, key=lambda c: c.value, default=None)
    _write(book, name, card, otherwise)


def _least(book: Notebook, name: str, cards: Sequence[_Card], otherwise: str) -> None:
    card = min(cards, key=lambda c: c.value, default=None)
    _write(book, name, card, otherwise)


def _write(book: Notebook, name: str, card: _Card | None, otherwise: str) -> None:
    if card is None:
        book.lack(name, otherwise)
    else:
        book.know(name, card.value, "clocks", Confidence.HIGH, [card.evidence])


def _bit_share(reading: GpuReading, mask: int, end_ns: int, within: Sequence[Interval] | None) -> float | None:
    """Share of the time in which one of these reasons held; None when no reasons were read."""
    reasons = reading.series.get("event_reasons", Series())
    values = np.asarray(reasons.values, dtype=np.float64)
    flags = np.full(len(values), np.nan)
    known = np.isfinite(values)
    flags[known] = (values[known].astype(np.int64) & mask) != 0
    return series.mean(Series(reasons.times_ns, flags.tolist()), end_ns, within)


def _loaded_clock(reading: GpuReading) -> float | None:
    """SM clock under load in MHz."""
    values = np.asarray(reading.series.get("sm_clock_mhz", Series()).values, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(np.quantile(values, LOADED_QUANTILE)) if len(values) else None


def _limits(mine: Sequence[GpuReading]) -> Iterator[_Card]:
    """Power limits over what the device calls its default, else over that of the card table."""
    for reading in mine:
        gpu = reading.gpu
        card = card_levels(gpu.name)
        usual = gpu.power_default_limit_w or (card.limit_w if card else None)
        if gpu.power_limit_w and usual:
            text = f"power limit {gpu.power_limit_w:.0f} W, usual {usual:.0f} W"
            yield _Card(gpu.power_limit_w / usual, gpu.index, text)


def _draws(mine: Sequence[GpuReading], end_ns: int, within: Sequence[Interval] | None) -> Iterator[_Card]:
    for reading in mine:
        power, limit = _power(reading, end_ns, within), reading.gpu.power_limit_w
        if power is not None and limit:
            yield _Card(power / limit, reading.gpu.index, f"{power:.0f} of {limit:.0f} W")


def _power(reading: GpuReading, end_ns: int, within: Sequence[Interval] | None) -> float | None:
    for name in ("power_average_w", "power_instant_w"):
        value = series.mean(reading.series.get(name, Series()), end_ns, within)
        if value is not None:
            return value
    return None


def _write_straggler(
    book: Notebook,
    mine: Sequence[GpuReading],
    clocks: Sequence[tuple[GpuReading, float]],
    end_ns: int,
    within: Sequence[Interval] | None,
) -> None:
    """The slowest card against the median of the others; only cards of one kind are equals."""
    names = ("straggler.clock_ratio", "straggler.power_ratio")
    if len(mine) < 2 or len({g.gpu.name for g in mine}) > 1:
        for name in names:
            book.lack(name, "there are no equal cards to compare with")
        return
    by_clock = [(clock, g.gpu.index) for g, clock in clocks]
    _compared(book, names[0], by_clock if len(by_clock) == len(mine) else [], "SM clock {:.0f} MHz, the others {:.0f}")
    powers = [(watts, g.gpu.index) for g in mine if (watts := _power(g, end_ns, within)) is not None]
    utils = [series.mean(g.series.get("util_ratio", Series()), end_ns, within) for g in mine]
    resident = all(util is not None and util >= EQUAL_UTIL for util in utils)
    at_work = powers if resident and len(powers) == len(mine) else []
    _compared(book, names[1], at_work, "{:.0f} W, the others {:.0f} W, all at full utilization")


def _compared(book: Notebook, name: str, values: Sequence[tuple[float, int]], words: str) -> None:
    if len(values) < 2:
        book.lack(name, "not read on every card, or the cards are not equally occupied")
        return
    (least, index), *others = sorted(values)
    usual = statistics.median(value for value, _ in others)
    if usual <= 0:
        book.lack(name, "the others show nothing to compare with")
        return
    proof = [Evidence(EvidenceKind.TELEMETRY, f"GPU {index}", words.format(least, usual))]
    book.know(name, least / usual, "peers", Confidence.HIGH, proof)
