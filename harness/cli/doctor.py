"""``harness doctor``: check that this machine has everything that a comparison needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from harness.cli.cards import name_column, sentence_column, texts_table
from harness.cli.output import page, print_json, print_result
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.document.model import Table
from harness.plan.config import DoctorRequest

if TYPE_CHECKING:
    from harness.doctor import Finding


@verb(DoctorRequest)
def doctor(request: DoctorRequest) -> None:
    """Check that this machine has what a comparison needs: Python, engines, Java, servers, memory, disk, cache.

    Ends with 3 when something is broken that a comparison with the default backends needs.
    """
    if request.remove_left_collections:
        _remove_left(_urls(request), yes=request.yes)
        return
    from harness.doctor import State, examine

    findings = examine(_urls(request))
    if request.format == "json":
        print_json([{**finding._asdict(), "state": finding.state.value} for finding in findings])
    else:
        print_result(page(_table(findings)))
        counted = Counter(finding.state for finding in findings)
        click.echo("\n" + ", ".join(f"{counted[state]} {state.value}" for state in State))
    if any(finding.state is State.FAIL for finding in findings):
        raise Exit(ExitCode.UNAVAILABLE)


def _urls(request: DoctorRequest) -> dict[str, str]:
    """Return the servers' addresses by engine, '' for engines without an address."""
    return {
        "Qdrant": request.url,
        "Chroma": request.chroma_url,
        "OpenSearch": request.opensearch_url,
        "Elasticsearch": request.elasticsearch_url,
        "Milvus": request.milvus_url,
        "Weaviate": request.weaviate_url,
        "PostgreSQL": request.postgres_url,
    }


def _remove_left(urls: dict[str, str], *, yes: bool) -> None:
    """Remove collections from the servers that are named; without any name, Qdrant's says how to name one."""
    from harness.doctor.servers import find_servers, left_collections, remove_collections

    servers = find_servers()
    engines = [engine for engine, server in servers.items() if server.is_named(urls.get(engine, ""))] or ["Qdrant"]
    left = {engine: left_collections(servers[engine], urls.get(engine, "")) for engine in engines}
    count = sum(map(len, left.values()))
    if not count:
        click.echo("no collection that harness made is on the server")
        return
    click.echo("\n".join(name for names in left.values() for name in names))
    if not yes:
        click.echo("these include collections of running comparisons and those kept with keep=true", err=True)
        if not click.confirm(f"remove {count}?", err=True):
            return
    for engine, names in left.items():
        remove_collections(servers[engine], urls.get(engine, ""), names)
    click.echo(f"{count} removed", err=True)


def _table(findings: Sequence[Finding]) -> Table:
    """Return a row for each finding, and the fix in a row below."""
    rows = []
    for finding in findings:
        rows.append((finding.state.value, finding.name, finding.detail))
        if finding.remedy:
            rows.append(("", "", f"→ {finding.remedy}"))
    return texts_table(["state", name_column("part"), sentence_column("finding")], rows)
