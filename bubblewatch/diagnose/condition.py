"""Conditions of rules: CEL text to a three-valued verdict. The only file that knows cel_expr_python.

Why CEL, and the traps of this binding, are in the style notes; the ones that shape this file (cel-expr-python 0.1.3):
signals are declared as flat dotted names, so that a mistyped one fails at load; `eval` returns an ERROR value for a
missing name but raises for an exceeded budget; None is an error and NaN compares false, so neither is ever passed;
`has()` accepts a dotted name, and then returns its value instead of a bool.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cel_expr_python import cel

from bubblewatch.model.errors import RuleError
from bubblewatch.model.findings import Verdict
from bubblewatch.model.signals import SignalValue
from bubblewatch.signals.vocabulary import VOCABULARY, Spec

_CEL_TYPES: Mapping[str, Any] = MappingProxyType(
    {"bool": cel.Type.BOOL, "int": cel.Type.INT, "double": cel.Type.DOUBLE, "string": cel.Type.STRING}
)
_NUMBERS = frozenset({"INT", "DOUBLE"})
_LITERAL_OR_COMMENT = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//[^\n]*")
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_HAS_CALL = re.compile(r"\bhas\s*\(")
# ERROR: <input>:1:11: undeclared reference to 'a.d' (in container '')     cel-expr-python 0.1.3
_COMPILE_ERROR = re.compile(r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): (?P<message>[^\n]*)")
_UNDECLARED = re.compile(r"undeclared reference to '(?P<name>[^']*)'")
# UNKNOWN: No value with name "pp" found in Activation                      cel-expr-python 0.1.3
_NO_VALUE = "No value with name"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a condition's text, at a 1-based line and column of it."""

    line: int
    column: int
    message: str


class ConditionError(RuleError):
    """A condition that does not compile. `faults` holds every fault, `problems` the same with text and caret."""

    def __init__(self, text: str, faults: tuple[Fault, ...]) -> None:
        problems = tuple(f"{fault.line}:{fault.column}: {fault.message}\n{caret(text, fault)}" for fault in faults)
        super().__init__(f"wrong condition: {faults[0].message}", problems=problems)
        self.faults = faults


def caret(text: str, fault: Fault) -> str:
    """The line of `text` that the fault is in, and below it a caret under its column."""
    lines = text.splitlines() or [""]
    line = lines[min(fault.line, len(lines)) - 1]
    return f"   | {line}\n   | {' ' * (fault.column - 1)}^"


def code_only(text: str) -> str:
    """`text` with string literals and comments blanked out, every other character at its place."""
    return _LITERAL_OR_COMMENT.sub(lambda match: " " * len(match.group()), text)


