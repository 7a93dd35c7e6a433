"""Files of a run in; verdicts, tables, plots and reports out.

from analysis import load, tables
tables(load("results/demo"))["concurrent"]
"""

from analysis.comparability import compare
from analysis.figures import results
from analysis.gating import Gate, gate
from analysis.judging import judge, judge_run
from analysis.junitxml import junit
from analysis.reading import RunError
from analysis.reporting import print_report, report, summary, tables
from analysis.rundata import Arm, Run, load, load_many
from analysis.wavemetrics import waves

__all__ = [
    "Arm",
    "Gate",
    "Run",
    "RunError",
    "compare",
    "gate",
    "judge",
    "judge_run",
    "junit",
    "load",
    "load_many",
    "print_report",
    "report",
    "results",
    "summary",
    "tables",
    "waves",
]
