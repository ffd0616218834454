"""Colleagues with a broker each: only changes that one's broker approved and signed pass at the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.core.secret_key import Tokens, load_or_make
from tandem.gate import signing
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import git, state
from tandem.setup.gate_switch import GateOptions
from tests.broker import BrokerProcess
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository

MAIN = "refs/heads/main"


@pytest.fixture(scope="module")
def bens_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The other colleague's, with a secret and a data folder of its own."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as started:
        yield started
        started.assert_intact()


@dataclass
class Colleagues:
    """Two clones of one remote; the gate of each asks its own broker.

    Attributes:
        ann: Signs.
        ben: Pulls.
        key: The public key of Ann's broker.
    """

    ann: Gated
    ben: Gated
    key: str

    def audit(self, revisions: str = "main") -> dict[str, Any]:
        """Returns the finding of Ben's audit for the newest commit of a range, and whether all of it passes."""
        data = json.loads(self.ben.tandem("audit", revisions, "--json").stdout)["data"]
        return {**data["commits"][-1], "approved": data["approved"]}

    def trust_ann(self) -> None:
        """Make her a signer, as Ben does."""
        ended = self.ben.person("gate", "on", "--signer", f"ann={self.key}")
        assert ended.ok, ended.stdout


@pytest.fixture
def colleagues(
    shared_broker: BrokerProcess, bens_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> Colleagues:
    """Ann has one approved commit more than Ben, and has pushed it."""
    root = new_repository(tmp_path / "ann")
    ann = gate_on(shared_broker, root, GateOptions(sign=True))
    ann.git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    ann.git("remote", "add", "origin", str(tmp_path / "remote"))
    ann.git("push", "--quiet", "--set-upstream", "origin", "main")
    ann.git("clone", "--quiet", "--branch", "main", str(tmp_path / "remote"), str(tmp_path / "ben"))
    ben = gate_on(bens_broker, tmp_path / "ben")
    for name in ("user.name", "user.email"):
        ben.git("config", name, ann.git("config", name))
    ann.approved_commit(DIGITS)
    ann.git("push", "--quiet")
    return Colleagues(ann, ben, ann.tandem("gate", "status", "--json").data["public_key"])


def test_p2_what_a_colleagues_broker_signed_is_pulled_once_a_person_has_made_them_a_signer(colleagues: Colleagues):
    ann, ben = colleagues.ann, colleagues.ben
    (signature,) = ann.trailers("Tandem-Signed")
    told = " ".join(ben.refused("pull", "--ff-only").split())
    assert "tandem gate on --signer NAME=KEY" in told
    assert f"a key that begins with {colleagues.key[:12]} and is no signer's here" in told
    ben.git("reset", "--quiet", "--merge")
    found = colleagues.audit("main..origin/main")
    assert (found["verdict"], found["approved"]) == ("unapproved", False)
    assert "tandem gate on --signer NAME=KEY" in found["paths"][0]["reason"]
    wrong = ben.tandem("gate", "on", "--signer", "ann")
    assert (wrong.status, "is not NAME=KEY" in wrong.stderr) == (1, True)
    refusal = ben.tandem("gate", "on", "--signer", f"ann={colleagues.key}", CLAUDECODE="1").refusal
    assert f"content signed by ann={colleagues.key} would pass" in refusal
    colleagues.trust_ann()
    ben.git("pull", "--ff-only")
    found = colleagues.audit()
    assert (found["verdict"], found["reason"]) == ("signed", "approved by the broker of ann")
    assert "approved by the broker of ann" in " ".join(ben.tandem("audit", "main").stdout.split())
    # On another base, with another message, it is the same content.
    ben.git("switch", "--quiet", "--create", "other", "main~1")
    ben.approved_commit({"b.txt": "alpha\nben\n"})
    ben.git("cherry-pick", "origin/main")
    ben.git("commit", "--quiet", "--amend", "-m", "Ben's words")
    assert ben.trailers("Tandem-Signed") == [signature]
    assert colleagues.audit("main..other")["verdict"] == "signed"
    ben.git("push", "--quiet", "origin", "other")
    ben.git("switch", "--quiet", "main")
    # A merge is signed for all that it brings.
    ann.git("switch", "--quiet", "--create", "plan")
    ann.stage({"b.txt": "alpha\nann\n"})
    ann.approve()
    ann.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "Before its approval")
    ann.git("switch", "--quiet", "main")
    ann.git("merge", "--quiet", "--no-ff", "plan")
    ann.git("push", "--quiet")
    ben.git("pull", "--ff-only")
    audited = json.loads(ben.tandem("audit", "main", "--json").stdout)["data"]["commits"]
    assert [one["verdict"] for one in audited] == ["signed"] * 3
    ended = ben.tandem("gate", "on", "--no-signer", "ann", "--json")
    assert ended.status == 0, ended.stderr
    assert ended.data["signers"] == []
    assert colleagues.audit()["approved"] is False
    told = ben.tandem("gate", "on", "--no-signer", "ann")
    assert (told.status, "there is none" in told.stderr) == (1, True)


