"""What memory bandwidth allows this server at its concurrency, and how near to that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bubblewatch.model.logs import DecodeStep, PoolSized, StatsLine
from bubblewatch.model.server import Settings
from bubblewatch.model.shape import ModelShape, ShapeBasis
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.servers.base import Facts, Role
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.theory.bandwidth import bandwidth_bytes_per_s
from bubblewatch.theory.roofline import DecodeLimit, Placement, decode_limit

HIGHEST_RATIO = 1.1
"""A rate above this share of the limit shows that the limit was counted for something else: another model, another
card, speculation that was not seen. Up to it, rounding and uneven experts explain the excess."""

USAGE_LINES = 20
"""Lines of the recent past in which the smallest use of the KV pool is looked for."""

GB = 1e9

_LIMITS = ("roofline.tps", "roofline.ratio")
_SPECULATION = ("speculative_algorithm", "speculative_config", "speculative_model", "model_draft")
"""Settings that switch speculative decoding on (SGLang, vLLM and TensorRT-LLM, older vLLM, llama.cpp)."""

_ATTENTION_REPLICAS = ("enable_dp_attention", "enable_attention_dp")
"""Settings under which replicas are made of attention only and the experts are shared (SGLang, TensorRT-LLM)."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Why something cannot be told."""

    reason: str


def write_roofline(book: Notebook, evidence: ServerEvidence, cards: Sequence[GpuInfo]) -> None:
    """Write model.* and roofline.*; demand and throughput must have been written. `cards` are the GPUs that it may run
    on, empty when none were read.
    """
    shape = evidence.model
    if shape is None:
        for name in ("model.weight_bytes", "model.active_bytes", *_LIMITS):
            book.lack(name, "the model's config.json was not read (--model-config)")
        return
    exact = shape.basis is ShapeBasis.HEADERS
    sure = Confidence.CERTAIN if exact else Confidence.HIGH
    fact = Evidence(EvidenceKind.SETTING, "model", f"{_words(shape)} ({shape.where})")
    book.know("model.weight_bytes", shape.weight_bytes, shape.basis, sure, [fact])
    book.know("model.active_bytes", shape.active_bytes, shape.basis, sure, [fact])
    found = _limit(book, evidence, shape, cards)
    if isinstance(found, _Unknown):
        for name in _LIMITS:
            book.lack(name, found.reason)
        return
    limit, text = found
    _write_limit(book, shape, limit, [fact, Evidence(EvidenceKind.SETTING, "model", text)])


def _write_limit(book: Notebook, shape: ModelShape, limit: DecodeLimit, proof: Sequence[Evidence]) -> None:
    running, rate = book.get("demand.running"), book.get("throughput.gen_tps")
    # Experts chosen unevenly make the limit of a batch higher than it is counted.
    sure = Confidence.MEDIUM if shape.experts and (book.number("demand.running") or 0) > 1 else Confidence.HIGH
    sure = min(sure, running.confidence) if running else sure
    tps = book.number("throughput.gen_tps")
    if rate is None or tps is None:
        book.know("roofline.tps", limit.tokens_per_s, shape.basis, sure, proof)
        book.lack("roofline.ratio", book.signals().why_missing("throughput.gen_tps"))
        return
    ratio = tps / limit.tokens_per_s
    if ratio > HIGHEST_RATIO:
        reason = (
            f"{_figure(tps)} tok/s is above the {_figure(limit.tokens_per_s)} of the model and cards that were read"
        )
        for name in _LIMITS:
            book.lack(name, f"{reason}: one of them is another, or tokens are guessed ahead")
        return
    book.know("roofline.tps", limit.tokens_per_s, shape.basis, sure, proof)
    book.know("roofline.ratio", ratio, shape.basis, min(sure, rate.confidence), [*proof, *rate.evidence])


def _limit(
    book: Notebook, evidence: ServerEvidence, shape: ModelShape, cards: Sequence[GpuInfo]
) -> tuple[DecodeLimit, str] | _Unknown:
    """The limit with its sum in words, or why there is none."""
    settings, requests = evidence.server.settings, book.number("demand.running")
    if evidence.facts.role == Role.PREFILL:
        return _Unknown("a prefill server decodes nothing")
    if not requests:
        return _Unknown("nothing runs" if requests == 0 else "how many requests run in all is not known (--running N)")
    card = _card(evidence, cards)
    if isinstance(card, _Unknown):
        return card
    place = _placement(evidence.facts, evidence.server.kind, settings, shape, card.bytes_per_s)
    if isinstance(place, _Unknown):
        return place
    guessed = _tokens_per_step(evidence)
    if guessed is None:
        return _Unknown("decoding is speculative, and no line says how many tokens are accepted a step")
    context = _context_tokens(evidence, requests)
    stored = _stored_share(settings, shape)
    limit = decode_limit(
        _scaled(shape, stored),
        place,
        requests,
        context_tokens=context,
        item_bytes=_cache_item_bytes(settings),
        tokens_per_step=guessed,
    )
    if limit is None:
        return _Unknown("the layers do not fit the stages")
    stages = f", {len(place.stage_layers)} stages in turn" if len(place.stage_layers) > 1 else ""
    text = (
        f"a step reads {limit.step_bytes / GB:.1f} GB at {place.stage_bytes_per_s / GB:,.0f} GB/s "
        f"({card.name}{stages}): at most {_figure(limit.tokens_per_s)} tok/s with {requests:.0f} running"
    )
    return limit, text


