"""An error that an engine did not translate says whose it is: a library's, or nobody's."""

from __future__ import annotations

import numpy as np

from harness.worker.failure import harness_error


def test_an_error_of_a_library_names_the_library() -> None:
    try:
        np.linalg.inv(np.zeros((2, 2)))
    except np.linalg.LinAlgError as raised:
        error = harness_error(raised)
    assert error.problem == "an error of numpy that its engine does not name: numpy.linalg.LinAlgError: Singular matrix"


def test_an_error_of_no_library_is_the_engines() -> None:
    try:
        raise KeyError("inner detail")
    except KeyError as raised:
        error = harness_error(raised)
    assert error.problem == "an unexpected error: KeyError: 'inner detail'"
    assert error.fix == "this is a defect of the engine; its traceback is in the log"
