"""Reading a shell command without running it: its simple commands in order, with what is certain of their words.

Not a shell: whatever only running it would tell (a variable, a substitution, a pattern) is marked as such, and what
cannot be read at all is said to be so. Who asks then judges less, never more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = " \t\r"
_OPERATORS = ("&&", "||", ";;", "|&", "&", "|", ";", "\n")
_REDIRECTIONS = ("<<<", "<<-", "&>>", "<<", ">>", ">&", "<&", "&>", ">|", "<>", ">", "<")
_PATTERN = frozenset("*?[")
_ENDS_WORD = frozenset(" \t\r\n;&|()<>")
_DEEPEST = 20


class Unreadable(Exception):
    """The text is no complete command, or uses what is not understood here."""


class Word(NamedTuple):
    """One word of a command.

    Attributes:
        text: What it says, quotes taken away.
        is_certain: Whether running the command could not make anything else of it.
    """

    text: str
    is_certain: bool


class Redirection(NamedTuple):
    """Where a command's input comes from or its output goes.

    Attributes:
        operator: As it is written, e.g. `>` or `<<`.
        target: The file, or what a here-document holds.
    """

    operator: str
    target: Word


class Command:
    """A simple command.

    Attributes:
        words: Assignments in front, the program, its arguments.
        redirections: In their order.
        inner: The commands in its substitutions, which run before it.
    """

    __slots__ = ("inner", "redirections", "words")

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.redirections: list[Redirection] = []
        self.inner: list[Item] = []

    @property
    def is_empty(self) -> bool:
        """Whether it is nothing at all."""
        return not (self.words or self.redirections or self.inner)


Item = Command | str
"""A command, or `(` and `)` around those of a subshell."""


def read(text: str) -> list[Item]:
    """The commands of a text, in the order in which they are written.

    Raises:
        Unreadable: The text cannot be read to its end.
    """
    return list(_Reader(text, 0).items(""))


class _Reader:
    """Reads a text once, from its beginning to its end."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        self._text = text
        self._at = 0
        self._depth = depth
        self._waiting: list[tuple[Command, int, str, bool, bool]] = []

    def items(self, closing: str) -> Iterator[Item]:
        """Everything up to a closing parenthesis, or to the end."""
        command = Command()
        open_count = 0
        while True:
            self._skip_blank()
            if self._at >= len(self._text):
                break
            if self._text[self._at] == ")" and closing and not open_count:
                break
            mark = self._separator()
            if mark is None:
                self._part(command)
                continue
            if not command.is_empty:
                yield command
                command = Command()
            if mark in {"(", ")"}:
                open_count += 1 if mark == "(" else -1
                yield mark
        if not command.is_empty:
            yield command
        if self._waiting:
            raise Unreadable("a here-document has no end")
        if closing and self._at >= len(self._text):
            raise Unreadable(f"{closing} is missing")

    @property
    def position(self) -> int:
        """How far it has been read."""
        return self._at

    def _skip_blank(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] in _BLANK:
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            else:
                return

    def _separator(self) -> str | None:
        """An operator between commands; null if a word or a redirection follows."""
        text, at = self._text, self._at
        if text[at] in "()":
            self._at += 1
            return text[at]
        if text.startswith(("&>", "&>>"), at):
            return None
        for operator in _OPERATORS:
            if text.startswith(operator, at):
                self._at += len(operator)
                if operator == "\n":
                    self._here_documents()
                return operator
        return None

    def _part(self, command: Command) -> None:
        """A redirection or a word of a command."""
        start = self._at
        digits = start
        while digits < len(self._text) and self._text[digits].isdigit():
            digits += 1
        operator = next((one for one in _REDIRECTIONS if self._text.startswith(one, digits)), None)
        if operator is None or (digits > start and operator.startswith("&")):
            command.words.append(self._word(command))
            return
        self._at = digits + len(operator)
        if operator in {"<", ">"} and self._text.startswith("(", self._at):
            command.words.append(self._substituted_process(command))
            return
        self._skip_blank()
        word = self._word(command)
        command.redirections.append(Redirection(operator, word))
        if operator in {"<<", "<<-"}:
            raw = self._text[start : self._at]
            is_literal = any(mark in raw for mark in "'\"\\")
            waiting = (command, len(command.redirections) - 1, word.text, operator == "<<-", is_literal)
            self._waiting.append(waiting)

    def _substituted_process(self, command: Command) -> Word:
        self._at += 1
        self._nested(command)
        return Word("", is_certain=False)

    def _here_documents(self) -> None:
        """The bodies that were announced on the line that has just ended."""
        for command, number, mark, strips, is_literal in self._waiting:
            lines: list[str] = []
            while True:
                if self._at >= len(self._text):
                    raise Unreadable(f"the here-document {mark} has no end")
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                bare = line.lstrip("\t") if strips else line
                if bare.rstrip("\r") == mark:
                    break
                # One in a substitution may end in the line of its closing parenthesis.
                lines.append(bare)
            body = "".join(f"{line}\n" for line in lines)
            is_certain = is_literal or not any(special in body for special in "$`\\")
            command.redirections[number] = Redirection("<<", Word(body, is_certain))
        self._waiting.clear()

    def _word(self, command: Command) -> Word:
        parts: list[str] = []
        is_certain = True
        start = self._at
        while self._at < len(self._text) and (char := self._text[self._at]) not in _ENDS_WORD:
            if char == "\\":
                parts.append(self._escaped())
            elif char == "'":
                parts.append(self._quoted())
            elif char == '"':
                text, certain = self._double_quoted(command)
                parts.append(text)
                is_certain = is_certain and certain
            elif char in "$`":
                text, certain = self._expansion(command)
                parts.append(text)
                is_certain = is_certain and certain
            else:
                is_certain = is_certain and char not in _PATTERN and not (char == "~" and self._at == start)
                is_certain = is_certain and char != "{"
                parts.append(char)
                self._at += 1
        if self._at == start:
            raise Unreadable(f"{self._text[self._at : self._at + 1] or 'the end'} is not expected")
        return Word("".join(parts), is_certain)

    def _escaped(self) -> str:
        self._at += 2
        if self._at > len(self._text):
            raise Unreadable("a backslash is the last of it")
        char = self._text[self._at - 1]
        return "" if char == "\n" else char

    def _quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise Unreadable("a quote has no end")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self, command: Command) -> tuple[str, bool]:
        parts: list[str] = []
        is_certain = True
        self._at += 1
        while True:
            if self._at >= len(self._text):
                raise Unreadable("a quote has no end")
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return "".join(parts), is_certain
            if char == "\\":
                escaped = self._escaped()
                parts.append(escaped if escaped in {"", "$", "`", '"', "\\"} else f"\\{escaped}")
            elif char in "$`":
                text, certain = self._expansion(command)
                parts.append(text)
                is_certain = is_certain and certain
            else:
                parts.append(char)
                self._at += 1

    def _expansion(self, command: Command) -> tuple[str, bool]:
        """A variable or a substitution: the text it is written with, which is not what it becomes."""
        start = self._at
        text = self._text
        if text[start] == "`":
            end = start + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise Unreadable("a backquote has no end")
            command.inner += _Reader(text[start + 1 : end], self._depth + 1).items("")
            self._at = end + 1
            return text[start : self._at], False
        self._at += 1
        following = text[self._at : self._at + 1]
        if following == "(" and not text.startswith("((", self._at):
            self._at += 1
            self._nested(command)
        elif following in {"(", "{"}:
            self._balanced(following, ")" if following == "(" else "}")
        elif following == "'":
            self._backslashed()
        elif not (following == "_" or following.isalnum() or following in set("@*#?$!-")) or not following:
            # A dollar sign that is only one; `$"…"` is the quoted text.
            return ("" if following == '"' else "$"), True
        else:
            while self._at < len(text) and (text[self._at] == "_" or text[self._at].isalnum()):
                self._at += 1
        return text[start : self._at], False

    def _backslashed(self) -> None:
        """What stands in `$'…'`, where a backslash keeps a quote from ending it."""
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 2 if char == "\\" else 1
            if char == "'":
                return
        raise Unreadable("a quote has no end")

    def _nested(self, command: Command) -> None:
        """The commands of a substitution, behind its opening parenthesis."""
        inner = _Reader(self._text[self._at :], self._depth + 1)
        command.inner += inner.items(")")
        self._at += inner.position + 1

    def _balanced(self, opening: str, closing: str) -> None:
        depth = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 2 if char == "\\" else 1
            depth += (char == opening) - (char == closing)
            if depth == 0:
                return
        raise Unreadable(f"{closing} is missing")
