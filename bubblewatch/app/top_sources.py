"""Where the screen gets its feeds: a watcher of this process, simulated or on this machine, or a daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, Clock, ManualClock
from bubblewatch.model.errors import SourceError, SourceLost
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.runtime.feed_codec import feed_from_json
from bubblewatch.runtime.watch import Watcher
from bubblewatch.sources.endpoint import fetch_page

TICK_S = 1.0
"""Seconds between two feeds: rules speak of tens of seconds, and lanes carry what happened in between."""

BEFORE_S = 70
"""Simulated seconds before the first picture of the demo: a full minute of lanes, and findings that are told."""

BEFORE_STEP_S = 10.0
"""Step over that time, in seconds."""

ASK_AGAIN = 4
"""Questions, half a second apart, before a daemon that answers has nothing to show: it makes a feed every second."""

NO_SCENARIOS: Mapping[str, str] = MappingProxyType({})


class DemoFeeds:
    """Feeds of a simulated host, a FeedSource. `speed` is simulated over real time; it ends after `seconds` of it."""

    def __init__(
        self, scenario: str, rules: Sequence[Rule], ignore: Sequence[str], speed: float, seconds: float | None
    ) -> None:
        self._rules = rules
        self._ignore = tuple(ignore)
        self._speed = speed
        self._seconds = seconds
        self._wanted = scenario
        self._playing = ""
        self._clock = ManualClock()
        self._watcher: Watcher | None = None
        self._changed = threading.Event()
        self._closed = threading.Event()

    @property
    def title(self) -> str:
        return self._wanted

    @property
    def scenarios(self) -> Mapping[str, str]:
        return {name: scenario.description for name, scenario in scenarios().items()}

    def next(self) -> ScreenFeed | None:
        """The picture one tick on; the first one at once."""
        if self._watcher is None or self._playing != self._wanted:
            watcher = self._start()
        else:
            watcher = self._watcher
            step_s = TICK_S * min(self._speed, BEFORE_STEP_S)
            self._changed.wait(step_s / self._speed)
            if self._closed.is_set():
                return None
            if self._changed.is_set():
                return self.next()
            self._clock.sleep(step_s)
        snapshot = watcher.tick()
        if self._seconds is not None and snapshot.watched_s - BEFORE_S > self._seconds:
            return None
        return watcher.feed(snapshot, "simulated")

    def _start(self) -> Watcher:
        """A watcher of the wanted scenario that has watched for a while."""
        self._changed.clear()
        self._playing = self._wanted
        if self._watcher is not None:
            self._watcher.close()
        self._clock = ManualClock()
        watcher = simulated_watcher(scenarios()[self._playing], self._clock, self._rules, self._ignore, one_shot=False)
        self._watcher = watcher
        for _ in range(round(BEFORE_S / BEFORE_STEP_S)):
            watcher.tick()
            self._clock.sleep(BEFORE_STEP_S)
        return watcher

    def switch(self, scenario: str) -> None:
        self._wanted = scenario
        self._changed.set()

    def close(self) -> None:
        self._closed.set()
        self._changed.set()


class LiveFeeds:
    """Feeds of a watcher that `make` makes, a FeedSource. The watcher belongs to the thread that asks for feeds."""

    def __init__(self, make: Callable[[], Watcher], clock: Clock, host: str) -> None:
        self._make = make
        self._clock = clock
        self._host = host
        self._watcher: Watcher | None = None
        self._next_ns = 0
        self._closed = threading.Event()
        self._asking = threading.Lock()

    @property
    def title(self) -> str:
        return ""

    @property
    def scenarios(self) -> Mapping[str, str]:
        return NO_SCENARIOS

    def next(self) -> ScreenFeed | None:
        """The picture when it is due; one that was late makes the next one late, never doubled."""
        with self._asking:
            if self._watcher is None and not self._closed.is_set():
                self._watcher = self._make()
            self._closed.wait(max(self._next_ns - self._clock.monotonic_ns(), 0) / NS)
            if self._closed.is_set() or self._watcher is None:
                return None
            self._next_ns = max(self._next_ns, self._clock.monotonic_ns()) + round(TICK_S * NS)
            return self._watcher.feed(self._watcher.tick(), self._host)

    def switch(self, scenario: str) -> None:
        """Nothing can be switched to."""

    def close(self) -> None:
        """End, after the feed that is under way: the sampler process must not outlive the screen."""
        self._closed.set()
        with self._asking:
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None


class DaemonFeeds:
    """Feeds from the daemon at `url` (`http://127.0.0.1:9736`), a FeedSource."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url.rstrip("/")
        self._clock = clock
        self._sequence = -1
        self._closed = threading.Event()

    @property
    def title(self) -> str:
        return f"at {self._url.partition('://')[2]}"

    @property
    def scenarios(self) -> Mapping[str, str]:
        return NO_SCENARIOS

    def next(self) -> ScreenFeed | None:
        """The newest feed of the daemon, once; the first one at once."""
        if self._sequence >= 0:
            self._closed.wait(TICK_S)
        while not self._closed.is_set():
            feed = self._ask()
            if feed.snapshot.sequence != self._sequence:
                self._sequence = feed.snapshot.sequence
                return feed
            self._closed.wait(TICK_S / 4)
        return None

    def _ask(self) -> ScreenFeed:
        """What the daemon has now. The first question only makes it prepare feeds, so it is asked again."""
        for _ in range(ASK_AGAIN):
            try:
                return feed_from_json(fetch_page(f"{self._url}/api/v1/feed", self._clock))
            except SourceLost:
                raise
            except SourceError:
                if self._closed.wait(TICK_S / 2):
                    raise
        return feed_from_json(fetch_page(f"{self._url}/api/v1/feed", self._clock))

    def switch(self, scenario: str) -> None:
        """Nothing can be switched to."""

    def close(self) -> None:
        self._closed.set()
