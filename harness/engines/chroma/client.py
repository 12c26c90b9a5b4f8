"""Chroma's client library: loaded late, without telemetry."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from harness.registry.optional import require

__all__ = ["PACKAGE", "close_http_client", "http_client", "http_sessions", "persistent_client", "require_chroma"]

PACKAGE = "chromadb"


def require_chroma(module: str = PACKAGE) -> ModuleType:
    """A module of the client library; raises MissingExtraError."""
    return require(module, extra="chroma", feature="backend chroma")


def persistent_client(folder: Path, database: str) -> Any:  # noqa: ANN401 - the client is untyped
    """A client of Chroma's engine in this process, on ``folder``."""
    settings = _settings(chroma_api_impl="chromadb.api.rust.RustBindingsAPI")
    return require_chroma().PersistentClient(path=str(folder), settings=settings, database=database)


def http_client(url: str, headers: dict[str, str], tenant: str, database: str) -> Any:  # noqa: ANN401
    """A client of the server at ``url``, which holds its port; asks it several things, and without a time limit."""
    port = int(url.split("/")[2].rpartition(":")[2])
    return require_chroma().HttpClient(
        host=url,
        port=port,
        ssl=url.startswith("https:"),
        headers=headers,
        settings=_settings(chroma_server_host=None, chroma_server_http_port=None),
        tenant=tenant,
        database=database,
    )


def http_sessions(client: Any) -> tuple[Any, Any]:  # noqa: ANN401 - the client is untyped
    """The two ``httpx.Client`` objects of a client: its own, and that by which it looks for databases.

    There is no public way to them. They know no time limit, and closing the client leaves their connections open.
    """
    return client._server._session, client._admin_client._server._session  # noqa: SLF001


def close_http_client(client: Any) -> None:  # noqa: ANN401 - the client is untyped
    """Close the client and its connections."""
    sessions = http_sessions(client)
    client.close()
    for session in sessions:
        session.close()


def _settings(**given: Any) -> Any:  # noqa: ANN401 - the client is untyped
    """No telemetry, and nothing out of a ``.env`` file that happens to lie where the harness is run."""
    return require_chroma("chromadb.config").Settings(_env_file=None, anonymized_telemetry=False, **given)
