"""A real terminal, as tmux plays it: start a program in it, press keys, read the screen and the state of the tty."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]

PATIENCE_S = 60.0
"""How long something may take to appear; only a failure ever waits that long."""

AFTER = 'echo "left with $?"; stty -a; exec sleep 600'
"""What the shell does when the program has ended: its code, and how it left the tty."""


class Terminal:
    """One program in one tmux session on a server of its own, until the end of the `with` block."""

    def __init__(self, command: Sequence[str], columns: int = 100, rows: int = 30, **environ: str) -> None:
        self._socket = f"bubblewatch-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        variables = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **environ}
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *command]
        script = f"{shlex.join(words)}; {AFTER}"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(ROOT), script)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Type keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    def state(self, name: str) -> str:
        """What tmux knows of the terminal: alternate_on, cursor_flag, mouse_any_flag, …"""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    @property
    def program_pid(self) -> int:
        """The program that the shell runs."""
        shell = self.state("pane_pid")
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii").split()
        return int(children[0])

    def until(self, what: Callable[[str], bool]) -> str:
        """The screen as soon as it is like that; AssertionError with the screen when it never is."""
        end = time.monotonic() + PATIENCE_S
        while not what(screen := self.screen):
            assert time.monotonic() < end, f"never came:\n{screen}"
            time.sleep(0.05)
        return screen

    def shows(self, *words: str) -> str:
        """The screen as soon as all these words are on it."""
        return self.until(lambda screen: all(word in screen for word in words))

    def assert_put_right(self, code: int) -> str:
        """The program has ended with this code and the terminal is as it was; gives what is on it.

        The terminal must be large enough for what a shell then prints.
        """
        screen = self.shows(f"left with {code}", "icanon")
        words = screen.split()
        assert "icanon" in words
        assert "echo" in words
        for name, value in (("alternate_on", "0"), ("cursor_flag", "1"), ("mouse_any_flag", "0")):
            assert self.state(name) == value, name
        return screen
