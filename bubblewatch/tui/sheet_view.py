"""The one widget that shows lines: it scrolls them, and sends to the terminal only the cells that changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from bubblewatch.model.visible import CUT
from bubblewatch.tui.glyphs import ascii_only
from bubblewatch.tui.ink import Ink, Line
from bubblewatch.tui.room import Sheet


class SheetView(Widget, can_focus=False):
    """Shows a sheet. Called only from the thread of the application."""

    DEFAULT_CSS = "SheetView { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str, on_resize: Callable[[], None]) -> None:  # noqa: A002  as Textual names it
        super().__init__(id=id)
        self._when_resized = on_resize
        self._sheet = Sheet(())
        self._styles: Mapping[Ink, Style] = dict.fromkeys(Ink, Style.null())
        self._ascii = False
        self._top = 0
        self._follows = True

    def paint(self, styles: Mapping[Ink, Style], *, ascii_signs: bool) -> None:
        """Use these colours from now on."""
        self._styles, self._ascii = styles, ascii_signs
        self.refresh()

    def put(self, sheet: Sheet, *, keep_place: bool) -> None:
        """Show this sheet; `keep_place` False begins at its top, or at its end when it follows."""
        before = self._in_sight()
        if not keep_place:
            self._follows = sheet.follows
        self._sheet = sheet
        self._top = self._place(0 if not keep_place else self._top)
        self._refresh_changed(before)

    @property
    def sheet(self) -> Sheet:
        """What is shown."""
        return self._sheet

    def move(self, lines: int) -> None:
        """Scroll by so many lines; reaching the end of a sheet that follows makes it follow again."""
        before = self._in_sight()
        self._top = min(max(self._top + lines, 0), self._lowest)
        self._follows = self._sheet.follows and self._top >= self._lowest
        self._refresh_changed(before)

    @property
    def _lowest(self) -> int:
        """The top line at which the last one is in sight."""
        return max(len(self._sheet.lines) - self.size.height, 0)

    def _place(self, top: int) -> int:
        """The top line that keeps the cursor, or the end of what follows, in sight."""
        if self._sheet.follows and self._follows:
            return self._lowest
        cursor = self._sheet.cursor
        if cursor is not None:
            top = min(max(top, cursor - self.size.height + 1), cursor)
        return min(top, self._lowest)

    def _in_sight(self) -> list[Line | None]:
        """What each row shows."""
        return [self._at(row) for row in range(self.size.height)]

    def _at(self, row: int) -> Line | None:
        """What this row shows; None below the last line."""
        number = row if row < self._sheet.pinned else self._top + row
        return self._sheet.lines[number] if number < len(self._sheet.lines) else None

    def _refresh_changed(self, before: Sequence[Line | None]) -> None:
        """Mark for repainting the cells that are not as before."""
        after = self._in_sight()
        if len(before) != len(after):
            self.refresh()
            return
        for row, (old, new) in enumerate(zip(before, after, strict=True)):
            if old == new:
                continue
            span = _changed(self._drawn(old), self._drawn(new), self.size.width)
            if span is not None:
                start, end = span
                self.refresh(Region(start, row, end - start, 1))

    def _drawn(self, one: Line | None) -> Strip | None:
        return None if one is None else self._strip(one)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        width, plain = self.size.width, self._styles[Ink.PLAIN]
        one = self._at(y)
        return Strip.blank(width, plain) if one is None else self._strip(one).adjust_cell_length(width, plain)

    def on_resize(self, event: events.Resize) -> None:
        """Draw anew for the new size."""
        event.stop()
        self._when_resized()

    def _strip(self, one: Line) -> Strip:
        segments: list[Segment] = []
        for span in one:
            style = self._styles[span.ink]
            if span.action:
                style += Style.from_meta({"@click": f"app.{span.action}" + ("" if "(" in span.action else "()")})
            text = ascii_only(span.text.replace(CUT, "~").replace("›", ">")) if self._ascii else span.text
            if segments and text.isspace() and _same_ground(segments[-1].style, style):
                segments[-1] = Segment(segments[-1].text + text, segments[-1].style)
            else:
                segments.append(Segment(text, style))
        return Strip(segments)


def _same_ground(one: Style | None, other: Style) -> bool:
    """Whether spaces look the same in both: each change of style costs some 40 bytes on the way to the terminal."""
    return one is not None and one.bgcolor == other.bgcolor and bool(one.reverse) == bool(other.reverse)


def _changed(old: Strip | None, new: Strip | None, width: int) -> tuple[int, int] | None:
    """First and one past the last column in which two rows differ; None when they are the same."""
    if old is new or (old is not None and new is not None and old == new):
        return None
    if old is None or new is None or not (_is_narrow(old) and _is_narrow(new)):
        return 0, width
    a, b = _cells(old), _cells(new)
    length = max(len(a), len(b))
    a += [(" ", None)] * (length - len(a))
    b += [(" ", None)] * (length - len(b))
    start = next((x for x in range(length) if a[x] != b[x]), None)
    if start is None:
        return None
    end = next(x for x in range(length, 0, -1) if a[x - 1] != b[x - 1])
    return min(start, width), min(end, width)


def _is_narrow(strip: Strip) -> bool:
    """Whether every character takes one column, so that places in the text are columns."""
    return strip.cell_length == sum(len(segment.text) for segment in strip)


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    return [(character, segment.style) for segment in strip for character in segment.text]
