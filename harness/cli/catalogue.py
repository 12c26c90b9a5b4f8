"""``harness datasets``: datasets that can be measured on by name, and their files on this machine."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from harness.cli.dataset_pages import card_page, family_page, list_table, members_table, size, stored_facts
from harness.cli.output import page, print_json, print_result, progress_display
from harness.cli.verb import VerbGroup, verb
from harness.data.languages import language_name, native_name, two_letter_code
from harness.errors import HarnessError, UsageError
from harness.plan.config import FetchRequest, InfoRequest, ListRequest, RemoveRequest, SearchRequest
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.lookup import find_cards, find_dataset, find_families, unknown_dataset
from harness.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from harness.loaders.fetching import StoredFiles


_MAX_NAMES = 5


@verb(ListRequest)
def _list(request: ListRequest) -> None:
    """List the datasets, those of a family on one line."""
    cards = request.cards
    cards_and_families: list[DatasetCard | DatasetFamily] = [
        *find_cards("datasets", cards).values(),
        *find_families(cards).values(),
    ]
    cards_and_families.sort(key=lambda entry: entry.name)
    if request.format == "json":
        members = (
            {"members": list(entry.members)} if isinstance(entry, DatasetFamily) else {} for entry in cards_and_families
        )
        print_json([asdict(entry) | of_family for entry, of_family in zip(cards_and_families, members, strict=True)])
        return
    print_result(page(list_table(cards_and_families)))
    click.echo("\nharness datasets info NAME shows one, or the members of a family", err=True)


@verb(SearchRequest)
def _search(request: SearchRequest) -> None:
    """Search all datasets, members of families too.

    Names, summaries, notes, licences, sources, metrics and tasks (retrieval, reranking, cross-lingual) are searched,
    and languages by code, English name or their own name. Small and capital letters are the same.

    Example: harness datasets search korean reranking
    """
    all_cards = [*find_cards("datasets", request.cards).values()]
    for family in find_families(request.cards).values():
        all_cards += family.members.values()
    matching = [card for card in all_cards if all(_matches(card, word.casefold()) for word in request.words)]
    if request.format == "json":
        print_json([asdict(card) for card in matching])
    elif matching:
        print_result(page(members_table(matching)))
    else:
        words = " and ".join(map(repr, request.words))
        click.echo(f"no dataset has {words}: try fewer words, or harness datasets", err=True)


@verb(InfoRequest)
def _info(request: InfoRequest) -> None:
    """Show one dataset, the members of a family, or the subsets of a task of MTEB.

    What the card says, which results were published, and what of the dataset is on this machine.

    Example: harness datasets info beir/scifact
    """
    card_or_family = find_dataset(request.dataset, request.cards)
    if card_or_family is None:
        _show_uncarded(request)
    elif isinstance(card_or_family, DatasetFamily):
        if request.format == "json":
            print_json(asdict(card_or_family))
        else:
            print_result(family_page(card_or_family, all_published=request.published))
    else:
        stored_files = _stored(card_or_family, request.cards)
        if request.format == "json":
            local_files = (
                {"error": stored_files}
                if isinstance(stored_files, str)
                else None
                if stored_files is None
                else _plain_stored(stored_files)
            )
            print_json({**asdict(card_or_family), "on_this_machine": local_files})
        else:
            print_result(card_page(card_or_family, stored_files, all_published=request.published))


def _show_uncarded(request: InfoRequest) -> None:
    """Print the local files of a dataset without a card; raises UnknownNameError if no loader reads it."""
    from harness.loaders.fetching import stored_files, subsets_of

    name, as_json = request.dataset, request.format == "json"
    subsets = subsets_of(name, cards=request.cards)
    if subsets:
        if as_json:
            print_json({"name": name, "subsets": subsets})
        else:
            lines = [f"{name}: {len(subsets)} subsets, each a dataset", *(f"  {subset}" for subset in subsets)]
            click.echo("\n".join(lines))
        return
    stored = stored_files(name, cards=request.cards)
    if as_json:
        print_json({"name": stored.name, "on_this_machine": _plain_stored(stored)})
        return
    more = "its files are yours" if stored.downloaded is None else "its size and language are known once it is fetched"
    print_result(page(stored_facts(stored), title=f"{stored.name}: there is no card for it; {more}"))


@verb(FetchRequest)
def _fetch(request: FetchRequest) -> None:
    """Download, check and prepare a dataset.

    A comparison needs no network then. The facts on the card are held against the files.

    Example: harness datasets fetch beir/scifact
    """
    from harness.loaders.fetching import fetch_dataset

    with progress_display() as display:
        section = display.section("fetch")
        dataset, stored = fetch_dataset(request.dataset, split=request.split, cards=request.cards, progress=section)
    judgments = None if dataset.qrels is None else len(dataset.qrels)
    counts = {"documents": len(dataset.corpus), "queries": len(dataset.queries), "judgments": judgments}
    if request.format == "json":
        print_json({"name": dataset.name, **counts, "on_this_machine": _plain_stored(stored)})
        return
    of_split = f" of the split '{dataset.provenance['split']}'" if dataset.provenance.get("split") else ""
    nouns = zip(("document", "query", "judgment"), counts.values(), strict=True)
    counts_text = ", ".join(counted(count, noun) for noun, count in nouns if count is not None)
    print_result(page(stored_facts(stored), title=f"{dataset.name}: {counts_text}{of_split}"))


@verb(RemoveRequest)
def _remove(request: RemoveRequest) -> None:
    """Delete what was prepared.

    Texts that another dataset on this machine needs stay, and so do your files and downloads: the libraries that keep
    downloads remove them, with `hf cache rm dataset/ORG/NAME` and `ir_datasets clean FAMILY`. What is removed is
    prepared again when it is needed.

    Example: harness datasets remove beir/scifact
    """
    from harness.loaders.fetching import remove_prepared, stored_files

    as_json = request.format == "json"
    stored = stored_files(request.dataset, cards=request.cards)
    if not stored.prepared:
        if as_json:
            print_json({"name": stored.name, "freed": 0})
        else:
            click.echo(f"nothing of {stored.name} was prepared{_download_advice(stored)}")
        return
    if not as_json:
        click.echo(page(stored_facts(stored), title=stored.name), err=True, nl=False)
    if not request.yes and not _agreed(stored.name, sum(entry.bytes for entry in stored.prepared)):
        click.echo("nothing was removed", err=True)
        return
    removal = remove_prepared(request.dataset, cards=request.cards)
    left = stored_files(request.dataset, cards=request.cards)
    if as_json:
        freed = {"freed": removal.freed, "needed_by": removal.needed_by}
        print_json({"name": stored.name, **freed, "on_this_machine": _plain_stored(left)})
        return
    click.echo(f"freed {size(removal.freed)}{_download_advice(left)}")
    if removal.needed_by:
        other_users = ", ".join(removal.needed_by[:_MAX_NAMES]) + (", …" if len(removal.needed_by) > _MAX_NAMES else "")
        click.echo(f"kept what is shared with {other_users}", err=True)
    elif left.prepared:
        title = "still on this machine, because a running comparison needs it:"
        click.echo(page(stored_facts(left), title=title), err=True, nl=False)


def _download_advice(stored: StoredFiles) -> str:
    """Return that downloaded files stay, and the commands that remove them; "" if there are none."""
    if not stored.paths:
        return ""
    return "; its download stays: `hf cache rm` or `ir_datasets clean` removes it from the cache of its library"


def _verb_of(word: str) -> str:
    """Return ``info`` for a dataset's name in the place of a verb; raises UnknownNameError for anything else."""
    if find_dataset(word) is None:
        raise unknown_dataset(word, kind="dataset or command", further_names=list(datasets.verbs))
    return "info"


