"""Every text retrieval, reranking and instruction-retrieval task of MTEB: ``mteb:MIRACLRetrieval:ko@dev``.

MTEB's own code of a task loads it, so that splits, re-made ids and transformations equal the leaderboard's. Texts are
as MTEB gives them to a model: title, a space and text, without white space at the ends; a query, a space and its
instruction; the turns of a conversation joined by ``; ``. Queries without judgments are left out, grades are whole
numbers, and hits with their query's id are dropped if the task says so and kept otherwise.
"""

from __future__ import annotations

import difflib
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from harness.data.columns import TextBatch, abbreviated
from harness.data.judgments import Judgments
from harness.data.languages import two_letter_code
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UnknownNameError, UsageError, nearest, nearness
from harness.loaders.base import (
    OFFLINE,
    DatasetSpec,
    JudgmentSource,
    LoadedDataset,
    LocalFiles,
    PrefixLoader,
    TextSource,
    is_offline,
    size_of,
)
from harness.loaders.mteb_files import UNDIVIDED, hub_folders, subset_paths
from harness.registry.optional import require
from harness.store.cache import JSON, Cache

_PREFIX = "mteb:"
_SCHEME = 1
_BATCH = 2048
_MAX_TASKS, _FEW = 40, 8
_PATIENCE_S = 10.0
_KIND, _REMEMBERED_SCHEME, _FILE = "judgments", 2, "judged.json"
"""Cache entries with the facts and judgments of a task: with them, MTEB is not imported again."""
_COMMIT = re.compile(r"[0-9a-f]{7,}")

_Corpus = Any
"""A ``datasets.Dataset``: the library is imported only where it is needed."""


class _Name(NamedTuple):
    """``mteb:TASK[:subset][@split]``, taken apart; "" for an omitted part."""

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


class _About(NamedTuple):
    """The facts of one subset and split.

    ``key`` identifies the content, None if it may change under the same name. ``bundled`` tasks are MTEB's own; others
    were registered by the running program.
    """

    task: str
    subset: str
    split: str
    key: Mapping[str, JSON] | None
    bundled: bool
    splits: tuple[str, ...]
    identical_ids: Literal["keep", "drop"]
    provenance: Mapping[str, str]
    language: str | None


class _TaskJudgments(NamedTuple):
    """Grades by query and document, and the documents that each query is ranked among; None without them."""

    qrels: Mapping[str, Mapping[str, float]]
    candidates: Mapping[str, Sequence[str]] | None


class _Content(NamedTuple):
    """The content of one subset and split."""

    corpus: _Corpus
    queries: _Corpus
    judged: _TaskJudgments


