"""Writes the client's view of the operations from the registry: modules of methods, and `table.py`.

`python -m tandem.client.generate` writes them; with `--check` it exits with 1 when one is not current.
"""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tandem.operations.catalogue import REGISTRY
from tandem.operations.registry import Operation, Registry

FOLDER = Path(__file__).parent

_HEADER = '''"""The operations on {about}. Written by `python -m tandem.client.generate`; do not edit."""

{suppressions}\
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

{imports}
'''
_SUPPRESSIONS = "# ruff: noqa: A002, PLR0913, E501 - a method has the fields of its request, by the contract's names.\n"
_MANY = "# ruff: noqa: PLR0913 - a method has the fields of its request.\n"
_REVIEW_IMPORTS = """\
from typing import TYPE_CHECKING, Any, Literal

from tandem.client.gate_methods import GateOperations
from tandem.domain import answers

if TYPE_CHECKING:
    # Named in signatures only; to build the models would take longer than a call.
    from tandem.operations import requests
"""
_CYCLE_IMPORTS = """\
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from tandem.domain import cycle_answers

Answer = TypeVar("Answer")
"""
_POOL_IMPORTS = """\
from typing import TYPE_CHECKING, Any, Literal

from tandem.client.cycle_methods import CycleOperations
from tandem.domain import pool_answers

if TYPE_CHECKING:
    # Named in signatures only; to build the models would take longer than a call.
    from tandem.operations import pool_requests
"""
_GATE_IMPORTS = """\
from typing import TYPE_CHECKING, Any

from tandem.client.pool_methods import PoolOperations
from tandem.domain import gate_answers

if TYPE_CHECKING:
    # Named in signatures only; to build the models would take longer than a call.
    from tandem.operations import gate_requests, requests
"""
_TABLE = '''"""What each operation is. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: E501 - a line each.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from tandem.client.described import Described
from tandem.domain import answers, cycle_answers, gate_answers, pool_answers
from tandem.operations import cycle_requests, gate_requests, pool_requests, requests

OPERATIONS: dict[str, Described] = {
'''
_CLASS = '''

class Operations(GateOperations):
    """Every operation of the broker. Each raises the `TandemError` of the refusal's code."""
'''
_CYCLE_CLASS = '''

class CycleOperations(ABC):
    """The operations on hand-off cycles. Each raises the `TandemError` of the refusal's code."""

    @abstractmethod
    async def _operate(self, operation: str, arguments: Mapping[str, Any], answer: type[Answer]) -> Answer:
        """Send one operation and read its answer; arguments that are null are left out."""
        ...
'''
_POOL_CLASS = '''

class PoolOperations(CycleOperations):
    """The operations on reviewer pools. Each raises the `TandemError` of the refusal's code."""
'''
_GATE_CLASS = '''

class GateOperations(PoolOperations):
    """The operations on gates. Each raises the `TandemError` of the refusal's code."""
'''
_CYCLES = "cycle_requests"
"""The module whose requests are those of cycles."""
_POOLS = "pool_requests"
"""The module whose requests are those of reviewer pools."""
_GATES = "gate_requests"
"""The module whose requests are those of gates."""


def render(registry: Registry) -> dict[str, str]:
    """The modules' whole texts, by file name."""
    keyed = _names(operation.name for operation in registry if "idempotency_key" in operation.request.model_fields)
    repeatable = _names(operation.name for operation in registry if _is_repeatable(operation))
    cycles = [operation for operation in registry if operation.request.__module__.endswith(_CYCLES)]
    pools = [operation for operation in registry if operation.request.__module__.endswith(_POOLS)]
    gates = [operation for operation in registry if operation.request.__module__.endswith(_GATES)]
    reviews = [operation for operation in registry if operation not in (*cycles, *pools, *gates)]
    methods = [
        _HEADER.format(about="reviews and projects", suppressions=_SUPPRESSIONS, imports=_REVIEW_IMPORTS),
        f'KEYED = frozenset({keyed})\n"""Operations that take an idempotency key."""\n',
        f'REPEATABLE = frozenset({repeatable})\n"""Reads, and writes that have one effect also when sent twice."""\n',
        _CLASS,
        *map(_method, reviews),
    ]
    cycle_methods = [
        _HEADER.format(about="hand-off cycles", suppressions="", imports=_CYCLE_IMPORTS).rstrip() + "\n",
        _CYCLE_CLASS,
        *map(_method, cycles),
    ]
    pool_methods = [
        _HEADER.format(about="reviewer pools", suppressions=_MANY, imports=_POOL_IMPORTS).rstrip() + "\n",
        _POOL_CLASS,
        *map(_method, pools),
    ]
    gate_methods = [
        _HEADER.format(about="gates", suppressions=_MANY, imports=_GATE_IMPORTS).rstrip() + "\n",
        _GATE_CLASS,
        *map(_method, gates),
    ]
    table = [_TABLE, *(_description(operation) for operation in registry), "}\n"]
    return {
        "methods.py": "".join(methods),
        "cycle_methods.py": "".join(cycle_methods),
        "pool_methods.py": "".join(pool_methods),
        "gate_methods.py": "".join(gate_methods),
        "table.py": "".join(table),
    }


