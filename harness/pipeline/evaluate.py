"""``harness.evaluate``: one call that scores a run or several, in any of their forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from harness.data.columns import parse_columns
from harness.data.dataset import Dataset
from harness.data.frames import FieldNames, as_table, lacking
from harness.data.grouping import require_hits
from harness.data.id_spelling import UNICODE, respelling
from harness.data.judgments import judgment_findings, require_whole_grades
from harness.data.memory import (
    HITS,
    InputShapes,
    Shape,
    are_hits,
    are_predictions,
    first_unfit,
    judgment_shapes,
    part_of_file,
    read_shape,
    run_shapes,
)
from harness.data.problems import Finding
from harness.data.ranking import among_candidates, order, without_excluded, without_identical_ids
from harness.data.types import Corpus, Ids, Qrels, Run
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import trec
from harness.loaders.field_names import refuse_absent_fields
from harness.loaders.structured_files import states_order
from harness.metrics import Metric, QuerySet, Scores, TieRule, parse_metrics, score, with_condensed
from harness.metrics.audit import Audit, audit_run
from harness.metrics.gains import gains_text
from harness.metrics.kind import Release
from harness.metrics.placement import NothingJudgedError
from harness.metrics.registry import kind_of
from harness.pipeline.evaluated_runs import EvaluatedRuns, reference_name, require_pairs, run_names
from harness.plan.config import AUDIT_METRICS, EVAL_METRICS, ScoreOptions
from harness.plan.option_fields import from_keywords, keywords_of, require
from harness.results.findings import JudgedRun, metric_findings, requested_metrics, run_findings
from harness.wording import counted

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


RunLike: TypeAlias = "Run | Mapping[Any, Any] | Sequence[Any] | pd.DataFrame | pa.Table | str | PathLike[str]"
"""A run as one of the shapes of ``harness.data.memory.run_shapes``, its path, or its columns."""
SeveralRuns: TypeAlias = (
    "list[str] | list[Path] | list[Run] | tuple[Run | str | Path, ...] | dict[str, str] | dict[str, Path] | "
    "dict[str, Run]"
)
"""Several runs: a list, or a mapping that names each. They may also be frames and mappings."""
QrelsLike: TypeAlias = (
    "Qrels | Dataset | Mapping[Any, Any] | Sequence[Any] | pd.DataFrame | pa.Table | str | PathLike[str]"
)
"""Judgments as one of the shapes of ``harness.data.memory.judgment_shapes``, their path, or their columns."""

NOTHING_JUDGED = "nothing-judged"
"""The check to accept for a run none of whose documents is judged."""
_MANY_QUERIES = 10
"""This many queries of a run of this dataset do not miss every judged document."""
_FILES = "the path of {}, of another layout of lines, a table or JSON, plain or compressed"


def _is_path(value: object) -> bool:
    return isinstance(value, str | PathLike)


def _judgments_of(dataset: Dataset) -> Qrels:
    qrels = dataset.require_ids().qrels
    if qrels is None:
        raise UsageError(f"the dataset '{dataset.name}' has no judgments", fix="give Dataset.of its qrels")
    return qrels


def _runs(columns: Mapping[str, str]) -> InputShapes[Run]:
    accepted = run_shapes(columns)
    return accepted._replace(
        shapes=(
            Shape(("harness.data.types.Run",), lambda value: isinstance(value, Run), lambda run: run),
            *accepted.shapes,
            Shape((_FILES.format("a TREC run"),), _is_path, lambda path: trec.read_run(path, columns)),
        )
    )


def _judgments(columns: Mapping[str, str]) -> InputShapes[Qrels]:
    accepted = judgment_shapes(columns)
    return accepted._replace(
        shapes=(
            Shape(("harness.data.types.Qrels",), lambda value: isinstance(value, Qrels), lambda qrels: qrels),
            Shape(("a harness.Dataset with judgments",), lambda value: isinstance(value, Dataset), _judgments_of),
            *accepted.shapes,
            Shape((_FILES.format("TREC or BEIR judgments"),), _is_path, lambda path: trec.read_qrels(path, columns)),
        )
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EvaluatedRun(Scores):
    """Scores, and the pitfalls behind them: ``docs/explanation/pitfalls.md``.

    ``judged`` is the scored run, ``requested`` are the measures as they were given. Findings are computed when they are
    first read.
    """

    judged: JudgedRun
    requested: tuple[Metric, ...]
    label_findings: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every pitfall: first of judgments and metrics, then of the run."""
        return (*self.metric_findings, *self.run_findings)

    @cached_property
    def metric_findings(self) -> tuple[Finding, ...]:
        """Return warnings about the judgments, and about requested measures that they cannot support, for any run."""
        judged, requested = self.judged, requested_metrics(self.requested, EVAL_METRICS)
        of_measures = metric_findings(judged.qrels, requested, relevance=judged.relevance, queries=self.queries)
        return (*self.label_findings, *judgment_findings(judged.qrels, judged.relevance), *of_measures)

    @cached_property
    def run_findings(self) -> tuple[Finding, ...]:
        """Return warnings about the run and its scores."""
        return tuple(run_findings(self.judged))


