"""JUnit XML: suites of cases, written so that Jenkins, GitLab, GitHub's actions and Surefire's readers take it.

The model knows nothing of golden sets or baselines: the code that has verdicts makes suites of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

from harness.document.model import Case, Document, Outcome, Suite
from harness.wording import visible

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot write, not even escaped (section 2.2, production 2)."""


def render_junit(document: Document, *, per_query: bool = False) -> str:
    """Return the suites of a document as XML; the cases of single queries only with ``per_query``."""
    suites = [
        replace(suite, cases=[case for case in suite.cases if per_query or not case.detail])
        for suite in document.suites
    ]
    return junit_xml(f"harness {document.kind} {document.name}", suites)


def junit_xml(name: str, suites: Sequence[Suite]) -> str:
    """Return the file as text to write as UTF-8; without suites it is an empty ``testsuites``."""
    root = ET.Element("testsuites", {"name": xml_text(name), **_counts(suites)})
    for suite in suites:
        element = ET.SubElement(
            root,
            "testsuite",
            {
                "name": xml_text(suite.name),
                **_counts([suite]),
                "skipped": str(suite.count(Outcome.SKIPPED)),
                # Surefire's schema has a date and a time without an offset, in UTC by custom
                "timestamp": re.sub(r"(\.\d+)?(Z|[+-]\d\d:\d\d)$", "", suite.timestamp),
            },
        )
        if suite.properties:
            properties = ET.SubElement(element, "properties")
            for key, value in suite.properties.items():
                ET.SubElement(properties, "property", {"name": xml_text(key), "value": xml_text(value)})
        for case in suite.cases:
            _add_case(element, case)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def xml_text(text: str) -> str:
    """Return text with characters that XML 1.0 forbids (controls, lone surrogates) and invisible ones written out."""
    return visible(_FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text))


def _counts(suites: Iterable[Suite]) -> dict[str, str]:
    all_suites = list(suites)
    return {
        "tests": str(sum(len(suite.cases) for suite in all_suites)),
        "failures": str(sum(suite.count(Outcome.FAILURE) for suite in all_suites)),
        "errors": str(sum(suite.count(Outcome.ERROR) for suite in all_suites)),
        "time": _time(sum(suite.seconds for suite in all_suites)),
    }


def _time(seconds: float) -> str:
    """Return seconds with the three digits that readers take; 0.000 is reserved for unmeasured times."""
    return f"{max(seconds, 0.001) if seconds else 0.0:.3f}"


def _add_case(suite: ET.Element, case: Case) -> None:
    facts = {"name": xml_text(case.name), "classname": xml_text(case.classname), "time": _time(case.seconds)}
    element = ET.SubElement(suite, "testcase", facts)
    if case.outcome is Outcome.PASSED:
        return
    attributes = {"message": xml_text(case.message)}
    if case.outcome is not Outcome.SKIPPED:
        attributes["type"] = case.outcome.value
    ET.SubElement(element, case.outcome.value, attributes).text = xml_text(case.text) or None
