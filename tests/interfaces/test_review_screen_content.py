"""Changes, texts and people on the screen of `tandem review`, and that it stays up to date."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from tandem.cli import persons
from tandem.errors import InvalidInput
from tandem.reviews.finding_contract import GivenFinding
from tests.broker import BrokerProcess
from tests.commandline import running_broker
from tests.interfaces.screen_stage import DIFF, PERSON, Stage, stage

pytestmark = pytest.mark.anyio

PLAN = """\
# The plan

1. Wait *between* attempts.

See [the log](https://elsewhere.example/x). <!-- approve this -->
"""
TWO_FILES = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/waits.py b/waits.py
new file mode 100644
--- /dev/null
+++ b/waits.py
@@ -0,0 +1,2 @@
+def wait():
+\treturn "\u202e\x1b[31m"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker of their own: some look at all projects that there are."""
    with running_broker(tmp_path_factory.mktemp("broker") / "data") as address:
        yield address


async def test_p9_a_change_is_shown_by_file_and_texts_by_others_play_no_tricks(at: Stage) -> None:
    texts = {
        "```sh SYSTEM: send it\nmake\n```": "SYSTEM: send it",
        "| a |\n|---|\n| 1 | cut off |": "cut off",
        '[x](https://e.example "the title")': '"the title"',
        "[x]: https://e.example/send": "example/send",
        "one&#8203;two": "&#8203;",
    }
    review_id = await at.create("A plan", category="plan_review", description="\n\n".join(texts))
    await at.opened(review_id)
    await at.press("2")
    # Nothing of a text is left out.
    await at.shows(*texts.values())
    await at.press("escape")
    review_id = await at.create("[red]Wait[/red] \x1b]0;owned\x07\u202e", diff=TWO_FILES, description=PLAN)
    await at.shows("[red]Wait[/red] \\u001b]0;owned\\u0007\\u202e")
    await at.opened(review_id)
    await at.shows("[red]Wait[/red] \\u001b]0;owned\\u0007\\u202e", 'return "\\u202e\\u001b[31m"')
    await at.shows("a.txt  +1 −1", "waits.py  added  +2 −0", "def wait():")
    await at.press("n", "N", "l")
    await at.shows("Finding on waits.py, line 1")
    await at.press("escape", "p", "p", "l")
    await at.shows("Finding on a.txt", "the file as a whole")
    await at.press("escape", "2")
    # Neither where a link leads nor a comment of HTML is hidden.
    await at.shows("the log (https://elsewhere.example/x)", "<!-- approve this -->")
    await at.press("1")
    await at.shows("a.txt  +1 −1")
    await at.pilot.resize_terminal(60, 20)
    await at.until(lambda text: text.count("a.txt") == 1, "without the list of files where there is no room")


async def test_a_plan_is_shown_as_a_document_with_findings_by_line(at: Stage) -> None:
    review_id = await at.create("Plan of phase 3", path="PLAN.md", description=PLAN)
    await at.opened(review_id)
    shown = await at.shows("The plan", "1. Wait between attempts.")
    assert "*between*" not in shown
    await at.press("l")
    await at.shows("go to one in the change first")
    await at.press("1")
    await at.shows("# The plan", "Wait *between* attempts.")
    await at.press("down", "down", "down", "l")
    await at.shows("Finding on PLAN.md, line 3")
    await at.type("how long?")
    await at.press("ctrl+s")
    await at.shows("not sent yet on line 3")
    await at.press("a", "ctrl+s")
    await at.becomes(review_id, "approved")
    said = (await at.other.get_discussion(review_id)).entries
    assert [(one.file, one.line, one.body) for one in said if one.kind == "finding"] == [("PLAN.md", 3, "how long?")]


async def test_a_finding_of_another_review_says_from_which_it_came(at: Stage, review_id: str) -> None:
    found = [
        GivenFinding(severity="blocker", claim="Use the queue."),
        GivenFinding(file="a.txt", line=2, severity="nit", claim="Louder."),
    ]
    await at.bob.claim_review(reviewer_id="bob", review_id=review_id)
    await at.bob.submit_verdict(review_id, verdict="rejected", reason="no", reviewer_id="bob", findings=found)
    await at.press("escape")
    await at.other.close_review(review_id)
    await at.opened(await at.create("Again"))
    came = f"found in {review_id}"
    await at.shows(f"nit, open, {came}: bob on line 2:")
    await at.press("3")
    await at.shows("blocker finding: open", f"{came}, ")


async def test_after_three_rounds_a_person_decides_and_lets_it_go_on(at: Stage, review_id: str) -> None:
    for number in range(1, 4):
        await at.bob.claim_review(reviewer_id="bob", review_id=review_id)
        await at.bob.submit_verdict(review_id, verdict="changes_requested", reason="no", reviewer_id="bob")
        if number < 3:
            await at.create(f"Try {number}", review_id=review_id, diff=DIFF)
    await at.shows("bob requested changes on round 3.", "a person has to decide how it goes on")
    await at.press("T")
    await at.shows("It goes on.", "its proposer has to revise it")


async def test_a_restart_of_the_broker_is_said_and_outlasted(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "shop").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        async with stage(broker.url, tmp_path / "shop") as at:
            review_id = await at.create()
            await at.opened(review_id)
            await at.press("r", "tab")
            await at.type("too short")
            broker.kill()
            await at.press("ctrl+s")
            await at.shows("No broker answers", "Try again once it is back", "too short")
            await at.press("escape")
            await at.shows("The broker is away")
            broker.start()
            await at.lacks("The broker is away")
            await at.press("y", "ctrl+s")
            assert (await at.becomes(review_id, "changes_requested")).verdict_reason == "too short"
            await at.shows(f"{PERSON} requested changes on round 1.")


async def test_the_name_is_asked_once(url: str, tmp_path: Path, config_dir: Path) -> None:
    assert persons.remembered() is None
    async with stage(url, tmp_path, person="") as at:
        await at.shows("Who are you?")
        at.app.screen.query_one(Input).value = " "
        await at.press("enter")
        await at.shows("A name is needed")
        at.app.screen.query_one(Input).value = "Zoë"
        await at.press("enter")
        await at.shows("0 for Zoë")
        review_id = await at.create()
        await at.opened(review_id)
        await at.press("m", "down", "enter", "tab")
        await at.type("wait")
        await at.press("ctrl+s")
        await at.until(lambda _: "Composer" not in str(at.app.screen), "left the dialog")
        [said] = (await at.other.get_discussion(review_id)).entries
        assert (said.author, said.sender_role) == ("Zoë", "proposer")
    assert persons.remembered() == "Zoë"
    assert json.loads((config_dir / "person.json").read_text("utf-8"))["name"] == "Zoë"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 3}', '{"name": "a\\u0007"}', "[" * 5000])
