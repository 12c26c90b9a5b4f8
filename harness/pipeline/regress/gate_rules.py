"""How two results are judged, from the options of ``harness regress`` and ``harness diff``."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.labels import read_labels
from harness.pipeline.regress.pairing import Pair
from harness.pipeline.regress.verdicts import Rules
from harness.plan.config import GateOptions
from harness.plan.option_fields import raise_together, require
from harness.stats import PAIRED_TESTS

__all__ = ["compare_rules"]


def compare_rules(gate: GateOptions, seed: int) -> CompareRules:
    """Return everything that a comparison of two results needs; reads the labels.

    Raises:
        UsageError: for all options that are wrong.
        DataError: for labels that cannot be read.
    """
    require(gate)
    drops = _drops(gate)
    return CompareRules(
        rules=Rules(
            margin=gate.margin,
            allowed_drop=drops.pop("", None),
            allowed=drops,
            test=next(name for name in PAIRED_TESTS if name == gate.test),
            seed=seed,
        ),
        depth=gate.dossier_depth,
        queries=gate.dossier,
        pairs=[_pair(text) for text in gate.pair],
        labels=read_labels(gate.labels) if gate.labels is not None else None,
    )


def _drops(gate: GateOptions) -> dict[str, float]:
    """Return the allowed drop of each metric, under ``""`` that of all others."""
    max_drop = gate.max_drop
    if max_drop is None:
        return {}
    if isinstance(max_drop, Mapping):
        texts = [(name, str(drop)) for name, drop in max_drop.items()]
    else:
        parts = [str(max_drop)] if isinstance(max_drop, int | float) else list(max_drop)
        texts = [(name, number) for name, _, number in (text.rpartition("=") for text in parts)]
    drops: dict[str, float] = {}
    mistakes: list[UsageError] = []
    for name, number in texts:
        shown = f"--max-drop {name}={number}" if name else f"--max-drop {number}"
        if name in drops:
            mistakes.append(UsageError(f"--max-drop is given twice for {name or 'all metrics'}", fix="drop one"))
        try:
            drops[name] = float(number)
        except ValueError:
            fix = "write nDCG@10=0.01 for a hundredth in the unit of the metric; shares of the value are not taken"
            mistakes.append(UsageError(f"{shown}: '{number}' is not a number", fix=fix))
            continue
        if not 0.0 <= drops[name] < float("inf"):
            mistakes.append(UsageError(f"{shown}: not a drop", fix="give 0 or more, in the unit of the metric"))
    raise_together(mistakes)
    return drops


def _pair(text: str) -> Pair:
    before, arrow, after = (part.strip() for part in text.partition("->"))
    if not arrow or not before or not after:
        raise UsageError(f"--pair {text}: not of the form BEFORE->AFTER", fix="write --pair 'lucene->qdrant'")
    return Pair(before, after)
