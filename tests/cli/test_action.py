"""The action of GitHub and the documented workflows: valid by their schemas, without injection, and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden_world import COMMAND, write_golden_world
from junit_files import read_junit
from warm_harness import harness_command

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def action(repository: Path) -> dict[str, Any]:
    return yaml.safe_load((repository / "action.yml").read_text(encoding="utf-8"))


def documented(repository: Path, marker: str) -> str:
    page = (repository / "docs" / "how-to" / "run-in-ci.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- {marker} -->\n```yaml\n(.*?)```", page, re.DOTALL)
    return found


def validate(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_is_valid(repository: Path) -> None:
    validate("vendor.github-actions", repository / "action.yml")


@pytest.mark.parametrize(
    ("marker", "schema"), [("workflow", "vendor.github-workflows"), ("gitlab", "vendor.gitlab-ci")]
)
def test_the_documented_workflows_are_valid(repository: Path, tmp_path: Path, marker: str, schema: str) -> None:
    file = tmp_path / "workflow.yml"
    file.write_text(documented(repository, marker), encoding="utf-8")
    validate(schema, file)


def test_the_workflow_gives_inputs_and_reads_outputs_that_the_action_has(
    repository: Path, action: dict[str, Any]
) -> None:
    workflow = documented(repository, "workflow")
    steps = yaml.safe_load(workflow)["jobs"]["golden-set"]["steps"]
    (step,) = (step for step in steps if "OWNER" in step.get("uses", ""))
    assert step["uses"] == "OWNER/REPOSITORY@COMMIT", "where the project lives is not known to its pages"
    assert set(step["with"]) <= set(action["inputs"])
    page = (repository / "docs" / "how-to" / "run-in-ci.md").read_text(encoding="utf-8")
    assert not [name for name in (*action["inputs"], *action["outputs"]) if f"`{name}`" not in page]


def test_no_expression_stands_in_a_script(repository: Path, action: dict[str, Any]) -> None:
    workflow = yaml.safe_load(documented(repository, "workflow"))
    steps = [*action["runs"]["steps"], *workflow["jobs"]["golden-set"]["steps"]]
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) == 4
    assert not [script for script in scripts if "${{" in script]


def test_no_module_of_the_repository_stands_in_for_an_installed_one(action: dict[str, Any]) -> None:
    """Python would look for harness, json and httpx in the working directory first."""
    scripts = "\n".join(step["run"] for step in action["runs"]["steps"] if "run" in step)
    calls = re.findall(r"python\b.*", scripts)
    assert len(calls) == 6
    assert all(call.startswith("python -P -") for call in calls)


def program(folder: Path, name: str, script: str) -> Path:
    """A folder for PATH, with one more program in it."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (programs / name).chmod(0o755)
    return programs


def run_step(action: dict[str, Any], folder: Path, stub: str = "", **inputs: str) -> tuple[int, dict[str, str], str]:
    """The step that runs the harness, as GitHub's runner runs bash: exit code, outputs and stderr.

    ``stub`` stands in for Python, whose `-P -m harness` is a warm command.
    """
    (step,) = (one for one in action["runs"]["steps"] if one.get("id") == "run")
    warm = f'if [ "$1 $2 $3" = "-P -m harness" ]; then shift 3; exec {shlex.join(harness_command())} "$@"; fi'
    programs = program(folder, "python", stub or f'{warm}\nexec "{sys.executable}" "$@"')
    (folder / "temp").mkdir(exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "HARNESS_COMMAND": "check",
        "HARNESS_CONFIG": "",
        "HARNESS_ARGUMENTS": "",
        **inputs,
    }
    environment["PYTHONPATH"] = f"{Path(__file__).parents[2]}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    return bash(step["run"], folder, environment)


