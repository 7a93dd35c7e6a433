"""Runs the server inside the xllamacpp wheel; started by `llamacpp.py` with its settings as JSON."""

from __future__ import annotations

import json
import signal
import sys

from xllamacpp import CommonParams, Server


def main() -> None:
    asked = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    params = CommonParams()
    params.model.path = asked["model"]
    params.model_alias = {asked["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = asked["port"]
    params.n_parallel = asked["slots"]
    params.n_ctx = asked["context"]
    params.cont_batching = asked["continuous"]
    params.cpuparams.n_threads = asked["threads"]
    params.cpuparams_batch.n_threads = asked["threads"]
    params.n_threads_http = asked["http_threads"]
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.fit_params = False
    params.ui = False
    if not asked["prompt_cache"]:
        params.cache_ram_mib = 0
        params.cache_prompt = False
    server = Server(params)
    print(f"listening on {server.listening_address}, {asked['slots']} slots", file=sys.stderr, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
