"""What transports and loggers do to lines on their way: the words of the server are still read, and no others."""

from __future__ import annotations

import pytest

from bubblewatch.model.logs import DecodeStep, Event, GraphCaptured, LogLine, Offload, StatsLine
from bubblewatch.servers.registry import KNOWN, by_name, recognise_lines

TOTALS = (
    "Engine 000: Avg prompt throughput: 249.1 tokens/s, Avg generation throughput: 192.2 tokens/s, Running: 2 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 0.2%, Prefix cache hit rate: 36.3%"
)
VLLM = "INFO 07-15 04:27:43 [loggers.py:118] " + TOTALS
SGLANG = (
    "[2025-11-10 09:12:44 TP0] Decode batch, #running-req: 8, #token: 35785, token usage: 0.27, cuda graph: False, "
    "gen throughput (token/s): 95.60, #queue-req: 3"
)


def parse(name: str, text: str) -> tuple[Event, ...]:
    kind = by_name(name)
    assert kind is not None
    return kind.parse(LogLine(text))


@pytest.mark.parametrize(
    "text",
    [
        "(RayWorkerWrapper pid=549, ip=10.0.0.2) (EngineCore_DP0 pid=7) " + VLLM,
        "\x1b[36m(pid=549)\x1b[0m " + VLLM,
        "pod-0 vllm (APIServer pid=1) " + VLLM,
        "2025-07-29T12:19:19.333962774+07:00 stdout F " + VLLM,
        "vllm-1  | 2025-07-29T12:19:19.333962774Z " + VLLM,
        "[2024-07-08 15:17:34] " + VLLM,
        "2025-08-05T20:31:47.123456Z  INFO loggers.log: " + TOTALS,
        '{"asctime":"2026-09-01T07:40:15Z","levelname":"INFO","name":"vllm.v1","message":"' + TOTALS + '"}',
        'pod-0 vllm {"time":"2026-09-01T07:40:15.5Z","level":"info","msg":"' + TOTALS + '"}',
        '{"log":"' + VLLM + '\\n","stream":"stderr","time":"2025-11-10T09:12:44.5Z"}',
        "Capturing CUDA graphs:  10%|#   | 7/67 [00:01<00:05]\r" + VLLM,
        "Traceback (most recent call last):" + VLLM,
    ],
)
def test_totals_are_read_behind_everything_that_was_seen(text: str) -> None:
    totals = [event for event in parse("vllm", text) if isinstance(event, StatsLine)]
    assert [(event.running, event.waiting, event.gen_tps) for event in totals] == [(2, 0, 192.2)]
    assert totals[0].time_ns is not None


def test_a_decode_line_in_docker_json_keeps_its_last_field() -> None:
    (event,) = parse("sglang", '{"log":"' + SGLANG + '\\n","stream":"stderr","time":"2025-11-10T09:12:44.5Z"}')
    assert isinstance(event, DecodeStep)
    assert (event.running, event.queued, event.time_ns) == (8, 3, 1_762_765_964_500_000_000)


def test_records_glued_together_are_read_one_by_one() -> None:
    for name, one, count in (("vllm", VLLM, 3), ("sglang", SGLANG, 2)):
        assert len(parse(name, one * count)) == count
    glued = "[TensorRT-LLM][INFO] Max KV cache pages per sequence: 128[TensorRT-LLM][INFO] [MemUsageChange] Allocated "
    assert len(parse("trtllm", glued + "35.07 GiB for max tokens in paged KV cache (1149312).")) == 1
    line = 'time=2025-07-24T18:29:34Z level=INFO source=ggml.go:375 msg="offloaded 3/63 layers to GPU"'
    first, second = parse("ollama", line + line.replace(":34Z", ":36Z"))
    assert isinstance(first, Offload)
    assert first.time_ns is not None
    assert second.time_ns == first.time_ns + 2_000_000_000


@pytest.mark.parametrize("cut", range(1, len(VLLM), 7))
def test_a_line_broken_anywhere_gives_no_wrong_number(cut: int) -> None:
    whole = parse("vllm", VLLM)[0]
    assert isinstance(whole, StatsLine)
    events = [*parse("vllm", VLLM[:cut]), *parse("vllm", VLLM[cut:])]
    for event in events:
        assert isinstance(event, StatsLine)
        assert (event.running, event.waiting) == (whole.running, whole.waiting)


@pytest.mark.parametrize(
    "text",
    [
        "2024-09-11 14:13:36.727544 Return from is_prefill in /f/sequence.py:557 to schedule in /f/scheduler.py:964",
        'ERROR 11-03 02:14:55 [core.py:710]   File "/x/vllm/v1/engine/core.py", line 710, in run_engine_core',
        "(EngineCore_DP0 pid=310) ERROR 11-03 02:14:55 [core.py:710] Traceback (most recent call last):",
        "Decode batch. #running-:, #: 484009, token usage: 0.95",
        "sage: 98.7%, CPU KV cache usage: 0.0%",
        "| 260 | 28.57 | 29.18 | 516.51 | 65 | 1830 | 9501 | 100 | P2 | 0.055 |",
        "  decode GPU1 rx_mean=446 rx_peak=2194 tx_mean=602 tx_peak=16500 sm_mean=64.5 memctl_mean=25.7 samples=75",
        "    GPU                               : 0 %",
        '{"a": {"b": [1, 2, {"c": null}]}}',
        '{"message": 7}',
        '{"message": "',
        "." * 100,
        "\x00\ufffd\x1b[31m\x1b",
    ],
)
def test_fragments_traces_and_tables_mean_nothing_to_any_kind(text: str) -> None:
    for kind in KNOWN:
        assert kind.parse(LogLine(text)) == (), kind.kind


def test_fields_of_a_json_record_that_users_may_have_written_are_not_read() -> None:
    line = '{"level":"INFO","message":"request done","prompt":"EngineDeadError CUDA out of memory","span":{"name":"x"}}'
    assert all(kind.parse(LogLine(line)) == () for kind in KNOWN)


def test_graphs_of_tgi_behind_compose() -> None:
    line = (
        "tgi-1  | 2025-07-04T12:36:06.364197Z  INFO text_generation_launcher: Cuda Graphs are enabled for sizes [8, 1]"
    )
    (event,) = parse("tgi", line)
    assert isinstance(event, GraphCaptured)
    assert (event.sizes, event.time_ns) == ((8, 1), 1_751_632_566_364_197_000)


def test_a_log_is_told_in_the_middle_of_noise() -> None:
    noise = [LogLine(f"library line {n}") for n in range(2_000)]
    kind = recognise_lines([*noise, LogLine(VLLM), *noise])
    assert kind is by_name("vllm")
