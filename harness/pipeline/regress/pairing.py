"""Pair two results: backends, common queries, and the settings that differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.data.filtering import format_filter
from harness.data.golden_set import is_line_id
from harness.data.labels import grades_of
from harness.data.types import Qrels
from harness.errors import ResultError, UsageError
from harness.results.regression_schema import DataRelation, PairedBy, Sameness, SettingChange, Value
from harness.results.schema import Result, TrialResult
from harness.results.schema_base import DatasetInfo
from harness.results.snapshot import ResultSnapshot
from harness.wording import counted

_OF_EACH_BACKEND = {"backends", "notes"}
_OF_NO_CONSEQUENCE = {
    *("resume", "cards", "sweep", "tune", "folds", "jobs", "verify_cache", "max_calls", "reference", "all_pairs"),
}
_MEASURED = {
    *("documents_encoded", "queries_encoded", "encode_seconds", "documents_per_second"),
    *("calls", "repeated_calls", "tokens", "calls_before", "search_units", "accepted_batch_size"),
}
"""Facts about an encoder or second stage that are of one run, and no settings."""
_MEMORY_UNIT = 1024**3
_PARTS = ("documents", "queries", "judgments", "candidates")
"""Parts of a dataset that may differ by themselves."""


class Pair(NamedTuple):
    """Labels of one backend before and after."""

    before: str
    after: str


class Pairing(NamedTuple):
    """The pairs in the order of the later result, how each was paired, and the labels without a counterpart."""

    pairs: dict[Pair, PairedBy]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def pair_backends(before: Sequence[TrialResult], after: Sequence[TrialResult], stated: Sequence[Pair] = ()) -> Pairing:
    """Pair by ``stated`` first, then by the same label, then by the same name, then the rest by position.

    Backends of the same name are paired in their order if there are as many on both sides; so are the remaining
    backends at the end, under any names. Raises UsageError if ``stated`` names a missing label, ResultError if nothing
    is paired.
    """
    left, right = {trial.label: trial for trial in before}, {trial.label: trial for trial in after}
    chosen: dict[Pair, PairedBy] = {}

    def take(earlier: str, later: str, how: PairedBy) -> None:
        del left[earlier], right[later]
        chosen[Pair(earlier, later)] = how

    for pair in stated:
        refuse_missing(pair.before, left)
        refuse_missing(pair.after, right)
        take(*pair, "option")
    for label in [label for label in right if label in left]:
        take(label, label, "label")
    for name in dict.fromkeys(trial.name for trial in right.values()):
        same_name = [[label for label, trial in side.items() if trial.name == name] for side in (left, right)]
        if len(same_name[0]) == len(same_name[1]):
            for earlier, later in zip(*same_name, strict=True):
                take(earlier, later, "name")
    if len(left) == len(right):
        for earlier, later in zip(list(left), list(right), strict=True):
            take(earlier, later, "position")
    if not chosen:
        raise ResultError(
            f"no backend of {', '.join(left) or 'nothing'} has a counterpart among {', '.join(right) or 'nothing'}",
            fix="compare results of the same backends",
        )
    position_of = {trial.label: number for number, trial in enumerate(after)}
    ordered = sorted(chosen, key=lambda pair: position_of[pair.after])
    return Pairing({pair: chosen[pair] for pair in ordered}, tuple(left), tuple(right))


def pairing_warnings(pairing: Pairing) -> list[str]:
    """Warn of backends that are paired only by position, and of backends without a counterpart."""
    warnings = []
    guessed = [f"{pair.before} before, {pair.after} now" for pair, how in pairing.pairs.items() if how == "position"]
    if guessed:
        why = "neither label nor name pairs them, only their place; --pair 'BEFORE->AFTER' says which belong together"
        warnings.append(f"UNLIKE BACKENDS ARE COMPARED ({'; '.join(guessed)}): {why}")
    for result, labels in (("later", pairing.only_before), ("earlier", pairing.only_after)):
        if labels:
            warnings.append(f"not compared, because the {result} result lacks the backend: {', '.join(labels)}")
    return warnings


def refuse_missing(label: str, labels: Collection[str]) -> None:
    """Raise UsageError for a label in a given pair that no backend has."""
    if label not in labels:
        raise UsageError(f"there is no backend '{label}' to pair", fix=f"there are: {', '.join(labels)}")


@dataclass(frozen=True, eq=False, slots=True)
class ComparedDataset:
    """Both results on a dataset, as they were scored, and the parts of them that belong together.

    ``relation`` says how the data relate. ``queries`` are the queries that both have, in order; ``qrels`` are the
    judgments of both, None if none are at hand. ``settings`` are the settings that differ, ``warnings`` are for
    readers.
    """

    before: ResultSnapshot
    after: ResultSnapshot
    relation: DataRelation
    queries: Sequence[str] = ()
    qrels: Qrels | None = None
    pairing: Pairing = field(default=Pairing({}, (), ()))
    settings: Sequence[SettingChange] = ()
    warnings: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The dataset's name in the later result."""
        return self.after.report.dataset.name

    @property
    def finished(self) -> list[Pair]:
        """The pairs without a failed side."""
        return [pair for pair in self.pairing.pairs if self.error(pair) is None]

    def error(self, pair: Pair) -> str | None:
        """Return which side of a pair failed, and why; None if both have results."""
        for when, backend in zip(("before", "now"), self.trials(pair), strict=True):
            if backend.status == "failed":
                return f"failed {when}: {backend.error.message if backend.error is not None else 'no reason is stored'}"
        return None

    def trials(self, pair: Pair) -> tuple[TrialResult, TrialResult]:
        """Return the results of a pair, before and after."""
        return self.before.trial(pair.before), self.after.trial(pair.after)


