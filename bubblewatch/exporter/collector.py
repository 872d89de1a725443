"""The Prometheus client, bound: families are built from the hub's snapshot at each scrape, nothing is kept between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from bubblewatch.exporter import catalogue
from bubblewatch.exporter.catalogue import Kind
from bubblewatch.exporter.cost import cost_samples
from bubblewatch.exporter.families import Sample, sample, snapshot_samples
from bubblewatch.runtime.hub import STALE_S, Hub
from bubblewatch.runtime.sampler_cost import SamplerCost


class Exposition:
    """`/metrics` as bytes. Safe to call from any thread, several at once."""

    def __init__(
        self, hub: Hub, version: str, cost: Callable[[], SamplerCost] | None = None, *, host: str = ""
    ) -> None:
        """`version` is bubblewatch's own; `cost` tells what the sampler costs, and which process it is.

        `host` is the name by which others reach this machine, "" when that is not known.
        """
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_HubCollector(hub, version, host))
        ProcessCollector(namespace="bubblewatch", registry=self._registry)
        if cost is not None:
            self._registry.register(_CostCollector(cost))
            # A pid that is not there makes the client leave these metrics out.
            ProcessCollector(namespace="bubblewatch_sampler", pid=lambda: cost().pid or "none", registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type by the request's Accept header: OpenMetrics when it asks, else the text format."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _HubCollector(Collector):
    def __init__(self, hub: Hub, version: str, host: str) -> None:
        self._hub = hub
        self._version = version
        self._host = host

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
            yield from snapshot_samples(snapshot, self._host)


class _CostCollector(Collector):
    def __init__(self, cost: Callable[[], SamplerCost]) -> None:
        self._cost = cost

    def collect(self) -> Iterable[Family]:
        return _families(cost_samples(self._cost()))


def _families(samples: Iterable[Sample]) -> list[Family]:
    families: dict[str, Family] = {}
    for one in samples:
        metric = one.metric
        family = families.get(metric.name)
        if family is None:
            base = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
            family = families[metric.name] = Family(base, metric.help, metric.kind.value)
        family.add_sample(metric.name + one.suffix, dict(one.labels), one.value)
    return list(families.values())
