"""An engine's own explanation of scores next to the numbers of its reference, with the first number that differs."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from harness.data.types import Ids
from harness.engines.interface import EngineInterface, ScoreTree, ScoreTrees
from harness.errors import HarnessError
from harness.parity.contributions import Collection, collection_of, lucene_numbers
from harness.parity.references import SparseReference
from harness.pipeline.probes.probe import job_of_another_build
from harness.pipeline.run import TrialInputs
from harness.plan.plan import Trial
from harness.registry.lookup import load_engine
from harness.results.explanation import BackendExplanation, DocumentScore, EngineExplanation, EngineNumber
from harness.store.record_files import load, save
from harness.worker.executor import Executor
from harness.worker.jobs import ExplainJob

Numbers = Mapping[str, Mapping[str, float]]
"""The numbers of each term, by their names."""
_NAMES = ("n", "N", "freq", "dl", "avgdl", "k1", "b", "idf", "tf", "boost", "contribution")
"""The numbers of a term in the order in which they are compared."""
_COUNTS = frozenset({"n", "N"})
"""Numbers that may be larger than float32 holds exactly."""
_SUMS = ("sum of:", "max plus 1.0 times others of:")
_FILTER = "match on required clause"
_TERM = re.compile(r"weight\((?P<term>.*) in \d+\) \[(?P<similarity>\w+)\]", re.DOTALL)
_IMPACTS = "ImpactSimilarity"
"""Its explanation of a term is the impact in the document alone."""


def explain_scores(
    inputs: TrialInputs, trial: Trial, query: int, documents: Sequence[str], executor: Executor, work: Path
) -> ScoreTrees:
    """Return the explanations of a trial's engine of the scores of documents for a query, by row.

    The index of a trial is removed when it ends, so the engine builds it again; an external index is opened. If the
    engine fails, or does not explain scores, ``note`` has the reason.
    """
    card = trial.spec.card
    if card is None:
        raise AssertionError("a trial without an engine")
    engine = load_engine(card)
    if engine.explain is EngineInterface.explain:
        return ScoreTrees(note="its engine does not explain scores")
    taken = engine.capabilities.reads(external=trial.external)
    terms = "terms" in taken.split("+")
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir=work))
    try:
        vectors = inputs.encodings.vectors(trial, weights=not terms, term_texts=terms) if taken != "text" else None
        job = inputs.job(trial, card, engine.capabilities, vectors, folder / "index")
        job = replace(
            job_of_another_build(job, folder),
            filters=tuple(group for group in job.filters if query in group.rows),
            external=trial.external,
            hashes=folder / "hashes.json" if trial.external else None,
        )
        save(folder, ExplainJob(job, query, tuple(documents)))
        executor.run(folder, inputs.display.section(trial.label))
        return load(folder, ScoreTrees)
    except HarnessError as error:
        return ScoreTrees(note=f"its engine failed to explain scores: {error.problem}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def add_engine_explanation(
    explanation: BackendExplanation, answer: ScoreTrees, reference: SparseReference | None
) -> BackendExplanation:
    """Return a backend's explanation with its engine's ``answer``, compared with the numbers of ``reference``.

    The trees of another reference, and trees that are not sums of terms in Lucene's words, are shown and not compared.
    """
    if answer.note:
        return replace(explanation, note="; ".join(filter(None, (explanation.note, answer.note))))
    numbers = (
        None
        if reference is None
        else partial(_reference_numbers, reference, cache(partial(collection_of, reference.recipe)))
    )
    documents = tuple(
        replace(document, engine=_compared(document, tree, answer.terms, numbers))
        for document, tree in zip(explanation.documents, answer.trees, strict=True)
    )
    return replace(explanation, documents=documents)


def _compared(
    document: DocumentScore,
    tree: ScoreTree | None,
    terms: Mapping[str, str],
    reference_numbers: Callable[[DocumentScore], tuple[Numbers, Mapping[str, str]]] | None,
) -> EngineExplanation | None:
    if tree is None:
        return (
            None if document.rank is None else EngineExplanation(None, note="the engine explains that it is not a hit")
        )
    if reference_numbers is None or document.exact_score is None:
        return EngineExplanation(tree, note="not compared: there is no reference of terms")
    try:
        of_engine = dict(_numbers_by_term(tree, terms))
    except _UnknownTreeError as error:
        return EngineExplanation(tree, note=f"not compared: {error}")
    of_reference, names = reference_numbers(document)
    numbers = [
        _number(names.get(term, term), name, of_reference.get(term, {}).get(name), of_engine.get(term, {}).get(name))
        for term in dict.fromkeys((*of_reference, *of_engine))
        for name in _NAMES
        if name in of_reference.get(term, {}) or name in of_engine.get(term, {})
    ]
    numbers.append(_number("", "score", document.exact_score, tree.value))
    note = ""
    if document.score is not None and np.float32(document.score) != np.float32(tree.value):
        note = f"the explained score is {tree.value:.9g}, and the hit's score {document.score:.9g}"
    return EngineExplanation(tree, tuple(numbers), next((one for one in numbers if one.differs), None), note)


def _number(term: str, name: str, exact: float | None, engine: float | None) -> EngineNumber:
    """Return a pair of numbers; they differ too if only one side has the term, whose ``freq`` the other lacks."""
    if exact is None or engine is None:
        differs = name == "freq"
    else:
        differs = exact != engine if name in _COUNTS else bool(np.float32(exact) != np.float32(engine))
    return EngineNumber(term, name, exact, engine, differs)


def _reference_numbers(
    reference: SparseReference, of_shard: Callable[[int], Collection], document: DocumentScore
) -> tuple[Numbers, Mapping[str, str]]:
    """Return the reference's numbers of each term of the query that the document has, and the terms as explained."""
    recipe = reference.recipe
    row = int(recipe.doc_ids.rows_of(Ids.of([document.document]))[0])
    shard = 0 if recipe.shards is None else int(recipe.shards[row])
    columns = recipe.queries.row(0)[0]
    names = [str(column) for column in columns] if recipe.counts is None else recipe.counts.vocabulary.take(columns)
    numbers = lucene_numbers(reference, of_shard(shard), row)
    explained = {}
    if len(document.terms) == len(numbers):  # a formula may add equal terms of the query one by one
        explained = {name: part.term for name, part in zip(names, document.terms, strict=True)}
        for part, number in zip(document.terms, numbers, strict=True):
            number["contribution"] = part.contribution
    return {name: number for name, number in zip(names, numbers, strict=True) if "freq" in number}, explained


