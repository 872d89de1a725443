"""Versions of servers: parsing, order, and ranges such as `>=0.5.7,<0.5.20`. Pure and tolerant."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"\s{0,4}v?(?P<release>\d{1,9}(?:\.\d{1,9}){0,4})"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|preview)[-_.]?(?P<pre_number>\d{0,9}))?"
    r"(?:[-_.]?post[-_.]?(?P<post>\d{0,9}))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d{0,9}))?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<version>\S+)\s*")
_PARTS = 3
"""Release numbers that count; further ones are compared too, missing ones are 0."""

_DEV, _PRE, _FINAL, _POST = -2, -1, 0, 1
"""How far along a release is: a development build before a candidate, that before the release, that before its post."""


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One version, ordered as packages order them: 0.5.6rc1 < 0.5.6 < 0.5.6.post2 < 0.5.7.

    A local part (`+cu129`) and whatever follows the last understood part do not count. A development build of a post
    release or of a candidate counts as that.
    """

    release: tuple[int, ...]
    stage: int = _FINAL
    number: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Version | None:
        """The version that `text` begins with; None when it begins with none (a commit, `main`, nothing)."""
        found = _VERSION.match(text or "")
        if found is None:
            return None
        numbers = [int(part) for part in found["release"].split(".")]
        if len(numbers) < 2:
            return None
        numbers += [0] * (_PARTS - len(numbers))
        if found["post"] is not None:
            return cls(tuple(numbers), _POST, int(found["post"] or 0))
        if found["pre"] is not None:
            return cls(tuple(numbers), _PRE, int(found["pre_number"] or 0))
        if found["dev"] is not None:
            return cls(tuple(numbers), _DEV, int(found["dev"] or 0))
        return cls(tuple(numbers))

    def __str__(self) -> str:
        suffix = {_POST: f".post{self.number}", _PRE: f"rc{self.number}", _DEV: f".dev{self.number}"}
        return ".".join(map(str, self.release)) + suffix.get(self.stage, "")

    def satisfies(self, condition: str) -> bool:
        """True when this version meets every clause of `condition`, such as `>=0.5.7,<0.5.20`; "" is met by all.

        ValueError when a clause is not a comparison with a version: conditions come from rules, not from users.
        """
        return all(self._meets(clause) for clause in condition.split(",") if clause.strip())

    def _meets(self, clause: str) -> bool:
        found = _CLAUSE.fullmatch(clause)
        other = Version.parse(found["version"]) if found else None
        if found is None or other is None:
            raise ValueError(f"not a version condition: {clause.strip()!r}")
        match found["operator"]:
            case "<":
                return self < other
            case "<=":
                return self <= other
            case ">":
                return self > other
            case ">=":
                return self >= other
            case "==":
                return self == other
            case _:
                return self != other


def satisfies(version: str | None, condition: str) -> bool | None:
    """Whether `version` meets `condition`; None when the version is not known or not one."""
    parsed = Version.parse(version)
    return None if parsed is None else parsed.satisfies(condition)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a version that was never said: at least `low`, before `below`; None = open on that side."""

    low: Version | None = None
    below: Version | None = None

    @classmethod
    def exactly(cls, version: str | None) -> Bounds | None:
        """The bounds of a known version; None when it is not known."""
        parsed = Version.parse(version)
        return None if parsed is None else cls(parsed, parsed)

    def narrowed(self, other: Bounds) -> Bounds:
        """Both at once: the higher of the lows, the lower of the others."""
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.below, other.below) if bound is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))

    @property
    def is_empty(self) -> bool:
        """True when no version lies in them, because lines of different versions were mixed."""
        return self.low is not None and self.below is not None and self.low > self.below

    def since(self, version: str) -> bool | None:
        """True when surely `version` or newer, False when surely older, None when these bounds do not decide."""
        limit = Version.parse(version)
        if limit is None:
            raise ValueError(f"not a version: {version!r}")
        if self.low is not None and self.low >= limit:
            return True
        if self.below is not None and (self.below < limit or (self.below == limit and self.low != self.below)):
            return False
        return None
