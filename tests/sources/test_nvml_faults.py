"""What real drivers and machines do to a reader of NVML, each played by the stand-in. The cases are users' reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import AccessDenied, SourceError, SourceUnavailable
from bubblewatch.sources.nvml import SAMPLES_ROOM
from bubblewatch.sources.nvml_choose import MIG_NOTE, MigInstance, choose
from bubblewatch.sources.nvml_identity import FORGETFUL, NO_OWN_MEMORY, SMOOTHED
from bubblewatch.sources.nvml_surroundings import Surroundings
from tests.nvml_shim.rig import Rig
from tests.nvml_shim.shim import control, uuid_of

EPOCH_US = 1_000_000_000


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    rig.close()


def samples(*utils: float, from_us: int = EPOCH_US) -> list[tuple[int, float, float]]:
    """One reading each 200 ms, memory utilization half of it."""
    return [(from_us + at * 200_000, util, util / 2) for at, util in enumerate(utils)]


# The driver's own samples of utilization


def test_the_drivers_samples_come_once_each_in_order(rig: Rig) -> None:
    device = rig.device()
    rig.feed.samples(0, samples(0.1, 0.2, 0.3))
    first = device.read_samples()
    rig.feed.samples(0, samples(0.1, 0.2, 0.3, 0.4, 0.5))

    second = device.read_samples()

    assert first["util_ratio"] == ((EPOCH_US + 400_000, 0.3),)  # what lies before the start is nobody's
    assert second["util_ratio"] == ((EPOCH_US + 600_000, 0.4), (EPOCH_US + 800_000, 0.5))
    assert [value for _, value in second["mem_util_ratio"]] == [0.2, 0.25]
    assert device.read_samples() == {}


def test_samples_out_of_order_above_100_percent_or_of_no_time_are_dropped_and_counted(rig: Rig) -> None:
    """Syllo/nvtop#110: hundreds of percent, and a hundred stale samples; polarsignals/gpu-metrics-agent: time 0."""
    device = rig.device()
    rig.feed.samples(0, samples(0.1))
    device.read_samples()
    good = samples(0.2, 0.3, from_us=EPOCH_US + 200_000)
    nonsense = [(0, 0.9, 0.9), (5, 0.9, 0.9), (EPOCH_US + 900_000, 7.77, 7.77)]
    rig.feed.samples(0, [good[1], *nonsense, good[0]])

    drained = device.read_samples()

    assert drained["util_ratio"] == ((EPOCH_US + 200_000, 0.2), (EPOCH_US + 400_000, 0.3))
    assert rig.meter.rejected == 6


def test_an_idle_gpu_has_no_samples_and_that_is_no_error(rig: Rig) -> None:
    """autowarefoundation/autoware_universe#11285: NOT_FOUND while idle, logged every second."""
    device = rig.device()

    assert [device.read_samples() for _ in range(3)] == [{}, {}, {}]
    assert "util_ratio" not in device.unsupported
    assert device.read_util()["util_ratio"] == 0.0


def test_samples_of_a_driver_whose_clock_was_set_back_are_taken_again(rig: Rig) -> None:
    device = rig.device()
    rig.feed.samples(0, samples(0.1, from_us=2 * EPOCH_US))
    device.read_samples()
    rig.feed.samples(0, samples(0.2, 0.3))

    drained = [device.read_samples() for _ in range(11)]

    assert [value for _, value in drained[-1]["util_ratio"]] == [0.3]


def test_a_driver_without_sample_rings_is_asked_for_them_once(rig: Rig) -> None:
    device = rig.device("error nvmlDeviceGetSamples 3\n")

    assert [device.read_samples() for _ in range(3)] == [{}, {}, {}]
    assert sum(function == "nvmlDeviceGetSamples" for function, _ in rig.meter.calls) == 1


def test_a_full_ring_fits(rig: Rig) -> None:
    device = rig.device()
    rig.feed.samples(0, samples(*[0.5] * SAMPLES_ROOM))

    assert device.read_samples()["util_ratio"] == ((EPOCH_US + (SAMPLES_ROOM - 1) * 200_000, 0.5),)


# Devices


def test_a_gpu_with_unified_memory_says_so_and_is_read(rig: Rig) -> None:
    """Syllo/nvtop#449, wookayin/gpustat#179, lablup/all-smi#80: GB10 tells no memory."""
    rig.feed.set(0, memory_total_bytes=math.nan, memory_used_bytes=math.nan, power_average_w=math.nan)
    device = rig.device()

    values = device.read_slow()

    assert device.info.memory_total_bytes is None
    assert NO_OWN_MEMORY in device.notes
    assert "memory_used_bytes" not in values
    assert device.read_fast()["power_instant_w"] == 85.0


