"""Whether two sides differ beyond noise, at matched demand: ratios with bootstrap intervals. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAME_LOAD = 1.15
"""Loads within this factor count as the same: throughput moves less than in proportion, and a server that asks for
eight requests at a time shows seven now and then."""

LEAST_BLOCKS = 4
"""Least number of blocks of each side at a load: with fewer, an interval says nothing about noise."""

LEAST_CHANGE = 0.02
"""Smallest relative change that is called one. Below it clocks, temperature and prompts decide, not settings."""

ROUNDS = 2000
"""Resamplings: the ends of a 95 % interval then wobble by a few percent of its width."""

SEED = 20260101
"""Of the resampling, so that the same recordings give the same answer."""

_Z = 1.959964

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """One stretch of time of one side: requests that ran, and a value."""

    load: float
    value: float


@dataclass(frozen=True, slots=True)
class Change:
    """`after` over `before` at matched load, with its 95 % interval; `blocks` of each side that were used."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    blocks: tuple[int, int]
    loads: tuple[float, ...]

    @property
    def is_seen(self) -> bool:
        """Whether the two sides differ: beyond noise, and by an amount that matters."""
        return (self.low > 1 or self.high < 1) and abs(self.ratio - 1) >= LEAST_CHANGE


def levels(loads: Sequence[float]) -> list[tuple[float, float]]:
    """Loads in groups that count as the same, each from its least to its largest."""
    groups: list[tuple[float, float]] = []
    for load in sorted(set(loads)):
        if groups and load <= groups[-1][0] * SAME_LOAD:
            groups[-1] = (groups[-1][0], load)
        else:
            groups.append((load, load))
    return groups


def change(before: Sequence[Block], after: Sequence[Block]) -> Change | None:
    """The change of a value whose blocks are in the order of time; None when no load has enough blocks of both."""
    pairs: list[tuple[Floats, Floats]] = []
    loads = []
    for low, high in levels([block.load for block in (*before, *after)]):
        a = np.array([b.value for b in before if low <= b.load <= high])
        b = np.array([b.value for b in after if low <= b.load <= high])
        if min(len(a), len(b)) >= LEAST_BLOCKS:
            pairs.append((a, b))
            loads.append((low + high) / 2)
    if not pairs:
        return None
    weights = np.array([min(len(a), len(b)) for a, b in pairs], dtype=np.float64)
    first = _weighted([a.mean() for a, _ in pairs], weights)
    second = _weighted([b.mean() for _, b in pairs], weights)
    if first <= 0 or second <= 0:
        return None
    resampled = np.log(_resampled([b for _, b in pairs], weights, 1) / _resampled([a for a, _ in pairs], weights, 0))
    center = math.log(second / first)
    low_end, high_end = np.quantile(resampled, [0.025, 0.975]) - center
    wider = max(_widening([a for a, _ in pairs]), _widening([b for _, b in pairs]))
    counts = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    ends = math.exp(center + wider * min(low_end, 0.0)), math.exp(center + wider * max(high_end, 0.0))
    return Change(first, second, second / first, ends[0], ends[1], counts, tuple(loads))


def _weighted(means: Sequence[float], weights: Floats) -> float:
    return float(np.average(means, weights=weights))


def _resampled(samples: Sequence[Floats], weights: Floats, stream: int) -> Floats:
    """Weighted means of samples drawn anew, ROUNDS of them."""
    random = np.random.default_rng((SEED, stream))
    total = np.zeros(ROUNDS)
    for sample, weight in zip(samples, weights, strict=True):
        drawn = sample[random.integers(0, len(sample), (ROUNDS, len(sample)))]
        total += weight * drawn.mean(axis=1)
    means: Floats = np.maximum(total / weights.sum(), 1e-12)
    return means


def _widening(samples: Sequence[Floats]) -> float:
    """How much wider the interval has to be than the bootstrap of independent blocks makes it.

    Few blocks show less spread than there is (Student's t, by Cornish and Fisher), and blocks that follow each other
    are alike (first-order autocorrelation).
    """
    freedom = sum(len(sample) - 1 for sample in samples)
    student = _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
    small = math.sqrt((freedom + len(samples)) / freedom)
    alike = min(max(_autocorrelation(samples), 0.0), 0.8)
    return student / _Z * small * math.sqrt((1 + alike) / (1 - alike))


def _autocorrelation(samples: Sequence[Floats]) -> float:
    """Of first order, over all samples; 0 where nothing varies. Corrected for its bias in short samples."""
    above, below, count = 0.0, 0.0, 0
    for sample in samples:
        around = sample - sample.mean()
        above += float((around[1:] * around[:-1]).sum())
        below += float((around**2).sum())
        count += len(sample)
    return above / below + 1 / count if below > 0 else 0.0
