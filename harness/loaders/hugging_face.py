"""Datasets of the Hugging Face hub: ``hf:REPO[@REVISION][:CONFIG]``.

Documents, queries and judgments are configurations of one repository (``corpus``, ``queries``, ``default``; in several
languages ``ko-corpus``, ``ko-queries``, ``ko-qrels``), as MTEB has them, or the judgments are in ``REPO-qrels``, as
BEIR has them. ``CONFIG`` is a language or another subset, or names the parts: ``documents=texts,qrels=labels/test``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.columns import QUERY_ROLES, ColumnMap, RecordBatch
from harness.data.judgments import Judgments
from harness.data.languages import two_letter_code
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UsageError, nearest
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, LocalFiles, PrefixLoader, TextSource
from harness.loaders.hub_layouts import LAYOUTS, FileLayout, HubParts, Part
from harness.loaders.hub_repository import Config, HubRepository, Listing, Repository
from harness.loaders.parts import (
    Files,
    choose_split,
    document_columns,
    judged_elsewhere,
    text_source,
    with_query_fields,
)
from harness.loaders.qrels import read_judgments
from harness.loaders.records import ENDINGS, format_of, read_records, unit_of
from harness.loaders.source import read_lines
from harness.wording import counted

_PREFIX = "hf:"
_SPEC = re.compile(r"(?P<name>\w[\w.-]*(?:/[\w.-]+)?)(?:@(?P<revision>[^:]+))?(?::(?P<config>.+))?")
_FOLDER = re.compile(r"(?P<folder>[./~][^:]*)(?::(?P<config>.+))?")
_ROLES: Mapping[str, tuple[str, ...]] = {
    "documents": ("corpus", "documents", "docs", "passages"),
    "queries": ("query", "queries", "questions"),
    "qrels": ("default", "qrels"),
    "candidates": ("top_ranked",),
}
"""Part -> the usual names of its configuration; the first existing one is taken, as MTEB does."""
_FORMS = ("{subset}-{role}", "{subset}_{role}", "{role}-{subset}", "{role}_{subset}")
_BATCH = 8192
_MAX_FILES = 6
_UNREAD = ("instruction", "qrel_diff")
"""Configurations of MTEB's instruction retrieval, which change the queries and the metric."""
_DROPPING = "BeIR/"
"""The organisation whose own evaluation drops a hit that has its query's id, in every dataset."""


class HubLoader(PrefixLoader):
    """Reads repositories of the Hugging Face hub, or folders with the same layout (``hf:./FOLDER``)."""

    name = "hf"

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts and download their files.

        The default split is the collection's usual split, ``test``, or its only split. Documents and queries are from
        that split if they have it, else from their only split.
        """
        parts = _parts_of_location(_HubLocation.parse(spec.location, network=True), spec)
        chosen, undecided = "", None
        try:
            chosen = _choose_split(spec, parts, split)
        except UsageError as error:
            if split is not None or len(parts.documents) > 1:
                raise
            undecided = JudgmentSource.failing(error)  # a caller that reads only the documents needs no split
        required, of_queries = _required_parts(parts, chosen, spec), spec.qrels is not None and len(parts.queries) > 1
        _fetch(required, progress)
        (documents,) = required.documents.values()
        queries, candidates = (next(iter(splits.values()), None) for splits in (required.queries, required.candidates))
        return LoadedDataset(
            _texts(documents, "documents", spec),
            _texts(queries, "queries", spec, parts.unread) if queries is not None else None,
            undecided or (_judgments(parts.judgments[chosen], spec) if chosen in parts.judgments else None),
            chosen,
            tuple(parts.judgments),
            judged_elsewhere(
                {name: _judgments(replace(part, md5=None), spec) for name, part in required.judgments.items()}, chosen
            ),
            parts.identical_ids,
            {**_provenance(parts), **parts.facts, **({"split of the queries": chosen} if of_queries else {})},
            parts.language,
            partial(_candidates, candidates) if candidates is not None else None,
        )

    def local_files(self, spec: DatasetSpec) -> LocalFiles | None:
        """Return the dataset's files in the hub's cache, of all splits; None for a folder of the user's own."""
        location = _HubLocation.parse(spec.location, network=False)
        if not isinstance(location.repository, HubRepository):
            return None
        try:
            parts = _parts_of_location(location, spec)
        except DataError:  # nothing says which files there are
            return LocalFiles((), 0, complete=False)
        paths = sorted(_local_paths(_all(parts)))
        return LocalFiles(tuple(paths), sum(path.stat().st_size for path in paths), _completeness(spec, parts))


