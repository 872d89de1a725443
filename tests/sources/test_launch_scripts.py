"""Start scripts behind a unit or a command, and environment files beside them."""

import pytest

from bubblewatch.servers import registry
from bubblewatch.sources.launch_text import read_launch, read_launches
from bubblewatch.sources.systemd_unit import read_unit_file

SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
export NCCL_P2P_DISABLE=1
cd /srv/k26
exec python -m sglang.launch_server \\
    --model-path "$MODEL" \\
    --port "${2:-30000}" --pp-size $1 \\
    "$@"
"""


def is_server(launch):
    return registry.recognise(launch) is not None


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "start.sh"
    path.write_text(SCRIPT)
    return path


def test_the_script_of_a_unit_is_read_with_its_arguments_and_lines(tmp_path, script):
    unit = tmp_path / "k26.service"
    unit.write_text(f"[Service]\nEnvironment=MODEL=/data/k26\nExecStart=/bin/bash {script} 8 --disable-cuda-graph\n")
    launch = read_unit_file(str(unit))
    assert launch.argv == (
        "python", "-m", "sglang.launch_server", "--model-path", "/data/k26", "--port", "--disable-cuda-graph",
        "--pp-size", "8", "8", "--disable-cuda-graph",
    )  # fmt: skip
    assert launch.places["--pp-size"] == f"{script}:7"
    assert launch.places["--disable-cuda-graph"] == f"{unit}:3"
    assert launch.places["NCCL_P2P_DISABLE"] == f"{script}:3"
    assert launch.where == f"{script}:5"
    assert launch.working_directory == "/srv/k26"
    assert launch.notes == ()


def test_a_parameter_without_an_argument_takes_its_default(tmp_path, script):
    unit = tmp_path / "k26.service"
    unit.write_text(f"[Service]\nExecStart={script} 4\n")
    argv = read_unit_file(str(unit)).argv
    assert argv[argv.index("--port") + 1] == "30000"
    assert argv[argv.index("--model-path") + 1] == "$MODEL"


def test_a_script_that_starts_a_script_is_followed(tmp_path, script):
    outer = tmp_path / "outer.sh"
    outer.write_text(f"exec ./{script.name} 2\n")
    assert read_launch(str(outer)).argv[-4:] == ("30000", "--pp-size", "2", "2")


def test_scripts_that_start_each_other_end(tmp_path):
    path = tmp_path / "again.sh"
    path.write_text(f"#!/bin/sh\nexec {path} --more\n")
    assert read_launch(str(path)).argv[0] == str(path)


@pytest.mark.parametrize("command", ["/bin/sh {}/gone.sh --pp 8", "{}/gone.sh", "{}"])
def test_a_script_that_cannot_be_read_is_a_note(tmp_path, command):
    unit = tmp_path / "a.service"
    unit.write_text(f"[Service]\nExecStart={command.format(tmp_path)}\n")
    (note,) = read_unit_file(str(unit)).notes
    assert note.startswith(f"{unit}:2 starts {tmp_path}")
    assert "which was not read" in note


def test_a_binary_is_not_taken_for_a_script(tmp_path):
    program = tmp_path / "server"
    program.write_bytes(b"\x7fELF\0\1")
    launch = read_launch(f"{program} --pp 8")
    assert launch.argv == (str(program), "--pp", "8")
    assert launch.notes == ()


def test_what_runs_in_a_container_is_not_looked_for_on_this_machine(script):
    launch = read_launch(f"docker run lmsysorg/sglang:v0.5.10 bash {script} 8")
    assert launch.argv == ("bash", str(script), "8")


def test_the_environment_file_of_a_container_is_read_from_beside_the_script(tmp_path):
    (tmp_path / "llm.env").write_text("# x\nVLLM_USE_V1=1\nNCCL_DEBUG='INFO'\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n")
    script = tmp_path / "run.sh"
    script.write_text("docker run --env-file llm.env -e NCCL_DEBUG=WARN vllm/vllm-openai:v0.24.0 --model m -pp 8\n")
    launch = read_launch(str(script))
    assert launch.env == {"VLLM_USE_V1": "1", "NCCL_DEBUG": "WARN"}
    assert launch.places["VLLM_USE_V1"] == f"{tmp_path / 'llm.env'}:2"
    assert launch.places["-pp"] == f"{script}:1"


def test_an_environment_file_that_is_missing_is_a_note():
    (note,) = read_launch("docker run --env-file /nowhere/llm.env vllm/vllm-openai -pp 8").notes
    assert "/nowhere/llm.env was not read" in note


def test_variables_that_a_shell_command_line_exports_belong_to_the_server():
    launch = read_launch("bash -c 'export NCCL_P2P_DISABLE=1; cd /srv; exec vllm serve m -pp 8'")
    assert launch.env == {"NCCL_P2P_DISABLE": "1"}
    assert launch.working_directory == "/srv"


def test_a_model_behind_the_image_goes_to_its_entry_point():
    launch = read_launch("docker run --gpus all vllm/vllm-openai:v0.24.0 Qwen/Qwen3-8B -tp 2")
    assert launch.argv == ("vllm", "serve", "Qwen/Qwen3-8B", "-tp", "2")
    assert launch.image == "vllm/vllm-openai:v0.24.0"


def test_every_server_of_a_script_is_a_launch(tmp_path):
    path = tmp_path / "pd.sh"
    path.write_text(
        "python -m sglang.launch_server --disaggregation-mode prefill --pp-size 4 &\n"
        "python -m sglang.launch_server --disaggregation-mode decode &\nwait\ncurl -s -f -o /dev/null localhost\n"
    )
    found = read_launches(str(path), is_server)
    assert [named.name for named in found] == ["pd", "pd#2"]
    assert [named.launch.argv[4] for named in found] == ["prefill", "decode"]


def test_a_text_without_a_known_server_gives_its_likeliest_command():
    (named,) = read_launches("cd /srv; ./my-engine --pp 8 --x; curl -f -s -v localhost", is_server)
    assert named.launch.argv[0] == "./my-engine"


def test_the_option_file_of_a_launch_is_read_without_its_secrets(tmp_path):
    (tmp_path / "serve.yaml").write_text("enforce-eager: true\napi-key: sk-live0123456789abcdefABCDEF\n")
    script = tmp_path / "run.sh"
    script.write_text("vllm serve m --config serve.yaml\n")
    launch = read_launch(str(script))
    assert list(launch.files) == ["serve.yaml"]
    assert "enforce-eager: true" in launch.files["serve.yaml"]
    assert "sk-live" not in repr(launch)


@pytest.mark.parametrize("option", ["--config gone.yaml", "--config=/etc/hostname", "-x y"])
def test_what_is_no_option_file_is_not_read(option):
    assert read_launch(f"vllm serve m {option}").files == {}


def test_the_option_file_of_a_working_directory_is_read(tmp_path):
    (tmp_path / "serve.yaml").write_text("pp-size: 8\n")
    launch = read_launch(f"cd {tmp_path}; python -m sglang.launch_server --config=serve.yaml")
    assert launch.files == {"serve.yaml": "pp-size: 8"}
