"""Every command that a text of ours names is executed in the situation that the text describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.pages import Page
from tests.architecture.source import ROOT
from tests.sentences.named import lines_of
from tests.sentences.playing import STORIES, Player, steps_of

pytestmark = pytest.mark.timeout(300)

GUIDE = Page(ROOT / "docs" / "guide" / "first-review.md")
# What the guide says in words to make of its file.
PROPOSED = """\
import time

ATTEMPTS = 3


def upload(send, parcel):
    for _ in range(ATTEMPTS):
        try:
            return send(parcel)
        except ConnectionError:
            time.sleep(1)
    raise TimeoutError
"""
REVISED = PROPOSED.replace("for _ in", "for attempt in").replace("sleep(1)", "sleep(2**attempt)")


@pytest.mark.parametrize("story", sorted(STORIES.glob("*.txt")), ids=lambda path: path.stem)
def test_each_story_happens_as_it_is_told(story: Path, tmp_path: Path) -> None:
    Player(tmp_path).play(steps_of(story.name, story.read_text("utf-8")))


def told() -> str:
    """The guide to a first review as a story: its lines, the files that it has one write, and what it says of them."""
    (first,) = [block.text for block in GUIDE.blocks if block.language == "python"]
    files = {"git add .": first, "tandem submit -m": PROPOSED, "tandem submit --revise": REVISED}
    printed = {line for block in GUIDE.blocks if block.language == "console" for line in block.text.splitlines()}
    story: list[str] = []
    for _, is_typed, line in lines_of(GUIDE.text.partition("## A counter-patch")[0]):
        if is_typed:
            for text in (text for begins, text in files.items() if line.startswith(begins)):
                story += ["< upload.py", *(f"| {one}".rstrip() for one in text.splitlines())]
            story.append("$ " + re.sub(r"rv_[a-z0-9]+", "{review}", line) + (" &" if line.endswith("--wait") else ""))
            story += ["@ review rv_[a-z0-9]+"] if line == "tandem review list" else []
        elif line in printed:
            # Ids, digests and the widths of columns differ.
            story.append(re.sub(r"(?:rv|vd)_[a-z0-9]+|digest \w+|\.\.\.| {2,}", "*", line))
        elif "returns at once, with the reason and exit status 10" in line:
            story += ["$ fg", "Three clients would come back in step", "[10]"]
    return "\n".join(story)


def test_the_guide_to_a_first_review_is_followed_to_the_letter(tmp_path: Path) -> None:
    story = told()
    assert story.count("$ ") > 20
    Player(tmp_path, begins_in_shop=False).play(steps_of("first-review.md", story))
