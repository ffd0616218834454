"""P11: from round to round: late findings, questions of persons, and the words for a proposer."""

from __future__ import annotations

import random

import pytest

from tandem.git.hunks import parse
from tests.acceptance.finding import found
from tests.acceptance.reviewing import AgentDesk, Desk

TRANSFER = (
    "def transfer(a, amount):",
    "    a.lock()",
    "    check_limits(a, amount)",
    "    a.take(amount)",
    "    a.unlock()",
)


def added(path: str, *lines: str) -> str:
    """A diff that adds a file."""
    body = "".join(f"+{line}\n" for line in lines)
    header = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{header}@@ -0,0 +1,{len(lines)} @@\n{body}"


def fault(line: int) -> dict[str, object]:
    """A grave finding on a line of `m.py`."""
    return {"file": "m.py", "line": line, "severity": "major", "claim": f"Fault of {line}."}


def found_late(agents: AgentDesk, shop: Desk, before: list[str], after: list[str]) -> tuple[set[int], set[int]]:
    """The lines on which findings are late in the round after one that was objected to, and those that it added."""
    review = shop.put_up(diff=added("m.py", *before))
    agents.decide(review, "changes_requested", findings=[fault(1)])
    shop.revise(review, diff=added("m.py", *after))
    agents.decide(review, "comment", findings=[fault(line) for line in range(1, len(after) + 1)])
    late = {one["line"] for one in found(shop, review) if one["state"] == "late"}
    shown = parse(shop.do("get_proposal", review_id=review, since_round=1)["interdiff"])
    lines = (line for file in shown for hunk in file.hunks for line in hunk.lines)

    return late, {line.new_number or 0 for line in lines if line.kind == "added"}


def test_p11_a_line_that_moved_past_another_is_not_found_late(agents: AgentDesk, shop: Desk):
    _, lock, check, take, unlock = TRANSFER
    late, new = found_late(agents, shop, [*TRANSFER], ["def pay(a, amount):", lock, take, check, unlock])
    assert {2, 5} <= late <= {2, 3, 5}
    assert 4 in new


@pytest.mark.parametrize("seed", range(6))
def test_p11_no_line_that_the_changes_since_show_as_added_is_found_late(agents: AgentDesk, shop: Desk, seed: int):
    chance = random.Random(seed)
    before = [
        chance.choice([f"line {seed} {number}", "    }", "    return"]) for number in range(chance.randint(6, 14))
    ]
    after = [*before]
    for _ in range(chance.randint(1, 4)):
        after.insert(chance.randrange(len(after)), after.pop(chance.randrange(len(after))))
    after[chance.randrange(len(after))] = f"other {seed}"
    late, new = found_late(agents, shop, before, after)
    assert late <= set(range(1, len(after) + 1)) - new
