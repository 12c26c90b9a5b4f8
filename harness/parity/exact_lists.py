"""Exact lists of backends that fusions are made of, kept until the fusions were held against their own oracles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harness.data.types import Run
from harness.parity import Parity, compare_run
from harness.parity.fused import FusedOracle, Part, hits_of_components
from harness.plan.backend_spec import BackendSpec
from harness.worker.combine import fuse_runs
from harness.worker.outcome import Outcome

__all__ = ["ExactLists"]


class ExactLists:
    """What the oracles of components returned, by label, with the tolerance that each component states."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        used = {label for one in outcomes if one.combined is not None for label in one.combined.of}
        self._actual = {one.trial.label: one.run for one in outcomes if one.run is not None and one.trial.label in used}
        self._exact: dict[str, tuple[Run, float]] = {}

    def wants(self, label: str) -> bool:
        """Whether a fusion will ask for the exact hits of this backend."""
        return label in self._actual

    def keep(self, label: str, exact: Run, tolerance: float) -> None:
        """Remember the exact hits of a backend."""
        self._exact[label] = exact, tolerance

    def hold(self, outcome: Outcome, k: int) -> Parity | None:
        """Parity of a fusion with the fusion of its components' exact hits; None where one of them has no oracle.

        Its tolerance is the largest of theirs.
        """
        combined, run = outcome.combined, outcome.run
        if combined is None or run is None or any(label not in self._exact for label in combined.of):
            return None
        parts = tuple(Part(label, self._exact[label][0], self._actual[label]) for label in combined.of)
        spec = outcome.trial.spec
        oracle = FusedOracle(spec.name, parts, partial(_fuse, spec))
        tolerance = max(self._exact[label][1] for label in combined.of)
        if self.wants(outcome.trial.label):
            self.keep(outcome.trial.label, oracle.retrieve(k), tolerance)
        return compare_run(run, oracle, k=k, tolerance=tolerance, hypotheses=hits_of_components(parts))


def _fuse(spec: BackendSpec, runs: Sequence[Run], k: int | None) -> Run:
    return fuse_runs(spec, runs, k)
