"""A backend for another library's evaluation: each search is a comparison, whose run the library gets."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import orjson

from harness import __version__
from harness.data.dataset import Dataset
from harness.data.types import Run
from harness.errors import UsageError
from harness.pipeline.compare import compare
from harness.plan.backend_spec import parse_backends
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest
from harness.plan.option_fields import from_keywords
from harness.results.comparison import Comparison
from harness.store.environment import package_versions
from harness.worker.failure import RemoteError

_SET_BY_BACKEND = ("dataset", "backends", "k")


class SingleBackend:
    """A backend as ``--backends`` names it, with options of ``harness.compare``, for one search after the other.

    Attributes:
        label: the backend's name in comparisons.
        comparison: the last search's settings and measurements, and its relation to the exact reference; None before
            it.
    """

    def __init__(self, backend: str, caller: str, options: dict[str, Any], out: str | Path | None = None) -> None:
        """Check backend and options; no engine starts.

        Args:
            backend: one backend, a fusion or a second stage.
            caller: the class that messages name.
            options: keywords of ``harness.compare``, except the ones that each search sets itself.
            out: folder in which each search is stored as a result, below its own name. None stores none.

        Raises:
            UsageError: for an unknown backend, parameter or option, and for several backends.
        """
        refused = [name for name in _SET_BY_BACKEND if name in options]
        if refused:
            raise UsageError(f"{caller} takes no '{refused[0]}': each search has its own", fix="leave it out")
        (request,) = from_keywords(caller, {**options, "backends": [backend]}, CompareRequest)
        if len(parse_backends(backend, request.cards)) != 1:
            raise UsageError(f"'{backend}' is more than one backend", fix=f"make a {caller} of each")
        plan = plan_of_backends(request)
        self._backend, self._options = backend, options
        self._out = None if out is None else Path(out)
        self._trials = plan.trials
        self.label = plan.trials[-1].label  # components precede the backends made of them
        self.comparison: Comparison | None = None

    @property
    def revision(self) -> str:
        """The digest of everything about the backend that may change its hits: cards, parameters, options, versions."""
        trials = [
            [trial.spec.name, trial.spec.card.digest if trial.spec.card is not None else None, trial.parameters]
            for trial in self._trials
        ]
        content = orjson.dumps(
            [__version__, package_versions(), trials, self._options], default=str, option=orjson.OPT_SORT_KEYS
        )
        return hashlib.sha256(content).hexdigest()

    def search(self, dataset: Dataset, k: int) -> Run:
        """Index the dataset's documents and return the ``k`` best of each query.

        Raises:
            BackendError: the backend failed; type and message are the failure's.
        """
        comparison = compare([self._backend], dataset, k=k, **self._options)
        if self._out is not None:
            name = re.sub(r"[^\w.-]+", "-", f"{dataset.name} {self.label}").strip("-.")
            comparison = comparison.save(self._out / name, numbered=True)
        self.comparison = comparison
        error = next((trial.error for trial in comparison.report.trials if trial.error is not None), None)
        if error is not None:
            raise RemoteError(error.type, error.message, None, error.log)
        return comparison.run(self.label)
