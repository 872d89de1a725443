"""The command-line options of SGLang by version, and the defaults that rules use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from bubblewatch.model.server import SettingValue
from bubblewatch.servers.argv import Option, OptionList, Takes
from bubblewatch.servers.versions import Bounds, Version

THOUSANDS: Mapping[str, int] = MappingProxyType(
    {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
)
"""Suffixes of counts, case-sensitive (SGLang 0.5.10, utils/common.py human_readable_int)."""

COUNTS = frozenset(
    {
        "chunked_prefill_size",
        "context_length",
        "cuda_graph_prefill_max_context",
        "max_prefill_tokens",
        "max_total_tokens",
        "piecewise_cuda_graph_max_tokens",
    }
)
"""Settings that take such suffixes (SGLang 0.5.10 server_args.py, 0.5.23 arg_groups/fields)."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table: an option and the releases that have it; `below` None = still there in the newest."""

    option: Option
    first: Version
    below: Version | None

    def holds(self, version: Version) -> bool:
        return self.first <= version and (self.below is None or version < self.below)


@dataclass(frozen=True, slots=True)
class _Table:
    rows: tuple[_Row, ...]
    releases: tuple[Version, ...]
    """The releases that were read, oldest first."""


def _version(text: str) -> Version:
    version = Version.parse(text)
    if version is None:
        raise ValueError(f"options.txt: not a version: {text!r}")
    return version


@cache
def _table() -> _Table:
    rows = []
    releases: set[Version] = set()
    for line in files(__package__).joinpath("options.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            releases.update(_version(word) for word in line.split() if word[0].isdigit())
            continue
        dest, spellings, takes, first, below = line.split()
        option = Option(dest, tuple(spellings.split(",")), Takes(takes))
        rows.append(_Row(option, _version(first), None if below == "-" else _version(below)))
    return _Table(tuple(rows), tuple(sorted(releases)))


def newest_known() -> Version:
    """The newest release whose options were read: anything newer is judged as this one."""
    return _table().releases[-1]


@cache
def _options_of(release: Version) -> Mapping[str, Option]:
    held = (row.option for row in _table().rows if row.holds(release))
    return MappingProxyType({spelling: option for option in held for spelling in option.spellings})


def option_lists(version: Version | None) -> tuple[OptionList, ...]:
    """The option list of `version`; of every release, newest first, when it is not known.

    A version between two that were read has the options of the one before it; one older than all, of the oldest.
    """
    releases = _table().releases
    if version is None:
        return tuple(OptionList(f"SGLang {release}", _options_of(release)) for release in reversed(releases))
    held = max((release for release in releases if release <= version), default=releases[0])
    label = f"SGLang {version}" if version <= releases[-1] else f"SGLang up to {held}, the newest known here"
    return (OptionList(label, _options_of(held)),)


def first_release_with(dest: str) -> Version | None:
    """The first release that was read and has an option for `dest`; None when none has."""
    return min((row.first for row in _table().rows if row.option.dest == dest), default=None)


DEFAULTS: tuple[tuple[str, SettingValue, str], ...] = (
    ("base_gpu_id", 0, ""),
    ("cpu_offload_gb", 0, ""),
    ("chunked_prefill_size", None, ""),
    ("decode_log_interval", 40, ""),
    ("disable_cuda_graph", False, ""),
    ("disable_custom_all_reduce", False, ""),
    ("disable_cuda_graph_padding", False, ""),
    ("disable_decode_cuda_graph", False, ">=0.5.14"),
    ("disable_overlap_schedule", False, ""),
    ("disaggregation_mode", "null", ""),
    ("dp_size", 1, ""),
    ("enable_dp_attention", False, ""),
    ("enable_mixed_chunk", False, ""),
    ("enable_metrics", False, ""),
    ("gpu_id_step", 1, ">=0.4.6.post2"),
    ("is_embedding", False, ""),
    ("max_micro_batch_size", None, ">=0.4.6.post2,<0.5.3.post1"),
    ("max_running_requests", None, ""),
    ("nnodes", 1, ""),
    ("node_rank", 0, ""),
    ("port", 30000, ""),
    ("pp_async_batch_depth", 0, ">=0.5.7"),
    ("pp_max_micro_batch_size", None, ">=0.5.3.post1"),
    ("pp_size", 1, ""),
    ("speculative_algorithm", None, ""),
    ("tp_size", 1, ""),
    ("watchdog_timeout", 300, ""),
)
"""Setting, its default, and the versions that have it (SGLang 0.4.3 .. 0.5.23, server_args.py and arg_groups/fields).

`pp_size` and `disaggregation_mode` stand for every version: one without the option has one stage, and is no part of a
disaggregated server.
"""


def defaults(version: Version | None) -> Mapping[str, SettingValue]:
    """Defaults of `version`; when it is not known, those of every version alike."""
    return {
        name: value
        for name, value, condition in DEFAULTS
        if not condition or (version is not None and version.satisfies(condition))
    }


def bounds_of_fields(names: frozenset[str]) -> Bounds:
    """The oldest version that can have all settings of these names."""
    firsts = [first for name in names if (first := first_release_with(name)) is not None]
    oldest_read = _table().releases[0]
    low = max(firsts, default=oldest_read)
    return Bounds(low if low > oldest_read else None)
