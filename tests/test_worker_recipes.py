"""Recipes for load from several machines: one is run, with a local shell for ssh, the other validated."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import kubernetes_validate
import yaml

from launchers.ports import free_port
from tests.locustfiles.support import scripted_server

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "docs" / "workers"
KUBERNETES = "1.33"


def test_workers_started_by_ssh_share_a_wave_and_the_master_keeps_the_rows(tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$1"\n')
    shell.chmod(0o755)
    env = {**os.environ, "REMOTE_SHELL": str(shell), "FOLDER": str(ROOT), "PORT": str(free_port())}
    with scripted_server() as server:
        quick = ["--warmups", "0", "--cases", "ladder", "--ladder", "8"]
        words = ["127.0.0.1", server, str(tmp_path / "run"), "one", "two", "--", *quick]
        done = subprocess.run(
            ["bash", str(RECIPES / "ssh.sh"), *words], cwd=ROOT, env=env, capture_output=True, text=True
        )

    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "run" / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows] == ["ok"] * 8
    assert len({row["worker"] for row in rows}) == 2
    assert json.loads((tmp_path / "run" / "conduct.json").read_text())["lost"] == 0


def test_the_kubernetes_manifests_are_valid_and_belong_together() -> None:
    objects = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))

    for one in objects:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
    by_name = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in objects}
    workers = by_name["Job", "headtohead-worker"]
    master = by_name["Job", "headtohead-master"]["template"]["spec"]["containers"][0]
    assert f"--expect-workers={workers['parallelism']}" in master["args"]
    assert by_name["Service", "headtohead-master"]["ports"][0]["port"] == master["ports"][0]["containerPort"]
