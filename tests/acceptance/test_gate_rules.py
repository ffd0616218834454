"""P2: the changes that pass a gate without an approval of their own, and nothing beside them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.gating import Branch, changed_by, inverted, staged
from tests.acceptance.reviewing import Desk
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox

PATHS: dict[str, list[str]] = table("paths")
FORGED = "0" * 39 + "1"


def kinds(decision: dict[str, Any]) -> dict[str, str | None]:
    """Why each path passes."""
    return {path["path"]: path["kind"] for path in decision["paths"]}


# --------------------------------------------------------------------------------------------- exempt paths


def test_what_gsd_keeps_up_by_itself_is_set_aside(shop: Desk, repo: Sandbox):
    for path in PATHS["exempt"]:
        repo.write(path, "So far.\n")
    decision = shop.do("check_gate", changes=staged(repo))
    assert decision["allowed"]
    assert decision["review_ids"] == []
    assert kinds(decision) == dict.fromkeys(PATHS["exempt"], "exempt")


def test_p2_whatever_else_is_not(shop: Desk):
    for path in PATHS["others"]:
        change = {"path": path, "mode_after": "100644", "blob_after": "1" * 40}
        decision = shop.do("check_gate", changes=[change])
        assert not decision["allowed"]
        assert kinds(decision) == {path: None}


def test_p2_an_exempt_name_is_no_cover_for_links_and_programs(shop: Desk):
    for before, after in (("000000", "120000"), ("000000", "160000"), ("100644", "100755"), ("120000", "100644")):
        change = {"path": ".planning/STATE.md", "mode_before": before, "mode_after": after, "blob_after": "1" * 40}
        assert not shop.do("check_gate", changes=[change])["allowed"]


def test_p2_exempt_paths_stand_beside_what_is_approved_and_cover_nothing_else(shop: Desk, repo: Sandbox):
    repo.write("a.txt", "better\n")
    repo.git("add", "--all")
    review = shop.put_up(diff=repo.diff("--cached"))
    repo.write(".planning/STATE.md", "Going on.\n")
    assert not shop.do("check_gate", changes=staged(repo))["allowed"]
    shop.approve(review)
    decision = shop.do("check_gate", changes=staged(repo))
    assert decision["allowed"]
    assert decision["review_ids"] == [review]
    assert kinds(decision) == {"a.txt": "approved", ".planning/STATE.md": "exempt"}
    repo.write("smuggled.txt", "and this\n")
    refused = shop.do("check_gate", changes=staged(repo))
    assert not refused["allowed"]
    assert kinds(refused) == {"a.txt": "approved", ".planning/STATE.md": "exempt", "smuggled.txt": None}


def trust(broker: BrokerProcess, root: Path) -> None:
    """What `tandem trust` keeps of a project's file as it is now."""
    content = (root / ".tandem/config.toml").read_bytes()
    entry = {
        "root": str(root),
        "file": ".tandem/config.toml",
        "sha256": hashlib.sha256(content).hexdigest(),
        "at": "2026-01-01T00:00:00Z",
        "by": "ada",
    }
    folder = Path(broker.environment["TANDEM_CONFIG_DIR"])
    folder.mkdir(exist_ok=True)
    (folder / "trusted.json").write_text(json.dumps({"version": 1, "trusted": [entry]}), "utf-8")


def test_the_exempt_paths_are_the_users_and_of_a_project_only_what_a_person_trusted(
    start_broker: StartBroker, repo: Sandbox, tmp_path: Path
):
    broker = start_broker(config_dir=tmp_path / "config")
    notes = [{"path": "notes/today.txt", "mode_after": "100644", "blob_after": "1" * 40}]
    state = [{**notes[0], "path": ".planning/STATE.md"}]
    settings = repo.root / ".tandem/config.toml"
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)

        def allowed() -> tuple[bool, ...]:
            return tuple(desk.do("check_gate", changes=changes)["allowed"] for changes in (notes, state))

        assert allowed() == (False, True)
        repo.write(".tandem/config.toml", 'gate_exempt = ["notes/*"]\n')
        assert allowed() == (False, True)
        trust(broker, repo.root)
        assert allowed() == (True, False)
        # An agent changes the file: the trust was in the one before.
        settings.write_text('gate_exempt = ["**"]\n', "utf-8")
        assert allowed() == (False, True)
        # What cannot be used counts as nothing, trusted or not.
        settings.write_text("gate_exempt = 7\n", "utf-8")
        trust(broker, repo.root)
        assert allowed() == (False, True)
        settings.write_text("gate_exempt = [", "utf-8")
        assert allowed() == (False, True)


