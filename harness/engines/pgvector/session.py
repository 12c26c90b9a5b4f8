"""The way to a PostgreSQL server: its address, a connection, the meaning of errors, and repeated calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from harness.engines import remote_server
from harness.engines.pgvector.private_server import DATABASE, USER, PrivateServer
from harness.engines.remote_server import Address, AddressRules, Cause, Fault, ServerConnection
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.plain_url import DATABASE_FORM, is_plain_database_url
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["ADDRESS_RULES", "URL_VARIABLE", "Binary", "Retrier", "Session", "address_of", "quoted", "require_psycopg"]

URL_VARIABLE = "HARNESS_POSTGRES_URL"
_PORT = 5432
_REMEDIES = {
    Cause.SLOW: "raise 'timeout_s' or 'retry_s', or the server's own limit on statements",
    Cause.LIMITED: "raise the server's max_connections, or 'retry_s'",
    Cause.UNAUTHORISED: f"check the user name and the password, in PGUSER and PGPASSWORD or in {URL_VARIABLE}",
    Cause.MISSING: "if the database is missing: the end of the URL names it; if the extension: CREATE EXTENSION "
    "vector; if the table: another client removed it",
    Cause.FAILED: "the server's log says more",
}
ADDRESS_RULES = AddressRules(
    *("PostgreSQL", _PORT, URL_VARIABLE, "PGPASSWORD"), remedies=_REMEDIES, doctor_option="--postgres-url"
)
_BY_CODE = {
    "57P03": Cause.BUSY,
    "53300": Cause.LIMITED,
    "57014": Cause.SLOW,
    "42P01": Cause.MISSING,
    "42704": Cause.MISSING,
    "3D000": Cause.MISSING,
    "42P07": Cause.CONFLICT,
    "08": Cause.BROKEN,
    "57": Cause.BROKEN,
    "28": Cause.UNAUTHORISED,
    "40": Cause.BUSY,
    "53": Cause.FAILED,
    "58": Cause.FAILED,
    "XX": Cause.FAILED,
}
"""Causes by PostgreSQL's error code, or by its class, which is the beginning of the code."""
T = TypeVar("T")


def require_psycopg(module: str = "psycopg") -> Any:
    """Import a module of the client; raises MissingExtraError."""
    return require(module, extra="pgvector", feature="backend pgvector")


def quoted(*name: str) -> str:
    """Return the name of a column, or of a table with its schema, as SQL spells it."""
    return str(require_psycopg("psycopg.sql").Identifier(*name).as_string(None))


def address_of(url: str, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the server that ``url`` names, or ``HARNESS_POSTGRES_URL``, in any form that libpq reads.

    The variable may hold a password. Raises RejectedInputError for an unreadable address, EngineUnavailableError
    without an address.
    """
    if url and not is_plain_database_url(url):
        raise RejectedInputError(
            f"the URL of the PostgreSQL server is not of the form {DATABASE_FORM}",
            fix=f"correct it; a user name and a password can be set in {URL_VARIABLE}, or in PGUSER and PGPASSWORD",
        )
    url_text = url or environment.get(URL_VARIABLE, "")
    if not url_text:
        raise EngineUnavailableError(
            "no PostgreSQL server is named",
            fix=f"give url=postgresql://HOST:{_PORT}/DATABASE, or set {URL_VARIABLE}",
        )
    parts, hosts = _read(url_text)
    secret = parts.get("password") or environment.get("PGPASSWORD", "")
    return Address(
        engine="PostgreSQL",
        url=f"postgresql://{','.join(f'{host}:{port}' for host, port in hosts)}/{parts.get('dbname', '')}",
        port=hosts[0][1],
        key_variable="PGPASSWORD",
        api_key=secret or None,
        secrets=tuple(filter(None, (secret, parts.get("sslpassword")))),
        remedies=_REMEDIES,
        doctor_option=ADDRESS_RULES.doctor_option,
    )


def _read(url_text: str) -> tuple[Mapping[str, str], list[tuple[str, int]]]:
    """Return libpq's parameters from a URL or from ``name=value`` words, and the hosts with their ports.

    Raises RejectedInputError if it reads nothing, or takes a piece of a password for a port or a database: these are
    shown and stored. The message does not repeat the password.
    """
    psycopg, read = require_psycopg(), require_psycopg("psycopg.conninfo").conninfo_to_dict
    unread = RejectedInputError(
        f"{URL_VARIABLE} does not hold the address of a PostgreSQL server",
        fix="postgresql://[USER:PASSWORD@]HOST[:PORT]/DATABASE, in which / ? # @ % of a password are written %2F %3F "
        "%23 %40 %25",
    )
    try:
        parts = {name: str(value) for name, value in read(url_text).items()}
        hosts, ports = (parts.get(name, "").split(",") for name in ("host", "port"))
        numbers = [int(port or _PORT) for port in (ports if len(ports) > 1 else ports * len(hosts))]
        pairs = list(zip([f"[{host}]" if ":" in host else host for host in hosts], numbers, strict=True))
    except (psycopg.Error, ValueError):  # its messages repeat the password
        raise unread from None
    if "@" in parts.get("dbname", ""):
        raise unread
    return parts, pairs


class Retrier(remote_server.Retrier):
    """Calls of psycopg, repeated while the fault may be transient."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return psycopg's errors."""
        return (require_psycopg().Error,)

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of an error by PostgreSQL's code; without a code, a fault of the connection."""
        psycopg = require_psycopg()
        state, words = str(getattr(error, "sqlstate", None) or ""), " ".join(str(error).split())
        if state:
            return Fault(_BY_CODE.get(state, _BY_CODE.get(state[:2], Cause.REFUSED)), f"{state} {words}")
        if isinstance(error, psycopg.errors.ConnectionTimeout):
            return Fault(Cause.SLOW, words)
        if isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError):
            return Fault(Cause.CLIENT, f"{type(error).__name__}: {words}")
        if not isinstance(error, psycopg.OperationalError):
            return Fault(Cause.UNREADABLE, words)
        if "authentication failed" in words or "no password supplied" in words or 'role "' in words:
            return Fault(Cause.UNAUTHORISED, words)
        if "does not exist" in words:
            return Fault(Cause.MISSING, words)
        return Fault(Cause.UNREACHABLE if "connection failed" in words or "refused" in words else Cause.BROKEN, words)


