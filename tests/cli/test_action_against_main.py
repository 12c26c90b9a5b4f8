"""The action on a repository with a main and branches: not worse than main, by a file or by main's last artifact."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_runner import ActionRun, run_action, run_steps
from github_stub import REPOSITORY, GithubServer, github_server
from warm_harness import harness_command

pytestmark = pytest.mark.integration

WORDS = [f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
MISSED_ON_MAIN = {"worda", "wordb"}
SETTINGS = """\
[check]
golden = "golden.jsonl"
corpus = "chunks.jsonl"
backends = ["ours=csr:analyzer=whitespace;k1=1.2;b=0.75"]
k = 5
isolation = "none"
timing = false
"""


def write_documents(repository: Path, gone: Collection[str]) -> None:
    """A document for each word, but for those that are ``gone``, and documents that all questions find."""
    texts = {f"doc-{word}": "kept" if word in gone else f"{word} kept" for word in WORDS}
    texts |= {f"shelf-{number}": "kept kept kept" for number in range(6)}
    lines = (json.dumps({"_id": name, "text": text}) + "\n" for name, text in texts.items())
    (repository / "chunks.jsonl").write_text("".join(lines), encoding="utf-8")


def git(repository: Path, *words: str) -> None:
    settings = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *words], cwd=repository, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a golden set of 26 questions, two of which miss on main, and a branch for each change."""
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init")
    questions = (
        {"id": word, "question": f"{word} kept", "expected_relevant_doc_ids": [f"doc-{word}"]} for word in WORDS
    )
    (folder / "golden.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    (folder / "harness.toml").write_text(SETTINGS, encoding="utf-8")
    write_documents(folder, MISSED_ON_MAIN)
    git(folder, "add", ".")
    git(folder, "commit", "-m", "main")
    branches = {
        "equal": MISSED_ON_MAIN,
        "three-lost": {*MISSED_ON_MAIN, "wordc", "wordd", "worde"},
        "noise": {"wordb", "wordc", "wordd"},
    }
    for branch, gone in branches.items():
        git(folder, "switch", "-c", branch, "main")
        write_documents(folder, gone)
        (folder / "README").write_text(branch, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-m", branch)
    git(folder, "switch", "main")
    return folder


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with github_server() as server:
        yield server


def push(repository: Path, github: GithubServer, **inputs: str) -> ActionRun:
    """The run of main."""
    git(repository, "switch", "main")
    folder = repository.parent / f"main-{len(github.calls)}"
    return run_action(repository, folder, github, {"ref": "refs/heads/main"}, "push", **inputs)


def pull_request(repository: Path, github: GithubServer, branch: str, **inputs: str) -> ActionRun:
    """The run of the pull request from a branch to main."""
    git(repository, "switch", branch)
    head = {"ref": branch, "repo": {"full_name": inputs.pop("head", REPOSITORY)}}
    event: dict[str, Any] = {"pull_request": {"number": 7, "head": head, "base": {"ref": "main"}}}
    folder = repository.parent / f"{branch}-{len(github.calls)}"
    return run_action(repository, folder, github, event, "pull_request", **inputs)


def verdict(run: ActionRun) -> str:
    return run.outputs["run"]["outputs"]["verdict"]


def comment(github: GithubServer) -> str:
    (only,) = github.comments[7]
    return str(only["body"])


def test_a_branch_is_compared_with_the_artifact_of_mains_last_run(repository: Path, github: GithubServer) -> None:
    first = pull_request(repository, github, "equal", baseline="artifact")
    assert (verdict(first), first.failed) == ("passed", False), first.printed
    assert "no run on 'main' has uploaded the artifact 'harness-baseline' yet" in first.printed
    assert "**Compared with nothing: there was no baseline yet**" in comment(github)
    assert "Compared with nothing" in first.summary
    assert [one["name"] for one in github.artifacts] == [], "a pull request is no baseline"

    main = push(repository, github, baseline="artifact")
    assert (verdict(main), main.failed) == ("passed", False), main.printed
    assert [one["name"] for one in github.artifacts] == ["harness-baseline"]
    github.upload("harness-baseline", {"b.json": b"{}"}, "main", "f" * 40, fork=2)
    github.upload("harness-baseline", {"b.json": b"{}"}, "other", "f" * 40)

    equal = pull_request(repository, github, "equal", baseline="artifact")
    assert (verdict(equal), equal.failed) == ("passed", False), equal.printed
    assert "Passed: nothing is worse beyond the allowed drop (0)" in comment(github)
    commit = github.artifacts[0]["workflow_run"]["head_sha"]
    assert f"main@{commit[:7]}.json → this run" in comment(github)
    assert "question lost" not in comment(github)

    worse = pull_request(repository, github, "three-lost", baseline="artifact")
    assert (verdict(worse), worse.failed) == ("failed", True), worse.printed
    body = comment(github)
    assert body.startswith("<!-- harness check: golden harness-report -->\n\n### ❌ harness check: `golden` failed\n")
    assert "#### ours: 3 questions lost\n" in body
    assert "won\n" not in body
    assert "| `wordc` | `wordc kept` | `Hit@5` | 1.0000 | 0.0000 | `doc-wordc` |" in body
    assert "3 queries lost, 0 gained; allowed 0; chance of this without a change 4.2%" in body
    assert worse.summary.startswith(body.replace(" harness-report", ""))
    assert "<summary><code>the whole report</code></summary>" in worse.summary

    noise = pull_request(repository, github, "noise", baseline="artifact")
    assert (verdict(noise), noise.failed) == ("passed", False), noise.printed
    body = comment(github)
    assert "✅ **Passed: nothing is shown to be worse beyond the allowed drop (0); 4 means fell further" in body
    assert "which may be chance" in body
    assert "#### ours: 2 questions lost\n" in body
    assert "#### ours: 1 question won\n" in body
    assert "| `worda` | `worda kept` | `Hit@5` | 0.0000 | 1.0000 | `doc-worda` |" in body


def test_a_branch_is_compared_with_a_file_of_the_repository(repository: Path, github: GithubServer) -> None:
    missing = pull_request(repository, github, "equal", baseline="reports/main.json")
    assert (verdict(missing), missing.failed) == ("invalid", True)
    assert "there is no baseline 'reports/main.json'" in missing.printed
    assert "--save-baseline reports/main.json" in missing.printed
    made = push(repository, github, arguments="--save-baseline=reports/main.json")
    assert not made.failed, made.printed
    git(repository, "add", "reports/main.json")
    git(repository, "commit", "-m", "baseline")
    for branch, expected in (("equal", "passed"), ("three-lost", "failed"), ("noise", "passed")):
        git(repository, "switch", branch)
        git(repository, "merge", "main")
        run = pull_request(repository, github, branch, baseline="reports/main.json")
        assert (verdict(run), run.failed) == (expected, expected == "failed"), run.printed
    assert not github.artifacts, "nothing is uploaded, for nothing is fetched"


def test_the_workflow_of_init_compares_with_the_file_that_it_wrote(
    repository: Path, github: GithubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    words = ["init", "--golden", "golden.jsonl", "--corpus", "chunks.jsonl", "--backends", "csr:analyzer=whitespace"]
    subprocess.run([*harness_command(), *words, "--force"], check=True, capture_output=True)
    git(repository, "add", ".github", "harness.toml", "reports/baselines")
    git(repository, "commit", "-m", "init")
    workflow = yaml.safe_load(Path(".github/workflows/retrieval.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    installed = repository.parent / "harness" / "bin" / "harness"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec {shlex.join(harness_command())} "$@"\n', encoding="utf-8")
    installed.chmod(0o755)
    steps = [step for step in workflow["jobs"]["check"]["steps"] if not re.search("venv|pip", step.get("run", "pip"))]
    assert len(steps) == 2
    for branch, failed in (("equal", False), ("three-lost", True), ("noise", False)):
        git(repository, "switch", branch)
        git(repository, "merge", "main")
        event: dict[str, Any] = {"pull_request": {"number": 7, "head": {"repo": {"full_name": REPOSITORY}}}}
        run = run_steps(steps, repository, repository.parent / branch, github, event, "pull_request")
        assert run.failed == failed, run.printed
        body = comment(github)
        assert ("3 questions lost" in body) == failed, body
        assert ("❌" in body) == failed
    assert "✅ **Passed: no mean fell by more than the allowed drop (0.05)**" in comment(github)
    assert "2 questions lost" in comment(github)


def test_the_token_of_a_fork_cannot_comment_and_nothing_fails(repository: Path, github: GithubServer) -> None:
    push(repository, github, baseline="artifact")
    github.writable = False
    run = pull_request(repository, github, "equal", baseline="artifact", head="somebody/shop")
    assert (verdict(run), run.failed) == ("passed", False), run.printed
    assert not github.comments
    refusal = "No comment was written to the pull request: GitHub did not accept POST /issues/7/comments: 403"
    assert refusal in run.summary
    assert "a pull request from a fork has a token that can only read" in run.summary
    assert github.token not in run.summary + run.printed


def test_a_baseline_that_cannot_be_fetched_fails_and_names_the_permission(
    repository: Path, github: GithubServer
) -> None:
    github.failures = [403]
    run = pull_request(repository, github, "equal", baseline="artifact")
    assert run.failed
    assert "add 'actions: read' to the permissions of the workflow" in run.printed
    assert "run" not in run.outputs


def test_no_comment_is_written_without_the_input(repository: Path, github: GithubServer) -> None:
    run = pull_request(repository, github, "equal", comment="false")
    assert not run.failed
    assert (github.comments, github.calls) == ({}, [])
    assert Path(run.outputs["run"]["outputs"]["comment"]).read_text(encoding="utf-8").startswith("<!-- harness check")
