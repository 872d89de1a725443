"""A notebook in which the parts of the computation write what they know and what they lack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bubblewatch.model.findings import Scope
from bubblewatch.model.signals import Confidence, Evidence, Signal, Signals, SignalValue
from bubblewatch.signals.vocabulary import VOCABULARY

_PYTHON_TYPES: Mapping[str, type] = MappingProxyType({"bool": bool, "int": int, "double": float, "string": str})


class Notebook:
    """Collects signals of one target; only names of the vocabulary, each with its declared type.

    A number that is NaN or infinite is not written: it is missing.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[str, Signal] = {}
        self._missing: dict[str, str] = {}

    def know(
        self,
        name: str,
        value: SignalValue | None,
        basis: str = "",
        confidence: Confidence = Confidence.HIGH,
        evidence: Iterable[Evidence] = (),
        *,
        otherwise: str = "not measured",
    ) -> None:
        """Write `value` under `name`; None, or a number that is none, is missing for the reason `otherwise`."""
        spec = VOCABULARY[name]
        if value is not None and spec.type == "double":
            value = float(value)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            self.lack(name, otherwise)
            return
        if type(value) is not _PYTHON_TYPES[spec.type]:
            raise TypeError(f"signal {name} is {spec.type}, got {value!r}")
        self._known[name] = Signal(value, basis, confidence, tuple(evidence))
        self._missing.pop(name, None)

    def lack(self, name: str, reason: str) -> None:
        """Write that `name` is not known, and why. Does not take back what is known."""
        if name not in self._known:
            self._missing[name] = reason

    def get(self, name: str) -> Signal | None:
        return self._known.get(name)

    def number(self, name: str) -> float | None:
        signal = self._known.get(name)
        if signal is None or isinstance(signal.value, bool | str):
            return None
        return float(signal.value)

    def text(self, name: str) -> str | None:
        signal = self._known.get(name)
        return signal.value if signal is not None and isinstance(signal.value, str) else None

    def flag(self, name: str) -> bool | None:
        signal = self._known.get(name)
        return signal.value if signal is not None and isinstance(signal.value, bool) else None

    def signals(self) -> Signals:
        """What was written; every name of this scope that was not is missing."""
        missing = {spec.name: "not measured" for spec in VOCABULARY.values() if spec.scope is self._scope}
        missing |= self._missing
        return Signals(
            MappingProxyType(dict(self._known)),
            MappingProxyType({name: why for name, why in sorted(missing.items()) if name not in self._known}),
        )
