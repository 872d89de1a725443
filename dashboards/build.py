"""Writes dashboards/generated/*.json: `python -m dashboards.build` after a change in dashboards/src."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.src.fleet import fleet
from dashboards.src.frame import EVENTS
from dashboards.src.gpu import gpu
from dashboards.src.itself import itself
from dashboards.src.pipeline import pipeline

GENERATED = Path(__file__).parent / "generated"


def built() -> Mapping[str, str]:
    """File name -> JSON text of every dashboard; the same bytes each time."""
    boards = (fleet(), pipeline(), gpu(), itself())
    documents = [_document(board) for board in boards]
    return {f"{document['uid']}.json": json.dumps(document, indent=2, sort_keys=True) + "\n" for document in documents}


def _document(board: Dashboard) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(JSONEncoder().encode(board.build()))
    # Links to a panel use its id, so it must not change by itself between two builds of the same source.
    for number, panel in enumerate(document["panels"], start=1):
        panel["id"] = number
    # The builder knows the query of an annotation; what is written beside the mark it does not.
    for mark in document.get("annotations", {}).get("list", []):
        if mark["name"] in EVENTS:
            _, _, text = EVENTS[mark["name"]]
            mark |= {"titleFormat": mark["name"], "textFormat": text, "step": "60s", "useValueForTime": False}
    return document


def main() -> None:
    """Write every dashboard, and remove files that are none any more."""
    texts = built()
    GENERATED.mkdir(exist_ok=True)
    for path in GENERATED.glob("*.json"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (GENERATED / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
