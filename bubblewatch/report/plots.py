"""The plots of a report, as figures of plotly.js: plain data, drawn by the script that the page holds.

Names in a plot are ours (fields, states, stage and GPU numbers): plotly reads a little markup in texts, so nothing
that a server wrote may stand in one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from bubblewatch.model.accounts import GpuState
from bubblewatch.report.summary import Summary, gpu_label
from bubblewatch.report.timeline import Timeline

Figure = dict[str, Any]

COLORS: Mapping[str, str] = MappingProxyType(
    {
        GpuState.ACTIVE: "#1b9e77",
        GpuState.RESIDENT_LOW: "#d9a441",
        GpuState.NOT_RESIDENT: "#c8553d",
        GpuState.NO_REQUEST: "#9aa5b1",
        GpuState.START_UP: "#7570b3",
        GpuState.UNKNOWN: "#d5d9de",
    }
)
"""State -> colour; told apart by most people with a colour weakness, and in grey."""

STATE_STEPS = 240
"""Most bars in the plot of states."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with its place on the page. `note` says how to read it."""

    id: str
    title: str
    note: str
    figure: Figure


def plots(shown: Summary, lanes: Timeline, states: pd.DataFrame) -> list[Plot]:
    """Every plot for which there is anything to draw."""
    found = [_states(states), _lanes(shown, lanes), _power(shown, lanes), *_work(shown), _stages(shown)]
    return [plot for plot in found if plot is not None]


def _figure(traces: Sequence[Mapping[str, Any]], y_title: str, **layout: Any) -> Figure:
    return {
        "data": list(traces),
        "layout": {
            "margin": {"l": 64, "r": 16, "t": 8, "b": 40},
            "height": 300,
            "yaxis": {"title": {"text": y_title}, "rangemode": "tozero"},
            "xaxis": {"type": "date"},
            "legend": {"orientation": "h", "y": -0.2},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "x unified",
            **layout,
        },
    }


def _states(states: pd.DataFrame) -> Plot | None:
    if not len(states):
        return None
    span_s = (states["time"].iloc[-1] - states["time"].iloc[0]).total_seconds()
    step_s = max(5, math.ceil(span_s / STATE_STEPS / 5) * 5)
    table = states.pivot_table(
        index=states["time"].dt.floor(f"{step_s}s"), columns="state", values="seconds", aggfunc="sum"
    ).fillna(0.0)
    share = table.div(table.sum(axis=1), axis=0) * 100
    times = [str(t)[:19] for t in share.index]
    traces = [
        {
            "type": "bar",
            "name": state.value,
            "x": times,
            "y": _rounded(share[state.value], 1),
            "marker": {"color": COLORS[state]},
        }
        for state in GpuState
        if state.value in share
    ]
    figure = _figure(traces, "% of GPU time", barmode="stack", bargap=0)
    note = "Useful work is green. Red and amber are GPU time in which requests ran and the GPU did not work."
    return Plot("states", "Where the GPU time went", note, figure)


def _lanes(shown: Summary, lanes: Timeline) -> Plot | None:
    rows = [(gpu_label(gpu, shown.servers), lanes.means.get(gpu.uuid, {})) for gpu in shown.gpus]
    field = next((f for f in ("sm_active_ratio", "util_ratio") if any(f in means for _, means in rows)), None)
    if field is None:
        return None
    empty = np.full(len(lanes.edges_ns) - 1, np.nan)
    heat = {
        "type": "heatmap",
        "x": lanes.times(),
        "y": [label for label, _ in rows],
        "z": [_rounded(means.get(field, empty), 3) for _, means in rows],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "#f3f1ec"], [0.5, "#5aa9a0"], [1, "#0b4f4a"]],
        "hoverongaps": False,
    }
    layout = {"yaxis": {"autorange": "reversed", "type": "category"}, "hovermode": "closest"}
    word = "SM activity" if field == "sm_active_ratio" else "utilization"
    note = f"{word}, means over {lanes.step_s:.0f} s. Decode steps are far shorter: lanes show how much, not when."
    return Plot("lanes", "Stages", note, _figure([heat], "", **layout))


def _power(shown: Summary, lanes: Timeline) -> Plot | None:
    traces = []
    for gpu in shown.gpus:
        means = lanes.means.get(gpu.uuid, {})
        power = means.get("power_instant_w", means.get("power_average_w"))
        if power is not None:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "line": {"width": 1},
                    "name": gpu_label(gpu, shown.servers),
                    "x": lanes.times(),
                    "y": _rounded(power, 1),
                }
            )
    limits = [gpu.power_limit_w for gpu in shown.gpus if gpu.power_limit_w]
    note = f"The power limit is {max(limits):.0f} W." if limits else "The power limit is not known."
    return Plot("power", "Power", note, _figure(traces, "W")) if traces else None


def _signal(shown: Summary, name: str) -> list[tuple[str, pd.DataFrame]]:
    """Number of the server and its values, for each server that has any."""
    signals = shown.signals
    of_name = signals[signals["name"] == name] if len(signals) else signals
    return [(str(target), frame) for target, frame in of_name.groupby("target")]


def _lines(shown: Summary, name: str, label: str, **more: Any) -> list[Figure]:
    found = _signal(shown, name)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label if len(found) == 1 else f"{label}, server {number}",
            "x": [str(t)[:19] for t in frame["time"]],
            "y": _rounded(frame["number"], 3),
            **more,
        }
        for number, (_, frame) in enumerate(found, 1)
    ]


def _work(shown: Summary) -> list[Plot | None]:
    rate = _lines(shown, "throughput.gen_tps", "tokens/s")
    running = _lines(shown, "demand.running", "running", line={"shape": "hv"})
    queued = _lines(shown, "demand.queued", "queued", line={"shape": "hv", "dash": "dot"})
    rates = Plot("rate", "Throughput", "All requests together, by the server's log.", _figure(rate, "tokens/s"))
    demand = Plot("demand", "Demand", "Requests that ran and that waited.", _figure([*running, *queued], "requests"))
    return [rates if rate else None, demand if running or queued else None]


def _stages(shown: Summary) -> Plot | None:
    busy = _lines(shown, "pipeline.stages_busy", "stages at work (S)")
    if not busy:
        return None
    all_of_them = _lines(shown, "pipeline.stages", "stages", line={"dash": "dash", "color": "#888"})
    note = "1 means that one stage at a time works, and the others wait."
    return Plot("stages", "Stages at work", note, _figure([*busy, *all_of_them], "stages"))


def _rounded(values: Any, digits: int) -> list[float | None]:
    return [None if math.isnan(v) else round(v, digits) for v in np.asarray(values, dtype=np.float64).tolist()]
