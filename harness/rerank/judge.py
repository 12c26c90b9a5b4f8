"""An LLM as judge: any OpenAI-compatible chat endpoint grades each candidate from 0 to 3."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.settings import limits_of
from harness.encoders.token_counts import TextLengths, Unit
from harness.errors import UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.registry.parameters import ParameterValue
from harness.remote.calls import RemoteCalls, allowed_calls, calls_refused
from harness.rerank.reranker import Facts, Reranker
from harness.store.cache import JSON
from harness.wording import counted

Answer = TypeVar("Answer")
GRADES = (0, 1, 2, 3)
_SYSTEM = (
    "You judge how well a passage answers a search query. Grade it with one whole number:\n"
    "0: it has nothing to do with the query\n"
    "1: it is about the subject, and does not answer the query\n"
    "2: it answers the query in part, or among other things\n"
    "3: it is about the query and answers it\n"
    'Answer with JSON and nothing else: {"grade": 0}, {"grade": 1}, {"grade": 2} or {"grade": 3}.'
)
_REMEDY = (
    "pass json_mode=false if the endpoint does not support response_format, a larger max_tokens if the model thinks "
    "aloud, or another model; finished grades are kept for the next run"
)
_THOUGHTS = re.compile(r".*</think>", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


class Judge(Reranker):
    """One call a pair, at temperature 0 with a fixed seed."""

    integer_scores: ClassVar[bool] = True
    paid: ClassVar[bool] = True
    unit: ClassVar[Unit | None] = "characters"

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Check the parameters; raises UsageError for an endpoint that is not a plain URL, and without a model."""
        self._parameters = parameters
        if not parameters["model"]:
            raise UsageError("the judge has no model", fix="name a model of the endpoint with model=")
        if not is_plain_url(str(parameters["endpoint"])):
            raise UsageError(
                f"it needs endpoint={PLAIN_FORM}; reports would store any key or password in it",
                fix=f"a key goes into the environment variable {parameters['api_key_env']}",
            )
        self._calls: RemoteCalls | None = None
        self._lengths: TextLengths | None = None

    def identity(self) -> dict[str, JSON]:
        """Return endpoint, model and settings; the prompt is in the content. Endpoints may name two models alike."""
        settings = ("model", "revision", "max_tokens", "seed", "json_mode")
        endpoint = str(self._parameters["endpoint"]).rstrip("/")
        return {"endpoint": endpoint, **{name: self._parameters[name] for name in settings}}

    def content(self, query: str, document: str) -> str:
        """Return the whole prompt."""
        return json.dumps(self._messages(query, document), ensure_ascii=False)

    def allow(self, calls: int) -> None:
        """Refuse calls that are not allowed; raises EngineUnavailableError for missing grades with ``max_calls`` 0."""
        if calls and allowed_calls(self._parameters["max_calls"]) == 0:
            raise calls_refused(str(self._parameters["endpoint"]), calls, counted(calls, "grade"))

    def load(self) -> None:
        """Open the client."""
        parameters = self._parameters
        endpoint, key_env = str(parameters["endpoint"]), str(parameters["api_key_env"])
        self._calls = RemoteCalls(endpoint, key_env=key_env, limits=limits_of(parameters))

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Call once for each pair; raises EngineUnavailableError as :class:`harness.remote.calls.RemoteCalls` does."""
        for row, (query, document) in enumerate(zip(queries, documents, strict=True)):
            out[row] = self.send(query, document, read_grade)
            progress.advance(1)
        most = int(self._parameters["max_characters"])
        counts = [(len(document), max(0, len(document) - most)) for document in documents]
        self._lengths = TextLengths(
            np.array(counts, dtype=np.int32).reshape(-1, 2), most, "max_characters= of the backend", "characters"
        )

    def send(self, query: str, document: str, read: Callable[[Any], Answer]) -> Answer:
        """Return the value that ``read`` makes of the endpoint's answer for a pair; raises as :meth:`score`."""
        if self._calls is None:
            raise AssertionError("the judge is used before it was loaded")
        body = {
            "model": self._parameters["model"],
            "messages": self._messages(query, document),
            "temperature": 0,
            "seed": self._parameters["seed"],
            "max_tokens": self._parameters["max_tokens"],
            **({"response_format": {"type": "json_object"}} if self._parameters["json_mode"] else {}),
        }
        return self._calls.post("/chat/completions", body, read, remedy=_REMEDY)

    @property
    def lengths(self) -> TextLengths | None:
        """Characters of the documents, and the characters that the judge is not sent."""
        return self._lengths

    @property
    def facts(self) -> Facts:
        """Return the endpoint and the number of calls."""
        calls = self._calls
        return {
            "endpoint": self._parameters["endpoint"],
            "calls": calls.calls if calls is not None else 0,
            "repeated_calls": calls.repeated if calls is not None else 0,
        }

    def close(self) -> None:
        """Close the connections."""
        if self._calls is not None:
            self._calls.close()

    def _messages(self, query: str, document: str) -> list[dict[str, str]]:
        cut = document[: int(self._parameters["max_characters"])]
        return [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": f"Query: {query}\n\nPassage: {cut}"},
        ]


def read_grade(answer: Any) -> int:
    """Return the grade in a chat completion; raises ValueError, TypeError or KeyError for any other answer.

    A chain of thought before it and a fence around it are ignored. The errors hold the whole message: it is cut where
    the key is hidden.
    """
    content = answer["choices"][0]["message"]["content"]
    if not isinstance(content, str):
        raise TypeError(f"a message whose content is {content!r}")
    try:
        verdict = json.loads(without_frame(content))
    except ValueError as error:
        raise ValueError(f"a message that is not JSON: {content!r}") from error
    grade = verdict.get("grade") if isinstance(verdict, dict) else None
    if type(grade) is not int or grade not in GRADES:
        raise ValueError(f"a message without a grade from 0 to 3: {content!r}")
    return grade


def without_frame(message: str) -> str:
    """Return a message without a chain of thought before it and a fence around it."""
    text = _THOUGHTS.sub("", message).strip()
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text
