"""What parent and sampler process tell each other in words: what to sample; which GPUs there are, what failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from bubblewatch.model import errors
from bubblewatch.model.errors import BubblewatchError, SourceError
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.shared_ring import STATUS_ROOM

Processes = Mapping[str, tuple[tuple[int, int | None], ...]]
"""GPU uuid -> (pid, bytes of device memory or None when the driver does not say) of each compute process."""

ACTIVITY_ON, ACTIVITY_OFF = b"+", b"-"
"""What the parent writes to the sampler's standard input to have SM activity sampled or not."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the sampler is told at its start. `fd` is the descriptor of the shared memory; `only` None = every GPU,
    `rate_hz` None = as the sensors refresh.
    """

    fd: int
    rate_hz: float | None
    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    sm_activity: bool = True

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Options:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of model/errors.py on its way between two processes."""

    kind: str
    what: str
    hint: str | None = None

    @classmethod
    def of(cls, error: BubblewatchError) -> Failure:
        return cls(type(error).__name__, error.what, error.hint)

    def as_error(self) -> BubblewatchError:
        kind = getattr(errors, self.kind, SourceError)
        return kind(self.what, self.hint) if issubclass(kind, BubblewatchError) else SourceError(self.what, self.hint)


@dataclass(frozen=True, slots=True)
class Status:
    """The sampler's own account.

    `absent` is index or uuid -> why; `lost`, `unsupported` and `notes` go by uuid; `remarks` are about the host.
    `refresh_s` is GPU model -> field -> seconds between two refreshes of its sensor, for those that could be measured.
    `rate_reason` says why it reads as often as it does.
    """

    driver_version: str = ""
    gpus: tuple[GpuInfo, ...] = ()
    absent: Mapping[str, Failure] = field(default_factory=dict)
    lost: Mapping[str, Failure] = field(default_factory=dict)
    unsupported: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    processes: Processes = field(default_factory=dict)
    refresh_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rate_reason: str = ""
    failure: Failure | None = None

    def encode(self) -> bytes:
        """JSON that fits the shared memory: without the processes when a host has absurdly many."""
        text = json.dumps(asdict(self)).encode()
        return text if len(text) <= STATUS_ROOM else replace(self, processes={}).encode()

    @classmethod
    def decode(cls, text: bytes) -> Status:
        raw = json.loads(text)
        failure = raw.pop("failure")
        gpus = tuple(GpuInfo(**gpu) for gpu in raw.pop("gpus"))
        processes = {uuid: tuple((pid, used) for pid, used in held) for uuid, held in raw.pop("processes").items()}
        notes = {uuid: tuple(texts) for uuid, texts in raw.pop("notes").items()}
        absent, lost = ({name: Failure(**one) for name, one in raw.pop(which).items()} for which in ("absent", "lost"))
        return cls(
            **{**raw, "remarks": tuple(raw["remarks"])},
            gpus=gpus,
            processes=processes,
            notes=notes,
            absent=absent,
            lost=lost,
            failure=Failure(**failure) if failure else None,
        )
