"""Why exact backends differ: their BM25 formulas, part by part, each part proven by ranking with that one change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.data.dataset import Dataset
from harness.data.types import Run, TermCounts
from harness.exact.bm25_models import Bm25Formula, formula_of
from harness.parity.recipes import Recipe, with_formula
from harness.parity.references import SparseReference
from harness.registry.cards import BackendCard
from harness.registry.parameters import ParameterValue
from harness.worker.outcome import Outcome

DEPTH = 10
"""How deep rankings are compared under one change."""
_MOST_POSTINGS = 50_000_000
"""With more, each change would take minutes: parts of formulas are named, and not proven."""
_IDF = {
    "lucene": "ln(1 + (N − df + 0.5) / (df + 0.5))",
    "robertson": "ln((N − df + 0.5) / (df + 0.5))",
    "atire": "ln(N / df)",
    "bm25l": "ln((N + 1) / (df + 0.5))",
    "bm25+": "ln((N + 1) / df)",
}


class _Part(NamedTuple):
    """A part of a formula: its name, its fields, and its words."""

    name: str
    fields: tuple[str, ...]
    words: Callable[[Bm25Formula], str]


def _length(formula: Bm25Formula) -> str:
    return "in one byte" if formula.byte_lengths else "exact"


def _idf(formula: Bm25Formula) -> str:
    floor = "" if formula.idf_floor is None else f", at least {formula.idf_floor:g}"
    return f"{_IDF[formula.idf]}{floor}"


def _counted(formula: Bm25Formula) -> str:
    least = f", avgdl at least {formula.least_average:g}" if formula.least_average else ""
    return f"of {'all documents' if formula.all_documents else 'documents with terms'}{least}"


def _saturation(formula: Bm25Formula) -> str:
    return "BM25" if formula.saturation == "bm25" else f"{formula.saturation.upper()}, delta {formula.delta:g}"


_PARTS = (
    _Part("k1", ("k1",), lambda formula: f"{formula.k1:g}"),
    _Part("b", ("b",), lambda formula: f"{formula.b:g}"),
    _Part("length of a document", ("byte_lengths",), _length),
    _Part("IDF", ("idf", "idf_floor"), _idf),
    _Part("N and avgdl", ("all_documents", "least_average"), _counted),
    _Part("saturation", ("saturation", "delta"), _saturation),
    _Part("factor (k1 + 1)", ("k1_plus_1",), lambda formula: "in" if formula.k1_plus_1 else "left out"),
)


@dataclass(frozen=True, slots=True)
class FormulaChange:
    """A part in which two formulas differ.

    ``before`` and ``after`` are it in words. ``queries`` counts those of which this change alone, made to the first
    formula, gives other best documents; ``overlap`` is their mean share of common ones. None where nothing was ranked.
    """

    part: str
    before: str
    after: str
    queries: int | None
    overlap: float | None


@dataclass(frozen=True, slots=True)
class ScoringDifference:
    """The parts in which the formulas of two exact backends differ: ``changes`` make that of ``b`` of that of ``a``."""

    a: str
    b: str
    changes: tuple[FormulaChange, ...]


def formula_in_effect(card: BackendCard, parameters: Mapping[str, ParameterValue]) -> Bm25Formula | None:
    """Return the BM25 that a backend computes; None for one that computes none, or of which nothing is known."""
    rule = card.reference
    if card.encoder != "bm25" or not rule.applies(parameters) or int(parameters.get("shards", 1)) > 1:
        return None
    if rule.scoring is not None:
        return formula_of(rule.scoring, parameters)
    if not parameters.get("idf", True):
        return None
    k1, b = float(parameters["k1"]), float(parameters["b"])
    if rule.kind == "lucene":
        return Bm25Formula(k1, b, k1_plus_1=bool(parameters.get("k1_plus_1", False)), byte_lengths=True)
    return Bm25Formula(k1, b, k1_plus_1=bool(parameters.get("k1_plus_1", True)))


def scoring_differences(
    outcomes: Sequence[Outcome], exact: Sequence[str], first: str | None, dataset: Dataset
) -> list[ScoringDifference]:
    """Return why exact backends differ from the first of them.

    Args:
        outcomes: Of the backends on the dataset.
        exact: Labels of those that return what their formulas say.
        first: The backend with which the others are compared; where it is not exact, the first that is.
        dataset: What they ranked.

    Returns:
        One for each backend with the same terms and another formula; none where there is nothing to rank anew because
        each query has candidates of its own.
    """
    known = [known for outcome in outcomes if outcome.trial.label in exact and (known := _known(outcome)) is not None]
    if len(known) < 2 or dataset.candidates is not None:
        return []
    base = next((one for one in known if one.label == first), known[0])
    ranking = _Rankings(base.counts, dataset)
    others = [one for one in known if one.formula != base.formula and one.place == base.place]
    differences = [ScoringDifference(base.label, one.label, tuple(_changes(base, one, ranking))) for one in others]
    return [difference for difference in differences if difference.changes]


class _Known(NamedTuple):
    """A backend's label and formula, its terms, and where they lie."""

    label: str
    formula: Bm25Formula
    counts: TermCounts
    place: object


def _known(outcome: Outcome) -> _Known | None:
    card, vectors, record = outcome.trial.spec.card, outcome.vectors, outcome.record
    if card is None or vectors is None or vectors.terms is None or record is None or record.external is not None:
        return None
    formula = formula_in_effect(card, outcome.trial.parameters)
    if formula is None:
        return None
    return _Known(outcome.trial.label, formula, vectors.terms.counts, vectors.terms.folder)


class _Rankings:
    """Best documents under formulas, each ranked once, in float64."""

    def __init__(self, counts: TermCounts, dataset: Dataset) -> None:
        self._counts, self._dataset = counts, dataset
        self._made: dict[Bm25Formula, Run | None] = {}

    def under(self, formula: Bm25Formula) -> Run | None:
        """Return the best documents of every query; None for a collection that is too large."""
        if self._counts.documents.nnz > _MOST_POSTINGS:
            return None
        plain = replace(formula, arithmetic="float64", float32_sums=True)
        if plain not in self._made:
            counts, dataset = self._counts, self._dataset
            matching = dataset.filtered.matching if dataset.filtered is not None else None
            recipe = Recipe(
                "formula", dataset.corpus.ids, dataset.queries.ids, counts.documents, counts.queries, matching=matching
            )
            self._made[plain] = SparseReference(with_formula(recipe, counts, plain)).retrieve(DEPTH)
        return self._made[plain]


def _changes(base: _Known, other: _Known, ranking: _Rankings) -> Iterator[FormulaChange]:
    before = ranking.under(base.formula)
    for name, fields, words in _PARTS:
        values = {field: getattr(other.formula, field) for field in fields}
        changed = replace(base.formula, **values)
        if changed == base.formula:
            continue
        after = ranking.under(changed)
        queries, overlap = _compared(before, after) if before is not None and after is not None else (None, None)
        yield FormulaChange(name, words(base.formula), words(other.formula), queries, overlap)


def _compared(before: Run, after: Run) -> tuple[int, float]:
    """Count the queries with other documents, and return the mean share of common ones."""
    shares = []
    for query in range(len(before.query_ids)):
        one, other = (set(run.rows[run.indptr[query] : run.indptr[query + 1]].tolist()) for run in (before, after))
        shares.append(len(one & other) / max(len(one), len(other), 1) if one or other else 1.0)
    return sum(share < 1 for share in shares), float(np.mean(shares))
