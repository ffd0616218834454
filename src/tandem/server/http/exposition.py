"""Writes metrics in the text formats of Prometheus. Imported at the first scrape: most brokers are never scraped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tandem.server.tally import Durations, Family


def exposed(families: Sequence[Family], accepted: str) -> tuple[bytes, str]:
    """The families and those of the process as text, and its content type.

    Args:
        families: Tandem's own metrics.
        accepted: The header `Accept`, which chooses between OpenMetrics and the older format.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(families))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accepted)
    return encode(registry), content_type


class _Scrape(Collector):
    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return map(_metric, self._families)


def _metric(family: Family) -> Metric:
    name = f"tandem_{family.name}"
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, family.words, labels=family.labels)
        for labels, value in family.samples.items():
            if isinstance(value, Durations):
                histogram.add_metric(labels, _buckets(value), value.total_seconds)
        return histogram
    plain = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        name, family.words, labels=family.labels
    )
    for labels, value in family.samples.items():
        if not isinstance(value, Durations):
            plain.add_metric(labels, value)
    return plain


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*map(str, durations.bounds), "+Inf"]
    return list(zip(bounds, accumulate(durations.counts), strict=True))
