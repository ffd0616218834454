"""A role's key from the environment or a file, so that no model and no command line ever has it.

TANDEM_PSK        the key itself
TANDEM_PSK_FILE   a file whose first line is the key
TANDEM_ROLE       the role, for calls that name none
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.errors import ConfigInvalid

if TYPE_CHECKING:
    from tandem.bridge.messages import Message

KEY_VARIABLE = "TANDEM_PSK"
FILE_VARIABLE = "TANDEM_PSK_FILE"
ROLE_VARIABLE = "TANDEM_ROLE"
SESSION_VARIABLE = "TANDEM_SESSION_TOKEN"
LOCK_VARIABLE = "TANDEM_LOCK_TOKEN"

SECRET_VARIABLES = frozenset({KEY_VARIABLE, SESSION_VARIABLE, LOCK_VARIABLE, TOKEN_VARIABLE})
"""What no process that is started from here has any business with."""

OPENING_TOOL = "session_open"
_LINE_BYTES = 4096


def read_key(path: str) -> str:
    """The key in a file: its first line, without the space around it.

    Raises:
        ConfigInvalid: The file cannot be read, or its first line is no key; the message has no part of it.
    """
    try:
        with open(os.path.expanduser(path), "rb") as file:
            line = file.readline(_LINE_BYTES)
        # Editors on Windows put a mark in front.
        key = line.decode("utf-8-sig").strip()
    except OSError as error:
        raise ConfigInvalid(f"The key file {path} cannot be read: {error.strerror or error}.", file=path) from None
    except UnicodeDecodeError:
        # Without its cause, which quotes the line.
        raise ConfigInvalid(f"The first line of the key file {path} is not UTF-8.", file=path) from None
    if not key:
        raise ConfigInvalid(f"The first line of the key file {path} is empty; it has to be the key.", file=path)
    return key


def stated_key() -> str | None:
    """The key that the environment has, else the one in the file that it names; None if it has neither.

    Raises:
        ConfigInvalid: The file has no key.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if key:
        return key
    path = os.environ.get(FILE_VARIABLE, "").strip()
    if not path:
        return None
    try:
        return read_key(path)
    except ConfigInvalid as trouble:
        advice = f"{FILE_VARIABLE} names it: correct that or the file, or put the key into {KEY_VARIABLE}."
        raise ConfigInvalid(f"{trouble.message} {advice}", setting=FILE_VARIABLE, file=path) from None


def stated_role() -> str | None:
    """The role that the environment has; None if it has none."""
    return os.environ.get(ROLE_VARIABLE, "").strip() or None


def without_secrets() -> dict[str, str]:
    """The environment for a process that outlives this one and is not the role's."""
    return {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}


def opening(message: Message) -> dict[str, str]:
    """The key and the role that a call to open a session leaves to its bridge; nothing for all other messages.

    Raises:
        ConfigInvalid: The call leaves out the key, and there is none.
    """
    if message.tool != OPENING_TOOL or not isinstance(message.params.get("arguments", {}), dict):
        return {}
    found: dict[str, str] = {}
    role = stated_role() if _is_left_out(message.arguments.get("role")) else None
    if role is not None:
        found["role"] = role
    if _is_left_out(message.arguments.get("psk")):
        key = stated_key()
        if key is None:
            raise ConfigInvalid(
                f"The session has no key to open it with. Put the role's key into {KEY_VARIABLE}, or into a file that"
                f" {FILE_VARIABLE} names, in the environment in which the client starts 'tandem mcp'; 'tandem cycle"
                " init' makes the keys.",
                setting=KEY_VARIABLE,
            )
        found["psk"] = key
    return found


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
