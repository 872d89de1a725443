"""The line in which a filter is typed. While it is not shown it takes no keys."""

from __future__ import annotations

from textual.widgets import Input


class FilterLine(Input):
    """One line above the foot."""

    DEFAULT_CSS = """
    FilterLine, FilterLine:focus { height: 1; border: none; padding: 0 1; background: $panel; display: none; }
    FilterLine.shown { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(id="filter", placeholder="words to look for; !word leaves out", compact=True, disabled=True)
        self.cursor_blink = False

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("shown")

    def open_with(self, text: str) -> None:
        """Show it with this text and let it take the keys."""
        self.value = text
        self.disabled = False
        self.add_class("shown")
        self.focus()

    def shut(self) -> None:
        """Hide it; its text stays the filter until somebody takes it away."""
        self.remove_class("shown")
        self.disabled = True
        self.app.set_focus(None)
