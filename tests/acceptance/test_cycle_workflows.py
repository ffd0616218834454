"""Other workflows than the built-in one: the examples, several in one project, and those that change meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tandem.examples import examples
from tests.acceptance.cycling import Crew
from tests.broker import BrokerProcess, fresh_project

RELAY = "planner-builder-tester"
STUDIO = "designer-developer-reviewer"
PRESS = "writer-editor"
MORE = Path(__file__).with_name("workflows_more.toml").read_text("utf-8")
CHANGED = Path(__file__).with_name("workflows_changed.toml").read_text("utf-8")
"""The same name for something else."""

PHASES = {
    "planner": "plan",
    "builder": "build",
    "tester": "test",
    "designer": "design",
    "developer": "develop",
    "reviewer": "review",
    "writer": "rewrite",
    "editor": "edit",
    "author": "draft",
    "checker": "check",
}
"""The phase that a hand-off to a role leads to, in each of these workflows."""

WALKS = {
    RELAY: "builder tester builder tester",
    STUDIO: "developer designer developer reviewer developer reviewer designer developer reviewer",
    PRESS: "editor writer editor writer editor",
    "second-feature": "builder tester",
    "essay": "author checker author checker",
}
"""Hand-offs by target: through every phase, rework included."""

ARCHIVERS = {RELAY: "planner", STUDIO: "designer", PRESS: "editor", "second-feature": "tester", "essay": "checker"}


class Stage:
    """A broker that is started again with another configuration, and cycles that began under its first one."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.broker = broker
        self.running: list[Crew] = []
        self._folder = folder
        self._text = examples()[RELAY]

    def begin(self, crew: Crew) -> None:
        """A cycle of `RELAY`, in its second phase."""
        crew.prepare().start()
        crew.hand_over("builder")
        self.running.append(crew)

    def reconfigure(self, text: str) -> None:
        """Have this configuration, by a restart if it is another."""
        if text != self._text:
            self.broker.stop()
            configured(self._folder, text)
            self.broker.start()
            self._text = text


def configured(folder: Path, text: str) -> dict[str, object]:
    """The settings of a broker whose user has this configuration."""
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text, "utf-8")
    return {"config_dir": folder}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that has the examples and some more workflows; audited at the end."""
    settings = configured(tmp_path_factory.mktemp("configuration"), "\n".join([*examples().values(), MORE]))
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **settings) as started:
        yield started
        started.assert_intact()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cycle for each test that changes the configuration under it; audited at the end."""
    folder = tmp_path_factory.mktemp("configuration")
    with ExitStack() as stack:
        settings = configured(folder, examples()[RELAY])
        broker = stack.enter_context(BrokerProcess(tmp_path_factory.mktemp("broker"), **settings))
        made = Stage(broker, folder)
        for _ in range(2):
            made.begin(stack.enter_context(Crew(broker.url, fresh_project(), RELAY)))
        yield made
        broker.assert_intact()


@pytest.fixture
def crew(stage: Stage) -> Crew:
    """One of the running cycles, for one test."""
    return stage.running.pop()


def hand_over(crew: Crew, target: str) -> str:
    """A hand-off, approved by a reviewer where the workflow asks for it; the phase that follows."""
    written = crew.hand_over(target)
    if written["review_id"] is not None:
        review = {"review_id": written["review_id"]}
        claim = crew.do("claim_review", reviewer_id="rev-1", **review)["claim_generation"]
        crew.do("submit_verdict", verdict="approved", claim_generation=claim, **review)
    status = crew.status()
    assert status["active_role"] == target
    return status["phase"]


