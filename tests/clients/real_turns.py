"""The real client programs at the end of a turn: it ends while a review is pending, and goes on with its verdict."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tandem.hooks.turn import GO_ON
from tandem.setup import teaching
from tests.broker import BrokerProcess
from tests.clients import dialects
from tests.clients.real_gate import Proposer, Step, home_of_opencode, placed, run_opencode, shell
from tests.repository.agents import CLIENTS
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository

TANDEM = str(Path(sys.executable).with_name("tandem"))
# A login shell of Codex has another PATH.
SUBMIT = f"git add a.txt && {TANDEM} submit --staged -m 'Count in digits'"
CHOSEN = os.environ["TANDEM_CLIENTS"].split(",")


@dataclass
class Turner(Proposer):
    """A model that submits and ends its turn; told to go on, it takes the next step.

    Attributes:
        calls: How many results each call of the model had, oldest first; without those that offer no tool.
    """

    calls: list[int] = field(default_factory=list[int])

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it."""
        script = self.steps
        self.steps = script if GO_ON in text else script[:1]
        said = super().say(path, text)
        self.steps = script
        if any(one.speaks(path) and one.tools(json.loads(text)) for one in dialects.ALL):
            self.calls.append(len(self.results))
        return said


@dataclass
class Worker:
    """A client in a repository with the gate on.

    Attributes:
        gated: The repository, with a change in it.
        run: Has the client work until its model is done.
        steps: It submits the change; it commits it.
    """

    gated: Gated
    run: Callable[[Proposer], None]
    steps: list[Step]

    @property
    def pending(self) -> list[dict[str, Any]]:
        """The reviews of the project."""
        return self.gated.call("list_reviews")["reviews"]

    def approve(self) -> None:
        """Somebody approves the change."""
        [review] = self.pending
        self.gated.decide(review["review_id"])


@pytest.fixture(params=[name for name in (*CLIENTS, "opencode") if name in CHOSEN])
def worker(request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path, config_dir: Path) -> Worker:
    if request.param != "opencode":
        place = placed(request.param, broker, tmp_path)
        place.gated.write(DIGITS)
        return Worker(place.gated, place.run, [place.shell(SUBMIT), place.shell(place.commit)])
    gated = gate_on(broker, new_repository(tmp_path / "repository"))
    gated.write(DIGITS)
    home = home_of_opencode(tmp_path)
    plugin = teaching.plugin(request.param, [TANDEM, "hook"])
    assert plugin is not None
    (home / plugin.path).parent.mkdir(parents=True)
    (home / plugin.path).write_text(plugin.text, "utf-8")
    commands = (SUBMIT, "git commit -am 'Count in digits'")
    steps = [shell(request.param, command) for command in commands]
    return Worker(gated, lambda model: run_opencode(gated, home, model), steps)


def test_a_turn_ends_while_its_review_is_pending_and_the_next_session_hears_of_the_verdict(worker: Worker) -> None:
    model = Turner(worker.steps, {"done": True})
    worker.run(model)
    assert [one["status"] for one in worker.pending] == ["pending"], model.results
    assert GO_ON not in model.requests()
    # One call submits, one ends the turn: none waits.
    assert model.calls == [0, 1]
    worker.approve()
    [review] = worker.pending
    model = Turner(worker.steps[:0], {"done": True})
    worker.run(model)
    assert f"{review['review_id']} (Count in digits): approved." in model.requests()


def test_a_verdict_before_the_end_of_the_turn_is_gone_on_with_once(worker: Worker) -> None:
    model = Turner(worker.steps, {"done": True}, between={1: worker.approve})
    worker.run(model)
    assert worker.gated.message().startswith("Count in digits\n\nTandem-Review: rv_"), model.results
    # It submits, ends its turn, is told and commits, ends its turn: were it told twice, there would be one more.
    assert model.calls == [0, 1, 1, 2]
