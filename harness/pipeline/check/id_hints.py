"""Guess what a golden set meant by ids that no document has, from the ids that documents or hits do have."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import pyarrow.compute as pc

from harness.data.golden_set import GoldenSet
from harness.data.id_spelling import respelling
from harness.data.types import Ids
from harness.pipeline.check.id_match import Expected, Match, MatchRule

__all__ = ["IdAdvice", "IdKinds", "id_advice", "id_kinds"]

_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_HASH = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{32,}", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,31}")
_DELIMITER = re.compile(r"[\W_]+")
_CHUNK = re.compile(r"[^\W\d_]*[\W_]*\d+")
"""What follows a document's id and a delimiter in its chunk's: ``3``, ``p12``, ``chunk_3``."""
_SUFFIX = re.compile(r"\.[a-z]{1,5}\d?$")
_DIGITS = re.compile(r"\d+")
_LOOKED_AT = 20
_MOST = 5_000
"""Nearest spellings are looked for among so many documents: 20 ids without digits take about a second then."""
_NEAR = 0.8


class IdKinds(NamedTuple):
    """How two sets of ids differ in kind, as a clause of a sentence, and what to do."""

    reason: str
    fix: str


class _Chunk(NamedTuple):
    chunk: str
    document: str
    delimiter: str


def id_kinds(named: Set[str], hits: Set[str]) -> IdKinds | None:
    """Say why none of the ids that a golden set has ``named`` was among ``hits``; None where nothing tells.

    Reasons are ids of different forms (numbers, UUIDs and hashes, anything else), chunks of what is named or documents
    of named chunks, and ids that differ in case, in the folders before them, or in the suffix of a file. Neither set is
    empty, and they share no id.
    """
    forms = [sorted({_form(one) for one in side}) for side in (named, hits)]
    if not set(forms[0]) & set(forms[1]):
        return IdKinds(
            f"expected ids are {' and '.join(forms[0])}, those of hits are {' and '.join(forms[1])}",
            "return the ids that the golden set names: a key of the metadata, perhaps",
        )
    found = _chunk_of(hits, named)
    if found is not None:
        return IdKinds(
            f"the hit '{found.chunk}' is called like a chunk of '{found.document}'",
            f"where hits are chunks of what the golden set names: --match document --delimiter '{found.delimiter}'",
        )
    found = _chunk_of(named, hits)
    if found is not None:
        return IdKinds(
            f"the expected '{found.chunk}' is called like a chunk of the hit '{found.document}'",
            "return the ids of chunks, or have the golden set name documents",
        )
    return _spelled(named, hits)


def _form(doc_id: str) -> str:
    if _NUMBER.fullmatch(doc_id):
        return "numbers"
    return "UUIDs or hashes" if _UUID.fullmatch(doc_id) or _HASH.fullmatch(doc_id) else "names"


def _chunk_of(chunks: Set[str], documents: Set[str]) -> _Chunk | None:
    """Return the first of ``chunks`` that is called like one of ``documents``, a delimiter, and a number."""
    for chunk in sorted(chunks):
        for found in _DELIMITER.finditer(chunk):
            document = chunk[: found.start()]
            if document in documents and _CHUNK.fullmatch(chunk, found.end()):
                return _Chunk(chunk, document, found[0])
    return None


def _spelled(named: Set[str], hits: Set[str]) -> IdKinds | None:
    """Say whether some hit is a named id but for case, folders and suffix; those of both are never left out at once.

    ``a/index.md`` and ``b/index.md`` are two documents.
    """
    plain = {_plain(one): one for one in sorted(named)}
    shorter = {form: one for one in sorted(named) for form in _shorter(one)}
    for hit in sorted(hits):
        same = shorter.get(_plain(hit)) or next(
            (plain[one] for one in (_plain(hit), *_shorter(hit)) if one in plain), None
        )
        if same is not None:
            return IdKinds(
                f"the hit '{hit}' is '{same}' in another spelling", "return the ids as the golden set spells them"
            )
    return None


def _plain(doc_id: str) -> str:
    return doc_id.strip().casefold()


def _shorter(doc_id: str) -> Iterator[str]:
    """Yield an id without case and folders, and without a suffix too."""
    name = re.split(r"[/\\]", _plain(doc_id))[-1]
    yield name
    yield _SUFFIX.sub("", name)


class IdAdvice(NamedTuple):
    """What to do, "" where nothing tells, and missing id -> the id of a document that is spelled nearly so."""

    fix: str
    nearest: Mapping[str, str]


def id_advice(golden: GoldenSet, missing: Sequence[str], corpus: Ids) -> IdAdvice:
    """Advise on the first of the ``missing`` ids of a golden set, which names its ids exactly.

    They may stand for documents of which the corpus holds chunks, several ids in one, one rule of spelling by which at
    least half of the ids meet, or slips of spelling. Ids whose numbers differ are never near: ``page-3`` is no misspelt
    ``page-2``.
    """
    looked_at = list(dict.fromkeys(missing))[:_LOOKED_AT]
    joined = next((name for name in looked_at if _is_several(name, corpus)), None)
    if joined is not None:
        return IdAdvice(f"'{joined}' is several ids in one: between them write ; or | in CSV, and a list in JSON", {})
    match = _chunks(golden, looked_at, len(missing), corpus)
    if match is not None:
        fix = "where it names documents of which the corpus has chunks"
        return IdAdvice(f"{fix}: --match {match.rule} --delimiter '{match.delimiter}'", {})
    spelled = respelling(list(dict.fromkeys(missing)), corpus)
    if spelled is not None:
        return IdAdvice(f"{spelled}; write ids alike in both", {})
    return IdAdvice("", _spelled_nearly(looked_at, corpus) if len(corpus) <= _MOST else {})


def _is_several(name: str, corpus: Ids) -> bool:
    parts = dict.fromkeys(part.strip() for part in name.split(","))
    return len(parts) > 1 and bool((corpus.rows_of(Ids.of(parts)) >= 0).all())


def _chunks(golden: GoldenSet, names: Sequence[str], missing: int, corpus: Ids) -> Match | None:
    """Return the rule by which most of the missing ids have chunks; None where that is not one more than without it."""
    seen: Counter[str] = Counter()
    for name in names:
        begun = corpus.values.filter(pc.starts_with(corpus.values, pattern=name)).to_pylist()
        seen.update({match[0] for one in begun if (match := _DELIMITER.match(one, len(name))) is not None})
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
