"""The dataset's part of the report: of a dataset, and of a corpus with a golden set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from harness.data.dataset import Dataset, IdenticalIds
from harness.data.exclusions import count_excluded, excluded_digest
from harness.data.filtering import FilterResult, QueryFilters
from harness.data.types import Ids, LabelModel
from harness.plan.plan import Plan
from harness.results import schema_base

LEFT_OUT = "empty documents left out"
"""The key under which the provenance of a corpus counts empty documents."""


def dataset_info(dataset: Dataset, plan: Plan, full_dataset: Dataset) -> schema_base.DatasetInfo:
    """Return name, content and size of the searched dataset; ``full_dataset`` is before any sample."""
    qrels = dataset.qrels
    judged = relevant = judgments = 0
    content = f"{dataset.corpus.digest}\n{dataset.queries.digest}\n".encode()
    contents: list[bytes] = []  # of all judgments, and of people's
    for part in (qrels, qrels.human) if qrels is not None else ():
        if part is not None:
            arrays = [part.indptr, part.rows, part.grades, *([] if part.groups is None else [part.groups])]
            columns = (np.ascontiguousarray(column).tobytes() for column in arrays)
            ids = "\n".join([*part.query_ids.to_list(), *part.doc_ids.to_list()])
            contents.append(b"".join(columns) + ids.encode())
    if qrels is not None:
        judged, judgments = len(qrels.query_ids), len(qrels)
        owner = np.repeat(np.arange(judged), np.diff(qrels.indptr))
        relevant = len(np.unique(owner[qrels.grades >= plan.request.relevance]))
    candidates = dataset.candidates_digest if dataset.candidates is not None else None
    excluded = excluded_digest(dataset.excluded, dataset.queries.ids) if dataset.excluded else None
    content += b"".join(contents[:1]) + f"{candidates or ''}{excluded or ''}".encode()
    searched, filtered = len(dataset.queries), dataset.filtered
    shared = filtered.shared if filtered is not None else None
    # queries and documents share row numbers by chance
    identical_matter = dataset.vectors is None or dataset.identical_ids == "drop"
    return schema_base.DatasetInfo(
        name=dataset.name,
        sha256=hashlib.sha256(content).hexdigest(),
        documents=len(dataset.corpus),
        empty_documents=len(dataset.corpus.empty_rows),
        queries=schema_base.QueryCounts(
            searched=searched, judged=judged, relevant=relevant, without_id=dataset.queries.ids.count_line_ids()
        ),
        judgments=judgments,
        sampled_from=len(full_dataset.queries) if searched < len(full_dataset.queries) else None,
        documents_sampled_from=len(full_dataset.corpus) if len(dataset.corpus) < len(full_dataset.corpus) else None,
        identical_ids=identical_ids_info(dataset.corpus.ids, dataset.queries.ids, dataset.identical_ids)
        if identical_matter
        else None,
        provenance=dict(dataset.provenance),
        excluded=excluded_info(dataset.excluded, dataset.queries.ids, dataset.corpus.ids) if dataset.excluded else None,
        filter=_filter_info(dataset, shared, plan.request.relevance) if shared is not None else None,
        query_filters=query_filter_infos(filtered, len(dataset.corpus), dataset.queries.ids)
        if filtered is not None and shared is None
        else [],
        candidates=_candidates_info(dataset) if dataset.candidates is not None else None,
        unread_files=dict(dataset.unread_files),
        model_labels=_model_labels(len(qrels) - len(qrels.human), qrels.models, hashlib.sha256(contents[1]).hexdigest())
        if qrels is not None and qrels.human is not None
        else None,
        content=schema_base.ContentDigests(
            documents=dataset.corpus.digest,
            queries=hashlib.sha256(dataset.queries.digest.encode()).hexdigest(),
            judgments=hashlib.sha256(contents[0]).hexdigest() if qrels is not None else None,
            candidates=candidates,
            excluded=excluded,
        ),
    )


def _model_labels(labels: int, models: Iterable[LabelModel], human_sha256: str) -> schema_base.LabelsByModels:
    return schema_base.LabelsByModels(labels=labels, models=label_models(models), human_sha256=human_sha256)


def label_models(models: Iterable[LabelModel]) -> list[schema_base.LabelModelInfo]:
    """Return the records of models that gave labels."""
    return [schema_base.LabelModelInfo(**model._asdict()) for model in models]


def label_models_of(labels: schema_base.LabelsByModels) -> tuple[LabelModel, ...]:
    """Return the models of a record."""
    return tuple(LabelModel(**model.model_dump()) for model in labels.models)


def missing_dataset(name: str, error: schema_base.ErrorInfo) -> schema_base.DatasetInfo:
    """Return the known facts about a dataset that could not be loaded."""
    return schema_base.DatasetInfo(
        name=name,
        sha256="",
        documents=0,
        empty_documents=0,
        queries=schema_base.QueryCounts(searched=0, judged=0, relevant=0, without_id=0),
        judgments=0,
        sampled_from=None,
        provenance={},
        filter=None,
        error=error,
    )


def identical_ids_info(documents: Ids, queries: Ids, rule: IdenticalIds | None) -> schema_base.IdenticalIdsInfo:
    """Return the rule, "keep" if there is none, and the number of queries that it concerns."""
    return schema_base.IdenticalIdsInfo(
        rule=rule or "keep", queries=int(np.count_nonzero(documents.rows_of(queries) >= 0))
    )


def excluded_info(excluded: Mapping[str, Sequence[str]], queries: Ids, documents: Ids) -> schema_base.ExcludedInfo:
    """Count what queries exclude."""
    return schema_base.ExcludedInfo(**count_excluded(excluded, queries, documents)._asdict())


def _candidates_info(dataset: Dataset) -> schema_base.CandidatesInfo | None:
    if dataset.candidates is None:
        return None
    counts = [len(set(dataset.candidates[query])) for query in dataset.queries.ids]
    return schema_base.CandidatesInfo(fewest=min(counts), most=max(counts), searched=len(dataset.corpus))


def query_filter_infos(
    filtered: QueryFilters, documents: int, queries: Ids | None = None
) -> list[schema_base.QueryFilterInfo]:
    """Describe the different filters of queries. No ``documents``: they are not known.

    ``queries`` are the ids of all queries, which are stored with their filters.
    """
    return [
        schema_base.QueryFilterInfo(
            fields=dict(group.conditions),
            queries=len(filtered.rows_of(number)),
            query_ids=queries.take(filtered.rows_of(number)) if queries is not None else [],
            matching=len(group) if documents else None,
            selectivity=len(group) / documents if documents else None,
        )
        for number, group in enumerate(filtered.groups)
    ]


def _filter_info(dataset: Dataset, filtered: FilterResult, relevance: int) -> schema_base.FilterInfo:
    qrels = dataset.qrels
    relevant = reachable = 0
    if qrels is not None:
        searched = np.repeat(dataset.queries.ids.rows_of(qrels.query_ids) >= 0, np.diff(qrels.indptr))
        rows = dataset.corpus.ids.rows_of(qrels.doc_ids)[qrels.rows[searched & (qrels.grades >= relevance)]]
        relevant = len(rows)
        reachable = int(np.count_nonzero((rows >= 0) & filtered.matching[rows]))
    return schema_base.FilterInfo(
        fields=dict(filtered.conditions),
        matching=len(filtered),
        selectivity=len(filtered) / len(dataset.corpus),
        relevant=relevant,
        relevant_matching=reachable,
    )


class GoldenContent(NamedTuple):
    """A question with the ids that it expects, their grades, and its filter; ``human`` are those not by models."""

    id: str
    question: str
    expected: Sequence[tuple[str, int]]
    filter: Mapping[str, str] = MappingProxyType({})
    human: Sequence[tuple[str, int]] = ()


class CorpusContent(NamedTuple):
    """Documents by their name, digest and number; no digest if backends have their own documents."""

    name: str
    sha256: str | None = None
    documents: int = 0
    empty_documents: int = 0
    empty_left_out: int = 0
    identical_ids: schema_base.IdenticalIdsInfo | None = None
    unread_files: Mapping[str, int] = MappingProxyType({})
    excluded: schema_base.ExcludedInfo | None = None
    filters: Sequence[schema_base.QueryFilterInfo] = ()


def golden_dataset(
    corpus: CorpusContent,
    source: str,
    sha256: str,
    questions: Sequence[GoldenContent],
    expecting: int,
    *,
    without_id: int,
    models: Sequence[LabelModel] = (),
) -> schema_base.DatasetInfo:
    """Return a corpus with a golden set, of that ``source`` and digest, for queries and judgments.

    ``expecting`` questions expect something that counts as relevant, ``without_id`` go by their line. ``models`` gave
    some of the expectations.
    """
    judgments = sum(len(question.expected) for question in questions)
    judgments_sha256, human_sha256 = (
        _digest(f"{question} {doc_id} {grade}" for question, of_question in expected for doc_id, grade in of_question)
        for expected in (
            [(question.id, question.expected) for question in questions],
            [(question.id, question.human) for question in questions],
        )
    )
    provenance = {"golden set": source}
    if corpus.sha256 is not None:
        provenance["corpus_sha256"] = corpus.sha256
    if corpus.empty_left_out:
        provenance[LEFT_OUT] = str(corpus.empty_left_out)
    return schema_base.DatasetInfo(
        name=corpus.name,
        sha256=_digest([sha256, corpus.sha256 or ""]),
        documents=corpus.documents,
        empty_documents=corpus.empty_documents,
        queries=schema_base.QueryCounts(
            searched=len(questions), judged=expecting, relevant=expecting, without_id=without_id
        ),
        judgments=judgments,
        model_labels=_model_labels(judgments - sum(len(question.human) for question in questions), models, human_sha256)
        if models
        else None,
        sampled_from=None,
        filter=None,
        query_filters=list(corpus.filters),
        provenance=provenance,
        identical_ids=corpus.identical_ids,
        unread_files=dict(corpus.unread_files),
        excluded=corpus.excluded,
        content=schema_base.ContentDigests(
            documents=corpus.sha256 or "",
            queries=_digest(_line(question) for question in questions),
            judgments=judgments_sha256,
        ),
    )


def _line(question: GoldenContent) -> str:
    """Return a question as its digest reads it; filters count only if there are any."""
    line = f"{question.id} {question.question}"
    return f"{line} {sorted(question.filter.items())}" if question.filter else line


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
