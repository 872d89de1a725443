"""Which keys do what, and which of them do something on a page."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType

from bubblewatch.tui.room import Page


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what Textual calls it, how people write it, what it does. `pages` empty = everywhere."""

    names: str
    shown: str
    action: str
    what: str
    pages: tuple[Page, ...] = ()
    needs_scenarios: bool = False


_LISTS = (Page.OVERVIEW, Page.FINDING)
_FILTERED = (Page.LOGS, Page.SETTINGS)

KEYS = (
    *(Key(str(number), str(number), f"page('{page}')", f"{page} page") for number, page in enumerate(Page, start=1)),
    Key("enter", "enter", "open", "open the finding", (Page.OVERVIEW,)),
    Key("j,down", "j, down", "step(1)", "next finding, or a line down"),
    Key("k,up", "k, up", "step(-1)", "finding before, or a line up"),
    Key("n", "n", "other_finding(1)", "next finding", _LISTS),
    Key("p", "p", "other_finding(-1)", "finding before", _LISTS),
    Key("d", "d", "with_defaults", "what the launch asks for, or all settings", (Page.SETTINGS,)),
    Key("u", "u", "known_only", "only lines that were understood", (Page.LOGS,)),
    Key("slash", "/", "filter", "filter the log or the settings; !word leaves out", _FILTERED),
    Key("z", "z", "zoom", "time that lanes cover: 60, 30, 10 s", (Page.OVERVIEW, Page.PIPELINE)),
    Key("v", "v", "lane", "lanes of work, utilization or power", (Page.OVERVIEW, Page.PIPELINE)),
    Key("y", "y", "copy", "copy the change of this finding, or the page"),
    Key("Y,shift+y", "Y", "copy_all", "copy the whole finding"),
    Key("g,home", "g", "top", "to the top"),
    Key("G,shift+g,end", "G", "end", "to the end, and follow"),
    Key("pagedown,ctrl+d,ctrl+f", "PgDn", "screenful(1)", "a screenful down"),
    Key("pageup,ctrl+u,ctrl+b", "PgUp", "screenful(-1)", "a screenful up"),
    Key("right_square_bracket", "tab, ]", "server(1)", "next server"),
    Key("left_square_bracket", "[", "server(-1)", "server before"),
    Key("s", "s", "scenarios", "another scenario of the demo", needs_scenarios=True),
    Key("space", "space", "pause", "hold the picture still, and go on"),
    Key("t", "t", "palette", "next colours"),
    Key("colon,ctrl+p", ":, ctrl+p", "command_palette", "everything by name"),
    Key("question_mark,f1", "?", "help", "these keys"),
    Key("escape,minus", "esc, -", "back", "close the filter, or back to the page before"),
    Key("q", "q, ctrl+c", "quit", "quit"),
)

PRIORITY = (
    Key("ctrl+c", "ctrl+c", "quit", "quit"),
    Key("tab", "tab", "server(1)", "next server"),
    Key("shift+tab", "", "server(-1)", "server before"),
)
"""Keys that Textual would otherwise use itself, for copying and for moving between fields."""


def bindings() -> list[BindingType]:
    """The keys as Textual takes them. They hold everywhere; an action that means nothing on a page does nothing."""
    usual = [Binding(key.names, key.action, key.what, show=False) for key in KEYS]
    return [*usual, *(Binding(key.names, key.action, key.what, show=False, priority=True) for key in PRIORITY)]


def active_keys(page: Page, *, has_scenarios: bool) -> list[tuple[str, str]]:
    """Keys that do something on this page, as people write them, and what."""
    return [
        (key.shown, key.what)
        for key in KEYS
        if (not key.pages or page in key.pages) and (has_scenarios or not key.needs_scenarios)
    ]
