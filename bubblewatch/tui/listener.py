"""The thread that asks a source for feeds and hands them to the application."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from bubblewatch.model.errors import SourceError
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.tui.source import FeedSource

ASK_AGAIN_S = 1.0
"""Seconds before a source that has nothing to show is asked again."""


class FeedCame(Message):
    """A new feed; or None, with the reason in `trouble`, with an `error` that nobody expected, or at the end."""

    def __init__(self, feed: ScreenFeed | None, trouble: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self.feed = feed
        self.trouble = trouble
        self.error = error


class Listener:
    """Asks until the source has no more or `stop`. A source may wait or compute, so it has a thread of its own.

    `post` is called on that thread.
    """

    def __init__(self, source: FeedSource, post: Callable[[FeedCame], object]) -> None:
        self._source = source
        self._post = post
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._listen, name="bubblewatch-feed", daemon=True).start()

    def stop(self) -> None:
        """Ask no more and close the source."""
        self._stopping.set()
        self._source.close()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                feed = self._source.next()
            except SourceError as error:
                self._post(FeedCame(None, str(error)))
                self._stopping.wait(ASK_AGAIN_S)
                continue
            except Exception as error:  # noqa: BLE001  a thread that dies in silence would leave a dead screen
                self._post(FeedCame(None, error=error))
                return
            if not self._stopping.is_set():
                self._post(FeedCame(feed))
            if feed is None:
                return
