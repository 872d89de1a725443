"""Names of signals are interface: rules in CEL, alerts and JSON use them."""

from __future__ import annotations

import re
from itertools import pairwise

from bubblewatch.signals.vocabulary import VOCABULARY

# Reserved words of the Common Expression Language (language definition, section "Syntax"): not usable as identifiers.
RESERVED = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package namespace return"
        " var void while",
    )
)
# Names that CEL gives to types and macros: an identifier of that name would hide them or be hidden.
TAKEN = frozenset(
    re.findall(
        r"\w+", "bool bytes double duration dyn int list map null_type string timestamp type uint has all exists size"
    )
)

UNIT_OF_SUFFIX = {
    "_s": "s",
    "_w": "W",
    "_j": "J",
    "_c": "C",
    "_mhz": "MHz",
    "_bytes": "bytes",
    "_ratio": "ratio",
    "_tps": "tokens/s",
}


def test_every_part_of_a_name_is_a_cel_identifier() -> None:
    for name in VOCABULARY:
        parts = name.split(".")
        assert len(parts) == 2, f"{name}: a group and a name"
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", part) for part in parts), name
        assert not RESERVED.intersection(parts), name
        assert parts[0] not in TAKEN, name


def test_no_two_signals_share_a_name_or_its_flat_form() -> None:
    # A condition may see "a.b_c" as a_b_c: "a_b.c" would be the same.
    flat = sorted(name.replace(".", "_") for name in VOCABULARY)
    assert all(one != two for one, two in pairwise(flat))


def test_types_are_those_that_conditions_know() -> None:
    assert {spec.type for spec in VOCABULARY.values()} <= {"bool", "int", "double", "string"}


def test_a_unit_in_the_name_is_the_unit() -> None:
    for name, spec in VOCABULARY.items():
        for suffix, unit in UNIT_OF_SUFFIX.items():
            if name.endswith(suffix):
                assert spec.unit == unit, name


def test_what_has_no_unit_is_a_name_a_count_or_a_switch() -> None:
    for name, spec in VOCABULARY.items():
        if spec.unit:
            assert spec.type in {"double", "int"}, name
        assert spec.meaning, name
