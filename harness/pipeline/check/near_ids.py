"""What a golden set may have meant by ids that no document has: told by the ids that documents do have."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from harness.data.golden_set import GoldenSet
from harness.data.id_spelling import respelling
from harness.data.types import Ids
from harness.pipeline.check.id_match import Expected, Match, MatchRule

__all__ = ["Meant", "meant_by"]

_DELIMITER = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")
_LOOKED_AT = 20
_MOST = 5_000
"""Nearest spellings are looked for among so many documents: 20 ids without digits take about a second then."""
_NEAR = 0.8


class Meant(NamedTuple):
    """What to do, "" where nothing tells, and missing id -> the id of a document that is spelled nearly so."""

    fix: str
    nearest: Mapping[str, str]


def meant_by(golden: GoldenSet, missing: Sequence[str], corpus: Ids) -> Meant:
    """What the first of the ``missing`` ids of a golden set, which names its ids exactly, may stand for.

    Told are documents of which the corpus holds chunks, several ids in one, one rule of spelling by which at least half
    of the ids meet, and slips of spelling. Ids whose numbers
    differ are never near: ``page-3`` is no misspelt ``page-2``.
    """
    looked_at = list(dict.fromkeys(missing))[:_LOOKED_AT]
    joined = next((name for name in looked_at if _is_several(name, corpus)), None)
    if joined is not None:
        return Meant(f"'{joined}' is several ids in one: between them write ; or | in CSV, and a list in JSON", {})
    match = _chunks(golden, looked_at, len(missing), corpus)
    if match is not None:
        fix = "where it names documents of which the corpus has chunks"
        return Meant(f"{fix}: --match {match.rule} --delimiter '{match.delimiter}'", {})
    spelled = respelling(list(dict.fromkeys(missing)), corpus)
    if spelled is not None:
        return Meant(f"{spelled}; write ids alike in both", {})
    return Meant("", _spelled_nearly(looked_at, corpus) if len(corpus) <= _MOST else {})


def _is_several(name: str, corpus: Ids) -> bool:
    parts = dict.fromkeys(part.strip() for part in name.split(","))
    return len(parts) > 1 and bool((corpus.rows_of(Ids.of(parts)) >= 0).all())


def _chunks(golden: GoldenSet, names: Sequence[str], missing: int, corpus: Ids) -> Match | None:
    """The rule by which most of the missing ids have chunks; None where that is not one more than without it."""
    seen: Counter[str] = Counter()
    for name in names:
        begun = corpus.values.filter(pc.starts_with(corpus.values, pattern=name)).to_pylist()
        seen.update({found[0] for one in begun if (found := _DELIMITER.match(one, len(name))) is not None})
    if not seen:
        return None
    delimiter = max(sorted(seen), key=seen.__getitem__)
    rules = [Match(MatchRule.DOCUMENT, delimiter), Match(MatchRule.PREFIX, delimiter)]
    left = {rule: len(Expected(golden, rule, corpus).missing) for rule in rules}
    best = min(rules, key=left.__getitem__)
    return best if left[best] < missing else None


def _spelled_nearly(names: Sequence[str], corpus: Ids) -> dict[str, str]:
    alike: dict[tuple[str, ...], dict[str, str]] = {}
    for doc_id in corpus:
        alike.setdefault(_numbers(doc_id), {}).setdefault(doc_id.casefold(), doc_id)
    found: dict[str, str] = {}
    for name in names:
        candidates = alike.get(_numbers(name), {})
        near = difflib.get_close_matches(name.casefold(), candidates, n=1, cutoff=_NEAR)
        found.update((name, candidates[one]) for one in near)
    return found


def _numbers(doc_id: str) -> tuple[str, ...]:
    return tuple(digits.lstrip("0") for digits in _DIGITS.findall(doc_id))
