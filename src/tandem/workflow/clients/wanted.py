"""Everything that a client needs: its configuration, what it is taught, and the agents' hooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tandem.workflow import teaching
from tandem.workflow.clients.site import Client, Site
from tandem.workflow.edits import Edit, JsonItems, MarkedBlock, WholeFile

BLOCK = "review"
"""The name of the marked block of instructions."""


@dataclass
class Wanted:
    """What is to be put where.

    Attributes:
        project: Edits of files of the project.
        user: Edits of files of the user's own.
        notes: What a person has to know or do.
        hook_notes: The same about the agents' hooks, when they are new.
    """

    project: list[Edit] = field(default_factory=list[Edit])
    user: list[Edit] = field(default_factory=list[Edit])
    notes: list[str] = field(default_factory=list[str])
    hook_notes: list[str] = field(default_factory=list[str])


def wanted(clients: Iterable[Client], site: Site, *, gate: bool) -> Wanted:
    """Everything that these clients need; with the gate also the agents' hooks, which refuse early.

    Raises:
        ConfigInvalid: A file that decides what to write cannot be read.
    """
    all_of_it = Wanted()
    for client in clients:
        all_of_it.project += client.edits(site)
        block = MarkedBlock(site.root / teaching.BLOCK_FILES[client.name], BLOCK, teaching.block())
        if block not in all_of_it.project:
            all_of_it.project.append(block)
        for file in teaching.files(client.name):
            edit = WholeFile(_path(site, file.scope, file.path), file.text.encode())
            (all_of_it.project if file.scope == "project" else all_of_it.user).append(edit)
        all_of_it.notes += client.notes(site)
        if gate:
            for entry in teaching.hooks(client.name, (*site.program.words, "hook")):
                items = JsonItems(_path(site, entry.scope, entry.path), entry.keys, entry.items)
                (all_of_it.project if entry.scope == "project" else all_of_it.user).append(items)
            all_of_it.hook_notes += teaching.notes(client.name)
    return all_of_it


def _path(site: Site, scope: Literal["project", "user"], path: str) -> Path:
    return site.root / path if scope == "project" else site.user_file(path)
