"""Feeds as JSON and back: what a screen on another terminal or machine gets from the daemon."""

from __future__ import annotations

from typing import Any

import msgspec

from bubblewatch.model.errors import SourceError
from bubblewatch.runtime.feed import ScreenFeed

FEED_VERSION = 1
"""Raised when the page changes so that an older screen would misread it."""


class _Page(msgspec.Struct, frozen=True):
    """The page: its version, and the feed."""

    version: int
    feed: ScreenFeed


class _Head(msgspec.Struct, frozen=True):
    """What is read of a page of any version."""

    version: int


def feed_to_json(feed: ScreenFeed) -> bytes:
    """The feed as one JSON document in UTF-8. Numbers are finite: a feed holds None where nothing was read.

    Text that is no UTF-8 (half of a surrogate pair, from an argv) gets `?` in its place.
    """
    page = _Page(FEED_VERSION, feed)
    try:
        return msgspec.json.encode(page, enc_hook=_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(_as_utf8(msgspec.to_builtins(page, enc_hook=_plain)))


def feed_from_json(text: str | bytes) -> ScreenFeed:
    """The feed of a page. Raises SourceError for anything that is no feed, or one of another version."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    try:
        version = msgspec.json.decode(data, type=_Head).version
        if version != FEED_VERSION:
            raise SourceError(
                f"the daemon speaks version {version} of the feed, this program version {FEED_VERSION}",
                "run the same version of bubblewatch on both sides",
            )
        return msgspec.json.decode(data, type=_Page).feed
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f"what came is not a feed of bubblewatch: {error}"[:200]) from error


def _plain(value: Any) -> Any:
    """Read-only views of dictionaries, which msgspec does not know."""
    return dict(value)


def _as_utf8(value: Any) -> Any:
    """Plain JSON types with every string fit for UTF-8."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_as_utf8(key): _as_utf8(item) for key, item in value.items()}
        case list() | tuple():
            return [_as_utf8(item) for item in value]
        case _:
            return value
