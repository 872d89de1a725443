"""The command-line options of vLLM that rules and readers need; there are many more, which are taken as they stand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.server import SettingValue
from bubblewatch.servers.argv import OptionList, option_table

_ONE = """
--block-size --chat-template --compilation-config,-cc --config --cpu-offload-gb --data-parallel-size,-dp
--distributed-executor-backend --download-dir --dtype --gpu-memory-utilization --host --hf-overrides
--kv-cache-dtype --kv-cache-memory-bytes --kv-transfer-config --limit-mm-per-prompt --load-format
--max-cudagraph-capture-size --max-logprobs --max-model-len --max-num-batched-tokens --max-num-partial-prefills
--max-num-seqs --max-seq-len-to-capture --mm-processor-kwargs --model --moe-backend --attention-backend
--num-gpu-blocks-override --num-scheduler-steps --optimization-level --pipeline-parallel-size,-pp --performance-mode
--port --quantization,-q --reasoning-parser --revision --runner --scheduler-cls --scheduling-policy --seed
--speculative-config --speculative-model --num-speculative-tokens --stream-interval --swap-space --task
--tensor-parallel-size,-tp --tokenizer --tool-call-parser --uvicorn-log-level --watchdog-config --api-server-count
--disaggregation-mode --offload-group-size --kv-offloading-size --kv-offloading-backend
--long-prefill-token-threshold --ubatch-size --nnodes --node-rank --data-parallel-size-local --data-parallel-rank
"""
_MANY = "--cuda-graph-sizes --cudagraph-capture-sizes --served-model-name --lora-modules --allowed-origins"
_SWITCH = """
--aggregate-engine-logging --async-scheduling --cudagraph-metrics --disable-custom-all-reduce --enable-dbo
--enable-chunked-prefill --enable-expert-parallel,-ep --enable-lora --enable-prefix-caching --enforce-eager
--trust-remote-code --enable-logging-iteration-details --enable-mfu-metrics
"""
_NOTHING = """
--disable-log-stats --disable-log-requests --disable-async-output-proc --enable-auto-tool-choice --enable-reasoning
--is-prefill-worker --is-decode-worker
--disable-frontend-multiprocessing --disable-sliding-window --preemption-mode-swap
"""

_TABLE = option_table(one=_ONE, many=_MANY, switch=_SWITCH, flag=_NOTHING, opt="optimization_level:-O")

OPTIONS = OptionList("vLLM", _TABLE, complete=False, folds_underscores=True)
"""Options of vLLM 0.8.5 .. 0.33.0 (engine/arg_utils.py, entrypoints/openai/cli_args.py), the ones that matter here."""

SHARED_NAMES: Mapping[str, str] = MappingProxyType(
    {"pipeline_parallel_size": "pp_size", "tensor_parallel_size": "tp_size", "data_parallel_size": "dp_size"}
)
"""Settings that other servers have too -> the names that all share."""

THOUSANDS: Mapping[str, int] = MappingProxyType(
    {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
)
"""Suffixes of counts: small letters decimal, capitals binary (vLLM 0.9.2 .. engine/arg_utils.py human_readable_int)."""

COUNTS = frozenset({"max_model_len", "max_num_batched_tokens", "kv_cache_memory_bytes"})

DEFAULTS: tuple[tuple[str, SettingValue], ...] = (
    ("data_parallel_size", 1),
    ("disable_log_stats", False),
    ("enforce_eager", False),
    ("kv_transfer_config", None),
    ("max_num_seqs", None),
    ("pipeline_parallel_size", 1),
    ("port", 8000),
    ("tensor_parallel_size", 1),
)
"""Defaults of every version; `max_num_seqs` depends on the card and is computed (256 or 1024)."""

NEWEST_KNOWN = "0.33.0"
"""Newest release whose source was read."""
