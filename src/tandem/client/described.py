"""What the client and the command line know of an operation without importing what carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Described:
    """One operation of the registry, as callers see it.

    Its types are named, and imported when they are asked for: to build those of every operation takes longer than
    most calls.

    Attributes:
        name: Its name.
        noun: The command line's group.
        verb: The command within it.
        request_name: The request model, with its module.
        answer_name: The answer's type, with its module; or `dict`.
        description: One or two sentences, for help.
        blocking: Whether it may wait.
        keyed: Whether it takes an idempotency key.
        repeatable: Whether it has one effect also when sent twice.
    """

    name: str
    noun: str
    verb: str
    request_name: str
    answer_name: str
    description: str
    blocking: bool
    keyed: bool
    repeatable: bool

    @property
    def request(self) -> type[BaseModel]:
        """The request model."""
        return _imported(self.request_name)

    @property
    def answer(self) -> type[Any]:
        """The answer's type."""
        return dict if self.answer_name == "dict" else _imported(self.answer_name)


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
