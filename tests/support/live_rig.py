"""A host made of real parts, for one command: `live_rig.py CONFIG.json`, run as root beside a private journald.

A simulated host drives the NVML stand-in and the log; the server is a real process with SGLang's command line, its own
control group (so that its unit is real), workers with SGLang's titles, and held-open client connections; its output
goes through journald. CONFIG: `servers` (each with `scenario`, `unit`, `version`, and optionally `clients`, `gpus`,
`argv_tail`), `before_s` (how long they run before the command), `command`, `folder`, `gpu_count`. Prints one JSON
object: code, stdout, stderr of the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bubblewatch.model.clock import SystemClock
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost
from tests.nvml_shim.shim import Feed, FeedThread, build, environment
from tests.support.fake_server import FakeServer, start_fake_server
from tests.support.journald import EMITTER

WORK = re.compile(r"Decode batch|Prefill batch|HTTP/1\.1")
"""Lines of the past that are left out: journald would give them the time at which they arrive."""

CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))


def control_group(unit: str) -> Path:
    """A control group that makes its members belong to `unit`."""
    root = next(root for root in CGROUPS if (root / "cgroup.procs").exists())
    group = root / f"bubblewatch-test-{os.getpid()}.slice" / unit
    group.mkdir(parents=True, exist_ok=True)
    return group


class SimulatedServer:
    """One simulated host, shown through a real process and journald."""

    def __init__(self, config: Mapping[str, Any], folder: Path) -> None:
        self.host = SimulatedHost(SCENARIOS[config["scenario"]], SystemClock())
        self.gpus: list[int] = config.get("gpus", list(range(8)))
        (seen,) = self.host.processes.scan()
        tail = config.get("argv_tail") or list(seen.launch.argv[seen.launch.argv.index("sglang.launch_server") + 1 :])
        if "--port" in tail:
            del tail[tail.index("--port") : tail.index("--port") + 2]
        tail += config.get("more_argv", [])
        self._log = self.host.log(seen.unit or "")
        self._drop = re.compile(config.get("drop", r"(?!)"))
        pipe = [sys.executable, str(EMITTER), config["unit"], "cat"]
        self.emitter = subprocess.Popen(pipe, stdin=subprocess.PIPE)
        self.group = control_group(config["unit"])
        clients = config.get("clients", seen.connections or 0)
        self.server: FakeServer = start_fake_server(
            folder / config["unit"],
            tail,
            config["version"],
            clients=clients,
            titles=[seen.workers[uuid] for uuid in sorted(seen.workers)][: len(self.gpus)],
            stdout=self.emitter.stdin,
            environment=config.get("environment"),
            cgroup=self.group,
        )
        for line in self._log.read():
            if not WORK.search(line.text):
                self.server.say(self._drop.sub("", line.text))

        for text in config.get("says", []):
            self.server.say(text)

    def go_on(self) -> None:
        for line in self._log.read():
            self.server.say(self._drop.sub("", line.text))

    def stop(self) -> None:
        self.server.stop()
        if self.emitter.stdin is not None:
            self.emitter.stdin.close()
        self.emitter.wait(10)
        for group in (self.group, self.group.parent):
            with contextlib.suppress(OSError):
                group.rmdir()


@contextlib.contextmanager
def running(servers: list[SimulatedServer]) -> Iterator[None]:
    """The logs go on, in real time, until the block ends."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(0.02):
            for server in servers:
                server.go_on()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for server in servers:
            server.stop()


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(config["folder"])
    servers = [SimulatedServer(one, folder) for one in config["servers"]]
    feed = Feed(folder / "feed", config.get("gpu_count", 8))
    states = {gpu: (server, at) for server in servers for at, gpu in enumerate(server.gpus)}
    for gpu, (server, at) in states.items():
        feed.processes(gpu, [(server.server.worker_pids[at], 70_000)])

    def sensor_state(gpu: int, time_ns: int) -> Mapping[str, float]:
        if gpu not in states:
            return config.get("spare_gpu", {"util_ratio": 0.0, "power_average_w": 30.0, "power_instant_w": 30.0})
        server, at = states[gpu]
        return server.host.sensor_state(at, time_ns)

    clock = SystemClock()
    variables = environment(build(), folder / "feed", folder / "control", folder / "calls")
    with FeedThread(feed, sensor_state, clock.monotonic_ns), running(servers):
        time.sleep(config.get("before_s", 4.0))
        done = subprocess.run(
            config["command"], env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=False
        )
    print(json.dumps({"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}))


if __name__ == "__main__":
    main()
