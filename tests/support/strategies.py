"""Hypothesis strategies for whole snapshots: every text may be anything, every number may be odd."""

from __future__ import annotations

from hypothesis import strategies as st

from bubblewatch.model.accounts import Accounts, GpuAccount, GpuState, ServerAccount
from bubblewatch.model.findings import (
    Answer,
    Finding,
    Gain,
    Health,
    Remedy,
    Scope,
    Severity,
    Snapshot,
    SourceHealth,
    State,
    Target,
    TargetView,
)
from bubblewatch.model.server import Origin, Rank, Server, Setting, Settings
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signal, Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.signals.vocabulary import VOCABULARY

UUIDS = ("GPU-0", "GPU-1", "GPU-2")

texts = st.text(st.characters(), max_size=20)
"""Any code points at all, lone surrogates too."""

numbers = st.floats() | st.integers(-(2**40), 2**70)
values = st.booleans() | numbers | texts
names = st.sampled_from(sorted(VOCABULARY))
targets = st.builds(Target, st.sampled_from(Scope), texts)
rules = st.sampled_from(["pipeline-bubble", "cuda-graph-disabled", "healthy", "odd"])

signals = st.builds(
    Signals,
    st.dictionaries(names, st.builds(Signal, values, texts, st.sampled_from(Confidence)), max_size=12),
    st.dictionaries(names, texts, max_size=4),
)

findings = st.builds(
    Finding,
    id=texts,
    name=rules,
    severity=st.sampled_from(Severity),
    confidence=st.sampled_from(Confidence),
    target=targets,
    state=st.sampled_from(State),
    summary=texts,
    since_ns=st.none() | st.integers(-(2**63), 2**63),
    evidence=st.lists(st.builds(Evidence, st.sampled_from(EvidenceKind), texts, texts), max_size=6).map(tuple),
    missing=st.lists(texts, max_size=2).map(tuple),
    remedy=st.none() | st.builds(Remedy, texts, st.tuples(texts), st.tuples(texts), texts, texts),
    hazards=st.lists(texts, max_size=2).map(tuple),
    check=texts,
    caused_by=st.lists(rules, max_size=2).map(tuple),
    held_back_by=st.lists(rules, max_size=1).map(tuple),
    expected_gain=st.none()
    | st.builds(Gain, texts, st.none() | st.floats(), st.none() | st.floats(), texts, st.none() | st.floats()),
    ignored=st.booleans(),
)

settings = st.dictionaries(
    texts,
    st.builds(Setting, texts, st.none() | values, st.sampled_from(Origin), texts),
    max_size=3,
).map(Settings)

ranks = st.none() | st.builds(Rank, st.integers(0, 64), st.integers(0, 64), st.integers(0, 8))

servers = st.builds(
    Server,
    kind=texts,
    key=texts,
    version=st.none() | texts,
    unit=st.none() | texts,
    settings=settings,
    gpus=st.dictionaries(st.sampled_from(UUIDS), ranks),
)

views = st.builds(
    TargetView,
    target=targets,
    answer=st.sampled_from(Answer),
    signals=signals,
    findings=st.lists(findings, max_size=3).map(tuple),
    server=st.none() | servers,
    missing=st.lists(texts, max_size=2).map(tuple),
    judged_clear=st.dictionaries(rules, st.sampled_from(Severity), max_size=2),
)

gpu_lists = st.lists(
    st.builds(
        GpuInfo,
        uuid=st.sampled_from(UUIDS),
        index=st.integers(0, 63),
        name=texts,
        power_limit_w=st.none() | st.floats(),
        memory_total_bytes=st.none() | st.integers(0, 2**40),
    ),
    unique_by=lambda gpu: gpu.uuid,
    max_size=3,
)

accounts = st.builds(
    Accounts,
    st.dictionaries(
        st.sampled_from(UUIDS),
        st.builds(
            GpuAccount, st.dictionaries(st.sampled_from(GpuState), st.integers(0, 2**62)), st.none() | st.floats(0)
        ),
        max_size=2,
    ),
    st.dictionaries(
        texts,
        st.builds(ServerAccount, st.dictionaries(rules, st.integers(0, 2**62), max_size=2), st.integers(0, 9)),
        max_size=2,
    ),
)

snapshots = st.builds(
    Snapshot,
    time_ns=st.integers(0, 2**63),
    answer=st.sampled_from(Answer),
    views=st.lists(views, max_size=3).map(tuple),
    gpus=gpu_lists.map(tuple),
    gpu_signals=st.dictionaries(st.sampled_from(UUIDS), signals, max_size=3),
    sources=st.lists(st.builds(SourceHealth, texts, st.sampled_from(Health), texts, texts), max_size=2).map(tuple),
    watched_s=st.floats(),
    one_shot=st.booleans(),
    accounts=accounts,
)
