"""An operation that is declared once: all that its four faces say and do comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tandem.contract.caller import Caller
from tandem.contract.operation import ALL, READ, Operation
from tandem.contract.request import Name, Refusals, Request
from tandem.errors import NotFound


class Greet(Request):
    """Greet somebody by name."""

    refusals: ClassVar[Refusals] = (NotFound,)

    name: Annotated[Name, Field(description="Whom to greet.")]


@dataclass(frozen=True, slots=True)
class Greeting:
    """A greeting."""

    text: Annotated[str, Field(description="What is said.")]


async def greet(_services: Any, _caller: Caller, request: Greet) -> Greeting:
    """Greet somebody who is there."""
    if request.name == "nobody":
        raise NotFound("There is nobody to greet.")
    return Greeting(f"Hello, {request.name}!")


GREET = Operation("greet", "toy", "greet", Greet, Greeting, ALL, READ)
