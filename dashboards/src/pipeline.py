"""Pipeline: one server over all its hosts. Do its stages work at once, and what would make them?"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.src.fleet import RUNBOOK, findings
from dashboards.src.frame import choice, filled, frame, with_events
from dashboards.src.panels import STATES, About, Panel, Query, history, lines, rows

ONE = 'pipeline=~"$pipeline"'
OF_IT = f"* on (job, instance, server) group_left (pipeline) bubblewatch_server_info{{{ONE}}}"

DUTY_STEPS = ((None, "dark-red"), (0.1, "red"), (0.25, "orange"), (0.5, "yellow"), (0.75, "green"))
"""Work duty -> colour: an eighth is what lockstep leaves to each of eight stages."""


def at_this_demand(series: str) -> str:
    """Mean of a recorded series over the week before, when about as many requests ran (a quarter more or less)."""
    running = "pipeline:bubblewatch_requests_running:max"
    alike = f"abs({running}{{{ONE}}} / on (pipeline) ({running}{{{ONE}}} @ end()) - 1) <= 0.25"
    return f"avg_over_time(({series}{{{ONE}}} and on (pipeline) {alike})[1w:10m] @ end())"


def pipeline() -> Dashboard:
    """The dashboard of one server."""
    board = frame(
        "bubblewatch-pipeline", "bubblewatch: pipeline", "One server: stages, slots, tokens, and what holds it back."
    )
    board.with_variable(
        choice("pipeline", "Pipeline", "label_values(bubblewatch_server_info, pipeline)", several=False)
    )
    sections = (
        ("Do the stages work at once?", _stages()),
        ("What it brings", _yield()),
        ("Requests and slots", _requests()),
        ("Findings and settings", _answer()),
    )
    return with_events(filled(board, sections))


def _stages() -> list[Panel]:
    return [
        lines(
            About(
                "S against stages",
                "S is the sum of the stages' work duties: 1 means that they take turns. Fewer stages seen than there"
                " are: a host is not scraped.",
                "none",
            ),
            Query(f"pipeline:bubblewatch_pipeline_stages_busy:sum{{{ONE}}}", "S {{pipeline}}"),
            Query(f"pipeline:bubblewatch_pipeline_stages:max{{{ONE}}}", "stages {{pipeline}}"),
            Query(f"pipeline:bubblewatch_pipeline_stages_visible:count{{{ONE}}}", "seen {{pipeline}}"),
        ),
        history(
            About(
                "Work duty by stage",
                "A row a stage. All dark: they wait for each other or for requests. One bright: it holds up the rest.",
                "percentunit",
            ),
            Query(f"pipeline_stage:bubblewatch_gpu_work_duty_ratio:avg{{{ONE}}}", "stage {{stage}} {{pipeline}}"),
            steps=DUTY_STEPS,
        ),
        lines(
            About("GPUs by state", "What the GPUs of this server do; the sum is their number.", "none"),
            Query(f"sum by (state) (pipeline_state:bubblewatch_gpu_time_seconds:rate5m{{{ONE}}})", "{{state}}"),
            stacked=True,
            colours=STATES,
        ),
        lines(
            About("GPUs lost, by cause", "resident-low and not-resident, by the finding that explains them.", "none"),
            Query(f"sum by (cause) (pipeline_cause:bubblewatch_lost_gpu_seconds:rate5m{{{ONE}}}) > 0", "{{cause}}"),
            stacked=True,
        ),
    ]


def _yield() -> list[Panel]:
    tokens, energy = (
        "pipeline:bubblewatch_generation_tokens_per_second:max",
        "pipeline:bubblewatch_joules_per_token:ratio",
    )
    return [
        lines(
            About(
                "Tokens a second",
                "Beside it the mean of the week before at the same demand as now (running requests within a quarter).",
                "none",
            ),
            Query(f"{tokens}{{{ONE}}}", "{{pipeline}}"),
            Query(at_this_demand(tokens), "week at this demand {{pipeline}}"),
        ),
        lines(
            About(
                "Energy of a token", "Energy of all its GPUs over generated tokens; the week before as beside.", "joule"
            ),
            Query(f"{energy}{{{ONE}}}", "{{pipeline}}"),
            Query(at_this_demand(energy), "week at this demand {{pipeline}}"),
        ),
        lines(
            About("Time of a decode step", "Between two decode forwards of one rank.", "s"),
            Query(f"bubblewatch_decode_step_seconds {OF_IT}", "{{server}} {{instance}}"),
        ),
        lines(
            About("CUDA graphs", "Share of decode lines that say that a graph ran.", "percentunit"),
            Query(f"bubblewatch_cuda_graphs_decode_ratio {OF_IT}", "{{server}} {{instance}}"),
            top=1,
        ),
    ]


def _requests() -> list[Panel]:
    return [
        lines(
            About("Running and queued", "Over all slots and replicas.", "none"),
            Query(f"pipeline:bubblewatch_requests_running:max{{{ONE}}}", "running {{pipeline}}"),
            Query(f"pipeline:bubblewatch_requests_queued:max{{{ONE}}}", "queued {{pipeline}}"),
            Query(f"bubblewatch_requests_limit {OF_IT}", "limit {{server}} {{instance}}"),
        ),
        lines(
            About("Slots", "Filled micro-batch slots against those that can be in flight.", "none"),
            Query(f"bubblewatch_slots_filled {OF_IT}", "filled {{server}} {{instance}}"),
            Query(f"bubblewatch_slots_ring {OF_IT}", "ring {{server}} {{instance}}"),
        ),
        lines(
            About("Demand", "Share of the watched time in which requests ran.", "percentunit"),
            Query(f"bubblewatch_demand_ratio {OF_IT}", "{{server}} {{instance}}"),
            top=1,
        ),
        lines(
            About("KV cache", "Share in use, the highest lately.", "percentunit"),
            Query(f"bubblewatch_kv_cache_usage_ratio {OF_IT}", "{{server}} {{instance}}"),
            top=1,
        ),
    ]


def _answer() -> list[Panel]:
    there = f"and on (instance, server) bubblewatch_server_info{{{ONE}}}"
    of_it = [Query(f"({query.expr}) {there}", query.name, query.unit) for query in findings("")]
    return [
        rows(
            About("Findings that fire", "The link on a rule leads to its page on that host's daemon.", "", 24),
            *of_it,
            links={"rule": RUNBOOK},
        ),
        rows(
            About("Settings", "As they hold. `launch` changes with any option or variable of the launch.", "", 24, 6),
            Query(f"bubblewatch_server_settings_info {there}"),
            hidden=("__name__", "job"),
        ),
    ]
