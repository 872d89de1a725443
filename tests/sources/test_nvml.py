"""NVML through the real pynvml, over the compiled stand-in."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import (
    AccessDenied,
    BubblewatchError,
    NotSupported,
    SourceError,
    SourceLost,
    SourceUnavailable,
    UsageError,
)
from bubblewatch.model.telemetry import FIELDS
from bubblewatch.sources.nvml_batches import number, ratio
from bubblewatch.sources.nvml_choose import Chosen, choose
from bubblewatch.sources.nvml_device import Device
from tests.nvml_shim.rig import Rig
from tests.nvml_shim.shim import IDLE, NAME, UNKNOWN_MIB, calls_made, control, uuid_of


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    rig.close()


def read_all(device: Device) -> dict[str, float]:
    """Everything that a device gives. SM activity needs a second sample."""
    device.read_slow()
    return {**device.read_fast(), **device.read_util(), **device.read_slow()}


BUSY = {
    "power_instant_w": 412.25,
    "power_average_w": 398.5,
    "energy_j": 9_876_543_210.5,
    "util_ratio": 0.87,
    "mem_util_ratio": 0.41,
    "sm_active_ratio": 0.625,
    "sm_clock_mhz": 2415.0,
    "memory_used_bytes": 91.0 * 2**30,
    "temperature_c": 67.0,
    "event_reasons": float(0x4),
    "pcie_gen": 4.0,
    "pcie_width": 8.0,
    "pstate": 2.0,
}


def test_every_field_arrives_in_its_unit(rig: Rig) -> None:
    rig.feed.set(1, **BUSY)

    values = read_all(rig.device(gpu=1))

    assert values.keys() == FIELDS.keys()
    assert values == pytest.approx(BUSY)


def test_identity_holds_what_does_not_change(rig: Rig) -> None:
    info = rig.device(gpu=2).info

    assert (info.uuid, info.index, info.name) == (uuid_of(2), 2, NAME)
    assert (info.power_limit_w, info.power_default_limit_w) == (600.0, 600.0)
    assert info.memory_total_bytes == 96 * 2**30
    assert (info.sm_clock_max_mhz, info.pcie_gen_max, info.pcie_width_max) == (2430, 5, 16)
    assert info.pci_bus_id == "00000000:12:00.0"


def test_a_new_power_limit_is_seen_when_asked_for(rig: Rig) -> None:
    device = rig.device()
    rig.feed.set(0, power_limit_w=450.0)

    device.refresh()

    assert device.info.power_limit_w == 450.0
    assert device.info.power_default_limit_w == 600.0


def test_sensors_that_a_gpu_lacks_are_left_out_with_a_reason(rig: Rig) -> None:
    absent = {"sm_active_ratio", "power_average_w", "util_ratio", "temperature_c"}
    rig.feed.set(0, **dict.fromkeys(absent, math.nan))
    device = rig.device()

    values = read_all(device)

    assert not absent & values.keys()
    assert absent <= device.unsupported.keys()
    assert "Hopper" in device.unsupported["sm_active_ratio"]
    assert values["power_instant_w"] == 85.0


def test_a_sensor_that_a_gpu_lacks_is_asked_only_once(rig: Rig) -> None:
    rig.feed.set(0, util_ratio=math.nan)
    device = rig.device()

    for _ in range(5):
        device.read_util()

    assert calls_made(rig.calls)["nvmlDeviceGetUtilizationRates", 0] == 1


def test_identity_is_none_where_the_device_does_not_say(rig: Rig) -> None:
    rig.feed.set(0, power_limit_w=math.nan, power_default_limit_w=math.nan, pcie_gen_max=math.nan)

    info = rig.device().info

    assert (info.power_limit_w, info.power_default_limit_w, info.pcie_gen_max) == (None, None, None)


def test_old_driver_without_field_values_gives_power_and_energy_by_their_own_calls(rig: Rig) -> None:
    device = rig.device("error nvmlDeviceGetFieldValues 13\n")

    values = device.read_fast()

    assert values == {"power_average_w": pytest.approx(85.5), "energy_j": pytest.approx(1000.0)}
    assert "power_instant_w" in device.unsupported


def test_power_in_module_scope_only_is_read_and_said(rig: Rig) -> None:
    device = rig.device("module 0\n")

    assert device.read_fast()["power_instant_w"] == 85.0
    assert any("module" in note for note in device.notes)
    assert not choose(rig.nvml("module 0\n")).devices[1].notes


def test_memory_falls_back_to_the_older_call(rig: Rig) -> None:
    device = rig.device("error nvmlDeviceGetMemoryInfo_v2 13\n")

    assert device.read_slow()["memory_used_bytes"] == IDLE["memory_used_bytes"] + 512 * 2**20


def test_event_reasons_fall_back_to_the_older_name(rig: Rig) -> None:
    assert rig.device("error nvmlDeviceGetCurrentClocksEventReasons 13\n").read_slow()["event_reasons"] == 1.0


def test_a_failing_call_is_nan_and_is_asked_again(rig: Rig) -> None:
    device = rig.device()
    control(rig.control, "error nvmlDeviceGetUtilizationRates 999\nerror nvmlDeviceGetTemperature 999 0\n")

    failed = {**device.read_util(), **device.read_slow()}
    control(rig.control, "")

    assert math.isnan(failed["util_ratio"])
    assert math.isnan(failed["temperature_c"])
    assert failed["sm_clock_mhz"] == 2280.0
    assert device.read_util()["util_ratio"] == 0.0


def test_no_right_to_profile_loses_sm_activity_alone(rig: Rig) -> None:
    device = rig.device("error nvmlGpmSampleGet 4\n")

    values = read_all(device)

    assert values.keys() == FIELDS.keys() - {"sm_active_ratio"}
    assert "Permission" in device.unsupported["sm_active_ratio"]


def test_a_blank_power_is_nan(rig: Rig) -> None:
    device = rig.device()
    rig.feed.set(0, power_instant_w=-1.0)

    values = device.read_fast()

    assert math.isnan(values["power_instant_w"])
    assert values["power_average_w"] == 85.5


def test_utilization_above_100_percent_is_nan(rig: Rig) -> None:
    rig.feed.set(0, util_ratio=1.27, mem_util_ratio=0.5)

    values = rig.device().read_util()

    assert math.isnan(values["util_ratio"])
    assert values["mem_util_ratio"] == 0.5


def test_a_lost_gpu_says_so_and_the_others_go_on(rig: Rig) -> None:
    first, second, _ = choose(rig.nvml()).devices
    control(rig.control, "lost 0\n")

    with pytest.raises(SourceLost, match="GPU is lost"):
        first.read_fast()

    assert second.read_fast()["power_instant_w"] == 85.0


def test_a_gpu_lost_before_the_start_is_absent_and_the_others_open(rig: Rig) -> None:
    chosen = choose(rig.nvml("lost 1\n"))

    assert [device.info.index for device in chosen.devices] == [0, 2]
    assert chosen.absent.keys() == {"1"}
    assert isinstance(chosen.absent["1"], SourceLost)


def test_processes_with_their_memory(rig: Rig) -> None:
    rig.feed.processes(0, [(4711, 70_000), (4712, UNKNOWN_MIB)])
    device, idle, _ = choose(rig.nvml()).devices

    assert device.processes() == ((4711, 70_000 * 2**20), (4712, None))
    assert idle.processes() == ()


def test_the_process_list_is_no_part_of_the_readings(rig: Rig) -> None:
    read_all(rig.device())

    asked = {function for function, _ in calls_made(rig.calls)}
    assert not any("Process" in function or "PcieThroughput" in function for function in asked)


def test_one_fast_reading_is_one_call(rig: Rig) -> None:
    device = rig.device()
    before = calls_made(rig.calls)

    device.read_fast()

    assert calls_made(rig.calls) - before == {("nvmlDeviceGetFieldValues", 0): 1}


def test_every_call_is_measured(rig: Rig) -> None:
    device = rig.device()
    before = calls_made(rig.calls).total(), len(rig.meter.calls)

    device.read_fast()
    device.read_slow()

    assert len(rig.meter.calls) - before[1] == calls_made(rig.calls).total() - before[0]
    assert all(latency_ns > 0 for _, latency_ns in rig.meter.calls)


def _chosen(chosen: Chosen) -> list[int]:
    for device in chosen.devices:
        read_all(device)
        device.processes()
    return [device.info.index for device in chosen.devices]


def _touched(rig: Rig) -> set[int]:
    return {gpu for _, gpu in calls_made(rig.calls) if gpu is not None}


def test_gpus_excluded_by_index_get_no_call_at_all(rig: Rig) -> None:
    assert _chosen(choose(rig.nvml(), exclude=["1"])) == [0, 2]
    assert _touched(rig) == {0, 2}


def test_gpus_not_chosen_by_index_get_no_call_at_all(rig: Rig) -> None:
    assert _chosen(choose(rig.nvml(), only=["2"])) == [2]
    assert _touched(rig) == {2}


def test_gpus_not_chosen_by_uuid_get_no_call_at_all(rig: Rig) -> None:
    assert _chosen(choose(rig.nvml(), only=[uuid_of(1)])) == [1]
    assert _touched(rig) == {1}


def test_a_gpu_excluded_by_uuid_is_asked_for_its_uuid_alone(rig: Rig) -> None:
    assert _chosen(choose(rig.nvml(), exclude=[uuid_of(0)])) == [1, 2]
    asked = {function for function, gpu in calls_made(rig.calls) if gpu == 0}
    assert asked == {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"}


def test_a_gpu_named_twice_is_watched_once_and_exclusion_wins(rig: Rig) -> None:
    assert _chosen(choose(rig.nvml(), only=["0", uuid_of(0), "1"], exclude=[uuid_of(1)])) == [0]
    assert _chosen(choose(rig.nvml(), only=[uuid_of(0), "2"], exclude=["0"])) == [2]


@pytest.mark.parametrize("name", ["3", "GPU-00000000-0000-0000-0000-000000000000", "two"])
def test_a_gpu_that_is_not_there_is_the_users_error(rig: Rig, name: str) -> None:
    with pytest.raises(UsageError, match=f"there is no GPU {name}"):
        choose(rig.nvml(), only=[name])


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (9, SourceUnavailable, "modprobe nvidia"),
        (18, SourceUnavailable, "reboot"),
        (4, AccessDenied, "/dev/nvidia"),
        (17, AccessDenied, "cgroup"),
        (999, SourceError, None),
    ],
)
def test_a_driver_that_does_not_start_says_why(
    rig: Rig, code: int, kind: type[BubblewatchError], hint: str | None
) -> None:
    with pytest.raises(kind) as raised:
        rig.nvml(init_code=code)

    assert "NVML cannot start" in raised.value.what
    assert (hint is None) == (raised.value.hint is None)
    assert hint is None or hint in str(raised.value.hint)


def test_a_call_after_close_is_a_clear_error(rig: Rig) -> None:
    nvml = rig.nvml()
    nvml.close()

    with pytest.raises(SourceUnavailable, match="Uninitialized"):
        nvml.call("nvmlDeviceGetCount")


def test_a_function_that_the_library_lacks_is_not_supported(rig: Rig) -> None:
    with pytest.raises(NotSupported, match="nvmlSystemGetHicVersion"):
        rig.nvml().call("nvmlSystemGetHicVersion")


OPEN_ELSEWHERE = """
from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.sources.nvml import Nvml
try:
    Nvml.open()
except SourceUnavailable as error:
    print(error)
"""


def test_a_machine_without_the_library_says_what_to_install(tmp_path: Path) -> None:
    said = _in_a_process(OPEN_ELSEWHERE, LD_LIBRARY_PATH=str(tmp_path))

    assert "cannot open shared object file" in said
    assert "install or load the NVIDIA driver" in said


def test_a_library_that_is_no_library_says_so(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"random bytes" * 100)

    assert "invalid ELF header" in _in_a_process(OPEN_ELSEWHERE, LD_LIBRARY_PATH=str(tmp_path))


def _in_a_process(code: str, **variables: str) -> str:
    environ = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_itself_or_nan_and_never_a_blank(value: int) -> None:
    read = number(value)
    assert math.isnan(read) == (value >= 0x7FFF_FFF0)
    assert math.isnan(read) or read == value


@given(st.floats())
def test_a_ratio_is_within_0_and_1_or_nan(percent: float) -> None:
    read = ratio(percent)
    assert math.isnan(read) or 0 <= read <= 1
