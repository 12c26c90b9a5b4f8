"""Every textual format of one report, compared with files: `pytest --update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_report import sample_report

from harness.errors import UnknownNameError
from harness.reporting.render import FORMATS, render
from harness.results.schema import Report

FOLDER = Path(__file__).parent / "render"
SUFFIX = {"table": "txt", "markdown": "md", "csv": "csv", "json": "json"}


@pytest.mark.parametrize("format_name", FORMATS)
def test_report(format_name: str, update_golden: bool) -> None:
    text = render(sample_report(), format_name)
    golden = FOLDER / f"report.{SUFFIX[format_name]}"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_no_golden_file_is_an_orphan() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"report.{SUFFIX[name]}" for name in FORMATS}


def test_json_reads_back_as_the_same_report() -> None:
    assert Report.model_validate_json(render(sample_report(), "json")) == sample_report()


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown format 'tabel'"):
        render(sample_report(), "tabel")
