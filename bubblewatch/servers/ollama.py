"""Ollama, 0.1 to 0.12: a front end that starts a runner for each model; where the layers went only its log tells."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from types import MappingProxyType

from bubblewatch.model.logs import Access, Event, Offload, Ready, SettingsSeen, Starting, VersionSeen
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.argv import OptionList, option_table, read_options, value_of
from bubblewatch.servers.base import DeviceSplit, Facts, Running
from bubblewatch.servers.llamacpp.facts import FEW_LAYERS, devices_of, parallelism
from bubblewatch.servers.llamacpp.table import LOAD_TABLE
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.meaning import text_of
from bubblewatch.servers.patterns import Pattern
from bubblewatch.servers.plain import RUNTIME_VARIABLES, PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

ENTRY = Entry(
    commands=frozenset({("ollama", "serve"), ("ollama", "runner")}),
    programs=frozenset({"ollama_llama_server"}),
    images=re.compile(r"(?:[\w.:/-]{0,200}/)?ollama/ollama(?:[:@][\w.:-]{1,200})?"),
)
"""`ollama serve` and the runners that it starts: a program of its own up to 0.4, a sub-command since."""

OPTIONS = OptionList(
    "ollama runner",
    option_table(
        one="model:--model n_gpu_layers:--n-gpu-layers ctx_size:--ctx-size batch_size:--batch-size parallel:--parallel "
        "threads:--threads tensor_split:--tensor-split main_gpu:--main-gpu kv_cache_type:--kv-cache-type port:--port "
        "mmproj:--mmproj",
        flag="ollama_engine:--ollama-engine flash_attn:--flash-attn no_mmap:--no-mmap mlock:--mlock verbose:--verbose",
    ),
    complete=False,
)
"""Options of the runner (ollama 0.5 runner/llamarunner/runner.go). `ollama serve` takes none."""

PREFIX = OwnPrefix(
    # time=2025-07-30T10:53:50.069+10:00 level=INFO source=server.go:175 msg=…      0.1.29 and newer
    # [GIN] 2025/11/19 - 12:12:02 | 200 | …                                           access lines
    pattern=re.compile(
        r"time=(?P<date>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d) "
        r"level=[A-Z]{4,5} source=\w{1,40}\.go:\d{1,6} "
        r"|time=\S{10,40} level=[A-Z]{4,5} source=\w{1,40}\.go(?::\d{1,6})? "
        r"|\[GIN\] (?P<gin>\d{4}/\d\d/\d\d - \d\d:\d\d:\d\d) \| "
    ),
    begins=re.compile(r"(?<=\S)(?=time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,20} level=)"),
)
"""Ollama's prefix (log/slog text handler) and that of its web framework."""

_GIB = {"B": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 2.0**10}


def _facts(settings: Settings, version: Version | None) -> Facts:
    """One GPU when the model fits on it, else layers over all: which, only the log of the load says."""
    del version
    devices = devices_of(settings)
    split = None if devices is None else DeviceSplit.ONE if devices == 1 else DeviceSplit.LAYERS
    pp, tp = parallelism(split, devices)
    layers, slots = settings.values.get("n_gpu_layers"), settings.number("parallel")
    few = layers is not None and isinstance(layers.value, int) and 0 <= layers.value < FEW_LAYERS
    return Facts(
        pp=pp,
        tp=tp,
        dp=1,
        capture_is_logged=False,
        depth_available=False,
        ring_slots=1,
        slot_capacity=slots,
        max_running=slots or settings.number("OLLAMA_NUM_PARALLEL") or None,
        overlap_enabled=False,
        overlap_possible=False,
        port=11434,
        running=Running.TOTAL,
        cpu_offload=True if few else None,
        cpu_offload_setting=layers if few else None,
        cpu_offload_reason=f"only {layers.value} layers are on the GPU" if few and layers is not None else "",
        gpu_layers=settings.number("n_gpu_layers"),
        max_batched_tokens=settings.number("batch_size"),
        max_model_len=settings.number("ctx_size"),
        mixes_prefill=True,
        kv_cache_dtype=text_of(settings, "kv_cache_type") or text_of(settings, "OLLAMA_KV_CACHE_TYPE"),
        model=text_of(settings, "model"),
    )


