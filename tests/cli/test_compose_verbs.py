"""`harness up` and `harness down`, with a `docker` that writes down what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from warm_harness import harness_command

FAKE = """#!{python}
import json, os, sys
folder = os.environ["FAKE_DOCKER"]
arguments = sys.argv[1:]
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
verb = next((word for word in ("config", "up", "down", "version") if word in arguments), "")
failing = os.path.join(folder, "fail-" + ("daemon" if arguments[0] == "version" else verb))
if os.path.exists(failing):
    sys.stderr.write(open(failing).read())
    sys.exit(1)
if verb == "config":
    services = {{
        name: {{"ports": [{{"host_ip": "127.0.0.1", "published": port}} for port in ports]}}
        for name, ports in {{"qdrant": ["6333", "6334"], "chroma": ["8000"]}}.items()
    }}
    services["postgresql"] = {{
        "labels": {{"harness.url": "postgresql://harness@127.0.0.1:5432/harness"}},
        "ports": [{{"host_ip": "127.0.0.1", "published": "5432"}}],
    }}
    if "*" in arguments:
        peer = {{"profiles": ["qdrant-cluster"], "ports": [{{"host_ip": "127.0.0.1", "published": "6343"}}]}}
        services |= {{"qdrant-cluster-1": peer, "qdrant-cluster-2": peer}}
    print(json.dumps({{"services": services}}))
elif verb == "version":
    print("28.2.2" if arguments[0] == "version" else "Docker Compose version v2.40.0")
"""


class Docker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(0o755)

    def run(self, *arguments: str, there: bool = True) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}{os.pathsep}/usr/bin" if there else str(self.folder)
        return subprocess.run(
            [*harness_command(), *arguments],
            env={**os.environ, "PATH": path, "FAKE_DOCKER": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def fail(self, step: str, words: str) -> None:
        (self.folder / f"fail-{step}").write_text(words)


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(tmp_path)


def test_up_starts_waits_and_says_where(docker: Docker, repository: Path) -> None:
    result = docker.run("up", "qdrant", "--timeout", "7")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "qdrant  http://127.0.0.1:6333  http://127.0.0.1:6334\n"
    file = str(repository / "docker-compose.yml")
    assert docker.calls[-1] == ["compose", "--file", file, "up", "--detach", "--wait", "--wait-timeout", "7", "qdrant"]


def test_up_starts_everything(docker: Docker) -> None:
    result = docker.run("up")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["qdrant", "chroma", "postgresql"]
    assert result.stdout.splitlines()[-1] == "postgresql  postgresql://harness@127.0.0.1:5432/harness"
    assert docker.calls[-1][-4:] == ["180", "qdrant", "chroma", "postgresql"]
    assert "--profile" not in docker.calls[-1]


def test_up_starts_all_services_of_a_profile(docker: Docker) -> None:
    result = docker.run("up", "qdrant-cluster")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["qdrant-cluster-1", "qdrant-cluster-2"]
    assert docker.calls[-1][3:6] == ["--profile", "qdrant-cluster", "up"]
    assert docker.calls[-1][-2:] == ["qdrant-cluster-1", "qdrant-cluster-2"]


def test_up_starts_one_peer_of_a_profile_by_its_name(docker: Docker) -> None:
    docker.run("up", "qdrant-cluster-1")
    assert docker.calls[-1][3:6] == ["--profile", "qdrant-cluster", "up"]
    assert docker.calls[-1][-2:] == ["180", "qdrant-cluster-1"]


@pytest.mark.parametrize(("given", "told"), [((), ["down"]), (("--volumes",), ["down", "--volumes"])])
def test_down(docker: Docker, given: tuple[str, ...], told: list[str]) -> None:
    result = docker.run("down", *given)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert docker.calls[-1][3:] == ["--profile", "*", *told]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_without_docker(docker: Docker, verb: str) -> None:
    result = docker.run(verb, there=False)
    assert result.returncode == 3
    assert result.stderr == (
        "harness: Docker is not installed\n"
        "  install it, or use a server that runs elsewhere: qdrant:url=http://HOST:6333\n"
    )


@pytest.mark.parametrize(
    ("step", "words", "message"),
    [
        ("version", "docker: unknown command: docker compose\n", "'docker compose' does not work: docker: unknown com"),
        ("daemon", "Cannot connect to the Docker daemon\n", "Docker does not answer: Cannot connect to the Docker"),
        ("config", "yaml: line 3\n", "cannot read '"),
        (
            "up",
            "a\nb\ncontainer qdrant is unhealthy\n",
            "qdrant did not start: a | b | container qdrant is unhealthy\n",
        ),
    ],
)
def test_what_docker_complains_of_is_passed_on(docker: Docker, step: str, words: str, message: str) -> None:
    docker.fail(step, words)
    result = docker.run("up", "qdrant")
    assert result.returncode == 3
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 2, "what happened, and what to do"
    assert result.stdout == ""


def test_an_unknown_service_is_named_with_the_nearest(docker: Docker) -> None:
    result = docker.run("up", "qdrnt")
    assert result.returncode == 2
    assert " ".join(result.stderr.split()) == (
        "harness: unknown service 'qdrnt' did you mean 'qdrant'? known: chroma, postgresql, qdrant, qdrant-cluster, "
        "qdrant-cluster-1, qdrant-cluster-2"
    )
