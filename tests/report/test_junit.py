"""JUnit XML of any suites: accepted by a validator of its schema, whatever the text holds."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junit_files import read_junit

from harness.document.model import Case, Outcome, Suite
from harness.report.render.junit import junit_xml, xml_text

TIME = "2026-01-02T03:04:05+00:00"


def suite(*cases: Case, **properties: str) -> Suite:
    return Suite("golden: csr", cases, TIME, properties)


def test_every_outcome_is_counted_and_validates() -> None:
    cases = [
        Case("fine", "csr", seconds=0.25),
        Case("low", "csr", Outcome.FAILURE, "0.8 < 0.9", "q1: expected a; found b"),
        Case("gone", "csr", Outcome.ERROR, "no such server"),
        Case("empty", "csr", Outcome.SKIPPED, "it expects nothing"),
    ]
    text = junit_xml("check", [suite(*cases, k="5"), suite()])
    root = read_junit(text)
    assert root.attrib == {"name": "check", "tests": "4", "failures": "1", "errors": "1", "time": "0.250"}
    first = root.find("testsuite")
    assert first is not None
    assert (first.get("skipped"), first.get("timestamp")) == ("1", "2026-01-02T03:04:05")
    assert [[child.tag for child in case] for case in first.iter("testcase")] == [
        [],
        ["failure"],
        ["error"],
        ["skipped"],
    ]
    assert first.findtext("testcase/failure") == "q1: expected a; found b"
    assert [one.attrib for one in first.iter("property")] == [{"name": "k", "value": "5"}]


def test_a_time_that_was_measured_is_never_zero_and_a_shared_one_is_counted_once() -> None:
    cases = [Case("quick", "csr", seconds=0.0002), Case("slow", "csr", seconds=1.5), Case("untimed", "csr")]
    root = read_junit(junit_xml("check", [Suite("csr", cases, TIME), Suite("both", cases, TIME, shared=1.5)]))
    assert [one.get("time") for one in root.iter("testcase")] == ["0.001", "1.500", "0.000"] * 2
    assert [one.get("time") for one in root.iter("testsuite")] == ["1.500", "1.500"]
    assert root.get("time") == "3.000"


def test_no_suites_validate() -> None:
    assert len(read_junit(junit_xml("check", []))) == 0


def test_the_schema_refuses_what_readers_refuse() -> None:
    from xmlschema import XMLSchemaException

    text = junit_xml("check", [suite(Case("fine", "csr"))])
    for wrong in (text.replace('errors="0"', 'errors="none"'), text.replace("<testcase ", "<test ")):
        with pytest.raises((XMLSchemaException, ET.ParseError)):
            read_junit(wrong)


def test_what_xml_forbids_is_written_out() -> None:
    assert xml_text("a\x00b\x1b[31m\ufffe\ud800\tc\n") == "a\\x00b\\x1b[31m\\ufffe\\ud800\tc\n"


@given(st.text(st.characters(codec=None), min_size=1))
def test_any_text_gives_a_valid_file(text: str) -> None:
    cases = [Case(text, text, outcome, text, text) for outcome in Outcome]
    written = junit_xml(text, [Suite(text, cases, TIME, {text: text})])
    failure = read_junit(written.encode().decode()).find("testsuite/testcase/failure")
    assert failure is not None
    # a parser makes a line break of \r\n and \r, and ElementTree writes neither as a reference
    read = (failure.text or "").replace("\r\n", "\n").replace("\r", "\n")
    assert read == xml_text(text).replace("\r\n", "\n").replace("\r", "\n")
