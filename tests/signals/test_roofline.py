"""The limit of memory bandwidth as a signal: from the model's files, the cards, the placement and the requests."""

from __future__ import annotations

from typing import Any

import pytest

from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import DecodeStep, LogLine, PoolSized
from bubblewatch.model.server import Origin, Server, Setting, Settings, SettingValue
from bubblewatch.model.shape import LayerShape, ModelShape, ShapeBasis
from bubblewatch.model.signals import Confidence, Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.servers.base import Facts, LayerRule, LayerSplit, Role
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.compute import compute
from bubblewatch.signals.evidence import ServerEvidence, Stated
from bubblewatch.signals.roofline import write_roofline

GB = 1e9
H200 = "NVIDIA H200"  # 4,800 GB/s
LAYERS = 8


def dense(**changes: Any) -> ModelShape:
    values: dict[str, Any] = {
        "kind": "llama",
        "where": "m/config.json",
        "basis": ShapeBasis.HEADERS,
        "layers": (LayerShape(6 * GB, kv_values=1000),) * LAYERS,
        "weight_bytes": 50 * GB,
        "head_bytes": 0.0,
        "hidden": 64,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 8,
    }
    return ModelShape(**(values | changes))


def mixture() -> ModelShape:
    return dense(layers=(LayerShape(2 * GB, GB),) * LAYERS, experts=64, experts_per_token=4)


def told(
    shape: ModelShape | None,
    facts: Facts | None = None,
    *,
    kind: str = "sglang",
    settings: dict[str, SettingValue] | None = None,
    running: int | None = 1,
    tps: float | None = 50.0,
    cards: list[str] | None = None,
    events: tuple[DecodeStep | PoolSized, ...] = (),
    stated: Stated | None = None,
) -> Signals:
    book = Notebook(Scope.SERVER)
    book.know("demand.running", running, "log", otherwise="nobody counted")
    book.know("throughput.gen_tps", tps, "log", otherwise="no line told it")
    held = Settings({name: Setting(name, value, Origin.ARGV) for name, value in (settings or {}).items()})
    evidence = ServerEvidence(
        Server(kind, "k", settings=held),
        facts or Facts(pp=1, tp=1, dp=1),
        events=events,
        stated=stated or Stated(),
        model=shape,
    )
    names = [H200] if cards is None else cards
    write_roofline(book, evidence, [GpuInfo(f"GPU-{i}", i, name) for i, name in enumerate(names)])
    return book.signals()


def limit(*args: Any, **more: Any) -> float | None:
    return told(*args, tps=None, **more).number("roofline.tps")


def test_one_card_one_request() -> None:
    """48 GB a token at 4,800 GB/s are 100 tok/s, and 50 are half of it."""
    signals = told(dense())
    assert signals.number("roofline.tps") == pytest.approx(100)
    assert signals.number("roofline.ratio") == pytest.approx(0.5)
    assert signals.number("model.active_bytes") == 48 * GB
    assert signals.number("model.weight_bytes") == 50 * GB
    assert signals.known["model.active_bytes"].confidence is Confidence.CERTAIN
    assert signals.known["roofline.ratio"].confidence is Confidence.HIGH
    texts = [piece.text for piece in signals.known["roofline.tps"].evidence]
    assert texts == [
        "llama: 8 layers, 50.0 GB of weights, 48.0 GB read a token (m/config.json)",
        "a step reads 48.0 GB at 4,800 GB/s (H200): at most 100 tok/s with 1 running",
    ]


@pytest.mark.parametrize(
    ("facts", "running", "expected"),
    [
        (Facts(pp=1, tp=8, dp=1), 1, 800),
        (Facts(pp=8, tp=1, dp=1), 1, 100),
        (Facts(pp=8, tp=1, dp=1), 8, 800),
        (Facts(pp=2, tp=4, dp=1), 1, 400),
        (Facts(pp=1, tp=1, dp=4), 1, 100),
        (Facts(pp=1, tp=1, dp=4), 4, 400),
        (Facts(pp=1, tp=2), 2, 400),
    ],
)
def test_cards_that_work_at_once_add_up(facts: Facts, running: int, expected: float) -> None:
    assert limit(dense(), facts, running=running) == pytest.approx(expected)


def test_layers_lie_on_the_stages_as_the_version_puts_them() -> None:
    heavy_last = Facts(pp=2, tp=1, dp=1, layer_split=LayerSplit(LayerRule.STATED, (1, 7)))
    even = limit(mixture(), Facts(pp=2, tp=1, dp=1), running=2)
    uneven = limit(mixture(), heavy_last, running=2)
    assert even is not None
    assert uneven is not None
    assert uneven < even


