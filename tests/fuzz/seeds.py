"""Texts that parsers accept, from which mutations start. Shapes as the tools write them; the values are made up."""

# ruff: noqa: E501  the texts are as long as the tools write them

from __future__ import annotations

from pathlib import Path

from bubblewatch.model.clock import ManualClock
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests/sources/samples"


def server_lines() -> tuple[str, ...]:
    """What the simulated servers write from their start on, one of each kind of line."""
    found: dict[str, str] = {}
    for scenario in SCENARIOS.values():
        clock = ManualClock()
        host = SimulatedHost(scenario, clock)
        for seen in host.processes.scan():
            source = host.log(seen.unit or "")
            for _ in range(3):
                clock.sleep(5)
                for line in source.read():
                    found.setdefault(" ".join(word for word in line.text.split() if word.isalpha()), line.text)
    return (*found.values(), *OTHER_LINES)


OTHER_LINES = (
    (
        "INFO 01-01 00:00:00 [loggers.py:127] Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: "
        "456.7 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, Prefix cache hit rate: 0.0%"
    ),
    "INFO 01-01 00:00:00 [gpu_worker.py:276] Available KV cache memory: 60.12 GiB",
    "slot print_timing: id  0 | task 7 | eval time =  1000.00 ms /  50 tokens (20.00 ms per token, 50.00 tokens per second)",
    'time=2026-01-01T00:00:00.000Z level=INFO source=server.go:1 msg="offload to cuda" layers.offload=33 layers.model=33',
    "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB",
    "[00:00:00] iteration 10/100 | elapsed time per iteration (ms): 1234.5 | global batch size: 64 | TFLOP/s/GPU: 400.1",
)

LAUNCHES = (
    (
        "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\nexec python -m sglang.launch_server --model-path m \\\n  --pp-size 8 "
        "--disable-cuda-graph --json-model-override-args '{\"a\": 1}' 2>&1 | tee log\n"
    ),
    'vllm serve "org/model" -tp=2 --max-num-seqs 64 --enforce-eager -O3 --compilation-config \'{"level": 3}\'',
    "docker run --rm --gpus all -e A=b -v /m:/m image:tag --model /m --tensor-parallel-size 4",
    "ExecStart=/usr/bin/env A=1 python3 -m vllm.entrypoints.openai.api_server --model m --port 8000",
    "srun --mpi=pmix bash -c 'trtllm-serve m --tp_size 8 --backend pytorch'",
)

UNITS = (
    (
        '[Unit]\nDescription=x\n[Service]\nEnvironment=A=1 "B=2 3"\nEnvironmentFile=-/nowhere/env\nWorkingDirectory=~\n'
        "ExecStartPre=/bin/true\nExecStart=/usr/bin/python3 -m sglang.launch_server \\\n  --model-path %i --tp 8\n"
    ),
)

DOCUMENTS = (
    (
        "services:\n  vllm:\n    image: vllm/vllm-openai:v0.9\n    command: [--model, m, --enforce-eager]\n"
        "    environment: {A: '1'}\n    env_file: .env\n"
    ),
    (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - name: s\n        image: i\n        command: [python, -m, sglang.launch_server]\n        args: [--tp, '8']\n"
        "        env:\n        - {name: X, value: $(Y)}\n"
    ),
    '[{"Id": "abc", "Name": "/s", "Path": "vllm", "Args": ["serve", "m"], "Config": {"Env": ["A=b"], "Image": "i"}}]',
    "a: &x [1, 2]\nb: *x\nc: !!binary aGk=\n? complex\n: d\n",
)

METRICS = (
    (
        "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{model_name="a\\"b",engine="0"} 8.0 1700000000\nvllm:generation_tokens_total 1e+06\n'
        'sglang:num_running_reqs{pp_rank="0"} 3\nsglang:gen_throughput NaN\n'
    ),
)

RULES = tuple(
    path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "rules").glob("*/*.yaml"))
    if path.parent.name != "alerts"
)

SMI = (
    "index, utilization.gpu [%], power.draw [W]\n0, 12 %, 171.20 W\n1, [N/A], 85.00 W\n",
    "0, 98, 300.5\n1, 0, 80.1\n",
    *(path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*.txt"))),
)

ENVIRONMENT_FILES = ("A=1\n# note\nB='two words'\nexport C=\"d\\\ne\"\n",)

MODELS = (
    (
        '{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, '
        '"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16", '
        '"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}'
    ),
    (
        '{"text_config": {"n_routed_experts": 384, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "hidden_size": '
        '7168, "num_hidden_layers": 61, "num_attention_heads": 64, "kv_lora_rank": 512, "first_k_dense_replace": 1}}'
    ),
)

_HEADER = '{"a": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}'
TENSORS = f"{chr(len(_HEADER))}\0\0\0\0\0\0\0{_HEADER}"
