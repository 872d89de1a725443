"""What an ended sampler has left, joined with what the next one reads."""

from __future__ import annotations

from bubblewatch.model.telemetry import GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.runtime.telemetry_join import joined


def telemetry(start_ns: int, end_ns: int, **gpus: dict[str, Series]) -> Telemetry:
    readings = tuple(GpuReading(GpuInfo(uuid, 0, "x"), series) for uuid, series in gpus.items())
    return Telemetry(readings, start_ns, end_ns, wall_offset_ns=end_ns)


def test_series_of_one_gpu_follow_each_other_from_the_wanted_time_on() -> None:
    older = telemetry(0, 30, a={"energy_j": Series([10, 20, 30], [1.0, 2.0, 3.0]), "pstate": Series([10], [0.0])})
    newer = telemetry(50, 70, a={"energy_j": Series([50, 60], [4.0, 5.0])})

    (reading,) = joined(older, newer, since_ns=20).gpus

    assert reading.series.keys() == {"energy_j"}
    assert list(reading.series["energy_j"].times_ns) == [20, 30, 50, 60]
    assert list(reading.series["energy_j"].values) == [2.0, 3.0, 4.0, 5.0]


def test_a_gpu_that_only_one_of_them_has_is_kept() -> None:
    older = telemetry(0, 30, gone={"energy_j": Series([10, 20], [1.0, 2.0])})
    newer = telemetry(50, 70, new={"energy_j": Series([50], [4.0])})

    together = joined(older, newer, since_ns=0)

    assert [reading.gpu.uuid for reading in together.gpus] == ["new", "gone"]
    assert list(together.gpus[1].series["energy_j"].values) == [1.0, 2.0]


def test_the_joined_window_ends_and_is_anchored_as_the_newer_one() -> None:
    older, newer = telemetry(5, 30, a={}), telemetry(50, 70, a={})

    assert joined(older, newer, since_ns=0).start_ns == 5
    assert joined(older, newer, since_ns=10).start_ns == 10
    assert (joined(older, newer, 0).end_ns, joined(older, newer, 0).wall_offset_ns) == (70, 70)


def test_nothing_older_leaves_the_newer_one_as_it_is() -> None:
    newer = telemetry(50, 70, a={"energy_j": Series([50], [4.0])})

    assert joined(Telemetry(), newer, since_ns=0) is newer
