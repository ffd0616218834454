"""What a prompt is: a text that begins an agent's loop, with a few blanks to fill in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    """What a prompt may be given."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text that begins the loop.

    Attributes:
        name: What a client calls it.
        title: What a person reads.
        description: What it is for.
        arguments: What it may be given.
        render: The text for given arguments.
    """

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    render: Callable[[Mapping[str, str]], str]


PROJECT = Argument("project", "The project; the endpoint's own if left out.")
