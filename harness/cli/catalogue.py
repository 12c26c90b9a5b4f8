"""The verb ``datasets``: what can be measured on by name, and what of it is on this machine."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from harness.cli.cards import CardFormat, CardsOption, FormatOption
from harness.cli.completion import complete_dataset
from harness.cli.dataset_pages import (
    card_page,
    family_page,
    list_table,
    members_table,
    size,
    stored_facts,
)
from harness.cli.plain import PlainCommand, fact_lines, terminal_width
from harness.data.languages import language_name, native_name, two_letter_code
from harness.errors import HarnessError, UsageError
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.lookup import find_cards, find_dataset, find_families, unknown_dataset
from harness.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.loaders.fetching import Stored

__all__ = ["app"]

_SHOWN = 5


class _Group(typer.core.TyperGroup):
    """A dataset's name in the place of a command shows it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's own types
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            if find_dataset(args[0]) is None:
                raise unknown_dataset(args[0], kind="dataset or command", others=self.list_commands(ctx))
            args = ["info", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="List, search, show, fetch or remove datasets. Without a command: list; a name alone: info. Downloads, "
    "their progress and checks are those of the libraries that know the datasets; with HARNESS_OFFLINE=1 nothing is "
    "downloaded, and what is missing is named with the place where it belongs.",
    add_completion=False,
    rich_markup_mode=None,
)

AnyArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A card, FAMILY/MEMBER, or a loader's own name, as irds:beir/scifact.",
        show_default=False,
        autocompletion=complete_dataset,
    ),
]


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context, cards: CardsOption = None, output: FormatOption = CardFormat.TABLE) -> None:
    """List the datasets where no command is given."""
    if context.invoked_subcommand is None:
        list_(cards, output)
    else:  # options before a command are that command's, unless it has its own behind it
        options = {"cards": cards if cards is None else str(cards), "output": output.value}
        context.default_map = {context.invoked_subcommand: options}


@app.command("list", cls=PlainCommand)
def list_(cards: CardsOption = None, output: FormatOption = CardFormat.TABLE) -> None:
    """List the datasets, those of a family on one line."""
    known: list[DatasetCard | DatasetFamily] = [*find_cards("datasets", cards).values(), *find_families(cards).values()]
    known.sort(key=lambda entry: entry.name)
    if output is CardFormat.JSON:
        plain = [
            {**asdict(entry), "members": list(entry.members)} if isinstance(entry, DatasetFamily) else asdict(entry)
            for entry in known
        ]
        typer.echo(_json(plain))
        return
    typer.echo(list_table(known, terminal_width()))
    typer.echo("\nharness datasets info NAME shows one, or the members of a family", err=True)


@app.command("search", cls=PlainCommand)
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORD", help="Words that all have to occur.", show_default=False)
    ],
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """Search all datasets, members of families too.

    Names, summaries, notes, licences, sources, metrics and tasks (retrieval, reranking, cross-lingual) are searched,
    and languages by code, English name or their own name. Small and capital letters are the same.

    Example: harness datasets search korean reranking
    """
    every = [*find_cards("datasets", cards).values()]
    for family in find_families(cards).values():
        every += family.members.values()
    matching = [card for card in every if all(_matches(card, word.casefold()) for word in words)]
    if output is CardFormat.JSON:
        typer.echo(_json([asdict(card) for card in matching]))
    elif matching:
        typer.echo(members_table(matching, terminal_width()))
    else:
        typer.echo(f"no dataset has {' and '.join(map(repr, words))}: try fewer words, or harness datasets", err=True)


