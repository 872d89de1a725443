from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import pytest

from bubblewatch.diagnose.explain import explain_html, explain_text, find, rules_html
from bubblewatch.diagnose.rule import Rule


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_rule_is_explained_within_the_width(rules: tuple[Rule, ...], width: int) -> None:
    for rule in rules:
        lines = explain_text(rule, width).splitlines()[1:]
        # Only a single word, such as an address, may be wider.
        assert all(len(line) <= width or " " not in line.strip() for line in lines if line.startswith(" "))


def test_says_what_it_means_when_it_fires_and_what_to_do(rules: tuple[Rule, ...]) -> None:
    depth = next(rule for rule in rules if rule.name == "async-depth-missing")
    text = explain_text(depth, 100)
    assert text.startswith("BW103 async-depth-missing: ")
    for words in ("what it means", "depth.value == 0", "only when", "held back by", "+ --pp-async-batch-depth 1"):
        assert words in text
    assert "risk: Wrong output was reported at depths above 1" in text


def test_leaves_out_what_a_rule_does_not_have(rules: tuple[Rule, ...]) -> None:
    healthy = next(rule for rule in rules if rule.name == "healthy")
    text = explain_text(healthy, 100)
    assert "advice for" not in text
    assert "references" not in text
    assert "held back by" not in text


class Outline(HTMLParser):
    """Tags that are open, and what was seen; a page must close what it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert tag not in ("script", "style", "iframe", "img")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_the_page_of_every_rule_is_whole_and_says_what_the_text_says(rules: tuple[Rule, ...]) -> None:
    names = {rule.name for rule in rules}
    for rule in rules:
        page = outline(explain_html(rule))
        assert rule.explain.what in page.text
        inner = [link.removeprefix("/rules/") for link in page.links if link.startswith("/rules/")]
        assert set(inner) <= names
        assert all(link.startswith(("https://", "/rules")) for link in page.links)


def test_texts_of_a_users_rule_do_nothing_on_a_page(rules: tuple[Rule, ...]) -> None:
    bad = '<script>x</script>"><a href="javascript:y">'
    rule = dataclasses.replace(rules[0], title=bad, references=("javascript:y",))
    page = outline(explain_html(rule))
    assert bad in page.text
    assert not any(link.startswith("javascript") for link in page.links)
    assert outline(rules_html([rule])).text.count(bad) == 1


def test_the_list_leads_to_every_rule(rules: tuple[Rule, ...]) -> None:
    assert {link.removeprefix("/rules/") for link in outline(rules_html(rules)).links} == {rule.name for rule in rules}


def test_a_rule_is_found_by_name_and_id_in_any_case(rules: tuple[Rule, ...]) -> None:
    assert find(rules, "BW101") is find(rules, "bw101") is find(rules, " Pipeline-Bubble ")
    assert find(rules, "nothing") is None
