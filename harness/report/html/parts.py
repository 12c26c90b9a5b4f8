"""Parts that the pages of comparisons, checks and regressions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.report.cells import NOT_APPLICABLE
from harness.report.cells import Table as TextTable
from harness.report.document import Cell, Column, Facts, Table
from harness.results.schema import HarnessInfo, MachineInfo

__all__ = ["flat_rows", "made_by", "page_table"]

_GIB = 1024**3


def page_table(table: TextTable, lines: Sequence[str] = ()) -> Table:
    """A table that every textual format prints, with ``lines`` as its legend."""
    columns = [Column(name, numeric=at > 0 and _numeric(table, at)) for at, name in enumerate(table.columns)]
    return Table(table.title, columns, [[Cell(text) for text in row] for row in table.rows], lines)


def _numeric(table: TextTable, column: int) -> bool:
    """Whether at least half of what a column says are figures."""
    cells = [cell for row in table.rows if (cell := row[column]) not in ("", NOT_APPLICABLE)]
    return 2 * sum(cell.lstrip("<~[+−-").startswith(tuple("0123456789")) for cell in cells) >= len(cells)


def made_by(
    harness: HarnessInfo, machine: MachineInfo, created: str, title: str = "Made by", *, unfolded: bool = True
) -> Facts:
    """Version and commit, when, and on what machine."""
    state = {True: ", with uncommitted changes", False: "", None: ""}[harness.dirty]
    rows = {
        "harness": f"{harness.version}{f', commit {harness.commit}' if harness.commit else ''}{state}",
        "created": created,
        "system": f"{machine.system} · {machine.python}",
        "processor": f"{machine.processor} · {machine.cores} cores · {machine.memory_bytes / _GIB:.1f} GiB",
        **machine.thread_limits,
    }
    return Facts(title, list(rows.items()), open=unfolded)


def flat_rows(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Names and values as texts; what is None is left out."""
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in values.items()
        if value is not None
    ]
