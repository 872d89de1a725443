"""Untrusted text made fit to be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red] text", "plain [red] text"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("two\nlines\r", r"two\nlines\r"),
        ("tab\tand\u00a0space", "tab and space"),
        ("\u202eevil\u200b", r"\u202eevil\u200b"),
        ("\udcff\x9b", r"\udcff\x9b"),
        ("größer 模型", "größer 模型"),
    ],
)
def test_what_acts_stands_there_as_its_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_cut_is_marked() -> None:
    assert visible("abcdef", 4) == "abc…"
    assert visible("abcd", 4) == "abcd"


@given(st.text(st.characters()), st.integers(1, 20))
def test_the_result_is_printable_and_within_its_limit(text: str, limit: int) -> None:
    shown = visible(text, limit)

    assert shown.isprintable()
    assert len(shown) <= limit
