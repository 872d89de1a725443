"""A kind of server whose options mean the same in every version: all that is known of it is data and one function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bubblewatch.model.logs import Event, LogLine, PoolSized, VersionSeen
from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Launch, Origin, Rank, Setting, Settings, SettingValue
from bubblewatch.servers.argv import Given, OptionList, Takes, read_options, value_of
from bubblewatch.servers.base import Facts
from bubblewatch.servers.common import ACCESS, COMMON
from bubblewatch.servers.environment import settings_from_environment
from bubblewatch.servers.logprefix import OwnPrefix, records
from bubblewatch.servers.option_file import not_read, settings_in_file
from bubblewatch.servers.patterns import Pattern, first_meaning
from bubblewatch.servers.program import Entry, Program, find_program
from bubblewatch.servers.versions import Bounds, Version

RUNTIME_VARIABLES = (
    r"CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|OMP_NUM_THREADS"
    r"|NCCL_(?:P2P_DISABLE|P2P_LEVEL|SHM_DISABLE|IB_DISABLE|NET|ALGO|PROTO|SOCKET_IFNAME)"
)
"""Variables that bear on how any GPU program runs (CUDA 12 guide, NCCL 2.28 environment page)."""

NO_PREFIX = OwnPrefix(re.compile(r"(?!)"), re.compile(r"(?!)"))
"""For a server that writes its lines without a prefix of its own."""


_ANY = (ACCESS, *COMMON)


@dataclass(frozen=True, slots=True)
class PlainKind:
    """See `ServerKind`. Everything is given: nothing here knows any one server.

    `environment` names the variables that are settings under their own names; `variables` maps those that stand for an
    option to the setting of that option. `positional` is the setting of the first word that is no option, `steps` are
    sub-commands that may stand before it. `option_files` are settings that name a YAML file of options; `file_wins`
    when its values count more than the command line's. `titles` matches process titles of the server and its workers.
    `tag` is found in what a transport puts before the line when it names this server, `foreign` when it names another.
    """

    kind: str
    label: str
    entry: Entry
    options: OptionList
    meaning: Callable[[Settings, Version | None], Facts]
    table: tuple[Pattern, ...] = ()
    prefix: OwnPrefix = NO_PREFIX
    defaults: Mapping[str, SettingValue] = field(default_factory=dict)
    environment: re.Pattern[str] = re.compile(RUNTIME_VARIABLES)
    variables: Mapping[str, str] = field(default_factory=dict)
    positional: str = ""
    steps: frozenset[str] = frozenset()
    option_files: tuple[str, ...] = ()
    file_wins: bool = False
    titles: re.Pattern[str] | None = None
    tag: re.Pattern[str] | None = None
    foreign: re.Pattern[str] | None = None

    def matches(self, launch: Launch, title: str) -> bool:
        if find_program(launch.argv, self.entry) is not None:
            return True
        if self.titles is not None and self.titles.fullmatch(title):
            return True
        images = self.entry.images
        return launch.image is not None and images is not None and images.fullmatch(launch.image) is not None

    def settings(self, launch: Launch, version: str | None) -> Settings:
        del version  # these options mean the same in every version that was read
        values = settings_from_environment(launch, self.environment)
        program = self._program(launch)
        if program is None:
            return Settings(MappingProxyType(values))
        words = program.words[1:] if program.words[:1] and program.words[0] in self.steps else program.words
        reading = read_options(words, self.options)
        named = {setting.name: setting for given in reading.given if (setting := _setting(given)) is not None}
        if self.positional and reading.others[:1]:
            named.setdefault(
                self.positional, Setting(self.positional, reading.others[0], Origin.ARGV, reading.others[0])
            )
        in_file, problems = self._files(launch, named)
        if not problems:
            values |= {n: Setting(n, value, Origin.DEFAULT, "default") for n, value in self.defaults.items()}
        values |= self._from_variables(launch)
        values |= (named | in_file) if self.file_wins else (in_file | named)
        return Settings(MappingProxyType(values), (*reading.problems, *problems))

    def _program(self, launch: Launch) -> Program | None:
        """The server's start; bare options (the image's entry point, or pasted alone) count as its own."""
        found = find_program(launch.argv, self.entry)
        if found is None and (launch.argv[:1] and launch.argv[0].startswith("-")):
            return Program("", launch.argv)
        return found

    def _files(self, launch: Launch, named: Mapping[str, Setting]) -> tuple[dict[str, Setting], tuple[str, ...]]:
        """The settings in option files, and a problem for each file that could not be read."""
        found: dict[str, Setting] = {}
        problems = []
        for name in self.option_files:
            setting = named.get(name)
            if setting is None:
                continue
            inside = settings_in_file(launch, setting.value)
            if inside is None:
                problems.append(not_read(setting))
            else:
                found |= inside
        return found, tuple(problems)

    def _from_variables(self, launch: Launch) -> dict[str, Setting]:
        return {
            dest: Setting(dest, value_of(value), Origin.ENVIRONMENT, f"{variable}={value}")
            for variable, dest in self.variables.items()
            if (value := (launch.env or {}).get(variable)) is not None
        }

    def parse(self, line: LogLine) -> tuple[Event, ...]:
        events: list[Event] = []
        for part in records(line, self.prefix):
            events += first_meaning(self.table, part, None)[1] or first_meaning(_ANY, part, None)[1]
        return tuple(events)

    def tells(self, line: LogLine) -> bool:
        for part in records(line, self.prefix):
            if self.foreign is not None and self.foreign.search(part.before):
                return False
            if part.own or (self.tag is not None and self.tag.search(part.before)):
                return True
            pattern, _ = first_meaning(self.table, part, None)
            if pattern is not None and pattern.telling:
                return True
        return False

    def version_bounds(self, lines: Iterable[LogLine]) -> Bounds:
        for line in lines:
            for event in self.parse(line):
                if isinstance(event, VersionSeen) and (said := Version.parse(event.version)) is not None:
                    return Bounds(said, said)
        return Bounds()

    def facts(
        self, settings: Settings, version: str | None, *, bounds: Bounds | None = None, pool: PoolSized | None = None
    ) -> Facts:
        del bounds, pool
        return self.meaning(settings, Version.parse(version))

    def gpu_rank(self, title: str) -> Rank | None:
        del title
        return None


def _setting(given: Given) -> Setting | None:
    option = given.option
    dest = option.dest if option is not None else given.spelling.lstrip("-").replace("-", "_")
    if is_secret_name(dest) or is_secret_name(given.spelling):
        return None
    if option is None and dest.startswith("no_") and not given.words:
        return Setting(dest.removeprefix("no_"), False, Origin.ARGV, given.written)
    return Setting(dest, _value(given), Origin.ARGV, given.written)


def _value(given: Given) -> SettingValue:
    takes = Takes.PERHAPS_ONE if given.option is None else given.option.takes
    if takes in (Takes.NOTHING, Takes.SWITCH):
        return given.words[0].lower() not in ("false", "0") if given.words else not given.negated
    if not given.words:
        return True if takes is Takes.PERHAPS_ONE else None
    return " ".join(given.words) if len(given.words) > 1 or takes is Takes.MANY else value_of(given.words[0])
