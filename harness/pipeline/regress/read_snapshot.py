"""Read one of two results from wherever the user says that it is: a result folder of any verb, or a baseline file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.labels import grades_of
from harness.data.memory import qrels_from_dict
from harness.data.ranking import TieRule
from harness.data.types import Ids, Qrels, Run
from harness.errors import ResultError
from harness.pipeline.check.id_match import ExpectedDocuments, Match, MatchRule
from harness.pipeline.check.text_match import TextMatch
from harness.plan.config import GATE_OPTIONS
from harness.plan.option_values import parse_match
from harness.results.baseline import read_baseline
from harness.results.check_schema import QuestionResult
from harness.results.comparison import Comparison
from harness.results.dataset_info import label_models_of
from harness.results.schema import Result, TrialResult
from harness.results.schema_base import DatasetInfo, ErrorInfo, PlanRecord
from harness.results.snapshot import RenamedRun, ResultSnapshot, snapshots_of
from harness.results.stored import read_report, read_stored_run
from harness.store.result_folder import REPORT_NAME

RunOf = Callable[[str, str], Run]
_OF_NO_CONSEQUENCE = {
    "corpora", "against", "require", "confidence", "slice", "no_text", "notes", "baseline", *GATE_OPTIONS
}  # fmt: skip
"""Settings of a check that change no figure of a question, and settings that the data and the backends report."""


def read_snapshots(path: Path) -> list[ResultSnapshot]:
    """Read a result folder of ``compare`` or ``check``, its ``report.json``, or a baseline file, by dataset.

    Each corpus of a check is a dataset; backends with their own documents belong to the only corpus, or else to a
    separate dataset.

    Raises ResultError if it is none of them, damaged, or of another schema.
    """
    folder = path.parent if path.name == REPORT_NAME else path
    snapshots = _folder_snapshots(folder) if folder.is_dir() else read_baseline(folder)
    if not snapshots:
        raise ResultError(f"'{path}' is damaged: its report names no dataset", fix="give a result as harness wrote it")
    return snapshots


def _folder_snapshots(folder: Path) -> list[ResultSnapshot]:
    result = read_report(folder)
    if result.kind == "diff":
        raise ResultError(
            f"'{folder}' holds the result of `harness diff`, not a result to compare",
            fix="name one of the two results that were compared",
        )
    if result.kind != "check":
        return snapshots_of(Comparison.load(folder))
    return check_snapshots(result, str(folder), lambda dataset, label: read_stored_run(folder, dataset, label))


def check_snapshots(result: Result, source: str, run_of: RunOf) -> list[ResultSnapshot]:
    """Return a check by corpus; raises ResultError for a check without scores.

    ``source`` is its folder or ``this run``; ``run_of`` returns the hits of a trial by its dataset and label.

    Metrics keep the names that the check shows (``Hit@5``). Judgments are the questions' expectations. If an expected
    id represents its chunks (``--match document`` or ``prefix``), the first chunk of each in a ranking gets that id,
    and nothing can be scored again: a label may be of another chunk of the same document.
    """
    answered = [trial for trial in result.trials if trial.questions]
    if not answered:
        reason = result.preflight[0].message if result.preflight else "every backend failed"
        raise ResultError(f"nothing was scored by the check in '{source}': {reason}", fix="correct it, and check again")
    if len(result.corpora) > 1:
        return [
            _dataset_snapshot(source, result.on(info.name), run_of)
            for info in result.datasets
            if result.of_dataset(info.name)
        ]
    return [_dataset_snapshot(source, result, run_of)]


def baseline_report(result: Result, parts: Sequence[ResultSnapshot]) -> Result:
    """Return the report of a check as a baseline holds it: as ``parts`` have it, without questions and verdicts."""
    return result.model_copy(
        update={
            "plan": PlanRecord(arguments=result.plan.arguments, resolved=parts[0].report.plan.resolved),
            "datasets": [part.report.dataset for part in parts],
            "trials": [trial for part in parts for trial in part.report.trials],
            "requirements": [], "preflight": [], "warnings": [], "verdict": None, "change": None,
        }
    )  # fmt: skip


def _dataset_snapshot(source: str, result: Result, run_of: RunOf) -> ResultSnapshot:
    """Return the part of a check on one corpus; if no backend answered, the dataset has their error."""
    answered = {trial.label: trial for trial in result.trials if trial.questions}
    questions = next((trial.questions for trial in answered.values()), [])
    exact = result.golden_set.match == MatchRule.EXACT and not result.golden_set.matched
    texts = {question.id: question.question for question in questions if question.question is not None}
    stored = _StoredExpectations.of(result)
    return ResultSnapshot(
        source=source,
        report=_as_comparison(result),
        figures={label: _figures(trial) for label, trial in answered.items()},
        hits=lambda label: run_of(answered[label].dataset, label) if label in answered else None,
        texts=texts,
        digests={question.id: question.text_digest for question in questions},
        qrels=_judgments(questions, result.datasets),
        human={label: _figures(trial, lambda question: question.human) for label, trial in answered.items()}
        if any(info.model_labels is not None for info in result.datasets)
        else {},
        kind="check",
        rescorable=exact,
        rename=None if exact else partial(_rename_hits, _owners_in(result)),
        judgments_of=None if exact else stored.judgments_of,
        forbidden_of=stored.forbidden_of if any(question.forbidden for question in questions) else None,
    )


def _figures(
    trial: TrialResult, values_of: Callable[[QuestionResult], Mapping[str, float]] = lambda question: question.values
) -> dict[str, dict[str, float]]:
    """Return metric to question to value, of the questions that the metric is about."""
    return {
        name: {question.id: values[name] for question in trial.questions if name in (values := values_of(question))}
        for name in trial.metrics
    }


def _judgments(questions: Sequence[QuestionResult], datasets: Sequence[DatasetInfo]) -> Qrels:
    """Return the expectations of questions as judgments."""
    models = {model: None for info in datasets if info.model_labels for model in label_models_of(info.model_labels)}
    groups = {question.id: {one.id: one.group for one in question.expected} for question in questions}
    judged, human = (
        qrels_from_dict(
            {
                question.id: expected
                for question in questions
                if (expected := {one.id: one.grade for one in question.expected if with_models or not one.by_model})
            }
        ).with_groups(groups)
        for with_models in (True, False)
    )
    return judged if len(human) == len(judged) else replace(judged, human=human, models=models)


@dataclass(frozen=True, eq=False, slots=True)
class _StoredExpectations:
    """The expectations of a check against the documents that its result names, as the check compared them.

    ``forbidden`` are pairs of a question and a document that the result calls a forbidden hit.
    """

    expected: ExpectedDocuments
    forbidden: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, result: Result) -> _StoredExpectations:
        """Read the expectations of a result, and which documents match them."""
        answers = [question for trial in result.trials for question in trial.questions]
        values, texts = dict[str, str](), dict[str, dict[str, TextMatch]]()
        for question in answers:
            pairs = zip(question.top, question.top_values, strict=False)
            values.update((document, value) for document, value in pairs if value is not None)
            for expectation in question.expected:
                if expectation.matched_by not in (None, "field"):
                    for document in dict.fromkeys([str(expectation.hit), *expectation.documents]):
                        texts.setdefault(document, {})[expectation.id] = TextMatch(str(expectation.matched_by))
        info = result.golden_set
        match = replace(Match.of(parse_match(info.match), info.delimiter), values=values, texts=texts)
        golden, human = (
            GoldenSet(info.name, info.source, tuple(questions.values()), info.sha256)
            for questions in (
                {question.id: _golden_question(question, with_models=with_models) for question in answers}
                for with_models in (True, False)
            )
        )
        golden = golden if human.questions == golden.questions else replace(golden, human=human)
        hits = frozenset((question.id, document) for question in answers for document in question.forbidden_hits)
        return cls(ExpectedDocuments(golden, match, None), hits)

    def judgments_of(self, run: Run) -> Qrels:
        """Return judgments by which to score a ranking in the order of its hits."""
        return self.expected.judgments(run, TieRule.ENGINE)

    def forbidden_of(self, run: Run) -> Qrels:
        """Return the hits of a ranking that questions forbid; of a question without any, the forbidden ids."""
        forbidden = {question.id: question for question in self.expected.golden if question.forbidden}
        rows = dict(zip(forbidden, run.query_ids.rows_of(Ids.of(forbidden)).tolist(), strict=True))
        judged = {}
        for query, row in rows.items():
            ranked = run.doc_ids.take(run.rows[run.of_query(row)]) if row >= 0 else []
            by_name = set(self.expected.forbidden_hits(forbidden[query], ranked))
            hits = [document for document in ranked if document in by_name or (query, document) in self.forbidden]
            judged[query] = dict.fromkeys(hits or forbidden[query].forbidden, 1)
        return qrels_from_dict(judged)


def _golden_question(question: QuestionResult, *, with_models: bool) -> GoldenQuestion:
    """Return a question of a result as its golden set has it, without fields, and perhaps without models' labels."""
    expected = tuple(
        Expectation(one.id, one.grade, one.group) for one in question.expected if with_models or not one.by_model
    )
    forbidden = tuple(question.forbidden)
    return GoldenQuestion(question.id, question.question or "", expected, {}, question.line, forbidden=forbidden)


