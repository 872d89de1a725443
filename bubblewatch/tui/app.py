"""The dashboard: takes feeds from a thread, and shows the page that the person chose."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.filter import LineFilter, NoColor
from textual.screen import Screen
from textual.widgets import Input

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.visible import visible
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.tui.commands import commands_of
from bubblewatch.tui.draw import draw
from bubblewatch.tui.filter_line import FilterLine
from bubblewatch.tui.glyphs import ASCII, BLOCKS, Glyphs
from bubblewatch.tui.head import foot_line, head_lines, waiting_lines
from bubblewatch.tui.ink import plain
from bubblewatch.tui.keys import active_keys, bindings
from bubblewatch.tui.listener import FeedCame, Listener
from bubblewatch.tui.memory import Rememberer
from bubblewatch.tui.pages.finding import finding_text, remedy_text
from bubblewatch.tui.palette import PALETTES, Palette
from bubblewatch.tui.popups import KeysPopup, ListPopup
from bubblewatch.tui.prefs import Prefs, load_prefs, save_prefs
from bubblewatch.tui.room import SPANS_S, Choice, LaneKind, Page, Room, Scene, Sheet, worst_first
from bubblewatch.tui.saving import save_new
from bubblewatch.tui.sheet_view import SheetView
from bubblewatch.tui.source import FeedSource

MESSAGE_S = 3.0
"""How long a short message stands in the foot, in seconds."""

HELP_NOTE = "Everything that is labelled can be clicked. No key changes anything on this machine."

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


class Dashboard(App[ScreenFeed]):
    """The application; its result is the last feed that it showed. One instance runs once."""

    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    TITLE = "bubblewatch"
    AUTO_FOCUS = ""
    BINDINGS = bindings()
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
        return replace(scene, memory=self._remembered.of(view.target.id if view else None))

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

    # --- actions: what keys, clicks and the palette do ----------------------------------------------------------------

    def action_page(self, name: str) -> None:
        """Show this page."""
        page = Page(name)
        if page is not self._choice.page:
            self._back.append(self._choice.page)
            del self._back[:-20]
        self._filter.shut()
        self._choose(page=page, filter="", keep_place=False)

    async def action_back(self) -> None:
        """Close the filter, else show the page before."""
        if self._filter.is_open or self._choice.filter:
            self._filter.shut()
            self._choose(filter="", keep_place=False)
        elif self._back:
            self._choose(page=self._back.pop(), keep_place=False)
        elif self._choice.page is not Page.OVERVIEW:
            self._choose(page=Page.OVERVIEW, keep_place=False)

    def action_open(self) -> None:
        """The finding under the cursor in full."""
        if self._choice.page is Page.OVERVIEW:
            self.action_page(Page.FINDING)

    def action_open_finding(self, place: int) -> None:
        """The finding at this place in full."""
        self._choice = replace(self._choice, finding=place)
        self.action_page(Page.FINDING)

    def action_step(self, by: int) -> None:
        """On the overview the next finding, elsewhere a line."""
        if self._choice.page is Page.OVERVIEW:
            self.action_other_finding(by)
        else:
            self._page_view.move(by)

    def action_other_finding(self, by: int) -> None:
        """The finding before or after this one, round the end."""
        scene = self.scene
        if scene is None or not scene.findings or self._choice.page not in (Page.OVERVIEW, Page.FINDING):
            return
        count = len(scene.findings)
        here = min(self._choice.finding, count - 1)
        self._choose(finding=(here + by) % count, keep_place=self._choice.page is Page.OVERVIEW)

    def action_screenful(self, by: int) -> None:
        """Scroll by what is in sight, but for a line."""
        self._page_view.move(by * max(self._page_view.size.height - 1, 1))

    def action_top(self) -> None:
        """To the first line."""
        self._page_view.move(-len(self._page_view.sheet.lines))

    def action_end(self) -> None:
        """To the last line, and follow."""
        self._page_view.move(len(self._page_view.sheet.lines))

    @property
    def _page_view(self) -> SheetView:
        return self._base.query_one("#page", SheetView)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._page_view.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._page_view.move(-3)

    def action_server(self, by: int) -> None:
        """The next server of this host."""
        scene = self.scene
        if scene is None or scene.view is None:
            return
        names = [view.target.id for view in worst_first(scene.snapshot)]
        here = names.index(scene.view.target.id)
        self.show_server(names[(here + by) % len(names)])

    def show_server(self, target: str) -> None:
        """Show the server of this target."""
        self._choose(server=target, finding=0, keep_place=False)

    @property
    def scenarios(self) -> Mapping[str, str]:
        """Name -> description of what the source can be switched to."""
        return self._source.scenarios

    def action_pause(self) -> None:
        """Hold the picture still, or go on with the newest."""
        paused = not self._choice.paused
        if not paused:
            self._feed = self._newest
        self._choose(paused=paused)

    def action_zoom(self) -> None:
        """The next span of time."""
        at = SPANS_S.index(self._choice.span_s) if self._choice.span_s in SPANS_S else -1
        self._choose(span_s=SPANS_S[(at + 1) % len(SPANS_S)])
        self._keep()

    def action_lane(self) -> None:
        """The next quantity in the lanes."""
        kinds = list(LaneKind)
        self._choose(lane=kinds[(kinds.index(self._choice.lane) + 1) % len(kinds)])

    def action_known_only(self) -> None:
        """Only log lines that were understood, or all."""
        if self._choice.page is Page.LOGS:
            self._choose(known_only=not self._choice.known_only, keep_place=False)

    def action_with_defaults(self) -> None:
        """Defaults of the version too, or not."""
        if self._choice.page is Page.SETTINGS:
            self._choose(with_defaults=not self._choice.with_defaults, keep_place=False)
            self._keep()

    def action_palette(self, name: str = "") -> None:
        """These colours, or the next ones."""
        names = list(PALETTES)
        chosen = name or names[(names.index(self._palette.name) + 1) % len(names)]
        self._palette = PALETTES[chosen]
        self._paint()
        self._keep()
        self._say(f"colours: {chosen} ({self._palette.about})")

    def action_copy(self) -> None:
        """The change of the finding, or the page as text, into the clipboard of the terminal (OSC 52)."""
        scene = self.scene
        if scene is None:
            return
        if self._choice.page in (Page.OVERVIEW, Page.FINDING) and scene.finding is not None:
            self._copy(remedy_text(scene.finding), f"the change of {scene.finding.name}")
        else:
            self._copy(plain(self._page_view.sheet.lines), f"the {self._choice.page} page")

    def action_copy_all(self) -> None:
        """The whole finding, for a ticket."""
        scene = self.scene
        if scene is not None and scene.finding is not None:
            self._copy(finding_text(scene.finding), scene.finding.name)

    def _copy(self, text: str, what: str) -> None:
        self.copy_to_clipboard("\n".join(visible(one) for one in text.splitlines()))
        self._say(f"copied {what}, where this terminal lets programs copy")

    def action_help(self) -> None:
        """The keys that do something now."""
        keys = active_keys(self._choice.page, has_scenarios=bool(self._source.scenarios))
        self.push_screen(KeysPopup(keys, HELP_NOTE))

    def action_scenarios(self) -> None:
        """Choose another scenario of the demo."""
        if self._source.scenarios:
            popup = ListPopup("What goes wrong (simulated)", self._source.scenarios, self._source.title)
            self.push_screen(popup, self.play_scenario)

    def play_scenario(self, name: str | None) -> None:
        """Show this scenario of the demo; None changes nothing."""
        if name is None:
            return
        self._source.switch(name)
        self._remembered.forget()
        self._choose(finding=0, server=None, paused=False, keep_place=False)
        self._say(f"scenario {name}: {self._source.scenarios[name]}")

    async def action_quit(self) -> None:
        """Leave; the result is the newest feed."""
        self.exit(self._newest)

    # --- the filter, and what the command palette offers ---------------------------------------------------------------

    @property
    def _filter(self) -> FilterLine:
        return self._base.query_one(FilterLine)

    def action_filter(self) -> None:
        """Open the filter; on a page without a list, that of the log."""
        if self._choice.page not in (Page.LOGS, Page.SETTINGS):
            self.action_page(Page.LOGS)
        self._filter.open_with(self._choice.filter)
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if isinstance(event.input, FilterLine) and event.input.is_open:
            self._choose(filter=event.value, keep_place=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._filter.shut()
        self._draw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002  Textual gives it
        """Everything by name."""
        return commands_of(self)

    def action_save_picture(self) -> None:
        """This screen as SVG."""
        self._say(save_new(f"bubblewatch-{self._choice.page}", "svg", self.export_screenshot(title="bubblewatch")))

    def action_save_page(self) -> None:
        """The head and the whole page as text."""
        head = self._base.query_one("#head", SheetView)
        text = plain((*head.sheet.lines, *self._page_view.sheet.lines))
        self._say(save_new(f"bubblewatch-{self._choice.page}", "txt", text))
