"""Rerankers that run a model, on tiny random ones: each against the library called directly, pair by pair."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from installed import skip_module_without
from tiny_rerankers import WORDS, save_byte_level_model, save_classifier, save_decoder_classifier, save_language_model

from harness.data.progress import SilentDisplay
from harness.encoders.model_checks import position_limit
from harness.errors import EngineUnavailableError, UsageError
from harness.plan.stages import rerankers
from harness.rerank.reranker import Reranker
from harness.rerank.rerankers import create_reranker

skip_module_without("sentence_transformers")

PAIRS = [
    ("cat garden", "a dog chased the cat across the garden " * 4),
    ("light station", "light rail reached the station"),
    ("cat garden", "cats"),
    ("dog", ""),
]
SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
TEXTS = [SYSTEM, "<Instruct>: <Query>: <Document>: \n yes no light rail reached the station, a dog"] * 3
QUERIES, DOCUMENTS = [query for query, _ in PAIRS], [document for _, document in PAIRS]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "one": save_classifier(folder / "one"),
        "three": save_classifier(folder / "three", labels=3),
        "language": save_language_model(folder / "language"),
        "mute": save_language_model(folder / "mute", words="cat dog"),
        "plain": save_language_model(folder / "plain", template=None),
    }


def create(name: str, folder: Path, **given: Any) -> Reranker:
    return create_reranker(name, {**rerankers()[name].defaults, "model": str(folder), "device": "cpu", **given})


def scores(reranker: Reranker) -> np.ndarray:
    reranker.load()
    out = np.full(len(PAIRS), np.nan, dtype=np.float32)
    reranker.score(QUERIES, DOCUMENTS, out, SilentDisplay().section(""))
    return out


def test_a_cross_encoder_gives_the_librarys_raw_scores(models):
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    model = CrossEncoder(str(models["one"]), device="cpu", activation_fn=Identity())
    expected = np.array([model.predict([pair])[0] for pair in PAIRS])
    np.testing.assert_allclose(scores(create("cross-encoder", models["one"], batch_size=3)), expected, atol=1e-5)
    assert np.ptp(expected) > 1e-3


def test_a_cross_encoder_with_several_labels_is_sent_to_the_classifier(models):
    with pytest.raises(EngineUnavailableError, match=r"has 3 labels.*\n.*classifier"):
        create("cross-encoder", models["three"]).load()


@pytest.mark.parametrize("label", [0, 2, -1])
def test_a_classifier_gives_log_odds_of_a_label(models, label):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models["three"])
    model = AutoModelForSequenceClassification.from_pretrained(models["three"]).eval()
    expected = []
    for query, document in PAIRS:
        tokens = tokenizer([query], [document], truncation="longest_first", max_length=32, return_tensors="pt")
        with torch.inference_mode():
            chance = torch.softmax(model(**tokens).logits[0].double(), dim=0)[label].item()
        expected.append(np.log(chance / (1 - chance)))
    np.testing.assert_allclose(
        scores(create("classifier", models["three"], label=label, batch_size=2)), expected, atol=1e-4
    )


def test_a_classifier_with_one_label_is_the_cross_encoder(models):
    np.testing.assert_allclose(
        scores(create("classifier", models["one"])), scores(create("cross-encoder", models["one"])), atol=1e-5
    )


def test_a_label_that_is_not_there_is_refused(models):
    with pytest.raises(EngineUnavailableError, match="label 3 of a model with 3"):
        create("classifier", models["three"], label=3).load()


def test_a_language_model_is_asked_in_its_template_and_says_yes_or_no(models):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models["language"])
    model = AutoModelForCausalLM.from_pretrained(models["language"]).eval()
    expected = []
    for query, document in PAIRS:
        asked = f"<Instruct>: light and water\n<Query>: {query}\n<Document>: {document}"
        text = f"<|system|>\n{SYSTEM}\n<|user|>\n{asked}\n<|assistant|>\n<think> </think>\n"
        with torch.inference_mode():
            last = model(**tokenizer(text, add_special_tokens=False, return_tensors="pt")).logits[0, -1]
        yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
        expected.append((last[yes] - last[no]).item())
    found = scores(create("qwen3", models["language"], instruction="light and water", batch_size=3, max_length=250))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 1e-3


def test_only_the_document_is_cut(models):
    reranker: Any = create("qwen3", models["language"], max_length=90)
    reranker.load()
    short, long = (reranker._tokens("cat", document) for document in ("dog", "dog " * 500))
    assert len(long) == 90
    assert len(short) < 90
    assert long[-8:] == short[-8:]
    assert long[:20] == short[:20]


DOCUMENTS_OF_ALL_KINDS = ["light rail", "Light.", "42 cats", "", " two spaces", "(a dog)", "\nnext line", "-\n\n"]


def test_a_prompt_has_the_tokens_that_it_has_as_one_text(tmp_path):
    reranker: Any = create("qwen3", save_byte_level_model(tmp_path / "bytes", TEXTS + DOCUMENTS_OF_ALL_KINDS))
    reranker.load()
    for query in ("dog", "light rail"):
        for document in DOCUMENTS_OF_ALL_KINDS:
            asked = f"<Instruct>: {reranker.parameters['instruction']}\n<Query>: {query}\n<Document>: {document}"
            chat = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]
            text = reranker.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            whole = reranker.tokenizer(text, add_special_tokens=False)["input_ids"]
            assert reranker._tokens(query, document) == whole, document


def test_a_language_model_gives_the_logits_of_one_place_and_keeps_nothing(models):
    reranker: Any = create("qwen3", models["language"])
    reranker.load()
    sizes: list[tuple[int, ...]] = []
    caches: list[object] = []

    def watch(module: object, inputs: object, output: Any) -> None:
        sizes.append(tuple(output.logits.shape[:2]))
        caches.append(output.past_key_values)

    reranker.model.register_forward_hook(watch)
    reranker.batch_scores(["cat", "dog"], ["a cat", "a dog chased the cat"])
    assert sizes == [(2, 1)]
    assert caches == [None]


@pytest.mark.parametrize(
    ("given", "tokenizer", "positions", "limit"),
    [(0, 131_072, 40_960, 8192), (0, 131_072, 2048, 2048), (0, 512, 40_960, 512), (20_000, 131_072, 40_960, 20_000)],
)
def test_a_language_model_reads_8192_tokens_at_most_unless_it_is_told(models, given, tokenizer, positions, limit):
    reranker: Any = create("qwen3", models["language"], max_length=given)
    reranker.tokenizer = SimpleNamespace(model_max_length=tokenizer)
    reranker.model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions), named_modules=list)
    assert reranker.limit() == limit


@pytest.mark.parametrize(("name", "message"), [("plain", "has no chat template"), ("mute", "has no token 'yes'")])
def test_language_models_that_cannot_say_it_are_refused(models, name, message):
    with pytest.raises(EngineUnavailableError, match=message):
        create("qwen3", models[name]).load()


def test_what_changes_scores_is_in_the_identity_and_nothing_else(models):
    one = create("classifier", models["one"]).identity()
    assert create("classifier", models["one"], batch_size=7).identity() == one
    for given in ({"max_length": 8}, {"dtype": "bfloat16"}, {"label": 0}):
        assert create("classifier", models["one"], **given).identity() != one
    assert create("classifier", models["three"]).identity() != one
    language = create("qwen3", models["language"]).identity()
    assert create("qwen3", models["language"], instruction="other").identity() != language


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("cross-encoder", {"model": ""}, "it has no default model"),
        ("classifier", {"model": "random"}, "model=random is not a model that runs here"),
        ("qwen3", {"model": "/nowhere/at/all"}, "there is no such folder"),
        ("judge", {"model": ""}, "the judge has no model"),
        ("judge", {"endpoint": "http://user:secret@host/v1"}, "needs endpoint="),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_loaded(name, given, message):
    with pytest.raises(UsageError, match=message):
        create_reranker(name, {**rerankers()[name].defaults, "model": "m", **given})


def test_a_folder_that_is_no_such_model_is_told(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineUnavailableError, match="cannot be loaded"):
        create("classifier", tmp_path).load()


def test_the_words_are_tokens():
    assert {"yes", "no"} <= set(WORDS.split())


@pytest.mark.parametrize("name", ["cross-encoder", "classifier"])
def test_more_tokens_than_the_model_has_places_for_are_refused(models, name):
    create(name, models["one"], max_length=32).load()
    with pytest.raises(EngineUnavailableError, match=r"max_length=33, and the model has places for 32 tokens"):
        create(name, models["one"], max_length=33).load()


def test_places_are_counted_from_behind_the_paddings():
    import torch
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    small = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    small |= {"intermediate_size": 8, "max_position_embeddings": 34}
    assert position_limit(BertModel(BertConfig(**small))) == 34
    roberta = RobertaModel(RobertaConfig(**small, pad_token_id=1))
    assert position_limit(roberta) == 32
    roberta(torch.full((1, 32), 5))
    with pytest.raises((IndexError, RuntimeError)):
        roberta(torch.full((1, 33), 5))
    assert position_limit(None) is None


@pytest.mark.parametrize("name", ["cross-encoder", "classifier"])
def test_a_device_that_is_not_there_is_no_defect(models, name):
    with pytest.raises(EngineUnavailableError, match=rf"reranker '{name}': device=cuda:99 is not there: .*CUDA"):
        create(name, models["one"], device="cuda:99").load()


@pytest.mark.parametrize("name", ["cross-encoder", "classifier"])
def test_a_model_whose_files_have_no_head_is_refused(models, tmp_path, name):
    from transformers import AutoTokenizer, BertModel, PreTrainedModel

    method = PreTrainedModel.__dict__["from_pretrained"]
    BertModel.from_pretrained(models["one"]).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(models["one"]).save_pretrained(tmp_path)
    with pytest.raises(EngineUnavailableError, match=r"its architecture is BertModel"):
        create(name, tmp_path).load()
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"BertModel"', '"BertForSequenceClassification"'))
    with pytest.raises(
        EngineUnavailableError, match=r"no weights for classifier\.bias, classifier\.weight, and they would be random"
    ):
        create(name, tmp_path).load()
    assert PreTrainedModel.__dict__["from_pretrained"] is method  # asked for what is missing, and left as it was


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder_classifier(tmp_path_factory.mktemp("qwen3") / "head", "Qwen3")


def of_the_head(folder: Path, instruction: str) -> np.ndarray:
    """The model's own scores of the prompts that Qwen3-Reranker was trained with."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    expected = []
    for query, document in PAIRS:
        asked = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
        text = f"<|system|>\n{SYSTEM}\n<|user|>\n{asked}\n<|assistant|>\n<think> </think>\n"
        with torch.inference_mode():
            tokens = tokenizer(text, add_special_tokens=False, return_tensors="pt")
            expected.append(model(**tokens).logits[0, 0].item())
    return np.array(expected)


