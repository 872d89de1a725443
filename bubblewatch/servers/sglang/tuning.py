"""Facts of SGLang that bear on speed beside stages and graphs: speculation, offload, limits, backends."""

from __future__ import annotations

from dataclasses import replace

from bubblewatch.model.logs import PoolSized
from bubblewatch.model.server import Setting, Settings
from bubblewatch.servers.base import NO_SPECULATION, Facts
from bubblewatch.servers.meaning import amount_of, ratio_of, text_of
from bubblewatch.servers.versions import Bounds

SPECULATION_LIMIT = 48
"""Requests admitted when speculation is on and no limit was set (SGLang 0.5.23 arg_groups/speculative_hook.py)."""

OLD_SPECULATION_LIMIT = 32
"""The same in early 2025 (a maintainer on version 0.4.4)."""

_SILENT_LEVELS = frozenset({"warning", "warn", "error", "critical"})
"""Log levels that hide decode and prefill lines."""

_SMALL_TP = 4
"""Tensor ranks below which fewer batch sizes are captured by default (server_args.py of every version)."""


def with_tuning(facts: Facts, settings: Settings, known: Bounds, pool: PoolSized | None) -> Facts:
    """`facts` with what the other settings mean."""
    speculative = _speculative(settings)
    off = settings.values.get("disable_custom_all_reduce")
    decides = _offload(settings)
    chunk = pool.chunked_prefill_size if pool is not None and pool.chunked_prefill_size else None
    chunk = chunk or settings.number("chunked_prefill_size")
    mixed = settings.flag("enable_mixed_chunk")
    backend = settings.values.get("decode_attention_backend") or settings.values.get("attention_backend")
    level = text_of(settings, "log_level")
    return replace(
        facts,
        ep=settings.number("ep_size"),
        nodes=settings.number("nnodes"),
        dp_attention=_dp_attention(settings),
        speculative=speculative,
        draft_tokens=settings.number("speculative_num_draft_tokens"),
        cpu_offload=None if decides is None and "cpu_offload_gb" not in settings else decides is not None,
        cpu_offload_gib=amount_of(settings, "cpu_offload_gb"),
        cpu_offload_setting=decides,
        cpu_offload_reason="" if decides is None else _why_offload(decides),
        custom_all_reduce=None if off is None else off.value is not True,
        custom_all_reduce_setting=off,
        max_batched_tokens=chunk if chunk is not None and chunk > 0 else None,
        max_model_len=settings.number("context_length"),
        gpu_memory_ratio=ratio_of(settings, "mem_fraction_static"),
        mixes_prefill=False if mixed and speculative not in (None, NO_SPECULATION) else mixed,
        attention_backend=None if backend is None or backend.value is None else str(backend.value),
        attention_backend_setting=None if backend is None or backend.value is None else backend,
        quantization=text_of(settings, "quantization"),
        kv_cache_dtype=text_of(settings, "kv_cache_dtype"),
        log_stats=False if level is not None and level.lower() in _SILENT_LEVELS else None,
        graph_batch_by_memory=graph_batch_by_memory(known, facts.tp),
        model=text_of(settings, "model_path"),
    )


def speculation_limit(settings: Settings, known: Bounds) -> int | None:
    """The limit on requests that speculation brings where none was set; None without speculation."""
    if _speculative(settings) in (None, NO_SPECULATION):
        return None
    return OLD_SPECULATION_LIMIT if known.since("0.4.5") is False else SPECULATION_LIMIT


def graph_batch_by_memory(known: Bounds, tp: int | None) -> tuple[tuple[float, int], ...]:
    """Largest batch with a decode graph by default: pairs of (GiB of one GPU below which it holds, batch).

    SGLang 0.5.2, 0.5.10, 0.5.23 server_args.py and arg_groups/memory_hook.py. Of a version that is not known: what the
    newest does. () when the number of tensor ranks is not known.
    """
    if tp is None:
        return ()
    small = tp < _SMALL_TP
    top = float("inf")
    if known.since("0.5.3") is False:
        return ((35.0, 8 if small else 80), (90.0, 160), (160.0, 256), (top, 512))
    second = (24 if small else 80) if known.since("0.5.19") is False else (48 if small else 160)
    return ((20.0, 8), (35.0, second), (60.0, 32 if small else 160), (160.0, 256 if small else 512), (top, 512))


def _speculative(settings: Settings) -> str | None:
    if "speculative_algorithm" not in settings:
        return None
    algorithm = settings.get("speculative_algorithm")
    return NO_SPECULATION if algorithm is None else str(algorithm)


def _dp_attention(settings: Settings) -> bool | None:
    if (settings.number("attn_dp_size") or 1) > 1:
        return True
    return settings.flag("enable_dp_attention")


def _offload(settings: Settings) -> Setting | None:
    """The setting that keeps weights or experts in host memory; None when there is none."""
    for name in ("cpu_offload_gb", "offload_group_size"):
        if (amount_of(settings, name) or 0) > 0:
            return settings.values[name]
    for name in ("kt_weight_path", "kt_amx_weight_path"):
        if settings.get(name) is not None:
            return settings.values[name]
    return None


def _why_offload(decides: Setting) -> str:
    if decides.name.startswith("kt_"):
        return "routed experts run on the CPU (KTransformers kernels)"
    if decides.name == "cpu_offload_gb":
        return f"{decides.value} GiB of weights on each GPU are kept in host memory"
    return "layers are kept in host memory and fetched in groups"
