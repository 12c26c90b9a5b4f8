"""The result of a check in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.data.types import Corpus, Run
from harness.errors import UsageError
from harness.results.check_redaction import without_questions
from harness.results.check_schema import CheckReport, CheckSubject
from harness.results.presenters import HTML_NAME, LEFT_OUT, NOT_STORED, presenter
from harness.results.stored import read_check_report, read_stored_run, write_check

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Checked"]

_VERDICTS = {"passed": "passed", "failed": "failed", "invalid": "is invalid"}


@dataclass(frozen=True, eq=False)
class Checked:
    """What ``harness.check`` returns and :meth:`load` reads back.

    ``report`` is the content of ``report.json``; ``runs`` holds the hits of each subject by its label. ``folder`` is
    where the result is stored, None before :meth:`save`. ``corpora`` are the documents by the corpus's name, for
    :meth:`html`; where one is missing, ``no_texts`` says why.
    """

    report: CheckReport
    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    corpora: Mapping[str, Corpus] = field(default_factory=dict, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)

    @classmethod
    def load(cls, folder: str | Path) -> Checked:
        """Read a result folder; raises ResultError when it is missing, damaged, or of a newer schema."""
        path = Path(folder)
        report = read_check_report(path)
        answered = [one.label for one in report.subjects if one.questions]
        return cls(report, {label: read_stored_run(path, report.golden.name, label) for label in answered}, folder=path)

    def save(self, folder: str | Path, *, overwrite: bool = False, numbered: bool = False) -> Checked:
        """Write everything into ``folder``, whole or not at all; the same check with its new folder.

        ``report.html`` is among it. ``numbered`` writes to ``folder-2`` … where others have the name. Raises UsageError
        for a folder that holds something else, or an earlier result without ``overwrite``; ResultError when it cannot
        be written.
        """
        files = {HTML_NAME: self.html().encode()}
        runs = {(self.report.golden.name, label): run for label, run in self.runs.items()}
        place = write_check(Path(folder), self.report, runs, files, overwrite=overwrite, numbered=numbered)
        return replace(self, folder=place)

    @property
    def passed(self) -> bool:
        """True when every requirement was met and nothing was invalid."""
        return self.report.verdict == "passed"

    def assert_requirements(self) -> None:
        """Raise AssertionError with what is not met, what was expected and what was found; for tests.

        Raises UsageError where nothing is required: such a test could not fail.
        """
        if not self.report.requirements and self.report.verdict != "invalid":
            raise UsageError("nothing is required of this check", fix="give require=['Hit@5>=0.9'] or the like")
        __tracebackhide__ = True
        wrong = presenter("check failures")(self.report)
        if wrong:
            raise AssertionError(
                "\n\n".join([f"the check of {self.report.golden.name} {_VERDICTS[self.report.verdict]}", *wrong])
            )

    def subject(self, label: str) -> CheckSubject:
        """One subject by its label; raises KeyError."""
        for subject in self.report.subjects:
            if subject.label == label:
                return subject
        raise KeyError(label)

    def metrics(self) -> pd.DataFrame:
        """Means: one row a subject, one column a metric; failed subjects have NaN."""
        import pandas as pd

        rows = {one.label: {name: value.mean for name, value in one.metrics.items()} for one in self.report.subjects}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("subject")

    def requirements(self) -> pd.DataFrame:
        """Every requirement held against every subject, one row each."""
        import pandas as pd

        return pd.DataFrame([one.model_dump() for one in self.report.requirements])

    def per_question(self) -> pd.DataFrame:
        """One row a subject and question that expects something, one column a metric."""
        import pandas as pd

        rows = [
            {"subject": subject.label, "question": one.id, **one.values}
            for subject in self.report.subjects
            for one in subject.questions
            if one.values
        ]
        return pd.DataFrame(rows)

    def render(self, format: str = "table", *, verbose: bool = False, sort: str | None = None) -> str:  # noqa: A002 - the name of the command line's option
        """Return the report as ``table``, ``markdown``, ``csv`` or ``json``.

        ``verbose`` adds to ``table`` what answers no first question; ``sort`` names the column that orders rows.
        """
        return str(presenter("text")(self.report, format, verbose=verbose, sort=sort))

    def html(self, *, keep_text: bool = True) -> str:
        """The report as one HTML file that needs nothing else.

        ``keep_text=False`` leaves out the texts of questions and documents; a check that was made without them
        (``--no-text``) has none.
        """
        report = self.report if keep_text else without_questions(self.report)
        if not keep_text or report.settings.get("no_text"):
            return str(presenter("check page")(report, self.runs, {}, LEFT_OUT))
        missing = any(one.name not in self.corpora for one in report.corpora)
        return str(presenter("check page")(report, self.runs, self.corpora, self.no_texts if missing else ""))

    def __str__(self) -> str:
        return self.render()
