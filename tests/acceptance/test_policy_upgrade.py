"""A policy comes to a project whose reviews are of the version before policies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.rulings.policy import FILE
from tests.acceptance.attacking import Victim
from tests.acceptance.gating import staged
from tests.acceptance.reviewing import Desk, edited
from tests.acceptance.test_data import signed
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

COPY = Path(__file__).with_name("copies") / "0032_objections.jsonl"
"""Made by the version before policies: an open, a claimed and an approved review of `TEXTS`, on the one commit of a
repository with a gate. The test moves the end of the claim."""
TEXTS = ("open", "claimed", "approved")
LINES = "".join(f"line {number}\n" for number in range(1, 11))
START = f"""\
commit refs/heads/main
committer Ada <ada@example.org> 1700000000 +0000
data 5
start
M 100644 inline a.txt
data {len(LINES)}
{LINES}
"""
"""That commit, with its id."""
POLICY = '[[rule]]\nname = "both"\nneeds = ["agent", "person"]\n'


SECONDS = 600


class Upgraded(Victim):
    """The project of the copy, in a repository of the same commit."""

    def __init__(self, broker: BrokerProcess, root: Path) -> None:
        Desk.__init__(self, broker.url, "shop")
        self.broker = broker
        self.repo = Sandbox(root)
        self.repo.git("fast-import", "--quiet", stdin=START.encode())
        self.repo.git("reset", "--quiet", "--hard")
        self.do_unscoped("register_project", root=str(root), name=self.project, move=True)


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Victim]:
    """The project, on a broker of this version that was given the older one's data."""
    lasts = b"%d" % ((time.time() + SECONDS) * 1_000_000)
    lines = COPY.read_bytes().replace(b"4102444800000000", lasts).splitlines(keepends=True)[:-1]
    (tmp_path / "copy").write_bytes(signed(lines))
    key = tmp_path / "key"
    key.write_text("0" * 64)
    key.chmod(0o600)
    broker = BrokerProcess(tmp_path, secret_key_file=key)
    done = broker.run("data", "import", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    with broker, Upgraded(broker, tmp_path / "shop") as project:
        yield project
        broker.assert_intact()


@VARIATION
def test_each_open_review_is_judged_by_the_policy_from_then_on_and_nothing_is_lost(upgraded: Victim) -> None:
    reviews = {one["intent"].removeprefix("Say "): one["review_id"] for one in upgraded.rows("list_reviews", "reviews")}
    assert [upgraded.status(reviews[text])["status"] for text in TEXTS] == ["pending", "claimed", "approved"]

    def kept() -> list[dict[str, object]]:
        # Its ground moves, and with it what the policy asks by now.
        found = [upgraded.everything(review) for review in reviews.values()]
        by_now = ("next_action", "message", "missing")
        return [
            {
                **one,
                "proposal": None,
                "status": {name: one["status"][name] for name in one["status"] if name not in by_now},
            }
            for one in found
        ]

    before = kept()
    changes: dict[str, list[dict[str, str]]] = {}
    for text in TEXTS:
        upgraded.repo.write("a.txt", LINES.replace("line 2\n", f"{text}\n"))
        changes[text] = staged(upgraded.repo)
    upgraded.repo.git("reset", "--quiet", "--hard")
    upgraded.passes(changes["approved"])
    upgraded.repo.write(FILE, POLICY)
    upgraded.repo.commit("a policy")
    # Nothing is lost.
    assert kept() == before
    # The approval that was all is one of two; a round of the same content keeps it.
    refused = upgraded.refusal(changes["approved"])
    assert (refused["code"], "a person's review" in refused["reason"]) == ("REQUIREMENT_MISSING", True)
    generation = upgraded.status(reviews["claimed"])["claim_generation"]
    upgraded.verdict(reviews["claimed"], "approved", generation)
    upgraded.approved_by(reviews["open"], "codex")
    for text in TEXTS:
        assert upgraded.refusal(changes[text])["code"] == "REQUIREMENT_MISSING"
        upgraded.revise(reviews[text], diff=edited(text=text), proposer_id="claude-code")
        upgraded.refusal(changes[text])
        missing = upgraded.status(reviews[text])["missing"]
        assert [one.split(" (")[0] for one in missing] == ["a person's review"]
        upgraded.person_may(reviews[text], changes[text])
