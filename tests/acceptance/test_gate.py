"""P2: an approval never lets other content through a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.gating import Change, parsed, staged
from tests.acceptance.reviewing import OTHER, REVIEWER, Desk, edited
from tests.broker import fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import RAW, Sandbox, new_file
from tests.modes import VARIATION


def committed(repo: Sandbox, since: str = "HEAD^") -> list[Change]:
    """What the newest commit changes, or all since another one."""
    return parsed(repo.run("diff-tree", "-r", *RAW, since, "HEAD").stdout)


def check(desk: Desk, changes: list[Change], **more: Any) -> dict[str, Any]:
    return desk.do("check_gate", changes=changes, **more)


def put_up_staged(desk: Desk, repo: Sandbox, **more: Any) -> dict[str, Any]:
    """Propose the changes of the working tree."""
    repo.git("add", "--all")
    return desk.put_up_whole(diff=repo.diff("--cached"), **more)


@pytest.fixture
def change(shop: Desk, repo: Sandbox) -> dict[str, Any]:
    """An approved change: an edit, a new file, a deletion, a mode and a binary file; in the working tree too."""
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    repo.write("new/file.txt", "new\n")
    repo.write("logo.bin", bytes(range(256)))
    (repo.root / "b.txt").unlink()
    repo.write("run.sh", repo.read("run.sh"), executable=False)
    created = put_up_staged(shop, repo)
    shop.approve(created["review_id"])
    return created


@ON_BOTH_DATABASES
def test_p2_exactly_what_was_approved_passes(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    decision = check(shop, staged(repo))
    assert decision["allowed"]
    assert decision["review_ids"] == [change["review_id"]]
    assert {path["path"] for path in decision["paths"]} == {"a.txt", "b.txt", "logo.bin", "new/file.txt", "run.sh"}
    repo.commit()
    assert check(shop, committed(repo))["allowed"]
    assert change["digest"] == repo.commit_digest("HEAD^", "HEAD") == repo.index_digest("HEAD^")
    assert shop.is_open_for(change["digest"])


ALTERATIONS: dict[str, tuple[str, Callable[[Sandbox], object]]] = {
    "one_more_byte": ("a.txt", lambda repo: repo.write("a.txt", repo.read("a.txt") + b" ")),
    "another_line_end": ("new/file.txt", lambda repo: repo.write("new/file.txt", "new\r\n")),
    "another_mode": ("new/file.txt", lambda repo: repo.write("new/file.txt", "new\n", executable=True)),
    "another_path": ("new/other.txt", lambda repo: repo.git("mv", "--force", "new/file.txt", "new/other.txt")),
    "one_more_file": ("smuggled.txt", lambda repo: repo.write("smuggled.txt", "")),
    "one_file_less": ("a.txt", lambda repo: repo.git("checkout", "--quiet", "HEAD", "--", "b.txt")),
}
"""Alterations of an approved change, and the path that is refused for each."""


def test_p2_anything_else_does_not(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    repo.git("add", "--all")
    tree = repo.git("write-tree").strip()
    for path, alter in ALTERATIONS.values():
        alter(repo)
        decision = check(shop, staged(repo))
        assert not decision["allowed"], path
        refused = {one["path"]: one["reason"] for one in decision["paths"] if not one["allowed"]}
        assert path in refused
        assert all(refused.values())
        assert "tandem submit" in decision["reason"]
        repo.git("read-tree", "--reset", "-u", tree)
    assert check(shop, staged(repo))["allowed"]


def test_p2_each_fact_of_each_change_counts(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    changes = staged(repo)
    other = [("mode_before", "100755"), ("mode_after", "100755"), ("mode_after", "120000")]
    other += [("blob_before", "1" * 40), ("blob_after", "2" * 40)]
    for index, entry in enumerate(changes):
        for name, value in other:
            if entry[name] != value:
                tampered = [*changes[:index], {**entry, name: value}, *changes[index + 1 :]]
                assert not check(shop, tampered)["allowed"], (entry["path"], name)
    assert check(shop, changes)["allowed"]


def test_p2_what_is_not_approved_does_not_pass(shop: Desk, repo: Sandbox):
    for state in ("pending", "claimed", "in_review", "changes_requested", "rejected", "withdrawn"):
        repo.write("a.txt", f"all is new: {state}\n")
        created = put_up_staged(shop, repo)
        review = created["review_id"]
        if state not in {"pending", "withdrawn"}:
            shop.claim(review)
        if state == "withdrawn":
            shop.do("close_review", review_id=review)
        elif state == "in_review":
            shop.verdict(review, "comment")
        elif state in {"changes_requested", "rejected"}:
            shop.verdict(review, state)
        assert not check(shop, staged(repo))["allowed"], state
        assert not shop.is_open_for(created["digest"])


def test_p2_a_revision_ends_the_approval_and_the_old_content_stays_out(
    shop: Desk, repo: Sandbox, change: dict[str, Any]
):
    old = staged(repo)
    shop.revise(change["review_id"], diff=edited(text="best"))
    assert not check(shop, old)["allowed"]
    assert not shop.is_open_for(change["digest"])
    shop.approve(change["review_id"], OTHER)
    assert not check(shop, old)["allowed"]


def test_p2_another_reviews_approval_of_the_same_content_stands(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    twin = put_up_staged(shop, repo)
    assert twin["digest"] == change["digest"]
    shop.approve(twin["review_id"])
    shop.revise(change["review_id"], diff=edited(text="best"))
    decision = check(shop, staged(repo))
    assert decision["allowed"]
    assert decision["review_ids"] == [twin["review_id"]]
    shop.revise(twin["review_id"], diff=edited(text="best"))
    assert not check(shop, staged(repo))["allowed"]


def test_p2_an_approval_is_its_projects_own(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    elsewhere = fresh_project()
    assert not check(shop, staged(repo), project=elsewhere)["allowed"]
    assert not shop.do("check_gate", digest=change["digest"], project=elsewhere)["allowed"]


def _two_changes(desk: Desk, repo: Sandbox) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two approved changes on disjoint paths, of one file and of two; together in the working tree."""
    first = desk.put_up_whole(diff=edited("a.txt"))
    second = desk.put_up_whole(diff=edited("b.txt") + new_file("c.txt"))
    for created in (first, second):
        desk.approve(created["review_id"])
    for name in ("a.txt", "b.txt"):
        repo.write(name, repo.read(name).replace(b"line 2\n", b"better\n"))
    repo.write("c.txt", "hello\n")
    return first, second


