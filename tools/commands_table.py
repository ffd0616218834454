"""Writes what every command takes, from the operations' requests and the signatures of the commands' functions.

python tools/commands_table.py            write the module
python tools/commands_table.py --check    exit status 1 if it is not current
"""

from __future__ import annotations

import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from annotated_types import MaxLen
from pydantic.fields import FieldInfo
from rich.markup import escape

from tandem.bridge.credentials import LOCK_VARIABLE, SESSION_VARIABLE
from tandem.cli.connection_options import COMMON_PANEL, PROJECT_HELP, ConnectionOptions, TimeoutOption, WaitOption
from tandem.cli.declared import ARGUMENT_SUFFIX, Argument, Command, Option, Parameter
from tandem.cli.terminal import in_commands
from tandem.cli.tree import OPERATION, OPERATIONS, SUBGROUPS, TREE, Noun
from tandem.contract.operation import Operation
from tandem.contract.request import StatusName
from tandem.reviews.rules import Category, Priority, Side
from tandem.server.catalogue import REGISTRY

FILE = Path(__file__).resolve().parent.parent / "src" / "tandem" / "cli" / "table.py"
FOR_PROGRAMS = frozenset(
    {
        "create_login",
        "create_review",
        "draft_counter_patch",
        "get_base_files",
        "get_discussion",
        "get_gate",
        "get_project_settings",
        "get_reviewer_log",
        "get_round_file",
        "list_commits",
        "mark_viewed",
        "override_gate",
        "record_commit",
        "record_rollback",
        "renew_claim",
        "report_check",
        "report_landing",
        "report_outcome",
        "set_gate",
        "supervisor_heartbeat",
        "supervisor_register",
        "waive_requirement",
    }
)
"""Operations whose commands hooks, pools and scripts call; people have others for the same. No help lists them."""
_HEADER = '''"""What every command takes. Written by `make docs`; edits here are lost."""

# ruff: noqa: E501 - a line each, with the texts of the declarations.
# It is compared with the declarations byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from tandem.cli.declared import Command, Parameter

COMMANDS: dict[str, Command] = {
'''
_NOTES = {
    "text": "Text, @FILE or - for standard input; @@ for a leading @.",
    "json": "JSON, @FILE or - for standard input.",
}
_TYPED_LENGTH = 4_000
_WAIT_FIELDS = frozenset({"wait", "timeout_s"})
_POSITIONAL = frozenset(
    {"answer", "counter_patch_id", "finding_id", "name", "feature", "role", "target", "token_id", "webhook_id"}
)
"""May be given without their names where they are required."""
_ALWAYS_POSITIONAL = frozenset({"review_id", "cycle_id"})
_COMMON_FIELDS = frozenset({"project", "idempotency_key"})
_VARIABLES = {"agent_type": "TANDEM_AGENT", "session_token": SESSION_VARIABLE, "lock_token": LOCK_VARIABLE}
_COMPLETIONS = {
    "review_id": "review",
    "parent_id": "review",
    "project": "project",
    "cycle_id": "cycle",
    "workflow": "workflow",
    "role": "role",
    "target": "role",
}
_ABOUT = {
    "project": PROJECT_HELP,
    "findings": 'Faults: [{"file": "src/a.py", "line": 3, "severity": "minor", "claim": "…"}].',
    "answers": 'What became of earlier findings: [{"finding_id": "fn_8w1x", "answer": "verified"}].',
    "comments": 'Minor findings, as before: [{"file": "src/a.py", "line": 3, "body": "…"}].',
}
"""Where the command line says it better than the request does."""
_KINDS = {int: "whole", float: "number", bool: "flag", Path: "path"}
_DEFAULTS = {name: one.default for name, one in inspect.signature(Parameter).parameters.items()}
_ONLY_NAMED = {"Category": Category, "Priority": Priority, "Side": Side, "StatusName": StatusName}
"""Types that only a command's signature needs."""
_TAKES_THE_REST = frozenset({"commit:commit", "gate_switch:override_gate"})


def main(arguments: list[str]) -> int:
    """Write the module, or compare it with the declarations; 0 when it is (now) current."""
    text = render()
    if "--check" not in arguments:
        FILE.write_text(text, encoding="utf-8", newline="\n")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
        sys.stderr.write("src/tandem/cli/table.py is not current; run: make docs\n")
        return 1
    return 0


def render() -> str:
    """The module's whole text."""
    listed = {path: command for name, noun in TREE.items() for path, command in _commands(name, noun)}
    missing = {f"{one.noun} {one.verb}" for one in REGISTRY} - listed.keys()
    if missing - {"review list"}:
        raise LookupError(f"no group in cli/tree.py has {', '.join(sorted(missing))}")
    for path, command in listed.items():
        taken = Counter(["--help", "-h", *(name for one in command.parameters for name in (*one.names, *one.off))])
        if twice := [name for name, count in taken.items() if count > 1]:
            raise LookupError(f"tandem {path} has {', '.join(twice)} twice: give a field another name")
    return _HEADER + "".join(f"    {_literal(path)}: {_shown(command)},\n" for path, command in listed.items()) + "}\n"


