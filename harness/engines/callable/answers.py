"""Answers of backends in any shape, from questions that are sent in order, one at a time."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from harness.data.field_paths import field_of, text_of
from harness.data.filtering import NO_FILTER, Conditions
from harness.data.frames import as_table, rows_of
from harness.data.progress import Clock, Progress
from harness.data.python_values import as_id
from harness.data.types import BAD_ID, BAD_ID_IS, Int64Array
from harness.errors import EngineTimeoutError, EngineUnavailableError, HarnessError
from harness.store.cpu_use import OtherProcesses, other_processes, read_cpu

__all__ = [
    "PLAIN",
    "SCORES",
    "TEXTS",
    "Answer",
    "AnsweredQueries",
    "CalledBackend",
    "HitContent",
    "ask",
    "first_of",
    "read_answer",
    "separate_ids",
]

_IDS = ("id", "_id", "doc_id", "document_id", "chunk_id", "id_", "node_id")
SCORES = ("score", "_score", "similarity")
TEXTS = ("text", "page_content", "content")
_METADATA = ("metadata", "meta")
_LONGEST_VALUE = 200
_PAIR = 2
_LONGEST_TEXT = 80
_LARGEST_SCORE = (2 - 2**-23) * 2.0**127
"""The largest float32, the type in which scores are compared."""
_GIVE_UP = 5
"""Consecutive failures after which no more questions are sent: each may last until its time limit."""
_NEVER = -1
_NS_PER_S = 1e9
_LINES = 6
_DIGEST = 8


@dataclass(frozen=True, slots=True)
class HitContent:
    """The content of hits by which expectations are matched, besides ids.

    ``field`` names a field of each hit, perhaps a dotted path, "" for none; ``texts`` is whether texts are compared.
    Hits then need no id.
    """

    field: str = ""
    texts: bool = False


PLAIN = HitContent()
"""Only ids are matched."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits in the backend's order.

    ``scores`` is None if the backend gives no scores; otherwise a score per hit, higher is better unless they rise.
    ``texts`` holds None for a hit without its text. ``failure`` is why there is no answer, None for an answer, even an
    empty one. ``values`` are the values of the field of :class:`HitContent`, None for a hit without the field, and ()
    if no field was requested. ``keys`` are the documents' ids if ``ids`` are the values of another field, () otherwise.
    ``metadata`` holds short values of each hit's metadata, nested as the hit has them, by which an expectation may be
    meant; () if texts were requested, or a field that the hits have.
    """

    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    texts: tuple[str | None, ...] = ()
    failure: str | None = None
    values: tuple[str | None, ...] = ()
    keys: tuple[str, ...] = ()
    metadata: tuple[Mapping[str, Mapping[str, str]], ...] = ()

    def take(self, positions: Sequence[int]) -> Answer:
        """Return the answer with only the hits at these positions."""

        def select(column: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(column[position] for position in positions) if column else ()

        return replace(
            self,
            ids=select(self.ids),
            scores=select(self.scores or ()) or None,
            texts=select(self.texts),
            values=select(self.values),
            keys=select(self.keys),
            metadata=select(self.metadata),
        )


class _Hit(NamedTuple):
    id: str | None
    score: float | None
    text: str | None
    value: str | None = None
    metadata: Mapping[str, Mapping[str, str]] = {}


def read_answer(returned: object, content: HitContent = PLAIN) -> Answer:
    """Read a callable's answer: an iterable of hits, each an id, a pair of id and score, a mapping, or an object.

    A table, of pandas or any library that Arrow reads, has a row for each hit. Ids are those of
    :func:`harness.data.python_values.as_id`. Mappings and objects are read by ``id``, ``score`` and ``text`` and by
    LangChain's, LlamaIndex's and Haystack's names for these; the first of a pair may be a mapping or an object. Raises
    TypeError or ValueError, naming the hit, for anything else: no id, a score that is not a finite number, scores for
    only some hits. A hit without an id gets one from its ``content``, if that is matched.
    """
    table = as_table(returned)
    if table is not None:
        returned = rows_of(table, "answer")
    elif hasattr(returned, "__array__") and hasattr(returned, "tolist"):  # rows of an array are pairs
        returned = returned.tolist()
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise TypeError(f"it returned {_as_text(returned)}, expected a list of ids, or of pairs of id and score")
    if isinstance(returned, Set) and len(returned) > 1 and not isinstance(returned, MappingView):
        raise TypeError(f"it returned {_as_text(returned)}, a set, which has no first hit: expected a list")
    hits = [_hit(rank, hit, content) for rank, hit in enumerate(returned, 1)]
    scores = [hit.score for hit in hits if hit.score is not None]
    if scores and len(scores) < len(hits):
        rank = next(rank for rank, hit in enumerate(hits, 1) if hit.score is None)
        raise ValueError(f"hit {rank} has no score, but others have: give all of them a score, or none")
    values = tuple(hit.value for hit in hits) if content.field else ()
    metadata = tuple(hit.metadata for hit in hits) if any(hit.metadata for hit in hits) else ()
    texts = tuple(hit.text for hit in hits)
    return Answer(_distinct_ids(hits), tuple(scores) or None, texts, values=values, metadata=metadata)


def _distinct_ids(hits: Sequence[_Hit]) -> tuple[str, ...]:
    """Return the ids of hits. Hits without an id, or with the compared value as their id, are numbered if they repeat.

    An id that repeats otherwise is left so: it is a document that was returned twice.
    """
    ids, counts = list[str](), Counter[str]()
    for hit in hits:
        name = made_id(hit.value, hit.text) if hit.id is None else hit.id
        if hit.id is None or hit.id == hit.value:
            counts[name] += 1
            name = name if counts[name] == 1 else f"{name} ({counts[name]})"
        ids.append(name)
    return tuple(ids)


def made_id(value: str | None, text: str | None) -> str:
    """Return an id for a document that has none: its value, and a digest of its text."""
    digest = "" if text is None else f"#{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:_DIGEST]}"
    return f"{value or 'text'}{digest}"


def separate_ids(answers: Sequence[Answer]) -> list[Answer]:
    """Return answers whose ids are unique in each if they were read from a field that several documents share.

    The field's values then are ``values``, and the ids are the documents' own. Nothing changes if no answer repeats an
    id, or if documents were asked for no other field.
    """
    if not any(answer.keys and len(set(answer.ids)) < len(answer.ids) for answer in answers):
        return list(answers)
    return [replace(answer, ids=answer.keys, values=answer.values or answer.ids, keys=()) for answer in answers]


def _hit(rank: int, returned: object, content: HitContent = PLAIN) -> _Hit:
    if isinstance(returned, Sequence) and not isinstance(returned, str | bytes) and not _has_id(returned):
        if len(returned) != _PAIR:
            raise ValueError(f"hit {rank} is {_as_text(returned)}, expected an id, or a pair of id and score")
        hit = _hit(rank, returned[0], content)
        return hit if returned[1] is None else hit._replace(score=_score(rank, returned[1]))
    returned_id = _id(returned)
    if returned_id is not None:
        return _Hit(_printable(rank, returned_id), None, None, returned_id if content.field in _IDS else None)
    score = first_of(returned, SCORES)
    document = first_of(returned, ("node",))  # LlamaIndex's NodeWithScore
    document = returned if document is None else document
    document_id, text = _id(first_of(document, _IDS)), first_of(document, TEXTS)
    text = str.__str__(text) if isinstance(text, str) else None
    field_value = field_of(document, content.field) if content.field else None
    value = _id(field_value) or text_of(field_value)
    if document_id is None and value is None and not (content.texts and text is not None):
        missing = f" and no '{content.field}'" if content.field else ""
        raise ValueError(
            f"hit {rank} is {_as_text(returned)} and has no id{missing}: give each document an id, or return pairs of "
            "id and score"
        )
    return _Hit(
        None if document_id is None else _printable(rank, document_id),
        None if score is None else _score(rank, score),
        text,
        None if value is None else _printable(rank, value),
        _short_metadata(document) if value is None and not content.texts else {},
    )


def _short_metadata(document: object) -> dict[str, dict[str, str]]:
    """Return the metadata of a document by the name of its container, of values that could be an id."""
    short: dict[str, dict[str, str]] = {}
    for container in _METADATA:
        metadata = _member(document, container)
        for name, item in metadata.items() if isinstance(metadata, Mapping) else ():
            value = _id(item)
            if value is not None and len(value) <= _LONGEST_VALUE:
                short.setdefault(container, {})[str(name)] = value
    return short


def _has_id(hit: object) -> bool:
    """Return whether a sequence is a named tuple with a document id, not a pair."""
    return not set(_IDS).isdisjoint(getattr(hit, "_fields", ()))


def _id(value: object) -> str | None:
    """Return an id as a string; None if the value is not an id."""
    return as_id(value) or None


def _printable(rank: int, document_id: str) -> str:
    """Apply the rule of all collections to an id: the other side must not write to the user's terminal or log."""
    if re.search(BAD_ID, document_id):
        raise ValueError(f"the id of hit {rank}, {_as_text(document_id)}, {BAD_ID_IS}")
    return document_id


