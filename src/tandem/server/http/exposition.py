"""Writes metrics in the text formats of Prometheus. Imported at the first scrape: most brokers are never scraped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from tandem.server.tally import Durations, Family

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def exposed(families: Sequence[Family], accepted: str) -> tuple[bytes, str]:
    """The families and those of the process as text, and its content type.

    Args:
        families: Tandem's own metrics.
        accepted: The header `Accept`, which chooses between OpenMetrics and the older format.
    """
    encode, content_type = choose_encoder(accepted)
    # All that an encoder asks of a registry.
    scrape = SimpleNamespace(collect=lambda: chain(map(_metric, families), ProcessCollector(registry=None).collect()))
    return encode(cast("CollectorRegistry", scrape)), content_type


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
