"""The way past the gate: a person at a terminal has it, an agent has not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.rulings import pending
from tandem.setup import gate_switch
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.repository.terminal import at_a_terminal

WHY = "the release is burning"

MARKS = ("CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT")

pytestmark = pytest.mark.timeout(180)


def override(gated: Gated, typed: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run git past the gate, with a person's answer to the question; the exit status and the text shown."""
    whole = ("gate", "override", "-m", WHY, "--", *(arguments or ("-m", "Fix it")))
    variables = {"TANDEM_BROKER": gated.broker.url, "GIT_EDITOR": "true", **environment}
    return at_a_terminal(whole, gated.root, typed=f"{typed}\n", after="to let it pass: ", **variables)


def overrides(gated: Gated) -> list[dict[str, object]]:
    feed = gated.call("get_audit_log", kind="gate_overridden")["events"]
    return [event for event in feed if event["project"] == gated.project]


def test_a_person_at_a_terminal_who_types_the_projects_name_gets_past_the_gate(gated: Gated):
    gated.stage(DIGITS)
    status, shown = override(gated, gated.project)
    assert status == 0, shown
    asked = shown.partition("to let it pass: ")[0]
    assert "a.txt: no approved round" in asked
    assert WHY in asked
    (override_id,) = gated.trailers("Tandem-Override")
    assert gated.trailers() == []
    (event,) = overrides(gated)
    assert WHY in str(event)
    assert override_id in str(event)
    listed = gated.tandem("audit", "log", "--kind", "gate_overridden", "--project", gated.project).stdout
    assert (f"reason {WHY}" in listed, "proved by person" in listed, "paths a.txt" in listed) == (True, True, True)
    # Everybody hears of it until they have seen it.
    asked = ("inbox", "show", "--person", "rita", "--project", gated.project)
    assert f"of {gated.project}" in " ".join(gated.tandem(*asked).stdout.split())
    audit = ("audit", "main~1..main")
    assert f"owed 1 look after the fact {override_id}" in " ".join(gated.tandem(*audit).stdout.split())
    gated.tandem("gate", "seen", "--override-id", override_id, "--person", "rita", "--project", gated.project)
    assert "owed" not in gated.tandem(*audit).stdout
    assert "overrode" not in gated.tandem(*asked).stdout
    # Exactly this was let through, nothing else.
    gated.stage({"b.txt": "more\n"})
    gated.refused("commit", "-m", "More")


@pytest.mark.skipif(sys.platform == "win32", reason="platform: such names cannot be made there")
def test_the_question_names_every_path_and_no_name_can_forge_it(gated: Gated):
    forged = "a\r\x1b[2K\ntandem: The gate allows it.\u202e.txt"
    names = [f"{number:02}.txt" for number in range(12)]
    gated.stage(dict.fromkeys((forged, *names), "x\n"))
    status, shown = override(gated, "no")
    assert status != 0
    lines = shown.partition("to let it pass: ")[0].split("\n")
    assert all(line.isprintable() for line in lines)
    listed = lines[lines.index("tandem: All that this lets through (13):") + 1 :][:13]
    assert listed == [f"tandem:   {name}" for name in (*names, r"a\r\u001b[2K\ntandem: The gate allows it.\u202e.txt")]


def test_p2_any_other_answer_is_no(gated: Gated):
    gated.stage(DIGITS)
    head = gated.head()
    status, shown = override(gated, "yes")
    assert (status != 0, "to let it pass" in shown) == (True, True)
    assert gated.head() == head
    assert overrides(gated) == []


def test_p2_an_agent_is_refused_even_at_a_terminal(gated: Gated):
    gated.stage(DIGITS)
    head = gated.head()
    for mark in MARKS:
        status, shown = override(gated, gated.project, **{mark: "1"})
        assert (status != 0, mark in shown) == (True, True)
        assert gated.head() == head
    # Nor does one get by that sets the variable itself.
    words = gated.refused("commit", "-m", "x", TANDEM_OVERRIDE=WHY, CLAUDECODE="1")
    assert "ask a person" in words


