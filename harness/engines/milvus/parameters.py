"""The parameters of the Milvus backends, typed, and the index that they describe in Milvus's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from harness.data.types import Similarity
from harness.engines.external_index import source_folder
from harness.errors import RejectedInputError, UnknownNameError
from harness.registry.parameters import ParameterValue

__all__ = ["METRICS", "IndexSettings", "MilvusParameters"]

METRICS: Mapping[Similarity, str] = {"cosine": "COSINE", "dot": "IP", "l2": "L2"}
"""Milvus's names of the similarities."""
_MODES = ("lite", "server")
_NOT_IN_LITE: Mapping[str, ParameterValue] = {"url": "", "keep": False, "database": ""}
"""Parameters that only a server honours, and the value that means nothing."""
_BUILDING: Mapping[str, Mapping[str, str]] = {
    "FLAT": {},
    "IVF_FLAT": {"nlist": "nlist"},
    "HNSW": {"m": "M", "ef_construction": "efConstruction"},
}
_SEARCHING: Mapping[str, Mapping[str, str]] = {"FLAT": {}, "IVF_FLAT": {"nprobe": "nprobe"}, "HNSW": {"ef": "ef"}}
"""Milvus's names of the card's parameters, by the type of index that they are for."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The index of the vector field that is searched.

    Attributes:
        type: Milvus's name of the index.
        metric: Milvus's name of the metric; empty where it is read from an external index.
        building: Parameters of the index, under Milvus's names.
        searching: Parameters of each search, under Milvus's names.
    """

    type: str
    metric: str
    building: Mapping[str, ParameterValue] = field(default_factory=dict)
    searching: Mapping[str, ParameterValue] = field(default_factory=dict)

    @classmethod
    def dense(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Read those of a field of dense vectors; raises UnknownNameError for a similarity that is none."""
        similarity, kind = parameters["similarity"], str(parameters["index"])
        if similarity not in METRICS and not (similarity == "" and parameters["external"]):
            raise UnknownNameError("similarity", str(similarity), METRICS)
        return cls(
            kind,
            next((metric for name, metric in METRICS.items() if name == similarity), ""),
            {name: parameters[own] for own, name in _BUILDING[kind].items()},
            {name: parameters[own] for own, name in _SEARCHING[kind].items()},
        )

    @classmethod
    def sparse(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Read those of a field of sparse vectors; raises RejectedInputError for idf=true, which Milvus has not."""
        if parameters["idf"]:
            raise RejectedInputError(
                "Milvus multiplies sparse vectors by no idf", fix="leave idf out, or take milvus-bm25 for texts"
            )
        building = {"inverted_index_algo": parameters["algorithm"]}
        return cls("SPARSE_INVERTED_INDEX", "IP", building, {"drop_ratio_search": parameters["drop_ratio_search"]})

    @classmethod
    def bm25(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Read those of a field whose terms Milvus weighs."""
        weighing = {"bm25_k1": parameters["k1"], "bm25_b": parameters["b"]}
        return cls(
            "SPARSE_INVERTED_INDEX",
            "BM25",
            {"inverted_index_algo": parameters["algorithm"], **weighing},
            {"drop_ratio_search": parameters["drop_ratio_search"]},
        )


@dataclass(frozen=True, slots=True)
class MilvusParameters:
    """The card's parameters of the engine, each by its name; ``mode`` is never empty."""

    mode: str
    url: str
    database: str
    api_key_env: str
    insert_batch: int
    keep: bool
    timeout_s: int
    retry_s: float
    optimize_timeout_s: float
    external: bool
    path: str
    collection: str
    vector: str
    id_key: str
    text_key: str
    index: IndexSettings

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], index: IndexSettings) -> Self:
        """Read the card's complete parameters.

        Raises:
            UnknownNameError: There is no such mode.
            RejectedInputError: The mode cannot honour a parameter.
        """
        mode = str(parameters["mode"]) or ("server" if parameters["url"] else "lite")
        if mode not in _MODES:
            raise UnknownNameError("mode", mode, _MODES)
        if mode == "lite":
            _require_what_lite_has(parameters, index)
        external, path = parameters.get("external", False), parameters.get("path", "")
        if external and bool(path) != (mode == "lite"):
            raise RejectedInputError(
                f"{'a file is opened by Milvus Lite' if path else 'no file is named'}, and mode={mode}",
                fix="give collection= with path= for a file of Milvus Lite, or with url= for a server",
            )
        common: dict[str, Any] = {name: parameters.get(name, "") for name in cls.__slots__ if name != "index"}
        return cls(**{**common, "mode": mode, "index": index, "external": bool(external)})

    @property
    def source(self) -> Path | None:
        """The file of an external index; None for a collection on a server, or one of the harness's own."""
        return source_folder({"path": self.path}) if self.external and self.path else None


def _require_what_lite_has(parameters: Mapping[str, ParameterValue], index: IndexSettings) -> None:
    wrong = [name for name, neutral in _NOT_IN_LITE.items() if parameters[name] != neutral]
    if wrong:
        raise RejectedInputError(
            f"{', '.join(wrong)} cannot be set with mode=lite",
            fix=f"leave {'it' if len(wrong) == 1 else 'them'} out, or take a server: url=http://HOST:19530",
        )
    if index.type == "HNSW":
        raise RejectedInputError(
            "Milvus Lite has no HNSW: it makes FLAT and IVF_FLAT only",
            fix="take index=FLAT, or a server: url=http://HOST:19530",
        )
