"""Every text retrieval, reranking and instruction-retrieval task of MTEB: ``mteb:MIRACLRetrieval:ko@dev``.

The library's own code of a task loads it, so that its splits, its re-made ids and its transformations are those of the
leaderboard. Texts are as MTEB gives them to a model: title, a space and text, without white space at the ends; a query,
a space and its instruction; the turns of a conversation joined by ``; ``. Queries without judgments are left out,
grades are whole numbers, and hits with their query's id are dropped where the task says so and kept otherwise.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.columns import TextBatch, shown
from harness.data.judgments import Judgments
from harness.data.languages import two_letter_code
from harness.data.problems import Problems
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, LocalFiles, TextSource
from harness.loaders.mteb_files import UNDIVIDED, Belongings, Reading, belongings, hub_folders, remove_belongings
from harness.loaders.mteb_prepared import About, Judged, Known, recall, remember
from harness.loaders.offline import OFFLINE, is_offline
from harness.optional import require
from harness.protocols import Progress
from harness.storage.cache import JSON
from harness.strict_toml import nearest

__all__ = ["MtebLoader"]

_PREFIX = "mteb:"
_SCHEME = 1
_BATCH = 2048
_LISTED = 40
_COMMIT = re.compile(r"[0-9a-f]{7,}")

_Corpus = Any
"""A ``datasets.Dataset``: the library is imported where it is needed alone."""


class _Name(NamedTuple):
    """``mteb:TASK[:subset][@split]``, taken apart; "" for what is left out."""

    task: str
    subset: str
    split: str

    @classmethod
    def of(cls, location: str) -> _Name:
        name, _, split = location.removeprefix(_PREFIX).partition("@")
        task, _, subset = name.partition(":")
        return cls(task, subset, split)

    def __str__(self) -> str:
        subset = "" if self.subset in ("", UNDIVIDED) else f":{self.subset}"
        return f"{_PREFIX}{self.task}{subset}{f'@{self.split}' if self.split else ''}"


class _Held(NamedTuple):
    """The content of one subset and split."""

    corpus: _Corpus
    queries: _Corpus
    judged: Judged


class MtebLoader:
    """Reads a subset and split of a task of MTEB."""

    name = "mteb"

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location begins with ``mteb:``."""
        return spec.location.startswith(_PREFIX)

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts. What is missing is downloaded when the first of them is read.

        Raises MissingExtraError without the library, UnknownNameError for an unknown task, UsageError for a task that
        is none of retrieval among texts or is made of others, and for a subset or split that is not there or has to be
        chosen. Without a split it is the only one of the task's evaluation, or ``test``.
        """
        asked = _Name.of(spec.location)
        if split is not None and asked.split not in ("", split):
            raise UsageError(f"--split {split} with {spec.location}", fix="say the split once")
        asked = asked._replace(split=split or asked.split)
        known = recall(str(asked))
        # a program that imported the library may have given it other tasks
        about = known.about if known is not None and sys.modules.get("mteb") is None else _about(*_chosen(asked))
        name = _Name(about.task, about.subset, about.split)

        @cache
        def held() -> _Held:
            if progress is not None:
                progress.start(f"loading {name}", None)
            return _load(name, _task(name.task))

        @cache
        def judged() -> Judged:
            if known is not None and known.about == about:
                return known.judged
            found = held().judged
            remember(str(asked), Known(about, found), label=spec.location)
            return found

        def judgments(problems: Problems, notes: list[str]) -> Judgments:  # noqa: ARG001 - nothing to note
            return _judgments(judged(), problems)

        return LoadedDataset(
            _documents(name, held, about.key),
            _queries(name, held, about.key),
            JudgmentSource(f"{name} judgments", judgments, unit="judgment"),
            name.split,
            about.splits,
            identical_ids=about.identical_ids,
            provenance=about.provenance,
            language=about.language,
            candidates=lambda: judged().candidates or {},
        )

    def local_files(self, spec: DatasetSpec) -> LocalFiles:
        """Return what this machine has of a task's subset; of all subsets where nothing tells them apart."""
        name, task = _with_subset(_Name.of(spec.location))
        found = _belongings(name, task)
        return LocalFiles(found.paths, found.size, None if found.paths else False)

    def remove(self, spec: DatasetSpec) -> int:
        """Delete what this machine has of a task's subset, but what other tasks and configurations are made of too.

        Returns the number of bytes that were freed. Raises UsageError where nothing tells the subset's files apart.
        """
        name, task = _with_subset(_Name.of(spec.location))
        found = _belongings(name, task)
        if found.also:
            others = f"{', '.join(found.also[:_LISTED])}{', …' if len(found.also) > _LISTED else ''}"
            folders = " and ".join(map(str, hub_folders(str(task.metadata.dataset["path"]))))
            raise UsageError(
                f"nothing says which files of {task.metadata.dataset['path']} are those of {name} alone, and with them "
                f"these would go: {others}",
                fix=f"delete {folders} yourself if you need none of them",
            )
        return remove_belongings(found)


