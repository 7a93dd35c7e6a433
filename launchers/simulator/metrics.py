"""/metrics in Prometheus text, under vLLM's names, so that one reader serves both."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from launchers.simulator.scheduler import Scheduler

LABELS = ["model_name"]


class SchedulerCollector(Collector):
    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self.scheduler = scheduler
        self.model = model

    def collect(self) -> Iterator[Metric]:
        scheduler, counters = self.scheduler, self.scheduler.counters
        running, waiting = len(scheduler.running), len(scheduler.waiting)
        for name, text, value in (
            ("vllm:num_requests_running", "Requests that have a slot.", running),
            ("vllm:num_requests_waiting", "Requests in the queue.", waiting),
        ):
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            gauge.add_metric([self.model], value)
            yield gauge
        for name, text, value in (
            ("vllm:prompt_tokens", "Prompt tokens computed.", counters.prompt_tokens),
            ("vllm:prefix_cache_hits", "Prompt tokens that the cache spared.", counters.cached_tokens),
            ("vllm:generation_tokens", "Tokens generated.", counters.generated_tokens),
        ):
            total = CounterMetricFamily(name, text, labels=LABELS)
            total.add_metric([self.model], value)
            yield total
        ended = CounterMetricFamily(
            "vllm:request_success", "Requests that ended.", labels=[*LABELS, "finished_reason"]
        )
        ended.add_metric([self.model, "length"], counters.finished)
        ended.add_metric([self.model, "abort"], counters.aborted)
        yield ended
        iterations = HistogramMetricFamily(
            "vllm:iteration_tokens_total", "Tokens an iteration, prompt and output.", labels=LABELS
        )
        tokens = counters.prompt_tokens + counters.generated_tokens
        iterations.add_metric([self.model], [("+Inf", counters.iterations)], tokens)
        yield iterations


def page(scheduler: Scheduler, model: str) -> str:
    registry = CollectorRegistry()
    registry.register(SchedulerCollector(scheduler, model))
    return generate_latest(registry).decode()
