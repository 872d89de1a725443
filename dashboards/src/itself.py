"""bubblewatch itself: what it cannot see, and what it costs."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.src.frame import choice, filled, frame
from dashboards.src.panels import About, Panel, Query, history, lines, rows

HERE = 'instance=~"$instance"'
SEEN = ((None, "red"), (1, "green"))


def itself() -> Dashboard:
    """The dashboard of the daemons."""
    board = frame("bubblewatch-itself", "bubblewatch: itself", "The daemons: blindness, freshness, own cost.")
    board.with_variable(choice("instance", "Host", "label_values(bubblewatch_build_info, instance)"))
    return filled(board, (("What it cannot see", _blindness()), ("What it costs", _cost())))


def _blindness() -> list[Panel]:
    time = "bubblewatch_gpu_time_seconds_total"
    by = "sum by (instance)"
    return [
        history(
            About(
                "Sources", "Red: the source cannot be read; `bubblewatch doctor` on that host names the mend.", "none"
            ),
            Query(f"bubblewatch_source_up{{{HERE}}}", "{{source}} {{instance}}"),
            steps=SEEN,
        ),
        history(
            About("Judged", "Red: not enough evidence to judge the server.", "none"),
            Query(f"bubblewatch_server_judged{{{HERE}}}", "{{server}} {{instance}}"),
            steps=SEEN,
        ),
        lines(
            About("Time not known", "Share of the GPUs' time of which nobody can say what it went to.", "percentunit"),
            Query(
                f'{by} (rate({time}{{{HERE},state="unknown"}}[$__rate_interval]))'
                f" / {by} (rate({time}{{{HERE}}}[$__rate_interval]))",
                "{{instance}}",
            ),
            top=1,
        ),
        lines(
            About("Inputs that are missing", "And could be had; the snapshot page of the daemon names them.", "none"),
            Query(f"bubblewatch_server_missing_inputs{{{HERE}}}", "{{server}} {{instance}}"),
        ),
        lines(
            About("Age of the snapshot", "Above 30 s everything else is left out.", "s"),
            Query(f"bubblewatch_snapshot_age_seconds{{{HERE}}}", "{{instance}}"),
        ),
        lines(
            About("Readings and lines", "Taken from each source.", "cps"),
            Query(
                f"sum by (instance, source) (rate(bubblewatch_source_reads_total{{{HERE}}}[$__rate_interval]))",
                "{{source}} {{instance}}",
            ),
        ),
    ]


def _cost() -> list[Panel]:
    def cpu(process: str) -> str:
        return f"rate(bubblewatch_{process}process_cpu_seconds_total{{{HERE}}}[$__rate_interval])"

    def memory(process: str) -> str:
        return f"bubblewatch_{process}process_resident_memory_bytes{{{HERE}}}"

    def quantile(share: float) -> str:
        buckets = f"rate(bubblewatch_sampler_call_duration_seconds_bucket{{{HERE}}}[$__rate_interval])"
        return f"histogram_quantile({share}, sum by (instance, le) ({buckets}))"

    distinct = f"rate(bubblewatch_sampler_distinct_readings_total{{{HERE}}}[$__rate_interval])"
    return [
        lines(
            About("CPU", "1 = one core. The sampler is a process of its own.", "percentunit"),
            Query(cpu(""), "daemon {{instance}}"),
            Query(cpu("sampler_"), "sampler {{instance}}"),
        ),
        lines(
            About("Memory", "Resident; pages that both processes share count twice.", "bytes"),
            Query(memory(""), "daemon {{instance}}"),
            Query(memory("sampler_"), "sampler {{instance}}"),
        ),
        lines(
            About("Calls of the driver", "By function. The governor keeps them below 2 % of a core.", "cps"),
            Query(
                f"sum by (function) (rate(bubblewatch_sampler_calls_total{{{HERE}}}[$__rate_interval]))", "{{function}}"
            ),
            stacked=True,
        ),
        lines(
            About(
                "Time of a call", "Half and 99 of 100 calls take no longer. Rising: the driver is busy or hangs.", "s"
            ),
            Query(quantile(0.5), "half {{instance}}"),
            Query(quantile(0.99), "99 of 100 {{instance}}"),
        ),
        lines(
            About("Readings that told something new", "A second, over all GPUs: what the calls were good for.", "cps"),
            Query(f"sum by (instance, field) ({distinct})", "{{field}} {{instance}}"),
        ),
        lines(
            About("Late and skipped rounds", "A late reading is never taken for an idle GPU.", "cps"),
            Query(f"rate(bubblewatch_sampler_late_ticks_total{{{HERE}}}[$__rate_interval])", "late {{instance}}"),
            Query(f"rate(bubblewatch_sampler_skipped_ticks_total{{{HERE}}}[$__rate_interval])", "skipped {{instance}}"),
        ),
        lines(
            About("Time of a scrape", "As Prometheus sees it.", "s"),
            Query(f'scrape_duration_seconds{{{HERE},job=~".*bubblewatch.*"}}', "{{instance}}"),
        ),
        lines(
            About("Series", "Samples of a scrape.", "none"),
            Query(f'scrape_samples_scraped{{{HERE},job=~".*bubblewatch.*"}}', "{{instance}}"),
        ),
        rows(
            About("Daemons", "Version, and how long each has been running.", "", 24, 6),
            Query(f"max by (instance, version) (bubblewatch_build_info{{{HERE}}})"),
            Query(f"max by (instance) (time() - bubblewatch_process_start_time_seconds{{{HERE}}})", "Up for", "s"),
        ),
    ]
