"""The kinds of servers that are known, and which of them a command, a process or a log belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType

from bubblewatch.model.logs import Event, LogLine
from bubblewatch.model.server import Launch
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.common import parse_any
from bubblewatch.servers.ktransformers import KTRANSFORMERS
from bubblewatch.servers.layer_split import TABBYAPI, TEXTGEN
from bubblewatch.servers.llamacpp import LLAMACPP
from bubblewatch.servers.lmdeploy import LMDEPLOY
from bubblewatch.servers.ollama import OLLAMA
from bubblewatch.servers.routers import DYNAMO, SGLANG_ROUTER
from bubblewatch.servers.sglang import SGLang
from bubblewatch.servers.tgi import TGI
from bubblewatch.servers.training import COLOSSALAI, DEEPSPEED, MEGATRON
from bubblewatch.servers.trtllm import TRTLLM
from bubblewatch.servers.vllm import VLLM

KNOWN: tuple[ServerKind, ...] = (
    SGLang(),
    VLLM(),
    TRTLLM,
    OLLAMA,
    LLAMACPP,
    LMDEPLOY,
    TGI,
    KTRANSFORMERS,
    TEXTGEN,
    TABBYAPI,
    SGLANG_ROUTER,
    DYNAMO,
    MEGATRON,
    DEEPSPEED,
    COLOSSALAI,
)
"""Every kind, in the order in which they are asked."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "exllama": "tabbyapi",
        "exllamav2": "tabbyapi",
        "exllamav3": "tabbyapi",
        "llama-server": "llamacpp",
        "llama.cpp": "llamacpp",
        "megatron-lm": "megatron",
        "tensorrt-llm": "trtllm",
        "tensorrt_llm": "trtllm",
        "text-generation-inference": "tgi",
        "text-generation-webui": "textgen",
        "trt-llm": "trtllm",
    }
)
"""Other names by which people call them -> the name of the kind."""

LINES_LOOKED_AT = 5_000
"""Lines that are looked at to tell whose log it is: start-up and the first minutes of work of any server."""

CLEAR_LEAD = 25
"""Telling lines by which one kind must lead before no more lines are looked at."""

_LINES_INSIDE: Mapping[str, str] = MappingProxyType({"llamacpp": "ollama"})
"""Kind -> a program built on it that prints its lines too: a log with lines of both is that program's. Dynamo is none:
a log with lines of an engine is a worker's, and the engine is what counts."""


def recognise(launch: Launch, title: str = "") -> ServerKind | None:
    """The kind that this command or process title belongs to; None when it is no known server."""
    return next((kind for kind in KNOWN if kind.matches(launch, title)), None)


def recognise_lines(lines: Iterable[LogLine]) -> ServerKind | None:
    """The kind with the most telling lines among the first ones; None when there are none, or as many of another."""
    hits = [0] * len(KNOWN)
    for line in islice(lines, LINES_LOOKED_AT):
        for index, kind in enumerate(KNOWN):
            hits[index] += kind.tells(line)
        first, second = sorted(hits, reverse=True)[:2]
        if first - second >= CLEAR_LEAD:
            break
    order = sorted(range(len(KNOWN)), key=lambda index: (-hits[index], index))
    best, second_best = KNOWN[order[0]], order[1]
    outer = by_name(_LINES_INSIDE.get(best.kind, ""))
    if outer is not None and hits[KNOWN.index(outer)]:
        return outer
    return best if hits[order[0]] > hits[second_best] else None


def by_name(name: str) -> ServerKind | None:
    """The kind of this name, in any spelling of case; None when it is not known."""
    plain = name.strip().lower()
    return next((kind for kind in KNOWN if kind.kind == ALIASES.get(plain, plain)), None)


def events_of(kind: ServerKind | None, line: LogLine) -> tuple[Event, ...]:
    """What a line means to a server of this kind; of an unknown one (None) what any server's log may hold."""
    return parse_any(line) if kind is None else kind.parse(line)
