"""``harness report`` on stored files: what is in a file decides what it is, not its name."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from regression_sides import compare_one, result_of, side, write_one
from sample_report import sample_report
from warm_harness import harness_command

from harness.pipeline.regress.compare_sides import CompareRules

BEFORE = {"q1": ["a", "b"], "q2": ["c", "y"]}
AFTER = {"q1": ["b", "a"], "q2": ["y", "c"]}


@pytest.fixture(scope="module")
def comparison() -> str:
    return sample_report().model_dump_json(by_alias=True)


@pytest.fixture(scope="module")
def verdict() -> str:
    compared = compare_one(side({"csr": BEFORE}), side({"csr": AFTER}, source="after"), CompareRules())
    return result_of(compared.change).model_dump_json(by_alias=True)


def report(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness_command(), "report", str(path), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["regression.json", "report.json", "verdict.json"])
def test_a_file_with_a_verdict_alone_is_shown_as_that_whatever_it_is_called(
    verdict: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(verdict)
    shown = report(tmp_path / name)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "against the baseline" in shown.stdout


def test_a_comparison_is_shown_whatever_it_is_called(comparison: str, tmp_path: Path) -> None:
    (tmp_path / "regression.json").write_text(comparison)
    shown = report(tmp_path / "regression.json")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("cranfield: ")


def test_a_baseline_is_called_one_with_the_commands_that_read_it(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_one(path, side({"csr": BEFORE}))
    shown = report(path)
    assert (shown.returncode, shown.stdout) == (3, "")
    assert f"'{path}' is a baseline" in shown.stderr
    assert f"harness regress --baseline {path}" in shown.stderr
    assert f"harness diff {path} RESULT" in shown.stderr
    assert "damaged" not in shown.stderr


def test_a_footnote_s_mark_is_no_part_of_a_column_s_name(comparison: str, tmp_path: Path) -> None:
    stored = json.loads(comparison)
    stored["plan"]["resolved"]["k"] = 5  # AP looks deeper than that, which a footnote says
    (tmp_path / "report.json").write_text(json.dumps(stored))
    shown = report(tmp_path / "report.json", "--sort", "AP")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "AP*" in shown.stdout


def test_a_page_of_a_file_outside_its_folder_is_refused_with_the_way_out(comparison: str, tmp_path: Path) -> None:
    for name in ("report.json", "other.json"):
        (tmp_path / name).write_text(comparison)
        refused = report(tmp_path / name, "--format", "html")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"harness: '{tmp_path / name}' is a single file, and rankings are in")
        assert "name that folder" in refused.stderr
