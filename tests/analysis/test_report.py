"""The HTML report and the plots: one file that needs nothing else, pictures that show what they should."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

import analysis
from tests.analysis.made_run import Asked, Engine, MadeArm, make_run


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engines = {"alpha": Engine(), "beta": Engine(speed=1.2)}
    return make_run(tmp_path_factory.mktemp("run"), engines, repeats=2, time_scale=10.0)


@pytest.fixture(scope="module")
def page(run_dir: Path) -> str:
    paths = analysis.report(run_dir)
    assert paths[-1].name == "report.html"
    return paths[-1].read_text()


class Outline(HTMLParser):
    """The headings of a page in their order, and every address that it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "h2"
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.headings.append(data)
            self._inside = False


def test_verdicts_come_first_then_tables_then_plots(page: str) -> None:
    assert Outline(page).headings == ["Verdicts", "Tables", "Plots", "Every check", "Settings"]


def test_the_page_needs_no_network(page: str) -> None:
    outline = Outline(page)
    assert all(address.startswith("#") for address in outline.addresses)
    assert "@import" not in page
    assert "url(" not in page
    assert "<script" not in page


def test_the_page_has_a_dark_and_a_printed_form(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_what_stands_in_a_file_cannot_become_markup(tmp_path: Path) -> None:
    arm = MadeArm("mine", "external", "batch", Engine())
    arm.acceptance(repeats=1)
    arm.rows[-1] |= {"outcome": "failed", "failure": "http.body", "detail": "<script>alert(1)</script>"}
    arm.write(tmp_path)
    text = analysis.report(tmp_path)[-1].read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_every_plot_is_sound_svg_with_its_title(run_dir: Path) -> None:
    drawn = analysis.plots(analysis.load(run_dir))
    assert list(drawn) == ["wall", "speedup", "ratio", "throughput", "ecdf", "wave_requests", "wave_streams",
                           "interleave", "over_time"]  # fmt: skip
    for picture in drawn.values():
        root = ET.fromstring(picture.svg)
        assert root.tag.endswith("svg")
        assert root[0].text
        assert not re.search(r'="(nan|inf|-inf)"|nan,|,nan', picture.svg)


def test_plots_of_a_run_with_one_arm_or_one_level_still_draw(tmp_path: Path) -> None:
    arm = MadeArm("mine", "external", "batch", Engine())
    arm.wave("single-r1", "single", 1, 1, [Asked()])
    arm.write(tmp_path)
    drawn = analysis.plots(analysis.load(tmp_path))
    assert "speedup" not in drawn
    assert "ratio" not in drawn
    for picture in drawn.values():
        ET.fromstring(picture.svg)


def test_the_first_thing_said_is_what_the_run_shows(page: str) -> None:
    said = re.findall(r"<li>(.*?)</li>", page.split('<ul class="statements">')[1].split("</ul>")[0])
    assert said[0].startswith("alpha serves 8 requests 3.")
    assert "like a server that is batching" in said[0]
    assert said[2].startswith("alpha against beta (batch mode, wall time): ")
    assert "faster than beta: 0.8" in said[2]


def test_a_serial_wave_is_a_staircase_and_a_batching_one_is_not(run_dir: Path) -> None:
    """Grey is waiting: in the serial panels it grows lane by lane, in the batching ones there is none."""
    root = ET.fromstring(analysis.plots(analysis.load(run_dir))["wave_requests"].svg)
    grey = [float(r.get("width", 0)) for r in root if r.tag.endswith("rect") and "wait" in r.get("fill", "")]
    batch, serial = grey[:8], grey[8:16]
    assert max(batch) < 5
    assert serial == sorted(serial)
    assert serial[-1] > 300


def test_an_arm_without_rows_is_shown_as_what_it_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"alpha": Engine()}, repeats=1)
    for path in (folder / "alpha-serial").glob("*.csv"):
        path.unlink()
    record = folder / "alpha-serial" / "record.json"
    record.write_text('{"engine": "alpha", "mode": "serial", "status": "error", "failure": "engine.start"}')
    text = analysis.report(folder)[-1].read_text()
    assert "no requests were recorded (engine.start)" in text
    assert analysis.summary(analysis.load(folder))["status"] == "fail"
