"""The operations on projects."""

from __future__ import annotations

from tandem.contract.operation import ADMIN, EVERY_ROLE, READ, REPEATABLE_WRITE, WRITE, Operation
from tandem.domain import project_answers as answers
from tandem.operations import project_requests as ask

OPERATIONS = (
    Operation(
        "register_project",
        "project",
        "add",
        ask.RegisterProject,
        answers.ProjectView,
        ADMIN,
        REPEATABLE_WRITE,
    ),
    Operation(
        "list_projects",
        "project",
        "list",
        ask.ListProjects,
        answers.ProjectList,
        EVERY_ROLE,
        READ,
        listed=False,
        for_agents=False,
    ),
    Operation(
        "remove_project",
        "project",
        "remove",
        ask.RemoveProject,
        answers.ProjectRemoved,
        ADMIN,
        WRITE,
    ),
)
