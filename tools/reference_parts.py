"""What the reference pages are made of: Markdown, words below members, and fields of requests and answers."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import TypeAdapter

from tandem.contract.operation import ALL, MCP_ROLES, Operation
from tandem.contract.request import Check
from tandem.cycles.requests import HandoffWrite

Schema = dict[str, Any]
Member = TypeVar("Member", bound=Enum)

_GENERATED: Final = "<!-- Written by `make docs` from the source; edits here are lost. -->"
_PAGES: Final = Environment(  # noqa: S701 - Markdown, and all of it is ours
    loader=FileSystemLoader(Path(__file__).with_name("pages")), undefined=StrictUndefined
)
_RANGES: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
_WIDEST: Final = 2**31
"""A limit as large as a database's integer says nothing to a reader."""
_LINKS: Final = {
    "approval mode": "cycles.md#approval-mode",
    "draining": "reviewer-pool.md#draining",
    "exit statuses": "reviewer-pool.md#exit-statuses",
    "its keys": "cycles.md#a-workflow",
    "outcomes": "reviewer-pool.md#outcomes",
    "states": "reviewer-pool.md#states",
    "the kinds": "events.md",
    "the life cycle": "life-cycle.md",
    "the pool's settings": "reviewer-pool.md#settings",
    "the payload": "cycles.md#the-payload",
}
"""Where `see …` in a description leads on the pages; elsewhere it stays plain text."""
_SEE: Final = re.compile(rf"\bsee ({'|'.join(_LINKS)})\b")


# ------------------------------------------------------------------------------------------- Markdown


def page(title: str, *parts: str) -> str:
    """A whole page: the remark that it is generated, its title, its paragraphs, tables and headings."""
    return "\n\n".join([_GENERATED, f"# {title}", *(part.strip("\n") for part in parts)]) + "\n"


