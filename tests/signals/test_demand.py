from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope
from bubblewatch.model.logs import DecodeStep, Event, LogLine, StatsLine
from bubblewatch.model.protocols import EndpointReading
from bubblewatch.model.server import Rank, Server
from bubblewatch.model.signals import Signals
from bubblewatch.servers.base import Facts, Running
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.decode import pace
from bubblewatch.signals.demand import activity, running_intervals, write_demand
from bubblewatch.signals.evidence import ServerEvidence, Stated
from bubblewatch.signals.series import Interval

NOW = 1_796_000_000 * NS
PIPELINE = Facts(pp=8, tp=1, dp=1, running=Running.ONE_SLOT)


def decode(ago_s: float, running: int = 8) -> DecodeStep:
    line = LogLine("Decode batch, ...", NOW - round(ago_s * NS), True)
    return DecodeStep(line, Rank(), running=running, gen_tps=95.6, queued=0)


def stats(ago_s: float, running: int, tps: float = 0.0, waiting: int = 0) -> StatsLine:
    line = LogLine("Avg prompt throughput ...", NOW - round(ago_s * NS), True)
    return StatsLine(line, None, running, waiting, None, 0.0, tps, 0.1)


def demand(*events: Event, facts: Facts = PIPELINE, **more: object) -> Signals:
    evidence = replace(
        ServerEvidence(Server("sglang", "s", port=30000), facts, events, bool(events), now_ns=NOW), **more
    )
    book = Notebook(Scope.SERVER)
    steps = [e for e in events if isinstance(e, DecodeStep)]
    write_demand(book, evidence, activity(events), pace(steps, 40))
    return book.signals()


def test_a_decode_line_means_running_for_three_usual_gaps() -> None:
    fresh = demand(*(decode(s) for s in (20, 16, 12, 8, 4)))
    assert fresh.value("demand.state") == "running"
    slow = demand(*(decode(s) for s in (48, 36, 24, 11)))
    assert slow.value("demand.state") == "running"


def test_silence_after_work_is_unknown_and_never_none() -> None:
    signals = demand(*(decode(s) for s in (100, 96, 92)))
    assert signals.value("demand.state") is None
    assert "older than 12 s" in signals.missing["demand.state"]


def test_no_connection_at_all_means_nobody_asks() -> None:
    assert demand(decode(100), connections=0).value("demand.state") == "none"


def test_open_connections_prove_nothing() -> None:
    assert demand(decode(100), connections=8).value("demand.state") is None


def test_explicit_zeros_mean_none() -> None:
    assert demand(stats(40, 3, 50.0), stats(20, 0), stats(10, 0)).value("demand.state") == "none"


def test_zero_running_beside_tokens_is_running() -> None:
    assert demand(stats(20, 4, 100.0), stats(10, 0, 2560.0)).value("demand.state") == "running"


def test_waiting_requests_are_not_no_demand() -> None:
    assert demand(stats(20, 0, 0.0, waiting=3), stats(10, 0, 0.0, waiting=3)).value("demand.state") != "none"


def test_without_any_source_demand_is_unknown_with_a_reason() -> None:
    signals = demand()
    assert signals.value("demand.state") is None
    assert signals.missing["demand.state"] == "neither log nor metrics of the server were read"


def test_the_pages_of_the_server_outrank_the_log() -> None:
    page = EndpointReading(NOW - NS, running=0, queued=0, source="/metrics")
    assert demand(decode(4), endpoint=(page,)).value("demand.state") == "none"
    busy = EndpointReading(NOW - NS, running=17, queued=2, source="/metrics")
    signals = demand(decode(4), endpoint=(busy,))
    assert (signals.value("demand.running"), signals.value("demand.queued")) == (17, 2)


def test_one_slot_is_not_the_server() -> None:
    """Under pipeline parallelism a line counts one micro-batch: a lower bound of the requests, no more."""
    signals = demand(decode(8), decode(4))
    assert signals.value("demand.running") is None
    assert signals.value("demand.running_min") == 8
    assert "one slot" in signals.missing["demand.running"]


def test_connections_count_requests_when_the_log_bounds_them() -> None:
    signals = demand(decode(8), decode(4), connections=8)
    assert signals.value("demand.running") == 8
    assert signals.known["demand.running"].basis == "sockets"
    assert demand(decode(8), decode(4), connections=3).value("demand.running") is None


def test_without_a_pipeline_the_line_counts_all() -> None:
    one = Facts(pp=1, tp=8, dp=1, running=Running.TOTAL)
    assert demand(decode(12), decode(8), decode(4), facts=one).value("demand.running") == 8


@pytest.mark.parametrize(
    ("stated", "state", "running"),
    [
        (Stated(running=8), "running", 8),
        (Stated(running=0), "none", 0),
        (Stated(running=0, queued=4), "running", 0),
        (Stated(concurrency=64), "running", 64),
        (Stated(concurrency=0), "none", 0),
    ],
)
def test_what_the_user_knows_counts(stated: Stated, state: str, running: int) -> None:
    signals = demand(stated=stated)
    assert (signals.value("demand.state"), signals.value("demand.running")) == (state, running)


def test_zero_running_with_a_queue_is_work_that_waits() -> None:
    assert demand(stated=Stated(running=0, queued=4)).value("demand.queued") == 4


@given(st.lists(st.floats(0, 400), max_size=30))
def test_running_time_is_the_union_of_what_each_line_speaks_for(ago: list[float]) -> None:
    """Against the naive sum over milliseconds of a window of 100 s that ends 50 s before now."""
    signs = activity([decode(s) for s in sorted(ago, reverse=True)])
    window = Interval(NOW - 150 * NS, NOW - 50 * NS)
    found = running_intervals(signs, 0, window)
    step = NS // 10
    naive = sum(
        any(t - 5 * NS <= at < t + round(signs.hold_s * NS) for t in signs.times_ns)
        for at in range(window.start_ns, window.end_ns, step)
    )
    assert sum(i.seconds for i in found) == pytest.approx(naive / 10, abs=0.1 * (2 * len(ago) + 1))
    assert all(a.end_ns < b.start_ns for a, b in pairwise(found))
