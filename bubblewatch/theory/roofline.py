"""How many tokens a second memory bandwidth allows: the roofline of decode.

To make a token a card reads its part of the weights once for each step, and the KV cache of each request. The limit
is that traffic at the data sheet's bandwidth, with everything else free: launches, hops, collectives, host work,
arithmetic. Real decode reaches 60 to 85 % of it at best. What it takes for granted:

- every step reads the whole of what it needs from memory: no part stays in a cache (L2 is a thousandth of it);
- tokens of a batch choose their experts independently and evenly. Real tokens repeat each other's choices, so that
  with several requests the limit of a mixture of experts may be somewhat higher than stated;
- tensor parallelism splits every byte evenly, no rank holds a copy of what another holds;
- embeddings, vision towers and draft layers are not read;
- a request cannot start its next token before all stages have finished the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bubblewatch.model.shape import LayerShape, ModelShape


@dataclass(frozen=True, slots=True)
class Placement:
    """How a model lies on cards.

    `stage_layers` are the layers of each pipeline stage, front to back; one number for a model that is not cut.
    `stage_bytes_per_s` is the memory bandwidth of the cards of one stage together. `replicas` are whole copies of all
    that, between which requests are spread evenly.
    """

    stage_layers: tuple[int, ...]
    stage_bytes_per_s: float
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class DecodeLimit:
    """At most `tokens_per_s` in all, reached with `slots` micro-batches in flight in each replica.

    `step_bytes` is what one micro-batch of that size reads on its way through all stages.
    """

    tokens_per_s: float
    slots: int
    step_bytes: float


@dataclass(frozen=True, slots=True)
class _Stage:
    """Sums over the layers of a stage: bytes read for any batch, of one expert everywhere, of one request's cache."""

    shared: float
    expert: float
    cache: float


def expected_experts(experts: int, per_token: int, batch: float) -> float:
    """How many different experts of `experts` a batch touches when each token takes `per_token` of them at random.

    Between `per_token` for one token and `experts` for many.
    """
    if experts <= 0 or per_token <= 0:
        return 0.0
    missed: float = (1 - min(per_token / experts, 1.0)) ** max(batch, 1.0)
    return experts * (1 - missed)


def cache_bytes(layer: LayerShape, context_tokens: float, item_bytes: float) -> float:
    """Bytes of KV cache that this layer reads for one more token after `context_tokens`."""
    seen = context_tokens if layer.window_tokens is None else min(context_tokens, layer.window_tokens)
    return layer.kv_values * item_bytes * max(seen, 0.0)


def step_bytes(shape: ModelShape, batch: float, context_tokens: float = 0.0, item_bytes: float | None = None) -> float:
    """Bytes that one step of `batch` requests reads in all, with `context_tokens` behind each of them."""
    return sum(_read(stage, shape, batch) for stage in _stages(shape, (len(shape.layers),), context_tokens, item_bytes))


def decode_limit(
    shape: ModelShape,
    place: Placement,
    requests: float,
    *,
    context_tokens: float = 0.0,
    item_bytes: float | None = None,
    tokens_per_step: float = 1.0,
) -> DecodeLimit | None:
    """The most tokens a second that `requests` requests in flight can get, however they are spread over slots.

    With M slots of b requests a lap takes at least the time of all stages one after the other, and M times that of the
    slowest one; the best M counts. `context_tokens` is the mean length behind a request (0 leaves the KV cache out,
    which only raises the limit), `item_bytes` the size of one number in it, None = as the model says. `tokens_per_step`
    is above 1 with speculative decoding.

    None for no request, no bandwidth, or stages that do not hold the model's layers.
    """
    if requests <= 0 or place.stage_bytes_per_s <= 0 or place.replicas < 1 or tokens_per_step <= 0:
        return None
    if sum(place.stage_layers) != len(shape.layers) or not shape.layers:
        return None
    stages = _stages(shape, place.stage_layers, context_tokens, item_bytes)
    working = min(float(place.replicas), requests)
    own = max(requests / place.replicas, 1.0)
    most_slots = max(min(len(stages), math.floor(own)), 1)
    each = [_with_slots(shape, stages, place.stage_bytes_per_s, own, slots) for slots in range(1, most_slots + 1)]
    best = max(each, key=lambda limit: limit.tokens_per_s)
    return DecodeLimit(best.tokens_per_s * working * tokens_per_step, best.slots, best.step_bytes)


def _with_slots(
    shape: ModelShape, stages: Sequence[_Stage], bytes_per_s: float, requests: float, slots: int
) -> DecodeLimit:
    reads = [_read(stage, shape, requests / slots) for stage in stages]
    lap_bytes = max(sum(reads), slots * max(reads))
    rate = requests * bytes_per_s / lap_bytes if lap_bytes > 0 else math.inf
    return DecodeLimit(rate, slots, sum(reads))


def _read(stage: _Stage, shape: ModelShape, batch: float) -> float:
    touched = expected_experts(shape.experts, shape.experts_per_token, batch)
    return stage.shared + touched * stage.expert + batch * stage.cache


def _stages(
    shape: ModelShape, counts: Sequence[int], context_tokens: float, item_bytes: float | None
) -> tuple[_Stage, ...]:
    item = shape.kv_item_bytes if item_bytes is None else item_bytes
    stages: list[_Stage] = []
    at = 0
    for count in counts:
        layers = shape.layers[at : at + count]
        at += count
        is_last = len(stages) == len(counts) - 1
        stages.append(
            _Stage(
                sum(layer.shared_bytes for layer in layers) + (shape.head_bytes if is_last else 0.0),
                sum(layer.expert_bytes for layer in layers),
                sum(cache_bytes(layer, context_tokens, item) for layer in layers),
            )
        )
    return tuple(stages)


def capped(low: float | None, high: float | None, most: float | None) -> tuple[float | None, float | None]:
    """The range `low` to `high` with nothing above `most`; as it is when `most` is not known."""
    if most is None:
        return low, high
    return (None if low is None else min(low, most)), (None if high is None else min(high, most))
