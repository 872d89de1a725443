"""Where the numbers of a prediction come from: a recording, this machine, or the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bubblewatch.app.live import LiveOptions, diagnose_live
from bubblewatch.app.replay import Span, moments, session_at
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.model.signals import SignalValue
from bubblewatch.sources.recording_records import SignalsSeen
from bubblewatch.theory.predict import (
    Base,
    Plan,
    Prediction,
    at_loads,
    best_first,
    predict,
    single_changes,
)
from bubblewatch.theory.what_if import Measured

LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Numbers of requests that the table shows beside the one of now."""

_NEEDED = {
    "parallel.pp": "the number of stages",
    "throughput.step_s": "the time of a step (two decode lines of one rank)",
    "slots.filled": "how many slots are filled",
    "demand.running": "how many requests run",
    "pipeline.busy_ratio": "how long the stages work",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Predictions for the load of now: `now` itself, each change, and other loads. `first` names what to try."""

    base: Base
    now: Prediction
    changes: tuple[tuple[str, Prediction], ...]
    loads: tuple[tuple[str, Prediction], ...]
    first: tuple[str, Prediction] | None
    custom: tuple[str, Prediction] | None = None


def answer(base: Base, *, depth_available: bool, wanted: Plan | None = None) -> Answer:
    """Every prediction. Raises UsageError when the numbers fit no pipeline."""
    now = predict(base, base.plan)
    if now is None:
        raise UsageError(
            "these numbers fit no pipeline",
            "they need 2 stages or more, a duty above 0 and up to 1, and a request for each filled slot",
        )
    changes = _each(base, single_changes(base, depth_available=depth_available))
    custom = None
    if wanted is not None:
        found = predict(base, wanted)
        if found is None:
            raise UsageError("what was asked for cannot be predicted from this load", "graphs off was not measured")
        custom = ("as asked", found)
    loads = _each(base, at_loads(base, (load for load in LOADS if load != base.plan.running)))
    return Answer(base, now, changes, loads, best_first(base, changes), custom)


def _each(base: Base, plans: Sequence[tuple[str, Plan]]) -> tuple[tuple[str, Prediction], ...]:
    return tuple((name, found) for name, plan in plans if (found := predict(base, plan)) is not None)


def from_recording(folder: Path, span: Span, server: str | None) -> tuple[Base, bool]:
    """The load of a recording (medians over its last session), and whether that server version has a depth."""
    seen: dict[str, list[Mapping[str, SignalValue]]] = {}
    for records, _ in moments(session_at(folder, span.until_ns), span):
        for record in records:
            if isinstance(record, SignalsSeen) and record.target.startswith("server:"):
                seen.setdefault(record.target.removeprefix("server:"), []).append(record.values)
    key = _only(list(seen), str(folder), server)
    running = [values for values in seen[key] if values.get("demand.state") == "running"]
    return base_of({name: _middle(running, name) for name in {n for values in running for n in values}}, key)


def from_this_machine(options: LiveOptions, rules: Sequence[Rule], server: str | None) -> tuple[Base, bool]:
    """The load of a server on this machine."""
    snapshot: Snapshot = diagnose_live(options, rules, None)[0]
    views = {view.target.id: view for view in snapshot.views if view.server is not None}
    key = _only(list(views), "this machine", server)
    return base_of({name: signal.value for name, signal in views[key].signals.known.items()}, key)


def _only(keys: Sequence[str], where: str, wanted: str | None) -> str:
    if wanted is not None and wanted in keys:
        return wanted
    names = ", ".join(keys) or "none"
    if wanted is not None:
        raise UsageError(f"{where} has no server {wanted!r}", f"it has {names}")
    if len(keys) != 1:
        raise UsageError(f"{where} has {len(keys)} servers", f"name one with --server: {names}")
    return keys[0]


def _middle(values: Sequence[Mapping[str, SignalValue]], name: str) -> SignalValue:
    """The median of numbers, the last of anything else."""
    known = [one[name] for one in values if name in one]
    numbers = [one for one in known if isinstance(one, int | float) and not isinstance(one, bool)]
    return median(numbers) if len(numbers) == len(known) else known[-1]


def base_of(signals: Mapping[str, SignalValue], key: str) -> tuple[Base, bool]:
    """The load that these signals describe. Raises UsageError that names everything that is missing."""
    numbers = {name: float(value) for name, value in signals.items() if not isinstance(value, str)}
    missing = [what for name, what in _NEEDED.items() if numbers.get(name) is None]
    if missing:
        raise UsageError(f"{key}: nothing can be predicted without {'; '.join(missing)}", "or state numbers: --stages")
    if numbers["parallel.pp"] < 2:
        raise UsageError(f"{key} is no pipeline", "there are no slots and no depth to change: see bubblewatch diagnose")
    share = numbers.get("graphs.decode_share")
    graphs = share >= 0.5 if share is not None else bool(numbers.get("graphs.decode_enabled", 1.0))
    stages, running = int(numbers["parallel.pp"]), numbers["demand.running"]
    filled = min(max(round(numbers["slots.filled"]), 1), int(running) or 1, stages + int(numbers.get("depth.value", 0)))
    now = Measured(
        stages=stages,
        step_s=numbers["throughput.step_s"],
        filled=filled,
        running=running,
        duty=min(numbers["pipeline.busy_ratio"], 1.0),
        graphs=graphs,
        depth=int(numbers.get("depth.value", 0)),
    )
    capacity = numbers.get("slots.capacity")
    base = Base(now, None if capacity is None else int(capacity), most_tps=numbers.get("roofline.tps"))
    return base, bool(numbers.get("depth.available", 0.0))
