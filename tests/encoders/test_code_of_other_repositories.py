"""A model whose program lies in another repository of the hub: that repository's commit is in the model's key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_stub import COMMIT, HubStub, serving, use
from installed import skip_module_without

from harness.encoders.settings import Settings
from harness.encoders.sources import encoding_key
from harness.errors import DataError, EngineUnavailableError
from harness.registry.parameters import encoder_parameters

skip_module_without("huggingface_hub")

pytestmark = pytest.mark.integration

CODE = "people/code"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    served = tmp_path / "served"
    served.mkdir()
    (served / "modeling.py").write_text("class Model: ...\n")
    (served / "README.md").write_text("for people")
    with serving(HubStub(CODE, served)) as stub:
        use(stub, tmp_path / "hub", monkeypatch)
        yield stub


def model(folder: Path, reference: object, *, modules: list[dict[str, str]] | None = None) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": reference}}))
    (folder / "model.safetensors").write_bytes(b"weights")
    if modules is not None:
        (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def key(folder: Path, *, remote: bool = True, fetch: bool = True) -> dict[str, object]:
    defaults = {name: parameter.default for name, parameter in encoder_parameters("dense").items()}
    settings = Settings.of("dense", {**defaults, "model": str(folder), "trust_remote_code": remote})
    found = encoding_key(settings, "documents", "digest", fetch=fetch)["model"]
    assert isinstance(found, dict)
    return found


def test_the_commit_of_the_program_is_in_the_key(hub: HubStub, tmp_path: Path) -> None:
    folder = model(tmp_path / "model", f"{CODE}--modeling.Model")
    first = key(folder)
    assert first["foreign_code"] == {CODE: COMMIT}
    assert hub.fetched == ["modeling.py"]
    hub.commit = COMMIT[::-1]  # the program's branch moves on
    assert key(folder)["foreign_code"] == {CODE: COMMIT[::-1]}
    assert key(folder, fetch=False)["foreign_code"] == {CODE: COMMIT[::-1]}


def test_modules_and_lists_name_programs_too(hub: HubStub, tmp_path: Path) -> None:
    modules = [{"type": f"{CODE}--modeling.Model", "path": ""}, {"type": "sentence_transformers.models.Pooling"}]
    assert key(model(tmp_path / "modules", "modeling.Model", modules=modules))["foreign_code"] == {CODE: hub.commit}
    assert key(model(tmp_path / "list", [None, f"{CODE}--modeling.Model"]))["foreign_code"] == {CODE: hub.commit}


def test_without_remote_code_or_another_repository_nothing_is_asked(hub: HubStub, tmp_path: Path) -> None:
    foreign, own = model(tmp_path / "model", f"{CODE}--modeling.Model"), model(tmp_path / "own", "modeling.Model")
    assert "foreign_code" not in key(foreign, remote=False)
    assert "foreign_code" not in key(own)
    assert hub.fetched == []


def test_a_program_that_cannot_be_had_is_told(hub: HubStub, tmp_path: Path) -> None:
    folder = model(tmp_path / "model", "people/gone--modeling.Model")
    for fetch in (True, False):
        with pytest.raises(EngineUnavailableError, match=r"program of hub repository 'people/gone'.*\n.*hf download"):
            key(folder, fetch=fetch)
    assert hub.fetched == []


def test_a_list_of_classes_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = model(tmp_path / "model", "modeling.Model")
    (folder / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json"):
        key(folder)
