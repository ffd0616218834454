"""How many requests a principal may send, what those above it are answered, and that clients wait and go on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tandem.client import TandemClient
from tests.acceptance.accessing import Bearer
from tests.acceptance.waiting import until_waiting
from tests.broker import CALL_SECONDS, BrokerProcess
from tests.commandline import Shell, finish
from tests.interfaces.bridging import bridge

BURST = 5
PER_MINUTE = 60
"""One a second: a client that waits as it is told goes on soon."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"rate_limit_per_minute": PER_MINUTE, "rate_limit_burst": BURST}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), auth="token", **settings) as broker:
        yield broker


@pytest.fixture
def owner(limited: BrokerProcess) -> Iterator[Bearer]:
    with Bearer.owner(limited) as desk:
        desk.plain("register_project", name=desk.project)
        yield desk


@pytest.fixture
def ada(owner: Bearer) -> Iterator[Bearer]:
    """A principal of the test's own."""
    with owner.give(f"ada-{owner.project}", "proposer", "reviewer", bound=True) as desk:
        yield desk


def exhausted(desk: Bearer) -> httpx.Response:
    """The first answer that refuses a request as one too many."""
    for _ in range(20 * BURST):
        answer = desk.raw("list_reviews", {})
        if answer.status_code == 429:
            return answer
        assert answer.status_code == 200
    raise AssertionError("no request was one too many")


def test_a_principal_that_sends_too_much_is_told_when_to_go_on_and_nobody_else_is(owner: Bearer, ada: Bearer):
    answer = exhausted(ada)
    error = answer.json()["error"]
    assert (error["code"], error["retryable"]) == ("RATE_LIMITED", True)
    assert 0 < error["details"]["retry_after_s"] <= 1
    assert answer.headers["retry-after"] == "1"
    # The owner, another principal, and health checks without a principal are not.
    assert all(owner.raw("list_reviews", {}).status_code == 200 for _ in range(3 * BURST))
    with owner.give("bea", "proposer", bound=True) as bea:
        assert bea.raw("list_reviews", {}).status_code == 200
    assert all(httpx.get(f"{owner.url}/healthz", trust_env=False).status_code == 200 for _ in range(3 * BURST))


def test_tokens_of_one_name_share_a_limit(owner: Bearer, ada: Bearer):
    exhausted(ada)
    with owner.give(f"ada-{owner.project}", "proposer", bound=True) as again:
        assert 429 in [again.raw("list_reviews", {}).status_code for _ in range(BURST)]


@pytest.mark.parametrize("path", ["/mcp", "/"])
def test_mcp_and_pages_are_limited_too(ada: Bearer, path: str):
    exhausted(ada)
    headers = {"Authorization": f"Bearer {ada.token}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=ada.url, headers=headers, timeout=CALL_SECONDS, trust_env=False) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answers = [client.post(path, json=message) if path == "/mcp" else client.get(path) for _ in range(BURST)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["retry-after"] == "1"


def test_the_metrics_count_what_was_refused(limited: BrokerProcess, owner: Bearer, ada: Bearer):
    def counted() -> dict[str, float]:
        headers = {"Authorization": f"Bearer {owner.token}"}
        said = httpx.get(f"{limited.url}/metrics", headers=headers, timeout=CALL_SECONDS, trust_env=False).text
        return {by: float(count) for by, count in re.findall(r'tandem_rate_limited_total{by="(\w+)"} (.*)', said)}

    before = counted()
    exhausted(ada)
    assert counted() == {**before, "principal": before["principal"] + 1}


@pytest.mark.anyio
async def test_a_long_wait_is_one_request(
    limited: BrokerProcess, owner: Bearer, ada: Bearer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TANDEM_TOKEN", ada.token)
    review = ada.put_up()
    async with TandemClient(limited.url) as client:
        waiting = asyncio.create_task(client.data("get_review_status", {"review_id": review, "wait": True}))
        await until_waiting(limited, 1)
        exhausted(ada)
        with owner.give("rita", "reviewer", bound=True) as rita:
            rita.do("claim_review", review_id=review, reviewer_id="rita")
            rita.do("submit_verdict", review_id=review, reviewer_id="rita", verdict="approved")
        assert (await waiting)["status"] == "approved"


def test_commands_the_bridge_and_the_python_client_wait_and_go_on(
    limited: BrokerProcess, ada: Bearer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TANDEM_TOKEN", ada.token)
    monkeypatch.setenv("TANDEM_BROKER", limited.url)
    exhausted(ada)
    assert finish(Shell(limited.url, tmp_path).start("review", "list", "--json")).data["reviews"] == []
    with bridge(folder=tmp_path, TANDEM_BROKER=limited.url, TANDEM_TOKEN=ada.token) as agent:
        exhausted(ada)
        assert agent.tool("list_reviews")["ok"]

    async def ask() -> int:
        async with TandemClient(limited.url) as client:
            return len([await client.list_reviews() for _ in range(2)])

    exhausted(ada)
    assert asyncio.run(ask()) == 2


def test_no_limit_is_no_limit(tmp_path: Path):
    with BrokerProcess(tmp_path, auth="token", rate_limit_per_minute=0) as broker, Bearer.owner(broker) as owner:
        owner.plain("register_project", name=owner.project)
        with owner.give("ada", "proposer", bound=True) as ada:
            assert {ada.raw("list_reviews", {}).status_code for _ in range(10 * BURST)} == {200}
