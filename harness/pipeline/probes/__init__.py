"""Probes: what a trial can be measured for beside its hits, each in one module.

A probe measures, which :mod:`harness.pipeline.run` lets it do while the trial has its index, and sums up what it
measured: fields of the trial's result, and notes. :mod:`harness.report.documents.costs` shows them.
"""

from harness.pipeline.probes.load import LoadProbe
from harness.pipeline.probes.rebuilds import RebuildProbe
from harness.results.trial_result import Probe

__all__ = ["PROBES"]

PROBES: tuple[Probe, ...] = (LoadProbe(), RebuildProbe())
"""Every probe."""
