"""The contract suite as one class."""

from __future__ import annotations

from harness.testing.external_indexes import ExternalIndexContract
from harness.testing.filters import FilterContract
from harness.testing.guards import GuardContract
from harness.testing.inputs import InputContract
from harness.testing.lifecycle import LifecycleContract
from harness.testing.results import ResultContract
from harness.testing.sharing import SharingContract
from harness.testing.vectors import DenseContract

__all__ = ["EngineContract"]


class EngineContract(
    LifecycleContract,
    GuardContract,
    ResultContract,
    InputContract,
    DenseContract,
    SharingContract,
    ExternalIndexContract,
    FilterContract,
):
    """Subclass it as ``TestSomething``, set ``engine``, ``parameters``, ``tolerance`` and, if need be, ``bm25``.

    A test that cannot pass is declared in the engine's own ``Capabilities.gaps`` with its reason: it must then fail,
    so that a gap that closes is noticed. Some tests cannot be declared away: see ``REQUIRED`` in
    ``harness.testing.lifecycle``.
    """
