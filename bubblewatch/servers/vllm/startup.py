"""The lines that vLLM writes once, while it starts: what each looks like, with an example, and what it means."""

from __future__ import annotations

import re

from bubblewatch.model.logs import NoteKind
from bubblewatch.servers.patterns import Pattern, version
from bubblewatch.servers.vllm import lines
from bubblewatch.servers.vllm.engine_args import engine_line, nondefault_line

_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"
_CONCURRENCY = rf"Maximum concurrency for (?P<context>[\d,]{{1,14}}) tokens per request: (?P<concurrency>{_NUMBER})x"

STARTUP: tuple[Pattern, ...] = (
    Pattern(
        "version",
        "version ",
        # The newest ones print a logo of blocks instead, with the version beside it.
        re.compile(r"(?:^vLLM (?:API )?server|[█▄▀]\s{1,8})\s?version (?P<version>\d[\w.+-]{0,60})"),
        version,
        "INFO 05-16 13:11:58 [api_server.py:1043] vLLM API server version 0.8.5.post1",
        "0.8.5",
        telling=True,
    ),
    Pattern(
        "non-default-args",
        "args: ",
        re.compile(r"^(?:non-default )?args: (?P<body>(?:Namespace\(|\{).*)$"),
        nondefault_line,
        "(APIServer pid=1) INFO 10-22 09:31:02 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', "
        "'tensor_parallel_size': 2, 'enforce_eager': True, 'max_num_seqs': 64}",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "engine",
        "LLM engine (v",
        re.compile(
            r"Initializing an? (?:V[01] )?LLM engine \(v?(?P<version>[^)\s]{1,60})\) with config: (?P<config>.*)$"
        ),
        engine_line,
        "INFO 02-02 11:50:02 llm_engine.py:232] Initializing a V0 LLM engine (v0.7.1) with config: model='m', "
        "tensor_parallel_size=2, pipeline_parallel_size=1, disable_custom_all_reduce=False, enforce_eager=True, "
        "kv_cache_dtype=auto",
        "0.7.1",
        telling=True,
    ),
    Pattern(
        "eager",
        "",
        re.compile(
            r"^(?:Cudagraph is disabled under eager mode|Enforce eager set, [^\n]{1,120}"
            r"|Skipping CUDA graph capture[^\n]{0,160}"
            r"|To see benefits of async output processing, enable CUDA graph[^\n]{0,80}"
            r"|Data Parallel: Forcing enforce eager[^\n]{0,120})"
        ),
        lines.eager,
        "(APIServer pid=1) INFO 10-22 09:31:03 [__init__.py:381] Cudagraph is disabled under eager mode",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "graph-downgrade",
        "setting cudagraph_mode=",
        re.compile(
            r"CUDAGraphMode\.\w{1,24} is not supported [^;\n]{0,300}; "
            r"setting cudagraph_mode=(?:CUDAGraphMode\.)?(?P<to>\w{1,24})"
        ),
        lines.downgraded,
        "(Worker_TP0 pid=310) WARNING 02-11 08:12:40 [gpu_model_runner.py:4211] CUDAGraphMode.FULL_AND_PIECEWISE is "
        "not supported with FlashInferBackend backend (support: NEVER); setting cudagraph_mode=PIECEWISE",
        "0.14.0 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "graph-end",
        "Graph capturing finished",
        re.compile(r"^Graph capturing finished in (?P<seconds>\d{1,6}) secs?"),
        lines.captured,
        "(Worker_TP0 pid=78022) INFO 10-22 09:33:55 [gpu_model_runner.py:3480] Graph capturing finished in 6 secs, "
        "took 0.61 GiB",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "graph-begin",
        "apturing",
        re.compile(r"^(?:Capturing CUDA graphs? [^\n]{0,60}|Capturing the model for CUDA graphs)"),
        lines.capturing,
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 67/67 [00:05<00:00, 11.74it/s]",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "async",
        "sync",
        re.compile(
            r"^(?:Asynchronous scheduling is (?P<state>enabled|disabled)\."
            r"|Async scheduling [^\n]{0,160}(?:will be disabled|is disabled)[^\n]{0,160})"
        ),
        lines.async_state,
        "(APIServer pid=1) WARNING 02-11 08:11:59 [vllm.py:680] Async scheduling is not yet supported with "
        "pipeline_parallel_size > 1 and will be disabled.",
        "0.14.0 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "loading",
        "",
        re.compile(
            r"^(?:Starting to load model |Loading model from scratch|Loading weights took |Loading safetensors "
            r"|Waiting for \d{1,4} core engine proc|torch\.compile (?:takes|took) |Dynamo bytecode transform time"
            r"|Compiling a graph for |Model loading took |Initial profiling/warmup run took )"
            r"[^\n]{0,60}"
        ),
        lines.starting,
        "DEBUG 05-16 13:12:16 [core_client.py:425] Waiting for 1 core engine proc(s) to start: {0}",
        "0.8.5",
        telling=True,
    ),
    Pattern(
        "kv-pool",
        "KV cache size: ",
        re.compile(
            rf"\b[A-Z]{{2,8}}(?: \+ host)? KV cache size: (?P<tokens>[\d,]{{1,16}}) tokens(?:, {_CONCURRENCY})?"
        ),
        lines.pool,
        "(EngineCore_DP0 pid=77352) INFO 10-22 09:33:49 [kv_cache_utils.py:1087] GPU KV cache size: 162,704 tokens",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "kv-concurrency",
        "Maximum concurrency for ",
        re.compile(_CONCURRENCY),
        lines.pool,
        "(EngineCore_DP0 pid=77352) INFO 10-22 09:33:49 [kv_cache_utils.py:1091] Maximum concurrency for 16,000 tokens "
        "per request: 10.17x",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "kv-memory",
        "KV cache memory: ",
        re.compile(r"^Available KV cache memory: (?P<gib>\d{1,6}(?:\.\d{1,4})?) GiB"),
        lines.pool_memory,
        "(EngineCore pid=29723) INFO 06-23 10:27:28 [gpu_worker.py:440] Available KV cache memory: 5.16 GiB",
        "0.20",
        telling=True,
    ),
    Pattern(
        "kv-blocks",
        "# GPU blocks: ",
        re.compile(r"# GPU blocks: (?P<blocks>\d{1,12})(?:, # CPU blocks: \d{1,12})?"),
        lines.pool_blocks,
        "INFO 08-22 15:27:25 llm_engine.py:196] # GPU blocks: 865, # CPU blocks: 327",
        "0.1",
        telling=True,
    ),
    Pattern(
        "kv-waste",
        "padding layers",
        re.compile(r"^Add \d{1,4} padding layers, may waste at most \d{1,3}\.\d{1,2}% KV cache memory"),
        lines.note(NoteKind.KV_WASTE),
        "(EngineCore pid=29723) WARNING 06-23 10:27:23 [kv_cache_utils.py:1152] Add 6 padding layers, may waste at "
        "most 60.00% KV cache memory",
        "0.20",
        telling=True,
    ),
    Pattern(
        "offloaded",
        "CPU offloaded",
        re.compile(r"^Total CPU offloaded parameters: (?P<gib>\d{1,6}(?:\.\d{1,4})?)"),
        lines.offloaded,
        "INFO 09-12 10:20:01 [uva.py:65] Total CPU offloaded parameters: 24.28",
        "0.28",
        telling=True,
    ),
    Pattern(
        "token-budget",
        "max_num_batched_tokens=",
        re.compile(r"^Chunked prefill is enabled with max_num_batched_tokens=(?P<value>\d{1,9})"),
        lines.setting_seen("max_num_batched_tokens"),
        "INFO 07-15 04:26:01 [config.py:2285] Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "0.9.2",
        telling=True,
    ),
    Pattern(
        "batch-queue",
        "Batch queue is enabled",
        re.compile(r"^Batch queue is enabled with size (?P<value>\d{1,4})"),
        lines.setting_seen("batch_queue_size"),
        "INFO 07-15 04:26:20 [core.py:149] Batch queue is enabled with size 4",
        "0.9.2 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "nccl-version",
        "is using nccl",
        re.compile(r"^vLLM is using nccl==(?P<value>\d[\d.]{1,20})"),
        lines.setting_seen("nccl_version"),
        "(VllmWorkerProcess pid=181) INFO 03-19 08:09:02 pynccl.py:69] vLLM is using nccl==2.25.1",
        "0.7.3",
        telling=True,
    ),
    Pattern(
        "uneven-layers",
        "unevenly partitioned",
        re.compile(r"Hidden layers were unevenly partitioned: \[(?P<layers>\d{1,4}(?:, ?\d{1,4}){0,127})\]"),
        lines.uneven,
        "(Worker_PP0 pid=310) INFO 10-22 09:31:30 [utils.py:126] Hidden layers were unevenly partitioned: "
        "[15,15,16,15]. This can be manually overridden using the VLLM_PP_LAYER_PARTITION environment variable",
        "0.11 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "host-threads",
        "Torch parallelism",
        re.compile(r"^Reducing Torch parallelism from \d{1,5} threads"),
        lines.note(NoteKind.HOST_THREADS_REDUCED),
        "(EngineCore pid=500) WARNING 03-23 22:46:24 [multiproc_executor.py:1014] Reducing Torch parallelism from 32 "
        "threads to 1 to avoid unnecessary CPU contention. Set OMP_NUM_THREADS in the external environment to tune "
        "this value as needed.",
        "0.18",
        telling=True,
    ),
    Pattern(
        "old-runner",
        "Model Runner V2",
        re.compile(r"Model Runner V2 does not yet support (?P<text>[^\n]{1,160}?); using the V1 model runner instead"),
        lines.note(NoteKind.RUNNER_FALLBACK),
        "WARNING 09-01 07:39:01 [vllm.py:900] Model Runner V2 does not yet support pooling models; using the V1 model "
        "runner instead.",
        "0.33 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "attention-backend",
        "ackend",
        re.compile(
            r"^Using (?:AttentionBackendEnum\.(?P<text>\w{1,40}) backend|[\w ]{1,40}? attention backend out of"
            r"|(?:Flash Attention|FlashInfer|Triton|FlashMLA|XFormers|FlexAttention)[\w ]{0,24} backend\b(?! for ))"
        ),
        lines.note(NoteKind.ATTENTION_BACKEND),
        "INFO 03-11 06:12:01 [cuda.py:257] Using AttentionBackendEnum.TRITON_ATTN backend.",
        "0.14",
        telling=True,
    ),
)
"""What vLLM's start-up lines mean."""
