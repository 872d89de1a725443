"""Which advice of a rule fits the server that runs, and its texts with figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bubblewatch.diagnose.change import holds_option, launch_diff
from bubblewatch.diagnose.rule import Advice, Rule
from bubblewatch.diagnose.template import Template
from bubblewatch.model.findings import Remedy, Verdict
from bubblewatch.model.server import Server
from bubblewatch.model.signals import SignalValue
from bubblewatch.servers.versions import satisfies


@dataclass(frozen=True, slots=True)
class Told:
    """Advice as it is said: what to do, what may go wrong, how to check."""

    remedy: Remedy
    hazards: tuple[str, ...] = ()
    check: str = ""


def choose_advice(rule: Rule, server: Server | None, values: Mapping[str, SignalValue]) -> Told | None:
    """The first advice of the rule that fits this server and whose figures are all known; None when none does.

    Advice for a range of versions fits only a known version, so that no option is named that the server may not have.
    Nothing is to be removed that a known launch command does not hold: a configuration file or a wrapper may set it.
    """
    for advice in rule.advice:
        if _fits(advice, server, values):
            told = _tell(advice, server, values)
            if told is not None:
                return told
    return None


def _fits(advice: Advice, server: Server | None, values: Mapping[str, SignalValue]) -> bool:
    kind = server.kind if server else "unknown"
    if advice.servers and kind not in advice.servers:
        return False
    if advice.versions and satisfies(server.version if server else None, advice.versions) is not True:
        return False
    settings = server.settings if server else None
    if any(settings is None or settings.get(name) != value for name, value in advice.settings.items()):
        return False
    if server and not all(holds_option(server, option.text) for option in advice.remove):
        return False
    return advice.when is None or advice.when.evaluate(values)[0] is Verdict.MATCH


def _tell(advice: Advice, server: Server | None, values: Mapping[str, SignalValue]) -> Told | None:
    if any(values.get(name) is None for template in advice.templates for name in template.names):
        return None
    remove = tuple(_render(t, values) for t in advice.remove)
    add = tuple(_render(t, values) for t in advice.add)
    remedy = Remedy(
        do=_render(advice.do, values),
        remove=remove,
        add=add,
        diff=launch_diff(server, remove, add),
        undo=advice.undo,
        source=advice.source,
    )
    check = _render(advice.check, values) if advice.check else ""
    return Told(remedy, tuple(_render(t, values) for t in advice.hazards), check)


def _render(template: Template, values: Mapping[str, SignalValue]) -> str:
    return template.render(values) or ""
