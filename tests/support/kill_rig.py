"""Reads a growing log through the real watcher and is killed again and again: `kill_rig.py CONFIG.json`.

CONFIG: `kills`, `seed`, `state` (a folder), `path` (folder of journal files, or none), `log` (a unit or a file),
`total` (lines that the log will have), `other_lines` (how many at its start are no decode lines). Line k of the others
is a decode line that holds `#token: k`. After each SIGKILL
the state on disk must say so many lines as the number in the last one of them: none lost, none twice. Prints one JSON
object: kills survived, how often state was found, lines.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from bubblewatch.model.clock import SystemClock
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.protocols import LogSource, ProcessSeen
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.runtime.log_places import LogPlaces
from bubblewatch.runtime.memory import Memory
from bubblewatch.runtime.sampler import NullTelemetry
from bubblewatch.runtime.state_store import StateStore, encoded
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.servers import registry
from bubblewatch.sources.journal import JournalSource
from bubblewatch.sources.logfile import LogFileSource

SEEN = ProcessSeen(
    pid=4711,
    epoch=Epoch("boot", 4711, 1),
    launch=Launch(("python", "-m", "sglang.launch_server", "--model-path", "m", "--pp-size", "8")),
    unit="sglang.service",
)


class OneServer:
    """A process source with one server that never changes."""

    def scan(self) -> list[ProcessSeen]:
        return [SEEN]

    def health(self) -> SourceHealth:
        return SourceHealth("processes", Health.OK)


def watcher(config: dict[str, Any], memory: Memory) -> Watcher:
    clock = SystemClock()
    places = LogPlaces(memory, clock.wall_ns())

    def open_log(seen: ProcessSeen) -> LogSource:
        name = config["log"]
        place = places.before(name)
        if config.get("path") is None:
            return places.opened(seen.epoch, name, LogFileSource(name, after=place))
        cursor, skip = (place.cursor, place.skip) if place else (None, 0)
        source = JournalSource(name, 0, cursor=cursor, skip=skip, path=config["path"])
        return places.opened(seen.epoch, name, source)

    return Watcher(
        clock=clock,
        telemetry=NullTelemetry(),
        processes=OneServer(),
        recognise=registry.recognise,
        open_log=open_log,
        open_endpoint=lambda _seen, _kind: None,
        rules=(),
        options=WatchOptions(one_shot=False),
        memory=memory,
        places=places,
    )


def store(config: dict[str, Any]) -> StateStore:
    return StateStore(Path(config["state"]), 64 * 2**20, 0.0, SystemClock())


def live(config: dict[str, Any], until: int | None) -> None:
    """One life: read, judge, write; for ever, or until so many lines were read."""
    kept = store(config)
    watching = watcher(config, kept.load())
    while True:
        watching.tick()
        memory = watching.memory()
        kept.write(encoded(memory))
        if until is not None and memory.servers["sglang"].line_count >= until:
            return
        time.sleep(0.002)


def checked(config: dict[str, Any]) -> int | None:
    """Lines that the state on disk counts, None when there is no state yet; raises when it is wrong."""
    known = store(config)
    memory = known.load()
    assert known.health().health is Health.OK, known.health()
    if "sglang" not in memory.servers:
        return None
    server = memory.servers["sglang"]
    numbers = [int(re.search(r"#token: (\d+)", line.text)[1]) for line in server.recent]  # type: ignore[index]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True, numbers
    assert not numbers or numbers[-1] == server.line_count - config.get("other_lines", 0), (
        numbers[-1],
        server.line_count,
    )
    return server.line_count


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    live(config, 0)  # a first life that is not killed: what came before it was nobody's to keep
    started = time.monotonic()
    live(config, 0)
    longest_s = 0.02 + 4 * (time.monotonic() - started)  # a busy machine takes longer to come to its first write
    chance = random.Random(config["seed"])
    found = 0
    for _ in range(config["kills"]):
        child = os.fork()
        if child == 0:
            live(config, None)
        time.sleep(chance.uniform(0.0, longest_s))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), status
        found += checked(config) is not None
    live(config, config["total"])
    print(json.dumps({"kills": config["kills"], "with_state": found, "lines": checked(config)}))


if __name__ == "__main__":
    main()
