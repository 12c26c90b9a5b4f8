"""Vectors, cards, harness.toml and stored results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import NUMBERS, SCALARS, changed, changes, files, fuzz, survives, tables
from golden_world import CHUNKS, LABEL, QUICK, write_golden_world
from hypothesis import given
from hypothesis import strategies as st
from neighbour_files import entries, write_neighbour_file
from pyarrow import parquet
from sample_report import sample_report

import harness
from harness.cli.config import read_settings
from harness.data.inputs import Inputs
from harness.data.memory import qrels_from_dict
from harness.data.types import Ids, SparseVectors
from harness.encoders.precomputed import PrecomputedEncoder
from harness.encoders.settings import Role, Settings
from harness.exact.postings import as_sparse
from harness.loaders import load_dataset
from harness.plan.backend_spec import parse_backends
from harness.plan.dataset_list import parse_datasets
from harness.registry.cards import EncoderName, read_backend_card
from harness.registry.dataset_cards import read_dataset_card
from harness.registry.strict_toml import read_document
from harness.report.formats import FORMATS, render
from harness.results.baseline import read_baseline, save_baseline
from harness.results.scored import parity_table, per_query_table
from harness.results.stored import ResultContent, StoredResult, read_report, write_result
from harness.store.cache import Cache

_ATTRIBUTES = st.sampled_from(["distance", "type", "point_type", "dimension"])
COLUMNS = st.sampled_from(["id", "vector", "indices", "values", "x"])
KINDS = ("check", "compare", "regress")


@fuzz
@given(tables(COLUMNS), st.sampled_from(["flat", "csr-splade"]))
def test_tables_of_vectors(tmp_path_factory: Any, table: Any, backend: str) -> None:
    place = tmp_path_factory.getbasetemp() / "vectors"
    place.mkdir(exist_ok=True)
    try:
        parquet.write_table(table, place / "documents.parquet")
    except (ValueError, OverflowError):  # a type or a time that Parquet lacks
        return
    kind: EncoderName = "dense" if backend == "flat" else "splade"
    (spec,) = parse_backends(f"{backend}:model='precomputed:{place}'")
    model = PrecomputedEncoder(Settings.of(kind, spec.parameters))
    survives(lambda: model.encode(Inputs(Ids.of(["q1"])), "documents"))


@st.composite
def arrays(draw: Any) -> Any:
    values = draw(st.lists(st.integers(-2, 5) | st.floats(width=16) | st.booleans(), max_size=5))
    kind = draw(st.sampled_from(["int64", "int32", "uint32", "uint64", "float32", "float64", "bool", "object", "str"]))
    with np.errstate(all="ignore"):
        try:
            array = np.array(values).astype(kind)
        except (ValueError, OverflowError):
            return values
    return array if draw(st.integers(0, 5)) else array.reshape(1, -1)


@st.composite
def neighbour_files(draw: Any, path: Path) -> Path:
    """Draw an HDF5 file in ann-benchmarks' layout with entries of other shapes and types, perhaps cut.

    No byte is overwritten: the HDF5 library itself may then end the process.
    """
    content = entries(draw(st.sampled_from(["angular", "euclidean", "dot"])), n=5, d=2, q=2, depth=3)
    for name in draw(st.lists(st.sampled_from(sorted(content)), max_size=2, unique=True)):
        array = content[name].reshape(draw(st.sampled_from([content[name].shape, (-1,), (1, -1), (-1, 1)])))
        kind = draw(st.sampled_from(["f2", "f4", "f8", "i1", "u8", "i8", "?", "c8", "S3", "V2"]))
        with np.errstate(all="ignore"):
            content[name] = np.asarray(draw(st.sampled_from([array, array[:1], array[:0], array * np.nan])))
            content[name] = content[name].astype(kind) if kind != "V2" else np.zeros(2, dtype=kind)
    values = st.sampled_from(["angular", "bit", "", b"\xff", 2, [1, 2]])
    attributes = draw(st.dictionaries(_ATTRIBUTES, values, max_size=2))
    left_out = draw(st.lists(st.sampled_from(sorted(content)), max_size=1))
    write_neighbour_file(path, "angular", attributes=attributes, **content | dict.fromkeys(left_out))
    if draw(st.integers(0, 3)) == 0:
        stored = path.read_bytes()
        path.write_bytes(stored[: draw(st.integers(0, len(stored)))])
    return path


@fuzz
@given(st.data(), st.sampled_from(["documents", "queries"]))
@pytest.mark.filterwarnings("ignore")
def test_hdf5_files_of_neighbours(tmp_path_factory: Any, data: Any, role: Role) -> None:
    folder = tmp_path_factory.getbasetemp() / "neighbours"
    folder.mkdir(exist_ok=True)
    path = data.draw(neighbour_files(folder / "small.hdf5"))
    (spec,) = parse_backends(f"flat:model='precomputed:{path}'")
    survives(lambda: PrecomputedEncoder(Settings.of("dense", spec.parameters)).encode(Inputs(Ids.of(["1"])), role))
    survives(lambda: load_dataset(path, cache=Cache(folder / "cache")))


@fuzz
@given(arrays(), arrays(), arrays(), st.integers(-1, 6) | SCALARS)
def test_sparse_vectors_of_python(indptr: Any, indices: Any, values: Any, dimensions: Any) -> None:
    survives(lambda: as_sparse(SparseVectors(indptr, indices, values, dimensions), "documents"))


@fuzz
@given(arrays(), st.sampled_from(["indptr", "indices", "data"]))
@pytest.mark.filterwarnings("ignore")
def test_broken_matrices_of_scipy(values: Any, name: str) -> None:
    from scipy.sparse import csr_array

    matrix = csr_array(np.eye(3, dtype=np.float32))
    setattr(matrix, name, values)
    survives(lambda: as_sparse(matrix, "documents"))


_TOML = st.one_of(
    NUMBERS.map(str), st.booleans().map(lambda value: str(value).lower()), st.text(max_size=5).map(json.dumps)
)
_KEYS = st.sampled_from(
    ["name", "summary", "language", "licence", "source", "format", "path", "spec", "columns", "split", "published",
     "facts", "engine", "encoder", "parameters", "extra", "reference", "members", "text", "sha256", "splits", "dataset",
     "backends", "k", "metrics", "compare", "check"]
)  # fmt: skip
_LINES = st.lists(
    st.tuples(_KEYS, _TOML | st.lists(_TOML, max_size=2).map(lambda items: f"[{', '.join(items)}]")).map(" = ".join)
    | _KEYS.map(lambda key: f"[{key}]")
    | _KEYS.map(lambda key: f"[[{key}]]")
    | st.text(max_size=4),
    max_size=6,
).map("\n".join)


@fuzz
@given(_LINES)
def test_cards_and_configuration(tmp_path_factory: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "harness.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    survives(lambda: read_backend_card(path))
    survives(lambda: read_dataset_card(path, read_document(path)))
    survives(lambda: read_settings(path, "compare"))


@fuzz
@given(st.text(max_size=12) | st.sampled_from(["csr:k1=", "a=b=csr", "rrf(csr,", "run:", "csr|", "http:url="]))
def test_lists_of_backends_and_datasets(text: str) -> None:
    survives(lambda: parse_backends(text))
    survives(lambda: parse_datasets(text))


@pytest.fixture(scope="module")
def results(tmp_path_factory: Any) -> Path:
    """A result of each verb and a baseline, as the harness writes them."""
    folder = tmp_path_factory.mktemp("results")
    golden, corpus = write_golden_world(folder)
    harness.check(golden, corpus=corpus, out=folder / "check", **QUICK)
    dataset = harness.Dataset.of(CHUNKS, {"q1": "apples pears", "q2": "trout"}, {"q1": {"fruit#0": 1}}, name="chunks")
    options = {"timing": False, "isolation": "none", "k": 3}
    compared = harness.compare(LABEL, dataset, out=folder / "compare", **options)
    save_baseline(compared, folder / "baseline.json")
    harness.diff(folder / "compare", folder / "compare", out=folder / "regress")
    return folder


@fuzz
@given(st.sampled_from(KINDS), changes(), st.sampled_from(FORMATS))
def test_reports_that_were_changed(results: Path, kind: str, change: tuple[list[int], Any], form: str) -> None:
    report = json.loads((results / kind / "report.json").read_bytes())
    path = results / "report.json"
    path.write_bytes(json.dumps(changed(report, *change)).encode(errors="surrogatepass"))
    survives(lambda: StoredResult.open(path))
    survives(lambda: render(read_report(path), form, verbose=True))
    survives(lambda: harness.diff(results / kind, path))


@fuzz
@given(changes())
def test_baselines_that_were_changed(results: Path, change: tuple[list[int], Any]) -> None:
    baseline = json.loads((results / "baseline.json").read_bytes())
    path = results / "changed.json"
    path.write_bytes(json.dumps(changed(baseline, *change)).encode(errors="surrogatepass"))
    survives(lambda: read_baseline(path))
    survives(lambda: harness.diff(results / "compare", path))


@fuzz
@given(files(".parquet"), st.sampled_from(["per_query", "parity", "latencies"]))
def test_tables_of_stored_results(tmp_path_factory: Any, file: tuple[str, bytes], name: str) -> None:
    place = tmp_path_factory.getbasetemp() / "stored"
    if not place.exists():
        content = ResultContent(
            per_query_table([], "cranfield"),
            parity_table([], "cranfield"),
            qrels={"cranfield": qrels_from_dict({"q": {"a": 1}})},
        )
        write_result(place, sample_report(), content)
    stored = StoredResult.open(place)
    table = place / f"{name}.parquet"
    before = table.read_bytes() if table.exists() else b""
    table.write_bytes(file[1])
    read = {"per_query": stored.per_query, "parity": stored.agreement, "latencies": stored.latencies}[name]
    try:
        survives(read)
    finally:
        table.write_bytes(before)
