"""What one GPU's sensors say now.

Nothing here keeps time or repeats a call: when to ask is the sampler's business. Meanings and traps of the calls:
nvml.h of the CUDA 13 toolkit; where real drivers differ from it, a comment says what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, SourceUnavailable
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_batches import BLANK_U64, NAN, Activity, FieldBatch, SampleBuffer, Samples, known, number
from bubblewatch.sources.nvml_batches import ratio as as_ratio
from bubblewatch.sources.nvml_identity import CLOCK_SM, Asker, memory, power_limit_w, whole_gpu

TEMPERATURE_GPU = 0
"""NVML_TEMPERATURE_GPU, the core's sensor."""
SAMPLED: Mapping[str, int] = {"util_ratio": 1, "mem_util_ratio": 2}
"""Field -> kind of the driver's sample ring: NVML_GPU_UTILIZATION_SAMPLES, NVML_MEMORY_UTILIZATION_SAMPLES."""


@dataclass(slots=True)
class Question:
    """One driver call and the fields that its answer fills; `worked` once it has answered."""

    fields: tuple[str, ...]
    ask: Callable[[], Mapping[str, float]]
    worked: bool = False


class Answers:
    """Asks questions, and keeps account of those that are refused.

    `unsupported` is field -> why it is not delivered. A question that is refused is dropped; one that had worked before
    is put back by `try_again`.
    """

    def __init__(self) -> None:
        self.unsupported: dict[str, str] = {}
        self._dropped: list[tuple[list[Question], Question]] = []
        self._failures: list[SourceError] = []

    def read(self, questions: list[Question]) -> Mapping[str, float]:
        """Field -> value, NaN where the device did not say. Raises SourceLost or SourceUnavailable."""
        if len(questions) == 1:
            return self._answer(questions, questions[0])
        values: dict[str, float] = {}
        for question in tuple(questions):
            values.update(self._answer(questions, question))
        return values

    def read_or_fail(self, questions: list[Question]) -> Mapping[str, float]:
        """The same; raises the last error when every question failed."""
        self._failures.clear()
        values = self.read(questions)
        if self._failures and len(self._failures) == len(questions):
            raise self._failures[-1]
        return values

    def _answer(self, questions: list[Question], question: Question) -> Mapping[str, float]:
        try:
            answer = question.ask()
        except (SourceLost, SourceUnavailable):
            raise
        except (NotSupported, AccessDenied) as refusal:
            questions.remove(question)
            self.unsupported.update(dict.fromkeys(question.fields, str(refusal)))
            if question.worked:
                self._dropped.append((questions, question))
            return {}
        except SourceError as failure:
            self._failures.append(failure)
            return dict.fromkeys(question.fields, NAN)
        question.worked = True
        return answer

    def try_again(self) -> None:
        """Put back what was refused although it had worked: another profiler may have had the counters."""
        for questions, question in self._dropped:
            questions.append(question)
            for field in question.fields:
                self.unsupported.pop(field, None)
        self._dropped.clear()


