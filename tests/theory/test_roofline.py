"""The limit that memory bandwidth sets to decode."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bubblewatch.model.shape import LayerShape, ModelShape, ShapeBasis
from bubblewatch.theory.bandwidth import bandwidth_bytes_per_s
from bubblewatch.theory.ring import steady
from bubblewatch.theory.roofline import Placement, cache_bytes, capped, decode_limit, expected_experts, step_bytes
from bubblewatch.theory.story import StageCost, pipeline

GB = 1e9


def model(layers: tuple[LayerShape, ...], experts: int = 0, per_token: int = 0, head_bytes: float = 0.0) -> ModelShape:
    total = sum(layer.shared_bytes + experts * layer.expert_bytes for layer in layers) + head_bytes
    return ModelShape(
        "test", "config.json", ShapeBasis.HEADERS, layers, total, head_bytes, 64, 8, 8, 8, experts, per_token
    )


def dense(layers: int = 8, each: float = GB) -> ModelShape:
    return model((LayerShape(each),) * layers)


shapes = st.builds(
    lambda sizes, experts, per_token, head: model(
        tuple(LayerShape(shared, expert if experts else 0.0, kv) for shared, expert, kv in sizes),
        experts,
        min(per_token, experts),
        head,
    ),
    st.lists(st.tuples(st.floats(1e6, 1e10), st.floats(0, 1e9), st.integers(0, 4096)), min_size=1, max_size=12),
    st.sampled_from([0, 8, 128, 384]),
    st.integers(1, 8),
    st.floats(0, 1e10),
)
speeds = st.floats(1e11, 1e13)
counts = st.integers(1, 512)


def rate(shape: ModelShape, stages: int, speed: float, requests: float, **more: float) -> float:
    each, rest = divmod(len(shape.layers), stages)
    split = (*[each] * (stages - rest), *[each + 1] * rest)
    limit = decode_limit(shape, Placement(split, speed), requests, **more)
    assert limit is not None
    return limit.tokens_per_s


def test_a_dense_model_of_40_gb_on_273_gb_a_second_makes_seven_tokens() -> None:
    """NVIDIA/dgx-spark-playbooks#91: 40.6 GB a token at 273 GB/s are 6.72 tok/s, and 4.0 to 4.2 were measured."""
    assert rate(dense(80, 40.6e9 / 80), 1, 273e9, 1) == pytest.approx(6.72, abs=0.01)


def test_requests_of_a_batch_share_the_weights_of_a_dense_model() -> None:
    assert rate(dense(), 1, 1e12, 16) == pytest.approx(16 * rate(dense(), 1, 1e12, 1))


def test_one_request_gains_nothing_from_stages() -> None:
    assert rate(dense(), 8, 1e12, 1) == pytest.approx(rate(dense(), 1, 1e12, 1))


def test_slots_make_no_dense_model_faster() -> None:
    """All requests in one slot read the weights once a lap; spread over eight, eight times at once."""
    assert rate(dense(8), 8, 1e12, 8) == pytest.approx(8 * 1e12 / (8 * GB))


def many_experts(layers: int) -> ModelShape:
    """Every request reads experts of its own: as many bytes for each as for the first."""
    return model((LayerShape(0.0, GB),) * layers, experts=1_000_000, per_token=1)


def test_slots_make_a_mixture_of_experts_faster() -> None:
    limit = decode_limit(many_experts(8), Placement((1,) * 8, 1e12), 8)
    assert limit is not None
    assert limit.slots == 8
    assert limit.tokens_per_s == pytest.approx(1e12 / GB, rel=1e-4)


def test_an_uneven_stage_holds_up_the_ring() -> None:
    limit = decode_limit(many_experts(9), Placement((4, 5), 1e12), 2)
    assert limit is not None
    assert limit.tokens_per_s == pytest.approx(2 * 1e12 / (2 * 5 * GB), rel=1e-4)


def test_the_limit_lies_above_the_slot_ring_with_the_same_kernels() -> None:
    """The ring of the story adds hops and host work to the same reads; its stage costs are bytes at 1,792 GB/s."""
    cost, speed = StageCost(), 1792e9
    layer = LayerShape(cost.shared_s * speed, cost.expert_s * speed / cost.experts_per_token)
    story = model((layer,) * 8, cost.experts, cost.experts_per_token)
    for requests in (1, 8, 32):
        best = max(
            steady(pipeline(requests / filled, filled=filled, graphs=True)).tokens_per_s(requests)
            for filled in range(1, min(requests, 8) + 1)
        )
        assert 0.6 * rate(story, 8, speed, requests) < best < rate(story, 8, speed, requests)


@given(st.integers(1, 512), st.integers(1, 16), st.floats(1, 4096))
def test_experts_touched_lie_between_those_of_one_token_and_all(experts: int, per_token: int, batch: float) -> None:
    assume(per_token <= experts)
    touched = expected_experts(experts, per_token, batch)
    assert per_token * (1 - 1e-9) <= touched <= min(experts, per_token * batch) * (1 + 1e-9)
    assert touched <= expected_experts(experts, per_token, batch + 1) * (1 + 1e-9)


