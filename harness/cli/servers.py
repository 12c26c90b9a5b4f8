"""The verbs ``up`` and ``down``: servers in containers, where Docker is."""

from __future__ import annotations

import typer

from harness.cli.verb import verb
from harness.plan.config import DownRequest, UpRequest


@verb(UpRequest)
def up(request: UpRequest) -> None:
    """Start the servers of docker-compose.yml, wait until they are healthy, and print their addresses.

    Example: harness up qdrant && harness compare --backends 'qdrant:url=http://127.0.0.1:6333,csr'
    """
    from harness.doctor.compose import start

    for name, addresses in start(list(request.services), timeout_s=request.timeout).items():
        typer.echo(f"{name}  {'  '.join(addresses)}")


@verb(DownRequest)
def down(request: DownRequest) -> None:
    """Stop the servers that `harness up` started, and remove their containers."""
    from harness.doctor.compose import stop

    stop(volumes=request.volumes)
