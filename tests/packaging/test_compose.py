"""The servers' compose file: valid, pinned, limited, local; and health checks that tell up from down."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("ruamel.yaml", reason="ruamel.yaml comes with check-jsonschema")

pytestmark = pytest.mark.packaging

SERVICES = ("qdrant", "chroma")
HEALTHY = {"qdrant": "/readyz", "chroma": "/api/v2/heartbeat"}


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.YAML(typ="safe").load(repository / "docker-compose.yml")
    return loaded


def test_it_is_valid_under_the_compose_schema(repository: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "--output-format",
        "json",
    ]
    result = subprocess.run(
        [*command, str(repository / "docker-compose.yml")], capture_output=True, text=True, check=False
    )
    assert json.loads(result.stdout)["status"] == "ok", result.stdout


def test_it_runs_these_services(compose: dict[str, Any]) -> None:
    assert tuple(compose["services"]) == SERVICES


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_limited_and_local(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service["image"])
    assert re.fullmatch(r"\d+g", service["mem_limit"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    volumes = [volume.partition(":")[0] for volume in service["volumes"]]
    assert volumes == [name]
    assert name in compose["volumes"]


class OnePath(http.server.BaseHTTPRequestHandler):
    """Answers 200 at one path, 503 elsewhere."""

    healthy = "/"

    def do_GET(self) -> None:
        self.send_response(200 if self.path == self.healthy else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Quiet."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), OnePath) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield listening
        listening.shutdown()


def health(compose: dict[str, Any], name: str, port: int) -> int:
    """The exit status of a service's health check, pointed at another port."""
    kind, *command = compose["services"][name]["healthcheck"]["test"]
    assert kind == "CMD"
    own = compose["services"][name]["ports"][0].rpartition(":")[2]
    command = [part.replace("$$", "$").replace(f"127.0.0.1/{own}", f"127.0.0.1/{port}") for part in command]
    return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode


@pytest.mark.parametrize("name", SERVICES)
def test_health_checks_tell_up_from_down(
    compose: dict[str, Any], name: str, server: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnePath, "healthy", HEALTHY[name])
    assert health(compose, name, server.server_port) == 0
    monkeypatch.setattr(OnePath, "healthy", "/elsewhere")
    assert health(compose, name, server.server_port) != 0
    server.shutdown()
    server.server_close()
    assert health(compose, name, server.server_port) != 0
