"""How a model's weights are stored, by `quantization_config` of its config.json or ModelOpt's hf_quant_config.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

PLAIN_BYTES = 2.0
"""Bytes of a weight that is not quantised: bfloat16 or float16; servers cast wider ones."""

MAX_PATTERNS = 20_000
"""Entries of a list of modules left alone that are looked at; one layer by layer of a large model has some hundreds."""


class Part(StrEnum):
    """Parts of a layer that are quantised or left alone together."""

    ATTENTION = "attention"
    DENSE = "dense"
    SHARED = "shared"
    EXPERTS = "experts"


@dataclass(frozen=True, slots=True)
class Quantization:
    """`method` None = not quantised. `item_bytes` per weight with its scales, None = this method is not known here.

    `kept` are parts that stay at 2 bytes, with the layer that it holds for, None = every layer. `kv_item_bytes` is the
    size of a number of the KV cache that the model asks for, None = it does not.
    """

    method: str | None = None
    item_bytes: float | None = PLAIN_BYTES
    kept: frozenset[tuple[Part, int | None]] = frozenset()
    kv_item_bytes: float | None = None

    def bytes_of(self, part: Part, layer: int) -> float:
        """Bytes of a weight of this part of this layer; 0 when the method is not known."""
        if (part, None) in self.kept or (part, layer) in self.kept:
            return PLAIN_BYTES
        return self.item_bytes or 0.0


_FIXED: Mapping[str, float] = MappingProxyType(
    {
        "fp8": 1.0,
        "fbgemm_fp8": 1.0,
        "mxfp8": 1.0 + 1 / 32,
        "w8a8_int8": 1.0,
        "mxfp4": 0.5 + 1 / 32,  # one byte of scale for 32 weights
        "nvfp4": 0.5 + 1 / 16,  # one byte of scale for 16 weights
        "w4a8_awq": 0.5,
        "w4a16_awq": 0.5,
        "int4_awq": 0.5,
        "fp8_pb_wo": 1.0,
        "fp8_per_channel_per_token": 1.0,
    }
)
"""Method, or `quant_algo` of ModelOpt, in lower case -> bytes of a weight with its scales."""

_BY_BITS = frozenset({"awq", "gptq", "gptq_marlin", "awq_marlin", "auto-round", "autoround", "hqq"})


def quantization_of(config: Mapping[str, object], modelopt: Mapping[str, object] | None = None) -> Quantization:
    """What the two files say; `modelopt` is the content of hf_quant_config.json, None = there is none."""
    said = config.get("quantization_config") or config.get("compression_config")
    if isinstance(modelopt, Mapping) and isinstance(modelopt.get("quantization"), Mapping):
        said = {"quant_method": "modelopt"} | dict(_mapping(modelopt["quantization"]))
    said = _mapping(said)
    if not said:
        return Quantization()
    method = str(said.get("quant_method") or said.get("quant_algo") or "unknown")[:40].lower()
    return Quantization(method, _item_bytes(method, said), frozenset(_kept(said)), _kv_item_bytes(said))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _bits(value: object, otherwise: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1 <= value <= 32 else otherwise  # type: ignore[operator,arg-type]  # is_number


def _item_bytes(method: str, said: Mapping[str, object]) -> float | None:
    if method in _FIXED:
        return _FIXED[method]
    if method.startswith("modelopt"):
        return _FIXED.get(str(said.get("quant_algo", "")).lower())
    if method in _BY_BITS:
        return _bits(said.get("bits", said.get("nbits")), 4) / 8 + _scale_bytes(said.get("group_size", 128))
    if method == "bitsandbytes":
        return 1.0 if said.get("load_in_8bit") is True else 0.5
    if method == "compressed-tensors":
        return _compressed(said)
    return None


def _scale_bytes(group: object) -> float:
    """Two bytes of scale a group; nothing for one scale a row (group -1)."""
    return 2.0 / group if isinstance(group, int) and 1 <= group <= 4096 else 0.0


def _compressed(said: Mapping[str, object]) -> float | None:
    """Compressed-tensors: the narrowest of its groups, which holds nearly all weights."""
    found = []
    for group in _mapping(said.get("config_groups")).values():
        weights = _mapping(_mapping(group).get("weights"))
        if "num_bits" in weights:
            scale = _scale_bytes(weights.get("group_size"))
            if weights.get("type") == "float" and weights["num_bits"] == 4:
                scale /= 2  # NVFP4 and MXFP4 have scales of one byte
            found.append(_bits(weights["num_bits"], 16) / 8 + scale)
    return min(found, default=None)


def _kv_item_bytes(said: Mapping[str, object]) -> float | None:
    scheme = _mapping(said.get("kv_cache_scheme"))
    if "num_bits" in scheme:
        return _bits(scheme["num_bits"], 16) / 8
    algorithm = str(said.get("kv_cache_quant_algo") or "").upper()
    return 1.0 if algorithm in {"FP8", "INT8"} else 0.5 if "4" in algorithm else None


_LAYER = re.compile(r"layers\\?\.(\d{1,4})(?!\d)")


def _kept(said: Mapping[str, object]) -> Iterator[tuple[Part, int | None]]:
    r"""Parts left alone: each list names modules, wholly or by a pattern, for one layer or for all.

    Patterns come from a file, so none is run; what a pattern is about is told by the words in it. Examples:
    `re:.*self_attn.*`, `re:.*shared_experts.*`, `re:.*mlp\.(gate|up|gate_up|down)_proj.*` (Kimi K2 Thinking),
    `model.layers.*.self_attn` (gpt-oss), `model.layers.0.mlp.down_proj`.
    """
    for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers"):
        listed = said.get(key)
        for entry in listed[:MAX_PATTERNS] if isinstance(listed, list) else ():
            if not isinstance(entry, str):
                continue
            part = _part(entry[:200].lower())
            layer = _LAYER.search(entry[:200])
            if part is not None:
                yield part, int(layer[1]) if layer else None


def _part(entry: str) -> Part | None:
    if "shared_expert" in entry:
        return Part.SHARED
    if "experts" in entry:
        return Part.EXPERTS
    if "attn" in entry or "attention" in entry:
        return Part.ATTENTION
    if "mlp" in entry and ("proj" in entry or entry.endswith(("mlp", "mlp.*", "mlp*"))):
        return Part.DENSE
    return None
