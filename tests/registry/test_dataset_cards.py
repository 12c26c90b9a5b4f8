"""Dataset cards, and families of them: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import CardError
from harness.registry.dataset_cards import DatasetCard, read_dataset_card, read_dataset_family
from harness.registry.published import published_beside

DATASET = """
name = "toys"
summary = "Three toys"
format = "beir"
path = "toys"
language = "en"
licence = "CC0-1.0"
source = "https://example.org/toys"

[text]
fields = ["title", "text"]
separator = "\\n"

[facts]
documents = 3
queries = 2
judgments = { test = 2 }

[sha256]
"corpus.jsonl.gz" = "%s"
""" % ("0" * 64)


FAMILY = """
name = "zoo"
summary = "Animals in two languages"
licence = "CC0-1.0"
source = "made up"
spec = "toy:zoo/{member}/{split}"
splits = ["train", "test"]
identical_ids = "keep"
facts.documents = 3

[sources]
page = "https://example.org/zoo"

[pairs]
spec = "toy:zoo/{documents}-{queries}/{split}"

[[published]]
system = "both"
source = "page"
scores = { "nDCG@10" = 0.5 }

[members.de]
summary = "Tiere"
language = "de"
facts.queries = { train = 5, test = 2 }
published = [{ system = "BM25", source = "page", scores = { "nDCG@10" = 0.6, "R@100" = 1 } }]

[members.en]
summary = "Animals"
language = "en"
identical_ids = "drop"
split = "train"
facts.queries = { train = 7, test = 4 }
facts.documents = 4

[members."en/rare"]
summary = "Rare ones"
language = "en"
obtain = "ask the keeper"

