"""A recording as one long CSV table: time (UTC), target, name, value, text."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bubblewatch.model.errors import UsageError
from bubblewatch.report.frames import RecordingFrames, need, readings_of

COLUMNS = ("time", "target", "name", "value", "text")


def write_csv(frames: RecordingFrames, path: Path) -> int:
    """Write the table, part by part; gives the number of rows.

    Names of readings are those of `model.telemetry.FIELDS`, names of signals those of the vocabulary. Raises UsageError
    when nothing is there or the file cannot be written.
    """
    need(frames.ticks(), frames.folder)
    rows = 0
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            pd.DataFrame(columns=list(COLUMNS)).to_csv(file, index=False)
            for part in frames.parts("readings"):
                for table in (_long(frames.within(readings_of(part))),):
                    rows += len(table)
                    table.to_csv(file, index=False, header=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ")
            signals = frames.signals().rename(columns={"number": "value"})[list(COLUMNS)]
            rows += len(signals)
            signals.to_csv(file, index=False, header=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return rows


def _long(readings: pd.DataFrame) -> pd.DataFrame:
    fields = [name for name in readings.columns if name not in ("time", "gpu")]
    table = readings.melt(["time", "gpu"], fields, "name", "value").dropna(subset=["value"])
    table.insert(1, "target", "gpu:" + table.pop("gpu").astype(str))
    return table.assign(text=None)[list(COLUMNS)]
