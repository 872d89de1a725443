"""The application, driven by Textual's pilot: keys, clicks, sizes, feeds that come, stop and come again."""

from __future__ import annotations

import asyncio
import base64
import queue
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from bubblewatch.app.rules import rules_in_force
from bubblewatch.model.errors import SourceLost, UsageError
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.tui.app import Dashboard
from bubblewatch.tui.feed_screen import Setup
from bubblewatch.tui.glyphs import ASCII
from bubblewatch.tui.ink import plain
from bubblewatch.tui.palette import PALETTES
from bubblewatch.tui.popups import KeysPopup, ListPopup
from bubblewatch.tui.room import Page
from bubblewatch.tui.sheet_view import SheetView
from tests.support import feeds

CLOSED = object()
RULES = rules_in_force()


class Script:
    """Feeds as a test puts them; None ends them, an exception is raised."""

    def __init__(self, *first: ScreenFeed, scenarios: Mapping[str, str] | None = None) -> None:
        self._queue: queue.Queue[object] = queue.Queue()
        self.title = "scripted"
        self.scenarios = dict(scenarios or {})
        self.switched: list[str] = []
        self.closed = False
        for feed in first:
            self.put(feed)

    def put(self, what: object) -> None:
        self._queue.put(what)

    def next(self) -> ScreenFeed | None:
        what = self._queue.get()
        if isinstance(what, Exception):
            raise what
        return what if isinstance(what, ScreenFeed) else None

    def switch(self, scenario: str) -> None:
        self.switched.append(scenario)

    def close(self) -> None:
        self.closed = True
        self.put(CLOSED)


Act = Callable[["Driven"], Awaitable[None]]


class Driven:
    """An application under a pilot."""

    def __init__(self, app: Dashboard, script: Script, pilot: Pilot[ScreenFeed]) -> None:
        self.app, self.script, self.pilot = app, script, pilot

    async def until(self, what: Callable[[], bool]) -> None:
        """Let messages pass until it holds; fails after a while."""
        for _ in range(500):
            if what():
                return
            await self.pilot.pause(0.01)
        pytest.fail(f"never came: what is shown is\n{self.text}")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def feed(self, feed: ScreenFeed) -> None:
        """Put a feed of a second later, and wait until it is taken."""
        before = self.app._newest
        at_ns = before.snapshot.time_ns + 10**9 if before else feed.snapshot.time_ns
        self.script.put(replace(feed, snapshot=replace(feed.snapshot, time_ns=at_ns)))
        await self.until(lambda: self.app._newest is not before)
        await self.pilot.pause()

    def lines(self, part: str) -> str:
        return plain(self.app.screen_stack[0].query_one(f"#{part}", SheetView).sheet.lines)

    @property
    def text(self) -> str:
        return "\n".join(self.lines(part) for part in ("head", "page", "foot"))

    def rows(self) -> list[str]:
        """What is really on the terminal, row by row."""
        width, height = self.app.size
        strips = [self.app.screen._compositor.render_strips()[y] for y in range(height)]
        return ["".join(segment.text for segment in strip)[:width] for strip in strips]


def drive(
    act: Act,
    *first: ScreenFeed,
    size: tuple[int, int] = (120, 40),
    setup: Setup | None = None,
    scenarios: Mapping[str, str] | None = None,
) -> Dashboard:
    """Run the application, do something, and leave it; the application for questions afterwards."""

    async def run() -> Dashboard:
        script = Script(*(first or (feeds.story(),)), scenarios=scenarios)
        app = Dashboard(script, setup or Setup(rules=RULES))
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, script, pilot)
            await driven.until(lambda: app.scene is not None)
            await act(driven)
        assert script.closed
        return app

    return asyncio.run(run())


def test_each_page_has_its_key_and_what_is_drawn_is_what_is_shown() -> None:
    async def act(on: Driven) -> None:
        for number, page in enumerate(Page, start=1):
            await on.press(str(number))
            assert on.app.scene is not None
            assert on.app.scene.choice.page is page
            shown = [row.rstrip() for row in on.rows()]
            assert shown[0].startswith("gpu07 scripted")
            assert shown[3] == on.lines("page").splitlines()[0].rstrip()

    drive(act)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60), (300, 100)])
