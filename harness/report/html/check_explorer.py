"""The list of questions of a check's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings, text_scalar
from harness.data.types import Corpus, Float64Array, Ids, Qrels, Queries, Run
from harness.report.html.explorer import NO_ANSWER, Expectations, Explorer
from harness.results.check_schema import CheckReport, CheckSubject

__all__ = ["explorer_of"]

_LONGEST_RANK = 65_534
_OWN_DOCUMENTS = "Texts of documents are not in this file: the retrievers have their own, and gave ids alone."


def explorer_of(
    report: CheckReport, runs: Mapping[str, Run], corpora: Mapping[str, Corpus], no_texts: str
) -> Explorer | None:
    """Every question with what each retriever found for it; None where none answered.

    Documents of several corpora are told apart by the name of theirs, because two corpora may share ids.
    """
    subjects = [one for one in report.subjects if one.label in runs and one.questions]
    if not subjects:
        return None
    suffixes = {one.label: _suffix(report, one.corpus) for one in subjects}
    questions = subjects[0].questions
    metrics = list(next((one.metrics for one in subjects if one.metrics), {}))
    texts = [one.question for one in questions]
    ids = Ids.of(one.id for one in questions)
    told = Queries(ids, pa.chunked_array([strings(texts)]), "") if None not in texts else None
    ranked = [_named(_scored(runs[one.label], one), suffixes[one.label]) for one in subjects]
    return Explorer(
        query_ids=ids,
        labels=[one.label for one in subjects],
        runs=ranked,
        metrics=metrics,
        values=_values(subjects, metrics),
        queries=told,
        qrels=_judgments(subjects, suffixes),
        relevance=report.golden.relevance,
        corpus=_documents(report, corpora) if told is not None else None,
        no_texts=no_texts if report.corpora else _OWN_DOCUMENTS,
        expectations=_expectations(subjects),
    )


def _suffix(report: CheckReport, corpus: str | None) -> str:
    return f" · {corpus}" if corpus is not None and len(report.corpora) > 1 else ""


def _scored(run: Run, subject: CheckSubject) -> Run:
    """The run, without the scores that stand for the order of a retriever which gave ids alone: minus the place."""
    places = np.arange(run.hits) - np.repeat(run.indptr[:-1], np.diff(run.indptr))
    if subject.corpus is not None or not np.array_equal(run.scores, -places):
        return run
    return Run(run.query_ids, run.doc_ids, run.indptr, run.rows, np.full(run.hits, np.nan, dtype=np.float32))


def _named(run: Run, suffix: str) -> Run:
    """The run with ``suffix`` behind each document's id."""
    if not suffix:
        return run
    return Run(run.query_ids, _with_suffix(run.doc_ids, suffix), run.indptr, run.rows, run.scores)


def _with_suffix(ids: Ids, suffix: str) -> Ids:
    return Ids(pc.binary_join_element_wise(ids.values, text_scalar(suffix), text_scalar("")))


def _values(subjects: Sequence[CheckSubject], metrics: Sequence[str]) -> Float64Array | None:
    """Values of each question as float64 (R, M, Q), NaN where it expects nothing."""
    if not metrics:
        return None
    rows = [
        [[question.values.get(name, np.nan) for question in subject.questions] for name in metrics]
        for subject in subjects
    ]
    return np.array(rows, dtype=np.float64)


def _judgments(subjects: Sequence[CheckSubject], suffixes: Mapping[str, str]) -> Qrels:
    """The documents that were found for what was expected; what was not found is told by the expectations."""
    grades: dict[str, dict[str, int]] = {}
    for subject in subjects:
        for question in subject.questions:
            of_question = grades.setdefault(question.id, {})
            for one in question.expected:
                if one.found is not None:
                    of_question[f"{one.found}{suffixes[subject.label]}"] = one.grade
    documents = list(dict.fromkeys(chain.from_iterable(grades.values())))
    rows = Ids.of(documents).rows_of(Ids.of(list(chain.from_iterable(grades.values()))))
    values = [grade for of_question in grades.values() for grade in of_question.values()]
    indptr = np.cumsum([0, *map(len, grades.values())], dtype=np.int64)
    return Qrels(Ids.of(grades), Ids.of(documents), indptr, rows, np.array(values, dtype=np.int32))


def _expectations(subjects: Sequence[CheckSubject]) -> Expectations:
    expected = [one for question in subjects[0].questions for one in question.expected]
    ranks = [
        [
            NO_ANSWER if question.failed else min(one.rank or 0, _LONGEST_RANK)
            for question in subject.questions
            for one in question.expected
        ]
        for subject in subjects
    ]
    return Expectations(
        indptr=np.cumsum([0, *(len(question.expected) for question in subjects[0].questions)], dtype=np.int64),
        names=[one.id for one in expected],
        grades=np.clip([one.grade for one in expected], -(2**15), 2**15 - 1).astype(np.int16),
        ranks=np.array(ranks, dtype=np.uint16),
    )


def _documents(report: CheckReport, corpora: Mapping[str, Corpus]) -> Corpus | None:
    """The documents of all corpora, under the names that the rankings have for them; None where one is missing."""
    named = [corpora.get(one.name) for one in report.corpora]
    known = [one for one in named if one is not None]
    if not known or len(known) < len(named):
        return None
    if len(known) == 1:
        return known[0]
    suffixes = [_suffix(report, one.name) for one in report.corpora]
    ids = [_with_suffix(one.ids, suffix).values for one, suffix in zip(known, suffixes, strict=True)]
    texts = pa.chunked_array(list(chain.from_iterable(one.texts.chunks for one in known)), pa.string())
    return Corpus(Ids(pa.concat_arrays(ids)), texts, "")
