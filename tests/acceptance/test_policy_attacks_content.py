"""P2, P7: changes that shadow, rename or disguise what a policy protects need what the honest change needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tandem.rulings import proof
from tandem.rulings.policy import FILE
from tests.acceptance.attacking import AGENTS, LAX, PROPOSER, Alter, Victim, files, linked, victims
from tests.acceptance.checking import Checked
from tests.acceptance.reviewing import at_once
from tests.git.sandbox import Sandbox

LOGIN = "src/auth/login.py"
RACES = 3


@pytest.fixture(scope="module")
def victim(checking: Checked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One project for all: nothing lands in it."""
    yield from victims(checking, tmp_path_factory.mktemp("victim") / "repository")


def mode(path: str, bits: int) -> Alter:
    """Makes a file a program, or the other way round."""

    def alter(repo: Sandbox) -> None:
        (repo.root / path).chmod(bits)
        repo.git("add", "--all")

    return alter


def moved(old: str, new: str) -> Alter:
    """Moves a file."""

    def alter(repo: Sandbox) -> None:
        (repo.root / new).parent.mkdir(parents=True, exist_ok=True)
        repo.git("mv", old, new)

    return alter


def policy_is_a_folder(repo: Sandbox) -> None:
    """Puts a folder in the policy's place, with a lax one in it."""
    repo.git("rm", "--quiet", FILE)
    files(**{f"{FILE}/policy.toml": LAX})(repo)


# One of each way that a change is read: `tests/test_policy.py` has the spellings of paths, and all modes.
PERSON: dict[str, tuple[Alter, *tuple[str, ...]]] = {
    "the policy is made lax beside it": (files(**{FILE: LAX, LOGIN: "bad\n"}),),
    "the policy alone is made lax": (files(**{FILE: LAX}),),
    "among documents": (files(**{"docs/guide.md": "good\n", LOGIN: "bad\n"}),),
    "the policy as a link to a lax file": (linked(FILE, "../docs/lax.toml", **{"docs/lax.toml": LAX}),),
    "the policy as a folder": (policy_is_a_folder,),
    "the policy's folder as a link": (linked(".tandem", "docs", **{"docs/policy.toml": LAX}),),
    "the policy's folder with a character that is left out": (files(**{".tan\u200cdem/policy.toml": LAX}),),
    "a mode alone": (mode(LOGIN, 0o755),),
    "its folder as a link": (linked("src/auth", "../docs"),),
    "the file moved away, drawn as a rename": (moved(LOGIN, "docs/login.md"), "-M"),
    "a lenient file copied there, drawn as a copy": (
        files(**{"src/auth/guide.py": "one\ntwo\n"}),
        "-C",
        "--find-copies-harder",
    ),
    "a path with its accents in the other form": (files(**{"src/cafe\u0301/a.py": "bad\n"}),),
    "a name with a line end": (files(**{"src/auth/a\nb.py": "bad\n"}),),
    "owners are removed": (files(CODEOWNERS=None),),
    "owners in a place that is read first": (files(**{".github/CODEOWNERS": "* @codex\n"}),),
    "owners are left out of their line": (files(CODEOWNERS="owned/\n"),),
    "owners in docs": (files(**{"docs/CODEOWNERS": "* @me\n"}),),
    "owners beside a path of theirs": (files(CODEOWNERS="owned/ @codex @ann\n", **{"owned/a.txt": "bad\n"}),),
    "many lines moved, drawn as a rename without any": (moved("lib/big.py", "lib/new.py"), "-M"),
    "many lines of a document moved to code": (moved("docs/big.md", "lib/new.py"),),
    "many lines as a binary file": (files(**{"lib/new.bin": b"\0"}),),
    "many lines that the same change calls generated": (
        files(**{".gitattributes": "lib/** linguist-generated\n", "lib/new.py": "bad\n" * 21}),
    ),
}


@pytest.mark.parametrize("name", PERSON)
def test_p2_agents_alone_get_it_through_by_no_disguise(victim: Victim, name: str) -> None:
    alter, *how = PERSON[name]
    review, changes = victim.attempt(alter, *how)
    victim.agents_fail(review, changes)
    victim.person_may(review, changes)


