"""What to look for in a review of each category: a part of the prompt, in words of our own."""

from __future__ import annotations

from typing import Final

GUIDANCE: Final[dict[str, str]] = {
    "code_change": """\
This is a change to files, as a unified diff. Judge what the files are once it is applied, and what then happens to \
everything that uses them. A counter-patch is a whole diff against the same base that \
takes this one's place, not one on top of it.""",
    "plan_review": """\
This is a plan: nothing has been built yet. Judge whether it would reach its goal in this repository: whether its \
assumptions are true (the files, functions and interfaces that it names are there and do as it says), \
whether a step is missing or comes before its preconditions, whether old data and existing users are thought of, what \
happens when a step fails, and whether it says how one will see that it worked. Do not ask for code, and do not ask \
for another plan that would be as good. Where the plan is a file, name its lines; where it is not, leave `file` \
null and quote the words that you mean. A counter-patch is the whole text of the plan.""",
    "verification": """\
This is a report that something was verified. Judge whether its evidence carries its claims: whether each \
requirement has a check, whether the tests that it names are there, test that behaviour, and would fail without it, \
and whether something that was skipped or failed is passed over. A claim that you cannot confirm from the repository \
or the report counts as not shown: say which. A counter-patch is the whole text of the report.""",
    "handoff": """\
This is a hand-off from one role to the next in a cycle; the description is its payload, as JSON. Judge whether the \
next role can go on from it without asking: whether the files that it lists are there and are those that matter, \
whether its endpoints and data shapes are what the code has, whether assumptions are named as such and open work is \
listed, and whether it holds anything secret. A finding about the payload has no `file` and names the \
field. A counter-patch is the whole payload, as JSON with all of its fields.""",
}
"""By category; in words of our own, since they stand among the instructions."""
