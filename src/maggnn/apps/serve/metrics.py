"""The metrics of a server, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from maggnn.apps.serve.batching import Seen

SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """The metrics of one server, with a separate registry, so that several servers may share a process."""

    def __init__(self, seen: Seen) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("maggnn_requests", "Requests by status", ["status"], registry=self.registry)
        self.seconds = Histogram(
            "maggnn_request_seconds", "Time from a request to its answer", buckets=SECONDS, registry=self.registry
        )
        self.registry.register(_Batches(seen))

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Batches(Collector):
    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        seen = self.seen
        return [
            CounterMetricFamily("maggnn_batches", "Batches that were predicted", seen.batches),
            CounterMetricFamily("maggnn_molecules", "Molecules that were processed", seen.rows),
            CounterMetricFamily("maggnn_molecules_without", "Molecules without a prediction", seen.without),
            GaugeMetricFamily("maggnn_molecules_waiting", "Molecules that wait for a prediction", seen.waiting),
        ]
