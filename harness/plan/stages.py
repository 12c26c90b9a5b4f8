"""Fusions and rerankers, which make a backend of others: names and parameters from ``stages.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.registry.parameters import Parameter, declared, encoder_parameters
from harness.registry.strict_toml import read_document

if TYPE_CHECKING:  # protocols brings numpy; expressions are checked by commands that answer without it
    from harness.registry.parameters import ParameterValue

_PATH = Path(__file__).parent / "stages.toml"


@dataclass(frozen=True, slots=True)
class Stage:
    """A fusion or a reranker."""

    name: str
    summary: str
    parameters: Mapping[str, Parameter]

    @property
    def defaults(self) -> dict[str, ParameterValue]:
        """Every parameter's default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}


@cache
def fusions() -> Mapping[str, Stage]:
    """Return fusions by name; :mod:`harness.rerank.fusion` has the formulas."""
    values = read_document(_PATH).values
    stages = {name: _stage(name, table, values["every-fusion"]) for name, table in values["fusions"].items()}
    return MappingProxyType(stages)


@cache
def rerankers() -> Mapping[str, Stage]:
    """Return rerankers by name; :mod:`harness.rerank` runs them."""
    values = read_document(_PATH).values
    stages = {}
    for name, table in values["rerankers"].items():
        of_models = values["every-model"] if table.get("model") else {}
        stages[name] = _stage(name, table, {**values["every-reranker"], **of_models})
    return MappingProxyType(stages)


def _stage(name: str, table: Mapping[str, Any], shared: Mapping[str, Any]) -> Stage:
    parameters = declared({**shared, **table.get("parameters", {})}, "engine", _PATH)
    of_encoder = encoder_parameters(table["encoder"]) if "encoder" in table else {}
    return Stage(name, table["summary"], {**parameters, **of_encoder})


def parse_weights(text: str) -> tuple[float, ...] | None:
    """Parse a ``weights`` parameter; None for an empty one."""
    return tuple(float(part) for part in text.split("+")) if text else None