@ON_BOTH_DATABASES
def test_p2_a_union_of_approved_changes_passes(shop: Desk, repo: Sandbox):
    first, second = _two_changes(shop, repo)
    decision = check(shop, staged(repo))
    assert decision["allowed"]
    assert decision["review_ids"] == sorted([first["review_id"], second["review_id"]])
    covered = {path["path"]: path["review_id"] for path in decision["paths"]}
    assert covered == {"a.txt": first["review_id"], "b.txt": second["review_id"], "c.txt": second["review_id"]}


def test_p2_a_part_of_an_approved_change_does_not(shop: Desk, repo: Sandbox):
    _two_changes(shop, repo)
    by_path = {change["path"]: change for change in staged(repo)}
    assert check(shop, [by_path["a.txt"]])["allowed"]
    for part in (["b.txt"], ["c.txt"], ["a.txt", "b.txt"], ["a.txt", "c.txt"]):
        decision = check(shop, [by_path[path] for path in part])
        assert not decision["allowed"]
        assert [path["path"] for path in decision["paths"] if not path["allowed"]] == part[-1:]
        assert "together" in decision["paths"][-1]["reason"]


def test_p2_a_part_that_was_approved_by_itself_as_well_does(shop: Desk, repo: Sandbox):
    _two_changes(shop, repo)
    by_path = {change["path"]: change for change in staged(repo)}
    shop.approve(shop.put_up(diff=new_file("c.txt")))
    assert check(shop, [by_path["a.txt"], by_path["c.txt"]])["allowed"]
    # Overlapping approvals: the union is found whichever of them is tried first.
    assert check(shop, list(by_path.values()))["allowed"]


Step = dict[str, str | None]


def approved_steps(desk: Desk, repo: Sandbox, *steps: Step) -> list[str]:
    """Changes that are approved and committed one after the other; None deletes a file. Their reviews."""
    reviews: list[str] = []
    for step in steps:
        for name, content in step.items():
            (repo.root / name).unlink() if content is None else repo.write(name, content)
        reviews.append(put_up_staged(desk, repo)["review_id"])
        desk.approve(reviews[-1])
        repo.commit()
    return reviews


