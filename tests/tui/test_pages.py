"""Every page, drawn without a terminal: nothing breaks, nothing is wider than the room, nothing from outside acts."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.app.rules import rules_in_force
from bubblewatch.model.findings import Answer, State
from bubblewatch.runtime.feed import ScreenFeed
from bubblewatch.tui.draw import draw
from bubblewatch.tui.glyphs import ASCII, BLOCKS
from bubblewatch.tui.head import foot_line, head_lines, waiting_lines
from bubblewatch.tui.ink import Line, columns_of, plain
from bubblewatch.tui.memory import Rememberer
from bubblewatch.tui.room import Choice, LaneKind, Page, Room, Scene
from tests.support import feeds

RULES = rules_in_force()
SIZES = ((40, 10), (60, 12), (80, 24), (120, 40), (200, 60), (300, 100), (1, 1))


def scene_of(feed: ScreenFeed, **choice: object) -> Scene:
    """What the application would hand to a page after this feed."""
    remembered = Rememberer()
    remembered.take(feed)
    later = replace(feed.snapshot, time_ns=feed.snapshot.time_ns + 10**9)
    remembered.take(replace(feed, snapshot=later))
    scene = Scene(feed, Choice(**choice), rules=RULES, loses=(("journal", ("server-hung",)),))
    return replace(scene, memory=remembered.of(scene.view.target.id if scene.view else None))


def drawn(scene: Scene, columns: int, rows: int, glyphs: object = BLOCKS) -> list[Line]:
    """Head, page and foot of a terminal of this size."""
    room = Room(columns, rows, glyphs)
    head = head_lines(scene, room, "", "a title")
    page = draw(scene, replace(room, rows=max(rows - len(head) - 1, 1)))
    assert page.cursor is None or 0 <= page.cursor < len(page.lines)
    return [*head, *page.lines, foot_line(scene, room, True, "")]


def text(scene: Scene, columns: int = 120, rows: int = 40) -> str:
    return plain(drawn(scene, columns, rows))


@pytest.mark.parametrize("name", feeds.ALL)
@pytest.mark.parametrize("page", Page)
def test_no_page_is_wider_than_the_terminal_at_any_size(name: str, page: Page) -> None:
    scene = scene_of(feeds.ALL[name](), page=page, with_defaults=True)
    for columns, rows in SIZES:
        for glyphs in (BLOCKS, ASCII):
            widths = [columns_of(line) for line in drawn(scene, columns, rows, glyphs)]
            assert max(widths) <= columns, (columns, rows)


@pytest.mark.parametrize("page", Page)
def test_nothing_from_outside_acts(page: Page) -> None:
    said = text(scene_of(feeds.hostile(), page=page), 200, 60)
    acting = [c for c in said if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert acting == []


def test_hostile_text_is_there_as_text() -> None:
    said = text(scene_of(feeds.hostile(), page=Page.LOGS), 200, 60)
    assert "[red]x[/red]" in said
    assert "\\x1b[2J" in said


def test_the_overview_says_what_is_wrong_where_why_and_what_to_change() -> None:
    said = text(scene_of(feeds.story()))
    first, second, *_ = said.splitlines()
    assert "gpu07" in first
    assert "8 running, 0 queued" in first
    assert "95.6 tok/s" in first
    assert "FIX FIRST" in second
    assert "Decode CUDA graphs are off (certain)" in second
    assert "Stages take turns" in second
    assert "- --disable-cuda-graph" in said
    assert "pipeline bubble" in said
    assert "held back by 1, 2" in said
    assert [f"P{stage} " in said for stage in range(8)] == [True] * 8


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24)])
def test_a_small_terminal_still_says_what_to_change(columns: int, rows: int) -> None:
    said = text(scene_of(feeds.story()), columns, rows)
    in_sight = said.splitlines()[: rows - 1]
    assert any("Decode CUDA graphs are off" in line for line in in_sight)
    assert any("cuda-graph-disabled" in line for line in in_sight)


def test_with_72_gpus_a_grid_shows_them_all_and_names_the_one_that_differs() -> None:
    said = text(scene_of(feeds.many()), 120, 40)
    lines = said.splitlines()[:39]
    assert any("72 GPUs work 10%" in line and "GPU 13 90%" in line for line in lines)
    assert any("cuda-graph-disabled" in line for line in lines)


def test_a_finding_shows_three_kinds_of_evidence_remedy_risk_and_check() -> None:
    said = text(scene_of(feeds.story(), page=Page.FINDING))
    for wanted in ("GPUs", "Log and pages", "Settings", "- --disable-cuda-graph", "115-190 tok/s", "risk", "check"):
        assert wanted in said, wanted
    assert "recorded CUDA graph" in said  # from the rule's own explanation


def test_a_held_back_finding_says_by_what() -> None:
    said = text(scene_of(feeds.story(), page=Page.FINDING, finding=3))
    assert "held back by cuda-graph-disabled, micro-batch-unfilled: do that first" in said


def test_the_pipeline_shows_slots_lap_and_what_changes_would_bring() -> None:
    said = text(scene_of(feeds.story(), page=Page.PIPELINE))
    assert "[8]" not in said  # how many requests a slot holds was not measured in this snapshot
    assert "1 of 8 slots filled" in said
    assert "83.7 ms between two tokens" in said
    assert "0.5 of 8 stages at work  by SM activity" in said


@pytest.mark.parametrize("kind", LaneKind)
def test_lanes_can_show_each_quantity(kind: LaneKind) -> None:
    said = text(scene_of(feeds.story(), page=Page.PIPELINE, lane=kind))
    assert f"\n{kind}" in said
    (lane,) = (line for line in said.splitlines() if line.startswith("P7 "))
    assert lane.endswith(" W" if kind is LaneKind.POWER else "%")


def test_settings_mark_where_each_was_read() -> None:
    said = text(scene_of(feeds.story(), page=Page.SETTINGS))
    row = next(line for line in said.splitlines() if line.startswith("disable_cuda_graph"))
    assert row.split()[1:3] == ["on", "argv"]


def test_a_filter_keeps_the_lines_that_fit_and_leaves_out_those_with_a_mark() -> None:
    scene = scene_of(feeds.story(), page=Page.LOGS, filter="(12)")
    assert "1 of 30 lines" in text(scene)
    assert "29 of 30 lines" in text(replace(scene, choice=replace(scene.choice, filter="decode !(12)")))
    assert "No line fits." in text(replace(scene, choice=replace(scene.choice, filter="nothing like it")))


def test_only_understood_lines_on_request() -> None:
    assert "20 of 30 lines" in text(scene_of(feeds.story(), page=Page.LOGS, known_only=True))


def test_the_doctor_names_what_mends_a_source_and_what_is_lost_without_it() -> None:
    said = text(scene_of(feeds.ALL["cannot judge"](), page=Page.DOCTOR))
    assert "DENIED" in said
    assert "sudo usermod -aG systemd-journal you" in said
    assert "server-hung" in said


def test_blindness_is_never_shown_as_health() -> None:
    said = text(scene_of(feeds.ALL["cannot judge"]()))
    assert "CANNOT JUDGE" in said.splitlines()[1]
    assert "HEALTHY" not in said


def test_findings_that_do_not_fire_yet_are_neither_health_nor_alarm() -> None:
    feed = feeds.story()
    view = feed.snapshot.views[0]
    pending = tuple(replace(one, state=State.PENDING) for one in view.findings)
    young = replace(view, answer=Answer.HEALTHY, findings=pending)
    said = text(scene_of(replace(feed, snapshot=replace(feed.snapshot, views=(young,)))))
    assert "WATCHING" in said.splitlines()[1]
    assert "Decode CUDA graphs are off (not yet for long enough)" in said.splitlines()[1]
    assert "HEALTHY" not in said


def test_before_the_first_feed_it_says_what_it_waits_for() -> None:
    room = Room(80, 24)
    assert "Waiting for the first readings of pp8-story" in plain(waiting_lines(room, "", "pp8-story"))
    assert "nobody answers" in plain(waiting_lines(room, "nobody answers at http://x", ""))


def test_trouble_stands_where_the_verdict_was() -> None:
    scene = scene_of(feeds.story())
    _, second, *_ = head_lines(scene, Room(120, 24), "nobody answers at http://127.0.0.1:9736", "")
    assert plain([second]).strip().startswith("NO DATA")


@given(columns=st.integers(1, 320), rows=st.integers(1, 110), place=st.integers(0, 9), page=st.sampled_from(Page))
def test_any_size_and_any_finding_can_be_drawn(columns: int, rows: int, place: int, page: Page) -> None:
    scene = scene_of(feeds.story(), page=page, finding=place)
    assert all(columns_of(line) <= columns for line in drawn(scene, columns, rows))
