from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.diagnose.change import holds_option, launch_diff
from bubblewatch.model.server import Launch, Origin, Server, Setting, Settings, SettingValue

ARGV = (
    *("python", "-m", "sglang.launch_server", "--model-path", "/models/k26", "--pp-size", "8"),
    *("--disable-cuda-graph", "--max-running-requests", "64"),
)


def server(
    *argv: str,
    places: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    where: str = "pid 48121",
    **settings: SettingValue,
) -> Server:
    read = {name: Setting(name, value, Origin.ARGV, name) for name, value in settings.items()}
    launch = Launch(argv, env=env, where=where, places=places or {})
    return Server("sglang", "k26", launch=launch, settings=Settings(read))


def test_an_option_is_taken_out_of_the_line_of_the_unit_file_that_sets_it() -> None:
    running = server(*ARGV, places={"--disable-cuda-graph": "k26.service:14"}, disable_cuda_graph=True)
    assert launch_diff(running, ["--disable-cuda-graph"], []) == (
        "@ k26.service:14",
        "  --pp-size 8",
        "- --disable-cuda-graph",
        "  --max-running-requests 64",
    )


def test_an_option_is_put_in_at_the_end() -> None:
    assert launch_diff(server(*ARGV), [], ["--pp-async-batch-depth 1"]) == (
        "@ pid 48121",
        "  --max-running-requests 64",
        "+ --pp-async-batch-depth 1",
    )


def test_an_option_that_is_there_gets_its_new_value() -> None:
    assert launch_diff(server(*ARGV), [], ["--max-running-requests 128"])[-2:] == (
        "- --max-running-requests 64",
        "+ --max-running-requests 128",
    )


def test_a_value_goes_with_its_option_and_a_positional_word_stays() -> None:
    assert "- --cpu-offload-gb 35" in launch_diff(server("x", "--cpu-offload-gb", "35"), ["--cpu-offload-gb"], [])
    running = server("vllm", "serve", "--enforce-eager", "/models/k26", enforce_eager=True)
    assert launch_diff(running, ["--enforce-eager"], []) == (
        "@ pid 48121",
        "  vllm serve",
        "- --enforce-eager",
        "  /models/k26",
    )


def test_an_equals_sign_an_abbreviation_and_underscores_are_the_same_option() -> None:
    assert "- --cpu-offload-gb=35" in launch_diff(server("x", "--cpu-offload-gb=35"), ["--cpu-offload-gb"], [])
    assert "- --disable-cuda-g" in launch_diff(server("x", "--disable-cuda-g"), ["--disable-cuda-graph"], [])
    assert "- --enforce_eager" in launch_diff(server("x", "--enforce_eager"), ["--enforce-eager"], [])
    assert launch_diff(server("x", "--d"), ["--disable-cuda-graph"], []) == ()


def test_an_abbreviation_of_another_option_is_left_alone() -> None:
    """`--pp 8` begins like `--pp-async-batch-depth` and means `--pp-size`, as the server read it."""
    read = {"pp_size": Setting("pp_size", 8, Origin.ARGV, "--pp 8")}
    running = dataclasses.replace(server("x", "--pp", "8"), settings=Settings(read))
    assert launch_diff(running, [], ["--pp-async-batch-depth 1"])[-2:] == ("  --pp 8", "+ --pp-async-batch-depth 1")
    assert not holds_option(running, "--pp-async-batch-depth 1")


def test_what_a_shell_gets_in_one_word_is_taken_apart() -> None:
    running = server("bash", "-c", "exec vllm serve m --enforce-eager --max-num-seqs 8", enforce_eager=True)
    assert "- --enforce-eager" in launch_diff(running, ["--enforce-eager"], [])


def test_a_variable_is_an_option_of_the_environment() -> None:
    running = server("x", "--tp", "2", env={"NCCL_P2P_DISABLE": "1"}, places={"NCCL_P2P_DISABLE": "k26.service:4"})
    assert launch_diff(running, ["NCCL_P2P_DISABLE=1"], []) == ("@ k26.service:4", "- NCCL_P2P_DISABLE=1", "  x")


def test_two_places_far_apart_are_shown_apart() -> None:
    argv = ("x", "--a", "1", "--b", "2", "--c", "3", "--d", "4", "--e", "5")
    found = launch_diff(server(*argv, places={"--a": "f:1", "--e": "f:9"}), ["--a 1", "--e 5"], [])
    assert found == ("@ f:1", "  x", "- --a 1", "  --b 2", "@ f:9", "  --d 4", "- --e 5")


def test_nothing_is_shown_where_nothing_is_known_or_would_change() -> None:
    assert launch_diff(None, ["--x"], ["--y"]) == ()
    assert launch_diff(server(), ["--x"], ["--y"]) == ()
    assert launch_diff(server(*ARGV), [], []) == ()
    assert launch_diff(server(*ARGV), ["--not-there"], []) == ()


def test_a_command_holds_an_option_by_name_abbreviation_or_variable() -> None:
    running = server("x", "--disable-cuda-g", env={"A": "1"})
    assert holds_option(running, "--disable-cuda-graph")
    assert holds_option(running, "A=1")
    assert not holds_option(running, "--enforce-eager")
    assert holds_option(server(), "--enforce-eager")


words = st.text(st.sampled_from("-ab =1'\"\n"), min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=8), st.lists(words, max_size=3), st.lists(words, max_size=3))
def test_any_command_gives_whole_marked_lines(argv: list[str], remove: list[str], add: list[str]) -> None:
    remove, add = ([text for text in texts if text.split()] for texts in (remove, add))
    for line in launch_diff(server(*argv), remove, add):
        assert line[:2] in ("@ ", "  ", "- ", "+ ")
