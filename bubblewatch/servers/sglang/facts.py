"""What SGLang's settings mean for its version: stages, slots, CUDA graphs, overlap."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from bubblewatch.model.logs import PoolSized
from bubblewatch.model.server import ORDER, Origin, Setting, Settings
from bubblewatch.servers.base import Facts, LayerRule, LayerSplit, Role, Running
from bubblewatch.servers.sglang.options import newest_known
from bubblewatch.servers.sglang.tuning import speculation_limit, with_tuning
from bubblewatch.servers.versions import Bounds, Version

_ROLES = {"null": Role.BOTH, "prefill": Role.PREFILL, "decode": Role.DECODE}
_EAGER_BACKENDS = frozenset({"torch_native", "flex_attention"})
"""Attention backends that switch decode graphs off (SGLang 0.4.9 server_args.py .. 0.5.23 attention_hook.py)."""


def facts_of(settings: Settings, version: str | None, bounds: Bounds | None, pool: PoolSized | None) -> Facts:
    """See `ServerKind.facts`."""
    known = Bounds.exactly(version) or bounds or Bounds()
    parsed = Version.parse(version)
    pp, dp = settings.number("pp_size"), _replicas(settings)
    role = _ROLES.get(str(settings.get("disaggregation_mode"))) if "disaggregation_mode" in settings else None
    graphs = _decode_graphs(settings, role)
    depth_available = _depth_available(settings, known)
    depth = _depth(settings, depth_available)
    per_replica, total = _max_running(settings, dp, pool, known)
    facts = Facts(
        pp=pp,
        tp=settings.number("tp_size"),
        dp=dp,
        decode_graphs=graphs.on,
        decode_graphs_setting=graphs.setting,
        graphs_reason=graphs.reason,
        graphs_exempt=_exempt(settings, role),
        graph_max_batch=_graph_max_batch(settings),
        depth_available=depth_available,
        depth=depth,
        ring_slots=pp + depth if pp is not None and depth is not None else (1 if pp == 1 else None),
        slot_capacity=_slot_capacity(settings, pp, per_replica),
        max_running=total,
        decode_log_interval=settings.number("decode_log_interval"),
        overlap_enabled=_overlap_enabled(settings, pp),
        overlap_possible=None if pp is None else pp == 1,
        overlap_setting=settings.values.get("disable_overlap_schedule"),
        role=None if role is None else role.value,
        port=settings.number("port"),
        layer_split=_layer_split(settings, known),
        running=None if pp is None else (Running.ONE_SLOT if pp > 1 else Running.TOTAL),
        newer_than_known=parsed is not None and parsed > newest_known(),
    )
    return with_tuning(facts, settings, known, pool)


@dataclass(frozen=True, slots=True)
class _Graphs:
    on: bool | None
    setting: Setting | None = None
    reason: str = ""


def _decode_graphs(settings: Settings, role: Role | None) -> _Graphs:
    """Whether decode runs in CUDA graphs, by what the server resolved, else by the order in which it resolves.

    JSON configuration > backend of the phase > switch of the phase > old switch > default (SGLang 0.5.23,
    arg_groups/cuda_graph_hook.py; before 0.5.14 there is only the old switch). Attention backends that cannot be
    captured come on top of it all.
    """
    backend = settings.values.get("cuda_graph_backend_decode")
    if backend is not None and ORDER[backend.origin] >= ORDER[Origin.LOG] and backend.value is not None:
        return _by_backend(backend)
    attention = settings.values.get("attention_backend")
    if attention is not None and attention.value in _EAGER_BACKENDS:
        return _Graphs(False, attention, f"attention backend {attention.value} cannot be captured")
    configured = settings.values.get("cuda_graph_config")
    if configured is not None and (said := _backend_in_json(configured.value)) is not None:
        return _by_backend(Setting(configured.name, said, configured.origin, configured.evidence))
    if backend is not None and backend.value is not None:
        return _by_backend(backend)
    for name in ("disable_decode_cuda_graph", "disable_cuda_graph"):
        switch = settings.values.get(name)
        if switch is not None and switch.value is True:
            return _Graphs(False, switch, "switched off")
    deepep = settings.values.get("deepep_mode")
    if deepep is not None and deepep.value == "normal" and _uses_deepep(settings):
        return _Graphs(False, deepep, "DeepEP in normal mode cannot be captured")
    if role is Role.PREFILL:
        return _Graphs(False, settings.values.get("disaggregation_mode"), "a prefill server decodes nothing")
    switch = settings.values.get("disable_cuda_graph")
    return _Graphs(None) if switch is None else _Graphs(True, switch, "on by default")


def _by_backend(setting: Setting) -> _Graphs:
    return _Graphs(setting.value != "disabled", setting, f"decode backend {setting.value}")


def _backend_in_json(value: object) -> str | None:
    """`decode.backend` of a `--cuda-graph-config` JSON; None when it does not say."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    phase = parsed.get("decode") if isinstance(parsed, dict) else None
    backend = phase.get("backend") if isinstance(phase, dict) else None
    return backend if isinstance(backend, str) else None


