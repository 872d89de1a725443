"""TensorRT-LLM's lines: its prefixes, and a table of what each looks like, with an example, and what it means."""

from __future__ import annotations

import re

from bubblewatch.model.logs import (
    DecodeStep,
    Event,
    GraphCaptured,
    PoolSized,
    PrefillStep,
    SettingsSeen,
    StatsLine,
    StepTimes,
)
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.common import UVICORN_READY
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.patterns import Pattern, failure, starting, version

PREFIX = OwnPrefix(
    # [08/19/2026-14:11:49] [TRT-LLM] [I] [_torch][RANK 0] …      Python; the tags came in 2025
    # [TensorRT-LLM][INFO] …                                        C++
    pattern=re.compile(
        r"(?:\[(?P<date>\d\d/\d\d/\d{4})-(?P<time>\d\d:\d\d:\d\d)\] )?\[TRT-LLM\] \[(?P<level>[A-Z])\] "
        r"(?:\[\w{1,20}\])?(?:\[RANK \d{1,6}\])?\s?"
        r"|\[TensorRT-LLM\](?:\[(?P<word>[A-Z]{4,7})\])? "
    ),
    begins=re.compile(r"(?<=\S)(?=\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT-LLM\])|(?<=\S)(?=\[TensorRT-LLM\]\[)"),
)
"""TensorRT-LLM's prefixes (tensorrt_llm/logger.py, cpp/include/tensorrt_llm/common/logger.h)."""

_NUMBER = r"\d{1,9}(?:\.\d{1,20})?(?:e-\d{1,3})?"
MS_PER_S = 1000.0


