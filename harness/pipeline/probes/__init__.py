"""Probes: measurements of a trial in addition to its hits, each in a module that :mod:`.probe` explains."""

from __future__ import annotations

from collections.abc import Iterable

from harness.pipeline.probes.churn import ChurnProbe
from harness.pipeline.probes.combining import CombiningProbe
from harness.pipeline.probes.filtering import FilteringProbe
from harness.pipeline.probes.indexing import IndexingProbe
from harness.pipeline.probes.load import LoadProbe
from harness.pipeline.probes.probe import Probe
from harness.pipeline.probes.rebuilds import RebuildProbe
from harness.pipeline.probes.searching import SearchingProbe
from harness.plan.option_fields import is_set
from harness.plan.plan import Plan
from harness.worker.outcome import Outcome

__all__ = ["PROBES", "probes_of"]

PROBES: list[Probe[object]] = [
    RebuildProbe(),
    IndexingProbe(),
    SearchingProbe(),
    CombiningProbe(),
    FilteringProbe(),
    LoadProbe(),
    ChurnProbe(),
]
"""Every probe, in the order of their tables."""


def probes_of(plan: Plan, outcomes: Iterable[Outcome] = ()) -> list[Probe[object]]:
    """Return the probes that a plan requests, in the order of their tables.

    Args:
        plan: its request names the options that are set.
        outcomes: outcomes whose measurements are shown too: a stored outcome may hold some that this plan does not
        request.
    """
    measured = {name for outcome in outcomes for name in outcome.measurements}
    kinds = {trial.spec.kind for trial in plan.trials}
    return [
        probe
        for probe in PROBES
        if (not probe.kinds or probe.kinds & kinds)
        and (not probe.options or probe.name in measured or is_set(plan.request, *probe.options))
    ]
