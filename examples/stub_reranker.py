"""A stub of a reranking service, for trying a second stage without a model: it scores documents by the query's words.

    python examples/stub_reranker.py harness compare --backends "csr|rerank:url=ENDPOINT" …

runs the command with ENDPOINT replaced by the address of a server with a /rerank like vLLM's and Cohere's, which
lives as long as the command.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reranker(BaseHTTPRequestHandler):
    """Answers /v1/rerank with a score for each document."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Score the documents of the request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not {"query", "documents"} <= set(request):
            self.answer(422, {"message": "the fields query and documents are required"})
            return
        scores = [score(request["query"], document) for document in request["documents"]]
        best_first = sorted(range(len(scores)), key=lambda index: -scores[index])
        results = [{"index": index, "relevance_score": scores[index]} for index in best_first]
        self.answer(200, {"results": results})

    def answer(self, status: int, content: dict[str, object]) -> None:
        """Send an answer."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the terminal for the command."""


def score(query: str, document: str) -> float:
    """Return how many words and pairs of neighbouring words of the query a document has; long words count more."""
    asked, present = words(query), words(document)
    shared = {word for word in asked if word in set(present)}
    pairs = set(itertools.pairwise(asked)) & set(itertools.pairwise(present))
    weight = sum(len(word) for word in shared) + sum(len(first) + len(second) for first, second in pairs)
    return weight / (len(present) + 20) ** 0.5


def words(text: str) -> list[str]:
    """Return the words of a text with four or more letters, in small letters, without endings."""
    return [re.sub(r"(ings?|ed|es|s)$", "", word) for word in re.findall(r"[a-z]{4,}", text.lower())]


def main() -> int:
    """Run the command that the arguments give beside the server; its exit code is returned."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reranker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1"
    command = [argument.replace("ENDPOINT", endpoint) for argument in sys.argv[1:]]
    code = subprocess.run(command, check=False).returncode
    server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main())
