"""Small model folders as Hugging Face lays them out, with real headers and no weights."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

DENSE: Mapping[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
}

MIXTURE: Mapping[str, object] = {
    **DENSE,
    "model_type": "qwen3_moe",
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
}

ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def header(tensors: Tensors) -> bytes:
    """A safetensors file that ends behind its header."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + ITEM_BYTES[dtype] * math.prod(shape)
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


def write_model(folder: Path, config: Mapping[str, object], tensors: Tensors | None = None, files: int = 2) -> Path:
    """config.json, and the tensors spread over `files` shards with their index; one file has none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    names = sorted(tensors or {})
    if files == 1:
        (folder / "model.safetensors").write_bytes(header(tensors or {}))
        return folder
    if not tensors:
        return folder
    weight_map = {name: f"model-{i % files + 1:05d}-of-{files:05d}.safetensors" for i, name in enumerate(names)}
    for file in set(weight_map.values()):
        (folder / file).write_bytes(header({name: tensors[name] for name in names if weight_map[name] == file}))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def dense_tensors(layers: int = 4, prefix: str = "model.") -> dict[str, tuple[str, tuple[int, ...]]]:
    """Those of DENSE: each layer 2 x 30,784 bytes, the head and the embeddings 128,000 each."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        f"{prefix}embed_tokens.weight": ("BF16", (1000, 64)),
        f"{prefix}norm.weight": ("BF16", (64,)),
        "lm_head.weight": ("BF16", (1000, 64)),
    }
    for i in range(layers):
        tensors |= attention(f"{prefix}layers.{i}.")
        for name, shape in (("gate_proj", (128, 64)), ("up_proj", (128, 64)), ("down_proj", (64, 128))):
            tensors[f"{prefix}layers.{i}.mlp.{name}.weight"] = ("BF16", shape)
    return tensors


def attention(at: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {
        f"{at}self_attn.q_proj.weight": ("BF16", (64, 64)),
        f"{at}self_attn.k_proj.weight": ("BF16", (16, 64)),
        f"{at}self_attn.v_proj.weight": ("BF16", (16, 64)),
        f"{at}self_attn.o_proj.weight": ("BF16", (64, 64)),
        f"{at}input_layernorm.weight": ("BF16", (64,)),
    }
