"""Progress on standard error: one line per backend, its phase, how far it is, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
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

_SILENCE_S = 30.0
_FAST_RATE = 10  # units a second, from which on no decimal is shown


def _speed(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= _FAST_RATE else f"{rate:.1f}/s"


class _Rate(ProgressColumn):
    """The number of units of the phase done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else _speed(speed))


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


class _Log:
    """Off a terminal: a line at most every ``_SILENCE_S`` seconds of a phase, so that a log shows that it goes on."""

    def __init__(self, say: Callable[[str], None], label: str, clock: Callable[[], float]) -> None:
        self._say, self._label, self._clock = say, label, clock
        self.start("", None)

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase: a short one says nothing."""
        self._phase, self._total, self._done = phase, total, 0
        self._begun = self._printed = self._clock()

    def advance(self, amount: int) -> None:
        """Count, and speak when it is time to."""
        self._done += amount
        now = self._clock()
        if now - self._printed >= _SILENCE_S:
            self._printed = now
            self._say(f"{self._label}: {self._phase}: {self._how_far(now - self._begun)}")

    def end(self) -> None:
        """Nothing is left to take away."""

    def _how_far(self, seconds: float) -> str:
        rate = self._done / seconds
        if self._total is None:
            return f"{self._done:,}, {_speed(rate)}"
        left = timedelta(seconds=round(max(self._total - self._done, 0) / rate)) if rate else "unknown"
        return f"{self._done:,} of {self._total:,}, {_speed(rate)}, time left {left}"


class ProgressDisplay:
    """Bars on a terminal; on anything else a line when a backend is finished, and one now and then until it is.

    ``clock`` gives seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._sections: dict[str, _Section | _Log] = {}
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
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

    def section(self, label: str) -> _Section | _Log:
        """Open a separate line for one encoding or backend."""
        if label not in self._sections:
            on_terminal = self._console.is_terminal
            made = _Section(self._bars, label) if on_terminal else _Log(self._print, label, self._clock)
            self._sections.setdefault(label, made)
        return self._sections[label]

    def done(self, label: str, outcome: str) -> None:
        """Take the section's bar away and leave one line of text behind."""
        self.section(label).end()
        self._print(f"{label}: {outcome}")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)