@pytest.mark.parametrize("name", ["qwen3", "cross-encoder"])
def test_the_trained_head_of_a_classifier_in_qwen3s_form_scores(qwen3, name):
    found = scores(create(name, qwen3, instruction="light and water", batch_size=3, max_length=250))
    expected = of_the_head(qwen3, "light and water")
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 1e-3


def test_scores_of_the_head_are_not_taken_for_those_of_yes_and_no(qwen3):
    assert create("qwen3", qwen3).identity()["head"] == "classifier"
    assert create("cross-encoder", qwen3).identity() != create("cross-encoder", qwen3, instruction="a").identity()


def test_an_instruction_is_refused_by_a_model_that_was_trained_without_one(models):
    with pytest.raises(EngineUnavailableError, match="instruction= has no effect on this model"):
        create("cross-encoder", models["one"], instruction="light").load()


@pytest.mark.parametrize(
    ("kind", "architecture", "message"),
    [
        ("cross-encoder", "LlamaForCausalLM", "reads models for sequence classification; take qwen3"),
        ("cross-encoder", "BertForMultipleChoice", "its architecture is BertForMultipleChoice"),
        ("classifier", "LlamaForCausalLM", "take qwen3"),
        ("classifier", "BertForTokenClassification", "its architecture is BertForTokenClassification"),
        ("qwen3", "Qwen3Model", "reads models that generate text or for sequence classification"),
        ("qwen3", "BertForMaskedLM", "its architecture is BertForMaskedLM"),
        ("qwen3", "T5ForConditionalGeneration", "its architecture is T5ForConditionalGeneration"),
    ],
)
def test_a_model_with_a_head_that_would_be_ignored_is_refused(tmp_path, kind, architecture, message):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    for refused in (create(kind, tmp_path).load, create(kind, tmp_path).identity):
        with pytest.raises(EngineUnavailableError, match=message):
            refused()


