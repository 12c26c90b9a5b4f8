"""The contract suite that every engine must pass, the harness's and third parties'. Only this package needs pytest.

A test module subclasses :class:`EngineContract`, names the engine class and its parameters, and pytest does the rest::

    class TestMyEngine(EngineContract):
        engine = MyEngine
        parameters = {"k1": 0.9, "b": 0.4}
        tolerance = 1e-6

See ``docs/how-to/add-an-engine.md``.
"""

from __future__ import annotations

from typing import ClassVar

from harness.testing.changes import ChangeContract
from harness.testing.expected import Bm25, ExpectedScores
from harness.testing.external_indexes import ExternalIndexContract
from harness.testing.inputs import DenseContract, InputContract
from harness.testing.lifecycle import GuardContract, LifecycleContract
from harness.testing.results import FilterContract, ResultContract
from harness.testing.samples import RecordingProgress, StepClock
from harness.testing.sharing import SharingContract
from harness.testing.weighted_fields import FieldContract

__all__ = ["Bm25", "EngineContract", "ExpectedScores", "RecordingProgress", "StepClock"]


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
    FieldContract,
):
    """Subclass it as ``TestSomething``, and set ``engine``, ``parameters``, ``tolerance`` and, if necessary, ``bm25``.

    A test that cannot pass is declared with its reason in the engine's own ``Capabilities.gaps``: it must then fail, so
    that a closed gap is noticed. Some tests cannot be declared as gaps: see ``REQUIRED`` in
    ``harness.testing.lifecycle``.
    """

    variant: ClassVar[bool] = False
    """True for a class that differs from another class only in its parameters: only tests that these can affect run,
    which are the tests of answers, including those of reopened, filtered, changed and external indexes."""

    def __init_subclass__(cls) -> None:
        """Leave out the tests that another class with the same engine runs."""
        super().__init_subclass__()
        if cls.variant:
            for name in _ONCE - vars(cls).keys():
                setattr(cls, name, None)


_OF_PARAMETERS = {name for part in (ResultContract, DenseContract) for name in vars(part)} | {
    "test_a_changed_index_opens_again",
    "test_an_index_can_lose_everything_and_get_it_back",
    "test_external_index_answers_like_a_new_one",
    "test_external_index_of_the_collection_is_proven",
    "test_finds_what_is_there_after_a_change",
    "test_is_deterministic_where_declared",
    "test_reopens",
    "test_returns_what_matches",
    "test_says_whether_it_can_be_changed",
    "test_wide_dimensions",
}
_ONCE = {name for name in dir(EngineContract) if name.startswith("test_")} - (
    _OF_PARAMETERS - {"test_no_queries", "test_refuses_another_dimension", "test_refuses_k_below_one"}
)
