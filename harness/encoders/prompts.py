"""Choose the text that is put before each query or document of a model.

Many models were trained with a text before each query, and some with another before each document. Many of them do not
declare it in their files, so ``prompts.toml`` lists known prompts by the models' names on the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.inputs import Inputs
from harness.encoders.model_checks import CONFIG
from harness.encoders.model_files import model_folder
from harness.encoders.settings import INSTRUCTION, Role, Settings
from harness.errors import DataError, UsageError
from harness.registry.strict_toml import Table, read_document

_TABLE = Path(__file__).with_name("prompts.toml")
_PROMPT_NAMES: Mapping[Role, tuple[str, ...]] = {"queries": ("query",), "documents": ("document", "passage", "corpus")}
"""Declared names that sentence-transformers' encode_query and encode_document apply; the first that exists wins."""


class Prompt(NamedTuple):
    """A text put before others, "" for no prompt. ``origin`` is the source of the prompt, "" for the user or none."""

    text: str
    origin: str = ""


class KnownPrompts(NamedTuple):
    """Prompts that a model (by its name on the hub) is known to need, "" for none, and the source of the fact."""

    model: str
    query: str
    document: str
    source: str


def prompted(texts: Inputs, role: Role, settings: Settings) -> list[str]:
    """Return the texts with the applied prompt before each."""
    prompt = applied_prompt(settings, role).text
    return [prompt + text for text in text_list(texts)]


def text_list(texts: Inputs) -> list[str]:
    """Return the column of texts as a list."""
    if texts.texts is None:
        raise AssertionError("texts without their column")
    values: list[str] = texts.texts.to_pylist()
    return values


def applied_prompt(settings: Settings, role: Role) -> Prompt:
    """Return the prompt that is put before each text of ``role``.

    The user's choice comes first, ``none`` included; then the prompt that the model's files declare under the name of
    the role, or by default, as sentence-transformers chooses; then, if they declare no text at all, the model's known
    prompt.

    Raises:
        UsageError: The model declares no prompt of the name that was chosen, or the prompt lacks an instruction.
        DataError: The model's configuration cannot be read.
    """
    configuration = _configuration(settings)
    declared = _declared(configuration)
    if (name := settings.prompt_names[role]) is not None:
        if name not in declared:
            raise _undeclared(settings.source.name, name, role, declared)
        return Prompt(declared[name])
    if (chosen := settings.prompts[role]) is not None:
        if INSTRUCTION in chosen:
            raise UsageError(
                f"a prompt of {role} holds {INSTRUCTION}, and no dataset with an instruction is searched",
                fix="write the text of the instruction",
            )
        return Prompt(chosen)
    if any(declared.values()):
        names = [name for name in (*_PROMPT_NAMES[role], configuration.get("default_prompt_name")) if name in declared]
        text = declared[names[0]] if names else ""
        return Prompt(text, f"its configuration's '{names[0]}'" if text else "")
    source, hub_name = settings.source, ""  # a folder's own name is anybody's choice
    if source.kind == "hub":
        hub_name = source.name
    elif source.has_files:
        hub_name = str(_read(model_folder(settings) / "config.json").get("_name_or_path") or "")
    needed = published_prompts().get(hub_name.casefold())
    text = "" if needed is None else needed.query if role == "queries" else needed.document
    return Prompt(text, f"the prompt of {hub_name}" if text else "")


def _undeclared(model: str, name: str, role: Role, declared: Mapping[str, str]) -> UsageError:
    """Return the refusal of a prompt's name, with a declared name for texts of this role if there is one."""
    likely = next((prompt_name for prompt_name in _PROMPT_NAMES[role] if prompt_name in declared), None)
    hint = f"did you mean '{likely}', which it declares for {role}? " if likely is not None else ""
    return UsageError(
        f"model '{model}' declares no prompt '{name}'", fix=f"{hint}it declares: {', '.join(declared) or 'none'}"
    )


def declared_prompts(settings: Settings) -> Mapping[str, str]:
    """Return the prompts that a model's files declare, by name, some perhaps empty; none for a model without files."""
    return _declared(_configuration(settings))


@cache
def published_prompts() -> Mapping[str, KnownPrompts]:
    """Return the prompts of ``prompts.toml`` by the model's name on the hub, in small letters, in the file's order."""
    table = Table(read_document(_TABLE).values)
    prompts: dict[str, KnownPrompts] = {}
    for family in table.tables().values():
        query, document = family.optional("query", str) or "", family.optional("document", str) or ""
        source = family.required("source", str)
        for model in family.strings("models") or ():
            prompts[model.casefold()] = KnownPrompts(model, query, document, source)
        family.close()
    table.raise_problems(_TABLE)
    return prompts


def _configuration(settings: Settings) -> Mapping[str, Any]:
    """Return sentence-transformers' configuration of a model; empty for a model without files or without one."""
    return _read(model_folder(settings) / CONFIG) if settings.source.has_files else {}


def _declared(configuration: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text or "") for name, text in (configuration.get("prompts") or {}).items()}


def _read(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="fetch the model again") from error
    if not isinstance(content, dict):
        raise DataError(str(path), ["is not a JSON object"], fix="fetch the model again")
    return content