def _library() -> Any:  # noqa: ANN401 - its tasks are told apart by what they hold
    return require("mteb", extra="mteb", feature="loader mteb")


def _tasks() -> Sequence[Any]:
    found: Sequence[Any] = _library().get_tasks(exclude_superseded=False)
    return found


def _task(name: str) -> Any:  # noqa: ANN401
    library = _library()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tasks that a newer one takes the place of: the provenance says so
            return library.get_task(name)
    except KeyError as error:
        names = [task.metadata.name for task in _tasks() if _unfit(task) is None]
        raise UnknownNameError("task of MTEB", name, names) from error


def _unfit(task: Any) -> str | None:  # noqa: ANN401
    """Return why a task cannot be searched, None where it can."""
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    about = task.metadata
    if not isinstance(task, AbsTaskRetrieval):
        return f"is a task of {about.type}, and none of retrieval"
    if set(about.modalities) != {"text"}:
        return f"is about {' and '.join(sorted(about.modalities))}, and engines here search texts"
    return None


def _with_subset(asked: _Name) -> tuple[_Name, Any]:
    """Return the task, and its name with the subset that is meant."""
    task = _task(asked.task)
    if getattr(task, "is_aggregate", False):
        members = [f"{_PREFIX}{one.metadata.name}" for one in task.metadata.tasks]
        raise UsageError(
            f"{_PREFIX}{asked.task} is made of other tasks and has no data of its own",
            fix=f"name one of them: {', '.join(members)}",
        )
    unfit = _unfit(task)
    if unfit is not None:
        raise UsageError(f"{_PREFIX}{asked.task} {unfit}", fix="name a task of text retrieval or reranking")
    subset = _one_of("subset", ":", asked._replace(split=""), asked.subset, _subsets(task))
    return _Name(task.metadata.name, subset, asked.split), task


def _chosen(asked: _Name) -> tuple[_Name, Any]:
    """Return the task, and its name with the subset and the split that are loaded."""
    name, task = _with_subset(asked)
    splits = list(task.metadata.eval_splits)
    preferred = name.split or ("test" if "test" in splits else "")
    split = _one_of("split", "@", name._replace(split=""), preferred, splits)
    return name._replace(split=split), task


def _one_of(kind: str, sign: str, name: _Name, wanted: str, known: Sequence[str]) -> str:
    """Return the one that is wanted, or the only one; raise UsageError with all of them otherwise."""
    if not wanted and len(known) == 1:
        return known[0]
    if wanted in known:
        return wanted
    listed = ", ".join(known[:_LISTED]) + (f", … ({len(known)} in all)" if len(known) > _LISTED else "")
    place = name._replace(subset="") if kind == "subset" else name
    if wanted:
        raise UsageError(f"{place} has no {kind} '{wanted}'{nearest(wanted, known)}", fix=f"there are: {listed}")
    raise UsageError(f"{place} has several {kind}s", fix=f"name one, as {place}{sign}{known[0]}: {listed}")


