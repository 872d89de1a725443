"""Unit files and the answers of `systemctl show`."""

import pytest

from bubblewatch.model.errors import SourceUnavailable, UsageError
from bubblewatch.sources.systemd_unit import Systemd, read_unit_file, run_systemctl, state_from_show

UNIT = """\
[Unit]
Description=Kimi K2.6
ExecStart=/bin/false

[Service]
Type=simple
Environment="CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7" NCCL_DEBUG=WARN
Environment=MODEL=/data/k26
WorkingDirectory=/srv/k26
# the server
ExecStart=-/venv/bin/python -m sglang.launch_server \\
    --model-path ${MODEL} \\
    # a comment between
    --pp-size 8 --served-model-name "kimi k2" \\
    --disable-cuda-graph
Restart=always
"""


@pytest.fixture
def unit(tmp_path):
    path = tmp_path / "k26.service"
    path.write_text(UNIT)
    return path


def test_the_command_the_environment_and_their_lines_are_read(unit):
    launch = read_unit_file(str(unit))
    assert launch.argv == (
        "/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/data/k26", "--pp-size", "8",
        "--served-model-name", "kimi k2", "--disable-cuda-graph",
    )  # fmt: skip
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "NCCL_DEBUG": "WARN"}
    assert launch.where == f"{unit}:11"
    assert launch.places["--disable-cuda-graph"] == f"{unit}:15"
    assert launch.places["NCCL_DEBUG"] == f"{unit}:7"
    assert launch.working_directory == "/srv/k26"
    assert launch.notes == ()


def test_drop_ins_change_the_unit_in_the_order_of_their_names(unit):
    folder = unit.with_name("k26.service.d")
    folder.mkdir()
    (folder / "20-command.conf").write_text("[Service]\nExecStart=\nExecStart=/usr/bin/vllm serve m -pp 4\n")
    (folder / "10-env.conf").write_text("[Service]\nEnvironment=\nEnvironment=NCCL_P2P_DISABLE=1\n")
    launch = read_unit_file(str(unit))
    assert launch.argv == ("/usr/bin/vllm", "serve", "m", "-pp", "4")
    assert launch.env == {"NCCL_P2P_DISABLE": "1"}
    assert launch.where == f"{folder}/20-command.conf:3"
    assert launch.places["NCCL_P2P_DISABLE"] == f"{folder}/10-env.conf:3"


def test_an_environment_file_outranks_the_unit(unit, tmp_path):
    file = tmp_path / "k26.env"
    file.write_text("# comment\nNCCL_DEBUG='INFO'\nSGLANG_LOG_MS=1\nHF_TOKEN=hf_abcdefghijklmnopqrstu\n")
    unit.write_text(UNIT.replace("Restart=always", f"EnvironmentFile={file}\nEnvironmentFile=-/nowhere/at/all"))
    launch = read_unit_file(str(unit))
    assert launch.env is not None
    assert launch.env["NCCL_DEBUG"] == "INFO"
    assert launch.env["SGLANG_LOG_MS"] == "1"
    assert launch.places["SGLANG_LOG_MS"] == f"{file}:3"
    assert "hf_abc" not in repr(launch)
    assert launch.notes == ()


def test_an_environment_file_that_cannot_be_read_is_noted(unit):
    unit.write_text(UNIT.replace("Restart=always", "EnvironmentFile=/nowhere/k26.env"))
    (note,) = read_unit_file(str(unit)).notes
    assert "EnvironmentFile" in note
    assert "/nowhere/k26.env" in note


def test_a_template_knows_its_instance(tmp_path):
    path = tmp_path / "llm@qwen-72b.service"
    path.write_text("[Service]\nExecStart=/usr/bin/vllm serve /m/%i --served-model-name %n -pp 2 --x 50%%\n")
    (tmp_path / "llm@.service.d").mkdir()
    (tmp_path / "llm@.service.d" / "a.conf").write_text("[Service]\nEnvironment=VLLM_USE_V1=1\n")
    launch = read_unit_file(str(path))
    assert launch.argv[2] == "/m/qwen-72b"
    assert launch.argv[4] == "llm@qwen-72b.service"
    assert launch.argv[-1] == "50%"
    assert launch.env == {"VLLM_USE_V1": "1"}


