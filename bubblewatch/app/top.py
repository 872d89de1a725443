"""The screen: on the running daemon, on this machine alone, or on the simulated one; a plain table where there is no
terminal that can do more.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live

from bubblewatch.app.doctor import lost_findings
from bubblewatch.app.live import LiveOptions, live_watcher
from bubblewatch.app.top_sources import DaemonFeeds, LiveFeeds
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import Clock
from bubblewatch.model.errors import SourceError, UsageError
from bubblewatch.report.table import live_table
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.sources.endpoint import fetch_page
from bubblewatch.tui.source import FeedSource

DAEMON_URL = "http://127.0.0.1:9736"
"""Where a daemon of this machine listens unless told otherwise."""

EXIT_BUG, EXIT_INTERRUPTED = 70, 130
"""Exit codes of a crash (sysexits.h, EX_SOFTWARE) and of Ctrl-C."""

WINDOW_S = 30.0
"""Seconds over which the screen's own watcher judges: as `diagnose` does by default."""

_SOURCES = ("nvml", "telemetry", "journal", "log", "processes")
"""Names of sources whose loss costs findings."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How the screen should look. `colours` empty = as chosen last time; `ascii_signs` None = as the terminal can."""

    colours: str = ""
    ascii_signs: bool | None = None
    page: str = "overview"


@dataclass(frozen=True, slots=True)
class TopOptions:
    """What `top` watches. `connect` is the address of a daemon, None = the one of this machine if it runs.

    `alone` watches this machine without asking for a daemon.
    """

    connect: str | None = None
    alone: bool = False
    live: LiveOptions = field(default_factory=LiveOptions)


def can_show(environ: Mapping[str, str]) -> bool:
    """Whether both ends are a terminal that can place a cursor, and the library for the screen is installed."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    is_able = environ.get("TERM", "") not in {"", "dumb", "unknown"}
    return is_terminal and is_able and importlib.util.find_spec("textual") is not None


def feeds_for(options: TopOptions, rules: Sequence[Rule], clock: Clock) -> FeedSource:
    """The daemon's feeds when one was named or runs here, else those of a watcher of this process.

    Raises UsageError when the named address is no address.
    """
    if options.connect is not None:
        if not options.connect.startswith(("http://", "https://")):
            raise UsageError(f"--connect {options.connect!r} is no address", f"for example {DAEMON_URL}")
        return DaemonFeeds(options.connect, clock)
    if not options.alone and _answers(DAEMON_URL, clock):
        return DaemonFeeds(DAEMON_URL, clock)
    return LiveFeeds(lambda: live_watcher(options.live, rules, clock)[0], clock, platform.node())


def _answers(url: str, clock: Clock) -> bool:
    """Whether a bubblewatch listens there."""
    try:
        return fetch_page(f"{url}/-/healthy", clock) == "healthy\n"
    except SourceError:
        return False


def show(feeds: FeedSource, rules: Sequence[Rule], looks: Looks) -> tuple[ScreenFeed | None, int]:
    """Show the feeds until the person leaves: the last one, and the exit code (0, 70 after a crash, 128 + signal).

    Raises UsageError for colours or a page that are not there, and whatever the feeds raised beside SourceError.
    """
    # Takes 0.2 s, which nothing but the screen should pay.
    from bubblewatch.tui.app import Dashboard  # noqa: PLC0415
    from bubblewatch.tui.feed_screen import Setup  # noqa: PLC0415
    from bubblewatch.tui.glyphs import ASCII, BLOCKS, glyphs_for  # noqa: PLC0415
    from bubblewatch.tui.palette import PALETTES  # noqa: PLC0415
    from bubblewatch.tui.prefs import prefs_path  # noqa: PLC0415
    from bubblewatch.tui.room import Page  # noqa: PLC0415

    environ = os.environ
    colours = looks.colours or ("mono" if environ.get("NO_COLOR") else "")
    for chosen, known, what in ((colours, PALETTES, "colours"), (looks.page, list(Page), "page")):
        if chosen and chosen not in known:
            raise UsageError(f"there is no {what} {chosen!r}", f"there are {', '.join(known)}")
    glyphs = glyphs_for(environ) if looks.ascii_signs is None else ASCII if looks.ascii_signs else BLOCKS
    loses = {name: lost_findings(name, rules) for name in _SOURCES}
    setup = Setup(tuple(rules), loses, glyphs, colours, prefs_path(environ), Page(looks.page))
    app = Dashboard(feeds, setup)
    _silence()
    for name in ("COLUMNS", "LINES"):  # exported, they would stand for the size of the terminal for ever
        os.environ.pop(name, None)
    try:
        last = app.run()
    finally:
        feeds.close()
    if app.failure is not None:
        raise app.failure
    code = app.return_code or 0
    return last, EXIT_BUG if code == 1 else code


def _silence() -> None:
    """Keep log records off the terminal that the screen is on: with a handler of its own nothing falls back to it."""
    logging.getLogger("bubblewatch").addHandler(logging.NullHandler())


def print_tables(feeds: FeedSource, *, moves: bool) -> tuple[ScreenFeed | None, int]:
    """Show the feeds as tables until Ctrl-C or their end: in place where the cursor `moves`, else one below another."""
    console, last = Console(), None
    _silence()
    try:
        if not moves:
            last = _one_below_the_other(feeds, console)
        else:
            with Live(console=console, auto_refresh=False, transient=True) as screen:
                while (feed := _next(feeds, console)) is not None:
                    last = feed
                    screen.update(live_table(feed.snapshot), refresh=True)
    except KeyboardInterrupt:
        return last, EXIT_INTERRUPTED
    finally:
        feeds.close()
    return last, 0


def _one_below_the_other(feeds: FeedSource, console: Console) -> ScreenFeed | None:
    last = None
    while (feed := _next(feeds, console)) is not None:
        last = feed
        console.print(live_table(feed.snapshot))
    return last


def _next(feeds: FeedSource, console: Console) -> ScreenFeed | None:
    """The next feed; says why when there is none now, and asks again."""
    while True:
        try:
            return feeds.next()
        except SourceError as error:
            console.print(f"no data: {error}", markup=False, highlight=False)
            console.file.flush()
