"""Several brokers in front of one PostgreSQL: no promise depends on which of them is asked."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest
from mcp import Client

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY, Desk, at_once, edited
from tests.acceptance.test_retention import SOON, until_removed
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox
from tests.interfaces.following import CreatedTask, Follower, TaskState, about
from tests.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.acceptance.two_brokers import Site

pytest_plugins = ["tests.acceptance.two_brokers"]

LONG = 45


class Hasty(NamedTuple):
    """Brokers, and their database."""

    brokers: Sequence[BrokerProcess]
    database: str


def test_p1_claims_and_verdicts_at_several_brokers(desks: tuple[Desk, Desk]):
    one, two = desks
    for _ in range(3):
        review = one.put_up()
        claims = [
            partial(desk.call, "claim_review", review_id=review, reviewer_id=f"rev-{number}")
            for number, desk in zip(range(8), itertools.cycle(desks), strict=False)
        ]
        held = [answer["data"] for answer in at_once(claims) if answer["ok"]]
        assert len(held) == 1
        sent = {"review_id": review, "claim_generation": held[0]["claim_generation"], "reason": WHY}
        verdicts = [
            partial(desk.call, "submit_verdict", verdict=verdict, **sent)
            for verdict, desk in zip(("approved", "rejected") * 4, itertools.cycle(desks), strict=False)
        ]
        given = at_once([*verdicts[::2], *verdicts[1::2]])
        assert sum(answer["ok"] for answer in given) == 1
        assert one.everything(review) == two.everything(review)


def test_p1_one_content_that_is_put_up_everywhere_at_once_is_one_review(desks: tuple[Desk, Desk], repo: Sandbox):
    desks[0].register(repo.root)
    for number in range(3):
        sent = {**PROPOSAL, "diff": edited(text=f"better {number}"), "reuse": True}
        created = at_once([partial(desk.do, "create_review", **sent) for desk in desks * 4])
        assert len({answer["review_id"] for answer in created}) == 1
        assert sum(not answer["existed"] for answer in created) == 1
    desks[0].do_unscoped("remove_project", name=desks[0].project)


def test_p4_a_key_is_the_same_key_everywhere(desks: tuple[Desk, Desk]):
    for number in range(3):
        key = f"key-{number}"
        sent = {**PROPOSAL, "description": "Once.", "idempotency_key": key}
        created = at_once([partial(desk.do, "create_review", **sent) for desk in desks * 3])
        assert all(answer == created[0] for answer in created)
        review = created[0]["review_id"]
        desks[0].claim(review)
        claim = {"review_id": review, "reviewer_id": OTHER, "idempotency_key": key}
        release = partial(desks[0].call, "release_claim", review_id=review, claim_generation=1)
        _, *claimed = at_once([release, *[partial(desk.call, "claim_review", **claim) for desk in desks * 3]])
        # Refused, or let through after the release: but all of them the same.
        assert all(answer == claimed[0] for answer in claimed)


def test_p5_a_dead_holders_claim_is_taken_back_once(hasty: Hasty):
    project = fresh_project()
    with Desk(hasty.brokers[0].url, project) as one, Desk(hasty.brokers[1].url, project) as two:
        reviews = [one.put_up() for _ in range(4)]
        cursor = one.do("get_audit_log")["cursor"]
        for review in reviews:
            two.claim(review, REVIEWER)
        reclaimed: list[str] = []
        while len(reclaimed) < len(reviews):
            page = one.do("get_audit_log", kind="review_reclaimed", wait=True, cursor=cursor, timeout_s=LONG)
            reclaimed += [event["subject"] for event in page["events"]]
            cursor = page["cursor"]
        assert Counter(reclaimed) == Counter(reviews)
        assert all(two.status(review)["claim_generation"] == 2 for review in reviews)


@pytest.mark.anyio
async def test_p6_a_task_of_one_broker_is_known_to_the_other(desks: tuple[Desk, Desk]):
    follower = Follower()
    one, two = desks
    review = one.put_up()
    addresses = [f"{desk.url}/mcp?project={desk.project}" for desk in desks]
    arguments = {"review_id": review, "wait": True}
    async with (
        Client(addresses[0], extensions=[follower]) as first,
        Client(addresses[1], extensions=[follower]) as other,
    ):
        task = await first.session.call_tool("get_review_status", arguments, allow_claimed=True)
        assert isinstance(task, CreatedTask)
        await asyncio.to_thread(two.approve, review)
        states = [
            await client.session.send_request(about("tasks/get", task.task_id), TaskState) for client in (other, first)
        ]
    assert [state.status for state in states] == ["completed", "completed"]
    assert states[0].result == states[1].result


@pytest.fixture(scope="module")
def hasty(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hasty]:
    """Three brokers that look for chores all the time, and whose leases are short."""
    url = postgres_server.create_database()
    settings = {"database_url": url, "checkpoint_interval_seconds": 0.05, "claim_timeout_seconds": 1, **SOON}
    with ExitStack() as stack:
        folders = [tmp_path_factory.mktemp("node") for _ in range(3)]
        yield Hasty([stack.enter_context(BrokerProcess(folder, **settings)) for folder in folders], url)
    postgres_server.drop_database(url)


def test_p8_three_brokers_remove_contents_once_and_checkpoints_cover_every_event_once(hasty: Hasty):
    project = fresh_project()
    with ExitStack() as stack:
        desks = [stack.enter_context(Desk(broker.url, project)) for broker in hasty.brokers]
        reviews = [desk.put_up() for desk in desks * 3]
        at_once([partial(desk.do, "close_review", review_id=one) for one, desk in zip(reviews, desks * 3, strict=True)])
        for review, desk in zip(reviews, reversed(desks * 3), strict=True):
            until_removed(desk, review)
    with psycopg.connect(hasty.database, autocommit=True) as database:
        removed = database.execute("SELECT subject FROM events WHERE kind = 'contents_removed'").fetchall()
        assert sorted(subject for (subject,) in removed) == sorted(reviews)
        covered: list[dict[str, int]] = []
        while sum(one["events"] for one in covered) < 3 * len(reviews):
            found = database.execute("SELECT data FROM events WHERE kind = 'checkpoint' ORDER BY seq")
            covered = [json.loads(data) for (data,) in found]
    assert [one["first"] for one in covered[1:]] == [one["last"] + 1 for one in covered[:-1]]


def test_p5_a_start_that_three_brokers_hear_of_takes_back_once_what_the_one_before_held(hasty: Hasty, repo: Sandbox):
    project = fresh_project()
    with ExitStack() as stack:
        desks = [stack.enter_context(Desk(broker.url, project)) for broker in hasty.brokers]
        desks[0].register(repo.root)
        steward = Steward(desks[0])
        steward.register()
        review = desks[0].put_up()
        reviewer = steward.one()
        desks[1].claim(review, reviewer)
        starts = [Steward(desk) for desk in desks]
        for one in starts:
            one.secret = steward.secret
        at_once([partial(one.register, incarnation="again") for one in starts])
    # From the database: the log shows no event before those of transactions that are under way.
    with psycopg.connect(hasty.database) as database:
        kinds = Counter(database.execute("SELECT subject, kind FROM events").fetchall())
    once = {(review, "review_reclaimed"), (f"reviewer:{reviewer}", "reviewer_terminated")}
    assert {one: kinds[one] for one in once} == dict.fromkeys(once, 1)


def test_a_project_that_one_broker_registers_is_known_to_the_other_at_once(site: Site, repo: Sandbox):
    for number, (one, two) in enumerate([(site.one, site.two), (site.two, site.one)]):
        project = fresh_project()
        with Desk(one.url, project) as here, Desk(two.url, project) as there:
            here.register(repo.root)
            assert there.put_up_whole(diff=edited(text=f"better {number}"))["validated"]
            assert project in {known["project"] for known in there.do_unscoped("list_projects")["projects"]}
            here.do_unscoped("remove_project", name=project)


def test_a_project_that_moves_at_one_broker_is_validated_in_its_new_folder_at_the_other(
    desks: tuple[Desk, Desk], repo: Sandbox, tmp_path: Path
):
    one, two = desks
    elsewhere = Sandbox(tmp_path / "elsewhere")
    for _ in range(2):
        one.register(repo.root)
        assert two.put_up_whole(diff=edited())["validated"]
        one.do_unscoped("remove_project", name=one.project)
        one.register(elsewhere.root)
        # The file is not there; and no project has its former folder any more.
        two.refused("INVALID_DIFF", "create_review", **PROPOSAL, diff=edited())
        one.do_unscoped("remove_project", name=one.project)
        assert not two.put_up_whole(diff=edited())["validated"]


def test_a_call_without_a_project_is_for_the_only_one_that_any_broker_registered(
    site: Site, repo: Sandbox, tmp_path: Path
):
    elsewhere = Sandbox(tmp_path / "elsewhere")
    with Desk(site.one.url, "first") as one, Desk(site.two.url, "second") as two:
        one.register(repo.root)
        assert two.do_unscoped("create_review", **PROPOSAL, diff=edited())["project"] == "first"
        two.register(elsewhere.root)
        refused = one.envelope_unscoped("create_review", **PROPOSAL, diff=edited())
        for name in ("first", "second"):
            one.do_unscoped("remove_project", name=name)
    assert refused["error"]["code"] == "INVALID_INPUT"
    assert refused["error"]["details"]["allowed"] == ["first", "second"]