def made(gated: Gated, files: dict[str, str], *signatures: str) -> str:
    """A commit on `main`, made without a hook, that says it is signed."""
    gated.git("switch", "--quiet", "--detach", "main")
    gated.stage(dict(files))
    tree = gated.git("write-tree")
    gated.git("reset", "--quiet", "--hard", "main")
    gated.git("switch", "--quiet", "main")
    trailers = "".join(f"Tandem-Signed: {signature}\n" for signature in signatures)
    return gated.git("commit-tree", tree, "-p", "main", "-m", f"A change\n\n{trailers}")


def test_p2_a_signature_holds_for_exactly_what_was_approved_on_any_base_and_for_nothing_else(colleagues: Colleagues):
    ann, ben = colleagues.ann, colleagues.ben
    (signature,) = ann.trailers("Tandem-Signed")
    key_id, _, text = signature.partition(".")
    colleagues.trust_ann()
    ben.approved_commit({"b.txt": "alpha\nben\n"})
    honest = made(ben, DIGITS, signature)
    changes = git.between(state.HookRepository(str(ben.root / ".git"), str(ben.root / ".git"), None), "main", honest)
    digest = digest_of(tuple(change[name] for name in FIELDS) for change in changes)
    tokens = Tokens(load_or_make(ann.broker.secret_key))
    assert signing.sign(tokens, ann.project, digest) == signature
    other_project = signing.sign(tokens, "another", digest)
    bens = signing.sign(Tokens(load_or_make(ben.broker.secret_key)), ben.project, digest)
    letter = "B" if text[5] == "A" else "A"
    wrong: list[tuple[dict[str, str], tuple[str, ...]]] = [
        ({"a.txt": "one\n2\nthree \n"}, (signature,)),
        ({"c.txt": DIGITS["a.txt"]}, (signature,)),
        ({**DIGITS, "c.txt": "more\n"}, (signature,)),
        (DIGITS, (f"{key_id}.{text[:5]}{letter}{text[6:]}",)),
        (DIGITS, (f"{bens.partition('.')[0]}.{text}", bens, other_project)),
        (DIGITS, (f"{key_id}.{other_project.partition('.')[2]}",)),
        (DIGITS, ("x", "." * 99, "é" * 99, f"{key_id}.{'!' * 86}", key_id, f"{key_id}.", "9" * 5000)),
        (DIGITS, ()),
    ]
    for files, stated in wrong:
        commit = made(ben, files, *stated)
        told = ben.refused("update-ref", MAIN, commit)
        assert "no approved round has this content at this path" in told
        if signature in stated:
            assert "the signature of ann's broker is for other content" in told
        found = colleagues.audit(f"main..{commit}")
        assert (found["verdict"], found["approved"]) == ("unapproved", False), stated
    # Nonsense beside it takes nothing away.
    ben.git("update-ref", MAIN, made(ben, DIGITS, *["." * 99, "é", "9" * 5000], signature))


def test_p2_only_what_is_approved_is_signed_and_an_old_signature_is_replaced(colleagues: Colleagues):
    ann = colleagues.ann
    (signature,) = ann.trailers("Tandem-Signed")
    ann.stage({"a.txt": "one\n2\n3\n"})
    place = state.HookRepository(str(ann.root / ".git"), str(ann.root / ".git"), str(ann.root))
    changes = git.staged(place, "HEAD")
    unapproved = ann.call("check_gate", changes=changes, sign=True)
    assert (unapproved["allowed"], unapproved["signed"]) == (False, None)
    with ann.caller() as caller:
        caller.override(changes=changes, reason="The shop is down.", override_id="ov_1", branch="main", at="2026-01-01")
    overridden = ann.call("check_gate", changes=changes, sign=True)
    assert (overridden["allowed"], overridden["signed"]) == (True, None)
    ann.git("commit", "--quiet", "-m", f"Switch it off\n\nTandem-Signed: {signature}")
    assert ann.trailers("Tandem-Signed") == []
    # Exempt files pass beside approved content; alone they have no approval to sign.
    ann.stage({"b.txt": "alpha\n2\n"})
    ann.approve()
    ann.git("reset", "--quiet")
    ann.write({".planning/STATE.md": "Ready.\n"})
    ann.git("add", ".planning")
    assert ann.call("check_gate", changes=git.staged(place, "HEAD"), sign=True)["signed"] is None
    ann.git("add", "b.txt")
    ann.git("commit", "--quiet", "-m", "Both")
    (both,) = ann.trailers("Tandem-Signed")
    ann.stage({"b.txt": "alpha\n3\n"})
    ann.approve()
    ann.git("commit", "--quiet", "--amend", "--no-edit")
    assert both not in ann.trailers("Tandem-Signed")
    assert ann.tandem("gate", "on", "--no-sign").status == 0
    ann.git("commit", "--quiet", "--amend", "-m", "Both, said again")
    assert ann.trailers("Tandem-Signed") == []


def test_p10_what_a_signer_approved_counts_where_a_change_stands_on_it(colleagues: Colleagues):
    ann, ben = colleagues.ann, colleagues.ben
    ben.git("fetch", "--quiet")
    diff = "--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n alpha\n-beta\n+gamma\n"
    proposal = {"intent": "On top of it", "agent_type": "tests", "diff": diff, "base": ann.head()}
    review = ben.call("create_review", **proposal)["review_id"]

    def unapproved() -> list[str]:
        return [one["commit"] for one in ben.call("get_proposal", review_id=review)["ground"]["unapproved"]]

    assert unapproved() == [ann.head()]
    colleagues.trust_ann()
    assert unapproved() == []