def first_of(document: object, names: Sequence[str]) -> Any:
    """Return the first of these fields or attributes that is not None."""
    values = (_member(document, name) for name in names)
    return next((value for value in values if value is not None), None)


def _member(document: object, name: str) -> Any:
    return document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)


def _score(rank: int, value: Any) -> float:
    try:
        score = float(value) if not isinstance(value, str | bytes | bool) else math.nan
    except (TypeError, ValueError):
        score = math.nan
    if not abs(score) <= _LARGEST_SCORE:
        raise ValueError(f"the score of hit {rank} is {_as_text(value)}, expected a finite number within float32")
    return score


def _as_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


class CalledBackend(Protocol):
    """A backend that answers questions. Use it as a context manager."""

    @property
    def repeated(self) -> int:
        """Number of calls repeated after a transient failure."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return facts for reports, besides the answers."""

    def retrieve(self, question: str, k: int, conditions: Conditions = NO_FILTER) -> Answer:
        """Return the hits for a question among the documents that meet all ``conditions``, best first.

        Raises HarnessError if this question gets no answer.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, eq=False, slots=True)
class AnsweredQueries:
    """Answers in the order of the questions, of the first pass.

    ``search_ns`` int64 (passes, questions) is the time of each call, negative if it failed or was not made. ``notes``
    are the backend's own. ``other_processes`` is the use of other processes during the calls; they may include a
    server that it searches.
    """

    answers: tuple[Answer, ...]
    search_ns: Int64Array
    repeated: int = 0
    notes: tuple[str, ...] = ()
    other_processes: OtherProcesses | None = None


def ask(
    backend: CalledBackend,
    questions: Sequence[str],
    k: int,
    *,
    repeats: int,
    warm_up: bool,
    deadline_s: float | None,
    clock: Clock,
    progress: Progress,
    filters: Sequence[Conditions] = (),
) -> AnsweredQueries:
    """Send every question ``repeats`` times; with ``warm_up`` the first is also sent once before, unmeasured.

    ``filters`` are the conditions of each question, none for questions without a filter; empty without any.

    The reason of a failure is kept, and the other questions are still sent; sending stops after five failures in a row,
    or after a call that reached no server. Raises EngineUnavailableError if the very first call reaches no server, and
    EngineTimeoutError if all calls take longer than ``deadline_s``, checked between calls.
    """
    started, before = clock(), read_cpu()
    progress.start("ask", len(questions) * repeats)
    calls = _Calls(backend, k)
    arguments: Sequence[tuple[Conditions, ...]] = [(each,) for each in filters] or [()] * len(questions)
    if warm_up and questions:
        calls.answer(questions[0], *arguments[0])
    search_ns = np.full((repeats, len(questions)), _NEVER, dtype=np.int64)
    first: list[Answer] = []
    for turn in range(repeats):
        calls.failures = 0
        for position, question in enumerate(questions):
            if deadline_s is not None and clock() - started > deadline_s * _NS_PER_S:
                raise EngineTimeoutError(
                    f"only {turn * len(questions) + position} of {search_ns.size} calls were made in {deadline_s:g} s",
                    fix="give it more time with --deadline, or look at why it is slow",
                )
            sent = clock()
            answer = calls.answer(question, *arguments[position])
            if answer.failure is None:
                search_ns[turn, position] = clock() - sent
            if turn == 0:
                first.append(answer)
            progress.advance(1)
    other_use = other_processes("search", before, read_cpu(), server=True)
    return AnsweredQueries(tuple(first), search_ns, backend.repeated, backend.notes, other_processes=other_use)


class _Calls:
    """The calls of one backend, and the rule to stop; ``failures`` counts consecutive failures."""

    def __init__(self, backend: CalledBackend, k: int) -> None:
        self._backend, self._k = backend, k
        self._made = self._server_gone = False
        self.failures = 0

    def answer(self, question: str, *conditions: Conditions) -> Answer:
        if self._server_gone:
            return Answer(failure="not queried: an earlier question reached no server")
        if self.failures == _GIVE_UP:
            return Answer(failure=f"not queried: the {_GIVE_UP} questions before it failed in a row")
        try:
            answer = self._backend.retrieve(question, self._k, *conditions)
        except HarnessError as error:
            if isinstance(error, EngineUnavailableError) and not error.connected:
                if not self._made:
                    raise
                self._server_gone = True
            answer = Answer(failure="\n".join([str(error), *error.log[-_LINES:]]))
        self._made = True
        self.failures = 0 if answer.failure is None else self.failures + 1
        return answer
