"""The generated dashboards, read as Grafana reads them: panels, queries, variables put in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GENERATED = Path(__file__).resolve().parents[2] / "dashboards" / "generated"

STANDS_FOR = {
    "$__rate_interval": "5m",
    "$__range": "6h",
    "$__interval": "1m",
    "$instance": ".*",
    "$pipeline": ".*",
    "$uuid": ".*",
}
"""Variable -> what Grafana would put in for it at first."""


@dataclass(frozen=True)
class Asked:
    """One query of a panel."""

    board: str
    panel: str
    expr: str

    def __str__(self) -> str:
        return f"{self.board} / {self.panel}: {self.expr}"


def documents() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(GENERATED.glob("*.json"))}


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def queries() -> list[Asked]:
    """Every query of every panel."""
    return [
        Asked(uid, panel["title"], put_in(target["expr"]))
        for uid, document in documents().items()
        for panel in panels(document)
        for target in panel["targets"]
    ]


def annotations() -> list[Asked]:
    """The queries of all annotations, each once."""
    found = {
        mark["expr"]: Asked(uid, mark["name"], put_in(mark["expr"]))
        for uid, document in documents().items()
        for mark in document.get("annotations", {}).get("list", [])
    }
    return list(found.values())


def variables() -> Iterator[tuple[str, str, str]]:
    """(name, selector, label) of every variable that asks for the values of a label."""
    for document in documents().values():
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                selector, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
                yield variable["name"], put_in(selector), label


def put_in(expr: str) -> str:
    for name, text in STANDS_FOR.items():
        expr = expr.replace(name, text)
    return expr
