"""Runs the steps of the action as GitHub's runner does: conditions, expressions, outputs; other actions are stubs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from github_stub import GithubServer
from warm_harness import harness_command

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"\b(?:inputs|steps|runner|github)(?:\.[\w-]+)+|'[^']*'|\balways\(\)")
_FILES = re.compile(r"hashFiles\('([^']*)'\)")
"""The hash of a file, or nothing if there is none."""


@dataclass
class ActionRun:
    """What a run left behind: whether it failed, outputs by step, and all that was printed."""

    failed: bool = False
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    printed: str = ""
    summary: str = ""


def run_action(
    checkout: Path, temporary: Path, github: GithubServer, event: dict[str, Any], name: str, **inputs: str
) -> ActionRun:
    """Run the action in a checked-out repository, for an event of that name; installing is left out."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = [step for step in action["runs"]["steps"] if step.get("id") != "install"]
    defaults = {key: str(one.get("default", "")) for key, one in action["inputs"].items()}
    assert set(inputs) <= {key.replace("-", "_") for key in defaults}
    given = {key: inputs.get(key.replace("-", "_"), default) for key, default in defaults.items()}
    given["token"] = github.token if given["token"].startswith("${{") else given["token"]
    return run_steps(steps, checkout, temporary, github, event, name, given)


def run_steps(
    steps: Sequence[dict[str, Any]],
    checkout: Path,
    temporary: Path,
    github: GithubServer,
    event: dict[str, Any],
    name: str,
    given: Mapping[str, str] | None = None,
) -> ActionRun:
    """Run steps of an action with the ``given`` inputs, or of a workflow."""
    temporary.mkdir(parents=True, exist_ok=True)
    contexts: dict[str, Any] = {
        "inputs": given or {},
        "steps": {},
        "runner": {"temp": str(temporary)},
        "github": {"event": event, "event_name": name, "token": github.token},
    }
    run, summary = ActionRun(outputs=contexts["steps"]), temporary / "summary.md"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True)
    variables = _variables(checkout, temporary, github, event, name) | {"GITHUB_STEP_SUMMARY": str(summary)}
    for number, step in enumerate(steps):
        condition = str(step.get("if", "true"))
        if run.failed and "always()" not in condition:
            continue
        condition = _FILES.sub(lambda match: "'hash'" if (checkout / match[1]).exists() else "''", condition)
        if not _evaluate(condition, contexts):
            continue
        if str(step.get("uses", "")).startswith("actions/upload-artifact"):
            path, upload = Path(_text(step["with"]["path"], contexts)), _text(step["with"]["name"], contexts)
            if path.is_file():
                branch = event.get("pull_request", {}).get("head", {}).get("ref", "main")
                github.upload(upload, {path.name: path.read_bytes()}, branch, commit.stdout.strip())
        if "run" not in step:
            continue
        output = temporary / f"output-{number}"
        output.touch()
        environment = {key: _text(str(text), contexts) for key, text in step.get("env", {}).items()}
        environment = {**variables, **environment, "GITHUB_OUTPUT": str(output)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        folder = checkout / _text(step.get("working-directory", "."), contexts)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        run.printed += done.stdout + done.stderr
        run.failed |= done.returncode != 0
        lines = output.read_text(encoding="utf-8").splitlines()
        contexts["steps"][step.get("id", str(number))] = {"outputs": dict(line.split("=", 1) for line in lines)}
    run.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return run


def _variables(
    checkout: Path, temporary: Path, github: GithubServer, event: dict[str, Any], name: str
) -> dict[str, str]:
    """The environment of a step: the runner's variables, and a Python whose harness is a warm command."""
    import json

    programs, path = temporary / "bin", temporary / "event.json"
    programs.mkdir(exist_ok=True)
    warm = f'if [ "$1 $2 $3" = "-P -m harness" ]; then shift 3; exec {shlex.join(harness_command())} "$@"; fi'
    (programs / "python").write_text(f'#!/bin/sh\n{warm}\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (programs / "python").chmod(0o755)
    path.write_text(json.dumps(event), encoding="utf-8")
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "RUNNER_TEMP": str(temporary),
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "us/shop",
        "GITHUB_WORKSPACE": str(checkout),
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_BASE_REF": event.get("pull_request", {}).get("base", {}).get("ref", ""),
    }


def _evaluate(expression: str, contexts: dict[str, Any]) -> Any:
    """The value of an expression of names, texts, ==, !=, && and ||; a name without a value is empty."""
    values: list[Any] = []

    def take(match: re.Match[str]) -> str:
        word, value = match[0], contexts
        if word.startswith("'"):
            values.append(word[1:-1])
        elif word == "always()":
            values.append(True)
        else:
            for part in word.split("."):
                value = value.get(part, "") if isinstance(value, dict) else ""
            values.append(value)
        return f"values[{len(values) - 1}]"

    code = _NAME.sub(take, expression).replace("&&", " and ").replace("||", " or ")
    return eval(code, {"__builtins__": {}, "true": True}, {"values": values})


def _text(text: str, contexts: dict[str, Any]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(_evaluate(match[1].strip(), contexts)), text)
