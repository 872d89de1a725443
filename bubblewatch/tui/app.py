"""The dashboard: what keys, clicks and the command palette do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual import events
from textual.app import SystemCommand
from textual.screen import Screen
from textual.widgets import Input

from bubblewatch.model.visible import visible
from bubblewatch.tui.commands import commands_of
from bubblewatch.tui.feed_screen import FeedScreen
from bubblewatch.tui.filter_line import FilterLine
from bubblewatch.tui.ink import plain
from bubblewatch.tui.keys import active_keys, bindings
from bubblewatch.tui.pages.finding import finding_text, remedy_text
from bubblewatch.tui.palette import PALETTES
from bubblewatch.tui.popups import KeysPopup, ListPopup
from bubblewatch.tui.room import SPANS_S, LaneKind, Page, worst_first
from bubblewatch.tui.saving import save_new
from bubblewatch.tui.sheet_view import SheetView

HELP_NOTE = "Everything that is labelled can be clicked. No key changes anything on this machine."


class Dashboard(FeedScreen):
    """The application; its result is the last feed that it showed."""

    BINDINGS = bindings()

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
        self._choose(finding=place)
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
