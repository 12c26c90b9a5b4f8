"""Why exact backends differ: their BM25 formulas, part by part, each part proven by ranking with that one change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from harness.data.dataset import Dataset
from harness.data.types import Run, TermCounts
from harness.errors import MemoryLimitError
from harness.exact.bm25_models import Bm25Formula, Formula, formula_of
from harness.exact.scoring_functions import ForeignFormula
from harness.parity.recipes import Recipe, with_formula
from harness.parity.references import SparseReference
from harness.registry.cards import BackendCard
from harness.registry.parameters import ParameterValue
from harness.worker.outcome import Outcome

DEPTH = 10
"""Depth to which rankings are compared under one change."""
_MOST_POSTINGS = 50_000_000
"""With more, each change would take minutes: parts of formulas are named, and not proven."""
_IDF = {
    "lucene": "ln(1 + (N − df + 0.5) / (df + 0.5))",
    "robertson": "ln((N − df + 0.5) / (df + 0.5))",
    "atire": "ln(N / df)",
    "bm25l": "ln((N + 1) / (df + 0.5))",
    "bm25+": "ln((N + 1) / df)",
}


def _idf(formula: Bm25Formula) -> str:
    floor = "" if formula.idf_floor is None else f", at least {formula.idf_floor:g}"
    return f"{_IDF[formula.idf]}{floor}"


def _counted(formula: Bm25Formula) -> str:
    least = f", avgdl at least {formula.least_average:g}" if formula.least_average else ""
    return f"of {'all documents' if formula.all_documents else 'documents with terms'}{least}"


def _saturation(formula: Bm25Formula) -> str:
    return "BM25" if formula.saturation == "bm25" else f"{formula.saturation.upper()}, delta {formula.delta:g}"


_PARTS: tuple[tuple[str, tuple[str, ...], Callable[[Bm25Formula], str]], ...] = (
    ("k1", ("k1",), lambda formula: f"{formula.k1:g}"),
    ("b", ("b",), lambda formula: f"{formula.b:g}"),
    ("length of a document", ("byte_lengths",), lambda formula: "in one byte" if formula.byte_lengths else "exact"),
    ("IDF", ("idf", "idf_floor"), _idf),
    ("N and avgdl", ("all_documents", "least_average"), _counted),
    ("saturation", ("saturation", "delta"), _saturation),
    ("factor (k1 + 1)", ("k1_plus_1",), lambda formula: "in" if formula.k1_plus_1 else "left out"),
)
"""Parts of a formula: name, fields, and their description."""
_ONE_TEXT = "title and text as one"
_POOLED, _SEPARATE = "of all fields together", "of each field"


@dataclass(frozen=True, slots=True)
class FormulaChange:
    """A part in which two formulas differ.

    ``before`` and ``after`` describe the part. ``queries`` counts the queries whose best documents differ if only this
    change is made to the first formula; ``overlap`` is their mean share of common documents. None if nothing was
    ranked.
    """

    part: str
    before: str
    after: str
    queries: int | None
    overlap: float | None


@dataclass(frozen=True, slots=True)
class ScoringDifference:
    """The parts in which the formulas of two exact backends differ: ``changes`` turn the first into the second."""

    a: str
    b: str
    changes: tuple[FormulaChange, ...]


def formula_in_effect(card: BackendCard, parameters: Mapping[str, ParameterValue]) -> Formula | None:
    """Return the formula that a backend computes; None if it computes no formula, or an unknown formula."""
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
    outcomes: Sequence[Outcome], exact: Sequence[str], first: str | None, dataset: Dataset, depth: int
) -> list[ScoringDifference]:
    """Return why exact backends differ from the first of them.

    Args:
        outcomes: Of the backends on the dataset.
        exact: Labels of the backends that return what their formulas say.
        first: The backend with which the others are compared; if it is not exact, the first exact backend.
        dataset: The dataset that they ranked.
        depth: How many of the best documents of a query are compared.

    Returns:
        A difference for each backend with the same analyzer that has another formula or searches other fields; none if
        there is nothing to rank again because each query has its own candidates.
    """
    claims = [
        claims for outcome in outcomes if outcome.trial.label in exact and (claims := _claim(outcome)) is not None
    ]
    if len(claims) < 2 or dataset.candidates is not None:
        return []
    base = next((backend for backend in claims if backend.label == first), claims[0])
    ranked = cache(partial(_ranked, base.counts, dataset, depth))
    differences = [
        ScoringDifference(base.label, other.label, tuple(_changes(base, other, ranked)))
        for other in claims
        if other is not base and other.comparable_with(base)
    ]
    return [difference for difference in differences if difference.changes]


class _Claim(NamedTuple):
    """A backend's label, formula and searched fields; its terms, their location, and the analyzer that made them."""

    label: str
    formula: Formula
    fields: str
    counts: TermCounts
    documents_key: object
    analyzer: str

    def comparable_with(self, base: _Claim) -> bool:
        """Return whether both score the same terms, except that one of them may search other fields."""
        if self.fields == base.fields:
            return self.documents_key == base.documents_key
        return self.analyzer == base.analyzer


