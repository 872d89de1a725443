"""Training launchers: recognised so that we can say what they are, with the micro-batches of a step where stated."""

from __future__ import annotations

import re

from bubblewatch.model.logs import Event, SettingsSeen, TrainingStep
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import Facts, Role
from bubblewatch.servers.logprefix import Record
from bubblewatch.servers.patterns import Pattern
from bubblewatch.servers.plain import PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

_MEGATRON_OPTIONS = OptionList(
    "Megatron-LM",
    option_table(
        one="""
        pp_size:--pipeline-model-parallel-size tp_size:--tensor-model-parallel-size --micro-batch-size
        --global-batch-size --num-layers --num-layers-per-virtual-pipeline-stage --context-parallel-size
        --expert-model-parallel-size --num-microbatches-with-partial-activation-checkpoints --seq-length
        """
    ),
    complete=False,
)
_OTHER_OPTIONS = OptionList(
    "a training launcher",
    option_table(
        one="--num-gpus --num-nodes --hostfile --master-port --deepspeed-config --gradient-accumulation-steps "
        "--nproc-per-node pp_size:--pp,--pp-size,--pipeline-parallel-size tp_size:--tp,--tp-size"
    ),
    complete=False,
    folds_underscores=True,
)


def _facts(settings: Settings, version: Version | None) -> Facts:
    """Micro-batches of a step: the global batch over what one replica takes at once (Megatron-LM num_microbatches)."""
    del version
    pp, dp = settings.number("pp_size"), settings.number("dp_size")
    total, each = settings.number("global_batch_size"), settings.number("micro_batch_size")
    batches = settings.number("gradient_accumulation_steps")
    if total and each and dp:
        batches = total // (each * dp)
    return Facts(
        pp=pp,
        tp=settings.number("tp_size"),
        dp=dp,
        graphs_exempt=True,
        overlap_possible=False,
        role=Role.TRAINING.value,
        ring_slots=batches,
        micro_batches=batches,
    )


def _megatron_step(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    tflops, batch = found["tflops"], found["batch"]
    return (
        TrainingStep(
            record.line,
            rank,
            seconds=float(found["ms"]) / 1000,
            global_batch=int(batch) if batch else None,
            tflops_per_gpu=float(tflops) if tflops else None,
        ),
    )


def _deepspeed_step(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (TrainingStep(record.line, rank, seconds=float(found["seconds"])),)


def _megatron_world(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The sizes that the job runs with."""
    values = {"dp_size": found["dp"], "tp_size": found["tp"], "pp_size": found["pp"]}
    named = {name: Setting(name, int(size), Origin.LOG, found[0][:200]) for name, size in values.items()}
    return (SettingsSeen(record.line, rank, settings=Settings(named)),)


_MEGATRON_TABLE: tuple[Pattern, ...] = (
    Pattern(
        "iteration",
        "elapsed time per iteration (ms)",
        re.compile(
            r"iteration\s{1,9}\d{1,12}/\s{0,12}\d{1,12} \|[^\n]{0,200}?"
            r"elapsed time per iteration \(ms\): (?P<ms>\d{1,12}(?:\.\d{1,4})?) \|"
            r"(?: throughput per GPU \(TFLOP/s/GPU\): (?P<tflops>\d{1,6}(?:\.\d{1,4})?) \|)?"
            r"(?:[^\n]{0,120}?global batch size:\s{1,9}(?P<batch>\d{1,9}) \|)?"
        ),
        _megatron_step,
        " [2025-06-11 10:01:02] iteration      100/  500000 | consumed samples:        25600 | elapsed time per "
        "iteration (ms): 1843.2 | throughput per GPU (TFLOP/s/GPU): 310.5 | learning rate: 1.0E-04 | "
        "global batch size:   256 |",
        "0.12",
        telling=True,
    ),
    Pattern(
        "world",
        "using world size: ",
        re.compile(
            r"using world size: \d{1,7}, data-parallel size: (?P<dp>\d{1,7}),[^\n]{0,200}?"
            r"tensor-model-parallel size: (?P<tp>\d{1,6}),[^\n]{0,160}?pipeline-model-parallel size: (?P<pp>\d{1,6})"
        ),
        _megatron_world,
        "using world size: 8, data-parallel size: 1, context-parallel size: 1, hierarchical context-parallel "
        "sizes: None, tensor-model-parallel size: 4, pipeline-model-parallel size: 2",
        "0.12",
        telling=True,
    ),
)

_DEEPSPEED_TABLE: tuple[Pattern, ...] = (
    Pattern(
        "iteration",
        "iter time (s):",
        re.compile(r"steps: \d{1,12} loss: \S{1,20}[^\n]{0,120}? iter time \(s\): (?P<seconds>\d{1,9}(?:\.\d{1,6})?)"),
        _deepspeed_step,
        "steps: 100 loss: 2.3456 iter time (s): 1.234 samples/sec: 25.934",
        "0.14",
        telling=True,
    ),
)

MEGATRON = PlainKind(
    kind="megatron",
    label="Megatron-LM",
    entry=Entry(
        scripts=re.compile(r"(?:.*/)?pretrain_(?:gpt|bert|t5|vlm|mamba|ict|retro|vision_\w{1,20})\.py"),
    ),
    options=_MEGATRON_OPTIONS,
    meaning=_facts,
    table=_MEGATRON_TABLE,
)

DEEPSPEED = PlainKind(
    kind="deepspeed",
    label="DeepSpeed",
    entry=Entry(
        programs=frozenset({"deepspeed"}),
        modules=re.compile(r"deepspeed\.launcher\.(?:launch|runner)"),
    ),
    options=_OTHER_OPTIONS,
    meaning=_facts,
    table=_DEEPSPEED_TABLE,
)

COLOSSALAI = PlainKind(
    kind="colossalai",
    label="Colossal-AI",
    entry=Entry(commands=frozenset({("colossalai", "run")})),
    options=_OTHER_OPTIONS,
    meaning=_facts,
)
