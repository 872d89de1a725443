"""What is on the screen, as a file of the current folder."""

from __future__ import annotations

from pathlib import Path

MOST_FILES = 1000
"""Names that are tried: whoever saves more has to tidy up."""


def save_new(stem: str, suffix: str, text: str) -> str:
    """Write a new file `STEM-N.SUFFIX`, never over one that is there; what is to be said about it."""
    for number in range(1, MOST_FILES):
        path = Path(f"{stem}-{number}.{suffix}")
        try:
            with path.open("x", encoding="utf-8", errors="replace") as file:
                file.write(f"{text}\n")
        except FileExistsError:
            continue
        except OSError as error:
            return f"could not save {path}: {error.strerror}"
        return f"saved {path}"
    return f"there are too many files {stem}-N.{suffix} here already"
