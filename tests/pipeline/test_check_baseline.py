"""A check compared with a baseline: the file, the rules of regress, exit codes, and what CI is left with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import harness
from harness.cli.app import _build
from harness.errors import ResultError, UnknownNameError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.results.schema_costs import OtherProcessesInfo

DOCUMENTS = [f"d{number}" for number in range(12)]
GOLDEN = [
    {"id": f"q{number}", "question": f"secret {number}?", "expected": [f"d{number}"]}
    for number in range(len(DOCUMENTS))
]
RIGHT = {f"secret {number}?": [f"d{number}", f"x{number}"] for number in range(len(DOCUMENTS))}
WRONG = {question: hits if hits[0] in ("d0", "d1") else hits[1:] for question, hits in RIGHT.items()}
OFFLINE = {"timing": False, "isolation": "none", "k": 2}
COMMAND = ["check", "golden.jsonl", "--corpus", "docs.jsonl", "--backends", "csr", "--k", "2", "--no-timing",
           "--isolation", "none"]  # fmt: skip


BUSY = OtherProcessesInfo(
    phase="search", seconds=3.0, cores=2, used_cores=1.5, load_before=12.0, load_after=11.0, busy=True
)


def answering(answers: Mapping[str, Sequence[str]]) -> Callable[[str, int], list[str]]:
    return lambda question, k: list(answers[question])[:k]


def check(answers: Mapping[str, Sequence[str]], **options: Any) -> CheckResult:
    return harness.check(GOLDEN, against={"mine": answering(answers)}, **OFFLINE, **options)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a baseline of right answers, and files of a check by exact search."""
    monkeypatch.chdir(tmp_path)
    check(RIGHT).save_baseline("base.json")
    Path("golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in GOLDEN))
    Path("docs.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"secret {name[1:]}"}) + "\n" for name in DOCUMENTS)
    )
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(_build(), list(words))


def test_the_same_answers_pass_and_worse_ones_fail(folder: Path) -> None:
    same = check(RIGHT, baseline="base.json")
    assert same.passed
    same.assert_requirements()
    change = same.report.changes
    assert (change.gate, change.before.source) == ("passed", "base.json")
    assert [metric.verdict for metric in change.backends[0].metrics] == ["same"] * 4
    worse = check(WRONG, baseline="base.json")
    assert worse.report.verdict == "failed"
    hit = worse.report.changes.backends[0].metrics[0]
    assert (hit.metric, hit.before, hit.gate, hit.losses) == ("Hit@2", 1.0, "failed", 10)
    with pytest.raises(
        AssertionError, match=r"(?s)the check of golden set failed.*Hit@2 \[mine against the baseline\]"
    ):
        worse.assert_requirements()
    assert "secret 5?" in worse.html()


def test_the_change_gives_the_verdict_if_nothing_is_required_even_on_a_busy_machine(folder: Path) -> None:
    def sign(checked: CheckResult) -> str:
        """The sign of the heading of the comment, if the machine was busy."""
        trials = [trial.model_copy(update={"other_processes": [BUSY]}) for trial in checked.report.trials]
        lines = CheckResult(checked.report.model_copy(update={"trials": trials})).render("markdown").splitlines()
        assert any("the machine was busy" in line for line in lines)
        return next(line for line in lines if line.startswith("#")).split()[1]

    assert sign(check(RIGHT, baseline="base.json")) == "✅"
    assert sign(check(WRONG, baseline="base.json")) == "❌"
    assert sign(check(RIGHT, baseline="base.json", require="Hit@2>=1")) == "✅"
    assert sign(check(RIGHT, baseline="base.json", require="Hit@2<=0.5")) == "❌"


def test_the_rules_are_those_of_regress(folder: Path) -> None:
    few = {**RIGHT, "secret 5?": ["x5"]}
    assert check(few, baseline="base.json").report.changes.gate == "passed", "one question of 12 may be chance"
    by_means = check(few, baseline="base.json", rule="tolerance")
    assert (by_means.report.verdict, by_means.report.changes.gate) == ("failed", "failed")
    assert check(few, baseline="base.json", rule="tolerance", max_drop=0.1).passed
    one = check(few, baseline="base.json", rule="tolerance", max_drop={"Hit@2": 0.1})
    assert one.passed
    assert [metric.gate for metric in one.report.changes.backends[0].metrics] == ["passed", None, None, None]
    judged = check(few, baseline="base.json", margin=0.3, test="t").report.changes.backends[0].metrics[0]
    assert (judged.margin, judged.test) == (0.3, "t")


def test_few_questions_are_not_judged_as_in_regress(tmp_path: Path) -> None:
    def two(**options: Any) -> CheckResult:
        return harness.check(GOLDEN[:2], against={"mine": answering(RIGHT)}, **OFFLINE, **options)

    two().save_baseline(tmp_path / "b.json")
    found = two(baseline=tmp_path / "b.json")
    assert (found.report.verdict, found.report.changes.gate) == ("invalid", "not judged")
    with pytest.raises(AssertionError, match="too few queries"):
        found.assert_requirements()
    allowed = two(baseline=tmp_path / "b.json", when_not_judged="pass")
    assert allowed.passed
    allowed.assert_requirements()


def test_requirements_and_the_baseline_both_count(folder: Path) -> None:
    both = check(WRONG, baseline="base.json", require=["Hit@2>=0.9"])
    text = both.render()
    assert "✕ Failed: 1 of 1 requirement not met" in text
    assert "✕ Failed: worse beyond the allowed drop (0): Hit@2 of mine" in text
    only = check(WRONG, baseline="base.json", require=["Hit@2>=0.1"])
    assert only.report.verdict == "failed"
    lines = only.render().splitlines()
    assert lines[2].startswith("✕ Failed: worse beyond the allowed drop")
    assert "✓ Passed: 1 requirement met" in lines


def test_the_file_is_small_and_holds_no_texts(folder: Path) -> None:
    content = Path("base.json").read_text()
    assert "secret" not in content
    assert len(content) < 15_000
    check(RIGHT).save_baseline("again.json")
    lines, again = content.splitlines(), Path("again.json").read_text().splitlines()
    assert [line for line in lines if '"created"' not in line] == [line for line in again if '"created"' not in line]


def test_diff_reads_it_and_regress_names_the_command(folder: Path) -> None:
    (before,) = read_snapshots(Path("base.json"))
    assert (before.kind, before.k, list(before.figures["mine"])) == (
        "check", 2, ["Hit@2", "MRR@2", "Recall@2", "nDCG@2"],
    )  # fmt: skip
    check(WRONG, out="after")
    change = harness.diff("base.json", "after").change
    assert change.backends[0].metrics[0].verdict == "worse"
    assert change.warnings == []
    run(*COMMAND, "--save-baseline", "csr.json")
    with pytest.raises(UsageError, match="is the result of a check") as refused:
        harness.regress("csr.json")
    words = shlex.split(str(refused.value.fix).removeprefix("run: "))
    assert words[-2:] == ["--baseline", "csr.json"]
    assert "--save-baseline" not in words
    assert run(*words[1:]).exit_code == 0
    for name in ("base.json", "csr.json"):
        with pytest.raises(ResultError, match="of `harness check`"):
            harness.diff(name, _comparison())


def _comparison() -> str:
    corpus = {name: f"text {name}" for name in DOCUMENTS}
    dataset = harness.Dataset.of(corpus, {"q": "text"}, {"q": {"d1": 1}})
    run_file = Path("a.trec")
    run_file.write_text("q Q0 d1 1 1.0 t\n")
    harness.compare(dataset=dataset, backends="run:a.trec", timing=False, out="compared", overwrite=True)
    return "compared"


def test_the_command_that_makes_a_missing_baseline_makes_it(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no baseline 'csr\.json'") as missing:
        run_or_raise(*COMMAND, "--baseline", "csr.json", "--max-drop", "0.1")
    assert missing.value.exit_code == 2
    assert not Path("reports").exists(), "nothing ran"
    words = shlex.split(str(missing.value.fix).removeprefix("make it first: "))
    assert words == ["harness", *COMMAND, "--save-baseline", "csr.json"]
    assert run(*words[1:]).exit_code == 0
    assert run(*COMMAND, "--baseline", "csr.json", "--max-drop", "0.1").exit_code == 0


def run_or_raise(*words: str) -> Result:
    done = run(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_harness_toml_names_a_baseline_that_the_first_check_makes(folder: Path) -> None:
    lines = ['golden = "golden.jsonl"', 'corpus = "docs.jsonl"', 'backends = "csr"', "k = 2", "timing = false"]
    lines += ['isolation = "none"', 'baseline = "b.json"', 'rule = "tolerance"']
    Path("harness.toml").write_text("\n".join(["[check]", *lines]))
    with pytest.raises(UsageError, match=r"there is no baseline 'b\.json'"):
        run_or_raise("check")
    first = run_or_raise("check", "--save-baseline", "b.json")
    assert (first.exit_code, "baseline: b.json" in first.stderr) == (0, True)
    again = run_or_raise("check", "--save-baseline", "b.json")
    assert "Passed: no mean fell by more than the allowed drop (0)" in again.stdout
    assert "baseline: b.json, in place of that of csr on docs from" in again.stderr


def test_what_cannot_be_a_baseline_is_refused_before_anything_runs(folder: Path) -> None:
    for options, problem in (
        ({"max_drop": 0.1}, "--max-drop without --baseline"),
        ({"rule": "tolerance"}, "--rule without --baseline"),
        ({"baseline": "base.json", "max_drop": "a lot"}, "'a lot' is not a number"),
        ({"baseline": "base.json", "pair": ["other->mine"]}, "there is no backend 'other' to pair"),
        ({"baseline": _comparison()}, "a check is compared with a check"),
    ):
        with pytest.raises(UsageError, match=problem):
            check(RIGHT, **options)
    with pytest.raises(UnknownNameError, match="nDCG@10"):
        check(RIGHT, baseline="base.json", max_drop={"nDCG@10": 0.1})
    Path("broken.json").write_text("{")
    with pytest.raises(ResultError, match=r"broken\.json"):
        check(RIGHT, baseline="broken.json")
    with pytest.raises(UsageError, match=r"a baseline is a \.json file"):
        run_or_raise(*COMMAND, "--save-baseline", "b.txt")


def test_only_some_questions_forbid_documents(tmp_path: Path) -> None:
    golden = [question | ({"forbidden": ["x5"]} if question["id"] == "q1" else {}) for question in GOLDEN]
    path, options = tmp_path / "base.json", {**OFFLINE, "against": {"mine": answering(RIGHT)}}
    first = harness.check(golden, **options)
    first.save_baseline(path)
    again = harness.check(golden, baseline=path, rule="tolerance", **options)
    assert again.report.verdict == "passed"
    (before,) = read_snapshots(path)
    assert {name: len(values) for name, values in before.figures["mine"].items()} == {
        "Hit@2": 12, "MRR@2": 12, "Recall@2": 12, "nDCG@2": 12, "Forbidden@2": 1,
    }  # fmt: skip
    lines = path.read_text().splitlines()
    cut = next(number for number, line in enumerate(lines) if '"query":"q3"' in line and '"Hit@2":' in line)
    lines[cut] = lines[cut].replace('"Hit@2":1.0,', "")
    path.write_text("\n".join(lines))
    with pytest.raises(ResultError, match=r"unequally many queries: 11 of Hit@2, 12 of MRR@2"):
        read_snapshots(path)


def test_a_failed_backend_leaves_no_baseline(folder: Path) -> None:
    def broken(question: str, k: int) -> list[str]:
        raise RuntimeError("down")

    failed = harness.check(GOLDEN, against={"mine": broken}, **OFFLINE, baseline="base.json")
    assert failed.report.verdict == "invalid"
    with pytest.raises((ResultError, UsageError)):
        failed.save_baseline("b.json")
    assert not Path("b.json").exists()


def test_files_for_ci_have_the_gate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(*COMMAND, "--save-baseline", "b.json").exit_code == 0
    Path("docs.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"secret {int(name[1:]) + 1}"}) + "\n" for name in DOCUMENTS)
    )
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    options = ["--baseline", "b.json", "--junit", "j.xml", "--summary", "s.md", "--format", "markdown", "--out", "out"]
    done = run(*COMMAND, *options)
    assert done.exit_code == 1
    junit = Path("j.xml").read_text()
    assert '<testsuite name="csr against the baseline"' in junit
    assert '<testcase name="Hit@2" classname="csr against the baseline"' in junit
    assert "<failure message=" in junit
    assert "::error title=" in done.stderr
    assert "failed on csr" in done.stderr
    assert done.stdout.splitlines()[2].startswith("### ❌ harness check: `golden` failed")
    assert "Verdicts, against the baseline" in done.stdout
    assert "THE DOCUMENTS ARE NOT THE SAME" in Path("s.md").read_text()
    stored = json.loads(Path("out/report.json").read_text())
    assert (stored["verdict"], stored["change"]["gate"], stored["kind"]) == ("failed", "failed", "check")
    assert CheckResult.load("out").report.changes.gate == "failed"
    printed = run("report", "out")
    assert "Failed: worse beyond the allowed drop" in printed.stdout


def test_texts_stay_out_of_a_change_without_texts(folder: Path) -> None:
    worse = check(WRONG, baseline="base.json", no_text=True)
    assert worse.report.changes.gate == "failed"
    assert "secret" not in worse.report.model_dump_json()


def test_a_check_of_several_corpora_is_compared_corpus_by_corpus(folder: Path) -> None:
    for name in ("small", "large"):
        Path(f"{name}.jsonl").write_text(Path("docs.jsonl").read_text())
    options = {"corpus": ["small.jsonl", "large.jsonl"], "backends": "csr", **OFFLINE}
    harness.check(GOLDEN, **options).save_baseline("two.json")
    found = harness.check(GOLDEN, **options, baseline="two.json")
    assert [backend.dataset for backend in found.report.changes.backends] == ["small", "large"]
    assert found.passed
