"""What stands around the panels: variables, annotations, links, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.models import dashboard as models

from dashboards.src.panels import SOURCE, Panel

TAG = "bubblewatch"

EVENTS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "Restarts": (
            "red",
            "bubblewatch_server_restarts_total > bubblewatch_server_restarts_total offset 2m",
            "{{server}} on {{instance}} restarted",
        ),
        "Versions": (
            "purple",
            """
            bubblewatch_server_info{version!=""}
            unless on (job, instance, server, version) last_over_time(bubblewatch_server_info[1h] offset 2m)
            and on (job, instance, server) last_over_time(bubblewatch_server_info{version!=""}[1h] offset 2m)
            """,
            "{{server}} on {{instance}} is {{kind}} {{version}} now",
        ),
        "Settings": (
            "orange",
            """
            bubblewatch_server_settings_info
            unless on (job, instance, server, launch) last_over_time(bubblewatch_server_settings_info[1h] offset 2m)
            and on (job, instance, server) last_over_time(bubblewatch_server_settings_info[1h] offset 2m)
            """,
            "{{server}} on {{instance}} runs with other settings: launch {{launch}}",
        ),
    }
)
"""Name -> colour, query that has a value while it happens (two minutes), text. What a server was is looked for in the
hour before, so that a slow restart does not hide it."""


def frame(uid: str, title: str, description: str, *, hours: int = 6) -> dashboards.Dashboard:
    """An empty dashboard that shows so many hours and links to its sisters."""
    return (
        dashboards.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .editable()
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time(f"now-{hours}h", "now")
        .refresh("1m")
        .link(
            dashboards.DashboardLink("bubblewatch")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .keep_time(True)
        )
        .with_variable(dashboards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )


def choice(name: str, label: str, query: str, *, several: bool = True) -> dashboards.QueryVariable:
    """A variable with the values of a label: all of them at first, or one at a time."""
    variable = (
        dashboards.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        everything = models.VariableOption(selected=True, text=["All"], value=["$__all"])
        variable.all_value(".*").current(everything)
    return variable


def filled(board: dashboards.Dashboard, sections: Sequence[tuple[str, Sequence[Panel]]]) -> dashboards.Dashboard:
    """The dashboard with these rows of panels. A section without a title has no heading."""
    for title, panels in sections:
        if title:
            board.with_row(dashboards.Row(title))
        for panel in panels:
            board.with_panel(panel)
    return board


def with_events(board: dashboards.Dashboard) -> dashboards.Dashboard:
    """The dashboard with restarts, versions and settings changes marked in every panel over time."""
    for name, (colour, query, _) in EVENTS.items():
        mark = dashboards.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)
        board.annotation(mark.expr(" ".join(query.split())))
    return board
