"""`mteb:TASK`: one content through the library's own tasks and as a BEIR folder, and names that need a choice."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from installed import skip_module_without
from miniatures import (
    Content,
    beir_folder,
    candidates_of,
    hits_of,
    miniature,
    mteb_tables,
    mteb_task,
    parquet_repository,
)

import harness
from harness.data.problems import Problems
from harness.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from harness.loaders.base import DatasetSpec
from harness.loaders.dataset import load_corpus, load_dataset
from harness.loaders.fetching import subsets_of
from harness.loaders.mteb import MtebLoader
from harness.loaders.registry import parts_of
from harness.pipeline.planning import plan_for, preview
from harness.plan.config import CompareRequest

skip_module_without("mteb")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries: whatever they deprecate of one another


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)


@pytest.fixture
def content() -> Content:
    return miniature()


def one_language(content: Content, folder: Path, patch: pytest.MonkeyPatch, **attributes: object) -> None:
    parquet_repository(folder, mteb_tables(content))
    mteb_task(patch, "Miniature", folder, langs=["kor-Hang"], **attributes)


def test_is_what_the_library_gives_to_a_model(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are held against the library's own function, on titles and texts with white space at their ends."""
    odd = {"a": ("  ", " no title "), "b": (" both ", " ends "), "c": ("title alone ", ""), "d": ("", "plain")}
    content = replace(content, documents={**odd, **content.documents})
    one_language(content, tmp_path / "repository", monkeypatch, ignore_identical_ids=True)
    import mteb
    from mteb._create_dataloaders import _retrieval_texts
    from mteb.types import PromptType

    task = mteb.get_task("Miniature")
    task.load_data()
    data = task.dataset["default"]["test"]
    loaded = load_dataset("mteb:Miniature")
    assert loaded.corpus.texts.to_pylist() == list(_retrieval_texts(data["corpus"], PromptType.document))
    assert loaded.queries.texts.to_pylist() == list(_retrieval_texts(data["queries"], PromptType.query))
    assert loaded.corpus.ids.to_list() == list(data["corpus"]["id"])
    assert loaded.identical_ids == "drop"
    assert loaded.provenance["language"] == "ko"
    assert loaded.provenance["licence"] == "cc0-1.0"
    assert loaded.provenance["split"] == "test"
    assert loaded.provenance["revision"] == "0" * 40
    assert "unjudged" not in loaded.queries.ids.to_list()


def test_a_null_text_is_refused_and_not_taken_for_an_empty_one() -> None:
    import datasets
    from harness.data.dataset import text_columns
    from harness.loaders.mteb import document_batches, query_batches

    documents = datasets.Dataset.from_dict({"id": ["a", "b"], "title": ["one", None], "text": [None, "words"]})
    with pytest.raises(DataError, match="1 problem\n  record 1: 'text' is null"):
        text_columns(document_batches(documents), Problems("corpus", "record"))
    queries = datasets.Dataset.from_dict({"id": ["q", "r"], "text": ["words", None]})
    with pytest.raises(DataError, match="1 problem\n  record 2: 'text' is null"):
        text_columns(query_batches(queries), Problems("queries", "record"))


@pytest.mark.parametrize(
    ("texts", "instructions", "expected"),
    [
        (["plain", "other"], ["be brief", "name it"], ["plain be brief", "other name it"]),
        ([["first turn", "second"], ["only"]], None, ["first turn; second", "only"]),
        (
            [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]] * 2,
            ["think", "act"],
            ["think user: hi; assistant: yes", "act user: hi; assistant: yes"],
        ),
    ],
)
def test_joins_instructions_and_turns_as_the_library_does(
    content: Content,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[Any],
    instructions: list[str] | None,
    expected: list[str],
) -> None:
    tables = mteb_tables(content)
    tables["queries"]["queries"] = [{"_id": f"q{i}", "text": text} for i, text in enumerate(texts)]
    if instructions is not None:
        tables["instruction"] = {"test": [{"query-id": f"q{i}", "instruction": x} for i, x in enumerate(instructions)]}
    tables["default"]["test"] = [row for row in tables["default"]["test"] if row["query-id"] in ("q0", "q1")]
    mteb_task(monkeypatch, "Told", parquet_repository(tmp_path / "repository", tables), langs=["eng-Latn"])
    assert load_dataset("mteb:Told").queries.texts.to_pylist() == expected
    import mteb
    from mteb._create_dataloaders import _retrieval_texts
    from mteb.types import PromptType

    task = mteb.get_task("Told")
    task.load_data()
    assert list(_retrieval_texts(task.dataset["default"]["test"]["queries"], PromptType.query)) == expected


