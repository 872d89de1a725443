"""Which kind of server a command or a log belongs to, and lines that are made to cost time."""

from __future__ import annotations

import pytest

from bubblewatch.model.logs import LogLine
from bubblewatch.model.server import Launch
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.registry import KNOWN, by_name, recognise, recognise_lines
from bubblewatch.servers.sglang.table import TABLE as SGLANG_LINES
from bubblewatch.servers.vllm.table import TABLE as VLLM_LINES

MEBIBYTE = 2**20


def test_kinds_have_names_of_their_own_and_are_found_by_them() -> None:
    assert [by_name(kind.kind) for kind in KNOWN] == list(KNOWN)
    assert by_name("SGLang") is KNOWN[0]
    assert by_name("nothing") is None


def test_a_command_or_title_is_recognised() -> None:
    def name(*argv: str, title: str = "") -> str | None:
        kind = recognise(Launch(argv), title)
        return None if kind is None else kind.kind

    assert name("sglang", "serve", "m") == "sglang"
    assert name("vllm", "serve", "m") == "vllm"
    assert name(title="sglang::scheduler_PP0") == "sglang"
    assert name(title="VLLM::EngineCore") == "vllm"
    assert name("python", "train.py", title="python") is None


def test_a_log_is_told_by_most_of_its_telling_lines() -> None:
    ours = [LogLine(pattern.example) for pattern in SGLANG_LINES]
    theirs = [LogLine(pattern.example) for pattern in VLLM_LINES]
    noise = [LogLine("Traceback (most recent call last):")] * 50
    first, second = recognise_lines(noise + ours + theirs[:2]), recognise_lines(noise + theirs + ours[:2])
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == ("sglang", "vllm")
    assert recognise_lines(noise) is None
    assert recognise_lines([]) is None


HOSTILE = (
    "a", "(", "[1, ", "{'a': ", "'", "\\", "-", "a: 1, ", "=1, b", "(W pid=1) ", "x | ", "INFO ", "0000-00-00 ",
    "\x1b[31m", "Decode batch, #running-req: ", "Capture cuda graph begin. ", "12:00:00 PP1 PP1 PP1 PP1 PP1 PP1 ",
    "Layers:1 ", "A b c: 1, ", "a=\"1s\" ", "NCCL INFO Channel 0 : 1[1] -> 2[2] ", "NVRM: Xid (PCI:0): 1, ",
)  # fmt: skip
HEADS = (
    "",
    "[2026-01-01 00:00:00 PP3] ",
    "server_args=",
    "server_args={",
    "server_args=ServerArgs(",
    "non-default args: {",
    "Initializing a V1 LLM engine (v1) with config: ",
    '{"message": "',
    '{"a": ',
    "time=2025-07-30T10:53:50Z ",
    "INFO 07-15 04:27:43 [l.py:1] SpecDecoding metrics: ",
    "[TRT-LLM] [I] iter = 1, global_rank = 0, rank = 0, ",
    "Operation:commit GPULayers:[",
    "backend_config=PytorchEngineConfig(",
    "iteration  1/ 2 | ",
)


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("head", HEADS)
def test_a_mebibyte_made_to_cost_time_is_read_and_invents_no_work(kind: ServerKind, head: str) -> None:
    """Anything that grew with the square of the length would take hours here."""
    for piece in HOSTILE:
        line = LogLine((head + piece * (MEBIBYTE // len(piece)))[:MEBIBYTE])
        assert not [event for event in kind.parse(line) if hasattr(event, "running")]
