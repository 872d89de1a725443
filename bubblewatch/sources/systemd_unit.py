"""systemd units: the launch that a unit file describes, and what a running systemd says of a unit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import SourceUnavailable, UsageError
from bubblewatch.model.server import Launch
from bubblewatch.sources.env_file import assignments, read_env_file
from bubblewatch.sources.launch_scripts import follow
from bubblewatch.sources.launch_words import Command, launch_from_words, launch_of, likelihood, option_count, unwrap
from bubblewatch.sources.shell_text import Word
from bubblewatch.sources.text_file import STDIN, read_text
from bubblewatch.sources.unit_words import Entry, entries_of, expand_specifiers, expand_variables, unit_words

_EXPECTED = "a systemd service unit"

_SYSTEMCTL_TIMEOUT_S = 3.0
"""A healthy manager answers in milliseconds; one that takes longer is treated as absent."""

_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,Result,MainPID,NRestarts,"
    "FragmentPath,DropInPaths,ExecStart,Environment,WorkingDirectory"
)


def read_unit_file(path: str, stdin: BinaryIO | None = None) -> Launch:
    """The launch that a unit file (`-`: standard input) and the drop-ins beside it (`NAME.d/*.conf`) describe.

    `env` holds what Environment= and the readable files of EnvironmentFile= set; `notes` name what could not be read.
    Secrets are redacted. `where` and `places` point to lines. Raises UsageError when there is no such file, or no
    ExecStart in it.
    """
    return unit_launch(read_text(path, _EXPECTED, stdin), path)


def unit_launch(text: str, path: str) -> Launch:
    """As `read_unit_file`, of the text of the unit file at `path`."""
    file = Path(path)
    path = "standard input" if path == STDIN else path
    entries = [*_service_entries(text, path, file.name)]
    for drop_in in _drop_ins(file):
        entries += _service_entries(read_text(str(drop_in), "a drop-in of a systemd unit"), str(drop_in), file.name)
    environment, notes = _environment(entries)
    commands = _start_commands(entries, environment)
    if not commands:
        raise UsageError(f"{path}: no ExecStart= in a [Service] section", f"expected {_EXPECTED}")
    chosen = follow(max(reversed(commands), key=likelihood), path, environment)
    if not option_count(chosen.words) and not chosen.notes:
        notes.append(f"the options are not in {path}: it starts {chosen.words[0].text}, which was not read")
    folders = [entry.value for entry in entries if entry.key == "WorkingDirectory" and entry.value]
    chosen.env = {**environment, **chosen.env}
    return launch_of(
        chosen, path, env_known=True, notes=tuple(notes), directory=folders[-1].lstrip("-") if folders else None
    )


def _service_entries(text: str, path: str, unit: str) -> Iterator[Entry]:
    for entry in entries_of(text, path):
        if entry.section == "Service":
            yield expand_specifiers(entry, unit)


def _drop_ins(unit: Path) -> list[Path]:
    """Drop-in files of a unit and of its template, by name; of two with one name the more specific counts."""
    found: dict[str, Path] = {}
    if not unit.name:  # a unit's text given as the command itself
        return []
    template = re.sub(r"@[^@]*(\.\w+)$", r"@\1", unit.name)
    for folder in dict.fromkeys((template, unit.name)):
        for path in sorted(unit.with_name(f"{folder}.d").glob("*.conf")):
            found[path.name] = path
    return [found[name] for name in sorted(found)]


def _environment(entries: Sequence[Entry]) -> tuple[dict[str, Word], list[str]]:
    """Variables that the unit sets, and notes on files that could not be read. A file outranks Environment=."""
    own: dict[str, Word] = {}
    files: list[Entry] = []
    for entry in entries:
        if entry.key == "Environment":
            own = {**own, **assignments(unit_words(entry))} if entry.value else {}
        elif entry.key == "EnvironmentFile":
            files = [*files, entry] if entry.value else []
    notes = []
    for entry in files:
        name = entry.value.strip().removeprefix("-")
        try:
            own |= read_env_file(name, entry.path)
        except UsageError as error:
            if not entry.value.strip().startswith("-") or _is_there(name):
                notes.append(f"EnvironmentFile of {entry.path}:{entry.line} was not read: {error.what}")
    return own, notes


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # no path at all: too long, or with a NUL
        return False


def _start_commands(entries: Sequence[Entry], environment: Mapping[str, Word]) -> list[Command]:
    commands: list[Command] = []
    for entry in entries:
        if entry.key != "ExecStart":
            continue
        if not entry.value.strip():
            commands = []
            continue
        words = expand_variables(unit_words(entry), {name: word.text for name, word in environment.items()})
        renamed = "@" in words[0].text[: len(words[0].text) - len(words[0].text.lstrip("@-:+!|"))]
        program = Word(words[0].text.lstrip("@-:+!|"), words[0].line, file=words[0].file)
        commands += unwrap([program, *words[2 if renamed else 1 :]], {}, entry.path)
    return commands


@dataclass(frozen=True, slots=True)
class UnitState:
    """What systemd says of one unit now. `main_pid` None = no main process; `restarts` counts those by Restart=.

    `launch` is the command as loaded (the file may have changed since), None when the unit starts none.
    """

    name: str
    active: str
    sub: str = ""
    result: str = ""
    main_pid: int | None = None
    restarts: int | None = None
    fragment: str | None = None
    drop_ins: tuple[str, ...] = ()
    launch: Launch | None = None


def run_systemctl(arguments: Sequence[str]) -> str:
    """Standard output of `systemctl` with these arguments; SourceUnavailable when it is absent, slow or refuses."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program, arguments as a list, no shell
            ["systemctl", *arguments],  # noqa: S607 - where distributions put it differs
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SYSTEMCTL_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise SourceUnavailable("no systemctl on this machine") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceUnavailable(f"systemctl did not answer within {_SYSTEMCTL_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise SourceUnavailable(f"systemctl: {said}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Systemd:
    """The system's service manager, asked through `systemctl show`, which needs no privilege and changes nothing."""

    run: Callable[[Sequence[str]], str] = field(default=run_systemctl)

    def show(self, unit: str) -> UnitState:
        """State of `unit` (`.service` may be left out); SourceUnavailable when there is no systemd or no such unit."""
        name = unit_name(unit)
        shown = self.run(["show", "--no-pager", "-p", _PROPERTIES, "--", name])
        return state_from_show(shown, name)


def unit_name(unit: str) -> str:
    """`unit` with `.service` added when it names no type."""
    return unit if re.search(r"\.(?:service|scope|slice|socket|target)$", unit) else f"{unit}.service"


def state_from_show(text: str, name: str) -> UnitState:
    """What `systemctl show` (systemd 252) printed for unit `name`; SourceUnavailable when the unit does not exist."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not (key == "ExecStart" and key in values):
            values[key] = value
    if values.get("LoadState") == "not-found":
        raise SourceUnavailable(f"no unit {name}", "`systemctl list-units --type=service` shows those there are")
    return UnitState(
        name=values.get("Id") or name,
        active=values.get("ActiveState", "unknown"),
        sub=values.get("SubState", ""),
        result=values.get("Result", ""),
        main_pid=_count(values.get("MainPID", "")) or None,
        restarts=_count(values.get("NRestarts", "")),
        fragment=values.get("FragmentPath") or None,
        drop_ins=tuple(values.get("DropInPaths", "").split()),
        launch=_loaded_launch(values, name),
    )


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _loaded_launch(values: Mapping[str, str], name: str) -> Launch | None:
    """Example (systemd 252): `{ path=/usr/bin/vllm ; argv[]=/usr/bin/vllm serve m -tp 8 ; ignore_errors=no ; … }`."""
    found = re.search(r"argv\[\]=(?P<argv>.*?) ; ignore_errors=", values.get("ExecStart", ""))
    if found is None:
        return None
    environment = assignments(unit_words(Entry("Service", "Environment", values.get("Environment", ""), name, (0,))))
    texts = {variable: word.text for variable, word in environment.items()}
    words = expand_variables(unit_words(Entry("Service", "ExecStart", found["argv"], name, (0,))), texts)
    commands = unwrap(list(words), {}, name)
    if not commands:
        return None
    chosen = max(reversed(commands), key=likelihood)
    launch = launch_from_words(
        chosen.words,
        {**environment, **chosen.env},
        "command",
        image=chosen.image,
        env_known=True,
        working_directory=values.get("WorkingDirectory") or None,
    )
    return replace(launch, where=f"systemctl show {name}")