def _claim(outcome: Outcome) -> _Claim | None:
    card, vectors, record = outcome.trial.spec.card, outcome.vectors, outcome.record
    if card is None or vectors is None or vectors.terms is None or record is None or record.external is not None:
        return None
    formula = formula_in_effect(card, outcome.trial.parameters)
    if formula is None:
        return None
    fields, terms = "+".join(map(str, outcome.trial.fields)) or _ONE_TEXT, vectors.terms
    return _Claim(outcome.trial.label, formula, fields, terms.counts, terms.folder, terms.analyzer)


def _ranked(counts: TermCounts, dataset: Dataset, depth: int, formula: Formula) -> Run | None:
    """Return the best documents of every query under a formula, in float64.

    None for several fields, for a collection that is too large, and if the memory limit leaves no room for the search.
    """
    if counts.field_weights is not None or counts.documents.nnz > _MOST_POSTINGS:
        return None
    recipe = Recipe(
        "formula",
        dataset.corpus.ids,
        dataset.queries.ids,
        counts.documents,
        counts.queries,
        matching=dataset.filtered.matching if dataset.filtered is not None else None,
    )
    plain = formula
    if isinstance(formula, Bm25Formula):
        plain = replace(formula, arithmetic="float64", float32_sums=True)
    try:
        return SparseReference(with_formula(recipe, counts, plain)).retrieve(depth)
    except MemoryLimitError:
        return None


def _changes(base: _Claim, other: _Claim, ranked: Callable[[Formula], Run | None]) -> Iterator[FormulaChange]:
    if other.fields != base.fields:
        yield FormulaChange("searched fields", base.fields, other.fields, None, None)
    first, second = base.formula, other.formula
    if base.counts.field_weights is not None and other.counts.field_weights is not None:
        yield from _pooling(first, second)
    if first == second:
        return
    before = ranked(first)
    for name, changed, words in formula_parts(first, second):
        after = ranked(changed)
        queries, overlap = _compared(before, after) if before is not None and after is not None else (None, None)
        yield FormulaChange(name, *words, queries, overlap)


def _pooling(first: Formula, second: Formula) -> Iterator[FormulaChange]:
    """Yield the difference between weighing each field by its statistics, and counting terms of all fields together."""
    if not (isinstance(first, Bm25Formula) and isinstance(second, Bm25Formula)):
        return
    if first.pools_fields != second.pools_fields:
        before, after = (_POOLED if formula.pools_fields else _SEPARATE for formula in (first, second))
        yield FormulaChange("statistics of fields", before, after, None, None)


def formula_parts(first: Formula, second: Formula) -> Iterator[tuple[str, Formula, tuple[str, str]]]:
    """Yield each part in which formulas differ: its name, the first formula with that part changed, and both in words.

    The function of another package is a single part: its computation is unknown.
    """
    if not (isinstance(first, Bm25Formula) and isinstance(second, Bm25Formula)):
        yield "formula", second, _describe(first, second)
        return
    for name, fields, words in _PARTS:
        changed = replace(first, **{field: getattr(second, field) for field in fields})
        if changed != first:
            yield name, changed, (words(first), words(second))


def _describe(first: Formula, second: Formula) -> tuple[str, str]:
    """Say which two formulas these are; two of one function by the parameters in which they differ."""
    if isinstance(first, ForeignFormula) and isinstance(second, ForeignFormula) and first.name == second.name:
        return _settings(first, second), _settings(second, first)
    return _name(first), _name(second)


def _settings(formula: ForeignFormula, other: ForeignFormula) -> str:
    """Return the parameters of a formula in which another formula differs."""
    return ", ".join(f"{name}={value}" for name, value in formula.parameters if (name, value) not in other.parameters)


def _name(formula: Formula) -> str:
    return formula.name if isinstance(formula, ForeignFormula) else f"BM25, k1 {formula.k1:g}, b {formula.b:g}"


def _compared(before: Run, after: Run) -> tuple[int, float]:
    """Count the queries with other documents, and return the mean share of common ones."""
    shares = []
    for query in range(len(before.query_ids)):
        first, second = (set(run.rows[run.of_query(query)].tolist()) for run in (before, after))
        shares.append(len(first & second) / max(len(first), len(second)) if first or second else 1.0)
    return sum(share < 1 for share in shares), float(np.mean(shares))
