"""Paths as users write them: home folders, links, names that cannot be, and outputs that would destroy an input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.errors import UsageError
from harness.plan.config import CompareOutput, CompareRequest, RegressRequest
from harness.plan.option_fields import Options, option_fields
from harness.results.baseline import save_baseline
from harness.store.result_folder import result_folder
from harness.user_path import existing_path, user_path

QRELS = "q1 0 a 1\nq1 0 b 0\n"
RUN = "q1 Q0 a 1 2.0 r\nq1 Q0 b 2 1.0 r\n"
CHECK = ["check", "golden.jsonl", "--corpus", "corpus.jsonl", "--backends", "csr", "--no-timing"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder with a home folder, judgments, a run, a corpus and a golden set."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    Path("q.qrels").write_text(QRELS, encoding="utf-8")
    Path("r.trec").write_text(RUN, encoding="utf-8")
    Path("corpus.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n', encoding="utf-8")
    Path("golden.jsonl").write_text('{"id": "1", "question": "one?", "expected_relevant_doc_ids": ["a"]}\n', "utf-8")
    return tmp_path


def refusal(*arguments: str) -> str:
    """Run a command in this process that must be refused before anything runs."""
    done = CliRunner().invoke(_build(), arguments)
    assert isinstance(done.exception, UsageError), done.output
    return str(done.exception)


def test_home_folders_are_expanded(folder: Path) -> None:
    assert user_path("~/x") == folder / "home" / "x"
    assert user_path(Path("~")) == folder / "home"
    assert existing_path("~/x") is None
    assert existing_path("~") == folder / "home"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("~nosuchuser/x", "a user who does not exist: '~nosuchuser'"),
        ("a" * 256, "has 256 bytes"),
        ("folder/" + "ä" * 128 + "/x", "has 256 bytes"),
        ("a\0b", "null character"),
    ],
)
def test_paths_that_cannot_be_are_refused(path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        user_path(path)
    assert existing_path(path) is None
    with pytest.raises(UsageError, match=f"--out: .*{reason}"):
        CompareOutput(out=path)  # type: ignore[arg-type]


def test_every_option_that_is_a_path_is_expanded_from_text_and_from_python(folder: Path) -> None:
    home = folder / "home"
    kinds: list[type[Options]] = [CompareOutput, CompareRequest, RegressRequest]
    fields = [field for kind in kinds for field in option_fields(kind).values() if field.kind == "path"]
    assert {"out", "save_baseline", "qrels", "cards", "baseline"} <= {field.name for field in fields}
    for field in fields:
        assert field.parse("~/x") == field.convert("~/x") == field.convert(Path("~/x")) == home / "x", field.name
    assert CompareRequest(labels=["~/x", Path("y")]).labels == (home / "x", Path("y"))  # type: ignore[list-item]
    assert CompareRequest(labels="~/x").labels == (home / "x",)  # type: ignore[arg-type]


def test_a_file_of_settings_may_name_the_home_folder(folder: Path) -> None:
    settings = folder / "sub" / "harness.toml"
    settings.parent.mkdir()
    settings.write_text('[check]\ngolden = "../golden.jsonl"\nout = "~/result"\n', encoding="utf-8")
    arguments = ["--corpus", "corpus.jsonl", "--backends", "csr", "--no-timing", "--isolation", "none"]
    done = CliRunner().invoke(_build(), ["check", "--config", str(settings), *arguments])
    assert done.exit_code == 0, done.output
    assert (folder / "home" / "result" / "report.json").is_file()
    assert not Path("~").exists()


def test_inputs_may_be_in_the_home_folder(folder: Path) -> None:
    for name in ("q.qrels", "r.trec"):
        Path(name).rename(folder / "home" / name)
    done = CliRunner().invoke(_build(), ["eval", "--qrels=~/q.qrels", "--run=~/r.trec", "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert harness.evaluate("~/r.trec", "~/q.qrels", ["RR"]).values.tolist() == [[1.0]]


def test_a_list_of_datasets_may_be_longer_than_a_name_of_a_file(folder: Path) -> None:
    names = ",".join(f"no-such-dataset-{number:03d}" for number in range(40))
    assert "no-such-dataset-039" in refusal("compare", "--dataset", names, "--backends", "csr", "--dry-run")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".jsonl", "x" * 300 + "/corpus.jsonl"])
def test_too_long_names_are_refused_wherever_a_path_may_be(folder: Path, name: str) -> None:
    assert "300 bytes" in refusal("check", name) or "306 bytes" in refusal("check", name)
    for arguments in (
        ["compare", "--dataset", name, "--backends", "csr"],
        ["check", "golden.jsonl", "--corpus", name, "--backends", "csr"],
        ["eval", "--qrels", name, "--run", "r.trec"],
        ["eval", "--qrels", "q.qrels", "--run", name],
        ["compare", "--backends", "csr", "--labels", name],
    ):
        refusal(*arguments)
    refusal("compare", "--backends", f"run:{name}")
    refusal("compare", "--backends", f"csr:path={name};external=true;model=random")


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("/", "the root folder"),
        ("/dev/null", "is not a folder"),
        ("q.qrels", "is not a folder"),
        ("dangling", "is a link to 'nowhere'"),
        ("dangling/x", "is a link to 'nowhere'"),
        ("loop", "leads back"),
        ("loop/x", "leads back"),
        ("~nosuchuser/x", "a user who does not exist"),
    ],
)
def test_places_that_cannot_hold_a_result_are_refused_before_anything_runs(folder: Path, out: str, reason: str) -> None:
    Path("dangling").symlink_to("nowhere")
    Path("loop").symlink_to("loop")
    for command in (["compare", "--backends", "csr"], CHECK, ["diff", "before", "after"]):
        assert reason in refusal(*command, "--out", out)
    with pytest.raises(UsageError, match=reason):
        harness.compare("csr", out=out)
    if not out.startswith(("/", "~", "q")):
        assert reason in refusal("compare", "--backends", "csr", "--save-baseline", f"{out}/b.json")


def test_a_result_follows_a_link_to_a_folder(folder: Path) -> None:
    Path("target").mkdir()
    Path("link").symlink_to("target")
    with result_folder(Path("link"), overwrite=False, numbered=False) as building:
        (building.folder / "report.json").write_text("{}", encoding="utf-8")
    assert Path("target/report.json").is_file()
    assert Path("link").is_symlink()


def test_a_baseline_follows_a_link_to_a_file(folder: Path) -> None:
    Path("kept").mkdir()
    comparison = harness.compare("csr", "./corpus.jsonl", queries=["golden.jsonl"], timing=False, isolation="none")
    save_baseline(comparison, "kept/b.json")
    Path("b.json").symlink_to("kept/b.json")
    before = Path("kept/b.json").stat().st_ino
    save_baseline(comparison, "b.json")
    assert Path("b.json").is_symlink()
    assert Path("kept/b.json").stat().st_ino != before


def test_files_that_are_written_are_never_inputs_or_in_the_result(folder: Path) -> None:
    assert "--junit golden.jsonl is the input GOLDEN golden.jsonl" in refusal(*CHECK, "--junit", "golden.jsonl")
    assert "--summary corpus.jsonl is the input" in refusal(*CHECK, "--summary", "./corpus.jsonl")
    Path("other").symlink_to("golden.jsonl")
    assert "is the input GOLDEN" in refusal(*CHECK, "--junit", "other")
    assert "lies in the result folder" in refusal(*CHECK, "--out", "r", "--junit", "r/junit.xml")
    Path("data").mkdir()
    Path("data/corpus.jsonl").write_text("{}", encoding="utf-8")
    compare = ["compare", "--dataset", "data", "--backends", "csr"]
    assert "lies in the input --dataset data" in refusal(*compare, "--save-baseline", "data/corpus.jsonl")
    assert "is a folder" in refusal(*CHECK, "--junit", "data")
    assert "keeps nothing" in refusal(*CHECK, "--junit", "/dev/null")
    run = ["compare", "--backends", "run:r.trec"]
    assert "is the input --backends r.trec" in refusal(*run, "--save-baseline", "r.trec")


def test_the_result_folder_may_be_named_in_a_file_of_settings(folder: Path) -> None:
    Path("harness.toml").write_text('[check]\nout = "r"\njunit = "r/junit.xml"\n', encoding="utf-8")
    assert "lies in the result folder" in refusal(*CHECK)


def test_junit_of_an_earlier_check_may_be_in_the_folder_of_the_data(folder: Path) -> None:
    Path("data").mkdir()
    Path("data/a.txt").write_text("one", encoding="utf-8")
    Path("data/junit.xml").write_text("<?xml version='1.0'?><testsuites/>", encoding="utf-8")
    arguments = ["check", "golden.jsonl", "--corpus", "data", "--backends", "no-such-backend", "--junit"]
    assert "no-such-backend" in refusal(*arguments, "data/junit.xml")


@pytest.mark.parametrize(("stream", "name"), [("stdout", "standard output"), ("stderr", "standard error")])
def test_output_that_is_redirected_to_an_input_is_named(folder: Path, stream: str, name: str) -> None:
    command = [sys.executable, "-m", "harness", "eval", "--qrels", "q.qrels", "--run", "r.trec"]
    streams: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Path("r.trec").open("w", encoding="utf-8") as emptied:
        streams[stream] = emptied.fileno()
        done = subprocess.run(command, check=False, text=True, **streams)  # type: ignore[call-overload]
    assert done.returncode == 2
    said = done.stderr if stream == "stdout" else Path("r.trec").read_text(encoding="utf-8")
    assert f"{name} is redirected to 'r.trec', which is an input (--run): the shell emptied it" in said


def test_the_longest_name_is_that_of_this_file_system(tmp_path: Path) -> None:
    assert os.pathconf(tmp_path, "PC_NAME_MAX") == 255
    (tmp_path / ("a" * 255)).touch()
    assert existing_path(tmp_path / ("a" * 255)) is not None
