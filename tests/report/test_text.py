"""The answer as text: what a person reads first, and that nothing in it acts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bubblewatch.model.findings import Answer, Finding, Remedy, Snapshot, State
from bubblewatch.report.layout import plain, styled
from bubblewatch.report.text import answer_lines, answer_text
from tests.conftest import Golden
from tests.support import snapshots
from tests.support.strategies import snapshots as any_snapshot


@pytest.mark.parametrize(
    ("make", "width", "exit_code"),
    [
        (snapshots.story, 100, 1),
        (snapshots.healthy, 100, 0),
        (snapshots.quiet, 80, 0),
        (snapshots.cannot_judge, 80, 3),
        (snapshots.two_servers, 100, 1),
        (snapshots.nothing_seen, 80, 3),
    ],
)
def test_reads_like_this(make: Callable[[], Snapshot], width: int, exit_code: int, golden: Golden) -> None:
    golden(f"answers/{make.__name__}.txt", answer_text(make(), width, exit_code))


def test_the_first_screenful_says_what_is_wrong_and_what_to_change() -> None:
    top = answer_text(snapshots.story()).splitlines()[:8]

    assert any(line.startswith("VERDICT  Stages take turns") for line in top)
    assert any("Remove --disable-cuda-graph" in line for line in top)


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for make in (snapshots.story, snapshots.healthy, snapshots.cannot_judge, snapshots.hostile):
        assert max(map(len, answer_text(make(), width, 1).splitlines())) <= width


def test_a_cause_that_is_not_shown_is_named_instead_of_numbered() -> None:
    story = snapshots.story()
    view = replace(story.views[0], findings=(snapshots.BUBBLE,))

    assert "effect of cuda-graph-disabled, micro-batch-unfilled" in answer_text(replace(story, views=(view,)))


def test_a_symptom_is_folded_under_the_cause_that_is_shown() -> None:
    """What to do stands at the cause; a symptom with a launch change of its own keeps it."""
    advice = Remedy("Act on the cause.")
    symptom = replace(snapshots.BUBBLE, remedy=advice, hazards=("It may fail.",), check="Look again.")

    def told(*findings: Finding) -> str:
        story = snapshots.story()
        return answer_text(replace(story, views=(replace(story.views[0], findings=findings),)))

    folded = told(snapshots.GRAPHS_OFF, snapshots.SLOTS_UNFILLED, symptom)
    assert "Act on the cause." not in folded
    assert "It may fail." not in folded
    assert "Act on the cause." in told(symptom)
    own = replace(symptom, remedy=replace(advice, add=("--x 1",), diff=("@ unit:3", "+ --x 1")))
    changed = told(snapshots.GRAPHS_OFF, snapshots.SLOTS_UNFILLED, own)
    assert "Act on the cause." in changed
    assert "          + --x 1" in changed.splitlines()


def test_a_fact_on_which_two_findings_rest_is_told_once() -> None:
    story = snapshots.story()
    both = (snapshots.GRAPHS_OFF, replace(snapshots.SLOTS_UNFILLED, evidence=snapshots.GRAPHS_OFF.evidence))

    text = answer_text(replace(story, views=(replace(story.views[0], findings=both),)))

    assert text.count("12 of 12 decode lines") == 1


def test_a_summary_that_wraps_in_the_verdict_is_not_said_again() -> None:
    story = snapshots.story()
    long = replace(snapshots.GRAPHS_OFF, summary="decode runs eager " * 12 + "and that is slow")

    text = answer_text(replace(story, views=(replace(story.views[0], findings=(long,)),)), 80)

    assert text.count("and that is slow") == 1


def test_a_held_back_finding_shows_no_remedy() -> None:
    text = answer_text(snapshots.story())

    assert "HELD BACK by 1, 2" in text
    assert "--pp-async-batch-depth" not in text


def test_ignored_findings_are_named_and_not_shown_resolved_ones_are_gone() -> None:
    story = snapshots.story()
    findings = (
        replace(snapshots.GRAPHS_OFF, ignored=True),
        replace(snapshots.SLOTS_UNFILLED, state=State.RESOLVED),
        snapshots.BUBBLE,
    )
    text = answer_text(replace(story, views=(replace(story.views[0], findings=findings),)))

    assert "IGNORED  cuda-graph-disabled (as you asked)" in text
    assert "remove --disable-cuda-graph" not in text
    assert "8 requests sit in" not in text


def test_unknown_demand_is_said_and_never_shown_as_zero() -> None:
    text = answer_text(snapshots.cannot_judge())

    assert "requests unknown" in text
    assert "0 running" not in text
    assert "whether requests run is unknown (no log, no /metrics)" in text


def test_hostile_text_shows_as_text() -> None:
    text = answer_text(snapshots.hostile())

    assert "[red]x[/red]" in text
    assert r"\x1b[2J" in text
    assert r"\u202e" in text
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in text.replace("\n", ""))
    assert not any(line.startswith("evil") for line in text.splitlines())


def test_the_rich_form_has_the_same_words_and_reads_no_markup() -> None:
    lines = answer_lines(snapshots.hostile(), 100, 1)

    rich_text = styled(lines)

    assert [line.rstrip() for line in rich_text.plain.split("\n")] == plain(lines).split("\n")[:-1]
    assert "[red]x[/red]" in rich_text.plain


@settings(max_examples=150)
@given(any_snapshot, st.integers(0, 200))
def test_any_snapshot_can_be_told(snapshot: Snapshot, width: int) -> None:
    text = answer_text(snapshot, width, exit_code=3)

    assert text.isprintable() or set(filter(lambda character: not character.isprintable(), text)) == {"\n"}
    for answer, word in ((Answer.HEALTHY, "Healthy:"), (Answer.CANNOT_JUDGE, "Cannot judge:")):
        if any(view.answer is answer for view in snapshot.views):
            assert word in " ".join(text.split())
