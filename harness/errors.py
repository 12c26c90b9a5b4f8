"""Every error that the harness raises on purpose.

The tree, with the exit code that the command line gives each branch::

    HarnessError
    ├── UsageError               2   an argument is wrong
    │   └── UnknownNameError     2   a backend, dataset, metric or parameter that does not exist
    ├── CardError                2   a TOML card, or harness.toml, is malformed
    ├── DataError                3   a file of documents, queries, judgments or a run is malformed
    ├── RankingError             3   a ranking holds a score that is not finite, or the same document twice
    ├── MetricError              3   a metric of another package is faulty, or fails
    ├── LoaderError              3   a loader of another package fails
    ├── CacheError               3   a cache entry is damaged and could not be rebuilt
    ├── ResultError              3   a stored result is missing, damaged or of another schema
    └── BackendError             3   one backend could not do its work
        ├── MissingExtraError    3   an optional dependency is not installed
        ├── EngineUnavailableError  3   the engine cannot start or be reached
        ├── EngineTimeoutError   3   a phase outlived its deadline
        ├── MemoryLimitError     3   the worker outgrew its memory limit, or the command's own process has no room in it
        ├── MachineError         3   the machine has no disk space, memory or file descriptors left
        ├── EncoderError         3   a model could not give vectors
        ├── RejectedInputError   3   input that the engine would take silently and answer wrongly
        ├── LostDocumentsError   3   the engine holds other documents than it was sent
        ├── IndexChangedError    3   an external index changed while it was searched
        ├── MissingHitsError     3   a backend that another one is made of has no hits to give it
        └── EngineFailureError   3   the engine itself reported an error

A message names the event, the affected thing, and the fix.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar

from harness.plain_url import without_secrets
from harness.wording import readable

__all__ = [
    "BackendError",
    "CacheError",
    "CardError",
    "DataError",
    "EncoderError",
    "EngineFailureError",
    "EngineTimeoutError",
    "EngineUnavailableError",
    "HarnessError",
    "IndexChangedError",
    "LoaderError",
    "LostDocumentsError",
    "MachineError",
    "MemoryLimitError",
    "MetricError",
    "MissingExtraError",
    "MissingHitsError",
    "RankingError",
    "RejectedInputError",
    "ResultError",
    "UnknownNameError",
    "UsageError",
]

_SHOWN_PROBLEMS = 20
_EXAMPLES = 3
_NAMES = 12
_NEAR = 0.5
_SHORT = 4


class HarnessError(Exception):
    """An expected failure: printed without a traceback by the command line.

    ``problem`` is one sentence that names the thing; ``fix`` is the remedy; ``log`` holds the last lines of the process
    that failed.
    """

    exit_code: ClassVar[int] = 3
    repeats_arguments: ClassVar[bool] = False
    """Whether the message holds arguments as they were given, from which everything possibly secret is removed."""
    log: tuple[str, ...] = ()

    def __init__(self, problem: str, *, fix: str | None = None) -> None:
        if self.repeats_arguments:
            problem, fix = without_secrets(problem), None if fix is None else without_secrets(fix)
        self.problem = readable(problem)
        self.fix = None if fix is None else readable(fix)
        super().__init__(self.problem if self.fix is None else f"{self.problem}\n  {self.fix}")


class UsageError(HarnessError):
    """An argument is wrong."""

    exit_code = 2
    repeats_arguments = True


def nearness(name: str) -> float:
    """Return how much another name must be alike, of 1, to be meant by this one: a short one differs by one letter."""
    return 0.5 if len(name) < _SHORT else 0.6


def near_name(name: str, names: Iterable[str], *, cutoff: float | None = None) -> str | None:
    """Return the known name that is most like ``name``, None when none is near."""
    folded = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=cutoff or nearness(name))
    return folded[near[0]] if near else None


def nearest(name: str, names: Iterable[str], *, cutoff: float | None = None) -> str:
    """Return ``(did you mean 'x'?)`` with a leading space, or nothing when no known name is near."""
    near = near_name(name, names, cutoff=cutoff)
    return f" (did you mean '{near}'?)" if near else ""


class UnknownNameError(UsageError):
    """A name that is not registered; suggests the nearest one and lists the rest, or some of many.

    ``names`` holds all of them. ``aliases`` are accepted too: the nearest name may be an alias, and none is listed.
    ``of`` is the kind of name, ``or_else`` another possible meaning.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        names: Iterable[str],
        *,
        aliases: Iterable[str] = (),
        of: str = "",
        or_else: str = "",
    ) -> None:
        self.kind, self.name, self.names = kind, name, tuple(sorted(names))
        near = near_name(name, (*aliases, *self.names))
        hint = f"did you mean '{near}'? " if near else ""
        owner = f" of {of}" if of else ""
        choices = _format_choices(name, self.names) or "none"
        super().__init__(f"unknown {kind} '{name}'{owner}", fix=f"{hint}{or_else}known: {choices}")


