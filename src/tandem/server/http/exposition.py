"""Writes metrics in the text formats of Prometheus. Imported at the first scrape: most brokers are never scraped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, cast

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from tandem.server.dispatch import Durations

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def family(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    words: str,
    samples: Mapping[tuple[str, ...], float | Durations],
    labels: tuple[str, ...] = (),
) -> Metric:
    """One metric with all its label values.

    Args:
        kind: Which kind of metric; the samples of a histogram are durations.
        name: Without the prefix and, for a counter, the suffix.
        words: Its description.
        samples: By the values of the labels.
        labels: Their names.
    """
    name = f"tandem_{name}"
    if kind == "histogram":
        histogram = HistogramMetricFamily(name, words, labels=labels)
        for values, value in samples.items():
            if isinstance(value, Durations):
                buckets = zip([*map(str, value.bounds), "+Inf"], accumulate(value.counts), strict=True)
                histogram.add_metric(values, list(buckets), value.total_seconds)
        return histogram
    plain = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, words, labels=labels)
    for values, value in samples.items():
        if not isinstance(value, Durations):
            plain.add_metric(values, value)
    return plain


def exposed(families: Iterable[Metric], accepted: str) -> tuple[bytes, str]:
    """The families and those of the process as text, and its content type.

    Args:
        families: Tandem's own metrics.
        accepted: The header `Accept`, which chooses between OpenMetrics and the older format.
    """
    encode, content_type = choose_encoder(accepted)
    # All that an encoder asks of a registry.
    scrape = SimpleNamespace(collect=lambda: chain(families, ProcessCollector(registry=None).collect()))
    return encode(cast("CollectorRegistry", scrape)), content_type
