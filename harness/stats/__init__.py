"""How sure a mean or a difference is, whether a change made something worse, and what N queries can show.

Usable without the rest of the package: arrays of per-query values in, frozen dataclasses out. Higher values are better.
SciPy computes; this package fixes the variant, the seed, and the behaviour at the edges.
"""

from harness.stats.intervals import Interval, bootstrap_interval, mean_interval
from harness.stats.judging import (
    GATE_RULES,
    Change,
    Equivalence,
    Gate,
    GateRule,
    GateState,
    Judgement,
    TotalLoss,
    Verdict,
    equivalence,
    gate,
    judge,
    judge_family,
)
from harness.stats.mean_error import NoiseFloor, noise_floor
from harness.stats.paired import PAIRED_TESTS, PairedTest, TestName, compare_pairs, holm
from harness.stats.power import detectable_difference, queries_needed

__all__ = [
    "GATE_RULES",
    "PAIRED_TESTS",
    "Change",
    "Equivalence",
    "Gate",
    "GateRule",
    "GateState",
    "Interval",
    "Judgement",
    "NoiseFloor",
    "PairedTest",
    "TestName",
    "TotalLoss",
    "Verdict",
    "bootstrap_interval",
    "compare_pairs",
    "detectable_difference",
    "equivalence",
    "gate",
    "holm",
    "judge",
    "judge_family",
    "mean_interval",
    "noise_floor",
    "queries_needed",
]
