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

_TURNS = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_WORDS_AND_SPACES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where GPT-4's tokenizer and its kin cut a text into words: a space goes with the word after it."""


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
    tokenizer = word_tokenizer(words)
    tokenizer.chat_template = template
    return _save_causal(folder, tokenizer)


def save_byte_level_model(folder: Path, texts: list[str]) -> Path:
    """A causal model whose tokens are bytes, merged as often as ``texts`` allow, in the manner of Qwen's tokenizer."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(_WORDS_AND_SPACES), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, min_frequency=1, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*texts, "yes", "no"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])
    fast.chat_template = _TURNS
    return _save_causal(folder, fast)


def _save_causal(folder: Path, tokenizer: Any) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

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


def save_decoder_classifier(folder: Path, family: str) -> Path:
    """A causal model with tied embeddings and a trained head of one label, with the chat template of a reranker."""
    import torch
    import transformers

    tokenizer = word_tokenizer(WORDS)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=256,
        initializer_range=0.5,
        tie_word_embeddings=True,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


def word_tokenizer(words: str) -> Any:
    """Every word of ``words`` is a token, everything else unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate((*_SPECIAL, *dict.fromkeys(words.split())))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **special)
