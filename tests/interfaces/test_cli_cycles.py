"""Hand-off cycles by commands alone: the whole way, its display, waiting, and refusals."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tandem.bridge.operations import OPERATIONS
from tandem.examples import examples
from tandem.settings import workflows
from tests.commandline import Ended, Inside, Shell, finish, repository
from tests.interfaces.broker_process import WatchedBroker

ARRAYS = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
OWN_KEY = "a key that gemini has chosen"
GATED = {"gated": {"like": "frontend-backend", "mode": "approval"}}
BROKER = {"workflows": json.dumps(GATED)}


@dataclass
class Roles:
    """Both roles of a cycle at their command lines."""

    tandem: Inside
    workflow: str = "frontend-backend"
    sessions: dict[str, str] = field(default_factory=dict[str, str])

    def begin(self, feature: str = "Login page") -> str:
        """Keys, sessions and a cycle; its id."""
        made = self.tandem.run("cycle", "init", "--workflow", self.workflow, "--json").data["keys"]
        for role, key in made.items():
            opened = self.tandem.run("session", "open", role, "--workflow", self.workflow, "--json", TANDEM_PSK=key)
            self.sessions[role] = opened.data["session_token"]
        return self.tandem.run("cycle", "start", feature, "--json").data["cycle_id"]

    def run(self, role: str, *arguments: str, stdin: bytes = b"", lock: str = "") -> Ended:
        """A command with the role's session, and a lock's token, in its environment."""
        session = self.sessions[role]
        return self.tandem.run(*arguments, stdin=stdin, TANDEM_SESSION_TOKEN=session, TANDEM_LOCK_TOKEN=lock)

    def lock(self, role: str) -> str:
        """The lock's token."""
        return self.run(role, "lock", "acquire", "--json").data["lock_token"]

    def hand_over(self, role: str, target: str, **changes: Any) -> Ended:
        """Write a hand-off."""
        written = json.dumps(self.payload(role, target) | changes).encode()
        arguments = ("handoff", "write", target, "--payload", "-", "--json")
        return self.run(role, *arguments, stdin=written, lock=self.lock(role))

    def payload(self, role: str, target: str) -> dict[str, Any]:
        status = self.tandem.run("cycle", "status", "--json").data
        named = {"cycle_id": status["cycle_id"], "feature": status["feature"], "producer": role, "consumer": target}
        return {**named, **{name: [] for name in ARRAYS}}


@pytest.fixture
def roles(tandem: Inside) -> Roles:
    return Roles(tandem)