class Device:
    """One GPU's sensors. Each `read_*` returns field (model/telemetry.py) -> value in the field's unit.

    NaN = the device did not say this time. A field that the device refuses is left out, and `unsupported` says why.
    SourceLost when the GPU is gone, another SourceError when nothing of what was asked for could be read.
    """

    def __init__(self, nvml: Nvml, handle: Any, uuid: str, index: int, *, sm_activity: bool = True) -> None:
        self.asker = Asker(nvml, handle)
        self._answers = Answers()
        self.unsupported = self._answers.unsupported
        self.info, self.notes = whole_gpu(self.asker, uuid, index)
        self._batch = FieldBatch(nvml, handle)
        self._fast = self._fast_questions()
        self._util = [Question(("util_ratio", "mem_util_ratio"), self._utilization)]
        self._sampled = {field: SampleBuffer(nvml, handle, kind) for field, kind in SAMPLED.items()}
        self._slow = self._slow_questions()
        self._activity = Activity(nvml, handle)
        self._activity_question = [Question(("sm_active_ratio",), self._activity.ask)]
        self._wants_activity = sm_activity

    def read_fast(self) -> Mapping[str, float]:
        """Power and energy, in one call where the driver has the field values for it.

        The very same mapping as the last time means the very same values.
        """
        if len(self._fast) == 1 and self._fast[0].worked:
            try:
                return self._fast[0].ask()  # nine times out of ten all that happens
            except SourceError:
                pass  # asked once more, with all the care that failures need
        return self._answers.read_or_fail(self._fast)

    def read_util(self) -> Mapping[str, float]:
        """Utilization of the driver's last sample period, 1/6 s to 1 s by product (nvmlDeviceGetUtilizationRates)."""
        return self._answers.read(self._util)

    def read_samples(self) -> Mapping[str, Samples]:
        """Utilization readings that the driver kept since the last call: of both fields, or {} when it has none."""
        try:
            drained = {field: buffer.drain() for field, buffer in self._sampled.items()}
        except (NotSupported, AccessDenied):
            self._sampled = {}
            return {}
        except (SourceLost, SourceUnavailable):
            raise
        except SourceError:
            return {}
        return drained if drained and all(drained.values()) else {}

    def read_slow(self) -> Mapping[str, float]:
        """Clock, memory, temperature, event reasons, link, state, and SM activity since the call before.

        At most once a second: two samples of SM activity must lie more than 100 ms apart.
        """
        values = self._answers.read(self._slow)
        if not self._wants_activity:
            return values
        return {**values, **self._answers.read(self._activity_question)}

    def want_activity(self, wanted: bool) -> None:
        """Sample SM activity from now on, or not: the counters cost idle power on some cards."""
        if self._wants_activity and not wanted:
            self._activity.pause()
        self._wants_activity = wanted

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        """(pid, bytes of device memory or None) of each compute process. Costs milliseconds: every 30 s is plenty."""
        found = self.asker.call("nvmlDeviceGetComputeRunningProcesses")
        return tuple((int(one.pid), known(one.usedGpuMemory)) for one in found)

    def refresh(self) -> None:
        """Bring `info` up to date (somebody may have set another power limit) and ask again what was refused."""
        self.info = replace(self.info, power_limit_w=power_limit_w(self.asker))
        self._answers.try_again()

    def close(self) -> None:
        self._activity.close()

    def _fast_questions(self) -> list[Question]:
        questions = []
        if self._batch.fields:
            questions.append(Question(self._batch.fields, self._batch.ask))
        if self._batch.whole_module:
            self.notes.append("power is that of the whole module, its CPU included")
        if not {"power_instant_w", "power_average_w"} & set(self._batch.fields):
            questions.append(Question(("power_average_w",), self._power_usage))
        if "energy_j" not in self._batch.fields:
            questions.append(Question(("energy_j",), self._energy))
        absent = {"power_instant_w", "power_average_w"} - {name for one in questions for name in one.fields}
        self.unsupported.update(dict.fromkeys(sorted(absent), "the driver does not have this field for this GPU"))
        return questions

    def _slow_questions(self) -> list[Question]:
        def single(field: str, function: str, *arguments: Any) -> Question:
            return Question((field,), lambda: {field: number(self.asker.call(function, *arguments))})

        return [
            single("sm_clock_mhz", "nvmlDeviceGetClockInfo", CLOCK_SM),
            single("temperature_c", "nvmlDeviceGetTemperature", TEMPERATURE_GPU),
            single("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
            single("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            single("pstate", "nvmlDeviceGetPerformanceState"),
            Question(("memory_used_bytes",), self._memory_used),
            Question(("event_reasons",), self._event_reasons),
        ]

    def _utilization(self) -> Mapping[str, float]:
        rates = self.asker.call("nvmlDeviceGetUtilizationRates")
        return {"util_ratio": as_ratio(rates.gpu), "mem_util_ratio": as_ratio(rates.memory)}

    def _power_usage(self) -> Mapping[str, float]:
        return {"power_average_w": number(self.asker.call("nvmlDeviceGetPowerUsage")) / 1e3}

    def _energy(self) -> Mapping[str, float]:
        return {"energy_j": number(self.asker.call("nvmlDeviceGetTotalEnergyConsumption"), BLANK_U64) / 1e3}

    def _memory_used(self) -> Mapping[str, float]:
        return {"memory_used_bytes": number(memory(self.asker).used, BLANK_U64)}

    def _event_reasons(self) -> Mapping[str, float]:
        try:
            mask = self.asker.call("nvmlDeviceGetCurrentClocksEventReasons")
        except NotSupported:  # the name before driver 535
            mask = self.asker.call("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {"event_reasons": number(mask, BLANK_U64)}
