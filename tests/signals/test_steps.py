import pytest

from bubblewatch.model.logs import Compiling, Ready, StepTimes
from bubblewatch.servers.base import Facts
from tests.support.facts import causes, decode, line, prefill, totals


def test_prefill_steps_print_a_line_each_and_decode_steps_one_in_forty() -> None:
    """26 prefill steps beside one decode line of 40 steps are 39 % of the steps."""
    found = causes(*(prefill(18) for _ in range(26)), decode(18))
    assert found.number("prefill.step_ratio") == pytest.approx(26 / 66)
    assert found.number("prefill.blocking_ratio") == 1.0


def test_steps_before_the_first_decode_line_are_not_in_the_log() -> None:
    """Two decode lines span one interval of 40 steps, whatever came before the first of them."""
    found = causes(*(prefill(18) for _ in range(9)), decode(18), *(prefill(18) for _ in range(20)), decode(18))
    assert found.number("prefill.step_ratio") == pytest.approx(20 / 60)
    assert causes(decode(18), *(prefill(18) for _ in range(10))).number("prefill.step_ratio") == pytest.approx(10 / 50)


def test_the_interval_of_the_launch_counts() -> None:
    facts = Facts(pp=1, tp=1, dp=1, decode_log_interval=10)
    found = causes(*(prefill(18) for _ in range(10)), decode(18), facts=facts)
    assert found.number("prefill.step_ratio") == pytest.approx(0.5)


def test_prefill_before_anything_runs_lets_nobody_wait() -> None:
    found = causes(*(prefill(0) for _ in range(12)), decode(12))
    assert found.number("prefill.blocking_ratio") == 0.0


def test_few_lines_say_nothing_about_the_mix() -> None:
    assert "prefill.step_ratio" in causes(prefill(1), decode(1)).missing
    assert "prefill.step_ratio" in causes(*(prefill(1) for _ in range(20))).missing


def test_the_mix_of_tokens_is_that_of_the_rates() -> None:
    found = causes(*(totals(6, 90, prompt_tps=9800.0, gen_tps=200.0) for _ in range(3)))
    assert found.number("prefill.token_ratio") == pytest.approx(0.98)
    assert "prefill.token_ratio" in causes(totals(6, 90, prompt_tps=9800.0, gen_tps=200.0)).missing


def test_a_decode_step_holds_what_its_line_says_or_what_a_replica_runs() -> None:
    assert causes(decode(67), decode(67)).number("graphs.running_batch") == 67
    facts = Facts(pp=1, tp=1, dp=8)
    assert causes(facts=facts, known={"demand.running": 512}).number("graphs.running_batch") == 64
    piped = Facts(pp=8, tp=1, dp=1)
    assert causes(decode(8), facts=piped, known={"slots.batch": 8.0}).number("graphs.running_batch") == 8.0
    assert "graphs.running_batch" in causes(decode(8), facts=piped).missing


def test_the_batch_above_which_graphs_end_shows_in_the_lines() -> None:
    lines = [decode(n, cuda_graph=n <= 160) for n in (120, 160, 158, 161, 200, 220)]
    found = causes(*lines)
    assert found.value("graphs.eager_above") == 160
    assert found.known["graphs.eager_above"].evidence[0].text == '"cuda graph: True" up to 160 running, False from 161'


@pytest.mark.parametrize(
    "lines",
    [
        [(100, True), (120, True), (130, True)],
        [(100, False), (120, False), (130, False)],
        [(100, True), (120, False), (130, True), (140, False)],  # both kinds at the same sizes
        [(100, True), (120, True), (130, False)],  # one stray step
    ],
)
def test_no_ceiling_is_seen_without_a_clean_change(lines: list[tuple[int, bool]]) -> None:
    assert "graphs.eager_above" in causes(*(decode(n, cuda_graph=graph) for n, graph in lines)).missing


def test_compiling_counts_after_the_server_was_ready() -> None:
    start, later = Compiling(line(), what="tuning"), Compiling(line(), what="nvrtc")
    assert causes(start, Ready(line()), later).value("compile.stalls") == 1
    assert causes(start, Compiling(line(), serving=True)).value("compile.stalls") == 1
    assert causes(start, Ready(line())).value("compile.stalls") == 0
    assert "compile.stalls" in causes().missing


def test_the_servers_own_step_times_compare_host_and_device() -> None:
    steps = [StepTimes(line(), host_s=0.024, device_s=0.010, scheduled=8) for _ in range(6)]
    idle = StepTimes(line(), host_s=5.0, device_s=5.0, scheduled=0)
    assert causes(*steps, idle).number("host.step_ratio") == pytest.approx(2.4)
    assert "host.step_ratio" in causes(*steps[:3]).missing
    assert "processes was not read" in causes().missing["host.engine_cpu_ratio"]
