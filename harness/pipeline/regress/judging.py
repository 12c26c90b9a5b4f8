"""How two results are judged, as the command line and Python callers say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from harness.pipeline.regress.command import drop_arguments, option_arguments
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.labels import read_labels
from harness.pipeline.regress.pairing import Pair
from harness.pipeline.regress.verdicts import MARGIN, Rules
from harness.stats import TestName

__all__ = ["Judging"]


@dataclass(frozen=True, slots=True, repr=False)
class Judging:
    """How two results are judged, as the command line gives it.

    ``max_drop`` is the drop of a mean that the gate lets pass: one number for all metrics, or a mapping of metrics
    (others have the number under ``""``, and without one no gate); None for no gate. Differences within ±``margin``
    count as the same. ``test`` is ``randomisation``, ``t`` or ``wilcoxon``. ``labels`` is a file of judgments that came
    later. ``queries`` of each backend are told in full, with ``depth`` documents of each ranking.
    """

    max_drop: float | Mapping[str, float] | None = 0.0
    margin: float = MARGIN
    test: TestName = "randomisation"
    labels: str | Path | None = None
    queries: int = 50
    depth: int = 10
    pairs: Sequence[tuple[str, str]] = ()

    def __repr__(self) -> str:
        """The call that makes it, with what is not so anyway."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        said = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
        plain = {one.name: one.default for one in fields(self)}
        changed = [f"{name}={value!r}" for name, value in said.items() if value != plain[name] and value != []]
        return f"harness.Judging({', '.join(changed)})"

    def in_shell(self, default_drop: float | None) -> bool:
        """Whether the command line can say all of it, where ``default_drop`` is the gate that it has without any."""
        drops = self.max_drop.values() if isinstance(self.max_drop, Mapping) else [self.max_drop]
        return self.depth == Judging().depth and (self.max_drop == default_drop or None not in drops)

    def arguments(self, default_drop: float | None) -> list[str]:
        """The command line's arguments for this; ``default_drop`` is the gate that it has without any."""
        given = {
            "max_drop": drop_arguments(self.max_drop, default_drop),
            "margin": self.margin,
            "test": self.test,
            "labels": self.labels,
            "dossier": self.queries,
            "pair": [f"{before}->{after}" for before, after in self.pairs],
        }
        plain = Judging()
        return option_arguments(given, {"margin": plain.margin, "test": plain.test, "dossier": plain.queries})

    def rules(self, seed: int) -> CompareRules:
        """Everything that a comparison of two sides needs; reads the labels."""
        allowed = dict(self.max_drop) if isinstance(self.max_drop, Mapping) else {"": self.max_drop}
        general = allowed.pop("", None)
        named = {name: drop for name, drop in allowed.items() if drop is not None}
        return CompareRules(
            rules=Rules(self.margin, general, named, self.test, seed),
            depth=self.depth,
            queries=self.queries,
            pairs=[Pair(*pair) for pair in self.pairs],
            labels=read_labels(Path(self.labels)) if self.labels is not None else None,
        )
