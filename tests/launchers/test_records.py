"""What is written down: whole files, digests that do not depend on order, no secrets."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from launchers import records
from launchers.redaction import without_secrets


def write_rows(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    lines = ["request,repeat,payload_sha256", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_same_bodies_give_the_same_digest_in_whatever_order_they_ended(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "one.csv", [("a", "1", "aa"), ("b", "1", "bb"), ("w", "0", "warm")])
    two = write_rows(tmp_path / "two.csv", [("w", "0", "other"), ("b", "1", "bb"), ("a", "1", "aa")])
    other = write_rows(tmp_path / "other.csv", [("a", "1", "aa"), ("b", "1", "b2")])

    assert records.payload_digest(one) == records.payload_digest(two) is not None
    assert records.payload_digest(one) != records.payload_digest(other)


def test_there_is_no_digest_without_recorded_rows(tmp_path: Path) -> None:
    assert records.payload_digest(tmp_path / "none.csv") is None
    assert records.payload_digest(write_rows(tmp_path / "warm.csv", [("w", "0", "warm")])) is None


def test_a_record_is_never_half_written(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    records.write_json(path, {"status": "running"})
    os.symlink("/dev/full", tmp_path / "record.tmp")

    with pytest.raises(OSError, match="No space left on device"):
        records.write_json(path, {"status": "pass"})

    assert json.loads(path.read_text()) == {"status": "running"}


def test_compressing_keeps_the_content_and_is_content_without_a_file(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("request,event\n")

    records.compress(events)
    records.compress(tmp_path / "none.csv")

    assert not events.exists()
    assert gzip.decompress((tmp_path / "events.csv.gz").read_bytes()) == b"request,event\n"


def test_secrets_stay_out_of_records() -> None:
    shown = without_secrets(
        {
            "argv": ["serve", "--api-key", "sk-1", "--hf-token=hf-2", "--max-tokens", "32"],
            "extra_env": {"HF_TOKEN": "hf-3", "OMP_NUM_THREADS": "1"},
        }
    )

    assert shown == {
        "argv": ["serve", "--api-key", "***", "--hf-token=***", "--max-tokens", "32"],
        "extra_env": {"HF_TOKEN": "***", "OMP_NUM_THREADS": "1"},
    }
