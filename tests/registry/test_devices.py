"""Devices that are not there, in the words of PyTorch's builds with CUDA and without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import EngineUnavailableError, UsageError
from harness.exact.dense import on_device
from harness.registry.devices import MISSING_DEVICE_FIX, missing_device, require_device

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
NO_SUCH_NUMBER = "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
BUILDS = [
    pytest.param(
        ("2.13.0+cpu", False, AssertionError("Torch not compiled with CUDA enabled")),
        "device=cuda:7 is not there: Torch not compiled with CUDA enabled (torch 2.13.0+cpu, built without CUDA)",
        id="without-cuda",
    ),
    pytest.param(
        ("2.13.0+cu130", True, RuntimeError(NO_DRIVER)),
        f"device=cuda:7 is not there: {NO_DRIVER} (torch 2.13.0+cu130, built with CUDA)",
        id="without-driver",
    ),
    pytest.param(
        ("2.13.0+cu130", True, RuntimeError(NO_SUCH_NUMBER)),
        "device=cuda:7 is not there: CUDA error: invalid device ordinal (torch 2.13.0+cu130, built with CUDA)",
        id="without-that-gpu",
    ),
]


class Torch:
    """As much of PyTorch as is asked for a device."""

    def __init__(self, version: str, built: bool, refusal: Exception | None) -> None:
        self.__version__ = version
        self.backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: built))
        self.cuda = SimpleNamespace(is_available=lambda: refusal is None)
        self.refusal = refusal

    def empty(self, _size: int, *, device: str) -> None:
        if device != "cpu" and self.refusal is not None:
            raise self.refusal


@pytest.mark.parametrize(("build", "said"), BUILDS)
def test_the_reason_and_the_build_are_told(
    build: tuple[str, bool, Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = Torch(*build)
    assert missing_device(torch, "cuda:7") == said
    assert missing_device(torch, "cpu") is None
    assert missing_device(torch, "auto") is None

    def found(*_: Any, **__: Any) -> Torch:
        return torch

    monkeypatch.setattr("harness.registry.devices.require", found)
    with pytest.raises(EngineUnavailableError) as refused:
        require_device("cuda:7", feature="encoder dense")
    assert (refused.value.problem, refused.value.fix) == (f"encoder dense: {said}", MISSING_DEVICE_FIX)
    monkeypatch.setattr(on_device, "import_module", found)
    monkeypatch.setattr(on_device, "find_spec", found)
    with pytest.raises(UsageError) as unfit:
        on_device.choose_device("cuda:7")
    assert (unfit.value.problem, unfit.value.fix) == (said, MISSING_DEVICE_FIX)


def test_a_device_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = Torch("2.13.0+cu130", True, None)
    assert missing_device(torch, "cuda:1") is None
    monkeypatch.setattr(on_device, "import_module", lambda _: torch)
    monkeypatch.setattr(on_device, "find_spec", lambda _: torch)
    assert on_device.choose_device("cuda") == "cuda"


def test_the_installed_build_says_why_as_well() -> None:
    torch = pytest.importorskip("torch")
    assert missing_device(torch, "cpu") is None
    said = missing_device(torch, "cuda:99")
    assert said is not None
    assert "CUDA" in said
    assert str(torch.__version__) in said
    assert "Expected one of cpu, cuda" in str(missing_device(torch, "gpu"))
