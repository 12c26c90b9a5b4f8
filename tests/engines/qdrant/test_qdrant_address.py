"""Addresses and credentials of a Qdrant server, and the settings that a mode refuses."""

from __future__ import annotations

import pytest

from harness.engines.chroma import connection as chroma
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.qdrant.connection import address_of
from harness.engines.qdrant.parameters import QdrantSettings, ServerSettings
from harness.engines.remote_server import Address
from harness.errors import EngineUnavailableError, HarnessError, RejectedInputError, UnknownNameError, UsageError
from harness.plain_url import uses_tls
from harness.plan.backend_spec import parse_backends
from harness.plan.stages import rerankers
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue, encoder_parameters

DEFAULTS = find_cards("backends")["qdrant"].defaults
HIDDEN = "Tr0ub4dor&3"


def address(environment: dict[str, str], **changed: ParameterValue) -> Address:
    return address_of(ServerSettings.of({**DEFAULTS, **changed}), environment)


def chroma_address(environment: dict[str, str]) -> Address:
    return chroma.address_of(ChromaParameters.of(find_cards("backends")["chroma"].defaults), environment)


@pytest.mark.parametrize(
    ("url", "shown", "port"),
    [
        ("http://127.0.0.1:6333", "http://127.0.0.1:6333", 6333),
        ("http://localhost", "http://localhost:6333", 6333),
        ("https://qdrant.example.org:443/prefix/", "https://qdrant.example.org:443/prefix", 443),
        ("http://[::1]:7000", "http://[::1]:7000", 7000),
    ],
)
def test_urls(url: str, shown: str, port: int) -> None:
    found = address({}, url=url)
    assert (found.url, found.port, found.authentication) == (shown, port, "none")
    assert [uses_tls(one) for one in (shown, shown.upper())] == [url.startswith("https")] * 2


def test_the_environment_names_the_server_and_opens_it() -> None:
    found = address({"HARNESS_QDRANT_URL": f"http://me:{HIDDEN}@host:1", "QDRANT_API_KEY": "key-of-mine"})
    assert found.url == "http://host:1"
    assert found.headers == {"authorization": "Basic bWU6VHIwdWI0ZG9yJjM="}
    assert found.api_key == "key-of-mine"
    assert found.authentication == "API key and user name and password, not encrypted"
    for secret in (HIDDEN, "key-of-mine", "bWU6VHIwdWI0ZG9yJjM="):
        assert secret not in repr(found)
        assert found.hide(f"you sent {secret}!") == "you sent ***!"


def test_a_percent_encoded_password_is_hidden_as_it_was_sent() -> None:
    found = address({"HARNESS_QDRANT_URL": "https://me:p%40ss@host"})
    assert found.hide("p@ss") == "***"
    assert found.authentication == "user name and password"


def test_other_spellings_of_a_secret_are_hidden_too() -> None:
    found = address({"QDRANT_API_KEY": "a/b c+d", "HARNESS_QDRANT_URL": "http://host"})
    for spelling in ("a/b c+d", "a/b%20c%2Bd", "a%2Fb%20c%2Bd", "a%2fb%20c%2bd", "a%2Fb+c%2Bd"):
        assert found.hide(f"you sent {spelling}!") == "you sent ***!"


def test_a_mounted_key_loses_its_line_break() -> None:
    found = address({"QDRANT_API_KEY": "key-of-mine\n", "HARNESS_QDRANT_URL": "http://host"})
    assert found.api_key == "key-of-mine"
    assert found.hide("Illegal header value b'key-of-mine'") == "Illegal header value b'***'"


@pytest.mark.parametrize("key", [f"{HIDDEN}\nmore", f"{HIDDEN}\x00", f"{HIDDEN}é", f"\u200b{HIDDEN}"])
def test_a_key_that_cannot_be_sent_is_refused_for_either_server(key: str) -> None:
    for engine, find in (("QDRANT", address), ("CHROMA", chroma_address)):
        with pytest.raises(EngineUnavailableError, match=f"{engine}_API_KEY holds characters") as caught:
            find({f"{engine}_API_KEY": key, f"HARNESS_{engine}_URL": "http://host"})
        assert "Tr0ub" not in str(caught.value)


def test_the_parameter_goes_before_the_environment() -> None:
    assert address({"HARNESS_QDRANT_URL": "http://other:1"}, url="http://host:2").url == "http://host:2"


