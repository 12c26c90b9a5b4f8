"""Two results on several datasets: judged together, told apart in everything that is shown, and run again."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from junit_files import read_junit
from regression_sides import AFTER, BEFORE, named, result_of, side
from small_world import write_collection

import harness
from harness.cli.app import _build
from harness.cli.ci import write_for_ci
from harness.data.labels import Label, only_labels, read_labels
from harness.errors import ResultError, UsageError
from harness.pipeline.regress.compare_sides import CompareRules, compare_sides
from harness.pipeline.regress.regression import Regression
from harness.pipeline.regress.rescoring import lines_to_label
from harness.pipeline.regress.verdicts import Rules
from harness.plan.config import JudgedOutput
from harness.report.documents.regress import change_document
from harness.report.formats import render
from harness.results.regression_schema import Change
from harness.results.schema_base import ErrorInfo
from harness.results.snapshot import ResultSnapshot

pytestmark = pytest.mark.usefixtures("warm_workers")
GATELESS = CompareRules(Rules(allowed_drop=None))
COUNT = 12


@pytest.fixture
def calm() -> ResultSnapshot:
    return named(side({"csr": BEFORE}), "calm")


@pytest.fixture
def hurt() -> ResultSnapshot:
    """Before: the same query ids as those of ``calm``, and other texts."""
    return named(side({"csr": BEFORE}, texts={"q1": "one", "q2": "two", "q3": "three"}), "hurt")


@pytest.fixture
def worse(hurt: ResultSnapshot) -> ResultSnapshot:
    return named(side({"csr": AFTER}, texts=hurt.texts), "hurt")


def test_a_query_id_of_two_datasets_is_two_queries(
    calm: ResultSnapshot, hurt: ResultSnapshot, worse: ResultSnapshot
) -> None:
    change = compare_sides([calm, hurt], [calm, worse], CompareRules()).change
    assert [(one.dataset, one.before, one.after) for one in change.backends] == [
        ("calm", "csr", "csr"), ("hurt", "csr", "csr"),
    ]  # fmt: skip
    unchanged, changed = change.backends
    assert {metric.verdict for metric in unchanged.metrics} == {"same"}
    assert [metric.wins + metric.losses for metric in changed.metrics] != [0, 0]
    assert unchanged.dossier is not None
    assert changed.dossier is not None
    assert unchanged.dossier.changed_queries == 0
    assert {one.query: one.text for one in changed.dossier.queries}["q2"] == "two"
    assert [(one.dataset, one.common_queries) for one in change.data] == [("calm", 3), ("hurt", 3)]
    assert change.warnings == []


def test_all_datasets_are_one_family(calm: ResultSnapshot, hurt: ResultSnapshot, worse: ResultSnapshot) -> None:
    one = compare_sides([hurt], [worse], GATELESS).change
    twice = compare_sides([hurt, named(hurt, "again")], [worse, named(worse, "again")], GATELESS).change
    assert one.tests > 0
    assert twice.tests == 2 * one.tests
    for before, after in zip(one.backends[0].metrics, twice.backends[0].metrics, strict=True):
        assert after.p == before.p
        assert after.p_adjusted == pytest.approx(min(1.0, 2 * (before.p_adjusted or 0)))


def test_a_dataset_of_one_side_alone_is_said(calm: ResultSnapshot, hurt: ResultSnapshot) -> None:
    change = compare_sides([calm, hurt], [calm, named(calm, "new")], CompareRules()).change
    assert (change.datasets_only_before, change.datasets_only_after) == (["hurt"], ["new"])
    assert change.warnings == [
        "not compared, because the later result lacks the dataset: hurt",
        "not compared, because the earlier result lacks the dataset: new",
    ]
    assert [one.dataset for one in change.backends] == ["calm"]
    said = str(render(result_of(change), "table"))
    assert "the later result lacks the dataset: hurt" in said


def test_results_without_a_common_dataset_are_refused(calm: ResultSnapshot, hurt: ResultSnapshot) -> None:
    with pytest.raises(
        ResultError, match=r"no dataset of 'before' \(calm, hurt\) has a counterpart in 'before' \(new\)"
    ):
        compare_sides([calm, hurt], [named(calm, "new")], CompareRules())


def test_a_dataset_that_cannot_be_loaded_now_makes_the_gate_invalid(calm: ResultSnapshot, hurt: ResultSnapshot) -> None:
    error = ErrorInfo(type="DataError", message="there is no such folder", log=[])
    (trial,) = hurt.report.trials
    failed = trial.model_copy(update={"status": "failed", "error": error})
    info = hurt.report.dataset.model_copy(update={"error": error})
    report = hurt.report.model_copy(update={"datasets": [info], "trials": [failed]})
    gone = replace(hurt, report=report, figures={}, texts={}, digests={}, qrels=None, hits=lambda _: None)
    compared = compare_sides([calm, hurt], [calm, gone], CompareRules())
    assert compared.change.gate == "invalid"
    assert [(one.dataset, one.status, one.error) for one in compared.change.backends] == [
        ("calm", "ok", None), ("hurt", "failed", "failed now: there is no such folder"),
    ]  # fmt: skip
    first = change_document(result_of(compared.change)).verdicts[0]
    assert first.headline == "Invalid: csr on hurt failed, so nothing passed"
    page = Regression(result_of(compared.change), compared=compared).html()
    assert "csr on hurt was not judged" in page
    elsewhere = named(gone, "nowhere")
    unpaired = compare_sides([calm, hurt], [calm, elsewhere], CompareRules()).change
    assert (unpaired.gate, unpaired.datasets_only_after) == ("invalid", ["nowhere"])
    first = change_document(result_of(unpaired)).verdicts[0]
    assert first.headline == "Invalid: nowhere could not be loaded, so nothing passed"


def test_what_is_said_of_all_datasets_is_said_once(calm: ResultSnapshot, hurt: ResultSnapshot) -> None:
    untold = [replace(one, digests={}) for one in (calm, hurt)]
    said = "one side does not hold the queries' texts, so queries are matched only by their ids"
    assert compare_sides(untold, [calm, hurt], CompareRules()).change.warnings == [said]
    assert compare_sides([calm, untold[1]], [calm, hurt], CompareRules()).change.warnings == [f"hurt: {said}"]


def test_labels_name_their_dataset(
    calm: ResultSnapshot, hurt: ResultSnapshot, worse: ResultSnapshot, tmp_path: Path
) -> None:
    """So does the file that is to be filled in; lines that name none are refused."""
    with pytest.raises(UsageError, match="1 label of --labels names none of 2 datasets"):
        compare_sides([calm, hurt], [calm, worse], CompareRules(labels={None: [Label("q1", "a", 1, "me")]}))
    with pytest.raises(UsageError, match="--labels are of elsewhere, and not of calm, hurt"):
        compare_sides([calm, hurt], [calm, worse], CompareRules(labels={"elsewhere": [Label("q1", "a", 1, "me")]}))
    change = compare_sides([calm, hurt], [calm, worse], CompareRules()).change
    path = tmp_path / "to-label.jsonl"
    path.write_bytes(lines_to_label(change, {}).replace(b'"grade":null', b'"grade":1'))
    labels = {**read_labels([path]), "elsewhere": [Label("q1", "a", 1, "me")]}
    with pytest.raises(UsageError, match="--labels are of several datasets: hurt, elsewhere"):
        only_labels(labels)
    again = compare_sides([calm, hurt], [calm, worse], CompareRules(labels=labels)).change
    assert [relation.labels for relation in again.data] == [0, len(labels["hurt"])]
    assert again.backends[0].metrics == change.backends[0].metrics
    assert again.backends[1].metrics[0].after > change.backends[1].metrics[0].after
    assert "labels of datasets that are not compared, without effect: elsewhere" in again.warnings
    lines = [json.loads(line) for line in lines_to_label(change, {("hurt", "w"): "of w"}).splitlines()]
    assert {(line["dataset"], line["query_id"], line["query"]) for line in lines} == {
        ("hurt", "q2", "two"), ("hurt", "q3", "three"),
    }  # fmt: skip
    assert {line["doc_id"]: line.get("text") for line in lines}["w"] == "of w"


@pytest.fixture
def failed(calm: ResultSnapshot, hurt: ResultSnapshot, worse: ResultSnapshot) -> Change:
    """One metric on one of two datasets fails the gate."""
    change = compare_sides([calm, hurt], [calm, worse], CompareRules(Rules(allowed_drop=0.5, rule="tolerance"))).change
    unchanged, changed = change.backends
    first, *others = changed.metrics
    metrics = [first.model_copy(update={"gate": "failed", "verdict": "worse"}), *others]
    backends = [unchanged, changed.model_copy(update={"metrics": metrics})]
    return change.model_copy(update={"gate": "failed", "backends": backends})


def test_files_of_continuous_integration_tell_datasets_apart(
    failed: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write_for_ci(result_of(failed), JudgedOutput(junit=tmp_path / "junit.xml", summary=tmp_path / "summary.md"))
    root = read_junit(tmp_path / "junit.xml")
    cases = {(case.get("classname"), case.get("name")): len(list(case)) for case in root.iter("testcase")}
    assert cases == {
        ("calm: csr", "nDCG@2"): 0, ("calm: csr", "AP"): 0, ("hurt: csr", "nDCG@2"): 1, ("hurt: csr", "AP"): 0,
    }  # fmt: skip
    assert capsys.readouterr().err.splitlines()[0].startswith("::error title=nDCG@2 failed on csr on hurt::")
    assert "nDCG@2 of csr on hurt" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_every_value_has_its_dataset(failed: Change) -> None:
    rows = list(csv.DictReader(io.StringIO(str(render(result_of(failed), "csv")))))
    passed = {(row["dataset"], row["backend"], row["metric"]): row["mean"] for row in rows}
    assert float(passed["calm", "csr", "passed.nDCG@2"]) == 1
    assert float(passed["hurt", "csr", "passed.nDCG@2"]) == 0


def write_lengths(folder: Path, *, long: bool) -> Path:
    """Write queries of one word each, whose relevant document has it twice, and is long or as short as the others."""
    documents = {}
    for number in range(COUNT):
        padding = " ".join(f"pad{number}x{place}" for place in range(60 if long else 0))
        documents[f"r{number}"] = f"word{number} word{number} {padding}"
        documents |= {f"f{number}x{place}": f"word{number} other{number}" for place in range(4)}
    records = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
    queries = [{"_id": f"q{number}", "text": f"word{number}"} for number in range(COUNT)]
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "queries.jsonl").write_text("".join(json.dumps(record) + "\n" for record in queries))
    rows = "".join(f"q{number}\tr{number}\t1\n" for number in range(COUNT))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(_build(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BM25 that takes no account of lengths, on documents of one length and on documents of several."""
    folder = tmp_path_factory.mktemp("several")
    short, long = write_lengths(folder / "short", long=False), write_lengths(folder / "long", long=True)
    done = run(
        "compare", "--backends", "csr:b=0", "--dataset", f"{short},{long}", "--k", "10", "--metrics", "RR@10",
        "--no-timing", "--isolation", "none", "--out", folder / "before", "--save-baseline", folder / "base.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder / "base.json"


@pytest.mark.integration
def test_a_loss_on_one_of_two_datasets_fails_the_gate(baseline: Path) -> None:
    after = baseline.parent / "after"
    done = run("regress", "--baseline", baseline, "--set", "csr:b=1", "--out", after)
    assert done.exit_code == 1, done.output
    assert "short and long: csr:b=1.0 against the baseline" in done.output
    assert "✕ Failed: worse beyond the allowed drop (0): RR@10 of csr:b=1.0 on long" in done.output
    assert "✕ csr:b=1.0 on long: RR@10 fell by " in done.output
    found = Regression.load(after)
    frame = found.verdicts().set_index("dataset")
    assert frame["gate"].to_dict() == {"short": "passed", "long": "failed"}
    assert set(found.changes()["dataset"]) == {"long"}
    assert [(one.setting, one.dataset) for one in found.change.settings] == [("b", None)]
    page = (after / "report.html").read_text(encoding="utf-8")
    assert '"datasets":["short","long"]' in page
    again = run("report", after, "--format", "html")
    assert again.stdout == page
    differs = run("diff", baseline.parent / "before", after, "--max-drop", "0", "--out", baseline.parent / "diff")
    assert differs.exit_code == 1, differs.output
    assert "RR@10 of csr:b=1.0 on long" in differs.output


@pytest.mark.integration
def test_the_same_run_is_the_same_on_both_and_fewer_datasets_are_said(baseline: Path) -> None:
    found = harness.regress(baseline)
    assert found.change.gate == "passed"
    assert [(one.dataset, one.metrics[0].verdict) for one in found.change.backends] == [
        ("short", "same"), ("long", "same"),
    ]  # fmt: skip
    fewer = harness.regress(baseline, dataset=str(baseline.parent / "long"))
    assert (fewer.change.datasets_only_before, fewer.change.datasets_only_after) == (["short"], [])
    assert [one.dataset for one in fewer.change.backends] == ["long"]


@pytest.mark.integration
def test_small_world_beside_another_of_its_ids(tmp_path: Path) -> None:
    """Both have the queries q1 to q4, of other words and documents."""
    places = write_collection(tmp_path / "world"), write_lengths(tmp_path / "lengths", long=True)
    named_places = [str(place) for place in places]
    backend, settings = "csr:analyzer=whitespace;b=0", {"metrics": "RR@10", "timing": False, "isolation": "none"}
    comparison = harness.compare(backend, dataset=named_places, k=10, **settings)
    comparison.save(tmp_path / "before")
    found = harness.regress(tmp_path / "before", set="csr:b=1")
    assert found.failed
    world, lengths = found.change.data
    assert (world.common_queries, lengths.common_queries) == (4, COUNT)
    assert [one.dataset for one in found.change.backends if one.metrics[0].gate == "failed"] == ["lengths"]
    (places[0] / "corpus.jsonl").write_text("no JSON")
    broken = harness.regress(tmp_path / "before").change
    assert [(one.dataset, one.status) for one in broken.backends] == [(named_places[0], "failed"), ("lengths", "ok")]
    assert (broken.gate, broken.datasets_only_before, broken.datasets_only_after) == ("invalid", [], [])
