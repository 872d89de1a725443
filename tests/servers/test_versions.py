from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.servers.versions import Bounds, Version, satisfies


def version(text: str) -> Version:
    parsed = Version.parse(text)
    assert parsed is not None
    return parsed


def test_versions_are_ordered_as_packages_are() -> None:
    texts = [
        "0.4.3",
        "0.4.10",
        "0.5.6.dev3",
        "0.5.6rc1",
        "0.5.6",
        "0.5.6.post1",
        "0.5.6.post2",
        "0.5.7",
        "0.5.10",
        "1.0",
    ]
    assert [version(text) for text in texts] == sorted(version(text) for text in texts)
    assert len({version(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("v0.5.10", "0.5.10"),
        ("0.8.5.post1+cu128", "0.8.5.post1"),
        ("0.9", "0.9.0"),
        ("0.11.1rc2.dev5+gabc", "0.11.1rc2"),
    ],
)
def test_spellings_of_one_version(text: str, same: str) -> None:
    assert version(text) == version(same)


@pytest.mark.parametrize("text", [None, "", "main", "unknown", "commit 4418f599a", "2", "latest"])
def test_what_is_no_version_is_not_known(text: str | None) -> None:
    assert Version.parse(text) is None
    assert satisfies(text, ">=0.5.7") is None


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        ("0.5.7", ">=0.5.7,<0.5.20", True),
        ("0.5.6.post2", ">=0.5.7", False),
        ("0.5.20", ">=0.5.7,<0.5.20", False),
        ("0.5.20", "!=0.5.19", True),
        ("0.5.20", "==0.5.20, >0.5.19, <=0.5.20", True),
        ("0.5.20", "", True),
    ],
)
def test_conditions(text: str, condition: str, expected: bool) -> None:
    assert satisfies(text, condition) is expected


@pytest.mark.parametrize("condition", ["0.5.7", ">=abc", "~=0.5"])
def test_a_condition_that_is_none_is_an_error_of_its_author(condition: str) -> None:
    with pytest.raises(ValueError, match="version condition"):
        version("0.5.7").satisfies(condition)


def test_bounds_decide_only_what_they_can() -> None:
    old = Bounds(None, version("0.5.4"))
    assert old.since("0.5.7") is False
    assert old.since("0.5.4") is False
    assert old.since("0.5.3") is None
    new = Bounds(version("0.5.14"), None)
    assert new.since("0.5.7") is True
    assert new.since("0.5.20") is None
    exact = Bounds.exactly("0.5.7")
    assert exact is not None
    assert exact.since("0.5.7") is True
    assert exact.since("0.5.7.post1") is False
    assert Bounds().since("0.5.7") is None
    assert old.narrowed(new).is_empty


@given(st.text(max_size=200))
def test_any_text_is_a_version_or_none(text: str) -> None:
    parsed = Version.parse(text)
    assert parsed is None or version(str(parsed)) == parsed
