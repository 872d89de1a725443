"""A host with a real systemd as process 1: a container of systemd-nspawn on a throw-away copy of this machine's files.

The copy is an overlay whose changes live in memory, so nothing of the host is touched. Needs root and systemd-nspawn.
The tree is seen read-only below /opt/tree, for a service cannot look into /tmp or other people's homes. The interpreter
stays where it is, because it may find its library by its path, and the folders above it are opened.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
TREE = "/opt/tree"
TARGET = "[Unit]\nRequires=basic.target systemd-journald.service\nAfter=basic.target\n"
BOOT_LIMIT_S = 30.0

NSPAWN = shutil.which("systemd-nspawn")


class SystemdHost:
    """One running container, until the `with` block ends. `python` is an interpreter that can import bubblewatch."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="bubblewatch-host-"))
        self._stack = contextlib.ExitStack()
        self._pid = 0
        self.python = f"{TREE}/venv/bin/python"
        self.root = self._base / "root"

    def __enter__(self) -> SystemdHost:
        try:
            self._mount()
            self._boot()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, *command: str, user: str | None = None, check: bool = True) -> str:
        """What `command` prints inside, both outputs together; raises when it fails and `check` is set."""
        return self.done(*command, user=user, check=check).stdout

    def done(self, *command: str, user: str | None = None, check: bool = False) -> subprocess.CompletedProcess[str]:
        words = ["nsenter", "-t", str(self._pid), "-a", "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        words += ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        done = subprocess.run(
            [*words, f"PYTHONPATH={TREE}/repository", *command] if not user else [*words, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        return done

    def write(self, path: str, text: str) -> None:
        """A file inside, as of root."""
        self.run("sh", "-c", f"mkdir -p {Path(path).parent} && cat > {path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE")

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").strip()

    def journal(self, unit: str, *options: str) -> str:
        return self.run("journalctl", "--quiet", "--no-pager", "-u", unit, *(options or ("-o", "cat")))

    def get(self, url: str) -> str:
        """A page of a server inside."""
        code = "import sys,urllib.request;print(urllib.request.urlopen(sys.argv[1],timeout=5).read().decode())"
        return self.run(self.python, "-c", code, url)

    def _mount(self) -> None:
        base = self._base
        self._stack.callback(shutil.rmtree, base, ignore_errors=True)
        _call("mount", "-t", "tmpfs", "tmpfs", base)
        self._stack.callback(_call, "umount", "-l", base)
        for name in ("upper", "work", "root"):
            (base / name).mkdir()
        layers = f"lowerdir=/,upperdir={base}/upper,workdir={base}/work"
        _call("mount", "-t", "overlay", "overlay", "-o", layers, self.root)
        self._stack.callback(_call, "umount", "-R", "-l", self.root)
        (self.root / "etc/systemd/system/test.target").write_text(TARGET)
        shutil.rmtree(self.root / "var/log/journal", ignore_errors=True)  # a journal in memory of its own
        (self.root / TREE[1:] / "repository").mkdir(parents=True)
        for folder in reversed(Path(sys.base_prefix).parents):
            place = self.root / str(folder)[1:]
            place.mkdir(exist_ok=True)
            place.chmod(place.stat().st_mode | 0o011)
        self._environment()

    def _environment(self) -> None:
        """An interpreter whose paths are all within reach of a user without rights: ours, with our packages."""
        environment = self.root / TREE[1:] / "venv"
        (environment / "bin").mkdir(parents=True)
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (environment / "bin/python").symlink_to(f"{sys.base_prefix}/bin/{name}")
        (environment / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n")
        packages = environment / "lib" / name
        packages.mkdir(parents=True)
        (packages / "site-packages").mkdir()

    def _boot(self) -> None:
        site = next(path for path in sys.path if path.endswith("site-packages"))
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        binds = {ROOT: f"{TREE}/repository", Path(sys.base_prefix): sys.base_prefix}
        binds[Path(site)] = f"{TREE}/venv/lib/{name}/site-packages"
        machine = f"bw{os.getpid()}"
        command = ["systemd-nspawn", "-q", f"--directory={self.root}", "--register=no", "--keep-unit", "-M", machine]
        command += ["--private-network", "--link-journal=no", "--console=pipe"]
        command += [f"--bind-ro={ours}:{theirs}" for ours, theirs in binds.items()]
        console = (self._base / "console").open("wb")
        self._stack.callback(console.close)
        process = subprocess.Popen(
            [*command, "--boot", "systemd.unit=test.target"],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(self._halt, process)
        give_up = time.monotonic() + BOOT_LIMIT_S
        while time.monotonic() < give_up:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if children and Path(f"/proc/{children[0]}/root/run/systemd/private").exists():
                self._pid = int(children[0])
                break
            if process.poll() is not None:
                break
            time.sleep(0.02)
        else:
            raise AssertionError("the container did not start: " + (self._base / "console").read_text())
        if not self._pid:
            raise AssertionError("the container ended: " + (self._base / "console").read_text())
        self.run("systemctl", "is-system-running", "--wait", check=False)

    def _halt(self, process: subprocess.Popen[bytes]) -> None:
        if self._pid and process.poll() is None:
            self.done("systemctl", "poweroff", "--force")
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for tree in ("unified/payload", "unified/supervisor", "systemd/payload", "systemd/supervisor"):
            group = Path("/sys/fs/cgroup", tree)
            for folder in sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                group.rmdir()


def _call(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def cannot_run() -> str | None:
    """Why no such host can run here, None when it can."""
    if NSPAWN is None:
        return "no systemd-nspawn: apt-get install systemd-container"
    return None if os.geteuid() == 0 else "needs root"
