"""Models of a few thousand random weights, saved as the libraries save them: no hub and no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = """the cat sat on mat a dog chased across garden gardens need water and light rail reached station cats dogs in
yes no"""
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% if not enable_thinking %}<think> </think>\n{% endif %}{% endif %}"
)


def save_classifier(folder: Path, *, labels: int = 1, seed: int = 0) -> Path:
    """A BERT of two layers with a head of ``labels``; a CrossEncoder with one label."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True)
    vocabulary = [*_SPECIAL, *WORDS.split()]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=labels,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def save_language_model(folder: Path, *, template: str | None = _TEMPLATE, words: str = WORDS) -> Path:
    """A causal model of two layers with a chat template, whose tokens are words."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = word_tokenizer(words)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=256,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def word_tokenizer(words: str) -> Any:
    """Every word of ``words`` is a token, everything else unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate((*_SPECIAL, *dict.fromkeys(words.split())))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **special)