def test_every_page_fits_every_size(size: tuple[int, int]) -> None:
    async def act(on: Driven) -> None:
        for number in range(1, 8):
            await on.press(str(number))
            assert len(on.rows()) == size[1]
            assert "q quit" in on.rows()[-1]

    drive(act, size=size)


def test_enter_opens_the_finding_under_the_cursor_and_escape_goes_back() -> None:
    async def act(on: Driven) -> None:
        await on.press("j", "enter")
        assert on.lines("page").startswith("micro-batch-unfilled")
        await on.press("n")
        assert on.lines("page").startswith("pipeline-bubble")
        await on.press("p", "p")
        assert on.lines("page").startswith("cuda-graph-disabled")
        await on.press("escape")
        assert ">1" in on.lines("page") or "▶1" in on.lines("page")

    drive(act)


def test_a_click_on_a_finding_opens_it_and_one_on_a_label_goes_there() -> None:
    async def act(on: Driven) -> None:
        row = next(y for y, text in enumerate(on.rows()) if "pipeline-bubble" in text)
        await on.pilot.click(offset=(6, row))
        await on.pilot.pause()
        assert on.lines("page").startswith("pipeline-bubble")
        column = on.rows()[-1].index("log")
        await on.pilot.click(offset=(column, 39))
        await on.pilot.pause()
        assert "30 lines" in on.lines("page")

    drive(act)


def test_the_log_follows_and_stays_where_a_reader_scrolled_to() -> None:
    story = feeds.story()
    key = story.snapshot.views[0].target.id

    async def act(on: Driven) -> None:
        await on.press("4")
        assert "(29)" in on.rows()[-2] or "#queue-req: 0 (29)" in "".join(on.rows()[-4:])
        await on.press("pageup", "pageup")
        held = on.rows()[4:-1]
        await on.feed(replace(story, lines=feeds.lines(key, 40)[-10:]))
        assert on.rows()[4:-1] == held
        await on.press("G")
        assert "(39)" in "".join(on.rows()[-4:])
        await on.feed(replace(story, lines=feeds.lines(key, 45)[-10:]))
        assert "(44)" in "".join(on.rows()[-4:])

    drive(act, story, size=(120, 24))


def test_the_filter_narrows_while_one_types_and_letters_in_it_are_no_keys() -> None:
    async def act(on: Driven) -> None:
        await on.press("slash")
        await on.press("q", "u", "e", "u", "e")
        assert "30 lines" in on.lines("page")
        assert "filter: queue" in on.lines("page")
        await on.press("1", "2")
        assert "0 of 30 lines" in on.lines("page")
        await on.press("escape")
        assert "filter" not in on.lines("page").splitlines()[0]
        await on.press("j", "5")
        assert "settings" in on.lines("page").splitlines()[0]

    drive(act)


def test_a_paused_picture_stands_still_and_goes_on_with_the_newest() -> None:
    async def act(on: Driven) -> None:
        await on.press("space")
        before = on.lines("page")
        await on.feed(feeds.ALL["healthy"]())
        assert on.lines("page") == before
        assert "PAUSED" in on.lines("head")
        await on.press("space")
        assert "HEALTHY" in on.lines("head")

    drive(act)


def test_a_paused_log_stands_still_too() -> None:
    story = feeds.story()
    later = feeds.lines(story.snapshot.views[0].target.id, 60)[-30:]
    after = tuple(replace(one, time_ns=(one.time_ns or 0) + 60 * 10**9) for one in later)

    async def act(on: Driven) -> None:
        await on.press("4", "space")
        before = on.lines("page")
        await on.feed(replace(story, lines=after))
        assert on.lines("page") == before
        await on.press("space")
        assert "60 lines" in on.lines("page")

    drive(act, story)