def _format_choices(name: str, names: Sequence[str]) -> str:
    """All names when they are few, else the nearest ones, then the first of the others, and how many there are."""
    if len(names) <= _NAMES:
        return ", ".join(names)
    likeness = {one: difflib.SequenceMatcher(None, name.lower(), one.lower()).ratio() for one in names}
    near = sorted((one for one in names if likeness[one] >= _NEAR), key=lambda one: -likeness[one])
    shown_names = list(dict.fromkeys([*near, *names]))[:_NAMES]
    return f"{', '.join(shown_names)}, … ({len(names)} in all)"


class CardError(HarnessError):
    """A TOML card, or ``harness.toml``, is malformed."""

    exit_code = 2
    repeats_arguments = True


class DataError(HarnessError):
    """One input file is malformed: all its problems in one report (the first 20, then a count).

    ``further`` holds the problems of further files, if several were read before anything was reported.
    """

    def __init__(
        self,
        source: str,
        problems: Sequence[str],
        *,
        fix: str | None = None,
        count: int | None = None,
        because: str | None = None,
        further: Sequence[DataError] = (),
    ) -> None:
        """``count`` is the number of problems when ``problems`` holds only the first of them.

        ``because`` explains them: it is shown first, and a few of the problems after it as examples.
        """
        raw_source, source = source, without_secrets(source)  # it may be a URL that was taken for a path
        if source != raw_source:  # systems and libraries repeat it; ids are left as they are
            problems = [problem.replace(raw_source, source) for problem in problems]
        self.source, self.further = source, tuple(further)
        self.problems = tuple(readable(problem).replace("\n", "\\n") for problem in problems)
        self.count = len(self.problems) if count is None else count
        self.because = None if because is None else readable(because)
        lines = [f"  {problem}" for problem in self.problems[: _SHOWN_PROBLEMS if because is None else _EXAMPLES]]
        if self.count > len(lines):
            lines.append(f"  … and {self.count - len(lines)} more")
        plural = "problem" if self.count == 1 else "problems"
        reason = [] if self.because is None else [f"  {self.because}"]
        super().__init__("\n".join([f"{source}: {self.count} {plural}", *reason, *lines]), fix=fix)
        if further:
            self.args = ("\n".join(map(str, (self, *further))),)

    @classmethod
    def of_files(cls, faults: Sequence[DataError]) -> DataError:
        """Return one error for all of ``faults`` (at least one), in their order; the same fault is reported once."""
        first, *further = {str(fault): fault for fault in faults}.values()
        if not further:
            return first
        return cls(
            first.source, first.problems, fix=first.fix, count=first.count, because=first.because, further=further
        )


class RankingError(HarnessError):
    """A ranking holds a score that is not finite, or the same document twice."""

    def __init__(self, problem: str, *, fix: str | None = None) -> None:
        super().__init__(problem.replace("\n", "\\n"), fix=fix)  # of an id: such a message is one line


class MetricError(HarnessError):
    """A metric of another package is not a metric, has a name that is taken, fails, or does not give a number."""


class LoaderError(HarnessError):
    """A loader of another package fails, or gives parts of a wrong type."""


class CacheError(HarnessError):
    """A cache entry is damaged and could not be rebuilt."""


class ResultError(HarnessError):
    """A stored result is missing, damaged, or has another version of the schema."""

    repeats_arguments = True


class BackendError(HarnessError):
    """One backend could not do its work; the others go on."""

    def __init__(self, problem: str, *, fix: str | None = None, log: Sequence[str] = ()) -> None:
        self.log = tuple(log)
        super().__init__(problem, fix=fix)


class MissingExtraError(BackendError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, *, extra: str, feature: str, also: str = "") -> None:
        self.module, self.extra, self.feature = module, extra, feature
        super().__init__(
            f"{feature} needs the Python module '{module}', which cannot be imported",
            fix=f"pip install 'retrieval-harness[{extra}]'{also}",
        )


class EngineUnavailableError(BackendError):
    """The engine cannot start or be reached.

    ``connected`` is False if no connection to a server was made: further calls would wait for it in vain. ``status`` is
    that of an HTTP answer that refused a call, None for any other failure.
    """

    def __init__(
        self,
        problem: str,
        *,
        fix: str | None = None,
        log: Sequence[str] = (),
        connected: bool = True,
        status: int | None = None,
    ) -> None:
        self.connected, self.status = connected, status
        super().__init__(problem, fix=fix, log=log)


class EngineTimeoutError(BackendError):
    """A phase outlived its deadline."""


class MemoryLimitError(BackendError):
    """The worker outgrew its memory limit, or the command's own process has no room in it."""


class MachineError(BackendError):
    """The machine has no disk space, memory or file descriptors left: this says nothing about the backend."""


class EncoderError(BackendError):
    """A model, or the process that it ran in, could not give vectors."""


class RejectedInputError(BackendError):
    """Input that the engine would take silently and answer wrongly."""


class LostDocumentsError(BackendError):
    """The engine holds other documents than it was sent."""


class IndexChangedError(BackendError):
    """An external index changed while it was searched, by us or by another process: its figures match neither state."""


class MissingHitsError(BackendError):
    """A backend that another one is made of has no hits to give it."""


class EngineFailureError(BackendError):
    """The engine itself reported an error."""
