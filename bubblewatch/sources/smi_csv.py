"""The rows of `nvidia-smi --query-gpu=… --format=csv`, with and without header and units. Pure."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.smi_collect import Row
from bubblewatch.sources.smi_columns import column_name, guess_header, is_header, number_of, tells_load

EXPECTED = "nvidia-smi output, such as `nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -lms 500`"

_ASKED = re.compile(r"nvidia-smi\b.*--query-gpu[= ](?P<columns>[\w.,]+)")
"""Example: the prompt line above what was pasted, `$ nvidia-smi --query-gpu=index,power.draw --format=csv,noheader`."""

_LONGEST_LINE = 8000
"""Characters; a row with all 150 columns of the query has about 3000. A longer line is none."""

_NO_READING = re.compile(r"\[(?:N/A|Not Supported|Unknown Error)\]|N/A|ERR!")


def has_header(text: str) -> bool:
    """Whether one line names columns of the query that say what a GPU does."""
    return any(_names_load(cells) for _, _, cells in _lines(text))


def csv_rows(text: str, shown: str) -> Iterator[Row]:
    """Every whole row; rows cut by Ctrl-C and messages between the rows are passed over.

    Without a header line the columns are those of a command line above the rows, else what units and forms tell.
    Raises UsageError when the columns cannot be told, or hold neither utilization nor power.
    """
    header: list[str] = []
    skip_to_header = has_header(text)
    for number, line, cells in _lines(text):
        if "--query-gpu" in line and (asked := _ASKED.search(line)):
            header = [column_name(name) for name in asked["columns"].split(",")]
        elif is_header(cells):
            header = [column_name(cell) for cell in cells]
            if not tells_load(header):
                raise UsageError(
                    f"{shown}:{number}: the columns hold neither utilization.gpu nor power.draw", f"expected {EXPECTED}"
                )
        elif header or not skip_to_header:
            header = header or _guessed(cells, shown)
            row = _with_name_whole(cells, header)
            if len(row) == len(header):
                yield dict(zip(header, row, strict=True))


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Number, text and stripped cells of every line that has any."""
    for number, line in enumerate(text.replace("\0", "").splitlines(), start=1):
        if line.strip() and len(line) <= _LONGEST_LINE:
            yield number, line, [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _with_name_whole(cells: Sequence[str], header: Sequence[str]) -> Sequence[str]:
    """The cells with a product name that holds commas put together again: nvidia-smi quotes nothing."""
    extra = len(cells) - len(header)
    if extra <= 0 or header.count("name") != 1:
        return cells
    at = header.index("name")
    return [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]


def _names_load(cells: Sequence[str]) -> bool:
    return tells_load([column_name(cell) for cell in cells])


def _guessed(cells: Sequence[str], shown: str) -> list[str]:
    header = guess_header(cells)
    if header is not None:
        return header
    numbers = [cell for cell in cells if not math.isnan(number_of(cell)) or _NO_READING.fullmatch(cell)]
    if len(numbers) > 1:
        raise UsageError(
            f"{shown}: not understood as nvidia-smi output: rows without header and units do not tell their columns",
            "leave noheader or nounits out of --format, or put the nvidia-smi command line above the rows",
        )
    raise UsageError(
        f"{shown}: not understood as nvidia-smi output (no header, and no units that tell the columns)",
        f"expected {EXPECTED}",
    )