def test_a_source_that_fails_is_said_and_is_over_when_it_is_back() -> None:
    async def act(on: Driven) -> None:
        on.script.put(SourceLost("nobody answers at http://127.0.0.1:9736"))
        await on.until(lambda: "NO DATA" in on.lines("head"))
        assert "nobody answers" in on.lines("head")
        assert "cuda-graph-disabled" in on.lines("page"), "the last picture stays"
        await on.feed(feeds.story())
        assert "FIX FIRST" in on.lines("head")

    drive(act)


def test_the_end_of_the_feeds_is_the_end_of_the_screen_and_gives_the_last_one() -> None:
    story = feeds.story()

    async def act(on: Driven) -> None:
        on.script.put(None)
        await on.until(lambda: not on.app.is_running)

    assert drive(act, story).return_value == story


def test_an_unexpected_error_of_the_source_ends_the_screen_and_is_kept() -> None:
    async def act(on: Driven) -> None:
        on.script.put(UsageError("no such GPU"))
        await on.until(lambda: not on.app.is_running)

    failure = drive(act).failure
    assert isinstance(failure, UsageError)


def test_quitting_gives_the_last_feed() -> None:
    story = feeds.story()

    async def act(on: Driven) -> None:
        await on.press("q")

    app = drive(act, story)
    assert app.return_value == story
    assert app.return_code == 0


def test_another_server_is_one_key_away() -> None:
    async def act(on: Driven) -> None:
        assert "sglang-k26.service 1/2" in on.lines("head")
        await on.press("tab")
        assert "good.service 2/2" in on.lines("head")
        assert "HEALTHY" in on.lines("head")
        await on.press("shift+tab")
        assert "sglang-k26.service" in on.lines("head")

    drive(act, feeds.ALL["two servers"]())


def test_a_scenario_is_chosen_from_a_list() -> None:
    async def act(on: Driven) -> None:
        await on.press("s")
        assert isinstance(on.app.screen, ListPopup)
        await on.press("j", "enter")
        assert on.script.switched == ["tp8"]
        assert "tensor parallelism" in on.lines("foot")
        await on.press("s", "q")
        assert not isinstance(on.app.screen, ListPopup)
        assert on.app.is_running

    drive(act, scenarios={"pp8-story": "stages take turns", "tp8": "tensor parallelism"})


def test_without_scenarios_their_key_does_nothing() -> None:
    async def act(on: Driven) -> None:
        await on.press("s")
        assert not isinstance(on.app.screen, ListPopup)
        assert "scenario" not in on.lines("foot")

    drive(act)


def test_question_mark_lists_the_keys_of_this_page() -> None:
    async def act(on: Driven) -> None:
        await on.press("4", "question_mark")
        assert isinstance(on.app.screen, KeysPopup)
        shown = "\n".join(on.rows())
        assert "only lines that were understood" in shown
        assert "another scenario" not in shown
        await on.press("q")
        assert on.app.is_running
        assert not isinstance(on.app.screen, KeysPopup)

    drive(act)


def test_every_command_of_the_palette_can_be_run() -> None:
    async def act(on: Driven) -> None:
        await on.press("colon")
        await on.pilot.pause(0.3)
        await on.press("escape")
        names = [command.title for command in on.app.get_system_commands(on.app.screen)]
        assert len(names) == len(set(names))
        for command in on.app.get_system_commands(on.app.screen):
            if command.title not in ("Quit", "Save picture", "Save page"):
                command.callback()
                await on.pilot.pause()
                while len(on.app.screen_stack) > 1:
                    await on.press("escape")

    drive(act, scenarios={"tp8": "tensor parallelism"})


def test_the_page_and_its_picture_are_saved_and_never_over_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bubblewatch-overview-1.txt").write_text("mine", encoding="utf-8")

    async def act(on: Driven) -> None:
        on.app.action_save_page()
        on.app.action_save_picture()
        await on.pilot.pause()

    drive(act)
    assert (tmp_path / "bubblewatch-overview-1.txt").read_text(encoding="utf-8") == "mine"
    assert "cuda-graph-disabled" in (tmp_path / "bubblewatch-overview-2.txt").read_text(encoding="utf-8")
    assert "<svg" in (tmp_path / "bubblewatch-overview-1.svg").read_text(encoding="utf-8")


