"""Hand-off cycles under concurrent calls: each step is taken once, and each later call is told why it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.gated import DIRECT, GATED, Team, check_archive, code_of, played
from tests.acceptance.reviewing import OTHER, at_once
from tests.broker import BrokerProcess, fresh_project
from tests.databases import ON_BOTH_DATABASES

pytest_plugins = ["tests.acceptance.gated_brokers"]

pytestmark = ON_BOTH_DATABASES
TURNS = [("gemini", "codex"), ("codex", "gemini")]
ROUNDS = 3

Answer = dict[str, Any]


@pytest.fixture(params=[GATED, DIRECT])
def either(request: pytest.FixtureRequest, crews: Callable[[str], Team]) -> Iterator[Team]:
    """The two roles, with and without approval."""
    with played(crews(request.param)) as ready:
        yield ready


def the_one(answers: list[Answer], *codes: str) -> int:
    """Which of the calls was let through, the only one; the others were refused with one of these codes."""
    told = [code_of(answer) for answer in answers]
    assert told.count(None) == 1, told
    assert {*told} <= {None, *codes}
    return told.index(None)


def settle(team: Team) -> None:
    """Bring a `fork` cycle from any phase to its first with nothing waiting; begin one if there is none."""
    while True:
        status = team.where()
        waiting = status["review"]
        if status["phase"] is None:
            team.begin()
        elif status["phase"] == "complete":
            team.do("cycle_archive", **team.tokens("writer"))
        elif waiting and waiting["status"] in {"pending", "claimed", "in_review"}:
            holder = team.status(waiting["review_id"])["reviewer_id"] or OTHER
            team.approve(waiting["review_id"], holder)
        elif status["phase"] != "draft":
            team.put_forward(status["active_role"], "writer")
        else:
            return


def test_of_many_starts_one_begins_a_cycle(writers: Team):
    for number in range(ROUNDS):
        starts = [partial(writers.call, "cycle_start", feature=f"Feature {number}.{one}") for one in range(8)]
        answers = at_once(starts)
        begun = answers[the_one(answers, "CYCLE_ALREADY_ACTIVE")]["data"]
        for answer in answers:
            if not answer["ok"]:
                assert answer["error"]["details"]["cycle_id"] == begun["cycle_id"]
        writers.cycle_id = begun["cycle_id"]
        assert writers.where()["feature"] == begun["feature"]
        assert writers.lock("writer") == begun["lock_token"]
        writers.finish("writer")
    features = [one["feature"].rpartition(".")[0] for one in writers.do("list_cycles", limit=ROUNDS)["cycles"]]
    assert features == [f"Feature {number}" for number in reversed(range(ROUNDS))]


def test_of_many_handoffs_with_the_same_tokens_one_is_written(either: Team):
    either.begin()
    for number, (producer, target) in enumerate(islice(cycle(TURNS), ROUNDS), 1):
        sent = either.handing(producer, target)
        writes = [
            partial(either.call, "handoff_write", **{**sent, "payload": either.payload(producer, target, notes=[one])})
            for one in range(6)
        ]
        answers = at_once(writes)
        won = the_one(answers, "INVALID_PHASE", "LOCK_DENIED")
        handoffs = either.history()["handoffs"]
        assert [one["number"] for one in handoffs] == list(range(1, number + 1))
        assert handoffs[-1]["payload"]["notes"] == [won]
        review = answers[won]["data"]["review_id"]
        if review:
            refusals = [answer["error"] for answer in answers if not answer["ok"]]
            assert {error["details"]["review_id"] for error in refusals} == {review}
            either.approve(review)
        assert either.do("handoff_read", target=target)["notes"] == [won]
        assert either.where()["active_role"] == target


def test_the_lock_has_one_token_for_one_role_at_a_time(either: Team):
    either.begin()
    for producer, target in islice(cycle(TURNS), ROUNDS):
        sent = either.handing(producer, target)
        # What rotates the lock while they ask for it: the hand-off, or its approval.
        rotates = partial(either.call, "handoff_write", **sent)
        if either.workflow == GATED:
            review = rotates()["data"]["review_id"]
            verdict = {"review_id": review, "verdict": "approved", "claim_generation": either.claim(review)}
            rotates = partial(either.call, "submit_verdict", **verdict)
        acquiring = [
            partial(either.call, "lock_acquire", session_token=either.sessions[role]) for role in (producer, target) * 3
        ]
        *answers, rotated = at_once([*acquiring, rotates])
        assert rotated["ok"]
        after = either.lock(target)
        assert after != sent["lock_token"]
        for role, answer in zip((producer, target) * 3, answers, strict=True):
            if answer["ok"]:
                assert answer["data"]["lock_token"] == (after if role == target else sent["lock_token"])
            else:
                assert code_of(answer) == "LOCK_DENIED"
                assert answer["error"]["details"]["requestedRole"] == role


def test_a_cycle_is_completed_or_handed_on_never_both(writers: Team):
    for _ in range(ROUNDS * 2):
        settle(writers)
        lock_token = writers.lock("writer")
        steps: list[Callable[[], Answer]] = [
            partial(writers.call, "cycle_complete", **writers.tokens("writer", lock_token)),
            partial(writers.call, "handoff_write", **writers.handing("writer", "editor", lock_token)),
            partial(writers.call, "handoff_write", **writers.handing("writer", "printer", lock_token)),
        ]
        answers = at_once(steps)
        won = the_one(answers, "INVALID_PHASE")
        status = writers.where()
        assert status["phase"] == ("complete" if won == 0 else "draft")
        target = status["review"]["target"] if status["review"] else None
        assert target == (None, "editor", "printer")[won]


def test_of_many_archives_one_is_made_and_it_is_whole(writers: Team):
    for _ in range(ROUNDS):
        writers.begin()
        writers.pass_on("writer", "editor")
        writers.pass_on("editor", "writer")
        writers.do("cycle_complete", **writers.tokens("writer"))
        archive = partial(writers.call, "cycle_archive", **writers.tokens("writer"))
        begin = partial(writers.call, "cycle_start", feature="The next")
        begun, *answers = at_once([begin, *[archive] * 4])
        archived = answers[the_one(answers, "ARCHIVE_NOT_ALLOWED", "LOCK_DENIED")]["data"]
        assert archived["cycle_id"] == writers.cycle_id
        assert code_of(begun) in {None, "CYCLE_ALREADY_ACTIVE"}
        # The times in it are those of the archive that was acknowledged.
        check_archive(writers, Path(archived["archive"]))
        settle(writers)
        writers.cycle_id = writers.where()["cycle_id"]
        writers.finish("writer")


def test_who_sees_the_approval_sees_the_cycle_advanced(team: Team):
    team.begin()
    for producer, target in islice(cycle(TURNS), ROUNDS):
        review = team.put_forward(producer, target)
        generation = team.claim(review)

        def watch(review: str = review) -> str | None:
            seen = ""
            while seen != "approved":
                before = team.where()
                seen = team.status(review)["status"]
                # The other way round too: a cycle that went on has an approved review.
                assert before["review"] is not None or seen == "approved"
            return team.place()[1]

        *seen, _ = at_once([watch, watch, partial(team.verdict, review, "approved", generation)])
        assert seen == [target] * 2


def test_of_keys_that_are_made_at_once_each_is_shown_once_and_works(gated: BrokerProcess):
    with Team(gated.url, fresh_project()) as team:
        made = at_once([partial(team.do, "cycle_init")] * 3)
        shown = [key for answer in made for key in answer["keys"].items()]
        assert sorted(role for role, _ in shown) == ["codex", "gemini"]
        team.keys = dict(shown)
        for role in team.keys:
            team.open_session(role)
        # Of two rotations the later one's key is the key.
        rotated = at_once([partial(team.do, "cycle_rotate", role="codex")] * 2)
        tried = [team.call("session_open", role="codex", psk=answer["keys"]["codex"]) for answer in rotated]
        assert sorted(answer["ok"] for answer in tried) == [False, True]
