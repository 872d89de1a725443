import pytest

from bubblewatch.model.logs import SpecDecode
from bubblewatch.servers.base import NO_SPECULATION, Facts
from tests.support.facts import causes, decode, line


def test_ranks_that_accept_differently_are_told_apart() -> None:
    found = causes(decode(8, dp=5, accept_len=3.64), decode(8, dp=6, accept_len=3.62), decode(8, dp=1, accept_len=1.55))
    assert found.number("spec.accept_low") == 1.55
    assert found.number("spec.accept_high") == 3.64
    assert found.number("spec.accept_len") == 3.62
    assert (found.number("spec.tokens") or 0) > 1000


def test_earlier_lines_are_a_yardstick_for_the_ranks_of_now() -> None:
    found = causes(decode(8, 0.0, dp=1, accept_len=1.55), decode(8, 2000.0, dp=5, accept_len=3.64))
    assert found.number("spec.accept_len") == 3.64
    assert found.number("spec.accept_low") == 1.55


def test_speculation_that_switched_itself_off_at_a_large_batch_is_not_broken() -> None:
    off = [decode(120, accept_len=1.0, cuda_graph=False) for _ in range(3)]
    assert "spec.accept_len" in causes(*off).missing
    assert causes(*off, decode(8, accept_len=2.8, cuda_graph=True)).number("spec.accept_len") == 2.8


def test_reports_weigh_by_what_was_drafted() -> None:
    reports = [
        SpecDecode(line(), accept_len=4.0, drafted_tokens=3),
        SpecDecode(line(), accept_len=1.2, drafted_tokens=2997),
    ]
    found = causes(*reports)
    assert found.number("spec.accept_len") == pytest.approx(1.2028)
    assert found.value("spec.tokens") == 3000
    assert "all ranks together" in found.missing["spec.accept_low"]


def test_a_total_speaks_for_itself() -> None:
    found = causes(
        SpecDecode(line(), accept_len=3.0, drafted_tokens=100, total=True),
        SpecDecode(line(), accept_len=2.0, drafted_tokens=5000, total=True),
    )
    assert (found.number("spec.accept_len"), found.value("spec.tokens")) == (2.0, 5000)


@pytest.mark.parametrize(("stated", "on"), [("EAGLE", True), (NO_SPECULATION, False), (None, None)])
def test_the_launch_says_whether_it_is_on(stated: str | None, on: bool | None) -> None:
    assert causes(facts=Facts(pp=1, tp=1, dp=1, speculative=stated)).value("spec.enabled") is on
