"""The options that ``harness regress`` and ``harness diff`` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from harness.cli.completion import complete_backends, complete_dataset
from harness.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from harness.pipeline.regress.judging import Judging

__all__ = [
    "BaselineOption",
    "ChangedBackendsOption",
    "ChangedDatasetOption",
    "IsolationAgainOption",
    "JobsAgainOption",
    "MarginOption",
    "MaxDropOption",
    "PairsOption",
    "QueriesShownOption",
    "RebuildsAgainOption",
    "RepeatAgainOption",
    "SetOption",
    "TestOption",
    "ThreadsAgainOption",
    "TimingAgainOption",
    "WarmUpAgainOption",
    "judging",
]

BaselineOption = Annotated[
    Path, Option(help="What --save-baseline wrote, or a result folder.", metavar="FILE.json|DIR")
]
SetOption = Annotated[
    list[str] | None,
    Option(
        "--set",
        help="Change parameters of a backend of the plan: lucene:k1=3;b=0.95, or '*:model=…' for all that have it. "
        "May be given several times.",
        metavar="NAME:KEY=VALUE;…",
    ),
]
ChangedBackendsOption = Annotated[
    str | None, Option(help="Other backends in the plan's place.", metavar="LIST", autocompletion=complete_backends)
]
ChangedDatasetOption = Annotated[
    str | None,
    Option(help="Another state or place of the dataset.", metavar="NAME|PATH", autocompletion=complete_dataset),
]
RebuildsAgainOption = Annotated[
    int | None,
    Option(help="Builds of each backend whose builds differ: their spread is the noise floor.", metavar="N"),
]
RepeatAgainOption = Annotated[int | None, Option(help="Timed passes over all queries.")]
WarmUpAgainOption = Annotated[
    float | None,
    Option(help="Ask queries unmeasured before any is timed, for so long at most.", metavar="SECONDS"),
]
TimingAgainOption = Annotated[
    bool | None,
    Option("--timing/--no-timing", help="Warm up and time, or only search each query once.", show_default=False),
]
ThreadsAgainOption = Annotated[
    int | None, Option(help="Threads of the exact reference, as a backend and as what engines are held against.")
]
JobsAgainOption = Annotated[int | None, Option(help="Backends that run side by side; more than one needs --no-timing.")]
IsolationAgainOption = Annotated[
    str | None, Option(help="process: each backend in a worker of its own. none: in the harness's process.")
]
MaxDropOption = Annotated[
    list[str] | None,
    Option(
        help="Drop of a mean that the gate lets pass, for all metrics or for one: 0.01, or nDCG@10=0.01. May be given "
        "several times; metrics that none is for have no gate.",
        metavar="[METRIC=]DROP",
    ),
]
MarginOption = Annotated[float, Option(help="Differences within ± this much count as the same.")]
TestOption = Annotated[str, Option("--test", help="Paired test: randomisation, t or wilcoxon.")]
QueriesShownOption = Annotated[
    int, Option("--dossier", help="Queries of each backend that are told in full, the most changed first.", metavar="N")
]
PairsOption = Annotated[
    list[str] | None,
    Option("--pair", help="Labels of a backend before and after, where names do not tell: 'lucene->qdrant'."),
]


def judging(
    max_drop: Sequence[str] | None,
    *,
    margin: float,
    test: str,
    labels: Path | None,
    queries: int,
    pairs: Sequence[str] | None,
    gate: bool,
) -> Judging:
    """The options as :class:`harness.Judging`; without ``max_drop`` there is a gate only with ``gate``.

    Raises UsageError and UnknownNameError for malformed ones.
    """
    from harness.pipeline.regress.judging import Judging
    from harness.stats import PAIRED_TESTS

    if test not in PAIRED_TESTS:
        raise UnknownNameError("test", test, PAIRED_TESTS)
    if queries < 0:
        raise UsageError(f"--dossier is {queries}", fix="it must be 0 or more")
    return Judging(
        max_drop=_drops(max_drop) if max_drop else (0.0 if gate else None),
        margin=margin,
        test=test,
        labels=labels,
        queries=queries,
        pairs=[_pair(pair) for pair in pairs or ()],
    )


def _drops(given: Sequence[str]) -> dict[str, float]:
    """Metric to drop, ``""`` for all others."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            drop = float(number)
        except ValueError as error:
            fix = "write nDCG@10=0.01 for a hundredth in the unit of the metric; shares of the value are not taken"
            raise UsageError(f"--max-drop {text}: '{number}' is not a number", fix=fix) from error
        if not 0.0 <= drop < float("inf"):
            raise UsageError(f"--max-drop {text}: not a drop", fix="give 0 or more, in the unit of the metric")
        if name in found:
            raise UsageError(f"--max-drop is given twice for {name or 'all metrics'}", fix="drop one")
        found[name] = drop
    return found


def _pair(text: str) -> tuple[str, str]:
    before, arrow, after = (part.strip() for part in text.partition("->"))
    if not arrow or not before or not after:
        raise UsageError(f"--pair {text}: not of the form BEFORE->AFTER", fix="write --pair 'lucene->qdrant'")
    return before, after
