"""The targets of the documents' links exist, and their blocks are valid."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.architecture.pages import Block, Page, pages
from tests.architecture.source import ROOT

PAGES = list(pages())
GUIDES = [page for page in PAGES if page.where.startswith("docs/guide/")]
README_WORDS = 900
SCREEN = 45
"""The most lines of a section of a guide."""
OF_EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.where)


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


def test_the_readme_can_be_read_in_four_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= README_WORDS


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


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.where)
def test_a_guide_has_sections_of_one_screen_and_leads_to_the_reference(guide: Page) -> None:
    assert [section.partition("\n")[0] for section in guide.sections if section.count("\n") > SCREEN] == []
    assert any(link.startswith("../reference/") for link in guide.links)


@contextmanager
def naming(what: str) -> Generator[None]:
    """Say of which part of a page it is that something is wrong."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


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