@pytest.mark.parametrize(
    ("environment", "changed", "kind", "message"),
    [
        ({}, {}, EngineUnavailableError, "no Qdrant server is named"),
        ({}, {"url": "ftp://host"}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": "host:6333"}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": "http://host:port"}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": "http://["}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": f"http://me:{HIDDEN}@host"}, RejectedInputError, r"form http\(s\)://"),
        ({"HARNESS_QDRANT_URL": f"http://me:{HIDDEN}@host:port"}, {}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": f"http://host:1?api_key={HIDDEN}"}, RejectedInputError, r"form http\(s\)://"),
        ({"HARNESS_QDRANT_URL": f"http://me:1/{HIDDEN}@host"}, {}, RejectedInputError, "%2F"),
        ({"HARNESS_QDRANT_URL": f"http://me:1#{HIDDEN}@host"}, {}, RejectedInputError, "%23"),
        ({"HARNESS_QDRANT_URL": f"http://host:1?api_key={HIDDEN}"}, {}, RejectedInputError, "QDRANT_API_KEY"),
        ({"HARNESS_QDRANT_URL": f"https:/me:{HIDDEN}@host"}, {}, RejectedInputError, r"form http\(s\)://"),
        ({}, {"url": "http://h", "api_key_env": "MY_KEY"}, EngineUnavailableError, "MY_KEY is not set"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(
    environment: dict[str, str], changed: dict[str, ParameterValue], kind: type[HarnessError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        address(environment, **changed)
    assert HIDDEN not in str(caught.value)


WITH_SECRETS = [
    f"qdrant:url=http://me:{HIDDEN}@host:6333",
    f"qdrant:url=http://me:{HIDDEN};x@host",
    f"csr,qdrant:url=http://me:{HIDDEN},x@host",
    f"qdrant:url=http://me:1;{HIDDEN}@host",
    f"qdrant:url=http://me:1;a={HIDDEN}@host;k=3",
    f"qdrant:url=http://me:1,{HIDDEN}@host,csr",
    f"qdrant:url=me:{HIDDEN}@127.0.0.1:1",
    f"qdrant: url = me:{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=http://me:Tr0ub/{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=http://me:1/{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=http://me:Tr0ub#{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=http://me:Tr0ub?{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=https:/me:{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=//me:{HIDDEN}@127.0.0.1:1",
    f"qdrant:url=http://127.0.0.1:1?api_key={HIDDEN}",
    f"qdrant:url=http://127.0.0.1:1/#{HIDDEN}",
    f"qdrant:shards=2;url=http://127.0.0.1:1?{HIDDEN};keep=true,csr",
    f"qdrant:path=http://me:{HIDDEN}@127.0.0.1:1",
    f"chroma:url=http://me:{HIDDEN}@127.0.0.1:1;ef_search=10",
]


@pytest.mark.parametrize("text", [*WITH_SECRETS, [WITH_SECRETS[0]]])
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(text: str | list[str]) -> None:
    with pytest.raises(UsageError, match="HARNESS_QDRANT_URL") as caught:
        parse_backends(text)
    assert "Tr0ub" not in str(caught.value)


def test_a_url_whose_name_was_forgotten_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="a part is not key=value") as caught:
        parse_backends(f"qdrant:me:{HIDDEN}@127.0.0.1:1")
    assert "Tr0ub" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "qdrant:url=http://127.0.0.1:6333,csr",
        "qdrant:url=https://qdrant.example.org/prefix/;shards=2,qdrant",
        "qdrant:shards=2;url=http://[::1]:6333",
        "qdrant:url=http://host;external=true;collection=me@home",
    ],
)
def test_a_plain_url_is_taken(text: str) -> None:
    assert parse_backends(text)[0].overrides["url"] in text


@pytest.mark.parametrize("more", [",lucen", ";shard=2"])
def test_a_misspelt_name_after_a_url_is_said(more: str) -> None:
    with pytest.raises(UnknownNameError, match=more[1:6]):
        parse_backends(f"qdrant:url=http://127.0.0.1:6333{more}")


@pytest.mark.parametrize(
    "key", ["abc.def-ghi", "sk-Tr0ub", "sk_Tr0ub", "gsk_Tr0ub", "hf_Tr0ub", "Tr0ub4dor", "", "MY-KEY"]
)
@pytest.mark.parametrize(
    "text",
    [
        "qdrant:url=http://host;api_key_env=",
        "chroma:url=http://host;api_key_env=",
        "flat:model=http:tiny;endpoint=http://host/v1;endpoint_key_env=",
        "lucene|judge:model=tiny;endpoint=http://host/v1;api_key_env=",
    ],
)
def test_a_key_given_as_the_name_of_its_variable_is_refused_and_not_repeated(text: str, key: str) -> None:
    with pytest.raises(UsageError, match="_key_env': it wants the name of an environment variable") as caught:
        parse_backends(text + key)
    assert not key or key not in str(caught.value)


def test_every_parameter_that_names_a_variable_takes_one() -> None:
    cards = find_cards("backends").values()
    named = [one for card in cards for one in card.parameters.values() if one.name.endswith("_env")]
    named += [encoder_parameters("dense")["endpoint_key_env"], rerankers()["judge"].parameters["api_key_env"]]
    assert len(named) > 5
    for parameter in named:
        assert parameter.check("MY_KEY_2") == "MY_KEY_2"
        with pytest.raises(ValueError, match="not repeated") as caught:
            parameter.check(["hf_Tr0ub"])
        assert "Tr0ub" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "mode"),
    [({}, "edge"), ({"url": "http://host"}, "server"), ({"mode": "server"}, "server")],
)
def test_modes(given: dict[str, ParameterValue], mode: str) -> None:
    settings = QdrantSettings.of({**DEFAULTS, **given}, "sparse")
    assert settings.mode == mode
    assert settings.senders == (4 if mode == "server" else 1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shards": 2}, "shards"),
        ({"mode": "edge", "url": "http://host"}, "url"),
        ({"mode": "server", "wal": False, "optimize_every": 5}, "wal, optimize_every"),
        ({"search_batch": 2}, "search_batch"),
    ],
)
def test_what_a_mode_cannot_do_is_refused(given: dict[str, ParameterValue], named: str) -> None:
    with pytest.raises(RejectedInputError, match=f"^{named} cannot be set with mode="):
        QdrantSettings.of({**DEFAULTS, **given}, "sparse")
