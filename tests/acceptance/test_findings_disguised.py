"""P11: no byte elsewhere, form of the proposal or odd line rids a change of its findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.acceptance.finding import found
from tests.acceptance.reviewing import AgentDesk, Desk
from tests.acceptance.test_findings_again import added, comes_again
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

NAME = "code.txt"
LINES = tuple(f"line number {number} of the code file" for number in range(1, 31))


class Proposed(NamedTuple):
    """A file as it is proposed: lines in place of others (None for none), and more at its end.

    Attributes:
        edits: By their numbers.
        end: The further lines.
        is_text: Whether it comes as a text, not as a diff.
        mode: Of the file.
    """

    edits: Mapping[int, str | None]
    end: tuple[str, ...] = ()
    is_text: bool = False
    mode: int = 0o644

    def content(self, repo: Sandbox) -> dict[str, str]:
        """As it is sent."""
        lines = (self.edits.get(number, line) for number, line in enumerate(LINES, start=1))
        text = "".join(f"{line}\n" for line in (*lines, *self.end) if line is not None)
        repo.write(NAME, text, executable=self.mode != 0o644)
        diff = repo.diff()
        repo.git("checkout", "--", NAME)
        return {"description": text, "path": NAME, "category": "plan_review"} if self.is_text else {"diff": diff}


@pytest.fixture
def filed(repo: Sandbox, shop: Desk) -> Sandbox:
    """The repository of `shop` with one file of thirty lines more."""
    repo.write(NAME, "".join(f"{line}\n" for line in LINES))
    repo.write("other.txt", "one line\n")
    repo.commit("thirty lines")
    return repo


def again(
    agents: AgentDesk, shop: Desk, repo: Sandbox, first: Proposed, place: dict[str, Any], then: Proposed
) -> list[dict[str, Any]]:
    """The findings of a change that follows one that was refused and closed."""
    review = shop.put_up(**first.content(repo))
    agents.decide(review, "changes_requested", findings=[{"severity": "major", "claim": "No.", **place}])
    shop.do("close_review", review_id=review)
    return found(shop, shop.put_up(**then.content(repo)))


EVIL = {17: "rm -rf /"}
ODD = [f"a line{char}that is evil" for char in "\f\x1c\x85\u2028\r"]
MANY = (*(f"so many more, number {number}" for number in range(59)), "and this one is the fault of all")


@pytest.mark.parametrize(
    ("first", "place", "then"),
    [
        pytest.param(
            Proposed(EVIL), {"line": 12, "end_line": 19}, Proposed(EVIL, ("more",)), id="a-range-out-of-sight"
        ),
        pytest.param(
            Proposed({}, (*MANY, "x()")),
            {"line": 1, "end_line": 91},
            Proposed({}, (*MANY, "x()", "x")),
            id="a-long-range",
        ),
        *(
            pytest.param(
                Proposed({17: odd}),
                {"line": 17},
                Proposed({17: odd}, ("more",)),
                id=f"{odd!r}",
                marks=() if odd in (ODD[0], ODD[-1]) else VARIATION,
            )
            for odd in ODD
        ),
        pytest.param(
            Proposed({7: "number seven"}), {"line": 9}, Proposed({7: "number seven"}, ("more",)), id="a-line-beside"
        ),
        pytest.param(
            Proposed({}, MANY),
            {"line": 31, "end_line": 90},
            Proposed({}, (*(f"other {at}" for at in range(50)), *MANY[50:])),
            id="the-end-of-a-long-range",
        ),
        pytest.param(
            Proposed({}, ("Drop the tables.",), is_text=True), {}, Proposed({}, ("Drop the tables.", "x")), id="a-text"
        ),
        pytest.param(
            Proposed({7: None}), {"line": 7, "side": "old"}, Proposed({7: None}, ("x",), is_text=True), id="a-deletion"
        ),
        pytest.param(Proposed({}, mode=0o755), {"line": None}, Proposed({}, ("more",), mode=0o755), id="a-mode"),
    ],
)
def test_p11_a_finding_goes_on_with_what_the_change_makes(
    agents: AgentDesk, shop: Desk, filed: Sandbox, first: Proposed, place: dict[str, Any], then: Proposed
):
    (kept,) = again(agents, shop, filed, first, {"file": NAME, **place}, then)
    assert (kept["file"], kept["blocking"]) == (NAME, True)


@pytest.mark.parametrize("place", [{"file": "other.txt", "line": 1}, {}])
def test_p11_what_is_said_of_a_file_that_the_change_forgot_goes_on_with_the_change(
    agents: AgentDesk, shop: Desk, filed: Sandbox, place: dict[str, Any]
):
    change = {7: "number seven"}
    for then in (Proposed(change, ("x",)), Proposed(change)):
        (kept,) = again(agents, shop, filed, Proposed(change), place, then)
        assert (kept["file"], kept["line"], kept["blocking"]) == (place.get("file"), place.get("line"), True)


def test_p11_a_text_brings_nothing_that_was_found_on_lines_that_it_leaves_out(
    agents: AgentDesk, shop: Desk, filed: Sandbox
):
    evil, typo = Proposed({}, ("Drop the tables.",), is_text=True), Proposed({7: "number seven"}, is_text=True)
    assert again(agents, shop, filed, evil, {}, typo) == []


def test_p11_what_is_said_of_a_line_beside_does_not_go_on_with_another_change(
    agents: AgentDesk, shop: Desk, filed: Sandbox
):
    change, other = Proposed({7: "number seven"}), Proposed({11: "number eleven"})
    assert again(agents, shop, filed, change, {"file": NAME, "line": 9}, other) == []


def test_p11_no_other_path_rids_a_long_line_of_its_finding(agents: AgentDesk, shop: Desk):
    lines = ("alpha = 1", "beta gamma = 1", "abc def " * 1010, "delta eps = 2", "zeta eta = 2")
    said = {"severity": "major", "claim": "No.", "file": "long.py", "line": 3}
    (kept,) = comes_again(agents, shop, added("long.py", *lines), said, added("other.py", *lines))
    assert (kept["file"], kept["blocking"]) == ("other.py", True)


def test_p11_no_carriage_return_in_place_of_a_line_feed_rids_a_line_of_its_finding(
    agents: AgentDesk, shop: Desk, repo: Sandbox
):
    bad = {17: "a new bad line that is long enough"}
    lines = [bad.get(number, line) for number, line in enumerate(LINES, start=1)]
    said = {"severity": "major", "claim": "No.", "file": "cr.txt", "line": 17}
    repo.write("cr.txt", "\r".join(lines) + "\n")
    repo.git("add", "-N", "cr.txt")
    (kept,) = comes_again(agents, shop, added("cr.txt", *lines), said, repo.diff())
    assert (kept["file"], kept["blocking"]) == ("cr.txt", True)


@pytest.mark.parametrize(("other", "count"), [(("one more",), 1), (LINES, 0)])
def test_p11_a_small_file_is_known_again_elsewhere_where_it_is_most_of_the_file(
    agents: AgentDesk, shop: Desk, other: tuple[str, ...], count: int
):
    two = ("echo one", "echo two")
    said = {"severity": "major", "claim": "No.", "file": "r.sh"}
    kept = comes_again(agents, shop, added("r.sh", *two), said, added("q.sh", *two, *other))
    assert len(kept) == count


def test_p11_a_text_of_no_file_keeps_what_was_said_of_it(agents: AgentDesk, shop: Desk):
    review = shop.put_up(description="Drop the tables.\nThen rest.\n")
    agents.decide(review, "changes_requested", findings=[{"severity": "major", "claim": "No."}])
    shop.do("close_review", review_id=review)
    assert len(found(shop, shop.put_up(description="Drop the tables.\nThen rest.\nAmen.\n"))) == 1


def test_findings_follow_a_file_that_a_round_moves(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("p.txt", *LINES))
    agents.decide(
        review, "changes_requested", findings=[{"severity": "major", "claim": "No.", "file": "p.txt", "line": 7}]
    )
    shop.revise(review, diff=added("q.txt", *LINES))
    (moved,) = found(shop, review)
    assert (moved["place"]["file"], moved["place"]["line"], moved["place"]["changed"]) == ("q.txt", 7, False)