class _UnknownTreeError(Exception):
    """Why a tree is not a sum of terms in Lucene's words."""


def _numbers_by_term(tree: ScoreTree, terms: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the harness's name of each term in a tree, and the numbers of the term; raises _UnknownTreeError."""
    seen = set()
    for part in _term_trees(tree):
        if (match := _TERM.match(part.description)) is None:
            raise AssertionError("no tree of a term")
        start = max((name for name in terms if match["term"].startswith(name)), key=len, default=None)
        if start is None or match["term"] in seen:
            fault = "is in a field that is not searched" if start is None else "occurs twice"
            raise _UnknownTreeError(f"its term '{match['term']}' {fault}")
        seen.add(match["term"])
        if match["similarity"] == _IMPACTS:
            numbers = {"freq": part.value}
        else:
            numbers = dict(_named_values(part.details)) | {"contribution": part.value}
            if "idf" in numbers:
                numbers.setdefault("boost", 1.0)  # Lucene leaves it out then
        yield terms[start] + match["term"].removeprefix(start), numbers


def _term_trees(tree: ScoreTree) -> Iterator[ScoreTree]:
    if _TERM.match(tree.description):
        yield tree
    elif tree.description in _SUMS:
        for part in tree.details:
            yield from _term_trees(part)
    elif tree.value or not tree.description.startswith(_FILTER):
        raise _UnknownTreeError(f"'{tree.description}' is not a sum of terms")


def _named_values(trees: Sequence[ScoreTree]) -> Iterator[tuple[str, float]]:
    for tree in trees:
        name = tree.description.partition(",")[0]
        if name in _NAMES:
            yield name, tree.value
        yield from _named_values(tree.details)
