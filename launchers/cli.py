"""The command line. Results go to stdout, progress and complaints to stderr.

Exit codes: 0 passed, 1 a verdict failed, 2 the request itself was wrong (one line says what and how to mend
it), 130 interrupted, with everything stopped and the rows kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import analysis
from launchers import capacity_command
from launchers import plan as plans
from launchers import serve as serving
from launchers.display import Display, complain, results_console
from launchers.errors import HeadToHeadError, PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.options import AsJson, Deadline, Force, Junit, Out, Quiet, Repeats, StartDeadline, Workers
from launchers.plan import Plan
from launchers.probe import probed
from launchers.resolve import resolve
from launchers.run import PlanRun, default_folder
from locustfiles.arguments import CASES

app = typer.Typer(
    help="Head-to-head load tests of OpenAI-compatible LLM servers: does it batch, does it stay correct, "
    "which is faster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    out: Out = None,
    repeats: Repeats = None,
    deadline: Deadline = None,
    workers: Workers = 1,
    junit: Junit = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run all arms of a plan, judge them, and print the tables."""
    chosen = adjusted(plans.read(plan), repeats, deadline)
    display = Display(quiet=quiet or as_json)
    folder, status = execute(chosen, out or default_folder(chosen.name), plan, workers, display)
    show([folder], force=force, junit=junit, as_json=as_json)
    raise typer.Exit(0 if status == "pass" else 1)


@app.command()
def demo(out: Out = None, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Two simulated engines and a real llama.cpp, each in batch and serial mode."""
    folder = out or default_folder("demo")
    display = Display(quiet=quiet or as_json)
    shipped = Path(__file__).parent.parent / "plans"
    passed = True
    for name in ("demo", "llamacpp-cpu"):
        path = shipped / f"{name}.toml"
        done, status = execute(plans.read(path), folder / name, path, 1, display)
        show([done], as_json=as_json)
        passed &= status == "pass"
    raise typer.Exit(0 if passed else 1)


@app.command()
def accept(
    url: Annotated[str, typer.Argument(help="Base URL of a running server, as http://127.0.0.1:8000")],
    out: Out = None,
    mode: Annotated[str, typer.Option(help="How the server was started: batch, serial or static.")] = "batch",
    width: Annotated[int, typer.Option(min=1, help="Requests that the server takes at once.")] = 8,
    model: Annotated[
        str | None, typer.Option(help="Model name for the requests; default: the served one.")
    ] = None,
    cases: Annotated[
        str | None, typer.Option(metavar="NAMES", help=f"What to try, out of: {' '.join(CASES)}.")
    ] = None,
    repeats: Repeats = None,
    deadline: Deadline = None,
    start_deadline: StartDeadline = 10.0,
    workers: Workers = 1,
    junit: Junit = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the acceptance against a server that is already up. A key comes from HEADTOHEAD_API_KEY."""
    display = Display(quiet=quiet or as_json)
    settings = {"url": url, "width": width, **({"model": model} if model else {})}
    arm = {"name": "accept", "engine": "external", "mode": mode, "settings": settings}
    workload = {"cases": cases.split()} if cases is not None else {}
    plan = plans.parse({"name": "accept", "workload": workload, "arm": [arm]}, "accept")
    asked = adjusted(plan, repeats, deadline)
    with Interruption() as interruption:
        try:
            chosen = probed(asked, start_deadline, display, interruption)
        except Interrupted as error:
            complain(str(error))
            raise typer.Exit(error.exit_code) from error
    folder, status = execute(chosen, out or default_folder("accept"), None, workers, display)
    show([folder], junit=junit, as_json=as_json)
    raise typer.Exit(0 if status == "pass" else 1)


app.command()(capacity_command.capacity)


@app.command()
def serve(
    engine: Annotated[
        str, typer.Argument(help="An engine's name (`headtohead engines` lists them), or a plan, PLAN.toml.")
    ],
    arm: Annotated[str | None, typer.Option(help="Which arm of the plan.")] = None,
    mode: Annotated[
        str | None, typer.Option(help="batch, serial or static; batch if not said.", show_default=False)
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="By default a free one.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An engine setting, as in a plan.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the logs.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Once it is ready, a line of JSON: what Locust has to be told.")
    ] = False,
) -> None:
    """Run one engine, or one arm of a plan, in the foreground, supervised, until Ctrl-C."""
    folder = out or default_folder(f"serve-{Path(engine).stem}")
    if engine.endswith(".toml"):
        if mode or port or settings:
            raise PlanError(
                f"{engine} says the mode, port and settings of its arms; leave out --mode, --port, --set"
            )
        serving.serve_arm(Path(engine), arm, folder, as_json)
    else:
        if arm:
            raise PlanError(
                f"--arm {arm}: {engine} is an engine; give a plan (PLAN.toml), or leave out --arm"
            )
        serving.serve(engine, mode or "batch", port, settings or [], folder, as_json)


