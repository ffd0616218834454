"""Every command that a text of ours names: pages, texts for agents, examples, messages, help and templates."""

from __future__ import annotations

import ast
import html
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tandem.cli.tree import TREE
from tests.architecture.source import ROOT, Module, package_modules
from tests.sentences.forms import is_flag, length_of_path, other_form

PACKAGE = ROOT / "src" / "tandem"
MAKEFILE = ROOT / "Makefile"
HISTORY = {"CHANGELOG.md", "decisions"}
"""Pages about the past, which may name commands that are gone."""
Place = Literal["typed", "told", "named"]
"""Where a text has a command: a line to type, a message or text that tells somebody to run it, or running prose."""

_BEGINS = r"(?:(?<=[\s`'\"(>}|/])|^)"
_PROGRAM = re.compile(_BEGINS + r"tandem(?= [\w{-])(?! -->)")
_OTHERS = frozenset({
    "git", "make", "pip", "pipx", "uv", "npx", "python", "python3", "claude", "codex", "gemini", "opencode", "docker",
    "bwrap", "apt", "dnf", "pacman", "curl", "ssh", "kill", "chmod", "sudo", "journalctl", "loginctl", "launchctl",
})  # fmt: skip
_OTHER = re.compile(_BEGINS + rf"(?:{'|'.join(_OTHERS)})(?= [\w{{./~:-])")
_MAY_NAME = re.compile(rf"\b(?:tandem|{'|'.join(_OTHERS)})[ \"']")
_TELLS = re.compile(r"(?:^|[:;,(] |'|\"|&& |\bwith |\bthen |\brun )$")
"""The words right before a command of another program in a message; else the name is that of the program itself."""
_WORD = re.compile(
    r"""\s*(?P<word>(?:'[^'\n]*'|"[^"\n]*"|\{[^{}\n]*\}|\[[^\]\n]*\]|<[^>\n]*>|[^\s'"`|;>&<]|\|(?=\w)|&(?!&))+)"""
)
_END = re.compile(r"\s*(?:$|[|;]|&&|\n|<\s|\#\s)")
_OUTPUT = re.compile(r"\s*>>?\s*\S+")
_PLACEHOLDER = re.compile(r"[A-Z0-9{'\"…/.=~@^]|^-|^rv_|^cp_|^fn_|^fixed$|^verified$")
"""An argument, as opposed to a word of prose."""


@dataclass(frozen=True)
class Named:
    """A command that a text names.

    Attributes:
        where: The file, from the root, and the line.
        words: The program's name and what follows, as they stand.
        place: How it is named.
    """

    where: str
    words: tuple[str, ...]
    place: Place

    def __str__(self) -> str:
        return f"{self.where}: {' '.join(self.words)}"


@cache
def every() -> tuple[Named, ...]:
    """All commands, in the order of the files."""
    found = [*_of_pages(), *_of_package_files(), *_of_modules()]
    return tuple(dict.fromkeys(found))


def named() -> tuple[Named, ...]:
    """All that name `tandem`."""
    return tuple(one for one in every() if one.words[0] == "tandem")


def others() -> tuple[Named, ...]:
    """All that name another program, such as git; "git refuses" is about the program itself, and names none."""
    known = {"git": _known("git", "--list-cmds=main"), "make": re.findall(r"(?m)^([a-z-]+):", MAKEFILE.read_text())}
    found = [(one, *other_form(one.words).command.split()) for one in every() if one.words[0] != "tandem"]
    return tuple(one for one, program, *verb in found if program not in known or {*verb[:1]} & {*known[program]})