def _owners_in(result: Result) -> Callable[[str, str, Mapping[str, object]], str | None]:
    """Return a function of a query, a document and expected ids, which returns the id that the document represents.

    Documents that match by text or by a field are those that the result names: the first hit of each expectation in
    each trial, and its first documents.
    """
    match = Match.of(parse_match(result.golden_set.match), result.golden_set.delimiter)
    by_content: dict[tuple[str, str], str] = {}
    for question in (question for trial in result.trials for question in trial.questions):
        for expected in question.expected:
            hits = [expected.hit] if expected.hit is not None and expected.matched_by is not None else []
            for document in (*hits, *expected.documents):
                by_content.setdefault((question.id, document), expected.id)

    def owner(query: str, document: str, expected: Mapping[str, object]) -> str | None:
        by_hit = by_content.get((query, document))
        return by_hit if by_hit is not None else match.owner(document, expected)

    return owner


def _rename_hits(
    owner_of: Callable[[str, str, Mapping[str, object]], str | None], run: Run, qrels: Qrels
) -> RenamedRun:
    """Give the first chunk of each expected document in a ranking the document's id.

    A later chunk of it keeps its own, as one that is not relevant; if that is the expected id itself, it is marked.
    """
    expected = grades_of(qrels)
    chunks: dict[str, dict[str, str]] = {}
    further: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for row, query in enumerate(run.query_ids):
        first: dict[str, str] = {}
        expected_ids = expected.get(query, {})
        for document in run.doc_ids.take(run.rows[run.of_query(row)]):
            owner = owner_of(query, document, expected_ids)
            if owner is not None and owner not in first:
                first[owner] = document
                names.append(owner)
            else:
                names.append(f"{document} (again)" if document in first else document)
                if owner is not None:
                    further.setdefault(query, {})[names[-1]] = owner
        chunks[query] = {owner: document for owner, document in first.items() if owner != document}
    doc_ids = Ids.of(dict.fromkeys(names))
    return RenamedRun(replace(run, doc_ids=doc_ids, rows=doc_ids.rows_of(Ids.of(names))), chunks, further)


