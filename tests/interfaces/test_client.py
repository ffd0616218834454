"""The Python client against a real broker: types, refusals, safe retries, waits."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

import python_client
from tandem import errors
from tandem.bridge.operations import OPERATIONS
from tandem.client import TandemClient, Unreachable
from tandem.reviews.answers import Claim, Proposal, ReviewCreated
from tandem.server.catalogue import REGISTRY
from tests.commandline import Shell, repository
from tests.interfaces.bridging import bridge, losing, modern

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(url: str, tmp_path: Path) -> AsyncGenerator[TandemClient]:
    """A client for a project of the test's own."""
    root = repository(tmp_path / tmp_path.name)
    async with TandemClient(url, project=tmp_path.name, agent="tester") as opened:
        await opened.register_project(root=str(root))
        yield opened


@pytest.fixture
async def rita(url: str, tmp_path: Path) -> AsyncGenerator[TandemClient]:
    """Who reviews in that project: another than who proposes."""
    async with TandemClient(url, project=tmp_path.name, agent="rita") as opened:
        yield opened


async def put_up(client: TandemClient) -> ReviewCreated:
    return await client.create_review(intent="an intent", agent_type="t", description="words")


async def test_answers_are_the_contracts_types(client: TandemClient, rita: TandemClient) -> None:
    created = await put_up(client)
    assert isinstance(created, ReviewCreated)
    claim = await rita.claim_review(reviewer_id="rita")
    assert isinstance(claim, Claim)
    assert isinstance(claim.review, Proposal)
    assert claim.review.proposer_id == "tester"
    assert isinstance(claim.review.affected_files, tuple)


async def test_a_refusal_is_the_error_of_its_code_with_the_facts(client: TandemClient, url: str) -> None:
    created = await put_up(client)
    async with TandemClient(url, agent="reviewers") as reviewers:
        await reviewers.claim_review(reviewer_id="rita", review_id=created.review_id)
        with pytest.raises(errors.AlreadyClaimed, match="rita") as caught:
            await reviewers.claim_review(reviewer_id="bob", review_id=created.review_id)
        assert caught.value.details["reviewer_id"] == "rita"
        with pytest.raises(errors.NotFound):
            await reviewers.get_proposal("rv_none")
        with pytest.raises(errors.ReasonRequired):
            await reviewers.submit_verdict(created.review_id, verdict="rejected", reviewer_id="rita")


async def test_a_code_of_a_newer_broker_is_kept() -> None:
    error = errors.error_from({"code": "NEW_CODE", "message": "m", "details": {"message": 1}, "retryable": True})
    assert (type(error).__mro__[1], error.code, error.retryable) == (errors.TandemError, "NEW_CODE", True)
    assert error.details == {"message": 1}


def test_every_error_of_ours_comes_back_as_itself() -> None:
    known = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.TandemError) and kind is not errors.TandemError
    ]
    for kind in known:
        assert type(errors.error_from(kind("m", fact=1).as_dict())) is kind


async def test_p4_a_write_whose_answer_was_lost_is_sent_again_with_one_effect(client: TandemClient, url: str) -> None:
    with losing(url, 1) as between:
        async with TandemClient(between.url, agent="tester") as flaky:
            project = (await put_up(client)).project
            created = await flaky.create_review(intent="only once", agent_type="t", project=project)
        assert between.posts() == 2
    rows = (await client.list_reviews(project=project)).reviews
    assert [row.review_id for row in rows if row.intent == "only once"] == [created.review_id]


