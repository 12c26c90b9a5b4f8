"""Collections in a folder or a zip archive: ``corpus``, ``queries`` and ``qrels``, in BEIR's layout or alike.

BEIR's layout is ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``. The files may have another known ending
(``corpus.parquet``, ``queries.csv``), and the judgments of the only split may lie next to them (``qrels.jsonl``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from harness.data.golden_shapes.autorag import QUESTIONS
from harness.data.progress import Progress
from harness.errors import DataError, UsageError
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, Location, TextSource
from harness.loaders.containers import plain_name
from harness.loaders.parts import (
    Files,
    Questions,
    choose_split,
    documents_in,
    judged_elsewhere,
    judgments_in,
    questions_in,
    shared_with_questions,
)
from harness.loaders.records import format_of
from harness.loaders.source import Source, open_source

LAYOUT = "BEIR layout is corpus.jsonl, queries.jsonl and qrels/<split>.tsv"
_NO_QUERIES = (
    'queries.jsonl holds the queries, one {"_id": …, "text": …} per line; or name another file: --queries FILE. '
    "In Python, harness.loaders.load_corpus reads the documents alone"
)
_FOLDER = "qrels/"
_PARTS = ("corpus", "queries", "golden", QUESTIONS, "qrels")
_JUDGMENT_ENDINGS = (".txt", ".qrels")
"""Endings of files of judgments in lines, in addition to the endings of tables."""


class BeirLoader:
    """Reads a folder that holds a file ``corpus``, or a zip archive of such a folder."""

    name = "beir"
    locations: frozenset[Location] = frozenset({"folder", "archive"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is such a folder, or any zip archive."""
        path = spec.path
        return not path.is_dir() or corpus_member(open_source(path)) is not None

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts. Without a split it is ``test``, or the only one there is."""
        source = open_source(spec.path)
        refuse_absent(source)
        corpus = corpus_member(source) or source.require("corpus.jsonl", fix=LAYOUT)
        splits = _splits(source)
        chosen, undecided = "", None
        try:
            chosen = "" if spec.qrels is not None else choose_split(str(source.path), tuple(splits), split)
        except UsageError as error:
            if split is not None:
                raise
            undecided = JudgmentSource.failing(error)  # a caller that reads only the documents needs no split
        queries_name = _member(source, "queries") or golden_member(source)
        questions = Questions(TextSource.failing(source.missing("queries.jsonl", fix=_NO_QUERIES)), None)
        if queries_name is not None and spec.queries is None:
            spec = shared_with_questions(Files(source, (queries_name,)), spec)
            questions = questions_in(Files(source, (queries_name,)), spec)
        return LoadedDataset(
            documents_in(Files(source, (corpus,)), spec),
            questions.queries,
            judgments_in(Files(source, (splits[chosen],)), spec) if chosen else undecided or questions.judgments,
            chosen,
            tuple(splits),
            judged_elsewhere(
                {name: judgments_in(Files(source, (member,)), spec) for name, member in splits.items()}, chosen
            ),
        )


def corpus_member(source: Source) -> str | None:
    """Return the member that holds the documents of a folder or archive in this layout."""
    return _member(source, "corpus")


def golden_member(source: Source) -> str | None:
    """Return the golden set of a folder or archive: the table ``golden``, or AutoRAG's ``qa``."""
    return _member(source, "golden") or _member(source, QUESTIONS)


def refuse_absent(source: Source) -> None:
    """Raise DataError for a folder or a link that leads nowhere in the place of a file of this layout."""
    for name, reason in source.absent.items():
        plain = PurePosixPath(plain_name(name))
        is_split = name.startswith(_FOLDER) and plain.suffix.lower() in _JUDGMENT_ENDINGS
        is_part = str(plain.with_suffix("")) in _PARTS or name.startswith(_FOLDER)
        if is_split or (is_part and format_of(name) is not None):
            raise DataError(source.label(name), [reason], fix="put a file there, or remove it")


def _member(source: Source, stem: str) -> str | None:
    """Return the table of that name; raises DataError if there are several."""
    stems = {name: PurePosixPath(plain_name(name)).with_suffix("") for name in source.members}
    tables = sorted(name for name, of_member in stems.items() if str(of_member) == stem and format_of(name) is not None)
    if len(tables) > 1:
        raise _both(source, *tables[:2])
    return tables[0] if tables else None


def _splits(source: Source) -> Mapping[str, str]:
    """Return split -> member of each file of judgments, sorted; ``qrels.tsv`` next to the documents is ``test``."""
    members: dict[str, str] = {}
    for member in sorted(source.members):
        plain = PurePosixPath(plain_name(member))
        if format_of(member) is None and plain.suffix.lower() not in _JUDGMENT_ENDINGS:
            continue
        if member.startswith(_FOLDER):
            split = plain.stem
        elif plain.stem == "qrels" and len(plain.parts) == 1:
            split = "test"
        else:
            continue
        if split in members:
            raise _both(source, members[split], member)
        members[split] = member
    return members


def _both(source: Source, one: str, other: str) -> DataError:
    return DataError(str(source.path), [f"holds both '{one}' and '{other}'"], fix="remove one of them")
