"""A package that is installed beside the harness and offers a backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

CARD = """
name = "toy"
summary = "a backend of another package"
engine = "toy_package:ToyEngine"
encoder = "none"
[reference]
kind = "none"
"""

MODULE = """
from pathlib import Path

from harness.engines.interface import Capabilities

class ToyEngine:
    capabilities = Capabilities("text", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True)

def folder():
    return Path(__file__).parent / "toy_cards"
"""

USE = """
from harness.plan.backend_spec import parse_backends
from harness.registry.lookup import find_cards, load_engine

(spec,) = parse_backends("toy")
print(sorted(find_cards("backends")), load_engine(spec.card).__name__)
"""


def test_an_installed_package_offers_a_backend(tmp_path, repository):
    site = tmp_path / "site"
    (site / "toy_cards").mkdir(parents=True)
    (site / "toy_cards" / "toy.toml").write_text(CARD)
    (site / "toy_package.py").write_text(MODULE)
    metadata = site / "toy_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[harness.backends]\ntoy = toy_package:folder\n")
    paths = os.pathsep.join([str(repository), str(site)])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", USE]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    bundled = sorted(path.stem for path in Path(repository, "backends").glob("*.toml"))
    assert result.stdout == f"{sorted([*bundled, 'toy'])} ToyEngine\n", result.stderr
