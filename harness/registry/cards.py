"""Backend cards: one strict TOML file per backend. They are the registry; there is no second list.

The fields are described in ``docs/reference/cards.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from harness.errors import nearest
from harness.registry.parameters import (
    Parameter,
    Scope,
    check_values,
    encoder_parameters,
    read_parameter,
    shared_parameters,
)
from harness.registry.strict_toml import Table, card_name, parse_document, unreadable

if TYPE_CHECKING:  # protocols brings numpy; cards are read by commands that answer without it
    from harness.registry.parameters import ParameterValue

ReferenceKind = Literal["sparse", "lucene", "dense", "hybrid", "none"]

EncoderName = Literal["dense", "splade"]
"""Encoders that run a model."""
_MODEL_ENCODERS: tuple[EncoderName, ...] = get_args(EncoderName)
_ENCODERS = ("bm25", "dense", "splade", "bm25+dense", "none")
_ENCODER_OF_REFERENCE = {"dense": "dense", "hybrid": "bm25+dense"}
_SIMILARITIES = ("cosine", "dot", "l2")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class ReferenceRule:
    """Rule for the exact result that a backend is compared with.

    ``tolerance`` is relative; 0 means that only exact ties may be exchanged. ``unless`` maps a parameter to the values
    under which there is no reference. ``scoring`` names the term weight of an engine with a different formula, in
    :data:`harness.exact.bm25_models.SCORINGS` or as ``module:function``; None for the harness's own BM25 or vectors.
    ``fusion`` names how an engine of kind ``hybrid`` fuses its lists, in :data:`harness.parity.fused_lists.FUSIONS`; ""
    for another kind.
    """

    kind: ReferenceKind
    tolerance: float = 0.0
    unless: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)
    scoring: str | None = None
    fusion: str = ""

    def applies(self, parameters: Mapping[str, ParameterValue]) -> bool:
        """Return whether there is a reference under these complete parameters."""
        return self.kind != "none" and not any(parameters[name] in values for name, values in self.unless.items())


FIELDS = "fields"
"""Name, and type, of the parameter that names the fields that a backend searches separately, with their weights."""
FIELD_PARAMETERS = ("id_key", "id_column", "id_field")
"""Names of the parameter of an external index that names the field of ids: of documents, rows, or stored fields."""


@dataclass(frozen=True, slots=True)
class ExternalIndexRules:
    """The parameters that go with ``external=true``, an index that is searched unchanged.

    Of ``required_options`` exactly one must be given: it names the index. Parameters in ``only`` mean nothing for a
    new index, those in ``building`` nothing for an existing one. The engine reads omitted parameters in ``read`` from
    the index: it gets "" for them then, and its ``IndexHandle.state`` has their values. ``field`` is the parameter that
    names the field of ids, "" for an engine whose documents have no fields.
    """

    required_options: tuple[str, ...]
    only: tuple[str, ...]
    building: tuple[str, ...]
    read: tuple[str, ...] = ()
    field: str = ""


@dataclass(frozen=True, slots=True)
class BackendCard:
    """A named, complete retrieval set-up: engine, encoder, reference and parameters.

    ``external`` is None for a backend that cannot search an existing index. ``digest`` is the SHA-256 of the card's
    file.
    """

    name: str
    summary: str
    engine: str
    extra: str | None
    encoder: str
    reference: ReferenceRule
    parameters: Mapping[str, Parameter]
    path: Path
    digest: str
    external: ExternalIndexRules | None = None

    @property
    def model_encoder(self) -> EncoderName | None:
        """The encoder that runs a model, ``dense`` of ``bm25+dense``; None without any."""
        return next((encoder for encoder in _MODEL_ENCODERS if encoder in self.encoder.split("+")), None)

    @property
    def searches_fields(self) -> bool:
        """True if a parameter names fields of the documents that are searched separately."""
        return FIELDS in self.parameters and self.parameters[FIELDS].type == FIELDS

    @property
    def defaults(self) -> dict[str, ParameterValue]:
        """Every parameter's default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def scope(self, scope: Scope) -> tuple[str, ...]:
        """Return the names of the parameters of one scope, in the card's order."""
        return tuple(name for name, parameter in self.parameters.items() if parameter.scope == scope)