def test_a_whole_cycle_by_commands_alone(tandem: Inside, tmp_path: Path) -> None:
    key_file = tmp_path / "codex.key"
    key_file.write_text("the key of codex, in a file\nand a second line\n", "utf-8")
    own = ("--key", "gemini=env:GEMINI_KEY", "--key", f"codex=file:{key_file}")
    init = tandem.run("cycle", "init", *own, GEMINI_KEY=OWN_KEY)
    assert (init.status, OWN_KEY in init.stdout, "from env GEMINI_KEY" in init.stdout) == (0, False, True)
    sessions = {
        "gemini": tandem.run("session.open", "--role", "gemini", "--json", TANDEM_PSK=OWN_KEY).data["session_token"],
        "codex": tandem.run("session", "open", "codex", "--psk-file", str(key_file), "--json").data["session_token"],
    }
    roles = Roles(tandem, sessions=sessions)
    started = tandem.run("cycle.start", "Login page", "--json").data
    assert (started["phase"], started["active_role"]) == ("frontend", "gemini")
    sent = roles.payload("gemini", "codex") | {"notes": ["größer \u202e"]}
    (tmp_path / "handoff.json").write_text(json.dumps(sent), "utf-8")
    first = tandem.run(
        "handoff.write", "codex", "--payload", f"@{tmp_path / 'handoff.json'}",
        "--session-token", sessions["gemini"], "--lock-token", started["lock_token"],
    )  # fmt: skip
    assert (first.status, "codex" in first.stdout) == (0, True), first.stderr
    read = tandem.run("handoff", "read", "codex")
    assert json.loads(read.stdout) == sent
    assert "\u202e" not in read.stdout
    assert roles.hand_over("codex", "gemini").data["phase"] == "frontend_refine"
    lock = roles.lock("gemini")
    assert "gemini archives it" in roles.run("gemini", "cycle", "complete", lock=lock).stdout
    archived = roles.run("gemini", "cycle.archive", "--json", lock=lock).data
    assert tandem.run("cycle", "status", "--json").data["cycle_id"] is None
    assert json.loads(tandem.run("handoff", "read", "codex").stdout) == {}

    listed = tandem.run("cycle", "list").stdout
    assert (started["cycle_id"] in listed, "archived" in listed, "gemini, codex" in listed) == (True,) * 3
    shown = tandem.run("cycle", "show", started["cycle_id"]).stdout
    assert "✓ frontend (gemini) → ✓ backend (codex) → ✓ frontend_refine (gemini) → ▶ complete" in shown
    assert "größer" not in shown
    assert "größer" in tandem.run("cycle", "show", "--payloads").stdout
    exported = tandem.run("cycle", "export", "--to", "kept", "--json").data
    assert exported["folder"] == str(tandem.cwd / "kept" / started["cycle_id"])
    assert contents(Path(exported["folder"])) == contents(Path(archived["archive"]))
    assert tandem.run("session", "close", TANDEM_SESSION_TOKEN=sessions["codex"]).status == 0
    closed = roles.run("codex", "lock", "acquire")
    assert (closed.status, "(closed)" in closed.stderr) == (1, True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_status_says_whose_turn_it_is_and_what_is_next(roles: Roles) -> None:
    tandem = roles.tandem
    idle = tandem.run("cycle", "status").stdout
    assert "Begin a cycle" in idle
    cycle_id = roles.begin()
    roles.hand_over("gemini", "codex")
    status = tandem.run("cycle", "status").stdout
    for said in (cycle_id, "Login page", "backend", "codex works on backend", "present"):
        assert said in status
    assert "lock_" not in status


def test_a_session_is_good_from_the_folder_of_another_project(
    roles: Roles, broker: WatchedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle_id = roles.begin()
    other = repository(tmp_path / "other")
    broker.register(other, f"{roles.tandem.project}-other")
    monkeypatch.chdir(other)
    assert roles.run("gemini", "lock", "acquire", "--json").data["cycle_id"] == cycle_id
    assert roles.tandem.run("cycle", "show", cycle_id, "--json").data["cycle"]["cycle_id"] == cycle_id
    assert roles.tandem.run("cycle", "status", "--json").data["cycle_id"] is None


def test_a_gated_hand_off_is_shown_with_its_verdict_and_reason(tandem: Inside, broker: WatchedBroker) -> None:
    roles = Roles(tandem, "gated")
    roles.begin()
    written = roles.hand_over("gemini", "codex").data
    waiting = tandem.run("cycle", "status").stdout
    assert (written["review_id"] in waiting, "pending" in waiting) == (True, True)
    about = {"project": tandem.project, "review_id": written["review_id"], "reviewer_id": "rita"}
    claim = broker.ask("claim_review", **about)
    broker.ask(
        "submit_verdict", **about, verdict="changes_requested",
        reason="Say which \x1b[31mendpoints.", claim_generation=claim["claim_generation"],
    )  # fmt: skip
    shown = tandem.run("cycle", "status").stdout
    assert ("changes_requested" in shown, "Say which \\u001b[31mendpoints." in shown) == (True, True)
    again = roles.hand_over("gemini", "codex", endpoints=["GET /login"]).data
    assert again["review_id"] == written["review_id"]
    assert "superseded" in tandem.run("cycle", "show").stdout
    assert re.search(r"review round +2", tandem.run("cycle", "status").stdout)


def test_what_comes_next_is_a_command_at_the_terminal_and_an_operation_for_callers(
    tandem: Inside, broker: WatchedBroker
) -> None:
    told: list[str] = []
    shown: list[str] = []

    def look() -> None:
        told.append(tandem.run("cycle", "status", "--json").data["next_step"])
        [line] = re.findall(r"^next +(.+)", tandem.run("cycle", "status").stdout, re.MULTILINE)
        shown.append(line)

    def hand_over(role: str, target: str) -> str:
        """Hand over as people do, and once more as programs do; the review."""
        payload = json.dumps(roles.payload(role, target)).encode()
        write = ("handoff", "write", target, "--payload", "-", "--idempotency-key", f"{role} {len(told)}")
        lock = roles.lock(role)
        [line] = re.findall(r"^next step +(.+)", roles.run(role, *write, stdin=payload, lock=lock).stdout, re.MULTILINE)
        shown.append(line)
        again = roles.run(role, *write, "--json", stdin=payload, lock=lock).data
        told.append(again["next_step"])
        return again["review_id"]

    def decide(review: str, verdict: str) -> None:
        about = {"project": tandem.project, "review_id": review, "reviewer_id": "rita"}
        generation = broker.ask("claim_review", **about)["claim_generation"]
        broker.ask("submit_verdict", **about, verdict=verdict, reason="r", claim_generation=generation)

    roles = Roles(tandem, "gated")
    look()
    roles.begin()
    look()
    decide(hand_over("gemini", "codex"), "changes_requested")
    look()
    review = hand_over("gemini", "codex")
    look()
    decide(review, "approved")
    decide(hand_over("codex", "gemini"), "approved")
    look()
    roles.run("gemini", "cycle", "complete", lock=roles.lock("gemini"))
    look()
    operation = re.compile(rf"\b(?:{'|'.join(OPERATIONS)})\b")
    assert [line for line in shown if operation.search(line) or "=" in line or "'tandem " not in line] == []
    assert [text for text in told if "tandem " in text or not operation.search(text)] == []
    for command in (
        "tandem cycle start FEATURE", "tandem lock acquire", "tandem handoff write codex --payload JSON",
        "tandem cycle status --role gemini --wait", "tandem cycle complete", "tandem cycle archive",
    ):  # fmt: skip
        assert any(f"'{command}'" in line for line in shown), (command, shown)


def test_a_direct_hand_off_names_the_commands_of_the_next_role(roles: Roles) -> None:
    roles.begin()
    payload = json.dumps(roles.payload("gemini", "codex")).encode()
    write = ("handoff", "write", "codex", "--payload", "-")
    written = roles.run("gemini", *write, stdin=payload, lock=roles.lock("gemini")).stdout
    then = "'tandem lock acquire' gives it the lock, and 'tandem handoff read codex' what you wrote."
    assert f"codex is next: {then}" in written


def test_text_by_others_cannot_steer_the_terminal(roles: Roles) -> None:
    roles.begin("harmless\x1b]0;title\x07 \x1b[31mred \u202e")
    roles.hand_over("gemini", "codex", notes=["harmless \x1b[2J \x9b \U000e0001"])
    for command in (
        ("cycle", "status"), ("cycle", "list"), ("cycle", "show", "--payloads"), ("handoff", "read", "codex")
    ):  # fmt: skip
        shown = roles.tandem.run(*command).stdout
        assert "harmless" in shown
        assert {"\x1b", "\u202e", "\x07", "\x9b", "\U000e0001"}.isdisjoint(shown)
    assert json.loads(roles.tandem.run("handoff", "read", "codex").stdout)["notes"] == [
        "harmless \x1b[2J \x9b \U000e0001"
    ]


USAGE_ERRORS = (
    (("handoff", "write", "codex", "--payload", "{", "--lock-token", "l", "--session-token", "s"), "not JSON"),
    (("handoff", "write", "codex", "--payload", "{}", "--lock-token", "l"), "TANDEM_SESSION_TOKEN"),
    (("handoff", "write", "codex", "--payload", "{}", "--session-token", "s"), "TANDEM_LOCK_TOKEN"),
    (("handoff", "write", "--payload", "{}", "--lock-token", "l", "--session-token", "s"), "TARGET"),
    (("cycle", "start"), "FEATURE"),
    (("cycle", "revoke"), "ROLE"),
    (("cycle", "export"), "--to"),
    (("cycle.nonsense",), "nonsense"),
    (("up.down",), "up.down"),
    (("nonsense.open",), "nonsense.open"),
)
"""Commands, and the words in which each is refused."""


def test_usage_errors_end_with_2_and_say_what_is_wrong(tandem: Inside) -> None:
    for arguments, said in USAGE_ERRORS:
        ended = tandem.run(*arguments)
        assert ended.status == 2, arguments
        assert said in " ".join(ended.stderr.replace("│", " ").split()), arguments


def test_a_wait_for_a_roles_turn_ends_when_it_is_its_turn(roles: Roles, broker: WatchedBroker) -> None:
    shell = Shell(roles.tandem.url, roles.tandem.cwd)
    # From before there is a cycle: that one can begin is nothing to do for codex yet.
    waiting = shell.start("cycle", "status", "--wait", "--role", "codex", "--json")
    broker.await_waiting(1)
    roles.begin()
    roles.hand_over("gemini", "codex")
    ended = finish(waiting)
    assert (ended.status, ended.data["active_role"]) == (0, "codex")
    assert roles.tandem.run("cycle", "status", "--wait", "--role", "codex").status == 0
    assert roles.tandem.run("cycle", "status", "--wait", "--role", "gemini", "--timeout", "0.2").status == 12
    seen = ("--cursor", ended.data["cursor"])
    assert roles.tandem.run("cycle", "status", "--wait", *seen, "--timeout", "0.2").status == 12
    # A turn that was seen is still to be taken.
    assert roles.tandem.run("cycle", "status", "--wait", "--role", "codex", *seen).status == 0


def test_a_wait_for_a_turn_ends_with_13_when_the_cycle_is_over(roles: Roles, broker: WatchedBroker) -> None:
    roles.begin()
    roles.hand_over("gemini", "codex")
    roles.hand_over("codex", "gemini")
    shell = Shell(roles.tandem.url, roles.tandem.cwd)
    waiting = shell.start("cycle", "status", "--wait", "--role", "codex")
    broker.await_waiting(1)
    lock = roles.lock("gemini")
    roles.run("gemini", "cycle", "complete", lock=lock)
    assert roles.tandem.run("cycle", "status", "--wait", "--role", "gemini").status == 0
    roles.run("gemini", "cycle", "archive", lock=lock)
    assert finish(waiting).status == 13


def test_a_wait_without_a_role_ends_with_any_change(roles: Roles, broker: WatchedBroker) -> None:
    shell = Shell(roles.tandem.url, roles.tandem.cwd)
    waiting = shell.start("cycle", "status", "--wait", "--json")
    broker.await_waiting(1)
    roles.begin()
    ended = finish(waiting)
    assert (ended.status, ended.data["phase"]) == (0, "frontend")
    for seconds in ("0.2", "0"):
        # However short the wait was, that there is a cycle is no change.
        assert roles.tandem.run("cycle", "status", "--wait", "--timeout", seconds).status == 12


def test_the_ready_workflows_are_listed_and_printed_to_be_used(tandem: Inside, config_dir: Path) -> None:
    listed = tandem.run("cycle", "example", "--json").data
    assert [one["name"] for one in listed["examples"]] == list(examples())
    assert listed["file"] == str(config_dir / "config.toml")
    shown = tandem.run("cycle", "example").stdout
    with (config_dir / "config.toml").open("a", encoding="utf-8") as config:
        for name in examples():
            assert name in shown
            printed = tandem.run("cycle", "example", name)
            assert str(config_dir / "config.toml") in printed.stderr
            assert tandem.run("cycle", "example", name, "--json").data["text"] == printed.stdout
            config.write(printed.stdout)
    tables = tomllib.loads((config_dir / "config.toml").read_text("utf-8"))["workflows"]
    assert workflows.load(tables).keys() == {"frontend-backend", *examples()}
    settings = " ".join(tandem.run("config", "show").stdout.split())
    assert "writer-editor (writer, editor; approval)" in settings
    unknown = tandem.run("cycle", "example", "nonsense")
    assert (unknown.status, unknown.stderr.split(":")[1]) == (1, " NOT_FOUND")


def test_the_settings_say_that_there_is_the_built_in_workflow(tandem: Inside, config_dir: Path) -> None:
    assert "(none besides frontend-backend)" in tandem.run("config", "show").stdout
    assert tandem.run("config", "show", "--json").data["settings"]["workflows"]["value"] == {}


def test_completion_offers_roles_cycles_workflows_and_dotted_names(roles: Roles) -> None:
    cycle_id = roles.begin()
    shell = Shell(roles.tandem.url, roles.tandem.cwd)

    def offered(words: str) -> list[str]:
        environment = {"_TANDEM_COMPLETE": "complete_bash", "COMP_WORDS": words}
        return finish(shell.start(**environment, COMP_CWORD=str(len(words.split(" ")) - 1))).stdout.split()

    assert offered("tandem session open co") == ["codex"]
    assert cycle_id in offered(f"tandem cycle show {cycle_id[:20]}")
    assert offered("tandem cycle start x --workflow fr") == ["frontend-backend"]
    assert offered("tandem session.o") == ["session.open"]
    assert offered("tandem session.open ge") == ["gemini"]
    assert offered("tandem cycle example wr") == ["writer-editor"]
