"""Noise that is a function of where it is asked for: the same place, the same noise, in every run."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def noise(*place: int) -> float:
    """A number in [-1, 1) that looks random over places (a mix of 64-bit multiplications and shifts)."""
    mixed = 0x9E3779B97F4A7C15
    for part in place:
        mixed = ((mixed ^ (part & _MASK)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed ^= mixed >> 29
    mixed = (mixed * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 32)) / (1 << 63) - 1.0