[members.all]
summary = "All of them"
language = "en"
parts = ["de", "en"]
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_dataset_card_locates_its_data_beside_itself(tmp_path: Path) -> None:
    card = read_dataset_card(write(tmp_path, "toys", DATASET))
    assert card.location == tmp_path / "toys"
    assert (card.split, card.fields, card.separator) == (None, ("title", "text"), "\n")
    assert (card.documents, card.queries, dict(card.judgments)) == (3, 2, {"test": 2})
    assert dict(card.sha256) == {"corpus.jsonl.gz": "0" * 64}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('format = "beir"', "format = 3", "'format' must be a string"),
        ('["title", "text"]', '["title", "body"]', "one or both of 'title' and 'text'"),
        ('["title", "text"]', '["text", 3]', "must be a list of strings"),
        ('["title", "text"]', "[]", "one or both of 'title' and 'text'"),
        ("documents = 3", "documents = 3.5", "'facts.documents' must be an integer"),
        ("{ test = 2 }", '{ test = "2" }', "'facts.judgments.test' must be an integer"),
        ("0" * 64, "0" * 63, "'sha256.corpus.jsonl.gz' is not a SHA-256"),
        ("licence =", "license =", "unknown key 'license' (did you mean 'licence'?)"),
        ('path = "toys"', "", "'path' is missing, and so are its alternatives: 'spec', 'obtain' or 'parts'"),
        ('path = "toys"', 'spec = "toy:a"', "'format' goes with 'path'"),
        ('format = "beir"', 'spec = "toy:a"', "'path' and 'spec' all locate the data: give only one of them"),
        ("documents = 3", "published = 3", "unknown key 'facts.published'"),
    ],
)
def test_dataset_card_problems(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert before in DATASET
    with pytest.raises(CardError) as caught:
        read_dataset_card(write(tmp_path, "toys", DATASET.replace(before, after, 1)))
    assert expected in str(caught.value)


def test_a_card_may_name_a_spec_in_place_of_a_folder(tmp_path: Path) -> None:
    text = DATASET.replace('format = "beir"', "").replace('path = "toys"', 'spec = "toy:{split}"\nsplits = ["a", "b"]')
    card = read_dataset_card(write(tmp_path, "toys", text))
    assert (card.location, card.format, card.split, card.splits) == (None, "", "a", ("a", "b"))
    assert (card.location_of(None), card.location_of("b")) == ("toy:a", "toy:b")
    assert card.locations == ("toy:a", "toy:b")


def member(folder: Path, name: str, text: str = FAMILY) -> DatasetCard:
    card = read_dataset_family(write(folder, "zoo", text)).member(name)
    assert card is not None
    return card


def test_members_have_what_the_file_says_for_all_and_what_their_table_says(tmp_path: Path) -> None:
    de, en = member(tmp_path, "de"), member(tmp_path, "en")
    assert (de.name, de.licence, de.documents, de.identical_ids) == ("zoo/de", "CC0-1.0", 3, "keep")
    assert (en.name, en.documents, en.identical_ids) == ("zoo/en", 4, "drop")
    assert (de.split, en.split) == ("test", "train"), "test is the default where nothing else is said"
    assert (de.queries_of("train"), de.queries_of("test"), de.queries) == (5, 2, None)
    assert (de.location_of(None), en.location_of("test")) == ("toy:zoo/de/test", "toy:zoo/en/test")


def test_scores_name_their_sources_by_the_family_s_short_names(tmp_path: Path) -> None:
    family = read_dataset_family(write(tmp_path, "zoo", FAMILY))
    (row,) = family.members["de"].published
    assert (row.system, row.source, row.split) == ("BM25", "https://example.org/zoo", "test")
    assert dict(row.scores) == {"nDCG@10": "0.6", "R@100": "1"}
    assert [(one.system, one.split) for one in family.published] == [("both", None)]
    assert family.members["en"].published == ()


PUBLISHED = "dataset\tsplit\tsystem\tbackend\toptions\tindex\tscores\tsource\n"


def test_a_file_beside_the_cards_holds_further_published_numbers(tmp_path: Path) -> None:
    write(tmp_path, "zoo", FAMILY)
    row = "zoo/de\ttest\tQL\tcsr:k1=2\tk=9 ties=engine\tterms=7\tAP=0.3970 P@5=40.0%\tpage 3\n"
    (tmp_path / "published.tsv").write_text(f"{PUBLISHED}{row}zoo\t\tmean\t\t\t\tAP=0.5\tpage 4\n", encoding="utf-8")
    (one,) = published_beside(tmp_path / "zoo.toml", "zoo/de")
    assert (one.system, one.split, one.backend, one.source) == ("QL", "test", "csr:k1=2", "page 3")
    assert one.scores == {"AP": "0.3970", "P@5": "40.0%"}
    assert (one.options, one.index) == ({"k": 9, "ties": "engine"}, {"terms": 7})
    (mean,) = published_beside(tmp_path / "zoo.toml", "zoo")
    assert (mean.split, mean.backend, mean.options, mean.index) == (None, None, {}, {})
    assert published_beside(tmp_path / "zoo.toml", "zoo/en") == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("dataset\tsystem\n", "line 1: the columns must be dataset, split"),
        ("zoo\ttest\tBM25\n", "line 2: 3 columns, expected 8"),
        ("zoo\t\tBM25\t\tdepth=3\t\tAP=0.5\tpage\n", "unknown key 'line 2: options.depth'"),
        ("zoo\t\tBM25\t\t\t\tAP=high\tpage\n", "'line 2: scores.AP' must be a number as printed, not 'high'"),
        ("zoo\t\t\t\t\t\t\tpage\n", "'line 2: system' is missing"),
    ],
)
def test_problems_of_published_numbers_name_the_line(tmp_path: Path, content: str, expected: str) -> None:
    header = (
        "" if content.startswith("dataset") else "dataset\tsplit\tsystem\tbackend\toptions\tindex\tscores\tsource\n"
    )
    (tmp_path / "published.tsv").write_text(header + content, encoding="utf-8")
    with pytest.raises(CardError) as caught:
        published_beside(tmp_path / "zoo.toml", "zoo")
    assert expected in str(caught.value)


def test_a_way_of_its_own_takes_the_place_of_the_shared_spec(tmp_path: Path) -> None:
    rare, every = member(tmp_path, "en/rare"), member(tmp_path, "all")
    assert (rare.spec, rare.obtain, rare.name) == (None, "ask the keeper", "zoo/en/rare")
    assert (every.spec, every.parts) == (None, ("de", "en"))


