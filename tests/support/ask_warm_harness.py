"""``ask_warm_harness.py SOCKET KIND ARGUMENTS``: has a server of `warm_harness` run a command, as this process would.

It imports only what is built into the interpreter or a single library, because starting quickly is all that it is for.
"""

import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

address, kind, *arguments = sys.argv[1:]
request = {"kind": kind, "arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
server = socket(AF_UNIX, SOCK_SEQPACKET)
server.connect(address)
server.sendmsg([marshal.dumps(request)], [(SOL_SOCKET, SCM_RIGHTS, streams)])
ended = server.recv(1)
sys.exit(ended[0] if ended else "the warm harness went away")
