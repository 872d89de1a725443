import pytest

from bubblewatch.model.logs import CommKind, CommNote
from bubblewatch.model.server import SettingValue
from bubblewatch.model.telemetry import DeviceLink
from bubblewatch.servers.base import Facts
from tests.support.facts import causes, gpu, line

SLOT = {"pcie_gen_max": 5, "pcie_width_max": 16}


def test_the_narrowest_link_is_named() -> None:
    found = causes(gpus=[gpu(0, info=SLOT, pcie_width=16, pcie_gen=5), gpu(1, info=SLOT, pcie_width=4, pcie_gen=5)])
    assert found.number("pcie.width_ratio") == 0.25
    evidence = found.known["pcie.width_ratio"].evidence[0]
    assert (evidence.where, evidence.text) == ("GPU 1", "PCIe x4 of x16")


def test_a_generation_counts_at_its_highest() -> None:
    card = gpu(0, info=SLOT, pcie_gen=5)
    idle = gpu(1, info=SLOT, pcie_gen=1)
    assert causes(gpus=[card]).number("pcie.gen_ratio") == 1.0
    assert causes(gpus=[card, idle]).number("pcie.gen_ratio") == 0.2
    assert "pcie.width_ratio" in causes(gpus=[card]).missing


def test_nvlink_must_join_every_pair() -> None:
    cards = [gpu(0), gpu(1), gpu(2)]
    near = DeviceLink("GPU0", "GPU1", "NV18")
    assert causes(gpus=cards[:2], links=[near]).value("links.nvlink") is True
    found = causes(gpus=cards, links=[near, DeviceLink("GPU0", "GPU2", "SYS")])
    assert found.value("links.nvlink") is False
    assert found.known["links.nvlink"].evidence[0].text == "GPU0 - GPU2: SYS"
    assert "links.nvlink" in causes(gpus=cards).missing


@pytest.mark.parametrize(
    ("name", "value", "off"),
    [
        ("NCCL_P2P_DISABLE", 1, True),
        ("NCCL_P2P_DISABLE", "1", True),
        ("NCCL_P2P_DISABLE", 0, False),
        ("NCCL_P2P_LEVEL", "LOC", True),
    ],
)
def test_a_variable_switches_peer_access_off(name: str, value: SettingValue, off: bool) -> None:
    assert causes(settings={name: value}, env={name: str(value)}).value("comm.p2p_off") is off


def test_without_environment_and_lines_nothing_is_known() -> None:
    found = causes(env=None)
    assert {"comm.p2p_off", "comm.sockets", "comm.custom_allreduce_off"} <= set(found.missing)


def test_a_line_says_what_nccl_uses() -> None:
    shm = CommNote(line("via SHM"), kind=CommKind.VIA_SHM)
    assert causes(shm).value("comm.p2p_off") is True
    assert causes(CommNote(line(), kind=CommKind.VIA_SOCKET)).value("comm.sockets") is True
    assert causes(CommNote(line(), kind=CommKind.VIA_RDMA)).value("comm.sockets") is False
    assert causes(CommNote(line(), kind=CommKind.CUSTOM_ALL_REDUCE_OFF)).value("comm.custom_allreduce_off") is True


@pytest.mark.parametrize(
    ("facts", "gpus", "crosses"),
    [
        (Facts(pp=1, tp=16, dp=1, nodes=2), 0, True),
        (Facts(pp=2, tp=8, dp=1, nodes=2), 0, False),
        (Facts(pp=1, tp=16, dp=1), 0, True),
        (Facts(pp=1, tp=16, dp=1), 16, False),
        (Facts(pp=1, tp=8, dp=1), 0, False),
        (Facts(), 0, None),
    ],
)
def test_tensor_ranks_cross_hosts_where_one_has_too_few_gpus(facts: Facts, gpus: int, crosses: bool | None) -> None:
    assert causes(facts=facts, gpus=[gpu(i) for i in range(gpus)]).value("comm.crosses_hosts") is crosses
