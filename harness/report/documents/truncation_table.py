"""Tabulate how much models read of their texts."""

from __future__ import annotations

from collections.abc import Sequence

from harness.document.cells import ABSENT, BACKEND, count, number, text
from harness.document.model import Column, Table
from harness.results.schema import TrialResult


def truncation_tables(trials: Sequence[TrialResult], title_suffix: str = "") -> list[Table]:
    """Return the table of truncated texts, a row for each backend and kind of text; empty without any.

    ``title_suffix`` ends its title.
    """
    columns = [
        BACKEND,
        Column("texts", numeric=False),
        *map(Column, ("counted", "truncated", "relevant", "not read", "limit")),
        Column("set by", numeric=False),
    ]
    rows = []
    legend: dict[str, None] = {"not read: share of the tokens of the counted texts beyond the model's limit": None}
    for trial in trials:
        for part in trial.truncation:
            counted = part.counted > 0
            counts = (part.counted, part.truncated if counted else None, part.relevant if counted else None)
            share = part.unread / part.units if part.units else None
            origin = part.limit_from or ABSENT
            if part.unit != "tokens":
                origin = f"{origin}, in {part.unit}"
            cells = [*map(count, counts), number(share, ".1%"), count(part.limit), text(origin)]
            rows.append([text(trial.label), text(f"{part.number:,} {part.texts}"), *cells])
            if part.unknown_reason is not None:
                legend[f"{trial.label}, {part.texts}: not all lengths are known, because {part.unknown_reason}"] = None
    return (
        [Table(f"Texts longer than the model reads{title_suffix}", columns, rows, list(legend), detail=True)]
        if rows
        else []
    )
