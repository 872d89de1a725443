"""In which order findings are to be acted on."""

from __future__ import annotations

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Finding, Severity
from bubblewatch.model.signals import Confidence

Urgency = tuple[int, bool, bool, bool, int, float, str]


def urgency(rule: Rule, finding: Finding | None) -> Urgency:
    """What sorts findings, the most urgent lowest; rules without a finding come last.

    Loud before quiet before held back before ignored; then critical ones; causes before effects; what was read in
    settings before inferences; then the order of advice (demand, slots and graphs, depth, balance); then the larger
    predicted gain times confidence.
    """
    if finding is None:
        return (4, False, False, False, 0, 0.0, rule.name)
    return (
        _group(finding),
        finding.severity is not Severity.CRITICAL,
        rule.effect,
        finding.confidence is not Confidence.CERTAIN,
        int(rule.stage),
        -_weight(finding),
        finding.name,
    )


def _group(finding: Finding) -> int:
    if finding.ignored:
        return 3
    if finding.held_back_by:
        return 2
    return 0 if finding.is_loud else 1


def _weight(finding: Finding) -> float:
    """Confidence times the factor that the change is predicted to bring at most; a factor of 1 where none is."""
    gain = finding.expected_gain
    factor = 1.0
    if gain is not None and gain.high is not None:
        factor = gain.high if gain.unit == "x" else gain.high / gain.now if gain.now else 1.0
    return factor * (int(finding.confidence) + 1)
