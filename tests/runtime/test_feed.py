"""What a screen gets: lanes at the sensors' own rate, log lines, and the way over HTTP."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import SourceError
from bubblewatch.model.logs import DecodeStep, Failure, LogLine
from bubblewatch.model.telemetry import GpuReading, Series, Telemetry
from bubblewatch.runtime.feed import LINE_LENGTH, LINES, MOST_POINTS, SPAN_S, GpuTrace, make_feed, shown_line
from bubblewatch.runtime.feed_codec import feed_from_json, feed_to_json
from bubblewatch.runtime.feed_desk import FRESH_S, WANTED_S, FeedDesk
from tests.support import feeds, snapshots


def telemetry(period_s: float, name: str, seconds: float = 60.0, count: int = 1) -> Telemetry:
    """A field that changes at every refresh of its sensor: 0, 0.1, … 0.9, 0, …"""
    times = [round(n * period_s * NS) for n in range(round(seconds / period_s))]
    series = Series(times, [n % 10 / 10 for n in range(len(times))])
    gpus = tuple(GpuReading(gpu, {name: series}) for gpu in snapshots.gpu_infos(count))
    return Telemetry(gpus, 0, round(seconds * NS), 0)


def trace_of(read: Telemetry) -> GpuTrace:
    snapshot = replace(snapshots.story(), gpus=tuple(g.gpu for g in read.gpus))
    return make_feed(snapshot, read, (), "h").traces[read.gpus[0].gpu.uuid]


@pytest.mark.parametrize("period_s", [0.1, 0.2, 0.5, 1.0])
def test_a_lane_has_the_step_and_tells_the_period_of_its_sensor(period_s: float) -> None:
    lane = trace_of(telemetry(period_s, "util_ratio")).util
    assert lane is not None
    assert lane.step_s == period_s
    assert lane.refresh_s == pytest.approx(period_s, rel=0.01)
    assert len(lane.values) == round(SPAN_S / period_s)


def test_the_same_moment_has_the_same_number_in_the_next_feed() -> None:
    first, later = telemetry(0.2, "util_ratio"), telemetry(0.2, "util_ratio", 60.7)
    one, two = trace_of(first).util, trace_of(later).util
    assert one is not None
    assert two is not None
    shift = two.last - one.last
    assert shift == 3
    assert two.values[: -shift - 1] == one.values[shift:-1]


def test_before_the_first_reading_nothing_was_read() -> None:
    lane = trace_of(telemetry(1.0, "util_ratio", 10.0)).util
    assert lane is not None
    assert lane.values[:49] == (None,) * 49
    assert lane.values[-1] == 0.9


def test_what_the_device_does_not_say_is_none_and_never_nan() -> None:
    read = telemetry(1.0, "util_ratio")
    gpu = read.gpus[0]
    series = replace(gpu.series["util_ratio"], values=[math.nan] * 60)
    lane = trace_of(replace(read, gpus=(replace(gpu, series={"util_ratio": series}),))).util
    assert lane is not None
    assert set(lane.values) == {None}


def test_work_is_the_sensor_that_the_duty_rests_on() -> None:
    read = telemetry(1.0, "sm_active_ratio")
    trace = trace_of(read)
    assert trace.basis == "sm"
    assert trace.work is not None
    assert max(v for v in trace.work.values if v is not None) == 1.0  # 0.9 of an SM activity that is full at 0.75


def test_many_gpus_share_the_points_there_are() -> None:
    read = telemetry(0.1, "power_instant_w", count=72)
    snapshot = replace(snapshots.story(), gpus=tuple(g.gpu for g in read.gpus))
    traces = make_feed(snapshot, read, (), "h").traces.values()
    points = [len(trace.power_w.values) for trace in traces if trace.power_w]
    assert sum(points) <= MOST_POINTS
    assert min(points) >= 60


def test_only_the_newest_lines_go_along_cut_at_a_length() -> None:
    said = [*feeds.lines("a", 300), shown_line("b", 1, LogLine("x" * 5000, feeds.TIME_NS + 1), ())]
    shown = make_feed(snapshots.story(), Telemetry(), said, "h").lines
    assert len(shown) == LINES
    assert shown[-1].text == "x" * LINE_LENGTH


def test_a_line_carries_what_it_was_understood_as() -> None:
    line = LogLine("text")
    assert shown_line("s", 1, line, (DecodeStep(line),)).meaning == "decode step"
    assert shown_line("s", 1, line, (Failure(line, kind="nccl"),)).is_failure
    assert shown_line("s", 1, line, ()).meaning == ""


@pytest.mark.parametrize("name", feeds.ALL)
def test_a_feed_comes_back_from_json_as_it_was(name: str) -> None:
    feed = feeds.ALL[name]()
    text = feed_to_json(feed)
    assert b"NaN" not in text
    if name != "hostile":  # half a surrogate pair has no UTF-8
        assert feed_from_json(text) == feed
    else:
        assert feed_from_json(text).snapshot.findings[0].name == feed.snapshot.findings[0].name


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "feed": {"snapshot": 3}}', "\ud800"]
)
def test_what_is_no_feed_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(SourceError, match="not a feed of bubblewatch"):
        feed_from_json(text)


def test_a_feed_of_another_version_says_which() -> None:
    with pytest.raises(SourceError, match="speaks version 99"):
        feed_from_json('{"version": 99, "feed": "whatever"}')


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(SourceError):
        feed_from_json(data)


def test_feeds_are_wanted_only_while_somebody_asks() -> None:
    clock = ManualClock()
    desk = FeedDesk(clock)
    assert not desk.is_wanted
    assert desk.take() is None
    assert desk.is_wanted
    desk.put(feeds.story())
    assert desk.take() is not None
    clock.sleep(FRESH_S)
    assert desk.take() is None, "an old feed is no feed"
    clock.sleep(WANTED_S)
    assert not desk.is_wanted
