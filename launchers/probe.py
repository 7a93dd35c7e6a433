"""What a server that somebody else started serves and accepts, found out with a few small requests."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from launchers.asking import API_KEY_VARIABLE, Trouble, ask
from launchers.display import Display
from launchers.errors import PlanError
from launchers.interruption import Interruption
from launchers.plan import Plan
from launchers.resolve import resolve

POLL_SECONDS = 0.2


@dataclass
class Dialect:
    """`notes` says in words what was left out of the requests, and why."""

    model: str
    payload: dict[str, Any] = field(default_factory=dict)
    stream_options: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def probed(plan: Plan, start_deadline: float, display: Display, interruption: Interruption) -> Plan:
    """The plan of one external arm, with requests in the dialect that its server was found to speak."""
    arm = resolve(plan, plan.name).arms[0]
    assert arm.engine.external_url
    model = arm.engine.settings.model
    dialect = probe(arm.engine.external_url, model, start_deadline, plan.workload.deadline_s, interruption)
    for note in dialect.notes:
        display.say(f"note: {note}")
    found = {"model": dialect.model, "payload": dialect.payload, "stream_options": dialect.stream_options}
    return plan.model_copy(update={"workload": plan.workload.model_copy(update=found)})


def probe(
    url: str, model: str | None, deadline_s: float, answer_s: float, interruption: Interruption
) -> Dialect:
    """Wait `deadline_s` for the server's first answer, then ask what it takes, `answer_s` for each answer.

    Raises PlanError when nobody answers, when a key is missing, or when the server lists no model.
    """
    listed = models(url, deadline_s, interruption)
    chosen = model or (listed[0] if listed else None)
    if chosen is None:
        raise PlanError(f"{url}/v1/models lists no model; name it with --model")
    found = Dialect(chosen)
    if accepts(url, found, {"ignore_eos": True}, answer_s):
        found.payload = {"ignore_eos": True}
    elif accepts(url, found, {}, answer_s):
        found.notes.append("ignore_eos is not sent, because the server rejects it")
    options = {"include_usage": True}
    if accepts(url, found, {"stream": True, "stream_options": options}, answer_s):
        found.stream_options = options
    elif accepts(url, found, {"stream": True}, answer_s):
        found.notes.append("stream_options is not sent, because the server rejects it; streams count events")
    return found


def models(url: str, deadline_s: float, interruption: Interruption) -> list[str]:
    end = time.monotonic() + deadline_s
    while True:
        try:
            status, body = ask(url, "/v1/models")
            said = f"HTTP {status}"
            if status in (401, 403):
                raise PlanError(f"{url} asks for a key ({said}); set {API_KEY_VARIABLE} in the environment")
            if status == 200:
                return [str(model["id"]) for model in json.loads(body)["data"]]
        except Trouble as error:
            said = str(error) or type(error).__name__
        except (ValueError, KeyError, TypeError):
            said = "no list of models"
        if time.monotonic() > end:
            raise PlanError(
                f"{url}/v1/models: no use after {deadline_s:g} s ({said}); start the server or mend the URL"
            )
        interruption.sleep(POLL_SECONDS)


def accepts(url: str, dialect: Dialect, fields: dict[str, Any], answer_s: float) -> bool:
    """Whether one token is answered with 200 when these fields are in the request."""
    body = {
        "model": dialect.model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1,
        "temperature": 0,
        "top_p": 1,
        **dialect.payload,
        **fields,
    }
    try:
        return ask(url, "/v1/chat/completions", body, timeout_s=answer_s)[0] == 200
    except Trouble:
        return False
