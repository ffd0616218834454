"""Codex and Claude Code fill two seats of one review, at the same time; their models are scripted."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers import programs
from tandem.pool.reviewers.programs import lay_out
from tandem.pool.reviewers.providers import provider
from tandem.rulings.policy import FILE
from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.clients import dialects
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import ANSWER, CLIENTS, LIMITS, TOOLS, Client, room
from tests.clients.traps import laid
from tests.git.sandbox import Sandbox

PAIR = [client for client in CLIENTS if client.name in ("codex", "claude")]


class Beside(ScriptedModel):
    """A model that gives its verdict once the other one has claimed the review, too."""

    def __init__(self, steps: Sequence[tuple[str, dict[str, Any]]], both: threading.Barrier) -> None:
        super().__init__(steps, ANSWER)
        self._both, self._has_waited = both, False

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        dialect = next((one for one in dialects.ALL if one.speaks(path)), None)
        if dialect is not None and not self._has_waited and dialect.results(json.loads(text)):
            self._has_waited = True
            self._both.wait(LIMITS.total_seconds)
        return super().say(path, text)


@pytest.mark.skipif(len(PAIR) != 2, reason="only one of the two clients was asked for")
def test_p1_codex_and_claude_code_fill_two_seats_of_one_review_at_the_same_time(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(tmp_path / "shop")], check=True)
    repo = Sandbox(tmp_path / "shop")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        repo.git("config", name, value)
    repo.write(FILE, '[[rule]]\nneeds = ["agent:codex", "agent:claude"]\n')
    repo.commit("policy")
    repo.write("a.txt", "A change.\n")
    repo.git("add", "--intent-to-add", "a.txt")
    (tmp_path / "broker").mkdir()
    both = threading.Barrier(len(PAIR))
    with BrokerProcess(tmp_path / "broker") as broker, Desk(broker.url, "shop") as desk:
        desk.register(repo.root)
        created = desk.put_up_whole(diff=repo.diff(), base="HEAD")

        def run(client: Client) -> ScriptedModel:
            (own := tmp_path / client.name).mkdir()
            (scratch := own / "run").mkdir(mode=0o700)
            place = laid(own, "project")
            mine = {"review_id": created["review_id"], "reviewer_id": client.name}
            tool = TOOLS[client.name].format
            approves = (tool("submit_verdict"), {**mine, "verdict": "approved", "reason": "Clear."})
            with serving(Beside([(tool("claim_review"), mine), approves], both)) as model:
                where = room(client, place, scratch, model)
                program = provider(client.name).agent(where, "Review.", f"{broker.url}/mcp?project=shop")
                lay_out(scratch, program.files)
                done = programs.run(program, LIMITS, on_start=lambda _: None, cancelled=threading.Event())
            assert (done.ended_by, done.exit_code) == ("itself", 0), done.stderr_tail.decode()
            return model

        with ThreadPoolExecutor() as threads:
            models = [*threads.map(run, PAIR)]
        status = desk.status(created["review_id"])
        assert (status["status"], status["missing"]) == ("approved", []), [model.results for model in models]
        assert desk.is_open_for(created["digest"])
        given = [one for one in desk.events(created["review_id"]) if one["kind"] == "verdict_submitted"]
        assert {one["actor"] for one in given} == {"codex", "claude"}
        broker.assert_intact()
