"""Facts that bear on speed beside stages and graphs: speculation, offload, limits, backends."""

from __future__ import annotations

import pytest

from bubblewatch.model.logs import LogLine, PoolSized
from bubblewatch.model.server import Launch
from bubblewatch.servers.base import NO_SPECULATION, Facts
from bubblewatch.servers.registry import by_name


def facts(name: str, options: str, version: str | None = None, env: dict[str, str] | None = None) -> Facts:
    kind = by_name(name)
    assert kind is not None
    start = {"sglang": "python -m sglang.launch_server --model-path m", "vllm": "vllm serve m"}[name]
    found = kind.settings(Launch((*start.split(), *options.split()), env or {}), version)
    return kind.facts(found, version)


def test_sglang_defaults_are_known() -> None:
    found = facts("sglang", "", "0.5.10")
    assert (found.speculative, found.cpu_offload, found.custom_all_reduce) == (NO_SPECULATION, False, True)
    assert (found.mixes_prefill, found.dp_attention, found.nodes, found.attention_backend) == (False, False, 1, None)
    assert found.model == "m"


def test_sglang_as_set() -> None:
    found = facts(
        "sglang",
        "--speculative-algorithm EAGLE --speculative-num-draft-tokens 4 --cpu-offload-gb 20 "
        "--disable-custom-all-reduce "
        "--enable-mixed-chunk --chunked-prefill-size 4096 --mem-fraction-static 0.8 --attention-backend triton "
        "--decode-attention-backend flashinfer --kv-cache-dtype fp8_e4m3 --quantization fp8 --log-level warning --ep 8",
        "0.5.10",
    )
    assert (found.speculative, found.draft_tokens, found.max_running) == ("EAGLE", 4, 48)
    assert (found.cpu_offload, found.cpu_offload_gib) == (True, 20.0)
    assert found.cpu_offload_setting is not None
    assert found.cpu_offload_setting.evidence == "--cpu-offload-gb 20"
    assert (found.custom_all_reduce, found.mixes_prefill, found.max_batched_tokens) == (False, False, 4096)
    assert (found.attention_backend, found.kv_cache_dtype, found.quantization) == ("flashinfer", "fp8_e4m3", "fp8")
    assert (found.gpu_memory_ratio, found.log_stats, found.ep) == (0.8, False, 8)


def test_sglang_experts_on_the_cpu_and_a_chunk_that_is_switched_off() -> None:
    found = facts("sglang", "--kt-weight-path w --kt-cpuinfer 32 --chunked-prefill-size -1", "0.5.10")
    assert found.cpu_offload is True
    assert found.cpu_offload_reason.startswith("routed experts run on the CPU")
    assert found.max_batched_tokens is None


def test_what_the_server_computed_stands_above_what_was_asked() -> None:
    kind = by_name("sglang")
    assert kind is not None
    asked = kind.settings(Launch(("sglang", "serve", "m", "--chunked-prefill-size", "8192")), "0.5.10")
    text = "max_total_num_tokens=1000, chunked_prefill_size=2048, max_running_requests=16, context_len=9"
    (pool,) = kind.parse(LogLine(f"[2025-06-16 20:11:47 PP2] {text}"))
    assert isinstance(pool, PoolSized)
    found = kind.facts(asked, "0.5.10", pool=pool)
    assert (found.max_batched_tokens, found.max_running) == (2048, 16)


@pytest.mark.parametrize(
    ("version", "options", "gib", "batch"),
    [
        ("0.5.10", "", 31.8, 24),
        ("0.5.10", "--tp 8", 31.8, 80),
        ("0.5.23", "", 31.8, 48),
        (None, "", 31.8, 48),
        ("0.5.2", "", 31.8, 8),
        ("0.5.10", "", 79.6, 256),
        ("0.5.10", "--tp 8", 139.8, 512),
        ("0.5.10", "", 15.9, 8),
        ("0.5.2", "--tp 8", 139.8, 256),
    ],
)
def test_the_largest_graph_by_default_comes_from_the_memory_of_one_gpu(
    version: str | None, options: str, gib: float, batch: int
) -> None:
    pairs = facts("sglang", options, version).graph_batch_by_memory
    assert next(size for below, size in pairs if gib < below) == batch
    assert [below for below, _ in pairs] == sorted(below for below, _ in pairs)


@pytest.mark.parametrize(
    ("options", "method", "tokens"),
    [
        ("", NO_SPECULATION, None),
        ("""--speculative-config {"method":"eagle","num_speculative_tokens":5}""", "eagle", 5),
        ("""--speculative-config {"model":"d","num_speculative_tokens":3}""", "draft", 3),
        ("--speculative-model d --num-speculative-tokens 5", "d", 5),
        ("--speculative-config not-json", "set", None),
    ],
)
def test_vllm_speculation(options: str, method: str, tokens: int | None) -> None:
    found = facts("vllm", options)
    assert (found.speculative, found.draft_tokens) == (method, tokens)


def test_vllm_as_set() -> None:
    found = facts(
        "vllm",
        "--cpu-offload-gb 35 --disable-custom-all-reduce --max-num-batched-tokens 8k --max-model-len 32k "
        "--gpu-memory-utilization 0.62 --kv-cache-dtype fp8 --quantization awq --disable-log-stats "
        "--distributed-executor-backend ray --nnodes 2",
        env={"VLLM_ATTENTION_BACKEND": "XFORMERS"},
    )
    assert (found.cpu_offload, found.cpu_offload_gib, found.custom_all_reduce) == (True, 35.0, False)
    assert (found.max_batched_tokens, found.max_model_len, found.gpu_memory_ratio) == (8000, 32000, 0.62)
    assert (found.kv_cache_dtype, found.quantization, found.log_stats) == ("fp8", "awq", False)
    assert (found.executor, found.nodes, found.attention_backend) == ("ray", 2, "XFORMERS")
    assert facts("vllm", "").cpu_offload is False
    assert facts("vllm", "--config unread.yaml").cpu_offload is None


@pytest.mark.parametrize(
    ("options", "version", "mixes"),
    [
        ("", "0.11.0", True),
        ("--no-enable-chunked-prefill", "0.11.0", False),
        ("", "0.6.3", None),
        ("--enable-chunked-prefill", "0.6.3", True),
        ("--enable-chunked-prefill False", "0.6.3", False),
    ],
)
def test_vllm_mixes_prompts_and_decodes_by_version(options: str, version: str, mixes: bool | None) -> None:
    assert facts("vllm", options, version).mixes_prefill is mixes