def test_reads_the_subset_that_is_named(content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = dict(list(content.documents.items())[:10])
    other = Content(documents, {"q0": content.queries["q0"]}, {"test": {"q0": {next(iter(documents)): 1}}})
    tables: Mapping[str, Any] = {**mteb_tables(content, "ko-"), **mteb_tables(other, "en-")}
    parquet_repository(tmp_path / "repository", tables)
    langs = {"ko": ["kor-Hang"], "en": ["eng-Latn"], "ko-en": ["kor-Hang", "eng-Latn"]}
    mteb_task(monkeypatch, "Several", tmp_path / "repository", langs=langs)
    loaded = load_dataset("mteb:Several:ko@test")
    assert len(loaded.corpus) == 30
    assert loaded.provenance["language"] == "ko"
    assert len(load_corpus("mteb:Several:en")) == 10
    assert MtebLoader().load(DatasetSpec("mteb:Several:ko-en"), None, None).language is None
    with pytest.raises(UsageError, match="has several subsets") as caught:
        load_dataset("mteb:Several")
    assert "ko, en, ko-en" in str(caught.value)
    with pytest.raises(UsageError, match="has no split 'dev'"):
        load_dataset("mteb:Several:ko", split="dev")
    with pytest.raises(UsageError, match="say the split once"):
        load_dataset("mteb:Several:ko@test", split="dev")


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("mteb:SciFakt", UnknownNameError, "did you mean 'SciFact'"),
        ("mteb:CQADupstackRetrieval", UsageError, "mteb:CQADupstackAndroidRetrieval"),
        ("mteb:Banking77Classification", UsageError, "is a task of Classification"),
        ("mteb:MIRACLRetrieval", UsageError, "ko, ru, sw"),
        ("mteb:MIRACLRetrieval:korean", UsageError, "did you mean 'ko'?"),
        ("mteb:SciFact:de", UsageError, "has no subset 'de'"),
        ("mteb:CUREv1:en", UsageError, "has several splits"),
        ("mteb:CUB200I2IRetrieval", UsageError, "is about image"),
    ],
)
def test_refuses_what_needs_a_choice_or_is_no_text_retrieval(spec: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=r"MTEB|mteb:") as caught:
        load_dataset(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "language", "split", "rule"),
    [
        ("mteb:Ko-StrategyQA", "ko", "dev", "keep"),
        ("mteb:AutoRAGRetrieval", "ko", "test", "keep"),
        ("mteb:PublicHealthQA:korean", "ko", "test", "keep"),
        ("mteb:BelebeleRetrieval:kor_Hang-kor_Hang", "ko", "test", "keep"),
        ("mteb:MultiLongDocRetrieval:ko", "ko", "test", "keep"),
        ("mteb:MIRACLRetrieval:ko", "ko", "dev", "keep"),
        ("mteb:ArguAna", "en", "test", "drop"),
    ],
)
def test_knows_the_facts_of_real_tasks(spec: str, language: str, split: str, rule: str) -> None:
    loaded = MtebLoader().load(DatasetSpec(spec), None, None)
    assert (loaded.language, loaded.split, loaded.identical_ids) == (language, split, rule)


@pytest.mark.parametrize(
    ("task", "instruction"),
    [
        ("NFCorpus", "Given a question, retrieve relevant documents that best answer the question"),
        ("ArguAna", "Given a claim, find documents that refute the claim"),
        ("Ko-StrategyQA", "Retrieve text based on user query."),
    ],
)
def test_states_the_instruction_of_a_task_or_the_general_one(task: str, instruction: str) -> None:
    provenance = MtebLoader().load(DatasetSpec(f"mteb:{task}"), None, None).provenance
    assert provenance["instruction"] == instruction
    assert provenance.get("document_instruction") != instruction


def test_every_text_task_can_be_named() -> None:
    """A subset and split of every task of text retrieval is found, and each has a key or a revision that moves."""
    from harness.loaders.mteb import _tasks, _unfit

    loader, named = MtebLoader(), 0
    for task in _tasks():
        if _unfit(task) is None:
            about = task.metadata
            subset = f":{about.hf_subsets[-1]}" if about.is_multilingual else ""
            loaded = loader.load(DatasetSpec(f"mteb:{about.name}{subset}@{about.eval_splits[0]}"), None, None)
            assert loaded.split == about.eval_splits[0]
            named += 1
    assert named > 500