def _estimate(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    split = [word for word in (found["split"] or "").split(",") if word.strip()]
    layers, total = int(found["layers"]), int(found["total"])
    return (Offload(record.line, rank, layers=layers, of_layers=total, devices=len(split) or None),)


def _weights(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    gib = float(found["size"]) * _GIB[found["unit"]]
    host = found["device"].startswith("CPU")
    return (Offload(record.line, rank, host_gib=gib if host else None, gpu_gib=None if host else gib),)


def _placed(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The final placement of layers by GPU; an empty list is all on the CPU."""
    layers = [int(count) for count in re.findall(r"Layers:(\d{1,5})", found["gpus"] or "")]
    return (Offload(record.line, rank, layers=sum(layers), devices=len(layers)),)


def _no_gpu(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Offload(record.line, rank, layers=0, devices=0),)


def _runner_started(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The runner's command line as settings, and a step on the way up."""
    begun = Starting(record.line, rank, what="starting a runner")
    try:
        words = shlex.split(found["command"] or "")
    except ValueError:
        return (begun,)
    values = {
        given.option.dest: Setting(given.option.dest, value_of(" ".join(given.words)), Origin.LOG, given.written)
        for given in read_options(words, OPTIONS).given
        if given.option is not None and given.words
    }
    if not values:
        return (begun,)
    return (SettingsSeen(record.line, rank, settings=Settings(MappingProxyType(values))), begun)


def _ready(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Ready(record.line, rank),)


def _listening(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (VersionSeen(record.line, rank, version=found["version"]),)


def _access(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    path = found["path"].partition("?")[0][:200]
    return (Access(record.line, rank, method=found["method"], path=path, status=int(found["status"])),)


TABLE: tuple[Pattern, ...] = (
    Pattern(
        "gin-access",
        "|",
        re.compile(
            r"^(?P<status>\d{3}) \|\s{1,12}\S{1,20} \|\s{1,20}\S{1,45} \| "
            r'(?P<method>[A-Z]{3,8})\s{1,8}"(?P<path>\S{1,2048})"'
        ),
        _access,
        '[GIN] 2025/11/19 - 12:12:02 | 200 |  2.040907755s |       127.0.0.1 | POST     "/api/generate"',
        "0.12",
        telling=True,
    ),
    Pattern(
        "estimate",
        "layers.offload=",
        re.compile(
            r"layers\.requested=-?\d{1,6} layers\.model=(?P<total>\d{1,5}) layers\.offload=(?P<layers>\d{1,5})"
            r'(?: layers\.split="?(?P<split>[\d,\[\] ]{0,200})"?)?'
        ),
        _estimate,
        "time=2025-07-30T10:53:50.069+10:00 level=INFO source=server.go:175 msg=offload library=cuda "
        'layers.requested=-1 layers.model=29 layers.offload=29 layers.split="" memory.available="[3.1 GiB]"',
        "0.9",
        telling=True,
    ),
    Pattern(
        "model-weights",
        'msg="model weights"',
        re.compile(
            r'msg="model weights" (?:buffer|device)=(?P<device>\w{1,30}) '
            r'size="(?P<size>\d{1,9}(?:\.\d{1,4})?) (?P<unit>[KMGT]?i?B)"'
        ),
        _weights,
        'time=2025-07-24T18:29:34.425+09:00 level=INFO source=ggml.go:377 msg="model weights" buffer=CPU '
        'size="1.1 GiB"',
        "0.9",
        telling=True,
    ),
    Pattern(
        "placed",
        "Operation:commit",
        re.compile(r"Operation:commit [^\n]{0,400}?GPULayers:(?:\d{1,5})?\[(?P<gpus>[^\]\n]{0,2000})\]"),
        _placed,
        "time=2026-02-21T14:14:46.128-06:00 level=INFO source=runner.go:1284 msg=load "
        'request="{Operation:commit LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:4096 '
        'KvCacheType: NumThreads:4 GPULayers:[] MultiUserCache:false ProjectorPath: MainGPU:0 UseMmap:false}"',
        "0.12",
        telling=True,
    ),
    Pattern(
        "no-compatible-gpu",
        "no compatible GPUs",
        re.compile(r'msg="no compatible GPUs were discovered"'),
        _no_gpu,
        'time=2024-11-08T01:39:31.852+05:30 level=INFO source=gpu.go:392 msg="no compatible GPUs were discovered"',
        "0.4",
        telling=True,
    ),
    Pattern(
        "runner",
        'msg="starting ',
        re.compile(r'msg="starting (?:llama server|runner|ollama engine)"(?: cmd="(?P<command>[^"\n]{0,2000})")?'),
        _runner_started,
        'time=2025-07-30T10:53:50.100+10:00 level=INFO source=server.go:438 msg="starting llama server" '
        'cmd="/usr/bin/ollama runner --model /models/blob --ctx-size 8192 --batch-size 512 --n-gpu-layers 29 '
        '--threads 8 --parallel 2 --port 41253"',
        "0.9",
        telling=True,
    ),
    Pattern(
        "runner-ready",
        "llama runner started",
        re.compile(r'msg="llama runner started in [\d.]{1,12} seconds"'),
        _ready,
        'time=2024-11-08T01:39:31.852+05:30 level=INFO source=server.go:626 msg="llama runner started in 3.28 seconds"',
        "0.4",
        telling=True,
    ),
    Pattern(
        "listening",
        "Listening on ",
        re.compile(r'msg="Listening on \S{1,80} \(version (?P<version>\d[\w.+-]{0,40})\)"'),
        _listening,
        'time=2024-11-08T01:39:10.001+05:30 level=INFO source=routes.go:1240 msg="Listening on 127.0.0.1:11434 '
        '(version 0.4.0)"',
        "0.4",
        telling=True,
    ),
    *(replace(pattern, telling=False) for pattern in LOAD_TABLE),
)
"""What the lines of ollama and of the library below it mean."""

OLLAMA = PlainKind(
    kind="ollama",
    label="Ollama",
    entry=ENTRY,
    options=OPTIONS,
    meaning=_facts,
    table=TABLE,
    prefix=PREFIX,
    environment=re.compile(rf"OLLAMA_\w+|{RUNTIME_VARIABLES}"),
    tag=re.compile(r"\bollama\["),
)
