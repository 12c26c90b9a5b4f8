"""Dataset cards, and families of them: one strict TOML file per dataset, or per family with a table for each member.

The fields are described in ``docs/reference/cards.md``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from harness.registry.published import PublishedNumber, published_in
from harness.registry.strict_toml import Document, Table, card_name, read_document

_FIELDS = ("title", "text")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")
_SOURCES = ("path", "spec", "obtain", "parts")
"""Keys that locate the data; a card has one of them."""
_SHARED = (
    *_SOURCES, "format", "queries", "qrels", "columns", "split", "splits", "language", "query_language", "analyzer",
    "licence", "source", "citation", "note", "identical_ids", "metric", "text", "facts",
)  # fmt: skip
"""Keys that a family's file may state once for all of its members."""


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """A named dataset: its location, the join of title and text, its owners, and facts checked on loading.

    Attributes:
        name: the card's name, or ``FAMILY/MEMBER``.
        format: the loader of ``location``; "" if ``spec`` names the loader.
        location: absolute path, and so are ``queries_file`` and ``qrels_file`` (None: the loader finds them itself).
        spec: a loader's input in place of a location, ``irds:miracl/ko/{split}``.
        obtain: how to get a dataset that only its owners distribute; such a card cannot be loaded.
        parts: members of the same family that this name expands to; such a card cannot be loaded either.
        columns: role to field of tables.
        split: the default; None when the loader's rule decides.
        splits: all splits, if ``spec`` holds ``{split}`` or reads one split only; empty: the loader knows them.
        language: code of the documents' language. ``query_language`` is None if queries have the same.
        analyzer: the analyzer used if the language has none that can run.
        fields: with ``separator`` the join rule. ``drop_empty`` leaves documents without text out.
        documents: None, as ``empty_documents`` and ``queries``, when the card does not state it.
        queries: number in the file, including other splits; ``split_queries`` counts them by split.
        judgments: split to count.
        judgments_of_unknown_documents: split to how many of its judgments name documents that the corpus lacks:
            without it they are an error.
        sha256: a file's name inside the dataset to its digest.
        identical_ids: "keep" or "drop", None if the card does not say.
        instruction: what makes a document relevant, for models that are told it before each query.
        metric: the metric that papers and leaderboards report first.
        digest: SHA-256 of the card's file; for a member, of the part of the family's file about it.
    """

    name: str
    summary: str
    format: str
    location: Path | None
    queries_file: Path | None
    qrels_file: Path | None
    columns: Mapping[str, str]
    split: str | None
    language: str
    licence: str
    source: str
    fields: tuple[str, ...]
    separator: str
    drop_empty: bool
    documents: int | None
    empty_documents: int | None
    queries: int | None
    judgments: Mapping[str, int]
    judgments_of_unknown_documents: Mapping[str, int]
    sha256: Mapping[str, str]
    identical_ids: Literal["keep", "drop"] | None
    path: Path
    digest: str
    spec: str | None = None
    obtain: str | None = None
    parts: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    split_queries: Mapping[str, int] = field(default_factory=dict)
    query_language: str | None = None
    analyzer: str | None = None
    metric: str | None = None
    instruction: str | None = None
    citation: str | None = None
    note: str | None = None
    published: tuple[PublishedNumber, ...] = ()

    def location_of(self, split: str | None) -> str:
        """Return the loader's input for a split, None for the default one."""
        return str(self.location) if self.spec is None else self.spec.replace("{split}", split or self.split or "")

    @property
    def locations(self) -> tuple[str, ...]:
        """Return the loader's input, for every split."""
        return tuple(dict.fromkeys(self.location_of(split) for split in self.splits or (self.split,)))

    def queries_of(self, split: str | None) -> int | None:
        """Return how many queries the card states for a split, None when it states none."""
        return self.split_queries.get(split or "", self.queries)