def test_the_users_own_patterns_take_the_place_of_the_usual_ones(start_broker: StartBroker):
    broker = start_broker(gate_exempt="docs/**, *.log")
    with Desk(broker.url, fresh_project()) as desk:
        expected = {
            "docs/a/b.md": True,
            "docs/a.md": True,
            "x.log": True,
            "logs/x.log": False,
            ".planning/STATE.md": False,
        }
        for path, allowed in expected.items():
            change = {"path": path, "mode_after": "100644", "blob_after": "1" * 40}
            assert desk.do("check_gate", changes=[change])["allowed"] is allowed, path


# ------------------------------------------------------------------------------------------------ rollbacks


@pytest.mark.parametrize("verdict", [None, "changes_requested", "rejected"])
def test_p2_the_exact_inverse_of_an_optimistic_commit_passes(feature: Branch, repo: Sandbox, verdict: str | None):
    commit, review = feature.optimistic("a.txt", "worse\n")
    if verdict is not None:
        feature.decide(review, verdict)
    feature.commit("later.txt", "something else\n")
    repo.git("revert", "--no-commit", commit)
    decision = feature.check(staged(repo))
    assert decision["allowed"]
    # No review stands for it, so that none is named in its message.
    assert decision["review_ids"] == []
    assert kinds(decision) == {"a.txt": "rollback"}
    assert commit in decision["reason"]


def test_p2_the_exact_inverse_of_an_unreviewed_commit_passes(feature: Branch, repo: Sandbox):
    commit = feature.commit("a.txt", "per plan\n")
    feature.record(commit, unreviewed=True)
    assert feature.check(inverted(changed_by(repo, commit)))["allowed"]


def test_p2_a_part_of_it_or_more_than_it_does_not(feature: Branch, repo: Sandbox):
    repo.write("b.txt", "worse too\n")
    commit, _ = feature.optimistic("a.txt", "worse\n")
    whole = inverted(changed_by(repo, commit))
    assert feature.check(whole)["allowed"]
    assert not feature.check(whole[:1])["allowed"]
    assert not feature.check([*whole, {"path": "x", "mode_after": "100644", "blob_after": "1" * 40}])["allowed"]
    assert not feature.check([{**whole[0], "blob_after": FORGED}, *whole[1:]])["allowed"]
    assert not feature.check([{**whole[0], "mode_after": "100755"}, *whole[1:]])["allowed"]
    # Exempt paths are set aside on both sides.
    state = {"path": ".planning/STATE.md", "mode_after": "100644", "blob_after": "1" * 40}
    decision = feature.check([*whole, state])
    assert decision["allowed"]
    assert kinds(decision) == {"a.txt": "rollback", "b.txt": "rollback", ".planning/STATE.md": "exempt"}


def test_p2_nobody_asks_for_a_rollback_without_saying_of_what(feature: Branch, repo: Sandbox):
    commit, _ = feature.optimistic("a.txt", "worse\n")
    inverse = inverted(changed_by(repo, commit))
    assert not feature.check(inverse, head=None)["allowed"]
    # Not on a branch that never had it, nor where the commit is unknown.
    assert not feature.check(inverse, head=repo.git("rev-parse", "main").strip())["allowed"]
    assert not feature.check(inverse, head=FORGED)["allowed"]


