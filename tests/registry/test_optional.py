from __future__ import annotations

import json

import pytest

from harness.errors import EngineFailureError, MissingExtraError
from harness.registry.optional import require


def test_an_installed_module_is_returned():
    assert require("json", extra="x", feature="y") is json


@pytest.mark.parametrize("module", ["no_such_module", "no_such_module.inner"])
def test_a_missing_module_names_the_command(module):
    with pytest.raises(MissingExtraError) as caught:
        require(module, extra="qdrant", feature="backend qdrant", also=" and Java 21")
    assert str(caught.value) == (
        f"backend qdrant needs the Python module '{module}', which cannot be imported\n"
        "  pip install 'retrieval-harness[qdrant]' and Java 21"
    )


@pytest.mark.parametrize("line", ["import no_such_inner_module", "from json import nothing"])
def test_a_module_that_fails_inside_is_not_called_missing(tmp_path, monkeypatch, line):
    (tmp_path / "broken_client.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineFailureError, match="importing 'broken_client' failed"):
        require("broken_client", extra="qdrant", feature="backend qdrant")