def read_backend_card(path: Path) -> BackendCard:
    """Read one backend card; raises CardError with every problem of the file.

    An unchanged file gives the same card: every comparison requests all of them.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    return _card(path, content)


@lru_cache(maxsize=256)
def _card(path: Path, content: bytes) -> BackendCard:
    document = parse_document(path, content)
    table = Table(document.values)
    encoder = table.choice("encoder", _ENCODERS)
    card_parameters = {name: read_parameter(name, sub) for name, sub in _add_shared(table).tables().items()}
    parameters = _add_encoders(table, encoder, card_parameters)
    card = BackendCard(
        name=card_name(table, path),
        summary=table.required("summary", str),
        engine=table.required("engine", str),
        extra=table.optional("extra", str),
        encoder=encoder,
        reference=_reference(table.table("reference"), parameters),
        parameters=parameters,
        path=path,
        digest=document.digest,
        external=_external(table.table("external_index"), parameters),
    )
    if card.engine and not _TARGET.fullmatch(card.engine):
        table.problem(f"'engine' is '{card.engine}', expected 'package.module:ClassName'")
    _check_encoder(table, card)
    table.close()
    table.raise_problems(path)
    return card


def _check_encoder(table: Table, card: BackendCard) -> None:
    """Refuse faults that would only show in a run: a reference without vectors, or with others, or without a rule."""
    if card.encoder == "none" and card.reference.kind != "none":
        table.problem(
            f"'reference.kind' is '{card.reference.kind}', but without an encoder there is nothing to compute it from"
        )
    expected_encoder = _ENCODER_OF_REFERENCE.get(card.reference.kind)
    fits = (
        card.encoder == expected_encoder
        if expected_encoder is not None
        else card.encoder not in _ENCODER_OF_REFERENCE.values()
    )
    if card.reference.kind != "none" and not fits:
        table.problem(f"'reference.kind' is '{card.reference.kind}', but 'encoder' is '{card.encoder}'")
    of_terms = (card.reference.kind, card.encoder) in (("sparse", "bm25"), ("hybrid", "bm25+dense"))
    if card.reference.scoring is not None and not of_terms:
        table.problem(
            "'reference.scoring' goes with 'reference.kind' sparse and 'encoder' bm25, or hybrid and bm25+dense, only"
        )
    if bool(card.reference.fusion) != (card.reference.kind == "hybrid"):
        table.problem("'reference.fusion' goes with 'reference.kind' hybrid, which needs it")
    similarity = card.parameters.get("similarity")
    if card.reference.kind in _ENCODER_OF_REFERENCE and (
        similarity is None or not set() < set(similarity.choices) <= set(_SIMILARITIES)
    ):
        table.problem(
            f"'reference.kind' is '{card.reference.kind}': it needs the parameter 'similarity', with choices of "
            f"{', '.join(_SIMILARITIES)}"
        )


def _add_shared(table: Table) -> Table:
    """Return the card's table of parameters, followed by the tables that it uses, with its own keys."""
    parameters, shared = table.table("parameters"), shared_parameters()
    for name in table.strings("use") or ():
        if name not in shared:
            table.problem(f"'use' names '{name}'{nearest(name, shared)}, known: {', '.join(shared)}")
        for parameter, content in shared.get(name, {}).items():
            again = parameters.values.get(parameter, {})
            parameters.values[parameter] = {**content, **again} if isinstance(again, dict) else again
    return parameters


def _add_encoders(table: Table, encoder: str, parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the card's ``parameters`` parameters, followed by its encoder's parameters that it does not redeclare."""
    declared = encoder_parameters(encoder)
    for name in parameters.keys() & declared.keys():
        if parameters[name].type != declared[name].type or parameters[name].scope == "engine":
            table.problem(
                f"'parameters.{name}' redeclares one of encoder '{encoder}': its type is {declared[name].type} and its "
                "scope 'encoder', or 'search' if the engine weighs terms itself"
            )
    return {**parameters, **{name: parameter for name, parameter in declared.items() if name not in parameters}}


def _reference(table: Table, parameters: Mapping[str, Parameter]) -> ReferenceRule:
    kind = table.choice("kind", ("sparse", "lucene", "dense", "hybrid", "none"))
    tolerance = table.optional("tolerance", float) or 0.0
    if not 0 <= tolerance < 1:
        table.problem(f"'reference.tolerance' is {tolerance!r}, expected a relative number from 0 up to 1")
    scoring = table.optional("scoring", str)
    fusion = table.optional("fusion", str) or ""
    unless: dict[str, tuple[ParameterValue, ...]] = {}
    conditions = table.table("unless")
    for name in conditions.values:
        values = conditions.optional(name, list) or []
        unless[name] = tuple(values)
        if name not in parameters:
            table.problem(f"'reference.unless.{name}' is not a parameter of this card")
        else:
            check_values(table, parameters[name], tuple(values))
    table.close()
    return ReferenceRule(cast("ReferenceKind", kind), tolerance, unless, scoring, fusion)


def _external(table: Table, parameters: Mapping[str, Parameter]) -> ExternalIndexRules | None:
    if not table.values:
        return None
    location, only, building, read = (table.strings(key) or () for key in ("where", "only", "building", "read"))
    field_parameter = next((name for name in FIELD_PARAMETERS if name in only), "")
    rules = ExternalIndexRules(location, only, building, read, field_parameter)
    switch = parameters.get("external")
    if switch is None or switch.type != "bool" or switch.default is not False:
        table.problem("[external_index] needs the bool parameter 'external', false by default: [parameters.external]")
    if not rules.required_options:
        table.problem("'external_index.where' names no parameter: which one is the location of the index?")
    for name in (*rules.required_options, *rules.only, *rules.building, *rules.read):
        if name not in parameters:
            table.problem(f"'external_index' names '{name}', which is not a parameter of this card")
    for name in rules.read:
        if name in parameters and parameters[name].type != "str":
            table.problem(f"'external_index.read' names '{name}', which is not of type str: it is empty until read")
    table.close()
    return rules
