"""`headtohead capacity`: what was asked for, and the answer as a table and a sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from launchers import plan as plans
from launchers.capacity import ArmCapacity, Asked, CapacityRun, Probe
from launchers.display import Display, complain, results_console
from launchers.errors import PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.options import AsJson, Deadline, Out, Quiet, StartDeadline, Workers
from launchers.plan import Plan
from launchers.probe import probed
from launchers.resolve import resolve
from launchers.run import default_folder

HOLDS = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]not valid[/]"}


def capacity(
    target: Annotated[
        str,
        typer.Argument(help="A plan, whose arms are started in turn, or the base URL of a running server."),
    ],
    out: Out = None,
    ttft_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Limit of the time to first token.")
    ] = None,
    tpot_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Limit of the time per later token.")
    ] = None,
    latency_ms: Annotated[float | None, typer.Option(min=0.001, help="Limit of the whole latency.")] = None,
    share: Annotated[str, typer.Option(help="Requests that have to keep to the limits.")] = "95%",
    within: Annotated[str, typer.Option(help="How close the answer has to be.")] = "5%",
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="First rate tried; by default the plan's first, or 1.")
    ] = None,
    probes: Annotated[int, typer.Option(min=1, help="Rates tried at most.")] = 12,
    hold: Annotated[float | None, typer.Option(min=0.001, help="Seconds of arrivals of each probe.")] = None,
    settle: Annotated[
        float | None, typer.Option(min=0, help="Seconds of these that are not recorded.")
    ] = None,
    mix: Annotated[str | None, typer.Option(help="Kinds of users, as 'stream=3 chat=1'.")] = None,
    prompt_words: Annotated[str | None, typer.Option(help="128, 64-512 or lognormal:200:0.6.")] = None,
    output_tokens: Annotated[str | None, typer.Option(help="Token budgets, written likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name for the requests; default: the served one.")
    ] = None,
    deadline: Deadline = None,
    start_deadline: StartDeadline = 10.0,
    workers: Workers = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the highest rate of arrivals (Poisson, open loop) whose answers keep to limits, by trying rates.

    Limits are milliseconds from when a request was due. They, and the requests, come from the plan's
    [workload.slo] and [workload.traffic]; options override them.
    """
    display = Display(quiet=quiet or as_json)
    plan = base_plan(target, model)
    given: dict[str, Any] = {"hold_s": hold, "settle_s": settle, "mix": mix and weights(mix)}
    given |= {"prompt_words": prompt_words, "output_tokens": output_tokens}
    limits = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "latency_ms": latency_ms}
    chosen = asked_plan(plan, target, known(given), known(limits), rate, deadline)
    assert chosen.workload.traffic is not None
    asked = Asked(
        percentage("--share", share),
        chosen.workload.traffic.levels[0],
        percentage("--within", within),
        probes,
    )
    folder = out or default_folder(f"capacity-{plan.name}")
    with Interruption() as interruption:
        run: CapacityRun | None = None
        try:
            if is_url(target):
                chosen = probed(chosen, start_deadline, display, interruption)
            resolved = resolve(chosen, target)
            for note in [*resolved.notes, *resolution(chosen, asked)]:
                display.say(f"note: {note}")
            run = CapacityRun(
                resolved, asked, folder, workers=workers, display=display, interruption=interruption
            )
            status = run.execute()
        except Interrupted as error:
            if run is not None and not as_json:
                show(run)
            complain(f"{error}: everything is stopped; the rows are kept in {folder}" if run else str(error))
            raise typer.Exit(error.exit_code) from error
    if as_json:
        print(json.dumps(run.as_dict(), indent=2, default=str))
    else:
        show(run)
    raise typer.Exit(0 if status == "pass" else 1)


def is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def base_plan(target: str, model: str | None) -> Plan:
    """The plan at a path, or one of an arm at a URL."""
    if not is_url(target):
        plan = plans.read(Path(target))
        if model:
            plan = plan.model_copy(update={"workload": plan.workload.model_copy(update={"model": model})})
        return plan
    settings = {"url": target, **({"model": model} if model else {})}
    arm = {"name": "server", "engine": "external", "mode": "batch", "settings": settings}
    return plans.parse({"name": "server", "arm": [arm]}, target)


def asked_plan(
    plan: Plan,
    where: str,
    given: dict[str, Any],
    limits: dict[str, Any],
    rate: float | None,
    deadline: float | None,
) -> Plan:
    """The plan with Poisson traffic at the first rate, and with what the options override."""
    workload = plan.workload.model_dump()
    before = workload["traffic"] or {}
    if before.get("load") == "trace":
        raise PlanError(f"{where}: workload.traffic: a trace has its own arrivals; give it load = 'poisson'")
    first = before["levels"][0] if before and before["load"] != "closed" else 1.0
    workload["traffic"] = {**before, "load": "poisson", "levels": [rate or first], **given}
    workload["slo"] = {**known(workload["slo"] or {}), **limits}
    workload |= {"cases": [], "repeats": 1} | ({"deadline_s": deadline} if deadline else {})
    if not workload["slo"]:
        raise PlanError(
            f"{where}: no limit to hold; give --ttft-ms or --latency-ms, or [workload.slo] in a plan"
        )
    chosen = plans.parse({**plan.model_dump(by_alias=True), "workload": workload, "blocks": 1}, where)
    slo, traffic = chosen.workload.slo, chosen.workload.traffic
    assert slo is not None
    assert traffic is not None
    if slo.ttft_ms is None and slo.latency_ms is None:
        raise PlanError(f"{where}: TPOT holds however long requests queue; add --ttft-ms or --latency-ms")
    if not traffic.mix.get("stream") and not traffic.mix.get("chat"):
        raise PlanError(f"{where}: users who leave are not waited for; add stream=1 or chat=1 to --mix")
    if slo.latency_ms is None and not traffic.mix.get("stream"):
        raise PlanError(f"{where}: only streams show a first token; add stream=1 to --mix, or --latency-ms")
    return chosen


