"""Files of a run in; verdicts, tables, plots and reports out.

from analysis import load, tables
tables(load("results/demo"))["concurrent"]
"""

from analysis.comparability import compare
from analysis.figures import results
from analysis.gating import Gate, gate
from analysis.judging import judge, judge_run
from analysis.junitxml import junit
from analysis.locust_files import LocustFiles, read_locust
from analysis.reading import RunError
from analysis.reporting import plots, print_report, report, summary, tables
from analysis.rundata import Arm, Run, load, load_many
from analysis.wavemetrics import waves

__all__ = [
    "Arm",
    "Gate",
    "LocustFiles",
    "Run",
    "RunError",
    "compare",
    "gate",
    "judge",
    "judge_run",
    "junit",
    "load",
    "load_many",
    "plots",
    "print_report",
    "read_locust",
    "report",
    "results",
    "summary",
    "tables",
    "waves",
]
