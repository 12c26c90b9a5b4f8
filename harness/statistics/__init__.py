"""How sure a mean or a difference is, whether a change made something worse, and what so many queries can show.

Usable alone: arrays of per-query values in, frozen dataclasses out. Higher values are better. SciPy
computes; this package fixes which variant, which seed, and what happens at the edges.
"""

from harness.statistics.equivalence import Equivalence, equivalence
from harness.statistics.family import holm
from harness.statistics.gating import Gate, gate
from harness.statistics.intervals import Interval, bootstrap_interval, mean_interval
from harness.statistics.judging import Change, Judgement, Verdict, judge, judge_family
from harness.statistics.noise import NoiseFloor, noise_floor
from harness.statistics.paired import PAIRED_TESTS, PairedTest, TestName, compare_pairs
from harness.statistics.power import detectable_difference, queries_needed

__all__ = [
    "PAIRED_TESTS",
    "Change",
    "Equivalence",
    "Gate",
    "Interval",
    "Judgement",
    "NoiseFloor",
    "PairedTest",
    "TestName",
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
