from __future__ import annotations

import pytest

from bubblewatch.diagnose.template import read_template
from bubblewatch.model.errors import RuleError


def test_shows_values_by_their_formats() -> None:
    template = read_template("S {pipeline.stages_busy:.1f} of {parallel.pp}, {graphs.decode_share:.0%}")
    assert template.names == ("pipeline.stages_busy", "parallel.pp", "graphs.decode_share")
    shown = template.render({"pipeline.stages_busy": 0.5, "parallel.pp": 8, "graphs.decode_share": 0.25})
    assert shown == "S 0.5 of 8, 25%"


def test_says_nothing_when_a_value_is_missing() -> None:
    assert read_template("{parallel.pp} stages").render({}) is None


def test_text_without_places_needs_no_value() -> None:
    assert read_template("Decode CUDA graphs are off.").render({}) == "Decode CUDA graphs are off."


@pytest.mark.parametrize("text", ["{", "a } b", "{Upper}", "{0}", "{{parallel.pp}}", "{parallel.pp!r}"])
def test_refuses_braces_that_belong_to_no_name(text: str) -> None:
    with pytest.raises(RuleError, match="brace"):
        read_template(text)


def test_refuses_a_format_that_does_not_suit() -> None:
    with pytest.raises(RuleError, match="format"):
        read_template("{demand.state:.1f}").render({"demand.state": "running"})


def test_a_value_with_braces_is_shown_as_it_is() -> None:
    assert read_template("is {demand.state}").render({"demand.state": "{parallel.pp}"}) == "is {parallel.pp}"
