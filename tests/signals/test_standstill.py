from dataclasses import replace

import pytest

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import (
    Compiling,
    DecodeStep,
    Event,
    Failure,
    GraphCaptured,
    Idle,
    LogLine,
    Offload,
    Ready,
    Starting,
    StatsLine,
)
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signals
from bubblewatch.model.telemetry import GpuInfo, GpuReading, Telemetry
from bubblewatch.servers.base import DeviceSplit, Facts
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.demand import activity, write_demand_by_work
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.placement import placed
from bubblewatch.signals.progress import write_progress, write_standstill

START = 1_796_000_000 * NS


def at(second: float, text: str = "line") -> LogLine:
    return LogLine(text, START + round(second * NS), True)


def standstill(*events: Event, log_read: bool = True) -> Signals:
    book = Notebook(Scope.SERVER)
    write_standstill(book, ServerEvidence(Server("vllm", "s"), Facts(), events, log_read))
    return book.signals()


def totals(second: float, running: int, waiting: int, tps: float) -> StatsLine:
    return StatsLine(at(second), None, running, waiting, None, 0.0, tps, 0.5)


def wait(second: float) -> Failure:
    return Failure(at(second), kind="shm-wait", what="no answer in 60 seconds")


def test_waiting_with_nothing_running_line_after_line_is_blocked() -> None:
    lines = [totals(0, 1, 0, 190.0), totals(5, 0, 1, 0.0), totals(10, 0, 1, 0.0)]
    assert standstill(*lines).value("progress.blocked_lines") == 2
    assert standstill(*lines, totals(15, 1, 0, 20.0)).value("progress.blocked_lines") == 0


def test_a_worker_that_does_not_answer_while_weights_load_is_no_hang() -> None:
    assert standstill(Starting(at(0)), wait(60), wait(120)).value("failure.worker_wait") is False


def test_the_same_line_long_after_the_last_sign_of_loading_is() -> None:
    assert standstill(Starting(at(0)), wait(600)).value("failure.worker_wait") is True


@pytest.mark.parametrize("done", [Ready(at(30)), GraphCaptured(at(30))])
def test_after_the_start_it_is_a_hang_at_once(done: Event) -> None:
    assert standstill(Starting(at(0)), done, wait(95)).value("failure.worker_wait") is True


def test_work_after_the_line_takes_it_back() -> None:
    assert standstill(wait(60), totals(70, 3, 0, 100.0)).value("failure.worker_wait") is False


def test_a_log_of_a_start_only_is_unfinished() -> None:
    assert standstill(Starting(at(0))).value("startup.unfinished") is True
    assert standstill(Starting(at(0)), Idle(at(9))).value("startup.unfinished") is False
    assert standstill().value("startup.unfinished") is False


def test_without_a_log_nothing_is_said() -> None:
    assert standstill(log_read=False).value("startup.unfinished") is None


def by_work(basis: str, duty: float, util: float | None) -> str | None:
    book = Notebook(Scope.SERVER)
    fact = [Evidence(EvidenceKind.TELEMETRY, "GPUs", "duty")]
    book.know("duty.median", duty, basis, Confidence.HIGH, fact)
    if util is not None:
        book.know("util.median", util, "util", Confidence.HIGH, fact)
    write_demand_by_work(book)
    assert book.flag("demand.counted") in (None, False)
    return book.text("demand.state")


def test_gpus_that_work_part_of_the_time_show_that_something_runs() -> None:
    assert by_work("util", 0.35, 0.35) == "running"
    assert by_work("sm", 0.35, 1.0) == "running"


@pytest.mark.parametrize(("basis", "duty", "util"), [("util", 1.0, 1.0), ("util", 0.0, 0.0), ("sm", 0.02, 1.0)])
def test_a_spinning_or_idle_gpu_shows_nothing(basis: str, duty: float, util: float) -> None:
    assert by_work(basis, duty, util) is None


def test_what_counts_requests_is_not_overruled_by_work() -> None:
    book = Notebook(Scope.SERVER)
    book.know("demand.state", "none", "demand")
    book.know("util.median", 0.5, "util")
    book.know("duty.median", 0.5, "util")
    write_demand_by_work(book)
    assert book.text("demand.state") == "none"