class PairedByText(NamedTuple):
    """The earlier result with the later result's ids for queries without ids.

    ``paired`` of them are paired by their texts, and ``moved`` of these are on another line than before.
    """

    before: ResultSnapshot
    paired: int = 0
    moved: int = 0


def pair_by_text(before: ResultSnapshot, after: ResultSnapshot) -> PairedByText:
    """Pair queries without ids in either side's file by their texts: their ids are line numbers.

    If a text occurs several times, the first is paired with the first, and so on. Raises ResultError if the queries
    differ and a side does not hold their texts, so that nothing shows which belong together.
    """
    earlier, later = _without_id(before), _without_id(after)
    if not earlier or not later:
        return PairedByText(before)
    if before.digests and after.digests:
        names = _names_by_text(before, after, earlier, later)
    elif _sameness(before, after)["queries"] == "same":
        names = {query: query for query in earlier if query in later}
    else:
        raise ResultError(
            f"queries of '{before.source}' and '{after.source}' have no ids and are not the same, and a side does not "
            "hold their texts: nothing says which belong together",
            fix="give the questions ids, or make both results without --no-text",
        )
    moved = sum(query != name for query, name in names.items())
    taken = {*_all_queries(before), *_all_queries(after)}
    unpaired = {query: _unused(query, taken) for query in earlier if query not in names and query in later}
    return PairedByText(before.with_query_ids({**names, **unpaired}), len(names), moved)


def _without_id(side: ResultSnapshot) -> list[str]:
    return (
        [query for query in _all_queries(side) if is_line_id(query)] if side.report.dataset.queries.without_id else []
    )


def _names_by_text(
    before: ResultSnapshot, after: ResultSnapshot, earlier: Sequence[str], later: Sequence[str]
) -> dict[str, str]:
    names_by_text: dict[str, list[str]] = {}
    for query in reversed(later):
        names_by_text.setdefault(after.digests.get(query, ""), []).append(query)
    names = {}
    for query in earlier:
        same = names_by_text.get(before.digests.get(query, ""))
        if same:
            names[query] = same.pop()
    return names


def _unused(query: str, taken: set[str]) -> str:
    name = f"{query} (before)"
    while name in taken:
        name += "'"
    return name


class Common(NamedTuple):
    """The common queries in the order of the earlier result, how the data relate, and warnings about it."""

    queries: frozenset[str]
    relation: DataRelation
    warnings: tuple[str, ...]


def common_queries(before: ResultSnapshot, after: ResultSnapshot, *, labels: int = 0) -> Common:
    """Return the queries that have the same id and, if both results know it, the same text.

    :func:`pair_by_text` comes before. Raises ResultError if there are none: the two cannot be compared.
    """
    earlier, later = _all_queries(before), _all_queries(after)
    texts = bool(before.digests) and bool(after.digests)
    same_id = [query for query in earlier if query in later]
    common = [query for query in same_id if not texts or before.digests.get(query) == after.digests.get(query)]
    if not common:
        raise ResultError(
            f"'{before.source}' ({before.report.dataset.name}, {counted(len(earlier), 'query')}) and '{after.source}' "
            f"({after.report.dataset.name}, {counted(len(later), 'query')}) have no query in common",
            fix="give both files the same ids: one file has none"
            if bool(_without_id(before)) != bool(_without_id(after))
            else "compare results of the same queries",
        )
    parts = _sameness(before, after)
    if set(common) != earlier.keys() or set(common) != later.keys():
        parts["queries"] = "different"
    rejudged = _count_rejudged(before, after, common) if parts["judgments"] != "same" else 0
    if rejudged is not None:
        parts["judgments"] = "different" if rejudged else "same"
    relation = _relation(after, parts, (len(earlier), len(later), len(common)), texts=texts, labels=labels)
    return Common(frozenset(common), relation, tuple(_warnings(before, after, relation, len(same_id), rejudged)))


