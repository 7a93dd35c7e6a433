"""Where a run meets Locust: its events and its messages, wired to a crew and a conductor.

The crew lives in every process that has users, the conductor in the only process or in the master.
"""

import csv
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gevent
from locust import events
from locust.env import Environment
from locust.rpc import Message
from locust.runners import MasterRunner, Runner, WorkerRunner
from locust.web import WebUI

from locustfiles import crew as messages
from locustfiles.arguments import add_arguments
from locustfiles.armcontrol import ArmControl
from locustfiles.conductor import Conductor
from locustfiles.crew import Crew
from locustfiles.live import Live
from locustfiles.plays import PLAYS, Play, Tick
from locustfiles.rows import ArmFiles
from locustfiles.selfwatch import SelfWatch
from locustfiles.settings import Settings, SettingsError
from locustfiles.webtab import add_tab

logger = logging.getLogger(__name__)

INTERRUPTED_EXIT_CODE = 130
PRIORITY = -10


class Stage:
    """One process's part in a run."""

    crew: Crew
    settings: Settings
    play: Play

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self.conductor: Conductor | None = None
        self._running = False
        self._failed = False
        self._environment = environment
        self._runner = runner
        self._files: ArmFiles | None = None
        self._watch: SelfWatch | None = None
        self._live: Live | None = None
        self._control: ArmControl | None = None
        self._register_messages()
        if isinstance(runner, WorkerRunner):
            # Fired in reverse order: before the worker tells the master that it quits.
            quitting: Any = environment.events.quitting
            quitting.add_listener(self._hand_over)

    def show_on(self, web_ui: WebUI) -> None:
        """Add our tab to the web page."""
        self._live = Live()
        options = self._environment.parsed_options
        if options is not None and options.plan:
            try:
                self._control = ArmControl(Path(options.plan))
            except ValueError as error:
                raise SettingsError(str(error)) from None
            quitting: Any = self._environment.events.quitting
            quitting.add_listener(self._control.close)
        add_tab(
            web_ui,
            self._live,
            running=lambda: self.conductor.running if self.conductor is not None else 0,
            folder=lambda: self._files.folder if self._files is not None else None,
            control=self._control,
        )

    def plan(self) -> None:
        """Read the arguments; SettingsError if they cannot be followed."""
        options = self._environment.parsed_options
        assert options is not None
        if self._conducts:  # a shape chosen on the web page is known to the master only: the options tell all
            shape = self._environment.shape_class
            options.headtohead_play = getattr(shape, "play", "traffic")
        if self._control is not None and self._control.options:  # the engine that was started on the page
            for name, value in self._control.options.items():
                setattr(options, name, value)
            self._environment.host = options.host
        self.settings = Settings.of(options, self._environment.host)
        self.play = PLAYS[options.headtohead_play](options, self.settings)
        try:
            self.settings.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"--out cannot be written: {error}") from None

    def users(self) -> Tick | None:
        """What a shape's tick gives: how many users there should be now; None when all is over."""
        if self._failed or (self._running and self.conductor is not None and self.conductor.over):
            return None
        if not self._running:
            try:
                self.plan()
            except SettingsError as error:
                logger.error("cannot start: %s", error)
                return None
            # A user that is stopped for a lower level may finish its request.
            self._environment.stop_timeout = self._environment.stop_timeout or self.settings.deadline_s
        conductor = self.conductor if self._running else None
        return self.play.users(conductor, self._environment.user_classes)

    def start(self) -> None:
        """The run begins: build this process's part of it."""
        self._running, self._failed = True, False
        try:
            self.plan()
            if self._conducts:
                self._files = ArmFiles(fresh_folder(self.settings, self.play.first_wave))
        except (SettingsError, OSError) as error:
            logger.error("cannot start: %s", error)
            self._failed = True
            self._environment.process_exit_code = 2
            return
        worker = f"w{self._runner.worker_index}" if isinstance(self._runner, WorkerRunner) else ""
        folder = self._files.folder if self._files is not None else self.settings.out
        self._watch = SelfWatch(folder / "client.csv", worker)
        self._watch.start()
        if self._files is not None:
            self.conductor = self.play.conductor(self._environment, self.settings, self._files)
            self.conductor.live = self._live
            if self._live is not None:
                self._live.begin()
        if self._has_users:
            self.crew = self.play.crew(self._runner, self.settings, worker, bool(worker))
        # Reading late is measuring late: where the system allows, go before the engine for the moments that
        # reading takes.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        # A full collection in the middle of a wave would be 25 ms of lateness.
        gc.collect()
        gc.freeze()
        if self.conductor is not None:
            self.conductor.start()

    def halt(self) -> None:
        """The run is about to stop, users still running."""
        if self.conductor is not None:
            self.conductor.halt()
        if self._has_users and hasattr(self, "crew"):
            self.crew.halt()

    def stop(self) -> None:
        """The users have stopped."""
        if self._has_users and hasattr(self, "crew"):
            self.crew.close()
        if self.conductor is not None:
            self.conductor.close()
        if self._watch is not None:
            self._watch.stop()
        self._running = self._failed = False

    @property
    def _conducts(self) -> bool:
        return not isinstance(self._runner, WorkerRunner)

    @property
    def _has_users(self) -> bool:
        return not isinstance(self._runner, MasterRunner)

    def _register_messages(self) -> None:
        if self._has_users:
            for order in messages.ORDERS:
                self._runner.register_message(order, self._on_order)
        if self._conducts:
            for news in messages.NEWS:
                self._runner.register_message(news, self._on_news)

    def _hand_over(self, **_: Any) -> None:
        if self._running:
            self.crew.halt()

    def _on_order(self, environment: Environment, msg: Message) -> None:
        self.crew.obey(msg.type, msg.data)

    def _on_news(self, environment: Environment, msg: Message) -> None:
        if self.conductor is not None:
            self.conductor.hear(msg.type, msg.node_id, msg.data)


