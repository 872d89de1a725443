"""The memory between the sampler process and its parent."""

from __future__ import annotations

import itertools
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.telemetry import FIELDS
from bubblewatch.runtime.call_table import OTHER, SLOTS, bucket_of, together, upper_edge_ns
from bubblewatch.runtime.shared_ring import KEPT_S, MAX_GPUS, STATUS_ROOM, Fence, Ring, SharedPage, Word, rooms


def pages(rate_hz: float | None = 10.0) -> tuple[SharedPage, SharedPage]:
    """The writer's and the reader's view of one memory."""
    reader, fd = SharedPage.create(rate_hz)
    writer = SharedPage(fd, rate_hz, writable=True)
    os.close(fd)
    return writer, reader


def ring(room: int) -> Ring:
    def words(count: int, code: str) -> memoryview:
        return memoryview(bytearray(8 * count)).cast(code)

    return Ring(words(1, "Q"), words(room, "q"), words(room, "d"), Fence())


@given(
    room=st.integers(2, 9),
    steps=st.lists(st.integers(1, 50), max_size=40),
    since_ns=st.integers(0, 1200),
)
def test_a_ring_gives_the_latest_readings_that_it_has_room_for(room: int, steps: list[int], since_ns: int) -> None:
    one, pushed, now_ns = ring(room), [], 0
    for number, step in enumerate(steps):
        now_ns += step
        one.push(now_ns, float(number))
        pushed.append((now_ns, float(number)))

    series = one.since(since_ns)

    # One slot less than the room: the next reading may be half written where the oldest lies.
    expected = [pair for pair in pushed[-(room - 1) :] if pair[0] >= since_ns]
    assert list(zip(series.times_ns, series.values, strict=True)) == expected


@given(st.lists(st.integers(0, 5), min_size=2, max_size=8))
def test_times_increase_strictly_whatever_is_pushed(times_ns: list[int]) -> None:
    one = ring(10)
    for time_ns in times_ns:
        one.push(time_ns, 1.0)

    kept = list(one.since(0).times_ns)

    assert len(kept) == len(times_ns)
    assert all(earlier < later for earlier, later in itertools.pairwise(kept))


class OvertakenFence(Fence):
    """Lets the writer overtake the reader at one moment of its reading."""

    def __init__(self) -> None:
        super().__init__()
        self.overtake = lambda: None
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 2:
            self.overtake()


def test_readings_that_are_overwritten_while_they_are_read_are_left_out() -> None:
    head, times, values = (memoryview(bytearray(8 * n)).cast(code) for n, code in ((1, "Q"), (8, "q"), (8, "d")))
    writer, fence = Ring(head, times, values, Fence()), OvertakenFence()
    for at in range(1, 9):
        writer.push(at * 10, float(at))
    reader = Ring(head, times, values, fence)
    fence.overtake = lambda: [writer.push(100 + at, 0.0) for at in range(3)]

    assert list(reader.since(0).values) == [5.0, 6.0, 7.0, 8.0]


def test_every_field_of_every_gpu_has_its_own_ring() -> None:
    writer, reader = pages()
    places = [(gpu, field) for gpu in (0, 7, MAX_GPUS - 1) for field in FIELDS]
    for number, (gpu, field) in enumerate(places):
        writer.ring(gpu, field).push(1 + number, number + 0.5)

    for number, (gpu, field) in enumerate(places):
        assert list(reader.ring(gpu, field).since(0).values) == [number + 0.5]
    assert len(reader.ring(1, "energy_j").since(0)) == 0


@pytest.mark.parametrize(("rate_hz", "a_second"), [(0.5, 1), (10.0, 10), (None, 20), (200.0, 50)])
def test_rings_hold_ten_minutes_of_distinct_readings(rate_hz: float | None, a_second: int) -> None:
    writer, reader = pages(rate_hz)
    count = KEPT_S * a_second
    fast, slow = writer.ring(0, "power_instant_w"), writer.ring(0, "sm_clock_mhz")
    for at in range(count + 5):
        fast.push(1 + at, 1.0)
    for at in range(KEPT_S + 5):
        slow.push(1 + at, 1.0)

    assert len(reader.ring(0, "power_instant_w").since(0)) == count - 1
    assert len(reader.ring(0, "sm_clock_mhz").since(0)) == KEPT_S + 5


