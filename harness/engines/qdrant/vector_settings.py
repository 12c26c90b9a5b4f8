"""What a collection's vectors are: sparse ones with or without idf, dense ones with their graph and quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from harness.data.types import Similarity
from harness.errors import RejectedInputError, UnknownNameError
from harness.registry.parameters import ParameterValue

__all__ = [
    "DATATYPES",
    "LEAST_SQUARE",
    "QDRANT_RRF_K",
    "STORED",
    "DenseSettings",
    "FusionSettings",
    "Quantisation",
    "SparseSettings",
    "unless_negative",
]

LEAST_SQUARE = 2.0**-23
"""Under cosine Qdrant leaves a vector as it is whose squared length is below this, and its scores are no cosines."""
DATATYPES = ("float32", "float16", "uint8")
STORED = "stored"
"""The kind of a quantisation of an external index, whatever it is."""
QDRANT_RRF_K = 2
"""Qdrant's own default, which servers of any version know without being told."""
_OF_QUANTISATION: Mapping[str, ParameterValue] = {
    "quantile": -1.0,
    "compression": "",
    "binary_encoding": "",
    "binary_query_encoding": "",
    "turbo_bits": "",
    "quantized_always_ram": False,
    "rescore": "",
    "oversampling": 1.0,
    "ignore_quantization": False,
}
_BELONGS = {
    "quantile": "scalar",
    "compression": "product",
    "binary_encoding": "binary",
    "binary_query_encoding": "binary",
    "turbo_bits": "turbo",
}


@dataclass(frozen=True, slots=True)
class SparseSettings:
    """The sparse vector: idf by Qdrant or not, and how an optimised segment keeps the weights."""

    idf: bool = True
    datatype: str = "float32"
    on_disk: bool = False
    full_scan_threshold: int | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], *, prefix: str = "") -> SparseSettings:
        """From the card's complete parameters; raises UnknownNameError.

        ``prefix`` begins the names of those that a dense vector beside it has too.
        """
        return cls(
            idf=bool(parameters["idf"]),
            datatype=_datatype(parameters, f"{prefix}datatype"),
            on_disk=bool(parameters[f"{prefix}on_disk"]),
            full_scan_threshold=unless_negative(parameters[f"{prefix}full_scan_threshold"]),
        )


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How vectors are compressed (``kind`` is scalar, product, binary or turbo), and how searches use that. Of an
    external index it is ``stored``, whatever that has, and only what searches use counts.

    Empty strings and None leave a choice to Qdrant; ``rescore`` is whether hits get the scores of the original vectors.
    """

    kind: str
    quantile: float | None
    compression: str
    encoding: str
    query_encoding: str
    bits: str
    always_ram: bool
    rescore: bool | None
    oversampling: float
    ignore: bool

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> Quantisation | None:
        """From the card's complete parameters; raises RejectedInputError for those that do not go together."""
        kind = str(parameters["quantization"]) or (STORED if parameters.get("external") else "")
        other = [
            name
            for name, neutral in _OF_QUANTISATION.items()
            if parameters[name] != neutral and (not kind or _BELONGS.get(name, kind) != kind)
        ]
        if other:
            raise RejectedInputError(
                f"{', '.join(other)} cannot be set with quantization={kind or 'none'}",
                fix="choose the quantisation that they belong to, or leave them out",
            )
        if not kind:
            return None
        quantile, rescore = float(parameters["quantile"]), str(parameters["rescore"])
        return cls(
            kind=kind,
            quantile=None if quantile < 0 else quantile,
            compression=str(parameters["compression"]) or "x4",
            encoding=str(parameters["binary_encoding"]),
            query_encoding=str(parameters["binary_query_encoding"]),
            bits=str(parameters["turbo_bits"]),
            always_ram=bool(parameters["quantized_always_ram"]),
            rescore=None if not rescore else rescore == "true",
            oversampling=float(parameters["oversampling"]),
            ignore=bool(parameters["ignore_quantization"]),
        )


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """The dense vector: its similarity, how it is kept, its graph, and how that is searched.

    ``hnsw_ef`` is None for Qdrant's own choice; ``exact`` scans all vectors, whatever graph there is.
    """

    similarity: Similarity
    datatype: str
    on_disk: bool
    m: int
    ef_construct: int
    full_scan_threshold_kb: int
    graph_on_disk: bool
    indexing_threads: int
    hnsw_ef: int | None
    exact: bool
    quantisation: Quantisation | None

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> DenseSettings:
        """From the card's complete parameters; raises UnknownNameError and RejectedInputError."""
        return cls(
            similarity=cast("Similarity", parameters["similarity"]),
            datatype=_datatype(parameters, "datatype"),
            on_disk=bool(parameters["on_disk"]),
            m=int(parameters["m"]),
            ef_construct=int(parameters["ef_construct"]),
            full_scan_threshold_kb=int(parameters["full_scan_threshold_kb"]),
            graph_on_disk=bool(parameters["graph_on_disk"]),
            indexing_threads=int(parameters["indexing_threads"]),
            hnsw_ef=int(parameters["hnsw_ef"]) or None,
            exact=bool(parameters["exact"]),
            quantisation=Quantisation.of(parameters),
        )


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How Qdrant fuses the best ``candidates`` of each vector: ``method`` ``rrf``, with its constant, or ``dbsf``."""

    method: str
    rrf_k: int
    candidates: int

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> FusionSettings:
        """From the card's complete parameters; raises RejectedInputError for a constant without the method."""
        fusion = cls(str(parameters["fusion"]), int(parameters["rrf_k"]), int(parameters["candidates"]))
        if fusion.method != "rrf" and fusion.rrf_k != QDRANT_RRF_K:
            raise RejectedInputError(
                f"rrf_k cannot be set with fusion={fusion.method}", fix="leave it out, or take fusion=rrf"
            )
        return fusion


def unless_negative(value: ParameterValue) -> int | None:
    """The number, or None for a negative one, which leaves a setting to the engine."""
    number = int(value)
    return None if number < 0 else number


def _datatype(parameters: Mapping[str, ParameterValue], name: str) -> str:
    datatype = str(parameters[name])
    if datatype not in DATATYPES:
        raise UnknownNameError(name, datatype, DATATYPES)
    return datatype
