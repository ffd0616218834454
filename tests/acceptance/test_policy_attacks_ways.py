"""P2, P7: ways around a policy by its file, branches, bases, other projects, rounds, waivers, owners and checks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tandem.rulings.policy import FILE
from tandem.rulings.policy_file import LARGEST_BYTES
from tandem.rulings.trust import CHECKS_FILE
from tests.acceptance.attacking import LAX, POLICY, PROPOSER, Alter, Victim, files, linked, submodule, victims
from tests.acceptance.checking import Checked, check, toml
from tests.acceptance.reviewing import WHY, Desk
from tests.acceptance.test_waivers import waive
from tests.broker import fresh_project
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

LOGIN = "src/auth/login.py"
BAD = files(**{LOGIN: "bad\n"})
OTHER = files(**{"src/other.py": "new\n"})


@pytest.fixture
def victim(checking: Checked, tmp_path: Path) -> Iterator[Victim]:
    """A project of the test's own."""
    yield from victims(checking, tmp_path / "repository")


@pytest.fixture(scope="module")
def shared(checking: Checked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One project for tests of contents that no other test has."""
    yield from victims(checking, tmp_path_factory.mktemp("shared") / "repository")


@pytest.fixture
def again(shared: Victim) -> Victim:
    """The same, with the policy back in its place."""
    committed(shared, policy(POLICY))
    return shared


NUMBERS = count()


def new(path: str) -> Alter:
    """Writes a content that there was not yet."""
    return files(**{path: f"content {next(NUMBERS)}\n"})


def committed(victim: Victim, alter: Alter) -> str:
    """Lands an alteration without a review; the commit."""
    alter(victim.repo)
    victim.repo.git("commit", "--quiet", "--allow-empty", "-m", "landed")
    victim.repo.git("reset", "--quiet", "--hard")
    return victim.repo.head()


def policy(content: bytes | str) -> Alter:
    """Puts the policy in place of a link, a folder or another file."""

    def alter(repo: Sandbox) -> None:
        repo.git("rm", "-r", "--quiet", "--cached", "--ignore-unmatch", FILE)
        path = repo.root / FILE
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        files(**{FILE: content})(repo)

    return alter


# ------------------------------------------------------------------------------------------------- its own file


# `tests/test_policy_errors.py` has the mistakes that a text can have.
BROKEN: dict[str, Alter] = {
    "too large": policy(LAX + "#" * LARGEST_BYTES),
    "a name that moves the cursor": policy(LAX + 'name = "\\u001b[2J\\u202Erule"\n'),
    "a link to a lax one": linked(FILE, "lax.toml", **{".tandem/lax.toml": LAX}),
    "a submodule": submodule(FILE),
    "another encoding": policy(LAX.encode("utf-16")),
    "a mark of the byte order": policy(b"\xef\xbb\xbf" + LAX.encode()),
    "a zero byte": policy(LAX + "# \0\n"),
}
ALWAYS = 4
"""So many of them run each time."""


@pytest.mark.parametrize(
    "name", [name if at < ALWAYS else pytest.param(name, marks=VARIATION) for at, name in enumerate(BROKEN)]
)
def test_p7_a_policy_that_is_no_policy_lets_nothing_through_but_its_correction(again: Victim, name: str) -> None:
    committed(again, BROKEN[name])
    code = new("src/other.py")

    def with_code(repo: Sandbox) -> None:
        policy(POLICY)(repo)
        code(repo)

    for attempted in (code, with_code):
        review, changes = again.attempt(attempted)
        again.agents_fail(review, changes, "policy")
        assert again.approved_by(review, "ann", proved=True)["error"]["code"] == "REQUIREMENT_MISSING"
        said = str(again.status(review)["missing"])
        assert FILE in said
        assert {"\x1b", "\u202e", "\0"}.isdisjoint(said)
    correction, changes = again.attempt(policy(POLICY))
    again.agents_fail(correction, changes)
    again.person_may(correction, changes)


def test_p7_a_policy_with_other_line_ends_and_as_a_program_holds(again: Victim) -> None:
    again.repo.write(FILE, POLICY.replace("\n", "\r\n"), executable=True)
    again.repo.commit("as written elsewhere")
    review, changes = again.attempt(new(LOGIN))
    again.agents_fail(review, changes)
    again.person_may(review, changes)


@pytest.mark.parametrize("path", ["CODEOWNERS", CHECKS_FILE])
def test_p7_a_link_in_place_of_another_file_of_rules_stops_no_correction(victim: Victim, path: str) -> None:
    content = (victim.repo.root / path).read_text("utf-8")
    committed(victim, linked(path, "elsewhere"))
    review, changes = victim.attempt(files(**{"owned/a.txt": "bad\n"}))
    victim.agents_fail(review, changes, "person" if path == "CODEOWNERS" else "owner:@ann")

    def back(repo: Sandbox) -> None:
        (repo.root / path).unlink()
        files(**{path: content})(repo)

    review, changes = victim.attempt(back)
    victim.refusal(changes)
    victim.approved_by(review, "codex")
    victim.approved_by(review, "ann", proved=True)
    assert victim.status(review)["missing"] == []


# ---------------------------------------------------------------------------------------------- bases and branches


def on(victim: Victim, base: str) -> tuple[str, list[dict[str, str]]]:
    """A review of a bad change of a commit, named by its id, and its changes."""
    victim.repo.git("checkout", "--quiet", "--detach", base)
    diff, changes = victim.drawn(new(LOGIN))
    victim.repo.git("checkout", "--quiet", "main")
    review = victim.put_up_whole(diff=diff, base=base, proposer_id=PROPOSER)["review_id"]
    victim.ended(review)
    return review, changes


def before_the_policy(victim: Victim) -> str:
    """The first commit, which has no policy."""
    return victim.repo.git("rev-list", "--max-parents=0", "HEAD").strip()


def on_a_lax_branch(victim: Victim) -> str:
    """A commit of the proposer's own branch, whose policy is lax."""
    victim.repo.git("checkout", "--quiet", "-B", "mine")
    commit = committed(victim, policy(LAX))
    victim.repo.git("checkout", "--quiet", "main")
    return commit


def with_another_root(victim: Victim) -> str:
    """A commit that no branch holds, without parents."""
    tree = victim.repo.git("rev-parse", f"{before_the_policy(victim)}^{{tree}}").strip()
    return victim.repo.git("commit-tree", "-m", "root", tree).strip()


def merged_by_hand(victim: Victim) -> str:
    """A merge of the base branch into one's own, which leaves the policy out."""
    lax = on_a_lax_branch(victim)
    tree = victim.repo.git("rev-parse", f"{lax}^{{tree}}").strip()
    return victim.repo.git("commit-tree", "-m", "ours", "-p", lax, "-p", "main", tree).strip()


@pytest.mark.parametrize("base", [before_the_policy, on_a_lax_branch, with_another_root, merged_by_hand])
def test_p2_no_base_that_a_proposer_names_brings_its_own_policy(again: Victim, base: object) -> None:
    assert callable(base)
    review, changes = on(again, str(base(again)))
    again.agents_fail(review, changes)
    assert again.approved_by(review, "ann", proved=True)["data"]["status"] == "approved"


def test_p2_a_base_branch_that_was_away_asks_for_all_when_it_is_back(checking: Checked, tmp_path: Path) -> None:
    with Victim(checking.broker, tmp_path / "repository", checking.config_dir) as victim:
        # Without checks, which would be unknown on a branch that is away.
        victim.repo.write(LOGIN, "one\n")
        start = victim.repo.commit("start")
        committed(victim, policy(POLICY))
        victim.do("set_gate", enabled=True, branches=["main"])
        victim.repo.git("branch", "-m", "main", "away")
        victim.repo.git("checkout", "--quiet", "--detach", start)
        diff, changes = victim.drawn(BAD)
        review = victim.put_up_whole(diff=diff, base=start, proposer_id=PROPOSER)["review_id"]
        victim.approved_by(review, "codex")
        victim.repo.git("branch", "-m", "away", "main")
        assert victim.refusal(changes)["code"] == "REQUIREMENT_MISSING"
        assert "verdict_submitted" in victim.kinds(review)
        victim.revise(review, diff=diff, base=start, proposer_id=PROPOSER)
        victim.person_may(review, changes)


def test_p2_no_other_name_of_the_branch_has_the_gate_forget_the_policy(again: Victim) -> None:
    committed(again, policy(POLICY.replace('["agent", "person"]', '["agent"]')))
    review, changes = again.attempt(new(LOGIN))
    again.approved_by(review, "codex")
    again.passes(changes)
    committed(again, policy(POLICY))
    for asked in ({}, *({"branch": name} for name in ("refs/heads/main", "Main", "no-branch"))):
        answer = again.do("check_gate", changes=changes, **asked)
        assert (answer["allowed"], answer["code"]) == (False, "REQUIREMENT_MISSING"), asked
        assert "a person's review" in answer["reason"]


def test_p2_only_the_policy_of_the_base_branch_counts(victim: Victim) -> None:
    review, changes = victim.attempt(BAD)
    victim.agents_fail(review, changes)
    victim.repo.write(FILE, LAX)
    victim.refusal(changes)
    victim.repo.git("add", FILE)
    victim.refusal(changes)
    victim.repo.git("checkout", "--quiet", "-b", "mine")
    victim.repo.commit("lax")
    victim.refusal(changes)
    assert victim.status(review)["status"] == "pending"


def test_p2_a_policy_that_lands_while_a_change_waits_holds_for_it(victim: Victim) -> None:
    review, changes = victim.attempt(OTHER)
    victim.approved_by(review, "codex")
    victim.passes(changes)
    committed(victim, policy(POLICY + '[[rule]]\nneeds = ["person"]\n'))
    victim.refusal(changes)
    with Desk(victim.url, victim.project, agent="operator") as operator:
        operator.do("withdraw_approval", review_id=review, reason=WHY)
    victim.approved_by(review, "ann", proved=True)
    victim.refusal(changes)


# ------------------------------------------------------------------------- other forms, projects and settings


@pytest.mark.parametrize(("path", "text"), [("docs/guide.md", "a guide\n"), (FILE, LAX), (LOGIN, "a text\n")])
def test_p2_a_whole_text_needs_what_its_diff_needs(again: Victim, path: str, text: str) -> None:
    committed(again, policy(POLICY + '[[rule]]\npaths = ["docs/**"]\nneeds = ["person"]\n'))
    needs_a_person(again, path, text, "plan_review")


def needs_a_person(victim: Victim, path: str, text: str, category: str) -> None:
    """No agents get a whole text of this category through alone."""
    _, changes = victim.drawn(files(**{path: text}))
    asked = {"path": path, "description": text, "category": category, "proposer_id": PROPOSER}
    review = victim.put_up_whole(**asked)["review_id"]
    victim.ended(review)
    victim.agents_fail(review, changes)
    victim.person_may(review, changes)


@pytest.mark.parametrize(
    ("category", "match"), [("plan_review", "all"), ("verification", "first"), ("handoff", "first")]
)
def test_p2_no_category_has_a_document_pass_a_rule_for_changes(again: Victim, category: str, match: str) -> None:
    rules = {"agent": category, "person": "code_change"}
    text = "".join(f'[[rule]]\ncategories = ["{of}"]\nneeds = ["{need}"]\n' for need, of in rules.items())
    committed(again, policy(f'match = "{match}"\n{text}'))
    needs_a_person(again, "docs/guide.md", f"{match} {category}\n", category)


def test_p2_a_diff_that_nothing_looks_at_opens_nothing(again: Victim) -> None:
    diff, changes = again.drawn(alter := new(LOGIN))
    blind = again.put_up_whole(diff=diff, proposer_id=PROPOSER, skip_diff_validation=True)["review_id"]
    for agent in ("codex", "gemini"):
        again.approved_by(blind, agent)
    again.refusal(changes)
    review, _ = again.attempt(alter)
    again.agents_fail(review, changes)
    again.person_may(review, changes)


def test_p2_an_approval_of_another_project_counts_for_nothing(again: Victim) -> None:
    review, changes = again.attempt(alter := new(LOGIN))
    diff, _ = again.drawn(alter)
    for is_registered in (False, True):
        with Desk(again.url, fresh_project()) as other:
            if is_registered:
                other.register(again.repo.root)
            elsewhere = other.put_up(diff=diff, proposer_id=PROPOSER)
            other.approve(elsewhere)
            assert "verdict_submitted" in other.kinds(elsewhere)
    again.agents_fail(review, changes)
    again.person_may(review, changes)


def test_p2_settings_that_no_person_trusts_exempt_nothing(victim: Victim) -> None:
    review, changes = victim.attempt(BAD)
    victim.repo.write(".tandem/config.toml", 'gate_exempt = ["**", "src/**"]\nchecks_on_tip = false\n')
    victim.agents_fail(review, changes)
    victim.person_may(review, changes)


# --------------------------------------------------------------------------------------- rounds and other changes


def test_p2_a_counter_patch_that_adds_a_protected_path_needs_its_person(victim: Victim) -> None:
    good, _ = victim.drawn(OTHER)
    both, changes = victim.drawn(files(**{LOGIN: "bad\n", "src/other.py": "new\n"}))
    review = victim.put_up(diff=good, proposer_id=PROPOSER)
    asked = {"verdict": "changes_requested", "counter_patch": both}
    patch = victim.verdict(review, generation=victim.claim(review, "codex"), **asked)["counter_patch_id"]
    with Desk(victim.url, victim.project, agent=PROPOSER) as proposer:
        proposer.do("accept_counter_patch", review_id=review, counter_patch_id=patch)
    victim.ended(review)
    for agent in ("codex", "gemini"):
        victim.approved_by(review, agent)
    assert "a person's review (rule 'auth'" in victim.status(review)["missing"][0]
    victim.refusal(changes)
    victim.person_may(review, changes)


def test_p2_what_a_person_approved_or_waived_is_that_content_alone(again: Victim) -> None:
    review, changes = again.attempt(new(LOGIN))
    again.approved_by(review, "codex")
    assert waive(again, review, "person")["data"]["status"] == "approved"
    again.passes(changes)
    diff, worse = again.drawn(new(LOGIN))
    again.revise(review, diff=diff, proposer_id=PROPOSER)
    again.ended(review)
    again.approved_by(review, "codex")
    assert len(again.status(review)["missing"]) == 1
    again.refusal(worse)
    assert "requirement_waived" in again.kinds(review)
    again.person_may(review, worse)


def test_p2_one_commit_of_an_approved_and_an_unapproved_change_is_refused_for_the_latter(again: Victim) -> None:
    good, approved = again.attempt(new("src/other.py"))
    again.approved_by(good, "codex")
    bad, protected = again.attempt(new(LOGIN))
    again.agents_fail(bad, protected)
    refused = again.refusal([*approved, *protected])
    assert [one["path"] for one in refused["paths"] if not one["allowed"]] == [LOGIN]
    again.person_may(bad, [*approved, *protected])


def test_p2_an_approved_lax_policy_frees_nothing_before_it_has_landed(victim: Victim) -> None:
    frees, change = victim.attempt(policy(LAX))
    victim.agents_fail(frees, change)
    victim.person_may(frees, change)
    review, protected = victim.attempt(BAD)
    victim.agents_fail(review, protected)
    victim.refusal(protected)
    victim.refusal([*change, *protected])
    committed(victim, policy(LAX))
    # From then on the other change passes by it.
    again, protected = victim.attempt(BAD)
    assert victim.status(again)["status"] == "approved"
    victim.passes(protected)


# ------------------------------------------------------------------------------------------------ owners, checks


def test_p2_no_one_is_an_owner_by_the_spelling_of_a_name(again: Victim) -> None:
    review, changes = again.attempt(new("owned/a.txt"))
    for name in ("ANN", "@ann", "ann ", "codex/ann", "\uff41nn", "ann\u200b", "a\u0430nn"):
        assert again.approved_by(review, name)["error"]["code"] in (
            "FORBIDDEN",
            "REQUIREMENT_MISSING",
            "INVALID_INPUT",
        )
    again.agents_fail(review, changes, "owner:@ann")
    again.person_may(review, changes)


def test_p2_no_owner_s_name_moves_the_cursor_of_who_reads_it(victim: Victim) -> None:
    committed(victim, files(CODEOWNERS="owned/ @ann @\x1b[2J\u202eben\n"))
    review, changes = victim.attempt(files(**{"owned/a.txt": "bad\n"}))
    said = str(victim.status(review)["missing"]) + victim.approved_by(review, "codex")["error"]["message"]
    assert "@ann" in said
    assert {"\x1b", "\u202e"}.isdisjoint(said)
    victim.refusal(changes)
    victim.person_may(review, changes)


ABSENT = check("calm", "import os, sys; sys.exit(os.path.exists('docs/bad.md'))")
LOOSE = {
    "made optional": toml({**ABSENT, "required": False}),
    "removed": "",
    "made easy": toml(check("calm", "print('calm')")),
}


def test_p2_a_check_that_the_change_itself_loosens_holds_it_back(victim: Victim) -> None:
    victim.have(ABSENT)
    for how, checks in LOOSE.items():
        review, changes = victim.attempt(files(**{"docs/bad.md": "new\n", CHECKS_FILE: checks}))
        assert victim.status(review)["status"] == "pending", how
        victim.approved_by(review, "codex")
        assert victim.refusal(changes)["code"] == "CHECK_FAILED", how
    review, changes = victim.attempt(files(**{"docs/good.md": "new\n", CHECKS_FILE: ""}))
    assert victim.status(review)["status"] == "pending"
    victim.approved_by(review, "codex")
    victim.passes(changes)
