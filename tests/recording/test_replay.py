"""A replay says what was said, from either form; the stored recordings hold the findings still."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from bubblewatch.app.demo import scenarios
from bubblewatch.app.replay import Span, play_recording, replay_all, replay_recording, session_at
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.report.document import snapshot_document
from tests.support.recordings import STORED, record


def said(snapshot: Snapshot) -> dict[str, object]:
    """The document without the sources, which are the recording then, and without the number of the picture: a replay
    makes no more pictures than it needs.
    """
    document = snapshot_document(snapshot)
    del document["sources"], document["sequence"]
    return document


@pytest.mark.parametrize("compact", [False, True], ids=["append-only", "parquet"])
def test_a_replay_says_what_was_said_to_the_last_digit(
    tmp_path: Path, rules: tuple[Rule, ...], *, compact: bool
) -> None:
    last = record(tmp_path, rules, 15, scenarios()["pp8-filled"], compact=compact)
    assert said(replay_recording(tmp_path, Span(), rules)) == said(last)


@pytest.mark.parametrize("name", list(scenarios()))
def test_a_stored_recording_is_judged_as_ever(
    name: str, rules: tuple[Rule, ...], golden: Callable[[str, str], None]
) -> None:
    snapshot = replay_recording(STORED / name, Span(), rules)
    findings = [
        {
            "name": f.name,
            "severity": f.severity.word,
            "confidence": f.confidence.word,
            "target": str(f.target),
            "remove": list(f.remedy.remove) if f.remedy else [],
            "add": list(f.remedy.add) if f.remedy else [],
            "caused_by": list(f.caused_by),
            "held_back_by": list(f.held_back_by),
        }
        for f in snapshot.findings
    ]
    document = {"verdict": snapshot.answer.value, "findings": findings}
    golden(f"recordings/{name}.json", json.dumps(document, indent=1) + "\n")
    assert snapshot.answer is scenarios()[name].expect.answer


def test_a_replay_can_end_before_the_end(story: Path, rules: tuple[Rule, ...]) -> None:
    whole = replay_recording(story, Span(), rules)
    half = replay_recording(story, Span(None, whole.time_ns - 20 * NS), rules)
    assert whole.time_ns - half.time_ns == 20 * NS
    assert half.watched_s == whole.watched_s - 20


def test_a_replay_can_begin_later_and_knows_what_was_said_before(story: Path, rules: tuple[Rule, ...]) -> None:
    whole = replay_recording(story, Span(), rules)
    late = replay_recording(story, Span(whole.time_ns - 5 * NS), rules)
    assert late.watched_s == 5
    assert late.views[0].server == whole.views[0].server
    assert "cuda-graph-disabled" in {f.name for f in late.findings}


def test_it_is_played_at_the_pace_that_is_asked_for(story: Path, rules: tuple[Rule, ...]) -> None:
    clock = ManualClock()
    times: list[int] = []

    def show(_watcher: object, snapshot: Snapshot) -> bool:
        times.append(snapshot.time_ns)
        return len(times) < 11

    play_recording(story, Span(), rules, (), (clock, 4.0), show)
    assert len(times) == 11
    assert {b - a for a, b in pairwise(times)} == {NS}
    assert clock.monotonic_ns() == pytest.approx(10 * NS / 4)


def test_sessions_are_judged_apart(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    """The second one begins its monotonic clock anew, an hour later."""
    first = record(tmp_path, rules, 4)
    later = ManualClock(first.time_ns + 3600 * NS)
    second = record(tmp_path, rules, 6, scenarios()["tp8"], clock=later)
    assert said(replay_recording(tmp_path, Span(), rules)) == said(second)
    assert said(replay_recording(tmp_path, Span(None, first.time_ns + NS), rules)) == said(first)


@pytest.mark.parametrize("make", ["nothing", "empty", "foreign"])
def test_what_is_no_recording_is_said_in_one_sentence(tmp_path: Path, rules: tuple[Rule, ...], make: str) -> None:
    folder = tmp_path / "x"
    if make != "nothing":
        folder.mkdir()
    if make == "foreign":
        (folder / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(UsageError, match="no folder" if make == "nothing" else "no recording"):
        replay_recording(folder, Span(), rules)


@pytest.mark.parametrize("one_shot", [True, False])
def test_judging_seldom_changes_nothing_at_the_end(story: Path, rules: tuple[Rule, ...], *, one_shot: bool) -> None:
    every = [picture for _, picture in replay_all(session_at(story, None), Span(), rules, one_shot=one_shot)]
    assert len(every) == 31
    assert said(replay_recording(story, Span(), rules, one_shot=one_shot)) == said(every[-1])