@app.command()
def engines(as_json: AsJson = False) -> None:
    """List the engines: found or not, version, what to install."""
    rows = serving.inventory()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("engine", "modes", "found", "version", "where, or what to install")
    for row in rows:
        found = "[green]yes[/]" if row["found"] else "no"
        table.add_row(row["engine"], " ".join(row["modes"]), found, row["version"] or "", row["note"])
    results_console().print(table)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; by default that of the first run.")
    ] = None,
    junit: Junit = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tables, Markdown and HTML from runs on disk."""
    for folder in runs:
        require_run(folder)
    show(runs, force=force, junit=junit, as_json=as_json, out=out)


@app.command()
def gate(
    run: Annotated[Path, typer.Argument(help="Folder of the run to judge.")],
    baseline: Annotated[Path, typer.Option(help="Folder of the run to hold it against.")],
    max_regression: Annotated[str, typer.Option(help="How much longer a wall may take.")] = "5%",
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Fail when a run is slower than a baseline, beyond doubt."""
    outcome = analysis.gate(
        analysis.load(require_run(run)), analysis.load(require_run(baseline)), max_regression, junit=junit
    )
    (run / "gate.md").write_text(outcome.comment, encoding="utf-8")
    print(
        json.dumps({"passed": outcome.passed, "verdicts": outcome.verdicts}) if as_json else outcome.comment
    )
    raise typer.Exit(0 if outcome.passed else 1)


def execute(
    plan: Plan, folder: Path, plan_path: Path | None, workers: int, display: Display
) -> tuple[Path, str]:
    resolved = resolve(plan, str(plan_path or plan.name))
    for note in resolved.notes:
        display.say(f"note: {note}")
    with Interruption() as interruption:
        try:
            status = PlanRun(
                resolved,
                folder,
                plan_path=plan_path,
                workers=workers,
                display=display,
                interruption=interruption,
            ).execute()
        except Interrupted as error:
            complain(f"{error}: everything is stopped; the rows are kept in {folder}")
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            complain(
                f"{folder}: {error.strerror or error}; everything is stopped; mend it or give another --out"
            )
            raise typer.Exit(1) from error
    return folder, status


def adjusted(plan: Plan, repeats: int | None, deadline: float | None) -> Plan:
    """The plan with what the command line overrides."""
    workload = plan.workload.model_dump()
    workload |= {"repeats": repeats} if repeats else {}
    workload |= {"deadline_s": deadline} if deadline else {}
    return plans.parse({**plan.model_dump(by_alias=True), "workload": workload}, plan.name)


def show(
    folders: list[Path],
    *,
    force: bool = False,
    junit: Path | None = None,
    as_json: bool = False,
    out: Path | None = None,
) -> None:
    """Write the report of one run, or of several side by side, and print it."""
    written = analysis.report(folders, out=out, force=force)
    loaded = analysis.load_many(folders)
    if junit:
        analysis.junit(loaded, junit)
    if as_json:
        print(json.dumps(analysis.summary(loaded, force=force), indent=2, default=str))
        return
    console = results_console()
    analysis.print_report(loaded, console, force=force)
    for path in written:
        if path.suffix in (".md", ".html"):
            console.print(f"{path}", markup=False, highlight=False, soft_wrap=True)


def require_run(folder: Path) -> Path:
    if (folder / "capacity.json").is_file():
        raise PlanError(f"{folder} is a search for capacity, not a run; its rates are in capacity.json")
    if not (folder / "run.json").is_file():
        raise PlanError(f"{folder} is not the folder of a run: it has no run.json")
    return folder


def main() -> None:
    try:
        app()
    except (HeadToHeadError, analysis.RunError) as error:
        for line in str(error).splitlines():
            complain(line)
        sys.exit(2)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        complain(
            f"{error.filename or 'a file'}: {error.strerror}; free space or give another folder with --out"
        )
        sys.exit(1)
