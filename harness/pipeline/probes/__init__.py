"""Probes: what a trial can be measured for beside its hits, each in one module that :mod:`.probe` explains."""

from harness.pipeline.probes.churn import ChurnProbe
from harness.pipeline.probes.combining import CombiningProbe
from harness.pipeline.probes.filtering import FilteringProbe
from harness.pipeline.probes.indexing import IndexingProbe
from harness.pipeline.probes.load import LoadProbe
from harness.pipeline.probes.probe import Probe
from harness.pipeline.probes.rebuilds import RebuildProbe
from harness.pipeline.probes.searching import SearchingProbe

__all__ = ["PROBES"]

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
