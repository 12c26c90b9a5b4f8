"""The action of GitHub and the documented workflows: valid by their schemas, without injection, and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden_world import COMMAND, write_golden_world
from junit_files import read_junit

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
    (given,) = (step["with"] for step in steps if step.get("id") == "harness")
    assert set(given) <= set(action["inputs"])
    assert set(re.findall(r"steps\.harness\.outputs\.(\w+)", workflow)) <= set(action["outputs"])
    page = (repository / "docs" / "how-to" / "run-in-ci.md").read_text(encoding="utf-8")
    assert not [name for name in (*action["inputs"], *action["outputs"]) if f"`{name}`" not in page]


def test_no_expression_stands_in_a_script(repository: Path, action: dict[str, Any]) -> None:
    workflow = yaml.safe_load(documented(repository, "workflow"))
    steps = [*action["runs"]["steps"], *workflow["jobs"]["golden-set"]["steps"]]
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]


def run_step(action: dict[str, Any], folder: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """The step that runs the harness, as GitHub's runner runs bash: exit code, outputs and stderr."""
    (step,) = (one for one in action["runs"]["steps"] if one.get("id") == "run")
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (programs / "python").chmod(0o755)
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
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    written = folder / "output"
    lines = written.read_text(encoding="utf-8").splitlines() if written.exists() else []
    return done.returncode, dict(line.split("=", 1) for line in lines), done.stdout + done.stderr


def test_the_step_runs_a_check_and_says_where_everything_is(action: dict[str, Any], tmp_path: Path) -> None:
    write_golden_world(tmp_path)
    hostile = "--slice=$(touch hacked)`touch hacked`; touch hacked"
    arguments = ["golden.jsonl", "--corpus=chunks.jsonl", "--require=Hit@5>=0.9", *COMMAND]
    code, _, said = run_step(action, tmp_path, HARNESS_ARGUMENTS="\n".join([*arguments, hostile]))
    assert code == 2
    assert "no question has the field '$(touch hacked)" in said
    assert not (tmp_path / "hacked").exists()
    (tmp_path / "output").unlink()
    code, outputs, said = run_step(action, tmp_path, HARNESS_ARGUMENTS="\n".join(arguments) + "\n")
    assert (code, outputs["verdict"]) == (1, "failed"), said
    assert json.loads(Path(outputs["report"], "report.json").read_text())["verdict"] == "failed"
    assert read_junit(Path(outputs["junit"])).get("failures") == "1"
    assert Path(outputs["comment"]).read_text(encoding="utf-8").startswith("<!-- harness check: golden -->\n")


def test_the_step_refuses_another_command(action: dict[str, Any], tmp_path: Path) -> None:
    code, outputs, said = run_step(action, tmp_path, HARNESS_COMMAND="cache; touch hacked")
    assert (code, outputs) == (2, {})
    assert "has to be check or regress" in said
