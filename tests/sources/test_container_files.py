"""Compose files, docker inspect and Kubernetes manifests as launches."""

import contextlib
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import UsageError
from bubblewatch.servers import registry
from bubblewatch.sources.container_images import version_of
from bubblewatch.sources.launch_text import read_launch, read_launches
from bubblewatch.sources.yaml_nodes import read_documents

COMPOSE = """\
x-common: &common
  restart: unless-stopped
  environment: &env
    NCCL_DEBUG: WARN
services:
  proxy:
    image: nginx:1.27
    command: ["nginx", "-g", "daemon off;"]
  vllm:
    <<: *common
    image: vllm/vllm-openai:${TAG:-v0.24.0}
    environment:
      <<: *env
      HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz
    command:
      - --model
      - ${MODEL}
      - --tensor-parallel-size
      - "2"
      - --enforce-eager
  sglang:
    image: lmsysorg/sglang:v0.5.10-cu126
    working_dir: /srv
    entrypoint: python3 -m sglang.launch_server
    command: >
      --model-path ${MODEL}
      --pp-size 8
      --served-model-name "kimi k2"
      --disable-cuda-graph
    environment:
      - CUDA_VISIBLE_DEVICES=0,1,2,3
      - SGLANG_X
"""

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: start
data:
  run.sh: |
    #!/bin/sh
    exec vllm serve "$MODEL" \\
      --pipeline-parallel-size 2 "$@"
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: qwen
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        initContainers:
          - name: wait
            image: busybox
            command: ["sleep", "1"]
        containers:
          - name: metrics
            image: prom/exporter
            args: ["--web.listen-address=:9090"]
          - name: vllm
            image: vllm/vllm-openai:v0.24.0
            command: ["sh", "/scripts/run.sh", "--enforce-eager"]
            env:
              - name: MODEL
                value: Qwen/Qwen3-235B
              - name: VLLM_HOST_IP
                valueFrom: {fieldRef: {fieldPath: status.podIP}}
    workerTemplate:
      spec:
        containers:
          - name: vllm
            image: vllm/vllm-openai:v0.24.0
            args:
              - --model=$(MODEL)
              - --port=$(PORT)
            env:
              - {name: ROOT, value: /data}
              - {name: MODEL, value: $(ROOT)/qwen}
