"""The screen in a real terminal: it starts, follows the size, and leaves the terminal as it was, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import sys

import pytest

from tests.support.terminal import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

BUBBLEWATCH = (sys.executable, "-m", "bubblewatch")

CRASH = """
import time
from bubblewatch.app.top import Looks, show
class Broken:
    title, scenarios, asked = "", {}, 0
    def next(self):
        self.asked += 1
        if self.asked > 1:
            return "this is no feed"
        from tests.support import feeds
        return feeds.story()
    def switch(self, name): pass
    def close(self): pass
raise SystemExit(show(Broken(), (), Looks())[1])
"""


def test_the_demo_opens_turns_pages_follows_the_size_and_quits() -> None:
    with Terminal((*BUBBLEWATCH, "demo"), COLUMNS="80", LINES="24") as terminal:  # exported sizes are none
        terminal.shows("FIX FIRST", "cuda-graph-disabled", "P7 ")
        assert terminal.state("alternate_on") == "1"
        terminal.press("2")
        terminal.shows("between two tokens of a request")
        terminal.resize(50, 14)
        terminal.until(lambda screen: len(screen.splitlines()) == 14 and "q quit" in screen)
        terminal.press("1")
        terminal.shows("Decode CUDA graphs are off")
        terminal.resize(100, 30)
        terminal.shows("P7 ")
        terminal.press("q")
        screen = terminal.assert_put_right(1)  # findings, as the exit code of a demo says
        assert "This was simulated" in screen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    with Terminal((*BUBBLEWATCH, "demo")) as terminal:
        terminal.shows("FIX FIRST")
        os.kill(terminal.program_pid, number)
        terminal.assert_put_right(128 + number)


def test_a_crash_leaves_the_terminal_as_it_was_and_says_where() -> None:
    with Terminal((sys.executable, "-c", CRASH), columns=120, rows=60) as terminal:
        screen = terminal.assert_put_right(70)
        assert "AttributeError" in screen


def test_ctrl_c_quits() -> None:
    with Terminal((*BUBBLEWATCH, "demo", "tp8")) as terminal:
        terminal.shows("HEALTHY")
        terminal.press("C-c")
        terminal.assert_put_right(0)


def test_without_a_locale_only_ascii_is_sent() -> None:
    with Terminal((*BUBBLEWATCH, "demo"), LANG="C", LC_ALL="C", NO_COLOR="1") as terminal:
        screen = terminal.shows("FIX FIRST", "cuda-graph-disabled")
        assert screen.isascii()


def test_a_dumb_terminal_gets_a_table() -> None:
    command = (*BUBBLEWATCH, "demo", "--speed", "1000", "--seconds", "40")
    with Terminal(command, 120, 100, TERM="dumb") as terminal:
        screen = terminal.shows("cuda-graph-disabled", "left with 1")
        assert terminal.state("alternate_on") == "0"
        assert "exit 1" in screen
