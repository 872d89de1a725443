"""Lines of styled words: where text starts, and when it is coloured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.report.layout import labelled, plain, span, wants_color, with_right


@pytest.mark.parametrize(
    ("is_terminal", "environ", "wanted"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(is_terminal: bool, environ: dict[str, str], wanted: bool) -> None:
    assert wants_color(is_terminal, environ) is wanted


def test_options_are_not_broken_at_their_hyphens() -> None:
    text = plain(labelled("do", "please remove --disable-cuda-graph", 40, 10, start=2))

    assert text == "  do      please remove\n          --disable-cuda-graph\n"


def test_the_right_word_ends_at_the_width_or_follows_what_is_too_long() -> None:
    assert plain([with_right((span("name"),), span("HIGH"), 12)]) == "name    HIGH\n"
    assert plain([with_right((span("a long name"),), span("HIGH"), 12)]) == "a long name  HIGH\n"


@given(st.text(st.characters(), max_size=200), st.integers(0, 60))
def test_text_from_outside_never_begins_a_line(text: str, width: int) -> None:
    lines = plain(labelled("", text, width, 9)).splitlines()

    assert all(line == "" or line.startswith(" " * 9) for line in lines)
