"""The table of vLLM's lines: what each looks like, with an example, and what it means. Start-up has its own."""

from __future__ import annotations

import re

from bubblewatch.servers.common import ACCESS, COMMON, UVICORN_READY
from bubblewatch.servers.patterns import Pattern, failure
from bubblewatch.servers.vllm import lines
from bubblewatch.servers.vllm.startup import STARTUP

_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"

TABLE: tuple[Pattern, ...] = (
    ACCESS,
    Pattern(
        "stats",
        "tokens/s, ",
        re.compile(
            rf"(?:Engine (?P<engine>\d{{3}}): |\d{{1,4}} Engines Aggregated: )?"
            rf"(?:Avg prompt throughput: (?P<prompt>{_NUMBER}) tokens/s, "
            rf"Avg generation throughput: (?P<generation>{_NUMBER})"
            rf"|\bThroughput: (?P<both>{_NUMBER})) tokens/s,"
            r"(?: Max iteration time: [^,]{1,30},)?(?: Avg time/tok:[^,]{1,30},)? Running: (?P<running>\d{1,9}) reqs,"
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
        "speculation",
        "metrics: ",
        re.compile(r"^(?:SpecDecoding metrics: |(?P<old>Speculative metrics: ))[^\n]{0,600}"),
        lines.speculation,
        "(APIServer pid=7228) INFO 08-04 20:51:08 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.49, "
        "Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: 92 tokens, Drafted: 259 "
        "tokens, Per-position acceptance rate: 0.757, 0.622, 0.432, Avg Draft acceptance rate: 35.5%",
        "0.28",
        telling=True,
    ),
    Pattern(
        "iteration",
        "iteration elapsed time",
        re.compile(
            r"Iteration\(\d{1,12}\): (?P<prompts>\d{1,9}) context requests, \d{1,12} context tokens, "
            r"(?P<decodes>\d{1,9}) generation requests, \d{1,12} generation tokens, "
            r"iteration elapsed time: (?P<ms>\d{1,9}(?:\.\d{1,6})?) ms(?P<dummy> \(dummy\))?"
        ),
        lines.iteration,
        "(EngineCore_DP0 pid=310) INFO 02-11 08:14:02 [core.py:402] Iteration(1281): 0 context requests, 0 context "
        "tokens, 8 generation requests, 8 generation tokens, iteration elapsed time: 21.44 ms",
        "0.14 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "compiled-while-serving",
        "JIT compilation during inference",
        re.compile(r"JIT compilation during inference: (?P<kernel>\w{1,120})"),
        lines.compiled_while_serving,
        "(EngineCore pid=347301) WARNING 08-04 20:51:06 [jit_monitor.py:83] Triton kernel JIT compilation during "
        "inference: _prepare_dflash_inputs_kernel. This causes a latency spike; consider extending warmup to cover "
        "this shape/config.",
        "0.28",
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
    UVICORN_READY,
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
    *STARTUP,
    *COMMON,
)
"""What vLLM's lines mean, the most frequent first."""
