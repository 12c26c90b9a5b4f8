"""Servers in containers: ``docker compose`` on the harness's own compose file."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import EngineUnavailableError, UnknownNameError

_PACKAGE = Path(__file__).parent.parent
_NAME = "docker-compose.yml"
_ELSEWHERE = "or use a server that runs elsewhere: qdrant:url=http://HOST:6333"
_WORDS = 5
_LABEL = "harness.url"
"""Of a service whose address is no http://HOST:PORT."""
_EVERY_PROFILE = ("--profile", "*")
_GRACE_S = 30


def compose_file() -> Path:
    """Return the compose file inside the package, or beside it in a checkout."""
    packaged = _PACKAGE / "_cards" / _NAME
    return packaged if packaged.is_file() else _PACKAGE.parent / _NAME


def require_docker() -> str:
    """Return what ``docker compose`` calls itself; raises EngineUnavailableError where it does not work."""
    if shutil.which("docker") is None:
        raise EngineUnavailableError("Docker is not installed", fix=f"install it, {_ELSEWHERE}")
    version = _run("compose", "version")
    if version.returncode != 0:
        raise EngineUnavailableError(
            f"'docker compose' does not work: {_last_words(version)}",
            fix=f"install Docker's compose plugin, {_ELSEWHERE}",
        )
    daemon = _run("version", "--format", "{{.Server.Version}}")
    if daemon.returncode != 0:
        raise EngineUnavailableError(
            f"Docker does not answer: {_last_words(daemon)}", fix=f"start the Docker daemon, {_ELSEWHERE}"
        )
    return f"Docker {daemon.stdout.strip()}, {version.stdout.strip()}"


def start(names: Sequence[str], *, timeout_s: int) -> dict[str, list[str]]:
    """Start services and wait until they are healthy.

    Args:
        names: Of services, or of profiles, which stand for all their services; without any, every service that is in
            no profile is started.
        timeout_s: Seconds until they must be healthy.

    Returns:
        The addresses of each service by its name.

    Raises:
        UnknownNameError: There is no such service or profile.
        EngineUnavailableError: Docker fails, or they are not healthy in time.
    """
    require_docker()
    services = _services()
    profiles = {profile for service in services.values() for profile in service.profiles}
    for name in names:
        if name not in services and name not in profiles:
            raise UnknownNameError("service", name, [*services, *profiles])
    # without any names: the services of no profile
    wanted = [
        name
        for name, service in services.items()
        if (not {name, *service.profiles}.isdisjoint(names) if names else not service.profiles)
    ]
    active = sorted({profile for name in wanted for profile in services[name].profiles})
    flags = [flag for profile in active for flag in ("--profile", profile)]
    try:
        waiting = ("--detach", "--wait", "--wait-timeout", str(timeout_s))
        done = _compose(*flags, "up", *waiting, *wanted, limit_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailableError(
            f"{', '.join(wanted)} did not start within {timeout_s} s", fix="give it more time with --timeout"
        ) from error
    if done.returncode != 0:
        raise EngineUnavailableError(
            f"{', '.join(wanted)} did not start: {_last_words(done)}",
            fix=f"look at: docker compose -f '{compose_file()}' logs; a longer --timeout helps a slow download",
        )
    return {name: services[name].addresses for name in wanted}


def stop(*, volumes: bool) -> None:
    """Stop and remove the containers, with what they stored when ``volumes``; raises EngineUnavailableError."""
    require_docker()
    done = _compose(*_EVERY_PROFILE, "down", *(["--volumes"] if volumes else []))
    if done.returncode != 0:
        raise EngineUnavailableError(f"the servers could not be stopped: {_last_words(done)}", fix="see docker ps")


class _Service(NamedTuple):
    """A service of the file: where it listens, ``http://HOST:PORT`` unless a label says more, and its profiles."""

    addresses: list[str]
    profiles: list[str]


def _services() -> dict[str, _Service]:
    listed = _compose(*_EVERY_PROFILE, "config", "--format", "json")
    if listed.returncode != 0:
        raise EngineUnavailableError(
            f"'docker compose' cannot read '{compose_file()}': {_last_words(listed)}",
            fix="update Docker's compose plugin",
        )
    services = json.loads(listed.stdout)["services"]
    return {name: _Service(_addresses(service), service.get("profiles", [])) for name, service in services.items()}


def _addresses(service: Mapping[str, Any]) -> list[str]:
    labelled = service.get("labels", {}).get(_LABEL)
    if labelled is not None:
        return [labelled]
    return [f"http://{port.get('host_ip', '127.0.0.1')}:{port['published']}" for port in service.get("ports", [])]


def _compose(*arguments: str, limit_s: int | None = None) -> subprocess.CompletedProcess[str]:
    limit = None if limit_s is None else limit_s + _GRACE_S
    return _run("compose", "--file", str(compose_file()), *arguments, limit_s=limit)


def _run(*arguments: str, limit_s: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=limit_s)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return " | ".join(lines[-_WORDS:]) or f"exit code {done.returncode}"