def _count_rejudged(before: ResultSnapshot, after: ResultSnapshot, queries: Sequence[str]) -> int | None:
    """Count the compared queries whose judgments differ; None if a side does not hold its judgments."""
    if before.qrels is None or after.qrels is None:
        return None
    earlier, later = grades_of(before.qrels, queries), grades_of(after.qrels, queries)
    return sum(earlier.get(query, {}) != later.get(query, {}) for query in queries)


def unknown_relation(before: ResultSnapshot, after: ResultSnapshot) -> DataRelation:
    """Return how a dataset relates to itself if one of the results could not load it."""
    queries = len(_all_queries(before)), len(_all_queries(after)), 0
    return _relation(after, dict.fromkeys(_PARTS, "unknown"), queries, texts=False, labels=0)


def _relation(
    after: ResultSnapshot, parts: Mapping[str, Sameness], queries: tuple[int, int, int], *, texts: bool, labels: int
) -> DataRelation:
    """Make the record; ``queries`` are the queries of the earlier result, of the later result, and of both."""
    return DataRelation(
        dataset=after.report.dataset.name,
        documents=parts["documents"],
        queries=parts["queries"],
        judgments=parts["judgments"],
        candidates=parts["candidates"],
        queries_before=queries[0],
        queries_after=queries[1],
        common_queries=queries[2],
        texts_compared=texts,
        labels=labels,
    )


def _all_queries(side: ResultSnapshot) -> dict[str, None]:
    """Return every query that a result knows, in order; without texts, also queries answered and not evaluated."""
    queries = dict.fromkeys(side.digests)
    if not queries:
        runs = [run for label in side.labels if (run := side.hits(label)) is not None]
        queries |= {query: None for run in runs for query in run.query_ids}
    for figures in side.figures.values():
        for values in figures.values():
            queries |= dict.fromkeys(values)
    return queries


def _sameness(before: ResultSnapshot, after: ResultSnapshot) -> dict[str, Sameness]:
    """Return for each part of the data whether it is the same in both results."""
    earlier, later = before.report.dataset, after.report.dataset
    parts: dict[str, Sameness] = dict.fromkeys(_PARTS, "same")
    if earlier.sha256 != later.sha256:
        contents = [info.digests.model_dump() for info in (earlier, later)]
        parts = {part: "same" if contents[0][part] == contents[1][part] else "different" for part in _PARTS}
    if not earlier.documents and not later.documents:  # datasets of backends that a check only queries
        parts["documents"] = "unknown"
    return parts


def _warnings(
    before: ResultSnapshot, after: ResultSnapshot, relation: DataRelation, same_id: int, rejudged: int | None
) -> list[str]:
    earlier, later = before.report.dataset, after.report.dataset
    warnings = []
    if relation.documents == "different":
        counts = f"{counted(earlier.documents, 'document')} before, {later.documents:,} now"
        warnings.append(f"THE DOCUMENTS ARE NOT THE SAME ({counts}): differences are the documents' too")
    if relation.judgments == "different":
        warnings.append(_judgments_warning(earlier, later, relation, rejudged))
    if relation.candidates == "different":
        warnings.append("THE CANDIDATES ARE NOT THE SAME: queries are ranked among other documents than before")
    if relation.queries == "different":
        counts = f"{counted(relation.queries_before, 'query')} before, {relation.queries_after:,} now"
        warnings.append(f"{counts}: only the {relation.common_queries:,} that both have are compared")
    if same_id > relation.common_queries:
        left_out = counted(same_id - relation.common_queries, "query has", "queries have")
        warnings.append(f"{left_out} the same id and another text: left out")
    if not relation.texts_compared:
        warnings.append("one side does not hold the queries' texts, so queries are matched only by their ids")
    return warnings


def _judgments_warning(earlier: DatasetInfo, later: DatasetInfo, relation: DataRelation, rejudged: int | None) -> str:
    """Warn of other judgments; if a side has none, queries that only one side has may be the only difference."""
    if rejudged is not None:
        queries = f"{counted(relation.common_queries, 'compared query')} {'has' if rejudged == 1 else 'have'}"
        return f"THE JUDGMENTS ARE NOT THE SAME: {rejudged:,} of {queries} other judgments, which may cause differences"
    counts = "" if earlier.judgments == later.judgments else f" ({earlier.judgments:,} before, {later.judgments:,} now)"
    if relation.queries == "same":
        return f"THE JUDGMENTS ARE NOT THE SAME{counts}: differences are the judgments' too"
    unknown = "one side does not hold them, so the judgments of the compared queries may differ"
    return f"the judgments as a whole are not the same{counts}; {unknown}"


