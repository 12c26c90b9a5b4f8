"""A stub of a judge, for trying a chain without a language model: it counts the words that query and passage share.

    python examples/stub_judge.py harness compare --backends "csr|judge:model=stub;endpoint=ENDPOINT" …

runs the command with ENDPOINT replaced by the address of an OpenAI-compatible server that lives as long as the command.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Judge(BaseHTTPRequestHandler):
    """Answers /chat/completions with a grade from 0 to 3: how many words query and passage share."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Grade the pair in the last message."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        query, passage = texts(request["messages"][-1]["content"])
        shared = words(query) & words(passage)
        answer = {"role": "assistant", "content": json.dumps({"grade": min(3, len(shared))})}
        body = json.dumps({"choices": [{"message": answer, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the terminal for the command."""


def texts(message: str) -> tuple[str, str]:
    """Return query and passage of a message: between tags for labels, after their names for a second stage."""
    tagged = re.match(r"<query-(\w+)>\n(.*)\n</query-\1>\n<document-\1>\n(.*)\n</document-\1>", message, re.DOTALL)
    if tagged:
        return tagged[2], tagged[3]
    query, _, passage = message.partition("\n\nPassage: ")
    return query.removeprefix("Query: "), passage


def words(text: str) -> set[str]:
    """Return the words of a text, in small letters."""
    return set(re.findall(r"\w+", text.lower()))


def main() -> int:
    """Run the command that the arguments give beside the server; its exit code is returned."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1"
    command = [argument.replace("ENDPOINT", endpoint) for argument in sys.argv[1:]]
    code = subprocess.run(command, check=False).returncode
    server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main())
