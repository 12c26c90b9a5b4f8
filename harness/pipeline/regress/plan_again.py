"""A baseline's plan that is to run again, with the changes that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from harness.errors import UsageError
from harness.pipeline.planning import plan_for
from harness.pipeline.regress.command import option_arguments, python_call
from harness.pipeline.regress.judging import Judging
from harness.pipeline.regress.set_option import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest, Output
from harness.plan.option_fields import command_words, from_keywords, keyword_arguments, option_fields
from harness.plan.plan import Plan
from harness.results.schema import PlanRecord
from harness.results.snapshot import ResultSnapshot

__all__ = ["OPTIONS", "Again"]

OPTIONS = frozenset(
    [
        "rebuilds",
        "repeat",
        "warm_up",
        "timing",
        "threads",
        "jobs",
        "isolation",
        "deadline",
        "memory_limit",
        "max_calls",
        "resume",
        "cards",
    ]
)
"""Arguments of a comparison that ``harness regress`` has options for; Python callers may change all."""
_NOT_TAKEN_OVER = {"resume", "reference", "all_pairs"}
"""Arguments of a baseline's plan that a new run leaves: it measures, and compares with another result, not within."""


@dataclass(frozen=True, slots=True)
class Again:
    """A baseline and what is to be another: the arguments of :func:`harness.regress`."""

    baseline: Path
    backends: str | Sequence[str] | None = None
    settings: Sequence[str] = ()
    dataset: str | Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def plan(self, before: ResultSnapshot) -> Plan:
        """The plan of ``before``, which the baseline holds, with the changes.

        Raises UsageError for the result of a check, whose plan is no comparison's.
        """
        if before.kind == "check":
            raise UsageError(
                f"'{before.source}' is the result of a check, and a check has a command of its own to run it again",
                fix="run `harness check` again, and hold both results against each other: harness diff BEFORE AFTER",
            )
        if self.dataset is None and before.report.dataset.provenance.get("format") == "objects":
            raise UsageError(
                f"the dataset '{before.report.dataset.name}' of '{before.source}' was an object in Python",
                fix="name where it is now, as dataset=…; or run it again in Python, then: harness diff BEFORE AFTER",
            )
        request = _request(before.report.plan, self.options)
        if self.dataset is not None:
            request = replace(request, dataset=str(self.dataset))
        if self.backends is not None:
            request = replace(request, backends=self.backends, sweep=())
        if self.settings:
            request = replace(request, backends=_expanded(before, request), sweep=())
            specs = parse_backends(request.backends, cards=request.cards)
            request = replace(request, backends=changed_backends(specs, self.settings))
        return plan_for(request)

    def command(self, judging: Judging, output: Output) -> list[str]:
        """What does the same again: in a shell, or in Python where the command line has no option for a change."""
        if not self.options.keys() <= OPTIONS or not judging.in_shell(0.0):
            return self._call(judging, output)
        listed = ",".join(self.backends) if isinstance(self.backends, list | tuple) else self.backends
        named = {"set": list(self.settings), "backends": listed, "dataset": self.dataset, **self.options}
        words = ["harness", "regress", "--baseline", str(self.baseline), *option_arguments(named, {"resume": "never"})]
        return [*words, *judging.arguments(0.0), *command_words(output)]

    def _call(self, judging: Judging, output: Output) -> list[str]:
        changed = {"backends": self.backends, "settings": list(self.settings) or None, "dataset": self.dataset}
        how = {"judging": judging if judging != Judging() else None}
        return python_call("regress", [self.baseline], {**changed, **self.options, **how, **keyword_arguments(output)})


def _request(record: PlanRecord, options: Mapping[str, object]) -> CompareRequest:
    """The arguments as they were given then, with those of now on top."""
    known = option_fields(CompareRequest).keys() - _NOT_TAKEN_OVER
    arguments = {name: value for name, value in record.given.items() if name in known and value is not None}
    merged = {**arguments, **options}
    if not merged.get("timing", True) and "warm_up" not in options:
        merged.pop("warm_up", None)  # the baseline's, which had times
    (request,) = from_keywords("harness.regress", merged, CompareRequest)
    return cast("CompareRequest", request)


def _expanded(before: ResultSnapshot, request: CompareRequest) -> str | Sequence[str]:
    """The backends with sweeps as the labels that they had become."""
    return [backend.label for backend in before.report.trials] if request.sweep else request.backends