datasets = VerbGroup(
    help="List, search, show and fetch datasets, or remove what was prepared of them. Without a command: list; a name "
    "alone: info. Downloads, their progress and checks are those of the libraries that know the datasets; with "
    "HARNESS_OFFLINE=1 nothing is downloaded, and what is missing is named with the place where it belongs.",
    verbs={"list": _list, "search": _search, "info": _info, "fetch": _fetch, "remove": _remove},
    unnamed="list",
    verb_of=_verb_of,
)


def _agreed(name: str, most: int) -> bool:
    question = f"remove {name}, {size(most)} at most"
    if not _is_confirmed():
        raise UsageError(f"{question}: there is no terminal to ask", fix="pass --yes")
    return click.confirm(f"{question}?", err=True)


def _is_confirmed() -> bool:
    return sys.stdin.isatty()


def _stored(card: DatasetCard, cards: Path | None) -> StoredFiles | str | None:
    """Return the local files; None for a dataset that is not a download, or why they are unknown."""
    if card.spec is None:
        return None
    from harness.loaders.fetching import stored_files

    try:
        return stored_files(card.name, cards=cards)
    except HarnessError as error:
        return error.problem


def _matches(card: DatasetCard, word: str) -> bool:
    """Return whether a card matches a word: as a code its language, else a part of the card's texts."""
    codes = [code for code in (card.language, card.query_language) if code is not None]
    if two_letter_code(word) is not None and language_name(word) is not None:
        return two_letter_code(word) in codes or word in re.split(r"[^\w]+", f"{card.name} {card.spec}".casefold())
    tasks = ["reranking" if "rerank" in f"{card.name} {card.spec}".lower() else "retrieval"]
    if len(set(codes)) > 1:
        tasks.append("cross-lingual")
    facts = (card.name, card.summary, card.licence, card.source, card.spec, card.note, card.metric, card.citation)
    names = [name for code in codes for name in (language_name(code), native_name(code)) if name is not None]
    return word in " ".join((*filter(None, facts), *tasks, *names)).casefold()


def _plain_stored(stored: StoredFiles) -> dict[str, object]:
    downloaded = {
        split: {"paths": local.paths, "bytes": local.size, "complete": local.complete}
        for split, local in (stored.downloaded or {}).items()
    }
    prepared = [{"path": entry.path, "bytes": entry.bytes} for entry in stored.prepared]
    return {
        "downloaded": downloaded if stored.downloaded is not None else None,
        "prepared": prepared,
        "unread_files": dict(stored.unread_files),
    }
