"""The result of ``harness.regress`` and ``harness.diff`` in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.pipeline.regress.compare_sides import SideComparison, compared_again
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.pipeline.regress.rescoring import LABEL_FILE, check_no_grades
from harness.results.comparison import Comparison
from harness.results.presenters import HTML_NAME, LEFT_OUT, NOT_STORED, Presentable
from harness.results.regression_schema import Change
from harness.results.returned_texts import merge_texts
from harness.results.schema import Result
from harness.results.snapshot import ResultSnapshot
from harness.results.stored import ResultContent, read_change, read_returned_texts, write_result
from harness.results.stored_texts import Documents, documents_of
from harness.user_path import user_path

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Regression(Presentable):
    """The comparison of two results: the return value of ``harness.regress`` and ``harness.diff``.

    ``report`` is the content of ``report.json``, with the changes under ``change``; ``comparison`` holds the runs of
    the new result, None if nothing ran. ``compared`` holds all queries of both sides and ``documents`` each dataset's
    documents, for :meth:`html`; if one of them is missing, ``no_texts`` says why. ``folder`` is where it is stored,
    None before :meth:`save`.
    """

    report: Result
    comparison: Comparison | None = field(default=None, repr=False)
    to_label: bytes = field(default=b"", repr=False)
    compared: SideComparison | None = field(default=None, repr=False)
    documents: Mapping[str, Documents] = field(default_factory=dict, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)
    folder: Path | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Regression:
        """Read a folder's comparison of two results; raises ResultError if it is missing, damaged or of another schema.

        :func:`with_rankings` adds the rankings from which :meth:`html` draws the queries.
        """
        return cls(read_change(user_path(folder)), folder=user_path(folder))

    @property
    def change(self) -> Change:
        """Return the changes from the earlier result to the later."""
        return self.report.changes

    @property
    def failed(self) -> bool:
        """Whether the gate failed, or was not judged and counts as failed (``when_not_judged="fail"``)."""
        return self.change.decision == "failed"

    def save(
        self, folder: str | Path, *, overwrite: bool = False, keep_text: bool = True, numbered: bool = False
    ) -> Regression:
        """Write the report, its page and the documents to label into ``folder``, with the new result.

        If nothing ran these are all. ``numbered`` writes to ``folder-2`` … if others have the name. Raises UsageError
        as :meth:`Comparison.save`, and if a file with labels would be replaced.
        """
        if not numbered:
            check_no_grades(user_path(folder) / LABEL_FILE)
        report = self.report if keep_text else self.report.model_copy(update={"change": without_texts(self.change)})
        files = {HTML_NAME: self.html(keep_text=keep_text).encode(), LABEL_FILE: self.to_label}
        if self.comparison is None:
            content = ResultContent(runs=None, extra=files)
            target = write_result(user_path(folder), report, content, overwrite=overwrite, numbered=numbered)
            return replace(self, folder=target)
        comparison = replace(self.comparison, report=report)
        saved = comparison.save(folder, overwrite=overwrite, keep_text=keep_text, numbered=numbered, extra=files)
        return replace(self, comparison=saved, folder=saved.folder)

    def verdicts(self) -> pd.DataFrame:
        """Return one row a dataset, backend and metric: both means, difference, interval, p, effect, verdict, gate."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "dataset": backend.dataset,
                    "backend": backend.after,
                    "backend_before": backend.before,
                    **metric.model_dump(),
                }
                for backend in self.change.backends
                for metric in backend.metrics
            ]
        )

    def changes(self) -> pd.DataFrame:
        """Return the dossier by dataset, backend, query and metric: both values, gained and lost documents."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "dataset": backend.dataset,
                    "backend": backend.after,
                    "query_id": query.query,
                    **value.model_dump(),
                    "added": query.added,
                    "removed": query.removed,
                }
                for backend in self.change.backends
                if backend.dossier is not None
                for query in backend.dossier.queries
                for value in query.values
            ]
        )


def with_rankings(stored: Regression, folder: Path, *, cards: Path | None = None) -> Regression:
    """Return a stored regression with the rankings of both sides, if they can still be found, and the documents.

    ``no_texts`` names the missing parts.
    """
    report, change = stored.report, stored.change
    if any(relation.labels for relation in change.data):
        why = "The rankings of all queries are in the page that was written with it: labels were added, which it lacks."
        return replace(stored, no_texts=why)
    try:
        before = read_snapshots(Path(change.before.source))
        after = read_snapshots(folder if report.kind == "regress" else Path(change.after.source))
    except HarnessError as error:
        return replace(stored, no_texts=f"The rankings of all queries are not in this file: {error.problem}.")
    if (before[0].report.created, after[0].report.created) != (change.before.created, change.after.created):
        why = "The rankings of all queries are not in this file: the folders hold other results now."
        return replace(stored, no_texts=why)
    # stored with --no-text, regardless of the baseline
    if report.kind == "regress" and not any(snapshot.texts for snapshot in after):
        before = [replace(snapshot, texts={}) for snapshot in before]
        return replace(stored, compared=compared_again(change, before, after), no_texts=LEFT_OUT)
    documents = documents_of_side(after, cards=cards)
    return replace(stored, compared=compared_again(change, before, after), documents=documents)


def documents_of_side(side: Sequence[ResultSnapshot], *, cards: Path | None = None) -> dict[str, Documents]:
    """Return the documents of a stored result by dataset, if they can still be found."""
    return {
        snapshot.report.dataset.name: documents_of(snapshot.report, cards=cards)
        if snapshot.report.dataset.documents or snapshot.kind != "check"
        else _returned_documents(snapshot)
        for snapshot in side
    }


def _returned_documents(snapshot: ResultSnapshot) -> Documents:
    """Return the documents that the backends of a stored check returned with their texts, or why there are none."""
    folder, dataset = Path(snapshot.source), snapshot.report.dataset.name
    labels = [trial.label for trial in snapshot.report.trials] if snapshot.texts else []
    texts = [(label, read_returned_texts(folder, dataset, label)) for label in labels]
    corpus = merge_texts((label, documents) for label, documents in texts if documents is not None)
    missing = "Texts of documents are not in this file: the backends have their own."
    return Documents(corpus, "" if corpus is not None else missing)


def without_texts(change: Change) -> Change:
    """Return the same without the texts of queries (``--no-text``)."""
    backends = []
    for backend in change.backends:
        dossier = backend.dossier
        if dossier is not None:
            queries = [query.model_copy(update={"text": None}) for query in dossier.queries]
            dossier = dossier.model_copy(update={"queries": queries})
        backends.append(backend.model_copy(update={"dossier": dossier}))
    return change.model_copy(update={"backends": backends})
