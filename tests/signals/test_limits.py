import pytest

from bubblewatch.model.logs import Offload, PoolSized
from bubblewatch.servers.base import Facts
from tests.support.facts import causes, decode, gpu, line, prefill, totals


def test_a_pool_is_full_by_the_lines_of_any_kind() -> None:
    full = causes(
        totals(247, 740, kv_usage_ratio=0.997), totals(233, 754, kv_usage_ratio=0.997), prefill(3, kv_usage_ratio=0.5)
    )
    assert full.number("kv.full_ratio") == pytest.approx(2 / 3)
    assert "kv.full_ratio" in causes(totals(1, 0)).missing


def test_a_line_of_prefill_counts_those_that_wait() -> None:
    """Hundreds wait and only a prefill line says so: it is the newest word on the queue."""
    found = causes(prefill(370, queued=646, kv_usage_ratio=0.19), known={"demand.running": 399})
    assert found.value("queue.seen") == 646
    assert found.known["queue.seen"].evidence[0].text == "Prefill batch"


def test_a_count_that_was_stated_is_not_lowered_by_a_line() -> None:
    assert causes(totals(2, 5), known={"demand.queued": 20}).value("queue.seen") == 20
    assert causes(totals(2, 50), known={"demand.queued": 20}).value("queue.seen") == 50


def test_fewer_that_run_and_more_that_wait_line_after_line_are_thrown_out() -> None:
    falling = causes(totals(247, 740), totals(233, 754), totals(219, 768))
    assert falling.value("queue.displacing") is True
    assert "running 247 -> 219 while waiting 740 -> 768" in falling.known["queue.displacing"].evidence[0].text


@pytest.mark.parametrize(
    "pairs",
    [
        [(51, 0), (51, 0), (51, 0)],
        [(200, 5), (150, 3), (100, 1)],  # a queue that is worked off
        [(1, 0), (1, 0), (0, 1)],  # nothing runs any more: that is no batch that shrinks
        [(247, 740), (260, 735), (219, 768)],
    ],
)
def test_other_trends_are_none(pairs: list[tuple[int, int]]) -> None:
    assert causes(*(totals(*pair) for pair in pairs)).value("queue.displacing") is False


def test_two_lines_are_no_trend() -> None:
    assert "queue.displacing" in causes(totals(247, 740), totals(233, 754)).missing


def test_engines_have_trends_of_their_own() -> None:
    lines = [totals(r, w, engine=e) for r, w in ((9, 1), (8, 2), (7, 3)) for e in ("000",)]
    steady = [totals(5, 0, engine="001") for _ in range(3)]
    mixed = [line for pair in zip(steady, lines, strict=True) for line in pair]
    assert causes(*mixed).value("queue.displacing") is True


def test_the_limit_is_that_of_all_replicas() -> None:
    facts = Facts(pp=1, tp=1, dp=8, max_running=512)
    found = causes(facts=facts, known={"demand.running": 256, "limits.max_running": 64})
    assert found.number("limits.used_ratio") == pytest.approx(0.5)


def test_memory_in_use_is_that_of_the_fullest_card_and_the_middle_one() -> None:
    cards = [gpu(i, info={"memory_total_bytes": 100}, memory_used_bytes=used) for i, used in enumerate((40, 60, 90))]
    found = causes(gpus=cards)
    assert found.number("memory.used_ratio") == pytest.approx(0.6)
    assert found.number("memory.free_ratio") == pytest.approx(0.1)


def test_memory_that_one_card_does_not_tell_is_missing() -> None:
    cards = [gpu(0, info={"memory_total_bytes": 100}, memory_used_bytes=40), gpu(1, info={"memory_total_bytes": 100})]
    assert "memory.free_ratio" in causes(gpus=cards).missing


def test_layers_on_gpus_by_the_lines() -> None:
    assert causes(Offload(line(), layers=30, of_layers=81)).number("offload.gpu_layers_ratio") == pytest.approx(30 / 81)
    assert causes(Offload(line(), layers=33, of_layers=33)).number("offload.gpu_layers_ratio") == 1.0
    assert "offload.gpu_layers_ratio" in causes(decode(1)).missing


def test_the_pool_is_as_the_start_up_line_says() -> None:
    assert causes(PoolSized(line(), max_total_tokens=162_704)).value("kv.tokens") == 162_704
