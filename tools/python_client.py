"""Writes what clients know of the operations, from the registry: methods, and tables of what each is and shows.

python tools/python_client.py            write the modules
python tools/python_client.py --check    exit status 1 if one is not current
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import shapes
from tandem.contract.operation import Operation, Registry
from tandem.server.catalogue import REGISTRY

FOLDER = Path(__file__).resolve().parent.parent / "src" / "tandem"

_HEADER: Final = '''"""{about}. Written by `make docs`; edits here are lost."""

# ruff: noqa: {suppressed}
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

'''
_METHODS: Final = '''\
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
{imports}

class Operations(ABC):
    """Every operation of the broker. Each raises the `TandemError` of the refusal's code."""

    @abstractmethod
    async def _operate(self, operation: str, given: Mapping[str, Any]) -> Any:
        """Send one operation and read its answer, of the type that it has.

        Args:
            operation: Its name.
            given: The variables of its method: the request's fields, of which those with their default are left out.
        """
        ...
'''
_TABLE: Final = """\
from tandem.bridge.described import Described

OPERATIONS: dict[str, Described] = {
"""


def render(registry: Registry) -> dict[str, str]:
    """The modules' whole texts, by file name."""
    return {
        "client/methods.py": _methods(registry),
        "bridge/operations.py": _table(registry),
        "present/shapes.py": _shapes(registry),
    }


def main(arguments: list[str]) -> int:
    """Write the modules, or compare them with the registry; 0 when they are (now) current."""
    status = 0
    for name, text in render(REGISTRY).items():
        file = FOLDER / name
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8", newline="\n")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"src/tandem/{name} is not current; run: make docs\n")
            status = 1
    return status


# ---------------------------------------------------------------------------------------------- table


def _table(registry: Registry) -> str:
    header = _HEADER.format(about="What each operation is", suppressed="E501 - a line each.")
    return header + _TABLE + "".join(map(_described, registry)) + "}\n"


def _described(operation: Operation) -> str:
    answer = operation.answer
    texts = [
        operation.name,
        operation.noun,
        operation.verb,
        f"{operation.request.__module__}.{_name(operation.request)}",
    ]
    texts += ["dict" if answer is dict else f"{answer.__module__}.{_name(answer)}", operation.description]
    is_keyed = "idempotency_key" in operation.request.model_fields
    is_repeatable = is_keyed or operation.hints.read_only or operation.hints.idempotent
    facts = [f'"{text}"' for text in texts]
    has_project = "project" in operation.request.model_fields
    facts += [f"keyed={is_keyed}", f"repeatable={is_repeatable}", f"has_project={has_project}"]
    return f'    "{operation.name}": Described({", ".join(facts)}),\n'


def _shapes(registry: Registry) -> str:
    header = _HEADER.format(about="How people see the fields of every answer", suppressed="E501 - a line each.")
    return header + shapes.render(registry)


# -------------------------------------------------------------------------------------------- methods


def _methods(registry: Registry) -> str:
    about = "The operations of the broker as methods"
    suppressed = "A002, E501, PLR0913 - a method has the fields of its request, by the contract's names."
    modules: set[str] = set()
    body = "".join(_method(operation, modules) for operation in registry)
    imports = "".join(f"    import {module} as {_alias(module)}\n" for module in sorted(modules))
    return _HEADER.format(about=about, suppressed=suppressed) + _METHODS.format(imports=imports) + body


def _alias(module: str) -> str:
    return module.removeprefix("tandem.").replace(".", "_")


def _method(operation: Operation, modules: set[str]) -> str:
    fields = operation.request.model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    positional = ["review_id"] if "review_id" in required else []
    keywords = [
        name for name in (*required, *(name for name in fields if name not in required)) if name not in positional
    ]
    parameters = ["self", *positional, *(["*"] if keywords else []), *keywords]
    lines = [f"        {_parameter(name, fields.get(name), modules)}," for name in parameters]
    signature = "(\n" + "\n".join(lines) + "\n    )" if len(parameters) > 1 else "(self)"
    answer = "dict[str, Any]" if operation.answer is dict else _qualified(operation.answer, modules)
    return f'''
    async def {operation.name}{signature} -> {answer}:
        """{operation.description}"""
        return await self._operate("{operation.name}", locals())
'''


def _parameter(name: str, field: FieldInfo | None, modules: set[str]) -> str:
    if field is None:
        return name
    text = f"{name}: {_type_text(field.annotation, modules)}"
    if field.is_required():
        return text
    if field.default_factory is not None:
        return f"{text} | None = None"
    default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
    return f"{text} = {default}"


def _type_text(annotation: Any, modules: set[str]) -> str:
    """A field's type as it is written in an annotation, without its constraints."""

    def inner() -> Iterator[str]:
        return (_type_text(argument, modules) for argument in get_args(annotation))

    match get_origin(annotation):
        case None:
            text = _plain_type_text(annotation, modules)
        case origin if origin is Annotated:
            text = _type_text(get_args(annotation)[0], modules)
        case origin if origin in {Union, types.UnionType}:
            text = " | ".join(inner())
        case origin if origin is Literal:
            text = "Literal[" + ", ".join(f'"{argument}"' for argument in get_args(annotation)) + "]"
        case origin:
            text = f"{_name(origin)}[{', '.join(inner())}]"
    return text


def _plain_type_text(annotation: Any, modules: set[str]) -> str:
    if annotation is type(None):
        return "None"
    kind: type[Any] | None = annotation if isinstance(annotation, type) else None
    if kind is not None and (issubclass(kind, BaseModel) or is_dataclass(kind)):
        return _qualified(kind, modules)
    return "Any" if annotation is Any else _name(annotation)


def _qualified(model: type[Any], modules: set[str]) -> str:
    """A type by the module that has it, which is noted as one to import."""
    modules.add(model.__module__)
    return f"{_alias(model.__module__)}.{_name(model)}"


def _name(kind: Any) -> str:
    return str(kind.__name__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