def test_offline_names_the_repository_and_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(DataError, match="HARNESS_OFFLINE is set") as caught:
        load_dataset("mteb:SciFact")
    assert "mteb/scifact at revision" in str(caught.value)
    assert "datasets--mteb--scifact" in str(caught.value)


def test_says_what_a_broken_repository_lacks(content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = mteb_tables(content)
    del tables["default"]
    mteb_task(monkeypatch, "Broken", parquet_repository(tmp_path / "repository", tables), langs=["eng-Latn"])
    with pytest.raises(DataError, match="MTEB cannot load") as caught:
        load_dataset("mteb:Broken")
    assert "qrels" in str(caught.value)


def test_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mteb", None)
    with pytest.raises(MissingExtraError, match=r"retrieval-harness\[mteb\]"):
        load_dataset("mteb:SciFact")


def reranking(content: Content, folder: Path, patch: pytest.MonkeyPatch, listed: Mapping[str, list[str]]) -> None:
    tables = mteb_tables(content)
    tables["top_ranked"] = {"test": [{"query-id": query, "corpus-ids": docs} for query, docs in listed.items()]}
    mteb_task(patch, "Ranked", parquet_repository(folder, tables), langs=["eng-Latn"], task_type="Reranking")


def test_a_reranking_task_ranks_its_candidates_only(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidates come in the order of a search that returns every document; other hits take no place."""
    listed = candidates_of(content)
    reranking(content, tmp_path / "repository", monkeypatch, listed)
    ranked = harness.compare(dataset="mteb:Ranked", backends=["csr"], k=5)
    whole = harness.compare(dataset=str(beir_folder(content, tmp_path / "beir")), backends=["csr"], k=30)
    expected = {
        query: [hit for hit in hits if hit[0] in listed[query]][:5]
        for query, hits in hits_of(whole.runs["csr"]).items()
    }
    assert hits_of(ranked.runs["csr"]) == expected
    assert any(len(hits) == 5 for hits in expected.values())
    info = ranked.report.dataset.candidates
    assert info is not None
    assert (info.fewest, info.most, info.searched) == (10, 10, 30)
    assert "each query ranked among its 10 candidates, of all 30 documents that backends return" in str(ranked)
    assert ranked.report.dataset.sha256 != whole.report.dataset.sha256


def test_evaluate_scores_candidates_only(content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = candidates_of(content)
    reranking(content, tmp_path / "repository", monkeypatch, listed)
    dataset = load_dataset("mteb:Ranked")
    run = {query: {doc: 100.0 - place for place, doc in enumerate(content.documents)} for query in listed}
    kept = {query: {doc: score for doc, score in hits.items() if doc in listed[query]} for query, hits in run.items()}
    scored, expected = (
        harness.evaluate(run, dataset, "nDCG@10"),
        harness.evaluate(kept, content.qrels["test"], "nDCG@10"),
    )
    assert scored.means() == expected.means()
    assert scored.means() != harness.evaluate(run, content.qrels["test"], "nDCG@10").means()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q0": ["nowhere"]}, "document 'nowhere' is a candidate"),
        ({"q1": []}, "query 'q1' has no candidates"),
    ],
)
def test_refuses_candidates_that_are_not_there(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, list[str]], words: str
) -> None:
    reranking(content, tmp_path / "repository", monkeypatch, {**candidates_of(content), **change})
    with pytest.raises(DataError, match="candidate") as caught:
        load_dataset("mteb:Ranked")
    assert words in str(caught.value)


def bundled(content: Content, folder: Path, patch: pytest.MonkeyPatch, name: str, module: str = "mteb.tasks") -> str:
    """Register a task as the library's own are, at a commit, whose data come from a folder; return its spec."""
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

    tables = mteb_tables(content)
    listed = candidates_of(content).items()
    tables["top_ranked"] = {"test": [{"query-id": query, "corpus-ids": docs} for query, docs in listed]}
    parquet_repository(folder, tables)

    def load_data(task: Any) -> None:
        task.dataset = {"default": {"test": RetrievalDatasetLoader(str(folder), "0" * 40).load()}}

    place = Path(f"mteb/{name}")
    mteb_task(patch, name, place, langs=["kor-Hang"], task_type="Reranking", load_data=load_data, __module__=module)
    return f"mteb:{name}"


def test_what_is_prepared_is_loaded_without_the_library(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    spec = bundled(content, tmp_path / "repository", monkeypatch, "Prepared")
    first = load_dataset(spec)
    assert first.qrels is not None
    monkeypatch.delattr("harness.loaders.mteb._load")
    assert load_dataset(spec).candidates == first.candidates
    monkeypatch.setitem(sys.modules, "mteb", None)
    again = load_dataset(spec)
    assert again.provenance == first.provenance
    assert again.candidates == first.candidates
    assert again.candidates
    assert (again.language, again.identical_ids) == ("ko", "keep")
    assert again.qrels is not None
    assert again.qrels.query_ids.to_list() == first.qrels.query_ids.to_list()
    assert again.qrels.rows.tolist() == first.qrels.rows.tolist()
    assert again.qrels.grades.tolist() == first.qrels.grades.tolist()
    assert again.corpus.texts.equals(first.corpus.texts)
    monkeypatch.setattr("harness.loaders.mteb.version", lambda name: "another")
    with pytest.raises(MissingExtraError):
        load_dataset(spec)


def test_judgments_are_not_taken_from_the_cache_where_a_task_may_have_changed(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another revision under the same name, and a task that the running program registered."""
    import sys

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    spec = bundled(content, tmp_path / "first", monkeypatch, "Changed")
    load_dataset(spec)
    fewer = replace(content, qrels={"test": {"q0": content.qrels["test"]["q0"]}})
    bundled(fewer, tmp_path / "second", monkeypatch, "Changed")
    sys.modules["mteb"].get_task("Changed").metadata.dataset["revision"] = "1" * 40
    assert load_dataset(spec).qrels.query_ids.to_list() == ["q0"]  # type: ignore[union-attr]
    spec = bundled(content, tmp_path / "third", monkeypatch, "Registered", module="some_program")
    load_dataset(spec)
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtraError):
        load_dataset(spec)


def test_refuses_what_would_miss_candidates(content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reranking(content, tmp_path / "repository", monkeypatch, candidates_of(content))
    with pytest.raises(UsageError, match="--max-docs"):
        harness.compare(dataset="mteb:Ranked", backends=["csr"], max_docs=25)


def test_a_preview_knows_what_a_second_stage_would_ask_and_what_is_stored(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge is asked of each candidate once, and an outcome that was stored is found."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    listed = {**candidates_of(content), "q0": ["d9", "d9", "d8"]}
    reranking(content, tmp_path / "repository", monkeypatch, listed)
    backends = ["csr", "csr|judge:model=one;endpoint=http://127.0.0.1:9/v1"]
    request = CompareRequest(backends=backends, dataset="mteb:Ranked", k=5, resume="always", isolation="none")
    ((plan, known),) = preview(plan_for(request))
    assert known[0].stored is None
    assert known[1].remote is not None
    assert known[1].remote.startswith("at most 52 calls of")
    (note,) = plan.on_candidates
    assert "a second stage scores all of them and nothing else" in note
    assert not any("raise --k" in one for one in plan.notes)
    harness.compare(dataset="mteb:Ranked", backends=["csr"], k=5, isolation="none")
    assert preview(plan_for(request))[0].look_ups[0].stored is not None


def test_a_subset_that_is_not_there_brings_the_nearest_by_name_and_language() -> None:
    for text in ("kor_Hnag", "korean", "ko"):
        with pytest.raises(UsageError) as caught:
            load_dataset(f"mteb:BelebeleRetrieval:{text}")
        assert caught.value.fix == (
            "near are kor_Hang-kor_Hang, kor_Hang-eng_Latn, eng_Latn-kor_Hang; "
            "`harness datasets info mteb:BelebeleRetrieval` lists all 376"
        )
    specs = subsets_of("mteb:BelebeleRetrieval")
    assert len(specs) == 376
    assert "mteb:BelebeleRetrieval:kor_Hang-kor_Hang" in specs
    assert subsets_of("mteb:SciFact") == subsets_of("mteb:MIRACLRetrieval:ko") == ()


def test_a_hub_that_is_not_reached_is_asked_once_and_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    waited: list[float] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", waited.append)
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:1 was not reached") as caught:
        load_dataset("mteb:SciFact")
    assert str(caught.value).count("was not reached") == 1
    assert waited == []
    assert "Retrying" not in "".join(capfd.readouterr())


def test_an_aggregated_task_names_its_parts() -> None:
    parts = parts_of("mteb:CQADupstackRetrieval")
    assert len(parts) == 12
    assert "mteb:CQADupstackAndroidRetrieval" in parts
    assert parts_of("mteb:CQADupstackRetrieval@test")[0].endswith("@test")
    assert not parts_of("mteb:SciFact")
    assert not parts_of("irds:beir/scifact/test")
