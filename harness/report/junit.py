"""JUnit XML: suites of cases, written so that Jenkins, GitLab, GitHub's actions and Surefire's readers take it.

The model knows nothing of golden sets or baselines: whoever has verdicts makes suites of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from xml.etree import ElementTree as ET

__all__ = ["Case", "Outcome", "Suite", "junit_xml", "xml_text"]

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, not even escaped (section 2.2, production 2)."""


class Outcome(StrEnum):
    """How a case ended; the values of all but ``PASSED`` are the names of their elements."""

    PASSED = "passed"
    FAILURE = "failure"
    """What was required does not hold."""
    ERROR = "error"
    """It could not be judged."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One test case. ``message`` is one line, ``text`` all there is to say; both are for outcomes but ``PASSED``.

    ``seconds`` is 0 where nothing was measured.
    """

    name: str
    classname: str
    outcome: Outcome = Outcome.PASSED
    message: str = ""
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases that belong together, with facts about all of them. ``timestamp`` is ISO 8601; an offset is left out.

    ``shared`` are the seconds that all cases took together, where they are about one measurement; else they are added.
    """

    name: str
    cases: Sequence[Case]
    timestamp: str
    properties: Mapping[str, str] = field(default_factory=dict)
    shared: float | None = None

    def count(self, outcome: Outcome) -> int:
        """The cases that ended so."""
        return sum(case.outcome is outcome for case in self.cases)

    @property
    def seconds(self) -> float:
        """The time of all cases."""
        return sum(case.seconds for case in self.cases) if self.shared is None else self.shared


def junit_xml(name: str, suites: Sequence[Suite]) -> str:
    """The file as text that is to be written as UTF-8; no suite at all gives an empty ``testsuites``."""
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
            listed = ET.SubElement(element, "properties")
            for key, value in suite.properties.items():
                ET.SubElement(listed, "property", {"name": xml_text(key), "value": xml_text(value)})
        for case in suite.cases:
            _add_case(element, case)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def xml_text(text: str) -> str:
    """``text`` with what XML 1.0 forbids (control characters, lone surrogates) written out, as ``\\x1b``."""
    return _FORBIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _counts(suites: Iterable[Suite]) -> dict[str, str]:
    listed = list(suites)
    return {
        "tests": str(sum(len(suite.cases) for suite in listed)),
        "failures": str(sum(suite.count(Outcome.FAILURE) for suite in listed)),
        "errors": str(sum(suite.count(Outcome.ERROR) for suite in listed)),
        "time": _time(sum(suite.seconds for suite in listed)),
    }


def _time(seconds: float) -> str:
    """Seconds with the three digits that readers take; 0.000 is left to what was not measured."""
    return f"{max(seconds, 0.001) if seconds else 0.0:.3f}"


def _add_case(suite: ET.Element, case: Case) -> None:
    facts = {"name": xml_text(case.name), "classname": xml_text(case.classname), "time": _time(case.seconds)}
    element = ET.SubElement(suite, "testcase", facts)
    if case.outcome is Outcome.PASSED:
        return
    said = {"message": xml_text(case.message)}
    if case.outcome is not Outcome.SKIPPED:
        said["type"] = case.outcome.value
    ET.SubElement(element, case.outcome.value, said).text = xml_text(case.text) or None
