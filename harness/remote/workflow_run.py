"""GitHub as a run of its actions sees it: the comment of a pull request, and artifacts of the branch that it targets.

A run is described by variables of the environment (``GITHUB_REPOSITORY``, ``GITHUB_EVENT_PATH`` …), and its token is
in ``GITHUB_TOKEN``.
"""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.errors import ResultError, UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.remote.credentials import excerpt, hide, read_key
from harness.wording import counted

if TYPE_CHECKING:
    import httpx

API = "https://api.github.com"
MARKER = "<!-- harness "
"""The beginning of a comment's first line, which identifies it."""
_BOT = "Bot"
"""The kind of author of comments that are written with the token of a run, or of another app."""
_CHECK_ADDRESS = "run the job again later; GITHUB_API_URL has the address of GitHub's API"
_PAGE = 100
_MOST_PAGES = 50
_TIMEOUT_S = 60.0
_PAUSES_S = (1.0, 4.0)
"""Before each repetition of a call that was not answered, or with a fault of the server."""
_MOST_BYTES = 1 << 30
_SHORT = 7
_EVENT_OF_GITHUB = "leave GITHUB_EVENT_PATH as GitHub's runner sets it"


class StoredFile(NamedTuple):
    """The JSON file of an artifact, and the run's branch and commit."""

    content: bytes
    branch: str
    commit: str

    @property
    def name(self) -> str:
        """A file name that tells the branch and the beginning of the commit's hash."""
        plain = "".join(character if character.isalnum() or character in "._-" else "-" for character in self.branch)
        return f"{plain}@{self.commit[:_SHORT]}.json"