def evaluate_run(
    run: Run,
    qrels: Qrels,
    measures: Sequence[Metric],
    how: ScoreOptions,
    *,
    ordered: bool,
    trec_eval: Release | None = None,
    drops_itself: bool = False,
    corpus: Ids | None = None,
    label_findings: Sequence[Finding] = (),
) -> EvaluatedRun:
    """Return the scores of a columnar run, with its pitfalls; raises as :func:`harness.metrics.score`.

    Args:
        run: Hits, none of them left out.
        qrels: Judgments.
        measures: Measures to compute.
        how: Rules of scoring.
        ordered: As in :class:`harness.results.findings.JudgedRun`.
        trec_eval: Score every answered query, and by default average over these and break ties as this release of
            trec_eval does.
        drops_itself: Whether hits with their query's id were left out, for findings.
        corpus: Ids of the documents that were searched, None if only the run is known.
        label_findings: Warnings about the labels among the judgments.
    """
    ties = TieRule.TREC_EVAL_10 if trec_eval == 10 else TieRule.TREC_EVAL
    try:
        scores = score(
            run,
            qrels,
            with_condensed(measures) if how.judged_only else measures,
            ties=TieRule(how.ties or ties),
            queries=QuerySet(how.queries or (QuerySet.ANSWERED if trec_eval else QuerySet.RELEVANT)),
            relevance=how.relevance,
            unjudged=trec_eval is not None or _may_be_unjudged(run, qrels, corpus, how.accept),
            if_relevant=how.judged_only,
        )
    except NothingJudgedError as error:
        if corpus is not None and len(corpus):
            raise
        fix = f"{error.fix}; if they do, score the run with --accept {NOTHING_JUDGED}: it is 0"
        raise DataError(error.source, error.problems, fix=fix) from error
    judged = JudgedRun(run, qrels, scores, how.relevance, ordered, drops_itself=drops_itself)
    return EvaluatedRun(**vars(scores), judged=judged, requested=tuple(measures), label_findings=tuple(label_findings))


def _may_be_unjudged(run: Run, qrels: Qrels, corpus: Ids | None, accept: Sequence[str]) -> bool:
    """Return whether a run without judged documents may be a run of this dataset, and scores 0.

    The documents decide, if they are known. Without them, fewer than ten queries can miss everything; with more
    queries, or ids in another spelling, it is a mistake unless the user accepts it. If only Unicode normalisation
    distinguishes most judged ids from the run's, the run is scored as trec_eval does, and a finding names the cause.
    """
    if corpus is not None and len(corpus):
        return bool((corpus.rows_of(run.doc_ids) >= 0).any())
    if NOTHING_JUDGED in accept:
        return True
    answered = int((qrels.query_ids.rows_of(run.query_ids) >= 0).sum())
    if bool((qrels.doc_ids.rows_of(run.doc_ids) >= 0).any()):
        return False
    spelled = respelling(qrels.doc_ids.to_list(), run.doc_ids)
    if spelled is not None:
        return spelled.rule == UNICODE and 2 * spelled.met >= len(qrels.doc_ids)
    return answered < _MANY_QUERIES


@overload
def evaluate(
    run: SeveralRuns, qrels: QrelsLike, metrics: str | Iterable[str | Metric] = ..., **options: object
) -> EvaluatedRuns: ...


@overload
def evaluate(
    run: RunLike, qrels: QrelsLike, metrics: str | Iterable[str | Metric] = ..., **options: object
) -> EvaluatedRun: ...


