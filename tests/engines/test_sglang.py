"""SGLang's launcher: only flags that its release knows; it needs a GPU, so a stand-in answers."""

from __future__ import annotations

from pathlib import Path

from launchers.engines.sglang import Sglang, SglangSettings
from launchers.interruption import Interruption
from tests.engines import standin_sglang
from tests.engines.support import chat, command, running
from tests.launchers.bench import Bench, read_json

LEAVERS = """
name = "sglang"
[workload]
cases = ["streams", "disconnect"]
ladder = [2]
repeats = 2
max_tokens = 32

[[arm]]
name = "batch"
engine = "sglang"
mode = "batch"
[arm.settings]
width = 8
"""


def settings(folder: Path, **changes: object) -> SglangSettings:
    python = command(folder / "python", Path(standin_sglang.__file__))
    return SglangSettings.model_validate({"checkpoint": folder, "python": python} | changes)


def test_every_flag_is_one_that_the_release_knows(tmp_path: Path) -> None:
    everything = settings(
        tmp_path,
        tp_size=4,
        mem_fraction_static=0.85,
        dtype="float16",
        load_format="dummy",
        trust_remote_code=True,
        devices="0,1,2,3",
    )
    spec = Sglang(everything).processes("batch", 8000, tmp_path)[0]
    asked = standin_sglang.parser().parse_args(spec.argv[3:])
    assert asked.max_running_requests == 8
    assert asked.chunked_prefill_size == 4096
    assert asked.context_length == 8192
    assert asked.mem_fraction_static == 0.85
    assert asked.tp_size == 4
    assert asked.disable_radix_cache
    assert asked.enable_metrics
    assert spec.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


def test_the_serial_control_runs_one_request_at_a_time(tmp_path: Path) -> None:
    spec = Sglang(settings(tmp_path)).processes("serial", 8000, tmp_path)[0]
    assert standin_sglang.parser().parse_args(spec.argv[3:]).max_running_requests == 1


def test_the_cache_is_on_only_when_asked_for(tmp_path: Path) -> None:
    spec = Sglang(settings(tmp_path, radix_cache=True)).processes("batch", 8000, tmp_path)[0]
    assert "--disable-radix-cache" not in spec.argv


def test_it_tells_the_width_that_its_memory_allows(tmp_path: Path) -> None:
    own = settings(tmp_path)
    assert Sglang.found(own).version == "0.5.23"
    with Interruption() as interruption, running(Sglang(own), tmp_path / "arm", interruption) as up:
        assert chat(up, ignore_eos=True)["usage"]["completion_tokens"] == 4
        assert up.effective["batch_width"] == 4
        assert up.effective["max_running_requests"] == 8
        assert up.effective["disable_radix_cache"] is True


def test_a_slot_is_seen_to_be_free_in_its_load_and_not_in_its_stale_metrics(
    bench: Bench, tmp_path: Path
) -> None:
    own = settings(tmp_path)
    plan = LEAVERS + f'checkpoint = "{own.checkpoint}"\npython = "{own.python}"\n'
    code, stdout, stderr = bench.run(plan)
    reclaims = read_json(bench.out / "batch" / "conduct.json")["reclaims"]

    assert code in (0, 1), stdout + stderr
    assert [found["how"] for found in reclaims] == ["loads"] * 2
    assert all(found["reclaim_s"] is not None for found in reclaims)
