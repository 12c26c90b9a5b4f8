"""``harness report`` on stored files: what is in a file decides what it is, not its name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from warm_harness import harness_command

STORED = Path(__file__).parent.parent / "results" / "stored"


def report(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness_command(), "report", str(path), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["regression.json", "report.json", "verdict.json"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_file_with_a_verdict_alone_is_shown_as_that_whatever_it_is_called(
    version: int, name: str, tmp_path: Path
) -> None:
    shutil.copyfile(STORED / f"regression-{version}.json", tmp_path / name)
    shown = report(tmp_path / name)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "against the baseline" in shown.stdout


def test_a_comparison_is_shown_whatever_it_is_called(tmp_path: Path) -> None:
    shutil.copyfile(STORED / "comparison-2.json", tmp_path / "regression.json")
    shown = report(tmp_path / "regression.json")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("small: csr")


@pytest.mark.parametrize("version", [1, 2])
def test_a_baseline_is_called_one_with_the_commands_that_read_it(version: int) -> None:
    path = STORED / f"baseline-{version}.json"
    shown = report(path)
    assert (shown.returncode, shown.stdout) == (3, "")
    assert f"'{path}' is a baseline" in shown.stderr
    assert f"harness regress --baseline {path}" in shown.stderr
    assert f"harness diff {path} RESULT" in shown.stderr
    assert "damaged" not in shown.stderr


def test_a_footnote_s_mark_is_no_part_of_a_column_s_name() -> None:
    shown = report(STORED / "comparison-2.json", "--sort", "AP")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "AP*" in shown.stdout


def test_a_page_of_a_file_outside_its_folder_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for name in ("report.json", "other.json"):
        shutil.copyfile(STORED / "comparison-2.json", tmp_path / name)
        refused = report(tmp_path / name, "--format", "html")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"harness: '{tmp_path / name}' stands alone, and a page also needs what lay")
        assert "name that folder" in refused.stderr
