import pytest

from bubblewatch.model.logs import Note, NoteKind
from bubblewatch.model.server import Origin, Setting
from bubblewatch.servers.base import Facts, LayerRule, LayerSplit
from tests.support.facts import causes, decode, line


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8.0),
        ("/models/Qwen3-30B-A3B", 30.0),
        ("Qwen/Qwen2.5-0.5B", 0.5),
        ("facebook/opt-125m", 0.125),
        ("deepseek-ai/DeepSeek-V3.1", None),
        ("/models/7B-tests/kimi-k2", None),
    ],
)
def test_the_size_of_a_model_by_its_name(model: str, size: float | None) -> None:
    assert causes(settings={"model_path": model}).number("model.params_b") == size


@pytest.mark.parametrize(
    ("setting", "off"),
    [
        (Setting("disable_overlap_schedule", True, Origin.ARGV), True),
        (Setting("disable_overlap_schedule", False, Origin.DEFAULT), False),
        (Setting("async_scheduling", False, Origin.ARGV), True),
        (Setting("async_scheduling", False, Origin.DEFAULT), False),
        (Setting("async_scheduling", True, Origin.ARGV), False),
        (None, None),
    ],
)
def test_overlap_is_switched_off_only_by_somebody(setting: Setting | None, off: bool | None) -> None:
    assert causes(facts=Facts(overlap_setting=setting)).value("overlap.asked_off") is off


@pytest.mark.parametrize(
    ("rule", "ratio"), [(LayerRule.LAST_TAKES_REST, 12 * 8 / 61), (LayerRule.LAST_TAKE_ONE_MORE, 8 * 8 / 61)]
)
def test_sixty_one_layers_over_eight_stages(rule: LayerRule, ratio: float) -> None:
    facts = Facts(pp=8, tp=1, dp=1, layer_split=LayerSplit(rule))
    found = causes(facts=facts, known={"layers.count": 61})
    assert found.number("layers.split_ratio") == pytest.approx(ratio)


def test_layers_that_divide_are_even_under_any_rule() -> None:
    assert causes(facts=Facts(pp=8, tp=1, dp=1), known={"layers.count": 64}).number("layers.split_ratio") == 1.0
    assert "layers.split_ratio" in causes(facts=Facts(pp=8, tp=1, dp=1), known={"layers.count": 61}).missing
    assert (
        "no pipeline" in causes(facts=Facts(pp=1, tp=8, dp=1), known={"layers.count": 61}).missing["layers.split_ratio"]
    )


def test_a_server_that_was_told_to_be_silent() -> None:
    assert causes(settings={"disable_log_stats": True}).value("log.stats_off") is True
    assert causes(settings={"log_level": "error"}).value("log.stats_off") is True
    assert causes(settings={"log_level": "info"}).value("log.stats_off") is False
    assert "log.stats_off" in causes().missing


def test_the_servers_own_words_on_its_kernels() -> None:
    slow = Note(line("Using default MoE config. Performance might be sub-optimal!"), kind=NoteKind.SLOW_KERNELS)
    assert causes(slow).value("kernels.slow") is True
    assert causes(decode(1)).value("kernels.slow") is False
    assert "kernels.slow" in causes().missing


def test_weights_on_the_host_and_the_share_of_memory_as_set() -> None:
    found = causes(facts=Facts(cpu_offload=True, cpu_offload_gib=35.0, gpu_memory_ratio=0.6))
    assert found.value("offload.enabled") is True
    assert found.number("offload.cpu_gb") == pytest.approx(37.58, abs=0.01)
    assert found.number("memory.granted_ratio") == 0.6


def test_a_version_that_is_newer_than_any_known_is_said() -> None:
    newer = causes(facts=Facts(newer_than_known=True))
    assert newer.value("server.newer_than_known") is True
    assert "newer than any known here" in newer.known["server.newer_than_known"].evidence[0].text
