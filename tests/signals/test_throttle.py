import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals.throttle import POWER, SETTING, THERMAL
from tests.support.facts import causes, gpu


def with_series(reading: GpuReading, name: str, values: list[float]) -> GpuReading:
    times = [i * NS for i in range(len(values))]
    return GpuReading(reading.gpu, {**reading.series, name: Series(times, values)})


def test_shares_of_reasons_name_the_card_that_shows_them() -> None:
    found = causes(gpus=[gpu(0, event_reasons=0), gpu(1, event_reasons=POWER | 0x1), gpu(2, event_reasons=0x40)])
    assert found.number("throttle.power_ratio") == 1.0
    assert found.known["throttle.power_ratio"].evidence[0].where == "GPU 1"
    assert found.known["throttle.thermal_ratio"].evidence[0].where == "GPU 2"
    assert found.number("throttle.setting_ratio") == 0.0


def test_a_reason_that_held_for_half_of_the_time() -> None:
    half = with_series(gpu(0), "event_reasons", [float(POWER)] * 6 + [0.0] * 6)
    assert causes(gpus=[half]).number("throttle.power_ratio") == pytest.approx(0.5, abs=0.05)


def test_reasons_that_the_card_does_not_say_are_missing() -> None:
    assert "throttle.power_ratio" in causes(gpus=[gpu(0, event_reasons=float("nan"))]).missing
    assert "throttle.clock_ratio" in causes(gpus=[gpu(0)]).missing


def test_the_clock_under_load_is_not_lowered_by_pauses() -> None:
    pausing = with_series(gpu(0), "sm_clock_mhz", [210.0] * 5 + [2430.0] * 7)
    assert causes(gpus=[pausing]).number("throttle.clock_ratio") == 1.0


def test_the_slowest_and_the_fastest_clock() -> None:
    found = causes(gpus=[gpu(0, sm_clock_mhz=2430), gpu(1, sm_clock_mhz=1215)])
    assert found.number("throttle.clock_ratio") == 0.5
    assert found.number("throttle.clock_best_ratio") == 1.0


def test_a_limit_is_compared_with_the_default_else_with_the_usual_one_of_the_card() -> None:
    default = gpu(0, info={"power_limit_w": 300.0, "power_default_limit_w": 400.0})
    assert causes(gpus=[default]).number("throttle.limit_ratio") == 0.75
    table = gpu(0, info={"name": "RTX 3090 24GB", "power_limit_w": 230.0})
    assert causes(gpus=[table]).number("throttle.limit_ratio") == pytest.approx(230 / 350)
    unknown = gpu(0, info={"name": "Some GPU"})
    assert "throttle.limit_ratio" in causes(gpus=[unknown]).missing


def test_the_straggler_is_compared_with_the_median_of_the_others() -> None:
    cards = [gpu(i, sm_clock_mhz=mhz) for i, mhz in enumerate((2400, 2400, 1200, 2400))]
    found = causes(gpus=cards)
    assert found.number("straggler.clock_ratio") == 0.5
    assert found.known["straggler.clock_ratio"].evidence[0].where == "GPU 2"


def test_power_is_compared_only_where_all_cards_are_occupied() -> None:
    busy = [gpu(i, util_ratio=1.0, power_average_w=watts) for i, watts in enumerate((300, 300, 300, 150))]
    assert causes(gpus=busy).number("straggler.power_ratio") == 0.5
    idle = [*busy[:3], gpu(3, util_ratio=0.1, power_average_w=80)]
    assert "straggler.power_ratio" in causes(gpus=idle).missing


def test_cards_of_two_kinds_are_not_equals() -> None:
    cards = [gpu(0, sm_clock_mhz=2400), gpu(1, info={"name": "NVIDIA A100"}, sm_clock_mhz=1410)]
    assert "straggler.clock_ratio" in causes(gpus=cards).missing


@given(st.lists(st.integers(0, 0x1FF), min_size=1, max_size=20))
def test_shares_are_shares(masks: list[int]) -> None:
    reading = with_series(gpu(0), "event_reasons", [float(mask) for mask in masks])
    found = causes(gpus=[reading])
    for name, bit in (("power", POWER), ("thermal", THERMAL), ("setting", SETTING)):
        share = found.number(f"throttle.{name}_ratio")
        assert share is not None
        assert 0.0 <= share <= 1.0
        assert (share > 0) == any(mask & bit for mask in masks[: len(masks)])
