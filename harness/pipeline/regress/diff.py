"""``harness.diff``: hold two stored results against each other, without running anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.pipeline.regress.command import python_call
from harness.pipeline.regress.compare_sides import compare_sides
from harness.pipeline.regress.judging import Judging
from harness.pipeline.regress.labels import LABEL_FILE, check_no_grades, label_lines
from harness.pipeline.regress.read_side import read_side
from harness.pipeline.regress.regression import Regression, documents_of_side
from harness.pipeline.regress.stored_regression import REGRESSION_NAME, without_texts
from harness.plan.config import Output
from harness.plan.option_fields import command_words, keyword_arguments
from harness.results.html_texts import LEFT_OUT
from harness.results.stored_texts import Documents
from harness.store.result_folder import check_target

__all__ = ["diff", "run_diff"]


def diff(
    before: str | Path,
    after: str | Path,
    *,
    judging: Judging | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    no_text: bool = False,
    cards: Path | None = None,
) -> Regression:
    """Compare two stored results, of ``compare`` or of ``check``, without running anything.

    They are folders or baseline files. There is no gate unless ``judging`` names one. With ``out`` the report is stored
    there, and the documents of the later result are read again for its page; ``cards`` is where its dataset's card is.
    Raises ResultError as :func:`harness.regress`, and for a check against a comparison.
    """
    output = Output(out=Path(out) if out is not None else None, overwrite=overwrite, no_text=no_text)
    how = judging or Judging(max_drop=None)
    found = run_diff(Path(before), Path(after), how, output, cards=cards, documents=out is not None)
    return found if out is None else found.save(out, overwrite=overwrite, keep_text=not no_text)


def run_diff(
    before: Path, after: Path, judging: Judging, output: Output, *, cards: Path | None, documents: bool = True
) -> Regression:
    """As :func:`diff`, and nothing is stored: ``output`` says where the caller will.

    ``documents`` of the later result are read where its page is going to be drawn.
    """
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite, marker=REGRESSION_NAME)
        check_no_grades(output.out / LABEL_FILE)
    one, other = read_side(before), read_side(after)
    compared = compare_sides("diff", one, other, judging.rules(int(str(other.report.plan.resolved["seed"]))))
    command = _command(before, after, judging, output, cards)
    report = compared.report.model_copy(update={"command": command})
    report = report if output.keep_text else without_texts(report)
    found = Regression(report, to_label=label_lines(report, {}), compared=compared)
    if not documents:
        return found
    read = documents_of_side(other, cards=cards) if output.keep_text else Documents(None, LEFT_OUT)
    return replace(found, corpus=read.corpus, no_texts=read.no_texts)


def _command(before: Path, after: Path, judging: Judging, output: Output, cards: Path | None) -> list[str]:
    """What does the same again: in a shell, or in Python where the command line has no option for it."""
    if judging.in_shell(None):
        words = ["harness", "diff", str(before), str(after), *judging.arguments(None), *command_words(output)]
        return [*words, "--cards", str(cards)] if cards is not None else words
    return python_call("diff", [before, after], {"judging": judging, "cards": cards, **keyword_arguments(output)})
