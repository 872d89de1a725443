"""A recording as one HTML file that needs nothing else: no network, no fonts, no server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from bubblewatch.model.visible import visible
from bubblewatch.report.page import Page
from bubblewatch.report.plots import Plot

_TEMPLATES = Path(__file__).parent / "templates"


def html(page: Page, plots: Sequence[Plot]) -> str:
    """The page. Every text in it is escaped; plots are data that a script in it draws."""
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("report.html")
    figures = {plot.id: plot.figure for plot in plots}
    return template.render(
        _shown(page.as_dict()),
        plots=plots,
        figures=Markup(_json(figures)),  # noqa: S704  made of our own words and numbers, and escaped for a script
        plotly=Markup(get_plotlyjs().replace("</script", "<\\/script")),  # noqa: S704  the library's own text
    )


def _json(value: Mapping[str, Any]) -> str:
    """JSON in which nothing can end a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(value: Any) -> Any:
    """Every text on one line in which nothing acts."""
    match value:
        case str():
            return visible(value)
        case dict():
            return {key: _shown(one) for key, one in value.items()}
        case list() | tuple():
            return [_shown(one) for one in value]
        case _:
            return value
