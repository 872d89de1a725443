"""Facts of vLLM that bear on speed beside stages and graphs: speculation, offload, limits, backends."""

from __future__ import annotations

import json
from dataclasses import replace

from bubblewatch.model.server import Setting, Settings
from bubblewatch.servers.base import NO_SPECULATION, Facts
from bubblewatch.servers.meaning import amount_of, ratio_of, text_of
from bubblewatch.servers.versions import Bounds


def with_tuning(facts: Facts, settings: Settings, known: Bounds) -> Facts:
    """`facts` with what the other settings mean."""
    method, tokens = _speculation(settings)
    off = settings.values.get("disable_custom_all_reduce")
    decides = _offload(settings)
    backend = settings.values.get("attention_backend") or settings.values.get("VLLM_ATTENTION_BACKEND")
    quiet = settings.flag("disable_log_stats")
    read = "enforce_eager" in settings
    return replace(
        facts,
        nodes=settings.number("nnodes"),
        speculative=method,
        draft_tokens=tokens,
        cpu_offload=True if decides is not None else False if read else None,
        cpu_offload_gib=amount_of(settings, "cpu_offload_gb"),
        cpu_offload_setting=decides,
        cpu_offload_reason="" if decides is None else _why_offload(decides),
        custom_all_reduce=None if off is None else off.value is not True,
        custom_all_reduce_setting=off,
        max_batched_tokens=settings.number("max_num_batched_tokens"),
        max_model_len=settings.number("max_model_len") or settings.number("max_seq_len"),
        gpu_memory_ratio=ratio_of(settings, "gpu_memory_utilization"),
        mixes_prefill=_mixes_prefill(settings, known),
        executor=text_of(settings, "distributed_executor_backend"),
        attention_backend=None if backend is None or backend.value is None else str(backend.value),
        attention_backend_setting=None if backend is None or backend.value is None else backend,
        quantization=text_of(settings, "quantization"),
        kv_cache_dtype=text_of(settings, "kv_cache_dtype"),
        log_stats=None if quiet is None else not quiet,
        model=text_of(settings, "model"),
    )


def _speculation(settings: Settings) -> tuple[str | None, int | None]:
    """Method and drafted tokens; (`off`, None) when a launch that was read asks for none."""
    tokens = settings.number("num_speculative_tokens")
    config = settings.get("speculative_config")
    if config is not None:
        try:
            fields = json.loads(str(config))
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            return "set", tokens
        drafted = fields.get("num_speculative_tokens")
        method = fields.get("method") or ("draft" if fields.get("model") else "set")
        return str(method), drafted if isinstance(drafted, int) else tokens
    dotted = text_of(settings, "speculative_config_method") or text_of(settings, "speculative_model")
    if dotted is not None:
        return dotted, settings.number("speculative_config_num_speculative_tokens") or tokens
    # The engine line and a launch that was read both speak of everything that was asked for.
    return (NO_SPECULATION if "enforce_eager" in settings else None), None


def _mixes_prefill(settings: Settings, known: Bounds) -> bool | None:
    """One step works on prompts and decodes: always in V1 unless chunked prefill is off, on request before (0.9)."""
    asked = settings.flag("enable_chunked_prefill")
    if asked is None:
        asked = settings.flag("chunked_prefill_enabled")
    if asked is not None:
        return asked
    return True if known.since("0.9.0") else None


def _offload(settings: Settings) -> Setting | None:
    """The setting that keeps weights in host memory; None when there is none."""
    for name in ("cpu_offload_gb", "offload_group_size"):
        if (amount_of(settings, name) or 0) > 0:
            return settings.values[name]
    return None


def _why_offload(decides: Setting) -> str:
    if decides.name == "cpu_offload_gb":
        return f"{decides.value} GiB of weights on each GPU are kept in host memory and read over PCIe in every step"
    return "layers are kept in host memory and fetched in groups"
