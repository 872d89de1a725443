"""nvidia-smi text that people hand over."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.smi import read_telemetry, telemetry_from_text

HEADER = "timestamp, name, index, utilization.gpu [%], power.draw [W], power.limit [W], memory.used [MiB], pstate\n"
ROW = "2026/01/01 12:00:{second:06.3f}, NVIDIA H200, {index}, {util} %, {power:.2f} W, 700.00 W, 1024 MiB, P0\n"

TABLE = """\
$ nvidia-smi
Sat Sep  5 17:26:06 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.173.02             Driver Version: 580.173.02     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:01:00.0 Off |                  Off |
| 30%   31C    P0             89W /  600W |   80120MiB /  97887MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:61:00.0 Off |                   On |
| N/A   34C    P0            N/A  /  600W |                  N/A   |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
"""


def block(gpus=2, seconds=3):
    return "".join(
        ROW.format(second=second + index / 1000, index=index, util=10 * index, power=80 + index)
        for second in range(seconds)
        for index in range(gpus)
    )


def test_every_row_is_a_reading_of_its_gpu_also_when_values_repeat():
    telemetry = telemetry_from_text(HEADER + block(), "smi.csv")
    assert [reading.gpu.index for reading in telemetry.gpus] == [0, 1]
    first, second = telemetry.gpus
    assert first.series["power_average_w"].values == (80.0, 80.0, 80.0)
    assert second.series["util_ratio"].values == pytest.approx((0.1, 0.1, 0.1))
    assert second.series["util_ratio"].times_ns == (1_000_000, 1_001_000_000, 2_001_000_000)
    assert telemetry.seconds == pytest.approx(2.001)
    assert telemetry.wall_offset_ns is None


def test_what_does_not_change_describes_the_gpu():
    gpu = telemetry_from_text(HEADER + block(1), "smi.csv").gpus[0].gpu
    assert (gpu.uuid, gpu.name, gpu.power_limit_w) == ("index-0", "NVIDIA H200", 700.0)


def test_units_are_those_of_the_field_names():
    text = (
        "index, uuid, utilization.memory [%], power.draw.instant [W], memory.used [MiB], memory.total [MiB], "
        "clocks.current.sm [MHz], temperature.gpu, pstate, pcie.link.gen.current, pcie.link.gen.max, "
        "clocks_event_reasons.active, enforced.power.limit [W], pci.bus_id\n"
        "3, GPU-5c1b, 40 %, 311.00 W, 2 MiB, 4 MiB, 1980 MHz, 61, P2, 4, 5, 0x00000004, 600.00 W, 0000:01:00.0\n"
    )
    reading = telemetry_from_text(text, "x").gpus[0]
    values = {name: series.values[0] for name, series in reading.series.items()}
    assert values == {
        "mem_util_ratio": pytest.approx(0.4),
        "power_instant_w": 311.0,
        "memory_used_bytes": 2 * 1024**2,
        "sm_clock_mhz": 1980.0,
        "temperature_c": 61.0,
        "pstate": 2.0,
        "pcie_gen": 4.0,
        "event_reasons": 4.0,
    }
    assert reading.gpu.uuid == "GPU-5c1b"
    assert reading.gpu.memory_total_bytes == 4 * 1024**2
    assert reading.gpu.pcie_gen_max == 5
    assert reading.gpu.pci_bus_id == "0000:01:00.0"


@pytest.mark.parametrize("cell", ["[N/A]", "[Not Supported]", "N/A", "ERR!", "[GPU requires reset]", ""])
def test_what_the_device_does_not_say_is_nan(cell):
    reading = telemetry_from_text(f"index, utilization.gpu [%], power.draw [W]\n0, 5 %, {cell}\n", "x").gpus[0]
    assert math.isnan(reading.series["power_average_w"].values[0])
    assert reading.series["util_ratio"].values == (0.05,)


def test_repeated_headers_blank_lines_and_windows_line_ends_are_passed_over():
    text = (HEADER + block(1, 2) + "\n\n" + HEADER + block(1, 4).split("\n", 2)[2]).replace("\n", "\r\n")
    assert len(telemetry_from_text(text, "x").gpus[0].series["util_ratio"]) == 4


def test_text_without_units_is_read_by_its_header():
    text = "timestamp,index,utilization.gpu,power.draw\n2026/01/01 12:00:00.000,0,97,140.5\n"
    series = telemetry_from_text(text, "x").gpus[0].series
    assert series["util_ratio"].values == pytest.approx((0.97,))
    assert series["power_average_w"].values == (140.5,)


def test_text_without_a_header_is_read_by_its_units():
    text = "2026/01/01 12:00:00.000, 0, 97 %, 140.50 W\n2026/01/01 12:00:00.002, 1, 0 %, 85.10 W\n"
    first, second = telemetry_from_text(text, "x").gpus
    assert first.series["util_ratio"].values == pytest.approx((0.97,))
    assert second.series["power_average_w"].values == (85.1,)


def test_rows_without_a_time_are_a_second_apart():
    text = "index, utilization.gpu [%], power.draw [W]\n" + "0, 5 %, 80.00 W\n1, 5 %, 80.00 W\n" * 3
    telemetry = telemetry_from_text(text, "x")
    assert telemetry.gpus[1].series["util_ratio"].times_ns == (0, 1_000_000_000, 2_000_000_000)


def test_rows_without_an_index_are_told_apart_by_their_place_in_the_moment():
    text = "timestamp, utilization.gpu [%]\n" + "".join(
        f"2026/01/01 12:00:0{second}.00{gpu}, {gpu} %\n" for second in range(3) for gpu in range(4)
    )
    telemetry = telemetry_from_text(text, "x")
    assert [len(reading.series["util_ratio"]) for reading in telemetry.gpus] == [3, 3, 3, 3]
    assert telemetry.gpus[3].series["util_ratio"].values == pytest.approx((0.03,) * 3)


def test_a_second_run_in_the_same_file_follows_the_first():
    text = HEADER + block(1, 3).replace("12:00", "15:00") + HEADER + block(1, 3)
    series = telemetry_from_text(text, "x").gpus[0].series["util_ratio"]
    assert [time / 1e9 for time in series.times_ns] == [0, 1, 2, 3, 4, 5]


def test_a_row_cut_short_is_left_out():
    telemetry = telemetry_from_text(HEADER + block(1, 2) + "2026/01/01 12:00:02.000, NVIDIA H2", "x")
    assert len(telemetry.gpus[0].series["util_ratio"]) == 2


def test_the_table_is_one_reading_of_each_gpu():
    first, second = telemetry_from_text(TABLE, "x").gpus
    assert first.gpu.name == "NVIDIA RTX PRO 6000 Blac"
    assert first.gpu.power_limit_w == 600.0
    assert first.gpu.memory_total_bytes == 97887 * 1024**2
    assert first.series["util_ratio"].values == (0.0,)
    assert first.series["power_average_w"].values == (89.0,)
    assert math.isnan(second.series["util_ratio"].values[0])
    assert math.isnan(second.series["power_average_w"].values[0])


def test_a_table_printed_again_and_again_is_as_many_readings():
    telemetry = telemetry_from_text(TABLE * 3, "x")
    assert len(telemetry.gpus[0].series["util_ratio"]) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello world\n", "not understood as nvidia-smi output"),
        ("a,b,c\n1,2,3\n", "not understood"),
        ("index, temperature.gpu\n0, 44\n", "neither utilization.gpu nor power.draw"),
        (HEADER, "no reading"),
        ("# gpu  gtemp\n# Idx      C\n    0     30\n", "no reading"),
        ("==============NVSMI LOG==============\n", "no reading"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "nvidia-smi itself failed"),
    ],
)
def test_other_text_is_refused_in_one_sentence(text, told):
    with pytest.raises(UsageError) as caught:
        telemetry_from_text(text, "smi.csv")
    assert told in str(caught.value)
    assert "smi.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 20, b"\0" * 100, b"\xff\xfe\x00"])
def test_random_bytes_are_refused(tmp_path, content):
    path = tmp_path / "smi.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"smi\.csv"):
        read_telemetry(str(path))


def test_a_missing_file_is_refused():
    with pytest.raises(UsageError, match="/nowhere/smi"):
        read_telemetry("/nowhere/smi.csv")


def test_standard_input_and_a_power_shell_redirection_are_read():
    data = (HEADER + block(1, 1)).encode("utf-16")
    assert len(read_telemetry("-", io.BytesIO(data)).gpus) == 1


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        telemetry = telemetry_from_text(HEADER + block(1, 1) + text, "x")
    except UsageError:
        return
    for reading in telemetry.gpus:
        for series in reading.series.values():
            assert list(series.times_ns) == sorted(set(series.times_ns))
            assert len(series.times_ns) == len(series.values)


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1000)), min_size=1, max_size=50))
def test_values_survive(readings):
    rows = "".join(f"0, {util} %, {power:.2f} W\n" for util, power in readings)
    series = telemetry_from_text(f"index, utilization.gpu [%], power.draw [W]\n{rows}", "x").gpus[0].series
    assert [round(value * 100) for value in series["util_ratio"].values] == [util for util, _ in readings]
    assert series["power_average_w"].values == pytest.approx([power for _, power in readings], abs=0.005)


def test_a_product_name_with_a_comma_does_not_shift_the_columns() -> None:
    text = "index, name, utilization.gpu [%], power.draw [W]\n" + "0, Some card, 700 W class, 31 %, 155.00 W\n" * 6
    (reading,) = telemetry_from_text(text, "smi.csv").gpus
    assert reading.gpu.name == "Some card, 700 W class"
    assert list(reading.series["util_ratio"].values) == pytest.approx([0.31] * 6)
