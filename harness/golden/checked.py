"""The result of a check in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.reporting.check_render import render_check
from harness.results.check_schema import CheckReport, CheckSubject
from harness.store import read_check_report, write_check
from harness.types import Run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Checked"]


@dataclass(frozen=True, eq=False)
class Checked:
    """What ``harness.check`` returns and :meth:`load` reads back.

    ``report`` is the content of ``report.json``; ``runs`` holds the hits of each subject by its label. ``folder`` is
    where the result is stored, None before :meth:`save`.
    """

    report: CheckReport
    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Checked:
        """Read a result folder; raises ResultError when it is missing, damaged, or of a newer schema."""
        path = Path(folder)
        return cls(read_check_report(path), folder=path)

    def save(self, folder: str | Path, *, overwrite: bool = False, numbered: bool = False) -> Checked:
        """Write everything into ``folder``, whole or not at all; the same check with its new folder.

        ``numbered`` writes to ``folder-2`` … where others have the name. Raises UsageError for a folder that holds
        something else, or an earlier result without ``overwrite``; ResultError when it cannot be written.
        """
        place = write_check(Path(folder), self.report, self.runs, overwrite=overwrite, numbered=numbered)
        return replace(self, folder=place)

    @property
    def passed(self) -> bool:
        """True when every requirement was met and nothing was invalid."""
        return self.report.verdict == "passed"

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

    def render(self, format: str = "table") -> str:  # noqa: A002 - the name of the command line's option
        """The report as ``table``, ``markdown``, ``csv`` or ``json``."""
        return render_check(self.report, format)

    def __str__(self) -> str:
        return self.render()