def bash(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """A step with `shell: bash`: exit code, outputs, stdout and stderr."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    written = folder / "output"
    lines = written.read_text(encoding="utf-8").splitlines() if written.exists() else []
    return done.returncode, dict(line.split("=", 1) for line in lines), done.stdout + done.stderr


def test_the_step_runs_a_check_and_says_where_everything_is(action: dict[str, Any], tmp_path: Path) -> None:
    write_golden_world(tmp_path)
    hostile = "--slice=$(touch hacked)`touch hacked`; touch hacked"
    arguments = ["golden.jsonl", "--corpus=chunks.jsonl", "--require=Hit@5>=0.9", *COMMAND]
    code, outputs, said = run_step(action, tmp_path, HARNESS_ARGUMENTS="\n".join([*arguments, hostile]))
    assert (code, set(outputs)) == (2, {"folder", "verdict"}), "nothing was written: there is no comment to be made"
    assert "no question has the field '$(touch hacked)" in said
    assert not (tmp_path / "hacked").exists()
    (tmp_path / "output").unlink()
    code, outputs, said = run_step(action, tmp_path, HARNESS_ARGUMENTS="\n".join(arguments) + "\n")
    assert (code, outputs["verdict"]) == (1, "failed"), said
    assert json.loads(Path(outputs["report"], "report.json").read_text())["verdict"] == "failed"
    assert read_junit(Path(outputs["junit"])).get("failures") == "1"
    assert Path(outputs["comment"]).read_text(encoding="utf-8").startswith("<!-- harness check: golden -->\n")


def test_the_step_compares_a_check_with_a_baseline(action: dict[str, Any], tmp_path: Path) -> None:
    write_golden_world(tmp_path)
    arguments = ["golden.jsonl", "--corpus=chunks.jsonl", *COMMAND, "--baseline=b.json", "--rule=tolerance"]
    code, outputs, said = run_step(
        action, tmp_path, HARNESS_ARGUMENTS="\n".join([*arguments, "--save-baseline=b.json"])
    )
    assert (code, outputs["verdict"], (tmp_path / "b.json").is_file()) == (0, "passed", True), said
    corpus = tmp_path / "chunks.jsonl"
    corpus.write_text(corpus.read_text(encoding="utf-8").replace("trout swim in rivers", "none"), encoding="utf-8")
    (tmp_path / "output").unlink()
    code, outputs, said = run_step(action, tmp_path, HARNESS_ARGUMENTS="\n".join(arguments))
    assert (code, outputs["verdict"]) == (1, "failed"), said
    assert "csr:analyzer=whitespace against the baseline" in Path(outputs["junit"]).read_text(encoding="utf-8")


def test_the_step_passes_files_of_labels_and_no_gate_counts_a_models(action: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    texts = {"a": "red apple", "b": "green apple", "c": "blue car"}
    (folder / "chunks.jsonl").write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in texts.items()))
    line = {"id": "q", "question": "apple", "expected_relevant_doc_ids": ["a"]}
    (folder / "golden.jsonl").write_text(json.dumps(line) + "\n")
    for name, doc, fields in (("anna's labels", "b", {"by": "anna"}), ("model", "c", {"by": "m", "model": "m-1"})):
        label = {"query_id": "q", "doc_id": doc, "grade": 1, **fields}
        (folder / f"{name}.jsonl").write_text(json.dumps(label) + "\n")
    inputs = {"HARNESS_LABELS": "anna's labels.jsonl\nmodel.jsonl\n"}
    arguments = ["golden.jsonl", "--corpus=chunks.jsonl", "--k=3", *COMMAND]

    def recall(*more: str) -> tuple[int, str, float]:
        (folder / "output").unlink(missing_ok=True)
        code, outputs, said = run_step(action, folder, HARNESS_ARGUMENTS="\n".join([*arguments, *more]), **inputs)
        report = json.loads(Path(outputs["report"], "report.json").read_text())
        assert (report["datasets"][0]["model_labels"] is None) == ("left out: gates" in said), said
        header = "1 of 3 judgments by a model, not by a person (m-1, prompt unknown)"
        assert (header in Path(outputs["comment"]).read_text()) == (report["datasets"][0]["model_labels"] is not None)
        return code, outputs["verdict"], report["trials"][0]["metrics"]["Recall@3"]["mean"]

    assert recall() == (0, "passed", pytest.approx(2 / 3))
    assert recall("--require=Recall@3>=0.9") == (0, "passed", 1.0)
    assert recall("--require=Recall@3>=0.9", "--count-model-labels") == (1, "failed", pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("gate", "code", "verdict"),
    [
        ("not judged", 0, "not judged"),
        ("not judged", 1, "not judged"),
        ("not judged", 3, "not judged"),
        ("passed", 0, "passed"),
        ("failed", 1, "failed"),
        ("invalid", 3, "invalid"),
        (None, 0, "passed"),
    ],
)
def test_the_verdict_says_that_a_gate_was_not_judged_whatever_that_counts_as(
    action: dict[str, Any], tmp_path: Path, gate: str | None, code: int, verdict: str
) -> None:
    report = tmp_path / "stored.json"
    report.write_text(json.dumps({"change": {"gate": gate} if gate is not None else None}), encoding="utf-8")
    stub = f"""
if [ "$2" = -c ]; then exec "{sys.executable}" "$@"; fi
while [ "$1" != --out ]; do shift; done
mkdir -p "$2"; cp "{report}" "$2/report.json"; exit {code}"""
    code_of_step, outputs, said = run_step(action, tmp_path, stub=stub, HARNESS_COMMAND="regress")
    assert (code_of_step, outputs["verdict"]) == (code, verdict), said


def test_the_step_refuses_another_command(action: dict[str, Any], tmp_path: Path) -> None:
    code, outputs, said = run_step(action, tmp_path, HARNESS_COMMAND="cache; touch hacked")
    assert (code, outputs) == (2, {})
    assert "has to be check or regress" in said


def test_the_key_of_the_cache_holds_no_commas(action: dict[str, Any], tmp_path: Path) -> None:
    """GitHub's cache refuses keys with commas, and extras stand between them."""
    install, cache = action["runs"]["steps"][1:3]
    programs = program(tmp_path, "python", 'printf "%s\\n" "$@" > pip.txt')
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "HARNESS_SOURCE": "/a folder/of actions",
        "HARNESS_EXTRAS": "lucene,chroma",
        "HARNESS_REQUIREMENTS": "",
    }
    code, outputs, said = bash(install["run"], tmp_path, environment)
    assert (code, outputs) == (0, {"engines": "lucene-chroma"}), said
    assert (tmp_path / "pip.txt").read_text(encoding="utf-8").splitlines()[-1] == "/a folder/of actions[lucene,chroma]"
    assert "inputs.extras" not in cache["with"]["key"] + cache["with"]["restore-keys"]
    bash(install["run"], tmp_path, environment | {"HARNESS_EXTRAS": ""})
    assert (tmp_path / "pip.txt").read_text(encoding="utf-8").splitlines()[-1] == "/a folder/of actions"
    bash(install["run"], tmp_path, environment | {"HARNESS_REQUIREMENTS": "my app/requirements.txt"})
    arguments = (tmp_path / "pip.txt").read_text(encoding="utf-8").splitlines()
    assert arguments[-2:] == ["-r", "my app/requirements.txt"]
