"""Rerankers in the manner of Qwen3-Reranker: a language model is asked in its chat template, and says yes or no."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

from harness.encoders.model_checks import token_places
from harness.errors import EngineUnavailableError
from harness.rerank.local_model import Transformer
from harness.store.cache import JSON

__all__ = ["Qwen3"]

_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
"""The wording that these models were trained with: another one is another model."""
_ASKED = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>:"
_USUAL_LENGTH = 8192
_LAST_ONLY = {"logits_to_keep": 1, "use_cache": False}
_PLACE = "\ue000"
"""Stands for the document while the template is filled in: a character for private use, which no text holds."""


class Qwen3(Transformer):
    """The logit of ``yes`` less that of ``no``, as the next token: the log odds of relevance.

    Only the document is cut to ``max_length`` tokens of the whole, so that question and template stay; without one, to
    8,192 or the model's own limit, whichever is less.
    """

    name: ClassVar[str] = "qwen3"
    auto_class: ClassVar[str] = "AutoModelForCausalLM"

    def extra_identity(self) -> dict[str, JSON]:
        """The instruction."""
        return {"instruction": self.parameter("instruction"), "template": 2}

    def prepare(self) -> None:
        """Read how the model can be asked.

        Raises EngineUnavailableError for one without chat template, or one that splits yes or no into tokens.
        """
        if not self.tokenizer.chat_template:
            raise EngineUnavailableError(
                f"reranker 'qwen3': model '{self.parameter('model')}' has no chat template", fix="use another reranker"
            )
        self._yes, self._no = (self._token(word) for word in ("yes", "no"))
        # one answer is read: neither what follows each word of the document nor what helps to go on writing is needed
        takes = inspect.signature(self.model.forward).parameters
        self._last_only = {name: value for name, value in _LAST_ONLY.items() if name in takes}

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:  # noqa: ANN401 - a tensor
        """float (n,)"""
        rows = [self._tokens(query, document) for query, document in zip(queries, documents, strict=True)]
        longest = max(map(len, rows))
        padding = self.tokenizer.pad_token_id or 0
        # on the left, so that the last place of every row is the one before the answer
        ids = self.torch.tensor([[padding] * (longest - len(row)) + row for row in rows], device=self.device)
        mask = self.torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=self.device)
        last = self.model(input_ids=ids, attention_mask=mask, **self._last_only).logits[:, -1, :].float()
        return last[:, self._yes] - last[:, self._no]

    def _tokens(self, query: str, document: str) -> list[int]:
        asked = _ASKED.format(instruction=self.parameter("instruction"), query=query)
        chat = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": asked + _PLACE}]
        text = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        before, _, after = text.partition(_PLACE)
        head, tail = self._encoded(before), self._encoded(after)
        room = max(self.max_length - len(head) - len(tail), 0)
        # byte-level tokenizers keep a space with the word after it: encoded apart, it would be a token that the model
        # never saw at this place
        return [*head, *self._encoded(f" {document}")[:room], *tail]

    def limit(self) -> int:
        """What was given, else 8,192 or the model's own limit: what these models can read fills no memory unasked."""
        return int(self.parameter("max_length")) or min(super().limit(), _USUAL_LENGTH, self._positions())

    def _positions(self) -> int:
        return token_places(self.model) or _USUAL_LENGTH

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _token(self, word: str) -> int:
        ids = self._encoded(word)
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
            raise EngineUnavailableError(
                f"reranker 'qwen3': model '{self.parameter('model')}' has no token '{word}'", fix="use another reranker"
            )
        return ids[0]
