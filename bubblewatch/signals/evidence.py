"""All that is known about one server at one moment, before anything is concluded from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bubblewatch.model.logs import Event
from bubblewatch.model.protocols import EndpointReading
from bubblewatch.model.server import Server
from bubblewatch.model.shape import ModelShape
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.servers.base import Facts


@dataclass(frozen=True, slots=True)
class Stated:
    """What the person who asks told us; None = not told.

    `running` and `queued` are the server's totals, `concurrency` is what the client keeps in flight, `layers` the
    transformer layers, `gpu_model` the product name of the cards.
    """

    running: int | None = None
    queued: int | None = None
    concurrency: int | None = None
    layers: int | None = None
    gpu_model: str | None = None


@dataclass(frozen=True, slots=True)
class ServerEvidence:
    """Evidence about one server (or about none: kind `unknown`) over one window.

    `events` are in log order, start-up lines included; `log_read` is False when no log could be read at all, so that
    silence means nothing. `birth_complete` tells that the start-up lines are among the events. `now_ns` is wall
    time: the clock's when live, the last thing seen in evidence files (`live` False), None when nothing tells.
    `window_s` is the length of the recent past that counts as now, in seconds. `telemetry` covers the whole host;
    `server.gpus` says which GPUs belong to this server. `model` is what its files say of the model, None = not read.
    `taken` are the uuids of GPUs that other servers of the host hold. `restarts` counts new lives of this server in the
    last 15 minutes, None = not counted. `rate_ratio` is the token rate over that of the life before at the same demand,
    None = cannot be told. `log_gaps` are sentences on lines that the log has lost.
    """

    server: Server
    facts: Facts
    events: Sequence[Event] = ()
    log_read: bool = False
    birth_complete: bool = False
    telemetry: Telemetry = field(default_factory=Telemetry)
    endpoint: Sequence[EndpointReading] = ()
    connections: int | None = None
    stated: Stated = field(default_factory=Stated)
    now_ns: int | None = None
    window_s: float = 30.0
    live: bool = False
    model: ModelShape | None = None
    taken: frozenset[str] = frozenset()
    restarts: int | None = None
    rate_ratio: float | None = None
    log_gaps: tuple[str, ...] = ()
