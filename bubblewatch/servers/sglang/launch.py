"""From SGLang's command line and environment to settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Launch, Origin, Setting, Settings, SettingValue
from bubblewatch.servers.argv import Given, OptionList, Reading, Takes, read_options, value_of, whole_number
from bubblewatch.servers.environment import settings_from_environment
from bubblewatch.servers.option_file import not_read, settings_in_file
from bubblewatch.servers.program import Entry, Program, find_program
from bubblewatch.servers.sglang.options import COUNTS, THOUSANDS, defaults, option_lists
from bubblewatch.servers.versions import Version

ENTRY = Entry(
    modules=re.compile(
        r"sglang\.launch_server|sglang_router\.launch_server|dynamo\.sglang"
        r"|sglang\.bench_(?:offline_throughput|one_batch)"
    ),
    scripts=re.compile(r"(?:.*/)?sglang/launch_server\.py"),
    commands=frozenset({("sglang", "serve")}),
)
"""Ways to start it: `python -m sglang.launch_server` (all versions), `sglang serve` (0.5.5+), the router that starts
workers with the same options, Dynamo's worker, and two offline benchmarks that run the engine itself."""

_OTHER_OPTIONS = ("sglang_router", "sglang.bench", "dynamo.")
"""Programs that take options of their own beside the server's."""

_DESTS = MappingProxyType(
    {
        "data_parallel_size": "dp_size",
        "dp": "dp_size",
        "model": "model_path",
        "pipeline_parallel_size": "pp_size",
        "tensor_parallel_size": "tp_size",
        "tp": "tp_size",
    }
)
"""Spellings that an option file may use -> the setting."""

_ENVIRONMENT = re.compile(
    r"SGLANG_\w+|SGL_\w+|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS|OMP_NUM_THREADS"
    r"|NCCL_(?:P2P_DISABLE|P2P_LEVEL|SHM_DISABLE|IB_DISABLE|NET|ALGO|PROTO|SOCKET_IFNAME)"
)
"""Variables that bear on how it runs (SGLang 0.5.23 environ.py, NCCL 2.28 environment page)."""


def program_of(launch: Launch) -> Program | None:
    """The server's start in this command; bare options (no program at all) count as its options."""
    found = find_program(launch.argv, ENTRY)
    if found is None and launch.argv and launch.argv[0].startswith("--"):
        return Program("", launch.argv)
    return found


def settings_of(launch: Launch, version: str | None) -> Settings:
    """What the launch asks for; see `ServerKind.settings`."""
    program = program_of(launch)
    values = settings_from_environment(launch, _ENVIRONMENT)
    if program is None:
        return Settings(MappingProxyType(values))
    parsed = Version.parse(version)
    reading = _read(program, parsed)
    problems = list(reading.problems)
    named: dict[str, Setting] = {}
    for given in reading.given:
        setting = _setting(given)
        if setting is not None:
            named[setting.name] = setting
    in_file = settings_in_file(launch, named["config"].value) if "config" in named else {}
    if in_file is None:
        problems.append(not_read(named["config"]))
    else:
        values |= _defaults(parsed, reading) | {_DESTS.get(n, n): s for n, s in in_file.items()}
    values |= _positional_model(program, reading) | named
    return Settings(MappingProxyType(values), tuple(problems))


def _read(program: Program, version: Version | None) -> Reading:
    """Options by the list of that version; by the newest list that takes them all when the version is not known."""
    lists = option_lists(version)
    if program.module.startswith(_OTHER_OPTIONS):
        lists = tuple(OptionList(each.label, each.by_spelling, complete=False, abbreviates=True) for each in lists)
    readings = [read_options(program.words, each) for each in lists]
    best = min(readings, key=lambda reading: len(reading.problems))
    if version is not None or not best.problems:
        return best
    return Reading(best.given, best.others, tuple(_unversioned(problem) for problem in best.problems))


def _unversioned(problem: str) -> str:
    """A problem that no known version is free of must not name one."""
    return re.sub(r"SGLang [\w.]+", "any SGLang version known here", problem)


def _setting(given: Given) -> Setting | None:
    option = given.option
    if option is None or is_secret_name(option.dest) or is_secret_name(given.spelling):
        return None
    return Setting(option.dest, _value(given, option.dest, option.takes), Origin.ARGV, given.written)


def _value(given: Given, dest: str, takes: Takes) -> SettingValue:
    if takes in (Takes.NOTHING, Takes.SWITCH):
        return not given.negated
    if not given.words:
        return True if takes is Takes.PERHAPS_ONE else None
    if len(given.words) > 1 or takes is Takes.MANY:
        return " ".join(given.words)
    if dest in COUNTS and (number := whole_number(given.words[0], THOUSANDS)) is not None:
        return number
    return value_of(given.words[0])


def _defaults(version: Version | None, reading: Reading) -> dict[str, Setting]:
    """Defaults of that version, less those that an option which could not be resolved may have meant to change."""
    unresolved = [given.spelling.lstrip("-").replace("-", "_") for given in reading.given if given.option is None]
    return {
        name: Setting(name, value, Origin.DEFAULT, "default")
        for name, value in defaults(version).items()
        if not any(name.startswith(typed) for typed in unresolved)
    }


def _positional_model(program: Program, reading: Reading) -> dict[str, Setting]:
    """`sglang serve MODEL`: the first word that is no option (SGLang 0.5.23 cli/serve.py)."""
    first: Sequence[str] = reading.others[:1]
    if program.module != "sglang serve" or not first or program.words[:1] != tuple(first):
        return {}
    return {"model_path": Setting("model_path", first[0], Origin.ARGV, first[0])}
