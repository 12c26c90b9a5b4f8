"""Stored JSON of every version, read back as of today: whether it is a file of harness at all, and undamaged.

One function a kind of file and version takes the parsed file, before anything of it is validated, and returns that of
the next version. What is not as it should be is left to the schema, which names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from harness.errors import ResultError
from harness.plan.expressions import Swept, split_outside, swept, unquoted
from harness.plan.sweeps import PlannedSweep
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.frontier import frontier_stats
from harness.results.golden import CorpusContent, GoldenContent, golden_dataset
from harness.results.schema import TrialResult
from harness.results.schema_base import DatasetInfo

Object = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)
_PARQUET = b"PAR1"
_PLACES = "name a result folder that harness wrote, or a baseline, a .json file"


class StoredJson(NamedTuple):
    """Content of a file, before anything of it is believed."""

    path: Path
    schema: int
    kind: str
    values: dict[str, Any]

    def refuse_newer(self, newest: int) -> StoredJson:
        """Return the same; raises ResultError if its schema is above ``newest``, or is not a version."""
        if self.schema < 1:
            raise ResultError(f"'{self.path}' has schema {self.schema}, which does not exist", fix=_PLACES)
        if self.schema > newest:
            raise ResultError(
                f"'{self.path}' has schema {self.schema}, this harness reads up to {newest}",
                fix="pip install --upgrade retrieval-harness",
            )
        return self


def current_figure(name: str) -> str:
    """Return the name of a figure in today's words: ``reference overlap@10`` was ``oracle overlap@10``."""
    former = "oracle overlap@"
    return f"reference overlap@{name.removeprefix(former)}" if name.startswith(former) else name


def read_stored_json(path: Path, what: str, *, missing: ResultError) -> StoredJson:
    """Read a file that should be ``what`` (``a baseline``), an object with the version of its schema.

    Raises ``missing`` where there is no such file, ResultError where it is another.
    """
    try:
        stored = path.read_bytes()
        if stored.startswith(_PARQUET):
            raise ResultError(f"'{path}' is a Parquet table, and not {what} of harness", fix=_PLACES)
        content = orjson.loads(stored)
    except OSError as error:
        raise missing from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}", fix=_PLACES) from error
    if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
        raise ResultError(f"'{path}' is not {what} of harness: it names no schema")
    return StoredJson(path, content["schema"], str(content.get("kind")), content)


def validated(stored: StoredJson, model: type[Model]) -> Model:
    """Return the file's content, of whatever version, as ``model``; raises ResultError where it is damaged."""
    try:
        values, version = stored.values, stored.schema
        while step := _STEPS.get((stored.kind, version)):
            values, version = step(values), version + 1
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{stored.path}' is damaged: {where}: {first['msg']}") from error
    except (AttributeError, KeyError, TypeError) as error:  # a part of an earlier version's file is amiss
        raise ResultError(f"'{stored.path}' is damaged: {error}") from error


def _comparison_1(values: Object) -> Object:
    """Give the only dataset its name wherever several are told apart, and write reference for oracle."""
    dataset, backends = values.get("dataset"), values.get("backends")
    if not isinstance(dataset, dict) or not isinstance(backends, list):
        return values
    name = dataset.get("name")
    moved = {"dataset", "backends", "comparisons", "frontiers", "findings"}
    trials = [{"dataset": name, **_trial_1(backend)} for backend in backends]
    frontiers = [{"dataset": name, **_renamed(row, measure="metric")} for row in values.get("frontiers") or []]
    if values.get("frontiers") is None and values.get("plan", {}).get("given", {}).get("sweep"):
        frontiers = _frontiers(values["plan"], dataset, trials)
    return {
        **{key: value for key, value in values.items() if key not in moved},
        "schema": 2,
        "datasets": [dataset],
        "backends": [info.model_dump() for info in backend_infos([_labelled(backend) for backend in backends])],
        "trials": trials,
        "differences": [{"dataset": name, **row} for row in values.get("comparisons") or []],
        "frontiers": frontiers,
        "findings": [{"dataset": name, **row} for row in values.get("findings") or []],
    }


