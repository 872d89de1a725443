"""From a scene to the page that is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from bubblewatch.tui.ink import cut
from bubblewatch.tui.pages.doctor import doctor_page
from bubblewatch.tui.pages.finding import finding_page
from bubblewatch.tui.pages.history import history_page
from bubblewatch.tui.pages.logs import logs_page
from bubblewatch.tui.pages.overview import overview
from bubblewatch.tui.pages.pipeline import pipeline_page
from bubblewatch.tui.pages.settings import settings_page
from bubblewatch.tui.room import Page, Room, Scene, Sheet

_PAGES: Mapping[Page, Callable[[Scene, Room], Sheet]] = MappingProxyType(
    {
        Page.OVERVIEW: overview,
        Page.PIPELINE: pipeline_page,
        Page.FINDING: finding_page,
        Page.LOGS: logs_page,
        Page.SETTINGS: settings_page,
        Page.HISTORY: history_page,
        Page.DOCTOR: doctor_page,
    }
)


def draw(scene: Scene, room: Room) -> Sheet:
    """The chosen page; no line of it is wider than the room."""
    sheet = _PAGES[scene.choice.page](scene, room)
    return replace(sheet, lines=tuple(cut(one, room.columns) for one in sheet.lines))
