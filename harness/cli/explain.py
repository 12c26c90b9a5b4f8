"""``harness explain``: why documents are ranked where they are, for one query."""

from __future__ import annotations

from click.exceptions import Exit

from harness.cli.output import print_json, progress_display, write_report
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.plan.config import ExplainOutput, ExplainRequest


@verb(ExplainRequest, ExplainOutput)
def explain(request: ExplainRequest, output: ExplainOutput) -> None:
    """Say why documents are ranked where they are: term by term, vector by vector, list by list.

    Contributions are the exact reference's, and add up to its score bit for bit. Stored outcomes are used if there are
    any.

    Example: harness explain --dataset cacm --backends lucene,qdrant --query 12
    """
    from harness.pipeline.explain import run

    with progress_display() as display:
        explanation = run(request, display)
    if output.format == "json":
        print_json(explanation.to_dict())
    else:
        from harness.report.documents.explanation import explanation_document

        write_report(explanation_document(explanation), output.format, verbose=output.verbose)
    if explanation.failed:
        raise Exit(ExitCode.UNAVAILABLE)