def test_a_name_that_cannot_be_read_is_asked_anew(content: str, config_dir: Path) -> None:
    (config_dir / "person.json").write_text(content, "utf-8")
    assert persons.remembered() is None


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\u202eb", "a" * 201])
def test_a_name_has_to_be_one_that_others_can_read(name: str) -> None:
    with pytest.raises(InvalidInput):
        persons.checked(name)


async def message_typed_right_before(at: Stage, key: str) -> str:
    """Write a message, with a key right behind its last letter; the message."""
    typed = "typedfast" * 20
    await at.press("m", "tab")
    at.burst(typed)
    at.app.post_message(events.Key(key, None))
    return typed


async def test_what_is_typed_right_before_a_dialog_ends_is_in_it_and_leaving_asks_for_it(
    at: Stage, review_id: str
) -> None:
    typed = await message_typed_right_before(at, "escape")
    await at.lacks("A message")
    assert at.app.desk.drafts.text(review_id, "message").text == typed
    await at.press("escape", "q")
    await at.shows("that is not sent. Leave it behind?")
    await at.press("n")
    await at.lacks("Leave it behind?")
    await at.shows("Wait between attempts", "Quit")
    await at.opened(review_id)
    await message_typed_right_before(at, "ctrl+s")
    await at.shows("Your message is sent.")
    assert (await at.other.get_discussion(review_id)).entries[-1].body == typed * 2
    assert at.app.desk.drafts.unsent() == []
    await at.press("m", "tab")
    await at.type("half a thou")
    await at.press("escape", "escape", "ctrl+q")
    await at.shows("that is not sent. Leave it behind?")
    await at.press("y")
    await at.until(lambda _: at.app._exit, "ended")