def test_a_discrete_card_whose_memory_cannot_be_read_is_not_taken_for_unified(rig: Rig) -> None:
    device = rig.device("error nvmlDeviceGetMemoryInfo_v2 999\n")

    assert NO_OWN_MEMORY not in device.notes
    assert device.info.memory_total_bytes is None
    assert math.isnan(device.read_slow()["memory_used_bytes"])


def test_the_parts_of_a_divided_gpu_are_found_and_their_utilization_is_unknown_not_zero(rig: Rig) -> None:
    """dask/distributed#8739 (drawn as 0), NVIDIA/gpu-monitoring-tools#152 (9.2e18 %)."""
    rig.feed.set(0, sm_active_ratio=0.4)
    whole, first, second, other, _ = choose(rig.nvml("mig 0 2\n")).devices
    for device in (whole, first, second):
        device.read_slow()

    assert (whole.info.is_mig, first.info.is_mig, second.info.is_mig, other.info.is_mig) == (False, True, True, False)
    assert MIG_NOTE in whole.notes
    assert whole.read_util() == {}
    assert "util_ratio" in whole.unsupported
    assert whole.read_fast()["power_instant_w"] == 85.0
    assert isinstance(first, MigInstance)
    assert first.info.uuid.startswith("MIG-")
    assert (first.info.index, first.info.memory_total_bytes) == (0, 48 * 2**30)
    assert first.read_slow() == {"memory_used_bytes": 35.0 * 2**30, "sm_active_ratio": 0.4}
    assert (first.read_fast(), first.read_util(), first.read_samples()) == ({}, {}, {})
    assert "util_ratio" in first.unsupported


def test_one_part_can_be_chosen_and_comes_with_the_gpu_that_tells_its_power(rig: Rig) -> None:
    nvml = rig.nvml("mig 1 3\n")
    name = next(one.info.uuid for one in choose(nvml).devices if one.info.is_mig)

    chosen = choose(nvml, only=[name]).devices

    assert [(one.info.index, one.info.is_mig) for one in chosen] == [(1, False), (1, True)]
    assert chosen[1].info.uuid == name


def test_utilization_blanks_are_unknown(rig: Rig) -> None:
    rig.feed.set(0, util_ratio=-1.0)

    assert math.isnan(rig.device().read_util()["util_ratio"])


def test_an_energy_blank_is_unknown(rig: Rig) -> None:
    rig.feed.set(0, energy_j=-1.0)

    assert math.isnan(rig.device().read_fast()["energy_j"])


def test_persistence_off_and_power_smoothing_are_noted(rig: Rig) -> None:
    """wookayin/gpustat#54: 80 % CPU with persistence off."""
    rig.feed.set(0, persistence=0.0, power_smoothing=1.0)
    first, second, _ = choose(rig.nvml()).devices

    assert {FORGETFUL, SMOOTHED} <= set(first.notes)
    assert (first.info.persistence, second.info.persistence) == (False, True)
    assert (first.info.power_smoothing, second.info.power_smoothing) == (True, None)
    assert second.notes == []


# Failures


def test_a_gpu_of_which_nothing_can_be_read_fails_as_a_whole(rig: Rig) -> None:
    first, second, _ = choose(rig.nvml()).devices
    control(rig.control, "error * 999 0\n")

    with pytest.raises(SourceError, match="Unknown Error"):
        first.read_fast()
    assert second.read_fast()["power_instant_w"] == 85.0


def test_counters_that_another_profiler_took_are_asked_for_again(rig: Rig) -> None:
    device = rig.device()
    device.read_slow()
    device.read_slow()
    control(rig.control, "error nvmlGpmSampleGet 4\n")
    taken = device.read_slow()
    control(rig.control, "")
    device.read_slow()
    still_taken = "sm_active_ratio" in device.unsupported

    device.refresh()
    device.read_slow()

    assert "sm_active_ratio" not in taken
    assert still_taken
    assert device.read_slow()["sm_active_ratio"] == 0.0
    assert "sm_active_ratio" not in device.unsupported


def test_sm_activity_over_a_pause_is_no_reading(rig: Rig) -> None:
    device = rig.device()
    device.read_slow()
    device.want_activity(False)
    device.read_slow()
    device.want_activity(True)

    assert "sm_active_ratio" not in device.read_slow()
    assert device.read_slow()["sm_active_ratio"] == 0.0


