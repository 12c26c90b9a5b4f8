"""TREC's collections and topics in SGML and XML: ``<DOC>`` with ``<DOCNO>``; ``<top>`` or ``<topic>`` with a number.

Topics are those of TREC's tracks, FIRE, CLEF and NTCIR: in SGML or XML, with a declaration or without, attributes and
any outer element. The number is an attribute (``number``, ``id`` …) or an element (``num``, ``qid``, ``identifier`` …).
"""

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
_TOPIC = re.compile(
    r"<top\b([^>]*)>(.*?)(?=</top>|<top\b|\Z)|<((?:inex_)?topic|query)\b([^>]*)>(.*?)</\3>", re.DOTALL | re.IGNORECASE
)
_TOPIC_NUMBER = re.compile(
    r"""\b(?:number|num|id|qid|topic[-_]?(?:id|number|num))\s*=\s*["']([^"']*)["']""", re.IGNORECASE
)
_NUMBER_FIELDS = ("num", "number", "qid", "identifier", "topic_id", "topicid", "topic-id", "id")
"""Elements that hold a topic's number, in the order in which they are taken."""
_LANGUAGE = re.compile(r"^[a-z]{2}-")
"""The language before the name of an element of CLEF's: ``EN-title``."""
_DECLARATION = re.compile(rb"<\?xml[^>]*\bencoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']", re.IGNORECASE)
_TOPICS_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>\s*)*(?:<[A-Za-z][\w.-]*\b[^>]*>\s*|<!--.*?-->\s*)??"
    rb"<(?:top|(?:inex_)?topic|query)(?:\s[^>]*)?>",
    re.DOTALL | re.IGNORECASE,
)
"""Declarations, at most one outer element, and the first topic."""
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
    return _TOPICS_START.match(start) is not None


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
    Of several elements of one name, such as subtopics, the first is kept. A topic without elements is its text, as
    ``title``.
    """
    batch = RecordBatch([], [])
    for number, match in enumerate(_TOPIC.finditer("".join(_decoded_as_declared(stream, problems, notes))), 1):
        attributes, content = (match[1], match[2]) if match[2] is not None else (match[4], match[5])
        batch.lines.append(number)
        batch.records.append(_topic(attributes, content))
    if batch.lines:
        yield batch


def _topic(attributes: str, content: str) -> dict[str, str]:
    record: dict[str, str] = {}
    for tag, value in _FIELD.findall(content):
        record.setdefault(_LANGUAGE.sub("", tag.lower()), _plain(_CAPTION.sub("", value)))
    attribute = _TOPIC_NUMBER.search(attributes)
    of_attribute = [attribute[1].strip()] if attribute is not None else []
    of_num = [record.pop(_NUMBER_FIELDS[0])] if _NUMBER_FIELDS[0] in record else []
    numbers = [*of_num, *of_attribute, *(record.pop(name) for name in _NUMBER_FIELDS if name in record)]
    if not record:
        record["title"] = _plain(content)
    elif "content" in record and not {"title", "query", "question", "text"} & record.keys():  # of NTCIR
        record["title"] = record.pop("content")
    return {**({"num": numbers[0]} if numbers else {}), **record}


def _decoded_as_declared(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[str]:
    """Yield the text of a file, in the encoding that its XML declaration names if it is not UTF-8."""
    blocks = [b"".join(block.lines) for block in read_blocks(stream, problems, notes)]
    content = b"".join(blocks)
    declared = _DECLARATION.match(content.lstrip())
    encoding = declared[1].decode("ascii") if declared is not None else "utf-8"
    try:
        yield content.decode(encoding)
    except LookupError:
        problems.add(None, f"declares the encoding '{encoding}', which is not known")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        expected = "UTF-8" if declared is None else f"{encoding}, which it declares"
        problems.add(None, f"not {expected}: byte 0x{content[error.start]:02x} on line {line}")


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
