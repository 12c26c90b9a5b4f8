"""The reference page of measures says what the table of measures holds."""

from __future__ import annotations

from pathlib import Path

import pytrec_eval
from reference_pages import metrics_page

from harness.metrics.table import KINDS, NOT_OFFERED


def test_the_page_is_the_tables(repository: Path):
    page = (repository / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert page.partition("-->\n\n")[2] == metrics_page(), "run: python docs/generate.py"


def test_every_measure_of_trec_eval_is_offered_or_listed_as_not_offered():
    offered = {name for kind in KINDS.values() for name in (kind.trec, kind.trec_cut) if name}
    listed = {name.strip() for names in NOT_OFFERED for name in names.split(",")}
    for name in pytrec_eval.supported_measures:
        family = any(entry.strip("*") in name for entry in listed if "*" in entry)
        assert name in offered or name in listed or family, name
    assert not offered & listed
