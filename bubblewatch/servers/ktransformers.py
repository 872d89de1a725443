"""KTransformers, 0.2 to 0.4: attention on the GPU, routed experts on the CPU."""

from __future__ import annotations

import re
from types import MappingProxyType

from bubblewatch.model.logs import Event, RequestWork
from bubblewatch.model.server import Rank, Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import Facts, Running
from bubblewatch.servers.common import UVICORN_READY
from bubblewatch.servers.logprefix import Record
from bubblewatch.servers.meaning import text_of
from bubblewatch.servers.patterns import Pattern
from bubblewatch.servers.plain import RUNTIME_VARIABLES, PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

OPTIONS = OptionList(
    "KTransformers",
    option_table(
        one="""
        model_path:--model-path,--model-dir gguf_path:--gguf-path --cpu-infer --cache-lens --max-new-tokens --port
        --host
        optimize_config_path:--optimize-config-path,--optimize-rule-path --max-batch-size --chunk-size --backend-type
        --model-name --mode
        """,
        opt="--use-cuda-graph --force-think --prompt-file",
    ),
    complete=False,
    folds_underscores=True,
)
"""ktransformers/local_chat.py and server/args.py of 0.2.x, 0.3."""

_WHY = "KTransformers runs the routed experts on the CPU"


def _facts(settings: Settings, version: Version | None) -> Facts:
    """The split between CPU and GPU stands in a rule file; running experts on the CPU is what the program is for."""
    del version
    threads = settings.values.get("cpu_infer")
    graphs = settings.flag("use_cuda_graph")
    limit = settings.number("max_batch_size")
    return Facts(
        dp=1,
        decode_graphs=graphs,
        decode_graphs_setting=None if graphs is None else settings.values.get("use_cuda_graph"),
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        max_running=limit,
        overlap_enabled=False,
        overlap_possible=False,
        port=settings.number("port"),
        running=Running.TOTAL,
        cpu_offload=True,
        cpu_offload_setting=threads,
        cpu_offload_reason=_WHY,
        max_batched_tokens=settings.number("chunk_size"),
        max_model_len=settings.number("cache_lens"),
        model=text_of(settings, "model_path"),
    )


def _rate(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The end of one answer: the rate of its output. Its other lines repeat or lead up to it."""
    return (RequestWork(record.line, rank, gen_tps=float(found["rate"])),)


def _prompt(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (RequestWork(record.line, rank, prompt_s=float(found["seconds"])),)


TABLE: tuple[Pattern, ...] = (
    Pattern(
        "eval-rate",
        "eval rate",
        re.compile(r"^eval rate:\s{1,12}(?P<rate>\d{1,9}(?:\.\d{1,20})?) tokens/s"),
        _rate,
        "eval rate:            0.05489520632133032 tokens/s",
        "0.2",
        telling=True,
    ),
    Pattern(
        "prompt-time",
        "prompt eval duration",
        re.compile(r"^prompt eval duration:\s{1,12}(?P<seconds>\d{1,9}(?:\.\d{1,20})?)s$"),
        _prompt,
        "prompt eval duration: 229.2311818599701s",
        "0.2",
        telling=True,
    ),
    UVICORN_READY,
)
"""What KTransformers prints after each answer of its chat program."""

KTRANSFORMERS = PlainKind(
    kind="ktransformers",
    label="KTransformers",
    entry=Entry(
        programs=frozenset({"ktransformers"}),
        modules=re.compile(r"ktransformers\.(?:local_chat|server\.main)"),
        scripts=re.compile(r"(?:.*/)?ktransformers/(?:local_chat|server/main)\.py"),
    ),
    options=OPTIONS,
    meaning=_facts,
    table=TABLE,
    defaults=MappingProxyType({"port": 10002}),
    environment=re.compile(rf"USE_NUMA|KTRANSFORMERS_\w+|{RUNTIME_VARIABLES}"),
)
