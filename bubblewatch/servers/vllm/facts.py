"""What vLLM's settings mean for its version: stages, batches in flight, CUDA graphs, async scheduling."""

from __future__ import annotations

import json
import re

from bubblewatch.model.server import Setting, Settings
from bubblewatch.servers.base import Facts, LayerRule, LayerSplit, Role, Running
from bubblewatch.servers.versions import Bounds, Version
from bubblewatch.servers.vllm.options import NEWEST_KNOWN
from bubblewatch.servers.vllm.tuning import with_tuning

_NO_GRAPHS = frozenset({"NONE", "0"})
_DYNAMO_ROLES = {"prefill": Role.PREFILL, "decode": Role.DECODE, "agg": Role.BOTH}
"""`--disaggregation-mode` of Dynamo's worker (dynamo.vllm 1.x; before it `--is-prefill-worker`)."""
_KV_ROLES = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE, "kv_both": Role.BOTH}


LEAST_DEFAULT_SEQS = 256
"""Requests that one batch may hold where nothing is set, at the least: 256 in every version, more on large cards
(0.8.5 to 0.33.0, engine/arg_utils.py get_batch_defaults). The limit counts all batches together, so the first one
takes it all."""


def facts_of(settings: Settings, version: str | None, bounds: Bounds | None) -> Facts:
    """See `ServerKind.facts`."""
    known = Bounds.exactly(version) or bounds or Bounds()
    parsed, newest = Version.parse(version), Version.parse(NEWEST_KNOWN)
    pp, dp = settings.number("pp_size"), settings.number("dp_size")
    per_replica = settings.number("max_num_seqs")
    graphs, setting, reason = _decode_graphs(settings, known, pp)
    enabled, possible = _overlap(settings, known, pp)
    role = _role(settings)
    facts = Facts(
        pp=pp,
        tp=settings.number("tp_size"),
        dp=dp,
        decode_graphs=graphs,
        decode_graphs_setting=setting,
        graphs_reason=reason,
        graphs_exempt=_exempt(settings, role),
        graph_max_batch=_graph_max_batch(settings),
        depth_available=False,
        ring_slots=_batches_in_flight(settings, known, pp, enabled=enabled),
        slot_capacity=per_replica if per_replica is not None else LEAST_DEFAULT_SEQS,
        max_running=None if per_replica is None else per_replica * (dp or 1),
        overlap_enabled=enabled,
        overlap_possible=possible,
        overlap_setting=settings.values.get("async_scheduling"),
        role=None if role is None else role.value,
        port=settings.number("port"),
        layer_split=_layer_split(settings, known),
        running=Running.TOTAL,
        newer_than_known=parsed is not None and newest is not None and parsed > newest,
    )
    return with_tuning(facts, settings, known)


def _decode_graphs(settings: Settings, known: Bounds, pp: int | None) -> tuple[bool | None, Setting | None, str]:
    """Whether decode runs in CUDA graphs, the setting that decides it, and how in a few words."""
    eager = settings.values.get("enforce_eager")
    if eager is not None and eager.value is True:
        return False, eager, "eager mode is enforced"
    mode = settings.values.get("cudagraph_mode")
    if mode is not None and str(mode.value).upper() in _NO_GRAPHS:
        return False, mode, "cudagraph_mode is NONE"
    level = settings.values.get("optimization_level")
    if level is not None and level.value == 0 and (mode is None or mode.value is None):
        return False, level, "optimization level 0 has no graphs"
    runner = settings.values.get("VLLM_USE_V2_MODEL_RUNNER")
    between = known.since("0.17.0") is True and known.since("0.20.0") is False
    if runner is not None and runner.value == 1 and between and (pp or 1) > 1:
        return False, runner, "the new model runner has no graphs with several stages before 0.20"
    return (None, None, "") if eager is None else (True, eager, "on by default")


def _overlap(settings: Settings, known: Bounds, pp: int | None) -> tuple[bool | None, bool | None]:
    """Async scheduling on, and possible, by version (vLLM 0.8.5 .. 0.33.0, config/vllm.py and engine/arg_utils.py).

    0.10 .. 0.13: on request, refused with several stages. 0.14: on by default, off with several stages. Later: on by
    default; from 0.33 the old model runner has none with several stages, and which runner it is the launch rarely says.
    """
    asked = settings.flag("async_scheduling")
    if pp is None:
        return None, None
    if known.since("0.10.0") is False:
        return False, False
    if known.since("0.10.0") is None:
        return None, None
    if known.since("0.15.0") is False and pp > 1:
        return False, False
    if known.since("0.14.0") is False:
        return asked is True, True
    if asked is False:
        return False, True
    if known.since("0.14.0") is None or settings.get("distributed_executor_backend") == "ray":
        return None, True
    if pp > 1 and known.since("0.33.0") is not False and asked is None:
        return None, True
    return True, True


def _batches_in_flight(settings: Settings, known: Bounds, pp: int | None, *, enabled: bool | None) -> int | None:
    """Batches that the engine keeps in flight: as it says, else one a stage, except in early versions without Ray."""
    if (said := settings.number("batch_queue_size")) is not None:
        return said
    if pp is None or pp == 1:
        return pp
    if known.since("0.9.0") is False and settings.get("distributed_executor_backend") != "ray":
        return 1
    if known.since("0.9.0") is None:
        return None
    return 2 if enabled and known.since("0.15.0") is False else pp


def _graph_max_batch(settings: Settings) -> int | None:
    stated = settings.number("max_cudagraph_capture_size")
    if stated is not None:
        return stated
    for name in ("cudagraph_capture_sizes", "cuda_graph_sizes"):
        sizes = [int(word) for word in re.findall(r"\d{1,9}", str(settings.get(name) or ""))]
        if sizes:
            return max(sizes)
    return None


def _role(settings: Settings) -> Role | None:
    word = "prefill" if settings.flag("is_prefill_worker") else "decode" if settings.flag("is_decode_worker") else ""
    if (worker := _DYNAMO_ROLES.get(word or str(settings.get("disaggregation_mode")))) is not None:
        return worker
    if "kv_transfer_config" not in settings:
        return None
    text = settings.get("kv_transfer_config")
    if text is None:
        return Role.BOTH
    try:
        parsed = json.loads(str(text))
    except (ValueError, RecursionError):
        return None
    return _KV_ROLES.get(str(parsed.get("kv_role"))) if isinstance(parsed, dict) else None


def _exempt(settings: Settings, role: Role | None) -> bool | None:
    """True for prefill servers and pooling models: they run no decode."""
    if role is Role.PREFILL or settings.get("runner") == "pooling":
        return True
    if settings.get("task") in ("embed", "embedding", "classify", "score", "reward", "encode", "token_embed"):
        return True
    return None if role is None and "enforce_eager" not in settings else False


def _layer_split(settings: Settings, known: Bounds) -> LayerSplit | None:
    """Rule of `get_pp_indices` (vLLM 0.8.5 .. 0.33.0 distributed/utils.py): the last stage is spared, or stated."""
    stated = str(settings.get("layers_of_stages") or settings.get("VLLM_PP_LAYER_PARTITION") or "")
    if re.fullmatch(r"\d{1,6}(?:,\d{1,6})*", stated):
        return LayerSplit(LayerRule.STATED, tuple(int(part) for part in stated.split(",")))
    return LayerSplit(LayerRule.ONE_MORE_BEFORE_LAST) if known.since("0.8.0") else None
