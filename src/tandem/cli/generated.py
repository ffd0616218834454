"""Commands made from the registry: `tandem <noun> <verb>` with an option for each field of the request."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import MaxLen
from pydantic.fields import FieldInfo
from rich.markup import escape
from typer.main import get_group

from tandem.bridge.described import Described
from tandem.bridge.keys import LOCK_VARIABLE, SESSION_VARIABLE
from tandem.bridge.operations import OPERATIONS
from tandem.cli import identity
from tandem.cli.calls import WaitPolicy, call, given
from tandem.cli.commands import CommandGroup, Work, add, add_lazily, imported, options_of, run
from tandem.cli.completion import (
    Offers,
    complete_cycle,
    complete_project,
    complete_review,
    complete_role,
    complete_workflow,
)
from tandem.cli.connection_options import (
    COMMON_PANEL,
    PROJECT_HELP,
    ConnectionOptions,
    TimeoutOption,
    WaitOption,
    one_of,
)
from tandem.cli.sources import Inputs, note
from tandem.cli.wording import ARGUMENT_SUFFIX

FOR_PROGRAMS = frozenset(
    {
        "check_counter_patch",
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
        "list_viewed",
        "mark_viewed",
        "override_gate",
        "record_commit",
        "record_rollback",
        "renew_claim",
        "report_check",
        "report_outcome",
        "set_gate",
        "supervisor_heartbeat",
        "supervisor_register",
    }
)
"""Operations whose commands hooks, pools and scripts call; people have others for the same. No help lists them."""
_WAIT_FIELDS = frozenset({"wait", "timeout_s"})
_POSITIONAL = frozenset({"counter_patch_id", "name", "feature", "role", "target", "token_id", "webhook_id"})
"""May be given without their names where they are required."""
_TYPED_LENGTH = 4_000
_ALWAYS_POSITIONAL = frozenset({"review_id", "cycle_id"})
_COMMON_FIELDS = frozenset({"project", "idempotency_key"})
_DEFAULT_AGENT_TYPE = "cli"

_VARIABLES = {"agent_type": "TANDEM_AGENT", "session_token": SESSION_VARIABLE, "lock_token": LOCK_VARIABLE}
_COMPLETIONS: dict[str, Callable[[str], Offers]] = {
    "review_id": complete_review,
    "parent_id": complete_review,
    "project": complete_project,
    "cycle_id": complete_cycle,
    "workflow": complete_workflow,
    "role": complete_role,
    "target": complete_role,
}
_ABOUT = {
    "project": PROJECT_HELP,
    "comments": 'Remarks on lines: [{"file": "src/a.py", "line": 3, "body": "…"}].',
}
"""Where the command line says it better than the request does."""
_GROUPS = {
    "checks": "What is run on a change before it is reviewed: how it ended, and its logs.",
    "commit": "Records of commits and rollbacks.",
    "inbox": "What waits for you, what waits for others, and problems.",
    "handoff": "What one role hands over to the next.",
    "lock": "The lock of the role whose turn it is.",
    "supervisor": "Operations for programs that run a reviewer pool.",
}
"""Groups with nothing but operations."""
_PROJECT_COMMANDS = {
    "add": "Register a folder as a project, or a repository's URL, or the name of one that other machines have.",
    "move": "Keep a project whose repository was moved: the broker learns its new folder, gate and hooks follow.",
}


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
    is_caller: bool = False

    @property
    def option(self) -> str:
        """The option, as it is typed."""
        return "--" + self.name.replace("_", "-")

    def read(self, value: Any, inputs: Inputs) -> Any:
        """The value for the request."""
        match self.form:
            case "text":
                return inputs.text(self.option, value)
            case "json":
                return inputs.json(self.option, value)
            case _:
                return value


def new_group(noun: str, about: str, *, without: Container[str] = ()) -> typer.Typer:
    """A group with a command for each operation of its noun, but for the verbs that have commands of their own."""
    group = typer.Typer(cls=CommandGroup, help=about, no_args_is_help=True)
    add_operations(group, noun, without=without)
    return group


def add_operations(group: typer.Typer, noun: str, *, without: Container[str] = ()) -> None:
    """Add the commands of a noun's operations."""
    for operation in OPERATIONS.values():
        if operation.noun == noun and operation.verb not in without:
            add_operation(group, operation)