def _commands(words: str, noun: Noun) -> Iterator[tuple[str, Command]]:
    """The commands of a noun, each with its words."""
    own = {one.verb: one for one in REGISTRY if one.noun == words}
    for verb, function in noun.commands.items():
        if verb in SUBGROUPS:
            yield from _commands(f"{words} {verb}", SUBGROUPS[verb])
        elif verb == OPERATIONS:
            for one in own.values():
                if one.verb not in noun.commands:
                    yield f"{words} {one.verb}", _of_operation(one)
        else:
            command = _of_operation(own[verb]) if function == OPERATION else _of_function(function)
            yield f"{words} {verb}".strip(), command


# ------------------------------------------------------------------------------------------ functions


def _of_function(place: str) -> Command:
    """The command of a function, from its signature; a parameter whose type is a class stands for those of that."""
    module, _, name = place.partition(":")
    function = getattr(import_module(f"tandem.cli.{module}"), name)
    left_out: set[str] = {*getattr(function, "without", ())}
    left_out |= {"new"} if "project" in left_out else set()
    parameters: list[Parameter] = []
    groups: dict[str, str] = {}
    for one in _signature(function):
        if isinstance(one.annotation, type):
            kind: Any = one.annotation
            groups[one.name] = f"{kind.__module__}:{kind.__qualname__}"
            fields = [field for field in _signature(kind) if get_origin(field.annotation) is Annotated]
            parameters += [_parameter(field, group=one.name) for field in fields if field.name not in left_out]
        else:
            parameters.append(_parameter(one))
    return Command(
        f"tandem.cli.{place}",
        inspect.cleandoc(function.__doc__ or ""),
        *parameters,
        groups=groups,
        hidden=module == "gate_steps" or place == "broker:forward",
        takes_the_rest=place in _TAKES_THE_REST,
    )


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [*inspect.signature(function, locals=_ONLY_NAMED, eval_str=True).parameters.values()]


def _parameter(one: inspect.Parameter, **facts: Any) -> Parameter:
    hint, *declared = get_args(one.annotation)
    stated = next(found for found in declared if isinstance(found, Argument))
    is_required = one.default is inspect.Parameter.empty
    default = None if is_required else one.default
    facts |= _type_facts(_without_none(hint)) | stated.settings
    name = one.name.replace("_", "-")
    # One that is not off by itself can be switched off.
    is_switch = _without_none(hint) is bool and default is not False
    names = stated.names or (f"--{name}/--no-{name}" if is_switch else f"--{name}",)
    names = names if isinstance(stated, Option) else ()
    off = tuple(name.partition("/")[2] for name in names if "/" in name)
    facts |= {"off": off, "default": str(default) if isinstance(default, Path) else default, "required": is_required}
    return Parameter(one.name, *(name.partition("/")[0] for name in names), **facts)


def _type_facts(hint: Any) -> dict[str, Any]:
    """What a type says of a parameter: its kind, its choices, and whether it may be given several times."""
    if get_origin(hint) is list:
        return _type_facts(get_args(hint)[0]) | {"many": True}
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"choices": tuple(str(one.value) for one in hint)}
    return {"kind": _KINDS.get(cast("Any", hint), "text")}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, types.UnionType}:
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


