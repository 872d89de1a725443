"""What the screen needs from whoever watches: feeds, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bubblewatch.runtime.feed import ScreenFeed


class FeedSource(Protocol):
    """Gives feeds to the one thread that asks; the other methods may be called from any."""

    @property
    def title(self) -> str:
        """What is watched, when it is not simply this machine: a scenario, an address; else empty."""

    @property
    def scenarios(self) -> Mapping[str, str]:
        """Name -> description of what can be switched to; empty where nothing can."""

    def next(self) -> ScreenFeed | None:
        """The next feed, after waiting until it is due; None when there will be no more.

        Raises SourceError when there is nothing to show now; asking again later may help.
        """

    def switch(self, scenario: str) -> None:
        """Show this scenario from the next feed on."""

    def close(self) -> None:
        """Let go of everything; a waiting `next` returns None soon."""