@keywords_of(ScoreOptions)
def evaluate(
    run: SeveralRuns | RunLike,
    qrels: QrelsLike,
    metrics: str | Iterable[str | Metric] = EVAL_METRICS,
    **options: object,
) -> EvaluatedRun | EvaluatedRuns:
    """Score a run, or compare several, by judgments; the command ``harness eval`` is this call.

    Args:
        run: ``{query id: {document id: score}}``, a frame with ``query_id``, ``doc_id``, ``score``, the path of a TREC
            run, or one of the other shapes that ``docs/how-to/score-a-run.md`` lists. Ids that are integers become
            text. A list of runs, or a mapping of names to runs, compares them: the members are paths,
            ``harness.data.types.Run``, frames, or mappings of queries.
        qrels: the same, with grades.
        metrics: names like ``"nDCG@10,AP"`` or ``["nDCG@10", "AP"]``.
        options: as in :class:`harness.plan.config.ScoreOptions`. ``ties`` is ``trec_eval`` (score descending as
            float32, then document id descending), ``trec_eval_10`` (as float64), ``engine`` (the order given) or
            ``average``; ``queries`` is ``relevant``, ``judged`` or ``answered``; ``trec_eval`` takes both as release
            ``"9"`` or ``"10"`` does, with its names of metrics; ``relevance`` is the lowest relevant grade; ``labels``
            are files of later judgments, which are added to ``qrels``; ``columns`` are the
            fields of judgments in the file of a table. With ``identical_ids="drop"`` hits that have their query's id
            are left out first; ``auto`` follows the :class:`harness.Dataset` given as ``qrels``, and otherwise keeps
            them. If a dataset has candidates, as in reranking tasks, only hits among these are scored; documents that
            its queries exclude are left out. Of several runs, ``reference`` is the one with which the others are
            compared (the first by default), ``all_pairs`` compares every pair, and ``seed`` is the seed of intervals
            and tests.

    Returns:
        The scores of one run. For a list of runs, or a mapping of names to runs, an ``EvaluatedRuns``, with a paired
        test of each metric and run, and ``means()`` by run; it has no tests if the mapping has one run. The scores'
        ``findings`` are the pitfalls that the command prints. Metrics are judged when they were options: the default
        ones are not.

    Raises:
        UsageError: an argument has none of the shapes, all of which are listed, or a metric or keyword does not exist.
        DataError: malformed input, a run without any hits, empty judgments, a run that shares no query with them, or a
            run of other documents: none is in the dataset or, if only judgments are given, none is judged for ten
            queries or more (``accept="nothing-judged"`` scores that 0).
        RankingError: scores that are NaN or infinite, except minus infinity, and duplicate documents.
    """
    (how,) = from_keywords("harness.evaluate", options, ScoreOptions, also=("run", "qrels", "metrics"))
    require(how)
    release = release_of(how)
    measures = with_own_gains(_measures(metrics, release or 9), how.gains)
    several = _several_runs(run)
    require_pairs(how, 1 if several is None else len(several))
    if several is None:
        return _evaluate([run], qrels, measures, how)[0]
    names, runs = list(several), list(several.values())
    reference = reference_name(how, names, runs)
    evaluated = dict(zip(names, _evaluate(runs, qrels, measures, how), strict=True))
    return EvaluatedRuns.of(evaluated, _name_of(qrels), how, reference)


def _evaluate(
    runs: Sequence[RunLike], qrels: QrelsLike, measures: Sequence[Metric], how: ScoreOptions
) -> list[EvaluatedRun]:
    """Score each run by the same judgments; raises as :func:`evaluate`."""
    release, columns, judged = release_of(how), parse_columns(how.columns, "columns"), qrels
    if not isinstance(qrels, Dataset):
        qrels = as_qrels(qrels, columns)
    read = [_read(run, qrels, how.identical_ids, columns) for run in runs]
    refuse_absent_fields(columns, [*runs, judged], "columns")
    documents = qrels.corpus if isinstance(qrels, Dataset) else None
    judgments, warnings = with_later_judgments(read[0][1], how.labels, [hits for hits, *_ in read], documents)
    corpus = documents.ids if documents is not None else None
    evaluated = []
    for run, (hits, _, drops) in zip(runs, read, strict=True):
        with _naming(run):
            require_content(hits, judgments)
            scored = without_identical_ids(hits) if drops else hits
            ordered = isinstance(run, str | PathLike) and states_order(run)
            evaluated.append(
                evaluate_run(
                    scored, judgments, measures, how, ordered=ordered, trec_eval=release, drops_itself=drops,
                    corpus=corpus, label_findings=warnings,
                )
            )  # fmt: skip
    return evaluated