def _frontiers(plan: Object, dataset: Object, trials: Sequence[Object]) -> list[Object]:
    """Return the frontiers of a result that was stored before they were."""
    info = DatasetInfo.model_validate(dataset)
    results = [TrialResult.model_validate(trial) for trial in trials]
    given, labels = plan["given"]["sweep"], [trial.label for trial in results]
    sweeps = [_planned(swept(sweep), labels) for sweep in (given if isinstance(given, list) else [])]
    return [frontier.model_dump() for frontier in frontier_stats(sweeps, [info], results)]


def _planned(sweep: Swept, labels: Sequence[str]) -> PlannedSweep:
    """Return a sweep with the labels of its backends, which say what they were made of."""
    found = {value: label for value in sweep.values if (label := _label_of(sweep, value, labels)) is not None}
    written = {_parameters(label)[sweep.parameter]: label for label in found.values()}
    return PlannedSweep(sweep.backend, sweep.parameter, written)


def _label_of(sweep: Swept, value: str, labels: Sequence[str]) -> str | None:
    """Return the label that the sweep made of a value: it may write numbers and quotes otherwise."""
    separator = ";" if ":" in sweep.backend else ":"
    wanted = _parameters(f"{sweep.backend}{separator}{sweep.parameter}={value}")
    same = {key: _plain(text) for key, text in wanted.items()}
    # labels that a user gave are no expressions: those of other backends are not taken apart
    of_backend = (label for label in labels if label.partition(":")[0] == wanted[""])
    for label in of_backend:
        if {key: _plain(text) for key, text in _parameters(label).items()} == same:
            return label
    return None


def _parameters(label: str) -> dict[str, str]:
    """Return the parameters that an expression sets, as they are written, and its backend's name under ""."""
    name, _, rest = label.partition(":")
    parts = (part.partition("=") for part in split_outside(rest, ";"))
    return {"": name.strip()} | {key.strip(): text.strip() for key, _, text in parts}


def _plain(text: str) -> str | float:
    """Return the value that a parameter is written as: a number or truth value as a number."""
    try:
        value = unquoted(text)
    except ValueError:  # a label that no parameter's value stands in
        return text
    number = _number(value)
    return value if number is None else number


