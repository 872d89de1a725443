"""What a user hands over as the launch, read into argv, environment and places."""

import contextlib
import io
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.launch_text import read_launch

SGLANG = ("python", "-m", "sglang.launch_server", "--tp", "8")


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("python -m sglang.launch_server --tp 8", SGLANG),
        ("  $ python -m sglang.launch_server --tp 8\n", SGLANG),
        ("python -m sglang.launch_server \\\n    --tp \\\n    8", SGLANG),
        ("python -m sglang.launch_server \\\r\n  --tp 8\r\n", SGLANG),
        ("python -m 'sglang.launch_server' --tp \"8\"  # eight cards", SGLANG),
        ("nohup python -m sglang.launch_server --tp 8 > server.log 2>&1 &", SGLANG),
        ("python -m sglang.launch_server --tp 8 2>&1 | tee -a log --append", SGLANG),
        ("cd /srv && exec python -m sglang.launch_server --tp 8", SGLANG),
        ("sudo -E -u llm env -u B A=1 python -m sglang.launch_server --tp 8", SGLANG),
        ("numactl -N 0 -m 0 taskset -c 0-31 python -m sglang.launch_server --tp 8", SGLANG),
        ("timeout -k 5 60 nice -n 5 python -m sglang.launch_server --tp 8", SGLANG),
        ("bash -lc 'source /venv/bin/activate; exec python -m sglang.launch_server --tp 8'", SGLANG),
        ("if true; then python -m sglang.launch_server --tp 8; fi", SGLANG),
        ('ARGS="--tp 8"\npython -m sglang.launch_server $ARGS', SGLANG),
        ("python -m sglang.launch_server --tp ${TP:-8}", SGLANG),
        ('ARGS=(--tp\n  8\n)\npython -m sglang.launch_server "${ARGS[@]}"', SGLANG),
        ("docker run --gpus all -it --rm --ipc=host -p 1:1 img python -m sglang.launch_server --tp 8", SGLANG),
        ("vllm serve <model> -pp 8", ("vllm", "serve", "<model>", "-pp", "8")),
        ("vllm serve $(cat model) -pp 8", ("vllm", "serve", "$(cat model)", "-pp", "8")),
        ("vllm serve $MODEL -pp 8", ("vllm", "serve", "$MODEL", "-pp", "8")),
        ("vllm serve 'a b' --x=\"c d\"", ("vllm", "serve", "a b", "--x=c d")),
        ("--model meta-llama/Llama-2-7b --dtype float16", ("--model", "meta-llama/Llama-2-7b", "--dtype", "float16")),
    ],
)
def test_a_command_is_read_as_the_shell_would(text, argv):
    assert read_launch(text).argv == argv


def test_variables_of_the_text_that_bear_on_serving_are_kept():
    text = (
        "export NCCL_DEBUG=INFO PATH=/x\nCUDA_VISIBLE_DEVICES=0,1 env VLLM_PP_LAYER_PARTITION=20,20 vllm serve m -pp 2"
    )
    launch = read_launch(text)
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "INFO", "VLLM_PP_LAYER_PARTITION": "20,20"}


def test_an_environment_that_the_text_does_not_show_is_unknown():
    assert read_launch("vllm serve m -pp 2").env is None


def test_a_container_names_its_image_and_variables():
    launch = read_launch(
        "docker run -d -e VLLM_LOGGING_LEVEL=DEBUG -p 8000:8000 vllm/vllm-openai:v0.24.0 --model m -pp 8"
    )
    assert launch.argv == ("vllm/vllm-openai:v0.24.0", "--model", "m", "-pp", "8")
    assert launch.image == "vllm/vllm-openai:v0.24.0"
    assert launch.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}


def test_secrets_never_enter_the_launch():
    secret = "sk-live0123456789abcdefABCDEF"
    launch = read_launch(
        f"HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz VLLM_API_KEY={secret} vllm serve m --api-key {secret} -pp 8"
    )
    assert secret not in repr(launch)
    assert "hf_abc" not in repr(launch)
    assert launch.argv[-2:] == ("-pp", "8")


def test_options_and_variables_point_to_their_line(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(
        "#!/bin/bash\nset -e\nexport CUDA_VISIBLE_DEVICES=0\n\n"
        "python -m sglang.launch_server \\\n  --pp-size 8 \\\n  --disable-cuda-graph\n"
    )
    launch = read_launch(str(script))
    assert launch.where == f"{script}:5"
    assert launch.places["--pp-size"] == f"{script}:6"
    assert launch.places["--disable-cuda-graph"] == f"{script}:7"
    assert launch.places["CUDA_VISIBLE_DEVICES"] == f"{script}:3"


def test_the_raw_command_line_of_a_process_is_read(tmp_path):
    raw = tmp_path / "cmdline"
    raw.write_bytes(b"python\0-m\0sglang.launch_server\0--model\0a b\0--tp\x008\0")
    assert read_launch(str(raw)).argv == ("python", "-m", "sglang.launch_server", "--model", "a b", "--tp", "8")


def test_standard_input_is_read_for_a_dash():
    launch = read_launch("-", io.BytesIO(b"vllm serve m -pp 8\n"))
    assert launch.argv == ("vllm", "serve", "m", "-pp", "8")
    assert launch.where == "standard input"


def test_a_unit_file_is_recognised(tmp_path):
    unit = tmp_path / "k26.service"
    unit.write_text("[Unit]\n[Service]\nExecStart=/usr/bin/vllm serve m -pp 8\n")
    assert read_launch(str(unit)).where == f"{unit}:3"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("run.sh", "no file named 'run.sh'"),
        ("vllm serve 'm -pp 8", "command:1: the quote '"),
        ('vllm serve \\\n m "', 'command:2: the quote "'),
        ("# only a comment", "no command in it"),
        ("vllm serve $(cat", "command:1"),
    ],
)
def test_what_cannot_be_a_command_is_refused(value, told):
    with pytest.raises(UsageError) as caught:
        read_launch(value)
    assert told in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"  \n", b"\x80\x81\xfe\xff" * 50, b"\x7fELF\x02\x01\x01\0\0"])
def test_a_file_without_a_command_in_it_is_refused(tmp_path, content):
    path = tmp_path / "launch"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_launch(str(path))
    assert str(path) in str(caught.value)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is a folder"):
        read_launch(str(tmp_path))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs", "Cc"]))))
def test_quoted_words_survive(words):
    argv = ("server", "--option", *words)
    read = read_launch(shlex.join(argv))
    assert len(read.argv) == len(argv)
    assert [word for word in read.argv if "<redacted>" not in word] == [
        word for word, seen in zip(argv, read.argv, strict=True) if "<redacted>" not in seen
    ]


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(UsageError):
        assert read_launch(f"{text} x").argv
