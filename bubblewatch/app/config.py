"""The configuration of the daemon: every key once, with its kind, default and meaning, and how they are put together.

Flags go over environment variables, those over the file, that over the defaults.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bubblewatch.app.config_kinds import FLAG, TEXT, TEXTS, Kind, between, one_of, sized, within
from bubblewatch.app.config_places import key_lines
from bubblewatch.model.errors import ConfigError, Place

DEFAULT_FILE = Path("/etc/bubblewatch/config.toml")
"""Read when neither --config nor BUBBLEWATCH_CONFIG names another, and only if it is there."""

PREFIX = "BUBBLEWATCH_"
FILE_VARIABLE = f"{PREFIX}CONFIG"

MAX_FILE_BYTES = 1024 * 1024
"""Largest configuration file that is read; one with every key has two KiB."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: `watch.rate` in the file, `BUBBLEWATCH_WATCH_RATE` in the environment.

    `is_live`: a reload (SIGHUP) puts a new value into force; others wait for a restart.
    """

    name: str
    kind: Kind
    meaning: str
    is_live: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace(".", "_")


def _key(name: str, kind: Kind, default: object, meaning: str, *, live: bool = True) -> Any:
    return field(default=default, metadata={"key": Key(name, kind, meaning, live)})


@dataclass(frozen=True, slots=True)
class Config:
    """What the daemon does. Each field is one key; its name in the file is in KEYS."""

    gpus: str | None = _key(
        "watch.gpus",
        TEXT,
        None,
        "Only these GPUs, by index or UUID (0,2 or 0-3); others get no call. All when not set.",
        live=False,
    )
    rate_hz: float | None = _key(
        "watch.rate",
        between(0.2, 1000, "Hz"),
        None,
        "NVML readings a second; as often as the sensors refresh when not set, which is 10 as a rule.",
        live=False,
    )
    nvml: bool = _key("watch.nvml", FLAG, True, "Read the GPUs; false judges on logs and settings alone.", live=False)
    window_s: float = _key("watch.window", within(5, 600), 30.0, "How far back a judgement of telemetry looks.")
    rules: tuple[str, ...] = _key("watch.rules", TEXTS, (), "Folders with further rules.")
    ignore: tuple[str, ...] = _key(
        "watch.ignore", TEXTS, (), "Findings that are accepted as risks: they stay visible and are never loud."
    )
    listen: tuple[str, ...] = _key(
        "serve.listen",
        TEXTS,
        ("127.0.0.1:9736",),
        "Where to serve HTTP: HOST:PORT, [IPv6]:PORT or unix:/path/of/socket, one or several.",
    )
    web_config: str | None = _key(
        "serve.web_config",
        TEXT,
        None,
        "File with TLS, users and tokens, in the format of Prometheus exporters. Plain and open when not set.",
    )
    hosts: tuple[str, ...] = _key(
        "serve.hosts",
        TEXTS,
        (),
        "Names by which this machine is asked, beside its own, localhost and addresses; other names in a request's "
        'Host header are refused while nobody has to log in. ["*"] takes any.',
    )
    state_folder: str | None = _key(
        "state.folder",
        TEXT,
        None,
        "Where to keep what must survive a restart. What systemd gives ($STATE_DIRECTORY) when not set; else nothing "
        "is kept.",
        live=False,
    )
    state_bytes: int = _key(
        "state.max_size", sized(64 * 1024, 2**30), 32 * 2**20, "Most that the state may take on disk.", live=False
    )
    state_every_s: float = _key(
        "state.every",
        within(0.05, 600),
        5.0,
        "How often it is written when it changed; a crash never loses log lines, they are read again.",
        live=False,
    )
    record: bool = _key(
        "record.enabled", FLAG, True, "Record what is seen, where there is a folder for it.", live=False
    )
    record_folder: str | None = _key(
        "record.folder",
        TEXT,
        None,
        "Where recordings go. The folder recording in that of the state when not set; else nothing is recorded.",
        live=False,
    )
    record_bytes: int = _key(
        "record.max_size",
        sized(16 * 2**20, 2**42),
        2 * 2**30,
        "Most that recordings may take on disk; the oldest go first. A day of eight GPUs takes about 200 MB.",
        live=False,
    )
    record_age_s: float = _key(
        "record.max_age", within(3600, 366 * 86_400), 7 * 86_400.0, "How long recordings are kept.", live=False
    )
    log_level: str = _key("log.level", one_of("debug", "info", "warning", "error"), "info", "What the daemon says.")


KEYS: Mapping[str, Key] = {f.name: f.metadata["key"] for f in dataclasses.fields(Config)}
"""Field of Config -> its key."""

_FIELDS: Mapping[str, str] = {key.name: name for name, key in KEYS.items()}
_TABLES = frozenset(name.partition(".")[0] for name in _FIELDS)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and where each of its values comes from: field -> `default`, `FILE:LINE`, a variable, a flag.

    `file` is the file that was read, None = none.
    """

    config: Config = field(default_factory=Config)
    origins: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None

    def origin(self, name: str) -> str:
        return self.origins.get(name, "default")