@dataclass(frozen=True, slots=True)
class _Program:
    """A compiled expression over declared signals. `specs` are those that the text uses, in order of appearance."""

    text: str
    specs: tuple[Spec, ...]
    compiled: Any = field(repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    def _run(self, values: Mapping[str, SignalValue]) -> tuple[Any, tuple[str, ...]]:
        """The plain value (None when missing signals leave it open) and the names that are missing."""
        data = {spec.name: _typed(spec, values.get(spec.name)) for spec in self.specs}
        missing = tuple(name for name, value in data.items() if value is None)
        known = {name: value for name, value in data.items() if value is not None}
        try:
            result = self.compiled.eval(data=known)
        except RuntimeError as error:
            raise RuleError(f"the condition '{self._one_line()}' could not be evaluated: {error}") from error
        if result.type() != cel.Type.ERROR:
            return result.plain_value(), missing
        reason = str(result.value())
        if missing and _NO_VALUE in reason:
            return None, missing
        raise RuleError(f"the condition '{self._one_line()}' could not be evaluated: {reason}")

    def _one_line(self) -> str:
        return " ".join(self.text.split())


@dataclass(frozen=True, slots=True)
class Condition(_Program):
    """A compiled condition. Evaluating it is pure and may happen in any thread."""

    def evaluate(self, values: Mapping[str, SignalValue]) -> tuple[Verdict, tuple[str, ...]]:
        """MATCH, CLEAR or UNKNOWN, and the used names that `values` lacks (all of them, even when the verdict stands).

        None and NaN in `values` count as missing. `false && missing` is CLEAR, `true && missing` is UNKNOWN.

        Raises: RuleError when a value has another type than declared, or the evaluation itself fails.
        """
        result, missing = self._run(values)
        if result is None:
            return Verdict.UNKNOWN, missing
        return (Verdict.MATCH if result else Verdict.CLEAR), missing

    def decisive(self, values: Mapping[str, SignalValue]) -> tuple[str, ...]:
        """The known names without which the condition would no longer match; all known ones when no single one is."""
        known = [name for name in self.names if values.get(name) is not None]
        alone = [
            name
            for name in known
            if self.evaluate({other: values[other] for other in known if other != name})[0] is not Verdict.MATCH
        ]
        return tuple(alone or known)


@dataclass(frozen=True, slots=True)
class Formula(_Program):
    """A compiled expression whose value is a number, for figures that a text shows."""

    def evaluate(self, values: Mapping[str, SignalValue]) -> int | float | None:
        """The number, None when a signal that it needs is missing. Raises: RuleError as `Condition.evaluate`."""
        number = self._run(values)[0]
        return None if number is None or math.isnan(number) else number


def compile_condition(text: str, specs: Mapping[str, Spec]) -> Condition:
    """The condition that `text` says over the signals in `specs`, which are the only names it may use.

    Raises: ConditionError when it does not compile, is not a yes-or-no expression, or uses no signal at all.
    """
    compiled, used = _compile(text, specs)
    if compiled.return_type() != cel.Type.BOOL:
        raise _fault(text, f"a condition must be true or false, this is {compiled.return_type().name().lower()}")
    if not used:
        raise _fault(text, "the condition uses no signal, so it would always say the same")
    return Condition(text, used, compiled)


def compile_formula(text: str, specs: Mapping[str, Spec]) -> Formula:
    """The number that `text` says over the signals in `specs`. Raises: ConditionError as `compile_condition`."""
    compiled, used = _compile(text, specs)
    if compiled.return_type().name() not in _NUMBERS:
        raise _fault(text, f"this must be a number, it is {compiled.return_type().name().lower()}")
    return Formula(text, used, compiled)


def nearest(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean '…'?` with the candidate most like `name`, empty when none is like it."""
    found = difflib.get_close_matches(name, list(candidates), n=1)
    return f"; did you mean '{found[0]}'?" if found else ""


def _compile(text: str, specs: Mapping[str, Spec]) -> tuple[Any, tuple[Spec, ...]]:
    code = code_only(text)
    if not code.strip():
        raise _fault(text, "the condition is empty")
    if match := _HAS_CALL.search(code):
        line, column = _line_column(text, match.start())
        raise ConditionError(
            text, (Fault(line, column, "has() cannot test a signal; a missing one is unknown anyway"),)
        )
    environment = cel.NewEnv(variables={name: _CEL_TYPES[spec.type] for name, spec in specs.items()})
    try:
        compiled = environment.compile(text)
    except RuntimeError as error:
        raise ConditionError(text, _faults(code, str(error), specs)) from error
    found = (name for match in _DOTTED_NAME.finditer(code) for name in _names_in(match.group()))
    return compiled, tuple(specs[name] for name in dict.fromkeys(found) if name in specs)


def _names_in(dotted: str) -> tuple[str, str]:
    """What a dotted word may name: a signal, or one with a call on its text (`gpus.model.contains("H20")`)."""
    return dotted, dotted.rpartition(".")[0]


def _faults(code: str, error: str, specs: Mapping[str, Spec]) -> tuple[Fault, ...]:
    found = []
    for match in _COMPILE_ERROR.finditer(error):
        line, column = int(match["line"]), int(match["column"])
        message = match["message"].replace(" (in container '')", "")
        undeclared = _UNDECLARED.search(message)
        if undeclared:
            column = _start_of_name(code, line, column)
            called = code.splitlines()[line - 1][column - 1 :].startswith(f"{undeclared['name']}(")
            message = _undeclared(undeclared["name"], specs, message, called=called)
        if "no matching overload" in message:
            message += "; numbers are strict: write 1.0 for 1, or double(name)"
        found.append(Fault(line, column, message))
    return tuple(found) or (Fault(1, 1, error),)


def _undeclared(name: str, specs: Mapping[str, Spec], message: str, *, called: bool) -> str:
    if called:
        return f"there is no function '{name}'"
    if name in VOCABULARY:
        return f"signal '{name}' is not among the declared signals"
    return message + nearest(name, specs)


def _start_of_name(code: str, line: int, column: int) -> int:
    """Column at which the dotted name under `column` starts: the compiler points at its last dot or its bracket."""
    for match in _DOTTED_NAME.finditer(code.splitlines()[line - 1]):
        if match.start() < column <= match.end() + 1:
            return match.start() + 1
    return column


def _line_column(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _fault(text: str, message: str) -> ConditionError:
    return ConditionError(text, (Fault(1, 1, message),))


def _typed(spec: Spec, value: SignalValue | None) -> SignalValue | None:
    """`value` as the declared type; None when it is missing.

    The binding itself takes a bool for an int and an int for a double without a word.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if spec.type == "double" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if type(value).__name__ == {"bool": "bool", "int": "int", "string": "str"}.get(spec.type):
        return value
    raise RuleError(f"signal {spec.name} must be of type {spec.type}, got {value!r}")
