import pytest

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import DecodeStep, LogLine, StatsLine
from bubblewatch.model.server import Rank
from bubblewatch.signals.decode import pace, stats_totals

START = 1_796_000_000 * NS


def steps(
    times: list[float], *, running: int, tps: float, pp: int = 0, exact: bool = True, graph: bool | None = None
) -> list[DecodeStep]:
    return [
        DecodeStep(
            LogLine("Decode batch, ...", START + round(t * NS), exact),
            Rank(pp=pp),
            running=running,
            gen_tps=tps,
            cuda_graph=graph,
            queued=0,
        )
        for t in times
    ]


def every(period: float, count: int) -> list[float]:
    return [i * period for i in range(count)]


def test_the_story_in_one_slot() -> None:
    """One slot of eight: 40 steps in 3.35 s are 83.7 ms each, and 95.6 tok/s then are 8 requests a batch."""
    told = pace(steps(every(3.348, 10), running=8, tps=95.6), 40)
    assert told.step_s == pytest.approx(0.0837, rel=0.01)
    assert told.batch == pytest.approx(8.0, rel=0.01)


def test_the_same_throughput_in_eight_slots() -> None:
    """Eight slots of one print a line per 0.42 s."""
    told = pace(steps(every(0.4184, 20), running=1, tps=95.6), 40)
    assert told.step_s == pytest.approx(0.01046, rel=0.01)
    assert told.batch == pytest.approx(1.0, rel=0.01)


def test_every_stage_logs_the_same_totals_and_none_is_summed() -> None:
    lines = sorted(
        (s for pp in range(8) for s in steps(every(3.348, 6), running=8, tps=95.6, pp=pp)), key=lambda s: s.time_ns or 0
    )
    assert pace(lines, 40).gen_tps == pytest.approx(95.6)


def test_the_line_after_a_pause_does_not_count() -> None:
    busy = steps(every(1.0, 6), running=1, tps=44.6)
    after = steps([300.0], running=1, tps=0.59) + steps([301.0, 302.0], running=1, tps=44.6)
    told = pace(busy + after, 40)
    assert told.gen_tps == pytest.approx(44.6)
    assert told.step_s == pytest.approx(1 / 40)
    assert all(line.gen_tps == 44.6 for line in told.lines)


def test_times_of_a_second_need_a_span_of_ten() -> None:
    short = pace(steps([0, 3, 7], running=8, tps=95.6, exact=False), 40)
    assert short.step_basis == "rate"
    assert short.step_s == pytest.approx(8 / 95.6)
    long = pace(steps([0, 3, 7, 10, 13, 17, 20], running=8, tps=95.6, exact=False), 40)
    assert long.step_basis == "times"
    assert long.step_s == pytest.approx(20 / 6 / 40, rel=0.05)


def test_lines_without_times_still_give_a_step_by_the_rate() -> None:
    lines = [DecodeStep(LogLine("x"), Rank(), running=8, gen_tps=95.6) for _ in range(3)]
    assert pace(lines, 40).step_s == pytest.approx(0.0837, rel=0.01)


def test_graph_share_counts_only_lines_that_say() -> None:
    mixed = steps(every(1, 3), running=1, tps=9, graph=False) + steps(every(1, 1), running=1, tps=9, graph=None)
    told = pace(mixed, 40)
    assert (told.graph_share, told.graph_lines) == (0.0, 3)
    assert pace(steps(every(1, 3), running=1, tps=9), 40).graph_share is None


def test_no_lines_say_nothing() -> None:
    told = pace([], 40)
    assert (told.gen_tps, told.step_s, told.batch, told.graph_share, told.running_max) == (None,) * 5


def stats(running: int, tps: float, waiting: int | None = 0, engine: str | None = None) -> StatsLine:
    line = LogLine("Engine 000: Avg prompt throughput ...")
    return StatsLine(line, None, running, waiting, None, 0.0, tps, 0.5, engine)


def test_totals_of_engines_add_up() -> None:
    lines = [stats(3, 100, engine="000"), stats(5, 200, engine="001")]
    assert stats_totals(lines) == (8, 0, 300.0)


def test_gauge_zero_beside_tokens_is_not_idle() -> None:
    """Gauge and average of one line belong to different moments: Running 0 with 2560 tok/s was a busy interval."""
    assert stats_totals([stats(12, 2400), stats(0, 2560)])[0] == 12
    assert stats_totals([stats(12, 2400), stats(0, 0.0)])[0] == 0
