"""The one list of signals: name, type, unit, scope, meaning.

A rule may use only these names, and what computes signals may deliver only these (a test holds both). Ratios are 0..1.
Where a signal is an inference, its `basis` (model/signals.py) says by what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bubblewatch.model.findings import Scope


@dataclass(frozen=True, slots=True)
class Spec:
    """One signal. `type` is the CEL type: bool, int, double or string. `unit` is "" for names, counts and switches."""

    name: str
    type: str
    unit: str
    meaning: str
    scope: Scope = Scope.SERVER


_SERVER = (
    # who and how it was launched
    Spec("server.kind", "string", "", "which server: sglang, vllm, …, unknown"),
    Spec("server.version", "string", "", "its version"),
    Spec("server.ready", "bool", "", "it said that it serves, or it is seen serving"),
    Spec(
        "server.starting_s", "double", "s", "how long it has been loading, compiling or capturing without serving yet"
    ),
    Spec("server.role", "string", "", "role in disaggregated serving: prefill, decode or both"),
    Spec("parallel.pp", "int", "", "pipeline stages"),
    Spec("parallel.tp", "int", "", "tensor-parallel ranks of a stage"),
    Spec("parallel.dp", "int", "", "data-parallel replicas"),
    Spec("limits.max_running", "int", "", "requests that the server admits at once, as set or as it computed"),
    Spec("overlap.enabled", "bool", "", "overlap or async scheduling is on"),
    Spec("overlap.possible", "bool", "", "this version could have it on with this parallelism"),
    # demand
    Spec("demand.state", "string", "", "running or none; missing when unknown"),
    Spec("demand.counted", "bool", "", "the state rests on something that counts requests, not on GPUs that work"),
    Spec("demand.running", "int", "", "requests that run now, over all slots and replicas: C"),
    Spec("demand.running_min", "int", "", "a lower bound of it: the most that one line or gauge showed"),
    Spec("demand.queued", "int", "", "requests that wait"),
    Spec("demand.share", "double", "ratio", "share of the watched time in which requests ran"),
    # throughput and progress
    Spec("throughput.gen_tps", "double", "tokens/s", "generated tokens a second, all slots"),
    Spec("throughput.step_s", "double", "s", "time between two decode forwards of one rank: T, the slot period"),
    Spec("progress.stalled_s", "double", "s", "time since the last sign of progress while requests run or wait"),
    Spec("progress.limit_s", "double", "s", "how long that may last: max(120 s, 5 x the longest normal gap)"),
    Spec("progress.blocked_lines", "int", "", "newest totals in a row with requests waiting, none running, no token"),
    Spec("startup.unfinished", "bool", "", "the log holds lines of a start and nothing that came after it"),
    Spec("failure.worker_wait", "bool", "", "a worker left the engine without answer, and nothing loads or compiles"),
    Spec("failure.watchdog", "bool", "", "the server's own watchdog fired"),
    Spec("failure.fatal", "bool", "", "the server said that it broke and ends"),
    # CUDA graphs
    Spec("graphs.decode_enabled", "bool", "", "decode runs in CUDA graphs, by settings and start-up lines"),
    Spec("graphs.decode_share", "double", "ratio", "share of decode lines that say that a graph ran"),
    Spec("graphs.max_batch", "int", "", "largest batch that was captured"),
    Spec("graphs.exempt", "bool", "", "eager is right here: PD prefill server, pooling model"),
    # the slot ring
    Spec("slots.ring", "int", "", "slots that can be in flight: L = pp + depth"),
    Spec("slots.capacity", "int", "", "requests that one slot may hold"),
    Spec("slots.filled", "double", "", "slots that hold requests: M = C / b"),
    Spec("slots.batch", "double", "", "mean micro-batch: b = tokens/s x T"),
    Spec("slots.wanted", "double", "", "slots that these requests could fill: min(C, L)"),
    Spec("depth.available", "bool", "", "this version has an async micro-batch depth"),
    Spec("depth.value", "int", "", "that depth as set"),
    # the pipeline as the sensors see it
    Spec("pipeline.stages", "int", "", "stages: p"),
    Spec("pipeline.stages_busy", "double", "stages", "S = sum of stage duties; 1.0 means one stage at a time"),
    Spec("pipeline.busy_ratio", "double", "ratio", "S / p"),
    Spec("pipeline.bubble_ratio", "double", "ratio", "1 - S / p over the time in which requests ran"),
    Spec("pipeline.basis", "string", "", "what S rests on: sm, util, power, card, prior or log"),
    Spec(
        "pipeline.basis_tells",
        "bool",
        "",
        "that basis can tell a bubble from work: no guessed level, and utilization only as the upper bound that it is",
    ),
    Spec("pipeline.imbalance", "double", "ratio", "largest stage duty over the mean one"),
    Spec("layers.count", "int", "", "transformer layers of the model"),
    Spec("layers.remainder", "int", "", "layers mod stages under the default split"),
    # telemetry over the server's GPUs
    Spec("telemetry.readings", "int", "", "distinct moments read, the least over the GPUs"),
    Spec("telemetry.seconds", "double", "s", "length of the window that was read"),
    Spec("duty.median", "double", "ratio", "median over the GPUs of the work duty"),
    Spec("duty.min", "double", "ratio", "least work duty of a GPU"),
    Spec("duty.max", "double", "ratio", "largest work duty of a GPU"),
    Spec("util.median", "double", "ratio", "median over the GPUs of the utilization duty"),
    Spec("util.min", "double", "ratio", "least utilization duty of a GPU"),
    Spec("util.max", "double", "ratio", "largest utilization duty of a GPU"),
    Spec("util.ramp", "double", "ratio", "rank correlation of utilization with the stage number, -1..1"),
    Spec("power.median_w", "double", "W", "median over the GPUs of the mean power"),
    Spec("power.limit_ratio", "double", "ratio", "median over the GPUs of mean power over the power limit"),
    Spec("spin.median", "double", "ratio", "median over the GPUs of utilization without work"),
    Spec("spin.max", "double", "ratio", "largest utilization without work of a GPU"),
    # what memory bandwidth allows
    Spec("model.weight_bytes", "double", "bytes", "size of all weights of the model"),
    Spec("model.active_bytes", "double", "bytes", "size of the weights that a step for one token reads"),
    Spec("roofline.tps", "double", "tokens/s", "most tokens a second that memory bandwidth allows at this concurrency"),
    Spec("roofline.ratio", "double", "ratio", "throughput over that"),
    # memory
    Spec("kv.usage_ratio", "double", "ratio", "share of the KV pool in use, the highest lately"),
    Spec("retraction.count", "int", "", "running requests that were thrown back in the window"),
    # memory, limits and queues
    Spec("kv.full_ratio", "double", "ratio", "share of the recent lines with the KV pool at its limit"),
    Spec("kv.tokens", "int", "", "tokens that the KV pool holds, as computed at start"),
    Spec("memory.used_ratio", "double", "ratio", "median over the GPUs of device memory in use"),
    Spec("memory.free_ratio", "double", "ratio", "least share of device memory that is free on a GPU"),
    Spec(
        "memory.granted_ratio",
        "double",
        "ratio",
        "share of device memory that the launch grants the server, when it says so",
    ),
    Spec("limits.used_ratio", "double", "ratio", "running requests over those that the server admits at once"),
    Spec("queue.seen", "int", "", "requests that wait, by the newest line of any kind that counts them"),
    Spec("queue.displacing", "bool", "", "line after line fewer requests run and more wait: they are thrown out"),
    Spec("offload.enabled", "bool", "", "weights, experts or the KV cache are used from host memory, as set"),
    Spec("offload.cpu_gb", "double", "GB", "weights that each GPU keeps in host memory, as set"),
    Spec("offload.gpu_layers_ratio", "double", "ratio", "share of the layers that are on GPUs"),
    # what the steps do
    Spec("prefill.step_ratio", "double", "ratio", "share of the steps of a rank that are prefill"),
    Spec("prefill.blocking_ratio", "double", "ratio", "share of the prefill steps that let running requests wait"),
    Spec("prefill.token_ratio", "double", "ratio", "prompt tokens over all tokens that were computed"),
    Spec("prefill.is_mixed", "bool", "", "prefill and decode share a step, so neither waits for the other"),
    Spec("spec.enabled", "bool", "", "speculative decoding is on"),
    Spec("spec.accept_len", "double", "tokens", "tokens a step and request that speculation brings, median"),
    Spec("spec.accept_low", "double", "tokens", "the same of the rank with the least"),
    Spec("spec.accept_high", "double", "tokens", "the same of the rank with the most"),
    Spec("spec.tokens", "int", "", "generated tokens that these lengths rest on"),
    Spec("graphs.running_batch", "double", "", "requests that one decode step of a rank holds"),
    Spec("graphs.eager_above", "int", "", "largest batch that ran in a graph, where every larger one ran without"),
    Spec("compile.stalls", "int", "", "kernels that were compiled while requests ran"),
    Spec("kernels.slow", "bool", "", "the server said that it uses slow kernels for this card or format"),
    # replicas and roles
    Spec("dp.seen", "int", "", "data-parallel replicas that say what they do"),
    Spec("dp.load_ratio", "double", "ratio", "requests of the fullest replica over an even share"),
    Spec("dp.queue_max", "int", "", "longest queue of a replica"),
    Spec("dp.queue_min", "int", "", "shortest queue of a replica"),
    Spec("replica.load_ratio", "double", "ratio", "requests of the fullest server of a group over an even share"),
    Spec("pd.waiting", "int", "", "requests of a prefill or decode server that wait for the other role"),
    # links between the GPUs
    Spec("comm.p2p_off", "bool", "", "peer access between the GPUs is switched off"),
    Spec("comm.sockets", "bool", "", "collectives between hosts go over TCP"),
    Spec("comm.crosses_hosts", "bool", "", "the tensor ranks of one stage are on several hosts"),
    Spec("comm.custom_allreduce_off", "bool", "", "the fast all-reduce inside a host is off"),
    Spec("links.nvlink", "bool", "", "NVLink joins every pair of its GPUs"),
    Spec("pcie.width_ratio", "double", "ratio", "lanes over those that card and slot could have, the least of a GPU"),
    Spec("pcie.gen_ratio", "double", "ratio", "generation reached over the possible one, the least of a GPU"),
    # the cards
    Spec("gpus.model", "string", "", "product name, when all its GPUs are of one kind"),
    Spec("gpus.memory_bytes", "double", "bytes", "device memory of its smallest GPU"),
    Spec("gpus.visible", "int", "", "GPUs of this host that were read"),
    Spec("gpus.unassigned", "int", "", "GPUs of this host that no server uses"),
    Spec("gpus.lost", "int", "", "GPUs of the server that are gone"),
    Spec("duty.basis", "string", "", "what the work duties rest on: sm, util, power or prior"),
    Spec("duty.spread", "double", "ratio", "largest less least work duty of a GPU"),
    Spec("power.above_cold_w", "double", "W", "median power less that of the card without any context"),
    Spec("throttle.clock_ratio", "double", "ratio", "SM clock over its maximum, the least of a GPU"),
    Spec("throttle.clock_best_ratio", "double", "ratio", "SM clock over its maximum, the largest of a GPU"),
    Spec("throttle.power_ratio", "double", "ratio", "share of the time at the power cap, the largest of a GPU"),
    Spec(
        "throttle.thermal_ratio", "double", "ratio", "share of the time held back by temperature, the largest of a GPU"
    ),
    Spec(
        "throttle.brake_ratio",
        "double",
        "ratio",
        "share of the time held back by the power brake, the largest of a GPU",
    ),
    Spec(
        "throttle.setting_ratio",
        "double",
        "ratio",
        "share of the time held by application clocks, the largest of a GPU",
    ),
    Spec("throttle.limit_ratio", "double", "ratio", "power limit over the usual one of the card, the least of a GPU"),
    Spec("throttle.at_limit_ratio", "double", "ratio", "mean power over the limit in force, the largest of a GPU"),
    Spec("throttle.hottest_c", "double", "C", "temperature of the hottest GPU"),
    Spec("straggler.clock_ratio", "double", "ratio", "SM clock of the slowest GPU over the median of the others"),
    Spec(
        "straggler.power_ratio",
        "double",
        "ratio",
        "power of the same or least GPU over the median of the others, at full utilization",
    ),
    Spec("xid.count", "int", "", "errors that the driver reported in the kernel log"),
    Spec("xid.code", "int", "", "number of the first of them"),
    # the host and the processes
    Spec("host.engine_cpu_ratio", "double", "ratio", "CPU use of the busiest engine process, 1 = one core"),
    Spec("host.step_ratio", "double", "ratio", "time of the host for a step over that of the device"),
    Spec("host.frontend_cpu_ratio", "double", "ratio", "CPU use of the process that takes the requests, 1 = one core"),
    Spec("host.throttled_ratio", "double", "ratio", "share of the time in which a CPU quota held the server"),
    Spec("host.pressure_ratio", "double", "ratio", "share of the time in which some of its tasks waited for a CPU"),
    Spec("host.threads_per_core", "double", "", "runnable threads of the server for each core that it may use"),
    # lives, settings and evidence
    Spec("server.newer_than_known", "bool", "", "its version is newer than any that was studied"),
    Spec("server.down", "bool", "", "it said that it broke, and nothing came after"),
    Spec("server.restarts", "int", "", "times that it started again after it broke, in the log that was read"),
    Spec("failure.oom", "bool", "", "memory ran out, of a GPU or of the host"),
    Spec("epoch.rate_ratio", "double", "ratio", "token rate over that of the life before at the same demand"),
    Spec("settings.drift_count", "int", "", "settings on disk that mean something else than what runs"),
    Spec("overlap.asked_off", "bool", "", "a setting switches overlap or async scheduling off"),
    Spec("backend.attention", "string", "", "attention backend as set"),
    Spec("model.params_b", "double", "10^9", "parameters by the model's name"),
    Spec("layers.split_ratio", "double", "ratio", "layers of the largest stage over the mean"),
    Spec("log.stats_off", "bool", "", "the server was told not to say what it does"),
    Spec("log.startup_lost", "bool", "", "the lines of its start are gone"),
    Spec("log.gaps", "int", "", "reasons for which lines in the middle of its log are gone"),
    Spec("sensor.age_s", "double", "s", "age of the newest reading, the largest of a GPU"),
    Spec("sensor.persistence_off", "bool", "", "the driver forgets a GPU whenever nothing has it open"),
)

_GPU = (
    Spec("gpu.util_ratio", "double", "ratio", "utilization duty: a kernel was resident", Scope.GPU),
    Spec("gpu.mem_util_ratio", "double", "ratio", "share of time in which memory was read or written", Scope.GPU),
    Spec("gpu.sm_active_ratio", "double", "ratio", "SM activity (GPM)", Scope.GPU),
    Spec("gpu.power_w", "double", "W", "mean power", Scope.GPU),
    Spec("gpu.power_limit_w", "double", "W", "power limit in force", Scope.GPU),
    Spec("gpu.power_idle_w", "double", "W", "level with the server loaded and nothing running: P_ctx", Scope.GPU),
    Spec("gpu.power_busy_w", "double", "W", "level at full work: P_act", Scope.GPU),
    Spec("gpu.power_duty", "double", "ratio", "power between those levels", Scope.GPU),
    Spec("gpu.work_duty", "double", "ratio", "share of time with useful work, by the best basis", Scope.GPU),
    Spec("gpu.spin_ratio", "double", "ratio", "utilization without work", Scope.GPU),
    Spec("gpu.sm_clock_mhz", "double", "MHz", "mean SM clock", Scope.GPU),
    Spec("gpu.memory_used_bytes", "double", "bytes", "device memory in use", Scope.GPU),
    Spec("gpu.temperature_c", "double", "C", "core temperature", Scope.GPU),
    Spec("gpu.readings", "int", "", "distinct moments read", Scope.GPU),
)

VOCABULARY: Mapping[str, Spec] = MappingProxyType({spec.name: spec for spec in (*_SERVER, *_GPU)})
"""Name -> what it is."""
