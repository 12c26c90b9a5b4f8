"""State in a line what a tuned backend gains on the queries that did not choose its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from harness.document.cells import interval, probability, signed
from harness.document.model import Verdict
from harness.metrics import improvement
from harness.results.schema import TuningStats
from harness.wording import counted, too_few_to_show


def tuning_verdicts(tunings: Sequence[TuningStats], dataset: str, suffix: str) -> list[Verdict]:
    """Return for each tuned backend of a dataset what its choice gains on the queries that did not choose it."""
    return [_verdict(tuning, suffix) for tuning in tunings if tuning.dataset == dataset]


def _verdict(tuning: TuningStats, suffix: str) -> Verdict:
    folds = f" in {counted(len(tuning.choices), 'fold')}" if tuning.cross_validated else ""
    about, row = f"{suffix}{tuning.backend} tuned by {tuning.metric}{folds}", tuning.difference
    if row is None or tuning.reported is None:
        return Verdict("unsure", f"{about}: nothing was chosen", "; ".join(tuning.notes))
    default, notes = tuning.candidates[0], [*_choice_notes(tuning), *tuning.notes]
    queries = counted(tuning.reported.queries, "query")
    if {choice.chosen for choice in tuning.choices} == {default}:
        best_of = f"the default {default} is the best of {len(tuning.candidates)} combinations"
        return Verdict("plain", f"{about}: no gain, {best_of}", "; ".join(notes))
    subject, reporting = str(tuning.chosen), f"the {queries} that did not choose it"
    if tuning.cross_validated:
        subject, reporting = "the choice", f"{queries}, each with the choice of the other folds"
    side = "above" if row.difference > 0 else "below"
    compared = f"{subject} is {abs(row.difference):.4f} {side} {default} on {reporting}"
    if row.difference == 0:
        compared = f"{subject} has the mean of {default} on {reporting}"
    significant = row.verdict in ("better", "worse") and not row.within_ties
    gain = improvement(row.metric, row.difference) > 0
    headline = f"{about}: {'' if significant and gain else 'no gain is shown, '}{compared}"
    sureness = "significant" if significant else "within ties" if row.within_ties else "not significant"
    test = f"{signed(row.difference)} {interval(row.ci_low, row.ci_high, '+.4f')}".rstrip()
    test += f", adjusted p {probability(row.p_adjusted)}; {row.wins:,} better, {row.ties:,} tied, {row.losses:,} worse"
    if not significant and row.detectable is not None:
        few = too_few_to_show(tuning.reported.queries, row.detectable, tuning.reported.chosen, tuning.reported.default)
        test += f"; {few or f'{queries} can show differences from about {row.detectable:.4f} on'}"
    detail = "; ".join([test, *notes])
    return Verdict("good" if significant and gain else "plain", f"{headline}, {sureness}", detail)


def _choice_notes(tuning: TuningStats) -> list[str]:
    """Return how good the choice looked on the queries that chose it, or how stable it is over the folds."""
    of_all = f"the best of {len(tuning.candidates)} combinations"
    if tuning.cross_validated:
        votes = f"{agreeing_folds(tuning)} of {len(tuning.choices)}"
        return [f"{tuning.chosen}, {of_all} on all queries, is chosen by {votes} folds"]
    (choice,) = tuning.choices
    if choice.chosen == tuning.candidates[0]:
        return []
    means = choice.choosing
    looked = f"{means.chosen:.4f} ({signed(means.chosen - means.default)})"
    return [f"{looked} on the {counted(means.queries, 'query')} that chose it as {of_all}"]


def agreeing_folds(tuning: TuningStats) -> int:
    """Return how many folds chose the combination that is best on all queries."""
    return sum(choice.chosen == tuning.chosen for choice in tuning.choices)
