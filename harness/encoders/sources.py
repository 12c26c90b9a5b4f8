"""For each source of vectors: the key of encodings, which decides them, and the model that gives them."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array
from harness.encoders.model_files import find_module, model_files, model_folder, remote_code
from harness.encoders.precomputed import PrecomputedEncoder, find_files, require_files
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Facts, Model, Role, Settings
from harness.errors import EngineUnavailableError, MissingExtraError, UsageError
from harness.store.cache import JSON, file_digest

_SCHEME = 2
"""Version of the key: raised when a change of the harness changes the vectors that some model gives."""
_DIMENSIONS = 384
"""Width of random vectors without truncate_dim, the same as all-MiniLM-L6-v2's."""


def create_model(settings: Settings) -> Model:
    """Load the model that the settings name; runs in a worker. Raises HarnessError."""
    match settings.source.kind:
        case "precomputed":
            return PrecomputedEncoder(settings)
        case "random":
            return RandomVectors(settings)
        case "python":
            from harness.encoders.python_encoder import PythonEncoder

            return PythonEncoder(settings)
        case "http":
            from harness.encoders.embeddings_endpoint import EndpointModel

            return EndpointModel(settings)
        case _:
            from harness.encoders.sentence_transformer import SentenceTransformerModel

            return SentenceTransformerModel.load(settings)


def refuse_missing(settings: Settings, *, documents: bool = True) -> None:
    """Refuse files and prompts that a model lacks, as far as that is known without loading or fetching it.

    ``documents`` says whether vectors of documents are needed: not for an index that is only searched.

    Raises:
        DataError: A file of precomputed vectors, or of their ids, is missing.
        UsageError: The model declares no prompt of a name that was chosen.
    """
    if settings.source.kind == "precomputed":
        roles: tuple[Role, ...] = ("documents", "queries") if documents else ("queries",)
        for role in roles:
            require_files(Path(settings.source.name), role)
    elif any(settings.prompt_names.values()):
        with suppress(EngineUnavailableError, MissingExtraError):  # a hub model that is yet to be fetched
            for role in settings.prompt_names:
                applied_prompt(settings, role)


def encoding_key(settings: Settings, role: Role, texts: str, *, fetch: bool) -> dict[str, JSON]:
    """Return everything that changes the vectors of the texts with digest ``texts``, and nothing else.

    Batch size, device, versions of libraries, names and places of models and collections are left out. The model is
    not loaded; ``fetch`` downloads a hub model that is not in the cache.

    Raises:
        UsageError, DataError, EngineUnavailableError, MissingExtraError: The model cannot be had.
    """
    return {
        "scheme": _SCHEME,
        "encoder": settings.encoder,
        "role": role,
        "model": _model_key(settings, role, fetch=fetch),
        "prompt": applied_prompt(settings, role).text,
        "truncate_dim": settings.truncate_dim,
        "normalize": settings.normalize,
        "max_active_dims": settings.max_active_dims,
        "max_seq_length": settings.max_seq_length,
        "dtype": settings.dtype,
        "texts": texts,
    }


def model_digest(settings: Settings) -> str | None:
    """Return the id of a model's content: its commit on the hub, else a SHA-256; None for an endpoint and random.

    The SHA-256 covers the files that are read: weights, tokenizer and configuration, the module of a Python object, or
    the precomputed vectors of both roles. A hub model that runs another repository's program has a SHA-256 too, which
    covers that program's commit.

    Raises as :func:`encoding_key` without ``fetch``.
    """
    kind = settings.source.kind
    if kind in ("random", "http"):
        return None
    keys = [_model_key(settings, role, fetch=False) for role in settings.prompts]
    if kind == "hub" and "foreign_code" not in keys[0]:
        return model_folder(settings).name
    if kind == "python":
        return str(keys[0]["module_sha256"])
    if "files_sha256" in keys[0] and "foreign_code" not in keys[0]:
        return str(keys[0]["files_sha256"])
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()


def _model_key(settings: Settings, role: Role, *, fetch: bool) -> dict[str, JSON]:
    source = settings.source
    match source.kind:
        case "precomputed":
            needed = role == "queries"  # there may be no documents: encoding them shows it
            path = Path(source.name)
            if path.is_file():  # its name says nothing about its content
                return {"hdf5": _digest(path)}
            files = find_files(path, role, needed=needed)
            return {"files": {file.name: _digest(file) for file in files}}
        case "random":
            return {"random": settings.seed}
        case "python":
            file = find_module(source.name.partition(":")[0])
            if file is None:
                raise UsageError(
                    f"there is no module for model=python:{source.name}", fix="put its folder on PYTHONPATH"
                )
            return {"object": source.name, "module_sha256": _digest(file), "revision": settings.revision}
        case "http":
            return {"endpoint": settings.endpoint, "model": source.name, "revision": settings.revision}
        case _:
            folder = model_folder(settings, fetch=fetch)
            listing = "".join(f"{_digest(path)}  {name}\n" for name, path in model_files(folder))
            code = remote_code(folder, fetch=fetch) if settings.trust_remote_code else {}
            return {
                "files_sha256": hashlib.sha256(listing.encode()).hexdigest(),
                "code": settings.trust_remote_code,
                **({"foreign_code": code} if code else {}),
            }


def _digest(path: Path) -> str:
    stat = path.stat()
    return _digest_once(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest_once(path: Path, _size: int, _modified_ns: int) -> str:
    """Compute a file's digest once, until its size or time changes."""
    return file_digest(path)


class RandomVectors:
    """The floor of chance: normal vectors of unit length, drawn from seed, role and id, independent of the texts."""

    def __init__(self, settings: Settings) -> None:
        self._seed, self._dimensions = settings.seed, settings.truncate_dim or _DIMENSIONS

    @property
    def facts(self) -> Facts:
        """The seed."""
        return {"seed": self._seed}

    @property
    def lengths(self) -> None:
        """Nothing: the texts are not read."""
        return None

    def encode(self, texts: Inputs, role: Role) -> Float32Array:
        """Return float32 (n, d)."""
        rows = np.empty((len(texts), self._dimensions), dtype=np.float32)
        for row, name in enumerate(texts.ids):
            digest = hashlib.sha256(f"{self._seed}\n{role}\n{name}".encode()).digest()
            drawn = np.random.Generator(np.random.PCG64(int.from_bytes(digest))).standard_normal(self._dimensions)
            rows[row] = drawn / np.linalg.norm(drawn)
        return rows
