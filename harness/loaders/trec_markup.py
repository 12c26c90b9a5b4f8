"""TREC's collections and topics in SGML: ``<DOC>`` with ``<DOCNO>``, and ``<top>`` with ``<num>``, or ``<topic>``."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import BinaryIO

from harness.data.columns import RecordBatch
from harness.data.problems import Problems
from harness.loaders.source import read_blocks

_BATCH = 1024
_DOCUMENT = re.compile(r"<DOC>(.*?)</DOC>", re.DOTALL | re.IGNORECASE)
_DOCNO = re.compile(r"<DOCNO>(.*?)</DOCNO>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<(HEADLINE|TITLE|HEAD|HL|TTL|TI)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TEXT = re.compile(r"<(TEXT|LP|LEADPARA)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL)
_TOPIC = re.compile(r"<top>(.*?)(?=</top>|<top>|\Z)|<topic\b([^>]*)>(.*?)</topic>", re.DOTALL | re.IGNORECASE)
_TOPIC_NUMBER = re.compile(r"""\b(?:number|num|id)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)
_FIELD = re.compile(
    r"<([A-Za-z][\w-]*)[^>]*>(.*?)(?:</\1>|(?=<(?:num|title|desc|narr|dom|smry|con|fac|def)\b)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""A field up to its closing tag or, without a closing tag, to the next field of TREC's."""
_CAPTION = re.compile(r"^\s*(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)


def is_trectext(start: bytes) -> bool:
    """Return whether a file that begins so holds TREC documents."""
    return re.match(rb"\s*(<\?xml[^>]*>\s*)?<DOC>", start, re.IGNORECASE) is not None


def is_topics(start: bytes) -> bool:
    """Return whether a file that begins so holds TREC topics."""
    return re.match(rb"\s*(<\?xml[^>]*>\s*)?(<topics\b[^>]*>\s*)?<top(ic\b[^>]*)?>", start, re.IGNORECASE) is not None


def read_trectext(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
    """Yield documents as records of ``docno``, ``title`` and ``text``; ``lines`` number the documents.

    The title is the content of ``<TITLE>``, ``<HEADLINE>`` or their short forms, the text the content of all
    ``<TEXT>``, ``<LP>`` and ``<LEADPARA>`` elements, or of everything else without such elements. Tags are replaced by
    spaces, and character references by their characters.
    """
    batch, number, rest = RecordBatch([], []), 0, ""
    for text in _decoded(stream, problems, notes):
        rest += text
        end = 0
        for match in _DOCUMENT.finditer(rest):
            end, number = match.end(), number + 1
            record = _document(match[1])
            if record is None:
                problems.add(number, "no <DOCNO>")
                continue
            batch.lines.append(number)
            batch.records.append(record)
        rest = rest[end:]
        if len(batch.lines) >= _BATCH:
            yield batch
            batch = RecordBatch([], [])
    if rest.strip() and "<doc>" in rest.lower():
        problems.add(number + 1, "no </DOC>: the file ends inside it")
    if batch.lines:
        yield batch


def _document(content: str) -> dict[str, str] | None:
    docno = _DOCNO.search(content)
    if docno is None:
        return None
    texts = [match[1] for match in _TEXT.findall(content)]
    body = " ".join(texts) if texts else _TITLE.sub(" ", _DOCNO.sub(" ", content))
    outside = _TEXT.sub(" ", content)
    title = " ".join(match[1] for match in _TITLE.findall(outside if texts else content))
    return {"docno": docno[1].strip(), "title": _plain(title), "text": _plain(body)}


def read_topics(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
    """Yield topics as records of ``num`` and one field a tag (``title``, ``desc``, ``narr`` …), in small letters.

    Captions such as ``Number:`` and ``Description:`` are left out. Numbers are kept as they are: ``051`` is not ``51``.
    """
    batch = RecordBatch([], [])
    for number, match in enumerate(_TOPIC.finditer("".join(_decoded(stream, problems, notes))), 1):
        content = match[1] if match[1] is not None else match[3]
        record = {name.lower(): _plain(_CAPTION.sub("", value)) for name, value in _FIELD.findall(content)}
        attribute = _TOPIC_NUMBER.search(match[2] or "")
        if attribute is not None:
            record = {"num": attribute[1].strip(), **record}
        batch.lines.append(number)
        batch.records.append(record)
    if batch.lines:
        yield batch


def _decoded(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[str]:
    for block in read_blocks(stream, problems, notes):
        content = b"".join(block.lines)
        try:
            yield content.decode("utf-8")
        except UnicodeDecodeError as error:
            line = block.first + content.count(b"\n", 0, error.start)
            problems.add(None, f"not UTF-8: byte 0x{content[error.start]:02x} on line {line}")
            return


def _plain(text: str) -> str:
    return html.unescape(_TAG.sub(" ", text)).strip()
