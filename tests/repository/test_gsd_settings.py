"""`tandem gsd on|off|status`: Tandem's keys in GSD's file, and everything else in it as it was, to the byte."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.gsd.settings import MANIFEST, OWNER
from tandem.rulings import planning
from tandem.rulings.trust import OWN_KEYS
from tandem.setup.edits import Manifest, plan
from tandem.setup.edits import install as install_edits
from tandem.setup.edits.json_edits import JsonMember
from tests.commandline import Ended, Inside, git, repository
from tests.modes import VARIATION
from tests.repository.gsd_package import NEWEST, install, package, tools
from tests.repository.terminal import at_a_terminal, without_agents

NOT_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
SKILL = "global:tandem-review"
AGENTS = ["gsd-planner", "gsd-executor", "gsd-verifier"]


@dataclass
class Shop:
    """A repository that GSD plans for."""

    root: Path

    @property
    def file(self) -> Path:
        return self.root / ".planning" / "config.json"

    @property
    def says(self) -> dict[str, Any]:
        return json.loads(self.file.read_bytes())

    @property
    def own(self) -> dict[str, Any]:
        """Where Tandem's keys are: an object of GSD's that holds others of its own."""
        return self.says["planning"]

    def write(self, content: bytes) -> bytes:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(content)
        return content

    def run(self, *arguments: str) -> Ended:
        return Inside("http://127.0.0.1:9", self.root).run("gsd", *arguments)

    def on(self, *arguments: str) -> dict[str, Any]:
        return self.run("on", *arguments, "--json").data

    def off(self) -> dict[str, Any]:
        return self.run("off", "--json").data


@pytest.fixture
def shop(tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    root = repository(tmp_path / "shop")
    monkeypatch.chdir(root)
    for name in os.environ.keys() - without_agents().keys():
        monkeypatch.delenv(name)
    for name in ("GSD_WORKSTREAM", *planning._SESSIONS):
        monkeypatch.delenv(name, raising=False)
    return Shop(root)


def stock() -> bytes:
    return (package(NEWEST) / "get-shit-done" / "templates" / "config.json").read_bytes()


@pytest.mark.parametrize(
    "before",
    [
        "stock",
        b"",
        b"{}",
        b"{}\n",
        b'{"mode":"yolo"}',
        b'{"mode":"yolo", "planning": {"commit_docs": true}, "sub_repos": []}',
        b'{\r\n    "mode": "yolo",\r\n    "agent_skills": {\r\n        "gsd-planner": ["./mine"]\r\n    }\r\n}\r\n',
        b'{\n\t"tandem_enabled" : false ,\n\t"review_granularity":"per_plan"}',
        b'\xef\xbb\xbf{"execution_mode": "wrong", "tandem_enabled": false}\n',
        b'{"tandem_enabled": false, "agent_skills": {"gsd-executor": ["global:tandem-review"]}}',
    ],
)
def test_on_writes_three_keys_and_off_restores_the_file_to_the_byte(shop: Shop, before: bytes | str) -> None:
    content = shop.write(stock() if isinstance(before, str) else before)
    told = shop.on()
    assert told["tandem_enabled"]
    says = json.loads(shop.file.read_text("utf-8-sig"))
    assert says["planning"]["tandem_enabled"] is True
    assert says["planning"]["execution_mode"] == "blocking"
    assert all(SKILL in says["agent_skills"][agent] for agent in AGENTS)
    once = shop.file.read_bytes()
    shop.on()
    assert shop.file.read_bytes() == once
    assert not shop.off()["tandem_enabled"]
    assert shop.file.read_bytes() == content


def test_without_a_file_one_is_made_and_goes_again(shop: Shop) -> None:
    assert shop.run("status").stdout.startswith("off: ")
    shop.on()
    assert shop.own["tandem_enabled"] is True
    shop.off()
    assert not shop.file.parent.exists()
    assert git(shop.root, "status", "--porcelain") == ""


def test_what_the_user_wrote_around_it_stays(shop: Shop) -> None:
    shop.write(stock())
    shop.on()
    shop.write(shop.file.read_bytes().replace(b'"mode": "interactive"', b'"mode": "yolo", "mine": [1]'))
    shop.off()
    expected = stock().replace(b'"mode": "interactive"', b'"mode": "yolo", "mine": [1]')
    assert shop.file.read_bytes() == expected


def test_changing_ones_mind_changes_the_values_only(shop: Shop) -> None:
    shop.write(stock())
    shop.on("--granularity", "per_plan")
    told = shop.on("--mode", "optimistic")
    assert told["stated"] == {"review_granularity": "per_plan", "execution_mode": "optimistic"}
    shop.on("--granularity", "per_task", "--mode", "blocking")
    assert (shop.own["review_granularity"], shop.own["execution_mode"]) == ("per_task", "blocking")
    shop.off()
    assert shop.file.read_bytes() == stock()


def test_off_is_off_also_when_somebody_else_had_switched_it_on(shop: Shop) -> None:
    shop.write(b'{ "tandem_enabled":true, "mode": "yolo", "planning": {"tandem_enabled": true} }')
    told = shop.on()
    assert "tandem_enabled at the top level" in told["remarks"][0]
    told = shop.off()
    assert not told["tandem_enabled"]
    assert (
        shop.file.read_bytes() == b'{ "tandem_enabled":false, "mode": "yolo", "planning": {"tandem_enabled": false} }'
    )
    assert "had tandem_enabled of its own" in told["remarks"][0]


def test_what_an_earlier_version_put_at_the_top_level_holds_and_moves(shop: Shop) -> None:
    shop.write(stock())
    manifest = Manifest.load(shop.root / ".git/tandem" / MANIFEST, shop.root)
    edits = [JsonMember(shop.file, (planning.ENABLED,), value=True, replaces=True)]
    install_edits(plan(edits, manifest, owner=OWNER))
    assert shop.run("status", "--json").data["tandem_enabled"]
    assert shop.on()["remarks"] == []
    assert "tandem_enabled" not in shop.says
    assert shop.own["tandem_enabled"] is True
    shop.off()
    assert shop.file.read_bytes() == stock()


def test_a_value_that_was_changed_since_stays_at_off(shop: Shop) -> None:
    shop.write(b'{"planning": {"review_granularity": "per_phase"}}')
    shop.on()
    shop.write(shop.file.read_bytes().replace(b"per_task", b"per_plan"))
    told = shop.off()
    assert shop.says == {"planning": {"review_granularity": "per_plan"}}
    assert "review_granularity was changed" in told["remarks"][0]


def test_what_loosens_is_written_and_does_not_count_until_a_person_trusts_it(shop: Shop) -> None:
    shop.write(stock())
    told = shop.on("--granularity", "per_plan")
    assert shop.own["review_granularity"] == "per_plan"
    assert told["review_granularity"] == "per_task"
    assert told["not_trusted"] == ["review_granularity"]
    assert "tandem trust .planning/config.json" in told["remarks"][0]
    shown = shop.run("status")
    assert "review_granularity = per_task (.planning/config.json; per_plan is not trusted" in shown.stdout


@NOT_WINDOWS
def test_a_person_is_asked_to_trust_what_loosens(shop: Shop) -> None:
    shop.write(stock())
    arguments = ("gsd", "on", "--mode", "optimistic")
    status, shown = at_a_terminal(arguments, shop.root, typed="yes\n", after="Type yes: ")
    assert status == 0
    assert '"execution_mode": "optimistic"' in shown
    told = shop.run("status", "--json").data
    assert (told["execution_mode"], told["not_trusted"]) == ("optimistic", [])
    # GSD's next rewriting of its own keys changes nothing of that.
    shop.write(json.dumps({**shop.says, "mode": "yolo"}).encode())
    assert shop.run("status", "--json").data["execution_mode"] == "optimistic"


def test_a_workstream_has_its_own_file(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.write(stock())
    stream = shop.root / ".planning/workstreams/pay"
    stream.mkdir(parents=True)
    (stream / "config.json").write_bytes(b'{"tandem_enabled": false}')
    monkeypatch.setenv("GSD_WORKSTREAM", "pay")
    told = shop.on()
    assert not told["tandem_enabled"]
    assert told["remarks"] == ["the workstream pay says tandem_enabled: false, and that counts now"]
    told = shop.on("--workstream", "pay")
    assert told["tandem_enabled"]
    assert told["origins"]["tandem_enabled"] == ".planning/workstreams/pay/config.json"
    shop.off()
    assert shop.file.read_bytes() == stock()
    assert (stream / "config.json").read_bytes() == b'{"tandem_enabled": false}'
    refused = shop.run("on", "--workstream", "ship")
    assert "There is no workstream 'ship'; there are: pay" in refused.stderr


def test_in_a_linked_working_tree_it_is_the_main_ones_file(shop: Shop, tmp_path: Path) -> None:
    shop.write(stock())
    git(shop.root, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    os.chdir(tmp_path / "linked")
    assert shop.on()["root"] == str(shop.root)
    assert shop.own["tandem_enabled"] is True
    assert not (tmp_path / "linked/.planning").exists()
    shop.off()
    assert shop.file.read_bytes() == stock()


@pytest.mark.parametrize("content", [b'{"mode": ', b'{"planning": "x"}', b'{"planning": [1]}', b"5"])
def test_a_file_that_is_no_json_is_refused_and_left_alone(shop: Shop, content: bytes) -> None:
    broken = shop.write(content)
    assert "config.json" in shop.run("on").refusal
    assert shop.file.read_bytes() == broken
    status = shop.run("status")
    assert status.stdout.startswith("on: ")
    assert "cannot be read, so reviews stay on" in status.stderr


def test_a_skill_list_that_is_no_list_is_left_alone_and_reported(shop: Shop) -> None:
    content = shop.write(b'{"agent_skills": {"gsd-planner": "./mine"}}')
    told = shop.on()
    assert told["agent_skills"] == {"gsd-planner": False, "gsd-executor": True, "gsd-verifier": True}
    assert any("gsd-planner did not get the skill" in remark for remark in told["remarks"])
    shop.off()
    assert shop.file.read_bytes() == content


def test_outside_of_git_it_is_refused(tmp_path: Path, shop: Shop) -> None:
    os.chdir(tmp_path)
    assert "is in no working tree of git" in shop.run("on").refusal


@VARIATION
def test_gsd_itself_keeps_the_keys_and_hands_the_skill_to_its_agents(shop: Shop, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    install(NEWEST, "claude", "user", home)
    skill = home / ".claude/skills/tandem-review/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tandem-review\n---\n", "utf-8")
    before = json.loads(shop.write(stock()))
    shop.on()
    place: dict[str, Any] = {"home": home, "cwd": shop.root, "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    tools(home / ".claude", "config-set", "mode", "yolo", **place)
    assert planning.read(str(shop.root)).tandem_enabled
    for agent in AGENTS:
        assert str(skill) in tools(home / ".claude", "agent-skills", agent, **place)
    for command in ("init plan-phase 3", "init progress", "state load", "roadmap analyze", "validate health"):
        said = tools(home / ".claude", *command.split(), **place)
        warned = [line for line in said.splitlines() if "unknown config key" in line]
        assert not any(key in line for line in warned for key in OWN_KEYS), said
    shop.off()
    assert shop.says == {**before, "mode": "yolo"}
