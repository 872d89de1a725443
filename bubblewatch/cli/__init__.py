"""The command line. Each command imports what it needs inside itself, so that `--help` and errors are quick."""

from bubblewatch.cli.entry import main

__all__ = ["main"]
