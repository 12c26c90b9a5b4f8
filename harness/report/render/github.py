"""Workflow commands that annotate files and lines, which GitHub's actions show next to the code."""

from __future__ import annotations

from collections.abc import Sequence

from harness.document.model import Annotation
from harness.wording import visible

GITHUB_LIMIT = 10
"""Annotations of one kind that GitHub shows of a step; it silently drops the rest."""


def workflow_commands(annotations: Sequence[Annotation], file: str | None) -> list[str]:
    """Write one ``::error`` a line, at most as many as GitHub shows; if there are more, the last one says how many.

    ``file`` is relative to the top of the repository; without it nothing is shown next to the code.
    """
    printed = annotations
    if len(annotations) > GITHUB_LIMIT:
        printed = annotations[: GITHUB_LIMIT - 1]
        more = f"{len(annotations) - len(printed)} more errors are in the summary of this step and in report.json"
        printed = [*printed, Annotation("and more", more)]
    return [_command(annotation, file) for annotation in printed]


def _command(annotation: Annotation, file: str | None) -> str:
    properties = {"title": annotation.title}
    if file is not None:
        properties["file"] = file
        if annotation.line is not None:
            properties["line"] = str(annotation.line)
    property_text = ",".join(
        f"{name}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items()
    )
    return f"::error {property_text}::{_data(annotation.message)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
