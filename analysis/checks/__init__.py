"""The checks of one arm, by what they look at; each returns verdicts, the passed ones too."""

from __future__ import annotations

from analysis.checks import client, disconnect, engine, isolation, responses, scheduling
from analysis.rundata import Arm
from analysis.schema import Verdict


def arm_verdicts(arm: Arm) -> list[Verdict]:
    """Every check of one arm."""
    return [
        *responses.verdicts(arm),
        *engine.verdicts(arm),
        *scheduling.verdicts(arm),
        *disconnect.verdicts(arm),
        *isolation.verdicts(arm),
        *client.verdicts(arm),
    ]