class MtebLoader(PrefixLoader):
    """Reads a subset and split of a task of MTEB."""

    name = "mteb"

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts. Missing files are downloaded when the first part is read.

        Raises MissingExtraError without the library, UnknownNameError for an unknown task, UsageError for a task that
        is none of retrieval among texts or is made of others, and for a subset or split that is not there or has to be
        chosen. Without a split it is the only one of the task's evaluation, or ``test``.
        """
        requested = _Name.of(spec.location)
        if split is not None and requested.split not in ("", split):
            raise UsageError(f"--split {split} with {spec.location}", fix="say the split once")
        requested = requested._replace(split=split or requested.split)
        stored_description, stored_judgments = _recall(str(requested)) or (None, None)
        # a program that imported the library may have given it other tasks
        about = (
            stored_description
            if stored_description and sys.modules.get("mteb") is None
            else _about(*_chosen(requested))
        )
        name = _Name(about.task, about.subset, about.split)

        @cache
        def attempt() -> _Content | DataError:
            if progress is not None:
                progress.start(f"loading {name}", None)
            try:
                return _load(name, _task(name.task))
            except DataError as error:  # kept: queries and documents need the same download
                return error

        def content() -> _Content:
            loaded = attempt()
            if isinstance(loaded, DataError):
                raise loaded
            return loaded

        @cache
        def judged() -> _TaskJudgments:
            if stored_judgments is not None and stored_description == about:
                return stored_judgments
            loaded = content().judged
            _remember(str(requested), about, loaded, label=spec.location)
            return loaded

        def judgments(problems: Problems, notes: list[str]) -> Judgments:
            return _judgments(judged(), problems)

        return LoadedDataset(
            _documents(name, content, about.key),
            _queries(name, content, about.key),
            JudgmentSource(f"{name} judgments", judgments, unit="judgment"),
            name.split,
            about.splits,
            identical_ids=about.identical_ids,
            provenance=about.provenance,
            language=about.language,
            candidates=lambda: judged().candidates or {},
        )

    def parts(self, spec: DatasetSpec) -> Sequence[str]:
        """Return the specs of the tasks that an aggregated task averages; empty for a task with its own data.

        Raises as :meth:`load` for a missing library and an unknown task.
        """
        requested = _Name.of(spec.location)
        if requested.subset or _recall(str(requested)) is not None:
            return ()
        task = _task(requested.task)
        if not getattr(task, "is_aggregate", False):
            return ()
        return [str(_Name(member.metadata.name, "", requested.split)) for member in task.metadata.tasks]

    def subsets(self, spec: DatasetSpec) -> Sequence[str]:
        """Return the spec of each subset of a task that has several, if none is named."""
        requested = _Name.of(spec.location)
        subset_names = _subsets(_searchable_task(requested))
        return (
            []
            if requested.subset or len(subset_names) == 1
            else [str(requested._replace(subset=name)) for name in subset_names]
        )

    def local_files(self, spec: DatasetSpec) -> LocalFiles | None:
        """Return the local files of a task's subset; of all subsets if nothing distinguishes them.

        None for a task whose data lie in the user's own folder.
        """
        name, task = _resolve_subset(_Name.of(spec.location))
        if Path(str(task.metadata.dataset["path"])).exists():
            return None
        about = task.metadata.dataset
        paths = subset_paths(str(about["path"]), str(about.get("revision", "main")), name.subset, _subsets(task))
        # a blob that two files link to counts once
        return LocalFiles(paths, sum(map(size_of, {path.resolve() for path in paths})), None if paths else False)


def _recall(name: str) -> tuple[_About, _TaskJudgments] | None:
    """Return the value that `_remember` stored under this name with the installed version of MTEB; None without."""

    def read(folder: Path) -> tuple[_About, _TaskJudgments]:
        facts, judged = orjson.loads((folder / _FILE).read_bytes())
        return _About(**{**facts, "splits": tuple(facts["splits"])}), _TaskJudgments(**judged)

    key = _remembered_key(name)
    return Cache().get(_KIND, key, read) if key is not None else None


def _remember(name: str, about: _About, judged: _TaskJudgments, *, label: str) -> None:
    """Keep facts and judgments of a task of MTEB's own whose content never changes; others are not kept.

    ``label`` names the dataset in lists of the cache.
    """
    key = _remembered_key(name)
    if key is None or about.key is None or not about.bundled:
        return

    def write(folder: Path) -> None:
        content = orjson.dumps([about._asdict(), judged._asdict()], option=orjson.OPT_SERIALIZE_NUMPY)
        (folder / _FILE).write_bytes(content)

    Cache().put(_KIND, key, write, about=label)


def _remembered_key(name: str) -> Mapping[str, JSON] | None:
    try:
        return {"scheme": _REMEMBERED_SCHEME, "mteb": name, "library": version("mteb")}
    except PackageNotFoundError:
        return None


def _library() -> Any:
    return require("mteb", extra="mteb", feature="loader mteb")


def _tasks() -> Sequence[Any]:
    tasks: Sequence[Any] = _library().get_tasks(exclude_superseded=False)
    return tasks


def _task(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tasks that a newer one takes the place of: the provenance says so
            return _library().get_task(name)
    except KeyError as error:
        names = [task.metadata.name for task in _tasks() if _unfit(task) is None]
        raise UnknownNameError("task of MTEB", name, names) from error


def _unfit(task: Any) -> str | None:
    """Return why a task cannot be searched, None if it can."""
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    about = task.metadata
    if not isinstance(task, AbsTaskRetrieval):
        return f"is a task of {about.type}, not of retrieval"
    if set(about.modalities) != {"text"}:
        return f"is about {' and '.join(sorted(about.modalities))}, and only texts are searched here"
    return None


def _searchable_task(requested: _Name) -> Any:
    """Return a text retrieval task; raise UsageError for another kind, and for an aggregated task."""
    task = _task(requested.task)
    if getattr(task, "is_aggregate", False):
        members = [f"{_PREFIX}{member.metadata.name}" for member in task.metadata.tasks]
        raise UsageError(
            f"{_PREFIX}{requested.task} consists of other tasks and has no data itself",
            fix=f"name one of them: {', '.join(members)}",
        )
    unfit = _unfit(task)
    if unfit is not None:
        raise UsageError(f"{_PREFIX}{requested.task} {unfit}", fix="name a task of text retrieval or reranking")
    return task


def _resolve_subset(requested: _Name) -> tuple[_Name, Any]:
    """Return the task, and its name with the subset that is meant."""
    task = _searchable_task(requested)
    near = _near_subsets(requested.subset, task)
    subset = _one_of("subset", ":", requested._replace(split=""), requested.subset, _subsets(task), near)
    return _Name(task.metadata.name, subset, requested.split), task


def _near_subsets(text: str, task: Any) -> list[str]:
    """Return the subsets that are called nearly as a text, or are in the language that it names, the best first."""
    if not text or not task.metadata.is_multilingual:
        return []
    code, likeness = two_letter_code(text), dict[str, float]()
    for subset, languages in task.metadata.eval_langs.items():
        parts = (subset, *subset.split("-"))
        spelling = max(difflib.SequenceMatcher(None, text.lower(), part.lower()).ratio() for part in parts)
        share = [two_letter_code(language) for language in languages].count(code) / len(languages) if code else 0.0
        if spelling >= nearness(text) or share:
            likeness[subset] = spelling + share
    return sorted(likeness, key=lambda subset: -likeness[subset])[:_FEW]


def _chosen(requested: _Name) -> tuple[_Name, Any]:
    """Return the task, and its name with the subset and the split that are loaded."""
    name, task = _resolve_subset(requested)
    splits = list(task.metadata.eval_splits)
    preferred = name.split or ("test" if "test" in splits else "")
    split = _one_of("split", "@", name._replace(split=""), preferred, splits)
    return name._replace(split=split), task


def _one_of(kind: str, sign: str, name: _Name, requested: str, names: Sequence[str], near: Sequence[str] = ()) -> str:
    """Return the requested name, or the only one; else raise UsageError with the available names."""
    if not requested and len(names) == 1:
        return names[0]
    if requested in names:
        return requested
    base_name = name._replace(subset="") if kind == "subset" else name
    names_text = f"there are: {', '.join(names)}" if requested else ", ".join(names)
    if len(names) > _MAX_TASKS:
        few = f"near are {', '.join(near)}" if near else f"there are {', '.join(names[:_FEW])}, …"
        names_text = f"{few}; `harness datasets info {base_name}` lists all {len(names)}"
    if requested:
        meant = f" (did you mean '{near[0]}'?)" if near else nearest(requested, names)
        raise UsageError(f"{base_name} has no {kind} '{requested}'{meant}", fix=names_text)
    raise UsageError(f"{base_name} has several {kind}s", fix=f"name one, as {base_name}{sign}{names[0]}: {names_text}")


def _load(name: _Name, task: Any) -> _Content:
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
    # the library groups them in no order: they follow the queries
    query_ids = [str(query) for query in data["queries"][_id_column(data["queries"])]]
    qrels = {query: judged[query] for query in dict.fromkeys([*query_ids, *judged]) if query in judged}
    ranked = data.get("top_ranked")
    candidates = None if ranked is None else {str(query): [str(doc) for doc in docs] for query, docs in ranked.items()}
    return _Content(data["corpus"], data["queries"], _TaskJudgments(qrels, candidates))


def _documents(name: _Name, content: Callable[[], _Content], key: Mapping[str, JSON] | None) -> TextSource:
    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        return document_batches(content().corpus)

    return TextSource(f"{name} documents", read, str(name), key and {**key, "part": "documents"}, unit="document")


def _queries(name: _Name, content: Callable[[], _Content], key: Mapping[str, JSON] | None) -> TextSource:
    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        loaded = content()
        unjudged = 0
        for batch in query_batches(loaded.queries):
            numbered = zip(batch.ids, batch.texts, batch.lines or (), strict=True)
            judged_rows = [row for row in numbered if row[0] in loaded.judged.qrels]
            unjudged += len(batch.ids) - len(judged_rows)
            if judged_rows:
                ids, texts, lines = zip(*judged_rows, strict=True)
                yield TextBatch(ids, texts, lines=lines)
        if unjudged:
            notes.append(f"{unjudged:,} without judgments were left out, as MTEB does")

    return TextSource(f"{name} queries", read, f"{name} queries", key and {**key, "part": "queries"}, unit="query")


def _judgments(judged_queries: _TaskJudgments, problems: Problems) -> Judgments:
    judged = [(query, doc, grade) for query, grades in judged_queries.qrels.items() for doc, grade in grades.items()]
    for number, (query, doc, grade) in enumerate(judged, 1):
        if int(grade) != grade:
            problems.add(
                number, f"the grade of '{doc}' for query '{query}' is {abbreviated(grade)}, and no whole number"
            )
    return Judgments(
        list(range(1, len(judged) + 1)),
        [query for query, _, _ in judged],
        [doc for _, doc, _ in judged],
        [int(grade) for _, _, grade in judged],
    )


def document_batches(corpus: _Corpus) -> Iterator[TextBatch]:
    """Yield the documents of a corpus as MTEB's tasks hold it, with its titles and texts."""
    titled = "title" in corpus.column_names
    for start, batch in _batches(corpus):
        rows = zip(batch["title"] if titled else [""] * len(batch["text"]), batch["text"], strict=True)
        titles, texts = zip(*(_title_and_text(title or "", text) for title, text in rows), strict=True)
        ids = [str(document_id) for document_id in batch[_id_column(corpus)]]
        yield TextBatch(ids, texts, titles if titled else None, range(start, start + len(ids)))