def resolution(plan: Plan, asked: Asked) -> list[str]:
    """What probes of this length cannot tell: a queue that grows slowly needs time to reach the limit."""
    slo, traffic = plan.workload.slo, plan.workload.traffic
    assert slo is not None
    assert traffic is not None
    slack_s = min(limit for limit in (slo.ttft_ms, slo.latency_ms) if limit is not None) / 1000
    if slack_s / traffic.hold_s <= asked.within:
        return []
    return [
        f"probes of {traffic.hold_s:g} s may let pass {slack_s / traffic.hold_s:.0%} more than the server "
        f"can keep up with: its queue takes time to reach a limit of {slack_s:g} s; "
        f"--hold {slack_s / asked.within:g} would tell"
    ]


def known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def weights(text: str) -> dict[str, float]:
    try:
        return {kind: float(weight) for kind, _, weight in (part.partition("=") for part in text.split())}
    except ValueError:
        raise PlanError(f"--mix {text}: must look like 'stream=3 chat=1'") from None


def percentage(option: str, text: str) -> float:
    """ "95%" or "0.95" as a share above 0 and below 1."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise PlanError(f"{option} {text}: must be a share, such as 95% or 0.95")
    return share


def show(run: CapacityRun) -> None:
    """The probes of each arm, then what they say."""
    console = results_console()
    limits = str(run.slo)
    for found, arm in zip(run.arms, run.resolved.arms, strict=True):
        if found.probes:
            console.print(probe_table(found, limits, arm.time_scale))
            console.print()
    for found in run.arms:
        console.print(escape(sentence(found, run.asked.share, limits)), highlight=False, soft_wrap=True)
        if doubt := chance(found, run.asked.share, run.resolved.plan.workload.traffic):
            console.print(escape(doubt), highlight=False, soft_wrap=True)
    console.print(f"{run.folder / 'capacity.json'}", markup=False, highlight=False, soft_wrap=True)


def probe_table(found: ArmCapacity, limits: str, time_scale: float) -> Table:
    simulated = f" That clock ran {time_scale:g} times faster than ours." if time_scale != 1 else ""
    table = Table(
        title=f"[bold]{escape(found.arm)}: rates tried[/bold]",
        caption=escape(
            f"In time: {limits}. TTFT and latency count from when a request was due, in milliseconds of the "
            f"engine's clock, rates by its seconds; p95 of answered requests.{simulated}"
        ),
        title_justify="left",
        caption_justify="left",
        title_style="",
        caption_style="dim",
    )
    for title in ("Rate (1/s)", "Requests", "Answered (1/s)", "In time", "Goodput (1/s)",
                  "TTFT p95", "TPOT p95", "Latency p95"):  # fmt: skip
        table.add_column(title, justify="right")
    table.add_column("Holds")
    table.add_column("Because")
    for probe in found.probes:
        table.add_row(f"{probe.rate:.4g}", *figures(probe), HOLDS[probe.holds], escape(probe.why))
    return table


def figures(probe: Probe) -> list[str]:
    found = probe.found
    if found is None:
        return ["–"] * 7
    shown = [f"{found.due:,}", digits(found.completed_s, 2)]
    shown += ["–" if found.share is None else f"{found.share:.1%}", digits(found.good_s, 2)]
    return shown + [
        digits(value, 1) for value in (found.ttft_p95_ms, found.tpot_p95_ms, found.latency_p95_ms)
    ]


def digits(value: float | None, after: int) -> str:
    return "–" if value is None else f"{value:,.{after}f}"


def sentence(found: ArmCapacity, share: float, limits: str) -> str:
    kept = f"{100 * share:g} % in time ({limits})"
    if found.holds is None:
        tried = f"; {found.fails:.4g} requests/s is too many" if found.fails is not None else ""
        return f"{found.arm}: no rate found with {kept}{tried}: {found.ended}"
    above = f", not {found.fails:.4g}" if found.fails is not None else ", or more"
    return f"{found.arm}: {found.holds:.4g} requests/s with {kept}{above}: {found.ended}"


def chance(found: ArmCapacity, share: float, traffic: plans.Traffic | None) -> str:
    """What few requests leave open: "" if the share is known to within half of what may miss (95 %)."""
    due = min((probe.found.due for probe in found.probes if decides(found, probe) and probe.found), default=0)
    if not due or traffic is None or share == 1:
        return ""
    enough = (2 * 1.96) ** 2 * share / (1 - share)
    if due >= enough:
        return ""
    moved = 100 * 1.96 * math.sqrt(share * (1 - share) / due)
    hold_s = traffic.settle_s + (traffic.hold_s - traffic.settle_s) * enough / due
    return (
        f"  With {due} requests a probe, chance moves a share of {100 * share:g} % by {moved:.1f} points "
        f"either way, and bursts by more: --hold {math.ceil(hold_s):g} makes it surer"
    )


def decides(found: ArmCapacity, probe: Probe) -> bool:
    return probe.rate in (found.holds, found.fails) and probe.holds is not None
