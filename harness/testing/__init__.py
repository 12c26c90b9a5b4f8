"""The contract suite that every engine must pass, ours and third parties'. Needs pytest; nothing else here does.

A test module subclasses :class:`EngineContract`, names the engine class and its parameters, and pytest does the rest::

    class TestMyEngine(EngineContract):
        engine = MyEngine
        parameters = {"k1": 0.9, "b": 0.4}
        tolerance = 1e-6

See ``docs/how-to/add-an-engine.md``.
"""

from __future__ import annotations

from harness.testing.changes import ChangeContract
from harness.testing.expected import Bm25, Expected
from harness.testing.external_indexes import ExternalIndexContract
from harness.testing.inputs import DenseContract, InputContract
from harness.testing.lifecycle import GuardContract, LifecycleContract
from harness.testing.results import FilterContract, ResultContract
from harness.testing.samples import RecordingProgress, StepClock
from harness.testing.sharing import SharingContract

__all__ = ["Bm25", "EngineContract", "Expected", "RecordingProgress", "StepClock"]


class EngineContract(
    LifecycleContract,
    GuardContract,
    ResultContract,
    InputContract,
    DenseContract,
    SharingContract,
    ExternalIndexContract,
    FilterContract,
    ChangeContract,
):
    """Subclass it as ``TestSomething``, set ``engine``, ``parameters``, ``tolerance`` and, if need be, ``bm25``.

    A test that cannot pass is declared in the engine's own ``Capabilities.gaps`` with its reason: it must then fail,
    so that a gap that closes is noticed. Some tests cannot be declared away: see ``REQUIRED`` in
    ``harness.testing.lifecycle``.
    """
