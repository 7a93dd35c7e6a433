"""The plots of a run as SVG, in the order in which the report shows them."""

from __future__ import annotations

from analysis.measured import Measured
from analysis.pictures import curves, overtime, timelines
from analysis.pictures.svg import Picture

__all__ = ["Picture", "draw"]


def draw(measured: Measured) -> list[Picture]:
    """Every plot that the run has data for."""
    drawn = [
        curves.wall(measured),
        curves.speedup(measured),
        curves.ratio(measured),
        curves.throughput(measured),
        curves.ecdf(measured),
        timelines.wave_timeline(measured, streamed=False),
        timelines.wave_timeline(measured, streamed=True),
        timelines.interleave_timeline(measured),
        overtime.over_time(measured),
    ]
    return [picture for picture in drawn if picture]
