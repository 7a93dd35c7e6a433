"""The engines by name."""

from launchers.engines.base import Engine
from launchers.engines.command import Command
from launchers.engines.external import External
from launchers.engines.llamacpp import LlamaCpp
from launchers.engines.pocketllm import PocketLlm
from launchers.engines.sglang import Sglang
from launchers.engines.simulated import Simulated
from launchers.engines.transformers import Transformers
from launchers.engines.vllm import Vllm

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (Command, External, LlamaCpp, PocketLlm, Sglang, Simulated, Transformers, Vllm)
}
