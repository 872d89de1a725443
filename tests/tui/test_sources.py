"""Where feeds come from: the simulated host, a watcher of this process, a daemon that goes and comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from bubblewatch.app.rules import rules_in_force
from bubblewatch.app.top import TopOptions, feeds_for, print_tables
from bubblewatch.app.top_sources import DaemonFeeds, DemoFeeds, LiveFeeds
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import ServerHandle, serve
from bubblewatch.model.clock import ManualClock, SystemClock
from bubblewatch.model.errors import SourceError, SourceLost, UsageError
from bubblewatch.model.findings import Answer, Snapshot, State
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.runtime.feed_codec import feed_to_json
from bubblewatch.runtime.hub import Hub
from tests.support import feeds, snapshots

RULES = rules_in_force()
FAST = 1000.0


def test_the_demo_begins_with_a_full_minute_and_findings_that_fire() -> None:
    source = DemoFeeds("pp8-story", RULES, (), FAST, None)
    feed = source.next()
    assert feed is not None
    assert feed.snapshot.answer is Answer.FINDINGS
    assert {f.state for f in feed.snapshot.findings} == {State.FIRING}
    for trace in feed.traces.values():
        assert trace.work is not None
        assert None not in trace.work.values
    assert any(line.meaning == "decode step" for line in feed.lines)
    later = source.next()
    assert later is not None
    assert later.snapshot.time_ns > feed.snapshot.time_ns
    assert later.snapshot.sequence == feed.snapshot.sequence + 1


def test_the_demo_switches_its_scenario() -> None:
    source = DemoFeeds("pp8-story", RULES, (), FAST, None)
    source.next()
    source.switch("tp8")
    feed = source.next()
    assert feed is not None
    assert feed.snapshot.answer is Answer.HEALTHY
    assert source.title == "tp8"
    assert set(source.scenarios) >= {"pp8-story", "tp8", "hung"}


def test_the_demo_ends_after_its_seconds_and_when_it_is_closed() -> None:
    short = DemoFeeds("tp8", RULES, (), FAST, 15.0)
    assert [short.next() is None for _ in range(3)] == [False, False, True]
    slow = DemoFeeds("tp8", RULES, (), 0.1, None)
    slow.next()
    threading.Timer(0.05, slow.close).start()
    assert slow.next() is None  # would take 10 s otherwise


class FakeWatcher:
    """Ticks and counts; is not a real one, which needs a driver and /proc."""

    def __init__(self) -> None:
        self.ticks = 0
        self.closed = False

    def tick(self) -> Snapshot:
        self.ticks += 1
        return replace(snapshots.story(), sequence=self.ticks)

    def feed(self, snapshot: Snapshot, host: str) -> ScreenFeed:
        return replace(feeds.story(), snapshot=snapshot, host=host)

    def close(self) -> None:
        self.closed = True


def test_a_watcher_of_this_process_is_made_by_the_thread_that_asks_and_closed_at_the_end() -> None:
    watcher, makers = FakeWatcher(), []

    def make() -> FakeWatcher:
        makers.append(threading.current_thread())
        return watcher

    clock = ManualClock()
    source = LiveFeeds(make, clock, "gpu07")  # type: ignore[arg-type]  # the fake has what is used
    assert makers == []
    feed = source.next()
    assert feed is not None
    assert (feed.host, makers) == ("gpu07", [threading.current_thread()])
    clock.sleep(1.0)
    assert source.next() is not None
    source.close()
    assert watcher.closed
    assert source.next() is None


class Served:
    """A daemon's HTTP with a feed that a test sets; `stop` and `start` keep the port."""

    def __init__(self) -> None:
        self.feed: ScreenFeed | None = feeds.story()
        self._server: ServerHandle = self._serve(0)
        self.port = self._server.port

    def _serve(self, port: int) -> ServerHandle:
        def page() -> bytes | None:
            return feed_to_json(self.feed) if self.feed else None

        documents = Documents(of_snapshot=lambda _: "{}", of_error=lambda what, _: f'"{what}"', feed=page)
        hub = Hub(ManualClock())
        return serve(application(hub, Exposition(hub, "0"), documents), port=port)

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server = self._serve(self.port)


@pytest.fixture
def served() -> object:
    daemon = Served()
    yield daemon
    daemon.stop()


def test_a_daemons_feed_arrives_as_it_left(served: Served) -> None:
    source = DaemonFeeds(f"http://127.0.0.1:{served.port}/", SystemClock())
    assert source.next() == feeds.story()
    assert source.title == f"at 127.0.0.1:{served.port}"


def test_a_daemon_that_goes_is_said_and_one_that_comes_back_goes_on(served: Served) -> None:
    source = DaemonFeeds(f"http://127.0.0.1:{served.port}", SystemClock())
    source.next()
    served.stop()
    with pytest.raises(SourceLost, match="nobody answers"):
        source.next()
    served.feed = replace(feeds.story(), snapshot=replace(snapshots.story(), sequence=7))
    served.start()
    feed = source.next()
    assert feed is not None
    assert feed.snapshot.sequence == 7


def test_a_daemon_without_a_picture_is_asked_again_and_then_said(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.feed = None
    source = DaemonFeeds(f"http://127.0.0.1:{served.port}", SystemClock())
    monkeypatch.setattr("bubblewatch.app.top_sources.TICK_S", 0.01)
    with pytest.raises(SourceError, match="503"):
        source.next()
    threading.Timer(0.01, lambda: setattr(served, "feed", feeds.story())).start()
    monkeypatch.setattr("bubblewatch.app.top_sources.TICK_S", 0.2)
    assert source.next() is not None


def test_an_address_that_is_none_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="'gpu07' is no address"):
        feeds_for(TopOptions(connect="gpu07"), RULES, SystemClock())


def test_tables_stand_below_each_other_where_nothing_can_move(capsys: pytest.CaptureFixture[str]) -> None:
    class Two:
        title, scenarios, closed = "", {}, False

        def __init__(self) -> None:
            self.left: list[Callable[[], ScreenFeed | None]] = [self.lost, feeds.story, feeds.story, lambda: None]

        def lost(self) -> None:
            raise SourceLost("nobody [red]answers[/red]")

        def next(self) -> ScreenFeed | None:
            return self.left.pop(0)()

        def switch(self, scenario: str) -> None: ...

        def close(self) -> None:
            self.closed = True

    source = Two()
    last, code = print_tables(source, moves=False)
    printed = capsys.readouterr().out
    assert code == 0
    assert last == feeds.story()
    assert printed.count("FIX FIRST") == 2
    assert "no data: nobody [red]answers[/red]" in printed
    assert "\x1b" not in printed
    assert source.closed
