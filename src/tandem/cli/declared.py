"""What commands take, as they declare it and as `cli.table` has it: the parser, the help and the refusals read it.

Standard library only: the commands that agents run all day have answered before Typer is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than a command line to parse
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    Kind = Literal["text", "whole", "number", "flag", "path"]
    Form = Literal["plain", "text", "json"]

ARGUMENT_SUFFIX = "_argument"
"""Ends the name of a parameter that gives an option's value by its place."""


class Misused(Exception):
    """A command was called wrongly.

    Attributes:
        message: The mistake.
        option: The option or argument that it is about.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.message, self.option = message, option


class Argument:
    """Declares that a command's parameter is given by its place; stands in the parameter's annotation.

    Attributes:
        names: The option's names; without any, that of its parameter, and of a flag that is not off by itself `--no-`
            and that. None for an argument.
        settings: Attributes of its `Parameter`.
    """

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names, self.settings = names, settings


class Option(Argument):
    """Declares that a command's parameter is an option."""


def without(*names: str) -> Callable[[F], F]:
    """A command that leaves out these fields of the dataclasses that its parameters are."""

    def marked(function: F) -> F:
        function.__dict__["without"] = names
        return function

    return marked


class Parameter:
    """One option or argument of a command.

    Attributes:
        name: What the command's function calls it.
        names: The option's names; none for an argument.
        off: The names that switch a flag off.
        kind: What its values are read as.
        choices: The only texts that it takes; any where there are none.
        many: Whether it may be given several times.
        required: Whether the parser refuses a command without it.
        default: Its value where it is not given.
        min: The least number that it takes.
        variable: The environment variable that it is read from where it is not given.
        group: The dataclass among the function's parameters of which this is a field.
        help: Its line in the help.
        metavar: The placeholder of its value in the help.
        panel: The heading in the help; the first one where there is none.
        hidden: Whether no help lists it.
        completes: What the shell offers for it, a name in `cli.completion`.
        shows_default: Whether its line in the help has the default.
        form: How an operation's field is read: as it is, as a long text, or as JSON.
        needed: Whether an operation's field has to be given, by its name or by its place.
        is_caller: Whether an operation's field is the name of who calls where it is not given.
        valued: Of an argument that takes another program's options: those of them whose value is the next word.
    """

    def __init__(  # noqa: PLR0913 a fact each
        self,
        name: str,
        *names: str,
        off: tuple[str, ...] = (),
        kind: Kind = "text",
        choices: tuple[str, ...] = (),
        many: bool = False,
        required: bool = False,
        default: Any = None,
        min: float | None = None,  # noqa: A002 as Typer has it
        variable: str | None = None,
        group: str | None = None,
        help: str | None = None,  # noqa: A002 as Typer has it
        metavar: str | None = None,
        panel: str | None = None,
        hidden: bool = False,
        completes: str | None = None,
        shows_default: bool = True,
        form: Form = "plain",
        needed: bool = False,
        is_caller: bool = False,
        valued: tuple[str, ...] = (),
    ) -> None:
        self.name, self.names, self.off = name, names, off
        self.kind, self.choices, self.many = kind, choices, many
        self.required, self.default, self.min, self.variable = required, default, min, variable
        self.group, self.help, self.metavar, self.panel = group, help, metavar, panel
        self.hidden, self.completes, self.shows_default = hidden, completes, shows_default
        self.form, self.needed, self.is_caller, self.valued = form, needed, is_caller, valued

    @property
    def option(self) -> str:
        """The name that messages call it by; of an argument its placeholder in the help."""
        return self.names[-1] if self.names else self.metavar or self.name.upper()


class Command:
    """One command, without its words.

    Attributes:
        function: Its function, as `module:function`; the name of its operation, if it has no function of its own.
        about: Its help.
        parameters: In the order of the help.
        groups: The dataclasses among the function's parameters, as `module:class` by the parameters' names.
        hidden: Whether no help lists it.
        takes_the_rest: Whether all words from the first argument on are that argument's, options or not.
    """

    def __init__(
        self,
        function: str,
        about: str,
        *parameters: Parameter,
        groups: dict[str, str] | None = None,
        hidden: bool = False,
        takes_the_rest: bool = False,
    ) -> None:
        self.function, self.about, self.parameters = function, about, parameters
        self.groups, self.hidden, self.takes_the_rest = groups or {}, hidden, takes_the_rest