class _Draft:
    """Collects values and problems from one origin after the other; the later ones win."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.problems: list[str] = []

    def take(self, name: str, value: object, origin: str) -> None:
        key = KEYS[_FIELDS[name]]
        try:
            self.values[_FIELDS[name]] = key.kind.read(value)
            self.origins[_FIELDS[name]] = origin
        except ValueError as error:
            self.problems.append(f"{origin}: {name} = {_short(value)}: {error}; {name} is {key.kind.expects}")


def load(file: str | None, environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Loaded:
    """The configuration that holds. `file` None = the one that the environment names, else DEFAULT_FILE if it is there.

    `flags` maps fields of Config to values from the command line. Raises ConfigError with every problem, each with its
    file and line, variable or flag.
    """
    path = _file(file, environ)
    draft = _Draft()
    if path is not None:
        _take_file(draft, path)
    _take_environment(draft, environ)
    for name, value in (flags or {}).items():
        draft.values[name] = value
        draft.origins[name] = "command line"
    if draft.problems:
        raise ConfigError("\n".join(draft.problems), "bubblewatch config schema lists every key")
    return Loaded(Config(**draft.values), draft.origins, path)


def _file(file: str | None, environ: Mapping[str, str]) -> str | None:
    named = file or environ.get(FILE_VARIABLE)
    if named:
        return named
    return str(DEFAULT_FILE) if DEFAULT_FILE.is_file() else None


def _take_file(draft: _Draft, path: str) -> None:
    text = _read(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, error) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply to be a configuration") from error
    lines = key_lines(text)
    for name, value in _flat(tables):
        place = str(Place(path, lines.get(name) or lines.get(name.rpartition(".")[0])))
        if name in _FIELDS:
            draft.take(name, value, place)
        else:
            draft.problems.append(f"{place}: {name} is no setting{_nearest(name, _FIELDS)}")


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", "give --config a TOML file") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES // 1024} KiB, so it is no configuration")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})", "TOML is always UTF-8") from error


def _syntax_error(path: str, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    """The parser's words with the place in front: it says `... (at line 3, column 7)` (Python 3.11, tomllib)."""
    what, _, where = str(error).partition(" (at ")
    numbers = [int(word.strip(",)")) for word in where.split() if word.strip(",)").isdigit()]
    line = numbers[0] if numbers else max(len(text.splitlines()), 1)
    return ConfigError(f"{Place(path, line, numbers[1] if len(numbers) > 1 else None)}: {what}", "the file is TOML")


def _flat(tables: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Dotted names and values; only our own tables are opened, so that a foreign one is named as a whole."""
    flat: list[tuple[str, object]] = []
    for table, content in tables.items():
        if isinstance(content, dict) and table in _TABLES:
            flat += [(f"{table}.{name}", value) for name, value in content.items()]
        else:
            flat.append((table, content))
    return flat


def _take_environment(draft: _Draft, environ: Mapping[str, str]) -> None:
    variables = {key.variable: key for key in KEYS.values()}
    for variable in sorted(name for name in environ if name.startswith(PREFIX) and name != FILE_VARIABLE):
        key = variables.get(variable)
        if key is None:
            draft.problems.append(f"{variable} is no setting{_nearest(variable, variables)}")
        else:
            draft.take(key.name, key.kind.from_text(environ[variable]), variable)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    """`; did you mean X?` for the most similar known name, also when only its last part is known elsewhere."""
    last = name.rpartition(".")[2]
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    near = elsewhere or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _short(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