def _iteration(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """One pass of the executor: a decode or a prefill step, and how long host and device took.

    A pass with nothing scheduled is no work, and its waiting time is booked on the next line's device time.
    """
    scheduled = int(found["new"] or found["old"] or 0)
    if not scheduled:
        return ()
    prompts, tokens = int(found["prompts"]), int(found["prompt_tokens"])
    decoding = max(scheduled - prompts, 0)
    usage = float(found["usage"]) if found["usage"] and found["usage"] != "N/A" else None
    usage = None if usage is None else min(usage, 1.0)
    step: Event = DecodeStep(record.line, rank, running=decoding, kv_usage_ratio=usage)
    if prompts:
        step = PrefillStep(
            record.line, rank, new_seqs=prompts, new_tokens=tokens, running=decoding, kv_usage_ratio=usage
        )
    host = float(found["host"]) / MS_PER_S if found["host"] else None
    device = float(found["device"]) / MS_PER_S if found["device"] else None
    wall = float(found["wall"]) if found["wall"] else None
    if host is None and device is None and wall is None:
        return (step,)
    times = StepTimes(
        record.line,
        rank,
        host_s=host,
        device_s=device,
        wall_s=wall,
        scheduled=scheduled,
        decode_only=not prompts,
    )
    return (step, times)


def _stats(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Active requests of the C++ batch manager, and blocks of its KV cache where the line has them."""
    text = record.message
    used, most = (re.search(rf'"{name} KV cache blocks":(\d{{1,12}})', text) for name in ("Used", "Max"))
    ratio = min(int(used[1]) / int(most[1]), 1.0) if used and most and int(most[1]) else None
    return (StatsLine(record.line, rank, running=int(found["active"]), kv_usage_ratio=ratio),)


def _pool(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, max_total_tokens=int(found["tokens"]), kv_gib=float(found["gib"])),)


def _captured(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (GraphCaptured(record.line, rank, sizes=(int(found["size"]),)),)


def _capturing(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (GraphCaptured(record.line, rank, begin=True), *starting(found, record, rank))


def _engine_field(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """A limit of the engine as the batch manager read it."""
    setting = Setting("max_batch_size", int(found["value"]), Origin.LOG, found[0])
    return (
        SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),
        PoolSized(record.line, rank, max_running=int(found["value"])),
    )


TABLE: tuple[Pattern, ...] = (
    Pattern(
        "iteration",
        "currank_total_requests = ",
        re.compile(
            r"^iter = \d{1,12}, global_rank = \d{1,6}, rank = \d{1,6}, "
            r"(?:num_scheduled_requests = (?P<new>\d{1,9}), kv_cache_util = (?P<usage>\d\.\d{1,9}|N/A), )?"
            r"currank_total_requests = \d{1,12}/\d{1,12}, "
            rf"(?:elapsed_time = (?P<wall>{_NUMBER})s, )?"
            rf"(?:host_step_time = (?P<host>{_NUMBER})ms, "
            rf"prev_device_step_time = (?:(?P<device>{_NUMBER})|N/A)(?:ms)?, )?"
            r"timestamp = [^,\n]{1,40}, (?:num_scheduled_requests: (?P<old>\d{1,9}), )?"
            r"states = \{'num_ctx_requests': (?P<prompts>\d{1,9}), 'num_ctx_tokens': (?P<prompt_tokens>\d{1,12})"
        ),
        _iteration,
        "[08/19/2026-14:11:49] [TRT-LLM] [I] [_torch][RANK 0] iter = 2, global_rank = 0, rank = 0, "
        "num_scheduled_requests = 1, kv_cache_util = 0.100, currank_total_requests = 0/1, host_step_time = 7.4ms, "
        "prev_device_step_time = 7.3ms, timestamp = 2026-08-19 14:11:49, states = {'num_ctx_requests': 0, "
        "'num_ctx_tokens': 0, 'num_generation_tokens': 1, 'cached_kv_tokens': 0}",
        "2026",
        telling=True,
    ),
    Pattern(
        "batch-manager",
        '"Active Request Count"',
        re.compile(r'\{"Active Request Count":(?P<active>\d{1,9}),'),
        _stats,
        '[TensorRT-LLM][INFO] {"Active Request Count":249,"Iteration Counter":1281,"Max Request Count":512,'
        '"Max KV cache blocks":1996,"Used KV cache blocks":1450,"MicroBatch ID":0,"Scheduled Requests":62}',
        "0.8 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "pool",
        "in paged KV cache",
        re.compile(
            r"Allocated (?P<gib>\d{1,6}(?:\.\d{1,4})?) GiB for max tokens in paged KV cache \((?P<tokens>\d{1,15})\)"
        ),
        _pool,
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 35.07 GiB for max tokens in paged KV cache (1149312).",
        "0.13",
        telling=True,
    ),
    Pattern(
        "engine-limit",
        "TRTGptModel max",
        re.compile(r"TRTGptModel maxBatchSize: (?P<value>\d{1,9})"),
        _engine_field,
        "[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 256",
        "0.13",
        telling=True,
    ),
    Pattern(
        "version",
        "TensorRT-LLM version",
        re.compile(r"TensorRT-LLM version: (?P<version>\d[\w.+-]{1,40})"),
        version,
        "[TensorRT-LLM] TensorRT-LLM version: 0.13.0",
        "0.13",
        telling=True,
    ),
    Pattern(
        "graph-begin",
        "CUDA graph instances",
        re.compile(r"Creating CUDA graph instances for \d{1,6} batch sizes"),
        _capturing,
        "[08/19/2026-14:10:02] [TRT-LLM] [I] [_torch][RANK 0] Creating CUDA graph instances for 34 batch sizes.",
        "1.0 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "graph-size",
        "CUDA graph warmup",
        re.compile(r"Run generation[ -]only CUDA graph warmup for batch size=(?P<size>\d{1,6})"),
        _captured,
        "[08/19/2026-14:10:03] [TRT-LLM] [I] [_torch][RANK 0] Run generation-only CUDA graph warmup for batch "
        "size=128, draft_len=0",
        "1.0 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "loading",
        "",
        re.compile(
            r"^(?:Load engine takes: |Loading Model: |Loading weights |Load model takes |Prefetching \S{1,12} to memory"
            r"|\[Autotuner\]|Loaded engine size: |MPI size: |Initializing MPI|Rank \d{1,6} is using GPU )[^\n]{0,60}"
        ),
        starting,
        "[10/09/2024-11:35:25] [TRT-LLM] [I] Load engine takes: 8.594252347946167 sec",
        "0.13",
        telling=True,
    ),
    Pattern(
        "hang",
        "Hang detected",
        re.compile(r"Hang detected on rank \d{1,6} in PyExecutor"),
        failure("watchdog", fatal=True),
        "[08/19/2026-15:10:02] [TRT-LLM] [E] Hang detected on rank 0 in PyExecutor.",
        "1.1",
        telling=True,
    ),
    Pattern(
        "error",
        "rror",
        re.compile(r"^(?:Error in event loop|Encountered an error in forward function|Error in thread )[^\n]{0,160}"),
        failure("exception", fatal=True),
        "[08/19/2026-15:10:02] [TRT-LLM] [E] Error in event loop: CUDA driver error: invalid argument",
        "1.1",
        telling=True,
    ),
    UVICORN_READY,
)
"""What TensorRT-LLM's lines mean, the most frequent first."""