class Session(ServerConnection):
    """A connection to a server, reopened when it breaks, with the same ``settings``.

    With ``reading`` everything happens in one read-only transaction that sees the state at its beginning.
    """

    kind, kinds = "table", "tables"

    def __init__(self, conninfo: str, address: Address, parameters: Mapping[str, ParameterValue]) -> None:
        self._conninfo, self.address = conninfo, address
        self._timeout_s = int(parameters["timeout_s"])
        self.retrier = Retrier(float(parameters["retry_s"]))
        self._connection: Any = None
        self._type: int | None = None
        self.reading = False
        self.settings: dict[str, str] = {}
        self.notices: list[str] = []

    @classmethod
    def of_server(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Return a session with the server that ``url`` or the environment names; nothing is sent yet."""
        url = str(parameters["url"])
        address = address_of(url)
        return cls(url or os.environ[URL_VARIABLE], address, parameters)

    @classmethod
    def of_private(cls, server: PrivateServer, parameters: Mapping[str, ParameterValue]) -> Self:
        """Return a session with the worker's private server."""
        address = Address("PostgreSQL", "the worker's own server", 0, "PGPASSWORD", remedies=_REMEDIES)
        conninfo = require_psycopg("psycopg.conninfo").make_conninfo
        return cls(conninfo(host=server.host, user=USER, dbname=DATABASE, port=_PORT), address, parameters)

    @property
    def version(self) -> str:  # type: ignore[override]  # read from the server
        """Return the server's version; raises errors of the harness."""
        ((version,),) = self.rows("asking for its version", "SHOW server_version")
        return str(version)

    def list_names(self) -> list[str]:
        """Return the names of the tables in the current schema."""
        rows = self.ask("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return [str(name) for (name,) in rows]

    def remove(self, name: str) -> None:
        """Remove a table, without the repetitions of :meth:`ask`."""
        self.connection().execute(f"DROP TABLE IF EXISTS {quoted(name)}")

    def connection(self) -> Any:
        """Return the connection, a new connection if the last broke; raises errors of the client."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        psycopg = require_psycopg()
        connection = psycopg.connect(
            self._conninfo,
            autocommit=not self.reading,
            connect_timeout=self._timeout_s,
            application_name="harness",
            cursor_factory=psycopg.RawCursor,  # placeholders are $1: others would also be sought in table names
        )
        connection.add_notice_handler(lambda notice: self.notices.append(str(notice.message_primary)))
        connection.prepare_threshold = 0  # plans are still made for each query: see plan_cache_mode
        if self.reading:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._connection = connection
        for name, value in {"plan_cache_mode": "force_custom_plan", **self.settings}.items():
            connection.execute("SELECT set_config($1, $2, false)", (name, value))
        if self._type is not None:
            _register(connection, self._type)
        return connection

    def set(self, settings: Mapping[str, str]) -> None:
        """Set parameters of the session, also after it is reopened."""
        for name, value in settings.items():
            self.settings[name] = value
            self.rows("setting parameters", "SELECT set_config($1, $2, false)", (name, value))

    def use_type(self, name: str) -> None:
        """Learn a type of pgvector, so that :class:`Binary` values of it can be sent.

        Raises EngineUnavailableError if the database does not have the extension.
        """
        oids = self.rows("looking for pgvector", "SELECT oid FROM pg_type WHERE typname = $1", (name,))
        if not oids:
            raise EngineUnavailableError(
                f"the database has no type '{name}'", fix="CREATE EXTENSION vector, of version 0.7 or newer"
            )
        self._type = int(oids[0][0])
        _register(self.connection(), self._type)

    def rows(self, doing: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, an empty list if it has no rows; raises errors of the harness."""
        with self.translated(lambda: doing):
            return self.ask(statement, values)

    def ask(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; raises FaultError."""

        def execute() -> list[tuple[Any, ...]]:
            cursor = self.connection().execute(statement, values or None, binary=True)
            return [] if cursor.description is None else list(cursor.fetchall())

        return self.call(execute)

    def call(self, operation: Callable[[], T]) -> T:
        """Return the result of ``operation``, repeated while the fault may be transient; raises FaultError."""

        def attempt() -> T:
            try:
                return operation()
            except require_psycopg().Error:
                if self.reading and self._connection is not None:  # the transaction is over
                    self._connection.close()
                raise

        return self.retrier.call(attempt)

    def renew(self) -> None:
        """End the reading transaction: later statements see the current state."""
        if self._connection is not None and not self._connection.closed:
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self.retrier.give_up()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Binary(bytes):
    """A value of one of pgvector's types, in PostgreSQL's binary form."""


def _register(connection: Any, oid: int) -> None:
    """Have the connection send :class:`Binary` values as the type of this number."""
    plain = require_psycopg("psycopg.types.string").BytesBinaryDumper
    connection.adapters.register_dumper(Binary, type("BinaryDumper", (plain,), {"oid": oid}))
