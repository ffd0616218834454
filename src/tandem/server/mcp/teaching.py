"""What an endpoint tells the agents that connect to it: the loop to follow, and prompts to begin it.

The texts are templates under `texts/`. For hand-off cycles there is a prompt for each role of each workflow. Nothing
here knows such a role or a phase: all of it is read from the workflows' definitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tandem.contract.operation import Role
from tandem.cycles.payloads import ARRAYS, EXTRAS, TEXTS
from tandem.settings.workflows import Workflow

_WORKFLOWS_NAMED = 8
"""Workflows that the instructions name; some clients cut long ones off."""

_texts = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "texts"),
    autoescape=False,  # noqa: S701 - plain text, which no browser reads
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_texts.filters["quoted"] = partial(json.dumps, ensure_ascii=False)


class Prompt(NamedTuple):
    """A text that begins the loop: how it is listed, and its template."""

    listed: types.Prompt
    render: Callable[[Mapping[str, str]], str]


def instructions(role: str | None, workflows: Sequence[Workflow]) -> str:
    """The loop, in a few lines, for an endpoint's role."""
    loops = (Role.PROPOSER, Role.REVIEWER) if role is None else (role,)
    return "\n\n".join(_text(name, workflows=workflows, named=_WORKFLOWS_NAMED) for name in (*loops, "envelope"))


def prompts_for(role: str | None, workflows: Iterable[Workflow]) -> tuple[Prompt, ...]:
    """The prompts that an endpoint offers."""
    if role == Role.HANDOFF:
        return _cycle_prompts(workflows)
    return tuple(prompt for of_role, prompt in _PROMPTS.items() if role in (None, of_role))


def _text(name: str, **values: Any) -> str:
    return _texts.get_template(f"{name}.txt").render(values)


def _argument(name: str, description: str, *, required: bool = False) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=description, required=required)


_PROJECT = _argument("project", "The project; the endpoint's own if left out.")
_FEATURE = _argument("feature", "The feature to build, in a few words, should no cycle be under way.")


def _prompt(text: str, listed: types.Prompt, **values: Any) -> Prompt:
    """A prompt whose arguments are values of its text; those that are not given are empty."""

    def render(given: Mapping[str, str]) -> str:
        return _text(text, **values, **{each.name: given.get(each.name, "") for each in listed.arguments or ()})

    return Prompt(listed, render)


_PROMPTS: Mapping[str, Prompt] = {
    Role.REVIEWER: _prompt(
        "review_next_change",
        types.Prompt(
            name="review_next_change",
            title="Review the next change",
            description="Claim the next waiting review, judge it, and give a verdict.",
            arguments=[_argument("reviewer_id", "Who reviews; keep it the same.", required=True), _PROJECT],
        ),
    ),
    Role.PROPOSER: _prompt(
        "submit_my_change",
        types.Prompt(
            name="submit_my_change",
            title="Submit my change",
            description="Have the change that you made reviewed, and act on the verdict.",
            arguments=[_argument("intent", "What the change is for."), _PROJECT],
        ),
    ),
}
"""By the role that they are for."""


def _cycle_prompts(workflows: Iterable[Workflow]) -> tuple[Prompt, ...]:
    """A prompt for each role of each workflow, named after both: `<workflow>_<role>`."""
    found: dict[str, Prompt] = {}
    for workflow in workflows:
        for role in workflow.roles:
            name, number = f"{workflow.name}_{role}", 1
            while name in found:  # `a_b` and `c` make the same one as `a` and `b_c`
                number += 1
                name = f"{workflow.name}_{role}_{number}"
            found[name] = _cycle_prompt(workflow, role, name)
    return tuple(found.values())


def _cycle_prompt(workflow: Workflow, role: str, name: str) -> Prompt:
    own = [phase for phase in workflow.phases.values() if phase.role == role]
    listed = types.Prompt(
        name=name,
        title=f"Take part in {workflow.name} as {role}",
        description=f"Play the part of {role} in a hand-off cycle of {workflow.name}.",
        arguments=[_PROJECT, _FEATURE],
    )
    if workflow.phase(workflow.start).role != role:
        listed.arguments = [_PROJECT]
    return _prompt(
        "cycle_part",
        listed,
        workflow=workflow,
        role=role,
        own=own,
        targets=list(dict.fromkeys(target for phase in own for target in phase.handoffs)),
        texts=TEXTS,
        arrays=ARRAYS,
        extras=EXTRAS,
    )
