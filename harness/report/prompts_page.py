"""The reference page of prompts, written from the table of those that models are known to need."""

from __future__ import annotations

import json
from itertools import groupby

from harness.encoders.prompts import KnownPrompts, known_prompts

__all__ = ["prompts_page"]

_INTRODUCTION = """\
# Prompts that models need

Written by `python docs/generate.py` from the table in `harness/encoders/prompts.toml`.

These models were trained with a text before each query, and some with another before each document. A model of the hub
gets them by its name, a folder by the `_name_or_path` of its `config.json`, where the model's own
`config_sentence_transformers.json` declares no prompt that says anything; see
[Prompts](../how-to/dense-and-sparse-models.md#prompts) for what comes first. The figures of these models were not
measured here with them. Prompts of other models are for you to give.
"""
_HEAD = "| models | `query_prompt` | `document_prompt` | stated by |\n| --- | --- | --- | --- |"


def prompts_page() -> str:
    """The whole page, as Markdown."""
    families = groupby(known_prompts().values(), key=lambda one: one[1:])
    return "\n".join([_INTRODUCTION, _HEAD, *(_row(list(models)) for _, models in families), ""])


def _row(models: list[KnownPrompts]) -> str:
    first = models[0]
    names = ", ".join(f"`{one.model}`" for one in models)
    return f"| {names} | {_spelt(first.query)} | {_spelt(first.document)} | {first.source} |"


def _spelt(prompt: str) -> str:
    """A prompt as a backend expression takes it."""
    return f"`{json.dumps(prompt, ensure_ascii=False)}`" if prompt else "–"
