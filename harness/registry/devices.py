"""Devices of PyTorch, and the requirements that an unavailable device lacks."""

from __future__ import annotations

from typing import Any

from harness.errors import EngineUnavailableError
from harness.registry.optional import require

MISSING_DEVICE_FIX = "use device=cpu, device=auto for the best available device, or install the missing package"


def require_device(device: str, *, feature: str) -> None:
    """Raise EngineUnavailableError with the missing requirement if PyTorch cannot use ``device``.

    ``feature`` needs it (``"encoder dense"``). Raises MissingExtraError without PyTorch.
    """
    missing = missing_device(require("torch", extra="dense", feature=feature), device)
    if missing is not None:
        raise EngineUnavailableError(f"{feature}: {missing}", fix=MISSING_DEVICE_FIX)


def missing_device(torch: Any, device: str) -> str | None:
    """Return the missing requirement for ``device``, a name of PyTorch's or ``auto``; None if nothing is missing.

    PyTorch's own reason depends on how it was built: without CUDA it says so, with CUDA it finds no driver, or no GPU
    of that number. So the build is reported with it.
    """
    if device == "auto":
        return None
    try:
        torch.empty(1, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        build = "built with CUDA" if torch.backends.cuda.is_built() else "built without CUDA"
        return f"device={device} is not there: {reason} (torch {torch.__version__}, {build})"
    return None
