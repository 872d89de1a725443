"""Launches judged on settings alone."""

import pytest

from bubblewatch.app.audit import AuditRequest, audit
from bubblewatch.app.rules import rules_in_force
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Answer
from bubblewatch.report.audit_document import audit_document
from bubblewatch.report.audit_text import audit_text
from bubblewatch.report.document import to_json
from bubblewatch.report.github import command, github_lines
from bubblewatch.signals.evidence import Stated

STORY = """\
[Service]
ExecStart=/venv/bin/python -m sglang.launch_server \\
  --model-path /data/k26 \\
  --pp-size 8 \\
  --max-running-requests 64 \\
  --api-key sk-live0123456789abcdefABCDEF \\
  --disable-cuda-graph
"""
SANE = "vllm serve m --tensor-parallel-size 8"
COMPOSE = """\
services:
  good:
    image: vllm/vllm-openai:v0.24.0
    command: --model a -tp 2
  bad:
    image: vllm/vllm-openai:v0.24.0
    command:
      - --model
      - b
      - --enforce-eager
"""


@pytest.fixture(scope="module")
def rules():
    return rules_in_force()


@pytest.fixture
def unit(tmp_path):
    path = tmp_path / "k26.service"
    path.write_text(STORY)
    return str(path)


@pytest.fixture
def compose(tmp_path):
    path = tmp_path / "compose.yml"
    path.write_text(COMPOSE)
    return str(path)


def names(audited):
    return [finding.name for finding in audited.view.findings]


def judge(rules, *files, command=None, unit_file=None, version=None, server=None, ignore=(), **stated):
    request = AuditRequest(files, command, unit_file, server, version, Stated(**stated))
    return audit(request, rules, ignore, 0)


def test_the_story_is_found_in_its_unit_file(rules, unit):
    judged = judge(rules, unit, version="0.5.10")
    (audited,) = judged.servers
    assert judged.snapshot.answer is Answer.FINDINGS
    assert audited.server.key == "k26"
    assert names(audited)[0] == "cuda-graph-disabled"
    assert audited.view.findings[0].confidence.word == "certain"
    assert "pipeline-bubble" not in names(audited)
    assert audited.expected is None
    assert any("--concurrency" in text for text in audited.view.missing)


def test_a_unit_file_is_the_same_by_its_own_option(rules, unit):
    by_option = judge(rules, unit_file=unit, version="0.5.10", concurrency=8)
    assert by_option == judge(rules, unit, version="0.5.10", concurrency=8)


def test_stated_requests_let_the_bubble_be_expected(rules, unit):
    (audited,) = judge(rules, unit, version="0.5.10", concurrency=8).servers
    bubble = next(finding for finding in audited.view.findings if finding.name == "pipeline-bubble")
    assert bubble.confidence.word == "medium"
    assert audited.expected is not None
    assert audited.expected.burst is not None
    assert audited.expected.burst.slots == 1
    text = audit_text(judge(rules, unit, version="0.5.10", concurrency=8))
    assert "1 of 8 slots filled: a stage works 12 % of the time at most" in " ".join(text.split())


def test_a_launch_without_faults_is_quiet(rules):
    judged = judge(rules, command=SANE, version="0.24.0")
    (audited,) = judged.servers
    assert judged.snapshot.answer is Answer.QUIET
    assert not [finding for finding in audited.view.findings if finding.is_loud]
    assert "Nothing to change" in audit_text(judged)


