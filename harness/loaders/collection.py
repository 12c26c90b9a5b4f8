"""A dataset by the name of its card or by its path."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.cards import DatasetCard
from harness.errors import DataError, UnknownNameError, UsageError
from harness.filtering import apply_filter
from harness.golden.golden_set import GoldenSet
from harness.loaders.beir import CORPUS, LAYOUT, Collection, Reading, read_collection, read_corpus
from harness.loaders.golden import load_golden, read_golden
from harness.loaders.metadata import prepare_metadata
from harness.loaders.prepared import JoinRule
from harness.loaders.source import Source, open_source
from harness.protocols import Progress
from harness.registry import find_cards
from harness.storage.cache import Cache
from harness.strict_toml import nearest
from harness.types import Corpus, Dataset

__all__ = ["check_dataset", "filter_dataset", "load_corpus", "load_dataset", "load_golden_of"]

GOLDEN = "golden.jsonl"
_FILES = (".jsonl", ".csv", ".gz")
"""A name that ends so, and is not there, is a missing file and no unknown dataset."""

_log = logging.getLogger("harness")


def load_dataset(
    name_or_path: str | Path,
    *,
    split: str | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Documents, queries and judgments of a dataset.

    ``name_or_path`` is the name of a card, or a folder or ``.zip`` in BEIR layout; a name without ``/`` is a card's if
    there is such a card. ``split`` defaults to the card's, else to ``test`` or the only one there is. ``cards`` is an
    additional folder of cards. ``qrels`` is None for a collection without judgments. Texts are prepared once in
    ``cache`` and memory-mapped.

    Raises UnknownNameError for an unknown name, DataError for missing or faulty files (all problems of a file at once)
    and for files that contradict their card, UsageError for a split that is not there.
    """
    place = _locate(name_or_path, cards)
    card = place.card
    source = open_source(place.path)
    found = read_collection(source, _reading(place, split, cache, progress))
    if card is not None:
        _check_card(card, found, source)
    for note in found.notes:
        _log.info("%s: %s", place.path, note)
    return Dataset(place.name, found.corpus, found.queries, found.qrels, _provenance(place, found))


