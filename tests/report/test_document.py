"""The JSON document: its keys, its order, and that no snapshot can break it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from bubblewatch.model.findings import Answer, Snapshot
from bubblewatch.model.signals import Signal, Signals
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.report.schema import Document, json_schema
from tests.conftest import Golden
from tests.support import snapshots
from tests.support.strategies import snapshots as any_snapshot

FINDING_KEYS = {
    "id", "name", "severity", "confidence", "target", "state", "summary", "evidence", "missing", "remedy", "hazards",
    "check", "caused_by", "held_back_by", "expected_gain",
}  # fmt: skip  # the interface of DESIGN.md section 4, as one block


def parsed(document: dict[str, Any]) -> Any:
    """What a strict reader makes of the text: valid by the types, and no NaN or Infinity."""

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is not JSON")

    text = to_json(document)
    msgspec.json.decode(text, type=Document)
    return json.loads(text, parse_constant=refuse)


def test_the_published_schema_is_the_one_of_the_types(golden: Golden) -> None:
    golden("../../bubblewatch/report/schema.json", json.dumps(json_schema(), indent=2) + "\n")


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (snapshots.story, "findings"),
        (snapshots.healthy, "healthy"),
        (snapshots.quiet, "quiet"),
        (snapshots.cannot_judge, "cannot_judge"),
        (snapshots.two_servers, "findings"),
        (snapshots.nothing_seen, "cannot_judge"),
        (snapshots.hostile, "findings"),
    ],
)
def test_each_snapshot_becomes_a_valid_document_with_its_verdict(make: Any, verdict: str) -> None:
    document = parsed(snapshot_document(make()))

    assert document["verdict"] == verdict
    assert document["schema_version"] == 1
    assert document["error"] is None


def test_a_finding_carries_everything_a_person_needs() -> None:
    document = parsed(snapshot_document(snapshots.story()))
    first = document["findings"][0]

    assert set(first) >= FINDING_KEYS
    assert first["name"] == "cuda-graph-disabled"
    assert (first["severity"], first["confidence"]) == ("warning", "certain")
    assert first["target"] == "server:sglang-k26.service"
    assert first["remedy"]["remove"] == ["--disable-cuda-graph"]
    assert first["expected_gain"] == {
        "low": 115.0,
        "high": 190.0,
        "unit": "tok/s",
        "now": 95.6,
        "assumption": "model; x2 at most while one slot is filled",
    }
    assert first["evidence"][0] == {"kind": "setting", "where": "argv", "text": "--disable-cuda-graph"}
    assert document["findings"][3]["held_back_by"] == ["cuda-graph-disabled", "micro-batch-unfilled"]


def test_signals_have_value_unit_and_basis_and_unknown_ones_say_why() -> None:
    signals = parsed(snapshot_document(snapshots.story()))["signals"]

    assert signals["server:sglang-k26.service"]["throughput.gen_tps"] == {
        "value": 95.6,
        "unit": "tokens/s",
        "basis": "sm",
        "confidence": "high",
        "reason": "",
    }
    assert signals["gpu:GPU-0003"]["gpu.power_busy_w"] == {
        "value": None,
        "unit": "W",
        "basis": "",
        "confidence": None,
        "reason": "not learned yet",
    }


def test_a_number_that_is_not_finite_is_unknown_not_zero() -> None:
    story = snapshots.story()
    odd = Signals({"throughput.gen_tps": Signal(float("nan"))})
    document = parsed(snapshot_document(replace(story, views=(replace(story.views[0], signals=odd),))))

    rate = document["signals"]["server:sglang-k26.service"]["throughput.gen_tps"]
    assert rate["value"] is None
    assert rate["reason"] == "its value is not a finite number"


def test_findings_of_the_worst_server_come_first_each_with_its_target() -> None:
    document = parsed(snapshot_document(snapshots.two_servers()))

    assert [server["key"] for server in document["servers"]] == ["sglang-k26.service", "good.service"]
    assert [server["verdict"] for server in document["servers"]] == ["findings", "healthy"]
    assert document["findings"][0]["target"] == "server:sglang-k26.service"
    assert document["findings"][-1]["target"] == "server:good.service"


def test_the_order_of_keys_does_not_depend_on_the_order_of_signals() -> None:
    story = snapshots.story()
    view = story.views[0]
    turned = Signals(dict(reversed(list(view.signals.known.items()))), view.signals.missing)

    again = replace(story, views=(replace(view, signals=turned),))

    assert to_json(snapshot_document(again)) == to_json(snapshot_document(story))


def test_an_error_has_the_same_keys_and_verdict_error() -> None:
    document = parsed(error_document("No such file: k26.log", "give an existing path to --log"))

    assert document["verdict"] == "error"
    assert document["error"] == {"what": "No such file: k26.log", "hint": "give an existing path to --log"}
    assert set(document) == set(snapshot_document(snapshots.story()))


def test_the_text_is_ascii_so_that_a_terminal_cannot_be_driven_by_it() -> None:
    text = to_json(snapshot_document(snapshots.hostile()))

    assert text.isascii()
    assert "\x1b" not in text
    assert parsed(snapshot_document(snapshots.hostile()))["findings"][0]["summary"].startswith("[red]x[/red] \x1b[2J")


@settings(max_examples=150)
@given(any_snapshot)
def test_any_snapshot_becomes_valid_json_without_nan(snapshot: Snapshot) -> None:
    document = parsed(snapshot_document(snapshot))

    assert document["verdict"] == Answer(snapshot.answer).value
    assert len(document["findings"]) == len(snapshot.findings)