"""


def is_server(launch):
    return registry.recognise(launch) is not None


def file(tmp_path, text, name="compose.yml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def launches(tmp_path, text, name="compose.yml"):
    return {named.name: named.launch for named in read_launches(file(tmp_path, text, name), is_server)}


def test_the_servers_of_a_compose_file_are_told_from_its_other_services(tmp_path):
    assert list(launches(tmp_path, COMPOSE)) == ["vllm", "sglang"]


def test_a_service_with_options_alone_runs_its_image(tmp_path):
    (tmp_path / ".env").write_text("MODEL=Qwen/Qwen3-8B\n")
    path = tmp_path / "compose.yml"
    launch = launches(tmp_path, COMPOSE)["vllm"]
    image = "vllm/vllm-openai:v0.24.0"
    assert launch.argv == (image, "--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--enforce-eager")
    assert launch.image == image
    assert launch.env == {"NCCL_DEBUG": "WARN"}
    assert launch.places["--enforce-eager"] == f"{path}:20"
    assert launch.places["NCCL_DEBUG"] == f"{path}:4"


def test_a_folded_command_keeps_the_lines_of_its_options(tmp_path):
    path = tmp_path / "compose.yml"
    launch = launches(tmp_path, COMPOSE)["sglang"]
    assert launch.argv == (
        "python3", "-m", "sglang.launch_server", "--model-path", "${MODEL}", "--pp-size", "8", "--served-model-name",
        "kimi k2", "--disable-cuda-graph",
    )  # fmt: skip
    assert launch.places["--pp-size"] == f"{path}:27"
    assert launch.places["--disable-cuda-graph"] == f"{path}:29"
    assert launch.where == f"{path}:24"
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    assert launch.working_directory == "/srv"


@pytest.mark.parametrize(
    "command",
    [
        "command: --model m -pp 8 --enforce-eager",
        "command: --model m\n      -pp 8\n      --enforce-eager",
        "command: |\n      --model m\n      -pp 8\n      --enforce-eager",
        "command: |\n      --model m \\\n      -pp 8 \\\n      --enforce-eager",
        "command: >-\n      --model m -pp 8\n      --enforce-eager",
        'command: "--model m -pp 8 --enforce-eager"',
        'command: ["--model", "m", "-pp", "8", "--enforce-eager"]',
    ],
)
def test_every_form_of_a_command_gives_the_same_words(tmp_path, command):
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    {command}\n"
    launch = launches(tmp_path, text)["a"]
    assert launch.argv[1:] == ("--model", "m", "-pp", "8", "--enforce-eager")
    last = max(number for number, line in enumerate(text.splitlines(), 1) if "--enforce-eager" in line)
    assert launch.places["--enforce-eager"].endswith(f":{last}")


@pytest.mark.parametrize("style", ["|", ">"])
def test_a_shell_script_in_a_list_keeps_its_lines(tmp_path, style):
    text = (
        "services:\n  a:\n    image: lmsysorg/sglang\n    command:\n      - bash\n      - -c\n"
        f"      - {style}\n        python -m sglang.launch_server\n"
        "        --tp $$TP\n" + "    environment: {TP: 4}\n"
    ).replace("launch_server\n", "launch_server \\\n" if style == "|" else "launch_server\n")
    launch = launches(tmp_path, text)["a"]
    assert launch.argv == ("python", "-m", "sglang.launch_server", "--tp", "4")
    assert launch.places["--tp"].endswith("compose.yml:9")


@pytest.mark.parametrize(
    ("written", "variables", "argument"),
    [
        ("${A:-x}", "", "x"),
        ("${A:-x}", "A=\n", "x"),
        ("${A-x}", "A=y\n", "y"),
        ("${A:+x}", "A=y\n", "x"),
        ("${A:?not set}", "", "${A:?not set}"),
        ("${A:-${B:-z}}", "", "z"),
        ("$A", "A=y\n", "y"),
        ("$$A", "A=y\n", "$A"),
    ],
)
def test_variables_are_put_in_as_compose_does(tmp_path, written, variables, argument):
    (tmp_path / ".env").write_text(f"# variables\n{variables}")
    text = f'services:\n  a:\n    image: vllm/vllm-openai\n    command: ["--model", "{written}"]\n'
    assert launches(tmp_path, text)["a"].argv[2] == argument


def test_environment_files_of_a_service_are_read_or_noted(tmp_path):
    (tmp_path / "a.env").write_text("VLLM_USE_V1='1'\nNCCL_DEBUG=INFO\n")
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: --model m\n"
        "    env_file:\n      - a.env\n      - path: b.env\n        required: false\n      - c.env\n"
        "    environment: [NCCL_DEBUG=WARN]\n"
    )
    launch = launches(tmp_path, text)["a"]
    assert launch.env == {"VLLM_USE_V1": "1", "NCCL_DEBUG": "WARN"}
    (note,) = launch.notes
    assert "c.env was not read" in note


def test_an_inspected_container_tells_its_command_and_its_environment():
    inspected = [
        {
            "Name": "/vllm-1",
            "Path": "vllm",
            "Args": ["serve", "m", "--api-key", "sk-live0123456789abcdefABCDEF", "-pp", "8"],
            "Config": {
                "Image": "vllm/vllm-openai:v0.24.0",
                "Env": ["PATH=/usr/bin", "NCCL_P2P_DISABLE=1", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz"],
                "Cmd": ["m"],
                "Entrypoint": ["vllm", "serve"],
                "WorkingDir": "/vllm-workspace",
            },
        }
    ]
    (named,) = read_launches("-", is_server, io.BytesIO(json.dumps(inspected, indent="\t").encode()))
    launch = named.launch
    assert named.name == "vllm-1"
    assert launch.argv == ("vllm", "serve", "m", "--api-key", "<redacted>", "-pp", "8")
    assert launch.env == {"NCCL_P2P_DISABLE": "1"}
    assert launch.image == "vllm/vllm-openai:v0.24.0"
    assert launch.places == {}
    assert "hf_abc" not in repr(launch)


def test_an_inspected_image_tells_what_it_runs():
    inspected = [{"RepoTags": ["vllm/vllm-openai:latest"], "Config": {"Cmd": None, "Entrypoint": ["vllm", "serve"]}}]
    (named,) = read_launches("-", is_server, io.BytesIO(json.dumps(inspected).encode()))
    assert named.launch.argv == ("vllm", "serve")


def test_a_manifest_gives_the_server_of_each_template(tmp_path):
    found = launches(tmp_path, MANIFEST, "qwen.yaml")
    assert list(found) == ["qwen/leader/vllm", "qwen/worker/vllm"]


def test_a_script_of_a_config_map_is_followed(tmp_path):
    launch = launches(tmp_path, MANIFEST, "qwen.yaml")["qwen/leader/vllm"]
    assert launch.argv == (
        "vllm", "serve", "Qwen/Qwen3-235B", "--pipeline-parallel-size", "2", "--enforce-eager",
    )  # fmt: skip
    assert launch.places["--pipeline-parallel-size"].endswith("qwen.yaml:9")
    assert launch.places["--enforce-eager"].endswith("qwen.yaml:29")
    assert launch.image == "vllm/vllm-openai:v0.24.0"
    (note,) = launch.notes
    assert "VLLM_HOST_IP" in note


def test_arguments_of_a_container_get_its_variables(tmp_path):
    launch = launches(tmp_path, MANIFEST, "qwen.yaml")["qwen/worker/vllm"]
    assert launch.argv == ("vllm/vllm-openai:v0.24.0", "--model=/data/qwen", "--port=$(PORT)")
    assert launch.where.endswith("qwen.yaml:39")


def test_a_list_of_objects_as_json_is_read():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "s", "image": "x", "command": ["vllm", "serve", "m"], "args": ["-pp", "4"]}]},
    }
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]})
    (named,) = read_launches("-", is_server, io.BytesIO(text.encode()))
    assert named.name == "p/s"
    assert named.launch.argv == ("vllm", "serve", "m", "-pp", "4")


def test_one_launch_of_several_says_which_were_left_out(tmp_path):
    launch = read_launch(file(tmp_path, COMPOSE), recognise=is_server)
    assert launch.argv[0] == "vllm/vllm-openai:v0.24.0" or launch.argv[0] == "python3"
    (note,) = launch.notes
    assert "1 more servers" in note


def test_a_file_without_a_known_server_gives_all_its_containers(tmp_path):
    text = "services:\n  a:\n    image: nginx\n  b:\n    image: redis\n    command: redis-server --save 60\n"
    found = launches(tmp_path, text)
    assert list(found) == ["a", "b"]
    assert found["a"].argv == ("nginx",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("services:\n  a: [\n", "compose.yml:3:1: no YAML"),
        ("apiVersion: v1\nkind: Pod\nspec: {{ .Values.x }}\n  a\n", "helm template"),
        ('[{"Name": "a",}]', "compose.yml:1:15: no JSON"),
        ("apiVersion: v1\nkind: Service\n", "no container in it"),
        ("services: &a\n  b: *a\n", "an alias that holds itself"),
        ("services:\n  a: " + "[" * 3000, "compose.yml"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, text, told):
    with pytest.raises(UsageError) as caught:
        read_launches(file(tmp_path, text), is_server)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_cannot_make_a_document_grow():
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    (document,) = read_documents(f"services:\n  s:\n    image: i\n{text}", "x")
    assert document.get("a29").elements


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.24.0", "0.24.0"),
        ("lmsysorg/sglang:v0.5.10.post1-cu126", "0.5.10.post1"),
        ("registry.local:5000/mirror/sglang:0.5.9@sha256:abc", "0.5.9"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai", None),
        ("ours/llm:v1.2.3", None),
        (None, None),
    ],
)
def test_the_tag_of_a_server_image_is_its_version(image, version):
    assert version_of(image) == version


@given(st.sampled_from([COMPOSE, MANIFEST]), st.data())
def test_a_damaged_file_is_read_or_refused(text, data):
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=6)) + text[at + data.draw(st.integers(0, 6)) :]
    with contextlib.suppress(UsageError):
        for named in read_launches("-", is_server, io.BytesIO(damaged.encode("utf-8", "replace"))):
            assert named.launch.argv
            assert "hf_abcdefghij" not in repr(named.launch)
