"""Every command that a text of ours names is executed in the situation that the text describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.repository.terminal import without_agents
from tests.sentences.guides import guide, guided, played_pages
from tests.sentences.playing import STORIES, Player, played_with, steps_of

pytestmark = pytest.mark.timeout(300)
PLAYED = [(path, clients) for path in sorted(STORIES.glob("*.txt")) for clients in played_with(path.read_text("utf-8"))]


@pytest.mark.parametrize(("story", "clients"), PLAYED, ids=["-".join([path.stem, *names]) for path, names in PLAYED])
def test_each_story_happens_as_it_is_told(story: Path, clients: tuple[str, ...], tmp_path: Path) -> None:
    Player(tmp_path, clients).play(guided(steps_of(story.name, story.read_text("utf-8"))))


def test_every_guide_is_played_from_top_to_bottom() -> None:
    paths = [ROOT / "README.md", *(ROOT / "docs" / "guide").glob("*.md")]
    pages = [path.relative_to(ROOT).as_posix() for path in paths]
    assert played_pages(STORIES) == sorted(page for page in pages if guide(page).lines)


def test_what_a_story_says_is_played_elsewhere_is_there() -> None:
    lines = [line for path in STORIES.glob("*.txt") for line in path.read_text("utf-8").splitlines()]
    named = {
        name for line in lines if line.startswith(("- ", "~ ")) for name in re.findall(r"\w[\w-]*\.(?:py|txt)", line)
    }
    there = {path.name for path in (ROOT / "tests").rglob("*") if path.suffix in {".py", ".txt"}}
    assert named - there == set()


def test_the_picture_of_a_session_shows_what_is_printed_today(tmp_path: Path) -> None:
    drawn = tmp_path / "session.svg"
    subprocess.run([sys.executable, ROOT / "tools" / "picture.py", drawn], check=True, env=without_agents())
    assert shown(drawn) == shown(ROOT / "docs" / "images" / "session.svg"), "make picture"


def shown(picture: Path) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)", picture.read_text("utf-8"))