def _as_comparison(result: Result) -> Result:
    """Return a check of one corpus as a comparison is read: its dataset, its settings, and trials scored or failed."""
    settings = {name: value for name, value in result.plan.resolved.items() if name not in _OF_NO_CONSEQUENCE}
    settings["timing"] = not settings.pop("no_timing", False)
    (dataset,) = result.corpora or result.datasets
    trials = [_scored_or_failed(result, trial, dataset.name) for trial in result.trials]
    if not any(trial.questions for trial in result.trials):
        dataset = dataset.model_copy(update={"error": trials[0].error})
    corpora = result.plan.resolved.get("corpora")
    corpus_by_name = dict(str(corpus).split("=", 1) for corpus in corpora) if isinstance(corpora, list) else {}
    return result.model_copy(
        update={
            "plan": PlanRecord(
                arguments={"dataset": corpus_by_name[dataset.name]} if dataset.name in corpus_by_name else {},
                resolved={**settings, "queries": "relevant"},
            ),
            "datasets": [dataset],
            "trials": trials,
        }
    )


def _scored_or_failed(result: Result, trial: TrialResult, dataset: str) -> TrialResult:
    """Return a trial on the dataset of that name; one that preflight refused has failed."""
    error = trial.error
    if error is None and trial.status != "ok":
        problems = [problem.message for problem in result.preflight if problem.backend == trial.label]
        error = ErrorInfo(type="preflight", message="; ".join(problems), log=[])
    status = "ok" if error is None else "failed"
    return trial.model_copy(
        update={"dataset": dataset, "error": error, "status": status, "questions": [], "slices": []}
    )
