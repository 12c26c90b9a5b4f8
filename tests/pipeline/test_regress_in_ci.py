"""What a regression leaves for continuous integration: JUnit XML, summary and annotations of results made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from junit_files import read_junit
from regression_sides import AFTER, BEFORE, compare_one, result_of, side

from harness.cli.ci import write_for_ci
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.verdicts import Rules
from harness.plan.config import JudgedOutput
from harness.report.documents.regress import change_document
from harness.report.formats import render
from harness.report.render.markdown import COMMENT_BYTES, render_markdown
from harness.results.regression_schema import Change

TOLERANT = Rules(allowed_drop=0.5, rule="tolerance")


@pytest.fixture(scope="module")
def report() -> Change:
    """A gate that one metric of one backend fails, and another backend that is gone."""
    found = compare_one(side({"csr": BEFORE}), side({"csr": AFTER}), CompareRules(TOLERANT)).change
    (backend,) = found.backends
    first, *others = backend.metrics
    failed = first.model_copy(update={"gate": "failed", "verdict": "worse", "allowed_drop": 0.05})
    return found.model_copy(
        update={
            "gate": "failed",
            "backends": [
                backend.model_copy(update={"metrics": [failed, *others]}),
                backend.model_copy(update={"after": "gone", "status": "failed", "error": "it broke", "metrics": []}),
            ],
        }
    )


def test_files_and_annotations(report: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    write_for_ci(result_of(report), JudgedOutput(junit=tmp_path / "junit.xml"))
    root = read_junit(tmp_path / "junit.xml")
    cases = {(case.get("classname"), case.get("name")): [one.tag for one in case] for case in root.iter("testcase")}
    assert cases == {("csr", "nDCG@2"): ["failure"], ("csr", "AP"): [], ("gone", "is compared"): ["error"]}
    said = root.findtext(".//failure") or ""
    assert said.startswith("nDCG@2 fell by 0.0873, more than the allowed 0.05 (rule: tolerance): 0.7540")
    assert "q2 'second words': −0.63" in said
    assert capsys.readouterr().err.splitlines()[0] == "::error title=gone failed::it broke"
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("<!-- harness regress: ")
    assert "nDCG@2 of csr" in summary
    assert "second words" in summary


def test_a_comment_is_cut_and_says_so(report: Change) -> None:
    whole = render(result_of(report), "markdown")
    assert len(whole.encode()) <= COMMENT_BYTES
    assert "not fit here" not in whole
    cut = render_markdown(change_document(result_of(report)), 1_500)
    assert len(cut.encode()) <= 1_500
    assert "not fit here" in cut


def test_without_texts_none_is_written(tmp_path: Path) -> None:
    plain = [side({"csr": rankings}, texts={}) for rankings in (BEFORE, AFTER)]
    found = compare_one(*plain, CompareRules()).change
    (backend,) = found.backends
    failed = [one.model_copy(update={"gate": "failed"}) for one in backend.metrics]
    found = found.model_copy(update={"backends": [backend.model_copy(update={"metrics": failed})]})
    write_for_ci(result_of(found), JudgedOutput(junit=tmp_path / "junit.xml", summary=tmp_path / "summary.md"))
    for name in ("junit.xml", "summary.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "words" not in text
        assert "q2" in text