def _uses_deepep(settings: Settings) -> bool:
    return settings.get("moe_a2a_backend") == "deepep" or settings.flag("enable_deepep_moe") is True


def _exempt(settings: Settings, role: Role | None) -> bool | None:
    """True for prefill servers and models that only embed: they run no decode."""
    embeds = settings.flag("is_embedding")
    if role is Role.PREFILL or embeds:
        return True
    return None if embeds is None and role is None else False


def _graph_max_batch(settings: Settings) -> int | None:
    for name in ("cuda_graph_bs_decode", "cuda_graph_bs"):
        sizes = [int(word) for word in re.findall(r"\d{1,9}", str(settings.get(name) or ""))]
        if sizes:
            return max(sizes)
    decode = settings.number("cuda_graph_max_bs_decode")
    return decode if decode is not None else settings.number("cuda_graph_max_bs")


def _depth_available(settings: Settings, known: Bounds) -> bool | None:
    """By version (0.5.7 brought it); a server that printed the setting has it in any case."""
    setting = settings.values.get("pp_async_batch_depth")
    if setting is not None and ORDER[setting.origin] >= ORDER[Origin.LOG]:
        return True
    return known.since("0.5.7")


def _depth(settings: Settings, available: bool | None) -> int | None:
    """As set; 0 where there is no such option, or where the launch was read and does not use it."""
    given = settings.number("pp_async_batch_depth")
    if available is not False and given is not None:
        return given
    return 0 if available is False or any(setting.origin is Origin.DEFAULT for setting in settings) else None


def _replicas(settings: Settings) -> int | None:
    """Data-parallel replicas: whole ones, or attention groups (their own option since 0.5.22)."""
    return max((n for name in ("dp_size", "attn_dp_size") if (n := settings.number(name)) is not None), default=None)


def _max_running(
    settings: Settings, dp: int | None, pool: PoolSized | None, known: Bounds
) -> tuple[int | None, int | None]:
    """Requests admitted by one replica, and by the server.

    What the server computed at start stands above what was asked for. It is said for each replica; an option counts
    for each replica too, except under attention data parallelism, which divides it (SGLang 0.5.10 tp_worker.py).
    """
    replicas = dp or 1
    if pool is not None and pool.max_running is not None:
        return pool.max_running, pool.max_running * replicas
    asked = settings.number("max_running_requests")
    if asked is None:
        asked = speculation_limit(settings, known)
    if asked is None:
        return None, None
    if settings.flag("enable_dp_attention") or (settings.number("attn_dp_size") or 1) > 1:
        return max(asked // replicas, 1), asked
    return asked, asked * replicas


def _slot_capacity(settings: Settings, pp: int | None, per_replica: int | None) -> int | None:
    """The explicit micro-batch size, else an equal share of the limit for each stage (not for each slot)."""
    explicit = settings.number("pp_max_micro_batch_size") or settings.number("max_micro_batch_size")
    if explicit is not None or pp is None or per_replica is None:
        return explicit
    return max(per_replica // pp, 1)


def _overlap_enabled(settings: Settings, pp: int | None) -> bool | None:
    """Never with several stages: every version switches it off then (SGLang 0.4.9 .. 0.5.23)."""
    if pp is not None and pp > 1:
        return False
    off = settings.flag("disable_overlap_schedule")
    return None if off is None else not off


def _layer_split(settings: Settings, known: Bounds) -> LayerSplit | None:
    """Rule of `get_pp_indices` (SGLang distributed/utils.py; changed in 0.5.6), or the stated layers."""
    stated = str(settings.get("SGLANG_PP_LAYER_PARTITION") or "")
    if re.fullmatch(r"\d{1,6}(?:,\d{1,6})*", stated):
        return LayerSplit(LayerRule.STATED, tuple(int(part) for part in stated.split(",")))
    newer = known.since("0.5.6")
    if newer is None:
        return None
    return LayerSplit(LayerRule.LAST_TAKE_ONE_MORE if newer else LayerRule.LAST_TAKES_REST)
