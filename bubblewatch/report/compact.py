"""The short-lived child that turns closed parts of a recording into Parquet: `python -m bubblewatch.report.compact`.

It is started by whoever records, so that a daemon never loads pyarrow. Arguments: the append-only files to turn.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bubblewatch.model.errors import BubblewatchError
from bubblewatch.report.recording_parts import compact

NICENESS = 10
"""Of the child: serving and watching come first."""


def main(arguments: list[str]) -> int:
    """Turn each file; 0 when all were, 1 with a line for each that was not."""
    os.nice(NICENESS)
    os.umask(0o027)  # launches and log lines are in it
    failed = 0
    for argument in arguments:
        try:
            compact(Path(argument))
        except (BubblewatchError, ImportError) as error:
            failed += 1
            sys.stderr.write(f"bubblewatch: {error}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
