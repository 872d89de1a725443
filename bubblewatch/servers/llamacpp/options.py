"""The command-line options and variables of llama.cpp's programs that rules and readers need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.server import SettingValue
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.plain import RUNTIME_VARIABLES
from bubblewatch.servers.program import Entry

ENTRY = Entry(
    programs=frozenset(
        {
            "llama-server",
            "llama-cli",
            "llama-bench",
            "llama-batched-bench",
            "llama-parallel",
            "llama-speculative",
            "llamafile",
        }
    ),
    plain_programs=frozenset({"server", "main", "llama"}),
    proof=re.compile(r"\.gguf\b|\.ggml\b"),
    modules=re.compile(r"llama_cpp\.server"),
    images=re.compile(r"(?:[\w.:/-]{0,200}/)?llama\.cpp:(?:server|full|light)[\w.-]{0,60}"),
)
"""Ways to start it. Until June 2024 the programs were called `server` and `main`: these count with a GGUF file only.
`python -m llama_cpp.server` is llama-cpp-python, which takes the same options spelled out."""

OPTIONS = OptionList(
    "llama.cpp",
    option_table(
        one="""
        model:-m,--model hf_repo:-hf,-hfr,--hf-repo,--hf hf_file:-hff,--hf-file
        n_gpu_layers:-ngl,--gpu-layers,--n-gpu-layers split_mode:-sm,--split-mode tensor_split:-ts,--tensor-split
        main_gpu:-mg,--main-gpu device:-dev,--device batch_size:-b,--batch-size,--n-batch
        ubatch_size:-ub,--ubatch-size,--n-ubatch parallel:-np,--parallel ctx_size:-c,--ctx-size,--n-ctx
        override_tensor:-ot,--override-tensor n_cpu_moe:-ncmoe,--n-cpu-moe cache_type_k:-ctk,--cache-type-k
        cache_type_v:-ctv,--cache-type-v model_draft:-md,--model-draft
        draft_max:--draft-max,--draft,--draft-n,--spec-draft-n-max spec_type:--spec-type
        n_gpu_layers_draft:-ngld,--gpu-layers-draft,--n-gpu-layers-draft threads:-t,--threads
        threads_batch:-tb,--threads-batch
        host:--host port:--port alias:-a,--alias poll:--poll prio:--prio
        fit:-fit,--fit fit_target:-fitt,--fit-target n_predict:-n,--predict,--n-predict rpc:--rpc numa:--numa
        lora:--lora
        mmproj:-mm,--mmproj threads_http:--threads-http timeout:-to,--timeout log_verbosity:-lv,--verbosity
        seed:-s,--seed
        chat_template:--chat-template reasoning_format:--reasoning-format prompt:-p,--prompt temp:--temp top_k:--top-k
        top_p:--top-p min_p:--min-p cache_reuse:--cache-reuse slot_save_path:--slot-save-path
        cache_ram:-cram,--cache-ram
        """,
        flag="""
        cpu_moe:-cmoe,--cpu-moe no_kv_offload:-nkvo,--no-kv-offload cont_batching:-cb,--cont-batching
        no_cont_batching:-nocb,--no-cont-batching metrics:--metrics slots:--slots no_slots:--no-slots mlock:--mlock
        no_mmap:--no-mmap embedding:--embedding,--embeddings reranking:--rerank,--reranking verbose:-v,--verbose
        jinja:--jinja log_disable:--log-disable no_warmup:--no-warmup kv_unified:-kvu,--kv-unified
        """,
        opt="flash_attn:-fa,--flash-attn",
    ),
    complete=False,
    folds_underscores=True,
)
"""llama.cpp common/arg.cpp at commit 0c1e57098 (2026), and the older spellings of the same options."""

DEFAULTS: Mapping[str, SettingValue] = MappingProxyType(
    {
        "batch_size": 2048,
        "cpu_moe": False,
        "no_kv_offload": False,
        "port": 8080,
        "split_mode": "layer",
        "ubatch_size": 512,
    }
)
"""The same since 2024. Layers on the GPU and slots changed their defaults, and stay unknown where nobody set them."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "LLAMA_ARG_BATCH": "batch_size",
        "LLAMA_ARG_CPU_MOE": "cpu_moe",
        "LLAMA_ARG_CTX_SIZE": "ctx_size",
        "LLAMA_ARG_DEVICE": "device",
        "LLAMA_ARG_MODEL": "model",
        "LLAMA_ARG_N_CPU_MOE": "n_cpu_moe",
        "LLAMA_ARG_N_GPU_LAYERS": "n_gpu_layers",
        "LLAMA_ARG_N_PARALLEL": "parallel",
        "LLAMA_ARG_PORT": "port",
        "LLAMA_ARG_SPLIT_MODE": "split_mode",
        "LLAMA_ARG_TENSOR_SPLIT": "tensor_split",
        "LLAMA_ARG_UBATCH": "ubatch_size",
    }
)
"""Variables that stand for an option; the command line wins over them."""

ENVIRONMENT = re.compile(rf"GGML_\w+|LLAMA_\w+|{RUNTIME_VARIABLES}")
"""Variables that bear on how it runs (ggml/src/ggml-cuda, common/arg.cpp)."""
