"""A check compared with a baseline by the rules of ``harness regress``: one file format, one gate."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.pipeline.check.check_plan import CheckPlan
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.regress.common_depth import names_at, refuse_deeper
from harness.pipeline.regress.compare_sides import CompareRules, compare_rules, compare_sides, sides_of_gate
from harness.pipeline.regress.pairing import refuse_missing
from harness.pipeline.regress.read_snapshot import check_snapshots, read_snapshots
from harness.pipeline.regress.regression import without_texts
from harness.plan.config import GATE_OPTIONS, CheckRequest, GateOptions
from harness.plan.option_fields import option_fields
from harness.results.check_schema import Verdict
from harness.results.snapshot import THIS_RUN, ResultSnapshot

_WORST: tuple[Verdict, ...] = ("invalid", "failed", "passed")


class BaselineGate:
    """The baseline of a plan, read before anything runs, and the rules by which the check is compared with it.

    ``saves`` is the baseline that this check writes: if that is the one to
    compare with, and it does not exist, this check makes it.

    Raises:
        UsageError: the baseline does not exist, with the command that makes it, or is not one of a check; options of
            the gate without a baseline, or that name what neither side has.
        ResultError: the baseline cannot be read.
    """

    def __init__(self, plan: CheckPlan, saves: Path | None = None) -> None:
        self._plan, request = plan, plan.request
        self._before: list[ResultSnapshot] = []
        self._rules = CompareRules()
        if request.baseline is None:
            raise AssertionError("a gate without a baseline")
        gate = GateOptions(**{name: getattr(request, name) for name in (*GATE_OPTIONS, "count_model_labels")})
        self._rules = compare_rules(replace(gate, max_drop=0.0) if gate.max_drop is None else gate, request.seed)
        if not request.baseline.exists():
            if saves is None or saves.resolve() != request.baseline.resolve():
                raise _missing(plan, request.baseline)
            return
        self._before = read_snapshots(request.baseline)
        if self._before[0].kind != "check":
            raise UsageError(
                f"'{request.baseline}' is a result of `harness compare`, and a check is compared with a check",
                fix=f"write a baseline of the check: {_command(plan, Path('FILE.json'))}",
            )
        sides_of_gate(self._before, self._rules)  # refused before anything runs
        self._refuse_unknown()

    def judge(self, checked: CheckResult) -> CheckResult:
        """Return the check with its changes from the baseline, and the verdict that counts both.

        Nothing is compared if the check scored nothing.
        """
        report = checked.report
        if not self._before or not any(trial.questions for trial in report.trials):
            return checked
        after = check_snapshots(report, THIS_RUN, lambda dataset, label: checked.hits[dataset, label])
        change = compare_sides(self._before, after, self._rules).change
        if not self._plan.keep_text:
            change = without_texts(change)
        outcomes = (report.verdict, change.decision)
        verdict = next(name for name in _WORST if name in outcomes)
        return replace(checked, report=report.model_copy(update={"change": change, "verdict": verdict}))

    def _refuse_unknown(self) -> None:
        """Refuse names of metrics and backends that neither side has, before anything runs."""
        rules, before, k = self._rules.rules, self._before[0], self._plan.request.k
        refuse_deeper(rules.allowed, {before.source: before.k, THIS_RUN: k})
        metrics = {name for snapshot in self._before for figures in snapshot.figures.values() for name in figures}
        rules.refuse_unknown(metrics if k == before.k else names_at({*metrics, *self._plan.metrics}, k))
        labels = [trial.label for snapshot in self._before for trial in snapshot.report.trials]
        for pair in self._rules.pairs:
            refuse_missing(pair.before, labels)
            refuse_missing(pair.after, [label for _, label in self._plan.trials])


def _missing(plan: CheckPlan, path: Path) -> UsageError:
    return UsageError(f"there is no baseline '{path}'", fix=f"make it first: {_command(plan, path)}")


def _command(plan: CheckPlan, path: Path) -> str:
    """Return the command that makes the baseline of a plan."""
    fields = option_fields(CheckRequest)
    defaults: dict[str, Any] = {name: fields[name].default for name in ("baseline", *GATE_OPTIONS)}
    plain = replace(plan, request=replace(plan.request, **defaults))
    return shlex.join([*plain.command(), "--save-baseline", str(path)])