def changed_settings(before: ResultSnapshot, after: ResultSnapshot, pairs: Sequence[Pair]) -> list[SettingChange]:
    """Return every setting that differs: of the data, the plan, each pair of backends, versions and machine."""
    earlier, later = before.report, after.report
    return [
        *_changes("dataset", None, _dataset(earlier), _dataset(later)),
        *_changes("plan", None, _plan(earlier), _plan(later)),
        *(change for pair in pairs for change in _pair_changes(before.trial(pair.before), after.trial(pair.after))),
        *_changes("harness", None, earlier.harness.model_dump(), later.harness.model_dump()),
        *_changes("packages", None, _packages(earlier), _packages(later)),
        *_changes("machine", None, _machine(earlier), _machine(later)),
    ]


def machine_changes(before: Result, after: Result) -> list[SettingChange]:
    """Return how the machines differ; empty if times, memory and sizes are comparable."""
    return list(_changes("machine", None, _machine(before), _machine(after)))


def _pair_changes(before: TrialResult, after: TrialResult) -> Iterator[SettingChange]:
    yield from _changes("engine", after.label, _engine(before), _engine(after))
    parameters = [
        {name: value for name, value in side.parameters.items() if name not in _OF_NO_CONSEQUENCE}
        for side in (before, after)
    ]
    yield from _changes("parameters", after.label, *parameters)
    names = {*before.encoder, *after.encoder} - _MEASURED
    left_out = {name for name in names if all(_repeats_parameter(side, name) for side in (before, after))}
    facts = [
        {name: value for name, value in side.encoder.items() if name in names - left_out} for side in (before, after)
    ]
    yield from _changes("encoder", after.label, *facts)
    stages = [_second_stage(side) for side in (before, after)]
    both = stages[0].keys() & stages[1].keys()
    yield from _changes("second stage", after.label, *({name: side[name] for name in both} for side in stages))


def _second_stage(backend: TrialResult) -> dict[str, Value]:
    """Return the settings behind the scores of a second stage; empty for any other backend."""
    reranking = backend.stages.reranking if backend.stages is not None else None
    facts = reranking.facts if reranking is not None else {}
    return {name: value for name, value in facts.items() if name not in _MEASURED}


def _repeats_parameter(backend: TrialResult, name: str) -> bool:
    """Return whether an encoder's fact only repeats its parameter; a prompt's may be what the model requires."""
    return name in backend.parameters and backend.encoder.get(name) in (None, backend.parameters[name])


def _changes(
    section: str, backend: str | None, before: Mapping[str, Value], after: Mapping[str, Value]
) -> Iterator[SettingChange]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield SettingChange(
                section=section, backend=backend, setting=name, before=before.get(name), after=after.get(name)
            )


def _engine(backend: TrialResult) -> dict[str, Value]:
    engine, index = backend.engine, backend.index
    facts: dict[str, Value] = {"backend": backend.name}
    if engine is not None:
        facts |= {"name": engine.name, "version": engine.version, "mode": engine.mode}
    if index is not None and index.external_index is not None:
        facts["content of the index"] = index.external_index.sha256
    return facts


def _dataset(report: Result) -> dict[str, Value]:
    info = report.dataset
    facts: dict[str, Value] = {
        "name": info.name,
        "documents": info.documents,
        "queries": info.queries.searched,
        "judgments": info.judgments,
        "sampled from": info.sampled_from,
        "documents sampled from": info.documents_sampled_from,
        "identical ids": info.identical_ids.rule if info.identical_ids is not None else None,
        "filter": ", ".join(f"{name}={value}" for name, value in info.filter.fields.items()) if info.filter else None,
        "filters of questions": _filters(info),
        **{f"provenance: {name}": value for name, value in info.provenance.items() if name != "path"},
    }
    return {**facts, **{f"content of {part}": digest for part, digest in info.digests.model_dump().items()}}


def _filters(info: DatasetInfo) -> str | None:
    """Return the different filters of the questions with the number of questions of each; None without any."""
    in_words = (f"{format_filter(group.fields) or 'none'} ({group.queries:,})" for group in info.query_filters)
    return ", ".join(in_words) or None


def _plan(report: Result) -> dict[str, Value]:
    left_out = _OF_EACH_BACKEND | _OF_NO_CONSEQUENCE
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in report.plan.resolved.items()
        if name not in left_out
    }


def _packages(report: Result) -> dict[str, Value]:
    return {"python": report.machine.python, **report.packages}


def _machine(report: Result) -> dict[str, Value]:
    machine = report.machine
    return {
        "system": machine.system.split()[0],  # kernels differ from boot to boot of one machine
        "processor": machine.processor,
        "cores": machine.cores,
        "memory (GiB)": round(machine.memory_bytes / _MEMORY_UNIT),  # and in the memory that they reserve
        **machine.thread_limits,
    }
