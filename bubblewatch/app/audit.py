"""Auditing launches: files and commands in, an answer for each server in them out. No GPU, no server needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bubblewatch.diagnose.answer import overall
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Answer, Health, Snapshot, SourceHealth
from bubblewatch.model.server import Launch, Server
from bubblewatch.runtime.audit import Audit, audit_server
from bubblewatch.servers import registry
from bubblewatch.servers.base import ServerKind
from bubblewatch.signals.evidence import Stated
from bubblewatch.sources.container_images import version_of
from bubblewatch.sources.launch_text import NamedLaunch, read_launches, read_unit_launch


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit, and what the user knows. One of the inputs may be `-`, standard input."""

    files: tuple[str, ...] = ()
    command: str | None = None
    unit_file: str | None = None
    server: str | None = None
    version: str | None = None
    stated: Stated = field(default_factory=Stated)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every input as given."""
        return (*self.files, *(given for given in (self.command, self.unit_file) if given is not None))


def audit(request: AuditRequest, rules: Sequence[Rule], ignore: Sequence[str], wall_ns: int) -> Audit:
    """The answer about every server in the inputs, in their order.

    Raises UsageError for an input that cannot be read, or in which no inference server is started.
    """
    if not request.inputs:
        raise UsageError("nothing to audit", "name a file (script, unit, compose file, manifest), or give --command")
    if request.inputs.count("-") > 1:
        raise UsageError("only one input may be standard input")
    stated_kind = _stated_kind(request.server)
    named = [each for found in _launches(request, stated_kind) for each in found]
    keys = _unique_keys([each.name or _kind(each.launch, stated_kind).kind for each in named])
    servers = tuple(
        audit_server(
            _kind(each.launch, stated_kind),
            _server(each.launch, key, request, stated_kind),
            request.stated,
            rules,
            ignore,
        )
        for each, key in zip(named, keys, strict=True)
    )
    answers = [server.view.answer for server in servers]
    snapshot = Snapshot(
        time_ns=wall_ns,
        answer=overall(answers) if Answer.FINDINGS in answers else Answer.QUIET,
        views=tuple(server.view for server in servers),
        sources=tuple(
            SourceHealth("launch", Health.OK, each.launch.where, read_count=len(each.launch.argv)) for each in named
        ),
        one_shot=True,
        sequence=1,
    )
    return Audit(snapshot, servers)


def _stated_kind(name: str | None) -> ServerKind | None:
    if name is None:
        return None
    kind = registry.by_name(name)
    if kind is None:
        known = ", ".join(kind.kind for kind in registry.KNOWN)
        raise UsageError(f"--server {name!r} is no server that bubblewatch knows", f"there are {known}")
    return kind


def _launches(request: AuditRequest, stated: ServerKind | None) -> Iterator[tuple[NamedLaunch, ...]]:
    """The servers of each input."""

    def is_server(launch: Launch) -> bool:
        return registry.recognise(launch) is not None

    for value in request.files:
        if value != "-" and not Path(value).exists():
            raise UsageError(f"no file named {value!r}", "a command goes behind --command")
        yield _servers_only(read_launches(value, is_server), value, stated)
    if request.command is not None:
        yield _servers_only(read_launches(request.command, is_server), "the command", stated)
    if request.unit_file is not None:
        yield _servers_only((read_unit_launch(request.unit_file),), request.unit_file, stated)


def _servers_only(found: tuple[NamedLaunch, ...], shown: str, stated: ServerKind | None) -> tuple[NamedLaunch, ...]:
    """The launches that are servers: all when the user says what they are. Raises UsageError when none is."""
    servers = tuple(each for each in found if stated is not None or registry.recognise(each.launch) is not None)
    if servers:
        return servers
    if len(found) > 1:
        what = f"none of its containers runs one ({', '.join(each.name for each in found[:6])})"
    else:
        what = f"it starts {found[0].launch.argv[0]!r} ({'; '.join((found[0].launch.where, *found[0].launch.notes))})"
    raise UsageError(
        f"{shown}: no inference server that bubblewatch knows: {what}", "--server says what it is, for example sglang"
    )


def _kind(launch: Launch, stated: ServerKind | None) -> ServerKind:
    kind = stated or registry.recognise(launch)
    if kind is None:
        raise UsageError(f"{launch.where}: no inference server that bubblewatch knows")
    return kind


def _server(launch: Launch, key: str, request: AuditRequest, stated: ServerKind | None) -> Server:
    tagged = version_of(launch.image)
    return Server(
        kind=_kind(launch, stated).kind,
        key=key,
        version=request.version or tagged,
        version_basis="stated" if request.version else "image tag" if tagged else "",
        container=launch.image,
        launch=launch,
    )


def _unique_keys(names: Sequence[str]) -> list[str]:
    """The names; one that came before gets a number."""
    counts: dict[str, int] = {}
    keys = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        keys.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return keys