def _known(*command: str) -> list[str]:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def pages() -> list[Path]:
    """The pages that describe the present."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").rglob("*.md")]
    return sorted(path for path in found if not HISTORY & {path.name, path.parent.name})


def _of_pages() -> Iterator[Named]:
    for path in pages():
        where, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        told: Place = "told" if "plugins" in path.parts else "named"
        for line, typed, said in lines_of(text):
            # The page of mistakes shows commands that fail.
            if typed and path.name != "mistakes.md":
                yield from typed_commands(f"{where}:{line}", said)
            elif not typed and not re.match(r"\$ |\{|.*(usage: |There is no command)", said):
                yield from said_commands(f"{where}:{line}", said, told)


def lines_of(text: str) -> Iterator[tuple[int, bool, str]]:
    """Line number, whether it is typed, and text: of blocks of code each line, else paragraphs."""
    lines = text.replace("\\\n", " ").split("\n")
    block: list[tuple[int, str]] = []
    paragraph: list[str] = []
    language: str | None = None
    for number, line in enumerate([*lines, ""], 1):
        starts_or_ends = line.startswith("```")
        if language is not None and not starts_or_ends:
            block.append((number, line))
        elif language is not None:
            marks = any(one.startswith("$ ") for _, one in block)
            for at, one in block:
                typed = language == "console" and (one.startswith("$ ") or not marks)
                yield at, typed, one.removeprefix("$ ") if typed else one
            block, language = [], None
        elif line.startswith("    ") and not paragraph and re.match(rf"\s+(?:tandem|{'|'.join(_OTHERS)}) ", line):
            yield number, True, line.strip()
        elif starts_or_ends or not line.strip() or re.match(r"\s*(\||- |#|\d\. )", line):
            if paragraph:
                yield number - len(paragraph), False, " ".join(paragraph)
            paragraph = [line.strip()] if line.strip() and not starts_or_ends else []
            language = line.removeprefix("```") if starts_or_ends else None
        else:
            paragraph.append(line.strip())


def _of_package_files() -> Iterator[Named]:
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix not in {".md", ".txt", ".html", ".js", ".toml"} or path.parent.name == "vendor":
            continue
        where, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        if path.name == "examples.txt":
            for number, line in enumerate(text.split("\n"), 1):
                if not line.startswith("["):
                    yield from typed_commands(f"{where}:{number}", line)
            continue
        if path.suffix == ".html":
            text = html.unescape(re.sub(r"</?code[^>]*>", "`", text))
            text = re.sub(r"\{\{\s*([\w.]+)[^}]*\}\}", r"{\1}", text)
        for line, _, said in lines_of(text):
            yield from said_commands(f"{where}:{line}", said, "told")


def _of_modules() -> Iterator[Named]:
    for module in package_modules():
        # The generated module repeats the texts of the declarations; and most modules name none.
        if module.where == "src/tandem/cli/table.py" or not _MAY_NAME.search(module.path.read_text("utf-8")):
            continue
        for line, said in messages(module):
            yield from said_commands(f"{module.where}:{line}", said, "told")


def messages(module: Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a module; the fields of a format string are in braces.

    Docstrings count in `cli` only, where they are the help of commands; the reference has those of operations.
    """
    inside: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and module.inside("tandem.cli"):
            # The help of a command.
            yield node.lineno, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inside.update(id(one) for one in ast.walk(node) if one is not node)
            yield node.lineno, "".join(_part(one) for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return "{" + re.sub(r"\W+", "_", ast.unparse(node.value)).strip("_") + "}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def typed_commands(where: str, line: str) -> Iterator[Named]:
    """Each command of a line of shell."""
    rest, before = line, ""
    # Stops at syntax of the shell that this does not read.
    while rest.strip() and rest != before and not rest.lstrip().startswith("#"):
        before = rest
        words, rest = _take(rest)
        while words and "=" in words[0]:
            words = words[1:]
        if words[:2] == ["ssh", "host"]:
            words = words[2:]
        if words and (program := words[0].rpartition("/")[2]) in {"tandem", *_OTHERS}:
            yield Named(where, (program, *words[1:]), "typed")
        rest = re.sub(r"^\s*(?:\||;|&&|<\s+\S+|#.*)\s*", "", rest)


def said_commands(where: str, text: str, place: Place) -> Iterator[Named]:
    """The commands of a sentence: a quote says where one ends, else the first word of prose."""
    text = re.sub(r"\[/?bold\]", "`", text)
    for match in _PROGRAM.finditer(text):
        before, rest = text[: match.start()], text[match.start() :]
        if before.count("`") % 2:
            words, _ = _take(rest.partition("`")[0])
        elif before.endswith(("'", '"')) and not before.endswith(("='", '="')):
            words, _ = _take(_until(rest, before[-1]))
        else:
            words = list(_until_prose(_take(rest)[0]))
            if words[1:] and words[1] not in TREE and not words[1].startswith(("-", "{")):
                # It is about the program itself.
                continue
        if words[1:]:
            yield Named(where, tuple(words), place)
    for match in _OTHER.finditer(text):
        before, rest = text[: match.start()], text[match.start() :]
        if before.count("`") % 2:
            yield Named(where, tuple(_take(rest.partition("`")[0])[0]), place)
        elif place == "told" and _TELLS.search(before):
            yield Named(where, tuple(_until_end(_take(rest)[0])), place)


def _until_end(words: list[str]) -> Iterator[str]:
    """The words of a command up to the end of its clause."""
    for word in words:
        if word.startswith("("):
            return
        bare = word if word.endswith(("...", "…")) else word.rstrip(".,;:)")
        yield bare
        if bare != word:
            return


def _take(text: str) -> tuple[list[str], str]:
    """The words of one command of the shell, without where its output goes; and what follows it."""
    words: list[str] = []
    while not _END.match(text):
        found = _OUTPUT.match(text) or _WORD.match(text)
        if found is None:
            break
        if found.re is _WORD:
            words.append(found["word"])
        text = text[found.end() :]
    return words, text


def _until(text: str, quote: str) -> str:
    """Up to the quote that closes the one before the text, over those that an argument is in."""
    inner = rf"(?:[^{quote}\n]|(?<=\s){quote}[^{quote}\n]+{quote}(?=\s|{quote}))*"
    found = re.match(inner, text)
    return found[0] if found else text


def _until_prose(words: list[str]) -> Iterator[str]:
    yield words[0]
    path, was_option = length_of_path([word.rstrip(".,;:)") for word in words[1:]]), False
    for number, word in enumerate(words[1:]):
        bare = word if word.endswith(("...", "…")) else word.rstrip(".,;:)")
        # A name may be the last thing that is said.
        is_last_argument = number > path and number == len(words) - 2 and bare.isalpha()
        if number >= path and not was_option and not is_last_argument and not _PLACEHOLDER.search(bare):
            return
        if bare:
            yield bare
        if bare != word:
            return
        was_option = bare.startswith("-") and not is_flag(words[1 : number + 1], bare)
