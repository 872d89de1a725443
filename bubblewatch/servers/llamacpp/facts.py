"""What llama.cpp's settings mean: how layers are spread, what stays on the CPU, how many slots there are."""

from __future__ import annotations

import re

from bubblewatch.model.server import Setting, Settings
from bubblewatch.servers.base import NO_SPECULATION, DeviceSplit, Facts, Running
from bubblewatch.servers.meaning import text_of, visible_devices
from bubblewatch.servers.versions import Version

FEW_LAYERS = 16
"""Fewer layers than this on the GPU are part of any model: the smallest ones in use have 18 (Gemma 3 270M)."""

_ON_CPU = re.compile(r"=\s{0,4}CPU\b")
_SPLITS = {
    "layer": DeviceSplit.LAYERS,
    "row": DeviceSplit.ROWS,
    "tensor": DeviceSplit.ROWS,
    "none": DeviceSplit.ONE,
}


def facts_of(settings: Settings, version: Version | None) -> Facts:
    """See `ServerKind.facts`. Decode of all slots is one small batch that walks from GPU to GPU: a ring of one slot."""
    del version
    devices = devices_of(settings)
    split = DeviceSplit.ONE if devices == 1 else _SPLITS.get(str(settings.get("split_mode")))
    pp, tp = parallelism(split, devices)
    offload = _offload(settings)
    slots = settings.number("parallel")
    no_graphs = settings.values.get("GGML_CUDA_DISABLE_GRAPHS")
    return Facts(
        pp=pp,
        tp=tp,
        dp=1,
        device_split=split if pp is None or tp is None else None,
        decode_graphs=None if no_graphs is None else False,
        decode_graphs_setting=no_graphs,
        graphs_reason="" if no_graphs is None else "GGML_CUDA_DISABLE_GRAPHS is set",
        graphs_exempt=settings.flag("embedding") is True,
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        slot_capacity=slots if slots and slots > 0 else None,
        max_running=slots if slots and slots > 0 else None,
        overlap_enabled=False,
        overlap_possible=False,
        port=settings.number("port"),
        running=Running.TOTAL,
        speculative=_speculative(settings),
        draft_tokens=settings.number("draft_max"),
        cpu_offload=None if offload is None else offload[0],
        cpu_offload_setting=None if offload is None else offload[1],
        cpu_offload_reason="" if offload is None else offload[2],
        gpu_layers=settings.number("n_gpu_layers"),
        max_batched_tokens=settings.number("batch_size"),
        max_model_len=settings.number("ctx_size"),
        mixes_prefill=True,
        kv_cache_dtype=text_of(settings, "cache_type_k"),
        model=text_of(settings, "model") or text_of(settings, "hf_repo"),
    )


def devices_of(settings: Settings) -> int | None:
    """GPUs that hold the model: as listed, as shared out, as visible, or as the log counts them; None = not known."""
    listed = text_of(settings, "device")
    if listed is not None:
        return len([word for word in listed.split(",") if word.strip()])
    shares = re.findall(r"\d{1,9}(?:\.\d{1,9})?", str(settings.get("tensor_split") or ""))
    if shares:
        return sum(float(share) > 0 for share in shares)
    visible = visible_devices(settings)
    return settings.number("cuda_devices") if visible is None else visible


def parallelism(split: DeviceSplit | None, devices: int | None) -> tuple[int | None, int | None]:
    """Stages and tensor ranks of a model that is spread so over so many devices; None where it cannot be told."""
    if split is DeviceSplit.ONE:
        return 1, 1
    if split is DeviceSplit.LAYERS:
        return devices, 1
    return (1, devices) if split is DeviceSplit.ROWS else (None, None)


def _offload(settings: Settings) -> tuple[bool, Setting, str] | None:
    """Whether the CPU is in the path of each token, what decides it, and how; None = not known."""
    experts = settings.values.get("n_cpu_moe")
    if settings.flag("cpu_moe"):
        return True, settings.values["cpu_moe"], "all experts stay on the CPU"
    if experts is not None and isinstance(experts.value, int) and experts.value > 0:
        return True, experts, f"the experts of {experts.value} layers stay on the CPU"
    override = settings.values.get("override_tensor")
    if override is not None and _ON_CPU.search(str(override.value)):
        return True, override, "tensors are placed on the CPU"
    if settings.flag("no_kv_offload"):
        return True, settings.values["no_kv_offload"], "the KV cache stays in host memory"
    layers = settings.values.get("n_gpu_layers")
    if layers is not None and isinstance(layers.value, int) and 0 <= layers.value < FEW_LAYERS:
        return True, layers, f"only {layers.value} layers are on the GPU"
    return None


def _speculative(settings: Settings) -> str | None:
    kind = text_of(settings, "spec_type")
    if kind is not None and kind != "none":
        return kind
    if settings.get("model_draft") is not None:
        return "draft"
    return NO_SPECULATION if "split_mode" in settings else None