@pytest.mark.parametrize("workflow", WALKS)
def test_a_workflow_is_played_from_its_start_to_the_archive(studio: BrokerProcess, workflow: str):
    with Crew(studio.url, fresh_project(), workflow) as crew:
        crew.prepare()
        for feature in ("First", "Second")[: 1 + (workflow == RELAY)]:
            started = crew.start(feature)
            assert started["active_role"] == crew.active_role
            walk = WALKS[workflow].split()
            assert [hand_over(crew, target) for target in walk] == [PHASES[target] for target in walk]
            before = crew.tokens()
            completer = crew.active_role
            completed = crew.complete()
            assert (completed["phase"], completed["active_role"]) == ("complete", ARCHIVERS[workflow])
            if ARCHIVERS[workflow] != completer:
                # The lock is the archiver's now: who completed has lost it.
                crew.refused("LOCK_DENIED", "cycle_archive", **before)
                assert crew.lock() != before["lock_token"]
            archive = crew.archive()
            manifest = json.loads((archive / "manifest.json").read_text("utf-8"))
            assert [one["target"] for one in manifest["handoffs"]] == walk
            assert (manifest["workflow"], manifest["feature"]) == (workflow, feature)


def test_roles_and_ways_are_the_workflows_own(studio: BrokerProcess):
    with Crew(studio.url, fresh_project(), STUDIO) as crew:
        roles = ["designer", "developer", "reviewer"]
        assert [*crew.make_keys()["keys"]] == roles
        details = crew.refused("INVALID_ROLE", "session_open", role="gemini", psk=crew.keys["designer"])
        assert details["allowed"] == roles
        crew.prepare().start()
        assert crew.refused("INVALID_TARGET", "handoff_read", target="codex")["allowed"] == roles
        designer = {**crew.handing("developer"), "target": "reviewer"}
        tokens = crew.tokens()
        with crew.unchanged():
            assert crew.refused("INVALID_PHASE", "handoff_write", **designer)["allowed"] == ["developer"]
            assert crew.refused("INVALID_PHASE", "cycle_complete", **tokens)["allowed"] == ["review"]
        crew.hand_over("developer")
        developer = {**crew.handing("designer"), "target": "developer"}
        assert crew.refused("INVALID_PHASE", "handoff_write", **developer)["allowed"] == ["designer", "reviewer"]
        assert "designer or reviewer" in crew.refusals[-1]


def test_the_lock_stays_where_it_is_when_a_role_hands_over_to_itself(studio: BrokerProcess):
    with Crew(studio.url, fresh_project(), "essay") as crew:
        started = crew.prepare().start()
        session = {"session_token": crew.sessions["author"], "lock_token": started["lock_token"]}
        own = crew.payload("author", "author")
        assert crew.do("handoff_write", target="author", payload=own, **session)["phase"] == "draft"
        assert crew.read("author") == own
        assert crew.lock() == started["lock_token"]
        theirs = crew.payload("author", "checker")
        assert crew.do("handoff_write", target="checker", payload=theirs, **session)["phase"] == "check"
        assert crew.lock() != started["lock_token"]


def test_two_workflows_run_side_by_side_in_one_project(studio: BrokerProcess):
    project = fresh_project()
    with Crew(studio.url, project, RELAY) as one, Crew(studio.url, project, "second-feature") as two:
        first, second = one.prepare().start("First"), two.prepare().start("Second")
        assert first["cycle_id"] != second["cycle_id"]
        assert first["lock_token"] != second["lock_token"]
        one.hand_over("builder")
        assert (one.status()["phase"], two.status()["phase"]) == ("build", "plan")
        assert (one.status()["feature"], two.status()["feature"]) == ("First", "Second")
        assert two.read("builder") == {}
        # A session, a lock and a key are for one of them.
        with one.unchanged(), two.unchanged():
            mixed = {"session_token": two.sessions["builder"]}
            details = one.refused("INVALID_SESSION", "lock_acquire", **mixed)
            assert (details["expected"]["workflow"], details["actual"]["workflow"]) == (RELAY, "second-feature")
            two.refused("AUTH_FAILED", "session_open", role="builder", psk=one.keys["builder"])
        wrong_lock = {**two.handing("builder"), "lock_token": first["lock_token"]}
        two.refused("LOCK_DENIED", "handoff_write", **wrong_lock)
        assert two.refused("CYCLE_ALREADY_ACTIVE", "cycle_start", feature="Third")["cycle_id"] == second["cycle_id"]
        one.hand_over("tester")
        one.complete()
        one.archive()
        two.play("builder", "tester")
        two.complete()
        two.archive()
        assert {row["workflow"] for row in one.do("list_cycles")["cycles"]} == {RELAY, "second-feature"}


