"""Whether decode graphs exist, told by the lines of their capture, where no launch is known."""

from __future__ import annotations

from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import DecodeStep, Event, GraphCaptured
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Signals
from bubblewatch.servers.base import Facts
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.decode import pace
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.launch import write_launch
from tests.support.facts import decode, line

BEGIN = GraphCaptured(line("Capture target decode CUDA graph begin."), begin=True, sizes=(1, 8, 24))


def seen(*events: Event) -> Signals:
    book = Notebook(Scope.SERVER)
    steps = [e for e in events if isinstance(e, DecodeStep)]
    write_launch(book, ServerEvidence(Server("sglang", "s"), Facts(), events, True), pace(steps, 40))
    return book.signals()


def test_a_server_that_decodes_after_its_capture_began_has_graphs() -> None:
    found = seen(BEGIN, *(decode(33, cuda_graph=False) for _ in range(3)))
    assert found.value("graphs.decode_enabled") is True
    assert found.value("graphs.max_batch") == 24


def test_a_capture_that_only_began_proves_nothing() -> None:
    assert "graphs.decode_enabled" in seen(BEGIN).missing


def test_steps_without_graph_and_without_capture_prove_no_graphs() -> None:
    assert seen(*(decode(33, cuda_graph=False) for _ in range(3))).value("graphs.decode_enabled") is not True