class _HubLocation(NamedTuple):
    """The repository that a spec names, and the configuration or the parts."""

    repository: Repository
    config: str
    network: bool

    @classmethod
    def parse(cls, location: str, *, network: bool) -> _HubLocation:
        """Return the parts of the text after ``hf:``; raises UsageError."""
        text = location.removeprefix(_PREFIX)
        folder = _FOLDER.fullmatch(text)
        if folder is not None:
            return cls(Repository(Path(folder["folder"]), folder["folder"]), folder["config"] or "", network)
        words = _SPEC.fullmatch(text)
        if words is None or ".." in (words["revision"] or "").split("/"):
            raise UsageError(
                f"'{location}' names no dataset of the hub",
                fix="write hf:ORG/NAME, with @REVISION and :CONFIG if needed, as hf:mteb/MIRACLRetrieval@main:ko",
            )
        repository = HubRepository(words["name"], words["revision"] or "main", network=network)
        return cls(repository, words["config"] or "", network)

    def other(self, name: str) -> HubRepository:
        """Open another repository of the hub, at its newest commit."""
        return HubRepository(name, "main", network=self.network)


def _parts_of_location(location: _HubLocation, spec: DatasetSpec) -> HubParts:
    """Return the parts of a place; parts that the user's files replace are left out."""
    repository = location.repository
    layout = _layout(repository)
    if layout is not None:
        parts = layout.parts(repository, location.config, location.other)
    else:
        parts = _parts_of_configs(location, wants_qrels=spec.qrels is None)
    if spec.qrels is not None:
        parts = replace(parts, judgments={})
    return replace(parts, queries={}) if spec.queries is not None else parts


def _parts_of_configs(location: _HubLocation, *, wants_qrels: bool) -> HubParts:
    """Return the parts that configurations hold, named by the user or found by their usual names."""
    repository = location.repository
    name = repository.name if isinstance(repository, HubRepository) else ""
    drops_rows = name.startswith(_DROPPING)
    try:
        listing = repository.listing
    except DataError as error:
        lacking = location.other(f"{name}-qrels").absent_offline() if drops_rows and wants_qrels else None
        if lacking is None:
            raise
        raise DataError.of_files([error, lacking]) from error
    if "=" in location.config:
        return _parts_of_option(repository, location.config)
    configs = {role: _config_of(listing, role, location.config) for role in _ROLES}
    if configs["documents"] is None:
        return _one_table(repository, location.config)
    judgments = _part_by_split(repository, configs["qrels"])
    if not judgments and wants_qrels and not location.config:
        judgments = _paired_judgments(repository.paired())
    return HubParts(
        _part_by_split(repository, configs["documents"]),
        _part_by_split(repository, configs["queries"]),
        judgments,
        _part_by_split(repository, configs["candidates"]),
        tuple(name for name in _UNREAD if _similar_subset(listing, name, location.config) is not None),
        language=_language(listing.languages, location.config),
        identical_ids="drop" if drops_rows else None,
        facts={"configurations": ", ".join(f"{role} {name}" for role, name in configs.items() if name is not None)},
    )


def _config_of(listing: Listing, role: str, subset: str) -> str | None:
    """Return the configuration whose name gives it a role; ``default`` only next to others."""
    names = (_similar_subset(listing, word, subset) for word in _ROLES[role])
    return next((name for name in names if name is not None), None)


def _similar_subset(listing: Listing, word: str, subset: str) -> str | None:
    names = [form.format(subset=subset, role=word) for form in _FORMS] if subset else [word]
    return next((name for name in names if name in listing.configs), None)


def _one_table(repository: Repository, config: str) -> HubParts:
    """Return the documents of the configuration that the user named, or of the only one there is."""
    configs, subsets = repository.listing.configs, _subsets(repository)
    if not config and len(configs) == 1:
        config = next(iter(configs))
        _refuse_mixed_parts(repository)
    if config not in configs and subsets:
        fix = f"name one, as {repository.label}:{subsets[0]}: {', '.join(subsets)}"
        problem = f"no subset '{config}'{nearest(config, subsets)}" if config else "several subsets"
        raise UsageError(f"{repository.label} has {problem}", fix=fix)
    if config not in configs:
        problem = (
            f"no configuration '{config}'" if config else "no configuration that is called as documents usually are"
        )
        raise _unclear(repository, f"has {problem}{nearest(config, configs)}")
    return HubParts(_part_by_split(repository, config), language=_language(repository.listing.languages, config))


