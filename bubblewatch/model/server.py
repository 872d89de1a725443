"""An inference server: how it was launched, what its settings are, which life of it this is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

SettingValue = str | int | float | bool | None
"""A setting's value; None = explicitly unset. Lists and JSON are kept as the text the server would read."""


class Origin(StrEnum):
    """Where a setting was read. Later members outrank earlier ones when they disagree."""

    DEFAULT = "default-of-version"
    ENVIRONMENT = "environment"
    FILE = "file"
    ARGV = "argv"
    LOG = "log"
    ENDPOINT = "endpoint"
    STATED = "stated"


@dataclass(frozen=True, slots=True)
class Setting:
    """One option: `name` as this server writes it in snake case (`disable_cuda_graph`), with its value and evidence.

    `evidence` quotes where it was read (`--disable-cuda-graph`, `k26.service:14`, a log line), secrets redacted.
    """

    name: str
    value: SettingValue
    origin: Origin
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved view: one value per name, the one that really holds as far as the evidence goes.

    A name that is absent is unknown; a default of the version is present with origin DEFAULT. `problems` are plain
    sentences on options that this version does not know or that contradict each other.
    """

    values: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> SettingValue:
        """Value of `name`, None when unknown (or explicitly unset)."""
        setting = self.values.get(name)
        return setting.value if setting else None

    def number(self, name: str) -> int | None:
        """Value of `name` as a whole number, None when unknown or not a number."""
        value = self.get(name)
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        """Value of `name` as a switch, None when unknown."""
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.values.values())

    def over(self, other: Settings) -> Settings:
        """The view in which a setting of higher origin wins; at equal origin, self's."""
        merged = dict(other.values)
        for setting in self:
            below = merged.get(setting.name)
            if below is None or ORDER[setting.origin] >= ORDER[below.origin]:
                merged[setting.name] = setting
        problems = tuple(dict.fromkeys((*self.problems, *other.problems)))
        return Settings(MappingProxyType(merged), problems)


ORDER: Mapping[Origin, int] = MappingProxyType({origin: rank for rank, origin in enumerate(Origin)})
"""Origin -> how strongly it speaks."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A worker's place in the model: pipeline stage, tensor rank, data-parallel rank, all from 0."""

    pp: int = 0
    tp: int = 0
    dp: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """One life of a server: boot, main pid and its start time (clock ticks since boot). A restart begins a new one."""

    boot_id: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class BirthRecord:
    """What is said only once, at start: kept when first seen, because logs rotate.

    `complete` is False when we came late and the start-up lines were already gone: what only they tell is then
    unknown, not default.
    """

    argv: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server was or would be launched, secrets redacted.

    `env` holds only variables that bear on serving (see `sources`), None = it could not be read. `where` says what was
    read, for people: `pid 48121`, `k26.service:14`, `command`.

    `places` maps each option (`--tp`) and variable (`CUDA_VISIBLE_DEVICES`) to the `file:line` that sets it last, empty
    when the launch was not read from text. `image` is the container image that runs it, None = none was named. `notes`
    are plain sentences on what could not be read or resolved.

    `files` holds the text of option files that the launch names (`--config serve.yaml`) and that could be read, by the
    path as the launch writes it.
    """

    argv: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    where: str = "command"
    working_directory: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """One inference server on this host, or one that evidence files describe.

    `key` is unit, container or workload, else a hash of argv: it survives restarts. `kind` is `sglang`, `vllm`, … or
    `unknown`. `version` None = not established; `version_basis` says how it is known. `gpus` maps the uuid of each GPU
    that its processes use to their rank (None = rank not known). `asked` are the settings as the launch asks for them,
    `settings` those that hold as far as the evidence goes.
    """

    kind: str
    key: str
    version: str | None = None
    version_basis: str = ""
    unit: str | None = None
    container: str | None = None
    epoch: Epoch | None = None
    main_pid: int | None = None
    port: int | None = None
    launch: Launch | None = None
    settings: Settings = field(default_factory=Settings)
    asked: Settings = field(default_factory=Settings)
    gpus: Mapping[str, Rank | None] = field(default_factory=dict)
    birth: BirthRecord | None = None