def gpus(count: int) -> Telemetry:
    return Telemetry(tuple(GpuReading(GpuInfo(f"GPU-{i}", i, "card")) for i in range(count)))


def evidence(facts: Facts, count: int, *events: Event) -> ServerEvidence:
    return ServerEvidence(Server("llamacpp", "s"), facts, events, telemetry=gpus(count))


def test_a_layer_split_has_a_stage_on_each_gpu() -> None:
    facts = placed(evidence(Facts(device_split=DeviceSplit.LAYERS), 3))
    assert (facts.pp, facts.tp, facts.dp) == (3, 1, 1)


def test_a_row_split_has_a_tensor_rank_on_each_gpu() -> None:
    facts = placed(evidence(Facts(device_split=DeviceSplit.ROWS), 4))
    assert (facts.pp, facts.tp, facts.dp) == (1, 4, 1)


def test_the_log_knows_better_how_many_gpus_hold_layers() -> None:
    facts = placed(evidence(Facts(device_split=DeviceSplit.LAYERS), 4, Offload(at(0), devices=2)))
    assert facts.pp == 2


def test_one_gpu_of_an_unknown_launch_is_alone_and_several_are_unknown() -> None:
    assert placed(evidence(Facts(), 1)).pp == 1
    assert placed(evidence(Facts(), 2)).pp is None


def test_a_stated_split_is_not_touched() -> None:
    stated = Facts(pp=2, tp=4, dp=1)
    assert placed(evidence(stated, 1)) == stated
    assert placed(replace(evidence(stated, 1), events=(DecodeStep(at(0)),))) == stated


def test_a_server_that_said_it_is_ready_has_finished_its_start() -> None:
    assert standstill(Starting(at(0)), Ready(at(9))).value("startup.unfinished") is False


@pytest.mark.parametrize("goes_on", [Starting(at(90)), Compiling(at(90)), GraphCaptured(at(90))])
def test_a_start_that_goes_on_after_the_complaint_takes_it_back(goes_on: Event) -> None:
    """The compiler reports its 90 s when they are over, so the complaint comes before any line that explains it."""
    assert standstill(wait(60), goes_on).value("failure.worker_wait") is False


def progress(*events: Event) -> Signals:
    book = Notebook(Scope.SERVER)
    now = max(e.time_ns for e in events if e.time_ns is not None)
    evidence = ServerEvidence(Server("vllm", "s"), Facts(), events, True, now_ns=now)
    write_progress(book, evidence, activity(events))
    return book.signals()


def test_a_hung_server_that_goes_on_printing_totals_does_not_move() -> None:
    frozen = [totals(10 * i, 4, 6, 0.0) for i in range(1, 20)]
    assert progress(totals(0, 4, 6, 300.0), *frozen).number("progress.stalled_s") == pytest.approx(180)
    assert progress(*frozen).number("progress.stalled_s") == pytest.approx(180)


def test_tokens_between_two_frozen_lines_start_the_count_anew() -> None:
    lines = [totals(10 * i, 4, 6, 5.0 if i == 15 else 0.0) for i in range(20)]
    assert progress(*lines).number("progress.stalled_s") == pytest.approx(30)


def test_slow_progress_is_no_standstill() -> None:
    assert "progress.stalled_s" in progress(*(totals(10 * i, 1, 14, 0.1) for i in range(30))).missing


def test_the_silence_of_an_idle_server_before_a_long_prompt_is_no_standstill() -> None:
    lines = [totals(0, 1, 0, 80.0), totals(1800, 1, 0, 0.0), totals(1810, 1, 0, 0.0)]
    assert progress(*lines).number("progress.stalled_s") == pytest.approx(10)


def test_two_frozen_lines_with_a_long_silence_between_them_are_two_series() -> None:
    lines = [totals(0, 1, 0, 0.0), totals(1800, 1, 0, 0.0), totals(1810, 1, 0, 0.0)]
    assert progress(*lines).number("progress.stalled_s") == pytest.approx(10)