def query_batches(queries: _Corpus) -> Iterator[TextBatch]:
    """Yield queries as MTEB's tasks hold them, with their instructions."""
    for start, batch in _batches(queries):
        ids = [str(query) for query in batch[_id_column(queries)]]
        instructions = batch.get("instruction", [None] * len(ids))
        texts = [_query_text(text, instruction) for text, instruction in zip(batch["text"], instructions, strict=True)]
        yield TextBatch(ids, texts, lines=range(start, start + len(ids)))


def language_of(about: Any, subset: str) -> str | None:
    """Return a task's subset's language, by its metadata; None if documents and queries have different ones.

    The code has two letters if there is such a code, as analyzers' codes have.
    """
    languages = about.eval_langs if isinstance(about.eval_langs, list) else about.eval_langs[subset]
    codes = {two_letter_code(code) for code in languages}
    return codes.pop() if len(codes) == 1 else None


def _batches(table: _Corpus) -> Iterator[tuple[int, Mapping[str, Sequence[Any]]]]:
    """Yield the rows of a table in batches, and the number of the first of each, counted from 1."""
    start = 1
    for batch in table.iter(batch_size=_BATCH):
        yield start, batch
        start += len(batch["text"])


def _id_column(table: _Corpus) -> str:
    return "id" if "id" in table.column_names else "_id"


