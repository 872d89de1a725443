"""Text Generation Inference, 1.0 to 3.3: tensor-parallel shards behind a router written in Rust."""

from __future__ import annotations

import re
from types import MappingProxyType

from bubblewatch.model.logs import Event, GraphCaptured, GraphOff, PoolSized, RequestWork, SettingsSeen
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import NO_SPECULATION, DeviceSplit, Facts, Running
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.meaning import largest_size, ratio_of, text_of, visible_devices
from bubblewatch.servers.patterns import Pattern, failure, ready, starting
from bubblewatch.servers.plain import RUNTIME_VARIABLES, PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

_ONE = """
--model-id --num-shard --quantize --cuda-graphs --max-batch-prefill-tokens --max-batch-total-tokens --max-batch-size
--waiting-served-ratio --max-waiting-tokens --max-concurrent-requests --port --prometheus-port --speculate --dtype
--kv-cache-dtype --cuda-memory-fraction --max-input-tokens --max-total-tokens --max-input-length --max-best-of
--validation-workers --hostname --revision --lora-adapters --rope-scaling --attention
"""
_SINGLE_WORDS = "--sharded --trust-remote-code --json-output --disable-custom-kernels --disable-grammar-support"
OPTIONS = OptionList(
    "TGI", option_table(one=_ONE, opt=_SINGLE_WORDS, flag="--env"), complete=False, folds_underscores=True
)
"""launcher/src/main.rs of 3.3.7."""

VARIABLES = MappingProxyType(
    {word.lstrip("-").replace("-", "_").upper(): word.lstrip("-").replace("-", "_") for word in _ONE.split()}
)
"""Every option has a variable of the same name in capitals; the command line wins."""

DEFAULTS = MappingProxyType({"max_concurrent_requests": 128, "port": 3000})
DEFAULT_GRAPH_BATCH = 32
"""Largest captured decode batch unless `--cuda-graphs` says otherwise (3.3.7 launcher/src/main.rs)."""
_NO_GRAPHS = ("bitsandbytes", "exl2")
"""Quantizations that switch graphs off, by the start of their names (3.3.7 launcher/src/main.rs)."""

PREFIX = OwnPrefix(
    # 2024-05-31T05:54:02.825450Z  INFO text_generation_router: router/src/main.rs:317: Warming up model
    # 2025-04-17T09:01:02.1Z  INFO generate{parameters=… queue_time="161.4s"}: text_generation_router::server: … Success
    pattern=re.compile(
        r"(?P<date>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z)\s{1,4}"
        r"[A-Z]{4,5}\s{1,4}(?:(?P<target>text_generation_\w{1,20}(?:::\w{1,40}){0,4}): "
        r"(?:[\w./-]{1,80}\.rs:\d{1,6}: )?"
        r"|(?=(?:\w{1,20}:)?(?:compat_|v\d_)?(?:generate|completions|chat_completions)\w{0,10}\{))"
    ),
    begins=re.compile(r"(?!)"),
)
"""TGI's prefix (tracing-subscriber's text form)."""

_SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_DURATION = r'="(\d{1,12}(?:\.\d{1,12})?)(ns|µs|us|ms|s)"'


def _facts(settings: Settings, version: Version | None) -> Facts:
    """Shards are tensor ranks; without `--num-shard` there is one for each GPU that it sees."""
    del version
    tp = settings.number("num_shard")
    if tp is None:
        tp = 1 if settings.get("sharded") in (False, "false") else visible_devices(settings)
    graphs, decides, reason = _graphs(settings)
    speculate = settings.number("speculate")
    return Facts(
        pp=1,
        tp=tp,
        dp=1,
        device_split=DeviceSplit.ROWS if tp is None else None,
        decode_graphs=graphs,
        decode_graphs_setting=decides,
        graphs_reason=reason,
        graphs_exempt=False,
        graph_max_batch=None if not graphs else largest_size(settings, "cuda_graphs") or DEFAULT_GRAPH_BATCH,
        depth_available=False,
        ring_slots=1,
        slot_capacity=settings.number("max_batch_size"),
        max_running=settings.number("max_batch_size"),
        overlap_possible=False,
        overlap_enabled=False,
        port=settings.number("port"),
        running=Running.TOTAL,
        speculative=f"draft of {speculate}" if speculate else NO_SPECULATION if "port" in settings else None,
        draft_tokens=speculate,
        max_batched_tokens=settings.number("max_batch_prefill_tokens"),
        max_model_len=settings.number("max_total_tokens"),
        gpu_memory_ratio=ratio_of(settings, "cuda_memory_fraction"),
        mixes_prefill=None,
        attention_backend=text_of(settings, "attention"),
        attention_backend_setting=settings.values.get("attention"),
        quantization=text_of(settings, "quantize"),
        kv_cache_dtype=text_of(settings, "kv_cache_dtype"),
        model=text_of(settings, "model_id"),
    )