@pytest.mark.parametrize(
    "steps",
    [
        ({"a.txt": "1", "b.txt": "1"}, {"b.txt": "2", "c.txt": "2"}, {"a.txt": "3"}, {"d.txt": "4"}),
        ({"a.txt": "1", "debug.txt": "x"}, {"debug.txt": "y"}, {"a.txt": "2", "debug.txt": None}),
        ({"a.txt": "1"}, {"a.txt": None, "moved.txt": "1"}, {"moved.txt": "2", ".planning/STATE.md": "On."}),
        pytest.param(
            tuple({"a.txt": str(number), f"{number % 7}.txt": str(number)} for number in range(40)), marks=VARIATION
        ),
    ],
    ids=["overlapping", "and-back", "moved", "forty"],
)
def test_a_squash_of_approved_changes_passes(shop: Desk, repo: Sandbox, steps: tuple[Step, ...]):
    start = repo.head()
    reviews = approved_steps(shop, repo, *steps)
    decision = check(shop, committed(repo, start))
    assert decision["allowed"], decision["paths"]
    assert decision["review_ids"] == sorted(reviews)
    last = {path: review for step, review in zip(steps, reviews, strict=True) for path in step}
    assert {p["path"]: p["review_id"] for p in decision["paths"] if p["kind"] == "approved"}.items() <= last.items()


def test_p2_a_squash_that_leaves_out_or_mixes_what_was_approved_does_not(shop: Desk, repo: Sandbox):
    start = repo.head()
    approved_steps(shop, repo, {"a.txt": "1", "b.txt": "1"}, {"a.txt": "2"}, {"a.txt": "3", "b.txt": "3"})
    second = {change["path"]: change for change in parsed(repo.run("diff-tree", "-r", *RAW, start, "HEAD^").stdout)}
    third = {change["path"]: change for change in committed(repo, start)}
    assert check(shop, [second["a.txt"], second["b.txt"]])["allowed"]
    assert check(shop, [third["a.txt"], third["b.txt"]])["allowed"]
    # Half of the last change with half of those before; a part of it; and content that is not where a change began.
    for mixed in (
        [second["a.txt"], third["b.txt"]],
        [third["a.txt"], second["b.txt"]],
        [third["a.txt"]],
        [second["b.txt"]],
        [{**third["a.txt"], "blob_before": "1" * 40}, third["b.txt"]],
        [{**third["a.txt"], "mode_before": "100755"}, third["b.txt"]],
        [third["a.txt"], {**third["b.txt"], "blob_after": "1" * 40}],
    ):
        assert not check(shop, mixed)["allowed"], mixed


@ON_BOTH_DATABASES
def test_p2_every_change_of_a_squash_has_to_be_approved_still(shop: Desk, repo: Sandbox):
    start = repo.head()
    steps: list[Step] = [{"a.txt": text} for text in "123"]
    reviews = approved_steps(shop, repo, *steps)
    for review in reviews:
        assert check(shop, committed(repo, start))["allowed"]
        shop.do("withdraw_approval", review_id=review, reason="Not so.")
        assert not check(shop, committed(repo, start))["allowed"]
        (request,) = shop.do("list_findings", review_id=review)["findings"]
        shop.decide(review, "approved", answers=[{"finding_id": request["finding_id"], "answer": "verified"}])


def test_p2_a_squash_that_an_approved_revert_takes_back_does_not_pass_again(shop: Desk, repo: Sandbox):
    start = repo.head()
    reviews = approved_steps(shop, repo, {"a.txt": "1", "b.txt": "1"}, {"a.txt": "2"})
    squash = committed(repo, start)
    assert check(shop, squash)["allowed"]
    repo.git("checkout", "--quiet", start, "--", ".")
    back = put_up_staged(shop, repo)
    shop.approve(back["review_id"])
    decision = check(shop, squash)
    assert not decision["allowed"]
    assert back["review_id"] in decision["paths"][0]["reason"] + decision["paths"][1]["reason"]
    shop.do("withdraw_approval", review_id=back["review_id"], reason="It was right.")
    assert check(shop, squash)["review_ids"] == sorted(reviews)


