"""The broker's pool with the real client programs: a proposal is put up, and they decide it. Models are scripted."""

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
from tests.broker import BrokerProcess, Caller
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import ANSWER, BIN, CLIENTS, TOOLS, Client
from tests.clients.traps import laid

Mode = Literal["worker", "agent"]
PATIENCE_SECONDS = 50
TRIES = 6


class Reviewer(ScriptedModel):
    """A model that names the nonce of its prompt."""

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it, with the nonce that the request brings along."""
        if named := re.search(r'`nonce` write \\*"([0-9a-f]{32})', text):
            self.answer = {**self.answer, "nonce": named[1]}
        return super().say(path, text)


class Agent(ScriptedModel):
    """A model that reviews as the reviewer that its prompt says it is."""

    def __init__(self, client: Client, review_id: str) -> None:
        super().__init__([("wait", {})], ANSWER)
        self._tool = TOOLS[client.name].format
        self._review_id = review_id

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it, under the name that the request brings along."""
        if named := re.search(r"[a-z]+-r\d+-[a-z0-9]{6}", text):
            self.steps = self._steps(named[0])
        return super().say(path, text)

    def _steps(self, reviewer_id: str) -> Sequence[tuple[str, dict[str, Any]]]:
        mine = {"review_id": self._review_id, "reviewer_id": reviewer_id}
        verdict = {"claim_generation": 1, "verdict": "changes_requested", "reason": "It says nothing."}
        return [(self._tool("claim_review"), mine), (self._tool("submit_verdict"), {**mine, **verdict})]


@pytest.mark.parametrize("mode", ["worker", "agent"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_pool_has_a_proposal_reviewed(
    client: Client, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = laid(tmp_path, "shop")
    subprocess.run(["git", "init", "--quiet", str(place.workspace)], check=True)
    (tmp_path / "broker").mkdir()
    pool = {"enabled": False, "provider": client.name, "model": client.model, "mode": mode}
    # The review is there before the broker has a pool: so the script can name it.
    with BrokerProcess(tmp_path / "broker") as broker, Desk(broker.url, "shop") as desk:
        desk.register(place.workspace)
        put_up = {"intent": "Be clear", "agent_type": "author", "category": "plan_review", "description": "The plan."}
        review_id = desk.do("create_review", **put_up)["review_id"]
    script = Agent(client, review_id) if mode == "agent" else Reviewer([], {**ANSWER, "digest": None})
    with serving(script) as model:
        variable, path = client.address
        monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(place.home))
        monkeypatch.setenv(client.key, "key-of-the-reviewer")
        monkeypatch.setenv(variable, f"{model.address}{path}")
        settings = {"reviewer_pool": json.dumps({**pool, "enabled": True})}
        with BrokerProcess(tmp_path / "broker", **settings) as broker, Caller(broker.url, "shop") as caller:
            status = _decided(caller, review_id)
            [reviewer] = caller.do("list_reviewers")["reviewers"]
    assert (status["status"], status["verdict_reason"].split("\n")[0]) == ("changes_requested", "It says nothing.")
    assert status["reviewer_id"] == reviewer["reviewer_id"]
    assert (reviewer["provider"], reviewer["outcomes"]) == (client.name, {"verdict": 1})
    assert place.sprung() == []


def _decided(caller: Caller, review_id: str) -> dict[str, Any]:
    status: dict[str, Any] = {"verdict": None, "attention": None}
    for _ in range(TRIES):
        if status["verdict"] is not None or status["attention"] is not None:
            break
        status = caller.do("get_review_status", review_id=review_id, wait=True, timeout_s=PATIENCE_SECONDS)
    return status
