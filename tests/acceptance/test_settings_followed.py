"""A broker that runs reads its user's file again when that changes: what takes effect at once, and what does not."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.settings import writing
from tests.acceptance.reviewing import PROPOSAL, edited
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, program, until
from tests.commandline import Inside
from tests.modes import VARIATION

pytestmark = only_posix


class Followed(StaffedBroker):
    """A broker with settings in a file instead of its environment."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config" / "config.toml"
        self.file.parent.mkdir(parents=True)
        super().__init__(folder, config_dir=str(self.file.parent))
        del self._settings["TANDEM_REVIEWER_POOL"]
        self.pool["enabled"] = False

    def text(self, text: str = "", **pool: Any) -> str:
        """The file, with these settings of the pool changed."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in (self.pool | pool).items()]
        return "\n".join([text, "[reviewer_pool]", *lines, ""])

    def say(self, text: str = "", **pool: Any) -> None:
        """Write it as commands do that a person has answered; one that is no TOML as an editor does."""
        self.pool |= pool
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TANDEM_CONFIG_DIR", str(self.file.parent))
            patch.setenv("TANDEM_DATA_DIR", str(self.data_dir))
            try:
                writing.write(self.text(text), asked=True)
            except tomllib.TOMLDecodeError:
                self.file.write_text(self.text(text), "utf-8")

    def times_read(self) -> int:
        """How often it was read again."""
        return (self.data_dir / "logs" / "broker.jsonl").read_text("utf-8").count("was read again")

    def known(self, fact: str, wanted: Callable[[Any], bool]) -> Any:
        """A fact that the broker tells of itself, once it is as wanted."""
        return until(lambda: [value for value in [self.health()[fact]] if wanted(value)], f"{fact} is so")[0]


@pytest.fixture(name="broker")
def start_followed(tmp_path: Path) -> Iterator[Followed]:
    """One that has started without a pool."""
    broker = Followed(tmp_path / "broker")
    broker.say()
    with broker:
        yield broker


@pytest.fixture(name="project")
def open_project(broker: Followed, tmp_path: Path) -> Iterator[Counter]:
    """A project of it."""
    with counter(broker, tmp_path / "shop") as opened:
        yield opened


@VARIATION
def test_a_pool_that_is_switched_on_takes_what_waits_already_and_others_follow_without_a_restart(
    broker: Followed, project: Counter
) -> None:
    before, review = broker.health(), project.ask("approve")
    assert project.status(review)["no_reviewer"]["reason"] == "no_pool"
    broker.say(enabled=True)
    assert project.decided(review)["status"] == "approved"
    after = broker.health()
    assert after["instance_id"] == before["instance_id"]
    assert (before["reviewer_pool"], after["reviewer_pool"]) == ("off", "custom, at most 3")
    broker.say(enabled=False)
    broker.known("reviewer_pool", lambda said: said == "off")
    assert project.supervision()["state"] == "ended"
    later = project.ask("approve")
    assert project.status(later)["no_reviewer"]["reason"] == "no_pool"
    # Failures of the settings before are forgotten.
    broker.say(enabled=True, command=["/nowhere/at-all"])
    until(lambda: "program_missing" in str(project.status(later)["no_reviewer"]), "says why")
    broker.say(command=program(broker.notes))
    broker.known("program_missing", lambda program: program is None)
    project.do("close_review", review_id=later)
    # A reviewer finishes its review by the settings that it began with.
    held = project.ask("hold under-way")
    first = project.claimed(held)["reviewer_id"]
    broker.say(model="a-newer-model", max_pool_size=1)
    until(lambda: project.supervision()["max_pool_size"] == 1, "the pool has its new size")
    assert project.member(first)["state"] == "active"
    broker.let("under-way")
    assert project.decided(held)["status"] == "approved"
    later = project.approved()
    assert project.status(later)["reviewer_id"] != first
    runs = [broker.runs(one)[0]["environment"] for one in (held, later)]
    assert [one.get("TANDEM_REVIEW_MODEL") for one in runs] == [None, "a-newer-model"]
    assert len(broker.runs(held)) == 1


def test_a_file_that_cannot_be_used_leaves_the_settings_and_what_needs_a_restart_is_named(
    broker: Followed, project: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.say("diff_limit_bytes = 100", enabled=True)
    broker.known("reviewer_pool", lambda said: said != "off")
    for text, said in (("diff_limit_bytes = 'many'", "diff_limit_bytes"), ("= no TOML", "not valid TOML")):
        broker.say(text, enabled=False)
        assert said in broker.known("settings_problem", lambda problem, said=said: problem and said in problem)
        assert broker.health()["reviewer_pool"] == "custom, at most 3"
    project.refused("TOO_LARGE", "create_review", **{**PROPOSAL, "diff": edited(text="x" * 200)})
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(broker.file.parent))
    monkeypatch.setenv("TANDEM_DATA_DIR", str(broker.data_dir))
    there = Inside(broker.url, project.root)
    found = [one["message"] for one in there.run("doctor", "--json", stdin=b"").data["findings"]]
    assert any("goes on with the settings from before the last change" in one for one in found)
    assert "not valid TOML" in " ".join(there.run("status", stdin=b"").stdout.split())
    log = (broker.data_dir / "logs" / "broker.jsonl").read_text("utf-8")
    assert "the settings stay as they were" in log
    # The rest of the file holds at once.
    broker.say("diff_limit_bytes = 200_000\nrate_limit_burst = 3\nport = 9")
    assert broker.known("settings_changed", bool) == ["rate_limit_burst"]
    assert broker.health()["settings_problem"] is None
    project.put_up(diff=edited(text="x" * 200))
    broker.say("diff_limit_bytes = 100")
    broker.known("settings_changed", lambda names: names == [])
    project.refused("TOO_LARGE", "create_review", **{**PROPOSAL, "diff": edited(text="x" * 200)})


def test_p11_only_a_persons_choice_has_a_broker_run_another_program(
    broker: Followed, project: Counter, tmp_path: Path
) -> None:
    # A pool that is switched on by hand waits for a restart.
    broker.file.write_text(broker.text(enabled=True), "utf-8")
    assert broker.known("settings_changed", bool) == ["reviewer_pool.enabled"]
    assert project.status(project.ask("approve"))["no_reviewer"]["reason"] == "no_pool"
    broker.stop()
    broker.start()
    assert broker.health()["reviewer_pool"] == "custom, at most 3"
    broker.say(enabled=True, max_pool_size=2)
    broker.known("reviewer_pool", lambda said: said == "custom, at most 2")
    marker, proof = tmp_path / "it ran", broker.file.parent / "reviewer_pool.proof"
    by_hand = broker.text(command=["touch", str(marker)], model="lenient", max_pool_size=1, budget_per_day=100)
    broker.file.write_text(by_hand, "utf-8")
    held_back = ["reviewer_pool.budget_per_day", "reviewer_pool.command", "reviewer_pool.model"]
    assert broker.known("settings_changed", bool) == held_back
    # What tightens holds.
    assert broker.health()["reviewer_pool"] == "custom, at most 1"
    # Neither the proof of another choice is accepted, nor a made-up one.
    read = broker.times_read()
    for number, stated in enumerate((proof.read_text("ascii"), "", f"person.{'0' * 64}"), 1):
        proof.write_text(stated, "ascii")
        broker.file.write_text(by_hand.replace("[reviewer_pool]", f"port = {number}\n[reviewer_pool]"), "utf-8")
        until(lambda wanted=read + number: broker.times_read() >= wanted, "it was read again")
        assert broker.health()["settings_changed"] == held_back
    project.approved()
    assert not marker.exists()
    broker.say()
    broker.known("settings_changed", lambda names: names == [])
    assert broker.health()["reviewer_pool"] == "custom, at most 2"