def _load(name: _Name, task: Any) -> _Held:  # noqa: ANN401
    with warnings.catch_warnings(), _translated(name, task.metadata):
        warnings.simplefilter("ignore")
        chosen = _library().get_task(name.task, eval_splits=[name.split])
        chosen.hf_subsets = [name.subset]
        chosen.load_data()
        chosen.convert_v1_dataset_format_to_v2(num_proc=None)
        data = chosen.dataset[name.subset][name.split]
    judged = {
        str(query): {str(doc): grade for doc, grade in grades.items()}
        for query, grades in data["relevant_docs"].items()
        if grades
    }
    # the library groups them in no order: theirs is that of the queries
    asked = [str(query) for query in data["queries"][_id_column(data["queries"])]]
    qrels = {query: judged[query] for query in dict.fromkeys([*asked, *judged]) if query in judged}
    ranked = data.get("top_ranked")
    candidates = None if ranked is None else {str(query): [str(doc) for doc in docs] for query, docs in ranked.items()}
    return _Held(data["corpus"], data["queries"], Judged(qrels, candidates))


def _documents(name: _Name, held: Callable[[], _Held], key: Mapping[str, JSON] | None) -> TextSource:
    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:  # noqa: ARG001 - ids and texts are checked later
        corpus = held().corpus
        titled = "title" in corpus.column_names
        for start, batch in _batches(corpus):
            rows = zip(batch["title"] if titled else [""] * len(batch["text"]), batch["text"], strict=True)
            titles, texts = zip(*(_title_and_text(title or "", text or "") for title, text in rows), strict=True)
            ids = [str(one) for one in batch[_id_column(corpus)]]
            yield TextBatch(ids, texts, titles if titled else None, range(start, start + len(ids)))

    return TextSource(f"{name} documents", read, str(name), _part(key, "documents"), unit="document")


def _queries(name: _Name, held: Callable[[], _Held], key: Mapping[str, JSON] | None) -> TextSource:
    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:  # noqa: ARG001
        loaded = held()
        unjudged = 0
        for start, batch in _batches(loaded.queries):
            ids = [str(one) for one in batch[_id_column(loaded.queries)]]
            instructions = batch.get("instruction", [None] * len(ids))
            rows = range(start, start + len(ids))
            kept = [
                (query, _query_text(text, instruction), row)
                for query, text, instruction, row in zip(ids, batch["text"], instructions, rows, strict=True)
                if query in loaded.judged.qrels
            ]
            unjudged += len(ids) - len(kept)
            if kept:
                yield TextBatch([one[0] for one in kept], [one[1] for one in kept], lines=[one[2] for one in kept])
        if unjudged:
            notes.append(f"{unjudged:,} without judgments were left out, as MTEB does")

    return TextSource(f"{name} queries", read, f"{name} queries", _part(key, "queries"), unit="query")


def _judgments(given: Judged, problems: Problems) -> Judgments:
    judged = [(query, doc, grade) for query, grades in given.qrels.items() for doc, grade in grades.items()]
    for number, (query, doc, grade) in enumerate(judged, 1):
        if int(grade) != grade:
            problems.add(number, f"the grade of '{doc}' for query '{query}' is {shown(grade)}, and no whole number")
    return Judgments(
        list(range(1, len(judged) + 1)),
        [query for query, _, _ in judged],
        [doc for _, doc, _ in judged],
        [int(grade) for _, _, grade in judged],
    )


def _batches(table: _Corpus) -> Iterator[tuple[int, Mapping[str, Sequence[Any]]]]:
    """Yield the rows of a table in batches, and the number of the first of each, counted from 1."""
    start = 1
    for batch in table.iter(batch_size=_BATCH):
        yield start, batch
        start += len(batch["text"])


def _id_column(table: _Corpus) -> str:
    return "id" if "id" in table.column_names else "_id"


def _title_and_text(title: str, text: str) -> tuple[str, str]:
    """Return both such that, joined by a space, they are what MTEB gives to a model, stripped at both ends."""
    title, text = (title.lstrip(), text.rstrip()) if title else ("", text.strip())
    return (title, text) if title and text else (title.strip(), text.strip())


def _query_text(text: Any, instruction: str | None) -> str:  # noqa: ANN401 - a text, or the turns of a conversation
    if isinstance(text, str):
        return text if instruction is None else f"{text} {instruction}"
    turns = "; ".join(one if isinstance(one, str) else f"{one['role']}: {one['content']}" for one in text)
    return turns if instruction is None else f"{instruction} {turns}"