def _refuse_mixed_parts(repository: Repository) -> None:
    """Raise DataError if files are named like several parts, and no card assigns them to configurations."""
    files = sorted(repository.listing.unassigned)
    words = {word for name in files for word in re.split(r"[^a-z]+", name.lower())}
    roles = [role for role, names in _ROLES.items() if words & {*names, role} - {"default"}]
    if "documents" in roles and len(roles) > 1:
        files_text = ", ".join(files[:_MAX_FILES]) + (", …" if len(files) > _MAX_FILES else "")
        raise DataError(
            repository.label,
            [f"no README.md with 'configs:' states which files are {', '.join(roles)} and their split: {files_text}"],
            fix="write one, each part a config with its data_files by split; or arrange the files as corpus.parquet, "
            "queries.parquet and qrels/SPLIT.parquet",
        )


def _parts_of_option(repository: Repository, text: str) -> HubParts:
    """Return the parts of ``documents=CONFIG[/SPLIT],queries=…,qrels=…``."""
    parts: dict[str, Mapping[str, Part]] = {}
    for item in text.split(","):
        role, _, name = (word.strip() for word in item.partition("="))
        part_names = [part for part in _ROLES if part != "candidates"]
        if role not in part_names or not name or role in parts:
            raise UsageError(
                f"'{item.strip()}' names no part of {repository.label}",
                fix=f"write each once, as {','.join(f'{part}=CONFIG' for part in part_names)}, or CONFIG/SPLIT",
            )
        splits = _part_by_split(repository, name if name in repository.listing.configs else name.rpartition("/")[0])
        if name not in repository.listing.configs:
            split = name.rpartition("/")[2]
            if split not in splits:
                raise _unclear(repository, f"has no configuration '{name}'{nearest(name, repository.listing.configs)}")
            splits = {split: splits[split]}
        parts[role] = splits
    if "documents" not in parts:
        raise UsageError(f"no part of {repository.label} is named as the documents", fix="add documents=CONFIG")
    language = _language(repository.listing.languages, "")
    return HubParts(parts["documents"], parts.get("queries", {}), parts.get("qrels", {}), language=language)


def _paired_judgments(repository: Repository | None) -> Mapping[str, Part]:
    """Return the judgments of a repository that holds nothing else; empty if there is no such repository."""
    if repository is None:
        return {}
    configs = repository.listing.configs
    config = _config_of(repository.listing, "qrels", "") or next(iter(configs), None)
    if config is None or (len(configs) > 1 and config not in _ROLES["qrels"]):
        raise _unclear(repository, "has no configuration 'default' or 'qrels'")
    return _part_by_split(repository, config)


def _part_by_split(repository: Repository, config: str | None) -> Mapping[str, Part]:
    """Return the files of each split of a configuration, which may be None; raises DataError for unreadable ones."""
    if config is None:
        return {}
    splits = repository.listing.configs.get(config, Config({})).splits
    unreadable = sorted(name for name in chain(*splits.values()) if format_of(name) is None)
    if unreadable:
        raise DataError(
            repository.label,
            [f"'{name}' has an ending that the harness does not read" for name in unreadable],
            fix=f"it reads {', '.join(ENDINGS)}; @refs/convert/parquet may name the hub's own Parquet files",
        )
    return {split: Part(repository, names) for split, names in splits.items()}


def _unclear(repository: Repository, problem: str) -> DataError:
    fix = f"name them, as {repository.label}:documents=CONFIG,queries=CONFIG,qrels=CONFIG/SPLIT"
    return DataError(repository.label, [f"{problem}; it has: {repository.listing.described()}"], fix=fix)


def _language(languages: Sequence[str], subset: str) -> str | None:
    """Return the code of a card's only language, or of the language that a subset is named after."""
    words = [name.lower().partition("-")[0] for name in languages]
    codes = {word: two_letter_code(word) for word in words}
    if len(codes) == 1:
        return next(iter(codes.values()))
    code = two_letter_code(subset)
    return code if code in codes.values() else None


def _layout(repository: Repository) -> FileLayout | None:
    return LAYOUTS.get(repository.name) if isinstance(repository, HubRepository) else None


