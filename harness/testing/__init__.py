"""The contract suite that every adapter must pass, ours and third parties'. Needs pytest; nothing else here does.

A test module subclasses :class:`EngineContract`, names the engine class and its parameters, and pytest does the rest::

    class TestMyEngine(EngineContract):
        engine = MyEngine
        parameters = {"k1": 0.9, "b": 0.4}
        tolerance = 1e-6

See ``docs/how-to/add-an-engine.md``.
"""

from harness.testing.contract import EngineContract
from harness.testing.drive import RecordingProgress, StepClock
from harness.testing.oracle import Bm25, Expected

__all__ = ["Bm25", "EngineContract", "Expected", "RecordingProgress", "StepClock"]
