"""Writes metrics in the text formats of Prometheus. Imported at the first scrape: most brokers are never scraped."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from tandem.server.metrics import Durations, Family

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


_KINDS: Final = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


def _metric(family: Family) -> Metric:
    metric: Any = _KINDS[family.kind](f"tandem_{family.name}", family.words, labels=family.labels)
    for values, value in family.samples.items():
        if isinstance(value, Durations):
            buckets = zip([*map(str, value.bounds), "+Inf"], accumulate(value.counts), strict=True)
            metric.add_metric(values, list(buckets), value.total_seconds)
        else:
            metric.add_metric(values, value)
    return metric


def exposed(families: Iterable[Family], accepted: str) -> tuple[bytes, str]:
    """The families and those of the process as text, and its content type.

    Args:
        families: Tandem's own metrics.
        accepted: The header `Accept`, which chooses between OpenMetrics and the older format.
    """
    encode, content_type = choose_encoder(accepted)
    # All that an encoder asks of a registry.
    scrape = SimpleNamespace(collect=lambda: chain(map(_metric, families), ProcessCollector(registry=None).collect()))
    return encode(cast("CollectorRegistry", scrape)), content_type
