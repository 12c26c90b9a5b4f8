"""What a retriever is, and how one is asked: every question, in order, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from harness.data.progress import Clock, Progress
from harness.data.types import Int64Array
from harness.engines.callable.answers import Answer
from harness.errors import EngineTimeoutError, EngineUnavailableError, HarnessError

__all__ = ["Asked", "Retriever", "ask"]

_GIVE_UP = 5
"""Failures in a row after which the rest is not asked: each may take all the patience that there is."""
_NEVER = -1
_NS_PER_S = 1e9
_LINES = 6


class Retriever(Protocol):
    """Something that answers questions. Use it as a context manager."""

    @property
    def repeated(self) -> int:
        """Calls that were made again after a failure that passed."""

    def retrieve(self, question: str, k: int) -> Answer:
        """The hits for one question, best first; raises HarnessError when this question has no answer."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """Answers in the order of the questions, of the first pass.

    ``search_ns`` int64 (passes, questions) is the time of each call, negative where it failed or was not made.
    """

    answers: tuple[Answer, ...]
    search_ns: Int64Array
    repeated: int = 0


def ask(
    retriever: Retriever,
    questions: Sequence[str],
    k: int,
    *,
    repeats: int,
    warm_up: bool,
    deadline_s: float | None,
    clock: Clock,
    progress: Progress,
) -> Asked:
    """Every question ``repeats`` times; with ``warm_up`` the first is asked once before, unmeasured.

    A question that fails keeps its reason, and the others are asked; after five failures in a row the rest is not, nor
    after one that reached no server. Raises EngineUnavailableError where the first call of all reaches none, and
    EngineTimeoutError when all of it takes longer than ``deadline_s``, looked at between calls.
    """
    started = clock()
    progress.start("ask", len(questions) * repeats)
    calls = _Calls(retriever, k)
    if warm_up and questions:
        calls.answer(questions[0])
    search_ns = np.full((repeats, len(questions)), _NEVER, dtype=np.int64)
    first: list[Answer] = []
    for turn in range(repeats):
        calls.failures = 0
        for place, question in enumerate(questions):
            if deadline_s is not None and clock() - started > deadline_s * _NS_PER_S:
                raise EngineTimeoutError(
                    f"only {turn * len(questions) + place} of {search_ns.size} calls were made in {deadline_s:g} s",
                    fix="give it more time with --deadline, or look at why it is slow",
                )
            asked = clock()
            answer = calls.answer(question)
            if answer.failure is None:
                search_ns[turn, place] = clock() - asked
            if turn == 0:
                first.append(answer)
            progress.advance(1)
    return Asked(tuple(first), search_ns, retriever.repeated)


class _Calls:
    """The calls of one retriever, and when to make no more; ``failures`` counts those in a row."""

    def __init__(self, retriever: Retriever, k: int) -> None:
        self._retriever, self._k = retriever, k
        self._made = self._server_gone = False
        self.failures = 0

    def answer(self, question: str) -> Answer:
        if self._server_gone:
            return Answer(failure="not asked: a question before it reached no server")
        if self.failures == _GIVE_UP:
            return Answer(failure=f"not asked: {_GIVE_UP} questions before it failed in a row")
        try:
            answer = self._retriever.retrieve(question, self._k)
        except HarnessError as error:
            if isinstance(error, EngineUnavailableError) and not error.connected:
                if not self._made:
                    raise
                self._server_gone = True
            answer = Answer(failure="\n".join([str(error), *error.log[-_LINES:]]))
        self._made = True
        self.failures = 0 if answer.failure is None else self.failures + 1
        return answer
