import pytest

from bubblewatch.model.logs import Xid
from bubblewatch.servers.base import Facts
from tests.support.facts import causes, gpu, line

FOUR = Facts(pp=1, tp=4, dp=1)


def test_cards_that_the_launch_does_not_use() -> None:
    found = causes(gpus=[gpu(i) for i in range(8)], facts=FOUR)
    assert found.value("gpus.unassigned") == 4
    assert found.known["gpus.unassigned"].evidence[0].text == "8 GPUs here, 4 in the launch"


def test_a_launch_over_two_hosts_uses_its_share_of_each() -> None:
    both = Facts(pp=2, tp=8, dp=1, nodes=2)
    assert causes(gpus=[gpu(i) for i in range(8)], facts=both).value("gpus.unassigned") == 0


def test_cards_of_other_servers_and_cards_in_use_are_not_free() -> None:
    cards = [gpu(0), gpu(1), gpu(2, memory_used_bytes=40 << 30), gpu(3, memory_used_bytes=3 << 20)]
    found = causes(gpus=cards, assigned=[0], taken=[1], live=True)
    assert found.value("gpus.unassigned") == 1
    assert found.known["gpus.unassigned"].evidence[0].text == "no server holds GPU 3"


def test_which_cards_a_live_server_uses_must_be_known() -> None:
    assert "gpus.unassigned" in causes(gpus=[gpu(0)], live=True).missing
    assert "gpus.unassigned" in causes().missing


def test_what_a_loaded_card_draws_above_an_empty_one() -> None:
    found = causes(gpus=[gpu(0)], known={"power.median_w": 86.0})
    assert found.number("power.above_cold_w") == pytest.approx(46.0)
    unknown = causes(gpus=[gpu(0, info={"name": "Some GPU"})], known={"power.median_w": 86.0})
    assert "power.above_cold_w" in unknown.missing


def test_the_oldest_sensor_counts_and_only_when_it_is_read_live() -> None:
    stale = [gpu(0, util_ratio=1.0), gpu(1, samples=3, util_ratio=1.0)]
    assert causes(gpus=stale, live=True).number("sensor.age_s") == pytest.approx(10.0)
    assert "sensor.age_s" in causes(gpus=stale).missing


def test_persistence_mode_of_every_card() -> None:
    on, off = gpu(0, info={"persistence": True}), gpu(1, info={"persistence": False})
    assert causes(gpus=[on]).value("sensor.persistence_off") is False
    assert causes(gpus=[on, off]).value("sensor.persistence_off") is True
    assert "sensor.persistence_off" in causes(gpus=[on, gpu(2)]).missing


def test_the_first_error_of_a_chain_is_the_one_to_blame() -> None:
    follows = Xid(line("Xid 94"), code=94, bus="0000:02:00", cause=79)
    first = Xid(line("Xid 79"), code=79, bus="0000:01:00")
    found = causes(follows, first)
    assert found.value("xid.code") == 79
    assert found.value("xid.count") == 2
    assert found.value("gpus.lost") == 1


def test_a_programs_error_loses_no_card() -> None:
    assert causes(Xid(line(), code=31, bus="0000:01:00")).value("gpus.lost") == 0
    assert "gpus.lost" in causes().missing


def test_the_product_name_counts_where_all_cards_are_alike() -> None:
    assert causes(gpus=[gpu(0), gpu(1)]).value("gpus.model") == "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert "gpus.model" in causes(gpus=[gpu(0), gpu(1, info={"name": "NVIDIA H100"})]).missing
