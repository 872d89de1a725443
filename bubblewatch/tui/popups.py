"""What opens above a page: the keys, and a list to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from bubblewatch.model.visible import visible


class KeysPopup(ModalScreen[None]):
    """The keys that do something now."""

    DEFAULT_CSS = """
    KeysPopup { align: center middle; background: $background 60%; }
    KeysPopup VerticalScroll { width: 66; max-width: 100%; height: auto; max-height: 100%; padding: 1 2;
        background: $panel; scrollbar-size: 0 0; }
    KeysPopup Static { width: 1fr; background: $panel; color: $foreground; }
    """
    BINDINGS = [  # noqa: RUF012  Textual reads a list of the class
        Binding("escape,question_mark,q,space,enter", "leave", "close"),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
    ]

    def __init__(self, keys: Sequence[tuple[str, str]], note: str) -> None:
        super().__init__()
        self._keys = keys
        self._note = note

    def compose(self) -> ComposeResult:
        text = Text()
        for key, what in self._keys:
            text.append(f"{key:>12}  ", "bold")
            text.append(f"{what}\n")
        text.append(f"\n{self._note}", "dim")
        with VerticalScroll(can_focus=False):
            yield Static(text, markup=False)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class ListPopup(ModalScreen[str | None]):
    """A list of names with a line about each; gives the chosen name, None when it was left."""

    DEFAULT_CSS = """
    ListPopup { align: center middle; background: $background 60%; }
    ListPopup Vertical { width: 90%; max-width: 120; height: auto; max-height: 90%; padding: 1 2; background: $panel; }
    ListPopup Static { background: $panel; color: $foreground; height: auto; margin-bottom: 1; }
    ListPopup OptionList, ListPopup OptionList:focus { height: auto; max-height: 20; background: $panel; border: none;
        padding: 0; scrollbar-size: 0 0; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS = [  # noqa: RUF012  Textual reads a list of the class
        Binding("escape,q", "leave", "leave"),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, title: str, items: Mapping[str, str], current: str) -> None:
        super().__init__()
        self._heading = title
        self._items = items
        self._current = current

    def compose(self) -> ComposeResult:
        width = max(map(len, self._items), default=0)
        options = [
            Option(Text(f"{name:{width}}  {visible(about)}", no_wrap=True, overflow="ellipsis"), id=name)
            for name, about in self._items.items()
        ]
        with Vertical():
            yield Static(self._heading, markup=False)
            yield OptionList(*options, markup=False)

    def on_mount(self) -> None:
        choices = self.query_one(OptionList)
        names = list(self._items)
        choices.highlighted = names.index(self._current) if self._current in names else 0
        choices.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_move(self, lines: int) -> None:
        choices = self.query_one(OptionList)
        (choices.action_cursor_down if lines > 0 else choices.action_cursor_up)()
