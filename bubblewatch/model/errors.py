"""The one tree of errors. Foreign exceptions are translated in the file that binds the foreign library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text file: path as the user wrote it, 1-based line and column (None when not known)."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)


class BubblewatchError(Exception):
    """Root of every error that bubblewatch raises on purpose.

    `what` is one sentence that says what is wrong and where; `hint`, when given, says what to do about it.
    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} ({self.hint})" if self.hint else self.what


class UsageError(BubblewatchError):
    """The user asked for something that cannot be: a wrong option, a missing or unreadable file. Exit code 2."""


class ConfigError(UsageError):
    """A configuration file says something that cannot be followed."""


class RuleError(UsageError):
    """A rule file is wrong, or a condition cannot be evaluated on well-typed values.

    `problems` holds every problem found, each already with its place and caret.
    """

    def __init__(self, what: str, hint: str | None = None, problems: tuple[str, ...] = ()) -> None:
        super().__init__(what, hint)
        self.problems = problems


class SourceError(BubblewatchError):
    """Something outside (driver, journal, file, process, endpoint) did not answer as it should."""


class SourceUnavailable(SourceError):
    """The source is not there at all: no library, no driver, no journal, no such unit. May come later."""


class AccessDenied(SourceError):
    """The source is there and refuses us; `hint` names the least privilege that would do."""


class NotSupported(SourceError):
    """The device or version cannot answer this question. Normal: probe once, remember, go on."""


class SourceLost(SourceError):
    """The source was there and is gone: GPU off the bus, process ended, file removed."""
