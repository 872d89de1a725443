"""From vLLM's command line and environment to settings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Launch, Origin, Setting, Settings, SettingValue
from bubblewatch.servers.argv import Given, Takes, read_options, value_of, whole_number
from bubblewatch.servers.environment import settings_from_environment
from bubblewatch.servers.option_file import not_read, settings_in_file
from bubblewatch.servers.program import Entry, Program, find_program
from bubblewatch.servers.vllm.options import COUNTS, DEFAULTS, OPTIONS, SHARED_NAMES, THOUSANDS

ENTRY = Entry(
    modules=re.compile(r"vllm\.entrypoints\.(?:openai\.|cli\.)?(?:api_server|main|launcher)|dynamo\.vllm"),
    scripts=re.compile(
        r"(?:.*/)?vllm/entrypoints/(?:openai/)?api_server\.py|(?:.*/)?\w{0,60}vllm\w{0,60}\.py"
        r"|(?:.*/)?benchmark_(?:latency|throughput)\.py"
    ),
    commands=frozenset({("vllm", "serve"), ("vllm", "launch")}),
    images=re.compile(r"(?:[\w.:/-]{0,200}/)?vllm-openai(?:[:@][\w.:-]{1,200})?"),
)
"""Ways to start it: `vllm serve`, the older API server modules, Dynamo's worker, scripts named after it and its two
offline benchmarks, which all take its options, and the image whose entry point is the server."""

_ENVIRONMENT = re.compile(
    r"VLLM_\w+|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|OMP_NUM_THREADS|TORCH_COMPILE_DISABLE"
    r"|NCCL_(?:P2P_DISABLE|P2P_LEVEL|SHM_DISABLE|IB_DISABLE|NET|ALGO|PROTO|SOCKET_IFNAME)"
)
"""Variables that bear on how it runs (vLLM 0.33.0 envs.py)."""

_LEVEL = re.compile(r"-O(?P<level>[0-3])")
_DOTTED = re.compile(r"(?:--compilation-config|-cc|-O)\.(?P<key>[\w.-]{1,60})")


def program_of(launch: Launch) -> Program | None:
    """The server's start in this command; bare options (no program, or the image's entry point) count as its own."""
    found = find_program(launch.argv, ENTRY)
    if found is None and launch.argv and launch.argv[0].startswith("-"):
        return Program("", launch.argv)
    return found


def settings_of(launch: Launch) -> Settings:
    """What the launch asks for; see `ServerKind.settings`. Options that are not in the list are kept as they stand."""
    program = program_of(launch)
    values = settings_from_environment(launch, _ENVIRONMENT)
    if program is None:
        return Settings(MappingProxyType(values))
    words = _argparse_words(program.words)
    reading = read_options(words, OPTIONS)
    problems = list(reading.problems)
    named: dict[str, Setting] = {}
    for given in reading.given:
        for setting in _settings(given):
            named[setting.name] = setting
    in_file = settings_in_file(launch, named["config"].value) if "config" in named else {}
    if in_file is None:
        problems.append(not_read(named["config"]))
    else:
        values |= {_short(name): Setting(_short(name), value, Origin.DEFAULT, "default") for name, value in DEFAULTS}
        values |= {_short(name): replace(setting, name=_short(name)) for name, setting in in_file.items()}
    if reading.others[:1] == tuple(words[:1]) and words:
        values["model"] = Setting("model", words[0], Origin.ARGV, words[0])
    return Settings(MappingProxyType(values | named), tuple(problems))


def _short(name: str) -> str:
    return SHARED_NAMES.get(name, name)


def _argparse_words(words: Sequence[str]) -> list[str]:
    """The words as the option reader takes them: no sub-command, `-O 3` for `-O3`, `--switch=False` for two words."""
    result: list[str] = []
    for index, word in enumerate(words):
        if index == 0 and word == "serve":
            continue
        level = _LEVEL.fullmatch(word)
        before = OPTIONS.by_spelling.get(result[-1].replace("_", "-")) if result else None
        if level is not None:
            result += ("-O", level["level"])
        elif before is not None and before.takes is Takes.SWITCH and word.lower() in ("true", "false"):
            result[-1] += f"={word}"  # vLLM before 0.9: --enable-chunked-prefill False
        else:
            result.append(word)
    return result


def _settings(given: Given) -> tuple[Setting, ...]:
    dotted = _DOTTED.fullmatch(given.spelling)
    if dotted is not None:
        key = dotted["key"].replace("-", "_")
        return (Setting(key, value_of(" ".join(given.words)), Origin.ARGV, given.written),)
    option = given.option
    dest = option.dest if option is not None else given.spelling.lstrip("-").replace("-", "_").replace(".", "_")
    if is_secret_name(dest) or is_secret_name(given.spelling):
        return ()
    if option is None and dest.startswith("no_") and not given.words:
        return (Setting(dest.removeprefix("no_"), False, Origin.ARGV, given.written),)
    value = _value(given, dest)
    setting = Setting(_short(dest), value, Origin.ARGV, given.written)
    if dest in ("compilation_config", "optimization_level"):
        return (setting, *_inside(value, given.written))
    return (setting,)


def _value(given: Given, dest: str) -> SettingValue:
    takes = Takes.PERHAPS_ONE if given.option is None else given.option.takes
    if takes in (Takes.NOTHING, Takes.SWITCH) and given.words:
        return given.words[0].lower() not in ("false", "0")
    if not given.words:
        return not given.negated if takes is not Takes.ONE else None
    if len(given.words) > 1 or takes is Takes.MANY:
        return " ".join(given.words)
    if dest in COUNTS and (number := whole_number(given.words[0], THOUSANDS)) is not None:
        return number
    return value_of(given.words[0])


def _inside(value: SettingValue, written: str) -> tuple[Setting, ...]:
    """The plain fields of a compilation configuration given as JSON, under their own names."""
    try:
        parsed = json.loads(value) if isinstance(value, str) and value.startswith("{") else None
    except (ValueError, RecursionError):
        return ()
    if not isinstance(parsed, dict):
        return ()
    found = []
    for key, inner in parsed.items():
        if isinstance(inner, list) and all(isinstance(item, int) for item in inner):
            found.append(Setting(key, " ".join(map(str, inner)), Origin.ARGV, written))
        elif inner is None or isinstance(inner, str | int | float | bool):
            found.append(Setting(key, inner, Origin.ARGV, written))
    return tuple(found)
