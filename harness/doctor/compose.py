"""Servers in containers: ``docker compose`` on the harness's own compose file."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import EngineUnavailableError, UnknownNameError

__all__ = ["addresses", "compose_file", "require_docker", "start", "stop"]

_PACKAGE = Path(__file__).parent.parent
_NAME = "docker-compose.yml"
_ELSEWHERE = "or use a server that runs elsewhere: qdrant:url=http://HOST:6333"
_WORDS = 5
_GRACE_S = 30


def compose_file() -> Path:
    """The compose file inside the package, or beside it in a checkout."""
    packaged = _PACKAGE / "_cards" / _NAME
    return packaged if packaged.is_file() else _PACKAGE.parent / _NAME


def require_docker() -> str:
    """What ``docker compose`` calls itself; raises EngineUnavailableError where it does not work."""
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


def start(services: Sequence[str], *, timeout_s: int) -> dict[str, list[str]]:
    """Start ``services`` (none named: all) and wait until they are healthy; their addresses by name.

    Raises UnknownNameError, and EngineUnavailableError when Docker fails or they are not healthy within ``timeout_s``.
    """
    require_docker()
    known = addresses()
    for name in services:
        if name not in known:
            raise UnknownNameError("service", name, known)
    wanted = list(services) or list(known)
    try:
        done = _compose("up", "--detach", "--wait", "--wait-timeout", str(timeout_s), *wanted, limit_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailableError(
            f"{', '.join(wanted)} did not start within {timeout_s} s", fix="give it more time with --timeout"
        ) from error
    if done.returncode != 0:
        raise EngineUnavailableError(
            f"{', '.join(wanted)} did not start: {_last_words(done)}",
            fix=f"look at: docker compose -f '{compose_file()}' logs; a longer --timeout helps a slow download",
        )
    return {name: known[name] for name in wanted}


def stop(*, volumes: bool) -> None:
    """Stop and remove the containers, with what they stored when ``volumes``; raises EngineUnavailableError."""
    require_docker()
    done = _compose("down", *(["--volumes"] if volumes else []))
    if done.returncode != 0:
        raise EngineUnavailableError(f"the servers could not be stopped: {_last_words(done)}", fix="see docker ps")


def addresses() -> dict[str, list[str]]:
    """Where each service of the file listens, ``http://HOST:PORT`` in the file's order."""
    told = _compose("config", "--format", "json")
    if told.returncode != 0:
        raise EngineUnavailableError(
            f"'docker compose' cannot read '{compose_file()}': {_last_words(told)}",
            fix="update Docker's compose plugin",
        )
    services = json.loads(told.stdout)["services"]
    return {name: [_address(port) for port in service.get("ports", [])] for name, service in services.items()}


def _address(port: dict[str, str]) -> str:
    return f"http://{port.get('host_ip', '127.0.0.1')}:{port['published']}"


def _compose(*arguments: str, limit_s: int | None = None) -> subprocess.CompletedProcess[str]:
    limit = None if limit_s is None else limit_s + _GRACE_S
    return _run("compose", "--file", str(compose_file()), *arguments, limit_s=limit)


def _run(*arguments: str, limit_s: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=limit_s)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return " | ".join(lines[-_WORDS:]) or f"exit code {done.returncode}"
