"""One payload for all arms: only fields that nobody rejects, and the record says which and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launchers import plan
from launchers.engines import ENGINES
from launchers.engines.base import Capabilities, Engine, EngineSettings, Found, ProcessSpec
from launchers.errors import PlanError
from launchers.resolve import Resolved, resolve


class Able(Engine):
    """Honours everything."""

    name = "able"
    answers: dict[str, Any] = dict.fromkeys(("ignore_eos", "stream_options", "continuous_usage_stats"), "yes")

    def capabilities(self) -> Capabilities:
        return Capabilities(honours=self.answers)

    @classmethod
    def found(cls, settings: EngineSettings | None = None) -> Found:
        return Found(True, "1.0")

    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        return []


class Strict(Able):
    """Rejects what it does not know, and ignores stream options."""

    name = "strict"
    answers = {"ignore_eos": "rejected", "stream_options": "ignored"}


class Deaf(Able):
    """Ignores `ignore_eos`, rejects stream options."""

    name = "deaf"
    answers = {"ignore_eos": "ignored", "stream_options": "rejected"}


@pytest.fixture(autouse=True)
def known_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in (Able, Strict, Deaf):
        monkeypatch.setitem(ENGINES, engine.name, engine)


def resolved(*engines: str, **workload: Any) -> Resolved:
    arms = [{"engine": engine, "mode": "batch"} for engine in engines]
    return resolve(plan.parse({"name": "p", "arm": arms, "workload": workload}, "p.toml"), "p.toml")


def test_what_every_arm_honours_is_sent() -> None:
    able = resolved("able")

    assert able.arms[0].workload.payload == {"ignore_eos": True}
    assert able.arms[0].workload.stream_options == {"include_usage": True, "continuous_usage_stats": True}
    assert able.notes == []


def test_what_one_arm_rejects_is_sent_to_none_and_the_record_says_why() -> None:
    both = resolved("able", "strict")

    assert [arm.workload.payload for arm in both.arms] == [{}, {}]
    assert [arm.workload.stream_options for arm in both.arms] == [{}, {}]
    assert both.notes == both.as_dict()["notes"] == [
        "ignore_eos is not sent, because strict-batch rejects it",
        "stream_options is not sent, because strict-batch ignores it",
    ]  # fmt: skip


def test_what_an_arm_ignores_does_no_harm() -> None:
    both = resolved("able", "deaf")

    assert both.arms[0].workload.payload == {"ignore_eos": True}
    assert both.arms[0].workload.stream_options == {}
    assert "ignore_eos is sent; deaf-batch ignores it" in both.notes


def test_the_plans_own_payload_is_taken_as_it_is() -> None:
    assert resolved("able", "strict", payload={"top_k": 20}).arms[1].workload.payload == {"top_k": 20}


def test_a_field_of_the_plan_that_an_arm_rejects_is_a_mistake() -> None:
    with pytest.raises(PlanError) as told:
        resolved("able", "strict", payload={"ignore_eos": True})

    assert str(told.value) == "p.toml: workload.payload.ignore_eos: strict-batch rejects it; leave it out"


def test_the_plans_model_name_goes_into_every_request() -> None:
    assert [arm.workload.model for arm in resolved("able", "deaf", model="mine").arms] == ["mine", "mine"]


def test_a_serial_arm_is_asked_for_a_width_of_one() -> None:
    arms = [{"engine": "able", "mode": mode, "settings": {"width": 4}} for mode in ("batch", "serial")]
    both = resolve(plan.parse({"name": "p", "arm": arms}, "p.toml"), "p.toml")

    assert [arm.width for arm in both.arms] == [4, 1]
