"""What is put before texts: prompts that were given, that a model's files declare, or that it is known to need.

Many models were trained with a text before each query, and some with another before each document. Many of them do not
declare it in their files, so ``prompts.toml`` holds what is known of them, by their names on the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.encoders.folders import model_folder
from harness.encoders.settings import Role, Settings
from harness.encoders.whole_models import CONFIG
from harness.errors import DataError
from harness.registry.strict_toml import Table, read_document

__all__ = ["KnownPrompts", "Prompt", "applied_prompt", "declared_prompts", "known_prompts"]

_TABLE = Path(__file__).with_name("prompts.toml")
_OWN_NAMES: Mapping[Role, tuple[str, ...]] = {"queries": ("query",), "documents": ("document", "passage", "corpus")}
"""Names of declared prompts that sentence-transformers' encode_query and encode_document apply, the first there is."""


class Prompt(NamedTuple):
    """A text that is put before others, "" for none. ``origin`` says who asked for it, "" for the user or nobody."""

    text: str
    origin: str = ""


class KnownPrompts(NamedTuple):
    """The prompts that a model (by its name on the hub) is known to need, "" for none, and who states them."""

    model: str
    query: str
    document: str
    source: str


def applied_prompt(settings: Settings, role: Role) -> Prompt:
    """Return what is put before each text of ``role``.

    In this order: what was given, be it nothing (``none``); of a model with files the prompt that they declare under
    the name of the role, or by default, as sentence-transformers chooses; and where they declare none that says
    anything, the prompt that the model is known to need.

    Raises UsageError for a name that the model does not declare, DataError for a configuration that cannot be read.
    """
    configuration = _configuration(settings)
    declared = _declared(configuration)
    given = settings.given_prompt(role, declared)
    if given is not None:
        return Prompt(given)
    if any(declared.values()):
        names = [name for name in (*_OWN_NAMES[role], configuration.get("default_prompt_name")) if name in declared]
        text = declared[names[0]] if names else ""
        return Prompt(text, f"its configuration's '{names[0]}'" if text else "")
    name = _name(settings)
    known = known_prompts().get(name.casefold())
    text = "" if known is None else known.query if role == "queries" else known.document
    return Prompt(text, f"what {name} needs" if text else "")


def declared_prompts(settings: Settings) -> Mapping[str, str]:
    """Return the prompts that a model's files declare, by name, some perhaps empty; none for a model without files."""
    return _declared(_configuration(settings))


@cache
def known_prompts() -> Mapping[str, KnownPrompts]:
    """Return the prompts of ``prompts.toml`` by the model's name on the hub, in small letters, in the file's order."""
    table = Table(read_document(_TABLE).values)
    found: dict[str, KnownPrompts] = {}
    for family in table.tables().values():
        query, document = family.optional("query", str) or "", family.optional("document", str) or ""
        source = family.required("source", str)
        for model in family.strings("models") or ():
            found[model.casefold()] = KnownPrompts(model, query, document, source)
        family.close()
    table.raise_problems(_TABLE)
    return found


def _configuration(settings: Settings) -> Mapping[str, Any]:
    """Return sentence-transformers' configuration of a model; nothing for a model without files or without one."""
    if not settings.source.has_files:
        return {}
    return _read(model_folder(settings) / CONFIG)


def _declared(configuration: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text or "") for name, text in (configuration.get("prompts") or {}).items()}


def _name(settings: Settings) -> str:
    """Return a model's name on the hub, "" where nothing says it: a folder's own name is anybody's choice."""
    source = settings.source
    if source.kind == "hub":
        return source.name
    return str(_read(model_folder(settings) / "config.json").get("_name_or_path") or "") if source.has_files else ""


def _read(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="fetch the model again") from error
    if not isinstance(found, dict):
        raise DataError(str(path), ["is no JSON object"], fix="fetch the model again")
    return found