def _subsets(repository: Repository) -> tuple[str, ...]:
    """Return every subset of a repository that is a separate dataset, and no pair of two."""
    layout = _layout(repository)
    if layout is not None:
        return tuple(layout.languages)
    shapes = [re.compile(form.format(subset="(.+)", role=_ROLES["documents"][0])) for form in _FORMS]
    matches = [shape.fullmatch(name) for name in repository.listing.configs for shape in shapes]
    return tuple(dict.fromkeys(match[1] for match in matches if match is not None))


def _required_parts(parts: HubParts, split: str, spec: DatasetSpec) -> HubParts:
    """Return the parts that one split needs; judgments of all splits if one set of queries serves them all.

    Raises UsageError if a part has several splits, but not this one.
    """
    common = len(parts.queries) == 1 or spec.queries is not None
    return replace(
        parts,
        documents=_select_split(parts.documents, split, "documents", spec),
        queries=_select_split(parts.queries, split, "queries", spec),
        judgments={name: part for name, part in parts.judgments.items() if common or name == split},
        candidates=_select_split(parts.candidates, split, "candidates", spec),
    )


def _fetch(parts: HubParts, progress: Progress | None) -> None:
    """Download missing files, the documents last; raises DataError, offline for all files at once."""
    repositories, names = dict[str, Repository](), dict[str, list[str]]()
    for part in reversed(_all(parts)):
        repositories[part.repository.label] = part.repository
        names.setdefault(part.repository.label, []).extend(part.names)
    lacking = [repository.lacking_offline(names[label]) for label, repository in repositories.items()]
    if errors := [error for error in lacking if error is not None]:
        raise DataError.of_files(errors)
    for label, repository in repositories.items():
        repository.fetch(names[label], progress)


def _select_split(parts: Mapping[str, Part], split: str, kind: str, spec: DatasetSpec) -> Mapping[str, Part]:
    """Return the part of a split, else the only one there is, which is MTEB's rule; nothing of nothing."""
    if split in parts:
        return {split: parts[split]}
    if len(parts) == 1 or (not parts and kind != "documents"):
        return parts
    problem = f"the {kind} of {spec.location} have no split '{split}'" if split else f"the {kind} have several splits"
    fix = "choose another, or name the parts: :documents=CONFIG/SPLIT"
    raise UsageError(f"{problem}; there are: {', '.join(parts) or 'none'}", fix=fix)


def _choose_split(spec: DatasetSpec, parts: HubParts, requested: str | None) -> str:
    """Return the split; "" for queries and documents without judgments that have one split only."""
    divided = (tuple(part) for part in (parts.queries, parts.documents) if len(part) > 1)
    splits = tuple(parts.judgments) or next(divided, ())
    return choose_split(spec.location, splits, requested, parts.default_split or "test")


def _all(parts: HubParts) -> list[Part]:
    by_split = (parts.documents, parts.queries, parts.judgments, parts.candidates)
    return [*chain(*(splits.values() for splits in by_split))]


def _local_paths(parts: Sequence[Part]) -> set[Path]:
    return {part.repository.folder / name for part in parts for name in part.names if part.repository.has(name)}


def _are_local(parts: Sequence[Part]) -> bool:
    return all(part.repository.has(name) for part in parts for name in part.names)


def _is_local(parts: HubParts) -> bool:
    """Return whether some split's documents and queries are on this machine."""
    needed = [splits.values() for splits in (parts.documents, parts.queries) if splits]
    return bool(needed) and all(any(_are_local([part]) for part in splits) for splits in needed)


def _completeness(spec: DatasetSpec, parts: HubParts) -> bool | None:
    """Return whether the default split is on this machine, or all splits; None if another split may be."""
    try:
        required = _required_parts(parts, _choose_split(spec, parts, None), spec)
    except UsageError:
        required = parts
    if _are_local(_all(required)):
        return True
    return None if _is_local(parts) else False


def _provenance(parts: HubParts) -> Mapping[str, str]:
    """Return the repositories and their commits."""
    identities = [part.repository.identity for part in _all(parts)]
    repositories = dict.fromkeys(
        f"{identity['repository']}@{identity['commit']}" for identity in identities if identity
    )
    return {"repositories": ", ".join(repositories)} if repositories else {}


