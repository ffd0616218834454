"""The screen of `tandem review` over all projects: a broker of its own, as reviews of others would stand there, too."""

from __future__ import annotations

import pytest

from tests.interfaces.screen_stage import Stage

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
