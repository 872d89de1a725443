"""The hub holds one picture and hands it to whoever waits."""

from __future__ import annotations

import threading

from bubblewatch.model.clock import ManualClock
from bubblewatch.runtime.hub import Hub
from tests.support.snapshots import healthy, quiet, story

LONG_S = 30.0
"""A wait that only a broken hub would sit out."""


def test_is_empty_before_the_first_snapshot() -> None:
    hub = Hub(ManualClock())

    assert hub.latest() is None
    assert hub.latest_with_age() is None
    assert hub.wait(0, timeout_s=0) is None


def test_numbers_snapshots_whatever_number_they_bring() -> None:
    hub = Hub(ManualClock())

    held = [hub.publish(snapshot).sequence for snapshot in (story(), quiet(), healthy())]

    assert held == [1, 2, 3]


def test_keeps_only_the_latest_and_knows_its_age() -> None:
    clock = ManualClock()
    hub = Hub(clock)
    hub.publish(story())
    held = hub.publish(quiet())
    clock.sleep(12.5)

    assert hub.latest() is held
    assert hub.latest_with_age() == (held, 12.5)


def test_wait_returns_at_once_when_there_is_something_newer() -> None:
    hub = Hub(ManualClock())
    held = hub.publish(story())

    assert hub.wait(0, LONG_S) is held
    assert hub.wait(held.sequence, timeout_s=0) is None


def test_wait_is_woken_by_the_next_snapshot() -> None:
    hub = Hub(ManualClock())
    seen = []
    waiter = threading.Thread(target=lambda: seen.append(hub.wait(0, LONG_S)))
    waiter.start()
    held = hub.publish(story())
    waiter.join(LONG_S)

    assert seen == [held]


def test_close_wakes_those_who_wait() -> None:
    hub = Hub(ManualClock())
    seen = []
    waiter = threading.Thread(target=lambda: seen.append(hub.wait(0, LONG_S)))
    waiter.start()
    hub.close()
    waiter.join(LONG_S)

    assert seen == [None]


def test_readers_and_a_writer_at_once_see_numbers_that_only_rise() -> None:
    hub = Hub(ManualClock())
    last = 500
    orders = []

    def read() -> None:
        numbers = [0]
        while numbers[-1] < last:
            snapshot = hub.wait(numbers[-1], LONG_S)
            assert snapshot is not None
            numbers.append(snapshot.sequence)
        orders.append(numbers)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(last):
        hub.publish(quiet())
    for reader in readers:
        reader.join(LONG_S)

    assert len(orders) == 4
    assert all(numbers == sorted(set(numbers)) for numbers in orders)
