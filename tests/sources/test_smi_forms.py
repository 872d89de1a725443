"""Forms of nvidia-smi output beside the query's CSV, as people paste them. The samples are cut from public ones."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import UsageError
from bubblewatch.model.telemetry import FIELDS, DeviceLink
from bubblewatch.sources.smi import read_telemetry, telemetry_from_text

SAMPLES = Path(__file__).parent / "samples"


def sample(name):
    return (SAMPLES / name).read_text()


def values(reading, field):
    return [None if math.isnan(value) else round(value, 4) for value in reading.series[field].values]


def seconds(reading, field):
    return [time / 1e9 for time in reading.series[field].times_ns]


def test_dmon_is_a_reading_a_second_of_each_gpu():
    first, second = read_telemetry(str(SAMPLES / "dmon_pucm.txt")).gpus
    assert (first.gpu.index, second.gpu.index) == (0, 1)
    assert values(first, "power_average_w") == [218, 411, 365]
    assert values(second, "util_ratio") == [0.23, None, 0.36]
    assert values(second, "mem_util_ratio") == [0.09, None, 0.17]
    assert values(second, "sm_clock_mhz") == [645, 675, 675]
    assert values(first, "memory_used_bytes") == [725 * 1024**2] * 3
    assert seconds(first, "util_ratio") == [0, 1, 2]


def test_dmon_with_date_and_time_keeps_its_times_over_midnight():
    (gpu,) = telemetry_from_text(sample("dmon_date_time.txt"), "x").gpus
    assert seconds(gpu, "util_ratio") == [0, 2, 4]
    assert values(gpu, "temperature_c") == [38, 38, 38]


def test_dmon_with_the_time_alone_keeps_its_steps():
    text = re.sub("^(#?)(?:Date|YYYYMMDD| \\d{8}) +", r"\1", sample("dmon_date_time.txt"), flags=re.MULTILINE)
    (gpu,) = telemetry_from_text(text, "x").gpus
    assert seconds(gpu, "util_ratio") == [0, 1, 3]  # nobody says that midnight passed between the first two


def test_dmon_as_csv_is_the_same():
    plain = sample("dmon_gpm.txt")
    lines = [", ".join(line.split()) for line in plain.splitlines()]
    text = "\n".join(line.replace("#, ", "# ") for line in lines)
    assert repr(telemetry_from_text(text, "x")) == repr(telemetry_from_text(plain, "x"))


def test_the_gpm_column_is_sm_activity():
    (gpu,) = telemetry_from_text(sample("dmon_gpm.txt"), "x").gpus
    assert values(gpu, "sm_active_ratio") == [None, 0.01, 0.08]


def test_the_processes_of_pmon_are_summed_up_for_each_gpu_and_moment():
    first, second, third = telemetry_from_text(sample("pmon.txt"), "x").gpus
    assert values(first, "util_ratio") == [0.95, 1.0]
    assert values(first, "memory_used_bytes") == [60710 * 1024**2] * 2
    assert values(second, "util_ratio") == [None, 0.12]
    assert values(third, "util_ratio") == [None, None]


def test_the_report_is_one_reading_with_limits_link_and_reasons():
    (reading,) = telemetry_from_text(sample("report_575.txt"), "x").gpus
    gpu = reading.gpu
    assert gpu.name == "NVIDIA GeForce GTX 1650 Ti"
    assert gpu.uuid == "GPU-8eca225f-bc43-11b3-b5f1-f4e61ee30d05"
    assert (gpu.power_limit_w, gpu.power_default_limit_w) == (50, 55)
    assert (gpu.pcie_gen_max, gpu.pcie_width_max, gpu.sm_clock_max_mhz) == (3, 16, 2100)
    assert gpu.persistence is False
    read = {name: values(reading, name)[0] for name in reading.series}
    assert read == {
        "util_ratio": 0.07,
        "mem_util_ratio": 0.02,
        "power_average_w": None,
        "power_instant_w": 2.66,
        "sm_clock_mhz": 310,
        "memory_used_bytes": 4 * 1024**2,
        "temperature_c": 39,
        "pcie_gen": 1,
        "pcie_width": 8,
        "pstate": 8,
        "event_reasons": 0x1 | 0x4 | 0x8 | 0x40,
    }


def test_the_report_of_older_drivers_and_its_repetition_are_read():
    first, second = telemetry_from_text(sample("report_470.txt"), "x").gpus
    assert values(first, "power_average_w") == [250.11, 60]
    assert first.gpu.power_limit_w == 250
    assert first.gpu.persistence is True
    assert values(first, "event_reasons") == [0x20]
    assert values(second, "util_ratio") == [None, 0.11]
    assert values(second, "power_average_w") == [None, 61]
    assert seconds(first, "util_ratio") == [0, 5]


def test_the_table_of_a_card_in_mig_mode_has_power_and_no_utilization():
    split, whole = telemetry_from_text(sample("table_mig_535.txt"), "x").gpus
    assert values(split, "util_ratio") == [None]
    assert values(split, "power_average_w") == [31]
    assert (split.gpu.persistence, whole.gpu.persistence) == (True, False)
    assert values(whole, "util_ratio") == [0]


def test_old_tables_in_a_row_are_readings_at_the_times_printed_above_them():
    first, broken = telemetry_from_text(sample("table_old_450.txt"), "x").gpus
    assert first.gpu.name == "A100-SXM4-40GB"
    assert values(first, "power_average_w") == [55, 155]
    assert values(first, "util_ratio") == [0, 0.97]
    assert seconds(first, "util_ratio") == [0, 2]
    assert values(broken, "power_average_w") == [None]


def test_the_matrix_names_each_pair_once():
    links = telemetry_from_text(sample("topology.txt"), "x").links
    assert len(links) == 15
    assert DeviceLink("GPU0", "GPU1", "NV12") in links
    assert DeviceLink("GPU3", "NIC1", "PXB") in links
    assert {link.path for link in links if {link.first, link.second} == {"GPU2", "GPU3"}} == {"SYS"}


def test_the_matrix_is_read_with_its_underlining():
    text = (
        sample("topology.txt").replace("        GPU0 ", "\t\x1b[4mGPU0 ").replace("GPU NUMA ID", "GPU NUMA ID\x1b[0m")
    )
    assert len(telemetry_from_text(text, "x").links) == 15


def test_of_several_forms_the_one_with_most_readings_counts_and_the_others_complete_it():
    text = sample("table_mig_535.txt") + sample("topology.txt") + sample("dmon_pucm.txt")
    telemetry = telemetry_from_text(text, "x")
    assert values(telemetry.gpus[0], "power_average_w") == [218, 411, 365]
    assert telemetry.gpus[0].gpu.name == "NVIDIA A100-PCIE-40GB"
    assert telemetry.gpus[0].gpu.power_limit_w == 250
    assert len(telemetry.links) == 15


def test_rows_without_header_and_units_take_their_columns_from_the_command_above_them():
    command = "$ nvidia-smi --query-gpu=index,power.draw,utilization.gpu --format=csv,noheader,nounits\n"
    text = f"{command}0, 83.10, 0\n1, 84.00, 5\n"
    first, second = telemetry_from_text(text, "x").gpus
    assert values(first, "power_average_w") == [83.1]
    assert values(second, "util_ratio") == [0.05]


def test_rows_without_header_and_units_alone_are_refused_with_what_to_do():
    with pytest.raises(UsageError, match=r"without header and units.*leave noheader or nounits out"):
        telemetry_from_text("0, 83.10, 0\n1, 84.00, 5\n", "x")


def test_persistence_mode_of_the_query_is_kept():
    text = "index, persistence_mode, power.draw [W]\n0, Enabled, 83.10 W\n1, [N/A], 84.00 W\n"
    first, second = telemetry_from_text(text, "x").gpus
    assert (first.gpu.persistence, second.gpu.persistence) == (True, None)


def test_text_before_the_header_is_passed_over():
    text = "Last login: Mon\nroot@node:~# cat smi.csv\nindex, power.draw [W]\n0, 83.10 W\n"
    assert values(telemetry_from_text(text, "x").gpus[0], "power_average_w") == [83.1]


@given(st.sampled_from(sorted(path.name for path in SAMPLES.glob("*.txt"))), st.data())
def test_a_damaged_sample_is_read_or_refused(name, data):
    lines = sample(name).splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + data.draw(st.text(max_size=5)) + lines[at][cut + data.draw(st.integers(0, 3)) :]
    try:
        telemetry = telemetry_from_text("".join(lines), "x")
    except UsageError:
        return
    for reading in telemetry.gpus:
        assert set(reading.series) <= set(FIELDS)
        for series in reading.series.values():
            assert list(series.times_ns) == sorted(set(series.times_ns))
            assert len(series.times_ns) == len(series.values)


@pytest.mark.parametrize(
    "unit", ["|", "| ", " ", "# gpu ", "NVIDIA-SMI 1 ", "GPU0 ", "a : ", "\t", "nvidia-smi --query-gpu "]
)
def test_one_endless_line_is_read_or_refused(unit):
    banner = "==============NVSMI LOG==============\n| NVIDIA-SMI 580.1    Driver Version: 1\n# gpu pwr\n"
    with pytest.raises(UsageError):
        telemetry_from_text(banner + unit * (300_000 // len(unit)), "x")