def test_p2_grafts_do_not_make_a_commit_part_of_a_branch(feature: Branch, repo: Sandbox):
    commit, _ = feature.optimistic("a.txt", "worse\n")
    repo.git("switch", "--quiet", "--create", "elsewhere", "main")
    head = feature.commit("b.txt", "beside it\n")
    repo.write(".git/info/grafts", f"{head} {commit}\n")
    assert repo.run("merge-base", "--is-ancestor", commit, head, check=False).returncode == 0
    assert not feature.check(inverted(changed_by(repo, commit)), head=head)["allowed"]


def test_p2_what_a_base_branch_has_is_not_taken_back_without_review(feature: Branch, repo: Sandbox):
    commit, _ = feature.optimistic("a.txt", "worse\n")
    before = repo.git("rev-parse", "main").strip()
    inverse = inverted(changed_by(repo, commit))
    assert feature.check(inverse)["allowed"]
    repo.git("branch", "--force", "main", "feature")
    assert not feature.check(inverse)["allowed"]
    # An audit of a range says itself what the range was built on.
    assert feature.check(inverse, base=before)["allowed"]
    assert not feature.check(inverse, base=repo.head())["allowed"]
    assert not feature.check(inverse, base=FORGED)["allowed"]


def test_p2_what_was_approved_is_not_taken_back_without_review(feature: Branch, repo: Sandbox):
    commit, review = feature.optimistic("a.txt", "better\n")
    feature.decide(review, "approved")
    inverse = inverted(changed_by(repo, commit))
    assert not feature.check(inverse)["allowed"]
    feature.desk.do("close_review", review_id=review)
    assert not feature.check(inverse)["allowed"]


def test_p2_a_hook_that_lies_about_a_commit_opens_nothing(feature: Branch, repo: Sandbox):
    """A proposer may record any changes; the repository says which ones a commit has."""
    wanted = [{"path": "a.txt", "mode_before": "100644", "mode_after": "100644", "blob_before": "1" * 40}]
    wanted[0]["blob_after"] = "2" * 40
    harmless = feature.commit("notes.txt", "harmless\n")
    feature.record(harmless, unreviewed=True, changes=inverted(wanted))
    assert not feature.check(wanted)["allowed"]
    feature.desk.do(
        "record_commit", commit=FORGED, parent=repo.head(), branch="feature", unreviewed=True, changes=inverted(wanted)
    )
    assert not feature.check(wanted)["allowed"]


def test_p2_taking_back_a_rollback_would_bring_the_refused_change_again(feature: Branch, repo: Sandbox):
    commit, review = feature.optimistic("a.txt", "refused\n")
    feature.decide(review, "rejected")
    repo.git("revert", "--no-edit", commit)
    feature.record(repo.head(), unreviewed=True)
    again = inverted(changed_by(repo, repo.head()))
    assert again == changed_by(repo, commit)
    assert not feature.check(again)["allowed"]
    # The rollback itself is still one, when a range is judged later.
    assert feature.check(changed_by(repo, repo.head()), head=repo.git("rev-parse", "HEAD^").strip())["allowed"]


def test_p2_a_commit_that_names_no_review_that_there_is_is_not_optimistic(feature: Branch, repo: Sandbox):
    commit = feature.commit("a.txt", "who knows\n")
    feature.record(commit, "rv_nobody")
    assert not feature.check(inverted(changed_by(repo, commit)))["allowed"]


def test_p2_merges_and_first_commits_are_not_taken_back_by_rule(feature: Branch, repo: Sandbox):
    first = repo.head()
    removal = inverted(staged(repo, repo.empty_tree()))
    feature.desk.do("record_commit", commit=first, parent=first, unreviewed=True, changes=inverted(removal))
    assert not feature.check(removal, base=FORGED)["allowed"]
    feature.commit("a.txt", "on the branch\n")
    repo.git("switch", "--quiet", "--create", "side", "HEAD^")
    repo.write("b.txt", "on the side\n")
    repo.commit()
    repo.git("merge", "--quiet", "--no-edit", "feature")
    merge = repo.head()
    feature.record(merge, unreviewed=True)
    assert not feature.check(inverted(changed_by(repo, merge)))["allowed"]