@app.command("info", cls=PlainCommand)
def info(
    name: AnyArgument,
    published: Annotated[
        bool, typer.Option("--published", help="Show all published results, not the first 10.")
    ] = False,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """Show one dataset, the members of a family, or the subsets of a task of MTEB.

    What the card says, which results were published, and what of the dataset is on this machine.
    """
    known, width = find_dataset(name, cards), terminal_width()
    if known is None:
        _show_uncarded(name, cards, output)
        return
    if isinstance(known, DatasetFamily):
        typer.echo(_json(asdict(known)) if output is CardFormat.JSON else family_page(known, width, published))
        return
    here = _stored(known, cards)
    if output is CardFormat.JSON:
        stored = {"error": here} if isinstance(here, str) else None if here is None else _plain_stored(here)
        typer.echo(_json({**asdict(known), "on_this_machine": stored}))
    else:
        typer.echo(card_page(known, here, width, published))


def _show_uncarded(name: str, cards: Path | None, output: CardFormat) -> None:
    """Print what this machine has of a dataset without a card; raises UnknownNameError where no loader reads it."""
    from harness.loaders.fetching import stored_files, subsets_of

    subsets = subsets_of(name, cards=cards)
    if subsets:
        text = "\n".join([f"{name}: {len(subsets)} subsets, each a dataset", *(f"  {subset}" for subset in subsets)])
        typer.echo(_json({"name": name, "subsets": subsets}) if output is CardFormat.JSON else text)
        return
    here = stored_files(name, cards=cards)
    if output is CardFormat.JSON:
        typer.echo(_json({"name": here.name, "on_this_machine": _plain_stored(here)}))
        return
    more = "its files are yours" if here.downloaded is None else "its size and language are known once it is fetched"
    typer.echo(f"{here.name}: no card says what it is; {more}")
    typer.echo("\n".join(fact_lines(stored_facts(here), terminal_width())))


@app.command("fetch", cls=PlainCommand)
def fetch(
    name: AnyArgument,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which judgments. Default: the card's.", show_default=False)
    ] = None,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """Download, check and prepare a dataset.

    A comparison needs no network then. The facts on the card are held against the files.

    Example: harness datasets fetch beir/scifact
    """
    from harness.cli.output import progress_display
    from harness.loaders.fetching import fetch_dataset

    with progress_display() as display:
        dataset, here = fetch_dataset(name, split=split, cards=cards, progress=display.section("fetch"))
    judgments = None if dataset.qrels is None else len(dataset.qrels)
    counts = {"documents": len(dataset.corpus), "queries": len(dataset.queries), "judgments": judgments}
    if output is CardFormat.JSON:
        typer.echo(_json({"name": dataset.name, **counts, "on_this_machine": _plain_stored(here)}))
        return
    of_split = f" of the split '{dataset.provenance['split']}'" if dataset.provenance.get("split") else ""
    nouns = ("document", "query", "judgment")
    listed = ", ".join(
        counted(count, noun) for noun, count in zip(nouns, counts.values(), strict=True) if count is not None
    )
    typer.echo(f"{dataset.name}: {listed}{of_split}")
    typer.echo("\n".join(fact_lines(stored_facts(here), terminal_width())))


@app.command("remove", cls=PlainCommand)
def remove(
    name: AnyArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """Delete what was downloaded and prepared.

    That of all splits. Files that another dataset on this machine needs stay, and yours are never deleted. What is
    removed is downloaded and prepared anew when it is needed again.
    """
    from harness.loaders.fetching import remove_dataset, stored_files

    here = stored_files(name, cards=cards)
    downloaded = sum(local.size for local in (here.downloaded or {}).values())
    if not here.paths and not here.prepared:
        typer.echo(_json({"name": here.name, "freed": 0}) if output is CardFormat.JSON else _nothing(here))
        return
    if output is CardFormat.TABLE:
        typer.echo("\n".join([here.name, *fact_lines(stored_facts(here), terminal_width())]), err=True)
    if not yes and not _agreed(here.name, downloaded + sum(entry.bytes for entry in here.prepared)):
        typer.echo("nothing was removed", err=True)
        return
    removal = remove_dataset(name, cards=cards)
    left = stored_files(name, cards=cards)
    if output is CardFormat.JSON:
        freed = {"freed": removal.freed, "needed_by": removal.needed_by}
        typer.echo(_json({"name": here.name, **freed, "on_this_machine": _plain_stored(left)}))
        return
    typer.echo(f"freed {size(removal.freed)}")
    if removal.needed_by:
        others = ", ".join(removal.needed_by[:_SHOWN]) + (", …" if len(removal.needed_by) > _SHOWN else "")
        typer.echo(f"kept what is shared with {others}", err=True)
    if left.paths or left.prepared:
        needed = "it is shared" if removal.needed_by else "another dataset or a running comparison needs it"
        typer.echo(f"still on this machine, because {needed}:", err=True)
        typer.echo("\n".join(fact_lines(stored_facts(left), terminal_width())), err=True)


def _agreed(name: str, most: int) -> bool:
    question = f"remove {name}, {size(most)} at most"
    if not _is_asked():
        raise UsageError(f"{question}: nobody can be asked", fix="pass --yes")
    return typer.confirm(f"{question}?", err=True)


def _is_asked() -> bool:
    return sys.stdin.isatty()


def _nothing(here: Stored) -> str:
    of_user = "" if here.downloaded is not None else ": its files are no download, and were not touched"
    return f"nothing of {here.name} was downloaded or prepared{of_user}"


def _stored(card: DatasetCard, cards: Path | None) -> Stored | str | None:
    """Return what this machine has; None of a dataset that is no download, or why it cannot be said."""
    if card.spec is None:
        return None
    from harness.loaders.fetching import stored_files

    try:
        return stored_files(card.name, cards=cards)
    except HarnessError as error:
        return error.what


def _matches(card: DatasetCard, word: str) -> bool:
    """Return whether a card is about a word: as a code a language it is in, else a part of what the card says."""
    codes = [code for code in (card.language, card.query_language) if code is not None]
    if two_letter_code(word) is not None and language_name(word) is not None:
        return two_letter_code(word) in codes or word in re.split(r"[^\w]+", f"{card.name} {card.spec}".casefold())
    tasks = ["reranking" if "rerank" in f"{card.name} {card.spec}".lower() else "retrieval"]
    if len(set(codes)) > 1:
        tasks.append("cross-lingual")
    facts = (card.name, card.summary, card.licence, card.source, card.spec, card.note, card.metric, card.citation)
    names = [name for code in codes for name in (language_name(code), native_name(code)) if name is not None]
    return word in " ".join((*filter(None, facts), *tasks, *names)).casefold()


def _plain_stored(here: Stored) -> dict[str, object]:
    downloaded = {
        split: {"paths": local.paths, "bytes": local.size, "complete": local.complete}
        for split, local in (here.downloaded or {}).items()
    }
    prepared = [{"path": entry.path, "bytes": entry.bytes} for entry in here.prepared]
    return {"downloaded": downloaded if here.downloaded is not None else None, "prepared": prepared}


def _json(content: Mapping[str, object] | list[dict[str, object]]) -> str:
    return json.dumps(content, indent=2, default=str, ensure_ascii=False)
