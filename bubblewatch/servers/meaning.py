"""Small questions that every server's settings are asked: a text, a share, how many devices, the largest size."""

from __future__ import annotations

import re

from bubblewatch.model.server import Settings


def text_of(settings: Settings, name: str) -> str | None:
    """The value of `name` as text; None when unknown, unset or `auto`."""
    value = settings.get(name)
    return None if value is None or value is True or str(value).lower() == "auto" else str(value)


def ratio_of(settings: Settings, name: str) -> float | None:
    """The value of `name` as a share, 0..1; None when unknown or no share."""
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def amount_of(settings: Settings, name: str) -> float | None:
    """The value of `name` as a number of 0 or more; None when unknown or none."""
    value = settings.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def largest_size(settings: Settings, *names: str) -> int | None:
    """The largest whole number in the first of these settings that holds any; None when none does."""
    for name in names:
        sizes = [int(word) for word in re.findall(r"\d{1,9}", str(settings.get(name) or ""))]
        if sizes:
            return max(sizes)
    return None


def visible_devices(settings: Settings) -> int | None:
    """GPUs that CUDA_VISIBLE_DEVICES leaves; None when it is not set, so that all are visible."""
    value = settings.get("CUDA_VISIBLE_DEVICES")
    words = [word for word in str("" if value is None else value).split(",") if word.strip()]
    return len(words) or None