def test_p2_rebased_content_that_is_the_same_passes(shop: Desk, repo: Sandbox, change: dict[str, Any]):
    repo.git("stash", "--quiet", "--include-untracked")
    repo.write("unrelated.txt", "somebody else's\n")
    repo.commit("another change")
    repo.git("stash", "pop", "--quiet")
    assert check(shop, staged(repo))["allowed"]


def test_p2_the_same_edit_of_a_file_that_changed_meanwhile_does_not(shop: Desk, repo: Sandbox):
    created = shop.put_up_whole(diff=edited())
    shop.approve(created["review_id"])
    repo.write("a.txt", repo.read("a.txt").replace(b"line 9\n", b"line nine\n"))
    repo.commit("another change of the file")
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    assert not check(shop, staged(repo))["allowed"]


def test_p2_an_approved_text_passes_by_path_and_bytes(shop: Desk, repo: Sandbox):
    created = shop.put_up_whole(description="# Plan\n", path="docs/plan.md", category="plan_review")
    shop.approve(created["review_id"])
    repo.write("docs/plan.md", "# Plan\n")
    assert check(shop, staged(repo))["allowed"]
    # A text covers its path, beside other approvals.
    shop.approve(shop.put_up(diff=edited()))
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    assert check(shop, staged(repo))["allowed"]
    # And stands in the way of no change that holds the same text.
    repo.write("b.txt", "with the plan\n")
    shop.approve(put_up_staged(shop, repo)["review_id"])
    assert check(shop, staged(repo))["allowed"]


def test_p2_any_other_text_does_not(shop: Desk, repo: Sandbox):
    shop.approve(shop.put_up(description="# Plan\n", path="docs/plan.md"))
    others = (
        ("docs/plan.md", "# Plan", False),
        ("docs/other.md", "# Plan\n", False),
        ("docs/plan.md", "# Plan\n", True),
    )
    for path, content, executable in others:
        repo.write(path, content, executable=executable)
        assert not check(shop, staged(repo))["allowed"], (path, content, executable)
        repo.git("rm", "--quiet", "--force", path)


def test_p2_a_text_of_any_encoding_is_its_bytes(shop: Desk, repo: Sandbox):
    text = "Ünïcode \U0001f9ea\r\nno end"
    shop.approve(shop.put_up(description=text, path="ä.md"))
    repo.write("ä.md", text)
    assert check(shop, staged(repo))["allowed"]


def test_p2_what_was_not_validated_never_opens_a_gate(shop: Desk, repo: Sandbox):
    created = shop.put_up_whole(diff=edited(), skip_diff_validation=True)
    assert (created["validated"], created["digest"]) == (False, None)
    shop.approve(created["review_id"])
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    assert not check(shop, staged(repo))["allowed"]


def test_p2_a_label_never_opens_a_gate(desk: Desk, repo: Sandbox):
    created = [desk.put_up_whole(diff=edited()), desk.put_up_whole(description="# Plan\n", path="docs/plan.md")]
    for one in created:
        assert (one["validated"], one["digest"]) == (False, None)
        desk.approve(one["review_id"])
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    assert not check(desk, staged(repo))["allowed"]


def test_p2_an_accepted_counter_patch_passes_once_it_is_approved(shop: Desk, repo: Sandbox):
    review = shop.put_up_claimed(diff=edited())
    patch = shop.verdict(review, "comment", counter_patch=edited(text="best"))["counter_patch_id"]
    shop.accept(review, patch)
    repo.write("a.txt", repo.read("a.txt").replace(b"line 2\n", b"best\n"))
    assert not check(shop, staged(repo))["allowed"]
    shop.do("submit_verdict", review_id=review, verdict="approved", reviewer_id=REVIEWER, round=2)
    assert check(shop, staged(repo))["allowed"]


def test_an_empty_difference_passes_and_a_path_named_twice_does_not(shop: Desk):
    assert check(shop, [])["allowed"]
    entry = {"path": "a.txt", "blob_after": "1" * 40, "mode_after": "100644"}
    shop.refused("INVALID_INPUT", "check_gate", changes=[entry, entry])
    shop.refused("INVALID_INPUT", "check_gate")
    shop.refused("INVALID_INPUT", "check_gate", changes=[], digest="1" * 64)


def test_p2_a_digest_that_the_client_states_is_never_taken(shop: Desk):
    shop.refused("INVALID_INPUT", "create_review", intent="x", agent_type="a", diff=edited(), digest="1" * 64)
    assert not shop.is_open_for("1" * 64)
