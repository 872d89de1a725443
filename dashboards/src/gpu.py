"""GPU: what one card reads, and how far that can be trusted."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.src.frame import choice, filled, frame, with_events
from dashboards.src.panels import STATES, About, Panel, Query, lines, rows

GPUS = 'instance=~"$instance",uuid=~"$uuid"'
INDEX = f"* on (job, instance, uuid) group_left (gpu) bubblewatch_gpu_info{{{GPUS}}}"
CARD = "{{gpu}} {{instance}}"


def gpu() -> Dashboard:
    """The dashboard of single cards."""
    board = frame("bubblewatch-gpu", "bubblewatch: GPU", "Single cards: work, power, clocks, memory, time by state.")
    board.with_variable(choice("instance", "Host", "label_values(bubblewatch_gpu_info, instance)", several=False))
    board.with_variable(choice("uuid", "GPU", 'label_values(bubblewatch_gpu_info{instance=~"$instance"}, uuid)'))
    return with_events(filled(board, (("", _which()), ("Work", _work()), ("Power and clocks", _power()))))


def _which() -> list[Panel]:
    return [
        rows(
            About("Cards", "Which card is which, and who uses it.", "", 24, 7),
            Query(f"max by (instance, uuid, gpu, model) (bubblewatch_gpu_info{{{GPUS}}})"),
            Query(f"max by (instance, uuid, server, stage) (bubblewatch_gpu_assignment{{{GPUS}}})"),
            Query(f"max by (instance, uuid) (bubblewatch_gpu_memory_total_bytes{{{GPUS}}})", "Memory", "bytes"),
            Query(f"max by (instance, uuid) (bubblewatch_gpu_power_limit_watts{{{GPUS}}})", "Limit", "watt"),
        )
    ]


def _work() -> list[Panel]:
    return [
        lines(
            About(
                "Useful work",
                "By SM activity, else the lower of utilization and power, else utilization.",
                "percentunit",
            ),
            Query(f"bubblewatch_gpu_work_duty_ratio {INDEX}", CARD),
            top=1,
        ),
        lines(
            About(
                "Utilization without work",
                "A kernel is resident and does nothing: it waits for another GPU, or it spins.",
                "percentunit",
            ),
            Query(f"bubblewatch_gpu_spin_ratio {INDEX}", CARD),
            top=1,
        ),
        lines(
            About(
                "Utilization and SM activity", "Utilization alone proves no work: spinning reads 100 %.", "percentunit"
            ),
            Query(f"bubblewatch_gpu_utilization_ratio {INDEX}", f"utilization {CARD}"),
            Query(f"bubblewatch_gpu_sm_active_ratio {INDEX}", f"SM {CARD}"),
            top=1,
        ),
        lines(
            About("Memory traffic", "Share of time in which device memory was read or written.", "percentunit"),
            Query(f"bubblewatch_gpu_memory_activity_ratio {INDEX}", CARD),
            top=1,
        ),
        lines(
            About("Time by state", "Of the chosen cards together; the sum is their number.", "none"),
            Query(
                f"sum by (state) (rate(bubblewatch_gpu_time_seconds_total{{{GPUS}}}[$__rate_interval]))", "{{state}}"
            ),
            stacked=True,
            colours=STATES,
        ),
        lines(
            About("Memory in use", "Device memory.", "bytes"),
            Query(f"bubblewatch_gpu_memory_used_bytes {INDEX}", CARD),
        ),
    ]


def _power() -> list[Panel]:
    return [
        lines(
            About(
                "Power",
                "With the levels at which the card idles loaded and works fully, as learned or assumed.",
                "watt",
            ),
            Query(f"bubblewatch_gpu_power_watts {INDEX}", CARD),
            Query(f"max(bubblewatch_gpu_power_idle_watts{{{GPUS}}})", "idle, highest"),
            Query(f"max(bubblewatch_gpu_power_busy_watts{{{GPUS}}})", "busy, highest"),
        ),
        lines(
            About("Power between those levels", "Above 100 %: the busy level is taken too low.", "percentunit"),
            Query(f"bubblewatch_gpu_power_duty_ratio {INDEX}", CARD),
        ),
        lines(
            About("SM clock", "Low under load: held back by power, heat or a setting.", "hertz"),
            Query(f"bubblewatch_gpu_sm_clock_hertz {INDEX}", CARD),
        ),
        lines(
            About("Temperature", "Of the core.", "celsius"),
            Query(f"bubblewatch_gpu_temperature_celsius {INDEX}", CARD),
        ),
        lines(
            About("Power by energy", "Energy over time, by the card's own counter where it has one.", "watt"),
            Query(f"rate(bubblewatch_gpu_energy_joules_total[$__rate_interval]) {INDEX}", CARD),
        ),
        lines(
            About("Readings", "Distinct moments in the window that the values of this page cover.", "none"),
            Query(f"bubblewatch_gpu_readings {INDEX}", CARD),
        ),
    ]
