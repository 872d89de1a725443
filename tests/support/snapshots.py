"""Snapshots as the runtime would publish them, made by hand: the story and its neighbours, and hostile ones."""

from __future__ import annotations

from dataclasses import replace

from bubblewatch.model.findings import (
    Answer,
    Finding,
    Gain,
    Health,
    Remedy,
    Scope,
    Severity,
    Snapshot,
    SourceHealth,
    State,
    Target,
    TargetView,
)
from bubblewatch.model.server import Launch, Origin, Rank, Server, Setting, Settings
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signal, Signals, SignalValue
from bubblewatch.model.telemetry import GpuInfo

TIME_NS = 1_767_225_600_000_000_000
"""2026-01-01 00:00:00 UTC."""

HOSTILE = (
    "[red]x[/red] \x1b[2J\x1b]0;owned\x07 'quoted' \"double\" \\ \u202eabc\u2066 \n"
    "# HELP evil\nevil 1\r\t\udcff </script> \x9b31m"
)
"""Everything that could act in one of the outputs: rich markup, ANSI, quotes, direction, newlines, surrogates, HTML."""


def signals(values: dict[str, SignalValue], missing: dict[str, str] | None = None, basis: str = "sm") -> Signals:
    return Signals({name: Signal(value, basis) for name, value in values.items()}, missing or {})


def gpu_infos(count: int = 8, first: int = 0, name: str = "NVIDIA RTX PRO 6000") -> tuple[GpuInfo, ...]:
    return tuple(
        GpuInfo(f"GPU-{index:04d}", index, name, power_limit_w=600.0, memory_total_bytes=96 * 2**30)
        for index in range(first, first + count)
    )


def gpu_signals(duty: float = 0.0625, power_w: float = 171.0) -> Signals:
    return signals(
        {
            "gpu.work_duty": duty,
            "gpu.util_ratio": 0.09,
            "gpu.sm_active_ratio": 0.06,
            "gpu.power_w": power_w,
            "gpu.power_limit_w": 600.0,
            "gpu.power_idle_w": 85.0,
            "gpu.sm_clock_mhz": 2430.0,
            "gpu.memory_used_bytes": 86.0 * 2**30,
            "gpu.readings": 300,
        },
        {"gpu.power_busy_w": "not learned yet"},
    )