def _several_runs(value: object) -> dict[str, Any] | None:
    """Return runs by name if ``value`` is a list or a mapping of runs; None if it is one run."""
    if isinstance(value, Mapping):
        are_runs = all(isinstance(name, str) and _is_run(run) for name, run in value.items())
        return dict(value) if value and are_runs and not are_predictions(value) else None
    if not isinstance(value, list | tuple) or hasattr(value, "_fields") or not value or not all(map(_is_run, value)):
        return None
    if all(isinstance(run, str | PathLike) for run in value):
        if not any(part_of_file(run).path.exists() or Path(run).suffix for run in value):
            return None  # ids of documents, for example
        return dict(zip(run_names([str(run) for run in value]), value, strict=True))
    return {f"run {number}": run for number, run in enumerate(value, 1)}


def _is_run(value: object) -> bool:
    """Return whether a member of a list or mapping is a whole run: the members of one run are its queries or hits."""
    if isinstance(value, Mapping):
        return bool(value) and first_unfit(value, HITS) is None
    if any(hasattr(value, name) for name in ("columns", "column_names")):
        table = as_table(value)
        return table is not None and lacking(table, FieldNames.of_run()) is None
    return isinstance(value, Run | str | PathLike)


def _name_of(qrels: QrelsLike) -> str:
    if isinstance(qrels, str | PathLike):
        return Path(qrels).name
    return qrels.name if isinstance(qrels, Dataset) else "the judgments"


def release_of(how: ScoreOptions) -> Release | None:
    """Return the release of trec_eval whose choices are taken; raises UsageError for a choice of another kind."""
    if how.trec_eval is None:
        return None
    if how.ties is not None or how.queries is not None:
        raise UsageError("--trec-eval settles --queries and --ties", fix="leave out one or the other")
    return 10 if how.trec_eval == "10" else 9


def with_own_gains(measures: Sequence[Metric], gains: str | Mapping[float, float] | None) -> list[Metric]:
    """Return metrics of which nDCG and DCG take these gains, unless they name gains themselves.

    Raises UsageError if no metric takes gains.
    """
    if gains is None:
        return list(measures)
    takes = [any(parameter.name == "gains" for parameter in kind_of(metric.name).parameters) for metric in measures]
    if not any(takes):
        metrics_text = ", ".join(map(str, measures))
        raise UsageError(
            f"--gains changes nDCG and DCG, and the metrics are {metrics_text}", fix="measure nDCG@10, or leave it out"
        )
    return [
        metric.with_parameter("gains", gains if isinstance(gains, str) else gains_text(gains))
        if takes_gains and not {"gains", "dcg"} & dict(metric.parameters).keys()
        else metric
        for metric, takes_gains in zip(measures, takes, strict=True)
    ]


def with_later_judgments(
    qrels: Qrels, labels: Sequence[Path] | None, runs: Iterable[Run], corpus: Corpus | None = None
) -> tuple[Qrels, Sequence[Finding]]:
    """Return judgments with the grades of files of labels, and warnings about these; None for no file.

    Labels of other texts are left out if the documents, ``corpus``, are known. Raises DataError and UsageError for a
    file that cannot be read, that contradicts the judgments, none of whose queries is judged or in one of the ``runs``,
    or that names a document which the known documents lack.
    """
    if labels is None:
        return qrels, ()
    from harness.data.labels import only_labels, read_labels, refuse_foreign, settle, with_labels

    later = only_labels(read_labels(labels))
    labelled = {label.query_id for label in later}
    if all(labelled.isdisjoint(ids) for ids in (qrels.query_ids, *(run.query_ids for run in runs))):
        problem = f"none of {counted(len(labelled), 'query')} is judged or in a run, such as '{min(labelled)}'"
        raise DataError(", ".join(map(str, labels)), [problem], fix="give labels of this dataset")
    settled = settle(later, corpus)
    if corpus is not None and len(corpus):
        refuse_foreign(settled.grades, documents=corpus.ids)
    return with_labels(qrels, settled), settled.findings


