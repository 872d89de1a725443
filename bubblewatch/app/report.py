"""Reports, exports and sums of recordings: which parts make them. pandas is loaded only when one is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bubblewatch.app.replay import Span
from bubblewatch.model.errors import UsageError
from bubblewatch.report.recording_parts import MISSING


def write_report(folder: Path, span: Span, output: Path | None, width: int) -> str:
    """Write the report, in the form that the file's ending names; gives what to print: the report itself as text when
    there is no file.
    """
    try:
        from bubblewatch.report.frames import RecordingFrames  # noqa: PLC0415  pandas is an extra
        from bubblewatch.report.html import html  # noqa: PLC0415
        from bubblewatch.report.page import page  # noqa: PLC0415
        from bubblewatch.report.page_text import markdown, plain_report  # noqa: PLC0415
        from bubblewatch.report.plots import plots  # noqa: PLC0415
        from bubblewatch.report.summary import summary  # noqa: PLC0415
        from bubblewatch.report.timeline import timeline  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"a report needs {error.name}, which is not installed", MISSING) from error
    form = output.suffix.lower() if output is not None else ".txt"
    if form not in (".html", ".htm", ".md", ".txt"):
        raise UsageError(f"a report is no {form or 'file without an ending'}", "FILE.html, FILE.md or FILE.txt")
    frames = RecordingFrames(folder, span.from_ns, span.until_ns)
    shown = summary(frames)
    words = page(shown)
    if form in (".html", ".htm"):
        text = html(words, plots(shown, timeline(frames, shown.start_ns, shown.end_ns), frames.states()))
    else:
        text = markdown(words) if form == ".md" else plain_report(words, width)
    if output is None:
        return text
    _write(output, text.encode())
    return f"{output}: {len(text) / 1e6:.1f} MB\n"


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def write_export(folder: Path, span: Span, form: str, output: Path) -> str:
    """Write the recording for another tool (`perfetto` or `csv`); gives a line that says what was written."""
    try:
        from bubblewatch.report.frames import RecordingFrames  # noqa: PLC0415  pandas is an extra

        frames = RecordingFrames(folder, span.from_ns, span.until_ns)
        if form == "csv":
            from bubblewatch.report.csv_table import write_csv  # noqa: PLC0415

            return f"{output}: {write_csv(frames, output)} rows"
        from bubblewatch.report.trace import trace  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"an export needs {error.name}, which is not installed", MISSING) from error
    data = trace(frames)
    _write(output, data)
    return f"{output}: {len(data) / 1e6:.1f} MB, for ui.perfetto.dev"


def lost_output(urls: Sequence[str], *, as_json: bool) -> str:
    """GPU-hours lost over all recordings below these folders or URLs, as it is printed."""
    try:
        from bubblewatch.report.lost import losses, losses_document, losses_text  # noqa: PLC0415  pyarrow is an extra
    except ImportError as error:
        raise UsageError(f"this needs {error.name}, which is not installed", MISSING) from error
    found = losses(urls)
    return json.dumps(losses_document(found), indent=2) + "\n" if as_json else losses_text(found)
