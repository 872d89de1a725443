"""LMDeploy, 0.2 to 0.16: tensor and data parallel only, with a PyTorch and a C++ engine (TurboMind)."""

from __future__ import annotations

import re
from types import MappingProxyType

from bubblewatch.model.logs import Event, SettingsSeen, StatsLine
from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import NO_SPECULATION, Facts, Running
from bubblewatch.servers.common import UVICORN_READY
from bubblewatch.servers.literal import plain, settings_printed
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.meaning import largest_size, ratio_of, text_of
from bubblewatch.servers.patterns import Pattern
from bubblewatch.servers.plain import RUNTIME_VARIABLES, PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

OPTIONS = OptionList(
    "LMDeploy",
    option_table(
        one="""
        tp_size:--tp dp_size:--dp ep_size:--ep --cp port:--server-port server_name:--server-name --backend --dtype
        --max-batch-size --session-len --cache-max-entry-count --quant-policy --model-format --model-name --log-level
        --max-prefill-token-num --num-tokens-per-iter --max-prefill-iters async_engine:--async --communicator
        --distributed-executor-backend --cache-block-seq-len --rope-scaling-factor --speculative-algorithm
        --speculative-num-draft-tokens --speculative-draft-model --nnodes --node-rank --role
        """,
        many="--cudagraph-capture-batch-sizes --api-keys",
        flag="--eager-mode --enable-prefix-caching --enable-microbatch --enable-eplb --disable-metrics "
        "--trust-remote-code",
    ),
    complete=False,
    folds_underscores=True,
)
"""LMDeploy 0.16.0 cli/utils.py; older versions have fewer of them."""

DEFAULTS = MappingProxyType({"dp_size": 1, "eager_mode": False, "port": 23333, "tp_size": 1})

PREFIX = OwnPrefix(
    # 2025-03-31 10:00:01,123 - lmdeploy - WARNING - async_engine.py:505 - …
    # [TM][WARNING] …
    pattern=re.compile(
        r"(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d),(?P<fraction>\d{3}) - lmdeploy - [A-Z]{4,8} - "
        r"(?:[\w./]{1,80}:\d{1,6} - )?|\[TM\]\[(?P<level>[A-Z]{4,7})\]\s{1,4}"
    ),
    begins=re.compile(r"(?<=\S)(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - lmdeploy - )"),
)
"""LMDeploy's prefixes (lmdeploy/utils.py get_logger; TurboMind's own)."""

_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"


def _facts(settings: Settings, version: Version | None) -> Facts:
    """TurboMind decodes in C++ and has no Python launch overhead, so eager means something with PyTorch only."""
    del version
    turbomind = settings.get("backend") == "turbomind"
    eager = settings.values.get("eager_mode")
    on = None if eager is None or turbomind else eager.value is not True
    sync = settings.values.get("async_engine")
    limit, dp = settings.number("max_batch_size"), settings.number("dp_size")
    return Facts(
        pp=1,
        tp=settings.number("tp_size"),
        dp=dp,
        ep=settings.number("ep_size"),
        nodes=settings.number("nnodes"),
        decode_graphs=on,
        decode_graphs_setting=None if on is None else eager,
        graphs_reason="" if on is None else "on by default" if on else "eager mode is set",
        graphs_exempt=True if turbomind else False if eager is not None else None,
        graph_max_batch=largest_size(settings, "cudagraph_capture_batch_sizes"),
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        slot_capacity=limit,
        max_running=None if limit is None else limit * (dp or 1),
        overlap_enabled=None if sync is None else sync.value != 0,
        overlap_possible=None if turbomind else True,
        overlap_setting=sync,
        port=settings.number("port"),
        running=Running.TOTAL,
        speculative=text_of(settings, "speculative_algorithm") or (NO_SPECULATION if eager is not None else None),
        draft_tokens=settings.number("speculative_num_draft_tokens"),
        max_batched_tokens=settings.number("max_prefill_token_num"),
        max_model_len=settings.number("session_len"),
        gpu_memory_ratio=ratio_of(settings, "cache_max_entry_count"),
        executor=text_of(settings, "distributed_executor_backend"),
        quantization=text_of(settings, "model_format"),
        log_stats=None if settings.flag("disable_metrics") is None else False,
        model=text_of(settings, "model"),
    )


def _stats(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Requests that wait in front of the engine wait too."""
    return (
        StatsLine(
            record.line,
            rank,
            running=int(found["running"]),
            waiting=int(found["waiting"]) + int(found["front"]),
            prompt_tps=float(found["prompt"]),
            gen_tps=float(found["generation"]),
            kv_usage_ratio=min(float(found["usage"]) / 100, 1.0),
            engine=found["engine"],
        ),
    )


def _config(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The engine's configuration as it is used."""
    names = {"tp": "tp_size", "dp": "dp_size", "ep": "ep_size"}
    fields = settings_printed(record.message[found.start("body") :])
    values = {
        short: Setting(short, plain(value), Origin.LOG, f"backend_config {name}={plain(value)!r}"[:200])
        for name, value in fields.items()
        if not is_secret_name(name)
        for short in (names.get(name, name),)
    }
    return (SettingsSeen(record.line, rank, settings=Settings(MappingProxyType(values))),) if values else ()


TABLE: tuple[Pattern, ...] = (
    Pattern(
        "stats",
        "Avg thr (in/out)",
        re.compile(
            rf"\[[\d: -]{{19}} (?P<engine>DP\d{{1,5}})\] Avg thr \(in/out\): (?P<prompt>{_NUMBER}) / "
            rf"(?P<generation>{_NUMBER}) tokens/s, (?:Server|API server) \([a-z/]{{1,40}}\): "
            r"(?:\d{1,12} / ){2,3}(?P<front>\d{1,9}), Engine \(running/waiting\): (?P<running>\d{1,9}) / "
            rf"(?P<waiting>\d{{1,9}}), KV cache: (?P<usage>{_NUMBER})%"
        ),
        _stats,
        "[2026-03-02 10:00:11 DP0] Avg thr (in/out): 1024.0 / 512.5 tokens/s, Server "
        "(succeeded/failed/routed/waiting): 12 / 0 / 8 / 2, Engine (running/waiting): 6 / 2, KV cache: 41.5%, ",
        "0.12 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "config",
        "backend_config=",
        re.compile(r"(?:updated |input )?backend_config=(?P<body>(?:Pytorch|Turbomind)EngineConfig\(.*)$"),
        _config,
        "2025-03-31 10:00:01,123 - lmdeploy - INFO - async_engine.py:260 - updated "
        "backend_config=PytorchEngineConfig(dtype='float16', tp=4, dp=1, session_len=32768, max_batch_size=64, "
        "cache_max_entry_count=0.99, eager_mode=True, quant_policy=8)",
        "0.7",
        telling=True,
    ),
    UVICORN_READY,
)
"""What LMDeploy's lines mean."""

LMDEPLOY = PlainKind(
    kind="lmdeploy",
    label="LMDeploy",
    entry=Entry(
        commands=frozenset({("lmdeploy", "serve"), ("lmdeploy", "chat")}),
        modules=re.compile(r"lmdeploy\.serve\.openai\.api_server"),
    ),
    options=OPTIONS,
    meaning=_facts,
    table=TABLE,
    prefix=PREFIX,
    defaults=DEFAULTS,
    environment=re.compile(rf"LMDEPLOY_\w+|TM_\w+|{RUNTIME_VARIABLES}"),
    positional="model",
    steps=frozenset({"api_server", "gradio"}),
)
