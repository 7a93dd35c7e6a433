"""/metrics in Prometheus text, under vLLM's names, so that one reader serves both."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from launchers.simulator.scheduler import Scheduler


class SchedulerCollector(Collector):
    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self.scheduler = scheduler
        self.model = model

    def collect(self) -> list[Metric]:
        scheduler, counters = self.scheduler, self.scheduler.counters
        gauges = {
            "vllm:num_requests_running": len(scheduler.running),
            "vllm:num_requests_waiting": len(scheduler.waiting),
            "vllm:iteration_tokens_total_count": counters.iterations,  # a histogram's count in vLLM
        }
        totals = {
            "vllm:prompt_tokens": counters.prompt_tokens,
            "vllm:generation_tokens": counters.generated_tokens,
            "vllm:request_success": counters.finished,
        }
        found: list[Metric] = []
        for name, value in gauges.items():
            gauge = GaugeMetricFamily(name, name, labels=["model_name"])
            gauge.add_metric([self.model], value)
            found.append(gauge)
        for name, value in totals.items():
            counter = CounterMetricFamily(name, name, labels=["model_name"])
            counter.add_metric([self.model], value)
            found.append(counter)
        return found


def page(scheduler: Scheduler, model: str) -> str:
    registry = CollectorRegistry()
    registry.register(SchedulerCollector(scheduler, model))
    return generate_latest(registry).decode()
