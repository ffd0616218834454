"""P2: what the gate takes for a composition of approved changes could be committed approval by approval."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.gate.rules import Approval, cover, net
from tandem.git.changes import Change
from tandem.git.raw import REGULAR

PATHS = ("a", "b", "c")
CONTENTS: tuple[str, ...] = ("1", "2", "3")
State = dict[str, str]


@st.composite
def _approvals(draw: st.DrawFn) -> list[Approval]:
    """Some changes of few paths between few contents, so that they meet."""
    content = st.sampled_from(CONTENTS)
    step = st.tuples(content, content).filter(lambda sides: sides[0] != sides[1])
    drawn = draw(st.lists(st.dictionaries(st.sampled_from(PATHS), step, min_size=1), max_size=5))
    return [
        Approval(f"rv_{number}", 1, frozenset(_change(path, *sides) for path, sides in changes.items()))
        for number, changes in enumerate(drawn)
    ]


def _change(path: str, before: str, after: str) -> Change:
    return Change(path, REGULAR, before, REGULAR, after)


def _applied(state: State, approval: Approval) -> State | None:
    """The state after an approved change; None where the change does not begin at it."""
    if any(state[change.path] != change.blob_before for change in approval.changes):
        return None
    return state | {change.path: change.blob_after for change in approval.changes}


def _is_reachable(before: State, after: State, approvals: Sequence[Approval]) -> bool:
    """Whether approved changes lead from one state to another, in any order."""
    seen: list[State] = []
    left = [before]
    while left:
        state = left.pop()
        if state not in seen:
            seen.append(state)
            left += [found for one in approvals if (found := _applied(state, one)) is not None]
    return after in seen


@given(_approvals(), st.data())
def test_p2_a_composition_is_a_way_from_approval_to_approval(approvals: list[Approval], data: st.DataObject):
    states = st.fixed_dictionaries({path: st.sampled_from(CONTENTS) for path in PATHS})
    before, after = data.draw(states), data.draw(states)
    changes = [_change(path, before[path], after[path]) for path in PATHS if before[path] != after[path]]
    covered = cover(changes, approvals)
    kept = [change for change in changes if change.path in covered]
    assert len(kept) == len(covered)
    assert {*kept} == {change for made in covered.values() for change in net(made.chain)}
    # Paths that the commit leaves alone may have any content: they are changed and changed back.
    others = [path for path in PATHS if path not in covered]
    variants = [before]
    for path in others:
        variants = [{**state, path: content} for state in variants for content in CONTENTS]
    assert any(_is_reachable(state, state | {c.path: c.blob_after for c in kept}, approvals) for state in variants)


@given(_approvals(), st.fixed_dictionaries({path: st.sampled_from(CONTENTS) for path in PATHS}))
def test_approved_changes_that_are_committed_in_turn_pass_as_one(approvals: list[Approval], before: State):
    after = before
    for approval in approvals:
        after = _applied(after, approval) or after
    changes = [_change(path, before[path], after[path]) for path in PATHS if before[path] != after[path]]
    assert cover(changes, approvals).keys() == {change.path for change in changes}


def test_a_circle_of_approvals_that_never_comes_to_the_commits_start_ends():
    there, back = (
        Approval(name, 1, frozenset({_change("a", *sides)})) for name, sides in (("rv_1", "23"), ("rv_2", "32"))
    )
    assert (
        cover([_change("a", "1", "2")], [there, back, Approval("rv_3", 1, frozenset({_change("b", "1", "2")}))]) == {}
    )


def _new(path: str, before: str = "1", after: str = "2") -> Change:
    return _change(path, before, after)


def _beside(size: int) -> tuple[list[Change], list[list[Change]]]:
    """Approvals of all that is wanted, each with one path more."""
    wanted = [_new(f"p{number}") for number in range(size)]
    return wanted, [[*wanted, _new(f"more{number}")] for number in range(4)]


def _chain(size: int) -> tuple[list[Change], list[list[Change]]]:
    """Each approval goes on from the one before it."""
    steps = size // 10
    chain = [[_new(f"p{path}", str(step), str(step + 1)) for path in range(10)] for step in range(steps)]
    return [_new(f"p{path}", "0", str(steps)) for path in range(10)], chain


def _alike(size: int) -> tuple[list[Change], list[list[Change]]]:
    """Several could be the last, and one of them has to be chosen."""
    paths = [f"p{number}" for number in range(size // 8)]
    last = [
        [_new(path, f"only {which}" if at == which else "1", "2") for at, path in enumerate(paths)]
        for which in range(6)
    ]
    return [_new(path) for path in paths], [*last, *([_new(f"p{which}", "1", f"only {which}")] for which in range(6))]


def _falling(size: int) -> tuple[list[Change], list[list[Change]]]:
    """None can be used: each needs the next one, and the last needs a state that is not there."""
    links = size // 10
    chain = [
        [_new(f"own{link}"), _new(f"link{link}", "1", "2"), *([_new(f"link{link - 1}", "2", "3")] if link else [])]
        for link in range(links)
    ]
    return [_new(f"own{link}") for link in range(links)], chain


@pytest.mark.parametrize("family", [_beside, _chain, _alike, _falling])
def test_p12_a_search_for_approvals_takes_steps_in_proportion(family: Callable[[int], Any]):
    def steps(size: int) -> int:
        """How often Python calls something, which is the same on every machine."""
        changes, given_ = family(size)
        approvals = [Approval(f"rv_{at:04}", 1, frozenset(entries)) for at, entries in enumerate(given_)]
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            cover(changes, approvals)
        finally:
            sys.setprofile(None)
        return counted

    assert steps(4_000) < 8 * steps(800)
