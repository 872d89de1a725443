"""How large a served model is, part by part: what one decode step has to read from memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ShapeBasis(StrEnum):
    """How the sizes are known."""

    HEADERS = "headers"
    """From the headers of the weight files: exact."""
    CONFIG = "config"
    """Counted from the dimensions in config.json: within a few percent."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One transformer layer. Sizes in bytes as stored.

    `shared_bytes` are read for every step whatever the batch (attention, norms, dense or shared experts, router),
    `expert_bytes` are those of ONE routed expert, 0 in a dense layer. `kv_values` counts the numbers that one token
    leaves in the KV cache here, 0 in a layer without one. `window_tokens`: attention reads no more than that many
    tokens back, None = all of them.
    """

    shared_bytes: float
    expert_bytes: float = 0.0
    kv_values: int = 0
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as its files describe it. Where the files leave a choice, the sizes are the smaller ones.

    `kind` is `model_type` of config.json, `where` the file that was read. `weight_bytes` is everything that is stored,
    vision tower, embeddings and draft layers too; `head_bytes` is the output head, which every step reads. `experts` is
    0 for a dense model. `quantization` names the method the weights are stored in, None = none.
    `kv_item_bytes` is the size of one number of the KV cache, unless the server is told otherwise.
    """

    kind: str
    where: str
    basis: ShapeBasis
    layers: tuple[LayerShape, ...]
    weight_bytes: float
    head_bytes: float
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int = 0
    experts_per_token: int = 0
    quantization: str | None = None
    kv_item_bytes: float = 2.0

    @property
    def active_bytes(self) -> float:
        """Bytes of weights that a step for one token reads."""
        each = sum(layer.shared_bytes + self.experts_per_token * layer.expert_bytes for layer in self.layers)
        return each + self.head_bytes

    @property
    def kv_token_bytes(self) -> float:
        """Bytes that one token keeps in the KV cache over all layers, window or not."""
        return sum(layer.kv_values for layer in self.layers) * self.kv_item_bytes
