"""The table of llama.cpp's lines: what each looks like, with an example, and what it means."""

from __future__ import annotations

import re

from bubblewatch.servers.llamacpp import lines
from bubblewatch.servers.patterns import Pattern, failure, ready, starting

_NUMBER = r"\d{1,12}(?:\.\d{1,6})?"

LOAD_TABLE: tuple[Pattern, ...] = (
    Pattern(
        "offloaded",
        "layers to GPU",
        re.compile(r"offloaded (?P<layers>\d{1,5})/(?P<total>\d{1,5}) layers to GPU"),
        lines.offloaded,
        "llm_load_tensors: offloaded 30/81 layers to GPU",
        "early 2024",
        telling=True,
    ),
    Pattern(
        "no-gpu",
        "no usable GPU found",
        re.compile(r"no usable GPU found"),
        lines.no_gpu,
        "warning: no usable GPU found, --gpu-layers option will be ignored",
        "2025",
        telling=True,
    ),
    Pattern(
        "weights",
        "buffer size",
        # KV, output and compute buffers have a word before `buffer`.
        re.compile(
            rf"load_tensors:\s{{1,20}}(?P<device>[A-Za-z]\w{{1,30}})(?: model)? buffer size\s{{0,4}}=\s{{1,10}}"
            rf"(?P<mib>{_NUMBER}) MiB"
        ),
        lines.buffer_size,
        "llm_load_tensors:        CPU buffer size = 38110.61 MiB",
        "early 2024",
        telling=True,
    ),
    Pattern(
        "devices",
        "_init: found ",
        re.compile(r"ggml_(?:cuda|hip|rocm)_init: found (?P<count>\d{1,3}) (?:CUDA|ROCm|HIP) devices?"),
        lines.devices,
        "ggml_cuda_init: found 1 CUDA devices:",
        "2024",
        telling=True,
    ),
    Pattern(
        "pipeline",
        "pipeline parallelism",
        re.compile(
            r"llama_\w{1,40}: pipeline parallelism enabled"
            r"|compute buffer allocation failed, retrying without pipeline parallelism"
        ),
        lines.pipeline,
        "llama_new_context_with_model: pipeline parallelism enabled (n_copies=4)",
        "2024",
        telling=True,
    ),
    Pattern(
        "loading",
        "load",
        re.compile(
            r"(?:llama_model_loader: loaded meta data|load_tensors: loading model tensors|main: loading model"
            r"|llama_load_model_from_file: |common_init_from_params: warming up the model)"
        ),
        starting,
        "llama_model_loader: loaded meta data with 30 key-value pairs and 579 tensors from <model.gguf>",
        "2025",
        telling=True,
    ),
    Pattern(
        "load-failed",
        "",
        re.compile(
            r"(?:error: failed to create context with model|failed to load model|exiting due to model loading error"
            r"|error loading model: )[^\n]{0,120}"
        ),
        failure("exception", fatal=True),
        "main: exiting due to model loading error",
        "2025",
    ),
    Pattern(
        "assert",
        "GGML_ASSERT",
        re.compile(r"GGML_ASSERT\([^\n]{1,120}\) failed"),
        failure("exception", fatal=True),
        "ggml/src/ggml-cuda/ggml-cuda.cu:1234: GGML_ASSERT(ptr == (void *) (pool_addr + pool_used)) failed",
        "2025",
        telling=True,
    ),
)
"""Lines of the library below the server: any program that runs on it writes them, ollama too."""

