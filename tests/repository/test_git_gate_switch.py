"""`tandem gate on`, `off` and `status`: the switch is kept at both places, and a person's to turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.setup.trust import Project
from tests.broker import BrokerProcess, fresh_project
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.repository.terminal import at_a_terminal


def test_switching_on_registers_the_project_and_says_so_at_both_places(shared_broker: BrokerProcess, tmp_path: Path):
    root = new_repository(tmp_path / "webshop")
    gated = Gated(shared_broker, root, "webshop")
    ended = gated.tandem("gate", "on", "--reason", "a release", "--json")
    assert ended.status == 0, ended.stderr
    assert ended.data["enabled"] is ended.data["broker_enabled"] is True
    assert set(ended.data["hooks"].values()) == {True}
    assert ended.data["branches"] == ["main"]
    state = gated.call("get_gate")
    assert (state["enabled"], state["branches"], state["reason"]) == (True, ["main"], "a release")
    assert (state["accepted"], state["folders"]) == ([gated.head()], [str(root / ".git")])
    assert gated.switch["project"] == "webshop"
    again = gated.tandem("gate", "on", "--json")
    assert again.data == ended.data


def test_a_gate_for_a_project_that_nobody_knows_is_refused_unless_it_is_new(shared_broker: BrokerProcess, plain: Path):
    name = fresh_project()
    gated = Gated(shared_broker, plain, name)
    assert gated.tandem("gate", "on", "--project", name, "--new").status == 0
    assert gated.tandem("gate", "on", "--project", name).status == 0
    before = gated.switch
    misspelt = gated.tandem("gate", "on", "--project", f"{name}x")
    assert (misspelt.status, f"Did you mean '{name}'?" in misspelt.stderr, "--new" in misspelt.stderr) == (
        1,
        True,
        True,
    )
    assert gated.switch == before


def test_p2_a_refusal_in_one_working_tree_leaves_the_hooks_of_the_others(gated: Gated, tmp_path: Path):
    gated.git("config", "extensions.worktreeConfig", "true")
    linked = gated.linked(tmp_path / "linked", "feature")
    gated.git("config", "--worktree", "core.hooksPath", str(tmp_path), cwd=linked)
    refused = gated.tandem("gate", "on", cwd=linked)
    assert (refused.status, "CONFIG_INVALID" in refused.stderr, "config.worktree" in refused.stderr) == (1, True, True)
    gated.stage({"a.txt": "unseen\n"})
    assert "This commit holds" in gated.refused("commit", "-m", "x")


def test_from_a_linked_working_tree_it_is_the_same_gate(gated: Gated, tmp_path: Path):
    linked = gated.linked(tmp_path / "linked", "feature")
    status = gated.tandem("gate", "status", "--json", cwd=linked)
    assert (status.status, status.data["enabled"], status.data["root"]) == (0, True, str(gated.root))


def test_a_gate_that_is_off_or_was_never_on_is_no_error(shared_broker: BrokerProcess, plain: Path):
    gated = Gated(shared_broker, plain, "none")
    status = gated.tandem("gate", "status", "--json")
    assert (status.status, status.data["enabled"], status.data["project"]) == (0, False, None)
    assert gated.tandem("gate", "off").status == 0
    assert "git repository" in gated.tandem("gate", "status", cwd=plain.parent).refusal


def test_p2_an_agent_does_not_switch_off(gated: Gated):
    for mark in ("CLAUDECODE", "CODEX_SANDBOX"):
        environment: dict[str, Any] = {mark: "1"}
        assert "person" in gated.tandem("gate", "off", **environment).refusal
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")


def test_switching_off_asks_at_the_terminal(gated: Gated):
    assert "terminal" in gated.tandem("gate", "off", stdin=b"yes\n").refusal
    for answer, status in (("no", 1), ("yes", 1), (gated.project, 0)):
        asked = {"typed": f"{answer}\n", "after": "if that is meant: ", "TANDEM_BROKER": gated.broker.url}
        ended = at_a_terminal(("gate", "off", "--reason", "enough"), gated.root, **asked)
        assert (ended[0], asked["after"] in ended[1]) == (status, True)
        assert gated.switch["enabled"] is gated.call("get_gate")["enabled"] is bool(status)
    gated.stage(DIGITS)
    gated.git("commit", "-m", "x")


ELSEWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("options", "environment", "named"),
    [
        (("--branch", "release"), {}, "main would no longer be a base branch"),
        pytest.param(
            ("--branch", "main", "--branch", "feature"),
            {},
            "its commits so far would never be judged",
            marks=VARIATION,
        ),
        (("--accept", "refs/heads/feature"), {}, "refs/heads/feature, now "),
        (("--signer", f"ann={'A' * 43}"), {}, f"content signed by ann={'A' * 43} would pass"),
        pytest.param(("--no-strict",), {}, "agents could write plans that are not approved", marks=VARIATION),
        (("--broker", ELSEWHERE), {}, f"another broker would be asked: {ELSEWHERE}"),
        (("--project", "elsewhere", "--new"), {}, "another project's approvals would count: elsewhere"),
        pytest.param((), {"TANDEM_BROKER": ELSEWHERE}, f"another broker would be asked: {ELSEWHERE}", marks=VARIATION),
        ((), {"TANDEM_DATA_DIR": "/nowhere"}, "the broker on another data folder would be asked: /nowhere"),
        ((), {"TANDEM_CONFIG_DIR": "/nowhere"}, "another folder's settings would hold: /nowhere"),
    ],
    ids=str,
)
def test_p2_only_a_person_who_is_asked_has_a_gate_that_is_on_let_more_through(
    gated: Gated, options: tuple[str, ...], environment: dict[str, Any], named: str
):
    # On this user's data, so that no broker is named.
    gated.environment["TANDEM_BROKER"] = ""
    gated.rewrite(broker=None)
    assert gated.tandem("gate", "on", "--strict").status == 0
    gated.git("branch", "feature", gated.git("commit-tree", "-p", "HEAD", "-m", "Theirs", "HEAD^{tree}"))
    before, known = gated.switch, gated.call("get_gate")
    assert before["broker"] is None
    agents: list[dict[str, Any]] = [{}, {"CLAUDECODE": "1"}]
    for mark in agents:
        refusal = gated.tandem("gate", "on", *options, **environment, **mark).refusal
        assert named in refusal
        assert ("CLAUDECODE is set" if mark else "person at a terminal") in refusal
        assert (gated.switch, gated.call("get_gate")) == (before, known)
    asked = gated.person("gate", "on", *options, **environment)
    assert named in asked.stdout
    # A broker that is not running takes no gate from anyone.
    is_away = "would be asked" in named
    assert (gated.switch == before, asked.ok) == (is_away, not is_away), asked.stdout


def test_p2_a_gate_moves_to_another_broker_only_where_a_person_says_so(gated: Gated, tmp_path: Path):
    (tmp_path / "another").mkdir()
    with BrokerProcess(tmp_path / "another") as another:
        for way in (("--broker", another.url), ()):
            ended = gated.tandem("gate", "on", *way, TANDEM_BROKER="" if way else another.url, CODEX_CI="1")
            assert (ended.status, f"another broker would be asked: {another.url}" in ended.stderr) == (1, True)
        gated.stage(DIGITS)
        assert "no approved round" in gated.refused("commit", "-m", "x")
        gated.person("gate", "on", "--broker", another.url)
        theirs = Gated(another, gated.root, gated.project)
        theirs.approve()
        theirs.git("commit", "-m", "x")


def test_p2_what_nobody_was_asked_about_is_logged_without_a_proof(gated: Gated):
    assert gated.tandem("gate", "on", "--branch", "main").status == 0
    assert gated.person("gate", "on", "--signer", f"ann={'A' * 43}").ok
    told = gated.call("get_audit_log", kind="gate_switched")["events"]
    assert [event["data"]["proved_by"] for event in told] == [None, "person"]


def test_p2_switching_on_again_moves_nothing_out_of_sight(gated: Gated):
    start = gated.head()
    gated.approved_commit(DIGITS)
    assert gated.tandem("gate", "on").status == 0
    assert gated.call("get_gate")["accepted"] == [start]


def test_a_gate_whose_record_names_no_folder_begins_anew(shared_broker: BrokerProcess, plain: Path):
    gated = Gated(shared_broker, plain, fresh_project())
    with gated.caller() as caller:
        caller.send("register_project", json.dumps({"root": str(plain), "name": gated.project}).encode())
    gated.call("set_gate", enabled=True, branches=["main"])
    ended = gated.person("gate", "on")
    assert ended.ok, ended.stdout
    assert gated.call("get_gate")["accepted"] == [gated.head()]


LOOSE: tuple[dict[str, Any], ...] = (
    {"enabled": False},
    {"branches": ["release"]},
    {"accepted": ["1" * 40]},
    {"trusted": [f"{'1' * 64} .tandem/config.toml"]},
    {"signers": [f"ann={'A' * 43}"]},
    {"commits": "followed"},
)


def test_p2_what_loosens_a_gate_takes_the_proof_that_a_person_decided_it_and_only_once(gated: Gated):
    for more in LOOSE:
        loosened_once(gated, {"enabled": True, **more})
    told = gated.call("get_audit_log", kind="gate_switched")["events"]
    assert [event["data"]["proved_by"] for event in told][:2] == [None, "person"]


def loosened_once(gated: Gated, stated: dict[str, Any]) -> None:
    before = gated.call("get_gate")
    with gated.caller() as caller:
        for wrong in ({}, {"since": before["switched_at"], "proof": f"person.{'0' * 64}"}):
            details = caller.refused("FORBIDDEN", "set_gate", **stated, **wrong)
            assert details["needed"] == "person"
        sealed = caller.loosening(**stated)
        caller.refused("FORBIDDEN", "set_gate", **{**sealed, "reason": "Another one."})
        assert caller.do("get_gate") == before
        caller.do("set_gate", **sealed)
        restored = ("enabled", "branches", "accepted", "trusted", "signers", "commits")
        caller.loosen(**{name: before[name] for name in restored})
        caller.refused("FORBIDDEN", "set_gate", **sealed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"branches": []}, "the base branches are none there, and main at the broker"),
        pytest.param({"branches": ["main", "evil"]}, "the base branches are main, evil there", marks=VARIATION),
        ({"project": "other"}, "was not switched on for"),
        ({}, ".planning/config.json is trusted in a form that no person told the broker of"),
    ],
    ids=str,
)
def test_p2_what_is_edited_here_is_refused_and_said_wherever_one_looks(
    gated: Gated, tmp_path: Path, config_dir: Path, changed: dict[str, Any], said: str
):
    gated.settings(trusted=False, execution_mode="optimistic")
    if "project" in changed:
        other = gate_on(gated.broker, new_repository(tmp_path / "other"))
        changed = {"project": other.project}
    elif not changed:
        own = Project.at(str(gated.root), config_dir).candidates()
        entry = {"root": str(gated.root), "file": own[0].file, "sha256": own[0].sha256, "at": "now", "by": "me"}
        (config_dir / "trusted.json").write_text(json.dumps({"version": 1, "trusted": [entry]}), "utf-8")
    gated.rewrite(**changed)
    gated.stage(DIGITS)
    assert said in gated.refused("commit", "-m", "x")
    gated.git("-c", "core.hooksPath=/dev/null", "commit", "-m", "x")
    for command in (("gate", "status"), ("audit", "main~1..main~1"), ("doctor",)):
        ended = gated.tandem(*command)
        assert ended.status == 1, command
        assert said in " ".join((ended.stdout + ended.stderr).split()), command
    # The broker's record replaces the edited facts; they are never adopted.
    mended = gated.tandem("gate", "on", "--json")
    assert (mended.data["project"], mended.data["branches"]) == (gated.project, ["main"])
    assert (mended.status == 0) == bool(changed)
    if not changed:
        assert said in " ".join(mended.data["problems"])
        assert gated.tandem("trust", stdin=b"yes\n").status == 1
        assert gated.tandem("trust", "--revoke").status == 0
    assert gated.tandem("gate", "status").status == 0


def test_p2_what_is_no_longer_trusted_is_not_trusted_again_by_who_writes_it_back(gated: Gated, config_dir: Path):
    gated.settings(execution_mode="optimistic")
    written = (config_dir / "trusted.json").read_bytes()
    assert len(gated.call("get_gate")["trusted"]) == 1
    assert gated.tandem("trust", "--revoke").status == 0
    assert gated.call("get_gate")["trusted"] == []
    (config_dir / "trusted.json").write_bytes(written)
    gated.stage(DIGITS)
    assert "is trusted in a form that no person told the broker of" in gated.refused("commit", "-m", "x")


def test_p2_another_broker_than_the_one_that_has_the_gate_is_said(gated: Gated, tmp_path: Path):
    (tmp_path / "another").mkdir()
    with BrokerProcess(tmp_path / "another") as another:
        gate_on(another, gated.root)
        for command in (("gate", "status"), ("audit", "main")):
            ended = gated.tandem(*command, TANDEM_DATA_DIR=str(gated.broker.data_dir), TANDEM_BROKER="")
            assert ended.status == 1, command
            assert f"tandem gate on --broker {gated.broker.url}" in " ".join((ended.stdout + ended.stderr).split())


def test_a_broker_that_is_away_does_not_keep_anybody_from_switching_off(own_gated: Gated):
    own_gated.broker.stop()
    ended = own_gated.person("gate", "off")
    assert ended.ok, ended.stdout
    assert "broker was not told" in ended.stdout
    own_gated.stage(DIGITS)
    own_gated.git("commit", "-m", "x")
    own_gated.broker.start()
    assert own_gated.call("get_gate")["enabled"] is True
    assert own_gated.tandem("gate", "status").status == 0
    assert own_gated.call("get_gate")["enabled"] is False
    # On again from here, both agree at once.
    assert own_gated.tandem("gate", "on").status == 0


def test_places_that_disagree_are_a_problem(gated: Gated):
    gated.loosen(enabled=False)
    status = gated.tandem("gate", "status", "--json")
    assert status.status == 1
    assert "tandem gate on" in " ".join(status.data["problems"])
    # Here it says on, so it is on.
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")


def test_the_status_tells_what_the_settings_ask_for_and_whether_it_holds(gated: Gated):
    gated.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan", execution_mode="optimistic")
    shown = gated.tandem("gate", "status", "--json").data
    assert (shown["granularity"], shown["mode"], shown["tandem_enabled"]) == ("per_task", "blocking", True)
    assert set(shown["untrusted"]) == {"review_granularity", "execution_mode"}
    gated.settings(tandem_enabled=True, review_granularity="per_plan", execution_mode="optimistic")
    shown = gated.tandem("gate", "status", "--json").data
    assert (shown["granularity"], shown["mode"], shown["untrusted"]) == ("per_plan", "optimistic", [])
    words = gated.tandem("gate", "status").stdout
    assert "optimistic" in words
    assert "5 of 5 alive" in words