@dataclass(frozen=True, slots=True)
class _Card:
    name: str
    bytes_per_s: float


def _card(evidence: ServerEvidence, cards: Sequence[GpuInfo]) -> _Card | _Unknown:
    """The fastest of the server's cards: a limit for all of them when they differ."""
    stated = evidence.stated.gpu_model
    names = {gpu.name for gpu in cards} or ({stated} if stated else set())
    if any(gpu.is_mig for gpu in cards):
        return _Unknown("the memory bandwidth of a slice of a card (MIG) is not known")
    if not names:
        return _Unknown("which cards it runs on is not known (--gpu-model NAME)")
    found = []
    for name in sorted(names):
        speed = bandwidth_bytes_per_s(name)
        if speed is None:
            return _Unknown(f"the memory bandwidth of {name[:60] or 'an unnamed card'} is not known (--gpu-model NAME)")
        found.append(_Card(name.removeprefix("NVIDIA "), speed))
    return max(found, key=lambda card: card.bytes_per_s)


def _placement(
    facts: Facts, kind: str, settings: Settings, shape: ModelShape, card_bytes_per_s: float
) -> Placement | _Unknown:
    """How the model lies on the cards. Where replicas share experts, they are taken as one that holds each byte once:
    that reads less than they do, so it stays a limit.
    """
    pp, tp, dp = facts.pp, facts.tp, facts.dp or 1
    if pp is None or tp is None:
        return _Unknown("over how many cards the model is spread is not known")
    split = facts.layer_split.layers(len(shape.layers), pp) if facts.layer_split else ()
    counts = split or _even(len(shape.layers), pp)
    if not counts:
        return _Unknown(f"{len(shape.layers)} layers do not fit {pp} stages: is it the model that is served?")
    is_inside = any(settings.flag(name) for name in _ATTENTION_REPLICAS) or (settings.number("attn_dp_size") or 1) > 1
    if is_inside:  # the replicas of attention lie within the tensor ranks
        return Placement(counts, tp * card_bytes_per_s)
    if dp > 1 and shape.experts and kind != "sglang":  # vLLM spreads experts over all replicas
        return Placement(counts, tp * dp * card_bytes_per_s)
    return Placement(counts, tp * card_bytes_per_s, dp)


def _even(layers: int, stages: int) -> tuple[int, ...]:
    """An even split, the last stages one more; () when there are fewer layers than stages."""
    if stages < 1 or layers < stages:
        return ()
    each, rest = divmod(layers, stages)
    return (*[each] * (stages - rest), *[each + 1] * rest)


def _tokens_per_step(evidence: ServerEvidence) -> float | None:
    """Tokens that a step brings one request: 1, or what speculation gets accepted; None when that is not known."""
    accepted = [e.accept_len for e in evidence.events if isinstance(e, DecodeStep) and e.accept_len]
    if accepted:
        return max(1.0, *accepted[-USAGE_LINES:])
    settings = evidence.server.settings
    return None if any(settings.get(name) not in (None, "", "null") for name in _SPECULATION) else 1.0


def _context_tokens(evidence: ServerEvidence, requests: float) -> float:
    """Tokens behind each running request, at least: the smallest use of the KV pool lately; 0 when it is not known."""
    pool = next(
        (e.max_total_tokens for e in reversed(evidence.events) if isinstance(e, PoolSized) and e.max_total_tokens), None
    )
    uses = [
        e.kv_usage_ratio
        for e in evidence.events
        if isinstance(e, DecodeStep | StatsLine) and e.kv_usage_ratio is not None
    ]
    replicas = evidence.facts.dp or 1
    return 0.0 if pool is None or not uses else min(uses[-USAGE_LINES:]) * pool * replicas / requests


def _cache_item_bytes(settings: Settings) -> float | None:
    """Bytes of a number in the KV cache as the server is told; None = as the model says."""
    said = str(settings.get("kv_cache_dtype") or "auto").lower()
    if "fp4" in said or "int4" in said:
        return 0.5
    return 1.0 if "8" in said else None


def _stored_share(settings: Settings, shape: ModelShape) -> float:
    """Share of the stored size that the weights have on the cards: less when the server quantises them as it loads."""
    said = settings.get("quantization")
    if said in (None, "", "null", "none") or shape.quantization is not None:
        return 1.0
    return 0.5 if "8" in str(said) else 0.25


def _scaled(shape: ModelShape, share: float) -> ModelShape:
    if share == 1.0:
        return shape
    layers = tuple(
        replace(layer, shared_bytes=share * layer.shared_bytes, expert_bytes=share * layer.expert_bytes)
        for layer in shape.layers
    )
    return replace(shape, layers=layers, head_bytes=share * shape.head_bytes)


def _figure(value: float) -> str:
    """Three digits: one request on a slow card gets `6.72`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _words(shape: ModelShape) -> str:
    """The model in one line."""
    experts = f", {shape.experts_per_token} of {shape.experts} experts a token" if shape.experts else ""
    how = "" if shape.basis is ShapeBasis.HEADERS else " by its dimensions"
    return (
        f"{shape.kind}: {len(shape.layers)} layers{experts}, {shape.weight_bytes / GB:.1f} GB of weights{how}, "
        f"{shape.active_bytes / GB:.1f} GB read a token"
    )
