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
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.frontier import frontier_stats
from harness.results.schema import DatasetInfo, PlanRecord, TrialResult

__all__ = ["StoredJson", "read_stored_json", "validated"]

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
        """Return the same; raises ResultError where its schema is above ``newest``."""
        if self.schema > newest:
            raise ResultError(
                f"'{self.path}' has schema {self.schema}, this harness reads up to {newest}",
                fix="pip install --upgrade retrieval-harness",
            )
        return self


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
        return model.model_validate(_upgraded(stored.values, stored.kind, stored.schema))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{stored.path}' is damaged: {where}: {first['msg']}") from error
    except (AttributeError, TypeError) as error:  # an earlier version's file whose parts are not what they should be
        raise ResultError(f"'{stored.path}' is damaged: {error}") from error


def _upgraded(values: Object, kind: str, version: int) -> Object:
    """Return a file of ``kind`` and ``version`` as one of the newest version; the same where it is one."""
    while (kind, version) in _STEPS:
        values = _STEPS[kind, version](values)
        version += 1
    return values


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
    record, info = PlanRecord.model_validate(plan), DatasetInfo.model_validate(dataset)
    results = [TrialResult.model_validate(trial) for trial in trials]
    return [frontier.model_dump() for frontier in frontier_stats(record, [info], results)]


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
        trial["spread"] = {**spread, "each": [_renamed(one, oracle_overlap="reference_overlap") for one in builds]}
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
        {**line, "values": _renamed_overlaps(line.get("values", {}))} for line in values.get("rankings", [])
    ]
    return {
        **{key: value for key, value in values.items() if key not in moved},
        "schema": 2,
        "report": _comparison_1(report),
        "datasets": {name: kept},
    }


def _check_1(values: Object) -> Object:
    subjects = []
    for subject in values.get("subjects", []):
        changed = {**subject, "metrics": _metrics_1(subject.get("metrics", {}))}
        changed["slices"] = [
            {**one, "metrics": _metrics_1(one.get("metrics", {}))} for one in subject.get("slices", [])
        ]
        if subject.get("parity") is not None:
            changed["parity"] = _renamed(subject["parity"], oracle="reference")
        subjects.append(changed)
    return {**values, "schema": 2, "subjects": subjects}


def _metrics_1(metrics: Object) -> Object:
    return {name: _renamed(value, measure="metric") for name, value in metrics.items()}


def _regression_1(values: Object) -> Object:
    backends = []
    for backend in values.get("backends", []):
        metrics = [{**one, "metric": _renamed_overlap(one.get("metric", ""))} for one in backend.get("metrics", [])]
        backends.append({**backend, "metrics": metrics})
    return {**values, "schema": 2, "backends": backends}


def _renamed(values: Object, **names: str) -> Object:
    return {names.get(key, key): value for key, value in values.items()}


def _renamed_overlaps(figures: Object) -> Object:
    return {_renamed_overlap(name): value for name, value in figures.items()}


def _renamed_overlap(name: str) -> str:
    former = "oracle overlap@"
    return f"reference overlap@{name.removeprefix(former)}" if name.startswith(former) else name


_STEPS: Mapping[tuple[str, int], Callable[[Object], Object]] = MappingProxyType(
    {
        ("compare", 1): _comparison_1,
        ("check", 1): _check_1,
        ("regress", 1): _regression_1,
        ("diff", 1): _regression_1,
        ("baseline", 1): _baseline_1,
    }
)
