"""Programs that stand in front of engines and run no model: recognised so that they are not taken for a server."""

from __future__ import annotations

import re
from types import MappingProxyType

from bubblewatch.model.server import Settings
from bubblewatch.servers.argv import OptionList, option_table
from bubblewatch.servers.base import Facts, Role
from bubblewatch.servers.logprefix import OwnPrefix
from bubblewatch.servers.plain import PlainKind
from bubblewatch.servers.program import Entry
from bubblewatch.servers.versions import Version

_OPTIONS = OptionList(
    "a router",
    option_table(
        one="--host port:--port,--http-port,--server-port --policy --log-level --router-mode --namespace",
        many="--worker-urls --prefill --decode",
        flag="--pd-disaggregation --mini-lb --enable-igw --service-discovery",
    ),
    complete=False,
    folds_underscores=True,
)


def _tracing(target: str) -> OwnPrefix:
    """The prefix of Rust's tracing-subscriber for modules whose name `target` matches."""
    stamp = r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z)?"
    pattern = rf"{stamp}\s{{1,4}}[A-Z]{{4,5}}\s{{1,4}}(?P<target>{target}(?:(?:::|\.)\w{{1,60}}){{0,6}}): "
    return OwnPrefix(re.compile(pattern), re.compile(r"(?!)"))


def _facts(settings: Settings, version: Version | None) -> Facts:
    del version
    return Facts(role=Role.ROUTER.value, graphs_exempt=True, overlap_possible=False, port=settings.number("port"))


SGLANG_ROUTER = PlainKind(
    kind="sglang-router",
    label="SGLang router",
    entry=Entry(
        programs=frozenset({"sglang-router", "smg"}),
        modules=re.compile(r"sglang_router\.launch_router|sglang\.srt\.disaggregation\.(?:mini_lb|launch_lb)"),
        scripts=re.compile(r"(?:.*/)?sglang_router/launch_router\.py"),
    ),
    options=_OPTIONS,
    meaning=_facts,
    # 2025-09-12 08:01:02  INFO sglang_router_rs::server: src/server.rs:471: Starting router on 0.0.0.0:30000
    prefix=_tracing("sglang_router_rs"),
    defaults=MappingProxyType({"port": 30000}),
)
"""`python -m sglang_router.launch_router` and the older load balancers of disaggregated serving."""

DYNAMO = PlainKind(
    kind="dynamo",
    label="Dynamo front end",
    entry=Entry(
        programs=frozenset({"dynamo-run"}),
        modules=re.compile(r"dynamo\.(?:frontend|router|planner|global_router|mocker|llm\.main)"),
    ),
    options=_OPTIONS,
    meaning=_facts,
    # 2025-08-05T20:31:47.123456Z  INFO dynamo_llm::http::service::service_v2: Starting HTTP service on: 0.0.0.0:8000
    prefix=_tracing(r"dynamo_(?:llm|runtime|run)"),
    defaults=MappingProxyType({"port": 8000}),
)
"""Dynamo's own processes. Its workers, `python -m dynamo.vllm` and so on, belong to the kinds of their engines."""
