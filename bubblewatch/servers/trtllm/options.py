"""The command-line options of TensorRT-LLM's programs that rules and readers need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.server import SettingValue
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.plain import RUNTIME_VARIABLES
from bubblewatch.servers.program import Entry

ENTRY = Entry(
    programs=frozenset({"trtllm-serve", "trtllm-build", "trtllm-bench"}),
    modules=re.compile(r"tensorrt_llm\.(?:commands\.serve|llmapi\.mgmn_(?:worker|leader)_node)|dynamo\.trtllm"),
    scripts=re.compile(r"(?:.*/)?launch_triton_server\.py"),
    plain_programs=frozenset({"benchmark.py"}),
    proof=re.compile(r"--workspace \S.{0,400} (?:inflight|static)\b"),
)
"""Ways to start it: `trtllm-serve`, alone or under `mpirun` and `trtllm-llmapi-launch`; Dynamo's worker, which takes
the engine's options; Triton; the builder, which fixes the parallelism of an engine; and the benchmark suite of 0.10."""

OPTIONS = OptionList(
    "TensorRT-LLM",
    option_table(
        one="""
        tp_size:--tp-size,--tensor-parallel-size,-tp,--tp pp_size:--pp-size,--pipeline-parallel-size,-pp,--pp
        ep_size:--ep-size,--expert-parallel-size,--ep cp_size:--cp-size --world-size
        --max-batch-size --max-num-tokens --max-seq-len --max-beam-width --backend --tokenizer --host --port --log-level
        --num-postprocess-workers kv_cache_ratio:--kv-cache-free-gpu-memory-fraction,--free-gpu-memory-fraction
        extra_options:--extra-llm-api-options,--config,--extra-engine-args --kv-cache-dtype --gpus-per-node
        --metadata-server-config-file --server-role --disaggregation-mode --disaggregation-strategy
        model:--model,-m,--model-path --workspace --checkpoint-dir --output-dir --quantization,-q
        """,
        flag="--enable-chunked-prefill --trust-remote-code --enable-attention-dp --streaming",
    ),
    complete=False,
    folds_underscores=True,
)
"""tensorrt_llm/commands/serve.py, 0.16 to 1.3.0rc27; the builder and the benchmark share the names of the sizes."""

DEFAULTS: Mapping[str, SettingValue] = MappingProxyType({"port": 8000, "pp_size": 1, "tp_size": 1})
"""Defaults of every version that was read."""

ENVIRONMENT = re.compile(rf"TRTLLM_\w+|TLLM_\w+|TRT_LLM_\w+|{RUNTIME_VARIABLES}")
"""Variables that bear on how it runs."""