@given(st.floats(0.01, 1e6))
def test_memory_is_bounded_whatever_the_rate(rate_hz: float) -> None:
    """NVIDIA/dcgm-exporter#536, Syllo/nvtop#47: memory that grows with rate and GPU count."""
    readings = sum(rooms(rate_hz).values())

    assert readings <= sum(rooms(1000.0).values())
    assert 16 * readings < 2_000_000  # bytes a GPU


def test_nan_survives() -> None:
    writer, reader = pages()
    writer.ring(0, "energy_j").push(5, math.nan)

    assert math.isnan(reader.ring(0, "energy_j").since(0).values[0])


def test_the_reader_cannot_write() -> None:
    _, reader = pages()

    with pytest.raises(TypeError):
        reader.set(Word.TICKS, 1)


def test_counters_start_at_zero_and_are_shared() -> None:
    writer, reader = pages()
    assert [reader.get(word) for word in Word] == [0] * len(Word)

    writer.set(Word.TICKS, 2**63)

    assert reader.get(Word.TICKS) == 2**63


def test_a_status_is_none_before_the_first_and_while_one_is_written() -> None:
    writer, reader = pages()
    before = reader.status()
    writer.publish(b"one")
    writer.publish(b"another")
    after = reader.status()
    writer.set(Word.STATUS_SEQUENCE, writer.get(Word.STATUS_SEQUENCE) + 1)

    assert (before, after, reader.status()) == (None, b"another", None)


def test_a_status_that_does_not_fit_is_refused_and_the_old_one_stays() -> None:
    writer, reader = pages()
    writer.publish(b"x" * STATUS_ROOM)

    with pytest.raises(ValueError, match="status"):
        writer.publish(b"y" * (STATUS_ROOM + 1))

    assert reader.status() == b"x" * STATUS_ROOM


@given(st.integers(0, 2**50))
def test_a_latency_lies_in_its_bucket(latency_ns: int) -> None:
    bucket = bucket_of(latency_ns)
    last = bucket_of(2**63)

    assert bucket == last or latency_ns < upper_edge_ns(bucket)
    assert bucket == 0 or latency_ns >= upper_edge_ns(bucket - 1)


@given(st.integers(4, 2**38))
def test_a_bucket_is_no_wider_than_a_quarter_of_its_latencies(latency_ns: int) -> None:
    edge_ns = upper_edge_ns(bucket_of(latency_ns))
    assert latency_ns < edge_ns <= latency_ns * 1.25 + 1


def test_calls_are_told_apart_by_function() -> None:
    writer, reader = pages()
    for latency_ns in [2_000] * 98 + [1_000_000] * 2:
        writer.count_call("nvmlDeviceGetFieldValues", latency_ns)
    writer.count_call("nvmlDeviceGetName", 5_000)

    calls = reader.calls.read()

    assert calls.keys() == {"nvmlDeviceGetFieldValues", "nvmlDeviceGetName"}
    fields = calls["nvmlDeviceGetFieldValues"]
    assert (fields.calls, fields.seconds) == (100, pytest.approx(2.196e-3))
    assert fields.quantile_s(0.5) == pytest.approx(2e-6, rel=0.25)
    assert fields.quantile_s(0.99) == pytest.approx(1e-3, rel=0.25)
    assert reader.calls.total_ns() == 2_201_000


def test_a_latency_counts_below_an_edge_only_when_it_certainly_is() -> None:
    writer, reader = pages()
    for latency_ns in (900, 9_000, 90_000):
        writer.count_call("one", latency_ns)

    stats = reader.calls.read()["one"]

    assert [stats.below(edge_s) for edge_s in (1e-7, 1e-6, 1e-5, 1e-4, 1.0)] == [0, 0, 1, 3, 3]


def test_functions_beyond_the_table_are_counted_together() -> None:
    writer, reader = pages()
    for number in range(SLOTS + 5):
        writer.count_call(f"function{number}", 100)

    calls = reader.calls.read()

    assert len(calls) == SLOTS
    assert calls[OTHER].calls == 6
    assert together(calls.values()).calls == reader.calls.total_calls() == SLOTS + 5


def test_no_calls_have_no_quantile() -> None:
    assert pages()[1].calls.read() == {}
    assert together([]).quantile_s(0.5) is None


def test_distinct_readings_are_counted_by_field() -> None:
    writer, reader = pages()
    writer.add(Word.FIRST_DISTINCT + list(FIELDS).index("energy_j"), 3)

    assert (reader.distinct("energy_j"), reader.distinct("util_ratio")) == (3, 0)