def _number(text: str) -> float | None:
    """Return the number, or truth value, that a parameter is written as; None for anything else."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text)
    except ValueError:
        return None


def _labelled(backend: Object) -> LabelledBackend:
    return LabelledBackend(str(backend.get("label")), str(backend.get("name")), backend.get("encoder") or {})


def _trial_1(backend: Object) -> Object:
    trial, evaluated = dict(backend), (backend.get("queries") or {}).get("evaluated", 0)
    trial["metrics"] = {
        name: {"metric": name, **value, "n": evaluated} for name, value in backend.get("metrics", {}).items()
    }
    if trial.get("parity") is not None:
        trial["parity"] = _renamed(trial["parity"], oracle="reference")
    if trial.get("spread") is not None:
        spread = _renamed(trial["spread"], oracle_overlap="reference_overlap")
        builds = spread.get("each", [])
        trial["spread"] = {**spread, "each": [_renamed(build, oracle_overlap="reference_overlap") for build in builds]}
    if (trial.get("stages") or {}).get("reranking") is not None:
        reranking = _renamed(trial["stages"]["reranking"], ceiling="upper_bound")
        trial["stages"] = {**trial["stages"], "reranking": reranking}
    if trial.get("index") is not None:
        index = _renamed(trial["index"], existing="external_index")
        if index.get("external_index") is not None:
            names = {"no_oracle": "no_reference", "in_collection": "in_dataset", "not_in_collection": "not_in_dataset"}
            index["external_index"] = _renamed(index["external_index"], **names)
        trial["index"] = index
    return trial


def _baseline_1(values: Object) -> Object:
    report = values.get("report", {})
    name = report.get("dataset", {}).get("name")
    moved = {"queries", "latencies", "rankings"}
    kept = {key: value for key, value in values.items() if key in moved}
    kept["rankings"] = [
        {**line, "values": {current_figure(name): value for name, value in line.get("values", {}).items()}}
        for line in values.get("rankings", [])
    ]
    return {
        **{key: value for key, value in values.items() if key not in moved},
        "schema": 2,
        "report": _comparison_1(report),
        "datasets": {name: kept},
    }


def _check_1(values: Object) -> Object:
    """Make each corpus with the golden set a dataset, and each subject a trial, with one label on all of them."""
    golden, corpora, subjects = values.get("golden") or {}, values.get("corpora", []), values.get("subjects", [])
    own, settings = _documents_of_their_own(golden, corpora), values.get("settings", {})
    datasets = {subject.get("label"): subject.get("corpus") or own for subject in subjects}
    labels = {subject.get("label"): _backend_label_1(subject, corpora) for subject in subjects}
    subjects = [{**subject, "label": labels[subject.get("label")]} for subject in subjects]
    moved = {"settings", "corpora", "subjects", "notes"}
    trials = [_check_trial_1(subject, own) for subject in subjects]
    return {
        **{key: value for key, value in values.items() if key not in moved},
        "schema": 2,
        "plan": {
            "given": _check_given_1(golden, settings),
            "resolved": {**settings, "notes": values.get("notes", [])},
        },
        "datasets": _check_datasets_1(golden, corpora, subjects, own),
        "backends": [info.model_dump() for info in backend_infos([_labelled(trial) for trial in trials])],
        "trials": trials,
        "requirements": [
            {**_about_backend_1(row, labels), "dataset": datasets.get(row.get("subject"), own)}
            for row in values.get("requirements", [])
        ],
        **{name: [_about_backend_1(row, labels) for row in values.get(name, [])] for name in ("preflight", "warnings")},
    }


def _backend_label_1(subject: Object, corpora: list[Object]) -> str:
    """Return the label of a backend without the corpus that was part of it where there were several."""
    label, corpus = str(subject.get("label")), subject.get("corpus")
    return label.removesuffix(f" on {corpus}") if len(corpora) > 1 and corpus is not None else label


def _check_given_1(golden: Object, settings: Object) -> Object:
    """Return the request of a check, which stored its options as they were resolved."""
    moved = {"corpora", "no_timing", "no_text"}
    kept = {name: value for name, value in settings.items() if name not in moved}
    timing = not settings.get("no_timing", False)
    return {"golden": golden.get("source"), "corpus": settings.get("corpora", []), **kept, "timing": timing}


def _about_backend_1(row: Object, labels: Mapping[Any, str]) -> Object:
    """Return a requirement or a problem with the label that its backend has now."""
    renamed = _renamed(row, subject="backend", corpus="dataset")
    return {**renamed, "backend": labels.get(renamed.get("backend"), renamed.get("backend"))}


def _documents_of_their_own(golden: Object, corpora: list[Object]) -> str:
    name = str(golden.get("name"))
    return f"{name} (documents of their own)" if name in [corpus.get("name") for corpus in corpora] else name


def _check_datasets_1(golden: Object, corpora: list[Object], subjects: list[Object], own: str) -> list[Object]:
    stored: list[Object] = next((subject["questions"] for subject in subjects if subject.get("questions")), [])
    questions = [
        GoldenContent(
            question["id"],
            question["question"],
            [(expected["id"], expected["grade"]) for expected in question["expected"]],
        )
        for question in stored
    ]
    contents = [
        CorpusContent(**{name: corpus[name] for name in CorpusContent._fields if name in corpus}) for corpus in corpora
    ]
    if any(subject.get("corpus") is None for subject in subjects):
        contents.append(CorpusContent(own))
    source, digest, expecting = golden.get("source"), golden.get("sha256"), golden.get("expecting", 0)
    return [
        golden_dataset(content, str(source), str(digest), questions, expecting).model_dump() for content in contents
    ]


def _check_trial_1(subject: Object, own: str) -> Object:
    label, backend, times = subject.get("label"), str(subject.get("backend")), subject.get("milliseconds")
    parameters = subject.get("parameters", {})
    parity = subject.get("parity")
    return {
        "dataset": subject.get("corpus") or own,
        "label": label,
        "name": backend.partition(":")[0].rpartition("=")[2],
        "status": subject.get("status"),
        "error": subject.get("error"),
        "engine": subject.get("engine"),
        "parameters": parameters if subject.get("corpus") is not None else {**parameters, "against": backend},
        "search": _search_1(subject, times) if times is not None else None,
        "metrics": _metrics_1(subject.get("metrics", {})),
        "parity": _renamed(parity, oracle="reference") if parity is not None else None,
        "deterministic": subject.get("deterministic"),
        "slices": [{**part, "metrics": _metrics_1(part.get("metrics", {}))} for part in subject.get("slices", [])],
        "questions": subject.get("questions", []),
        "notes": subject.get("notes", []),
    }


def _search_1(subject: Object, times: Object) -> Object:
    """Return the times of single queries; a check said no more of its searches."""
    questions = subject.get("questions", [])
    counts = [len(question.get("top", [])) for question in questions]
    unknown = dict.fromkeys(("transfer_ms", "qps", "first_query_ms"))
    none = dict.fromkeys(("queries_without_terms", "warm_up_queries", "repeated_calls"), 0)
    return {
        **unknown,
        **none,
        "queries": len(questions),
        "k": max(counts, default=0),
        "repeats": 1,
        "concurrency": 1,
        "milliseconds": times,
        "hits": sum(counts),
        "queries_without_hits": counts.count(0),
        "queries_per_call": 1,
    }


def _metrics_1(metrics: Object) -> Object:
    return {name: _renamed(value, measure="metric") for name, value in metrics.items()}


def _regression_1(values: Object) -> Object:
    """Put what ``regression.json`` said of two results, on one dataset each, under ``change``."""
    sides = {side: _renamed(values.get(side) or {}, dataset="datasets") for side in ("before", "after")}
    sides = {name: {**side, "datasets": [side.get("datasets")]} for name, side in sides.items()}
    dataset = (sides["after"]["datasets"][0] or {}).get("name")
    backends = []
    for backend in values.get("backends", []):
        metrics = [
            {**metric, "metric": current_figure(metric.get("metric", ""))} for metric in backend.get("metrics", [])
        ]
        backends.append({**backend, "dataset": dataset, "metrics": metrics})
    moved = {"schema", "kind", "created", "command"}
    kept = {key: value for key, value in values.items() if key not in moved}
    return {
        "schema": 2,
        "kind": values.get("kind"),
        "created": values.get("created"),
        "command": values.get("command", []),
        "harness": sides["after"].get("harness"),
        "machine": sides["after"].get("machine"),
        "packages": {},
        "plan": {"given": {}, "resolved": {}},
        "change": {**kept, **sides, "data": [{"dataset": dataset, **values.get("data", {})}], "backends": backends},
    }


def _renamed(values: Object, **names: str) -> Object:
    return {names.get(key, key): value for key, value in values.items()}


_STEPS: Mapping[tuple[str, int], Callable[[Object], Object]] = MappingProxyType(
    {
        ("compare", 1): _comparison_1,
        ("check", 1): _check_1,
        ("regress", 1): _regression_1,
        ("diff", 1): _regression_1,
        ("baseline", 1): _baseline_1,
    }
)
