"""`harness github`: what it reads of a run, what it writes, and how it answers refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from github_stub import REPOSITORY, GithubServer, github_server

import harness
from harness.cli.app import _build
from harness.errors import ResultError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.remote.workflow_run import WorkflowRun

TEXT = "<!-- harness check: golden -->\n\nnew\n"
PULL_REQUEST: dict[str, Any] = {"pull_request": {"number": 7, "head": {"repo": {"full_name": REPOSITORY}}}}


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with github_server() as server:
        yield server


def run_of(github: GithubServer, event: Mapping[str, Any], base_ref: str = "main") -> WorkflowRun:
    return WorkflowRun(REPOSITORY, event, base_ref, github.token, github.url, sleep=lambda seconds: None)


def test_a_comment_is_written_once_and_replaced_later(github: GithubServer) -> None:
    for number in range(150):
        github.comment(7, f"comment {number}")
    github.comment(7, TEXT.replace("new", "quoted"), login="somebody")
    github.comment(7, "<!-- harness check: other -->\n\nold\n")
    run = run_of(github, PULL_REQUEST)
    assert run.put_comment(TEXT) is False
    github.failures = [502, 502]
    assert run.put_comment(TEXT.replace("new", "newer")) is True
    bodies = [one["body"] for one in github.comments[7][150:]]
    assert bodies == [
        TEXT.replace("new", "quoted"), "<!-- harness check: other -->\n\nold\n", TEXT.replace("new", "newer"),
    ]  # fmt: skip


def test_the_last_artifact_of_the_branch_is_taken(github: GithubServer) -> None:
    run = run_of(github, PULL_REQUEST, "release/2")
    assert run.latest_file("b") is None
    for number in range(120):
        github.upload("b", {"b.json": b"first"}, "release/2" if number == 3 else f"branch-{number}", "a" * 40)
    github.upload("b", {"b.json": b"expired"}, "release/2", "b" * 40, expired=True)
    github.upload("c", {"b.json": b"another"}, "release/2", "c" * 40)
    stored = run.latest_file("b")
    assert stored is not None
    assert (stored.content, stored.name) == (b"first", "release-2@aaaaaaa.json")
    github.upload("b", {"b.json": b"second"}, "release/2", "d" * 40)
    assert run.latest_file("b").content == b"second"  # type: ignore[union-attr]
    group = run_of(github, {"merge_group": {"base_ref": "refs/heads/release/2"}}, "")
    assert group.latest_file("b").content == b"second"  # type: ignore[union-attr]


def test_what_is_no_baseline_is_refused(github: GithubServer) -> None:
    github.upload("b", {"a.json": b"", "b.json": b""}, "main", "a" * 40)
    run = run_of(github, PULL_REQUEST)
    with pytest.raises(ResultError, match="the artifact 'b' is not a baseline: it has 2 JSON files"):
        run.latest_file("b")
    github.upload("b", {}, "main", "a" * 40, zip=b"no archive")
    with pytest.raises(ResultError, match="the artifact 'b' is damaged"):
        run.latest_file("b")
    with pytest.raises(UsageError, match="not of a pull request"):
        run_of(github, {}, "").latest_file("b")
    with pytest.raises(UsageError, match="not of a pull request"):
        run_of(github, {}, "").put_comment(TEXT)
    with pytest.raises(UsageError, match="a comment begins with a line '<!-- harness … -->'"):
        run.put_comment("hello")
    github.failures = [500] * 4
    with pytest.raises(ResultError, match=r"did not answer GET /repos/us/shop/actions/artifacts: 500"):
        run.latest_file("b")


def test_jobs_with_different_names_have_a_comment_each_which_names_the_commit(github: GithubServer) -> None:
    event: dict[str, Any] = {"pull_request": {**PULL_REQUEST["pull_request"], "head": {"sha": "c" * 40}}}
    github.comment(7, TEXT.replace("-->", "a -->"), login="our-app[bot]")
    run = run_of(github, event)
    assert run.put_comment(TEXT, "a") is True, "the token of an app replaces what an app wrote"
    assert run.put_comment(TEXT, "b -->") is False
    assert run.put_comment(TEXT) is False
    assert run.put_comment(TEXT, "b -->") is True
    assert [one["body"].split("\n")[0] for one in github.comments[7]] == [
        "<!-- harness check: golden a -->", "<!-- harness check: golden b_-_ -->", "<!-- harness check: golden -->",
    ]  # fmt: skip
    assert all(one["body"].endswith(f"new\n\n<sub>of commit {'c' * 40}</sub>\n") for one in github.comments[7])


@pytest.mark.parametrize("content", [b"<html>", b"[" * 100_000, b'{"artifacts": 1}', b'{"artifacts": ["x"]}', b"[1]"])
def test_an_answer_that_is_not_one_of_github_is_refused(github: GithubServer, content: bytes) -> None:
    github.garbled = content
    run = run_of(github, PULL_REQUEST)
    for call in (lambda: run.put_comment(TEXT), lambda: run.latest_file("b")):
        with pytest.raises(ResultError, match="did not answer as GitHub's API does") as refusal:
            call()
        assert "GITHUB_API_URL" in str(refusal.value.fix)


def test_a_server_that_cannot_be_reached_is_an_error_that_names_its_address() -> None:
    run = WorkflowRun(REPOSITORY, PULL_REQUEST, "main", "key", "http://127.0.0.1:9", sleep=lambda seconds: None)
    for call in (lambda: run.put_comment(TEXT), lambda: run.latest_file("b")):
        with pytest.raises(ResultError, match=r"'http://127.0.0.1:9' did not answer GET /\S+: ConnectError"):
            call()


@pytest.mark.parametrize("event", ['{"pull_request": "x"}', '{"pull_request": {"number": "7", "head": 1}}', "{}"])
def test_an_event_with_other_members_is_not_of_a_pull_request(event: str, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(event, encoding="utf-8")
    variables = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_EVENT_PATH": str(path)}
    run = WorkflowRun.from_environment(variables)
    assert (run.pull_request, run.target, run.is_from_fork) == (None, None, True)
    for address in ("nonsense", "http://[bad", "https://user:secret@host"):
        with pytest.raises(UsageError, match="GITHUB_API_URL is not of the form") as refusal:
            WorkflowRun.from_environment({**variables, "GITHUB_API_URL": address})
        assert "secret" not in str(refusal.value)


def call(*words: str) -> Any:
    return CliRunner().invoke(_build(), ["github", *words])


def test_the_command_reads_the_run_from_the_environment(
    github: GithubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_TOKEN", "GITHUB_STEP_SUMMARY", "GITHUB_BASE_REF"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "comment.md").write_text(TEXT, encoding="utf-8")
    comment = str(tmp_path / "comment.md")
    assert "this is no run of GitHub's actions" in str(call("comment", comment).exception)
    monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    event = tmp_path / "event.json"
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    event.write_text("[]", encoding="utf-8")
    assert "is not an object" in str(call("comment", comment).exception)
    event.write_text("{}", encoding="utf-8")
    done = call("comment", comment)
    assert (done.exit_code, done.stderr) == (0, "this run is not of a pull request: no comment was written\n")
    done = call("baseline", str(tmp_path / "main"))
    assert (done.exit_code, done.stdout) == (0, "")
    event.write_text(json.dumps(PULL_REQUEST), encoding="utf-8")
    done = call("comment", comment)
    assert "set GITHUB_TOKEN in the env of the step" in done.stderr
    assert "Bad credentials" in done.stderr
    monkeypatch.setenv("GITHUB_TOKEN", github.token)
    assert call("comment", comment).stderr == "comment: written on pull request 7\n"
    assert call("comment", comment).stderr == "comment: replaced on pull request 7\n"
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    assert "has uploaded the artifact 'harness-baseline' yet" in call("baseline", str(tmp_path / "main")).stderr
    github.upload("harness-baseline", {"baseline.json": b"{}"}, "main", "a" * 40)
    path = call("baseline", str(tmp_path / "main")).stdout.strip()
    assert (path, Path(path).read_bytes()) == (str(tmp_path / "main" / "main@aaaaaaa.json"), b"{}")
    assert "no comment can be read at" in str(call("comment", str(tmp_path / "missing.md")).exception)


def check(answers: Mapping[str, list[str]], **options: Any) -> CheckResult:
    golden = [
        {"id": f"q{number}", "question": f"a question number {number}, {'and so on ' * 12}", "expected": [f"d{number}"]}
        for number in range(30)
    ]
    backends = {
        label: lambda question, k: answers.get(question.split()[3].strip(","), ["d0"])[:k]
        for label in ("our search with the reranker of 2025", "our search with the reranker of 2026")
    }
    return harness.check(golden, against=backends, k=2, timing=False, isolation="none", **options)


def test_the_comment_has_short_names_and_questions_lost_and_won_apart(tmp_path: Path) -> None:
    before = {str(number): ["x", f"d{number}"] for number in range(29)}
    after = {**{str(number): [f"d{number}", "x"] for number in range(4)}, "29": ["d29"]}
    check(before).save_baseline(tmp_path / "base.json")
    text = check(after, baseline=tmp_path / "base.json").comment()
    assert text.startswith("<!-- harness check: ")
    assert "our search with the reranker" not in text
    lost, won = text.split("won\n")[0], text.split("won\n")[1]
    assert "#### …2025: 25 questions lost, the first 20 of them\n" in lost
    assert "#### …2025: 5 questions " in lost
    rows = [line for line in won.split("####")[0].splitlines() if line.startswith("| `q")]
    assert [row.split(" | ")[2] for row in rows] == ["`Hit@2`", *["`MRR@2`"] * 4]
    assert "`a question number 29, and so on and so on and so on and so on and so …`" in rows[0]
    assert len(text.encode()) < 20_000
    without = check(after, baseline=tmp_path / "base.json", no_text=True).comment()
    assert "and so on" not in without
    assert "| `q29` | – | `Hit@2` |" in without
    alone = check(after).comment()
    assert "**Nothing was required, and nothing compared**" in alone
    assert "#### Quality" in alone
    required = check(after, require="Hit@2>=0.9").comment()
    assert "❌ **Failed: 2 of 2 requirements not met**" in required
