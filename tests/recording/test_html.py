"""The page in a real Chromium: plots are there, nothing complains, no network, and text from outside stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from bubblewatch.app.replay import Span
from bubblewatch.app.report import write_report
from bubblewatch.model.server import Launch, Server
from bubblewatch.report.frames import RecordingFrames
from bubblewatch.report.html import html
from bubblewatch.report.page import page
from bubblewatch.report.page_text import markdown, plain_report
from bubblewatch.report.plots import plots
from bubblewatch.report.summary import SeenFinding, Summary, summary
from bubblewatch.report.timeline import timeline
from tests.support.chromium import Chromium, chromium_path

needs_chromium = pytest.mark.skipif(chromium_path() is None, reason="needs Chromium (apt-get install chromium)")

EVIL = '<script>document.title="owned"</script><img src=http://192.0.2.1/x onerror=alert(1)>"\'`|</script> \x1b[31m'


@pytest.fixture(scope="module")
def shown(story: Path) -> Summary:
    return summary(RecordingFrames(story))


@pytest.fixture(scope="module")
def evil(shown: Summary) -> Summary:
    """The same recording, if the server's name, argv, settings and log tried to be more than text."""
    server: Server = shown.servers[0]
    seen: SeenFinding = shown.findings[0]
    fact = replace(seen.finding.evidence[0], text=EVIL, where=EVIL)
    finding = replace(seen.finding, summary=EVIL, evidence=(fact,), check=EVIL)
    return replace(
        shown,
        host=type(shown.host)(EVIL, EVIL),
        scenario="",
        servers=[replace(server, key=EVIL, version=EVIL, launch=Launch((EVIL,)))],
        gpus=[replace(shown.gpus[0], name=EVIL), *shown.gpus[1:]],
        findings=[replace(seen, finding=finding), *shown.findings[1:]],
        lost_s={EVIL: {EVIL: 5.0}},
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@needs_chromium
def test_the_page_draws_every_plot_without_complaint_and_without_network(
    browser: Chromium, story: Path, tmp_path: Path
) -> None:
    path = tmp_path / "story.html"
    write_report(story, Span(), path, 100)
    browser.errors.clear()
    browser.requests.clear()
    browser.open(path)
    titles = browser.value("[...document.querySelectorAll('figcaption')].map(e => e.textContent)")
    assert titles == [
        "Where the GPU time went",
        "Stages",
        "Power",
        "Throughput",
        "Demand",
        "Stages at work",
    ]
    assert browser.value("document.body.dataset.drawn") == "6"
    assert browser.value("document.querySelectorAll('#plot-power .scatterlayer .trace').length") == 8
    assert browser.value("document.querySelectorAll('#plot-lanes .heatmaplayer image').length") == 1
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    text = browser.value("document.body.innerText")
    assert "Decode CUDA graphs are off." in text
    assert "--disable-cuda-graph" in text


@needs_chromium
def test_text_from_outside_is_shown_as_text(browser: Chromium, story: Path, evil: Summary, tmp_path: Path) -> None:
    frames = RecordingFrames(story)
    lanes = timeline(frames, evil.start_ns, evil.end_ns)
    path = tmp_path / "evil.html"
    path.write_text(html(page(evil), plots(evil, lanes, frames.states())), encoding="utf-8")
    browser.errors.clear()
    browser.requests.clear()
    browser.open(path)
    assert browser.value("document.title") != "owned"
    assert browser.value("document.querySelectorAll('img[onerror]').length") == 0
    assert EVIL.replace("\x1b", "\\x1b").split(" \\x1b")[0] in browser.value("document.body.innerText")
    assert browser.value("document.body.dataset.drawn") == "6"
    assert browser.errors == []
    assert not [url for url in browser.requests if "192.0.2.1" in url]


@needs_chromium
@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_runs_out_of_the_page_on_a_phone_or_a_screen(
    browser: Chromium, story: Path, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "story.html"
    write_report(story, Span(), path, 100)
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    browser.open(path)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.querySelector('#plot-power').getBoundingClientRect().width") <= width


@needs_chromium
def test_it_prints_with_everything_open(browser: Chromium, story: Path, tmp_path: Path) -> None:
    path = tmp_path / "story.html"
    write_report(story, Span(), path, 100)
    browser.open(path)
    visible = "[...document.querySelectorAll('details td')].some(e => e.checkVisibility({visibilityProperty: true}))"
    browser.value("document.querySelectorAll('details').forEach(e => { e.open = false; })")
    assert browser.value(visible) is False
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.value(visible) is True
    browser.call("Emulation.setEmulatedMedia", media="")


def test_the_file_names_no_address_of_another_machine_that_would_be_loaded(story: Path, tmp_path: Path) -> None:
    path = tmp_path / "story.html"
    write_report(story, Span(), path, 100)
    text = path.read_text(encoding="utf-8")
    own = text[: text.index('<script type="application/json"')]
    assert "http" not in own.replace("http-equiv", "").split("<h2>Findings")[0]
    assert "default-src 'none'" in own
    assert len(text) < 6_000_000


def test_markdown_of_untrusted_text_has_no_markup_of_its_own(evil: Summary) -> None:
    text = markdown(page(evil))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "&lt;script&gt;document.title" in rendered
    assert not re.search(r"<(script|img)", rendered)
    assert {row.count("<td") for row in rendered.split("</tr>") if "<td" in row} == {2, 3}
    assert "\x1b" not in text


def test_the_plain_report_keeps_to_its_width_and_to_printable_text(evil: Summary, shown: Summary) -> None:
    assert max(map(len, plain_report(page(shown), 80).splitlines())) <= 80
    assert plain_report(page(evil), 80).replace("\n", "").isprintable()


def test_the_report_of_the_story_says_what_to_do_and_what_was_lost(shown: Summary) -> None:
    text = plain_report(page(shown), 100)
    assert "First: Remove --disable-cuda-graph." in text
    assert "cuda-graph-disabled  (warning, certain, stood 30 s (100 %))" in text
    assert shown.lost_s["sglang-k26"]["pipeline-bubble"] > 100
    assert sum(shown.states_s.values()) == pytest.approx(8 * 30, rel=0.01)