def main(arguments: list[str]) -> int:
    """Write the modules, or compare them with the registry; 0 when they are (now) current."""
    status = 0
    for name, text in render(REGISTRY).items():
        file = FOLDER / name
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8", newline="\n")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{name} is not current; run: python -m tandem.client.generate\n")
            status = 1
    return status


def _is_repeatable(operation: Operation) -> bool:
    hints = operation.hints
    return hints.read_only or hints.idempotent or "idempotency_key" in operation.request.model_fields


def _names(names: Iterator[str]) -> str:
    return "{\n" + _wrapped([f'"{name}"' for name in sorted(names)], indent=4) + "\n}"


def _description(operation: Operation) -> str:
    facts = [f'"{operation.name}"', f'"{operation.noun}"', f'"{operation.verb}"']
    facts += [_qualified(operation.request), _qualified(operation.answer)]
    facts.append(f"blocking={operation.blocking}")
    return f'    "{operation.name}": Described({", ".join(facts)}),\n'


def _wrapped(items: list[str], *, indent: int) -> str:
    margin = " " * indent
    return textwrap.fill(", ".join(items) + ",", 118, initial_indent=margin, subsequent_indent=margin)


def _method(operation: Operation) -> str:
    fields = operation.request.model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    optional = [name for name in fields if name not in required]
    positional = ["review_id"] if "review_id" in required else []
    keywords = [name for name in (*required, *optional) if name not in positional]
    lines = [f"\n    async def {operation.name}("]
    parameters = ["self", *(_parameter(name, fields[name]) for name in positional)]
    if keywords:
        parameters += ["*", *(_parameter(name, fields[name]) for name in keywords)]
        lines += [f"        {parameter}," for parameter in parameters]
        lines.append(f"    ) -> {_answer(operation)}:")
    else:
        lines[0] += f"{', '.join(parameters)}) -> {_answer(operation)}:"
    lines += [f'        """{operation.description}"""', *_call(operation, [*positional, *keywords])]
    return "\n".join(lines) + "\n"


def _call(operation: Operation, names: list[str]) -> list[str]:
    if not names:
        return [f'        return await self._operate("{operation.name}", {{}}, {_answer(operation)})']
    return [
        "        arguments: dict[str, Any] = {",
        _wrapped([f'"{name}":\u00a0{name}' for name in names], indent=12).replace("\u00a0", " "),
        "        }",
        f'        return await self._operate("{operation.name}", arguments, {_answer(operation)})',
    ]


def _answer(operation: Operation) -> str:
    return "dict[str, Any]" if operation.answer is dict else _qualified(operation.answer)


def _qualified(model: type[Any]) -> str:
    """A type as the generated modules name it: by the module that has it, or alone if it is built in."""
    module = model.__module__.rpartition(".")[2]
    return model.__name__ if module == "builtins" else f"{module}.{model.__name__}"


def _parameter(name: str, field: FieldInfo) -> str:
    text = f"{name}: {type_text(field.annotation)}"
    if field.is_required():
        return text
    if field.default_factory is not None:
        return f"{text} | None = None"
    default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
    return f"{text} = {default}"


def type_text(annotation: Any) -> str:
    """A field's type as it is written in an annotation, without its constraints."""
    arguments = get_args(annotation)
    match get_origin(annotation):
        case None:
            text = _plain_type_text(annotation)
        case origin if origin is Annotated:
            text = type_text(arguments[0])
        case origin if origin in {Union, types.UnionType}:
            text = " | ".join(type_text(argument) for argument in arguments)
        case origin if origin is Literal:
            text = "Literal[" + ", ".join(f'"{argument}"' for argument in arguments) + "]"
        case origin:
            text = f"{origin.__name__}[{', '.join(type_text(argument) for argument in arguments)}]"
    return text


def _plain_type_text(annotation: Any) -> str:
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _qualified(annotation)
    return "Any" if annotation is Any else str(annotation.__name__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
