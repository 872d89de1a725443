"""A recording on a screen and over HTTP, at its own pace or faster: what the live table and the daemon would show."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live

from bubblewatch import __version__
from bubblewatch.app.replay import Span, play_recording
from bubblewatch.diagnose.rule import Rule
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import serve
from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.report.table import live_table
from bubblewatch.runtime.feed_codec import feed_to_json
from bubblewatch.runtime.feed_desk import FeedDesk
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.watch import Watcher

log = logging.getLogger(__name__)


def show_recording(folder: Path, span: Span, rules: Sequence[Rule], ignore: Sequence[str], speed: float) -> None:
    """Draw the recording as the live table until its end or Ctrl-C."""
    with Live(console=Console(), auto_refresh=False, transient=not sys.stdout.isatty()) as screen:

        def show(_watcher: Watcher, snapshot: Snapshot) -> bool:
            screen.update(live_table(snapshot), refresh=True)
            return True

        play_recording(folder, span, rules, ignore, (SystemClock(), speed), show)


def serve_recording(
    folder: Path, span: Span, rules: Sequence[Rule], ignore: Sequence[str], speed: float, listen: str
) -> int:
    """Serve metrics, snapshots and feeds of the recording as they were, until its end or Ctrl-C.

    Raises UsageError when the address cannot be listened on.
    """
    host, port = _address(listen)
    clock = SystemClock()
    hub, desk = Hub(clock), FeedDesk(clock)

    def feed() -> bytes | None:
        latest = desk.take()
        return feed_to_json(latest) if latest is not None else None

    documents = Documents(
        of_snapshot=lambda snapshot: to_json(snapshot_document(snapshot)),
        of_error=lambda what, hint: to_json(error_document(what, hint)),
        feed=feed,
    )
    exposition = Exposition(hub, __version__, None, host=platform.node())

    def show(watcher: Watcher, snapshot: Snapshot) -> bool:
        published = hub.publish(snapshot)
        if desk.is_wanted:
            desk.put(watcher.feed(published, platform.node()))
        return True

    with serve(application(hub, exposition, documents), host, port) as served:
        sys.stderr.write(f"serving {folder} on {served.url} at {speed:g} times its pace (Ctrl-C to stop)\n")
        try:
            play_recording(folder, span, rules, ignore, (clock, speed), show)
        finally:
            hub.close()
    return 0


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen {text!r} is not HOST:PORT", "for example 127.0.0.1:9800")
    return host.strip("[]") or "127.0.0.1", int(port)
