"""The verbs ``up`` and ``down``: servers in containers, where Docker is."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["down", "up"]

_TIMEOUT_S = 180


def up(
    services: Annotated[list[str] | None, typer.Argument(help="qdrant or chroma; default: all.")] = None,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait until they are healthy.")
    ] = _TIMEOUT_S,
) -> None:
    """Start the servers of docker-compose.yml, wait until they are healthy, and print their addresses.

    Example: harness up qdrant && harness compare --backends 'qdrant:url=http://127.0.0.1:6333,csr'
    """
    from harness.doctor.compose import start

    for name, addresses in start(services or [], timeout_s=timeout).items():
        typer.echo(f"{name}  {'  '.join(addresses)}")


def down(
    volumes: Annotated[bool, typer.Option("--volumes", help="Remove what the servers stored, too.")] = False,
) -> None:
    """Stop the servers that `harness up` started, and remove their containers."""
    from harness.doctor.compose import stop

    stop(volumes=volumes)
