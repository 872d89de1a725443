"""Which environment variables bear on serving. All others are never stored or shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bubblewatch.model.redact import is_secret_name, redact_env

_SERVING = re.compile(
    r"(?:CUDA|NCCL|NVIDIA|SGLANG|SGL|VLLM|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|TRTLLM|TLLM|TRT|FLASHINFER|OMP|MKL|GLOO|UCX|NVSHMEM|OMPI"
    r"|HF|LLAMA|GGML|OLLAMA|LMDEPLOY|TM|DYN|RAY|MOONCAKE|DEEPEP|DG|SPT|PMIX)_\w+"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|CUDA_GRAPHS|SLURM_PROCID|NO_COLOR|USE_NUMA|VIRTUAL_ENV"
)
"""Names of the servers' own switches and of the libraries under them."""


def serving_env(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of `variables` that bear on serving, values redacted, by name; tokens and keys are left out."""
    kept = {
        name: variables[name] for name in sorted(variables) if _SERVING.fullmatch(name) and not is_secret_name(name)
    }
    return dict(redact_env(kept))
