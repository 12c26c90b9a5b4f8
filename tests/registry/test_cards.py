from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import CardError
from harness.registry.cards import read_backend_card
from harness.registry.parameters import Parameter, encoder_parameters, shared_parameters

BACKEND = """
name = "toy"
summary = "A toy"
engine = "toy.engine:Engine"
extra = "toy"
encoder = "bm25"

[reference]
kind = "sparse"
tolerance = 4e-7
unless = { model = ["ql"] }

[parameters.k1]
type = "float"
default = 1
minimum = 0.0
scope = "encoder"
help = "saturation"

[parameters.model]
type = "str"
default = "bm25"
choices = ["bm25", "ql"]
scope = "engine"
help = "scoring function"

[parameters.analyzer]
type = "str"
default = ""
scope = "encoder"
help = "text to terms"

[parameters.b]
type = "float"
default = 0.4
minimum = 0.0
maximum = 1.0
scope = "encoder"
help = "length normalisation"

[parameters.heap]
type = "str"
default = "2g"
pattern = "[1-9][0-9]*[kmg]"
scope = "engine"
help = "memory: 512m, 2g"
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_backend_card(tmp_path):
    card = read_backend_card(write(tmp_path, "toy", BACKEND))
    assert (card.name, card.engine, card.extra, card.encoder) == ("toy", "toy.engine:Engine", "toy", "bm25")
    assert card.defaults == {"k1": 1.0, "model": "bm25", "analyzer": "", "b": 0.4, "heap": "2g"}
    assert isinstance(card.defaults["k1"], float)
    assert card.scope("encoder") == ("k1", "analyzer", "b")
    assert card.scope("engine") == ("model", "heap")
    assert card.reference.tolerance == 4e-7
    assert card.reference.applies({"k1": 1.0, "model": "bm25"})
    assert not card.reference.applies({"k1": 1.0, "model": "ql"})
    assert len(card.digest) == 64


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("summary =", "sumary =", "unknown key 'sumary' (did you mean 'summary'?)"),
        ("summary =", "sumary =", "'summary' is missing"),
        ('name = "toy"', 'name = "other"', "the file is called 'toy.toml'"),
        ('name = "toy"', 'name = "Toy Box"', "small letters"),
        ('encoder = "bm25"', 'encoder = "bm52"', "'encoder' is 'bm52' (did you mean 'bm25'?)"),
        ("toy.engine:Engine", "toy.engine", "expected 'package.module:ClassName'"),
        ('kind = "sparse"', 'kind = "dense"', "'reference.kind' is 'dense'"),
        ("tolerance = 4e-7", "tolerance = 4.0", "'reference.tolerance'"),
        ("tolerance = 4e-7", 'tolerance = "4e-7"', "'reference.tolerance' must be a number"),
        ("{ model =", "{ modle =", "'reference.unless.modle' is not a parameter"),
        ('= ["ql"] }', '= ["qld"] }', "'qld' is not one of bm25, ql"),
        ("default = 1\n", "default = -1\n", "-1.0 is below 0"),
        ("default = 1\n", "default = true\n", "must be a number, not True"),
        ("default = 1\n", "", "parameter 'k1' has no default"),
        ("minimum", "minimun", "unknown key 'parameters.k1.minimun' (did you mean 'minimum'?)"),
        ('default = "bm25"', 'default = "bm"', "'bm' is not one of bm25, ql"),
        ('type = "float"', 'type = "double"', "'parameters.k1.type' is 'double'"),
        ("[parameters.k1]", "[parameters.K1]", "parameter 'K1'"),
        ("[reference]", "[reference", "is not TOML"),
        (
            'type = "float"\ndefault = 0.4',
            'type = "int"\ndefault = 0',
            "'parameters.b' redeclares one of encoder 'bm25': its type is float and its scope 'encoder'",
        ),
        ('scope = "encoder"', 'scope = "engine"', "'parameters.k1' redeclares one of encoder 'bm25'"),
        ('encoder = "bm25"', 'encoder = "none"', "'reference.kind' is 'sparse', but without an encoder"),
        ('default = "2g"', 'default = "big"', "'big' is not of the form [1-9][0-9]*[kmg]: memory: 512m, 2g"),
        ('"[1-9][0-9]*[kmg]"', '"[1-9"', "parameter 'heap': 'pattern' is not a regular expression"),
        ("minimum = 0.0\nmaximum = 1.0", 'pattern = "0"', "parameter 'b': 'pattern' is for parameters of type str"),
    ],
)
def test_backend_card_problems(tmp_path, before, after, expected):
    assert before in BACKEND
    path = write(tmp_path, "toy", BACKEND.replace(before, after, 1))
    with pytest.raises(CardError) as caught:
        read_backend_card(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_problem_is_reported_at_once(tmp_path):
    text = (
        BACKEND.replace("summary", "sumary").replace('kind = "sparse"', 'kind = "x"').replace("minimum", "minimun", 1)
    )
    with pytest.raises(CardError, match="4 problems"):
        read_backend_card(write(tmp_path, "toy", text))


def test_card_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "toy.toml"
    path.write_bytes(BACKEND.encode().replace(b"A toy", b"A t\xff"))
    with pytest.raises(CardError, match="line 3: not UTF-8"):
        read_backend_card(path)


def test_unreadable_card(tmp_path):
    with pytest.raises(CardError, match="cannot be read"):
        read_backend_card(tmp_path / "none.toml")


def parameter(kind, **more):
    default = {"float": 0.5, "int": 5, "str": "a", "bool": False}[kind]
    return Parameter("p", kind, default, "help", "engine", **more)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("float", "0.9", 0.9),
        ("float", "1", 1.0),
        ("int", "100", 100),
        ("bool", "True", True),
        ("bool", "false", False),
        ("str", "http://127.0.0.1:6333/a", "http://127.0.0.1:6333/a"),
        ("str", "", ""),
    ],
)
def test_parameter_parses(kind, text, value):
    parsed = parameter(kind).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "more", "text", "expected"),
    [
        ("float", {}, "much", "'much' is not a number"),
        ("float", {}, "nan", "not finite"),
        ("float", {}, "inf", "not finite"),
        ("float", {"minimum": 0.0}, "-0.1", "below 0"),
        ("float", {"maximum": 1.0}, "1.5", "above 1"),
        ("int", {}, "1.5", "'1.5' is not an integer"),
        ("int", {"maximum": 10.0}, "11", "above 10"),
        ("bool", {}, "yes", "not true or false"),
        ("str", {"choices": ("a", "b")}, "c", "not one of a, b"),
    ],
)
def test_parameter_refuses(kind, more, text, expected):
    with pytest.raises(ValueError, match=expected):
        parameter(kind, **more).parse(text)


def test_what_a_parameter_affects_is_hits_unless_the_card_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(BACKEND.replace("[parameters.heap]\n", '[parameters.heap]\naffects = "times"\n'))
    card = read_backend_card(path)
    assert (card.parameters["heap"].affects, card.parameters["k1"].affects) == ("times", "hits")
    path.write_text(BACKEND.replace("[parameters.heap]\n", '[parameters.heap]\naffects = "memory"\n'))
    with pytest.raises(CardError, match="affects' is 'memory', known: hits, times, nothing"):
        read_backend_card(path)


@pytest.mark.parametrize("encoder", ["bm25", "dense", "splade"])
def test_an_encoder_s_parameters_are_in_every_card_that_has_it(tmp_path, encoder):
    head = BACKEND.partition("[parameters.k1]")[0].partition("unless")[0]
    if encoder == "dense":
        head = head.replace('kind = "sparse"', 'kind = "none"')
    path = write(tmp_path, "toy", head.replace('"bm25"', f'"{encoder}"', 1))
    declared = encoder_parameters(encoder)
    card = read_backend_card(path)
    assert dict(card.parameters) == dict(declared)
    assert card.scope("encoder") == tuple(declared)
    assert ("model" in declared) == (encoder != "bm25")


def test_a_card_changes_the_default_of_an_encoder_s_parameter(tmp_path):
    head = BACKEND.partition("[parameters.k1]")[0].partition("unless")[0].replace('"bm25"', '"dense"', 1)
    head = head.replace('kind = "sparse"', 'kind = "none"')
    own = '[parameters.normalize]\ntype = "bool"\ndefault = true\nscope = "encoder"\nhelp = "unit length"\n'
    parameters = read_backend_card(write(tmp_path, "toy", head + own)).parameters
    assert parameters["normalize"].default is True
    assert parameters["truncate_dim"] == encoder_parameters("dense")["truncate_dim"]


def test_a_card_has_the_parameters_of_the_tables_that_it_uses(tmp_path):
    used = BACKEND.replace('encoder = "bm25"', 'encoder = "bm25"\nuse = ["server", "external"]')
    own = '[parameters.keep]\nhelp = "leave it there"\n'
    plain = read_backend_card(write(tmp_path, "toy", BACKEND)).parameters
    shared = read_backend_card(write(tmp_path, "toy", used)).parameters
    again = read_backend_card(write(tmp_path, "toy", used + own)).parameters
    assert shared.keys() - plain.keys() == {"keep", "timeout_s", "retry_s", "external"}
    assert again["keep"] == replace(shared["keep"], help="leave it there")
    assert {**again, "keep": shared["keep"]} == dict(shared)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ('use = ["servers"]', "'use' names 'servers' .did you mean 'server'"),
        ('use = "server"', "'use' must be a list"),
        ('use = ["server"]\nkept = 1', "unknown key 'kept'"),
    ],
)
def test_a_table_that_is_not_there_cannot_be_used(tmp_path, changed, message):
    with pytest.raises(CardError, match=message):
        read_backend_card(write(tmp_path, "toy", BACKEND.replace('extra = "toy"', changed)))


def test_each_shared_table_is_used(repository):
    cards = [path.read_text() for path in (repository / "backends").glob("*.toml")]
    for name in shared_parameters():
        assert sum(f'"{name}"' in line for card in cards for line in card.splitlines() if line.startswith("use = ")) > 1


def test_a_reference_of_dense_vectors_needs_a_similarity(tmp_path, repository):
    card = (repository / "backends" / "flat.toml").read_text()
    assert read_backend_card(write(tmp_path, "flat", card)).reference.kind == "dense"
    for broken, message in (
        (card.replace("[parameters.similarity]", "[parameters.space]"), "it needs the parameter 'similarity'"),
        (card.replace('"dot", "l2"]', '"angular"]'), "it needs the parameter 'similarity'"),
        (card.replace('kind = "dense"', 'kind = "sparse"'), "'reference.kind' is 'sparse', but 'encoder' is 'dense'"),
    ):
        with pytest.raises(CardError, match=message):
            read_backend_card(write(tmp_path, "flat", broken))
