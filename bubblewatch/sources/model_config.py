"""A model's dimensions from Hugging Face's config.json, by the names that model families use for them.

Families that were thought of: llama, mistral, mixtral, qwen2 to qwen3 with their mixtures, qwen3_next, deepseek v2 to
v3.2, kimi k2, glm4_moe, gpt_oss, gemma2, gemma3, llama4, minimax, phi3; the others by the same names. Which layers have
experts: (i + 1) % decoder_sparse_step (Qwen), i % moe_layer_freq from first_k_dense_replace on (DeepSeek), and
configuration_llama4.py of transformers at 008e574.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bubblewatch.sources.model_quantization import Quantization, quantization_of

MAX_LAYERS = 2_000
MAX_NUMBER = 100_000_000
"""Bounds on what a file may claim: larger than any model has."""


class ConfigProblem(ValueError):
    """The configuration lacks a dimension or contradicts itself; the message is the end of a sentence."""


class AttentionKind(StrEnum):
    """What a layer keeps of earlier tokens."""

    FULL = "full"
    WINDOW = "window"
    NONE = "none"
    """A state of fixed size (linear attention, Mamba) instead of a cache that grows."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Dimensions of multi-head latent attention (DeepSeek); `query_rank` None = queries are not compressed."""

    kv_rank: int
    rope: int
    nope: int
    value: int
    query_rank: int | None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Dimensions of the language part of a model.

    `attention` has one entry a layer, `moe_layers` are the layers with routed experts. `dense_width`, `expert_width`,
    `shared_width` are the inner widths of the three kinds of feed-forward blocks. `window` is the length of sliding or
    sparse attention. `is_countable`: the sizes of the weights follow from these numbers.
    """

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    dense_width: int
    attention: tuple[AttentionKind, ...]
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    shared_width: int = 0
    moe_layers: frozenset[int] = frozenset()
    window: int | None = None
    latent: Latent | None = None
    linear_width: int = 0
    matrices: int = 3
    is_tied: bool = False
    is_countable: bool = True
    quantization: Quantization = field(default_factory=Quantization)


_TWO_MATRICES = frozenset(
    {
        "gpt2",
        "gpt_neox",
        "gpt_bigcode",
        "gptj",
        "opt",
        "bloom",
        "falcon",
        "mpt",
        "phi",
        "starcoder2",
        "nemotron",
        "codegen",
    }
)
"""Families whose feed-forward block has no gate: two matrices instead of three."""

_STATE_MARKS = ("hybrid_override_pattern", "attn_layer_period", "ssm_cfg", "mamba_d_state", "mamba_d_ssm",
                "ssm_state_size", "linear_attn_config", "state_size")  # fmt: skip
"""Keys of models with Mamba or linear layers whose weights are not counted here."""


class _Reader:
    """Numbers of one configuration by the first name that is there."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def number(self, *names: str) -> int | None:
        """The first of these that is a positive whole number."""
        for name in names:
            value = self.values.get(name)
            if type(value) is int and 0 < value <= MAX_NUMBER:
                return value
        return None

    def needed(self, what: str, *names: str) -> int:
        value = self.number(*names)
        if value is None:
            raise ConfigProblem(f"does not say the {what} ({names[0]})")
        return value

    def list_of(self, name: str) -> Sequence[object]:
        value = self.values.get(name)
        return value if isinstance(value, list) else ()


