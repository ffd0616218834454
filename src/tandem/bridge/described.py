"""What clients, bridge and command line know of an operation without importing what carries it out."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from typing import Any


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
        keyed: Whether it takes an idempotency key.
        repeatable: Whether it has one effect also when sent twice.
        has_project: Whether its request names a project.
    """

    # Not a NamedTuple, which takes longer to make than most calls.
    def __init__(  # noqa: PLR0913 - the facts of an operation, as they are generated
        self,
        name: str,
        noun: str,
        verb: str,
        request_name: str,
        answer_name: str,
        description: str,
        *,
        keyed: bool,
        repeatable: bool,
        has_project: bool,
    ) -> None:
        self.name, self.noun, self.verb, self.description = name, noun, verb, description
        self.request_name, self.answer_name = request_name, answer_name
        self.keyed, self.repeatable, self.has_project = keyed, repeatable, has_project

    @property
    def request(self) -> type[Any]:
        """The request model."""
        return _imported(self.request_name)

    @property
    def answer(self) -> type[Any]:
        """The answer's type."""
        return dict if self.answer_name == "dict" else _imported(self.answer_name)


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(__import__(module, fromlist=[attribute]), attribute)