def filter_dataset(
    dataset: Dataset,
    wanted: Mapping[str, str],
    name_or_path: str | Path,
    *,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """The same ``dataset``, loaded from ``name_or_path``, with the documents that match ``wanted`` (field to value).

    Raises UnknownNameError for a field that no document has, UsageError where no document matches.
    """
    place = _locate(name_or_path, cards)
    source = open_source(place.path)
    member = source.require(CORPUS, fix=LAYOUT)
    metadata = prepare_metadata(
        source,
        member,
        list(wanted),
        reserved=place.rule.fields,
        cache=cache or Cache(),
        progress=progress,
        total=len(dataset.corpus),
    )
    if metadata.num_rows != len(dataset.corpus):
        raise DataError(source.label(member), ["changed since its texts were read"], fix="try again")
    return replace(dataset, filtered=apply_filter(metadata, wanted))


def check_dataset(name_or_path: str | Path, *, cards: Path | None = None) -> None:
    """Refuse a dataset that is not there, without reading it; errors as in :func:`load_dataset`."""
    open_source(_locate(name_or_path, cards).path)


def load_corpus(
    name_or_path: str | Path,
    *,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """The documents of a dataset alone, for a collection that has no queries; arguments as in :func:`load_dataset`.

    The file of documents itself (``chunks.jsonl``, perhaps ``.gz``) may be named too.
    """
    place = _locate(name_or_path, cards)
    how = _reading(place, None, cache, progress)
    if place.path.is_file() and place.path.suffix.lower() != ".zip":
        return read_corpus(Source(place.path.parent), how, place.path.name).corpus
    return read_corpus(open_source(place.path), how).corpus


def load_golden_of(name_or_path: str | Path, *, cards: Path | None = None) -> tuple[GoldenSet, bool]:
    """A golden set by its file, or ``golden.jsonl`` of a dataset; and whether it is a dataset's, with documents.

    Raises UnknownNameError for an unknown name, DataError for a missing or faulty file.
    """
    place = _locate(name_or_path, cards, "golden set")
    if place.path.is_file() and place.path.suffix.lower() != ".zip":
        return load_golden(place.path), False
    source = open_source(place.path)
    member = source.require(GOLDEN, fix=f"a dataset's golden set is called {GOLDEN}; or name a file of questions")
    golden = read_golden(source, member)
    if place.card is not None:
        stated = place.card.sha256.get(source.raw_name(member), golden.sha256)
        if stated != golden.sha256:
            raise DataError(source.label(member), [f"its SHA-256 is {golden.sha256}, the card says {stated}"])
    return replace(golden, name=place.name), True


class _Place(NamedTuple):
    name: str
    path: Path
    card: DatasetCard | None
    rule: JoinRule


def _reading(place: _Place, split: str | None, cache: Cache | None, progress: Progress | None) -> Reading:
    card = place.card
    if card is None:
        return Reading(cache or Cache(), place.rule, split, progress=progress)
    return Reading(
        cache or Cache(),
        place.rule,
        card.split if split is None else split,
        unknown_documents=card.judgments_of_unknown_documents,
        expected_documents=card.documents,
        progress=progress,
    )


def _locate(name_or_path: str | Path, cards: Path | None, what: str = "dataset") -> _Place:
    text = os.fspath(name_or_path)
    if not text:
        raise UsageError(f"the {what} is an empty name", fix="give a card's name, or a folder (. for this one)")
    path = Path(text).expanduser()
    if not isinstance(name_or_path, Path) and os.sep not in text and text not in (".", "..", "~"):
        known = find_cards("datasets", cards)
        card = known.get(text)
        if card is not None:
            return _Place(card.name, card.location, card, JoinRule(card.fields, card.separator))
        if not path.exists() and path.suffix.lower() not in _FILES and not _near_file(path):
            raise UnknownNameError(
                what, text, (*known, "a folder", "a .zip file", *(["a file"] if what != "dataset" else []))
            )
    if not path.exists() and (path.suffix.lower() in _FILES or _near_file(path)):
        raise UsageError(
            f"there is no file '{text}'{_near_file(path)}", fix="look at its name, and at the current folder"
        )
    name = path.resolve().name
    return _Place(name[:-4] if path.is_file() and name.lower().endswith(".zip") else name, path, None, JoinRule())


def _near_file(path: Path) -> str:
    """A hint at a file beside a missing one that has a suffix and is called nearly so; or nothing."""
    if not path.suffix or not path.parent.is_dir():
        return ""
    return nearest(path.name, sorted(one.name for one in path.parent.iterdir() if one.is_file()), cutoff=0.8)


def _check_card(card: DatasetCard, found: Collection, source: Source) -> None:
    """Hold the files against the card's facts: another version of a collection must not pass under its name."""
    problems = [
        f"the SHA-256 of '{name}' is {found.raw_sha256[name]}, the card says {expected}"
        for name, expected in card.sha256.items()
        if name in found.raw_sha256 and found.raw_sha256[name] != expected
    ]
    held = {source.raw_name(member) for member in source.members}
    problems += [f"there is no file '{name}', which the card names" for name in sorted(card.sha256.keys() - held)]
    splits = card.judgments.keys() | card.judgments_of_unknown_documents.keys()
    problems += [f"there is no split '{name}', which the card names" for name in sorted(splits - set(found.splits))]
    stated = {
        "documents": (len(found.corpus), card.documents),
        "queries": (found.all_queries, card.queries),
        f"judgments of the split '{found.split}'": (
            0 if found.qrels is None else len(found.qrels),
            card.judgments.get(found.split),
        ),
    }
    if card.empty_documents is not None:
        stated["empty documents"] = (len(found.corpus.empty_rows), card.empty_documents)
    problems += [
        f"{what}: {actual:,}, the card says {expected:,}"
        for what, (actual, expected) in stated.items()
        if expected is not None and actual != expected
    ]
    if problems:
        raise DataError(
            str(card.location), problems, fix=f"restore the files, or correct the card '{card.path}' if they are right"
        )


def _provenance(place: _Place, found: Collection) -> dict[str, str]:
    card = place.card
    provenance = {
        # of a card's dataset the content counts, not where this machine keeps it
        **({"path": str(place.path)} if card is None else {"card": card.path.name, "card_sha256": card.digest}),
        "format": "beir",
        "split": found.split,
        "splits": ", ".join(found.splits),
        "join": str(place.rule),
        "corpus_sha256": found.corpus.digest,
        "queries_sha256": found.queries.digest,
        "judgments_of_unknown_documents": str(found.unknown_documents),
        "queries_of_other_splits": str(found.all_queries - len(found.queries)),
        **{f"sha256 of {name}": digest for name, digest in found.raw_sha256.items()},
    }
    if card is not None:
        provenance |= {"language": card.language, "licence": card.licence, "source": card.source}
    if found.notes:
        provenance["notes"] = "; ".join(found.notes)
    return provenance