UNCHECKED: dict[str, Alter] = {
    "a new link among documents": linked("docs/link.md", "guide.md"),
    "the checks": files(**{".tandem/checks.toml": ""}),
    "code beside documents": files(**{"docs/guide.md": "good\n", "src/other.py": "bad\n"}),
    "a policy of its own folder": files(**{"docs/.tandem/policy.toml": LAX, "src/other.py": "bad\n"}),
    "a program that is made a document": files(**{"docs/run.sh": "other\n"}),
    "a link that becomes a document": files(**{"docs/way": None, "docs/way/guide.md": "bad\n"}),
    "a document with a backslash in its name": files(**{"docs\\guide.md": "bad\n"}),
    "code that the same change calls generated": files(
        **{".gitattributes": "src/** linguist-generated\n", "src/other.py": "bad\n"}
    ),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_p2_passed_checks_alone_cover_no_disguise(victim: Victim, name: str) -> None:
    review, changes = victim.attempt(UNCHECKED[name])
    victim.refusal(changes)
    assert victim.status(review)["status"] == "pending"
    assert victim.approved_by(review, "codex")["data"]["status"] == "approved"
    victim.passes(changes)


def by_hand(path: str, kind: str = "100644", text: str = "bad") -> str:
    """A diff that git would not draw, of a new file."""
    return f"diff --git a/{path} b/{path}\nnew file mode {kind}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"


UNFIT = {
    "through a link": by_hand("docs/way/more.py"),
    "up and down again": by_hand("docs/../src/auth/more.py"),
    "by an empty part": by_hand("docs//../.tandem/policy.toml"),
    "git's own folder": by_hand(".git/hooks/pre-commit"),
    "git's own folder below": by_hand("docs/nested/.git/config"),
    "git's own folder by its short name": by_hand("docs/GIT~1/config"),
    "a second name below its header": by_hand("docs/a.md").replace("+++ b/docs/a.md", "+++ b/src/auth/a.py"),
}


def test_p2_a_diff_that_leads_elsewhere_is_no_change(victim: Victim) -> None:
    asked = {"intent": "x", "agent_type": PROPOSER, "agent_role": "proposer", "proposer_id": PROPOSER}
    for name, diff in UNFIT.items():
        assert victim.call("create_review", **asked, diff=diff)["error"]["code"] == "INVALID_DIFF", name
    assert victim.call("create_review", **asked, diff=by_hand("docs/plain.md"))["ok"]


def test_p2_a_header_of_two_names_is_judged_as_git_reads_it(victim: Victim) -> None:
    diff = by_hand("docs/new.md").replace("b/docs", "b/src/auth")
    _, changes = victim.drawn(files(**{"src/auth/new.md": "bad\n"}))
    review = victim.put_up_whole(diff=diff, proposer_id=PROPOSER)["review_id"]
    victim.ended(review)
    victim.agents_fail(review, changes)
    victim.person_may(review, changes)


def test_p2_a_repository_within_the_repository_is_no_change(victim: Victim) -> None:
    nested = Sandbox(victim.repo.root / "docs/nested")
    nested.write("a.txt", "bad\n")
    nested.commit("nested")
    diff, _ = victim.drawn(lambda repo: repo.git("-c", "advice.addEmbeddedRepo=false", "add", "--all"))
    asked = {"intent": "x", "agent_type": PROPOSER, "agent_role": "proposer", "proposer_id": PROPOSER}
    assert victim.call("create_review", **asked, diff=diff)["error"]["code"] == "INVALID_DIFF"


def test_p2_no_name_of_a_path_moves_the_cursor_of_who_reads_what_is_missing(victim: Victim) -> None:
    review, changes = victim.attempt(files(**{"src/auth/\x1b[2J\u202egood.py": "bad\n"}))
    victim.agents_fail(review, changes)
    said = str(victim.status(review)["missing"]) + victim.approved_by(review, "codex")["error"]["message"]
    assert "src/auth/" in said
    assert {"\x1b", "\u202e"}.isdisjoint(said)
    victim.person_may(review, changes)


def test_p2_a_proof_is_of_one_review_and_one_name(victim: Victim) -> None:
    review, other = (victim.attempt(files(**{LOGIN: text}))[0] for text in ("good\n", "other\n"))
    for one in (review, other):
        victim.approved_by(one, "codex")
    asked = {"review_id": other, "verdict": "approved", "reviewer_id": "ann", "claim": True}
    for wrong in ({"review_id": review}, {"reviewer_id": "ben"}, {"verdict": "rejected"}):
        sealed = victim.sealed(proof.verdict_facts({**asked, **wrong}))
        assert victim.call("submit_verdict", **asked, proof=sealed)["error"]["code"] == "FORBIDDEN"


def test_p1_each_seat_is_taken_once_in_a_race(victim: Victim) -> None:
    racers = [(agent, False) for agent in AGENTS] + [("ann", True), ("ben", True)]
    for number in range(RACES):
        review, _ = victim.attempt(files(**{LOGIN: f"good {number}\n"}))
        answers = at_once([partial(victim.approved_by, review, who, proved=proved) for who, proved in racers])
        took = [who for (who, _), answer in zip(racers, answers, strict=True) if answer["ok"]]
        assert len(took) == len({*took}) <= 2
        assert {"ann", "ben"} & {*took}
        assert (victim.status(review)["status"] == "approved") == (len(took) == 2)
