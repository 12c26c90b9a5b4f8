"""All metrics by name: the table of this package, and metrics of other installed packages.

Another package offers a metric by an entry point of the group ``harness.metrics``. The entry point's name is the
metric's; its object is a NumPy function as :func:`harness.metrics.metric` describes, or the :class:`Kind` that it
returns, which may hold a Numba kernel. Entry points are looked up only for names that this package's table lacks, so
that they cost nothing otherwise.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from typing import NamedTuple

from harness.errors import MetricError
from harness.metrics.functions import QueryFaultError, call_foreign, guarded, metric
from harness.metrics.kind import Kind, Release
from harness.metrics.measure import Metric
from harness.metrics.table import KINDS
from harness.registry.lookup import entry_points

GROUP = "harness.metrics"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

_log = logging.getLogger("harness")


class InstalledMetrics(NamedTuple):
    """The metrics of other packages by name, and the reasons for which others could not be imported."""

    kinds: Mapping[str, Kind]
    missing: Mapping[str, str]


def kind_of(name: str) -> Kind:
    """Return the row of a metric by its canonical name, as in a parsed measure; raises KeyError."""
    return KINDS[name] if name in KINDS else installed().kinds[name]


def counts_forbidden(metric: Metric) -> bool:
    """Return whether a metric counts the documents that questions forbid, not the relevant ones."""
    return kind_of(metric.name).judgments == "forbidden"


def kinds() -> dict[str, Kind]:
    """Return all metrics by canonical name: this package's, then other packages'."""
    return {**KINDS, **installed().kinds}


def spellings(rows: Iterable[Kind], release: Release = 9) -> dict[str, Kind]:
    """Return every accepted name of the rows, as written; trec_eval's names are of one release."""
    rows = list(rows)
    names = {name: kind for kind in rows for name in (kind.name, *kind.aliases)}
    of_trec_eval = [kind for kind in rows if kind.release in (None, release)]
    return names | {name: kind for kind in of_trec_eval for name in (kind.trec, kind.trec_cut) if name is not None}


def squeezed(name: str) -> str:
    """Return a name in the form in which it is compared: ``hit_rate``, ``Hit-Rate`` and ``HitRate`` are equal."""
    return re.sub(r"[_-]", "", name.lower())


@cache
def installed() -> InstalledMetrics:
    """Return the metrics of other installed packages, imported now.

    A package that cannot be imported is left out with a warning. Raises MetricError for an entry point that is not a
    metric, and for a name that is taken.
    """
    taken = {name.lower(): "the harness itself" for name in (*spellings(KINDS.values()), "official")}
    kinds: dict[str, Kind] = {}
    missing: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (_owner(entry), entry.name)):
        try:
            loaded = call_foreign(None, entry.load)
        except QueryFaultError as error:
            missing[entry.name] = f"of package '{_owner(entry)}' cannot be imported: {error}"
            _log.warning("metric '%s' %s", entry.name, missing[entry.name])
            continue
        kind, source = _kind(entry, loaded), f"package '{_owner(entry)}', for '{entry.name}',"
        for name in spellings([kind]):
            if not _NAME.fullmatch(name):
                raise MetricError(
                    f"package '{_owner(entry)}' offers a metric '{name}', which is not a name",
                    fix="a name is a letter, then letters, digits, _ and -",
                )
            holder = taken.setdefault(name.lower(), source)
            if holder != source:
                raise MetricError(
                    f"package '{_owner(entry)}' offers a metric '{name}', a name that {holder} has already",
                    fix="uninstall the package, or give its metric another name",
                )
        kinds[kind.name] = kind
    return InstalledMetrics(kinds, missing)


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _kind(entry: EntryPoint, loaded: object) -> Kind:
    """Return the row for the object of an entry point, under the entry point's name."""
    source = f"metric '{entry.name}' of package '{_owner(entry)}'"
    if not isinstance(loaded, Kind) and not callable(loaded):
        raise MetricError(f"{source} is {type(loaded).__name__}, neither a function nor a Kind")
    try:
        kind = loaded if isinstance(loaded, Kind) else metric(loaded)
    except MetricError as error:
        raise MetricError(f"{source}: {error.problem}", fix=error.fix) from error
    return replace(
        kind,
        name=entry.name,
        kernel=guarded(kind.kernel),
        average=None if kind.average is None else guarded(kind.average),
        source=kind.source or f"package '{_owner(entry)}'",
    )