@dataclass(frozen=True, eq=False, slots=True)
class WorkflowRun:
    """A run of GitHub's actions: its repository, the event that started it, and its token."""

    repository: str
    event: Mapping[str, Any]
    base_ref: str = ""
    token: str = field(default="", repr=False)
    api: str = API
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> WorkflowRun:
        """Read the variables of a run; raises UsageError outside GitHub's actions."""
        repository, path = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_EVENT_PATH", "")
        if not repository or not path:
            raise UsageError(
                "this is no run of GitHub's actions: GITHUB_REPOSITORY and GITHUB_EVENT_PATH are not set",
                fix="call it in a step of a workflow",
            )
        try:
            event = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"it is not JSON: {error}"
            raise ResultError(
                f"the event of the run cannot be read at '{path}': {reason}", fix=_EVENT_OF_GITHUB
            ) from error
        if not isinstance(event, dict):
            raise ResultError(f"the event of the run at '{path}' is not an object", fix=_EVENT_OF_GITHUB)
        token, api = read_key("GITHUB_TOKEN", environment), environment.get("GITHUB_API_URL") or API
        if not is_plain_url(api):
            raise UsageError(
                f"GITHUB_API_URL is not of the form {PLAIN_FORM}", fix="leave it as GitHub's runner sets it"
            )
        return cls(repository, event, environment.get("GITHUB_BASE_REF", ""), token, api)

    @property
    def pull_request(self) -> int | None:
        """The number of the pull request that the run is of; None for another event."""
        number = _member(self.event, "pull_request").get("number")
        return number if isinstance(number, int) else None

    @property
    def is_from_fork(self) -> bool:
        """Whether the pull request comes from another repository, so that the token of the run can only read."""
        return _member(self._head, "repo").get("full_name") != self.repository

    @property
    def _head(self) -> Mapping[str, Any]:
        """The last commit of the pull request, as the event describes it."""
        return _member(_member(self.event, "pull_request"), "head")

    @property
    def target(self) -> str | None:
        """The branch that a pull request or a merge queue's group goes to; None for another event."""
        group = _member(self.event, "merge_group").get("base_ref") or ""
        return self.base_ref or str(group).removeprefix("refs/heads/") or None

    def put_comment(self, text: str, name: str = "") -> bool:
        """Write the comment of the pull request, in place of the one with the same first line.

        ``name`` is added to the first line: jobs with different names have a comment each. The last line names the
        commit. Returns whether an earlier comment was replaced. Raises UsageError for a text without a marker and a run
        that is of no pull request, ResultError if GitHub refuses.
        """
        marker, _, rest = text.partition("\n")
        marker = marker.strip()
        if not marker.startswith(MARKER):
            raise UsageError(
                f"a comment begins with a line '{MARKER}… -->', by which it is found again",
                fix="write it with harness check --comment FILE",
            )
        if self.pull_request is None:
            raise UsageError("this run is not of a pull request", fix="comment in runs of pull requests only")
        if name:
            plain = re.sub("-{2,}", "-", re.sub(r"[^\w.-]+", "_", name))  # two dashes would end the comment
            marker = f"{marker.removesuffix('-->').rstrip()} {plain} -->"
        text = f"{marker}\n{rest}"
        if commit := self._head.get("sha"):
            text = f"{text.rstrip()}\n\n<sub>of commit {commit}</sub>\n"
        with self._client() as client:
            earlier = self._earlier_comment(client, marker)
            if earlier is None:
                self._call(client, "POST", f"/issues/{self.pull_request}/comments", json={"body": text})
            else:
                self._call(client, "PATCH", f"/issues/comments/{earlier}", json={"body": text})
        return earlier is not None

    def _earlier_comment(self, client: httpx.Client, marker: str) -> int | None:
        """Return the id of this author's comment with a first line; others' comments are left alone."""
        user = self._answer(client, "GET", "/user")  # refused to the token of an app, such as that of a run
        login = _object(self._json(user)).get("login") if user.is_success else None
        for comment in self._pages(client, f"/issues/{self.pull_request}/comments"):
            author = _member(comment, "user")
            is_own = author.get("type") == _BOT if login is None else author.get("login") == login
            if is_own and str(comment.get("body") or "").partition("\n")[0].strip() == marker:
                return int(comment["id"])
        return None

    def latest_file(self, artifact: str) -> StoredFile | None:
        """Return the JSON file in the last artifact of a name that a run on the target branch uploaded; None for none.

        Artifacts of other branches, and of forks whose branch has the same name, are left alone. Raises UsageError for
        a run without a target branch, ResultError if GitHub refuses, and for an artifact without such a file.
        """
        branch = self.target
        if branch is None:
            raise UsageError("this run is not of a pull request", fix="fetch baselines in runs of pull requests only")
        with self._client() as client:
            query = {"name": artifact}
            stored = [
                one
                for one in self._pages(client, "/actions/artifacts", query, key="artifacts")
                if not one.get("expired") and _is_of_branch(_member(one, "workflow_run"), branch)
            ]
            if not stored:
                return None
            last = max(stored, key=lambda one: str(one.get("created_at")))
            content = self._call(client, "GET", f"/actions/artifacts/{last['id']}/zip").content
        return StoredFile(_json_file(content, artifact), branch, str(last["workflow_run"].get("head_sha")))

    def _client(self) -> httpx.Client:
        import httpx

        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return httpx.Client(base_url=self.api, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True)

    def _pages(
        self, client: httpx.Client, path: str, query: Mapping[str, str] | None = None, key: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list, which is the answer or its member ``key``."""
        for page in range(1, _MOST_PAGES + 1):
            params = {**(query or {}), "per_page": str(_PAGE), "page": str(page)}
            response = self._call(client, "GET", path, params=params)
            content = self._json(response)
            items = content if key is None else _object(content).get(key)
            if not isinstance(items, list) or not all(isinstance(item, dict) and "id" in item for item in items):
                raise self._unusable(response)
            yield from items
            if len(items) < _PAGE:
                return

    def _call(self, client: httpx.Client, method: str, path: str, **content: Any) -> httpx.Response:
        """Return the answer to a call of the repository's API, repeated if the server fails; raises ResultError."""
        response = self._answer(client, method, f"/repos/{self.repository}{path}", **content)
        if response.is_success:
            return response
        problem = f"{response.status_code} {excerpt(response.text, self._hide)}"
        raise ResultError(f"GitHub did not accept {method} {path}: {problem}", fix=self._permission(path))

    def _answer(self, client: httpx.Client, method: str, path: str, **content: Any) -> httpx.Response:
        """Return the answer to a call, also a refusal; raises ResultError if GitHub cannot be reached or fails."""
        import httpx

        problem = ""
        for pause in (*_PAUSES_S, None):
            try:
                response = client.request(method, path, **content)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {self._hide(str(error))}"
            else:
                if response.status_code < 500:
                    return response
                problem = f"{response.status_code} {excerpt(response.text, self._hide)}"
            if pause is not None:
                self.sleep(pause)
        raise ResultError(f"GitHub's API at '{self.api}' did not answer {method} {path}: {problem}", fix=_CHECK_ADDRESS)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise self._unusable(response) from error

    def _unusable(self, response: httpx.Response) -> ResultError:
        """Return the error for an answer that is not one of GitHub's."""
        text = excerpt(response.text, self._hide)
        return ResultError(f"'{self.api}' did not answer as GitHub's API does: {text}", fix=_CHECK_ADDRESS)

    def _hide(self, text: str) -> str:
        return hide(text, [self.token], "***")

    def _permission(self, path: str) -> str:
        """Return what the token of a run needs for a call."""
        if not self.token:
            return "set GITHUB_TOKEN in the env of the step: ${{ github.token }}"
        if path.startswith("/issues"):
            fork = (
                "a pull request from a fork has a token that can only read; for others, " if self.is_from_fork else ""
            )
            return f"{fork}add 'pull-requests: write' to the permissions of the workflow"
        return "add 'actions: read' to the permissions of the workflow"


def _member(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object that is a member of another; an empty one if it is missing or something else."""
    return _object(content.get(name))


def _object(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, dict) else {}


def _is_of_branch(run: Mapping[str, Any], branch: str) -> bool:
    """Return whether a run was of a branch of the repository itself."""
    return run.get("head_branch") == branch and run.get("head_repository_id") == run.get("repository_id")


def _json_file(archive: bytes, artifact: str) -> bytes:
    """Return the only JSON file of an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            files = [info for info in members.infolist() if info.filename.endswith(".json")]
            if len(files) == 1 and files[0].file_size <= _MOST_BYTES:
                return members.read(files[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ResultError(
            f"the artifact '{artifact}' is damaged: {error}", fix="run the workflow on the branch again"
        ) from error
    size = f", of {files[0].file_size:,} bytes" if len(files) == 1 else ""
    raise ResultError(
        f"the artifact '{artifact}' is not a baseline: it has {counted(len(files), 'JSON file')}{size}",
        fix="name another",
    )
