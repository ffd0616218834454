"""The ready workflows: sound, complete, explained, and accepted as they are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tandem.examples import examples
from tandem.settings.config import load_settings
from tandem.settings.workflows import load


def test_there_are_three_examples() -> None:
    assert list(examples()) == ["designer-developer-reviewer", "planner-builder-tester", "writer-editor"]


@pytest.mark.parametrize("name", sorted(examples()))
def test_an_example_explains_one_workflow_with_a_way_to_its_end_and_a_way_back(name: str) -> None:
    assert sum(line.startswith("#") for line in examples()[name].splitlines()) >= 8
    tables = tomllib.loads(examples()[name])["workflows"]
    assert list(tables) == [name]
    workflow = load(tables)[name]
    # The shortest way, as a cycle takes it: each step a hand-off by the active role to the next one.
    ways = [[workflow.phase(workflow.start)]]
    while not ways[0][-1].completes:
        way = ways.pop(0)
        for target, following in way[-1].handoffs.items():
            phase = workflow.phase(following)
            assert phase.role == target
            ways.append([*way, phase])
    walked = {phase.role for phase in ways[0]}
    assert walked == set(workflow.roles)
    assert workflow.archiver_after(ways[0][-1].name) in workflow.roles
    # Rework goes back from the end.
    assert all(workflow.phase(phase).handoffs for phase in workflow.completing_phases)


def test_all_examples_can_stand_in_the_users_file_together(config_dir: Path) -> None:
    (config_dir / "config.toml").write_text("\n".join(examples().values()), "utf-8")
    loaded = load_settings()
    assert loaded.origins["workflows"] == str(config_dir / "config.toml")
    assert list(load(loaded.settings.workflows)) == ["frontend-backend", *examples()]
