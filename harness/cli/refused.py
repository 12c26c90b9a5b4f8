"""Values that an option does not take, refused in the same words whichever layer finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from harness.errors import UsageError

if TYPE_CHECKING:
    import typer

__all__ = ["in_own_words"]


class _Faulty(Protocol):
    """What of pydantic's ValidationError is used: Typer reads values through it, and chains it to what it raises."""

    def errors(self) -> Sequence[Mapping[str, Any]]: ...


def in_own_words(refused: typer.BadParameter) -> UsageError | None:
    """The harness's own error for a value that Typer refused; None where it says nothing but what is missing."""
    cause, parameter = refused.__cause__, refused.param
    if parameter is None or not hasattr(cause, "errors"):
        return None
    fault = cast("_Faulty", cause).errors()[0]
    option = next((one for one in parameter.opts if one.startswith("--")), str(parameter.name))
    choices = str(fault.get("ctx", {}).get("error", "")).partition(" is not one of ")[2]
    if choices:
        known = choices.rstrip(".").replace("'", "")
        return UsageError(f"{option} {fault['input']}: no such choice", fix=f"known: {known}")
    return UsageError(f"{option} is {fault['input']}", fix=f"it must be {_wanted(fault)}")


def _wanted(fault: Mapping[str, Any]) -> str:
    limits: Mapping[str, Any] = fault.get("ctx", {})
    kind = str(fault["type"])
    if kind.startswith("int_"):
        return "a whole number"
    if kind.startswith("float_"):
        return "a number"
    if kind == "greater_than_equal":
        return f"at least {limits['ge']:g}"
    if kind == "less_than_equal":
        return f"at most {limits['le']:,.10g}"
    return f"something else: {fault['msg']}"
