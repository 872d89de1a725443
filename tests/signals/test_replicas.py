import pytest

from bubblewatch.servers.base import Facts
from tests.support.facts import causes, decode, totals

EIGHT = Facts(pp=1, tp=1, dp=8)
TWO = Facts(pp=1, tp=1, dp=2)


def test_the_fullest_of_all_replicas_over_an_even_share() -> None:
    found = causes(totals(30, 10, engine="000"), totals(10, 0, engine="001"), facts=TWO)
    assert found.number("dp.load_ratio") == pytest.approx(40 / 25)
    assert (found.value("dp.queue_max"), found.value("dp.queue_min")) == (10, 0)


def test_two_of_eight_that_spoke_are_compared_with_what_the_client_keeps_in_flight() -> None:
    lines = [totals(51, 117, engine="000"), totals(31, 108, engine="001")]
    assert causes(*lines, facts=EIGHT, concurrency=512).number("dp.load_ratio") == pytest.approx(168 * 8 / 512)
    alone = causes(*lines, facts=EIGHT)
    assert "2 of 8 replicas spoke" in alone.missing["dp.load_ratio"]
    assert alone.value("dp.seen") == 2


def test_only_the_newest_word_of_a_replica_counts() -> None:
    found = causes(totals(60, 0, engine="000"), totals(20, 0, engine="001"), totals(20, 0, engine="000"), facts=TWO)
    assert found.number("dp.load_ratio") == 1.0


def test_ranks_of_decode_lines_are_replicas_too() -> None:
    found = causes(decode(30, dp=0, queued=0), decode(10, dp=1, queued=0), facts=TWO)
    assert found.number("dp.load_ratio") == 1.5


@pytest.mark.parametrize("facts", [Facts(pp=1, tp=8, dp=1), Facts()])
def test_one_replica_has_nothing_to_be_uneven_with(facts: Facts) -> None:
    assert "dp.load_ratio" in causes(decode(30), facts=facts).missing