TABLE: tuple[Pattern, ...] = (
    Pattern(
        "timing",
        "eval time",
        re.compile(
            rf"(?P<prompt>prompt )?eval time\s{{0,8}}=\s{{0,12}}(?P<ms>{_NUMBER}) ms\s{{0,4}}/\s{{1,8}}"
            rf"(?P<tokens>\d{{1,9}}) (?:tokens|runs?)\s{{0,4}}(?:\(\s{{0,12}}{_NUMBER} ms per token,\s{{1,12}}"
            rf"(?P<tps>{_NUMBER}|inf|nan) tokens per second\))?"
        ),
        lines.timing,
        "       eval time =     475.84 ms /     7 tokens (   67.98 ms per token,    14.71 tokens per second)",
        "2025",
        telling=True,
    ),
    Pattern(
        "under-way",
        "tg =",
        re.compile(
            r"(?:n_decoded|n_gen)\s{0,4}=\s{1,12}(?P<tokens>\d{1,9}), "
            rf"tg\s{{0,4}}=\s{{1,12}}(?P<tps>{_NUMBER}) t/s"
        ),
        lines.under_way,
        "slot print_timing: id  0 | task 9161 | n_decoded =    100, tg =   40.12 t/s",
        "2026 (built from the source's format)",
        telling=True,
    ),
    Pattern(
        "prompt-part",
        "prompt processing progress",
        re.compile(
            r"prompt processing progress, (?:n_past = \d{1,9}, )?n_tokens = (?P<tokens>\d{1,9})"
            r"(?:, batch\.n_tokens = (?P<batch>\d{1,9}))?"
        ),
        lines.prompt_part,
        "slot update_slots: id  3 | task 0 | prompt processing progress, n_tokens = 2048, batch.n_tokens = 2048, "
        "progress = 0.146474",
        "2025",
        telling=True,
    ),
    Pattern(
        "new-prompt",
        "| task",
        re.compile(r"slot\s{1,3}\w{1,20}: id\s{1,4}\d{1,5} \| task \d{1,9} \| (?:processing task|new prompt, )"),
        lines.new_prompt,
        "slot launch_slot_: id  0 | task 0 | processing task",
        "2025",
        telling=True,
    ),
    Pattern(
        "idle",
        "all slots are idle",
        re.compile(r"all slots are idle"),
        lines.idle,
        "srv  update_slots: all slots are idle",
        "2025",
        telling=True,
    ),
    Pattern(
        "slots",
        "n_processing_slots",
        re.compile(r'n_idle_slots"?[=:] ?"?(?P<idle>\d{1,6})"?,?\s?"?n_processing_slots"?[=:] ?"?(?P<busy>\d{1,6})'),
        lines.slots,
        "DEBUG [process_single_task] slot data | n_idle_slots=4 n_processing_slots=0 task_id=0 "
        'tid="0x1f9bab240" timestamp=1731010171',
        "2024",
        telling=True,
    ),
    Pattern(
        "slot-count",
        "n_slots = ",
        re.compile(r"initializing slots, n_slots = (?P<count>\d{1,6})"),
        lines.slot_count,
        "srv          init: initializing slots, n_slots = 4",
        "2025",
        telling=True,
    ),
    Pattern(
        "request",
        "log_server_r",
        re.compile(
            r"srv\s{1,4}log_server_r: (?:done )?request: (?P<method>[A-Z]{3,8}) (?P<path>\S{1,2048}) \S{1,64} "
            r"(?P<status>\d{3})\b"
        ),
        lines.access,
        "srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
        "2025",
        telling=True,
    ),
    Pattern(
        "ready",
        "",
        # `HTTP server is listening` comes before the model is loaded and means nothing yet.
        re.compile(r"^(?:main: (?:server is listening on |model loaded)|model loaded\b|starting the main loop)"),
        ready,
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
        "2025",
        telling=True,
    ),
    Pattern(
        "version",
        "build",
        re.compile(r"(?:^|main: )build(?:_info)?(?:: | = )b?(?P<number>\d{3,6})\b"),
        lines.build,
        "build: 4589 (eb7cf15a) with cc (Ubuntu 13.3.0) 13.3.0 for x86_64-linux-gnu",
        "2025",
        telling=True,
    ),
    Pattern(
        "kv-full",
        "find",
        re.compile(r"failed to find (?:a memory slot for batch of size|free space in the KV cache)[^\n]{0,80}"),
        lines.kv_full,
        "srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, "
        "n_batch = 1024, ret = 1",
        "2025",
        telling=True,
    ),
    *LOAD_TABLE,
)
"""What the lines of llama.cpp's own programs mean."""
