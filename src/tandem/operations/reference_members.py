"""The words that stand in the source below the members of an enumeration."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from enum import Enum
from typing import TypeVar

Member = TypeVar("Member", bound=Enum)


def member_docs(kind: type[Member]) -> dict[Member, str]:
    """The text below each member, as it stands in the source; members without one are not there."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body: list[ast.stmt] = getattr(definition, "body", [])
    found: dict[Member, str] = {}
    for member, text in itertools.pairwise(body):
        match member, text:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(about))),
            ):
                found[kind[name]] = " ".join(about.split())
            case _:
                pass
    return found
