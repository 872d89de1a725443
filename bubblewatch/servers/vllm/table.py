"""The table of vLLM's lines: what each looks like, with an example, and what it means."""

from __future__ import annotations

import re

from bubblewatch.servers.patterns import SHARED, Pattern, failure, ready
from bubblewatch.servers.vllm import lines
from bubblewatch.servers.vllm.engine_args import engine_line, nondefault_line

_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"
_CONCURRENCY = rf"Maximum concurrency for (?P<context>[\d,]{{1,14}}) tokens per request: (?P<concurrency>{_NUMBER})x"

TABLE: tuple[Pattern, ...] = (
    SHARED[0],
    Pattern(
        "stats",
        "tokens/s, ",
        re.compile(
            rf"(?:Engine (?P<engine>\d{{3}}): |\d{{1,4}} Engines Aggregated: )?"
            rf"(?:Avg prompt throughput: (?P<prompt>{_NUMBER}) tokens/s, "
            rf"Avg generation throughput: (?P<generation>{_NUMBER})"
            rf"|\bThroughput: (?P<both>{_NUMBER})) tokens/s,"
            r"(?: Max iteration time: [^,]{1,30},)? Running: (?P<running>\d{1,9}) reqs,"
            r"(?: Swapped: (?P<swapped>\d{1,9}) reqs,)? (?:Waiting|Pending): (?P<waiting>\d{1,9}) reqs"
            r"(?:, Deferred: \d{1,9} reqs)?(?:, KV fetch: [^,]{1,40}, [^,]{1,40}, [^,]{1,40})?"
            r"(?:, Preemptions: (?P<preemptions>\d{1,9}))?"
            rf"(?:, [A-Z]{{2,8}} KV cache usage: (?P<usage>{_NUMBER})%)?"
        ),
        lines.stats_and_preemptions,
        "INFO 07-15 04:27:43 [loggers.py:118] Engine 000: Avg prompt throughput: 249.1 tokens/s, Avg generation "
        "throughput: 192.2 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.2%, "
        "Prefix cache hit rate: 36.3%",
        "0.9.2",
        telling=True,
    ),
    Pattern(
        "version",
        "vLLM ",
        re.compile(r"^vLLM (?:API )?server version (?P<version>\d[\w.+-]{0,60})"),
        lines.version,
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
            r"|To see benefits of async output processing, enable CUDA graph[^\n]{0,80})"
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
            r"|Waiting for \d{1,4} core engine proc|torch\.compile takes |Dynamo bytecode transform time"
            r"|Compiling a graph for )"
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
        "preempted",
        "preempted by",
        re.compile(r"Sequence group \S{1,100} is preempted by (?:PreemptionMode\.)?\w{1,20} mode"),
        lines.preempted,
        "WARNING 10-28 11:16:41 scheduler.py:1483] Sequence group chat-7e630abf1a8b4c8a88775b1e98a54cf2 is preempted "
        "by PreemptionMode.SWAP mode because there is not enough KV cache space.",
        "0.6.3",
        telling=True,
    ),
    Pattern(
        "ready",
        "pplication startup complete",
        re.compile(r"^(?:INFO:\s{1,10})?Application startup complete\.$"),
        ready,
        "(APIServer pid=1) INFO:     Application startup complete.",
        "0.11.0 (uvicorn)",
    ),
    Pattern(
        "shm-wait",
        "broadcast block",
        re.compile(r"No available (?:shared memory broadcast )?block found\s{0,2}in \d{1,6} seconds?"),
        lines.waiting,
        "(EngineCore_DP0 pid=77352) INFO 10-22 09:43:49 [shm_broadcast.py:466] No available shared memory broadcast "
        "block found in 60 seconds. This typically happens when some processes are hanging or doing some "
        "time-consuming work (e.g. compilation).",
        "0.11.0",
        telling=True,
    ),
    Pattern(
        "shm-wait-old",
        "No available block found",
        re.compile(r"No available block found in \d{1,6} seconds?"),
        lines.waiting,
        "DEBUG 03-20 07:10:11 [shm_broadcast.py:430] No available block found in 60 second.",
        "0.8.2",
        telling=True,
    ),
    Pattern(
        "dead",
        "",
        re.compile(
            r"(?:EngineDeadError|EngineCore encountered (?:a fatal error|an issue)|EngineCore failed to start"
            r"|Engine core proc(?:ess)? \S{1,60} died unexpectedly|Worker proc \S{1,60} died unexpectedly"
            r"|RayWorkerProc rank=\S{1,10} died unexpectedly|RPC call to \w{1,60} timed out"
            r"|WorkerProc hit an exception)"
        ),
        failure("dead", fatal=True),
        "(EngineCore_DP0 pid=310) ERROR 11-03 02:14:55 [core.py:710] EngineCore encountered a fatal error.",
        "0.10.2",
        telling=True,
    ),
    *SHARED[1:],
)
"""What vLLM's lines mean, the most frequent first."""
