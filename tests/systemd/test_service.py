"""The daemon as a service of a real systemd: installed, started, watched, reloaded, stopped, with no more rights than
its unit gives it.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bubblewatch.app.service_unit import UNIT
from bubblewatch.model.clock import ManualClock
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost
from tests.support.journald import eventually
from tests.support.systemd_host import SystemdHost, cannot_run

pytestmark = [pytest.mark.root, pytest.mark.skipif(cannot_run() is not None, reason=str(cannot_run()))]

MOST_EXPOSURE = 2.0
STOP_LIMIT_S = 2.0
URL = "http://127.0.0.1:9736"

SERVER = """
import sys, time
for line in open("/opt/fake/lines.txt"):
    print(line, end="", flush=True)
while True:
    time.sleep(0.2)
    print("Decode batch, #running-req: 8, #token: 3000, token usage: 0.02, cuda graph: False, "
          "gen throughput (token/s): 95.60, #queue-req: 0", flush=True)
"""


@pytest.fixture(scope="module")
def host() -> Iterator[SystemdHost]:
    with SystemdHost() as running:
        start_server(running)
        # a short watchdog, so that the test of it is short
        running.write(f"/etc/systemd/system/{UNIT}.d/test.conf", f"[Service]\nWatchdogSec=3\n{environment(running)}")
        running.run(running.python, "-m", "bubblewatch", "service", "install")
        yield running


def environment(host: SystemdHost) -> str:
    return "Environment=PYTHONPATH=/opt/tree/repository"


def start_server(host: SystemdHost) -> None:
    """A unit of another user whose process looks and talks like SGLang's."""
    simulated = SimulatedHost(SCENARIOS["pp8-story"], ManualClock())
    (seen,) = simulated.processes.scan()
    lines = [line.text for line in simulated.log(seen.unit or "").read()]
    host.write("/opt/fake/lines.txt", "\n".join(line for line in lines if "Decode batch" not in line))
    host.write("/opt/fake/sglang/__init__.py", "")
    host.write("/opt/fake/sglang/launch_server.py", SERVER)
    options = " ".join(seen.launch.argv[seen.launch.argv.index("sglang.launch_server") + 1 :])
    host.write(
        "/etc/systemd/system/sglang.service",
        "[Service]\nUser=nobody\nEnvironment=PYTHONPATH=/opt/fake\n"
        f"ExecStart={host.python} -m sglang.launch_server {options}\n",
    )
    host.run("systemctl", "start", "sglang")


def snapshot(host: SystemdHost) -> dict[str, Any]:
    answer = host.done(
        host.python,
        "-c",
        "import sys,urllib.request,urllib.error\n"
        "try: print(urllib.request.urlopen(sys.argv[1],timeout=5).read().decode())\n"
        "except (OSError, urllib.error.URLError): print('{}')",
        f"{URL}/api/v1/snapshot",
    )
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def main_pid(host: SystemdHost) -> int:
    return int(host.show(UNIT, "MainPID"))


def test_it_is_ready_only_when_it_judges(host: SystemdHost) -> None:
    assert host.show(UNIT, "ActiveState") == "active"
    assert snapshot(host)["verdict"] != "error"
    assert "server" in host.show(UNIT, "StatusText")


def test_it_runs_as_a_user_of_its_own_without_any_right(host: SystemdHost) -> None:
    status = host.run("cat", f"/proc/{main_pid(host)}/status")
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
    assert not re.search(r"^Uid:\s+0\b", status, re.MULTILINE)


def test_it_sees_the_process_and_the_journal_of_another_users_unit(host: SystemdHost) -> None:
    document = eventually(
        lambda: snapshot(host), lambda d: "cuda-graph-disabled" in [f["name"] for f in d.get("findings", [])]
    )
    (server,) = document["servers"]
    assert (server["kind"], server["unit"]) == ("sglang", "sglang.service")
    graphs = next(f for f in document["findings"] if f["name"] == "cuda-graph-disabled")
    quoted = " ".join(e["text"] for e in graphs["evidence"])
    assert "--disable-cuda-graph (pid" in quoted
    assert "cuda graph: False" in quoted
    (journal,) = [s for s in document["sources"] if s["name"] == "journal"]
    assert journal["health"] == "ok"


def test_its_exposure_is_low(host: SystemdHost, record_property: Any) -> None:
    said = host.run("systemd-analyze", "security", "--no-pager", UNIT)
    score = float(re.search(r"exposure level for \S+: ([\d.]+)", said)[1])  # type: ignore[index]
    record_property("exposure", score)
    assert score <= MOST_EXPOSURE


def test_its_unit_is_understood_to_the_last_word(host: SystemdHost) -> None:
    assert host.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}", check=False) == ""