@dataclass(frozen=True, slots=True)
class DatasetFamily:
    """Datasets that one file describes.

    ``members`` are by their names within the family. ``pairs``, if not None, is the spec of members that the file does
    not list: ``DOCUMENTS-QUERIES``, documents of one member and queries of another. ``published`` are scores over
    several members.
    """

    name: str
    summary: str
    members: Mapping[str, DatasetCard]
    pairs: str | None
    published: tuple[PublishedNumber, ...]
    path: Path

    def member(self, name: str) -> DatasetCard | None:
        """Return a member by its name within the family, including pairs; None if it does not exist."""
        if name in self.members or self.pairs is None:
            return self.members.get(name)
        halves = [(name[:position], name[position + 1 :]) for position, letter in enumerate(name) if letter == "-"]
        return next((self._pair(*half) for half in halves if set(half) <= self.members.keys()), None)

    def _pair(self, documents: str, queries: str) -> DatasetCard:
        corpus_card, queries_card = self.members[documents], self.members[queries]
        if documents == queries:
            return corpus_card
        return replace(
            corpus_card,
            name=f"{corpus_card.name}-{queries}",
            summary=f"documents of {corpus_card.name}, queries of {queries_card.name}",
            spec=(self.pairs or "").replace("{documents}", documents).replace("{queries}", queries),
            query_language=queries_card.language,
            queries=queries_card.queries,
            split_queries=queries_card.split_queries,
            published=(),
            digest=hashlib.sha256(f"{corpus_card.digest} {queries_card.digest}".encode()).hexdigest(),
        )


def read_dataset_card(path: Path, document: Document | None = None) -> DatasetCard:
    """Read one dataset card; raises CardError with every problem of the file.

    ``document`` is the content of the file if the caller has read it.
    """
    document = document or read_document(path)
    table = Table(document.values)
    card = _card(table, card_name(table, path), path, document.digest, _sources(table))
    table.close()
    table.raise_problems(path)
    return card


def read_dataset_family(path: Path, document: Document | None = None) -> DatasetFamily:
    """Read a family's file; raises CardError with every problem of it.

    A member has the facts of its own table, and the file's facts for all members; tables are merged. ``document`` is
    the content of the file if the caller has read it.
    """
    document = document or read_document(path)
    table = Table(document.values)
    name, sources = card_name(table, path), _sources(table)
    for key in _SHARED:
        table.optional(key, type(table.values.get(key, "")))
    pairs = table.table("pairs")
    family = DatasetFamily(
        name=name,
        summary=table.required("summary", str),
        members=_members(table, name, path, document, sources),
        pairs=pairs.required("spec", str) if pairs.values else None,
        published=_published(table, sources, None),
        path=path,
    )
    if not family.members:
        table.problem("the family has no member: [members.NAME]")
    if family.pairs is not None and not all(half in family.pairs for half in ("{documents}", "{queries}")):
        table.problem(f"'pairs.spec' is '{family.pairs}': it must hold {{documents}} and {{queries}}")
    of_splits = any(len(card.splits) > 1 for card in family.members.values())
    if family.pairs is not None and "{split}" not in family.pairs and of_splits:
        table.problem(f"'pairs.spec' is '{family.pairs}', which is read for several splits: it must hold {{split}}")
    for card in family.members.values():
        for part in card.parts:
            if part not in family.members:
                table.problem(f"'{card.name}' has the part '{part}', which is not a member")
    pairs.close()
    table.close()
    table.raise_problems(path)
    return family


def _members(
    table: Table, family: str, path: Path, document: Document, sources: Mapping[str, str] | None
) -> dict[str, DatasetCard]:
    shared = {key: value for key, value in document.values.items() if key in _SHARED}
    members = {}
    for name, member_values in table.table("members").tables().items():
        if not _MEMBER.fullmatch(name):
            table.problem(f"'members.{name}': small letters, digits, '.', '_', '-' and '/' only")
        placed = bool(member_values.values.keys() & {*_SOURCES})
        common = {key: value for key, value in shared.items() if not (placed and key in _SOURCES)}
        values = _merged(common, member_values.values)
        if isinstance(values.get("spec"), str):
            values["spec"] = values["spec"].replace("{member}", name)
        digest = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()
        merged = Table(values, f"members.{name}.", table.problems)
        members[name] = _card(merged, f"{family}/{name}", path, digest, sources)
        merged.close()
    return members