def _texts(part: Part, kind: str, spec: DatasetSpec, unread: Sequence[str] = ()) -> TextSource:
    """Return documents or queries, with the repository and its commit in the key."""
    files = Files(part.repository.source(), part.names)
    columns = document_columns(spec) if kind == "documents" else ColumnMap(QUERY_ROLES, spec.columns)
    unit = "line" if part.tabbed else unit_of(part.names[0])

    def read(problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
        notes.extend(f"the configuration '{name}' is not read: mteb:TASK applies it" for name in unread)
        return _records(part, files, columns, problems, notes)

    source = text_source(files, read, columns, unit)
    if kind == "queries" and not part.tabbed:
        source = with_query_fields(source, files, columns, unit, spec.columns)
    key = {**(source.key or {}), **part.repository.identity, "tabbed": part.tabbed, "unread": [*unread]}
    name = f"{part.repository.label}/{part.names[0]}"
    if len(part.names) > 1:
        name = f"{name} and {counted(len(part.names) - 1, 'file')} more"
    (digest,) = source.digests.values()
    return replace(source, label=name, name=name, key=key, digests={name.removeprefix(_PREFIX): digest})


def _records(
    part: Part, files: Files, columns: ColumnMap, problems: Problems, notes: list[str]
) -> Iterator[RecordBatch]:
    """Yield the records of all files; rows are counted through them."""
    before = 0
    for name in part.names:
        last = 0
        with files.source.open(name) as stream:
            ending, is_header = format_of(name) or "", columns.is_header
            if part.tabbed:
                batches = _tabbed(read_lines(stream, problems, notes), problems)
            else:
                batches = read_records(stream, problems, notes, ending=ending, is_header=is_header)
            for batch in batches:
                last = max(batch.lines, default=last)
                yield RecordBatch([number + before for number in batch.lines], batch.records)
        before += last


def _tabbed(lines: Iterator[Any], problems: Problems) -> Iterator[RecordBatch]:
    """Yield the ids and texts of lines; quotation marks and further white space belong to the text."""
    batch = RecordBatch([], [])
    for number, content in lines:
        try:
            cells = content.decode("utf-8").rstrip("\r\n").split("\t")
        except UnicodeDecodeError as error:
            problems.add(number, f"not UTF-8: byte 0x{content[error.start]:02x} in column {error.start + 1}")
            continue
        if len(cells) != 2:
            problems.add(number, f"{counted(len(cells), 'column')}, expected 2 separated by a tab: id, text")
            continue
        batch.lines.append(number)
        batch.records.append({"_id": cells[0], "text": cells[1]})
        if len(batch.lines) == _BATCH:
            yield batch
            batch = RecordBatch([], [])
    if batch.lines:
        yield batch


def _judgments(part: Part, spec: DatasetSpec) -> JudgmentSource:
    files = Files(part.repository.source(), part.names)
    label = f"{part.repository.label}/{part.names[0]}"

    def read(problems: Problems, notes: list[str]) -> Judgments:
        if part.md5 is not None:
            _check_md5(part, label)
        read_files = [read_judgments(files.source, name, spec.columns, problems, notes) for name in part.names]
        return Judgments(*([*chain(*columns)] for columns in zip(*(each[:4] for each in read_files), strict=True)))

    digests = {label.removeprefix(_PREFIX): files.source.digest(name) for name in part.names[:1]}
    return JudgmentSource(label, read, label, digests, unit_of(part.names[0]))


def _check_md5(part: Part, label: str) -> None:
    content = b"".join((part.repository.folder / name).read_bytes() for name in part.names)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != part.md5:
        raise DataError(
            label,
            [f"its MD5 is {md5}, but the MD5 of the collection's judgments is {part.md5}"],
            fix="name the @REVISION that had them, or give them with --qrels FILE",
        )


def _candidates(part: Part) -> Mapping[str, Sequence[str]]:
    """Return the documents that each query is ranked among; raises DataError."""
    source, candidates = part.repository.source(), dict[str, list[str]]()
    problems = Problems(f"{part.repository.label}/{part.names[0]}", unit_of(part.names[0]))
    for name in part.names:
        with source.open(name) as stream:
            for batch in read_records(stream, problems, [], ending=format_of(name) or "", nested=True):
                for line, record in zip(batch.lines, batch.records, strict=True):
                    if not isinstance(record.get("corpus-ids"), list) or "query-id" not in record:
                        problems.add_once(line, f"expected query-id and corpus-ids, a list (there are: {[*record]})")
                        continue
                    candidates[str(record["query-id"])] = [str(doc) for doc in record["corpus-ids"]]
    problems.raise_if_any()
    return candidates
