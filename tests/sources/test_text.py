"""Messages become lines that can be matched and shown, whatever was in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.redact import REDACTED
from bubblewatch.sources.text import MAX_LINE_CHARS, Raw, safe_lines

# vLLM 0.14 colours its worker prefix even when nobody sees colours; journald then hands over byte values.
COLOURED = "\x1b[0;36m(Worker_PP0 pid=4711)\x1b[0;0m INFO 03-02 10:00:01 [core.py:1] Graph capturing finished in 9 secs"
PLAIN = "(Worker_PP0 pid=4711) INFO 03-02 10:00:01 [core.py:1] Graph capturing finished in 9 secs"


@pytest.mark.parametrize("raw", [COLOURED, COLOURED.encode(), list(COLOURED.encode()), PLAIN, f"{COLOURED}  \r\n"])
def test_one_line_in_every_form_that_transports_use(raw: Raw) -> None:
    assert safe_lines(raw) == (PLAIN,)


def test_no_message_is_no_line() -> None:
    assert safe_lines(None) == safe_lines("") == safe_lines(b"\n \r\n\t\n") == ()


def test_a_message_of_several_lines_keeps_their_indentation() -> None:
    assert safe_lines("Traceback:\r\n  File x\n\n\tdeep  \n") == ("Traceback:", "  File x", "\tdeep")


def test_of_a_progress_bar_the_last_state_stays() -> None:
    bars = [
        f"Capturing batches (bs={n} avail_mem=5.02 GB): {p}%|███ | 1/4 [00:02<00:00]" for n, p in ((8, 25), (1, 100))
    ]

    assert safe_lines("\r" + "\r".join(bars)) == (bars[1],)
    assert safe_lines("\r".join([*bars, ""])) == (bars[1],)


def test_a_log_line_overwritten_by_a_progress_bar_stays() -> None:
    line = "[2026-03-02 10:00:01 PP3] Capture cuda graph begin."

    assert safe_lines(f"{line}\r  0%|    | 0/4 [00:00<?]\r 25%|#   | 1/4 [00:01<?]") == (
        line,
        " 25%|#   | 1/4 [00:01<?]",
    )


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"caf\xe9 \xff ok", "caf\ufffd \ufffd ok"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("bell\x07 nul\x00 del\x7f c1\x9b31m", "bell nul del c131m"),
        ("\x1b]0;window title\x07after", "after"),
        ("\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]unterminated stays", "unterminated stays"),
        ("#033[32mgreen#033[0m", "green"),
        ("turn \u202eback", "turn back"),
        ("\x1b(B\x1b[m\x1b[2Kdone", "done"),
        ([72, 105, 300, -1], "Hi"),
    ],
)
def test_what_cannot_be_shown_goes(raw: Raw, line: str) -> None:
    assert safe_lines(raw) == (line,)


def test_a_very_long_line_is_cut_and_says_so() -> None:
    whole = "server_args=" + "x" * (MAX_LINE_CHARS - 12)

    assert safe_lines(whole) == (whole,)
    assert safe_lines(whole + "yyy") == (f"{whole} [3 more characters cut]",)


def test_secrets_are_redacted_even_when_colours_hide_their_name() -> None:
    assert safe_lines("api\x1b[1m_key='abc\x1b[0mdef'") == (f"api_key='{REDACTED}'",)


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300), st.lists(st.integers(-5, 300), max_size=60)))
def test_whatever_comes_in_single_printable_lines_come_out(raw: Raw) -> None:
    for line in safe_lines(raw):
        assert line == line.rstrip() != ""
        assert not set(line) & {"\n", "\r", "\x1b", "\x00"}
        assert line.encode("utf-8")
        assert safe_lines(line) == (line,)
