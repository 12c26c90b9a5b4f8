"""What engines say of themselves, asked where a mistake or a wait of theirs harms nobody else: in a worker."""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path

from harness.data.progress import Display
from harness.engines.interface import Identified
from harness.registry.cards import BackendCard
from harness.registry.lookup import load_engine
from harness.registry.parameters import ParameterValue
from harness.store.cache import file_digest
from harness.worker.executor import Executor
from harness.worker.jobs import IdentityJob, read_identity, write_job

__all__ = ["Identities"]

_OWN = "harness"


@dataclass(frozen=True, slots=True)
class Identities:
    """Asks engines through ``executor``, under its deadline; job folders are made in ``work``.

    ``fetch`` lets a model of the hub be downloaded, whose files are part of its key.
    """

    executor: Executor
    work: Path
    display: Display
    fetch: bool = True

    def of(self, card: BackendCard, parameters: Mapping[str, ParameterValue]) -> dict[str, str]:
        """What the engine says decides its hits, and for an adapter that is not ours the version and file it lies in.

        Raises HarnessError when the engine is missing, or when it fails or takes too long to say it.
        """
        engine = load_engine(card)
        said: dict[str, str] = self._ask(card, parameters) if isinstance(engine, Identified) else {}
        package = engine.__module__.partition(".")[0]
        if package == _OWN:
            return said
        file = getattr(sys.modules.get(engine.__module__), "__file__", None)
        code = {"module_sha256": file_digest(Path(file))} if file is not None else {}
        return said | code | {name: version(name) for name in _distributions().get(package, ())}

    def _ask(self, card: BackendCard, parameters: Mapping[str, ParameterValue]) -> dict[str, str]:
        folder = Path(tempfile.mkdtemp(prefix="identity-", dir=self.work))
        write_job(folder, IdentityJob(card.engine, dict(parameters)))
        self.executor.run(folder, self.display.section(card.name))
        return read_identity(folder)


def _distributions() -> Mapping[str, Sequence[str]]:
    """Distributions by the packages that they install."""
    return _distributions_in(tuple((place, _changed_ns(Path(place))) for place in sys.path))


@functools.cache
def _distributions_in(places: tuple[tuple[str, int], ...]) -> Mapping[str, Sequence[str]]:  # noqa: ARG001
    """Takes a third of a second, so only once for the folders of ``sys.path`` as they are."""
    return packages_distributions()


def _changed_ns(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
