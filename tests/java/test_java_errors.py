from __future__ import annotations

import re
import zipfile
from types import SimpleNamespace

import pytest

from harness.errors import EngineFailureError, EngineUnavailableError, MissingExtraError, RejectedInputError
from harness.java.bridge import _REMEDIES, _translated
from harness.java.jvm import find_jar

_LEFT_TO_THE_GENERAL_ERROR = {
    "AlreadyClosedException": "cannot happen while the engine owns reader and writer",
    "LockReleaseFailedException": "nothing that a user can do about it but read it",
    "MergeException": "wraps a cause that is looked at instead",
    "MergeAbortedException": "only when a writer rolls back while it merges in another thread",
    "CollectionTerminatedException": "control flow inside Lucene",
    "TooManyClauses": "the limit is set beyond any query",
    "TooManyNestedClauses": "the limit is set beyond any query",
    "TimeExceededException": "no time limit is set",
    "ExitingReaderException": "no time limit is set",
    "CheckIndexException": "indexes are not checked by CheckIndex",
    "FuzzyTermsException": "no fuzzy queries are built",
    "CommitFailException": "only of commits over two indexes",
    "PrepareCommitFailException": "only of commits over two indexes",
}


def java(classname: str, message: str, *stacktrace: str) -> SimpleNamespace:
    return SimpleNamespace(classname=classname, innermessage=message, stacktrace=stacktrace or None)


@pytest.mark.parametrize(
    ("error", "kind", "fix"),
    [
        (java("java.lang.OutOfMemoryError", "Java heap space"), EngineFailureError, "heap=4g"),
        (java("java.io.IOException", "No space left on device"), EngineFailureError, "free disk space"),
        (java("org.apache.lucene.index.CorruptIndexException", "bad footer"), EngineUnavailableError, "it is rebuilt"),
        (java("java.lang.IllegalArgumentException", "immense term in field"), RejectedInputError, "shorten"),
        (java("java.lang.NullPointerException", "something"), EngineFailureError, "Java gave no trace"),
    ],
)
def test_each_java_error_has_its_own_error_and_remedy(error: SimpleNamespace, kind: type[Exception], fix: str):
    found = _translated(error, "searching query 'q7'")
    assert type(found) is kind
    assert found.problem == f"Lucene failed while searching query 'q7': {error.classname}: {error.innermessage}"
    assert fix in str(found.fix)


def test_the_innermost_cause_is_named_as_pyjnius_writes_it():
    wrapped = java(
        "java.lang.IllegalArgumentException", "outer", "outer", "at a.Place", "Caused by:", "inner: why", "at"
    )
    assert _translated(wrapped, "opening").problem == "Lucene failed while opening: inner: why"


def test_the_innermost_cause_is_named():
    wrapped = java(
        "java.lang.reflect.UndeclaredThrowableException",
        "",
        "java.lang.reflect.UndeclaredThrowableException",
        "\tat some.Place",
        "Caused by: java.io.IOException: outer",
        "\tat another.Place",
        "Caused by: java.nio.file.AccessDeniedException: /index/_0.fdt",
    )
    found = _translated(wrapped, "indexing")
    assert found.problem.endswith(": java.nio.file.AccessDeniedException: /index/_0.fdt")
    assert found.fix == "make the folder writable"


def test_the_trace_of_an_unforeseen_error_is_shown_from_its_start():
    trace = ["java.lang.NullPointerException: x", *(f"\tat place.{number}" for number in range(30))]
    fix = _translated(java("java.lang.NullPointerException", "x", *trace), "indexing").fix
    assert fix is not None
    assert fix.startswith("Java's trace:\n    java.lang.NullPointerException: x\n    at place.0\n")
    assert fix.endswith("at place.10\n    … and 19 more")
    assert "__cause__" not in fix


def test_lucene_has_no_exception_that_nobody_has_thought_of():
    try:
        jar = find_jar()
    except MissingExtraError:
        pytest.skip("the extra 'lucene' is not installed")
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
    pattern = re.compile(r"org/apache/lucene/(?:index|store|search)/(?:.*[$/])?(\w+(?:Exception|Error|Clauses))\.class")
    raised = {found[1] for name in names if (found := pattern.fullmatch(name))}
    assert len(raised) > 8
    mapped = {word for word, _, _ in _REMEDIES}
    assert raised - mapped == set(_LEFT_TO_THE_GENERAL_ERROR)