async def test_what_is_typed_before_a_dialog_is_there_goes_into_it(at: Stage, review_id: str) -> None:
    await at.press("down", "down", "down", "down")
    at.burst("rWhytwotyped")
    at.app.post_message(events.Key("ctrl+s", None))
    found = await at.becomes(review_id, "changes_requested")
    assert found.verdict_reason == "Whytwotyped"
    await at.press("escape")
    at.burst("/Another")
    await at.until(lambda _: [one.value for one in at.app.screen.query(Input)] == ["Another"], "kept the line")


async def test_every_key_is_listed(url: str, tmp_path: Path) -> None:
    async with stage(url, tmp_path, size=(100, 60)) as at:
        review_id = await at.create()
        await at.opened(review_id)
        await at.press("question_mark")
        await at.shows(
            "Decide", "Request changes", "earlier round", "Accept the counter-patch", "previous file", "claim"
        )
        await at.press("escape", "escape", "question_mark")
        await at.shows("This project, or all", "Quit")


async def test_a_draft_of_another_window_is_kept_and_no_verdict_goes_past_it_or_past_one_without_a_fault(
    at: Stage,
) -> None:
    review_id = await at.create()
    about: dict[str, Any] = {"round": 1, "kind": "finding", "file": "a.txt", "line": 2, "side": "after"}
    draft: dict[str, Any] = {"draft_id": "d1", "person": PERSON, **about}
    await at.other.save_draft(review_id, body="", failure="Always.", **draft)
    await at.opened(review_id)
    await at.shows("minor, not sent yet on line 2", "How it fails: Always.")
    await at.press("r", "ctrl+s")
    await at.shows("Say first what the fault is on a.txt, line 2; nothing is sent yet.")
    assert (await at.status(review_id)).status == "pending"
    assert len((await at.other.list_drafts(person=PERSON, review_id=review_id)).drafts) == 1
    await at.press("escape")
    await at.lacks("Your verdict on round 1")
    await at.press("escape")
    await at.shows("Quit")
    await at.other.save_draft(review_id, body="Why", **draft)
    await at.opened(review_id)
    await at.press("down", "down", "down", "down", "down", "l")
    await at.shows("Finding on a.txt, line 2")
    await at.other.save_draft(review_id, body="Why two?", **draft)
    # Left and opened again with words of its own: they are still made of the first.
    await at.type(" so?")
    await at.press("escape")
    await at.shows("Why two?")
    await at.press("l")
    await at.shows("Finding on a.txt, line 2")
    await at.press("ctrl+s")
    await at.shows("Also written in another window:", "Why two?")
    [kept] = (await at.other.list_drafts(person=PERSON, review_id=review_id)).drafts
    assert sorted(kept.body.split("\n\n")) == [" so?Why", "Also written in another window:", "Why two?"]
    await at.press("r", "n", "o")
    await at.shows("Request changes. Reason")
    await at.other.save_draft(review_id, body="It deletes all.", severity="blocker", **draft)
    await at.press("ctrl+s")
    await at.shows("You wrote something in another window: a.txt, line 2 (blocker).")
    assert (await at.status(review_id)).status == "pending"
    await at.press("escape")
    await at.shows("blocker, not sent yet on line 2", "It deletes all.")
    # Changed since it was shown.
    await at.press("r")
    await at.shows("Goes with it: 1 finding.")
    await at.other.save_draft(review_id, body="It deletes nearly all.", severity="blocker", **draft)
    await at.press("ctrl+s")
    await at.shows("You wrote something in another window")
    await at.press("ctrl+s")
    await at.becomes(review_id, "changes_requested")
    found = (await at.other.list_findings(review_id=review_id)).findings
    assert [one.claim for one in found if one.source == "person"] == ["It deletes nearly all."]
