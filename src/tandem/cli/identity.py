"""`tandem me`: a person's name, said once and kept in their configuration folder; every command uses it."""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tandem.cli.declared import Argument
from tandem.cli.terminal import EnvelopeOption, Exit, tell
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.rulings.person import agent_mark, agent_name

FILE = "person.json"
_VERSION = 1
_LONGEST = 200
"""The longest name that the broker takes, in characters."""


def checked(name: str, option: str = "--as") -> str:
    """A name as it may be used.

    Raises:
        InvalidInput: It is empty, too long, or holds characters that cannot be seen.
    """
    stripped = name.strip()
    if not stripped:
        raise InvalidInput("A name is needed, so that others know who decided.", field=option)
    if len(stripped) > _LONGEST:
        raise InvalidInput(f"A name has at most {_LONGEST} characters.", field=option, limit=_LONGEST)
    if not stripped.isprintable():
        raise InvalidInput("A name has only characters that can be seen.", field=option)
    return stripped


def remembered() -> str | None:
    """The name that was given once; None if there is none that can be read."""
    try:
        return checked(json.loads(_path().read_text("utf-8"))["name"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, InvalidInput):
        # Asking again repairs it, for any reason.
        return None


def remember(name: str) -> None:
    """Keep a name for the next time.

    Raises:
        OSError: It cannot be written.
    """
    path = _path()
    platforms.make_private(str(path.parent))
    content = json.dumps({"version": _VERSION, "name": name}, ensure_ascii=False) + "\n"
    write_atomically(path, content.encode(), durable=False)


def suggested() -> str:
    """What the system calls the person; empty if it does not say."""
    try:
        return checked(getpass.getuser())
    except (OSError, KeyError, ImportError, InvalidInput):
        return os.environ.get("USERNAME", "").strip()


def _path() -> Path:
    return Path(os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()) / FILE


@dataclass(frozen=True, slots=True)
class CallerName:
    """Who runs the commands here.

    Attributes:
        name: The name that the broker is told; None if no one said it.
        source: Where it comes from, for people.
    """

    name: str | None
    source: str


def caller(stated: str | None = None) -> CallerName:
    """Who calls: who was named, else the agent that runs the command, else the person of this configuration.

    Args:
        stated: The name that an option has, if one was given.
    """
    if stated:
        return CallerName(stated, "--agent")
    if (mark := agent_mark()) is not None:
        return CallerName(agent_name(), f"the agent that runs this command ({mark} is set)")
    return CallerName(remembered(), f"{_path()}")


def required_caller(stated: str | None) -> str:
    """Who calls, where a name is needed.

    Raises:
        InvalidInput: No option or setting has one.
    """
    name = caller(stated).name
    if name is None:
        raise InvalidInput(
            "A name is needed, so that others know who decided. Say it once: tandem me NAME; or for one command:"
            " --agent NAME.",
            field="--agent",
        )
    return name


def me(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Your name from now on; without it, shows what it is.")
    ] = None,
    *,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Say once who you are: the name under which you propose, review and decide, in every command and project.

    For one command, [bold]--agent NAME[/bold] comes first, then TANDEM_AGENT. An agent that runs a command is called
    by its own name, never by yours.
    """
    if name is not None:
        if (mark := agent_mark()) is not None:
            raise Forbidden(
                f"This is a person's name, and an agent runs this command ({mark} is set). An agent says its own with"
                " --agent NAME or in TANDEM_AGENT.",
                needed="person",
            )
        remember(checked(name, "NAME"))
    found = CallerName(stated, "TANDEM_AGENT") if (stated := os.environ.get("TANDEM_AGENT")) else caller()
    if found.name is None:
        raise NotFound(f"Nobody said who you are. Say it once: tandem me {suggested() or 'NAME'}")
    return tell(asdict(found), f"You are {found.name}: from {found.source}", as_json=as_json)