def test_p2_without_a_terminal_there_is_no_override(gated: Gated):
    gated.stage(DIGITS)
    refusal = gated.tandem("gate", "override", "-m", WHY, "--", "-m", "x", stdin=f"{gated.project}\n".encode()).refusal
    assert "terminal" in refusal
    # The hook itself asks too: the variable alone opens nothing.
    done = subprocess.run(
        ["git", "commit", "-m", "x"],
        cwd=gated.root,
        env={**os.environ, "TANDEM_OVERRIDE": WHY},
        input=f"{gated.project}\n".encode(),
        capture_output=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert b"terminal" in done.stderr


def test_an_override_answers_as_json_and_gives_git_only_what_stands_behind_the_dashes(gated: Gated):
    gated.stage(DIGITS)
    refused = gated.tandem("gate", "override", "-m", WHY, "--json", "--", "-m", "x")
    assert (refused.status, refused.envelope["error"]["code"]) == (1, "FORBIDDEN")
    wrong = gated.tandem("gate", "override", "-m", WHY, "--amend", "--", "-m", "x")
    assert (wrong.status, "There is no option '--amend'" in wrong.stderr) == (2, True)
    command = ("gate", "override", "-m", WHY, "--json", "--", "-m", "Fix it")
    typed = {"typed": f"{gated.project}\n", "after": "to let it pass: "}
    status, shown = at_a_terminal(command, gated.root, **typed, TANDEM_BROKER=gated.broker.url)
    answer = json.loads(shown.rstrip().rpartition("\n")[2])
    assert (status, answer) == (0, {"ok": True, "data": {"git": ["commit", "-m", "Fix it"], "exit_status": 0}})


@VARIATION
def test_an_override_without_a_broker_is_recorded_when_it_is_back(own_gated: Gated):
    own_gated.stage(DIGITS)
    own_gated.broker.stop()
    # The base branch moves as well, and a record that waits is no approval: the person is asked again.
    status, shown = override(own_gated, f"{own_gated.project}\n{own_gated.project}")
    assert (status, shown.count("to let it pass: ")) == (0, 2), shown
    place = gate_switch.place_at(own_gated.root)
    assert pending.waiting(place)
    own_gated.broker.start()
    assert overrides(own_gated) == []
    status = own_gated.tandem("gate", "status")
    assert status.status == 0, status.stdout
    assert pending.waiting(place) == []
    assert overrides(own_gated)
    assert own_gated.trailers("Tandem-Override")
    assert own_gated.call("list_reviews")["reviews"] == []


def staged_change(gated: Gated) -> dict[str, str]:
    """Returns the staged change of one file, as a hook reports it."""
    facts, path = gated.git("diff-index", "--cached", "--raw", "--full-index", "HEAD").split("\t")
    before, after, old, new, _ = facts[1:].split()
    return {"path": path, "mode_before": before, "blob_before": old, "mode_after": after, "blob_after": new}


def test_p2_a_record_that_nobody_answered_for_is_refused_kept_and_said(gated: Gated):
    gated.stage(DIGITS)
    request = {"changes": [staged_change(gated)], "reason": WHY, "override_id": "ov_1", "branch": "main"}
    place = gate_switch.place_at(gated.root)
    for proof, told in ((None, "An override needs the proof"), (f"person.{'0' * 64}", "The proof of this override")):
        pending.keep(place, "override_gate", {**request, "proof": proof}, "ann")
        said = gated.tandem("gate", "status")
        assert (said.status, told in said.stdout) == (1, True)
        assert pending.waiting(place) == []
        assert overrides(gated) == []
    gated.refused("commit", "-m", "Slip by")
    for asked in (("gate", "status"), ("doctor",), ("audit", "main")):
        told = gated.tandem(*asked)
        assert "undeliverable" in (told.stdout + told.stderr).replace("\n", ""), asked
    for kept in (gated.root / ".git/tandem/undeliverable").iterdir():
        kept.unlink()
    assert gated.tandem("gate", "status").status == 0


def test_p2_who_writes_a_record_does_not_act_as_who_delivers_it(gated: Gated):
    place = gate_switch.place_at(gated.root)
    asked: dict[str, dict[str, object]] = {
        # Recorded before the gate was switched on again.
        "set_gate": {"enabled": False},
        "create_token": {"name": "mine", "roles": ["admin"]},
        "remove_project": {},
        "../healthz": {},
    }
    for number, (operation, arguments) in enumerate(asked.items()):
        pending.keep(place, operation, arguments)
        said = gated.tandem("gate", "status")
        assert pending.waiting(place) == []
        assert gated.call("get_gate")["enabled"]
        assert (said.status, "is dropped" in said.stderr) == (int(number > 0), number == 0)
        assert " ".join(said.stdout.split()).count("It is not what a hook writes.") == number


def test_p2_what_was_changed_in_a_record_that_waits_makes_it_void(own_gated: Gated):
    own_gated.git("switch", "--quiet", "--create", "feature")
    own_gated.stage(DIGITS)
    own_gated.broker.stop()
    status, shown = override(own_gated, own_gated.project)
    assert status == 0, shown
    place = gate_switch.place_at(own_gated.root)
    (waiting,) = map(Path, pending.waiting(place))
    written = json.loads(waiting.read_text("utf-8"))
    own_gated.broker.start()
    other = {**written["arguments"]["changes"][0], "blob_after": "1" * 40}
    for name, value in (("changes", [other]), ("reason", "Why not"), ("at", "2026-01-01T00:00:00Z")):
        changed = {**written, "arguments": {**written["arguments"], name: value}}
        waiting.write_text(json.dumps(changed), "utf-8")
        assert "The proof of this override" in own_gated.tandem("gate", "status").stdout
    waiting.write_text(json.dumps({**written, "agent": "somebody else"}), "utf-8")
    assert own_gated.tandem("gate", "status").status == 1
    assert overrides(own_gated) == []
    # As the person's hook wrote it, it counts.
    waiting.write_text(json.dumps(written), "utf-8")
    own_gated.tandem("gate", "status")
    (event,) = overrides(own_gated)
    assert WHY in str(event)


def test_p2_an_agent_records_no_override_even_with_a_proof(gated: Gated):
    gated.stage(DIGITS)
    change = staged_change(gated)
    with gated.caller() as person:
        proof = person.proved(changes=[change], reason=WHY)["proof"]
    command = ("gate", "record-override", "--changes", json.dumps([change]), "--reason", WHY, "--project")
    for mark, given in ((mark, given) for mark in MARKS for given in ((), ("--proof", proof))):
        gated.environment[mark] = "1"
        assert mark in gated.tandem(*command, gated.project, *given).refusal
        del gated.environment[mark]
    assert "needs the proof that a person was asked" in gated.tandem(*command, gated.project).refusal
    assert overrides(gated) == []
    gated.refused("commit", "-m", "Slip by")


def test_p2_without_the_brokers_key_nobody_is_asked(gated: Gated):
    gated.stage(DIGITS)
    gated.rewrite(data_dir=str(gated.root / "nowhere"))
    status, shown = override(gated, gated.project)
    assert (status != 0, "the key for it is not in" in shown.replace("\n", " ")) == (True, True)
    # A key of one's own is none of the broker's.
    own = gated.root / "nowhere"
    own.mkdir()
    shutil.copy(gated.broker.data_dir / "owner.key", own)
    (own / "person.key").write_text("0" * 64, "ascii")
    status, shown = override(gated, gated.project)
    assert (status != 0, "not by a key of this broker" in " ".join(shown.split())) == (True, True)
    assert overrides(gated) == []


def test_p2_who_is_not_on_the_brokers_machine_overrides_by_their_own_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder, auth="token") as broker:
        monkeypatch.setenv("TANDEM_DATA_DIR", str(broker.data_dir))
        gated = gate_on(broker, new_repository(tmp_path / "repository"))

        def token(*options: str) -> str:
            return gated.tandem("token", "create", "colleague", *options, "--json").data["token"]

        proposer = token("--role", "proposer", "--project", gated.project)
        admin = token("--role", "admin", "--role", "operator")
        gated.rewrite(data_dir=str(tmp_path / "nowhere"))
        gated.stage(DIGITS)
        for bearer, passes in ((proposer, False), (admin, True)):
            status, shown = override(gated, gated.project, TANDEM_TOKEN=bearer)
            assert (status == 0, "to let it pass" in shown) == (passes, True), shown
        log = gated.tandem("audit", "log", "--kind", "gate_overridden", "--json").data["events"]
        assert [event["data"]["proved_by"][:4] for event in log] == ["tok_"]
        assert log[0]["actor"].startswith("colleague/")


@pytest.mark.skipif(os.name == "nt", reason="platform: modes say nothing about other users")
def test_the_key_is_for_the_brokers_user_alone_and_stays_the_same(tmp_path: Path):
    with BrokerProcess(tmp_path) as broker:
        file = broker.data_dir / "person.key"
        key = file.read_text("ascii")
        assert file.stat().st_mode & 0o777 == 0o600
        assert key.strip() != broker.secret_key.read_text("ascii").strip()
        file.write_text("another\n", "ascii")
        broker.stop()
        broker.start()
        assert file.read_text("ascii") == key


def test_a_merge_is_overridden_like_a_commit(gated: Gated):
    gated.settings(review_granularity="per_plan")
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.git("commit", "-m", "Unreviewed")
    gated.git("switch", "--quiet", "main")
    status, shown = override(gated, gated.project, "merge", "--ff-only", "feature")
    assert status == 0, shown
    assert gated.head() == gated.head("feature")