def test_a_call_without_a_workflow_means_the_only_one_that_has_keys(studio: BrokerProcess):
    with Crew(studio.url, fresh_project()) as crew:
        assert crew.status()["workflow"] == "frontend-backend"
        crew.keys |= crew.do("cycle_init", workflow=RELAY)["keys"]
        assert crew.status()["workflow"] == RELAY
        for role in crew.keys:
            crew.join(role)
        assert crew.start()["workflow"] == RELAY
        crew.hand_over("builder")
        assert crew.read("builder")
        crew.do("cycle_init", workflow=STUDIO)
        # Now it is not clear any more; a session still says it all.
        assert crew.status()["workflow"] == "frontend-backend"
        assert crew.do("lock_acquire", session_token=crew.sessions["builder"])["cycle_id"] == crew.cycle["cycle_id"]


def test_a_workflow_that_there_is_not_is_refused_with_those_there_are(studio: BrokerProcess):
    with Crew(studio.url, fresh_project(), "relay") as crew:
        for operation, arguments in {
            "session_open": {"role": "planner", "psk": "any"},
            "cycle_start": {"feature": "Any"},
            "cycle_status": {},
            "handoff_read": {"target": "builder"},
        }.items():
            details = crew.refused("INVALID_INPUT", operation, **arguments)
            assert details["field"] == "workflow"
            assert {"frontend-backend", RELAY, STUDIO, PRESS, "second-feature"} < set(details["allowed"])


# ------------------------------------------------------------------------------------------------ while a cycle runs


def test_a_running_cycle_keeps_its_workflow_and_the_next_one_has_the_new(stage: Stage, crew: Crew):
    before = crew.everything()
    stage.reconfigure(CHANGED)
    assert crew.everything() == before
    assert crew.join("tester")
    assert crew.hand_over("tester")["phase"] == "test"
    assert crew.hand_over("builder")["phase"] == "build"
    crew.hand_over("tester")
    assert crew.complete()["active_role"] == "planner"
    archive = crew.archive()
    assert list(json.loads((archive / "workflow.json").read_text("utf-8"))["phases"]) == ["plan", "build", "test"]

    assert list(crew.status()["handoffs"]) == ["planner", "builder", "checker"]
    assert crew.refused("CONFIG_INVALID", "cycle_start", feature="Next")["missing"] == ["checker"]
    assert list(crew.make_keys()["keys"]) == ["checker"]
    crew.refused("INVALID_ROLE", "session_open", role="tester", psk=crew.keys["tester"])
    crew.join("checker")
    started = crew.start("Next")
    assert (started["phase"], started["mode"]) == ("sketch", "approval")
    assert hand_over(crew, "builder") == "construct"
    assert hand_over(crew, "checker") == "check"
    assert crew.complete()["active_role"] == "checker"
    crew.archive()


def test_the_keys_of_a_running_cycle_can_be_replaced_whatever_became_of_its_workflow(stage: Stage, crew: Crew):
    for text in (CHANGED, ""):
        stage.reconfigure(text)
        leaked = crew.sessions["tester"]
        assert crew.do("cycle_revoke", role="tester", workflow=RELAY)["sessions_ended"] == 1
        assert crew.refused("CONFIG_INVALID", "lock_acquire", session_token=leaked)["missing"] == ["tester"]
        crew.keys |= crew.do("cycle_rotate", role="tester", workflow=RELAY)["keys"]
        crew.join("tester")
    crew.play("tester")
    crew.complete()
    crew.archive()
