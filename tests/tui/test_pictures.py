"""A few whole screens, pinned as text: `pytest --update-goldens` rewrites them; look at them before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bubblewatch.tui.draw import draw
from bubblewatch.tui.head import foot_line, head_lines
from bubblewatch.tui.ink import plain
from bubblewatch.tui.memory import Rememberer
from bubblewatch.tui.room import Choice, Page, Room, Scene
from tests.support import feeds

PINNED = (
    ("story", Page.OVERVIEW, 120, 40),
    ("story", Page.OVERVIEW, 40, 10),
    ("story", Page.PIPELINE, 80, 24),
    ("story", Page.FINDING, 120, 40),
    ("72 GPUs", Page.OVERVIEW, 80, 24),
    ("cannot judge", Page.DOCTOR, 80, 24),
)


@pytest.mark.parametrize(("name", "page", "columns", "rows"), PINNED)
def test_the_screen_is_as_pinned(
    name: str, page: Page, columns: int, rows: int, golden: Callable[[str, str], None]
) -> None:
    feed = feeds.ALL[name]()
    remembered = Rememberer()
    remembered.take(feed)
    scene = Scene(feed, Choice(page=page), loses=(("journal", ("server-hung",)),))
    scene = replace(scene, memory=remembered.of(scene.view.target.id if scene.view else None))
    room = Room(columns, rows)
    head = head_lines(scene, room, "", "")
    shown = draw(scene, replace(room, rows=rows - len(head) - 1)).lines[: rows - len(head) - 1]
    blank = [()] * (rows - len(head) - 1 - len(shown))
    text = plain([*head, *shown, *blank, foot_line(scene, room, False, "")])
    golden(f"screens/{name.replace(' ', '-')}-{page}-{columns}x{rows}.txt", text + "\n")
