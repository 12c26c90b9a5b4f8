"""``ask_warm_harness.py SOCKET KIND ARGUMENTS``: has a server of `warm_harness` run a command, as this process would.

It imports little, because starting quickly is all that it is for.
"""

import json
import os
import sys
from socket import AF_UNIX, SOCK_SEQPACKET, send_fds, socket

address, kind, *arguments = sys.argv[1:]
request = {"kind": kind, "arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
with socket(AF_UNIX, SOCK_SEQPACKET) as server:
    server.connect(address)
    send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    ended = server.recv(1)
sys.exit(ended[0] if ended else "the warm harness went away")