def add_operation(app: typer.Typer, operation: Described) -> None:
    """Add the command of an operation to the group of its noun."""
    # To build the models of all requests takes longer than most calls.
    add_lazily(
        app,
        operation.verb,
        escape(operation.description),
        lambda: _made(operation),
        hidden=operation.name in FOR_PROGRAMS,
    )


def _made(operation: Described) -> Any:
    """The command of an operation."""
    fields = [field for field in fields_of(operation) if field.name not in _WAIT_FIELDS]
    parameters = list(_parameters(operation, fields))

    def command(**values: Any) -> None:
        stated = {name: values.pop(name) for name in ("broker", "agent", "as_json")}
        options = ConnectionOptions(project=values.get("project"), new=values.pop("new", False), **stated)
        patience = WaitPolicy(values.pop("wait", False), values.pop("timeout", None))
        arguments = dict(_arguments(fields, values))

        def work() -> Work:
            return call(operation, arguments | _caller(operation, arguments, options), options, patience)

        run(work, as_json=options.as_json, parameters=parameters)

    # Typer reads a command's parameters from its signature.
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    group = typer.Typer(rich_markup_mode="rich")
    add(group, f"{operation.noun} {operation.verb}", command, help=escape(operation.description))
    return get_group(group).commands[operation.verb]


def fields_of(operation: Described) -> list[Field]:
    """The fields of an operation's request: those that are required first, those that all have last."""
    # Naming a review while creating one means to revise it: too much to say without a name.
    named = operation.name == "create_review"
    callers = {"person", getattr(operation.request, "actor_field", None)} & {"person", "reviewer_id"}
    fields = [
        replace(_field(name, info, named=named), is_caller=name in callers)
        for name, info in operation.request.model_fields.items()
    ]
    return sorted(fields, key=lambda field: (field.name in _COMMON_FIELDS, not field.info.is_required()))


def _field(name: str, info: FieldInfo, *, named: bool) -> Field:
    hint, is_long = _plain_type(info.annotation, list(info.metadata))
    one = get_args(hint)[0] if get_origin(hint) is list else hint
    is_word = get_origin(one) is Literal or (isinstance(one, type) and issubclass(one, str | int | float | Enum))
    positional = not named and (name in _ALWAYS_POSITIONAL or (info.is_required() and name in _POSITIONAL))
    if not is_word:
        return Field(name, str, "json", info, positional=False)
    if hint is str and is_long:
        return Field(name, str, "text", info, positional)
    return Field(name, hint, "plain", info, positional)


