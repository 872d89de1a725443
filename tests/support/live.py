"""Runs the real command on a host made of real parts (live_rig.py) and gives its answer."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.journald import private_journald

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    document: dict[str, Any]
    text: str

    def names(self) -> list[str]:
        return [finding["name"] for finding in self.document["findings"]]

    def finding(self, name: str) -> dict[str, Any]:
        return next(finding for finding in self.document["findings"] if finding["name"] == name)


def on_a_host(folder: Path, servers: list[dict[str, Any]], *options: str, before_s: float = 4.0, **config: Any) -> Done:
    """`bubblewatch diagnose OPTIONS --json` on a host with these servers."""
    command = [sys.executable, "-m", "bubblewatch", "diagnose", *options, "--json"]
    file = folder / "rig.json"
    file.write_text(
        json.dumps({"servers": servers, "command": command, "folder": str(folder), "before_s": before_s, **config})
    )
    rig = [sys.executable, "-m", "tests.support.live_rig", str(file)]
    ran = private_journald(rig, {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["stdout"], answer["stderr"]
    return Done(answer["code"], json.loads(answer["stdout"]), answer["stdout"])


def sglang(scenario: str, **more: Any) -> dict[str, Any]:
    return {"scenario": scenario, "unit": "sglang.service", "version": "0.5.10", **more}
