"""`harness regress` and `harness diff` as people use them: real runs on CACM and a small world, exit codes, files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from engines_for_tests import BUILDS_MADE
from regression_sides import read_one
from small_world import write_cards, write_collection

import harness
from harness.cli.app import _build
from harness.errors import DataError, ResultError, UsageError
from harness.pipeline.regress.regression import Regression
from harness.report.documents.regress import change_document
from harness.results.comparison import Comparison
from harness.results.snapshot import snapshots_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(_build(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("regress")


@pytest.fixture(scope="module")
def baseline(folder: Path) -> Path:
    """CACM by the exact reference, in this process: what a baseline of it holds decides everything below."""
    path = folder / "cacm.json"
    done = run(
        "compare", "--backends", "csr", "--metrics", "R@1000,nDCG@10", "--no-timing", "--isolation", "none",
        "--out", folder / "before", "--save-baseline", path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def worse(baseline: Path, folder: Path) -> Result:
    return run("regress", "--baseline", baseline, "--set", "csr:k1=3;b=0.95", "--out", folder / "after")


@pytest.fixture(scope="module")
def plain(worse: Result, folder: Path) -> Regression:
    """Both runs compared, without labels and without a gate."""
    assert worse.exit_code == 1, worse.output
    return harness.diff(folder / "before", folder / "after")


def test_a_baseline_is_small_and_reads_back_as_the_result(baseline: Path, folder: Path) -> None:
    side, stored = read_one(baseline), Comparison.load(folder / "before")
    assert side.report == stored.report
    assert baseline.stat().st_size < 50_000
    values = stored.per_query()
    for row in values.itertuples():
        assert side.figures["csr"][row.metric][row.query_id] == row.value
    assert len(side.first("csr", 10)) == 64
    assert len(side.ranking_digests("csr")) == 64
    assert side.ranking_digests("csr") == snapshots_of(stored)[0].ranking_digests("csr")


def test_an_identical_run_is_the_same(baseline: Path, folder: Path) -> None:
    found = harness.regress(baseline, out=folder / "again")
    assert found.change.gate == "passed"
    assert {(one.verdict, one.difference) for one in found.change.backends[0].metrics} == {("same", 0.0)}
    assert (found.change.settings, found.change.warnings) == ([], [])
    dossier = found.change.backends[0].dossier
    assert dossier is not None
    assert (dossier.changed_queries, dossier.counts.same_ranking) == (0, 64)
    assert Regression.load(folder / "again").report == found.report
    assert (folder / "again" / "to-label.jsonl").read_bytes() == b""


def test_the_page_is_drawn_again_from_what_is_stored(worse: Result, folder: Path) -> None:
    written = (folder / "after" / "report.html").read_text(encoding="utf-8")
    assert "Failed: worse beyond the allowed drop (0): R@1000 of csr:k1=3.0;b=0.95" in written
    again = run("report", folder / "after", "--format", "html")
    assert again.exit_code == 0, again.output
    assert again.stdout == written
    assert "✕ Failed: worse beyond the allowed drop (0)" in run("report", folder / "after").output
    assert "\ncacm · 3,204 documents" in run("report", folder / "after" / "report.json").output


def test_its_command_judges_the_same_again(worse: Result, baseline: Path, folder: Path) -> None:
    command = Regression.load(folder / "after").report.command
    assert command == [
        "harness",
        "regress",
        "--baseline",
        str(baseline),
        "--set",
        "csr:k1=3;b=0.95",
        "--out",
        str(folder / "after"),
    ]


def test_other_parameters_are_worse_and_the_queries_that_lost_most_are_named(worse: Result, folder: Path) -> None:
    assert worse.exit_code == 1, worse.output
    assert "✕ Failed: worse beyond the allowed drop (0): R@1000 of csr:k1=3.0;b=0.95" in worse.output
    report = Regression.load(folder / "after").change
    recall, ndcg = report.backends[0].metrics
    assert (recall.verdict, recall.gate) == ("worse", "failed")
    assert (ndcg.verdict, ndcg.gate) == ("undecided", "passed")
    assert (recall.wins, recall.ties, recall.losses) == (1, 42, 9)
    dossier = report.backends[0].dossier
    assert dossier is not None
    assert dossier.metric == "R@1000"
    values = {
        name: Comparison.load(folder / name).per_query().query("metric == 'R@1000'").set_index("query_id")["value"]
        for name in ("before", "after")
    }
    lost = (values["after"] - values["before"]).sort_values()
    assert dossier.queries[0].query == lost.index[0]
    assert dossier.queries[0].values[0].difference == pytest.approx(lost.iloc[0])
    assert f"\n{lost.index[0]} " in worse.output
    settings = {(one.section, one.setting): (one.before, one.after) for one in report.settings}
    assert settings == {("parameters", "k1"): (0.9, 3.0), ("parameters", "b"): (0.4, 0.95)}


def test_what_is_to_be_labelled_comes_with_texts_and_goes_back(plain: Regression, folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "after" / "to-label.jsonl").read_text().splitlines()]
    assert all(line["grade"] is None and line["text"] and line["query"] for line in lines)
    swings = [abs(line["swing"]) for line in lines]
    assert swings == sorted(swings, reverse=True)
    first = lines[0]
    (folder / "labelled.jsonl").write_text(json.dumps({**first, "grade": 1}) + "\n")
    labelled = harness.diff(folder / "before", folder / "after", labels=folder / "labelled.jsonl")

    def difference(found: Regression) -> float:
        values = found.changes().set_index(["query_id", "metric"])["difference"]
        return float(values[first["query_id"], "nDCG@10"])

    assert labelled.change.data[0].labels == 1
    assert difference(labelled) - difference(plain) == pytest.approx(first["swing"])


def test_labels_are_judgments_of_a_comparison_and_of_a_run_too(worse: Result, folder: Path, tmp_path: Path) -> None:
    assert worse.exit_code == 1
    lines = [json.loads(line) for line in (folder / "after" / "to-label.jsonl").read_text().splitlines()[:12]]
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(json.dumps({**line, "grade": number % 2}) + "\n" for number, line in enumerate(lines)))
    labelled = harness.diff(folder / "before", folder / "before", labels=path, max_drop=0.0)
    expected = labelled.verdicts().set_index("metric")["before"]
    compared = harness.compare(
        "csr", metrics="R@1000,nDCG@10", timing=False, isolation="none", labels=path, out=tmp_path / "compared"
    )
    assert compared.metrics().loc["csr"].to_dict() == pytest.approx(expected.to_dict())
    assert compared.report.dataset.judgments == Comparison.load(folder / "before").report.dataset.judgments + 12
    assert f"--labels {path}" in " ".join(compared.report.command)
    again = harness.regress(tmp_path / "compared")
    assert {one.verdict for one in again.change.backends[0].metrics} == {"same"}
    assert again.change.data[0].judgments == "same"
    run_file = folder / "before" / "runs" / "cacm" / "csr.trec.gz"
    given = "eval", "--qrels", folder / "before" / "qrels" / "cacm.tsv", "--run", run_file, "--metrics", "nDCG@10"
    assert f"{expected['nDCG@10']:.4f}" in run(*given, "--labels", path).stdout
    assert f"{expected['nDCG@10']:.4f}" not in run(*given).stdout
    scores = harness.evaluate(run_file, folder / "before" / "qrels" / "cacm.tsv", "nDCG@10", labels=path)
    assert scores.means()[0].value == pytest.approx(expected["nDCG@10"])


def test_labels_of_another_collection_are_refused(small: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "labelled.jsonl"
    lines = [{"query_id": "q1", "doc_id": "nothing", "grade": 1}, {"query_id": "x", "doc_id": "d1", "grade": 1}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match=r"there is no query 'x'\n.*there is no document 'nothing'"):
        compare(small, "good", "foreign", timing=False, labels=path)
    compare(small, "good", "plain for labels", timing=False)
    place = small["base"] / "plain for labels"
    path.write_text("".join(json.dumps(line) + "\n" for line in [lines[0] | {"doc_id": "d1"}, lines[1]]))
    report = harness.diff(place, place, labels=path, max_drop=0.0).change
    assert "1 of the labelled queries is not compared: labels without effect" in report.warnings
    path.write_text(json.dumps(lines[1]) + "\n")
    with pytest.raises(UsageError, match="none of the 1 labelled query is compared, such as 'x'"):
        harness.diff(place, place, labels=path, max_drop=0.0)
    path.write_text(json.dumps({**lines[0], "dataset": "another"}) + "\n")
    with pytest.raises(UsageError, match="--labels are of another, and not of data"):
        compare(small, "good", "of another", timing=False, labels=path)


def test_diff_runs_nothing_and_has_a_gate_only_when_asked(
    worse: Result, baseline: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert worse.exit_code == 1
    plain = run("diff", baseline, folder / "after")
    assert plain.exit_code == 0, plain.output
    assert "No gate decides (--max-drop makes one)." in plain.output
    assert run("diff", folder / "before", folder / "after", "--max-drop", "0").exit_code == 1
    assert run("diff", folder / "before", folder / "after", "--max-drop", "R@1000=0.05").exit_code == 0
    alone = harness.diff(folder / "before", folder / "after", max_drop={"R@1000": 0.0})
    assert [one.gate for one in alone.change.backends[0].metrics] == ["failed", None]
    wrong = run("diff", folder / "before", folder / "after", "--max-drop", "MAP=0.05")
    assert wrong.exit_code != 0
    assert "unknown metric of both results 'MAP'" in str(wrong.exception)


def test_diff_leaves_a_page_and_never_a_result_behind(worse: Result, folder: Path, tmp_path: Path) -> None:
    given = folder / "before", folder / "after", "--out", tmp_path / "diff"
    assert run("diff", *given).exit_code == 0
    assert {path.name for path in (tmp_path / "diff").iterdir()} == {"report.json", "report.html", "to-label.jsonl"}
    page = (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    assert "No gate decides (--max-drop makes one)." in page
    assert run("report", tmp_path / "diff", "--format", "html").stdout == page
    assert "already holds a result" in str(run("diff", *given).exception)
    assert run("diff", *given, "--overwrite", "--no-text").exit_code == 0
    assert "Texts were left out" in (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    onto_a_result = run("diff", *given[:2], "--out", folder / "after", "--overwrite")
    assert "holds the result of a run" in str(onto_a_result.exception)


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_every_format_holds_the_verdict(plain: Regression, form: str) -> None:
    text = plain.render(form)
    assert "R@1000" in text
    assert "fell by" in text or form in ("csv", "json")
    assert ",difference.R@1000,-0." in text or form != "csv"
    if form == "json":
        assert json.loads(text)["kind"] == "diff"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("small")
    cards = write_cards(base / "cards", good="BruteForce", poor="MissesMore")
    other = write_collection(base / "other")
    text = (other / "corpus.jsonl").read_text().replace("a dog chased the cat across the garden", "a dog ran")
    (other / "corpus.jsonl").write_text(text)
    return {"base": base, "cards": cards, "data": write_collection(base / "data"), "other": other}


def compare(small: dict[str, Path], backends: str, name: str, **options: object) -> Comparison:
    given = {"k": 3, "isolation": "none", "metrics": "nDCG@3,AP", "cards": small["cards"], **options}
    return harness.compare(backends, small["data"], out=small["base"] / name, **given)  # type: ignore[arg-type]


def test_the_command_of_a_comparison_says_where_it_went_and_what_it_left_out(small: dict[str, Path]) -> None:
    place, baseline = small["base"] / "told", small["base"] / "told.json"
    given = [
        "compare", "--backends", "good", "--dataset", small["data"], "--k", "3", "--isolation", "none", "--no-timing",
        "--cards", small["cards"], "--out", place, "--overwrite", "--format", "json", "--save-baseline", baseline,
        "--no-text",
    ]  # fmt: skip
    assert run(*given).exit_code == 0
    command = Comparison.load(place).report.command
    kept = ["--save-baseline", str(baseline), "--out", str(place), "--overwrite", "--format", "json", "--no-text"]
    assert command[-len(kept) :] == kept
    again = run(*command[1:])
    assert again.exit_code == 0
    assert f"baseline: {baseline}, in place of that of good on data from 20" in again.stderr
    assert Comparison.load(place).report.command == command
    hidden = compare(small, "good", "told in python", timing=False, no_text=True)
    assert hidden.report.command[-3:] == ["--out", str(small["base"] / "told in python"), "--no-text"]


def test_a_result_is_stored_before_it_is_printed(small: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(text: str) -> None:
        raise ResultError(f"no room for {len(text)} characters")

    base, baseline = small["base"], small["base"] / "unprinted.json"
    plan = ("--backends", "good", "--dataset", small["data"], "--k", "3", "--isolation", "none", "--no-timing")
    with monkeypatch.context() as patched:
        patched.setattr("harness.cli.output.print_result", full)
        for arguments, stored in (
            (("compare", *plan, "--cards", small["cards"], "--save-baseline", baseline), "report.json"),
            (("regress", "--baseline", baseline, "--cards", small["cards"]), "report.json"),
            (("diff", baseline, baseline, "--cards", small["cards"]), "report.json"),
        ):
            place = base / f"unprinted {arguments[0]}"
            done = run(*arguments, "--out", place)
            assert isinstance(done.exception, ResultError), done.output
            assert f"report: {place}/{stored}" in done.stderr
            assert (place / stored).exists()


def test_every_latency_sample_is_kept(small: dict[str, Path]) -> None:
    found = compare(small, "good", "timed", repeat=2)
    table = pq.read_table(small["base"] / "timed" / "latencies.parquet")
    search = found.trial("good").search
    assert search is not None
    assert search.milliseconds is not None
    assert table.num_rows == search.milliseconds.n == 3 * 2  # not that of no known term
    assert table["search_ns"].to_numpy().mean() / 1e6 == pytest.approx(search.milliseconds.mean)
    assert sorted(set(table["pass"].to_pylist())) == [1, 2]
    assert set(table["query_id"].to_pylist()) == {"q1", "q2", "q4"}
    assert Comparison.load(small["base"] / "timed").latencies == table
    again = harness.regress(small["base"] / "timed")
    costs = {cost.cost: cost for cost in again.change.backends[0].costs}
    assert (costs["p50_ms"].samples_before, costs["p50_ms"].samples_after) == (6, 6)
    assert costs["p50_ms"].ci_low is not None
    (suite,) = change_document(again.report).suites
    assert {case.seconds for case in suite.cases} == {suite.seconds}
    assert suite.seconds > 0.0


@pytest.fixture
def poor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the builds of ``MissesMore`` are counted: each misses more than the one before."""
    monkeypatch.setenv(BUILDS_MADE, str(tmp_path / "made"))
    return tmp_path / "made"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-drop", "bogus=1"], "unknown metric of both results 'bogus'"),
        (["--pair", "nobody->good"], "there is no backend 'nobody' to pair"),
        (["--pair", "good->nobody"], "there is no backend 'nobody' to pair"),
        (["--labels", "nowhere.jsonl"], "no labels can be read at 'nowhere.jsonl'"),
    ],
)
def test_what_names_nothing_is_refused_before_anything_runs(
    small: dict[str, Path], options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (small["base"] / "plain").exists():
        compare(small, "good", "plain", timing=False)
    monkeypatch.setattr("harness.pipeline.compare.run", lambda *_: pytest.fail("it ran"))
    done = run("regress", "--baseline", small["base"] / "plain", *options)
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_two_that_begin_in_one_second_have_folders_of_their_own(
    small: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.cli.ci.time_stamped", lambda name: Path("reports") / name)
    compare(small, "good", "twice", timing=False)
    place = small["base"] / "twice"
    for arguments in [("regress", "--baseline", place, "--rule", "tolerance"), ("diff", place, place)] * 2:
        assert run(*arguments).exit_code == 0
    folders = {path.name for path in (tmp_path / "reports").iterdir()}
    assert folders == {"regress-twice", "regress-twice-2", "diff-twice", "diff-twice-2"}
    for name in folders:
        assert Regression.load(tmp_path / "reports" / name).report.kind == name.partition("-")[0]


def test_a_folder_of_diff_is_no_result(small: dict[str, Path], tmp_path: Path) -> None:
    compare(small, "good", "to differ", timing=False)
    harness.diff(small["base"] / "to differ", small["base"] / "to differ", out=tmp_path / "diff")
    with pytest.raises(ResultError, match="not a result to compare") as raised:
        harness.diff(tmp_path / "diff", small["base"] / "to differ")
    assert "name one of the two results" in str(raised.value)


def test_rebuilds_give_the_noise_floor(small: dict[str, Path], poor: Path) -> None:
    compare(small, "poor", "rebuilt", rebuilds=3, timing=False)
    poor.unlink()
    found = harness.regress(small["base"] / "rebuilt", rule="tolerance")
    assert found.comparison is not None
    spreads = [one.spread for side in (Comparison.load(small["base"] / "rebuilt"), found.comparison)
               for one in side.report.trials]  # fmt: skip
    assert [one.metric for one in found.change.backends[0].metrics][:2] == ["nDCG@3", "AP"]
    for metric in found.change.backends[0].metrics:
        if metric.metric.startswith("reference"):
            continue
        variances = [spread.metrics[metric.metric].sd ** 2 for spread in spreads if spread is not None]
        assert len(variances) == 2
        assert (metric.noise_floor is None) == (sum(variances) == 0)
        assert metric.gate == "passed"
    assert not any("noise floor" in warning for warning in found.change.warnings)


def test_a_difference_that_may_be_of_builds_alone_is_said(small: dict[str, Path], poor: Path) -> None:
    def warned(folder: str) -> list[str]:
        warnings = harness.regress(small["base"] / folder).change.warnings
        return [one for one in warnings if "--rebuilds 3, for both results" in one]

    compare(small, "poor", "built once", timing=False)
    assert poor.exists()
    assert [one.partition(":")[0] for one in warned("built once")] == ["no noise floor for poor"]
    compare(small, "good", "exact", timing=False)
    assert warned("exact") == []


def test_a_backend_that_fails_is_exit_code_3(small: dict[str, Path]) -> None:
    compare(small, "good", "healthy", timing=False)
    write_cards(small["cards"], good="Unavailable")
    done = run("regress", "--baseline", small["base"] / "healthy", "--out", small["base"] / "broken")
    write_cards(small["cards"], good="BruteForce")
    assert done.exit_code == 3, done.output
    assert "? Invalid: good failed, so nothing passed" in done.stdout.splitlines()
    assert Regression.load(small["base"] / "broken").change.gate == "invalid"


def test_other_data_are_said_and_no_common_query_is_invalid(small: dict[str, Path], tmp_path: Path) -> None:
    compare(small, "good", "first", timing=False)
    changed = write_collection(tmp_path / "changed")
    with (changed / "corpus.jsonl").open("a") as corpus:
        corpus.write(json.dumps({"_id": "d7", "title": "", "text": "a cat in the garden"}) + "\n")
    found = harness.regress(small["base"] / "first", dataset=changed)
    assert found.change.data[0].documents == "different"
    assert found.change.warnings[0].startswith("THE DOCUMENTS ARE NOT THE SAME (6 documents before, 7 now)")
    other = write_collection(tmp_path / "other")
    queries = (other / "queries.jsonl").read_text().replace('"text": "', '"text": "another ')
    (other / "queries.jsonl").write_text(queries)
    with pytest.raises(ResultError, match="have no query in common") as raised:
        harness.regress(small["base"] / "first", dataset=other)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("hidden", [False, True])
def test_no_text_leaves_texts_out_of_every_file_and_of_what_is_printed(small: dict[str, Path], hidden: bool) -> None:
    name = "secret" if hidden else "open"
    compare(small, "good:b=0", f"plain-{name}", timing=False, no_text=hidden)
    done = run(
        "regress", "--baseline", small["base"] / f"plain-{name}", "--set", "good:b=1", "--dataset", small["other"],
        "--out", small["base"] / name, *(["--no-text"] if hidden else []), "--when-not-judged", "fail",
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    found = Regression.load(small["base"] / name)
    assert ("--no-text" in found.report.command) is hidden
    dossier = found.change.backends[0].dossier
    assert dossier is not None
    assert dossier.changed_queries > 0
    assert dossier.to_label
    held = b"".join(path.read_bytes() for path in (small["base"] / name).rglob("*.json*"))
    for text in ("cat garden", "sat on the mat"):
        assert (text.encode() in held) is not hidden
    assert ("cat garden" in done.stdout) is not hidden


def test_labels_in_the_folder_are_never_overwritten(small: dict[str, Path]) -> None:
    compare(small, "good", "labelled", timing=False)
    place = small["base"] / "kept"
    harness.regress(small["base"] / "labelled", out=place)
    (place / "to-label.jsonl").write_text('{"query_id": "q1", "doc_id": "d1", "grade": 1}\n')
    with pytest.raises(UsageError, match="holds labels"):
        harness.regress(small["base"] / "labelled", out=place, overwrite=True)
    assert "grade" in (place / "to-label.jsonl").read_text()


def test_the_published_baseline_reads_and_names_its_plan(repository: Path) -> None:
    side = read_one(repository / "reports" / "baselines" / "cacm.json")
    assert side.labels == ["lucene", "csr"]
    assert set(side.figures["lucene"]) >= {"nDCG@10", "R@1000"}
    assert side.report.plan.arguments["dataset"] == "cacm"