def _title_and_text(title: str, text: str | None) -> tuple[str, str | None]:
    """Return both such that, joined by a space, they equal MTEB's input of a model, stripped at both ends."""
    if text is None:  # refused when it is read
        return title, text
    title, text = (title.lstrip(), text.rstrip()) if title else ("", text.strip())
    return (title, text) if title and text else (title.strip(), text.strip())


def _query_text(text: Any, instruction: str | None) -> str | None:
    if text is None:  # refused when it is read
        return None
    if isinstance(text, str):
        return text if instruction is None else f"{text} {instruction}"
    turns = "; ".join(turn if isinstance(turn, str) else f"{turn['role']}: {turn['content']}" for turn in text)
    return turns if instruction is None else f"{instruction} {turns}"


def _about(name: _Name, task: Any) -> _About:
    about = task.metadata
    return _About(
        *name,
        _key(name, about),
        type(task).__module__.startswith("mteb."),
        tuple(about.eval_splits),
        "drop" if task.ignore_identical_ids else "keep",
        _provenance(name, task),
        language_of(about, name.subset),
    )


def _key(name: _Name, about: Any) -> Mapping[str, JSON] | None:
    """Return the key of the content; None if the revision is a branch, or the data lies in a folder."""
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


def _provenance(name: _Name, task: Any) -> dict[str, str]:
    about = task.metadata
    facts = {
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
        "instruction": _instruction(task, "query"),
        "document_instruction": _instruction(task, "document"),
        "language": language_of(about, name.subset),
    }
    return {key: str(value) for key, value in facts.items() if value}