def test_the_very_same_answer_is_the_very_same_mapping(rig: Rig) -> None:
    device = rig.device()
    device.read_fast()
    before = device.read_fast()

    assert device.read_fast() is before
    rig.feed.set(0, power_instant_w=86.0)
    assert device.read_fast() is not before


# What the machine tells beside NVML


class Machine:
    """Files of a machine under a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.around = Surroundings(self.root)

    def file(self, path: str, text: str = "") -> Machine:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return self


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


MODULE = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder@U22-I3)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
MAPS = "7f1c5a200000-7f1c5a2c0000 r-xp 00000000 08:01 42 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.575.57.08\n"


def test_a_version_mismatch_names_both_versions(rig: Rig, machine: Machine) -> None:
    """wookayin/gpustat#147: a mismatch that printed nothing."""
    machine.file("proc/driver/nvidia/version", MODULE).file("proc/self/maps", MAPS)

    with pytest.raises(SourceUnavailable) as raised:
        rig.nvml(init_code=18, around=machine.around)

    assert "the kernel module is 570.133.20, the library 575.57.08" in raised.value.what
    assert "reboot" in str(raised.value.hint)


def test_versions_that_cannot_be_found_are_said_to_be_unknown(machine: Machine) -> None:
    assert machine.around.version_words() == "the kernel module is of unknown version, the library of unknown version"


@pytest.mark.parametrize("code", [999, 17])
def test_unknown_error_in_a_container_is_explained(rig: Rig, machine: Machine, code: int) -> None:
    """NVIDIA/nvidia-container-toolkit#48, #1227: after systemctl daemon-reload on the host."""
    machine.file(".dockerenv")

    with pytest.raises(AccessDenied, match="may not open /dev/nvidia") as raised:
        rig.nvml(init_code=code, around=machine.around)

    assert "restart the container" in str(raised.value.hint)


def test_unknown_error_elsewhere_is_left_as_it_is(rig: Rig, machine: Machine) -> None:
    with pytest.raises(SourceError, match="Unknown Error") as raised:
        rig.nvml(init_code=999, around=machine.around)

    assert not isinstance(raised.value, AccessDenied)


def test_a_container_is_known_by_its_root_file_system(machine: Machine) -> None:
    row = "1545 1510 0:300 / / rw,relatime master:450 - overlay overlay rw,lowerdir=/var/lib/containers\n"
    machine.file("proc/self/mountinfo", row)

    assert machine.around.is_container


def test_wsl_is_known(machine: Machine) -> None:
    """Syllo/nvtop#124."""
    machine.file("proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host)\n")

    assert machine.around.is_wsl


def test_gpus_on_the_bus_are_counted(machine: Machine) -> None:
    """NVIDIA/dcgm-exporter#348: a GPU off the bus is not visible."""
    for at, (vendor, kind) in enumerate(
        [("0x10de", "0x030200"), ("0x10de", "0x030000"), ("0x10de", "0x040300"), ("0x1002", "0x030000")]
    ):
        place = f"sys/bus/pci/devices/0000:{at:02x}:00.0"
        machine.file(f"{place}/vendor", f"{vendor}\n").file(f"{place}/class", f"{kind}\n")

    assert machine.around.gpus_on_bus() == 2


def test_processes_of_another_namespace_are_known(machine: Machine) -> None:
    """NVIDIA/nvidia-docker#1483, wookayin/gpustat#117."""
    machine.file("proc/42/stat")

    assert machine.around.all_foreign([4711, 4712])
    assert not machine.around.all_foreign([42, 4711])
    assert not machine.around.all_foreign([])


def test_an_empty_machine_tells_nothing(machine: Machine) -> None:
    around = machine.around

    assert (around.is_wsl, around.is_container, around.lost_its_devices, around.gpus_on_bus()) == (False,) * 3 + (0,)


@given(st.text(max_size=200))
def test_any_text_in_the_files_is_survived(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    for path in ("proc/driver/nvidia/version", "proc/self/maps", "proc/version", "proc/self/mountinfo"):
        machine.file(path, "")
        (machine.root / path).write_bytes(text.encode("utf-8", "surrogatepass"))

    assert machine.around.version_words().startswith("the kernel module is")
    assert machine.around.is_container in (True, False)


def test_every_uuid_is_its_own(rig: Rig) -> None:
    assert [one.info.uuid for one in choose(rig.nvml()).devices] == [uuid_of(at) for at in range(3)]
