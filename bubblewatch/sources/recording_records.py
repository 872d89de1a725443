"""What a recording holds: the types of its records, and how they are written as bytes.

A recording is what the watcher saw, in the order in which it saw it. Everything that came between two `Tick` records
belongs to the later one. `SCHEMA` counts changes after which an older reader would misread; new fields with a default
and new kinds of records do not raise it, since readers skip what they do not know.

Times named `mono_ns` are of the recording machine's monotonic clock, which begins anew with each `Begin` of another
session; `wall_ns` are nanoseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bubblewatch.model.accounts import Accounts
from bubblewatch.model.errors import SourceError
from bubblewatch.model.findings import Answer, Finding, SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import EndpointReading, ProcessSeen
from bubblewatch.model.server import Server
from bubblewatch.model.shape import ModelShape
from bubblewatch.model.signals import SignalValue
from bubblewatch.model.telemetry import DeviceLink, GpuInfo, Series

SCHEMA = 1
"""Version of the records, in every `Begin`."""


class HostFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine that was watched. Empty or None = not known."""

    name: str = ""
    system: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None
    driver: str = ""


class Begin(msgspec.Struct, frozen=True, tag="begin", omit_defaults=True):
    """First record of every part. `session` names one run of the recorder, `part` counts its parts from 1.

    `mono_ns` is the clock when watching began (of the session, not of the part); `window_s` is the span that the
    signals look back. `scenario` is the simulated host that was watched, "" = a real one.
    """

    schema: int
    program: str
    session: str
    part: int
    wall_ns: int
    mono_ns: int
    window_s: float
    one_shot: bool = False
    host: HostFacts = HostFacts()
    scenario: str = ""


class Gpus(msgspec.Struct, frozen=True, tag="gpus", omit_defaults=True):
    """The GPUs that are read from here on, and how they are joined."""

    gpus: tuple[GpuInfo, ...]
    links: tuple[DeviceLink, ...] = ()


class Readings(msgspec.Struct, frozen=True, tag="readings", omit_defaults=True):
    """Distinct readings of one GPU, by field of `model.telemetry.FIELDS`.

    Each is a pair: times (`mono_ns`, signed 64 bit) and values (64-bit floats, NaN = the device did not say), both
    little-endian and of the same number.
    """

    uuid: str
    series: dict[str, tuple[bytes, bytes]]


class Scan(msgspec.Struct, frozen=True, tag="scan", omit_defaults=True):
    """The servers' processes from here on. `error` = they could not be looked for, and why."""

    found: tuple[ProcessSeen, ...] = ()
    error: str = ""


class Lines(msgspec.Struct, frozen=True, tag="lines", omit_defaults=True):
    """Lines of one server's log that mean something, and its first ones. `stream` is the server's key.

    `again`: they were recorded before and stand at the head of a part, so that it can be judged without older ones.
    """

    stream: str
    lines: tuple[LogLine, ...]
    again: bool = False


class Page(msgspec.Struct, frozen=True, tag="page", omit_defaults=True):
    """One reading of a server's own pages; None = it gave nothing."""

    stream: str
    reading: EndpointReading | None = None


class Model(msgspec.Struct, frozen=True, tag="model", omit_defaults=True):
    """What the files of a model told; None = they could not be read."""

    stream: str
    name: str
    shape: ModelShape | None = None


class Servers(msgspec.Struct, frozen=True, tag="servers", omit_defaults=True):
    """The servers as they were known from here on, settings and birth record among it. Not needed for a replay."""

    servers: tuple[Server, ...]


class Found(msgspec.Struct, frozen=True, tag="findings", omit_defaults=True):
    """All findings from here on, as they were judged then. Not needed for a replay."""

    findings: tuple[Finding, ...]


class SignalsSeen(msgspec.Struct, frozen=True, tag="signals", omit_defaults=True):
    """Signals of one target at this tick; a name that is absent was not known. Not needed for a replay."""

    target: str
    values: dict[str, SignalValue]


class Books(msgspec.Struct, frozen=True, tag="books", omit_defaults=True):
    """The counters of time and energy at this tick. They begin at zero with a session. Not needed for a replay."""

    accounts: Accounts


class Sources(msgspec.Struct, frozen=True, tag="sources", omit_defaults=True):
    """How the sources of evidence fared from here on."""

    sources: tuple[SourceHealth, ...]


class Tick(msgspec.Struct, frozen=True, tag="tick", omit_defaults=True):
    """One judgement: everything before it was known, nothing after it. `start_ns` is where its readings began.

    `holds`: each series began with the reading that held then, at `start_ns`; the simulator gives them so.
    """

    mono_ns: int
    wall_ns: int
    start_ns: int
    holds: bool = False
    answer: Answer = Answer.CANNOT_JUDGE


class End(msgspec.Struct, frozen=True, tag="end", omit_defaults=True):
    """Last record of a part that was closed, not cut off. `last` = the session ended here."""

    wall_ns: int
    last: bool = False


Record = (
    Begin | Gpus | Readings | Scan | Lines | Page | Model | Servers | Found | SignalsSeen | Books | Sources | Tick | End
)

_KINDS = frozenset(kind.__struct_config__.tag for kind in Record.__args__)

_BESIDE = frozenset(kind.__struct_config__.tag for kind in (Servers, Found, SignalsSeen, Books, Sources))
"""Kinds that a replay does without."""


class Codec:
    """Records as MessagePack, and back. Belongs to one thread."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=plain_mapping)
        self._decoder = msgspec.msgpack.Decoder(Record)

    def encode(self, record: Record) -> bytes:
        """The record as bytes."""
        return self._encoder.encode(record)

    def decode(self, data: bytes) -> Record | None:
        """The record; None for what this version does not know and a replay does not need. SourceError for bytes that
        are no record.
        """
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            try:
                kind = msgspec.msgpack.decode(data)["type"]
            except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
                kind = None
            if isinstance(kind, str) and (kind not in _KINDS or kind in _BESIDE):
                return None
            raise SourceError(f"a record cannot be read: {error}") from error


def plain_mapping(value: object) -> object:
    """Read-only mappings, which the encoder does not know, as plain ones."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} has no place in a recording")


def packed(series: Series, after_ns: int | None) -> tuple[bytes, bytes] | None:
    """Times and values of the readings later than `after_ns`, None when there are none."""
    times, values = series.times_ns, series.values
    first = 0
    if after_ns is not None:
        first = len(times)
        while first and times[first - 1] > after_ns:
            first -= 1
    if first == len(times):
        return None
    return array("q", times[first:]).tobytes(), array("d", values[first:]).tobytes()


def unpacked(pair: tuple[bytes, bytes]) -> tuple[Sequence[int], Sequence[float]]:
    """Times and values of `packed`. SourceError when they do not belong together."""
    times, values = array("q"), array("d")
    if len(pair[0]) != len(pair[1]) or len(pair[0]) % 8:
        raise SourceError("readings of a recording are cut off")
    times.frombytes(pair[0])
    values.frombytes(pair[1])
    return times, values


def ticks(records: Iterator[Record]) -> Iterator[tuple[Sequence[Record], Tick]]:
    """The records before each tick, and the tick; what follows the last one is left out."""
    before: list[Record] = []
    for record in records:
        if isinstance(record, Tick):
            yield before, record
            before = []
        else:
            before.append(record)