def rendered(name: str, **facts: Any) -> str:
    """A page whose words stand in `pages`, with the tables and numbers that come from the source."""
    return f"{_GENERATED}\n\n{_PAGES.get_template(name).render(facts)}\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; a cell may be any text of one paragraph."""
    lines = [list(head)]
    lines += [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(names: Iterable[str]) -> str:
    """Names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def spaced(number: int) -> str:
    """A whole number with its digits in groups of three."""
    return f"{number:,}".replace(",", " ")


def shown_default(value: Any) -> str:
    """A setting's default as a cell; nothing for None and for an empty list."""
    match value:
        case None | [] | ():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case float() if value.is_integer():
            return f"`{int(value)}`"
        case _:
            return f"`{value}`"


def linked(text: str) -> str:
    """A description with links for its `see …`."""
    return _SEE.sub(lambda found: f"see [{found[1]}]({_LINKS[found[1]]})", text)


# ------------------------------------------------------------------------------------------- docstrings


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


def paragraphs(kind: type) -> tuple[str, str]:
    """A docstring's first paragraph and the rest, each in one line."""
    meaning, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
    return " ".join(meaning.split()), " ".join(rest.split())


# ---------------------------------------------------------------------------------------------- fields


class Undocumented(Exception):
    """Something of the contract is not described.

    Attributes:
        names: What, such as `Tally.closed`.
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass(frozen=True, slots=True)
class Field:
    """One field as its row in a table.

    Attributes:
        name: The field's name.
        type: Its type in words, with links to types on the same page.
        default: Its default as JSON, `required`, or nothing for None.
        limits: What a value must keep to, in words.
        about: Its meaning.
    """

    name: str
    type: str
    default: str
    limits: str
    about: str


def endpoints(operation: Operation) -> list[str]:
    """Where an operation is a tool; empty if it is not offered over MCP."""
    if not operation.listed:
        return []
    common = ["/mcp"] if operation.roles & ALL else []
    return [*common, *(f"/mcp/{role}" for role in MCP_ROLES if role in operation.roles)]


def refusal_codes(operation: Operation) -> list[str]:
    """The codes that an operation refuses with, beside those of any operation."""
    errors = (one.error if isinstance(one, Check) else one for one in operation.request.refusals)
    return list(dict.fromkeys(error.code for error in errors))


def request_fields(operation: Operation) -> tuple[list[Field], dict[str, list[Field]]]:
    """A request's fields, and those of the types inside it by name."""
    return _read(operation.input_schema())


def answer_fields(operation: Operation) -> tuple[list[Field], dict[str, list[Field]]]:
    """An answer's fields, and those of the types inside it by name.

    An answer that is a plain object has the fields of the hand-off's payload, which is the only such answer.
    """
    if operation.answer is dict:
        return _read(HandoffWrite.model_json_schema()["properties"]["payload"])
    return _read(TypeAdapter(operation.answer).json_schema())


def _read(schema: Schema) -> tuple[list[Field], dict[str, list[Field]]]:
    inner: dict[str, Schema] = schema.get("$defs", {})
    own = inner[_referred(schema)] if "$ref" in schema else schema
    types = {name: _fields(one) for name, one in inner.items() if "properties" in one and one is not own}
    return _fields(own), types


def _fields(schema: Schema) -> list[Field]:
    required = set(schema.get("required", ()))
    properties: dict[str, Schema] = schema.get("properties", {})
    return [_field(name, one, required=name in required) for name, one in properties.items()]


def _field(name: str, schema: Schema, *, required: bool) -> Field:
    default = schema.get("default")
    return Field(
        name=name,
        type=type_text(schema),
        default="required" if required else "" if default is None else f"`{_json(default)}`",
        limits=", ".join(limits(schema)),
        about=linked(_description(schema)),
    )


def _description(schema: Schema) -> str:
    """A field's words; those of a type that may also be None stand at the type."""
    own = schema.get("description")
    return (
        str(own) if own else next((one["description"] for one in schema.get("anyOf", ()) if "description" in one), "")
    )


def type_text(schema: Schema) -> str:
    """A type in words: `text`, `one of a, b`, `list of …`."""
    if "anyOf" in schema:
        return " or ".join(type_text(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = _referred(schema)
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{one}`" for one in schema["enum"])
    return _plain_type_text(schema)


def _plain_type_text(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {type_text(schema.get('items', {}))}"
        case "object":
            return _object(schema)
        case "string":
            return "folder" if schema.get("format") == "path" else "text"
        case kind:
            return str(kind or "any value")


def _object(schema: Schema) -> str:
    values = schema.get("additionalProperties")
    return f"object of {type_text(values)}" if isinstance(values, dict) and values else "object"  # pyright: ignore[reportUnknownArgumentType] a JSON schema


def limits(schema: Schema) -> list[str]:
    """What a value must keep to, in words."""
    found: list[str] = []
    for part in (schema, *schema.get("anyOf", ())):
        for least, most, unit in _RANGES:
            found += _range(part.get(least), part.get(most), unit)
        if "exclusiveMinimum" in part and "minimum" not in part:
            found.insert(0, f"more than {part['exclusiveMinimum']}")
        if "pattern" in part:
            found.append(f"matches `{part['pattern']}`")
    return found


def _range(least: float | None, most: float | None, unit: str) -> list[str]:
    if most is not None and most >= _WIDEST:
        most = None
    if least is not None and most is not None:
        return [f"{_number(least)} to {_number(most)}{unit}"]
    if most is not None:
        return [f"at most {_number(most)}{unit}"]
    if least == 1 and unit:
        return ["not empty"]
    return [] if least is None else [f"at least {_number(least)}{unit}"]


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ")


def _json(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def _referred(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def ensure_described(owner: str, fields: list[Field]) -> None:
    """Insist on a description for every field.

    Raises:
        Undocumented: Some have none.
    """
    missing = [f"{owner}.{field.name}" for field in fields if not field.about]
    if missing:
        raise Undocumented(missing)
