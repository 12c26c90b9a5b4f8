"""Start the first worker of a command before the command imports the rest of itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path


def early_worker(backends: str, isolation: str, executor: str, cards: Path | None) -> AbstractContextManager[None]:
    """Start a worker that imports what a trial of the first of ``backends`` needs, unless none runs here.

    What the command line says is not checked yet: a backend that is not understood has nothing of its own imported.
    """
    from harness.worker.spawn import start_early

    if (
        isolation != "process"
        or executor != "local"
        or (backends and all(name.startswith("run:") for name in backends.split(",")))
    ):
        return nullcontext()
    return start_early("harness.worker.trial", *_engine(backends, cards))


def _engine(backends: str, cards: Path | None) -> list[str]:
    """Return the module of the first backend's engine if it is one of the harness's own, which do nothing else."""
    from harness.errors import HarnessError
    from harness.registry.lookup import engine_module

    name = backends.partition(",")[0].partition(":")[0].rpartition("=")[2]  # LABEL=NAME:KEY=VALUE
    try:
        module = engine_module(name, cards) or ""
    except HarnessError:  # told when the plan is made
        return []
    return [module] if module.startswith("harness.") else []
