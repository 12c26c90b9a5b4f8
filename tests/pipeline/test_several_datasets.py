"""Comparisons on several datasets: a family of made ones, failures of cells, resuming, and what is stored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_world import write_cards, write_collection

import harness
from harness.errors import DataError, UsageError
from harness.pipeline.planning import plan_for, preview
from harness.plan.config import CompareRequest

BACKENDS = ["csr:analyzer=whitespace", "csr:analyzer=whitespace;k1=2.0"]
FAMILY = """
name = "made"
summary = "datasets of a few documents"
language = "en"
licence = "none"
source = "this test"

[members.one]
summary = "the first"
path = "one"
format = "beir"

[members.two]
summary = "the second"
path = "two"
format = "beir"

[members.forums]
summary = "a mean"
parts = ["forums/a", "forums/b"]

[members."forums/a"]
summary = "a forum"
path = "a"
format = "beir"

[members."forums/b"]
summary = "another"
path = "b"
format = "beir"
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A folder of cards with a family of four datasets, of documents that no other test has."""
    folder = tmp_path / "cards" / "datasets"
    folder.mkdir(parents=True)
    (folder / "made.toml").write_text(FAMILY)
    for number, name in enumerate(("one", "two", "a", "b"), 1):
        corpus = write_collection(folder / name) / "corpus.jsonl"
        corpus.write_text(
            corpus.read_text().replace("the cat sat", f"the cat {'garden ' * number}sat on {name} {tmp_path.name}")
        )
    return folder.parent


def compare(dataset: object, cards: Path | None = None, **options: object) -> harness.Comparison:
    given = {"k": 5, "timing": False, "isolation": "none", **options}
    return harness.compare(BACKENDS, dataset, cards=cards, **given)  # type: ignore[arg-type]


def test_a_family_is_compared_dataset_by_dataset_and_its_means_are_ranked(family: Path) -> None:
    result = compare("made", family, metrics="nDCG@{1,10},AP")
    assert result.datasets == ["made/one", "made/two", "made/forums/a", "made/forums/b"]
    board = result.report.leaderboard
    assert board is not None
    assert board.datasets == ["made/one", "made/two", "made/forums"]
    assert board.families == {"made/forums": ["made/forums/a", "made/forums/b"]}
    assert board.metrics == ["nDCG@1", "nDCG@10", "AP"]
    means = result.metrics()["AP"].unstack("dataset")
    forums = means[["made/forums/a", "made/forums/b"]].mean(axis=1)
    expected = (means["made/one"] + means["made/two"] + forums) / 3
    shown = result.leaderboard().loc["AP"]
    assert shown["mean"].to_dict() == pytest.approx(expected.to_dict())
    assert shown["on made/forums"].to_dict() == pytest.approx(forums.to_dict())


@pytest.mark.parametrize("named", ["made/forums,made/forums/a", "made/forums/a,made/forums"])
def test_a_part_that_is_named_beside_its_task_counts_as_a_part_and_once(
    named: str, family: Path, tmp_path: Path
) -> None:
    result = compare(named, family, out=tmp_path / "out")
    assert sorted(result.datasets) == ["made/forums/a", "made/forums/b"]
    board = result.report.leaderboard
    assert board is not None
    assert board.datasets == ["made/forums"]
    assert len(result.values) == 2 * len(compare("made/forums/a", family).values)


def test_a_dataset_that_is_written_in_two_ways_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_collection(tmp_path / "x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"'x' and '\./x' are one dataset"):
        plan_for(CompareRequest(backends=BACKENDS, dataset="x,./x"))


def test_each_dataset_gives_what_it_gives_alone(family: Path, tmp_path: Path) -> None:
    both = compare("made/one,two", family, out=tmp_path / "both")
    alone = compare("made/two", family)
    assert both.on("made/two").metrics().equals(alone.metrics())
    assert both.on("made/two").parity().equals(alone.parity())
    stored = harness.Comparison.load(tmp_path / "both")
    assert stored.metrics().equals(both.metrics())
    assert stored.leaderboard().equals(both.leaderboard())
    label = BACKENDS[0]
    assert stored.run(label, "made/two").hits == both.run(label, "made/two").hits
    for format_name in ("table", "markdown", "csv", "json"):
        assert "made/two" in stored.render(format_name)
    assert "made/two" in (tmp_path / "both" / "report.html").read_text()


def test_outcomes_of_single_comparisons_are_used_again_and_the_other_way_round(family: Path) -> None:
    compare("made/one", family)
    first = compare("made/one,two", family, resume="missing")
    assert [trial.reused for trial in first.report.trials] == [True, True, False, False]
    second = compare("made", family, resume="missing")
    assert [trial.reused for trial in second.report.trials] == [True] * 4 + [False] * 4
    assert all(trial.reused for trial in compare("made/two", family, resume="missing").report.trials)
    assert second.on("made/one").metrics().equals(first.on("made/one").metrics())


def test_a_dataset_that_cannot_be_loaded_fails_alone(family: Path) -> None:
    broken = family / "datasets" / "two" / "corpus.jsonl"
    broken.write_text('{"_id": "d1", "text": ')
    result = compare("made/one,two", family, out=family / "out")
    assert "made/two could not be loaded" in (family / "out" / "report.html").read_text()
    assert result.failed == [f"{label} on made/two" for label in BACKENDS]
    assert result.metrics().loc["made/one"].notna().all(axis=None)
    board = result.report.leaderboard
    assert board is not None
    assert {(row.mean, row.rank, row.datasets) for row in board.rows} == {(None, None, 1)}
    failed = result.trial(BACKENDS[0], "made/two")
    assert failed.error is not None
    assert "corpus.jsonl" in failed.error.message
    shown = result.render()
    assert "made/two could not be loaded" in shown
    assert f"{BACKENDS[0]} failed" not in shown
    with pytest.raises(DataError, match=r"corpus\.jsonl"):
        compare("made/two", family)


def test_a_backend_that_fails_is_shown_and_not_ranked(family: Path) -> None:
    write_cards(family, broken="FailingEngine")
    rules = {"k": 5, "timing": False, "isolation": "none", "metrics": "AP", "out": family / "out"}
    result = harness.compare(["broken", *BACKENDS], "made/one,two", cards=family, **rules)  # type: ignore[arg-type]
    board = result.leaderboard().loc["AP"]
    assert board.loc["broken", "rank"] != board.loc["broken", "rank"]
    assert sorted(board.loc[BACKENDS, "rank"].astype(int)) in ([1, 2], [1, 1])
    assert list(board.index)[-1] == "broken"


def test_objects_and_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    places = [write_collection(tmp_path / part / "data") for part in ("x", "y")]
    result = compare([places[0], places[1]])
    assert result.datasets == ["data", str(places[1])]
    made = harness.Dataset.of({"a": "cat", "b": "dog"}, {"1": "cat"}, {"1": {"a": 1}}, name="made, here")
    result = compare([made, str(places[0])])
    assert result.datasets == ["made, here", "data"]
    assert any("'made, here' is an object" in str(note) for note in result.report.plan.resolved["notes"])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "made/one,tow,cacn"}, r"(?s)'tow'.*did you mean 'two'.*'cacn'.*did you mean 'cacm'"),
        ({"dataset": "made/one,two", "labels": "x.jsonl"}, "no labels can be read at 'x.jsonl'"),
        ({"dataset": "made/one,two", "qrels": "x.tsv"}, "qrels"),
        ({"dataset": []}, "the list of datasets is empty"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(
    options: dict[str, object], message: str, family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.tsv").write_text("q1\td2\t1\n")
    with pytest.raises(UsageError, match=message):
        compare(cards=family, **options)


def test_a_dry_run_says_of_each_cell_whether_it_would_run(family: Path) -> None:
    compare("made/one", family)
    request = CompareRequest(
        backends=BACKENDS, dataset="made/one,two", k=5, timing=False, isolation="none", resume="missing", cards=family
    )
    known = {
        of_one.plan.only_dataset: [one.stored is not None for one in of_one.look_ups]
        for of_one in preview(plan_for(request))
    }
    assert known == {"made/one": [True, True], "made/two": [False, False]}


def test_a_killed_comparison_goes_on_with_the_dataset_that_it_was_at(family: Path, tmp_path: Path) -> None:
    """Its trials run in workers, which take long enough for it to be killed in the middle of the second dataset."""
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "harness", "compare", "--backends", ",".join(BACKENDS), "--dataset", "made/one,two",
        "--k", "5", "--no-timing", "--cards", str(family), "--out", str(out),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"made/one · {BACKENDS[1]}: ") and "indexed" in line:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    resumed = compare("made/one,two", family, resume="missing", out=out)
    reused = {(trial.dataset, trial.label): trial.reused for trial in resumed.report.trials}
    assert all(reused["made/one", label] for label in BACKENDS)
    assert not all(reused.values())
