"""`--save-runs`: hits in the layouts of other tools, read back by `harness eval`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_world import write_collection

import harness
from harness.data.memory import run_from_dict
from harness.errors import UnknownNameError, UsageError
from harness.loaders.trec import read_qrels, read_run
from harness.metrics import parse_metrics, score
from harness.results.comparison import Comparison
from harness.results.saved_runs import write_saved_runs
from harness.results.schema import BackendInfo, RerankingStats, Result, StageStats, TrialResult
from harness.results.schema_base import DatasetInfo

BACKENDS = ["csr:analyzer=whitespace", "csr:analyzer=whitespace|keywords:candidates=3"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    root = tmp_path_factory.mktemp("data")
    datasets = [write_collection(root / name) for name in ("x", "y")]
    return harness.compare(BACKENDS, datasets, k=5, timing=False, isolation="none", metrics="AP")


def scored(path: str | Path, qrels: Path) -> float:
    (summary,) = score(read_run(path), read_qrels(qrels), parse_metrics("AP")).means()
    return summary.value


@pytest.mark.parametrize(("layout", "name"), [("trec", "x.trec"), ("mteb", "x_predictions.json")])
def test_hits_lie_in_a_folder_for_each_model_and_score_the_same(
    result: Comparison, layout: str, name: str, tmp_path: Path
) -> None:
    stored = result.save(tmp_path / "out", save_runs=layout)
    assert stored.folder is not None
    folder = stored.folder / "saved-runs"
    first = next(path.name for path in folder.iterdir() if "__" not in path.name)
    assert sorted(path.name for path in folder.iterdir()) == sorted([first, f"{first}__keywords"])
    means = result.metrics()["AP"]
    qrels = stored.folder / "qrels" / "x.tsv"
    assert scored(folder / first / name, qrels) == pytest.approx(means["x", BACKENDS[0]])
    assert scored(folder / f"{first}__keywords" / name, qrels) == pytest.approx(means["x", BACKENDS[1]])
    assert (folder / first / name.replace("x", "y", 1)).exists()


def test_predictions_say_whose_they_are(result: Comparison, tmp_path: Path) -> None:
    result.save(tmp_path / "out", save_runs="mteb")
    (path,) = (tmp_path / "out" / "saved-runs").glob("*__keywords/x_predictions.json")
    stored = json.loads(path.read_text())
    assert stored["mteb_model_meta"] == {"model_name": "keywords", "revision": None}
    assert list(stored["default"]) == ["test"]


def test_without_the_option_there_is_no_such_folder(result: Comparison, tmp_path: Path) -> None:
    result.save(tmp_path / "out")
    assert not (tmp_path / "out" / "saved-runs").exists()


def test_a_layout_that_there_is_not_and_a_result_that_is_not_stored_are_refused(
    result: Comparison, tmp_path: Path
) -> None:
    with pytest.raises(UnknownNameError, match="beir"):
        result.save(tmp_path / "out", save_runs="beir")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="save_runs without out"):
        harness.compare("csr", write_collection(tmp_path / "x"), save_runs="trec")


def test_subsets_of_one_task_share_a_file_and_second_stages_name_their_first(tmp_path: Path) -> None:
    facts = {"mteb_task": "MIRACLRetrieval", "split": "dev"}
    infos = [
        DatasetInfo.model_construct(name=f"miracl/{subset}", provenance={**facts, "subset": subset})
        for subset in ("ko", "ja")
    ]
    first = {"label": "flat:model=org/m", "encoder": {"model": "org/m", "model_digest": "abc"}, "stages": None}
    second = {
        "label": "flat:model=org/m|cross:model=org/r",
        "encoder": {},
        "stages": StageStats.model_construct(
            components=[first["label"]],
            reranking=RerankingStats.model_construct(candidates=1, facts={"model_digest": "def"}),
        ),
        "parameters": {"model": "org/r"},
    }
    trials = [
        TrialResult.model_construct(dataset=info.name, status="ok", name="x", **fields)  # type: ignore[arg-type]
        for info in infos
        for fields in (first, second)
    ]
    backends = [BackendInfo.model_construct(label=str(fields["label"])) for fields in (first, second)]
    result = Result.model_construct(datasets=infos, trials=trials, backends=backends)
    run = run_from_dict({"q": {"d": 1.0}})
    write_saved_runs(tmp_path / "runs", result, {(trial.dataset, trial.label): run for trial in trials}, "mteb")
    folder = tmp_path / "runs"
    written = {str(path.relative_to(folder)): json.loads(path.read_bytes()) for path in folder.rglob("*.json")}
    assert sorted(written) == [
        "org__m/MIRACLRetrieval_predictions.json",
        "org__m__org__r/MIRACLRetrieval_predictions.json",
    ]
    stored = written["org__m/MIRACLRetrieval_predictions.json"]
    assert stored["mteb_model_meta"] == {"model_name": "org/m", "revision": "abc"}
    reranked = written["org__m__org__r/MIRACLRetrieval_predictions.json"]
    assert reranked["mteb_model_meta"] == {"model_name": "org/r", "revision": "def"}
    assert stored["ko"] == stored["ja"] == {"dev": {"q": {"d": 1.0}}}


def test_second_stages_of_one_reranker_and_models_of_one_folder_are_told_apart(tmp_path: Path) -> None:
    backends = ["csr", "csr|keywords:candidates=3", "csr|keywords:candidates=5"]
    result = harness.compare(
        backends, write_collection(tmp_path / "x"), k=5, timing=False, isolation="none", metrics="AP"
    )
    result.save(tmp_path / "out", save_runs="trec")
    folders = sorted(path.name for path in (tmp_path / "out" / "saved-runs").iterdir())
    assert [name.rpartition("-")[0] for name in folders] == [
        "",
        "csr_keywords_candidates=3",
        "csr_keywords_candidates=5",
    ]

    models = {"a": "org/m", "b": "org__m", "c": "a"}
    trials = [
        TrialResult.model_construct(dataset="x", status="ok", name="flat", label=label, encoder={"model": model})
        for label, model in models.items()
    ]
    infos = [DatasetInfo.model_construct(name="x", provenance={})]
    written = Result.model_construct(
        datasets=infos, trials=trials, backends=[BackendInfo.model_construct(label=label) for label in models]
    )
    run = run_from_dict({"q": {"d": 1.0}})
    write_saved_runs(tmp_path / "runs", written, {("x", label): run for label in models}, "trec")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a", "b", "c"]