# ------------------------------------------------------------------------------------------ operations


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request as an option.

    Attributes:
        name: The field's name.
        hint: The type that the parser is given.
        form: How the value is read: as it is, as a long text, or as JSON.
        info: The model's field.
        positional: Whether it may also be given without its name.
        is_caller: Whether it is who calls when it is left out.
    """

    name: str
    hint: Any
    form: Literal["plain", "text", "json"]
    info: FieldInfo
    positional: bool
    is_caller: bool

    @property
    def help(self) -> str:
        """What the help says of it."""
        said = _ABOUT.get(self.name) or self.info.description or ""
        if self.is_caller:
            said += " Default: who calls, see 'tandem me'."
        if self.form != "plain":
            said = f"{said} {_NOTES[self.form]}".strip()
        return escape(in_commands(said))


def _of_operation(operation: Operation) -> Command:
    fields = _fields(operation)
    options = [_option(one) for one in fields]
    arguments = [
        Parameter(
            one.name + ARGUMENT_SUFFIX,
            metavar=one.name.upper(),
            help=one.help,
            shows_default=False,
            completes=_COMPLETIONS.get(one.name),
            **_type_facts(one.hint),
        )
        for one in fields
        if one.positional
    ]
    of_request = operation.request.model_fields
    waits = [_common("wait", WaitOption, default=False), _common("timeout", TimeoutOption)]
    left_out = {"project"} if "project" in of_request else {"project", "new"}
    place = [_parameter(one) for one in _signature(ConnectionOptions) if get_origin(one.annotation) is Annotated]
    return Command(
        operation.name,
        escape(in_commands(operation.description)),
        *arguments,
        *options,
        *(waits if "wait" in of_request else ()),
        *(one for one in place if one.name not in left_out),
        hidden=operation.name in FOR_PROGRAMS,
    )


def _common(name: str, annotation: Any, default: Any = None) -> Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return _parameter(inspect.Parameter(name, kind, default=default, annotation=annotation))


def _fields(operation: Operation) -> list[Field]:
    """The fields of an operation's request: those that are required first, those that all have last."""
    callers = {"person", getattr(operation.request, "actor_field", None)} & {"person", "reviewer_id"}
    fields: list[Field] = []
    for name, info in operation.request.model_fields.items():
        if name in _WAIT_FIELDS:
            continue
        hint, is_long = _plain_type(info.annotation, list(info.metadata))
        one = get_args(hint)[0] if get_origin(hint) is list else hint
        is_word = get_origin(one) is Literal or (isinstance(one, type) and issubclass(one, str | int | float | Enum))
        form = "json" if not is_word else "text" if hint is str and is_long else "plain"
        # Naming a review while creating one means to revise it: too much to say without a name.
        may_lead = is_word and operation.name != "create_review"
        leads = may_lead and (name in _ALWAYS_POSITIONAL or (info.is_required() and name in _POSITIONAL))
        fields.append(Field(name, hint if is_word else str, form, info, leads, name in callers))
    return sorted(fields, key=lambda field: (field.name in _COMMON_FIELDS, not field.info.is_required()))


def _plain_type(annotation: Any, metadata: list[Any]) -> tuple[Any, bool]:
    """A field's type without constraints and None, and whether it is a text that may be too long to type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain_type(arguments[0], [*metadata, *_spread(arguments[1:])])
    if origin in {Union, types.UnionType}:
        return _plain_type(_without_none(annotation), metadata)
    if origin is list:
        item, _ = _plain_type(arguments[0], [])
        return list[item], False
    return annotation, not any(isinstance(fact, MaxLen) and fact.max_length <= _TYPED_LENGTH for fact in metadata)


def _spread(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for fact in metadata:
        yield from fact.metadata if isinstance(fact, FieldInfo) else (fact,)


def _option(field: Field) -> Parameter:
    option = "--" + field.name.replace("_", "-")
    is_required = field.info.is_required()
    is_open = is_required or field.info.default is None
    has_no_default = is_required or field.info.default_factory is not None
    default = "cli" if field.name == "agent_type" else None if has_no_default else field.info.default
    metavar = {"json": "JSON", "text": "TEXT"}.get(field.form, "ID" if field.name.endswith("_id") else None)
    return Parameter(
        field.name,
        option,
        off=(f"--no-{option[2:]}",) if is_open and field.hint is bool else (),
        required=is_required and field.name != "agent_type" and not field.positional and not field.is_caller,
        default=str(default.value) if isinstance(default, Enum) else default,
        variable=_VARIABLES.get(field.name),
        help=field.help,
        metavar=metavar,
        panel=COMMON_PANEL if field.name in _COMMON_FIELDS else None,
        # Its twin without a name is shown.
        hidden=field.positional,
        completes=_COMPLETIONS.get(field.name),
        form=field.form,
        needed=is_required,
        is_caller=field.is_caller,
        **_type_facts(field.hint),
    )


# ---------------------------------------------------------------------------------------------- text


def _shown(command: Command) -> str:
    parameters = "".join(f"\n        {_shown_parameter(one)}," for one in command.parameters)
    facts = {"groups": command.groups, "hidden": command.hidden, "takes_the_rest": command.takes_the_rest}
    more = "".join(f"\n        {name}={_literal(value)}," for name, value in facts.items() if value)
    return f"Command(\n        {_literal(command.function)}, {_literal(command.about)},{parameters}{more}\n    )"


def _shown_parameter(one: Parameter) -> str:
    stated = {name: getattr(one, name) for name in _DEFAULTS if name not in {"name", "names"}}
    facts = [f"{name}={_literal(value)}" for name, value in stated.items() if value != _DEFAULTS[name]]
    return f"Parameter({', '.join([*map(_literal, (one.name, *one.names)), *facts])})"


def _literal(value: Any) -> str:
    """A value as the formatter would write it."""
    if isinstance(value, tuple):
        items = [*map(_literal, cast("tuple[Any, ...]", value))]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return f"{{{', '.join(f'{_literal(name)}: {_literal(one)}' for name, one in pairs)}}}"
    if not isinstance(value, str):
        return repr(value)
    quoted = repr(value)
    # As little is escaped as can be.
    return quoted if quoted.startswith('"') or '"' in value else f'"{quoted[1:-1]}"'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
