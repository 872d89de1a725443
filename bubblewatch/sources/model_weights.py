"""From a model's dimensions, and the tensors of its files where they can be read, to the bytes of each part."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from bubblewatch.model.shape import LayerShape, ModelShape, ShapeBasis
from bubblewatch.sources.model_config import AttentionKind, ConfigProblem, ModelConfig
from bubblewatch.sources.model_quantization import PLAIN_BYTES, Part
from bubblewatch.sources.safetensors import Tensor

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,4})\.")
"""Examples: `model.layers.3.mlp.up_proj.weight` (llama), `transformer.h.0.attn.c_attn.weight` (gpt2)."""

_ELSEWHERE = re.compile(r"vision|visual|audio|vit\.|projector|image|(?:^|\.)mtp\.|(?:^|\.)talker\.|(?:^|\.)code2wav\.")
"""Modules of a checkpoint that decode does not run: towers for pictures and sound, draft layers."""


class Place(StrEnum):
    """Where a tensor stands outside the layers."""

    HEAD = "head"
    EMBEDDING = "embedding"
    OTHER = "other"


def place_of(name: str, layers: int) -> int | Place:
    """The layer that the tensor `name` belongs to, or its place outside; a layer beyond `layers` drafts tokens."""
    if _ELSEWHERE.search(name):
        return Place.OTHER
    found = _LAYER.search(name)
    if found:
        return int(found[1]) if int(found[1]) < layers else Place.OTHER
    if "lm_head" in name or "embed_out" in name or name == "output.weight":
        return Place.HEAD
    return Place.EMBEDDING if re.search(r"embed|wte|wpe", name) else Place.OTHER


def shape_from_tensors(config: ModelConfig, tensors: Iterable[Tensor], where: str) -> ModelShape:
    """Exact sizes. Raises ConfigProblem when the tensors are not those of a model with these dimensions."""
    shared, routed = [0] * config.layers, [0] * config.layers
    outside = dict.fromkeys(Place, 0)
    for tensor in tensors:
        place = place_of(tensor.name, config.layers)
        if isinstance(place, Place):
            outside[place] += tensor.size_bytes
        elif ".experts." in tensor.name:
            routed[place] += tensor.size_bytes
        else:
            shared[place] += tensor.size_bytes
    if not all(shared):
        missing = sum(1 for size in shared if not size)
        raise ConfigProblem(f"says {config.layers} layers, and the weight files have nothing of {missing} of them")
    if any(routed) and not config.experts:
        raise ConfigProblem("names no experts, and the weight files have some")
    layers = [
        _layer(config, index, shared[index], routed[index] / config.experts if config.experts else 0.0)
        for index in range(config.layers)
    ]
    head = outside[Place.HEAD] or outside[Place.EMBEDDING] * config.is_tied
    total = sum(shared) + sum(routed) + sum(outside.values())
    return _shape(config, layers, total, head, where, ShapeBasis.HEADERS)


def shape_from_dimensions(config: ModelConfig, where: str, stored_bytes: int | None = None) -> ModelShape:
    """Sizes counted from the dimensions; `stored_bytes` is the size of all weights, None = no index of files says it.

    Raises ConfigProblem for a kind of model or quantisation whose sizes do not follow from config.json.
    """
    if not config.is_countable:
        raise ConfigProblem(f"is of a kind ({config.kind}) whose size needs its weight files beside it")
    if config.quantization.item_bytes is None:
        raise ConfigProblem(
            f"is quantised by {config.quantization.method}, whose size needs its weight files beside it"
        )
    if not config.vocab:
        raise ConfigProblem("does not say the size of the vocabulary (vocab_size)")
    layers = [_counted(config, index) for index in range(config.layers)]
    head = config.vocab * config.hidden * PLAIN_BYTES
    total = sum(layer.shared_bytes + config.experts * layer.expert_bytes for layer in layers)
    total += head if config.is_tied else 2 * head
    return _shape(config, layers, stored_bytes or total, head, where, ShapeBasis.CONFIG)


def _shape(
    config: ModelConfig, layers: Iterable[LayerShape], total: float, head: float, where: str, basis: ShapeBasis
) -> ModelShape:
    return ModelShape(
        kind=config.kind,
        where=where,
        basis=basis,
        layers=tuple(layers),
        weight_bytes=total,
        head_bytes=head,
        hidden=config.hidden,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        experts=config.experts,
        experts_per_token=config.experts_per_token,
        quantization=config.quantization.method,
        kv_item_bytes=config.quantization.kv_item_bytes or PLAIN_BYTES,
    )


def _layer(config: ModelConfig, index: int, shared: float, expert: float) -> LayerShape:
    attention = config.attention[index]
    window = config.window if attention is AttentionKind.WINDOW else None
    return LayerShape(shared, expert, _kv_values(config, attention), window)


def _kv_values(config: ModelConfig, attention: AttentionKind) -> int:
    if attention is AttentionKind.NONE:
        return 0
    if config.latent is not None:
        return config.latent.kv_rank + config.latent.rope
    return 2 * config.kv_heads * config.head_dim


def _counted(config: ModelConfig, index: int) -> LayerShape:
    """Matrices only: norms, biases and scales of attention are a few parts in ten thousand."""
    one_width = config.matrices * config.hidden
    kept = config.quantization
    shared = _attention_weights(config, index) * kept.bytes_of(Part.ATTENTION, index)
    if index not in config.moe_layers:
        return _layer(config, index, shared + one_width * config.dense_width * kept.bytes_of(Part.DENSE, index), 0.0)
    shared += one_width * config.shared_width * kept.bytes_of(Part.SHARED, index)
    shared += config.hidden * config.experts * PLAIN_BYTES  # the router
    return _layer(config, index, shared, one_width * config.expert_width * kept.bytes_of(Part.EXPERTS, index))


def _attention_weights(config: ModelConfig, index: int) -> int:
    hidden, latent = config.hidden, config.latent
    if config.attention[index] is AttentionKind.NONE:
        return hidden * config.linear_width
    if latent is None:
        return hidden * config.head_dim * (2 * config.heads + 2 * config.kv_heads)
    query = config.heads * (latent.nope + latent.rope)
    queries = hidden * query if latent.query_rank is None else latent.query_rank * (hidden + query)
    keys = hidden * (latent.kv_rank + latent.rope) + latent.kv_rank * config.heads * (latent.nope + latent.value)
    return queries + keys + config.heads * latent.value * hidden
