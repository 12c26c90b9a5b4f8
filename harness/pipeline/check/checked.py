"""The result of a check in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.data.types import Corpus, Ids, Run
from harness.errors import ResultError, UnknownNameError, UsageError
from harness.results.missed import first_rank, is_missed, missed_depth
from harness.results.presenters import HTML_NAME, NOT_STORED, Presentable, presenter
from harness.results.schema import Result, TrialResult
from harness.results.stored import (
    ResultContent,
    StoredResult,
    read_report,
    read_returned_texts,
    read_stored_run,
    write_result,
)
from harness.user_path import user_path

if TYPE_CHECKING:
    import pandas as pd

    from harness.data.golden_set import GoldenQuestion
    from harness.loaders.golden_lines import ExtendedGolden


def _grades(question: GoldenQuestion) -> dict[str, int]:
    return {one.id: one.grade for one in question.expected}


_VERDICTS = {"passed": "passed", "failed": "failed", "invalid": "is invalid"}


@dataclass(frozen=True, eq=False)
class CheckResult(Presentable):
    """Result of ``harness.check``, which :meth:`load` reads back.

    ``report`` is the content of ``report.json``; ``hits`` are each trial's hits by its dataset and label. ``folder`` is
    where the result is stored, None before :meth:`save`. ``corpora`` are the documents by the corpus's name, for
    :meth:`html`; if a corpus is missing, ``no_texts`` says why. ``texts`` are documents that backends returned with
    their texts, by dataset and label, as far as no corpus has them. ``explanations`` are as those of a
    :class:`harness.Comparison`.

    If backends are on several corpora, frames name the dataset of each row, and a trial is named by both.
    """

    report: Result
    hits: Mapping[tuple[str, str], Run] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    corpora: Mapping[str, Corpus] = field(default_factory=dict, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)
    texts: Mapping[tuple[str, str], Corpus] = field(default_factory=dict, repr=False)
    explanations: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: str | Path) -> CheckResult:
        """Read a result folder; raises ResultError when it is missing, damaged, or of another schema."""
        path = user_path(folder)
        report = read_report(path, "check")
        answered = [(trial.dataset, trial.label) for trial in report.trials if trial.questions]
        texts = {name: documents for name in answered if (documents := read_returned_texts(path, *name)) is not None}
        hits = {name: read_stored_run(path, *name) for name in answered}
        return cls(report, hits, path, texts=texts, explanations=StoredResult(path, report).explanations())

    def save(self, folder: str | Path, *, overwrite: bool = False, numbered: bool = False) -> CheckResult:
        """Write everything into ``folder``, completely or not at all; return the same check with its new folder.

        ``report.html`` is among it. ``numbered`` writes to ``folder-2`` … if others have the name. Raises UsageError
        for a folder that holds other files, or an earlier result without ``overwrite``; ResultError if it cannot be
        written.
        """
        content = ResultContent(
            runs=self.hits,
            texts=self.texts,
            explanations=self.explanations,
            extra={HTML_NAME: self.html().encode()},
        )
        target = write_result(user_path(folder), self.report, content, overwrite=overwrite, numbered=numbered)
        return replace(self, folder=target)

    def save_baseline(self, path: str | Path) -> None:
        """Write a baseline, a small file for git, with which ``baseline=`` and ``harness.diff`` compare later checks.

        It holds no texts. Raises UsageError if a backend failed or was refused, and as
        :func:`harness.results.baseline.write_baseline`; ResultError if nothing was scored.
        """
        from harness.pipeline.regress.read_snapshot import baseline_report, check_snapshots
        from harness.results.baseline import write_baseline
        from harness.results.check_redaction import without_questions

        report = without_questions(self.report)
        parts = check_snapshots(report, str(self.folder), lambda dataset, label: self.hits[dataset, label])
        write_baseline(user_path(path), baseline_report(report, parts), parts)

    def write_golden(
        self, path: str | Path, labels: str | Path | Sequence[str | Path], *, overwrite: bool = False
    ) -> ExtendedGolden:
        """Write the golden set, in JSON lines, whose questions also expect the relevant documents of files of labels.

        Labels by models are left out, because a golden set cannot say who expects a document. The warnings about the
        labels are ``findings`` of the returned lines.

        Raises UsageError if there is such a file without ``overwrite``, if the golden set is not a file of JSON lines,
        has changed since the check, or would not be read as it was meant, and as
        :func:`harness.loaders.golden_lines.extend_golden`; DataError as :func:`harness.data.labels.read_labels`, and
        for labels of unknown questions or documents, and labels that contradict the golden set.
        """
        from harness.data.columns import parse_columns
        from harness.data.labels import (
            SettledLabels,
            golden_with_labels,
            labels_by_dataset,
            read_labels,
            refuse_foreign,
            settle,
        )
        from harness.loaders.golden import load_golden
        from harness.loaders.golden_lines import extend_golden
        from harness.store.cache import file_digest
        from harness.store.disk import replacing

        golden, target, shared = self.report.golden_set, user_path(path), frozenset({"id"})
        if golden.match.startswith(("text", "field")):
            raise UsageError(
                f"a golden set of --match {golden.match} cannot be extended: labels name documents, and questions "
                "expect no ids of documents",
                fix="edit it yourself",
            )
        if target.exists() and not overwrite:
            raise UsageError(f"'{target}' exists", fix="name a new file")
        source = user_path(golden.source)
        if source.is_file() and file_digest(source) != golden.sha256:
            raise UsageError(f"'{source}' has changed since the check", fix="check again, and judge that result")
        files = [labels] if isinstance(labels, str | Path) else labels
        all_labels = read_labels([user_path(file) for file in files])
        of_golden = labels_by_dataset(all_labels, [golden.name], [info.name for info in self.report.datasets])
        corpus = next(iter(self.corpora.values()), None)
        settled = settle(of_golden[golden.name], corpus, models=False)
        relevant = {pair: grade for pair, grade in settled.grades.items() if grade >= golden.relevance}
        columns = parse_columns(str(self.report.plan.resolved.get("columns") or ""))
        added: dict[str, dict[str, int]] = {}
        for (question, document), grade in relevant.items():
            added.setdefault(question, {})[document] = grade
        extended = extend_golden(source, columns, added, shared)
        before = load_golden(source, columns, shared)
        documents = corpus.ids if corpus is not None else None
        refuse_foreign(settled.grades, queries=Ids.of(question.id for question in before), documents=documents)
        golden_with_labels(before, settled)  # raises for contradictions
        expected = golden_with_labels(before, SettledLabels(relevant, (), relevant))
        with replacing(target) as stream:
            stream.write(extended.content)
            stream.flush()
            for intended, read in zip(expected, load_golden(stream.name, columns, shared), strict=True):
                if _grades(intended) != _grades(read):
                    problem = f"question '{read.id}' of '{source}' cannot be extended: it would be read otherwise"
                    raise UsageError(problem, fix="edit it yourself")
        return extended._replace(findings=settled.findings)

    @property
    def name(self) -> str:
        """Name of the golden set."""
        return self.report.golden.name if self.report.golden is not None else ""

    @property
    def unscored(self) -> list[str]:
        """Labels of the backends that failed or that preflight refused; the golden set's name without a backend."""
        return list(dict.fromkeys(trial.label for trial in self.report.trials if trial.status != "ok")) or (
            [] if self.report.trials else [self.name]
        )

    @property
    def passed(self) -> bool:
        """True when every requirement was met and nothing was invalid."""
        return self.report.verdict == "passed"

    def assert_requirements(self) -> None:
        """Raise AssertionError with the unmet requirements, their expected and actual values; for tests.

        Raises UsageError if nothing is required: such a test could not fail.
        """
        if not self.report.requirements and self.report.change is None and self.report.verdict != "invalid":
            example = f"Hit@{self.report.plan.resolved['k']}>=0.9"
            raise UsageError(
                "nothing is required of this check", fix=f"give require=['{example}'] or the like, or baseline="
            )
        __tracebackhide__ = True
        wrong = presenter().failures(self.report)
        if wrong:
            raise AssertionError(
                "\n\n".join([f"the check of {self.name} {_VERDICTS[self.report.verdict or 'invalid']}", *wrong])
            )

    def trial(self, label: str, dataset: str | None = None) -> TrialResult:
        """Return a backend's result, on the only dataset by default.

        Raises UnknownNameError for an unknown label, UsageError for a backend on several datasets.
        """
        trials = [trial for trial in self.report.trials if trial.label == label and dataset in (None, trial.dataset)]
        if not trials:
            labels = {trial.label for trial in self.report.trials if dataset in (None, trial.dataset)}
            raise UnknownNameError("backend", label, labels, of="the check")
        if len(trials) > 1:
            dataset_names = ", ".join(trial.dataset for trial in trials)
            raise UsageError(f"'{label}' was checked on several datasets: {dataset_names}", fix="name one: dataset='…'")
        return trials[0]

    def run(self, label: str, dataset: str | None = None) -> Run:
        """Return a backend's hits, as :meth:`trial`; raises ResultError for a backend that failed."""
        trial_name = self.trial(label, dataset).dataset, label
        if trial_name not in self.hits:
            raise ResultError(f"'{label}' failed, so it has no run")
        return self.hits[trial_name]

    @property
    def runs(self) -> Mapping[str, Run]:
        """The hits of each backend by its label; raises UsageError if backends are on several datasets."""
        return {label: self.run(label) for _, label in self.hits}

    def metrics(self) -> pd.DataFrame:
        """Return the means: one row a backend, one column a metric; failed backends have NaN."""
        import pandas as pd

        trials = self.report.trials
        rows = [{name: value.mean for name, value in trial.metrics.items()} for trial in trials]
        if not self.report.several:
            return pd.DataFrame(rows, index=[trial.label for trial in trials]).rename_axis("backend")
        names = [(trial.dataset, trial.label) for trial in trials]
        return pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(names, names=["dataset", "backend"]))

    def requirements(self) -> pd.DataFrame:
        """Return every requirement of every backend, one row each."""
        import pandas as pd

        return pd.DataFrame([required.model_dump() for required in self.report.requirements])

    def per_question(self) -> pd.DataFrame:
        """Return one row a backend and question that expects something, one column a metric.

        ``rank`` is the rank of the first expected document, NaN if it is not among the hits. ``missed`` says that none
        is among the hits that the first failed requirement looks at; without requirements, among all hits.
        """
        import pandas as pd

        depth, relevance = missed_depth(self.report), self.report.golden_set.relevance
        rows = [
            {
                **({"dataset": trial.dataset} if self.report.several else {}),
                "backend": trial.label,
                "question": question.id,
                **question.values,
                "rank": first_rank(question, relevance),
                "missed": is_missed(question, relevance, depth),
            }
            for trial in self.report.trials
            for question in trial.questions
            if question.values
        ]
        return pd.DataFrame(rows)