def audit(
    run: RunLike,
    qrels: QrelsLike,
    metrics: str | Iterable[str | Metric] = AUDIT_METRICS,
    *,
    identical_ids: str = "auto",
    published: str | None = None,
    columns: Mapping[str, str] | str | Iterable[str] = MappingProxyType({}),
) -> Audit:
    """Score a run under the conventions of other tools and explain how they differ; ``harness eval --audit``.

    The tools are trec_eval 9 and 10, Anserini, BEIR, MTEB, sentence-transformers and ranx
    (``docs/explanation/conventions.md``). ``run``, ``qrels`` and ``metrics`` are as in :func:`evaluate`. Anserini and
    MTEB drop hits that have their query's id for some data sets only: ``identical_ids`` is their rule and this
    package's here. ``published`` is a number from a paper as printed, ``"0.397"`` or ``"nDCG@10=39.7"``; the audit
    names the conventions, and single changes of them, that give it. ``columns`` are fields by role, as in
    :func:`evaluate`.

    Raises:
        UsageError: as :func:`evaluate`; a metric that is a sum or a geometric mean; a published value that is none.
        DataError: as :func:`evaluate`.
        RankingError: as :func:`evaluate`.
    """
    measures, columns_by_role = _measures(metrics), parse_columns(columns, "columns")
    hits, judgments, drops = _read(run, qrels, identical_ids, columns_by_role)
    refuse_absent_fields(columns_by_role, [run, qrels], "columns")
    with _naming(run):
        require_content(hits, judgments)
        require_whole_grades(judgments, "judgments")  # the other tools read whole numbers
        return audit_run(hits, judgments, measures, drop_identical=drops, published=published)


