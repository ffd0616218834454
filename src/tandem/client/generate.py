"""Writes the client's view of the operations from the registry: modules of methods, and `table.py`.

`python -m tandem.client.generate` writes them; with `--check` it exits with 1 when one is not current.
"""

from __future__ import annotations

import builtins
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tandem.contract.operation import Operation, Registry
from tandem.operations.catalogue import REGISTRY

FOLDER = Path(__file__).parent

_HEADER = '''"""The operations on {about}. Written by `python -m tandem.client.generate`; do not edit."""

{suppressions}\
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

{imports}
'''
_SUPPRESSIONS = "# ruff: noqa: A002, PLR0913, E501 - a method has the fields of its request, by the contract's names.\n"
_FIELDS = "# ruff: noqa: {rules} - a method has the fields of its request.\n"
_WIDTH = 120
_MOST_FIELDS = 8
_REVIEW_IMPORTS = """\
from typing import TYPE_CHECKING, Any, Literal

{base}
if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import answers
    from tandem.operations import requests
"""
_CYCLE_IMPORTS = """\
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import cycle_answers
"""
_IMPORTS = """\
from typing import {typing}

{base}
if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import {answers}
"""
_NAMED_IMPORTS = """\
    from tandem.operations import {requests}
"""
_TABLE = '''"""What each operation is. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: E501 - a line each.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from tandem.client.described import Described

OPERATIONS: dict[str, Described] = {
'''
_CLASS = '''

class {name}({base}):
    """{about}. Each raises the `TandemError` of the refusal's code."""
'''
_OPERATE = '''
    @abstractmethod
    async def _operate(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Send one operation and read its answer, of the type that it has; arguments that are null are left out."""
        ...
'''


@dataclass(frozen=True, slots=True)
class _Group:
    """Operations with a module of their own; each group's class is built on that of the group before.

    Attributes:
        noun: `gate` has its requests in `gate_requests` and its methods in `gate_methods`.
        about: What the operations are on.
    """

    noun: str
    about: str

    @property
    def requests(self) -> str:
        return f"{self.noun}_requests"

    @property
    def name(self) -> str:
        return f"{self.noun.title()}Operations"


_GROUPS = (
    _Group("cycle", "hand-off cycles"),
    _Group("pool", "reviewer pools"),
    _Group("gate", "gates"),
    _Group("inbox", "the inbox, searches and marks"),
    _Group("file", "files, logs and settings"),
    _Group("access", "access tokens and logins"),
)
"""All groups but the last, which has the rest of the operations: reviews and projects."""


def render(registry: Registry) -> dict[str, str]:
    """The modules' whole texts, by file name."""
    modules: dict[str, str] = {}
    rest = list(registry)
    base: _Group | None = None
    for group in _GROUPS:
        members = [operation for operation in rest if _module(operation.request) == group.requests]
        rest = [operation for operation in rest if operation not in members]
        modules[f"{group.noun}_methods.py"] = _methods(group, base, members)
        base = group
    return {"methods.py": _all_methods(registry, base, rest), **modules, "table.py": _table(registry)}


def _all_methods(registry: Registry, base: _Group | None, members: list[Operation]) -> str:
    keyed = _names(operation.name for operation in registry if "idempotency_key" in operation.request.model_fields)
    repeatable = _names(operation.name for operation in registry if _is_repeatable(operation))
    imports = _REVIEW_IMPORTS.format(base=_base_import(base))
    about = "Every operation of the broker"
    parts = [
        _HEADER.format(about="reviews and projects", suppressions=_SUPPRESSIONS, imports=imports),
        f'KEYED = frozenset({keyed})\n"""Operations that take an idempotency key."""\n',
        f'REPEATABLE = frozenset({repeatable})\n"""Reads, and writes that have one effect also when sent twice."""\n',
        _CLASS.format(name="Operations", base=base.name if base else "ABC", about=about),
        *map(_method, members),
    ]
    return "".join(parts)


def _methods(group: _Group, base: _Group | None, members: list[Operation]) -> str:
    body = "".join(map(_method, members))
    if base is None:
        imports, suppressions, above = _CYCLE_IMPORTS, "", "ABC"
        body = _OPERATE + body
    else:
        named = _named(r"\b(\w*requests)\.", body)
        used = [("TYPE_CHECKING", True), ("Any", True), ("Literal", "Literal[" in body)]
        typing = ", ".join(name for name, is_used in used if is_used)
        answers = _named(r"\b(\w*answers)\.", body)
        imports = _IMPORTS.format(base=_base_import(base), answers=answers, typing=typing)
        imports += _NAMED_IMPORTS.format(requests=named) if named else ""
        suppressions, above = _suppressions(members, body), base.name
    header = _HEADER.format(about=group.about, suppressions=suppressions, imports=imports).rstrip() + "\n"
    return header + _CLASS.format(name=group.name, base=above, about=f"The operations on {group.about}") + body


def _suppressions(members: list[Operation], body: str) -> str:
    """What a linter is not to say of methods, whose parameters are not theirs to name or to count."""
    fields = [list(operation.request.model_fields) for operation in members]
    rules = [
        ("A002", any(hasattr(builtins, name) for names in fields for name in names)),
        ("PLR0913", any(len(names) > _MOST_FIELDS for names in fields)),
        ("E501", any(len(line) > _WIDTH for line in body.splitlines())),
    ]
    needed = ", ".join(rule for rule, is_needed in rules if is_needed)
    return _FIELDS.format(rules=needed) if needed else ""


def _base_import(base: _Group | None) -> str:
    return f"from tandem.client.{base.noun}_methods import {base.name}\n" if base else ""


def _named(pattern: str, text: str) -> str:
    """The modules that a text names, as they are imported."""
    return ", ".join(sorted(set(re.findall(pattern, text))))


def _module(model: type[Any]) -> str:
    return model.__module__.rpartition(".")[2]


def _table(registry: Registry) -> str:
    return _TABLE + "".join(map(_description, registry)) + "}\n"


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
    facts += [f'"{_qualified(operation.request)}"', f'"{_qualified(operation.answer)}"', f'"{operation.description}"']
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
        return [f'        return await self._operate("{operation.name}", {{}})']
    return [
        "        arguments: dict[str, Any] = {",
        _wrapped([f'"{name}":\u00a0{name}' for name in names], indent=12).replace("\u00a0", " "),
        "        }",
        f'        return await self._operate("{operation.name}", arguments)',
    ]


def _answer(operation: Operation) -> str:
    return "dict[str, Any]" if operation.answer is dict else _qualified(operation.answer)


def _qualified(model: type[Any]) -> str:
    """A type as the generated modules name it: by the module that has it, or alone if it is built in."""
    module = _module(model)
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