def language_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """The configuration of the language model inside one that also sees or hears (`text_config` and its like)."""
    for name in ("thinker_config", "text_config", "llm_config", "language_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping) and ("num_hidden_layers" in inner or "text_config" in inner):
            return language_part(inner)
    return config


def model_config(config: Mapping[str, object], modelopt: Mapping[str, object] | None = None) -> ModelConfig:
    """The dimensions that these files give. Raises ConfigProblem when a needed one is missing or absurd."""
    part = language_part(config)
    read = _Reader(part)
    layers = read.needed("number of layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > MAX_LAYERS:
        raise ConfigProblem(f"claims {layers} layers")
    hidden = read.needed("hidden size", "hidden_size", "n_embd", "d_model", "dim")
    heads = read.needed("number of attention heads", "num_attention_heads", "n_head", "n_heads", "num_heads")
    kind = str(part.get("model_type") or config.get("model_type") or "unknown")[:40]
    experts = read.number("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts") or 0
    dense_width = read.number("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner") or 4 * hidden
    expert_width = read.number("moe_intermediate_size", "expert_intermediate_size") or dense_width
    quantized = part if part.get("quantization_config") else config
    return ModelConfig(
        kind=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(read, heads),
        head_dim=read.number("head_dim", "kv_channels") or max(hidden // heads, 1),
        vocab=read.number("vocab_size", "padded_vocab_size", "n_vocab") or 0,
        dense_width=read.number("intermediate_size_mlp") or dense_width,
        attention=_attention(read, layers),
        experts=experts if experts > 1 else 0,
        experts_per_token=_per_token(read, experts),
        expert_width=expert_width,
        shared_width=_shared_width(read, expert_width, kind),
        moe_layers=_moe_layers(read, layers) if experts > 1 else frozenset(),
        window=_window(read),
        latent=_latent(read),
        linear_width=_linear_width(read),
        matrices=2 if kind in _TWO_MATRICES else 3,
        is_tied=_is_tied(part, config, kind),
        is_countable=not any(part.get(mark) for mark in _STATE_MARKS),
        quantization=quantization_of(quantized, modelopt),
    )


def _kv_heads(read: _Reader, heads: int) -> int:
    if read.values.get("multi_query") is True:
        return 1
    found = read.number("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num") or heads
    return min(found, heads)


def _per_token(read: _Reader, experts: int) -> int:
    if experts <= 1:
        return 0
    names = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts", "moe_k",
             "experts_per_token")  # fmt: skip
    return min(read.needed("number of experts a token takes", *names), experts)


def _shared_width(read: _Reader, expert_width: int, kind: str) -> int:
    """Inner width of the experts that every token takes, 0 without such."""
    stated = read.number("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    count = read.number("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    if kind.startswith("llama4"):
        count = 1  # transformers 4.57 modeling_llama4.py: always one, no key for it
    return stated or (count or 0) * expert_width


def _moe_layers(read: _Reader, layers: int) -> frozenset[int]:
    """Layers with routed experts: all, less those that one of five ways of saying so takes out."""
    kinds = read.list_of("mlp_layer_types")
    if len(kinds) == layers:
        return frozenset(i for i, kind in enumerate(kinds) if kind != "dense")
    listed = read.list_of("moe_layers")
    if listed:
        return frozenset(i for i in listed if isinstance(i, int) and 0 <= i < layers)
    frequency = read.values.get("moe_layer_freq")
    if isinstance(frequency, list) and len(frequency) == layers:
        return frozenset(i for i, one in enumerate(frequency) if one)
    every = read.number("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval") or 1
    first = read.number("first_k_dense_replace", "moe_layer_start_index") or 0
    dense = {i for i in read.list_of("mlp_only_layers") if isinstance(i, int)}
    # DeepSeek counts from layer 0, Qwen and Llama 4 from 1; with a step of 1 both say every layer.
    offset = 0 if read.number("moe_layer_freq") else 1
    return frozenset(i for i in range(first, layers) if (i + offset) % every == 0 and i not in dense)


def _attention(read: _Reader, layers: int) -> tuple[AttentionKind, ...]:
    kinds = read.list_of("layer_types")
    if len(kinds) == layers:
        return tuple(_kind_of(str(kind)) for kind in kinds)
    kinds = read.list_of("attn_type_list")  # minimax: 1 is full attention, 0 is linear
    if len(kinds) == layers:
        return tuple(AttentionKind.FULL if kind == 1 else AttentionKind.NONE for kind in kinds)
    every = read.number("full_attention_interval")  # qwen3_next
    if every is not None:
        return tuple(AttentionKind.FULL if (i + 1) % every == 0 else AttentionKind.NONE for i in range(layers))
    if any(read.values.get(mark) for mark in _STATE_MARKS):
        return (AttentionKind.NONE,) * layers
    if _window(read) is None:
        return (AttentionKind.FULL,) * layers
    if read.number("index_topk"):
        return (AttentionKind.WINDOW,) * layers
    pattern = read.number("sliding_window_pattern", "_sliding_window_pattern")  # gemma3: every sixth layer is full
    if pattern is not None:
        return tuple(AttentionKind.FULL if (i + 1) % pattern == 0 else AttentionKind.WINDOW for i in range(layers))
    return (AttentionKind.WINDOW,) * layers


def _kind_of(word: str) -> AttentionKind:
    if word in {"full_attention", "attention"}:
        return AttentionKind.FULL
    return AttentionKind.WINDOW if "sliding" in word or "chunked" in word else AttentionKind.NONE


def _window(read: _Reader) -> int | None:
    """Tokens that windowed layers look back: of sparse attention (DeepSeek V3.2), sliding, or chunked (Llama 4)."""
    if (sparse := read.number("index_topk")) is not None:
        return sparse
    if read.values.get("use_sliding_window") is False:
        return None
    return read.number("sliding_window", "attention_chunk_size")


def _latent(read: _Reader) -> Latent | None:
    rank = read.number("kv_lora_rank")
    if rank is None:
        return None
    return Latent(
        kv_rank=rank,
        rope=read.needed("rotary part of a head", "qk_rope_head_dim"),
        nope=read.number("qk_nope_head_dim") or 0,
        value=read.number("v_head_dim") or 0,
        query_rank=read.number("q_lora_rank"),
    )


def _linear_width(read: _Reader) -> int:
    """Queries, keys, values, gate and output of gated delta attention (transformers 4.57 modeling_qwen3_next.py)."""
    keys = (read.number("linear_num_key_heads") or 0) * (read.number("linear_key_head_dim") or 0)
    values = (read.number("linear_num_value_heads") or 0) * (read.number("linear_value_head_dim") or 0)
    return 2 * keys + 3 * values


def _is_tied(part: Mapping[str, object], config: Mapping[str, object], kind: str) -> bool:
    for values in (part, config):
        if isinstance(values.get("tie_word_embeddings"), bool):
            return values["tie_word_embeddings"] is True
    return kind.startswith(("gemma", "gpt2"))
