"""What fusions look like on the command line, and which backends they make a plan run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UnknownNameError, UsageError
from harness.plan.backend_spec import BackendSpec, parse_backend_specs, with_components
from harness.plan.expressions import parenthesise, split_outside, without_parentheses
from harness.registry.cards import BackendCard, ReferenceRule
from harness.registry.parameters import Parameter

PARAMETERS = {
    "k1": Parameter("k1", "float", 0.9, "", "encoder"),
    "where": Parameter("where", "str", "", "", "engine"),
    "url": Parameter("url", "str", "", "", "engine"),
}
CARDS = {
    name: BackendCard(name, "", "toy:Toy", None, "none", ReferenceRule("none"), PARAMETERS, Path(f"{name}.toml"), "")
    for name in ("lucene", "csr", "chroma")
}


def parse(text: str | list[str]) -> list[BackendSpec]:
    return parse_backend_specs(text, CARDS)


def one(text: str) -> BackendSpec:
    (spec,) = parse(text)
    return spec


def test_a_fusion_of_names():
    spec = one("rrf:lucene+csr")
    assert (spec.name, spec.label, spec.kind) == ("rrf", "rrf:lucene+csr", "fusion")
    assert [component.label for component in spec.components] == ["lucene", "csr"]
    assert dict(spec.parameters) == {"k": 60.0, "weights": ""}


def test_the_fusion_has_its_own_parameters_and_components_have_theirs_in_parentheses(tmp_path):
    (tmp_path / "a+b.trec").touch()
    spec = one(f"minmax: lucene + (csr:k1=1.2;where=a,b) + (run:{tmp_path}/a+b.trec) ;weights=0.2+0.3+0.5")
    assert [component.parameters.get("k1") for component in spec.components] == [0.9, 1.2, None]
    assert spec.components[1].parameters["where"] == "a,b"
    assert spec.components[2].run_path == tmp_path / "a+b.trec"
    assert spec.overrides == {"weights": "0.2+0.3+0.5"}
    assert one(spec.label) == spec


def test_fusions_of_fusions():
    spec = one("rrf:(dbsf:lucene+chroma)+csr;k=10")
    assert spec.label == "rrf:(dbsf:lucene+chroma)+csr;k=10.0"
    assert [component.kind for component in spec.components] == ["fusion", "engine"]
    assert one(spec.label) == spec


def test_commas_in_parentheses_do_not_end_a_backend():
    specs = parse("lucene,rrf:csr+(lucene:where=x,y),(chroma)")
    assert [spec.label for spec in specs] == ["lucene", 'rrf:csr+(lucene:where="x,y")', "chroma"]


def test_components_run_once_before_what_is_made_of_them_under_the_label_that_was_asked_for():
    specs = parse("rrf:lucene+chroma,dbsf:(lucene:k1=0.9)+csr,lucene:k1=0.9")
    assert [spec.label for spec in with_components(specs)] == [
        "lucene:k1=0.9",
        "chroma",
        "rrf:lucene+chroma",
        "csr",
        "dbsf:(lucene:k1=0.9)+csr",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rrf:lucene", "fusion 'rrf' has fewer than two components"),
        ("rrf:lucene+", "a backend has no name"),
        ("rrf:lucene:k1=2+csr", r"'lucene:k1=2' is more than a name, and has no parentheses\n  write \(lucene:k1=2\)"),
        ("rrf:lucene+csr;k=-1", "parameter 'k': -1.0 is below 0"),
        ("rrf:lucene+csr;depth=5", "unknown parameter 'depth' of backend 'rrf'"),
        ("minmax:lucene+csr;weights=1", "has 2 components and the weights 1"),
        ("minmax:lucene+csr;weights=0+0", "one of them above 0"),
        ("minmax:lucene+csr;weights=a+b", "parameter 'weights'"),
        ("rrf:lucene+(lucene:k1=0.9)", "backends 'lucene' and 'lucene:k1=0.9' are the same"),
        ("rrf:lucene+csr,rrf:lucene+csr;k=60", "are the same"),
        ("rrf:lucene+(run:nothing.trec)", "there is no run file 'nothing.trec'"),
        ("rrf:lucene+(csr:url=http://user:secret@host)", "is not of the form"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_an_unknown_component_is_named_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'chroma'"):
        parse("rrf:lucene+crhoma")


def test_urls_of_components_are_plain():
    assert one("rrf:(csr:url=http://127.0.0.1:6333)+lucene").components[0].parameters["url"] == "http://127.0.0.1:6333"


def test_parentheses_are_put_around_what_would_be_cut():
    assert split_outside("a(b,c),d", ",") == ["a(b,c)", "d"]
    assert without_parentheses("((a)+(b))") == "(a)+(b)"
    assert without_parentheses("(a)+(b)") == "(a)+(b)"
    assert [parenthesise(label) for label in ("csr", "run:a.trec", "run:a+b", "csr:k1=2")] == [
        "csr",
        "run:a.trec",
        "(run:a+b)",
        "(csr:k1=2)",
    ]