def test_pairs_are_members_that_the_file_does_not_list(tmp_path: Path) -> None:
    family = read_dataset_family(write(tmp_path, "zoo", FAMILY))
    pair = family.member("de-en")
    assert pair is not None
    assert (pair.name, pair.spec, pair.language, pair.query_language) == (
        "zoo/de-en",
        "toy:zoo/de-en/{split}",
        "de",
        "en",
    )
    assert (pair.documents, pair.queries_of("test"), pair.published) == (3, 4, ())
    assert family.member("de-de") is family.members["de"]
    assert [family.member(name) for name in ("de-fr", "fr-de", "-", "de-", "fr")] == [None] * 5
    assert pair.digest not in {card.digest for card in family.members.values()}


def test_a_family_without_the_rule_has_no_pairs(tmp_path: Path) -> None:
    text = FAMILY.replace('[pairs]\nspec = "toy:zoo/{documents}-{queries}/{split}"', "")
    assert read_dataset_family(write(tmp_path, "zoo", text)).member("de-en") is None


def test_a_member_s_digest_changes_with_what_is_said_of_it_alone(tmp_path: Path) -> None:
    before = {name: member(tmp_path, name).digest for name in ("de", "en")}
    changed = FAMILY.replace('summary = "Tiere"', 'summary = "Viele Tiere"')
    after = {name: member(tmp_path, name, changed).digest for name in ("de", "en")}
    assert before["de"] != after["de"]
    assert before["en"] == after["en"]
    shared = FAMILY.replace("CC0-1.0", "MIT")
    assert all(member(tmp_path, name, shared).digest != before[name] for name in ("de", "en"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('licence = "CC0-1.0"', 'license = "CC0-1.0"', "unknown key 'license' (did you mean 'licence'?)"),
        ('licence = "CC0-1.0"', "", "'members.de.licence' is missing"),
        ("[members.de]", "[members.De]", "'members.De': small letters"),
        ('language = "de"', 'langauge = "de"', "unknown key 'members.de.langauge' (did you mean 'language'?)"),
        ('split = "train"', 'split = "dev"', "'members.en.split' is 'dev', which is none of train, test"),
        ('splits = ["train", "test"]', "", "'members.de.spec' holds {split}, but 'members.de.splits' is missing"),
        ("/{member}/{split}", "/{member}", "it must hold {split}"),
        ("{queries}/{split}", "{queries}", "which is read for several splits: it must hold {split}"),
        ("{documents}-{queries}", "{documents}", "it must hold {documents} and {queries}"),
        ('parts = ["de", "en"]', 'parts = ["fr"]', "'zoo/all' has the part 'fr', which is not a member"),
        ('BM25", source = "page"', 'BM25", source = "pgae"', "'members.de.published.1.source' is 'pgae', known: page"),
        (
            '"R@100" = 1',
            '"R@100" = "one"',
            "published.1.scores.R@100' must be a number as printed, not 'one'",
        ),
        (
            '"R@100" = 1 }',
            '"R@100" = 1 }, options = { depth = 9 }',
            "unknown key 'members.de.published.1.options.d",
        ),
        ('"R@100" = 1 }', '"R@100" = 1 }, index = { terms = "9" }', "index.terms' must be an integer"),
        ('{ "nDCG@10" = 0.5 }', "{}", "'published.1.scores' holds no metric"),
        ("[[published]]", "[published]", "'published' must be a list"),
        ("{ train = 5, test = 2 }", '{ train = "5" }', "'members.de.facts.queries.train' must be an integer"),
        ('obtain = "ask the keeper"', 'obtain = "ask"\npath = "x"', "'members.en/rare.path' and"),
    ],
)
def test_family_problems(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert before in FAMILY
    with pytest.raises(CardError) as caught:
        read_dataset_family(write(tmp_path, "zoo", FAMILY.replace(before, after, 1)))
    assert expected in str(caught.value)


def test_a_family_without_members_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="has no member"):
        read_dataset_family(write(tmp_path, "zoo", 'name = "zoo"\nsummary = "none"\n[members]\n'))