def test_experts_of_a_batch_as_counted_by_hand() -> None:
    assert expected_experts(384, 8, 1) == pytest.approx(8)
    assert expected_experts(2, 1, 2) == pytest.approx(1.5)
    assert expected_experts(0, 0, 4) == 0


@given(shapes, st.integers(1, 12), speeds, counts)
def test_more_requests_never_lower_the_limit(shape: ModelShape, stages: int, speed: float, requests: int) -> None:
    stages = min(stages, len(shape.layers))
    assert rate(shape, stages, speed, requests) <= rate(shape, stages, speed, requests + 1) * (1 + 1e-9)


@given(shapes, speeds, counts, st.floats(0, 1e5))
def test_longer_contexts_and_slower_memory_never_raise_it(
    shape: ModelShape, speed: float, requests: int, context: float
) -> None:
    longer = rate(shape, 1, speed, requests, context_tokens=context + 1000)
    assert longer <= rate(shape, 1, speed, requests, context_tokens=context) * (1 + 1e-9)
    assert rate(shape, 1, speed / 2, requests) == pytest.approx(rate(shape, 1, speed, requests) / 2)


@given(shapes, st.integers(1, 12), speeds, counts)
def test_no_pipeline_beats_the_bandwidth_of_all_its_cards_together(
    shape: ModelShape, stages: int, speed: float, requests: int
) -> None:
    stages = min(stages, len(shape.layers))
    together = rate(shape, 1, stages * speed, requests)
    assert rate(shape, stages, speed, requests) <= together * (1 + 1e-9)
    assert together <= requests * stages * speed / shape.active_bytes * (1 + 1e-9)


@given(shapes, speeds, st.integers(1, 64), st.integers(1, 8))
def test_replicas_share_requests_and_never_beat_one_of_their_size(
    shape: ModelShape, speed: float, requests: int, replicas: int
) -> None:
    split = (len(shape.layers),)
    apart = decode_limit(shape, Placement(split, speed, replicas), requests)
    joint = decode_limit(shape, Placement(split, speed * replicas), requests)
    assert apart is not None
    assert joint is not None
    assert apart.tokens_per_s <= joint.tokens_per_s * (1 + 1e-9)


def test_one_request_uses_one_replica() -> None:
    apart = decode_limit(dense(), Placement((8,), 1e12, 4), 1)
    assert apart is not None
    assert apart.tokens_per_s == pytest.approx(rate(dense(), 1, 1e12, 1))


@given(shapes, counts)
def test_a_step_reads_no_more_than_all_weights(shape: ModelShape, batch: int) -> None:
    assert shape.active_bytes * (1 - 1e-9) <= step_bytes(shape, batch) <= shape.weight_bytes * (1 + 1e-9)


def test_a_window_bounds_what_a_layer_reads() -> None:
    layer = LayerShape(1, kv_values=100, window_tokens=1024)
    assert cache_bytes(layer, 512, 2) == 512 * 200
    assert cache_bytes(layer, 100_000, 2) == 1024 * 200
    assert cache_bytes(replace(layer, window_tokens=None), 100_000, 1) == 100_000 * 100


def test_speculation_multiplies_it() -> None:
    assert rate(dense(), 1, 1e12, 2, tokens_per_step=2.5) == pytest.approx(2.5 * rate(dense(), 1, 1e12, 2))


@pytest.mark.parametrize(
    ("place", "requests"),
    [
        (Placement((8,), 1e12), 0),
        (Placement((8,), 0), 1),
        (Placement((4, 3), 1e12), 1),
        (Placement((), 1e12), 1),
        (Placement((8,), 1e12, 0), 1),
    ],
)
def test_no_limit_without_what_it_rests_on(place: Placement, requests: float) -> None:
    assert decode_limit(dense(8), place, requests) is None


def test_a_range_is_cut_at_what_is_possible() -> None:
    assert capped(100, 300, 200) == (100, 200)
    assert capped(250, 300, 200) == (200, 200)
    assert capped(100, 300, None) == (100, 300)
    assert capped(None, None, 200) == (None, None)


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 NVL", 3938),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA H20", 4000),
        ("NVIDIA GB10", 273),
        ("NVIDIA GeForce RTX 4090", 1008),
        ("NVIDIA RTX A6000", 768),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1792),
        ("NVIDIA L40S", 864),
    ],
)
def test_bandwidth_by_product_name(name: str, gb_per_s: float) -> None:
    assert bandwidth_bytes_per_s(name) == gb_per_s * GB


@pytest.mark.parametrize(
    "name", ["", "Some GPU", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"]
)
def test_no_bandwidth_for_cards_that_are_not_known_or_only_part_of_one(name: str) -> None:
    assert bandwidth_bytes_per_s(name) is None


def test_an_infinite_limit_is_none_that_a_rule_could_use() -> None:
    nothing = model((LayerShape(0.0),))
    limit = decode_limit(nothing, Placement((1,), 1e12), 1)
    assert limit is not None
    assert math.isinf(limit.tokens_per_s)  # and a notebook drops what is not finite
