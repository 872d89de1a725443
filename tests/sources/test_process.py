"""Servers on this host, by real processes; control groups by the paths that container tools make."""

import os
import pickle
import re
import subprocess
import sys
import time

import pytest

from bubblewatch.model.errors import SourceLost, SourceUnavailable
from bubblewatch.model.findings import Health
from bubblewatch.sources.cgroup import Owner, owner_of
from bubblewatch.sources.package_version import installed_version
from bubblewatch.sources.proc import Proc, split_cmdline
from bubblewatch.sources.process import LinuxProcesses
from bubblewatch.sources.systemd_unit import Systemd
from tests.support.fake_server import start_fake_server

SECRET = "sk-live0123456789abcdefABCDEF"
ID = "4f2a" * 16
POD = "1b2c3d4e-0011-2233-4455-66778899aabb"
POD_SLICE = f"kubepods-burstable-pod{POD.replace('-', '_')}.slice"


def recognise(launch, title):
    """As a server module would, loosely: the module's name anywhere in the command, or a worker's title."""
    return title.startswith("sglang::") or bool(re.search(r"sglang\.launch_server", " ".join(launch.argv)))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tail = ("--model-path", "/models/k26", "--pp-size", "8", "--api-key", SECRET)
    environment = {"NCCL_DEBUG": "INFO", "HF_TOKEN": "hf_abcdefghijklmnopqrstuv", "HOME": "/root"}
    with start_fake_server(tmp_path_factory.mktemp("server"), tail, environment=environment, clients=5) as fake:
        yield fake


def processes(server, **options):
    holders = {f"GPU-{number}": [pid] for number, pid in enumerate(server.worker_pids)}
    return LinuxProcesses(recognise, gpu_holders=lambda: holders, **options)


def seen_of(source, server):
    return next(seen for seen in source.scan() if seen.pid == server.pid)


def test_a_running_server_is_seen_with_all_that_linux_knows_of_it(server):
    source = processes(server)
    seen = seen_of(source, server)
    assert seen.launch.argv[1:] == (
        "-m", "sglang.launch_server", "--model-path", "/models/k26", "--pp-size", "8", "--api-key", "<redacted>",
    )  # fmt: skip
    assert seen.launch.where == f"pid {server.pid}"
    assert seen.workers == {f"GPU-{stage}": f"sglang::scheduler_PP{stage}" for stage in range(8)}
    assert (seen.port, seen.connections) == (server.port, 5)
    assert seen.version_hint == "0.5.10"
    assert seen.files == (str(server.log_path),)
    assert source.health().health is Health.OK


def test_only_what_bears_on_serving_is_taken_from_the_environment(server):
    seen = seen_of(processes(server), server)
    assert seen.launch.env == {"NCCL_DEBUG": "INFO"}
    assert SECRET not in repr(seen)
    assert "hf_abc" not in repr(seen)


def test_a_server_is_found_without_nvml_too(server):
    seen = seen_of(LinuxProcesses(recognise), server)
    assert seen.workers == {}
    assert seen.port == server.port


def test_an_nvml_that_cannot_answer_is_noted(server):
    def holders():
        raise SourceUnavailable("no NVML library")

    source = LinuxProcesses(recognise, gpu_holders=holders)
    assert seen_of(source, server).workers == {}
    assert source.health().health is Health.DEGRADED
    assert "no NVML library" in source.health().detail


def test_a_holder_in_another_pid_namespace_is_noted(server):
    source = LinuxProcesses(recognise, gpu_holders=lambda: {"GPU-0": [999_999_999]})
    source.scan()
    assert "999999999" in source.health().detail
    assert "namespace" in source.health().mend


def test_connections_come_and_go(server):
    source = processes(server)
    server.disconnect()
    deadline = time.monotonic() + 10
    while seen_of(source, server).connections and time.monotonic() < deadline:
        os.sched_yield()
    assert seen_of(source, server).connections == 0
    server.connect(5)
    assert seen_of(source, server).connections == 5


@pytest.mark.parametrize("member", ["main", "worker"])
def test_a_pid_leads_to_its_server(server, member):
    pid = server.pid if member == "main" else server.worker_pids[3]
    assert processes(server).by_pid(pid).pid == server.pid


def test_a_pid_without_a_server_leads_to_none(server):
    waits = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()  # a process that has only just begun to exec has no command line yet
        assert processes(server).by_pid(other.pid) is None
        other.communicate(b"\n")


def test_a_pid_that_is_not_there_is_an_error(server):
    with pytest.raises(SourceLost, match="no process 999999999"):
        processes(server).by_pid(999_999_999)


def test_a_restart_is_another_epoch_and_the_name_of_the_boot_stays(tmp_path):
    epochs = []
    for life in ("a", "b"):
        with start_fake_server(tmp_path / life, clients=0, titles=()) as fake:
            epochs.append(seen_of(LinuxProcesses(recognise), fake).epoch)
    assert epochs[0] != epochs[1]
    assert epochs[0].boot_id == epochs[1].boot_id != ""


