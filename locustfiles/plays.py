"""The two things that a run can be, the acceptance's waves or traffic, with the users and staff of each."""

import argparse
from collections import Counter
from typing import Protocol

from locust import User
from locust.env import Environment

from locustfiles.conductor import Conductor
from locustfiles.crew import Crew, Sender
from locustfiles.demand import Demand
from locustfiles.rows import ArmFiles
from locustfiles.settings import Settings
from locustfiles.trafficconductor import TrafficConductor
from locustfiles.trafficcrew import TrafficCrew
from locustfiles.waveconductor import WaveConductor
from locustfiles.wavecrew import WaveCrew
from locustfiles.waves import acceptance, users_needed

SPAWN_RATE = 100.0
# Idle users of an open loop cost next to nothing to start.
STOCK_WITHIN_S = 2.0

Tick = tuple[int, float, list[type[User]] | None]


class Play(Protocol):
    """What is played, the same in every process."""

    @property
    def first_wave(self) -> str:
        """The name of the first wave, by which a folder shows whether it holds this run already."""

    def users(self, conductor: Conductor | None, classes: list[type[User]]) -> Tick:
        """How many users there should be now, how many a second to start, of which classes (None: all)."""

    def crew(self, sender: Sender, settings: Settings, worker: str, batches: bool) -> Crew:
        """Those who send, in a process with users."""

    def conductor(self, environment: Environment, settings: Settings, files: ArmFiles) -> Conductor:
        """Who leads, in the only process or in the master."""


class Acceptance:
    """Waves, one after the other."""

    def __init__(self, options: argparse.Namespace, settings: Settings) -> None:
        self._waves = acceptance(settings)

    @property
    def first_wave(self) -> str:
        return self._waves[0].name

    def users(self, conductor: Conductor | None, classes: list[type[User]]) -> Tick:
        return _fix_counts(users_needed(self._waves), classes)

    def crew(self, sender: Sender, settings: Settings, worker: str, batches: bool) -> Crew:
        return WaveCrew(sender, settings, worker, batches, self._waves)

    def conductor(self, environment: Environment, settings: Settings, files: ArmFiles) -> Conductor:
        return WaveConductor(environment, settings, files, self._waves)


class Traffic:
    """Sustained load, in a closed or an open loop."""

    def __init__(self, options: argparse.Namespace, settings: Settings) -> None:
        self._demand = Demand.of(options, settings)

    @property
    def first_wave(self) -> str:
        return self._demand.levels[0].name

    def users(self, conductor: Conductor | None, classes: list[type[User]]) -> Tick:
        if self._demand.open_loop:
            stock, _, _ = _fix_counts(self._demand.users, classes)
            return stock, max(SPAWN_RATE, stock / STOCK_WITHIN_S), None
        weights = dict(self._demand.mix)
        wanted = [user_class for user_class in classes if user_class.__name__ in weights]
        for user_class in wanted:
            user_class.fixed_count = 0
            user_class.weight = weights[user_class.__name__]
        elapsed_s = conductor.elapsed_s if isinstance(conductor, TrafficConductor) else 0.0
        return self._demand.users_at(elapsed_s), SPAWN_RATE, wanted

    def crew(self, sender: Sender, settings: Settings, worker: str, batches: bool) -> Crew:
        return TrafficCrew(sender, settings, worker, batches, self._demand)

    def conductor(self, environment: Environment, settings: Settings, files: ArmFiles) -> Conductor:
        return TrafficConductor(environment, settings, files, self._demand)


PLAYS: dict[str, type[Acceptance] | type[Traffic]] = {"acceptance": Acceptance, "traffic": Traffic}


def _fix_counts(needed: Counter[str], classes: list[type[User]]) -> Tick:
    for user_class in classes:
        user_class.fixed_count = needed[user_class.__name__]
    return needed.total(), SPAWN_RATE, None