def _about(name: _Name, task: Any) -> About:  # noqa: ANN401
    about = task.metadata
    return About(
        *name,
        _key(name, about),
        type(task).__module__.startswith("mteb."),
        tuple(about.eval_splits),
        "drop" if task.ignore_identical_ids else "keep",
        _provenance(name, task),
        _language(name, about),
    )


def _key(name: _Name, about: Any) -> Mapping[str, JSON] | None:  # noqa: ANN401
    """Return what names the content; None where the revision is a branch, or the data lies in a folder."""
    path, revision = str(about.dataset["path"]), str(about.dataset.get("revision", ""))
    if not _COMMIT.fullmatch(revision) or Path(path).exists():
        return None
    return {
        "mteb": name.task,
        "subset": name.subset,
        "split": name.split,
        "repository": path,
        "revision": revision,
        "library": str(_library().__version__),
        "reader": _SCHEME,
    }


def _part(key: Mapping[str, JSON] | None, part: str) -> Mapping[str, JSON] | None:
    return None if key is None else {**key, "part": part}


def _language(name: _Name, about: Any) -> str | None:  # noqa: ANN401
    """Return the language of a subset; None where documents and queries have different ones."""
    listed = about.eval_langs if isinstance(about.eval_langs, list) else about.eval_langs[name.subset]
    codes = {two_letter_code(one) for one in listed}
    return codes.pop() if len(codes) == 1 else None


def _provenance(name: _Name, task: Any) -> dict[str, str]:  # noqa: ANN401
    about = task.metadata
    found = {
        "mteb_task": name.task,
        "subset": name.subset,
        "mteb": _library().__version__,
        "source": about.dataset["path"],
        "revision": about.dataset.get("revision"),
        "task_type": about.type,
        "main_metric": about.main_score,
        "licence": about.license,
        "reference": about.reference,
        "citation": " ".join((about.bibtex_citation or "").split()),
        "superseded_by": about.superseded_by,
        "language": _language(name, about),
    }
    return {key: str(value) for key, value in found.items() if value}


def _belongings(name: _Name, task: Any) -> Belongings:  # noqa: ANN401
    """Return what this machine has of a subset; other tasks' share of the repository is left out."""
    others = (one for one in _tasks() if one.metadata.name != name.task and _unfit(one) is None)
    return belongings(_reading(task, [name.subset]), (_reading(one, _subsets(one)) for one in others))


def _reading(task: Any, subsets: Sequence[str]) -> Reading:  # noqa: ANN401
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    about = task.metadata
    usual = type(task).load_data is AbsTaskRetrieval.load_data
    return Reading.of(str(about.dataset["path"]), str(about.dataset.get("revision", "main")), subsets, usual=usual)


def _subsets(task: Any) -> list[str]:  # noqa: ANN401
    return list(task.metadata.hf_subsets) if task.metadata.is_multilingual else [UNDIVIDED]


@contextmanager
def _translated(name: _Name, about: Any) -> Iterator[None]:  # noqa: ANN401
    """Load without a progress bar of the library, offline where that is asked for; raise DataError for its errors."""
    import httpx
    from huggingface_hub import constants

    import datasets

    repository, revision = about.dataset["path"], about.dataset.get("revision")
    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE, datasets.are_progress_bars_disabled()
    if is_offline():
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, httpx.HTTPError) as error:
        what, folders = f"{repository} at revision {revision}", map(str, hub_folders(str(repository)))
        if is_offline() and not Path(str(repository)).exists():
            raise DataError(
                str(name),
                [f"{OFFLINE} is set, and this machine lacks {what}"],
                fix=f"load it on a machine with a network, and copy {' and '.join(folders)} from "
                f"there; or leave {OFFLINE} out",
            ) from error
        raise DataError(
            str(name),
            [f"MTEB cannot load {what}: {type(error).__name__}: {error}"],
            fix="nothing half-written counts: try again; a repository that was moved or closed needs a newer mteb",
        ) from error
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before[:2]
        if not before[2]:
            datasets.enable_progress_bars()