async def test_p4_a_key_means_the_same_by_python_http_mcp_and_the_command_line(
    client: TandemClient, url: str, tmp_path: Path
) -> None:
    review, project = (await put_up(client)).review_id, tmp_path.name
    given = {"sender_role": "proposer", "body": "Once.", "idempotency_key": "once"}
    said = (await client.add_message(review, sender_role="proposer", body="Once.", idempotency_key="once")).message_id

    def elsewhere() -> list[str]:
        raw = json.dumps({"body": "Once.", "sender_role": "proposer", "resolves": None, "review_id": review}, indent=8)
        headers = {"Content-Type": "application/json", "Tandem-Agent": "tester", "Idempotency-Key": "once"}
        posted = httpx.post(f"{url}/api/v1/add_message?project={project}", content=raw, headers=headers)
        words = ["--sender-role", "proposer", "--body", "Once.", "--idempotency-key", "once", "--agent", "tester"]
        typed = Shell(url, tmp_path).run("review", "message", review, *words, "--project", project, "--json")
        with bridge("--broker", url, "--project", project, folder=tmp_path, TANDEM_AGENT="tester") as agent:
            tool = {"name": "add_message", "arguments": {"review_id": review, **given}, **modern()}
            called = agent.call("tools/call", tool)
        answers = [posted.json()["data"], typed.data, called["result"]["structuredContent"]["data"]]
        return [one["message_id"] for one in answers]

    assert await asyncio.to_thread(elsewhere) == [said] * 3


async def test_a_read_is_sent_again(client: TandemClient, url: str) -> None:
    created = await put_up(client)
    with losing(url, 2) as between:
        async with TandemClient(between.url) as flaky:
            assert (await flaky.get_review_status(created.review_id)).status == "pending"
        assert between.posts() == 3


async def test_a_write_that_is_not_repeatable_is_sent_once(client: TandemClient, url: str) -> None:
    created = await put_up(client)
    with losing(url, 1) as between:
        async with TandemClient(between.url) as flaky:
            with pytest.raises(Unreachable):
                await flaky.remove_project(name=created.project)
        assert between.posts() == 1


async def test_nobody_there_says_how_to_start_the_broker() -> None:
    async with TandemClient("http://127.0.0.1:9") as client:
        with pytest.raises(Unreachable, match="tandem up --background") as caught:
            await client.list_projects()
    assert isinstance(caught.value, errors.Unavailable)


async def test_another_server_is_told_from_a_broker() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with TandemClient(address) as client:
        with pytest.raises(Unreachable, match="not a Tandem broker"):
            await client.list_projects()
    server.close()


async def test_waits_for_the_turn_and_for_the_verdict(client: TandemClient, rita: TandemClient) -> None:
    created = await put_up(client)
    turn = asyncio.create_task(client.wait_for_turn(created.review_id, created.cursor))
    verdict = asyncio.create_task(client.wait_for_verdict(created.review_id, created.cursor))
    await rita.claim_review(reviewer_id="rita", review_id=created.review_id)
    await rita.add_message(created.review_id, sender_role="reviewer", body="why?", reviewer_id="rita")
    assert (await turn).next_action == "answer_message"
    assert not verdict.done()
    await rita.submit_verdict(created.review_id, verdict="rejected", reason="no", reviewer_id="rita")
    assert (await verdict).verdict == "rejected"
    assert (await client.wait_for_verdict(created.review_id)).status == "rejected"
    assert (await client.wait_for_turn(created.review_id)).turn == "proposer"


async def test_a_wait_ends_when_its_time_is_up(client: TandemClient) -> None:
    created = await put_up(client)
    began = asyncio.get_running_loop().time()
    for cursor in (None, created.cursor):
        status = await client.wait_for_turn(created.review_id, cursor, timeout_s=0.3)
        assert (status.status, status.changed and cursor is not None) == ("pending", False)
    assert 0.5 < asyncio.get_running_loop().time() - began < 20


async def test_a_refused_wait_is_an_error(client: TandemClient) -> None:
    with pytest.raises(errors.NotFound):
        await client.wait_for_verdict("rv_none")
    created = await put_up(client)
    with pytest.raises(errors.CursorExpired):
        await client.wait_for_verdict(created.review_id, "other.1")


def test_the_methods_are_those_of_the_registry() -> None:
    assert python_client.main(["--check"]) == 0
    for operation in REGISTRY:
        method = getattr(TandemClient, operation.name)
        parameters = set(inspect.signature(method).parameters) - {"self"}
        assert parameters == set(operation.request.model_fields)
        assert method.__doc__ == operation.description


def test_what_is_sent_twice_has_one_effect() -> None:
    for operation in REGISTRY:
        if not operation.hints.read_only and OPERATIONS[operation.name].repeatable:
            assert OPERATIONS[operation.name].keyed or operation.hints.idempotent
