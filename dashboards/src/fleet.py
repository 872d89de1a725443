"""Fleet: is anything wrong anywhere, what does it cost, and where to look first."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.src.frame import choice, filled, frame, with_events
from dashboards.src.panels import GPU_HOURS, STATES, TIMES, About, Panel, Query, lines, number, rows

HERE = 'instance=~"$instance"'

RUNBOOK = ("What it means and what to do", "http://${__data.fields.instance}/rules/${__data.fields.rule}")


def findings(selector: str) -> tuple[Query, ...]:
    """Queries of a table of findings that fire: age, GPU-hours lost in a day to those that explain lost time, gain."""
    by = "by (instance, server, rule)"
    firing_of = ",".join(part for part in ('rule!="healthy"', selector) if part)
    firing = f"max {by} (bubblewatch_finding{{{firing_of}}} == 1)"
    lost = f'increase(bubblewatch_server_lost_gpu_seconds_total{{cause!="unsplit",{selector}}}[1d])'
    since = f"bubblewatch_finding_start_timestamp_seconds{{{firing_of}}}"
    return (
        Query(f"max by (instance, server, rule, severity) (bubblewatch_finding{{{firing_of}}} == 1)"),
        Query(f"max {by} (time() - {since})", "Age", "s"),
        Query(
            f'sum {by} (label_replace({lost}, "rule", "$1", "cause", "(.+)")) / 3600'
            f" and on (instance, server, rule) {firing}",
            "Lost in a day",
            GPU_HOURS,
        ),
        Query(f"max {by} (bubblewatch_finding_expected_gain_high_ratio{{{selector}}})", "Tokens/s, at most", TIMES),
    )


def fleet() -> Dashboard:
    """The dashboard of all hosts."""
    board = frame("bubblewatch-fleet", "bubblewatch: fleet", "Every host: what fires, what it costs, who serves what.")
    board.with_variable(choice("instance", "Host", "label_values(bubblewatch_build_info, instance)"))
    sections = (("", _summary()), ("Where the GPUs' time goes", _time()), ("Servers", _servers()))
    return with_events(filled(board, sections))


def _summary() -> list[Panel]:
    unknown = f'sum(rate(bubblewatch_gpu_time_seconds_total{{{HERE},state="unknown"}}[$__rate_interval]))'
    everything = f"sum(rate(bubblewatch_gpu_time_seconds_total{{{HERE}}}[$__rate_interval]))"
    lost = f"increase(bubblewatch_server_lost_gpu_seconds_total{{{HERE}}}[1d])"
    return [
        number(About("GPUs", "GPUs that are read now.", "none", 4, 4), Query(f"count(bubblewatch_gpu_info{{{HERE}}})")),
        number(
            About("Servers", "Inference servers that are watched.", "none", 4, 4),
            Query(f"count(bubblewatch_server_info{{{HERE}}})"),
        ),
        number(
            About("To act on", "Findings of warning or above that fire now and nothing holds back.", "none", 4, 4),
            Query(f"sum(bubblewatch_server_loud_findings{{{HERE}}})"),
            ((None, "green"), (1, "orange")),
        ),
        number(
            About("Lost in a day", "GPU-hours in which requests ran and the GPU did no work.", GPU_HOURS, 4, 4),
            Query(f"sum({lost}) / 3600"),
        ),
        number(
            About("Not known", "Share of the GPUs' time of which nobody can say what it went to.", "percentunit", 4, 4),
            Query(f"{unknown} / {everything}"),
            ((None, "green"), (0.1, "orange"), (0.5, "red")),
            decimals=1,
        ),
        number(
            About("Hosts that do not answer", "Daemons that cannot be scraped.", "none", 4, 4),
            Query('count(up{job=~".*bubblewatch.*"} == 0) or vector(0)'),
            ((None, "green"), (1, "red")),
        ),
        rows(
            About("Findings that fire", "The link on a rule leads to its page on that host's daemon.", "", 24, 9),
            *findings(HERE),
            links={"rule": RUNBOOK},
        ),
    ]


def _time() -> list[Panel]:
    time = f"rate(bubblewatch_gpu_time_seconds_total{{{HERE}}}[$__rate_interval])"
    lost = f"rate(bubblewatch_server_lost_gpu_seconds_total{{{HERE}}}[$__rate_interval])"
    return [
        lines(
            About(
                "GPUs by state",
                "active: useful work. resident-low: a kernel waits or spins. not-resident: requests run, the GPU idles."
                " no-request: nobody asks. The sum is the number of GPUs.",
                "none",
            ),
            Query(f"sum by (state) ({time})", "{{state}}"),
            stacked=True,
            colours=STATES,
        ),
        lines(
            About("GPUs lost, by cause", "resident-low and not-resident, by the finding that explains them.", "none"),
            Query(f"sum by (cause) ({lost}) > 0", "{{cause}}"),
            stacked=True,
        ),
        lines(
            About("Power", "Mean power of all GPUs of a host.", "watt"),
            Query(f"sum by (instance) (bubblewatch_gpu_power_watts{{{HERE}}})", "{{instance}}"),
            stacked=True,
        ),
        lines(
            About("GPU-hours lost, by server", "In the hour before each moment.", GPU_HOURS),
            Query(
                f"sum by (instance, server) (increase(bubblewatch_server_lost_gpu_seconds_total{{{HERE}}}[1h])) / 3600",
                "{{server}} {{instance}}",
            ),
        ),
    ]


def _servers() -> list[Panel]:
    return [
        rows(
            About(
                "Pipelines", "A server that spans hosts is one row. S: stages that work at the same time.", "", 24, 6
            ),
            Query("max by (pipeline) (pipeline:bubblewatch_generation_tokens_per_second:max)", "Tokens/s", "none"),
            Query("max by (pipeline) (pipeline:bubblewatch_requests_running:max)", "Running", "none"),
            Query("max by (pipeline) (pipeline:bubblewatch_requests_queued:max)", "Queued", "none"),
            Query("max by (pipeline) (pipeline:bubblewatch_pipeline_stages_busy:sum)", "S", "none"),
            Query("max by (pipeline) (pipeline:bubblewatch_pipeline_stages:max)", "Stages", "none"),
            Query("max by (pipeline) (pipeline:bubblewatch_joules_per_token:ratio)", "J/token", "joule"),
        ),
        rows(
            About("Servers", "What runs where.", "", 24, 6),
            Query(f"bubblewatch_server_info{{{HERE}}}"),
            Query(f"max by (instance, server) (bubblewatch_server_judged{{{HERE}}})", "Judged", "bool_yes_no"),
            hidden=("__name__", "job"),
        ),
    ]