def test_an_option_that_the_version_does_not_know_is_a_problem(rules, tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("python -m sglang.launch_server --model m \\\n  --no-such-option 1\n")
    judged = judge(rules, str(script), version="0.5.10")
    (audited,) = judged.servers
    assert judged.has_problems
    assert judged.snapshot.answer is Answer.FINDINGS
    assert "--no-such-option" in audited.problems[0]
    assert f"({script}:2)" in audit_text(judged, width=400)
    assert any(line.startswith(f"::error file={script},line=2,") for line in github_lines(judged))


def test_an_option_that_a_newer_version_may_know_is_a_doubt(rules):
    judged = judge(rules, command="python -m sglang.launch_server --model m --brand-new 1", version="9.0.0")
    (audited,) = judged.servers
    assert not judged.has_problems
    assert any("--brand-new" in text for text in audited.doubts)


def test_an_option_file_that_was_not_read_is_a_doubt(rules):
    judged = judge(rules, command="python -m sglang.launch_server --config /nowhere/x.yaml", version="0.5.10")
    assert not judged.has_problems
    assert any("/nowhere/x.yaml" in text for text in judged.servers[0].doubts)


def test_each_server_of_a_compose_file_gets_its_section(rules, compose):
    judged = judge(rules, compose)
    good, bad = judged.servers
    assert [audited.server.key for audited in judged.servers] == ["good", "bad"]
    assert good.server.version == "0.24.0"
    assert good.server.version_basis == "image tag"
    assert good.view.answer is Answer.QUIET
    assert names(bad)[0] == "cuda-graph-disabled"
    text = audit_text(judged)
    assert text.index("good  vLLM 0.24.0") < text.index("bad  vLLM 0.24.0")


def test_the_line_to_change_is_named(rules, compose):
    judged = judge(rules, compose)
    (line,) = [line for line in github_lines(judged) if "cuda-graph-disabled" in line]
    assert line.startswith(f"::warning file={compose},line=10,title=cuda-graph-disabled (certain)::")
    document = audit_document(judged)
    assert document["audits"][1]["places"][0] == {
        "id": document["findings"][0]["id"],
        "place": {"file": compose, "line": 10},
    }


def test_servers_of_one_name_are_told_apart(rules):
    judged = judge(rules, command=f"{SANE}; {SANE} --enforce-eager")
    assert len({audited.view.target for audited in judged.servers}) == 2


def test_the_document_has_the_prediction_and_the_notes(rules, unit):
    document = audit_document(judge(rules, unit, concurrency=8))
    (part,) = document["audits"]
    assert document["verdict"] == "findings"
    assert part["prediction"]["burst"] == {"slots": 1.0, "duty_at_most": 0.125}
    assert part["launch_read_from"] == f"{unit}:2"


def test_a_secret_of_the_launch_is_in_no_output(rules, unit):
    judged = judge(rules, unit, version="0.5.10", concurrency=8)
    outputs = audit_text(judged) + to_json(audit_document(judged)) + "\n".join(github_lines(judged))
    assert "sk-live" not in outputs


def test_an_accepted_finding_stays_visible(rules, unit):
    judged = judge(rules, unit, ignore=("cuda-graph-disabled",))
    assert "IGNORED" in audit_text(judged)
    assert not judged.servers[0].view.findings[0].is_loud
    assert any(line.startswith("::notice") and "cuda-graph-disabled" in line for line in github_lines(judged))


def test_bare_options_are_judged_when_the_server_is_named(rules):
    judged = judge(rules, command="--model m --enforce-eager", server="vllm")
    assert names(judged.servers[0])[0] == "cuda-graph-disabled"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "nothing to audit"),
        ({"command": "nginx -g daemon"}, "no inference server that bubblewatch knows: it starts 'nginx'"),
        ({"command": "-", "unit_file": "-"}, "only one input"),
        ({"command": SANE, "server": "nope"}, "'nope' is no server"),
        ({"unit_file": "/nowhere/x.service"}, "/nowhere/x.service"),
    ],
)
def test_what_cannot_be_audited_is_refused(rules, given, told):
    with pytest.raises(UsageError) as caught:
        judge(rules, **given)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_is_refused_with_what_to_do(rules):
    with pytest.raises(UsageError, match=r"no file named 'gone\.yml'.*--command"):
        judge(rules, "gone.yml")


def test_containers_without_a_server_are_named(rules, tmp_path):
    path = tmp_path / "compose.yml"
    path.write_text("services:\n  a:\n    image: nginx\n  b:\n    image: redis\n")
    with pytest.raises(UsageError, match=r"none of its containers runs one \(a, b\)"):
        judge(rules, str(path))


def test_nothing_in_a_text_can_end_a_workflow_command():
    line = command("warning", ("a,b:c%.yml", 3), "x::y", "50 %\n::error::owned\r\x1b[2J")
    assert line == "::warning file=a%2Cb%3Ac%25.yml,line=3,title=x%3A%3Ay::50 %25%0A::error::owned%0D\\x1b[2J"