def _graphs(settings: Settings) -> tuple[bool | None, Setting | None, str]:
    sizes = settings.values.get("cuda_graphs")
    if sizes is not None and str(sizes.value).strip() == "0":
        return False, sizes, "switched off"
    quantize = settings.values.get("quantize")
    if quantize is not None and str(quantize.value).startswith(_NO_GRAPHS):
        return False, quantize, f"{quantize.value} does not work with graphs"
    if "port" not in settings:
        return None, None, ""
    return True, sizes, "on by default" if sizes is None else "as set"


def _graph_state(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    if found["state"] == "disabled" or found["quantization"]:
        return (GraphOff(record.line, rank, phase="decode", reason=found[0][:200]),)
    sizes = tuple(int(word) for word in re.findall(r"\d{1,6}", found["sizes"] or ""))
    return (GraphCaptured(record.line, rank, sizes=sizes),)


def _shards(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    setting = Setting("num_shard", int(found["count"]), Origin.LOG, found[0])
    return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)


def _pool(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, max_total_tokens=int(found["tokens"])),)


def _request(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Times of an answered request, wherever on the line its span stands (a JSON line lists them at the end)."""
    text = record.before + record.message
    times = {
        name: float(number) * _SECONDS[unit]
        for name, number, unit in re.findall(rf"\b(queue_time|inference_time|time_per_token){_DURATION}", text)
    }
    each = times.get("time_per_token")
    return (
        RequestWork(
            record.line,
            rank,
            queue_s=times.get("queue_time"),
            inference_s=times.get("inference_time"),
            gen_tps=1 / each if each else None,
        ),
    )


TABLE: tuple[Pattern, ...] = (
    Pattern(
        "request",
        "queue_time=",
        re.compile(rf"\bqueue_time{_DURATION}"),
        _request,
        'validation_time="5.669107ms" queue_time="161.454300714s" inference_time="12.5s" time_per_token="48.8ms"',
        "3.1.1",
        telling=True,
    ),
    Pattern(
        "graphs",
        "uda ",
        re.compile(
            r"Cuda Graphs are (?P<state>enabled|disabled)(?: for sizes \[(?P<sizes>[\d, ]{1,400})\])?[^\n]{0,60}"
            r"|\b(?P<quantization>\w{2,20}) doesn't work with cuda graphs, deactivating them"
        ),
        _graph_state,
        "2025-07-04T12:36:06.364197Z  INFO text_generation_launcher: Cuda Graphs are enabled for sizes "
        "[32, 16, 8, 4, 2, 1]",
        "3.3",
        telling=True,
    ),
    Pattern(
        "shards",
        "Sharding model",
        re.compile(r"Sharding model on (?P<count>\d{1,4}) processes"),
        _shards,
        "2024-05-31T05:53:40.100000Z  INFO text_generation_launcher: Sharding model on 4 processes",
        "2.0",
        telling=True,
    ),
    Pattern(
        "pool",
        "max batch total tokens",
        re.compile(r"Setting max batch total tokens to (?P<tokens>\d{1,12})"),
        _pool,
        "2024-05-31T05:54:05.264187Z  INFO text_generation_router: router/src/main.rs:354: Setting max batch total "
        "tokens to 15232",
        "2.0",
        telling=True,
    ),
    Pattern(
        "ready",
        "",
        re.compile(r"^(?:Connected|Using backend V\d)$"),
        ready,
        "2025-07-04T12:36:09.356591Z  INFO text_generation_router_v3: backends/v3/src/lib.rs:166: Using backend V3",
        "3.3",
    ),
    Pattern(
        "starting",
        "",
        re.compile(
            r"^(?:Warming up model|Waiting for shard to be ready|Starting shard|Starting Webserver|Starting check and "
            r"download process|Shard ready in )[^\n]{0,60}"
        ),
        starting,
        "2024-05-31T05:54:02.825450Z  INFO text_generation_router: router/src/main.rs:317: Warming up model",
        "2.0",
    ),
    Pattern(
        "dead",
        "hard",
        re.compile(r"^(?:Shard (?:\d{1,4} )?(?:failed to start|crashed|process was signaled)|Shutting down shards)"),
        failure("dead", fatal=True),
        "2024-05-31T05:54:02.825450Z ERROR text_generation_launcher: Shard 0 failed to start",
        "2.0",
    ),
)
"""What TGI's lines mean."""

TGI = PlainKind(
    kind="tgi",
    label="TGI",
    entry=Entry(
        programs=frozenset({"text-generation-launcher"}),
        commands=frozenset({("text-generation-server", "serve")}),
        images=re.compile(r"(?:[\w.:/-]{0,200}/)?text-generation-inference(?:[:@][\w.:-]{1,200})?"),
    ),
    options=OPTIONS,
    meaning=_facts,
    table=TABLE,
    prefix=PREFIX,
    defaults=DEFAULTS,
    environment=re.compile(rf"DISABLE_\w+|USE_FLASH_\w+|ATTENTION|{RUNTIME_VARIABLES}"),
    variables=VARIABLES,
)
