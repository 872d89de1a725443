"""What the command palette offers: everything that keys do, by name, and what has no key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from bubblewatch.model.visible import visible
from bubblewatch.tui.palette import PALETTES
from bubblewatch.tui.room import Page, worst_first

if TYPE_CHECKING:
    from bubblewatch.tui.app import Dashboard


def commands_of(app: Dashboard) -> Iterable[SystemCommand]:
    """The commands of this moment."""
    do: Callable[..., None]
    for page in Page:
        yield SystemCommand(f"Page {page}", f"show the {page} page", partial(app.action_page, page))
    for palette in PALETTES.values():
        do = partial(app.action_palette, palette.name)
        yield SystemCommand(f"Colours {palette.name}", palette.about, do)
    for view in worst_first(app.scene.snapshot) if app.scene else ():
        name = view.target.id
        yield SystemCommand(f"Server {visible(name, 40)}", "show this server", partial(app.show_server, name))
    for name, about in app.scenarios.items():
        yield SystemCommand(f"Scenario {name}", about, partial(app.play_scenario, name))
    yield SystemCommand("Copy finding", "the whole finding as text", app.action_copy_all)
    yield SystemCommand("Save picture", "this screen as SVG into the current folder", app.action_save_picture)
    yield SystemCommand("Save page", "this page as text into the current folder", app.action_save_page)
    yield SystemCommand("Keys", "what the keys do", app.action_help)
    yield SystemCommand("Quit", "leave", app.action_quit)
