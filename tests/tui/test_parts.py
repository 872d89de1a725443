"""The small parts: lines that keep their width, drawings, the account of GPU-seconds, memory, choices."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bubblewatch.model.findings import Answer, State
from bubblewatch.runtime.feed import Lane, ShownLine
from bubblewatch.tui.account import Part, account_of
from bubblewatch.tui.charts import in_columns, meter, reach_s, sparkline, stacked, steps_together, tall_lane
from bubblewatch.tui.glyphs import ASCII, BLOCKS, glyphs_for
from bubblewatch.tui.ink import (
    Ink,
    Span,
    beside,
    columns_of,
    cut,
    duty_ink,
    fitted,
    line,
    padded,
    plain,
    shown,
    side_by_side,
    wrapped,
)
from bubblewatch.tui.keys import KEYS, active_keys
from bubblewatch.tui.memory import LINES, MOMENTS, Rememberer
from bubblewatch.tui.palette import PALETTES
from bubblewatch.tui.prefs import Prefs, load_prefs, prefs_path, save_prefs
from bubblewatch.tui.room import Page, matches, worst_first
from tests.support import feeds, snapshots

WIDE = st.text(st.characters(codec="utf-8"), max_size=60)


@given(WIDE, st.integers(0, 40))
def test_a_cut_line_fits_and_says_that_it_was_cut(text: str, columns: int) -> None:
    whole = line(shown(text))
    short = cut(whole, columns)
    assert columns_of(short) <= columns
    assert short == whole or columns == 0 or plain([short]).rstrip().endswith("…")


@given(WIDE, st.integers(0, 40), st.booleans())
def test_a_padded_line_has_exactly_its_columns(text: str, columns: int, right: bool) -> None:
    assert columns_of(padded(line(shown(text)), columns, right=right)) == columns


@given(WIDE, WIDE, st.integers(0, 60))
def test_two_lines_beside_each_other_fit(left: str, right: str, columns: int) -> None:
    assert columns_of(beside(line(shown(left)), line(shown(right)), columns)) <= columns


@given(st.lists(st.tuples(st.integers(0, 3), WIDE), max_size=5), st.integers(0, 50))
def test_parts_that_do_not_fit_are_left_out(parts: list[tuple[int, str]], columns: int) -> None:
    assert columns_of(fitted([(rank, line(shown(text))) for rank, text in parts], columns)) <= columns


@given(WIDE, st.integers(2, 30))
def test_wrapped_pieces_fit_and_lose_nothing_but_spaces(text: str, columns: int) -> None:
    pieces = wrapped(text, columns)
    assert all(cell_len(piece) <= columns for piece in pieces)
    assert "".join(pieces).replace(" ", "") == shown(text).text.replace(" ", "")


def test_blocks_of_lines_stand_next_to_each_other() -> None:
    block = side_by_side([[line("a"), line("b")], [line("c")]], [3, 3])
    assert plain(block) == "a    c\nb"


LANES = st.builds(
    Lane,
    st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    st.lists(st.none() | st.floats(0, 1), max_size=600).map(tuple),
    st.integers(0, 10_000),
)


@given(LANES, st.integers(0, 200), st.sampled_from([10.0, 30.0, 60.0]))
def test_a_lane_is_drawn_in_exactly_its_columns(lane: Lane, columns: int, span_s: float) -> None:
    for glyphs in (BLOCKS, ASCII):
        assert columns_of(sparkline(lane, columns, span_s, glyphs)) == columns
        assert [columns_of(one) for one in tall_lane(lane, columns, span_s, glyphs, 3)] == [columns] * 3
    assert len(in_columns(lane, columns, span_s)) <= columns
    assert reach_s(lane, columns, span_s) <= span_s


def _by_moment(lane: Lane, columns: int) -> dict[int, float | None]:
    """What each column shows, by the number of the moment that it stands for."""
    values = in_columns(lane, columns, 60.0)
    newest = lane.last // steps_together(lane, columns, 60.0)
    return {newest - place: value for place, value in enumerate(reversed(values))}


@given(st.integers(1, 80), st.integers(1, 40))
def test_a_lane_moves_and_does_not_shimmer(columns: int, shift: int) -> None:
    values = [n * 7919 % 101 / 100 for n in range(700)]
    before = _by_moment(Lane(0.1, tuple(values[:600]), 5000), columns)
    after = _by_moment(Lane(0.1, tuple(values[shift : 600 + shift]), 5000 + shift), columns)
    finished = set(before) & set(after) - {max(before)}
    assert all(before[moment] == after[moment] for moment in finished)
    assert len(before) >= columns - columns // 4


def test_full_and_idle_look_different_without_colour() -> None:
    for glyphs in (BLOCKS, ASCII):
        idle, busy = (plain([sparkline(Lane(1.0, (v,) * 60, 60), 10, 60, glyphs)]) for v in (0.0, 1.0))
        assert idle != busy
        assert glyphs.gap not in busy


def test_what_was_not_read_is_not_drawn_as_idle() -> None:
    assert plain([sparkline(None, 3, 60, BLOCKS)]) == "···"
    assert plain([meter(None, 3, BLOCKS)]) == "···"


@given(st.lists(st.floats(0, 1), max_size=6), st.integers(0, 80))
def test_a_stacked_bar_is_as_long_as_asked(shares: list[float], columns: int) -> None:
    assert columns_of(stacked([(share, ("#", Ink.PLAIN)) for share in shares], columns)) == columns


def test_duty_colours_are_in_order() -> None:
    assert [duty_ink(d) for d in (-1.0, 0.0, 0.5, 1.0, 7.0)] == [
        Ink.DUTY_0,
        Ink.DUTY_0,
        Ink.DUTY_2,
        Ink.DUTY_4,
        Ink.DUTY_4,
    ]


@pytest.mark.parametrize("name", PALETTES)
def test_every_palette_has_every_ink(name: str) -> None:
    assert set(PALETTES[name].styles) == set(Ink)


def test_without_colours_there_are_none() -> None:
    for style in PALETTES["mono"].styles.values():
        assert style.color is None
        assert style.bgcolor is None


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("name", [name for name in PALETTES if name != "mono"])
def test_words_can_be_read_and_duties_told_apart_by_brightness(name: str) -> None:
    styles = PALETTES[name].styles

    def contrast(ink: Ink) -> float:
        style = styles[ink]
        assert style.color is not None
        assert style.bgcolor is not None
        pair = sorted((_luminance(style.color.name), _luminance(style.bgcolor.name)), reverse=True)
        return (pair[0] + 0.05) / (pair[1] + 0.05)

    words = (Ink.PLAIN, Ink.STRONG, Ink.FAINT, Ink.GOOD, Ink.WARN, Ink.BAD, Ink.NAME, Ink.KEY, Ink.ADDED, Ink.REMOVED)
    badges = (Ink.BADGE_GOOD, Ink.BADGE_WARN, Ink.BADGE_BAD, Ink.BADGE_NEUTRAL)
    for ink in (*words, *badges):
        assert contrast(ink) >= 4.5, ink  # WCAG 2.2, 1.4.3, level AA
    duties = [contrast(ink) for ink in (Ink.DUTY_0, Ink.DUTY_1, Ink.DUTY_2, Ink.DUTY_3, Ink.DUTY_4)]
    assert duties == sorted(duties)


@pytest.mark.parametrize(
    ("environ", "signs"),
    [
        ({"LANG": "C.UTF-8", "TERM": "xterm"}, BLOCKS),
        ({"LANG": "C", "TERM": "xterm"}, ASCII),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8", "TERM": "xterm"}, ASCII),
        ({"LANG": "en_US.utf8", "TERM": "linux"}, ASCII),
        ({}, ASCII),
    ],
)
def test_signs_fit_the_terminal(environ: dict[str, str], signs: object) -> None:
    assert glyphs_for(environ) is signs


def test_the_account_sums_to_all_of_the_time() -> None:
    for make in feeds.ALL.values():
        feed = make()
        for view in feed.snapshot.views:
            account = account_of(view, list(feed.snapshot.gpu_signals.values()), 30.0)
            assert sum(account.shares.values()) == pytest.approx(1.0)
            assert sum(cause.share for cause in account.causes) <= account.idle + 0.02


def test_the_storys_idle_time_is_put_down_to_turns_and_launches() -> None:
    view = snapshots.story().views[0]
    account = account_of(view, [snapshots.gpu_signals()] * 8, 30.0)
    assert account.gpu_seconds == 240
    assert account.shares[Part.NOBODY] == pytest.approx(0.02)
    causes = {cause.name: cause.share for cause in account.causes}
    assert causes["pipeline bubble"] == pytest.approx(7 / 8 * 0.98)
    assert "launch gaps" in causes


def test_when_nobody_asks_idle_time_is_no_loss() -> None:
    view = snapshots.quiet().views[0]
    account = account_of(view, [snapshots.gpu_signals(0.0)] * 2, 30.0)
    assert account.shares[Part.ABSENT] == 0
    assert account.causes == ()


def test_a_gpu_without_readings_is_unknown_and_not_idle() -> None:
    view = snapshots.story().views[0]
    account = account_of(view, [snapshots.signals({})], 30.0)
    assert account.shares[Part.UNKNOWN] == pytest.approx(0.98)


def test_memory_is_bounded_and_counts_a_feed_once() -> None:
    remembered, feed = Rememberer(), feeds.story()
    key = feed.snapshot.views[0].target.id
    for number in range(1, MOMENTS + 10):
        at_ns = feed.snapshot.time_ns + number * 10**9
        said = tuple(ShownLine(key, count, "text") for count in range(max(2 * number - 5, 1), 2 * number + 1))
        later = replace(feed, snapshot=replace(feed.snapshot, time_ns=at_ns), lines=said)
        remembered.take(later)
        remembered.take(later)
    memory = remembered.of(key)
    assert len(memory.moments) == MOMENTS
    assert [one.number for one in memory.lines] == list(range(2 * (MOMENTS + 9) - LINES + 1, 2 * (MOMENTS + 9) + 1))
    assert remembered.of("another").moments == ()


def test_lines_of_a_restarted_watcher_count_from_one_again() -> None:
    remembered, feed = Rememberer(), feeds.story()
    key = feed.snapshot.views[0].target.id
    for second, numbers in enumerate((range(50, 60), range(1, 4))):
        snapshot = replace(feed.snapshot, time_ns=feed.snapshot.time_ns + second)
        said = tuple(ShownLine(key, number, "text") for number in numbers)
        remembered.take(replace(feed, snapshot=snapshot, lines=said))
    assert [one.number for one in remembered.of(key).lines] == [1, 2, 3]


def test_what_begins_and_ends_is_remembered() -> None:
    remembered, feed = Rememberer(), feeds.story()
    remembered.take(feed)
    view = feed.snapshot.views[0]
    over = replace(view, answer=Answer.HEALTHY, findings=(replace(view.findings[0], state=State.RESOLVED),))
    remembered.take(replace(feed, snapshot=replace(feed.snapshot, views=(over,), time_ns=feed.snapshot.time_ns + 1)))
    said = [one.text for one in remembered.of(view.target.id).happenings]
    assert said[0] == "verdict: findings"
    assert "began: cuda-graph-disabled: Decode CUDA graphs are off" in said
    assert "verdict: healthy" in said
    assert "ended: cuda-graph-disabled" in said


def test_the_server_in_most_need_comes_first() -> None:
    assert [view.answer for view in worst_first(snapshots.two_servers())] == [Answer.FINDINGS, Answer.HEALTHY]


@pytest.mark.parametrize(
    ("wanted", "fits"), [("", True), ("decode", True), ("DECODE batch", True), ("!prefill", True), ("!decode", False)]
)
def test_a_filter_is_words_that_must_or_must_not_be_there(wanted: str, fits: bool) -> None:
    assert matches("Decode batch, #running-req: 8", wanted) is fits


def test_choices_come_back(tmp_path: Path) -> None:
    path = tmp_path / "state" / "top.json"
    chosen = Prefs("safe", 10.0, with_defaults=True)
    save_prefs(path, chosen)
    assert load_prefs(path) == chosen
    assert [one.name for one in path.parent.iterdir()] == ["top.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"palette": 3, "span_s": "long"}', "x" * 10_000])
def test_a_broken_file_of_choices_is_no_reason_to_fail(tmp_path: Path, text: str) -> None:
    path = tmp_path / "top.json"
    path.write_text(text, encoding="utf-8")
    assert load_prefs(path) == Prefs()
    assert load_prefs(tmp_path / "none") == Prefs()
    save_prefs(path / "not a folder", Prefs())


def test_choices_are_kept_by_the_xdg_rules() -> None:
    assert prefs_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/bubblewatch/top.json")
    assert prefs_path({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/state/bubblewatch/top.json")
    assert prefs_path({}) is None


def test_no_key_means_two_things() -> None:
    names = [name for key in KEYS for name in key.names.split(",")]
    assert len(names) == len(set(names))


def test_only_keys_that_do_something_are_listed() -> None:
    on_logs = dict(active_keys(Page.LOGS, has_scenarios=False))
    assert "u" in on_logs
    assert "z" not in on_logs
    assert "s" not in on_logs
    assert "s" in dict(active_keys(Page.LOGS, has_scenarios=True))


def test_spans_made_by_hand_hold_no_text_from_outside() -> None:
    """Text of servers goes through `shown` or `visible`: a page never puts a raw f-string of one into a Span."""
    raw = re.compile(r"Span\(f?\"[^\"]*\{(?:[\w.]*\.)?(?:text|summary|detail|mend|evidence|value)\}")
    for path in Path(__file__).parents[2].joinpath("bubblewatch/tui").rglob("*.py"):
        assert raw.search(path.read_text(encoding="utf-8")) is None, path


def test_a_span_of_controls_shows_them() -> None:
    assert shown("a\x1b[2Jb") == Span("a\\x1b[2Jb")