def test_its_own_log_has_fields(host: SystemdHost) -> None:
    entries = host.journal(UNIT, "-o", "json", "BUBBLEWATCH_KEY=sglang").splitlines()
    found = [json.loads(entry) for entry in entries]
    assert any(e["BUBBLEWATCH_KIND"] == "sglang" and e["PRIORITY"] == "6" for e in found)


def test_status_tells_how_it_stands(host: SystemdHost) -> None:
    told = host.run(host.python, "-m", "bubblewatch", "service", "status")
    assert "active (running), enabled at boot" in told
    document = json.loads(host.run(host.python, "-m", "bubblewatch", "service", "status", "--json"))
    assert (document["installed"], document["running"]) == (True, True)


def test_a_reload_reads_the_configuration_and_a_wrong_one_changes_nothing(host: SystemdHost) -> None:
    before = main_pid(host)
    host.write("/etc/bubblewatch/config.toml", '[watch]\nignore = ["cuda-graph-disabled"]')
    host.run("systemctl", "reload", UNIT)
    assert eventually(lambda: host.show(UNIT, "StatusText"), lambda text: "reload" not in text)
    ignored = eventually(
        lambda: snapshot(host),
        lambda d: any(f["name"] == "cuda-graph-disabled" and f["ignored"] for f in d.get("findings", [])),
    )
    assert any(f["name"] == "cuda-graph-disabled" and f["ignored"] for f in ignored["findings"])

    host.write("/etc/bubblewatch/config.toml", "[watch]\nignroe = 3")
    host.run("systemctl", "reload", UNIT)
    said = eventually(lambda: host.journal(UNIT), lambda text: "reload refused" in text)
    assert "config.toml:2: watch.ignroe is no setting; did you mean watch.ignore?" in said
    still = snapshot(host)
    assert any(f["name"] == "cuda-graph-disabled" and f["ignored"] for f in still["findings"])
    assert main_pid(host) == before
    host.run("rm", "/etc/bubblewatch/config.toml")
    host.run("systemctl", "reload", UNIT)


def test_a_daemon_that_hangs_is_killed_and_started_again(host: SystemdHost) -> None:
    hanging = main_pid(host)
    host.run("kill", "-STOP", str(hanging))
    now = eventually(lambda: main_pid(host), lambda pid: pid not in (0, hanging), 30)
    assert now not in (0, hanging)
    assert int(host.show(UNIT, "NRestarts")) == 1
    assert "Watchdog timeout" in host.journal(UNIT)
    assert eventually(lambda: host.show(UNIT, "ActiveState"), lambda state: state == "active") == "active"


def test_it_stops_within_two_seconds(host: SystemdHost) -> None:
    started = time.monotonic()
    host.run("systemctl", "stop", UNIT)
    took_s = time.monotonic() - started
    assert host.show(UNIT, "Result") == "success"
    assert took_s < STOP_LIMIT_S + 1.0  # the limit is the daemon's; systemctl and two namespaces are on top
    host.run("systemctl", "start", UNIT)


def test_a_wrong_configuration_ends_with_two_and_is_not_tried_again(host: SystemdHost) -> None:
    host.run("systemctl", "stop", UNIT)
    host.write("/etc/bubblewatch/config.toml", "[watch]\nrate = 'often'")
    assert host.done("systemctl", "start", UNIT).returncode != 0
    assert host.show(UNIT, "ExecMainStatus") == "2"
    assert host.show(UNIT, "ActiveState") == "failed"
    host.run("rm", "/etc/bubblewatch/config.toml")
    host.run("systemctl", "start", UNIT)


def test_uninstall_leaves_nothing_behind_but_state(host: SystemdHost) -> None:
    host.run(host.python, "-m", "bubblewatch", "service", "uninstall")
    assert host.show(UNIT, "LoadState") in ("not-found", "masked") or host.show(UNIT, "ActiveState") == "inactive"
    assert host.done("test", "-e", f"/etc/systemd/system/{UNIT}").returncode != 0
    assert host.done(host.python, "-m", "bubblewatch", "service", "status").returncode == 3
    again = host.done(host.python, "-m", "bubblewatch", "service", "uninstall")
    assert again.returncode == 2
    assert "nothing to uninstall" in again.stdout


def test_the_containers_leave_no_mounts() -> None:
    mounts = Path("/proc/mounts").read_text()
    ours = [line for line in mounts.splitlines() if "bubblewatch-host-" in line]
    running = subprocess.run(["pgrep", "-c", "systemd-nspawn"], capture_output=True, text=True, check=False)
    assert len(ours) <= 4 * int(running.stdout or 0)
