"""Progress on standard error: one line per backend, its phase, how far it is, how fast, and how long it will take."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["ProgressDisplay", "SilentDisplay"]


class _Rate(ProgressColumn):
    """How many units of the phase are done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


class _Section:
    def __init__(self, bars: Progress, label: str) -> None:
        self._bars, self._label = bars, label
        self._task: TaskID | None = None

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase: the section's one line starts again from zero."""
        text = f"{self._label}: {phase}"
        if self._task is None:
            self._task = self._bars.add_task(text, total=total)
        else:
            self._bars.reset(self._task, description=text, total=total)

    def advance(self, amount: int) -> None:
        """Move the line forward."""
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def end(self) -> None:
        """Take the line away."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


class ProgressDisplay:
    """Bars on a terminal; on anything else one line of text when a backend is finished."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._sections: dict[str, _Section] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def section(self, label: str) -> _Section:
        """A line of its own for one encoding or backend."""
        return self._sections.setdefault(label, _Section(self._bars, label))

    def done(self, label: str, outcome: str) -> None:
        """Take the section's bar away and leave one line of text behind."""
        self.section(label).end()
        self._console.print(f"{label}: {outcome}", highlight=False, markup=False, soft_wrap=True)


class SilentDisplay:
    """No progress at all: the default of the Python interface."""

    def section(self, label: str) -> SilentDisplay:  # noqa: ARG002 - the signature is Display's
        """Itself: it takes every phase and shows none."""
        return self

    def start(self, phase: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def done(self, label: str, outcome: str) -> None:
        """Show nothing."""
