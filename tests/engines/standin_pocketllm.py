"""A stand-in for PocketLLM's native server: its command line, ranks and traps; the simulator answers.

What it enforces is taken from release 0.1.1: flags and their values, the messages and exit codes of a wrong
start, the NCCL id file and the command channel between ranks, the lines on stderr, SO_REUSEPORT, "listening"
before the bind, and exit code 0 after a bind that failed. The build is chosen through the environment:
STANDIN_BUILD=old has none of the scheduler's flags, STANDIN_MAX_SLOTS=N clamps the width.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

SCHEDULER = {"--max-batch-size": "8", "--prefill-token-budget": "4096", "--request-timeout-seconds": "900"}
VALUES = {
    "--ckpt": "",
    "--model": "",
    "--host": "0.0.0.0",
    "--port": "8000",
    "--max-context": "8192",
    "--prefill-chunk-tokens": "8192",
    "--smoke-layers": "",
    "--kv-block-size": "16",
    "--prefix-cache-bytes": "0",
    "--python": "python",
    "--sidecar": "src/server/cpp_sidecar.py",
    "--tp-world": "1",
    "--tp-rank": "0",
    "--device": "-1",
    "--nccl-id-path": "",
    "--temperature": "0",
    "--top-p": "1",
    "--top-k": "20",
    "--seed": "0",
}
SWITCHES = ("--serve", "--kv-paged", "--no-kv-paged")
GPUS = 8  # of the machine that it believes to be on
CHANNEL_SECONDS, ID_SECONDS = 10.0, 30.0


def fail(line: str) -> NoReturn:
    print(f"error: {line}", file=sys.stderr, flush=True)
    sys.exit(1)


def parse(words: list[str]) -> tuple[dict[str, str], set[str]]:
    values = VALUES | ({} if os.environ.get("STANDIN_BUILD") == "old" else SCHEDULER)
    switches: set[str] = set()
    rest = iter(words)
    for word in rest:
        if word in SWITCHES:
            switches.add(word)
        elif word not in values or (value := next(rest, None)) is None:
            fail(f"unknown or incomplete argument: {word}")
        else:
            values[word] = value
    return values, switches


def main() -> None:
    values, switches = parse(sys.argv[1:])
    checkpoint = values["--ckpt"] or values["--model"]
    if not checkpoint:
        fail("--model or --ckpt is required")
    if "--serve" not in switches:
        fail("the stand-in only serves")
    if not (Path(checkpoint) / "model.safetensors.index.json").is_file():
        fail(f"cannot open {checkpoint}/model.safetensors.index.json")
    for flag in ("--max-batch-size", "--request-timeout-seconds", "--prefill-chunk-tokens"):
        if int(values.get(flag, "1")) <= 0:
            fail(f"{flag} must be positive")
    world, rank = int(values["--tp-world"]), int(values["--tp-rank"])
    device = int(values["--device"]) if values["--device"] != "-1" else rank
    visible = [int(gpu) for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")]
    if device >= len(visible) or visible[device] >= GPUS:
        fail("failed to set device")
    if world > 1:
        print(f"tp_world={world} tp_rank={rank} device={device}", flush=True)
        if not values["--nccl-id-path"]:
            fail("--nccl-id-path is required when tp-world > 1")
        if rank > 0:
            follow(Path(values["--nccl-id-path"]))
    workers = lead(Path(values["--nccl-id-path"]), world - 1) if world > 1 else []
    print(f"server_architecture=qwen3_5\nserver_max_context={values['--max-context']}", flush=True)
    sidecar = start_sidecar(values["--python"], values["--sidecar"], checkpoint)
    try:
        serve(values)
    finally:
        sidecar.stdin.close() if sidecar.stdin else None
        for worker in workers:
            worker.close()


def lead(id_path: Path, workers: int) -> list[socket.socket]:
    """Rank 0: an id file that is already there is used again, whoever wrote it."""
    if not id_path.exists():
        id_path.write_text(secrets.token_hex(16))
    channel = Path(f"{id_path}.cmdsock")
    channel.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(channel))
    except OSError as error:
        fail(f"command channel: {error}")
    listener.listen(workers)
    found = []
    for _ in range(workers):
        worker, _ = listener.accept()
        if worker.recv(64).decode() != id_path.read_text():
            fail("ncclCommInitRank: a rank holds another id")
        worker.sendall(b"ok")
        found.append(worker)
    return found  # the socket's file stays, as with the real one


def follow(id_path: Path) -> NoReturn:
    """A worker: waits long for the id file, shortly for the channel, and ends when rank 0 does."""
    end = time.monotonic() + ID_SECONDS
    while not id_path.exists() or not id_path.read_text():
        if time.monotonic() > end:
            fail("timed out waiting for the nccl id file")
        time.sleep(0.02)
    channel = socket.socket(socket.AF_UNIX)
    end = time.monotonic() + CHANNEL_SECONDS
    while channel.connect_ex(f"{id_path}.cmdsock"):
        if time.monotonic() > end:
            fail("cannot connect to the command channel")
        time.sleep(0.02)
    channel.sendall(id_path.read_text().encode())
    while channel.recv(64):
        pass
    fail("command channel closed")


def start_sidecar(python: str, script: str, checkpoint: str) -> subprocess.Popen[bytes]:
    argv = [python, "-u", script, "--ckpt", checkpoint, "--architecture", "qwen3_5"]
    try:
        sidecar = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        fail("PythonSidecar pipe closed unexpectedly")
    assert sidecar.stdout
    banner = sidecar.stdout.readline()
    if not banner or not json.loads(banner).get("ready"):
        fail("PythonSidecar pipe closed unexpectedly")
    return sidecar


def serve(values: dict[str, str]) -> None:
    """The lines of a start, in the order of the real one, then answers until a signal ends it."""
    asked, budget = int(values.get("--max-batch-size", "1")), int(values.get("--prefill-token-budget", "0"))
    slots = min(asked, int(os.environ.get("STANDIN_MAX_SLOTS", asked)))
    if slots < asked:
        clamp = f"running at width {slots} instead of the requested {asked}"
        print(f"BatchScheduler: engine declares max_slots={slots}; {clamp}", file=sys.stderr)
    if "--max-batch-size" in values:
        batches = "yes" if slots > 1 else "no"
        declared = f"(engine declares max_slots={slots}, continuous_batching={batches})"
        print(f"[server] batch width {slots} {declared}, prefill budget {budget}", file=sys.stderr)
    host, port = values["--host"], int(values["--port"])
    print(f"[server] listening on {host}:{port}", file=sys.stderr, flush=True)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError:
        sys.exit(0)  # the real one does not look at what bind says, and leaves as if all were done
    asyncio.run(answer(listener, slots, int(values["--tp-world"])))


async def answer(listener: socket.socket, slots: int, ranks: int) -> None:
    from standin_pocketllm_http import PocketConnection, PocketServer

    from launchers.simulator import profile

    changes = [f"width={slots}", "cancels_on_disconnect=false", "role_before_prefill=true"]
    server = PocketServer(profile.load("tiny", "batch", changes), ranks)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: PocketConnection(server), sock=listener, backlog=5)
    await server.engine.run()


if __name__ == "__main__":
    main()
