"""Check that this machine has everything that a comparison needs: one small function a check, each with a fix."""

from harness.doctor.finding import Finding, State
from harness.doctor.machine import CHECKS, examine

__all__ = ["CHECKS", "Finding", "State", "examine"]
