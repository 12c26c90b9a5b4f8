"""Keys from the environment, and what is left of them in whatever is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.app import _build
from harness.errors import EngineUnavailableError
from harness.remote.calls import Limits, RemoteCalls
from harness.remote.credentials import excerpt, hide, read_key

KEY = 'sk-Ab/9"+c\\d'


def test_a_key_is_read_without_white_space_around_it() -> None:
    assert read_key("MY_KEY", {"MY_KEY": " sesame\r\n"}) == "sesame"
    assert read_key("MY_KEY", {"MY_KEY": "\n"}) == read_key("MY_KEY", {}) == ""


@pytest.mark.parametrize("key", ["sesame\nopen", "ses\x7fame", "sésame", "“sesame”"])
def test_a_key_that_no_header_carries_is_refused_by_the_name_of_its_variable(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(EngineUnavailableError, match="the environment variable MY_KEY holds characters") as caught:
        RemoteCalls("http://127.0.0.1:9/v1", key_env="MY_KEY", limits=Limits())
    for part in ("ses", "same", "open"):
        assert part not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.upper(),
        repr(KEY),
        json.dumps(KEY),
        json.dumps(KEY).replace("/", "\\/"),
        repr(json.dumps(KEY)),
        "sk-Ab%2F9%22%2Bc%5Cd",
    ],
)
def test_a_key_is_hidden_however_it_is_written(text: str) -> None:
    assert hide(f"you sent {text}!", [KEY], "***").replace('"', "").replace("'", "") == "you sent ***!"


def test_nothing_is_hidden_where_there_is_no_key() -> None:
    assert hide("all of it", ["", "none"], "***") == "all of it"


def test_what_is_shown_is_one_line_cut_after_hiding() -> None:
    text = "a\n  b " + "." * 290 + KEY
    found = excerpt(text, lambda whole: hide(whole, [KEY], "***"))
    assert found == "a b " + "." * 290 + "***"
    assert excerpt("." * 301, str) == "." * 300 + " …"


_URL = "http://somebody:hunter2@h.example/p?api_key=abc123#frag"


@pytest.mark.parametrize("ending", ["", ".json", ".parquet", ".csv"])
@pytest.mark.parametrize(
    "command",
    [
        ["eval", "--qrels", "FILE", "--run", "URL"],
        ["eval", "--qrels", "URL", "--run", "FILE"],
        ["compare", "--backends", "csr", "--dataset", "URL"],
        ["compare", "--backends", "csr", "--dataset", "cacm", "--queries", "URL"],
        ["compare", "--backends", "csr", "--dataset", "cacm", "--qrels", "URL"],
        ["check", "URL", "--backends", "csr"],
        ["report", "URL"],
        ["diff", "URL", "URL"],
        ["regress", "--baseline", "URL"],
        ["regress", "URL"],
    ],
    ids=" ".join,
)
def test_a_url_in_place_of_a_file_is_never_printed_whole(command: list[str], ending: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("q 0 d 1\n")
    url = _URL.replace("?", f"{ending}?") + ending
    given = {"URL": url, "FILE": str(tmp_path / "file")}
    done = CliRunner().invoke(_build(), [given.get(word, word) for word in command])
    said = f"{done.output}\n{done.stderr}\n{done.exception}"
    assert done.exit_code != 0
    assert "h.example" in said
    for secret in ("somebody", "hunter2", "abc123"):
        assert secret not in said
