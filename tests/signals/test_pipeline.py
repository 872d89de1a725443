import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope
from bubblewatch.model.server import Rank
from bubblewatch.model.signals import Confidence, Signals
from bubblewatch.model.telemetry import GpuInfo, GpuReading, Series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.gpus import GpuActivity, activity
from bubblewatch.signals.pipeline import own_gpus, stages_of, write_gpus, write_pipeline

BLACKWELL = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def gpu(index: int, *, name: str = BLACKWELL, samples: int = 10, limit_w: float = 600, **values: float) -> GpuReading:
    times = [i * NS for i in range(samples)]
    series = {field: Series(times, [value] * samples) for field, value in values.items()}
    return GpuReading(GpuInfo(f"GPU-{index}", index, name, limit_w), series)


def seen(*readings: GpuReading) -> list[GpuActivity]:
    return [activity(reading, 10 * NS) for reading in readings]


def pipeline(cards: list[GpuActivity], pp: int, tp: int = 1, dp: int = 1) -> Signals:
    book = Notebook(Scope.SERVER)
    mine, reason = own_gpus(cards, {}, pp * tp * dp)
    write_gpus(book, mine, reason, 10)
    write_pipeline(book, stages_of(mine, {}, pp, tp, dp), pp, 10)
    return book.signals()


def test_sm_activity_is_the_first_basis() -> None:
    """Eight stages at 4.7 % SM activity work for 1/16 each: S is a half, whatever utilization and power say."""
    signals = pipeline(seen(*(gpu(i, util_ratio=1.0, power_average_w=300, sm_active_ratio=0.047) for i in range(8))), 8)
    assert signals.number("pipeline.stages_busy") == pytest.approx(0.5, abs=0.02)
    assert signals.known["pipeline.stages_busy"].basis == "sm"
    assert signals.value("pipeline.basis_tells") is True
    assert signals.number("pipeline.bubble_ratio") == pytest.approx(0.94, abs=0.01)


def test_a_low_sum_of_utilizations_proves_lockstep_on_an_unknown_card() -> None:
    """Utilization is an upper bound of work, so no power level is needed."""
    cards = seen(*(gpu(i, name="Some GPU", util_ratio=0.12, power_average_w=170) for i in range(8)))
    signals = pipeline(cards, 8)
    assert signals.number("pipeline.stages_busy") == pytest.approx(0.96, abs=0.01)
    assert signals.known["pipeline.stages_busy"].basis == "util"
    assert signals.value("pipeline.basis_tells") is True


def test_high_utilization_at_low_power_of_an_unknown_card_is_only_possible() -> None:
    """The trap of the power limit: a healthy full pipeline at 200 of 700 W must not read as lockstep."""
    cards = seen(*(gpu(i, name="Some GPU", util_ratio=0.97, power_average_w=200, limit_w=700) for i in range(8)))
    signals = pipeline(cards, 8)
    assert signals.known["pipeline.stages_busy"].basis == "prior"
    assert signals.known["pipeline.stages_busy"].confidence is Confidence.POSSIBLE
    assert signals.value("pipeline.basis_tells") is False


def test_power_against_the_levels_of_a_known_card_sees_through_spinning() -> None:
    spinning = [gpu(0, util_ratio=0.12, power_average_w=120)]
    spinning += [gpu(i, util_ratio=1.0, power_average_w=120) for i in range(1, 8)]
    signals = pipeline(seen(*spinning), 8)
    assert signals.known["pipeline.stages_busy"].basis == "power"
    assert signals.known["pipeline.stages_busy"].confidence is Confidence.MEDIUM
    assert (signals.number("pipeline.stages_busy") or 9) < 1.3


def test_a_snapshot_has_no_s() -> None:
    """All cards at 0 % and 85 W at one moment: nothing ran then, and nothing follows."""
    signals = pipeline(seen(*(gpu(i, samples=1, util_ratio=0.0, power_average_w=85) for i in range(8))), 8)
    assert "pipeline.stages_busy" in signals.missing
    assert "snapshot" in signals.missing["pipeline.stages_busy"]
    assert "duty.median" in signals.missing


def test_stages_of_other_hosts_are_not_scaled_in() -> None:
    signals = pipeline(seen(*(gpu(i, util_ratio=0.12) for i in range(4))), 8)
    assert "4 GPUs were read and the launch uses 8" in signals.missing["pipeline.stages_busy"]


def test_spare_gpus_do_not_enter_the_mean() -> None:
    cards = seen(*(gpu(i, util_ratio=0.9) for i in range(4)), *(gpu(i, util_ratio=0.0) for i in range(4, 8)))
    mine, _ = own_gpus(cards, {f"GPU-{i}": None for i in range(4)}, 4)
    assert [g.index for g in mine] == [0, 1, 2, 3]
    nobody, reason = own_gpus(cards, {}, 4)
    assert not nobody
    assert "which ones is not known" in reason


def test_tensor_ranks_of_a_stage_count_once() -> None:
    cards = seen(*(gpu(i, util_ratio=0.5 if i < 4 else 0.1) for i in range(8)))
    signals = pipeline(cards, 2, tp=4)
    assert signals.number("pipeline.stages_busy") == pytest.approx(0.6, abs=0.01)
    assert signals.number("pipeline.imbalance") == pytest.approx(0.5 / 0.3, abs=0.02)


def test_ranks_of_processes_order_the_stages() -> None:
    cards = seen(gpu(0, util_ratio=0.8), gpu(1, util_ratio=0.1))
    stages = stages_of(cards, {"GPU-0": Rank(pp=1), "GPU-1": Rank(pp=0)}, 2, 1, 1)
    assert [[g.index for g in members] for members in stages.by_stage] == [[1], [0]]
    half = stages_of(cards[:1], {"GPU-0": Rank(pp=1)}, 2, 1, 1)
    assert "stages 0 of 2 are not on this host" in half.reason


def test_power_with_little_swing_says_nothing() -> None:
    """Below 60 W between idle and busy, an error of the floor of 3.6 W moves S by more than half a stage."""
    small = seen(gpu(0, name="NVIDIA L4", limit_w=72, power_average_w=40))[0]
    assert small.power_duty is None


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.lists(st.floats(0, 700), min_size=8, max_size=8))
def test_s_lies_between_zero_and_the_number_of_stages(utils: list[float], powers: list[float]) -> None:
    cards = seen(*(gpu(i, util_ratio=u, power_average_w=w) for i, (u, w) in enumerate(zip(utils, powers, strict=True))))
    signals = pipeline(cards, 8)
    busy = signals.number("pipeline.stages_busy")
    assert busy is not None
    assert 0 <= busy <= 8 + 1e-9
    assert busy <= sum(utils) + 1e-6
    assert 0 <= (signals.number("pipeline.bubble_ratio") or 0) <= 1
