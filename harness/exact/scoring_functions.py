"""Formulas of other packages: a function that weighs each term of each document, named ``module:function``.

A card names the function as ``[reference] scoring``, for an engine with its own formula. The function is ``function(
postings, parameters)``: it gets the :class:`Postings` of the documents and the backend's parameters, and returns the
weight of each posting, float (P,). A document's score for a query is the sum of the weights of the query's terms, each
as often as the query has it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int64Array, TermCounts, owners
from harness.errors import CardError, EngineFailureError
from harness.registry.foreign_code import foreign_code
from harness.registry.parameters import ParameterValue

_FIX = "write it like def weights(postings, parameters), which returns the weight of each posting"
_UNIMPORTED = "install the package that holds it, or put its folder on PYTHONPATH"


class Postings(NamedTuple):
    """The terms of n documents: P postings, one for each distinct term of each document, over V terms.

    Attributes:
        tf: float64 (P,), how often the document has the term, at least 1.
        term: int64 (P,), the number of the term.
        document: int64 (P,), the number of the document.
        df: float64 (V,), how many documents have each term, at least 1.
        lengths: float64 (n,), terms of each document, repeats included; 0 for one without terms.
    """

    tf: Float64Array
    term: Int64Array
    document: Int64Array
    df: Float64Array
    lengths: Float64Array


Weigh = Callable[[Postings, Mapping[str, ParameterValue]], Any]


@dataclass(frozen=True, slots=True)
class ForeignFormula:
    """A scoring function of another package under a backend's ``parameters``; ``name`` is ``module:function``."""

    name: str
    function: Weigh
    parameters: tuple[tuple[str, ParameterValue], ...]
    float32_sums: ClassVar[bool] = False

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, ParameterValue]) -> ForeignFormula:
        """Return the formula; raises CardError as :func:`load_function`."""
        return cls(name, load_function(name), tuple(sorted(parameters.items())))

    def weigh(self, counts: TermCounts) -> Float32Array:
        """Return the weight of each count of ``counts.documents``, rounded to float32.

        Raises:
            EngineFailureError: The function raises, or returns anything but a finite weight of each posting.
        """
        postings = _postings(counts)
        doing = f"the scoring function '{self.name}'"
        with foreign_code(doing, EngineFailureError, _FIX):
            returned = self.function(postings, dict(self.parameters))
        with foreign_code(f"reading the result of {doing}", EngineFailureError, _FIX):
            weights = np.asarray(returned)
        if weights.shape != postings.tf.shape or weights.dtype.kind not in "fiu":
            raise EngineFailureError(
                f"{doing} returned an array of {weights.dtype} of shape {weights.shape}, expected a number for each "
                f"posting, shape {postings.tf.shape}",
                fix=_FIX,
            )
        with np.errstate(over="ignore"):
            rounded: Float32Array = weights.astype(np.float32)
        finite = np.isfinite(rounded)
        if not finite.all():
            first = int(np.argmin(finite))
            term = counts.vocabulary[int(counts.documents.indices[first])]
            raise EngineFailureError(
                f"{doing} gave the term '{term}' of document number {postings.document[first]} the weight "
                f"{weights[first]}, which is not a finite float32",
                fix="every document with the term needs a weight, even if all documents have the term",
            )
        return rounded


def load_function(name: str) -> Weigh:
    """Import the function ``module:function``; raises CardError if no such function takes two arguments."""
    module_name, _, function_name = name.partition(":")
    with foreign_code(f"importing the scoring '{name}'", CardError, _UNIMPORTED):
        module = importlib.import_module(module_name)
    function: Weigh | None = getattr(module, function_name, None)
    if not callable(function):
        raise CardError(f"the scoring '{name}' is not a function: '{module_name}' has none of that name", fix=_FIX)
    try:
        inspect.signature(function).bind(None, {})
    except (TypeError, ValueError) as error:
        raise CardError(f"the scoring '{name}' does not take postings and parameters: {error}", fix=_FIX) from error
    return function


def _postings(counts: TermCounts) -> Postings:
    """Return the postings of the documents, over the terms that some of them have."""
    documents = counts.documents
    df = np.bincount(np.asarray(documents.indices), minlength=documents.dimensions)
    number = np.cumsum(df > 0) - 1  # counts of some documents keep the columns of all
    return Postings(
        tf=np.array(documents.values, dtype=np.float64),
        term=number[np.asarray(documents.indices)],
        document=owners(documents.indptr),
        df=df[df > 0].astype(np.float64),
        lengths=counts.lengths.astype(np.float64),
    )