def server(key: str = "sglang-k26.service", gpus: tuple[GpuInfo, ...] = (), tp: int = 1) -> Server:
    settings = {"disable_cuda_graph": Setting("disable_cuda_graph", True, Origin.ARGV, "--disable-cuda-graph")}
    return Server(
        kind="sglang",
        key=key,
        version="0.5.10",
        version_basis="log",
        unit=key,
        main_pid=48121,
        launch=Launch(argv=("python3", "-m", "sglang.launch_server"), where="pid 48121"),
        settings=Settings(settings),
        gpus={gpu.uuid: Rank(pp=n // tp, tp=n % tp) for n, gpu in enumerate(gpus)},
    )


SOURCES = (
    SourceHealth("nvml", Health.OK, "30 s, 8 GPUs", read_count=300),
    SourceHealth("journal", Health.OK, "15 min, 812 lines", read_count=812),
    SourceHealth("argv", Health.OK),
    SourceHealth("environment", Health.DENIED, "of another user", "sudo bubblewatch diagnose"),
)

SERVER = Target(Scope.SERVER, "sglang-k26.service")


def finding(name: str, summary: str, **changes: object) -> Finding:
    """A warning of high confidence about the story's server, changed by `changes`."""
    base = Finding(
        id=f"{name}@{SERVER}",
        name=name,
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        target=SERVER,
        state=State.OBSERVED,
        summary=summary,
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # the keywords are Finding's own


GRAPHS_OFF = finding(
    "cuda-graph-disabled",
    "Decode CUDA graphs are off",
    confidence=Confidence.CERTAIN,
    evidence=(
        Evidence(EvidenceKind.SETTING, "argv", "--disable-cuda-graph"),
        Evidence(EvidenceKind.LOG, "journal", '12 of 12 decode lines say "cuda graph: False"'),
    ),
    remedy=Remedy(
        "remove --disable-cuda-graph", remove=("--disable-cuda-graph",), undo="put --disable-cuda-graph back"
    ),
    hazards=("capture needs memory, and has failed on this card family: try it on one server first",),
    check='"Capture cuda graph end" on 8 ranks; 20 fixed prompts answer as before',
    expected_gain=Gain("model; x2 at most while one slot is filled", 115.0, 190.0, now=95.6),
)

SLOTS_UNFILLED = finding(
    "micro-batch-unfilled",
    "8 requests sit in 1 of 8 slots",
    evidence=(Evidence(EvidenceKind.LOG, "journal", "40 steps in 3.35 s; 95.6 tok/s x 83.7 ms = 8.0 a micro-batch"),),
    remedy=Remedy(
        "after 1, spread the requests over more slots: this then admits 32, not 64",
        add=("--pp-max-micro-batch-size 4",),
    ),
    expected_gain=Gain("busier is not faster: measure at 8 and at 32"),
)

BUBBLE = finding(
    "pipeline-bubble",
    "Stages take turns, and each works half of its turn: S 0.5 of 8",
    caused_by=("cuda-graph-disabled", "micro-batch-unfilled"),
    evidence=(Evidence(EvidenceKind.TELEMETRY, "nvml, SM activity", "S 0.5 of 8 stages; lockstep is below 2.0"),),
    missing=("busy power level (not learned yet)",),
)

DEPTH_HELD_BACK = finding(
    "async-depth-missing",
    "Async micro-batch depth is 0; it gains only with a full ring and graphs",
    held_back_by=("cuda-graph-disabled", "micro-batch-unfilled"),
    remedy=Remedy("--pp-async-batch-depth 1", add=("--pp-async-batch-depth 1",)),
    expected_gain=Gain("only with a full ring", 1.0, 1.25, unit="x"),
)

STORY_SIGNALS = signals(
    {
        "parallel.pp": 8,
        "parallel.tp": 1,
        "demand.state": "running",
        "demand.running": 8,
        "demand.queued": 0,
        "demand.share": 0.98,
        "throughput.gen_tps": 95.6,
        "throughput.step_s": 0.0837,
        "pipeline.stages": 8,
        "pipeline.stages_busy": 0.5,
        "pipeline.bubble_ratio": 0.9375,
        "pipeline.basis": "sm",
        "duty.median": 0.0625,
        "power.median_w": 171.0,
        "graphs.decode_enabled": False,
        "slots.ring": 8,
        "slots.filled": 1.0,
        "depth.value": 0,
    },
    {"kv.usage_ratio": "no line says it"},
)


def story() -> Snapshot:
    """The story under load: four findings, the last one held back."""
    gpus = gpu_infos()
    view = TargetView(
        SERVER,
        Answer.FINDINGS,
        STORY_SIGNALS,
        (GRAPHS_OFF, SLOTS_UNFILLED, BUBBLE, DEPTH_HELD_BACK),
        server(gpus=gpus),
        ("environment of the server", "learned power levels: a minute with the server loaded and idle"),
        {"low-concurrency": Severity.WARNING, "no-demand": Severity.INFO, "idle-spin": Severity.WARNING},
    )
    return Snapshot(
        TIME_NS,
        Answer.FINDINGS,
        (view,),
        gpus,
        {gpu.uuid: gpu_signals() for gpu in gpus},
        SOURCES,
        watched_s=30.0,
        one_shot=True,
    )


def healthy() -> Snapshot:
    """The same server with tensor parallelism and graphs: judged, and nothing found."""
    gpus = gpu_infos()
    values: dict[str, SignalValue] = {
        "parallel.pp": 1,
        "parallel.tp": 8,
        "demand.state": "running",
        "demand.running": 48,
        "demand.queued": 0,
        "throughput.gen_tps": 1540.0,
        "throughput.step_s": 0.031,
        "duty.median": 0.81,
    }
    well = finding(
        "healthy",
        "GPUs work 81 % of the time at 1,540 tok/s",
        severity=Severity.INFO,
        evidence=(Evidence(EvidenceKind.TELEMETRY, "nvml", "work duty 0.78 to 0.84 by SM activity"),),
    )
    view = TargetView(SERVER, Answer.HEALTHY, signals(values), (well,), server(gpus=gpus, tp=8))
    per_gpu = {gpu.uuid: gpu_signals(0.81, 410.0) for gpu in gpus}
    return Snapshot(TIME_NS, Answer.HEALTHY, (view,), gpus, per_gpu, SOURCES[:3], watched_s=30.0, one_shot=True)


def quiet() -> Snapshot:
    """Nobody asks."""
    gpus = gpu_infos()
    nobody = finding(
        "no-demand",
        "No request runs: the log says 0 running and 0 queued",
        severity=Severity.INFO,
        evidence=(Evidence(EvidenceKind.LOG, "journal", "#running-req: 0, #queue-req: 0"),),
    )
    state = signals({"parallel.pp": 8, "parallel.tp": 1, "demand.state": "none", "duty.median": 0.0})
    view = TargetView(SERVER, Answer.QUIET, state, (nobody,), server(gpus=gpus))
    return Snapshot(TIME_NS, Answer.QUIET, (view,), gpus, {}, SOURCES[:3], watched_s=30.0, one_shot=True)


def cannot_judge() -> Snapshot:
    """GPUs were read, but nobody knows whether requests run."""
    gpus = gpu_infos(2)
    blind = signals({"duty.median": 0.02}, {"demand.state": "no log, no /metrics"})
    ask = ("the server's log (--log FILE)", "requests running (--running N)")
    view = TargetView(Target(Scope.SERVER, "unknown"), Answer.CANNOT_JUDGE, blind, missing=ask)
    sources = (
        SourceHealth("nvml", Health.OK, "30 s, 2 GPUs"),
        SourceHealth("journal", Health.DENIED, "permission denied", "sudo usermod -aG systemd-journal you"),
    )
    return Snapshot(TIME_NS, Answer.CANNOT_JUDGE, (view,), gpus, {}, sources, watched_s=30.0, one_shot=True)


def two_servers() -> Snapshot:
    """A healthy server listed first and a slow one after it, on one host."""
    gpus = gpu_infos()
    good, bad = healthy().views[0], story().views[0]
    good = replace(
        good,
        target=Target(Scope.SERVER, "good.service"),
        server=server("good.service", gpus[:4], tp=4),
        findings=tuple(replace(one, target=Target(Scope.SERVER, "good.service")) for one in good.findings),
    )
    bad = replace(bad, server=server(gpus=gpus[4:]))
    per_gpu = {gpu.uuid: gpu_signals() for gpu in gpus}
    return Snapshot(TIME_NS, Answer.FINDINGS, (good, bad), gpus, per_gpu, SOURCES, watched_s=30.0, one_shot=True)


def nothing_seen() -> Snapshot:
    """No server, and no GPU either."""
    absent = SourceHealth("nvml", Health.ABSENT, "libnvidia-ml.so.1 was not found", "install the NVIDIA driver")
    return Snapshot(TIME_NS, Answer.CANNOT_JUDGE, sources=(absent,), watched_s=30.0, one_shot=True)


def hostile() -> Snapshot:
    """The story, with every text that comes from outside replaced by one that tries to act."""
    base, target = story(), Target(Scope.SERVER, HOSTILE)
    gpus = tuple(replace(gpu, name=HOSTILE) for gpu in base.gpus)
    nasty = tuple(
        replace(
            one,
            summary=HOSTILE,
            target=target,
            evidence=(Evidence(EvidenceKind.LOG, HOSTILE, HOSTILE),),
            missing=(HOSTILE,),
            hazards=(HOSTILE,),
            check=HOSTILE,
            remedy=Remedy(HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE, HOSTILE),
            expected_gain=Gain(HOSTILE),
        )
        for one in base.findings
    )
    odd = replace(
        server(HOSTILE, gpus),
        kind=HOSTILE,
        version=HOSTILE,
        settings=Settings({"model_path": Setting("model_path", HOSTILE, Origin.ARGV, HOSTILE)}),
    )
    view = replace(base.views[0], target=target, findings=nasty, server=odd, missing=(HOSTILE,))
    sources = tuple(replace(source, name=HOSTILE, detail=HOSTILE, mend=HOSTILE) for source in base.sources)
    return replace(base, views=(view,), gpus=gpus, sources=sources)
