"""How the simulated SGLang 0.5.10 was launched, and what it printed until it was ready.

Formats read in the wheel of 0.5.10: `entrypoints/engine.py` (server_args), `server_args.py` (pipeline warning,
defaults), `model_executor/model_runner.py` (weights, capture), `mem_cache/memory_pool.py` (KV),
`managers/scheduler.py` (sizing), `entrypoints/http_server.py` (ready), uvicorn's own lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from bubblewatch.sources.simulated_scenarios import Scenario

VERSION = "0.5.10"
PORT = 30000
MAIN_PID = 48121
UNIT = "sglang-k26.service"

KV_TOKENS = 409_600
"""Tokens of the KV pool: 3.5 GiB beside 64 GiB of weights on a 96 GB card, at 9 kB a token and stage."""

CAPTURE_SIZES = (1, 2, 4, 8, 12, *range(16, 257, 8))
"""Batch sizes that are captured by default, up to the most requests that may run (0.5.10, no speculation)."""

_CARD_GB, _WEIGHTS_GB, _KV_GB, _GRAPHS_GB = 94.25, 64.28, 3.51, 1.45


def argv(scenario: Scenario) -> tuple[str, ...]:
    """The command line of the main process."""
    words = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/Kimi-K2.6", "--trust-remote-code"]
    words += ["--pp-size", str(scenario.pp)] if scenario.pp > 1 else ["--tp-size", str(scenario.tp)]
    if not scenario.graphs:
        words.append("--disable-cuda-graph")
    if scenario.depth:
        words += ["--pp-async-batch-depth", str(scenario.depth)]
    if scenario.micro_batch is not None:
        words += ["--pp-max-micro-batch-size", str(scenario.micro_batch)]
    words += ["--max-running-requests", str(scenario.max_running), "--mem-fraction-static", "0.72"]
    return (*words, "--host", "0.0.0.0", "--port", str(PORT), *scenario.extra_args)  # noqa: S104 - text, nothing binds


def tags(scenario: Scenario) -> tuple[str, ...]:
    """Tag of each rank in its log prefix: an axis shows only when its size is above 1 (order since 0.5.6)."""
    axis = "PP" if scenario.pp > 1 else "TP"
    return tuple(f" {axis}{rank}" for rank in range(scenario.gpus))


def worker_titles(scenario: Scenario) -> tuple[str, ...]:
    """Process title of each rank's scheduler."""
    return tuple(f"sglang::scheduler_{tag.strip()}" for tag in tags(scenario))


def startup_lines(scenario: Scenario) -> Iterator[tuple[float, str, str]]:
    """Host time in seconds, tag and message of each line until ready; times follow `ready_s`."""
    ready_s = scenario.ready_s
    if scenario.pp > 1:
        yield 4.1, "", "Pipeline parallelism is incompatible with overlap schedule."
    yield 4.4, "", f"server_args={_server_args(scenario)}"
    for rank, tag in enumerate(tags(scenario)):
        late = 0.03 * rank
        for at_s, message in _rank_lines(scenario, is_first_of_stage=scenario.pp > 1 or rank == 0):
            yield at_s + late, tag, message
    yield ready_s - 6.0, "", f"INFO:     Started server process [{MAIN_PID}]"
    yield ready_s - 5.9, "", "INFO:     Waiting for application startup."
    yield ready_s - 5.6, "", "INFO:     Application startup complete."
    yield ready_s - 5.5, "", f"INFO:     Uvicorn running on http://0.0.0.0:{PORT} (Press CTRL+C to quit)"
    yield ready_s - 4.6, "", 'INFO:     127.0.0.1:41876 - "GET /model_info HTTP/1.1" 200 OK'
    for rank, tag in enumerate(tags(scenario)[: scenario.pp]):
        yield ready_s - 4.5 + 0.02 * rank, tag, _WARM_UP
    yield ready_s - 1.0, "", 'INFO:     127.0.0.1:41890 - "POST /generate HTTP/1.1" 200 OK'
    yield ready_s - 0.9, "", "The server is fired up and ready to roll!"


_WARM_UP = (
    "Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, "
    "cuda graph: False, input throughput (token/s): 0.00"
)


