"""A model's digest changes with its content, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.encoders.settings import Settings
from harness.encoders.sources import model_digest
from harness.registry.parameters import encoder_parameters


def digest(model: object, **given: object) -> str | None:
    defaults = {name: one.default for name, one in encoder_parameters("dense").items()}
    return model_digest(Settings.of("dense", {**defaults, "model": str(model), **given}))  # type: ignore[arg-type]


def test_a_folder_by_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    before = digest(folder)
    assert before is not None
    assert len(before) == 64
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README.md").write_text("for people")
    assert digest(copy) == before
    assert digest(folder, batch_size=1, query_prompt="x") == before
    (folder / "model.safetensors").write_bytes(b"trained")
    assert digest(folder) != before


def test_precomputed_vectors_by_those_of_both_roles(tmp_path: Path) -> None:
    for role in ("documents", "queries"):
        np.save(tmp_path / f"{role}.npy", np.ones((1, 2)))
    made = [digest(f"precomputed:{tmp_path}")]
    for role in ("documents", "queries"):
        np.save(tmp_path / f"{role}.npy", np.zeros((1, 2)))
        made.append(digest(f"precomputed:{tmp_path}"))
    assert len(set(made)) == 3


def test_a_python_object_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_model.py").write_text("Model = None\n")
    before = digest("python:own_model:Model")
    (tmp_path / "own_model.py").write_text("Model = object()\n")
    assert digest("python:own_model:Model") not in (None, before)


def test_what_has_no_content_here_has_none() -> None:
    assert digest("random") is None
    assert digest("http:m", endpoint="http://127.0.0.1:1/v1") is None
