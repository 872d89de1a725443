"""A real Chromium without a window, spoken to over its debugging pipe: a page as people see it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium_path() -> str | None:
    """Where a Chromium is; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One page. `errors` collects what its console and scripts complain of, `requests` what it asked the network."""

    def __init__(self, profile: Path, width: int = 1200, height: int = 900) -> None:
        path = chromium_path()
        assert path is not None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._rest = b""
        self._number = 0
        # The debugging pipe is descriptors 3 and 4 of the browser (--remote-debugging-pipe).
        script = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", str(to_read), str(to_write), path, *flags,
             f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)
        self._process.kill()
        self._process.wait()
        os.close(self._read)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self.value("document.readyState") != "complete":
            pass

    def value(self, script: str) -> Any:
        """What an expression comes to in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Mapping[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: Mapping[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> Mapping[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium ended"
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        message: Mapping[str, Any] = json.loads(first)
        return message

    def _note(self, event: Mapping[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"])[:500])
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning"):
                self.errors.append(json.dumps(parameters["args"])[:500])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case _:
                pass
