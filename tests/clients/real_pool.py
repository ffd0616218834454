"""The broker's pool with the real client programs: a change is proposed, and they decide it. Models are scripted."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import ANSWER, BIN, CLIENTS, TOOLS, Client, service
from tests.clients.traps import TRAP, laid
from tests.git.sandbox import Sandbox

Mode = Literal["worker", "agent"]
PATIENCE_SECONDS = 50
TRIES = 6
FILE = "README.md"
PROPOSED = "What this project is for, and what not.\n"


class Reviewer(ScriptedModel):
    """A model that reads the changed file, and approves with the nonces of its prompt."""

    def __init__(self, client: Client, digest: str) -> None:
        super().__init__([], {**ANSWER, "digest": digest, "reason": "It says more.", "verdict": "approved"})
        self._client = client

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it, in the folder and with the nonces that the request brings along."""
        if named := re.search(r'`nonce` write \\*"([0-9a-f]{32})', text):
            self.answer["nonce"] = named[1]
        if read := re.findall(r'The nonce of file (\d+) is \\*"([0-9a-f]+)', text):
            self.answer["files"] = [
                {"file": int(file), "nonce": nonce, "looked_at": "All of it.", "unread": None} for file, nonce in read
            ]
        if folder := re.search(r"/[^\s\"\\<>]+/scratch/[a-z]+-r\d+-[a-z0-9]{6}/tree", text):
            self.steps = self._steps(Path(folder[0]))
        return super().say(path, text)

    def _steps(self, folder: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        tool, argument = self._client.reads
        # The others have no tool that runs a command.
        shows = [(tool, {argument: "git log --patch"})] if argument == "cmd" else []
        return [self._client.read_step(folder / FILE), *shows]


class Agent(ScriptedModel):
    """A model that reviews as the reviewer that its prompt says it is, and reads in the repository meanwhile."""

    def __init__(self, client: Client, review_id: str, workspace: Path) -> None:
        super().__init__([("wait", {})], ANSWER)
        self._client = client
        self._tool = TOOLS[client.name].format
        self._review_id = review_id
        self._folder = workspace

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it, under the name that the request brings along."""
        if copy := re.search(r"/[^\s\"\\<>]+/\.gemini/tmp/desk/tree", text):
            self._folder = Path(copy[0])
        if named := re.search(r"[a-z]+-r\d+-[a-z0-9]{6}", text):
            self.steps = self._steps(named[0])
        return super().say(path, text)

    def _steps(self, reviewer_id: str) -> Sequence[tuple[str, dict[str, Any]]]:
        mine = {"review_id": self._review_id, "reviewer_id": reviewer_id}
        verdict = {"claim_generation": 1, "verdict": "changes_requested", "reason": "It says nothing."}
        reads = [self._client.read_step(self._folder / name) for name in (FILE, "deep/README.md")]
        return [(self._tool("claim_review"), mine), *reads, (self._tool("submit_verdict"), {**mine, **verdict})]


@pytest.mark.parametrize("mode", ["worker", "agent"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_pool_has_a_change_reviewed(
    client: Client, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = laid(tmp_path, "shop")
    change = _proposed(place.workspace)
    (tmp_path / "broker").mkdir()
    pool = {"enabled": False, "provider": client.name, "model": client.model, "mode": mode}
    # The review is there before the broker has a pool: so the script can name it.
    with BrokerProcess(tmp_path / "broker") as broker, Desk(broker.url, "shop") as desk:
        desk.register(place.workspace)
        created = desk.put_up_whole(intent="Be clear", **change)
    review_id, digest = created["review_id"], created["digest"]
    script = Agent(client, review_id, place.workspace) if mode == "agent" else Reviewer(client, digest)
    with serving(script) as model:
        monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
        for variable, value in service(client, place, model).items():
            monkeypatch.setenv(variable, value)
        settings = {"reviewer_pool": json.dumps({**pool, "enabled": True})}
        with BrokerProcess(tmp_path / "broker", **settings) as broker, Desk(broker.url, "shop") as desk:
            status = _decided(desk, review_id)
            [reviewer] = desk.do("list_reviewers")["reviewers"]
            is_open = desk.is_open_for(digest)
    said = ("changes_requested", "It says nothing.") if mode == "agent" else ("approved", "It says more.")
    assert (status["status"], str(status["verdict_reason"]).split("\n")[0]) == said, (
        status["attention"],
        model.results,
    )
    assert is_open == (mode == "worker")
    assert status["reviewer_id"] == reviewer["reviewer_id"]
    assert (reviewer["provider"], reviewer["outcomes"]) == (client.name, {"verdict": 1})
    assert place.sprung() == []
    if mode == "worker":
        _ensure_read(model.results)
    else:
        assert "The deep folder." in model.results[2], model.results
        assert TRAP not in model.requests()
    if client.name != "codex":
        # That one reads the history in its shell, with all that was ever committed; and the prompt of a worker has the
        # base branch's conventions, as data.
        assert not re.search(rf"{TRAP} (GEMINI|deep/|\.gemini/)", model.requests())


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_providers_quota_costs_no_try(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = laid(tmp_path, "shop")
    change = _proposed(place.workspace)
    (tmp_path / "broker").mkdir()
    script = ScriptedModel([], ANSWER, refusal="Rate limit reached. Please try again in 7m0s.")
    with serving(script) as model:
        monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
        for variable, value in service(client, place, model).items():
            monkeypatch.setenv(variable, value)
        # Claude Code and Gemini CLI try again for longer than that; opencode says nothing before it gives up.
        seconds = 200 if client.name == "opencode" else 60
        settings = {"provider": client.name, "model": client.model, "attempt_seconds": seconds}
        pool = json.dumps({"enabled": True, **settings})
        with BrokerProcess(tmp_path / "broker", reviewer_pool=pool) as broker, Desk(broker.url, "shop") as desk:
            desk.register(place.workspace)
            review_id = desk.put_up_whole(intent="Be clear", **change)["review_id"]
            [released] = _released(desk, review_id)
            none = desk.status(review_id)["no_reviewer"]
    assert "attempts" not in released["data"], released
    assert none["reason"] == "rate_limited", none
    # Two keep the words of the service to themselves: then the pool waits for a minute.
    assert f"Next try in {1 if client.name in {'codex', 'claude'} else 7} min" in none["message"]


def _released(desk: Desk, review_id: str) -> list[dict[str, Any]]:
    """What the log says of a review's first run, once that has ended."""
    cursor = None
    for _ in range(TRIES):
        if found := [event for event in desk.events(review_id) if event["kind"] == "claim_released"]:
            return found
        waiting = {"wait": True, "wake_on": "any", "cursor": cursor, "timeout_s": PATIENCE_SECONDS}
        cursor = desk.do("get_review_status", review_id=review_id, **waiting)["cursor"]
    return []


def _proposed(root: Path) -> dict[str, str]:
    """A change that is in no working tree: the folder is dirty, behind, and in the middle of a merge elsewhere."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(root)], check=True)
    repository = Sandbox(root)
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        repository.git("config", name, value)
    behind = repository.commit("the start")
    base = repository.commit("the base")
    repository.write(FILE, PROPOSED)
    change = {"diff": repository.diff(), "base": base}
    repository.git("switch", "--quiet", "--force", "--create", "side", behind)
    repository.write(FILE, "In the middle of something else.\n")
    (root / ".git" / "MERGE_HEAD").write_text(f"{base}\n")
    return change


def _ensure_read(results: list[str]) -> None:
    """Insist that the model was shown the file as proposed and, where it can run git, the change on its base."""
    content, *shown = results
    assert PROPOSED.strip() in content, results
    for log in shown:
        subjects = [log.find(said) for said in ("Round 1 of ", f"+{PROPOSED.strip()}", "the base", "the start")]
        assert subjects == sorted(subjects), log
        assert -1 not in subjects, log
    assert "In the middle" not in str(results)


def _decided(caller: Desk, review_id: str) -> dict[str, Any]:
    status: dict[str, Any] = {"verdict": None, "attention": None}
    for _ in range(TRIES):
        if status["verdict"] is not None or status["attention"] is not None:
            break
        status = caller.do("get_review_status", review_id=review_id, wait=True, timeout_s=PATIENCE_SECONDS)
    return status