def _merged(shared: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of both, tables merged; the values of ``values`` win."""
    both = {
        key: _merged(shared[key], value) if isinstance(value, dict) and isinstance(shared.get(key), dict) else value
        for key, value in values.items()
    }
    return {**shared, **both}


def _card(table: Table, name: str, path: Path, digest: str, sources: Mapping[str, str] | None) -> DatasetCard:
    text, facts = table.table("text"), table.table("facts")
    identical_ids = table.choice("identical_ids", ("keep", "drop"), default="")

    def beside(key: str) -> Path | None:
        name = table.optional(key, str)
        return None if name is None else (path.parent / name).absolute()

    by_split = isinstance(facts.values.get("queries"), dict)
    card = DatasetCard(
        name=name,
        summary=table.required("summary", str),
        format=table.required("format", str) if "path" in table.values else "",
        location=beside("path"),
        queries_file=beside("queries"),
        qrels_file=beside("qrels"),
        columns=table.mapping("columns", str),
        split=table.optional("split", str),
        language=table.required("language", str),
        licence=table.required("licence", str),
        source=table.required("source", str),
        fields=_fields(text),
        drop_empty=text.choice("empty", ("keep", "drop"), default="keep") == "drop",
        separator=" " if (separator := text.optional("separator", str)) is None else separator,
        documents=facts.optional("documents", int),
        empty_documents=facts.optional("empty_documents", int),
        queries=None if by_split else facts.optional("queries", int),
        split_queries=facts.mapping("queries", int) if by_split else {},
        judgments=facts.mapping("judgments", int),
        judgments_of_unknown_documents=facts.mapping("judgments_of_unknown_documents", int),
        sha256=_digests(table),
        identical_ids=cast('Literal["keep", "drop"]', identical_ids) if identical_ids else None,
        path=path,
        digest=digest,
        spec=table.optional("spec", str),
        obtain=table.optional("obtain", str),
        parts=table.strings("parts") or (),
        splits=table.strings("splits") or (),
        query_language=table.optional("query_language", str),
        analyzer=table.optional("analyzer", str),
        metric=table.optional("metric", str),
        instruction=table.optional("instruction", str),
        citation=table.optional("citation", str),
        note=table.optional("note", str),
    )
    card = _choose_split(table, card)
    card = replace(card, published=_published(table, sources, card.split))
    _check_source(table)
    for part in (text, facts):
        part.close()
    return card


def _choose_split(table: Table, card: DatasetCard) -> DatasetCard:
    """Return the card with a default split if it lists its splits, and note a rule that cannot be followed."""
    if not card.splits:
        if "{split}" in (card.spec or ""):
            table.problem(f"'{table.prefix}spec' holds {{split}}, but '{table.prefix}splits' is missing")
        return card
    default = card.split or ("test" if "test" in card.splits else card.splits[0])
    if default not in card.splits:
        table.problem(f"'{table.prefix}split' is '{default}', which is none of {', '.join(card.splits)}")
    if len(card.splits) > 1 and "{split}" not in (card.spec or "{split}"):
        table.problem(f"'{table.prefix}spec' is read for {len(card.splits)} splits: it must hold {{split}}")
    return replace(card, split=default)


def _check_source(table: Table) -> None:
    keys = [key for key in _SOURCES if key in table.values]
    if not keys:
        table.problem(f"'{table.prefix}path' is missing, and so are its alternatives: 'spec', 'obtain' or 'parts'")
    if len(keys) > 1:
        quoted = " and ".join(f"'{table.prefix}{key}'" for key in keys)
        table.problem(f"{quoted} all locate the data: give only one of them")
    for key in ("format", "queries", "qrels"):
        if key in table.values and keys != ["path"]:
            table.problem(f"'{table.prefix}{key}' goes with 'path'")


def _sources(table: Table) -> dict[str, str] | None:
    """Return the sources by the short names that scores use for them; None without such a table."""
    return table.mapping("sources", str) if "sources" in table.values else None


def _published(table: Table, sources: Mapping[str, str] | None, split: str | None) -> tuple[PublishedNumber, ...]:
    published = []
    for number, values in enumerate(table.optional("published", list) or (), 1):
        prefix = f"{table.prefix}published.{number}."
        if not isinstance(values, dict):
            table.problem(f"'{prefix[:-1]}' must be a table, not {values!r}")
            continue
        published.append(published_in(Table(values, prefix, table.problems), sources, split))
    return tuple(published)


def _fields(table: Table) -> tuple[str, ...]:
    fields = table.strings("fields")
    if fields is None:
        return _FIELDS
    if not fields or len(set(fields)) != len(fields) or not set(fields) <= set(_FIELDS):
        table.problem(f"'text.fields' is {list(fields)!r}, expected one or both of 'title' and 'text', each once")
    return fields


def _digests(table: Table) -> Mapping[str, str]:
    digests = table.mapping("sha256", str)
    for member, digest in digests.items():
        if not _SHA256.fullmatch(digest):
            table.problem(f"'{table.prefix}sha256.{member}' is not a SHA-256 in 64 small hexadecimal digits")
    return digests