def test_a_shell_around_the_server_is_taken_off(tmp_path):
    path = tmp_path / "a.service"
    path.write_text("[Service]\nExecStart=/bin/bash -lc 'cd /srv; NCCL_DEBUG=INFO exec vllm serve m -pp 8'\n")
    launch = read_unit_file(str(path))
    assert launch.argv == ("vllm", "serve", "m", "-pp", "8")
    assert launch.env == {"NCCL_DEBUG": "INFO"}


def test_a_script_that_was_not_read_is_noted(tmp_path):
    path = tmp_path / "a.service"
    path.write_text("[Service]\nExecStart=/opt/llm/start.sh\n")
    (note,) = read_unit_file(str(path)).notes
    assert "/opt/llm/start.sh" in note


@pytest.mark.parametrize(
    "text", ["[Unit]\nDescription=x\n", "[Service]\nExecStart=/a b\nExecStart=\n", "hello world\n"]
)
def test_a_file_that_starts_nothing_is_refused(tmp_path, text):
    path = tmp_path / "a.service"
    path.write_text(text)
    with pytest.raises(UsageError, match="no ExecStart"):
        read_unit_file(str(path))


def test_an_open_quote_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.service"
    path.write_text('[Service]\nExecStart=/usr/bin/vllm \\\n serve "m\n')
    with pytest.raises(UsageError, match=r"a\.service:3: the quote"):
        read_unit_file(str(path))


SHOW = """\
Type=simple
Result=success
NRestarts=3
MainPID=48121
ExecStart={ path=/usr/bin/vllm ; argv[]=/usr/bin/vllm serve m -pp 8 --api-key sk-abcdefghijklmnopqrst ; ignore_errors=no ; start_time=[Mon 2026-01-05 10:00:00 UTC] ; stop_time=[n/a] ; pid=48121 ; code=(null) ; status=0/0 }
Environment=CUDA_VISIBLE_DEVICES=0,1 "NCCL_ALGO=Ring Tree"
WorkingDirectory=/srv
Id=k26.service
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/etc/systemd/system/k26.service
DropInPaths=/etc/systemd/system/k26.service.d/a.conf /run/systemd/system/k26.service.d/b.conf
"""  # noqa: E501 - one line of `systemctl show`, systemd 252


def test_the_state_of_a_unit_is_read():
    asked = []
    state = Systemd(lambda arguments: asked.append(arguments) or SHOW).show("k26")
    assert asked[0][-1] == "k26.service"
    assert (state.active, state.sub, state.main_pid, state.restarts) == ("active", "running", 48121, 3)
    assert state.fragment == "/etc/systemd/system/k26.service"
    assert len(state.drop_ins) == 2
    assert state.launch is not None
    assert state.launch.argv == ("/usr/bin/vllm", "serve", "m", "-pp", "8", "--api-key", "<redacted>")
    assert state.launch.env == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_ALGO": "Ring Tree"}


def test_a_unit_that_does_not_exist_is_said_so():
    with pytest.raises(SourceUnavailable, match=r"no unit foo\.service"):
        state_from_show("MainPID=0\nLoadState=not-found\nActiveState=inactive\n", "foo.service")


def test_a_dead_unit_has_no_process():
    state = state_from_show("MainPID=0\nLoadState=loaded\nActiveState=failed\nResult=oom-kill\n", "a.service")
    assert state.main_pid is None
    assert state.restarts is None
    assert state.result == "oom-kill"


def test_a_machine_without_systemctl_is_survived(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceUnavailable, match="no systemctl"):
        run_systemctl(["show"])
