"""The screen of `tandem review` over all projects: a broker of its own, as reviews of others would stand there, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import OptionList

from tandem.client import TandemClient
from tests.commandline import DIFF, repository
from tests.interfaces.screen_stage import Stage
from tests.modes import VARIATION

pytestmark = pytest.mark.anyio

BROKER: dict[str, str] = {}

HIDDEN = "; os.system('id')"
HIDING = f"""\
diff --git a/min.js b/min.js
--- a/min.js
+++ b/min.js
@@ -1 +1,2 @@
-{"a" * 5_000};end
+{"a" * 4_000}{HIDDEN}{"a" * 1_000};end
+admin\u200b = 1
diff --git a/tool.sh b/tool.sh
old mode 100644
new mode 100755
"""


@VARIATION
async def test_all_projects_stand_under_their_names_which_no_cursor_stops_at(at: Stage, tmp_path: Path) -> None:
    await at.create("Mine")
    async with TandemClient(at.other.session.url, agent="robot") as robot:
        for name in ("first", "second"):
            await robot.register_project(root=str(repository(tmp_path / f"{at.project}-{name}")))
            await robot.create_review(intent=name, agent_type="robot", diff=DIFF, project=f"{at.project}-{name}")
    shown = await at.shows("Mine", at.project)
    assert f"{at.project}-first" not in shown
    await at.press("p")
    shown = await at.shows("Mine", "all projects", f" {at.project}-first (1)", f" {at.project}-second (1)")
    assert shown.index(f"{at.project}-first (1)") < shown.index(f"{at.project}-second (1)")
    await at.press("home")
    chosen = at.app.screen.query_one("#list", OptionList).highlighted_option
    assert chosen is not None
    assert chosen.id
    await at.press("p")
    await at.lacks(f"{at.project}-first")


async def test_what_cannot_be_seen_is_shown_opens_or_is_named_beside_approve(at: Stage) -> None:
    created = await at.other.create_review(
        intent="Minify it", agent_type="robot", project=f"{at.project}-label", diff=HIDING
    )
    await at.press("p")
    await at.opened(created.review_id)
    # The difference stands in place of the identical beginning; a line that goes on beyond the edge says so.
    await at.shows("… 3,990 alike … ", HIDDEN, "→")
    await at.press("down", "down", "enter")
    await at.shows("min.js, line 1 before")
    await at.press("end")
    await at.shows("aaa;end")
    await at.press("escape", "a")
    await at.shows(
        "Look at these before you decide:",
        "2 lines longer than 2,000 characters: min.js:1 (before), min.js:1",
        "1 invisible character (ZERO WIDTH SPACE): min.js:2",
        "1 file becomes a program: tool.sh",
    )
