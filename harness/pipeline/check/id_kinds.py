"""Whether ids that never meet are of two kinds: the one thing that can be told of documents that nobody can list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import NamedTuple

__all__ = ["Kinds", "kinds_of"]

_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_HASH = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{32,}", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,31}")
_DELIMITER = re.compile(r"[\W_]+")
_CHUNK = re.compile(r"[^\W\d_]*[\W_]*\d+")
"""What follows a document's id and a delimiter in its chunk's: ``3``, ``p12``, ``chunk_3``."""
_SUFFIX = re.compile(r"\.[a-z]{1,5}\d?$")


class Kinds(NamedTuple):
    """How two sets of ids differ in kind, as a clause of a sentence, and what to do."""

    reason: str
    fix: str


class _Chunk(NamedTuple):
    chunk: str
    document: str
    delimiter: str


def kinds_of(named: Set[str], hits: Set[str]) -> Kinds | None:
    """Why none of the ids that a golden set has ``named`` was among ``hits``; None where nothing tells.

    Told are ids of different forms (numbers, UUIDs and hashes, anything else), chunks of what is named or documents of
    named chunks, and ids that differ in case, in the folders before them, or in the suffix of a file. Neither set is
    empty, and they share no id.
    """
    forms = [sorted({_form(one) for one in side}) for side in (named, hits)]
    if not set(forms[0]) & set(forms[1]):
        return Kinds(
            f"expected ids are {' and '.join(forms[0])}, those of hits are {' and '.join(forms[1])}",
            "return the ids that the golden set names: a key of the metadata, perhaps",
        )
    found = _chunk_of(hits, named)
    if found is not None:
        return Kinds(
            f"the hit '{found.chunk}' is called like a chunk of '{found.document}'",
            f"where hits are chunks of what the golden set names: --match document --delimiter '{found.delimiter}'",
        )
    found = _chunk_of(named, hits)
    if found is not None:
        return Kinds(
            f"the expected '{found.chunk}' is called like a chunk of the hit '{found.document}'",
            "return the ids of chunks, or have the golden set name documents",
        )
    return _spelled(named, hits)


def _form(doc_id: str) -> str:
    if _NUMBER.fullmatch(doc_id):
        return "numbers"
    return "UUIDs or hashes" if _UUID.fullmatch(doc_id) or _HASH.fullmatch(doc_id) else "names"


def _chunk_of(chunks: Set[str], documents: Set[str]) -> _Chunk | None:
    """The first of ``chunks`` that is called like one of ``documents``, a delimiter, and a number."""
    for chunk in sorted(chunks):
        for found in _DELIMITER.finditer(chunk):
            document = chunk[: found.start()]
            if document in documents and _CHUNK.fullmatch(chunk, found.end()):
                return _Chunk(chunk, document, found[0])
    return None


def _spelled(named: Set[str], hits: Set[str]) -> Kinds | None:
    """Whether some hit is a named id but for case, folders and suffix; those of both are never left out at once.

    ``a/index.md`` and ``b/index.md`` are two documents.
    """
    plain = {_plain(one): one for one in sorted(named)}
    shorter = {form: one for one in sorted(named) for form in _shorter(one)}
    for hit in sorted(hits):
        same = shorter.get(_plain(hit)) or next(
            (plain[one] for one in (_plain(hit), *_shorter(hit)) if one in plain), None
        )
        if same is not None:
            return Kinds(
                f"the hit '{hit}' is '{same}' in another spelling", "return the ids as the golden set spells them"
            )
    return None


def _plain(doc_id: str) -> str:
    return doc_id.strip().casefold()


def _shorter(doc_id: str) -> Iterator[str]:
    """An id without case and folders, and without a suffix too."""
    name = re.split(r"[/\\]", _plain(doc_id))[-1]
    yield name
    yield _SUFFIX.sub("", name)
