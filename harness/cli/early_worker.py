"""Start the first worker of a command before the command imports the rest of itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path


def early_worker(backends: str, isolation: str, executor: str, cards: Path | None) -> AbstractContextManager[None]:
    """Start a worker that imports the modules of a trial of the first of ``backends``, unless one runs here.

    The command line is not checked yet: for an unknown backend nothing specific is imported.
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
    except HarnessError:  # reported when the plan is made
        return []
    return [module] if module.startswith("harness.") else []