def _plain_type(annotation: Any, metadata: list[Any]) -> tuple[Any, bool]:
    """A field's type without constraints and null, and whether it is a text that may be too long to type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain_type(arguments[0], [*metadata, *_spread(arguments[1:])])
    if origin in {Union, types.UnionType}:
        given = [argument for argument in arguments if argument is not type(None)]
        return _plain_type(given[0], metadata)
    if origin is list:
        item, _ = _plain_type(arguments[0], [])
        return list[item], False
    return annotation, not any(isinstance(fact, MaxLen) and fact.max_length <= _TYPED_LENGTH for fact in metadata)


def _spread(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for fact in metadata:
        yield from fact.metadata if isinstance(fact, FieldInfo) else (fact,)


def _parameters(operation: Described, fields: list[Field]) -> Iterator[inspect.Parameter]:
    for field in fields:
        if field.positional:
            argument = typer.Argument(
                metavar=field.name.upper(),
                help=_help(field),
                show_default=False,
                autocompletion=_COMPLETIONS.get(field.name),
            )
            yield _parameter(field.name + ARGUMENT_SUFFIX, Annotated[field.hint | None, argument], None)
    for field in fields:
        yield _option(field)
    if "wait" in operation.request.model_fields:
        yield _parameter("wait", WaitOption, default=False)
        yield _parameter("timeout", TimeoutOption, None)
    left_out = {"project"} if "project" in operation.request.model_fields else {"project", "new"}
    yield from (one for one in options_of(ConnectionOptions) if one.name not in left_out)


def _option(field: Field) -> inspect.Parameter:
    is_open = field.info.is_required() or field.info.default is None
    flags = f"{field.option}/--no-{field.option[2:]}" if is_open and field.hint is bool else None
    option = typer.Option(
        flags or field.option,
        help=_help(field),
        metavar=_metavar(field),
        envvar=_VARIABLES.get(field.name),
        autocompletion=_COMPLETIONS.get(field.name),
        # Its twin without a name is shown.
        hidden=field.positional,
        rich_help_panel=COMMON_PANEL if field.name in _COMMON_FIELDS else None,
    )
    if field.name == "agent_type":
        return _parameter(field.name, Annotated[str, option], _DEFAULT_AGENT_TYPE)
    if field.info.is_required() and not field.positional and not field.is_caller:
        return _parameter(field.name, Annotated[field.hint, option], inspect.Parameter.empty)
    made = field.info.is_required() or field.info.default_factory is not None
    default = None if made else field.info.default
    return _parameter(field.name, Annotated[field.hint if default is not None else field.hint | None, option], default)


def _metavar(field: Field) -> str | None:
    if field.form == "json":
        return "JSON"
    if field.form == "text":
        return "TEXT"
    return "ID" if field.name.endswith("_id") else None


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _help(field: Field) -> str:
    said = _ABOUT.get(field.name) or field.info.description or ""
    if field.is_caller:
        said += " Default: who calls, see 'tandem me'."
    if field.form != "plain":
        said = f"{said} {note(is_json=field.form == 'json')}".strip()
    return escape(said)


def _arguments(fields: list[Field], values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    inputs = Inputs()
    for field in fields:
        value = _chosen(field, values)
        if value is not None:
            yield field.name, field.read(value, inputs)


def _caller(operation: Described, arguments: dict[str, Any], options: ConnectionOptions) -> dict[str, Any]:
    """The name of who calls, where the request has a field for it that was left out.

    Raises:
        InvalidInput: It is needed, and nobody said it.
    """
    field = next((one for one in fields_of(operation) if one.is_caller and one.name not in arguments), None)
    if field is None:
        return {}
    if field.info.is_required():
        return {field.name: identity.required_caller(options.agent)}
    # A claim's number says whose it is, and a proposer has no claim.
    is_reviewer = field.name == "reviewer_id" and arguments.get("sender_role", "reviewer") == "reviewer"
    left_out = not is_reviewer or "claim_generation" in arguments
    return {} if left_out else given(reviewer_id=identity.caller(options.agent).name)


def _chosen(field: Field, values: dict[str, Any]) -> Any:
    """A field's value, given by its name or by its place."""
    value = one_of(values.get(field.name + ARGUMENT_SUFFIX), values.get(field.name), field.option)
    if value is None and field.info.is_required() and not field.is_caller:
        raise typer.BadParameter(f"Missing {field.name.upper()}.", param_hint=field.option)
    return value


def register(app: typer.Typer) -> None:
    """Add the groups."""
    for name, about in _GROUPS.items():
        app.add_typer(new_group(name, about), name=name)
    project = typer.Typer(cls=CommandGroup, help="Registered projects and their folders.", no_args_is_help=True)
    for name, about in _PROJECT_COMMANDS.items():
        add_lazily(project, name, about, partial(imported, "tandem.cli.project", name))
    add_operations(project, "project", without=("add",))
    app.add_typer(project, name="project")
