"""Exceptions that the client of an engine raises, for the tests of what an engine makes of them."""

from __future__ import annotations

from harness.engines.remote_server import Cause, Fault, FaultError


class FaultsInTheProcess:
    """A client written in Rust raises ValueError, among others."""

    def fault(self) -> Exception:
        return ValueError("out of luck")


class FaultsOfAServer:
    """A call that is not worth another try ends in a FaultError."""

    def fault(self) -> Exception:
        return FaultError(Fault(Cause.FAILED, "out of luck"), 1, 0.0)
