"""Long values of options: as they are, from a file, or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tandem.cli.declared import Misused

_NOTE = "Text, @FILE or - for standard input; @@ for a leading @."
_JSON_NOTE = "JSON, @FILE or - for standard input."


def note(*, is_json: bool) -> str:
    """What the help says of such an option."""
    return _JSON_NOTE if is_json else _NOTE


class Inputs:
    """Reads the long values of one command; standard input can be given only once."""

    def __init__(self) -> None:
        self._stdin_taken_by: str | None = None

    def text(self, option: str, value: str) -> str:
        """The text that a value stands for, to the byte: no newline is lost or translated."""
        if value == "-":
            return self._decoded(option, self._standard_input(option), "standard input")
        if value.startswith("@@"):
            return value[1:]
        if value.startswith("@"):
            return self._decoded(option, _content(option, value[1:]), value[1:])
        return value

    def json(self, option: str, value: str) -> Any:
        """The JSON value that a value stands for."""
        text = self.text(option, value)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Misused(f"This is not JSON: {error}.", option) from error

    def _standard_input(self, option: str) -> bytes:
        if self._stdin_taken_by is not None:
            raise Misused(f"Standard input is already read by {self._stdin_taken_by}.", option)
        self._stdin_taken_by = option
        return sys.stdin.buffer.read()

    @staticmethod
    def _decoded(option: str, content: bytes, source: str) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise Misused(
                f"{source} is not UTF-8 (byte {error.start}). A diff of such files has to be binary: "
                "tandem submit makes one.",
                option,
            ) from error


def _content(option: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Misused(
            f"Cannot read {name}: {error.strerror}. Write @@ for a text that begins with @.", option
        ) from error
