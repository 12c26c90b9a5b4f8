"""Why ids that judgments name are not there: spelled otherwise, of another split, or beyond the end of a cut file."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from harness.data.id_spelling import respelling
from harness.data.types import Ids
from harness.wording import counted

__all__ = ["unmet_documents", "unmet_queries"]

_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_FEW_DOCUMENTS = 10


def unmet_queries(judged: Ids, known: Ids, where: str) -> str | None:
    """Return why judged queries may be missing from the file ``where``; None for none, and where nothing tells."""
    missing = _missing(judged, known)
    if not missing:
        return None
    what = f"{len(missing):,} of {len(judged):,} judged queries are not in {where}"
    spelled = respelling(missing, known)
    if spelled is not None:
        return f"{what}, and {spelled}: write ids alike in both files"
    if 2 * len(missing) > len(judged):
        return f"{what}, which looks like the judgments of another split (--split, --qrels) or collection"
    return None


def unmet_documents(judged: Ids, known: Ids, where: str) -> str | None:
    """Return why judged documents may be missing from the file ``where``; None for none.

    Ids in another spelling are named; else numbers that all lie beyond the last document's of an ascending file tell
    that it was cut.
    """
    missing = _missing(judged, known)
    if not missing:
        return None
    what = (
        f"{len(missing):,} of {len(judged):,} judged documents are not in {where} ({counted(len(known), 'document')})"
    )
    spelled = respelling(missing, known)
    if spelled is not None:
        return f"{what}, and {spelled}: write ids alike in both files"
    if _is_cut(missing, known):
        return f"{what}, and all of them come after its last, '{known[len(known) - 1]}': the file was cut; get it whole"
    return f"{what}: get the corpus that the judgments were made on"


def _missing(judged: Ids, known: Ids) -> list[str]:
    return judged.take(np.flatnonzero(known.rows_of(judged) < 0))


def _is_cut(missing: Sequence[str], known: Ids) -> bool:
    """Tell whether the numbers at the end of ids rise through the file, and are larger in all that are missing."""
    if len(known) < _FEW_DOCUMENTS:
        return False
    matches = [_LAST_NUMBER.search(name) for name in known]
    lost = [_LAST_NUMBER.search(name) for name in missing]
    if None in matches or None in lost:
        return False
    numbered = np.array([int(match[1]) for match in matches if match is not None], dtype=np.int64)
    beyond = min(int(match[1]) for match in lost if match is not None)
    return bool((np.diff(numbered) > 0).all()) and beyond > int(numbered[-1])
