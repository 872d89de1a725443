"""What adds up while we watch: where the GPUs' time went, their energy, and the lives of servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class GpuState(StrEnum):
    """What a GPU did with a moment. Disjoint, and together everything (design §6)."""

    ACTIVE = "active"
    """Useful work, by the best basis there is."""
    RESIDENT_LOW = "resident-low"
    """Requests ran, and a kernel was there that did no work: it waited, or it spun."""
    NOT_RESIDENT = "not-resident"
    """Requests ran, and no kernel was there."""
    NO_REQUEST = "no-request"
    """Nobody asked the server that uses it."""
    START_UP = "start-up"
    """That server was loading, compiling or capturing."""
    UNKNOWN = "unknown"
    """Neither sensors nor servers said."""


@dataclass(frozen=True, slots=True)
class GpuAccount:
    """One GPU since it was first seen. `time_ns` has every state, and its sum is the time since then, exactly.

    `energy_j` None = nothing said what it draws.
    """

    time_ns: Mapping[GpuState, int]
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """One server (by key) since it was first seen.

    `lost_ns` is the time of its own GPUs in the states resident-low and not-resident, by the finding that explains it;
    `starts` counts lives after the first one.
    """

    lost_ns: Mapping[str, int] = field(default_factory=dict)
    starts: int = 0


@dataclass(frozen=True, slots=True)
class Accounts:
    """GPUs by uuid, servers by key. Both may name some that are not there now, for an hour at most."""

    gpus: Mapping[str, GpuAccount] = field(default_factory=dict)
    servers: Mapping[str, ServerAccount] = field(default_factory=dict)
