"""A broker that requires access tokens: what its owner does, and browsers that are logged in."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from playwright.sync_api import Page

from tests.acceptance.reviewing import PROPOSAL
from tests.broker import CALL_SECONDS, BrokerProcess, fresh_project
from tests.pages.windows import Windows

_FORM_TOKEN = re.compile(r'name="form_token"\s+value="([^"]+)"')
EVERYDAY = ("operator", "reviewer", "proposer")
"""The roles of a person who takes part."""


@dataclass(frozen=True)
class Issued:
    """A token that was given to somebody."""

    token_id: str
    name: str
    token: str


class Guarded:
    """The broker, as its owner has it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.url = broker.url
        published = json.loads((broker.data_dir / "broker.json").read_bytes())
        self._owner = {"Authorization": f"Bearer {published['token']}"}

    def send(self, operation: str, token: str | None = None, **arguments: Any) -> httpx.Response:
        """A call with somebody's token, or the owner's."""
        headers = self._owner if token is None else {"Authorization": f"Bearer {token}"}
        address = f"{self.url}/api/v1/{operation}"
        return httpx.post(address, json=arguments, headers=headers, timeout=CALL_SECONDS, trust_env=False)

    def do(self, operation: str, token: str | None = None, **arguments: Any) -> Any:
        """A call that must succeed; its data."""
        answer = self.send(operation, token, **arguments)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()["data"]

    def issue(self, name: str = "ada", roles: tuple[str, ...] = EVERYDAY, project: str | None = None) -> Issued:
        """A new token."""
        bound = {} if project is None else {"project": project}
        made = self.do("create_token", name=name, roles=list(roles), **bound)
        return Issued(made["token_id"], name, made["token"])

    def revoke(self, issued: Issued) -> None:
        """Make a token void."""
        self.do("revoke_token", token_id=issued.token_id)

    def put_up(self, project: str | None = None, **content: Any) -> str:
        """A new review; its id."""
        content = {"description": "A task.", **PROPOSAL, **content}
        return self.do("create_review", project=project or fresh_project(), **content)["review_id"]

    def status(self, review_id: str) -> dict[str, Any]:
        """Where a review stands."""
        return self.do("get_review_status", review_id=review_id)

    def link(self, token: str | None = None) -> str:
        """The path that logs a browser in as the owner, or whose token it is."""
        return self.do("create_login", token)["path"]

    def home(self, token: str | None = None) -> str:
        """The origin at which the owner, or whose token it is, is logged in."""
        answer = httpx.get(f"{self.url}{self.link(token)}", timeout=CALL_SECONDS, trust_env=False)
        return answer.headers["location"].partition("/login")[0]

    @contextmanager
    def client(self, issued: Issued | None = None) -> Generator[httpx.Client]:
        """A browser without scripts, logged in by a token if there is one."""
        with Surfer(base_url=self.url, timeout=CALL_SECONDS, trust_env=False) as client:
            if issued is not None:
                answer = post(client, "/login", token=issued.token)
                assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
            yield client


class Surfer(httpx.Client):
    """A client that finds names under `localhost` at the broker, as browsers do, and goes where a login is."""

    def request(self, method: str, url: httpx.URL | str, **how: Any) -> httpx.Response:
        """Send a request; a login sends on to the person's own origin."""
        answer = super().request(method, url, **how)
        there = httpx.URL(answer.headers.get("location", ""))
        if not there.host.endswith(".localhost"):
            return answer
        self.headers["host"] = there.netloc.decode()
        return self.get(there.raw_path.decode())


def form_token(client: httpx.Client, path: str = "/login") -> str:
    """The token in the forms of a browser."""
    found = _FORM_TOKEN.search(client.get(path, follow_redirects=True).text)
    assert found, f"{path} has no form"
    return found[1]


def post(client: httpx.Client, path: str, /, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
    """Send a form of the client's own."""
    source = "/you" if path == "/logout" else "/login"
    return client.post(path, data={"form_token": form_token(client, source), **fields}, headers=headers)


def entered(windows: Windows, guarded: Guarded, issued: Issued, to: str = "/", **how: Any) -> Page:
    """A window in which somebody has pasted their token, at a page of their own origin."""
    home = guarded.home(issued.token)
    page = windows.open(None, url=home, **how)
    page.goto(to)
    page.get_by_label("Access token").fill(issued.token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{home}{to}")
    return page
