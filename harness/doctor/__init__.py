"""Is everything here that a comparison needs? One small function a check; each says what to do when it is not fine."""

from harness.doctor.finding import Finding, State
from harness.doctor.machine import CHECKS, examine

__all__ = ["CHECKS", "Finding", "State", "examine"]