def fresh_folder(settings: Settings, wave: str) -> Path:
    """--out, or a folder named after it: rows are added only to those of the same arm's earlier repeats."""
    folder = settings.out
    for number in range(1, 1000):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        rows = candidate / "requests.csv"
        if not rows.exists():
            return candidate
        with rows.open(newline="", encoding="utf-8") as file:
            known = {row.get("wave") for row in csv.DictReader(file)}
        if settings.first_repeat > 1 and wave not in known:
            return candidate
    raise OSError(f"{folder} and 999 folders named after it hold runs already: choose another --out")


_stage: Stage | None = None


def current() -> Stage:
    """This process's stage."""
    assert _stage is not None, "Locust has not fired its init event"
    return _stage


def _set_up(environment: Environment, runner: Runner, web_ui: WebUI | None, **_: Any) -> None:
    global _stage
    _stage = Stage(environment, runner)
    if isinstance(runner, MasterRunner) and environment.parsed_options is not None:
        # The users of a worker that died come back on those that live.
        environment.parsed_options.enable_rebalancing = True
    headless = environment.parsed_options is not None and environment.parsed_options.headless
    try:
        if web_ui is not None:
            _stage.show_on(web_ui)
        if headless and not isinstance(runner, WorkerRunner):
            _stage.plan()
            _stop_in_order(environment)
    except SettingsError as error:
        print(f"headtohead: {error}", file=sys.stderr)
        sys.exit(2)


def _stop_in_order(environment: Environment) -> None:
    """Let Ctrl-C and SIGTERM stop a headless run with all its rows.

    Without it SIGTERM kills at once while a shape runs (Locust sets it up only afterwards), and Ctrl-C
    strikes whichever greenlet happens to run.
    """
    hub = gevent.get_hub()

    def interrupt() -> None:
        environment.process_exit_code = INTERRUPTED_EXIT_CODE
        hub.loop.run_callback(hub.parent.throw, KeyboardInterrupt)

    gevent.signal_handler(signal.SIGINT, interrupt)
    gevent.signal_handler(signal.SIGTERM, interrupt)


def _start(**_: Any) -> None:
    current().start()


def _halt(**_: Any) -> None:
    current().halt()


def _stop(**_: Any) -> None:
    current().stop()


_LISTENERS: list[tuple[Any, Callable[..., None]]] = [
    (events.init_command_line_parser, add_arguments),
    (events.init, _set_up),
    (events.test_start, _start),
    (events.test_stopping, _halt),
    (events.test_stop, _stop),
]
for _event, _listener in _LISTENERS:
    _event.add_listener(_listener)