def p_mrr(original: RunLike, changed: RunLike, documents: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return p-MRR of each query: how far a changed instruction moves documents that it makes irrelevant.

    FollowIR (Weller et al., arXiv 2403.15246), as MTEB computes it. A document at rank r under the original instruction
    and at rank s under the changed instruction has ``1 - r / s`` if it fell, else ``s / r - 1``: from -1 to 1, above 0
    if the change was followed. A query has the mean of its documents, and a task the mean of its queries.

    Args:
        original: the run of the original instructions, in any of the shapes of :func:`evaluate`. Ranks follow the one
            ordering; a document that is not in the run comes after its last hit.
        changed: the run of the changed instructions. May be the same run if, as in MTEB's tasks, query ``7`` is sent as
            ``7-og`` and as ``7-changed``.
        documents: the documents whose relevance changed, by query. Queries that neither run holds are left out.

    Raises:
        DataError: a query that only one run holds, or none that both hold.
        UsageError, RankingError: as :func:`evaluate`.
    """
    before, after = _rankings(original, "-og"), _rankings(changed, "-changed")
    values = {}
    for query, ids in documents.items():
        if isinstance(ids, str):
            raise UsageError(f"the documents of query '{query}' are a text: '{ids}'", fix="give a list of ids")
        ranks = [(before(query, document), after(query, document)) for document in ids]
        if any((r is None) != (s is None) for r, s in ranks):
            raise DataError("run", [f"query '{query}' is in only one of the runs"], fix="ask both of the same queries")
        moved = [1 - r / s if r < s else s / r - 1 for r, s in ranks if r is not None and s is not None]
        if moved:
            values[query] = float(np.mean(moved))
    if not values:
        raise DataError(
            "run", ["no query whose documents changed is in the runs"], fix="give the runs of these queries"
        )
    return values


def _rankings(run: RunLike, suffix: str) -> Callable[[str, str], int | None]:
    """Return a lookup of a document's rank for a query, with or without the suffix; None for an unknown query."""
    ordered = order(as_run(run))
    ranks: dict[str, dict[str, int]] = {}
    for row, query in enumerate(ordered.query_ids):
        hits = ordered.doc_ids.take(ordered.rows[ordered.of_query(row)])
        ranks[query] = {document: rank for rank, document in enumerate(hits, start=1)}

    def rank_of(query: str, document: str) -> int | None:
        of_query = ranks.get(f"{query}{suffix}", ranks.get(query))
        return None if of_query is None else of_query.get(document, len(of_query) + 1)

    return rank_of


def _read(
    run: RunLike, qrels: QrelsLike, identical_ids: str, columns: Mapping[str, str] | None = None
) -> tuple[Run, Qrels, bool]:
    """Return the run, the judgments, and whether hits that have their query's id are to be dropped."""
    if identical_ids not in ("auto", "keep", "drop"):
        raise UnknownNameError("rule for identical ids", str(identical_ids), ("auto", "keep", "drop"))
    of_dataset = qrels.identical_ids if isinstance(qrels, Dataset) else None
    drops = identical_ids == "drop" or (identical_ids == "auto" and of_dataset == "drop")
    unnumbered = are_hits(run)
    if unnumbered and isinstance(qrels, Dataset):
        run, unnumbered = _runs_by_query(run, qrels), False
    hits, judgments = as_run(run, columns or {}), as_qrels(qrels, columns or {})
    if unnumbered and hits.hits:
        _refuse_unnumbered(hits, judgments)
    if isinstance(qrels, Dataset) and qrels.candidates is not None:
        hits = among_candidates(hits, qrels.candidates)
    if isinstance(qrels, Dataset) and qrels.excluded is not None:
        hits = without_excluded(hits, qrels.excluded)
    return hits, judgments, drops


@contextmanager
def _naming(run: RunLike) -> Iterator[None]:
    """Name the file of a run that cannot be scored."""
    try:
        yield
    except DataError as error:
        if error.source == "run" and isinstance(run, str | PathLike):
            raise DataError(str(run), error.problems, fix=error.fix) from error
        raise


def as_run(run: RunLike, columns: Mapping[str, str] = MappingProxyType({})) -> Run:
    """Return the columnar run in any of the shapes that :func:`evaluate` takes; ``columns`` are fields by role."""
    return read_shape(run, _runs(columns))


def as_qrels(qrels: QrelsLike, columns: Mapping[str, str] = MappingProxyType({})) -> Qrels:
    """Return the columnar judgments in any of the shapes that :func:`evaluate` takes, with ``columns`` likewise."""
    return read_shape(qrels, _judgments(columns))


def _runs_by_query(run: Any, dataset: Dataset) -> Mapping[str, Any]:
    """Return sentence-transformers' lists by the ids of the dataset's queries, whose order they have.

    If every ``corpus_id`` is an integer, it is the position of a document, as ``semantic_search`` gives it.
    """
    if len(run) != len(dataset.queries):
        queries = counted(len(dataset.queries), "query")
        problem = f"the run has {counted(len(run), 'list')}, and the dataset '{dataset.name}' {queries}"
        raise UsageError(problem, fix="give one list for each query, in the dataset's order")
    documents = [hit["corpus_id"] for hits in run for hit in hits]
    if documents and all(isinstance(document, int | np.integer) for document in documents):
        positions = np.array(documents, dtype=np.int64)
        if positions.min() < 0 or positions.max() >= len(dataset.corpus):
            problem = f"the run names documents by position, from {positions.min():,} to {positions.max():,}"
            raise UsageError(
                f"{problem}, and '{dataset.name}' has {len(dataset.corpus):,}",
                fix="give ids that are documents' as text",
            )
        ids = iter(dataset.corpus.ids.take(positions))
        run = [[{**hit, "corpus_id": next(ids)} for hit in hits] for hits in run]
    return dict(zip(dataset.queries.ids, run, strict=True))


def _refuse_unnumbered(run: Run, judgments: Qrels) -> None:
    """Refuse a run of lists without query ids if judgments name queries otherwise than by their numbers."""
    run_queries = set(run.query_ids)
    missing = [query for query in judgments.query_ids if query not in run_queries]
    if missing:
        raise UsageError(
            f"the run's {counted(len(run.query_ids), 'list')} name no query, so that they are numbered from 0, and the "
            f"judgments name {counted(len(missing), 'query', 'queries')} otherwise, such as '{missing[0]}'",
            fix="give {query id: list}, or a harness.Dataset in place of the judgments, in whose order the lists are",
        )


def require_content(run: Run, qrels: Qrels) -> None:
    """Refuse a run without any hits, which failed and has no score, and judgments of nothing, which give none."""
    require_hits(run, "run")
    if not len(qrels):
        raise DataError("judgments", ["there are none"], fix="give at least one judged document")


def _measures(metrics: str | Iterable[str | Metric], release: Release = 9) -> list[Metric]:
    """Parse metrics, even measures by their names again, so that a hand-made one is checked too."""
    if not isinstance(metrics, Iterable):
        raise UsageError(
            f"the metrics are of type {type(metrics).__name__}", fix="give a text like 'nDCG@10,AP' or a list of names"
        )
    return parse_metrics(metrics if isinstance(metrics, str) else [str(metric) for metric in metrics], release)
