"""Our tab on Locust's web page: live figures, verdicts, the arms so far, and the rows to download."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from flask import Blueprint, Response, jsonify, request, send_file
from locust.web import WebUI

from locustfiles.armcontrol import ArmControl
from locustfiles.live import FIGURES, Live

KEY = "headtohead"
PAGES = Path(__file__).parent / "web"
COLUMNS = {
    "arm": "Arm", "mode": "Mode", "case": "Case", "n": "Together", "waves": "Waves",
    "wall": "Median wall (s)", "speed": "Output tok/s",
}  # fmt: skip
FILES = ("requests.csv", "events.csv", "texts.jsonl", "conduct.json")


def add_tab(
    web_ui: WebUI,
    live: Live,
    running: Callable[[], int],
    folder: Callable[[], Path | None],
    control: ArmControl | None = None,
) -> None:
    """Extend the page. `folder` is where the rows of the latest run are; `control`: of a plan's engines."""
    assert web_ui.app is not None
    web_ui.template_args.update(
        {
            "extended_tabs": [{"title": "Head to head", "key": KEY}],
            "extended_tables": [
                {"key": KEY, "structure": [{"key": key, "title": title} for key, title in COLUMNS.items()]}
            ],
            "extended_csv_files": [
                {"href": f"./{KEY}/files/{name}", "title": f"Download the run's {name}"} for name in FILES
            ]
            + [{"href": f"./{KEY}/arms.csv", "title": "Download the arms so far as CSV"}],
        }
    )
    prefix = f"{_base_path(web_ui)}/{KEY}"
    web_ui.app.register_blueprint(_blueprint(web_ui, live, folder), url_prefix=prefix)
    if control is not None:
        web_ui.app.register_blueprint(_arms(web_ui, control), url_prefix=prefix)
    web_ui.app.after_request(lambda response: _extend(response, live))
    gevent.spawn(_sample, live, running)


def _blueprint(web_ui: WebUI, live: Live, folder: Callable[[], Path | None]) -> Blueprint:
    pages = Blueprint(KEY, __name__)

    def charts() -> Response:
        return send_file(PAGES / "charts.html")

    def script() -> Response:
        return send_file(PAGES / "tab.js")

    def figures() -> Response:
        since = request.args.get("since", 0.0, float)
        history = [sample for sample in live.history if (sample["at"] or 0) > since]
        return jsonify({"figures": FIGURES, "history": history, "verdicts": live.verdicts.most_common()})

    def file(name: str) -> Response:
        path = folder()
        if name not in FILES or path is None or not (path / name).exists():
            return Response("no such file: nothing has been run yet", 404)
        return send_file((path / name).resolve(), as_attachment=True, download_name=name)

    def arms() -> Response:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(live.table())
        named = {"content-disposition": "attachment; filename=arms.csv"}
        return Response(text.getvalue(), mimetype="text/csv", headers=named)

    routes: dict[str, Callable[..., Response]] = {
        "/charts": charts, "/tab.js": script, "/live": figures, "/files/<name>": file, "/arms.csv": arms,
    }  # fmt: skip
    for rule, view in routes.items():
        pages.add_url_rule(rule, view.__name__, _guarded(web_ui, view))
    return pages


def _arms(web_ui: WebUI, control: ArmControl) -> Blueprint:
    """Starting and stopping. Only JSON is taken, which no form of another site can send."""
    pages = Blueprint(f"{KEY}-arms", __name__)

    def bar() -> Response:
        return send_file(PAGES / "arms.html")

    def state() -> Response:
        return jsonify(control.shown())

    def start() -> Response:
        options = web_ui.environment.parsed_options
        folder = Path(options.out if options is not None else ".").parent / "engines"
        refusal = control.start(str(request.get_json().get("arm")), folder)
        return Response(refusal, 409) if refusal else jsonify(control.shown())

    def stop() -> Response:
        request.get_json()
        control.stop()
        return jsonify(control.shown())

    pages.add_url_rule("/bar", "bar", _guarded(web_ui, bar))
    pages.add_url_rule("/arms", "state", _guarded(web_ui, state))
    pages.add_url_rule("/arms/start", "start", _guarded(web_ui, start), methods=["POST"])
    pages.add_url_rule("/arms/stop", "stop", _guarded(web_ui, stop), methods=["POST"])
    return pages


def _guarded(web_ui: WebUI, view: Callable[..., Response]) -> Any:
    guard: Any = web_ui.auth_required_if_enabled
    return guard(view)


def _base_path(web_ui: WebUI) -> str:
    options = web_ui.environment.parsed_options
    return (options.web_base_path or "") if options is not None else ""


def _extend(response: Response, live: Live) -> Response:
    """Our table's rows go with Locust's own statistics, our script with its page."""
    if request.endpoint == "locust.request_stats" and response.is_json:
        stats = response.get_json()
        stats["extended_stats"] = [{"key": KEY, "data": live.table()}]
        response.set_data(jsonify(stats).get_data())
    elif request.endpoint == "locust.index" and response.mimetype == "text/html":
        page = response.get_data(as_text=True)
        response.set_data(page.replace("</body>", f'<script src="./{KEY}/tab.js"></script></body>'))
    return response


def _sample(live: Live, running: Callable[[], int]) -> None:
    while True:
        live.sample(running())
        gevent.sleep(1)
