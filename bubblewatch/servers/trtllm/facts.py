"""What TensorRT-LLM's settings mean: CUDA graphs, overlap, micro-batches."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bubblewatch.model.server import Setting, Settings
from bubblewatch.servers.base import NO_SPECULATION, Facts, Role, Running
from bubblewatch.servers.meaning import amount_of, largest_size, text_of
from bubblewatch.servers.versions import Version

GRAPHS_BY_DEFAULT = Version((1, 0, 0))
"""First release whose PyTorch backend captures graphs unless told not to (llmapi/llm_args.py CudaGraphConfig)."""

DEFAULT_GRAPH_BATCH = 128
"""Largest captured batch where none is set (CudaGraphConfig.max_batch_size 0, llm_args.py of 1.0 to 1.3.0rc27)."""


@dataclass(frozen=True, slots=True)
class _Graphs:
    on: bool | None = None
    setting: Setting | None = None
    reason: str = ""
    max_batch: int | None = None


def facts_of(settings: Settings, version: Version | None) -> Facts:
    """See `ServerKind.facts`. With several stages the executor always overlaps (executor loop of PyExecutor for PP)."""
    pp, tp = settings.number("pp_size"), settings.number("tp_size")
    pytorch = settings.get("backend") in (None, "pytorch") and version is not None and version >= GRAPHS_BY_DEFAULT
    graphs = _graphs(settings, by_default=pytorch)
    off = settings.values.get("disable_overlap_scheduler")
    overlap = False if off is not None and off.value is True and pp == 1 else True if pytorch else None
    offload = settings.values.get("kv_cache_config.host_cache_size")
    role = _role(settings)
    limit = settings.number("max_batch_size")
    return Facts(
        pp=pp,
        tp=tp,
        dp=1,
        ep=settings.number("ep_size"),
        decode_graphs=graphs.on,
        decode_graphs_setting=graphs.setting,
        graphs_reason=graphs.reason,
        graphs_exempt=None if role is None else role is Role.PREFILL,
        graph_max_batch=graphs.max_batch,
        capture_is_logged=False,
        depth_available=False,
        ring_slots=pp,
        slot_capacity=limit if pp == 1 else None,
        max_running=limit,
        decode_log_interval=1,
        overlap_enabled=overlap,
        overlap_possible=True if pytorch else None,
        overlap_setting=off,
        role=None if role is None else role.value,
        port=settings.number("port"),
        running=None if pp is None else Running.ONE_SLOT if pp > 1 else Running.TOTAL,
        dp_attention=settings.flag("enable_attention_dp"),
        speculative=_speculative(settings),
        cpu_offload=True if offload is not None else None,
        cpu_offload_setting=offload,
        max_batched_tokens=settings.number("max_num_tokens"),
        max_model_len=settings.number("max_seq_len"),
        gpu_memory_ratio=amount_of(settings, "kv_cache_ratio"),
        mixes_prefill=True,
        kv_cache_dtype=text_of(settings, "kv_cache_dtype"),
        quantization=text_of(settings, "quantization"),
        model=text_of(settings, "model"),
    )


def _graphs(settings: Settings, *, by_default: bool) -> _Graphs:
    """By the YAML of the launch; else by the default of the version.

    `cuda_graph_config: null` switches them off; in early 2025 `use_cuda_graph` switched them on.
    """
    old = settings.values.get("use_cuda_graph")
    if old is not None and isinstance(old.value, bool):
        sizes = largest_size(settings, "cuda_graph_batch_sizes", "cuda_graph_max_batch_size")
        return _Graphs(old.value, old, "as set" if old.value else "switched off", sizes)
    config = settings.values.get("cuda_graph_config")
    if config is not None:
        if config.value in (None, False):
            return _Graphs(False, config, "cuda_graph_config is null")
        return _Graphs(True, config, "as set", _largest(config.value))
    return _Graphs(True, None, "on by default", DEFAULT_GRAPH_BATCH) if by_default else _Graphs()


def _largest(config: object) -> int | None:
    """The largest captured batch of a `cuda_graph_config` in JSON."""
    try:
        parsed = json.loads(str(config))
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    sizes = [size for size in parsed.get("batch_sizes") or () if isinstance(size, int)]
    limit = parsed.get("max_batch_size")
    return max(sizes, default=None) or (limit if isinstance(limit, int) and limit else DEFAULT_GRAPH_BATCH)


def _role(settings: Settings) -> Role | None:
    text = text_of(settings, "disaggregation_mode") or text_of(settings, "server_role")
    words = {"prefill": Role.PREFILL, "context": Role.PREFILL, "decode": Role.DECODE, "generation": Role.DECODE}
    return words.get((text or "").lower())


def _speculative(settings: Settings) -> str | None:
    config = settings.get("speculative_config")
    if config is None:
        return NO_SPECULATION if "extra_options" not in settings and "pp_size" in settings else None
    try:
        parsed = json.loads(str(config))
    except (ValueError, RecursionError):
        return "set"
    method = parsed.get("decoding_type") if isinstance(parsed, dict) else None
    return str(method) if method else "set"
