"""What the client and the command line know of an operation without importing what carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Described:
    """One operation of the registry, as callers see it.

    Attributes:
        name: Its name.
        noun: The command line's group.
        verb: The command within it.
        request: The request model.
        answer: The answer's type.
        blocking: Whether it may wait.
    """

    name: str
    noun: str
    verb: str
    request: type[BaseModel]
    answer: type[Any]
    blocking: bool

    @property
    def description(self) -> str:
        """One or two sentences, for help."""
        return " ".join((self.request.__doc__ or "").split())
