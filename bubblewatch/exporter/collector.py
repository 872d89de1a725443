"""The Prometheus client, bound: families are built from the hub's snapshot at each scrape, nothing is kept between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from bubblewatch.exporter import catalogue
from bubblewatch.exporter.catalogue import Kind
from bubblewatch.exporter.families import Sample, sample, snapshot_samples
from bubblewatch.runtime.hub import STALE_S, Hub


class Exposition:
    """`/metrics` as bytes. Safe to call from any thread, several at once."""

    def __init__(self, hub: Hub, version: str, sampler_pid: Callable[[], int | None] | None = None) -> None:
        """`version` is bubblewatch's own; `sampler_pid` tells the sampler process, whose cost shows too."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_HubCollector(hub, version))
        ProcessCollector(namespace="bubblewatch", registry=self._registry)
        if sampler_pid is not None:
            # A pid that is not there makes the client leave these metrics out.
            ProcessCollector(
                namespace="bubblewatch_sampler", pid=lambda: sampler_pid() or "none", registry=self._registry
            )

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type by the request's Accept header: OpenMetrics when it asks, else the text format."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _HubCollector(Collector):
    def __init__(self, hub: Hub, version: str) -> None:
        self._hub = hub
        self._version = version

    def collect(self) -> Iterable[Family]:
        return _families(self._samples())

    def _samples(self) -> Iterator[Sample]:
        yield sample(catalogue.BUILD_INFO, 1, version=self._version)
        held = self._hub.latest_with_age()
        if held is None:
            return
        snapshot, age_s = held
        yield sample(catalogue.SNAPSHOT_AGE, age_s)
        yield sample(catalogue.SNAPSHOTS, snapshot.sequence)
        if age_s <= STALE_S:
            yield from snapshot_samples(snapshot)


def _families(samples: Iterable[Sample]) -> list[Family]:
    families: dict[str, Family] = {}
    for one in samples:
        metric = one.metric
        family = families.get(metric.name)
        if family is None:
            base = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
            family = families[metric.name] = Family(base, metric.help, metric.kind.value)
        family.add_sample(metric.name, dict(one.labels), one.value)
    return list(families.values())
