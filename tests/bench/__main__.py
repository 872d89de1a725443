"""The benchmarks: `python -m tests.bench [NAME ...] [--seconds S] [--soak S]`. Prints tables and judges nothing."""

from __future__ import annotations

import argparse

from tests.bench import logs, sampling, tui

SECTIONS = {
    "costs": sampling.costs,
    "jitter": sampling.jitter,
    "growth": sampling.growth,
    "memory": sampling.memory,
    "logs": logs.logs,
    "screen": tui.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(SECTIONS)}; all when none is given")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each line is measured")
    parser.add_argument("--soak", type=float, default=0.0, metavar="SECONDS", help="then watch memory this long")
    options = parser.parse_args()
    unknown = set(options.names) - SECTIONS.keys()
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}: {', '.join(SECTIONS)}")
    for name, section in SECTIONS.items():
        if not options.names or name in options.names:
            section(options.seconds)
    if options.soak:
        sampling.soak(options.soak)


if __name__ == "__main__":
    main()
