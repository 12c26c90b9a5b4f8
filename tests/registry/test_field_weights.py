"""The parameter ``fields``: names and weights, in one spelling, and what it refuses."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan.backend_spec import parse_backends
from harness.registry.field_weights import FieldWeight, field_names, fields_of, format_fields, parse_fields


@pytest.mark.parametrize(
    ("text", "fields", "spelling"),
    [
        ("", [], ""),
        ("title", [("title", 1.0)], "title"),
        ("title^3+text", [("title", 3.0), ("text", 1.0)], "title^3+text"),
        (" title ^ 3.0 + text^1", [("title", 3.0), ("text", 1.0)], "title^3+text"),
        ("a b^.5+metadata.source^2.", [("a b", 0.5), ("metadata.source", 2.0)], "a b^0.5+metadata.source^2"),
        ("title^1e-3+text^1E2", [("title", 0.001), ("text", 100.0)], "title^0.001+text^100"),
    ],
)
def test_fields_have_one_spelling(text: str, fields: list[tuple[str, float]], spelling: str) -> None:
    parsed = parse_fields(text)
    assert parsed == tuple(FieldWeight(*field) for field in fields)
    assert format_fields(parsed) == spelling
    assert parse_fields(spelling) == parsed
    assert field_names(text) == "+".join(name for name, _ in fields)
    assert fields_of({"fields": text}) == parsed
    assert fields_of({}) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title^0+text", "the weight of 'title' is 0: leave the field out"),
        ("title^0.0", "the weight of 'title' is 0"),
        ("title^-1+text", "the weight of 'title' is -1, and engines refuse weights below 0"),
        ("title^three", "the weight of 'title' is 'three', which is not a number"),
        ("title^", "the weight of 'title' is '', which is not a number"),
        ("title^nan", "is 'nan', which is not a number"),
        ("title^inf", "is 'inf', which is not a number"),
        ("title^1_0", "is '1_0', which is not a number"),
        ("title^٣", "which is not a number"),
        ("title^3^2", r"is '3\^2', which is not a number"),
        ("title^1e7", "is 1e7: give a number from 0.000001 to 1,000,000"),
        ("title^1e-7", "is 1e-7: give a number"),
        ("title+", r"'title\+' has a field without a name"),
        ("^3", r"'\^3' has a field without a name"),
        ("+", "has a field without a name"),
        ("title^3+text+title", "names the field 'title' twice"),
    ],
)
def test_what_is_no_field_with_a_weight_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_fields(text)
    with pytest.raises(UsageError, match=problem):
        parse_backends(f"sqlite:fields={text}")


def test_a_backend_without_fields_refuses_them() -> None:
    with pytest.raises(UsageError, match="unknown parameter 'fields' of backend 'bm25s'"):
        parse_backends("bm25s:fields=title^3+text")
