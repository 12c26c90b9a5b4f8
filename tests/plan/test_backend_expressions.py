"""A label can be given back to the command line and means the same backend."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.plan.backend_spec import parse_backend_specs, parse_backends, spell
from harness.registry.cards import BackendCard, ReferenceRule
from harness.registry.parameters import Parameter

PARAMETERS = {
    "size": Parameter("size", "int", 5, "", "engine", minimum=0),
    "rate": Parameter("rate", "float", 0.5, "", "encoder", minimum=0.0),
    "fast": Parameter("fast", "bool", False, "", "engine"),
    "where": Parameter("where", "str", "", "", "engine"),
}
CARD = BackendCard("toy", "", "toy:Toy", None, "bm25", ReferenceRule("none"), PARAMETERS, Path("toy.toml"), "")
words = st.text(max_size=20) | st.text("\"' ,;|()=:+a", max_size=12)
given_values = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2**40),
        "rate": st.floats(0, allow_nan=False, allow_infinity=False),
        "fast": st.booleans(),
        "where": words,
    },
)


@given(given_values)
def test_a_label_means_the_backend_it_was_made_for(values):
    written = ";".join(f"{key}={spell(value)}" for key, value in values.items())
    (spec,) = parse_backend_specs(f"toy:{written}" if written else "toy", {"toy": CARD})
    assert dict(spec.overrides) == values
    assert dict(spec.parameters) == {**CARD.defaults, **values}
    (again,) = parse_backend_specs(spec.label, {"toy": CARD})
    assert again == spec
    other = {"toy": CARD, "other": CARD}
    *_, fused, second = parse_backend_specs(f"rrf:other+({spec.label}),{spec.label}|keywords:candidates=5", other)
    assert dict(fused.components[1].overrides) == dict(second.components[0].overrides) == values
    assert parse_backend_specs(f"{fused.label},{second.label}", other) == [fused, second]


@given(st.text(max_size=40))
def test_any_text_is_understood_or_refused(text):
    with suppress(UsageError):
        assert {spec.name for spec in parse_backend_specs(text, {"toy": CARD})} == {"toy"}


@given(st.floats())
def test_bounds_hold(value):
    parameter = PARAMETERS["rate"]
    if math.isfinite(value) and value >= 0:
        assert parameter.parse(str(value)) == value
    else:
        with pytest.raises(ValueError, match=r"below|finite"):
            parameter.parse(str(value))


def test_a_backend_can_have_a_label_of_its_own() -> None:
    fast, plain, run = parse_backends(["fast=csr:k1=1.2;b=0.5", "csr:k1=1.3", "mine = flat"])
    assert (fast.label, fast.unlabelled, fast.expression) == ("fast", "csr:k1=1.2;b=0.5", "fast=csr:k1=1.2;b=0.5")
    assert (plain.label, plain.unlabelled, plain.expression) == ("csr:k1=1.3", None, "csr:k1=1.3")
    assert (run.label, run.expression) == ("mine", "mine=flat")
    assert [spec.label for spec in parse_backends("a=csr,b=rrf:csr+flat;k=10,c=csr|dense:candidates=50")] == [
        "a",
        "b",
        "c",
    ]
    assert parse_backends(fast.expression)[0].identity == fast.identity


@pytest.mark.parametrize(
    ("backends", "said"),
    [
        ("a=csr,a=flat", "two backends have the label 'a'"),
        ("a=csr,b=csr", "backends 'a' and 'b' are the same"),
        ("flat,flat=csr", "two backends have the label 'flat'"),
        ("csr:k1=3,b=0.95", "'b=…' is a parameter"),
        ("mine=luzene", "unknown backend 'luzene'\n  did you mean 'lucene'"),
        ("fast=unknown:k1=3", "unknown backend 'unknown'"),
        (
            "faiss:index=IVF64,Flat",
            "unknown backend 'Flat'\n  did you mean 'flat'. quote a value that has a comma: \"IVF64,Flat\"; ",
        ),
        (
            "faiss:index=IVF64,Flat;nprobe=8",
            "unknown backend '8'\n  quote a value that has a comma: \"IVF64,Flat\"; known: ",
        ),
    ],
)
def test_labels_that_say_nothing_are_refused(backends: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_backends(backends)