def copied(*keys: str, first: ScreenFeed | None = None) -> str:
    """What these keys send to the clipboard of the terminal, through OSC 52."""
    sent: list[str] = []

    async def act(on: Driven) -> None:
        assert on.app._driver is not None
        on.app._driver.write = sent.append  # type: ignore[method-assign]  # hears what goes to the terminal
        await on.press(*keys)

    drive(act, first or feeds.story())
    (osc,) = [text for text in sent if text.startswith("\x1b]52;c;")]
    return base64.b64decode(osc.removeprefix("\x1b]52;c;").removesuffix("\a")).decode()


def test_the_change_is_copied_as_a_diff() -> None:
    assert copied("y") == "- --disable-cuda-graph"
    assert copied("j", "y") == "+ --pp-max-micro-batch-size 4"


def test_the_whole_finding_is_copied_for_a_ticket() -> None:
    text = copied("Y")
    assert text.startswith("cuda-graph-disabled (certain): Decode CUDA graphs are off")
    assert "check: " in text


def test_what_is_copied_holds_no_control_characters() -> None:
    for keys in (("y",), ("Y",), ("4", "y")):
        assert all(c.isprintable() or c == "\n" for c in copied(*keys, first=feeds.hostile()))


@pytest.mark.parametrize("name", PALETTES)
def test_every_palette_draws_every_page(name: str) -> None:
    async def act(on: Driven) -> None:
        for number in range(1, 8):
            await on.press(str(number))
        styles = {segment.style for strip in on.app.screen._compositor.render_strips() for segment in strip}
        colours = {style.color for style in styles if style is not None and style.color is not None}
        assert (len(colours) > 1) == (name != "mono")

    drive(act, setup=Setup(palette=name))


def test_ascii_signs_are_ascii_to_the_last_cell() -> None:
    async def act(on: Driven) -> None:
        for number in range(1, 8):
            await on.press(str(number))
            assert all(row.isascii() for row in on.rows())

    drive(act, feeds.hostile(), setup=Setup(glyphs=ASCII))


def test_choices_are_there_in_the_next_run(tmp_path: Path) -> None:
    setup = Setup(prefs=tmp_path / "top.json")

    async def choose(on: Driven) -> None:
        await on.press("t", "z")

    async def find(on: Driven) -> None:
        assert on.app.theme == "bubblewatch-day"
        assert on.app.scene is not None
        assert on.app.scene.choice.span_s == 30.0

    drive(choose, setup=setup)
    drive(find, setup=setup)


def test_only_cells_that_changed_are_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[Region] = []
    whole = SheetView.refresh

    def refresh(self: SheetView, *regions: Region, **options: bool) -> SheetView:
        painted.extend(regions or [Region(0, 0, *self.size)])
        return whole(self, *regions, **options)

    async def act(on: Driven) -> None:
        await on.feed(feeds.story())
        monkeypatch.setattr(SheetView, "refresh", refresh)
        await on.feed(feeds.story())

    drive(act)
    assert [(region.width, region.height) for region in painted] == [(1, 1)]  # the last digit of the clock


def test_hostile_feeds_do_no_harm() -> None:
    async def act(on: Driven) -> None:
        for number in range(1, 8):
            await on.press(str(number))
            assert all(c.isprintable() for row in on.rows() for c in row)

    drive(act, feeds.hostile())


def test_many_gpus_and_no_gpu_take_turns() -> None:
    async def act(on: Driven) -> None:
        for name in ("72 GPUs", "nothing seen", "story", "nothing seen", "two servers"):
            await on.feed(feeds.ALL[name]())
            for number in (2, 3, 1):
                await on.press(str(number))

    drive(act)
