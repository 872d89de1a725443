"""llama.cpp's server and command-line programs, 2023 to 2026."""

from __future__ import annotations

import re

from bubblewatch.servers.llamacpp.facts import facts_of
from bubblewatch.servers.llamacpp.lines import PREFIX
from bubblewatch.servers.llamacpp.options import DEFAULTS, ENTRY, ENVIRONMENT, OPTIONS, VARIABLES
from bubblewatch.servers.llamacpp.table import TABLE
from bubblewatch.servers.plain import PlainKind

LLAMACPP = PlainKind(
    kind="llamacpp",
    label="llama.cpp",
    entry=ENTRY,
    options=OPTIONS,
    meaning=facts_of,
    table=TABLE,
    prefix=PREFIX,
    defaults=DEFAULTS,
    environment=ENVIRONMENT,
    variables=VARIABLES,
    foreign=re.compile(r"\bollama\["),
)
