"""Panels, variables and annotations in the one look that all dashboards share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from types import MappingProxyType
from typing import TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.builders import prometheus, stat, statushistory, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

GPU_HOURS = "suffix: GPU-h"
"""Unit of lost time; Grafana's own unit for hours turns many of them into days, which GPU-hours are not."""

TIMES = "prefix:x"
"""Unit of a factor."""

SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

STATES: Mapping[str, str] = MappingProxyType(
    {
        "active": "green",
        "resident-low": "yellow",
        "not-resident": "red",
        "no-request": "blue",
        "start-up": "purple",
        "unknown": "text",
    }
)
"""State of GPU time -> colour: what is lost is warm, what is right is cool, what is not known has none."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel. In a table, `name` heads the column of its value; elsewhere it is the legend."""

    expr: str
    name: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """Title, what the panel says and what to do about it, unit (Grafana's id), width of 24 and height in grid units."""

    title: str
    description: str
    unit: str
    width: int = 12
    height: int = 8


def lines(
    about: About,
    *queries: Query,
    stacked: bool = False,
    top: float | None = None,
    colours: Mapping[str, str] = MappingProxyType({}),
) -> timeseries.Panel:
    """Series over time. Gaps stay gaps: absent is unknown."""
    legend = common_builders.VizLegendOptions().show_legend(True).display_mode(common.LegendDisplayMode.LIST)
    panel = (
        timeseries.Panel()
        .legend(legend.placement(common.LegendPlacement.BOTTOM).calcs([]))
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .line_width(1)
        .fill_opacity(70 if stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
        .min(0)
    )
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if top is not None:
        panel.max(top)
    for name, colour in colours.items():
        panel.override_by_name(name, [_fixed_colour(colour)])
    return _finished(panel, about, queries)


def number(
    about: About, query: Query, steps: Sequence[tuple[float | None, str]] = ((None, "text"),), decimals: int = 0
) -> stat.Panel:
    """One number now. `steps`: lower bound of a range (None = from the bottom) and its colour."""
    panel = (
        stat.Panel()
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_scheme(dashboards.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(steps))
        .decimals(decimals)
        .no_value("unknown")
    )
    return _finished(panel, about, [query], instant=True)


def history(about: About, *queries: Query, steps: Sequence[tuple[float | None, str]]) -> statushistory.Panel:
    """A row a series, a cell a moment, coloured by value."""
    panel = (
        statushistory.Panel()
        .thresholds(_thresholds(steps))
        .color_scheme(dashboards.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .show_value(common.VisibilityMode.AUTO)
        .max_data_points(60)
    )
    return _finished(panel, about, queries)


def rows(
    about: About,
    *queries: Query,
    hidden: Sequence[str] = (),
    links: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> table.Panel:
    """A table: a row for each set of labels that the queries share, a column a query.

    `hidden` are labels that are no columns; `links` maps a column to title and address of its link.
    """
    panel = table.Panel().filterable(True)
    letters = dict(zip(ascii_uppercase, queries, strict=False))
    names = {f"Value #{letter}" if len(queries) > 1 else "Value": query.name for letter, query in letters.items()}
    # A query without a name only brings labels.
    excluded = {"Time": True} | dict.fromkeys(hidden, True) | {old: True for old, new in names.items() if not new}
    renamed = {old: new for old, new in names.items() if new}
    panel.transformations(
        [
            models.DataTransformerConfig(id_val="merge", options={}),
            models.DataTransformerConfig(
                id_val="organize", options={"excludeByName": excluded, "renameByName": renamed, "indexByName": {}}
            ),
        ]
    )
    for query in queries:
        if query.name and query.unit:
            properties = [models.DynamicConfigValue("unit", query.unit), models.DynamicConfigValue("decimals", 1)]
            panel.override_by_name(query.name, properties)
    for column, (title, url) in links.items():
        link = {"title": title, "url": url, "targetBlank": True}
        panel.override_by_name(column, [models.DynamicConfigValue("links", [link])])
    return _finished(panel, about, queries, instant=True, as_table=True)


Panel = timeseries.Panel | stat.Panel | table.Panel | statushistory.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, table.Panel, statushistory.Panel)


def _finished(panel: P, about: About, queries: Sequence[Query], *, instant: bool = False, as_table: bool = False) -> P:
    panel.title(about.title).description(about.description).datasource(SOURCE)
    panel.span(about.width).height(about.height)
    if about.unit:
        panel.unit(about.unit)
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(SOURCE)
        target = target.instant() if instant else target.range()
        target.format(PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES)
        panel.with_target(target.legend_format(query.name) if query.name and not as_table else target)
    return panel


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> dashboards.ThresholdsConfig:
    marks = [models.Threshold(value=bound, color=colour) for bound, colour in steps]
    return dashboards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(marks)


def _fixed_colour(colour: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
