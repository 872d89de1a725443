"""Evidence about one server, made of events, readings and facts, and the signals that tell causes apart from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import DecodeStep, Event, LogLine, PrefillStep, StatsLine
from bubblewatch.model.server import Launch, Origin, Rank, Server, Setting, Settings, SettingValue
from bubblewatch.model.signals import Signals, SignalValue
from bubblewatch.model.telemetry import DeviceLink, GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.servers.base import Facts
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.causes import write_causes
from bubblewatch.signals.decode import pace
from bubblewatch.signals.evidence import ServerEvidence, Stated

START = 1_796_000_000 * NS
CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def line(text: str = "a line", at_s: float | None = None) -> LogLine:
    return LogLine(text, None if at_s is None else START + round(at_s * NS), at_s is not None)


def decode(running: int, at_s: float | None = None, dp: int = 0, **fields: object) -> DecodeStep:
    return DecodeStep(line("Decode batch", at_s), Rank(dp=dp), running=running, **fields)  # type: ignore[arg-type]


def prefill(running: int | None, at_s: float | None = None, **fields: object) -> PrefillStep:
    return PrefillStep(line("Prefill batch", at_s), Rank(), new_seqs=1, running=running, **fields)  # type: ignore[arg-type]


def totals(running: int, waiting: int | None, **fields: object) -> StatsLine:
    return StatsLine(line("Avg prompt throughput"), running=running, waiting=waiting, **fields)  # type: ignore[arg-type]


def gpu(index: int, samples: int = 12, *, info: Mapping[str, object] | None = None, **values: float) -> GpuReading:
    """A card that shows these values at every second."""
    times = [i * NS for i in range(samples)]
    series = {name: Series(times, [value] * samples) for name, value in values.items()}
    fields: dict[str, object] = {"name": CARD, "power_limit_w": 600.0, "sm_clock_max_mhz": 2430.0} | dict(info or {})
    return GpuReading(GpuInfo(f"GPU-{index}", index, **fields), series)  # type: ignore[arg-type]


def causes(
    *events: Event,
    facts: Facts | None = None,
    gpus: Sequence[GpuReading] = (),
    links: Sequence[DeviceLink] = (),
    settings: Mapping[str, SettingValue] | None = None,
    env: Mapping[str, str] | None = None,
    known: Mapping[str, SignalValue] | None = None,
    concurrency: int | None = None,
    live: bool = False,
    birth_complete: bool = False,
    assigned: Sequence[int] = (),
    taken: Sequence[int] = (),
    restarts: int | None = None,
) -> Signals:
    """What `write_causes` makes of this. `known` are signals that were written before."""
    values = {name: Setting(name, value, Origin.ARGV, f"--{name}") for name, value in (settings or {}).items()}
    server = Server(
        "sglang",
        "example",
        version="0.5.10",
        launch=Launch(("sglang", "serve"), env=env),
        settings=Settings(values),
        gpus=dict.fromkeys((f"GPU-{index}" for index in assigned), None),
    )
    telemetry = Telemetry(tuple(gpus), 0, 12 * NS, 0 if live else None, tuple(links))
    times = [event.time_ns for event in events if event.time_ns is not None]
    evidence = ServerEvidence(
        server=server,
        facts=facts or Facts(pp=1, tp=8, dp=1),
        events=events,
        log_read=bool(events),
        birth_complete=birth_complete,
        telemetry=telemetry,
        stated=Stated(concurrency=concurrency),
        now_ns=max(times, default=None),
        live=live,
        taken=frozenset(f"GPU-{index}" for index in taken),
        restarts=restarts,
    )
    book = Notebook(Scope.SERVER)
    for name, value in (known or {}).items():
        book.know(name, value)
    own = [g for g in gpus if not assigned or g.gpu.index in assigned]
    steps = [event for event in events if isinstance(event, DecodeStep)]
    write_causes(book, evidence, pace(steps, 40), own, None)
    return book.signals()
