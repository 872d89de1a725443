"""Prometheus text as inference servers print it, and what of it bears on demand. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bubblewatch.model.protocols import EndpointReading

MAX_SAMPLES = 100_000
"""More samples than any server prints; what follows them is left out."""

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?[ \t]+(?P<value>\S+)(?:[ \t].*)?")
"""Example (SGLang 0.5.10): `sglang:num_running_reqs{model_name="k26",pp_rank="0",tp_rank="0"} 8.0`."""

_LABEL = re.compile(r'(?P<name>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; `series` is `name{labels}` as it was printed."""

    name: str
    labels: Mapping[str, str]
    value: float
    series: str


def samples_of(text: str) -> list[Sample]:
    """The samples of a text exposition (Prometheus text format 0.0.4 and OpenMetrics 1.0).

    Comments, lines that are none, and values that are NaN are left out.
    """
    samples: list[Sample] = []
    for line in text.splitlines():
        if len(samples) >= MAX_SAMPLES:
            break
        found = None if line.startswith("#") else _SAMPLE.fullmatch(line.split(" # ", 1)[0].strip())
        if found is None:
            continue
        value = _number(found["value"])
        if not math.isnan(value):
            labels = found["labels"] or ""
            series = f"{found['name']}{{{labels}}}" if labels else found["name"]
            samples.append(Sample(found["name"], _labels(labels), value, series))
    return samples


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _labels(text: str) -> dict[str, str]:
    return {found["name"]: _ESCAPED.sub(_unescaped, found["value"]) for found in _LABEL.finditer(text)}


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


_SGLANG_COUNTERS = frozenset(
    {
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:http_requests_active",
        "sglang:gen_throughput",
        "sglang:token_usage",
        "sglang:is_cuda_graph",
        "sglang:cuda_graph_passes_total",
        "sglang:realtime_tokens_total",
        "sglang:generation_tokens_total",
        "sglang:num_retracted_requests_total",
        "sglang:gpu_execution_seconds_total",
        "sglang:forward_execution_seconds_total",
        "sglang:scheduler_idle_seconds_total",
    }
)
"""Series of SGLang (0.4.3 .. 0.5.23, srt/metrics and srt/observability) that are kept as they are."""

_VLLM_COUNTERS = frozenset(
    {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:iteration_tokens_total_sum",
        "vllm:iteration_tokens_total_count",
        "vllm:num_preemptions_total",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "vllm:engine_sleep_state",
    }
)
"""Series of vLLM (0.8.5 .. 0.33.0, v1/metrics/loggers.py) that are kept as they are."""


def reading_from_text(kind: str, text: str, time_ns: int, source: str = "") -> EndpointReading | None:
    """What a server of this kind says on its metrics page; None for a kind whose page is not understood.

    `running` is the true concurrency: for SGLang the POST requests in hand less those that wait (0.5.8 and newer), or
    its own gauge where there is only one pipeline stage. Under several stages that gauge counts one micro-batch, so
    `running` stays None.
    """
    reader = _READERS.get(kind)
    return reader(samples_of(text), time_ns, source) if reader else None


def _sglang(samples: list[Sample], time_ns: int, source: str) -> EndpointReading:
    queued = _by_replica(samples, "sglang:num_queue_reqs")
    running = None
    active = [each for each in samples if each.name == "sglang:http_requests_active"]
    if active:
        posts = sum(each.value for each in active if each.labels.get("method", "POST") == "POST")
        running = max(posts - (queued or 0), 0)
    elif len(_stages(samples, "sglang:num_running_reqs")) == 1:
        running = _by_replica(samples, "sglang:num_running_reqs")
    decoded = [each for each in samples if each.labels.get("mode") == "decode"]
    generated = _by_replica(decoded, "sglang:realtime_tokens_total")
    if generated is None:  # counts a request's tokens only when it ends
        generated = _total(samples, "sglang:generation_tokens_total")
    return EndpointReading(
        time_ns=time_ns,
        running=_whole(running),
        queued=_whole(queued),
        generated_tokens=generated,
        counters={each.series: each.value for each in samples if each.name in _SGLANG_COUNTERS},
        source=source,
    )


def _vllm(samples: list[Sample], time_ns: int, source: str) -> EndpointReading:
    return EndpointReading(
        time_ns=time_ns,
        running=_whole(_total(samples, "vllm:num_requests_running")),
        queued=_whole(_total(samples, "vllm:num_requests_waiting")),
        generated_tokens=_total(samples, "vllm:generation_tokens_total"),
        counters={each.series: each.value for each in samples if each.name in _VLLM_COUNTERS},
        source=source,
    )


def _total(samples: Iterable[Sample], name: str) -> float | None:
    """Sum of a metric over its series (one for each engine or API process); None when it is not there."""
    values = [each.value for each in samples if each.name == name]
    return sum(values) if values else None


def _by_replica(samples: Iterable[Sample], name: str) -> float | None:
    """A metric that every rank prints alike: the largest over the ranks of a replica, summed over the replicas."""
    largest: dict[str, float] = {}
    for each in samples:
        if each.name == name:
            replica = each.labels.get("dp_rank", "")
            largest[replica] = max(largest.get(replica, each.value), each.value)
    return sum(largest.values()) if largest else None


def _stages(samples: Iterable[Sample], name: str) -> set[str]:
    return {each.labels.get("pp_rank", "0") for each in samples if each.name == name}


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


_READERS: Mapping[str, Callable[[list[Sample], int, str], EndpointReading]] = MappingProxyType(
    {"sglang": _sglang, "vllm": _vllm}
)
"""Kind of server -> how its metrics page is read."""