def test_replicas_of_attention_alone_share_the_experts_and_the_cards() -> None:
    """Under attention data parallelism the replicas lie within the tensor ranks: eight cards, not sixty-four."""
    inside = limit(mixture(), Facts(pp=1, tp=8, dp=8), settings={"enable_dp_attention": True}, running=8)
    assert inside == limit(mixture(), Facts(pp=1, tp=8, dp=1), running=8)
    spread = limit(mixture(), Facts(pp=1, tp=1, dp=8), kind="vllm", running=8)
    assert spread == inside


def test_a_batch_of_a_mixture_is_less_sure_than_one_request() -> None:
    assert told(mixture(), running=1).known["roofline.tps"].confidence is Confidence.HIGH
    assert told(mixture(), running=8, tps=100.0).known["roofline.tps"].confidence is Confidence.MEDIUM


def decode(usage: float | None = None, accepted: float | None = None) -> DecodeStep:
    return DecodeStep(LogLine("Decode batch"), running=1, kv_usage_ratio=usage, accept_len=accepted)


def test_a_long_context_lowers_the_limit() -> None:
    """A million tokens of 16 KB each are 16 GB beside 48 GB of weights."""
    events = (PoolSized(LogLine("pool"), max_total_tokens=2_000_000), decode(0.5), decode(0.9))
    assert limit(dense(), events=events) == pytest.approx(4800 / 64)
    assert limit(dense(), events=events, settings={"kv_cache_dtype": "fp8_e5m2"}) == pytest.approx(4800 / 56)
    assert limit(dense(), events=events, settings={"kv_cache_dtype": "auto"}) == pytest.approx(4800 / 64)


def test_speculation_counts_what_is_accepted_or_nothing_is_said() -> None:
    settings: dict[str, SettingValue] = {"speculative_algorithm": "EAGLE3"}
    assert limit(dense(), settings=settings, events=(decode(accepted=2.5), decode(accepted=2.0))) == pytest.approx(250)
    unknown = told(dense(), settings=settings)
    assert "speculative" in unknown.why_missing("roofline.tps")
    assert limit(dense(), settings={"speculative_algorithm": None}) == pytest.approx(100)


@pytest.mark.parametrize(("said", "expected"), [("fp8", 200), ("w8a8_int8", 200), ("bitsandbytes", 400), (None, 100)])
def test_weights_that_the_server_quantises_as_it_loads_are_smaller(said: str | None, expected: float) -> None:
    assert limit(dense(), settings={"quantization": said}) == pytest.approx(expected)
    assert limit(dense(quantization="fp8"), settings={"quantization": said}) == pytest.approx(100)


def test_the_fastest_of_several_cards_stands_for_all() -> None:
    assert limit(dense(), cards=["NVIDIA L40S", H200]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shape": None}, "config.json was not read"),
        ({"running": None}, "how many requests run"),
        ({"running": 0}, "nothing runs"),
        ({"cards": []}, "--gpu-model"),
        ({"cards": ["Some GPU"]}, "bandwidth of Some GPU is not known"),
        ({"facts": Facts()}, "how many cards"),
        ({"facts": Facts(pp=1, tp=1, role=Role.PREFILL)}, "prefill"),
        ({"facts": Facts(pp=9, tp=1)}, "8 layers do not fit 9 stages"),
        ({"tps": 300.0}, "above the 100"),
    ],
)
def test_what_is_missing_is_said(given: dict[str, Any], words: str) -> None:
    signals = told(**({"shape": dense()} | given))
    for name in ("roofline.tps", "roofline.ratio"):
        assert signals.number(name) is None
        assert words in signals.why_missing(name)


def test_a_slice_of_a_card_has_no_bandwidth_that_we_know() -> None:
    book = Notebook(Scope.SERVER)
    book.know("demand.running", 1, "log")
    evidence = ServerEvidence(Server("sglang", "k"), Facts(pp=1, tp=1), model=dense())
    write_roofline(book, evidence, [GpuInfo("MIG-1", 0, "NVIDIA A100-SXM4-80GB", is_mig=True)])
    assert "MIG" in book.signals().why_missing("roofline.tps")


def test_the_limit_is_known_without_a_rate() -> None:
    signals = told(dense(), tps=None)
    assert signals.number("roofline.tps") == pytest.approx(100)
    assert signals.why_missing("roofline.ratio") == "no line told it"


def test_evidence_files_need_only_the_name_of_the_card() -> None:
    stated = Stated(running=1, gpu_model="H200 SXM")
    evidence = ServerEvidence(Server("sglang", "k"), Facts(pp=1, tp=1, dp=1), stated=stated, model=dense())
    signals = compute(evidence).server
    assert signals.number("roofline.tps") == pytest.approx(100)
    assert signals.number("layers.count") == LAYERS
    assert signals.known["layers.count"].basis == "model"


def test_layers_as_stated_outrank_the_models_files() -> None:
    evidence = ServerEvidence(Server("sglang", "k"), Facts(pp=2, tp=1), stated=Stated(layers=61), model=dense())
    signals = compute(evidence).server
    assert (signals.number("layers.count"), signals.number("layers.remainder")) == (61, 1)