def _instruction(task: Any, role: str) -> str:
    """Return the instruction that MTEB gives models for a task's queries or documents; "" without one.

    A task without its own has the general instruction for the queries of retrieval.
    """
    prompt = task.metadata.prompt
    stated = prompt.get(role) if isinstance(prompt, Mapping) else prompt if role == "query" else None
    general = getattr(task, "abstask_prompt", "") if role == "query" else ""
    return str(stated or general or "")


def _subsets(task: Any) -> list[str]:
    return list(task.metadata.hf_subsets) if task.metadata.is_multilingual else [UNDIVIDED]


@contextmanager
def _translated(name: _Name, about: Any) -> Iterator[None]:
    """Load without progress bars and logs of the libraries, offline if requested or if the hub is not reached.

    The libraries request every file separately and repeat each request for half a minute, so the hub is checked once
    before. Raises DataError for their errors.
    """
    from huggingface_hub import constants

    import datasets

    errors: Any = require("huggingface_hub.errors", extra="mteb", feature="loader mteb")

    repository, revision = str(about.dataset["path"]), about.dataset.get("revision")
    unreached = None if is_offline() or Path(repository).exists() else _why_unreached(constants.ENDPOINT)
    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE, datasets.are_progress_bars_disabled()
    logs = [logging.getLogger(library) for library in ("huggingface_hub", "datasets", "mteb")]
    levels = [log.level for log in logs]
    if is_offline() or unreached is not None:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, errors.HTTPError) as error:
        subject, folders = f"{repository} at revision {revision}", " and ".join(map(str, hub_folders(repository)))
        if is_offline() and not Path(repository).exists():
            problem = f"{OFFLINE} is set, and this machine lacks {subject}"
            fix = f"load it on a machine with a network, and copy {folders} from there; or leave {OFFLINE} out"
        elif unreached is not None:
            problem = f"this machine lacks {subject}, and {constants.ENDPOINT} was not reached: {unreached}"
            fix = f"try again with network access, or load it on a machine that has it, and copy {folders} from there"
        else:
            problem = f"MTEB cannot load {subject}: {type(error).__name__}: {error}"
            fix = "nothing half-written counts: try again; a repository that was moved or closed needs a newer mteb"
        raise DataError(str(name), [problem], fix=fix) from error
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before[:2]
        if not before[2]:
            datasets.enable_progress_bars()
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _why_unreached(endpoint: str) -> str | None:
    """Return why a hub does not answer within some seconds, None if it answers, with any status."""
    from huggingface_hub import get_session

    errors: Any = require("huggingface_hub.errors", extra="mteb", feature="loader mteb")
    try:
        get_session().head(endpoint, timeout=_PATIENCE_S)
    except (OSError, errors.HTTPError) as error:  # whichever client the hub's library is built on
        return str(error) or type(error).__name__
    return None
