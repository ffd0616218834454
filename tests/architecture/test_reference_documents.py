"""What the documents point to is there, and what they tell people to type can be typed."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml

from tandem.bridge import keys
from tandem.bridge import main as bridge
from tandem.cli import audit
from tandem.cli.audit import RangeGroup
from tandem.cli.main import COMMANDS, app, load
from tests.architecture.pages import Block, Page, pages
from tests.architecture.source import ROOT

PAGES = list(pages())
OF_EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.where)
# `tandem up`, `$ tandem up`, `~/.tandem-venv/bin/tandem up`, `git diff | tandem review create`
TANDEM = re.compile(r"^(?:\S*/)?tandem$")
SEPARATORS = {"|", "&&", ";"}
REDIRECTIONS = {">", ">>"}


@OF_EACH_PAGE
def test_links_lead_somewhere(page: Page) -> None:
    dead = [target for target in page.links if not is_alive(page, target)]
    assert dead == []


def is_alive(page: Page, target: str) -> bool:
    if target.startswith("https://"):
        return True
    path, _, anchor = target.partition("#")
    found = (page.path.parent / path).resolve() if path else page.path
    return found.is_file() and found.is_relative_to(ROOT) and (not anchor or anchor in Page(found).anchors)


def test_every_page_is_reached_from_the_readme() -> None:
    reached, pending = set[str](), [ROOT / "README.md"]
    while pending:
        path = pending.pop()
        if path.relative_to(ROOT).as_posix() in reached:
            continue
        reached.add(path.relative_to(ROOT).as_posix())
        targets = [(path.parent / link.partition("#")[0]).resolve() for link in Page(path).links]
        pending += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert [page.where for page in PAGES if page.where not in reached] == []


def commands(block: Block) -> Iterator[list[str]]:
    """The arguments of every `tandem` in a console block; what it prints is left out where commands are marked."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in SEPARATORS:
                words.append(word)
                continue
            if words and TANDEM.match(words[0]):
                yield list(takewhile(lambda one: one not in REDIRECTIONS, words[1:]))
            words = []


def subcommands(command: Any) -> dict[str, Any]:
    """The commands of a group; none of what is no group."""
    return dict(getattr(command, "commands", {}))


@cache
def option_names(words: tuple[str, ...]) -> set[str]:
    """Every option that the command takes that the words name."""
    command = find_command(list(words))[0]
    names: set[str] = set()
    # Some stand in their group until they are called.
    for parameter in command.make_context(command.name, [], resilient_parsing=True).command.params:
        names.update(parameter.opts, parameter.secondary_opts)
    return {*names, "--help"}


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and what is left of them."""
    command: Any = typer.main.get_command(app)
    left = list(words)
    while left and not left[0].startswith("-") and (known := subcommands(command)):
        name = left.pop(0)
        if name not in known and isinstance(command, RangeGroup):
            # `tandem audit main..HEAD` is short for `tandem audit commits main..HEAD`.
            left.insert(0, name)
            name = audit.NAME
        assert name in known, f"there is no command {name}"
        # Those of the first level are stand-ins until they are asked for.
        command = load(name) if len(left) + 1 == len(words) and name in COMMANDS else known[name]
    return command, left


def parse(arguments: list[str]) -> None:
    """Go through the command line's own parser, up to where the command would run."""
    if arguments[0] == "mcp":
        bridge.parse([one for one in arguments[1:] if one != "--help"])
        return
    command, left = find_command(arguments)
    # `--help` would print and end here, which is as good as being parsed.
    command.make_context("tandem", [one for one in left if one != "--help"])


@contextmanager
def naming(what: str) -> Generator[None]:
    """Say of which part of a page it is that something is wrong."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


@OF_EACH_PAGE
def test_what_is_to_be_typed_is_understood(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tokens of a hand-off cycle are options that stand in the environment instead, once they are there.
    for name in (keys.SESSION_VARIABLE, keys.LOCK_VARIABLE):
        monkeypatch.setenv(name, "there")
    for arguments in (one for block in page.blocks if block.language == "console" for one in commands(block)):
        # Completion is installed by the shell's own means, and would write to the home folder.
        if arguments[0] not in {"--install-completion", "--show-completion", "--version"}:
            with naming(" ".join(arguments)):
                parse(arguments)


@OF_EACH_PAGE
def test_what_is_mentioned_exists(page: Page) -> None:
    for text in {one for one in page.inline_code if one.startswith("tandem ") and not re.search(r"[<…]", one)}:
        words = shlex.split(text)[1:]
        options = {word for word in words if word.startswith("-")}
        with naming(text):
            if words[0] == "mcp":
                assert all(option == "--help" or option in bridge.USAGE for option in options)
            else:
                assert options <= option_names(tuple(takewhile(lambda one: not one.startswith("-"), words)))


@OF_EACH_PAGE
def test_blocks_are_valid_in_their_language(page: Page) -> None:
    for block in page.blocks:
        with naming(block.text):
            is_valid(block)


def is_valid(block: Block) -> None:
    match block.language:
        case "json":
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "yaml":
            yaml.safe_load(block.text)
        case "python":
            compile(block.text, block.page.where, "exec")
        case "console" | "text":
            assert block.text.strip()
        case other:
            pytest.fail(f"{block.page.where}: a block says which language it is in, not {other!r}")


def test_pictures_are_well_formed_and_say_what_they_show() -> None:
    pictures = sorted((ROOT / "docs").rglob("*.svg"))
    assert pictures
    for picture in pictures:
        drawing = ET.parse(picture).getroot()
        assert drawing.find("{http://www.w3.org/2000/svg}title") is not None
        assert drawing.find("{http://www.w3.org/2000/svg}desc") is not None