def _rank_lines(scenario: Scenario, *, is_first_of_stage: bool) -> Iterator[tuple[float, str]]:
    ready_s, free_gb = scenario.ready_s, _CARD_GB
    load_s = ready_s - 52.0
    yield 12.0, "Init torch distributed begin."
    yield 16.8, "Init torch distributed ends. elapsed=4.79 s, mem usage=0.72 GB"
    yield 17.0, f"Load weight begin. avail mem={free_gb:.2f} GB"
    free_gb -= _WEIGHTS_GB
    yield (
        17.0 + load_s,
        (
            f"Load weight end. elapsed={load_s:.2f} s, type=KimiK25ForConditionalGeneration, "
            f"quant=compressed-tensors, avail mem={free_gb:.2f} GB, mem usage={_WEIGHTS_GB:.2f} GB."
        ),
    )
    yield 17.4 + load_s, f"KV Cache is allocated. #tokens: {KV_TOKENS}, KV size: {_KV_GB:.2f} GB"
    free_gb -= _KV_GB
    yield 17.5 + load_s, f"Memory pool end. avail mem={free_gb:.2f} GB"
    if scenario.graphs:
        begin = "Capture cuda graph begin. This can take up to several minutes."
        yield 18.0 + load_s, f"{begin} avail mem={free_gb:.2f} GB"
        if is_first_of_stage:
            sizes = [size for size in CAPTURE_SIZES if size <= scenario.max_running]
            yield 18.1 + load_s, f"Capture cuda graph bs {sizes}"
        free_gb -= _GRAPHS_GB
        end = f"Capture cuda graph end. Time elapsed: 19.87 s. mem usage={_GRAPHS_GB:.2f} GB."
        yield 37.9 + load_s, f"{end} avail mem={free_gb:.2f} GB."
    if is_first_of_stage:
        yield (
            38.6 + load_s,
            (
                f"max_total_num_tokens={KV_TOKENS}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
                f"max_running_requests={scenario.max_running}, context_len=262144, available_gpu_mem={free_gb:.2f} GB"
            ),
        )


def _server_args(scenario: Scenario) -> str:
    """The repr of `ServerArgs` of 0.5.10 with the fields that bear on this launch, in its order, resolved."""
    pipelined = scenario.pp > 1
    sizes = [size for size in CAPTURE_SIZES if scenario.tp >= 4 or size <= 256]
    fields: dict[str, object] = {
        "model_path": "/models/Kimi-K2.6",
        "tokenizer_path": "/models/Kimi-K2.6",
        "tokenizer_mode": "auto",
        "skip_tokenizer_init": False,
        "load_format": "auto",
        "trust_remote_code": True,
        "context_length": None,
        "host": "0.0.0.0",  # noqa: S104 - text, nothing binds
        "port": PORT,
        "dtype": "auto",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.72,
        "max_running_requests": scenario.max_running,
        "max_queued_requests": None,
        "max_total_tokens": None,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "schedule_policy": "fcfs",
        "schedule_conservativeness": 1.0,
        "page_size": 1,
        "device": "cuda",
        "tp_size": scenario.tp,
        "pp_size": scenario.pp,
        "pp_max_micro_batch_size": scenario.micro_batch,
        "pp_async_batch_depth": scenario.depth,
        "stream_interval": 1,
        "random_seed": 481516234,
        "watchdog_timeout": _watchdog(scenario),
        "soft_watchdog_timeout": None,
        "base_gpu_id": 0,
        "gpu_id_step": 1,
        "sleep_on_idle": False,
        "log_level": "info",
        "enable_metrics": "--enable-metrics" in scenario.extra_args,
        "decode_log_interval": 40,
        "api_key": None,
        "served_model_name": "/models/Kimi-K2.6",
        "dp_size": 1,
        "load_balance_method": "round_robin",
        "dist_init_addr": None,
        "nnodes": 1,
        "node_rank": 0,
        "attention_backend": "triton",
        "sampling_backend": "flashinfer",
        "speculative_algorithm": None,
        "ep_size": 1,
        "moe_runner_backend": "auto",
        "cpu_offload_gb": 0,
        "disable_radix_cache": False,
        "cuda_graph_max_bs": max(sizes),
        "cuda_graph_bs": sizes,
        "disable_cuda_graph": not scenario.graphs,
        "disable_cuda_graph_padding": False,
        "disable_overlap_schedule": pipelined,
        "enable_mixed_chunk": False,
        "enable_dp_attention": False,
        "disable_piecewise_cuda_graph": pipelined,
        "num_continuous_decode_steps": 1,
        "disaggregation_mode": "null",
    }
    return f"ServerArgs({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def _watchdog(scenario: Scenario) -> float:
    args = scenario.extra_args
    return float(args[args.index("--watchdog-timeout") + 1]) if "--watchdog-timeout" in args else 300
