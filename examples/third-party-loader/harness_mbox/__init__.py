"""Mail in an mbox file as documents: the subject is the title, the plain text is the text."""

from __future__ import annotations

import mailbox
from collections.abc import Iterator
from email.header import decode_header, make_header

from harness.data.columns import TextBatch
from harness.data.progress import Progress
from harness.loaders.base import DatasetSpec, LoadedDataset, TextSource

__all__ = ["MboxLoader"]


class MboxLoader:
    """Reads ``.mbox`` files; queries and judgments are named with ``--queries`` and ``--qrels``."""

    name = "mbox"

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is an mbox file."""
        return spec.path.suffix == ".mbox" and spec.path.is_file()

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the mail; it is read when its texts are wanted."""

        def batches() -> Iterator[TextBatch]:
            for number, message in enumerate(mailbox.mbox(spec.path, create=False), 1):
                parts = [part for part in message.walk() if part.get_content_type() == "text/plain"]
                texts = [part.get_payload(decode=True).decode(part.get_content_charset() or "utf-8") for part in parts]
                title = str(make_header(decode_header(message["Subject"] or "")))
                yield TextBatch([str(message["Message-ID"])], ["\n".join(texts)], [title], [number])

        return LoadedDataset(TextSource.of_batches(spec.location, batches))
