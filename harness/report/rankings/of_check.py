"""The questions of a check with all rankings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings, take_rows, text_scalar
from harness.data.filtering import format_filter
from harness.data.types import Corpus, Float64Array, Ids, Qrels, Run
from harness.pipeline.check.id_match import Match
from harness.plan.option_values import parse_match
from harness.report.documents.verdicts import compared_name, reference_of
from harness.report.rankings.explorer import ExpectedDocuments, Explorer, explain_command, queries_of
from harness.results.missed import missed_depth, required_depths
from harness.results.returned_texts import merge_texts
from harness.results.schema import Result, TrialResult

_MAX_CHUNKS = 3
"""Number of documents whose texts are shown for an expectation that no backend found."""
_NO_TEXTS = "Texts of documents are not in this file: the backends have their own, and returned only ids."


Hits = Mapping[tuple[str, str], Run]
"""Dataset and label to the hits of a trial."""
Returned = Mapping[tuple[str, str], Corpus]
"""Dataset and label to the documents that a trial returned with their texts."""


def check_explorers(
    report: Result, runs: Hits, corpora: Mapping[str, Corpus], returned: Returned, no_texts: str
) -> list[Explorer]:
    """Return every question with each backend's hits for it; empty if no backend answered.

    Documents of several corpora are distinguished by the corpus's name, because two corpora may share ids. ``corpora``
    have the texts of the documents by the name of the corpus; if one is missing, ``no_texts`` says why. Documents that
    are in none have the ``returned`` texts.
    """
    trials = [trial for trial in report.trials if (trial.dataset, trial.label) in runs and trial.questions]
    if not trials:
        return []
    questions = trials[0].questions
    metrics = _ordered_metrics(report, next((trial.metrics for trial in trials if trial.metrics), {}))
    required, depth = required_depths(report), missed_depth(report)
    ids = Ids.of(question.id for question in questions)
    texts = [question.question for question in questions if question.question is not None]
    queries = queries_of(ids, texts) if len(texts) == len(questions) else None
    documents = _matching(report, trials, corpora)
    loaded, of_backends = _documents(report, corpora), _returned(report, trials, returned)
    labels, reference = [compared_name(report, trial) for trial in trials], reference_of(report, None)
    return [
        Explorer(
            query_ids=ids,
            labels=labels,
            reference=labels.index(reference) if reference in labels else 0,
            runs=[_ranking(report, trial, runs[trial.dataset, trial.label]) for trial in trials],
            metrics=metrics,
            unjudgeable=f"a check of {len(report.corpora)} corpora cannot be judged: labels name one's"
            if len(report.corpora) > 1
            else "",
            depths=[required.get(name, depth) for name in metrics],
            values=_values(trials, metrics),
            queries=queries,
            explain=explain_command(report),
            corpora=[info.name for info in report.corpora] if len(report.corpora) > 1 else (),
            qrels=replace(
                _judgments(trials, documents, with_models=True),
                human=_judgments(trials, documents, with_models=False)
                if any(expected.by_model for question in questions for expected in question.expected)
                else None,
            ),
            relevance=report.golden_set.relevance,
            corpus=_joined(loaded, of_backends) if queries is not None else None,
            no_texts=no_texts if report.corpora or of_backends is not None else _NO_TEXTS,
            returned=loaded is None and of_backends is not None,
            expected=_expected(trials, documents),
            failed=np.array([[question.failed for question in trial.questions] for trial in trials]),
            filters=[format_filter(question.filter or {}) for question in questions]
            if any(question.filter for question in questions)
            else (),
            document_values={
                f"{doc}{_suffix(report, trial.dataset)}": value
                for trial in trials
                for question in trial.questions
                for doc, value in zip(question.top, question.top_values, strict=False)  # empty if ids are compared
                if value is not None
            },
        )
    ]


def _ordered_metrics(report: Result, metrics: Iterable[str]) -> list[str]:
    """Return the metrics, those of failed requirements first, then those of the others."""
    ordered = sorted(report.requirements, key=lambda required: required.passed is not False)
    names = list(metrics)
    return list(dict.fromkeys([*(one.quantity for one in ordered if one.quantity in names), *names]))


def _suffix(report: Result, dataset: str) -> str:
    names = [info.name for info in report.corpora]
    return f" · {dataset}" if dataset in names and len(names) > 1 else ""


def _ranking(report: Result, trial: TrialResult, run: Run) -> Run:
    """Return a trial's run as the page shows it: documents with their corpus, and no scores that only count places."""
    positions = np.arange(run.hits) - np.repeat(run.indptr[:-1], np.diff(run.indptr))
    if "against" in trial.parameters and np.array_equal(run.scores, -positions):  # the backend returned only ids
        run = replace(run, scores=np.full(run.hits, np.nan, dtype=np.float32))
    suffix = _suffix(report, trial.dataset)
    return replace(run, doc_ids=_add_suffix(run.doc_ids, suffix)) if suffix else run


def _add_suffix(ids: Ids, suffix: str) -> Ids:
    return Ids(pc.binary_join_element_wise(ids.values, text_scalar(suffix), text_scalar("")))


