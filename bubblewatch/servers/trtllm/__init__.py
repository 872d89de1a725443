"""TensorRT-LLM, 0.8 to 1.3: `trtllm-serve`, the C++ batch manager under Triton, Dynamo's worker."""

from __future__ import annotations

from bubblewatch.servers.plain import PlainKind
from bubblewatch.servers.trtllm.facts import facts_of
from bubblewatch.servers.trtllm.options import DEFAULTS, ENTRY, ENVIRONMENT, OPTIONS
from bubblewatch.servers.trtllm.table import PREFIX, TABLE

TRTLLM = PlainKind(
    kind="trtllm",
    label="TensorRT-LLM",
    entry=ENTRY,
    options=OPTIONS,
    meaning=facts_of,
    table=TABLE,
    prefix=PREFIX,
    defaults=DEFAULTS,
    environment=ENVIRONMENT,
    positional="model",
    steps=frozenset({"serve", "disaggregated", "disaggregated_mpi_worker", "throughput", "latency", "build"}),
    option_files=("extra_options",),
    file_wins=True,
)