@pytest.mark.parametrize("saved", ["SentenceTransformer", "SparseEncoder"])
def test_an_encoder_is_no_second_stage(tmp_path, saved):
    (tmp_path / "modules.json").write_text("[]")
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"model_type": saved}))
    with pytest.raises(EngineUnavailableError, match=f"it is a {saved}, and no CrossEncoder"):
        create("cross-encoder", tmp_path).identity()


@pytest.mark.parametrize(
    ("name", "model", "most"), [("cross-encoder", "one", 32), ("classifier", "one", 32), ("qwen3", "language", 90)]
)
def test_tokens_that_a_second_stage_does_not_read_are_counted(models, name, model, most):
    reranker = create(name, models[model], max_length=most)
    reranker.load()
    out = np.zeros(2, dtype=np.float32)
    reranker.score(["cat dog"] * 2, ["dog " * 100, "cat"], out, SilentDisplay().section(""))
    lengths = reranker.lengths
    assert lengths is not None
    short, long = lengths.counts[1], lengths.counts[0]
    assert short[1] == 0
    assert long[0] == short[0] + 99
    assert long[1] == long[0] - (most if name == "qwen3" else most - 3)
    assert (lengths.limit, lengths.limit_from, lengths.unit) == (most, "max_length= of the backend", "tokens")


def test_a_limit_that_nobody_set_is_the_models(models):
    reranker = create("cross-encoder", models["one"])
    scores(reranker)
    assert reranker.lengths is not None
    assert reranker.lengths[1:3] == (32, "model_max_length in the model's tokenizer_config.json")
