"""What ``--dry-run`` prints, as text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.pipeline.planning import Preview
from harness.report.documents.plan import plan_csv, plan_document, plan_json
from harness.report.formats import render


def plan_text(previews: Sequence[Preview], output: str) -> str:
    """Return plans as the command prints them, in lines as long as they need to be."""
    for_programs = {"csv": plan_csv, "json": plan_json}
    return for_programs[output](previews) if output in for_programs else render(plan_document(previews), output)