def _values(trials: Sequence[TrialResult], metrics: Sequence[str]) -> Float64Array | None:
    """Return the values of each question as float64 (R, M, Q), NaN if it expects nothing."""
    rows = [
        [[question.values.get(name, np.nan) for question in trial.questions] for name in metrics] for trial in trials
    ]
    return np.array(rows, dtype=np.float64) if metrics else None


def _matching(
    report: Result, trials: Sequence[TrialResult], corpora: Mapping[str, Corpus]
) -> dict[tuple[str, str], list[str]]:
    """Return the documents that meet each expected id of each question.

    The documents that a backend found; without any, the first documents of the corpora that match.
    """
    documents: dict[tuple[str, str], list[str]] = {}
    unmet: dict[str, list[str]] = {}
    for trial in trials:
        for question in trial.questions:
            for expected in question.expected:
                matching = documents.setdefault((question.id, expected.id), [])
                if expected.hit is not None:
                    matching.append(f"{expected.hit}{_suffix(report, trial.dataset)}")
                unmet.setdefault(expected.id, []).extend(
                    f"{document}{_suffix(report, trial.dataset)}" for document in expected.documents
                )
    missed = {id_: unmet[id_] for (_, id_), matching in documents.items() if not matching}
    match = Match.of(parse_match(report.golden_set.match), report.golden_set.delimiter)
    for name, corpus in corpora.items() if missed and match.by_id else ():
        for doc in corpus.ids:
            owner = match.owner(doc, missed)
            if owner is not None and len(missed[owner]) < _MAX_CHUNKS:
                missed[owner].append(f"{doc}{_suffix(report, name)}")
    return {key: list(dict.fromkeys(matching)) or missed[key[1]] for key, matching in documents.items()}


def _judgments(
    trials: Sequence[TrialResult], documents: Mapping[tuple[str, str], Sequence[str]], *, with_models: bool
) -> Qrels:
    """Return the grade of each document that something expected is met by, question by question."""
    grades: dict[str, dict[str, int]] = {}
    for question in trials[0].questions:
        of_question = grades.setdefault(question.id, {})
        for expected in question.expected:
            if with_models or not expected.by_model:
                of_question.update(dict.fromkeys(documents[question.id, expected.id], expected.grade))
    names = list(dict.fromkeys(chain.from_iterable(grades.values())))
    rows = Ids.of(names).rows_of(Ids.of(list(chain.from_iterable(grades.values()))))
    values = [grade for of_question in grades.values() for grade in of_question.values()]
    indptr = np.cumsum([0, *map(len, grades.values())], dtype=np.int64)
    return Qrels(Ids.of(grades), Ids.of(names), indptr, rows, np.array(values, dtype=np.int32))


def _expected(
    trials: Sequence[TrialResult], documents: Mapping[tuple[str, str], Sequence[str]]
) -> list[list[ExpectedDocuments]]:
    """Return each question's expected documents, with their ranks in the answers of each backend."""
    return [
        [
            ExpectedDocuments(
                expected.id,
                expected.grade,
                [answer.expected[number].rank or 0 for answer in answers],
                documents[answers[0].id, expected.id],
                [answer.expected[number].reference_rank for answer in answers],
                expected.group,
            )
            for number, expected in enumerate(answers[0].expected)
        ]
        for answers in zip(*(trial.questions for trial in trials), strict=True)
    ]


def _returned(report: Result, trials: Sequence[TrialResult], returned: Returned) -> Corpus | None:
    """Return the documents that backends returned with their texts, named as in the rankings."""
    parts = []
    for trial in trials:
        documents = returned.get((trial.dataset, trial.label))
        suffix = _suffix(report, trial.dataset)
        if documents is not None:
            ids = _add_suffix(documents.ids, suffix) if suffix else documents.ids
            parts.append((report.trial_name(trial.label, trial.dataset), replace(documents, ids=ids)))
    return merge_texts(parts)


def _joined(corpus: Corpus | None, further: Corpus | None) -> Corpus | None:
    """Return the documents of a corpus, and those of ``further`` that it lacks."""
    if corpus is None or further is None:
        return further if corpus is None else corpus
    missing = np.flatnonzero(corpus.ids.rows_of(further.ids) < 0).astype(np.int32)
    ids = pa.concat_arrays([corpus.ids.values, strings(further.ids.take(missing))])
    return Corpus(
        Ids(ids), pa.chunked_array([*corpus.texts.chunks, *take_rows(further.texts, missing).chunks], pa.string()), ""
    )


def _documents(report: Result, corpora: Mapping[str, Corpus]) -> Corpus | None:
    """Return the documents of all corpora, named as in the rankings; None if a corpus is missing."""
    loaded = [corpora[info.name] for info in report.corpora if info.name in corpora]
    if not loaded or len(loaded) < len(report.corpora):
        return None
    if len(loaded) == 1:
        return loaded[0]
    suffixes = [_suffix(report, info.name) for info in report.corpora]
    ids = [_add_suffix(corpus.ids, suffix).values for corpus, suffix in zip(loaded, suffixes, strict=True)]
    texts = pa.chunked_array(list(chain.from_iterable(corpus.texts.chunks for corpus in loaded)), pa.string())
    return Corpus(Ids(pa.concat_arrays(ids)), texts, "")
