"""Which cells of a row are painted again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from bubblewatch.tui.sheet_view import _changed

BOLD = Style(bold=True)


def strip(text: str, style: Style | None = None) -> Strip:
    return Strip([Segment(text, style)])


def test_an_equal_row_is_left_alone() -> None:
    assert _changed(strip("abc"), strip("abc"), 10) is None
    assert _changed(None, None, 10) is None
    assert _changed(Strip([Segment("ab"), Segment("c")]), strip("abc"), 10) is None


def test_a_changed_digit_is_one_cell() -> None:
    assert _changed(strip("12:00:01"), strip("12:00:02"), 80) == (7, 8)


def test_a_change_of_look_is_a_change() -> None:
    assert _changed(strip("abc"), Strip([Segment("a"), Segment("b", BOLD), Segment("c")]), 10) == (1, 2)


def test_a_shorter_row_clears_what_was_behind_it() -> None:
    assert _changed(strip("abcdef"), strip("abc"), 10) == (3, 6)
    assert _changed(strip("abc"), None, 10) == (0, 10)


def test_rows_with_wide_characters_are_painted_whole() -> None:
    assert _changed(strip("模型 a"), strip("模型 b"), 20) == (0, 20)


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=12))
def test_outside_the_span_both_rows_are_the_same(old: str, new: str) -> None:
    span = _changed(strip(old), strip(new), 12)
    a, b = old.ljust(12), new.ljust(12)
    if span is None:
        assert a == b or old.strip() == new.strip()
        return
    start, end = span
    assert a[:start] == b[:start]
    assert a[end:] == b[end:]
