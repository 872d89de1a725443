"""Every metric that `/metrics` may show: name, type, help, labels, and where its value comes from.

Samples carry only `uuid`, `server` and `stage`, and where one name has several values the one that tells them apart
(`state`, `cause`, `rule`, `source`); everything else that describes a server or a GPU is on the info metrics. Base
units, and the unit is the suffix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

PREFIX = "bubblewatch_"


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. `name` is what a query says, with prefix and, for a counter, `_total`.

    `signal` names the signal (signals/vocabulary.py) that the value is, times `factor`; empty when the collector makes
    the value itself.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE
    signal: str = ""
    factor: float = 1.0


def _server(name: str, signal: str, text: str) -> Metric:
    return Metric(f"{PREFIX}{name}", text, ("server",), signal=signal)


def _gpu(name: str, signal: str, text: str, factor: float = 1.0) -> Metric:
    return Metric(f"{PREFIX}gpu_{name}", text, ("uuid",), signal=signal, factor=factor)


BUILD_INFO = Metric(f"{PREFIX}build_info", "Always 1; the version of bubblewatch that answers.", ("version",))
SNAPSHOT_TIME = Metric(f"{PREFIX}snapshot_timestamp_seconds", "Unix time of the snapshot that is shown.")
SNAPSHOT_AGE = Metric(
    f"{PREFIX}snapshot_age_seconds", "Age of the last snapshot. Above 30 all that it said is left out."
)
SNAPSHOTS = Metric(f"{PREFIX}snapshots_total", "Snapshots published since start.", kind=Kind.COUNTER)

SERVER_INFO = Metric(
    f"{PREFIX}server_info",
    "Always 1; what is known of an inference server. Labels that are not known are left out.",
    ("server", "kind", "version", "model_name", "unit", "container", "pipeline", "target"),
)
SERVER_SETTINGS = Metric(
    f"{PREFIX}server_settings_info",
    "Always 1; settings that decide speed, as they hold. `launch` changes with any option or variable of the launch.",
    ("server", "launch", "pp", "tp", "dp", "async_depth", "graphs", "overlap", "attention_backend"),
)
SERVER_RESTARTS = Metric(
    f"{PREFIX}server_restarts_total", "Lives of the server after the first one seen.", ("server",), Kind.COUNTER
)
SERVER_LOST = Metric(
    f"{PREFIX}server_lost_gpu_seconds_total",
    "GPU-seconds in states resident-low and not-resident, by the finding that explains them.",
    ("server", "cause"),
    Kind.COUNTER,
)
SERVER_MISSING = Metric(
    f"{PREFIX}server_missing_inputs",
    "Inputs that are to be had and would make the judgement of this server (more) sure.",
    ("server",),
)
SERVER_JUDGED = Metric(
    f"{PREFIX}server_judged", "1: there was enough evidence to judge this server. 0: there was not.", ("server",)
)
SERVER_LOUD = Metric(
    f"{PREFIX}server_loud_findings", "Findings of warning or above that are to be acted on now.", ("server",)
)
SERVER_ACTIVE = Metric(
    f"{PREFIX}server_requests_active", "1: requests run. 0: none do. Absent when that is unknown.", ("server",)
)
GPU_INFO = Metric(f"{PREFIX}gpu_info", "Always 1; index and model of a GPU.", ("uuid", "gpu", "model"))
GPU_ASSIGNMENT = Metric(
    f"{PREFIX}gpu_assignment",
    "Always 1; the server and pipeline stage that use a GPU. Left out for a GPU that several servers share.",
    ("uuid", "server", "stage"),
)
GPU_MEMORY_TOTAL = Metric(f"{PREFIX}gpu_memory_total_bytes", "Device memory of the GPU.", ("uuid",))
GPU_TIME = Metric(
    f"{PREFIX}gpu_time_seconds_total",
    "Time by what the GPU did with it: the states are disjoint and sum to the time since it was first seen.",
    ("uuid", "state"),
    Kind.COUNTER,
)
GPU_ENERGY = Metric(f"{PREFIX}gpu_energy_joules_total", "Energy since it was first seen.", ("uuid",), Kind.COUNTER)
FINDING = Metric(
    f"{PREFIX}finding",
    "1: the finding fires and is to be acted on. 0: its rule was judged and is clear. Absent: unknown, ignored, not yet"
    " for long enough, or held back by another finding.",
    ("server", "uuid", "rule", "severity"),
)
FINDING_SINCE = Metric(
    f"{PREFIX}finding_start_timestamp_seconds", "Unix time since which the finding matches.", ("server", "uuid", "rule")
)
FINDING_GAIN_LOW = Metric(
    f"{PREFIX}finding_expected_gain_low_ratio",
    "Least that the tokens a second should be over those of now after acting on the finding. Absent: uncertain.",
    ("server", "uuid", "rule"),
)
FINDING_GAIN_HIGH = Metric(
    f"{PREFIX}finding_expected_gain_high_ratio",
    "Most that the tokens a second should be over those of now after acting on the finding. Absent: uncertain.",
    ("server", "uuid", "rule"),
)
SOURCE_UP = Metric(
    f"{PREFIX}source_up", "1: the source of evidence can be read. 0: it cannot. Absent when switched off.", ("source",)
)
SOURCE_READS = Metric(
    f"{PREFIX}source_reads_total", "Readings or lines taken from the source.", ("source",), Kind.COUNTER
)

SAMPLER_INFO = Metric(f"{PREFIX}sampler_info", "Always 1; why NVML is read as often as it is.", ("reason",))
SAMPLER_RATE = Metric(f"{PREFIX}sampler_rate_hertz", "Readings of NVML a second, as the governor lets them be.")
SAMPLER_TICKS = Metric(f"{PREFIX}sampler_ticks_total", "Rounds of readings.", kind=Kind.COUNTER)
SAMPLER_LATE_TICKS = Metric(
    f"{PREFIX}sampler_late_ticks_total", "Rounds that began more than half a period late.", kind=Kind.COUNTER
)
SAMPLER_SKIPPED_TICKS = Metric(
    f"{PREFIX}sampler_skipped_ticks_total", "Rounds left out because one before took too long.", kind=Kind.COUNTER
)
SAMPLER_REJECTED = Metric(
    f"{PREFIX}sampler_rejected_answers_total",
    "Answers of the driver that were dropped as nonsense: out of range, out of order, older than asked for.",
    kind=Kind.COUNTER,
)
SAMPLER_RESTARTS = Metric(
    f"{PREFIX}sampler_restarts_total", "Sampler processes that took over from one before.", kind=Kind.COUNTER
)
SAMPLER_CALLS = Metric(f"{PREFIX}sampler_calls_total", "Calls of the driver.", ("function",), Kind.COUNTER)
SAMPLER_CALL_DURATION = Metric(
    f"{PREFIX}sampler_call_duration_seconds", "How long calls of the driver took.", kind=Kind.HISTOGRAM
)
SAMPLER_DISTINCT = Metric(
    f"{PREFIX}sampler_distinct_readings_total",
    "Readings that told something new, over all GPUs: what the calls were good for.",
    ("field",),
    Kind.COUNTER,
)
SAMPLER_REFRESH = Metric(
    f"{PREFIX}sampler_refresh_seconds", "Time between two refreshes of a sensor, as measured.", ("model", "field")
)

SERVER_SIGNALS = (
    _server("pipeline_stages", "pipeline.stages", "Pipeline stages."),
    _server("pipeline_stages_busy", "pipeline.stages_busy", "S: stages that work at the same time, on average."),
    _server("pipeline_bubble_ratio", "pipeline.bubble_ratio", "1 - S / stages over the time in which requests ran."),
    _server("pipeline_async_depth", "depth.value", "Async micro-batch depth as set."),
    _server("slots_ring", "slots.ring", "Micro-batch slots that can be in flight."),
    _server("slots_filled", "slots.filled", "Micro-batch slots that hold requests."),
    _server("requests_running", "demand.running", "Requests that run now, over all slots and replicas."),
    _server("requests_queued", "demand.queued", "Requests that wait."),
    _server("requests_limit", "limits.max_running", "Requests that the server admits at once."),
    _server("demand_ratio", "demand.share", "Share of the watched time in which requests ran."),
    _server("generation_tokens_per_second", "throughput.gen_tps", "Generated tokens a second."),
    _server("decode_step_seconds", "throughput.step_s", "Time between two decode forwards of one rank."),
    _server("progress_stalled_seconds", "progress.stalled_s", "Time since the last progress while requests wait."),
    _server("cuda_graphs_enabled", "graphs.decode_enabled", "1: decode runs in CUDA graphs. 0: it does not."),
    _server("cuda_graphs_decode_ratio", "graphs.decode_share", "Share of decode lines that say that a graph ran."),
    _server("kv_cache_usage_ratio", "kv.usage_ratio", "Share of the KV cache in use, the highest lately."),
    _server("work_duty_median_ratio", "duty.median", "Median over the GPUs of the share of time with useful work."),
)
"""Metrics of a server that are one signal each."""

GPU_SIGNALS = (
    _gpu("work_duty_ratio", "gpu.work_duty", "Share of time with useful work, by the best basis there is."),
    _gpu("utilization_ratio", "gpu.util_ratio", "Share of time with a kernel resident; spinning counts too."),
    _gpu("sm_active_ratio", "gpu.sm_active_ratio", "SM activity."),
    _gpu("memory_activity_ratio", "gpu.mem_util_ratio", "Share of time in which device memory was read or written."),
    _gpu("spin_ratio", "gpu.spin_ratio", "Utilization without work."),
    _gpu("power_watts", "gpu.power_w", "Mean power."),
    _gpu("power_limit_watts", "gpu.power_limit_w", "Power limit in force."),
    _gpu("power_idle_watts", "gpu.power_idle_w", "Power with the server loaded and nothing running, as learned."),
    _gpu("power_busy_watts", "gpu.power_busy_w", "Power at full work, as learned or by the card table."),
    _gpu("power_duty_ratio", "gpu.power_duty", "Power between those two levels."),
    _gpu("sm_clock_hertz", "gpu.sm_clock_mhz", "Mean SM clock.", 1e6),
    _gpu("memory_used_bytes", "gpu.memory_used_bytes", "Device memory in use."),
    _gpu("temperature_celsius", "gpu.temperature_c", "Core temperature."),
    _gpu("readings", "gpu.readings", "Distinct moments read in the window that the other values cover."),
)
"""Metrics of a GPU that are one signal each."""

CATALOGUE: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            BUILD_INFO,
            SNAPSHOT_TIME,
            SNAPSHOT_AGE,
            SNAPSHOTS,
            SERVER_INFO,
            SERVER_SETTINGS,
            SERVER_RESTARTS,
            SERVER_LOST,
            SERVER_MISSING,
            SERVER_JUDGED,
            SERVER_LOUD,
            SERVER_ACTIVE,
            GPU_INFO,
            GPU_ASSIGNMENT,
            GPU_MEMORY_TOTAL,
            GPU_TIME,
            GPU_ENERGY,
            FINDING,
            FINDING_SINCE,
            FINDING_GAIN_LOW,
            FINDING_GAIN_HIGH,
            SOURCE_UP,
            SOURCE_READS,
            SAMPLER_INFO,
            SAMPLER_RATE,
            SAMPLER_TICKS,
            SAMPLER_LATE_TICKS,
            SAMPLER_SKIPPED_TICKS,
            SAMPLER_REJECTED,
            SAMPLER_RESTARTS,
            SAMPLER_CALLS,
            SAMPLER_CALL_DURATION,
            SAMPLER_DISTINCT,
            SAMPLER_REFRESH,
            *SERVER_SIGNALS,
            *GPU_SIGNALS,
        )
    }
)
"""Name -> metric. The process metrics of the Prometheus client (prefix `bubblewatch_process_`) come on top."""