def test_two_servers_on_one_host_keep_apart(server, tmp_path):
    with start_fake_server(tmp_path, version="0.5.6", clients=2, titles=("sglang::scheduler",)) as other:
        holders = {"GPU-0": [server.worker_pids[0]], "GPU-1": [other.worker_pids[0]]}
        source = LinuxProcesses(recognise, gpu_holders=lambda: holders)
        first, second = seen_of(source, server), seen_of(source, other)
        assert first.workers == {"GPU-0": "sglang::scheduler_PP0"}
        assert second.workers == {"GPU-1": "sglang::scheduler"}
        assert (first.version_hint, second.version_hint) == ("0.5.10", "0.5.6")
        assert (first.connections, second.connections) == (5, 2)


@pytest.mark.parametrize("wrapper", [["timeout", "600"], ["env", "A=1"], ["sh", "-c", '"$@"; true', "sh"]])
def test_a_program_that_only_starts_the_server_is_not_the_server(tmp_path, wrapper):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "launch_server.py").write_text("import os; print(os.getpid(), flush=True); input()")
    command = [*wrapper, sys.executable, "-m", "sglang.launch_server", "--tp", "8"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        pid = int(starter.stdout.readline())
        source = LinuxProcesses(recognise)
        table = Proc().table()
        family = {process.pid for process in table.values() if process.pid == pid or process.parent == starter.pid}
        assert [seen.pid for seen in source.scan() if seen.pid in family | {starter.pid}] == [pid]
        assert source.by_pid(starter.pid).pid == pid
        os.kill(pid, 9)
        starter.stdin.close()


def test_a_process_that_ends_while_we_look_is_left_out():
    with subprocess.Popen(["sleep", "0"]) as ended:
        ended.wait()
        assert Proc().process(ended.pid) is None


def test_a_stated_port_outranks_what_listens(server, tmp_path):
    with start_fake_server(tmp_path, ("--model", "m", f"--port={server.port}"), clients=0, titles=()) as other:
        seen = seen_of(LinuxProcesses(recognise), other)
        assert seen.port == server.port


def test_a_stated_port_on_which_nobody_listens_has_no_connection_count(tmp_path):
    with start_fake_server(tmp_path, ("--model", "m", "--port=1"), clients=0, titles=()) as other:
        seen = seen_of(LinuxProcesses(recognise), other)
        assert (seen.port, seen.connections) == (1, None)


def test_options_point_to_the_unit_file_that_says_the_same(server, tmp_path):
    unit = tmp_path / "k26.service"
    unit.write_text("[Service]\nExecStart=/usr/bin/python -m sglang.launch_server \\\n --pp-size 8 --tp-size 1\n")
    root = crafted_proc(tmp_path, server.pid, "0::/system.slice/k26.service\n")
    systemd = Systemd(lambda _: f"LoadState=loaded\nActiveState=active\nMainPID=0\nFragmentPath={unit}\n")
    (seen,) = LinuxProcesses(recognise, systemd=systemd, proc=root).scan()
    assert seen.unit == "k26.service"
    assert seen.launch.places == {"-m": f"{unit}:2", "--pp-size": f"{unit}:3"}


def crafted_proc(folder, pid, cgroup):
    """A process table that holds one real process under a control group of our choice."""
    process = folder / "proc" / str(pid)
    process.mkdir(parents=True)
    for name in ("cmdline", "stat", "environ", "net", "fd", "exe", "root", "cwd"):
        (process / name).symlink_to(f"/proc/{pid}/{name}")
    (process / "cgroup").write_text(cgroup)
    return folder / "proc"


def test_a_unit_leads_to_the_server_in_it_by_control_group(server, tmp_path):
    root = crafted_proc(tmp_path, server.pid, "1:name=systemd:/\n0::/system.slice/k26.service\n")
    source = LinuxProcesses(recognise, proc=root)
    assert source.by_unit("k26").pid == server.pid
    with pytest.raises(SourceUnavailable, match=r"no process runs in other\.service"):
        source.by_unit("other.service")


def test_a_unit_leads_to_the_server_in_it_by_systemd(server):
    systemd = Systemd(lambda _: f"LoadState=loaded\nActiveState=active\nMainPID={server.pid}\n")
    assert processes(server, systemd=systemd).by_unit("k26").pid == server.pid


def test_a_unit_that_failed_is_said_so(server):
    systemd = Systemd(lambda _: "LoadState=loaded\nActiveState=failed\nMainPID=0\nNRestarts=5\nResult=oom-kill\n")
    with pytest.raises(SourceUnavailable, match=r"k26\.service is not running .*failed.*oom-kill.*5 times"):
        processes(server, systemd=systemd).by_unit("k26")


def test_a_systemd_that_does_not_answer_is_done_without(server, tmp_path):
    def run(_):
        raise SourceUnavailable("systemctl: System has not been booted with systemd")

    root = crafted_proc(tmp_path, server.pid, "0::/system.slice/k26.service\n")
    assert LinuxProcesses(recognise, systemd=Systemd(run), proc=root).by_unit("k26").pid == server.pid


def test_no_process_table_is_an_error(tmp_path):
    source = LinuxProcesses(recognise, proc=tmp_path / "none")
    assert source.health().health is Health.ABSENT
    with pytest.raises(SourceUnavailable):
        source.scan()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_environment_is_denied_and_the_rest_is_read(server):
    def look():
        source = LinuxProcesses(recognise)
        seen = seen_of(source, server)
        return seen.launch.env, seen.port, seen.launch.argv[2], source.health().health, source.health().mend

    env, port, module, health, mend = as_nobody(look)
    assert (env, port, module) == (None, None, "sglang.launch_server")
    assert health is Health.DENIED
    assert mend.startswith("run as root")


def as_nobody(function):
    """What `function` returns in a child process that has given up root."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(writer, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer)


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("0::/system.slice/sglang-k26.service\n", Owner(unit="sglang-k26.service")),
        ("9:name=systemd:/system.slice/k26.service\n4:memory:/other\n0::/\n", Owner(unit="k26.service")),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service\n", Owner(unit="vllm.service")),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", Owner()),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", Owner()),
        ("0::/system.slice/system-llm.slice/llm@qwen.service/worker\n", Owner(unit="llm@qwen.service")),
        (f"0::/system.slice/docker-{ID}.scope\n", Owner(container=ID)),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Owner(container=ID)),
        (f"0::/system.slice/k26.service/libpod-payload-{ID}\n", Owner(unit="k26.service", container=ID)),
        (f"0::/user.slice/user-1.slice/user@1.service/user.slice/libpod-{ID}.scope/container\n", Owner(container=ID)),
        (f"0::/kubepods.slice/b.slice/{POD_SLICE}/cri-containerd-{ID}.scope\n", Owner(container=ID, pod=POD)),
        (f"4:memory:/kubepods/besteffort/pod{POD}/{ID}\n", Owner(container=ID, pod=POD)),
        (
            f"0::/system.slice/containerd.service/{POD_SLICE}:cri-containerd:{ID}\n",
            Owner(unit="containerd.service", container=ID, pod=POD),
        ),
        ("0::/\n", Owner()),
        ("", Owner()),
    ],
)
def test_the_owner_is_read_from_the_control_group(text, owner):
    assert owner_of(text) == owner


@pytest.mark.parametrize(
    ("raw", "argv"),
    [
        (b"python\0-m\0x\0", ("python", "-m", "x")),
        (b"python\0--name\0\0-m\0", ("python", "--name", "", "-m")),
        (b"sglang::scheduler_PP3\0\0\0\0\0", ("sglang::scheduler_PP3",)),
        (b"VLLM::Worker_PP0_TP1    ", ("VLLM::Worker_PP0_TP1",)),
        (b"\xff\xfe\0", ("\ufffd\ufffd",)),
        (b"", ()),
    ],
)
def test_command_lines_are_split(raw, argv):
    assert split_cmdline(raw) == argv


def package(folder, name):
    (folder / name).mkdir(parents=True)


def test_the_package_beside_the_interpreter_tells_the_version(tmp_path):
    root = tmp_path / "root"
    package(root / "opt/venv/lib/python3.12/site-packages", "vllm-0.24.0.dist-info")
    package(root / "usr/local/lib/python3.12/dist-packages", "sglang-0.5.10.post1.dist-info")
    package(root / "usr/local/lib/python3.12/dist-packages", "sglang_router-0.2.0.dist-info")
    package(root / "srv/src", "sglang-0.5.20.dist-info")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/python3").touch()
    assert installed_version(["vllm"], root, ["/opt/venv/bin/python", "-m", "vllm"], None, None) == "0.24.0"
    assert installed_version(["vllm"], root, ["python3"], {"VIRTUAL_ENV": "/opt/venv"}, None) == "0.24.0"
    assert installed_version(["sglang"], root, ["python3"], {"PATH": "/bin:/usr/bin"}, None) == "0.5.10.post1"
    assert installed_version(["sglang"], root, ["python3"], None, "/usr/bin/python3.12") == "0.5.10.post1"
    assert installed_version(["sglang"], root, ["python3"], {"PYTHONPATH": "/srv/src"}, None) == "0.5.20"
    assert installed_version(["vllm"], root, ["python3"], {}, "/usr/bin/python3") is None
    assert installed_version([], root, [], None, None) is None
