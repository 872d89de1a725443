"""The half of the dashboard that shows: feeds come in, the chosen page goes up."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from textual.app import App, ComposeResult
from textual.filter import LineFilter, NoColor
from textual.screen import Screen

from bubblewatch.diagnose.rule import Rule
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.tui.draw import draw
from bubblewatch.tui.filter_line import FilterLine
from bubblewatch.tui.glyphs import ASCII, BLOCKS, Glyphs
from bubblewatch.tui.head import foot_line, head_lines, waiting_lines
from bubblewatch.tui.listener import FeedCame, Listener
from bubblewatch.tui.memory import Rememberer
from bubblewatch.tui.palette import PALETTES, Palette
from bubblewatch.tui.prefs import Prefs, load_prefs, save_prefs
from bubblewatch.tui.room import Choice, Page, Room, Scene, Sheet
from bubblewatch.tui.sheet_view import SheetView
from bubblewatch.tui.source import FeedSource

MESSAGE_S = 3.0
"""How long a short message stands in the foot, in seconds."""

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals after which the terminal is put right and the program ends."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the screen looks and what it knows beside the feeds. `palette` empty = as chosen last time.

    `loses` are the findings lost while a source cannot be read, by the source's name.
    """

    rules: tuple[Rule, ...] = ()
    loses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    glyphs: Glyphs = BLOCKS
    palette: str = ""
    prefs: Path | None = None
    page: Page = Page.OVERVIEW


class FeedScreen(App[ScreenFeed]):
    """Takes feeds and shows the chosen page of the newest; what keys do is in `app`. One instance runs once."""

    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    TITLE = "bubblewatch"
    AUTO_FOCUS = ""
    CSS = """
    Screen { layout: vertical; background: $background; overflow: hidden; }
    #head { height: 2; }
    #foot { height: 1; }
    KeysPopup, ListPopup { background: $background 60%; }
    CommandPalette SearchIcon { display: none; }
    OptionList > .option-list--option-highlighted { text-style: bold; }
    OptionList:nocolor > .option-list--option-highlighted { text-style: bold reverse; }
    """

    def __init__(self, source: FeedSource, setup: Setup) -> None:
        super().__init__()
        self.animation_level = "none"
        self._source = source
        self._setup = setup
        prefs = load_prefs(setup.prefs)
        name = setup.palette or prefs.palette
        self._palette: Palette = PALETTES.get(name, next(iter(PALETTES.values())))
        self._choice = Choice(page=setup.page, span_s=prefs.span_s, with_defaults=prefs.with_defaults)
        self._remembered = Rememberer()
        self._feed: ScreenFeed | None = None
        self._newest: ScreenFeed | None = None
        self._trouble = ""
        self._note = ""
        self._back: list[Page] = []
        self._listener = Listener(source, self.post_message)
        self.failure: Exception | None = None
        """What the thread that asks for feeds died of; it belongs to whoever ran the application."""
        for palette in PALETTES.values():
            self.register_theme(palette.theme)

    # --- life --------------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield SheetView(id="head", on_resize=self._draw)
        yield SheetView(id="page", on_resize=self._draw)
        yield FilterLine()
        yield SheetView(id="foot", on_resize=self._draw)

    def on_mount(self) -> None:
        self._paint()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if threading.current_thread() is threading.main_thread():
                loop.add_signal_handler(number, self._end_by_signal, number)
        self._listener.start()

    def on_unmount(self) -> None:
        self._listener.stop()

    def _end_by_signal(self, number: int) -> None:
        self.exit(self._feed, return_code=128 + number)

    def on_feed_came(self, event: FeedCame) -> None:
        """Take the feed; one that is None without a trouble is the end."""
        event.stop()
        if event.feed is None and not event.trouble:
            self.failure = event.error
            self.exit(self._newest)
            return
        self._trouble = event.trouble
        if event.feed is not None:
            self._newest = event.feed
            self._remembered.take(event.feed)
            if not self._choice.paused:
                self._feed = event.feed
        self._draw()

    # --- drawing -----------------------------------------------------------------------------------------------------

    @property
    def scene(self) -> Scene | None:
        """What is shown now; None before the first feed."""
        if self._feed is None:
            return None
        scene = Scene(self._feed, self._choice, rules=self._setup.rules, loses=tuple(self._setup.loses.items()))
        view = scene.view
        memory = self._remembered.of(view.target.id if view else None)
        return replace(scene, memory=memory.until(self._feed.snapshot.time_ns) if self._choice.paused else memory)

    def _paint(self) -> None:
        """Bring up the palette."""
        self.theme = self._palette.theme.name
        self.no_color = self._palette.name == "mono"
        for one in self._base.query(SheetView):
            one.paint(self._palette.styles, ascii_signs=self._setup.glyphs is ASCII)

    @property
    def _base(self) -> Screen[object]:
        """The screen below any popup."""
        return self.screen_stack[0]

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours nothing of a style but weight and reversal reaches the terminal."""
        return (NoColor(),) if self._palette.name == "mono" else super().get_line_filters()

    def _draw(self, *, keep_place: bool = True) -> None:
        """Put the page, the head and the foot up as they are now."""
        if not self.screen_stack or not self._base.is_mounted:
            return
        scene, size = self.scene, self.size
        room = Room(size.width, size.height, self._setup.glyphs)
        base = self._base
        head, page, foot = (base.query_one(name, SheetView) for name in ("#head", "#page", "#foot"))
        top = (
            head_lines(scene, room, self._trouble, self._source.title)
            if scene
            else waiting_lines(room, self._trouble, self._source.title)
        )
        head.styles.height = len(top)
        head.put(Sheet(tuple(top)), keep_place=False)
        bottom = foot_line(scene, room, bool(self._source.scenarios), self._note)
        foot.put(Sheet((bottom,)), keep_place=False)
        if scene is None:
            page.put(Sheet(()), keep_place=False)
            return
        is_filtering = self._filter.is_open
        inner = replace(room, rows=max(size.height - len(top) - 1 - is_filtering, 1))
        page.put(draw(scene, inner), keep_place=keep_place)

    def _choose(self, *, keep_place: bool = True, **changes: object) -> None:
        self._choice = replace(self._choice, **changes)  # type: ignore[arg-type]  # the keywords are Choice's own
        self._draw(keep_place=keep_place)

    def _say(self, text: str) -> None:
        """A short message in the foot."""
        self._note = text
        self._draw()
        self.set_timer(MESSAGE_S, self._say_nothing)

    def _say_nothing(self) -> None:
        self._note = ""
        self._draw()

    def _keep(self) -> None:
        """Remember the choices for the next run."""
        choice = self._choice
        save_prefs(self._setup.prefs, Prefs(self._palette.name, choice.span_s, choice.with_defaults))

    @property
    def _page_view(self) -> SheetView:
        return self._base.query_one("#page", SheetView)

    @property
    def _filter(self) -> FilterLine:
        return self._base.query_one(FilterLine)
