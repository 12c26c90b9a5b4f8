"""One answer to one question, whatever shape a retriever gives it."""

from __future__ import annotations

import math
import numbers
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.data.types import BAD_ID, BAD_ID_IS

__all__ = ["Answer", "read_answer"]

_IDS = ("id", "_id", "doc_id", "document_id", "chunk_id", "id_", "node_id")
_SCORES = ("score", "_score", "similarity")
_TEXTS = ("text", "page_content", "content")
_PAIR = 2
_SHOWN = 80
_LARGEST_SCORE = (2 - 2**-23) * 2.0**127
"""The largest float32, in which scores are compared."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits in the retriever's order.

    ``scores`` is None where it gives none; else one a hit, higher is better unless they rise. ``texts`` holds None for
    a hit without its text. ``failure`` is why there is no answer, None where there is one, be it empty.
    """

    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    texts: tuple[str | None, ...] = ()
    failure: str | None = None


class _Hit(NamedTuple):
    id: str
    score: float | None
    text: str | None


def read_answer(returned: object) -> Answer:
    """What a callable returned: an iterable of hits, each an id, a pair of id and score, a mapping, or an object.

    Ids are strings, whole numbers or UUIDs. Mappings and objects are asked for ``id``, ``score`` and ``text`` and the
    names that LangChain, LlamaIndex and Haystack have for them; the first of a pair may be one of those. Raises
    TypeError or ValueError, saying which hit it is about, for anything else: no id, a score that is no finite number,
    scores for some hits and not for others.
    """
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise TypeError(f"it returned {_shown(returned)}, expected a list of ids, or of pairs of id and score")
    hits = [_hit(place, one) for place, one in enumerate(returned, 1)]
    scores = [one.score for one in hits if one.score is not None]
    if scores and len(scores) < len(hits):
        place = next(place for place, one in enumerate(hits, 1) if one.score is None)
        raise ValueError(f"hit {place} has no score and others have: give all of them one, or none")
    return Answer(tuple(one.id for one in hits), tuple(scores) or None, tuple(one.text for one in hits))


def _hit(place: int, one: object) -> _Hit:
    if isinstance(one, Sequence) and not isinstance(one, str | bytes):
        if len(one) != _PAIR:
            raise ValueError(f"hit {place} is {_shown(one)}, expected an id, or a pair of id and score")
        named = _hit(place, one[0])
        return named._replace(score=_score(place, one[1]))
    own = _id(one)
    if own is not None:
        return _Hit(_printable(place, own), None, None)
    score = _first(one, _SCORES)
    document = _first(one, ("node",))  # LlamaIndex's NodeWithScore
    document = one if document is None else document
    found = _id(_first(document, _IDS))
    if found is None:
        raise ValueError(
            f"hit {place} is {_shown(one)} and has no id: give each document one, or return pairs of id and score"
        )
    text = _first(document, _TEXTS)
    return _Hit(
        _printable(place, found),
        None if score is None else _score(place, score),
        text if isinstance(text, str) else None,
    )


def _id(value: object) -> str | None:
    """An id as a string, None for what is none."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, uuid.UUID | numbers.Integral):
        return None
    return str(value)


def _printable(place: int, found: str) -> str:
    """What the ids of every collection are held to: another side must not write to somebody's terminal or log."""
    if re.search(BAD_ID, found):
        raise ValueError(f"the id of hit {place}, {_shown(found)}, {BAD_ID_IS}")
    return found


def _first(one: object, names: Sequence[str]) -> Any:  # noqa: ANN401 - of somebody else's object
    """The first of some fields or attributes that is not None."""
    values = (one.get(name) if isinstance(one, Mapping) else getattr(one, name, None) for name in names)
    return next((value for value in values if value is not None), None)


def _score(place: int, value: Any) -> float:  # noqa: ANN401 - of somebody else's object
    try:
        score = float(value) if not isinstance(value, str | bytes | bool) else math.nan
    except (TypeError, ValueError):
        score = math.nan
    if not abs(score) <= _LARGEST_SCORE:
        raise ValueError(f"the score of hit {place} is {_shown(value)}, expected a finite number within float32")
    return score


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
