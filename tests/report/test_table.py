"""The live table: a row per GPU, unknown shown as such, and nothing in it acts."""

from __future__ import annotations

import io

from hypothesis import given, settings
from rich.console import Console

from bubblewatch.model.findings import Snapshot
from bubblewatch.report.table import live_table
from tests.conftest import Golden
from tests.support import snapshots
from tests.support.strategies import snapshots as any_snapshot


def drawn(snapshot: Snapshot, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(live_table(snapshot))
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


def test_looks_like_this(golden: Golden) -> None:
    golden("tables/story.txt", drawn(snapshots.story()))
    golden("tables/two_servers.txt", drawn(snapshots.two_servers()))


def test_fits_into_80_columns() -> None:
    rows = [line for line in drawn(snapshots.story(), 80).splitlines() if line.startswith("P")]

    assert len(rows) == 8
    assert all("171/85/?" in row and "86/96" in row for row in rows)


def test_gpus_are_in_the_order_of_their_stages() -> None:
    rows = [line.split()[:3] for line in drawn(snapshots.two_servers()).splitlines() if line.startswith("P")]

    assert [row[0] for row in rows[:4]] == ["P0", "P1", "P2", "P3"]


def test_a_gpu_that_said_nothing_shows_question_marks_not_zeros() -> None:
    row = next(line for line in drawn(snapshots.cannot_judge()).splitlines() if line.startswith("?"))

    assert row.split() == ["?", "0", "?", "?", "?", "?", "?/?/?", "?/96", "?"]


def test_gpus_of_no_server_have_a_table_of_their_own() -> None:
    story = snapshots.story()
    view = story.views[0]
    text = drawn(Snapshot(story.time_ns, story.answer, (view,), snapshots.gpu_infos(9), story.gpu_signals))

    assert "GPUs without a known server" in text


def test_hostile_names_show_as_text() -> None:
    text = drawn(snapshots.hostile())

    assert "[red]x[/red]" in text
    assert "\x1b" not in text


@settings(max_examples=100)
@given(any_snapshot)
def test_any_snapshot_can_be_drawn(snapshot: Snapshot) -> None:
    assert drawn(snapshot).replace("\n", "").isprintable()
