"""Options that exclude one another or need another, and notes on how a plan runs for readers of its report."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import UsageError
from harness.plan.config import LOCAL, ClientKind, CompareRequest, Isolation, RunOptions
from harness.plan.option_fields import option_fields

SMALL_DATASET = 10_000
"""Documents up to which trials without times share workers, whose memory is then no trial's own."""


def contradictions(options: RunOptions) -> Iterator[UsageError]:
    """Yield an error for each pair of options of running that exclude one another."""
    if re.fullmatch(r"local|ray(:.+)?", options.executor) is None:
        yield UsageError(f"--executor {options.executor}: no such executor", fix="use local, ray or ray:ADDRESS")
    if options.jobs > 1 and options.timing and options.executor == LOCAL:  # on a cluster each has a node to itself
        yield UsageError(
            f"--jobs {options.jobs} with timing: backends that run at the same time slow each other down",
            fix="add --no-timing, or leave --jobs out",
        )
    if options.repeat > 1 and not options.timing:
        yield UsageError(
            f"--repeat {options.repeat} with --no-timing: passes are repeated for their times only",
            fix="leave out one of the two",
        )
    if options.isolation is Isolation.NONE:
        set_options = {
            "--jobs": options.jobs > 1,
            "--deadline": options.deadline is not None,
            "--memory-limit": options.memory_limit is not None,
            f"--executor {options.executor}": options.executor != LOCAL,
        }
        for option in (option for option, is_set in set_options.items() if is_set):
            yield UsageError(
                f"{option} with --isolation none: that needs workers, which the harness can watch and end",
                fix=f"leave {option} out, or use --isolation process",
            )
    if "warm_up" not in options.as_given and options.warm_up and not options.timing:
        yield UsageError(
            f"--warm-up {options.warm_up:g} with --no-timing: warm-up queries only serve timing",
            fix="leave out one of the two",
        )


def load_contradictions(request: CompareRequest) -> Iterator[UsageError]:
    """Yield an error for each option of load or churn that excludes another one or would change nothing."""
    if request.measures_load and not request.timing:
        yield UsageError(
            "--cold, --concurrency and --rate with --no-timing: they do nothing but take times",
            fix="leave --no-timing out, or the others",
        )
    if request.measures_load and request.executor != LOCAL:
        yield UsageError(
            f"--cold, --concurrency and --rate with --executor {request.executor}: load is measured on the machine "
            "that sends the queries",
            fix="leave --executor out, on the machine that is to be measured",
        )
    unused = []
    if not request.open_loop and request.arrivals != "poisson":
        unused.append(("--arrivals", "--rate"))
    if not request.open_loop and not request.concurrency:
        if request.clients is not ClientKind.PROCESSES:
            unused.append(("--clients", "--concurrency or --rate"))
        if request.load_seconds != option_fields(CompareRequest)["load_seconds"].default:
            unused.append(("--load-seconds", "--concurrency or --rate"))
    for option, needed in unused:
        yield UsageError(f"{option} without {needed}: it would change nothing", fix=f"add {needed}")
    if request.churn is not None and request.filter:
        yield UsageError(
            "--churn with --filter: an index with metadata to filter by is not changed", fix="leave out one of the two"
        )
    if request.filter and request.filter_sweep:
        yield UsageError(
            "--filter-sweep with --filter: it compares filters with no filter", fix="leave out one of the two"
        )


def execution_notes(options: RunOptions) -> Iterator[str]:
    """Yield notes for the reader of the report, one sentence each."""
    if not options.timing:
        local = options.isolation is Isolation.PROCESS and options.executor == LOCAL
        if local and options.memory_limit is None:
            limit = f"datasets of up to {SMALL_DATASET:,} documents"
            left_out = f"no warm-up, one pass over the queries, and no memory figures on {limit}"
        else:
            left_out = "no warm-up, and one pass over the queries"
        yield f"no times were taken (--no-timing): {left_out}"
    if options.executor != LOCAL:
        yield (
            f"backends run on nodes of a Ray cluster (--executor {options.executor}): times and memory are measured "
            "on a node, while the machine described is the one where the command ran"
        )
    if options.isolation is Isolation.NONE:
        yield (
            "backends run in the harness's own process (--isolation none): their memory is not measured, "
            "and earlier backends may affect their times"
        )
