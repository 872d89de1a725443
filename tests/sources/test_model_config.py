"""Dimensions and sizes of published models, by their config.json alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.shape import ModelShape
from bubblewatch.sources.model_config import AttentionKind, ConfigProblem, model_config
from bubblewatch.sources.model_quantization import Part, quantization_of
from bubblewatch.sources.model_weights import Place, place_of, shape_from_dimensions

MLA = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
DEEPSEEK = {
    **MLA, "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280,
}  # fmt: skip
KIMI = {
    **DEEPSEEK, "model_type": "kimi_k2", "num_attention_heads": 64, "n_routed_experts": 384,
    "first_k_dense_replace": 1, "vocab_size": 163840,
}  # fmt: skip
LLAMA_70B = {
    "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
}  # fmt: skip
QWEN_30B = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "vocab_size": 151936,
    "use_sliding_window": False, "sliding_window": 4096,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
    "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "sliding_window": None,
}  # fmt: skip
GLM_AIR = {
    "model_type": "glm4_moe", "num_hidden_layers": 46, "hidden_size": 4096, "num_attention_heads": 96,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "vocab_size": 151552,
}  # fmt: skip
QWEN_NEXT = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10, "decoder_sparse_step": 1,
    "full_attention_interval": 4, "vocab_size": 151936, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128,
}  # fmt: skip
SCOUT = {
    "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048,
}  # fmt: skip
GEMMA_27B = {
    "model_type": "gemma3_text", "num_hidden_layers": 62, "hidden_size": 5376, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
    "sliding_window": 1024, "sliding_window_pattern": 6,
}  # fmt: skip


def sized(config: dict[str, Any]) -> ModelShape:
    return shape_from_dimensions(model_config(config), "config.json")


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [
        (LLAMA_70B, 70.6, 69.5),
        (QWEN_30B, 30.5, 3.0),
        (DEEPSEEK, 671, 36.6),
        (KIMI, 1026, 31.7),
        (GPT_OSS, 116.8, 5.1),
        (MIXTRAL, 46.7, 12.7),
        (GLM_AIR, 106.8, 12.8),
        (QWEN_NEXT, 79.6, 3.5),
        (SCOUT, 107.8, 16.1),
        (GEMMA_27B, 27.0, 27.0),
    ],
    ids=lambda value: str(value.get("model_type")) if isinstance(value, dict) else "",
)
def test_parameters_are_those_of_the_model_card(config: dict[str, Any], billions: float, active: float) -> None:
    """Two bytes each. The cards say 70.6, 30.5 (3.3 with embeddings), 671 (37), 1000 (32), 117 (5.1), 46.7 (12.9),
    106 (12), 80 (3), 109 (17) with its tower, 27.
    """
    shape = sized(config)
    assert shape.weight_bytes / 2e9 == pytest.approx(billions, rel=0.01)
    assert shape.active_bytes / 2e9 == pytest.approx(active, rel=0.02)


def test_latent_attention_keeps_576_numbers_a_token_and_layer() -> None:
    """vLLM and SGLang print 68.6 KB a token for DeepSeek V3 in 16 bit: 61 x 576 x 2."""
    assert sized(DEEPSEEK).kv_token_bytes == 61 * 576 * 2


def test_grouped_heads_keep_what_their_number_says() -> None:
    assert sized(LLAMA_70B).kv_token_bytes == 80 * 2 * 8 * 128 * 2


def test_layers_that_keep_little_read_little() -> None:
    assert [layer.window_tokens for layer in sized(GPT_OSS).layers[:2]] == [128, None]
    assert [layer.window_tokens for layer in sized(GEMMA_27B).layers[4:6]] == [1024, None]
    assert all(layer.window_tokens is None for layer in sized(QWEN_30B).layers)
    assert [layer.kv_values for layer in sized(QWEN_NEXT).layers[:4]] == [0, 0, 0, 2 * 2 * 256]
    assert {layer.window_tokens for layer in sized({**DEEPSEEK, "index_topk": 2048}).layers} == {2048}


def test_first_layers_are_dense_where_it_says_so() -> None:
    shape = sized(KIMI)
    assert [layer.expert_bytes > 0 for layer in shape.layers[:3]] == [False, True, True]


@pytest.mark.parametrize(
    ("keys", "layers"),
    [
        ({"decoder_sparse_step": 2}, {1, 3}),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 2]}, {1, 3}),
        ({"interleave_moe_layer_step": 2}, {1, 3}),
        ({"moe_layer_freq": 2}, {0, 2}),
        ({"moe_layer_freq": [0, 1, 1, 0]}, {1, 2}),
        ({"moe_layers": [3]}, {3}),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}, {1, 2, 3}),
        ({"first_k_dense_replace": 3}, {3}),
        ({}, {0, 1, 2, 3}),
    ],
)
def test_which_layers_have_experts(keys: dict[str, Any], layers: set[int]) -> None:
    base = {**MIXTRAL, "num_hidden_layers": 4}
    assert model_config({**base, **keys}).moe_layers == layers


def test_a_model_that_also_sees_is_read_by_its_text_part() -> None:
    config = {"model_type": "kimi_k25", "text_config": KIMI, "vision_config": {"num_hidden_layers": 27}}
    assert model_config(config).layers == 61
    nested = {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": QWEN_30B}, "talker_config": {}}
    assert model_config(nested).experts == 128


KIMI_INT4 = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "type": "int"}}},
    "ignore": [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
    ],
}


def test_kimi_k26_in_four_bit_is_what_the_hub_shows() -> None:
    """595 GB on the hub: experts in 4 bit with 16-bit scales, the rest in 16 bit."""
    shape = sized({"model_type": "kimi_k25", "text_config": {**KIMI, "quantization_config": KIMI_INT4}})
    assert shape.weight_bytes / 1e9 == pytest.approx(595, rel=0.01)
    assert shape.active_bytes / 1e9 == pytest.approx(33, rel=0.02)
    assert shape.quantization == "compressed-tensors"


@pytest.mark.parametrize(
    ("said", "item_bytes"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.515625),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1.0),
        ({"quant_method": "mxfp4"}, 0.53125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5),
        (
            {"quant_method": "compressed-tensors",
             "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 16, "type": "float"}}}},
            0.5625,
        ),
        ({"quant_method": "quark"}, None),
        ({"quant_method": "compressed-tensors"}, None),
    ],
)  # fmt: skip
def test_bytes_of_a_weight_by_method(said: dict[str, Any], item_bytes: float | None) -> None:
    assert quantization_of({"quantization_config": said}).item_bytes == item_bytes


def test_modelopts_own_file_says_more() -> None:
    file = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["*self_attn*"]}}
    said = quantization_of({}, file)
    assert (said.item_bytes, said.kv_item_bytes) == (0.5625, 1.0)
    assert said.bytes_of(Part.ATTENTION, 3) == 2.0
    assert said.bytes_of(Part.EXPERTS, 3) == 0.5625


def test_a_module_left_alone_in_one_layer_stays_wide_there_only() -> None:
    said = quantization_of(
        {"quantization_config": {"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.down_proj"]}}
    )
    assert (said.bytes_of(Part.DENSE, 0), said.bytes_of(Part.DENSE, 1)) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_hidden_layers": None}, "number of layers"),
        ({"num_hidden_layers": 10_000}, "claims 10000 layers"),
        ({"hidden_size": -1}, "hidden size"),
        ({"num_attention_heads": "64"}, "attention heads"),
        ({"vocab_size": None}, "vocabulary"),
        ({"quantization_config": {"quant_method": "quark"}}, "quantised by quark"),
        ({"mamba_d_state": 128}, "needs its weight files"),
        ({"num_local_experts": 8, "num_experts_per_tok": None}, "experts a token takes"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigProblem, match=words):
        sized({**MIXTRAL, **change})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
odd_keys = st.sampled_from(sorted({*DEEPSEEK, *GPT_OSS, *QWEN_NEXT, *SCOUT, "quantization_config", "text_config",
                                   "mlp_only_layers", "moe_layers", "index_topk", "tie_word_embeddings"}))  # fmt: skip


@given(st.dictionaries(odd_keys, json_values, max_size=6), st.sampled_from([DEEPSEEK, GPT_OSS, QWEN_NEXT, MIXTRAL]))
def test_a_configuration_with_anything_in_it_gives_a_shape_or_one_problem(
    odd: dict[str, Any], base: dict[str, Any]
) -> None:
    try:
        shape = sized({**base, **odd})
    except ConfigProblem:
        return
    assert shape.active_bytes > 0
    assert shape.kv_token_bytes >= 0
    assert shape.experts_per_token <= shape.experts


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.layers.3.mlp.up_proj.weight", 3),
        ("language_model.model.layers.0.self_attn.q_proj.weight_packed", 0),
        ("transformer.h.2.attn.c_attn.weight", 2),
        ("layers.1.attention.wq.weight", 1),
        ("model.layers.8.eh_proj.weight", Place.OTHER),
        ("vision_tower.encoder.blocks.3.mlp.fc0.weight", Place.OTHER),
        ("visual.blocks.0.attn.qkv.weight", Place.OTHER),
        ("lm_head.weight", Place.HEAD),
        ("output.weight", Place.HEAD),
        ("model.embed_tokens.weight", Place.EMBEDDING),
        ("tok_embeddings.weight", Place.EMBEDDING),
        ("model.norm.weight", Place.OTHER),
    ],
)
def test_where_a_tensor_belongs(name: str, place: int | Place) -> None:
    assert place_of(name, 8) == place


def test_attention_words_of_layer_types() -> None:
    kinds = ["full_attention", "sliding_attention", "chunked_attention", "linear_attention"]
    config = model_config({**MIXTRAL, "num_hidden_layers": 4, "layer_types": kinds, "sliding_window": 8})
    assert config.attention == (AttentionKind.FULL, AttentionKind.WINDOW, AttentionKind.WINDOW, AttentionKind.NONE)
