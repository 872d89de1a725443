"""Options of a command line, read as argparse reads them: spellings, abbreviations, values, the last one wins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bubblewatch.model.server import SettingValue

_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d{1,18}\.\d{0,18}|\.\d{1,18})(?:[eE][+-]?\d{1,3})?")
_SUFFIXED = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(Ki|Mi|Gi|Ti|[kKmMgGtT])")
_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
"""What argparse takes for a value although it begins with a dash."""


class Takes(StrEnum):
    """What an option takes after it."""

    ONE = "one"
    PERHAPS_ONE = "opt"
    MANY = "many"
    NOTHING = "flag"
    SWITCH = "bool"
    """Nothing, and a `--no-` form turns it off."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `dest` is the name of its setting, `spellings` every full spelling."""

    dest: str
    spellings: tuple[str, ...]
    takes: Takes


@dataclass(frozen=True, slots=True)
class Given:
    """One option as given: `option` None = not known, `words` are its values, `written` quotes it as it stands."""

    option: Option | None
    spelling: str
    words: tuple[str, ...]
    written: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """All options of one command line in order, the words that belong to none, and what argparse would refuse."""

    given: tuple[Given, ...] = ()
    others: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionList:
    """The options of one program. `label` names it for people (`SGLang 0.5.10`).

    `complete` False = there are more options than these: unknown ones are taken as they stand, and abbreviations are
    not resolved, unless `abbreviates`: then those that only one of these options fits. `folds_underscores`:
    `--max_num_seqs` is the same as `--max-num-seqs`.
    """

    label: str
    by_spelling: Mapping[str, Option]
    complete: bool = True
    folds_underscores: bool = False
    abbreviates: bool = False

    def find(self, spelling: str) -> tuple[Option | None, bool, str]:
        """Option for what was typed, whether it was its `--no-` form, and the problem when there is none."""
        typed = spelling.replace("_", "-") if self.folds_underscores and spelling.startswith("--") else spelling
        if typed in self.by_spelling:
            return self.by_spelling[typed], False, ""
        positive = "--" + typed.removeprefix("--no-")
        switch = self.by_spelling.get(positive)
        if typed.startswith("--no-") and switch is not None and switch.takes is Takes.SWITCH:
            return switch, True, ""
        if not (self.complete or self.abbreviates) or not typed.startswith("--"):
            return None, False, ""
        candidates = sorted(full for full in self.by_spelling if full.startswith(typed))
        if len(candidates) == 1:
            return self.by_spelling[candidates[0]], False, ""
        if not self.complete:
            return None, False, ""
        if candidates:
            shown = ", ".join(candidates[:4]) + (", …" if len(candidates) > 4 else "")
            return None, False, f"{spelling} is ambiguous in {self.label}: {shown}"
        return None, False, f"{spelling} is not an option of {self.label}"


def option_table(
    one: str = "", many: str = "", switch: str = "", flag: str = "", opt: str = ""
) -> Mapping[str, Option]:
    """Options from compact text: words of `dest:--spelling,-s`; without `dest:` the first spelling names the setting.

    `one` take a value, `many` several, `opt` perhaps one, `flag` none; a `switch` takes none and has a `--no-` form.
    """
    groups = (
        (one, Takes.ONE),
        (many, Takes.MANY),
        (switch, Takes.SWITCH),
        (flag, Takes.NOTHING),
        (opt, Takes.PERHAPS_ONE),
    )
    table: dict[str, Option] = {}
    for text, takes in groups:
        for word in text.split():
            dest, colon, rest = word.partition(":")
            spellings = tuple((rest if colon else word).split(","))
            name = dest if colon else spellings[0].lstrip("-").replace("-", "_")
            table |= dict.fromkeys(spellings, Option(name, spellings, takes))
    return MappingProxyType(table)


def read_options(words: Sequence[str], options: OptionList) -> Reading:
    """What these words ask for. Never raises; time grows linearly with the number of words."""
    given: list[Given] = []
    others: list[str] = []
    problems: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_option(word):
            others.append(word)
            continue
        spelling, equals, attached = word.partition("=")
        option, negated, problem = options.find(spelling)
        if problem:
            problems.append(problem)
        taken = (attached,) if equals else _values(words, position, option)
        if not equals:
            position += len(taken)
        if option is not None and option.takes in (Takes.ONE, Takes.MANY) and not taken:
            problems.append(f"{spelling} has no value")
        written = word if equals or not taken else f"{word} {' '.join(taken)}"
        given.append(Given(option, spelling, taken, written, negated))
    return Reading(tuple(given), tuple(others), tuple(dict.fromkeys(problems)))


def _is_option(word: str) -> bool:
    if word in ("-", "--") or not word.startswith("-"):
        return False
    return " " not in word.partition("=")[0] and not _NEGATIVE.match(word)


def _values(words: Sequence[str], position: int, option: Option | None) -> tuple[str, ...]:
    """The values that stand from `position` on. An unknown option is taken to have at most one."""
    takes = Takes.PERHAPS_ONE if option is None else option.takes
    limit = {Takes.NOTHING: 0, Takes.SWITCH: 0, Takes.MANY: len(words)}.get(takes, 1)
    end = position
    while end < len(words) and end - position < limit and not _is_option(words[end]):
        end += 1
    return tuple(words[position:end])


def value_of(text: str) -> SettingValue:
    """`text` as a number where it is one, else as it stands."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text


def whole_number(text: str, thousands: Mapping[str, int]) -> int | None:
    """A count such as `8192`, `8k` or `1Ki`; None when it is none. `thousands` maps each suffix to its factor."""
    if _WHOLE.fullmatch(text):
        return int(text)
    found = _SUFFIXED.fullmatch(text)
    if found is None or found[2] not in thousands:
        return None
    return round(float(found[1]) * thousands[found[2]])
