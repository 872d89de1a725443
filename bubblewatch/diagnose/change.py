"""A change of the launch, shown against what runs: one option a line, taken out (`-`) or put in (`+`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bubblewatch.model.server import Launch, Server, Settings

SHORTEST_ABBREVIATION = 4
"""Characters that an abbreviated option has at least (`--pp`): argparse takes any unique start of a name."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the launch: an option with its values, or the program before them, or a variable."""

    words: tuple[str, ...]
    mark: str = " "
    place: str = ""

    @property
    def option(self) -> str:
        return _plain(self.words[0].partition("=")[0]) if self.words else ""

    @property
    def text(self) -> str:
        return f"{self.mark} {' '.join(self.words)}"


def launch_diff(server: Server | None, remove: Sequence[str], add: Sequence[str]) -> tuple[str, ...]:
    """The change as lines: where it is (`@ k26.service:14`), then `- ` and `+ ` lines with one of context around each.

    `remove` and `add` are options as advice writes them (`--cuda-graph-max-bs 32`) or variables (`NAME=value`). An
    option that is added and already there is replaced. () when the launch is not known or nothing in it would change.
    """
    launch = server.launch if server is not None else None
    if server is None or launch is None or not launch.argv or not (remove or add):
        return ()
    before = [_placed(line, launch.places) for line in (*_variables(launch), *_lines(launch.argv))]
    after = _changed(before, [_split(text) for text in remove], [_split(text) for text in add], server)
    return tuple(_shown(after, launch.where))


def holds_option(server: Server, option: str) -> bool:
    """Whether the launch has this option or variable, abbreviated or inside a shell's argument too.

    True when the launch is not known.
    """
    launch = server.launch
    if launch is None or not launch.argv:
        return True
    wanted, meanings = _split(option), _meanings(server)
    return any(_is_same(line, wanted, meanings) for line in (*_variables(launch), *_lines(launch.argv)))


def _lines(argv: Sequence[str]) -> list[_Line]:
    """The command as one line for each option; what a shell gets as one word is taken apart."""
    groups: list[list[str]] = [[]]
    for word in (part for raw in argv for part in _parts(raw)):
        if word.startswith("-") and not word[1:2].isdigit():
            groups.append([word])
        else:
            groups[-1].append(word)
    return [_Line(tuple(group)) for group in groups if group]


def _parts(word: str) -> Sequence[str]:
    if " --" not in word:
        return [word]
    try:
        return shlex.split(word)
    except ValueError:
        return word.split()


def _variables(launch: Launch) -> list[_Line]:
    return [_Line((f"{name}={value}",)) for name, value in (launch.env or {}).items()]


def _placed(line: _Line, places: Mapping[str, str]) -> _Line:
    place = places.get(line.words[0].partition("=")[0], "")
    return _Line(line.words, line.mark, place)


def _split(text: str) -> _Line:
    return _Line(tuple(text.split()))


def _plain(option: str) -> str:
    return option.replace("_", "-") if option.startswith("-") else option


def _name(option: str) -> str:
    """The setting that an option sets, as servers call it."""
    return option.lstrip("-").replace("-", "_")


def _meanings(server: Server) -> Mapping[str, str]:
    """Options as the launch spells them -> the setting that each was read as: `--pp` is not every option in p-p."""
    settings = (*server.settings, *server.asked)
    words = ((setting.evidence.split(" ")[0].partition("=")[0], setting.name) for setting in settings)
    return {_plain(word): name for word, name in words if word.startswith("-")}


def _is_same(line: _Line, wanted: _Line, meanings: Mapping[str, str]) -> bool:
    """Whether this line sets the wanted option or variable, by its name or an abbreviation of it."""
    if not line.option.startswith("-"):
        return line.option == wanted.option.partition("=")[0] and "=" in line.words[0]
    if line.option == wanted.option:
        return True
    if line.option in meanings:
        return meanings[line.option] == _name(wanted.option)
    return (
        line.option.startswith("--")
        and len(line.option) >= SHORTEST_ABBREVIATION
        and wanted.option.startswith(line.option)
    )


def _changed(before: Sequence[_Line], remove: Sequence[_Line], add: Sequence[_Line], server: Server) -> list[_Line]:
    """The launch after the change; added options stand at its end, or where they stood with another value."""
    after: list[_Line] = []
    waiting, meanings = list(add), _meanings(server)
    for line in before:
        new = [wanted for wanted in waiting if _is_same(line, wanted, meanings)]
        gone = new or [wanted for wanted in remove if _is_same(line, wanted, meanings)]
        if not gone:
            after.append(line)
            continue
        count = len(line.words) if "=" in line.words[0] else 1 + _values(line, gone[0], server.settings)
        after.append(_Line(line.words[:count], "-", line.place))
        after += [_Line(wanted.words, "+", line.place) for wanted in new]
        after += [_Line(line.words[count:])] if line.words[count:] else []
        waiting = [wanted for wanted in waiting if wanted not in new]
    return after + [_Line(wanted.words, "+") for wanted in waiting]


def _values(line: _Line, wanted: _Line, settings: Settings) -> int:
    """How many of the words after the option are its values: none of a switch, which a positional word may follow."""
    if isinstance(settings.get(_name(wanted.option)), bool):
        return 0
    return max(len(wanted.words) - 1, min(len(line.words) - 1, 1))


def _shown(lines: Sequence[_Line], where: str) -> Iterator[str]:
    """The marked lines with one line of context on each side, each group under the places that it changes."""
    marked = [i for i, line in enumerate(lines) if line.mark != " "]
    near = sorted({j for i in marked for j in (i - 1, i, i + 1) if 0 <= j < len(lines)})
    groups: list[list[_Line]] = []
    for index, before in zip(near, [None, *near], strict=False):
        if before is None or index > before + 1:
            groups.append([])
        groups[-1].append(lines[index])
    for group in groups:
        places = dict.fromkeys(line.place or where for line in group if line.mark != " ")
        yield f"@ {', '.join(places)}"
        yield from (line.text for line in group)
