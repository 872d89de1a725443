"""Servers beside SGLang and vLLM: how each is started, and what its settings mean."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.server import Launch, Origin, Settings
from bubblewatch.servers.base import NO_SPECULATION, DeviceSplit, Facts, Role
from bubblewatch.servers.option_file import options_in_file
from bubblewatch.servers.registry import KNOWN, by_name, recognise


def launch(command: str, env: dict[str, str] | None = None, **files: str) -> Launch:
    return Launch(tuple(shlex.split(command)), env or {}, files={f"{name}.yaml": text for name, text in files.items()})


def known(found: Launch) -> str | None:
    kind = recognise(found)
    return None if kind is None else kind.kind


def settings(found: Launch, name: str | None = None) -> Settings:
    kind = by_name(name) if name else recognise(found)
    assert kind is not None
    return kind.settings(found, None)


def facts(found: Launch, version: str | None = None) -> Facts:
    kind = recognise(found)
    assert kind is not None
    return kind.facts(kind.settings(found, version), version)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("trtllm-serve m --tp_size 8", "trtllm"),
        ("mpirun -n 8 --allow-run-as-root trtllm-llmapi-launch trtllm-serve serve m", "trtllm"),
        ("python3 -m tensorrt_llm.llmapi.mgmn_worker_node", "trtllm"),
        ("python -m dynamo.trtllm --model-path m", "trtllm"),
        ("python -m dynamo.vllm --model m", "vllm"),
        ("python -m dynamo.sglang --model-path m", "sglang"),
        ("python -m dynamo.frontend --http-port 8000", "dynamo"),
        ("python -m sglang_router.launch_router --worker-urls http://a:1 http://b:2", "sglang-router"),
        ("python -m sglang_router.launch_server --model-path m", "sglang"),
        ("/opt/llama.cpp/build/bin/llama-server -m m.gguf", "llamacpp"),
        ("numactl --interleave=all ./main -m m.gguf -ngl 10", "llamacpp"),
        ("python -m llama_cpp.server --model m.gguf --n_gpu_layers 99", "llamacpp"),
        ("docker run ghcr.io/ggml-org/llama.cpp:server-cuda -m m.gguf", "llamacpp"),
        ("/usr/local/bin/ollama serve", "ollama"),
        ("/usr/bin/ollama runner --model blob --n-gpu-layers 30", "ollama"),
        ("lmdeploy serve api_server m --tp 4", "lmdeploy"),
        ("text-generation-launcher --model-id m", "tgi"),
        ("docker run --gpus all ghcr.io/huggingface/text-generation-inference:3.1.1 --model-id m", "tgi"),
        ("python ./ktransformers/local_chat.py --model_path m --gguf_path g", "ktransformers"),
        ("python text-generation-webui/server.py --model m", "textgen"),
        ("python server.py --model m --loader exllamav2 --gpu-split 20,20", "textgen"),
        ("python /srv/tabbyAPI/main.py --config config.yml", "tabbyapi"),
        ("torchrun --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 2", "megatron"),
        ("deepspeed --num_gpus 8 train.py", "deepspeed"),
        ("colossalai run --nproc_per_node 2 train.py", "colossalai"),
        ("python benchmark_latency.py --model m --tensor-parallel-size 8", "vllm"),
        ("python server_vllm.py --model m --enforce-eager", "vllm"),
    ],
)
def test_every_way_to_start_one(command: str, name: str) -> None:
    assert known(launch(command)) == name


@pytest.mark.parametrize(
    "command",
    [
        "python server.py --port 80",
        "./main --verbose",
        "ollama pull llama3",
        "lmdeploy lite auto_awq m",
        "pgrep -f llama-server",
        "tail -f /var/log/llama-server",
        "python train.py --tp 8",
        "python main.py",
    ],
)
def test_programs_of_a_similar_name_are_none(command: str) -> None:
    assert known(launch(command)) is None


def test_kinds_are_found_by_the_names_that_people_use() -> None:
    names = ("llama.cpp", "TensorRT-LLM", "text-generation-inference", "exllamav3", "Ollama")
    assert [getattr(by_name(name), "kind", None) for name in names] == [
        "llamacpp",
        "trtllm",
        "tgi",
        "tabbyapi",
        "ollama",
    ]


# TensorRT-LLM ---------------------------------------------------------------------------------------------------------


def test_trtllm_parallelism_in_every_spelling() -> None:
    for command in (
        "trtllm-serve m --tp_size 2 --pp_size 4",
        "trtllm-serve serve m --tensor_parallel_size=2 --pipeline_parallel_size=4",
        "trtllm-build --tp_size 2 --pp_size 4",
        "python3 benchmark.py --model m -tp 2 -pp 4 --workspace w --max-batch-size 16 inflight --request-rate 100",
    ):
        found = facts(launch(command))
        assert (found.pp, found.tp, found.ring_slots) == (4, 2, 4)


def test_trtllm_yaml_wins_over_the_command_line_and_decides_on_graphs() -> None:
    yaml = "cuda_graph_config: null\nmax_batch_size: 8\ndisable_overlap_scheduler: true\napi_key: s3cr3t\n"
    found = launch("trtllm-serve m --max_batch_size 256 --extra_llm_api_options extra.yaml", extra=yaml)
    read, means = settings(found), facts(found, "1.2.0")
    assert read.number("max_batch_size") == 8
    assert read.values["max_batch_size"].origin is Origin.FILE
    assert "s3cr3t" not in repr(read)
    assert (means.decode_graphs, means.overlap_enabled, means.max_running) == (False, False, 8)
    assert means.decode_graphs_setting is not None
    assert means.decode_graphs_setting.evidence == "extra.yaml: cuda_graph_config: None"


def test_trtllm_yaml_that_is_not_at_hand_is_a_problem_and_leaves_defaults_unknown() -> None:
    read = settings(launch("trtllm-serve m --extra_llm_api_options extra.yaml"))
    assert read.problems == ("the file of --extra_llm_api_options extra.yaml was not read: options may be set there",)
    assert "pp_size" not in read


@pytest.mark.parametrize(
    ("yaml", "version", "on", "largest"),
    [
        ("", "1.2.0", True, 128),
        ("", "0.19.0", None, None),
        ("", None, None, None),
        ("cuda_graph_config: {enable_padding: true, max_batch_size: 256}", "1.2.0", True, 256),
        ("cuda_graph_config:\n  batch_sizes: [1, 2, 64]\n", "1.2.0", True, 64),
        ("use_cuda_graph: false", "0.19.0", False, None),
        ("use_cuda_graph: true\ncuda_graph_batch_sizes: [1, 8]", "0.19.0", True, 8),
    ],
)
def test_trtllm_graphs_by_yaml_and_version(
    yaml: str, version: str | None, on: bool | None, largest: int | None
) -> None:
    found = facts(launch("trtllm-serve m --extra_llm_api_options o.yaml", o=yaml or "{}"), version)
    assert (found.decode_graphs, found.graph_max_batch) == (on, largest)


# llama.cpp and ollama -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "env", "pp", "tp", "split"),
    [
        ("", {}, None, 1, DeviceSplit.LAYERS),
        ("", {"CUDA_VISIBLE_DEVICES": "0,1,2"}, 3, 1, None),
        ("-dev CUDA0,CUDA1", {}, 2, 1, None),
        ("-ts 3,1,0,1", {}, 3, 1, None),
        ("-sm row", {}, 1, None, DeviceSplit.ROWS),
        ("-sm row -ts 1,1", {}, 1, 2, None),
        ("-sm none", {}, 1, 1, None),
        ("", {"CUDA_VISIBLE_DEVICES": "0"}, 1, 1, None),
        ("", {"LLAMA_ARG_SPLIT_MODE": "none"}, 1, 1, None),
    ],
)
def test_llamacpp_spreads_layers_over_the_gpus_that_it_sees(
    options: str, env: dict[str, str], pp: int | None, tp: int | None, split: DeviceSplit | None
) -> None:
    found = facts(launch(f"llama-server -m m.gguf {options}", env))
    assert (found.pp, found.tp, found.device_split, found.ring_slots) == (pp, tp, split, 1)


@pytest.mark.parametrize(
    ("options", "offload"),
    [
        ("-ngl 10", True),
        ("-ngl 99", None),
        ("-ngl 99 --n-cpu-moe 20", True),
        ("-ngl 99 --cpu-moe", True),
        ("-ngl 99 -ot '.ffn_.*_exps.=CPU'", True),
        ("-ngl 99 -ot '.ffn_.*_exps.=CUDA1'", None),
        ("-ngl 99 -nkvo", True),
        ("-ngl -1", None),
        ("", None),
    ],
)
def test_llamacpp_says_when_the_cpu_is_in_the_path(options: str, offload: bool | None) -> None:
    found = facts(launch(f"llama-server -m m.gguf {options}"))
    assert found.cpu_offload is offload
    assert (found.cpu_offload_setting is not None) is bool(offload)


def test_llamacpp_limits_and_draft() -> None:
    found = facts(launch("llama-server -m m.gguf -md d.gguf --parallel 8 -b 16384 -c 262144 -ctk q4_0 --port 9000"))
    assert (found.max_running, found.max_batched_tokens, found.max_model_len, found.port) == (8, 16384, 262144, 9000)
    assert (found.speculative, found.kv_cache_dtype) == ("draft", "q4_0")
    assert facts(launch("llama-server -m m.gguf")).speculative == NO_SPECULATION


def test_llamacpp_environment_yields_to_the_command_line() -> None:
    found = launch("llama-server -m m.gguf -ngl 99", {"LLAMA_ARG_N_GPU_LAYERS": "5", "LLAMA_ARG_N_PARALLEL": "2"})
    assert settings(found).number("n_gpu_layers") == 99
    assert facts(found).max_running == 2


def test_ollama_tells_its_split_only_in_its_log() -> None:
    assert facts(launch("ollama serve")).pp is None
    assert facts(launch("ollama runner --model b --n-gpu-layers 10")).cpu_offload is True
    found = facts(launch("ollama runner --model b --n-gpu-layers 81 --tensor-split 41,40 --parallel 4"))
    assert (found.pp, found.max_running, found.cpu_offload) == (2, 4, None)


# LMDeploy, TGI, KTransformers -----------------------------------------------------------------------------------------


def test_lmdeploy_eager_counts_for_its_pytorch_engine_only() -> None:
    eager = facts(launch("lmdeploy serve api_server m --backend pytorch --tp 4 --eager-mode --max-batch-size 64"))
    assert (eager.decode_graphs, eager.tp, eager.pp, eager.max_running) == (False, 4, 1, 64)
    assert eager.decode_graphs_setting is not None
    assert eager.decode_graphs_setting.evidence == "--eager-mode"
    turbomind = facts(launch("lmdeploy serve api_server m --backend turbomind --eager-mode"))
    assert (turbomind.decode_graphs, turbomind.graphs_exempt) == (None, True)
    assert facts(launch("lmdeploy serve api_server m --async 0")).overlap_enabled is False
    assert settings(launch("lmdeploy serve api_server m --tp 4")).get("model") == "m"


@pytest.mark.parametrize(
    ("options", "env", "on", "largest"),
    [
        ("", {}, True, 32),
        ("--cuda-graphs 0", {}, False, None),
        ("--cuda-graphs 1,2,64", {}, True, 64),
        ("--quantize bitsandbytes-nf4", {}, False, None),
        ("", {"CUDA_GRAPHS": "0"}, False, None),
        ("--cuda-graphs 8", {"CUDA_GRAPHS": "0"}, True, 8),
    ],
)
def test_tgi_graphs(options: str, env: dict[str, str], on: bool, largest: int | None) -> None:
    found = facts(launch(f"text-generation-launcher --model-id m {options}", env))
    assert (found.decode_graphs, found.graph_max_batch) == (on, largest)


def test_tgi_shards_over_all_gpus_unless_told_otherwise() -> None:
    assert facts(launch("text-generation-launcher --model-id m")).device_split is DeviceSplit.ROWS
    assert facts(launch("text-generation-launcher --model-id m --num-shard 4")).tp == 4
    assert facts(launch("text-generation-launcher --model-id m --sharded false")).tp == 1
    image = Launch(("--model-id", "m"), image="ghcr.io/huggingface/text-generation-inference:3.1.1")
    assert facts(image).model == "m"


def test_ktransformers_runs_experts_on_the_cpu() -> None:
    found = facts(launch("python ./ktransformers/local_chat.py --model_path m --gguf_path g --cpu_infer 32"))
    assert found.cpu_offload is True
    assert found.cpu_offload_setting is not None
    assert found.cpu_offload_setting.evidence == "--cpu_infer 32"


# Wrappers, routers, training, layer split -----------------------------------------------------------------------------


def test_dynamo_workers_are_read_with_the_options_of_their_engine() -> None:
    worker = facts(launch("python -m dynamo.vllm --model m --enforce-eager --disaggregation-mode decode -tp 2"))
    assert (worker.role, worker.decode_graphs, worker.tp) == ("decode", False, 2)
    assert facts(launch("python -m dynamo.vllm --model m --is-prefill-worker")).role == "prefill"
    found = launch("python -m dynamo.sglang --model-path m --endpoint-types chat --disaggregation-mode prefill --tp 4")
    assert settings(found).problems == ()
    assert (facts(found).role, facts(found).tp) == ("prefill", 4)


def test_routers_and_training_jobs_are_no_servers_to_be_judged() -> None:
    router = facts(launch("python -m sglang_router.launch_router --worker-urls http://a:1 --port 8000"))
    assert (router.role, router.graphs_exempt, router.port, router.pp) == (Role.ROUTER, True, 8000, None)
    job = facts(launch("torchrun pretrain_gpt.py --pipeline-model-parallel-size 2 --tensor-model-parallel-size 4"))
    assert (job.role, job.pp, job.tp, job.micro_batches) == (Role.TRAINING, 2, 4, None)


def test_micro_batches_of_a_training_step_need_the_replicas() -> None:
    kind = by_name("megatron")
    assert kind is not None
    read = kind.settings(launch("pretrain_gpt.py --micro-batch-size 2 --global-batch-size 64"), None)
    assert kind.facts(read, None).micro_batches is None
    found = kind.settings(launch("pretrain_gpt.py --micro-batch-size 2 --global-batch-size 64 --dp-size 4"), None)
    assert kind.facts(found, None).micro_batches == 8


def test_user_front_ends_split_by_layers() -> None:
    assert facts(launch("python server.py --loader llama.cpp --n-gpu-layers 99")).device_split is DeviceSplit.LAYERS
    assert facts(launch("python server.py --loader llama.cpp --row_split")).device_split is DeviceSplit.ROWS
    assert facts(launch("python server.py --loader llama.cpp --n-gpu-layers 8")).cpu_offload is True
    tensor = launch("python tabbyAPI/main.py --config c.yaml", c="tensor_parallel: true\ngpu_split_auto: true")
    assert facts(tensor).device_split is DeviceSplit.ROWS
    assert facts(launch("python tabbyAPI/main.py --config c.yaml")).device_split is None


# Option files ---------------------------------------------------------------------------------------------------------


def test_option_files_stand_below_the_command_line_of_sglang_and_vllm() -> None:
    text = "tensor-parallel-size: 8\nenforce-eager: true\nmax-num-seqs: 16\n"
    read = settings(launch("vllm serve m --config c.yaml --max-num-seqs 64", c=text))
    assert (read.number("tp_size"), read.flag("enforce_eager"), read.number("max_num_seqs")) == (8, True, 64)
    assert read.values["tp_size"].evidence == "c.yaml: tensor_parallel_size: 8"
    text = "tp: 4\ndisable-cuda-graph: true\n"
    read = settings(launch("python -m sglang.launch_server --config c.yaml --tp 8", c=text))
    assert (read.number("tp_size"), read.flag("disable_cuda_graph"), read.number("pp_size")) == (8, True, 1)


@pytest.mark.parametrize(
    "text", ["", "just words", "- a\n- b", "a: [", "a: &x 1\nb: *x", "[" * 5000, "a: " + "x" * 70_000, "? {a: 1}\n: 2"]
)
def test_what_is_no_plain_option_file_is_none(text: str) -> None:
    assert not options_in_file(text)


@given(st.text(max_size=200))
def test_any_text_is_an_option_file_or_none(text: str) -> None:
    options_in_file(text)


@given(st.lists(st.text(max_size=30), max_size=30), st.sampled_from(KNOWN))
def test_any_words_are_read_without_an_error(words: list[str], kind: object) -> None:
    start = {"trtllm": "trtllm-serve", "ollama": "ollama_llama_server", "llamacpp": "llama-server"}
    name = getattr(kind, "kind", "")
    asked = by_name(name)
    assert asked is not None
    read = asked.settings(Launch((start.get(name, "--x"), *words), {"CUDA_VISIBLE_DEVICES": ",".join(words)}), None)
    asked.facts(read, "1.0.0")
    asked.facts(Settings(), None)
