"""The page on ``harness.toml``, read off the verbs' own options."""

from __future__ import annotations

from harness.cli.config import FILE_NAME, configured_verbs, settings_of
from harness.cli.init import Choices, template
from harness.plan.option_fields import OptionField

__all__ = ["config_page"]

_KINDS = {
    "bool": "true or false",
    "int": "integer",
    "float": "number",
    "str": "string",
    "list": "strings",
    "path": "path",
}

_HEAD = f"""# {FILE_NAME}

`harness {{verbs}}` take from `{FILE_NAME}` in the current folder, or from the file that `--config` names, what the
command line does not say; what neither says has its default. A list on the command line replaces the file's, as every
option does. `harness init` [writes one](../how-to/run-in-ci.md):

```toml
{{example}}```

- There is a table for each command. Its keys are the command's options and its argument, with `_` for `-`: `--no-text`
  is `no_text = true`, and `--no-timing`, which is the other side of `--timing`, is `timing = false`.
- An option that may be given several times takes a list of strings, or one string. One that lists names between commas
  takes such a string, or a list.
- Paths are relative to the file, inside expressions too (`chroma:path=index`, `run:file.trec`).
- Every table is looked at, whichever command runs. Unknown tables, unknown keys and wrong types are refused all at
  once, with the nearest match; the exit code is 2.
- The options that were taken are named on stderr, and `report.json` holds all of them as they were resolved.
- In Python, `harness.check`, `harness.compare` and `harness.regress` take the same names as keywords, but for what only
  a terminal shows, and read no file. [Pytest](../how-to/run-in-ci.md#in-pytest) reads `[check]`.
"""


def config_page() -> str:
    """Return the page in Markdown: what the file is, then every key of every table."""
    verbs = configured_verbs()
    example = template(Choices("golden.jsonl", "chunks.jsonl", None, "csr"))
    parts = [_HEAD.format(verbs="`, `".join(verbs[:-1]) + f"` and `{verbs[-1]}", example=example)]
    for verb in verbs:
        rows = [_row(field) for field in settings_of(verb).values()]
        table = ["| key | takes | default | meaning |", "|---|---|---|---|", *rows, ""]
        parts.append("\n".join([f"## [{verb}]", "", *table]))
    return "\n".join(parts)


def _row(field: OptionField) -> str:
    default = "true" if field.default is True else field.shown_default
    return f"| `{field.name}` | {_taken(field)} | {_cell(default)} | {_cell(field.help)} |"


def _taken(field: OptionField) -> str:
    if field.option.choices:
        return ", ".join(f"`{choice}`" for choice in field.option.choices)
    return "string, or strings" if field.option.commas else _KINDS[field.kind]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
