"""Servers of one user's machine that spread layers over their GPUs: text-generation-webui, and TabbyAPI on ExLlama."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

from bubblewatch.model.server import Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import DeviceSplit, Facts, Running
from bubblewatch.servers.llamacpp.facts import FEW_LAYERS, devices_of, parallelism
from bubblewatch.servers.llamacpp.table import TABLE as LLAMACPP_TABLE
from bubblewatch.servers.meaning import text_of
from bubblewatch.servers.plain import PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

_TEXTGEN_OPTIONS = OptionList(
    "text-generation-webui",
    option_table(
        one="""
        --model --loader n_gpu_layers:--n-gpu-layers,--gpu-layers tensor_split:--tensor-split --gpu-split --threads
        batch_size:--batch-size ctx_size:--ctx-size,--n-ctx,--max-seq-len port:--api-port,--listen-port --cpu-memory
        --cache-type --split-mode
        """,
        many="--gpu-memory",
        flag="--row-split --cpu --auto-devices --api --listen --tensorcores --no-offload-kqv --load-in-8bit "
        "--load-in-4bit --disk --cpu-moe --enable-tp",
    ),
    complete=False,
    folds_underscores=True,
)
"""modules/shared.py of text-generation-webui, 2024 and 2025."""

_TABBY_OPTIONS = OptionList(
    "TabbyAPI",
    option_table(
        one="--config model:--model-name --model-dir --backend ctx_size:--max-seq-len --cache-size "
        "cache_mode:--cache-mode --max-batch-size --chunk-size --port --host",
        many="--gpu-split --autosplit-reserve",
        opt="--tensor-parallel --gpu-split-auto",
    ),
    complete=False,
    folds_underscores=True,
)
"""common/config_models.py of TabbyAPI, 2025."""


def _textgen_facts(settings: Settings, version: Version | None) -> Facts:
    """Every loader here splits by layers unless told otherwise; requests are answered one after another."""
    del version
    rows = settings.flag("row_split") or settings.flag("enable_tp") or settings.get("split_mode") in ("row", "tensor")
    devices = devices_of(settings)
    split = DeviceSplit.ONE if devices == 1 else DeviceSplit.ROWS if rows else DeviceSplit.LAYERS
    pp, tp = parallelism(split, devices)
    layers = settings.values.get("n_gpu_layers")
    reason = ""
    if settings.flag("cpu") or settings.flag("cpu_moe") or settings.get("cpu_memory") is not None:
        reason, decides = "weights are placed on the CPU", None
    elif layers is not None and isinstance(layers.value, int) and 0 <= layers.value < FEW_LAYERS:
        reason, decides = f"only {layers.value} layers are on the GPU", layers
    else:
        decides = None
    return Facts(
        pp=pp,
        tp=tp,
        dp=1,
        device_split=split if pp is None or tp is None else None,
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        overlap_enabled=False,
        overlap_possible=False,
        port=settings.number("port"),
        running=Running.TOTAL,
        cpu_offload=True if reason else None,
        cpu_offload_setting=decides,
        cpu_offload_reason=reason,
        gpu_layers=settings.number("n_gpu_layers"),
        max_batched_tokens=settings.number("batch_size"),
        max_model_len=settings.number("ctx_size"),
        model=text_of(settings, "model"),
    )


def _tabby_facts(settings: Settings, version: Version | None) -> Facts:
    """ExLlama splits by layers unless `tensor_parallel` is set; most settings stand in config.yml."""
    del version
    tensor = str(settings.get("tensor_parallel")).lower()
    devices = devices_of(settings)
    split = DeviceSplit.ROWS if tensor == "true" else DeviceSplit.LAYERS if tensor == "false" else None
    pp, tp = parallelism(DeviceSplit.ONE if devices == 1 else split, devices)
    return Facts(
        pp=pp,
        tp=tp,
        dp=1,
        device_split=split if pp is None or tp is None else None,
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        max_running=settings.number("max_batch_size"),
        overlap_enabled=False,
        overlap_possible=False,
        port=settings.number("port"),
        running=Running.TOTAL,
        max_batched_tokens=settings.number("chunk_size"),
        max_model_len=settings.number("ctx_size"),
        kv_cache_dtype=text_of(settings, "cache_mode"),
        model=text_of(settings, "model"),
    )


TEXTGEN = PlainKind(
    kind="textgen",
    label="text-generation-webui",
    entry=Entry(
        scripts=re.compile(r"(?:.*/)?(?:text-generation-webui|textgen)/server\.py"),
        plain_programs=frozenset({"server.py"}),
        proof=re.compile(
            r"--(?:loader|gpu-split|row[-_]split|tensor_split|n-gpu-layers|auto-devices|load-in-[48]bit)\b"
        ),
    ),
    options=_TEXTGEN_OPTIONS,
    meaning=_textgen_facts,
    table=tuple(replace(pattern, telling=False) for pattern in LLAMACPP_TABLE),
    defaults=MappingProxyType({"port": 5000}),
)

TABBYAPI = PlainKind(
    kind="tabbyapi",
    label="TabbyAPI (ExLlama)",
    entry=Entry(scripts=re.compile(r"(?:.*/)?(?i:tabbyapi)/(?:main|start)\.py")),
    options=_TABBY_OPTIONS,
    meaning=_tabby_facts,
    defaults=MappingProxyType({"port": 5000}),
    option_files=("config",),
)
