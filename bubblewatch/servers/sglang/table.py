"""The table of SGLang's lines: what each looks like, with an example, and what it means."""

from __future__ import annotations

import re

from bubblewatch.servers.common import ACCESS, COMMON
from bubblewatch.servers.patterns import Pattern, failure, ready
from bubblewatch.servers.sglang import lines

_CAPTURE = (
    r"Capture (?:(?P<role>target|draft) )?(?:(?P<phase>decode|verify|prefill|extend) )?(?P<piecewise>piecewise )?"
    r"(?:cuda|CUDA|cpu|CPU|npu|NPU|XPU|musa) graph "
)

TABLE: tuple[Pattern, ...] = (
    ACCESS,
    Pattern(
        "decode",
        "Decode batch",
        re.compile(r"Decode batch(?: \[\d{1,12}\])?[.,] (?P<fields>#running-req: .*)$"),
        lines.decode,
        "[2025-11-10 09:12:44 PP3] Decode batch, #running-req: 8, #token: 35785, token usage: 0.27, cuda graph: False, "
        "gen throughput (token/s): 95.60, #queue-req: 0",
        "0.5.10 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "prefill",
        "Prefill batch",
        re.compile(r"Prefill batch(?: \[\d{1,12}\])?[.,] (?P<fields>#new-seq: .*)$"),
        lines.prefill,
        "[2025-06-12 11:41:56 TP0] Prefill batch. #new-seq: 8, #new-token: 16384, #cached-token: 0, token usage: 0.19, "
        "#running-req: 370, #queue-req: 646",
        "0.4.7",
        telling=True,
    ),
    Pattern(
        "graph-end",
        "graph end.",
        re.compile(
            _CAPTURE + r"end\. (?:bs=\[(?P<sizes>[\d, ]{0,2000})\], )?"
            r"(?:Time elapsed: |elapsed=)(?P<seconds>\d{1,9}\.\d{1,6}) s"
        ),
        lines.graph_end,
        "[2025-10-16 03:20:51 TP0] Capture cuda graph end. Time elapsed: 9.32 s. mem usage=1.63 GB. avail mem=8.48 GB.",
        "0.5.3",
        telling=True,
    ),
    Pattern(
        "graph-begin",
        "graph begin.",
        re.compile(_CAPTURE + r"begin\.(?:[^\[]{0,120}bs=\[(?P<sizes>[\d, ]{0,2000})\])?"),
        lines.graph_begin,
        "[2026-08-20 10:02:13] Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, "
        "bs=[1, 2, 4, 8, 12, 16, 24, 32], avail mem=21.07 GB",
        "0.5.20",
        telling=True,
    ),
    Pattern(
        "graph-sizes",
        "Capture cuda graph bs",
        re.compile(r"Capture cuda graph bs \[(?P<sizes>[\d, ]{1,3000})\]"),
        lines.graph_sizes,
        "[2025-10-16 03:20:42 TP0] Capture cuda graph bs [1, 2, 4, 8, 12, 16, 24]",
        "0.5.3",
        telling=True,
    ),
    Pattern(
        "graph-failed",
        "Capture cuda graph failed",
        re.compile(r"Capture cuda graph failed: .{0,160}"),
        failure("capture-failed", fatal=True),
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 160.00 MiB.",
        "0.5.10 (built from the source's format)",
    ),
    Pattern(
        "old-graph-switch",
        "'--disable-cuda-graph' is deprecated",
        re.compile(r"'--disable-cuda-graph' is deprecated"),
        lines.old_switch,
        "\x1b[33m'--disable-cuda-graph' is deprecated and will be removed in a future release. "
        "Use '--cuda-graph-backend-{decode,prefill}=disabled' instead.\x1b[0m",
        "0.5.20 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "graph-off",
        "raph",
        re.compile(
            r"(?<!iecewise )(?:[Cc]uda|CUDA) graph is disabled (?:because of |because |for )(?P<reason>.{1,160})"
            r"|Cuda graph and server warmup are disabled|Mixed chunk, radix cache, and cuda graphs are disabled"
            r"|(?P<prefill>Disable (?:(?:\w{1,12} )?prefill|piecewise) CUDA graph because .{1,160}"
            r"|Disabling breakable prefill CUDA graph.{0,160})"
        ),
        lines.graph_off,
        "[2025-08-30 07:11:02] Cuda graph is disabled because of using torch native attention backend",
        "0.5.2",
        telling=True,
    ),
    Pattern(
        "overlap-pipeline",
        "Pipeline parallelism is incompatible",
        re.compile(r"Pipeline parallelism is incompatible with overlap schedule\."),
        lines.pipeline_overlap,
        "[2025-11-10 09:01:12] Pipeline parallelism is incompatible with overlap schedule.",
        "0.5.5",
        telling=True,
    ),
    Pattern(
        "overlap-off",
        "verlap schedule",
        re.compile(
            r"^(?:The )?[Oo]verlap schedule(?:r)? (?:is|and mixed chunked prefill are) disabled.{0,160}"
            r"|^Disabling overlap schedule since.{0,160}"
        ),
        lines.overlap_off,
        "[2025-12-05 16:40:09] Disabling overlap schedule since MambaRadixCache is not compatible with overlap "
        "schedule currently, try to use --disable-radix-cache if overlap schedule is necessary",
        "0.5.6.post2",
        telling=True,
    ),
    Pattern(
        "sizing",
        "max_total_num_tokens=",
        re.compile(r"^max_total_num_tokens=\d.{0,400}"),
        lines.sized,
        "[2025-06-16 20:11:47 PP2] max_total_num_tokens=1039136, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        "max_running_requests=4096, context_len=40960, available_gpu_mem=12.39 GB",
        "0.4.9",
        telling=True,
    ),
    Pattern(
        "kv-pool",
        "KV Cache is allocated",
        re.compile(r"KV Cache is allocated\.(?: dtype: [\w.]{1,40},)? #tokens: (?P<tokens>\d{1,15})"),
        lines.pool,
        "[2025-12-01 11:25:14 PP1] KV Cache is allocated. #tokens: 1151346, K size: 21.96 GB, V size: 21.96 GB",
        "0.5.5",
        telling=True,
    ),
    Pattern(
        "weights",
        "Load weight ",
        re.compile(r"Load weight (?:begin|end)\."),
        lines.starting,
        "[2025-12-01 11:25:12 PP0] Load weight begin. avail mem=78.58 GB",
        "0.5.5",
        telling=True,
    ),
    Pattern(
        "distributed",
        "Init torch distributed",
        re.compile(r"^Init torch distributed (?:begin|ends)\."),
        lines.starting,
        "[2025-12-01 11:25:02 PP0] Init torch distributed begin.",
        "0.5.5",
        telling=True,
    ),
    Pattern(
        "ready",
        "fired up and ready",
        re.compile(r"The server is fired up and ready to roll!"),
        ready,
        "[2025-10-16 03:21:10] The server is fired up and ready to roll!",
        "0.5.3",
        telling=True,
    ),
    Pattern(
        "speculation-limit",
        "Max running requests",
        re.compile(r"Max running requests is reset to (?P<limit>\d{1,6}) for speculative decoding"),
        lines.reset_limit,
        "[2026-07-27 12:32:21] Max running requests is reset to 48 for speculative decoding. You can override this by "
        "explicitly setting --max-running-requests.",
        "0.5.23",
        telling=True,
    ),
    Pattern(
        "nccl-version",
        "is using nccl",
        re.compile(r"^sglang is using nccl==(?P<version>[\d.]{1,20})"),
        lines.nccl_version,
        "[2026-04-14 16:08:43 TP0] sglang is using nccl==2.27.5",
        "0.5.10",
        telling=True,
    ),
    Pattern(
        "attention-backend",
        "ttention backend not",
        re.compile(r"^Attention backend not (?:explicitly )?specified\. Use (?P<backend>\w{1,40}) backend by default"),
        lines.attention_backend,
        "[2026-05-02 06:12:42] Attention backend not specified. Use fa3 backend by default.",
        "0.5.11",
        telling=True,
    ),
    Pattern(
        "compiling",
        "DeepGEMM",
        re.compile(r"^Entering DeepGEMM JIT [\w -]{1,40} session"),
        lines.compiling,
        "[2025-10-16 03:20:30 TP0] Entering DeepGEMM JIT Single Kernel Compile session. If it takes too long, please "
        "run the pre-compile script first.",
        "0.5.3 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "retraction",
        "Retract requests",
        re.compile(r"KV cache pool is full\. Retract requests\. #retracted_reqs: (?P<count>\d{1,9})"),
        lines.retraction,
        "[2026-05-24 03:52:07 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: "
        "4213, #new_token_ratio: 0.1320 -> 0.4713",
        "0.5.10",
        telling=True,
    ),
    Pattern(
        "watchdog",
        "atchdog timeout",
        re.compile(
            r"(?:\w{1,40} )?[Ww]atchdog timeout \(self\.watchdog_timeout=[\d.]{1,12}"
            r"(?:, self\.soft=(?P<soft>True|False))?\)"
        ),
        lines.watchdog,
        "[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)",
        "0.4.3",
        telling=True,
    ),
    Pattern(
        "exception",
        "hit an exception",
        re.compile(r"^\w{1,40} hit an exception: .{0,160}"),
        failure("exception", fatal=True),
        "[2026-06-28 23:41:27 DP0 PP1 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "0.5.13",
        telling=True,
    ),
    Pattern(
        "killed-child",
        "igquit",
        re.compile(r"^Received sigquit from a child proces.{0,120}"),
        failure("killed", fatal=True),
        "[2025-03-09 00:57:20] Received sigquit from a child proces. It usually means the child failed.",
        "0.4.3",
        telling=True,
    ),
    Pattern(
        "killed-child-new",
        "SIGQUIT received",
        re.compile(r"^SIGQUIT received\..{0,160}"),
        failure("killed", fatal=True),
        "[2026-02-03 18:20:44] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "0.5.8 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "out-of-memory",
        "memory",
        re.compile(
            r"(?:Prefill|Decode) out of memory\. Try to lower your batch size|alloc_req_slots runs out of memory"
            r"|Not enough memory\. Please try to increase --mem-fraction-static"
        ),
        failure("out-of-memory", fatal=True),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: self.mem_fraction_static=0.55",
        "0.5.10",
        telling=True,
    ),
    *COMMON,
)
"""What SGLang's lines mean, the most frequent first; the settings line is read in `server_args`."""
