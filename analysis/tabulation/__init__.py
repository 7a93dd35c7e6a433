"""Every table of a run, in the order in which the report shows them."""

from __future__ import annotations

from analysis.measured import Measured
from analysis.tabulation import context, interleave, seed, streaming, traffic, trust
from analysis.tabulation.table import Column, Table

__all__ = ["Column", "Table", "build"]


def build(measured: Measured) -> list[Table]:
    """The tables that the run has rows for."""
    modes = seed.parallel_modes(measured) or measured.run.modes
    tables = [seed.single(measured), seed.concurrent(measured)]
    tables += [seed.head_to_head(measured, mode) for mode in modes]
    tables += [seed.throughput(measured), interleave.interleave(measured), streaming.streaming(measured)]
    tables += [context.long_context(measured, mode) for mode in measured.run.modes]
    tables += [traffic.rates(measured), traffic.tokens(measured)]
    tables += [interleave.fairness(measured), streaming.stream_times(measured), streaming.reclaim(measured)]
    tables += [trust.batching(measured), trust.start_spread(measured), trust.memory(measured)]
    tables += [trust.measurement_error(measured), trust.counts(measured)]
    return [table for table in tables if table.rows]
