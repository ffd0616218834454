"""Findings on the page: few actions to report and to settle them, through all rounds, and their suggestions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.acceptance.staffed import until
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import held, keeps, line, shown, staged
from tests.pages.conftest import Check, Shot
from tests.pages.counting import Actions
from tests.pages.plain import Plain
from tests.pages.windows import Windows, write

MAJOR = {"file": "a.txt", "line": 2, "severity": "major", "claim": "It is *better*, not best."}
MINOR = {"file": "a.txt", "line": 2, "severity": "minor", "claim": "Odd.", "suggestion": "good"}


def found(shop: Desk, review: str) -> list[dict[str, Any]]:
    return shop.do("list_findings", review_id=review)["findings"]


@VARIATION
def test_an_approval_of_round_two_with_all_findings_verified_takes_three_actions(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"], findings=[MAJOR, MINOR])
    shop.revise(review, diff=edited(text="best"))
    page.goto(f"/reviews/{review}?since=1")
    expect(page.get_by_role("heading", name="Your 2 findings: 2 open")).to_be_visible()
    ada = Actions(page)
    ada.press("c")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    ada.press("Shift+V")
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert ada.count <= 3
    assert {one["state"] for one in found(shop, review)} == {"verified"}
    expect(page.get_by_role("heading", name="Your 2 findings: 2 verified")).to_be_visible()


def test_a_finding_of_another_review_names_it_with_a_link(page: Page, shop: Desk) -> None:
    first = shop.put_up(diff=edited())
    shop.decide(first, "changes_requested", findings=[MAJOR, {"severity": "blocker", "claim": "Use the queue."}])
    shop.do("close_review", review_id=first)
    review = shop.put_up(diff=edited())
    page.goto(f"/reviews/{review}")
    for place in ("#findings li", ".finding .facts"):
        expect(page.locator(place).filter(has_text=f"found in {first}")).to_have_count(2)
    page.locator("#findings").get_by_role("link", name=first).first.click()
    expect(page).to_have_url(re.compile(f"/reviews/{first}#findings$"))
    expect(page.locator("#findings")).not_to_contain_text("found in")


@VARIATION
def test_the_severity_of_a_finding_is_chosen_by_key(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    line(page, 2).focus()
    page.keyboard.press("c")
    page.keyboard.type("It loses data.")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Severity")).to_be_focused()
    page.keyboard.type("bl")
    page.get_by_role("button", name="Add to the verdict").press("Enter")
    expect(page.locator(".pending-where")).to_contain_text("blocker")
    # A verdict passes over no draft of a moment ago that the window did not show.
    until(lambda: "blocker" in str(shop.do("list_drafts", person="ada", review_id=review)), "the draft is kept")
    page.reload()
    expect(page.locator(".pending-where")).to_contain_text("blocker")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator("table.diff .thread").get_by_text("Blocker")).to_be_visible()
    [one] = found(shop, review)
    assert (one["severity"], one["side"], one["line"]) == ("blocker", "new", 2)


def test_an_approval_over_open_findings_shows_them_and_keeps_what_was_typed(
    page: Page, shop: Desk, windows: Windows, axe: Check, shot: Shot
) -> None:
    windows.allow("status of 409|status of 4")
    review = held(page, shop)
    shop.verdict(review, "comment", findings=[MAJOR, MINOR])
    expect(page.locator("table.diff .thread").get_by_text("It is better, not best.")).to_be_visible()
    page.get_by_label("Your verdict on round 1").fill("Good enough.")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("Open findings keep the approval back.")).to_be_visible()
    expect(page.get_by_label("Your verdict on round 1")).to_have_value("Good enough.")
    axe(page, "#acts")
    shot(page, "review-open-findings")
    chosen = page.get_by_label("It is *better*, not best.")
    chosen.select_option("Verified")
    # It stays when the page is brought up to date.
    shop.say(review, "proposer", "Is it?")
    expect(page.locator("#stream").get_by_text("Is it?")).to_be_visible()
    expect(page.get_by_text("prop-1 answers next")).to_have_count(0)
    expect(chosen).to_have_value("verified")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("Not sent yet.")).to_be_visible()  # for a message meanwhile
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert [one["state"] for one in found(shop, review)] == ["verified", "open"]
    assert shop.status(review)["verdict_reason"] == "Good enough."


@VARIATION
def test_findings_of_an_earlier_round_stand_where_they_are_now(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("gone.txt", "one\n")
    repo.write("a.txt", repo.read("a.txt").replace(b"line 4", b"better"))
    review = shop.put_up(diff=staged(repo))
    findings = [
        {**MAJOR, "line": 4},
        {"file": "gone.txt", "line": 1, "severity": "nit", "claim": "Needless."},
        {"severity": "nit", "claim": "No tests."},
    ]
    shop.decide(review, "changes_requested", findings=findings)
    text = repo.read("a.txt")
    repo.write("a.txt", b"new line\n" + text.replace(b"line 4", b"better"))
    shop.revise(review, diff=staged(repo))
    page.goto(f"/reviews/{review}")
    below = page.locator("tr:has(a[data-side='after'][data-line='5']) + tr.threads")
    expect(below).to_contain_text("from round 1")
    expect(below).not_to_contain_text("these lines were changed")
    above = page.locator("#findings-above")
    expect(above).to_contain_text("No tests.")
    expect(above).to_contain_text("which is gone")
    # The keys go through them, in the order of the list, and do not open an editor on the way.
    for key, place in (("]", below), ("]", above), ("]", above), ("[", above), ("[", below)):
        page.keyboard.press(key)
        page.keyboard.press("c")
        expect(place.locator(".finding:focus")).to_have_count(1)
    expect(page.get_by_label("Finding on")).to_have_count(0)
    repo.write("a.txt", b"new line\n" + text.replace(b"line 4", b"best"))
    shop.revise(review, diff=staged(repo))
    page.goto(f"/reviews/{review}")
    expect(page.locator("table.diff .thread")).to_contain_text("these lines were changed")


def test_the_proposers_answers_are_behind_a_menu_for_others(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"], findings=[MAJOR])
    thread = page.locator("table.diff .thread")
    expect(thread.get_by_role("button", name="Verified")).to_be_visible()
    expect(thread.get_by_role("button", name="Fixed")).to_be_hidden()
    thread.get_by_text(f"For {PROPOSER}").click()
    thread.get_by_text("Refute or defer").click()
    thread.locator("details[open]").get_by_label("Why", exact=True).last.fill("The caller sees to it.")
    thread.get_by_role("button", name="Refuted").click()
    expect(thread.get_by_text("The caller sees to it.")).to_be_visible()
    # Contested, it is a reviewer's again in the same round.
    assert shop.status(review)["status"] == "pending"
    # Who answered does not judge that.
    (finding,) = shop.do("list_findings", review_id=review)["findings"]
    judged = {"finding_id": finding["finding_id"], "answer": "upheld", "reviewer_id": "bert"}
    shop.do("answer_finding", review_id=review, **judged)
    page.goto(f"/projects/{shop.project}/lessons")
    expect(page.get_by_text("The caller sees to it.")).to_be_visible()
    page.get_by_role("button", name="Remove the lesson on a.txt").click()
    expect(page.get_by_text("No lessons.")).to_be_visible()
    assert shop.do("list_lessons")["lessons"] == []


def test_suggestions_become_a_counter_patch(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    shop.verdict(review, "comment", findings=[MINOR, {**MINOR, "line": 4, "end_line": 5, "suggestion": "four"}])
    expect(page.locator("table.diff .thread")).to_have_count(2)
    page.get_by_text("Apply 2 suggestions").click()
    page.get_by_role("button", name="Make a counter-patch of them").click()
    content = page.get_by_label("Content of a.txt")
    expect(content).to_have_value("line 1\ngood\nline 3\nfour\n" + "".join(f"line {n}\n" for n in range(6, 11)))
    write(page, "Why", "As suggested.", "Request changes with it", exact=True)
    expect(page.locator("#counter-patch").get_by_role("heading", name="Counter-patch by ada")).to_be_visible()
    assert "+good\n" in shop.discussion(review)[-1]["diff"]


def test_settling_works_without_a_script(shop: Desk, plain: Plain) -> None:
    review = shop.put_up(diff=edited())
    shop.verdict(review, "comment", shop.claim(review, "ada"), findings=[MAJOR, MINOR])
    plain.goto(f"/reviews/{review}").press("Verified", within="table.diff .finding", told="Odd.")
    assert "Your 2 findings: 1 verified, 1 open" in plain.text()
    assert "Approved by ada" in plain.press("Approve, all verified").text("#acts")
    assert [one["state"] for one in found(shop, review)] == ["verified", "verified"]


@VARIATION
def test_a_removed_line_keeps_its_place_and_since_a_round_is_quoted(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"])
    shop.revise(review, diff=edited(text="best"))
    shop.claim(review, "ada")
    for address, text in (("", "Of the base."), ("?since=1", "Of round 1.")):
        page.goto(f"/reviews/{review}{address}")
        line(page, 2, side="before").click()
        write(page, "Finding on a.txt:2 (a removed line)", text, "Send now")
        expect(page.locator(".thread").get_by_text(text)).to_be_visible()
    kept = [(one["side"], one["line"], one["claim"]) for one in found(shop, review)][1:]
    assert kept == [("old", 2, "Of the base."), ("new", 2, "On the removed line 2, `better`:\n\nOf round 1.")]
    # A finding on a line of the base stands above the file where another round's lines are shown.
    expect(page.locator(".unplaced")).to_contain_text("Line 2 before the change:")


def test_a_whole_finding_is_written_at_a_line(page: Page, shop: Desk, windows: Windows, axe: Check, shot: Shot) -> None:
    review = held(page, shop)
    line(page, 2).click()
    page.keyboard.type("It is odd.")
    expect(page.get_by_label("Category")).to_be_hidden()
    line(page, 4).click(modifiers=["Shift"])
    expect(page.get_by_label("Finding on a.txt:2–4")).to_be_focused()
    expect(page.locator("tr.line.chosen")).to_have_count(3)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("To line")).to_have_value("4")
    suggestion = page.get_by_label("Suggest a change")
    expect(suggestion).to_have_value("better\nline 3\nline 4")
    # By the keyboard alone, too.
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Finding on a.txt:2–3")).to_be_visible()
    expect(page.get_by_label("Category")).to_be_focused()
    page.keyboard.type("security")
    page.get_by_label("Was there before").check()
    page.get_by_label("How it fails").fill("Always.")
    expect(suggestion).to_have_value("better\nline 3")
    shot(page, "review-finding-whole")
    page.evaluate("window.scrollTo(0, 0)")  # an element below the head is no target
    axe(page, "#change")
    # Everything of it is in another window, too, and comes back after the page is loaded again.
    with keeps(page, "best\nline three", field="suggestion"):
        suggestion.fill("best\nline three")
    other = windows.open("ada", at=f"/reviews/{review}")
    expect(other.locator(".pending-where")).to_contain_text("a.txt:2–3 · minor · security · with a suggestion")
    page.reload()
    expect(page.get_by_label("How it fails")).to_have_value("Always.")
    expect(suggestion).to_have_value("best\nline three")
    page.get_by_role("button", name="Add to the verdict").click()
    expect(page.locator("table.diff .pending-where")).to_contain_text("was there before")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator("table.diff .thread").get_by_text("Always.")).to_be_visible()
    [one] = found(shop, review)
    said = {name: one[name] for name in ("line", "end_line", "category", "failure", "suggestion", "pre_existing")}
    assert said == {
        "line": 2,
        "end_line": 3,
        "category": "security",
        "failure": "Always.",
        "suggestion": "best\nline three",
        "pre_existing": True,
    }


@VARIATION
def test_a_finding_on_a_whole_file_is_written_at_its_head(page: Page, shop: Desk, axe: Check) -> None:
    review = held(page, shop)
    button, editor = page.get_by_role("button", name="Comment on a.txt"), page.get_by_label("Finding on a.txt")
    button.press("Enter")
    with keeps(page, "It belongs elsewhere."):
        editor.fill("It belongs elsewhere.")
    assert page.locator("[data-comment-form] [name=end_line], [data-comment-form] [name=suggestion]").count() == 0
    axe(page, "#change")
    page.get_by_role("button", name="Add to the verdict").press("Enter")
    expect(button).to_be_focused()
    # A newer round has it at the head of the file, too.
    shop.revise(review, diff=edited(text="best"))
    page.goto(f"/reviews/{review}")
    expect(page.locator(".file .pending-state")).to_have_text("Your draft from round 1, not sent yet")
    expect(page.locator(".file .pending-where")).to_have_text("a.txt · minor")
    page.keyboard.press("c")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    page.get_by_role("button", name="Edit").press("Enter")
    page.get_by_role("button", name="Send now").press("Enter")
    expect(page.locator(".file .thread").get_by_text("It belongs elsewhere.")).to_be_visible()
    [one] = found(shop, review)
    assert (one["file"], one["line"], one["claim"]) == ("a.txt", None, "It belongs elsewhere.")


@VARIATION
def test_what_the_broker_does_not_take_at_once_is_said_to_be_kept(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("ERR_FAILED|Failed to fetch|status of 0|htmx")
    review = held(page, shop)
    page.get_by_role("button", name="Comment on a.txt").press("Enter")
    with keeps(page, "Why?"):
        page.get_by_label("Finding on a.txt").fill("Why?")
    page.route("**/comment*", lambda route: route.abort(), times=1)
    page.get_by_role("button", name="Send now").press("Enter")
    expect(page.get_by_text("Not sent, kept as your draft. The broker did not take it")).to_be_visible()
    page.get_by_role("button", name="Send now").press("Enter")
    expect(page.locator(".file .thread").get_by_text("Why?")).to_be_visible()
    assert len(found(shop, review)) == 1


def test_an_approval_over_findings_of_another_review_leads_there(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("status of 409|status of 4")
    held(page, shop)
    other = shop.put_up(diff=edited())
    shop.decide(other, "comment", findings=[MAJOR])
    page.get_by_label("Your verdict on round 1").fill("Good.")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("Settle them there:")).to_be_visible()
    page.get_by_role("link", name="Major, a.txt:2, by").click()
    expect(page).to_have_url(re.compile(f"/reviews/{other}#findings"))


@VARIATION
def test_a_suggestion_is_sent_only_if_it_changes_the_lines(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    line(page, 2).click()
    page.keyboard.type("It is odd.")
    editor = page.locator("table.diff")
    editor.get_by_text("More", exact=True).click()
    editor.get_by_label("Suggest a change").press("End")
    page.keyboard.type("!")
    page.keyboard.press("Backspace")
    page.get_by_role("button", name="Send now").click()
    expect(page.locator("table.diff .thread").get_by_text("It is odd.")).to_be_visible()
    line(page, 3).click()
    page.keyboard.type("Needless.")
    editor.get_by_text("More", exact=True).click()
    editor.get_by_label("Suggest a change").fill("")
    page.get_by_role("button", name="Send now").click()
    expect(page.locator("table.diff .thread").get_by_text("Needless.")).to_be_visible()
    assert [one["suggestion"] for one in found(shop, review)] == [None, ""]


@VARIATION
def test_a_whole_finding_is_written_without_a_script(shop: Desk, plain: Plain) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review, "ada")
    plain.goto(f"/reviews/{review}/files/0/comment?after=2")
    assert plain.value("Suggest a change") == "better"
    for label, text in (("Category", "style"), ("Suggest a change", "best\nof all"), ("To line", "3")):
        plain.fill(label, text)
    assert "of all" in plain.fill("Finding", "Odd.").press("Send the finding").text("table.diff .thread")
    assert "Fine." in plain.at(4).fill("Finding", "Fine.").press("Send the finding").text("table.diff .thread")
    names = ("end_line", "category", "suggestion", "pre_existing")
    assert [[one[name] for name in names] for one in found(shop, review)] == [
        [3, "style", "best\nof all", False],
        [None, None, None, False],
    ]


@pytest.mark.parametrize("under", ["", "/files/0/comment?after=2"], ids=["verdict", "line"])
def test_without_a_script_a_finding_that_does_not_say_what_the_fault_is_comes_back(
    shop: Desk, plain: Plain, under: str
) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review, "ada")
    plain.goto(f"/reviews/{review}{under}").fill("How it fails", "On every call.")
    plain.press("Send the finding" if under else "Approve")
    assert "Say first what the fault is; nothing is sent yet." in plain.text()
    assert (plain.status, plain.value("How it fails")) == (400, "On every call.")
    assert plain.focus == plain.field("Finding")
    assert (found(shop, review), shop.status(review)["status"]) == ([], "claimed")


def test_the_answer_to_a_claim_moves_no_line_from_under_a_press(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("new.txt", "one\ntwo\n")
    shown(page, shop, diff=staged(repo))
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/claim?*", hold)
    lines = page.locator('table.diff[data-path="new.txt"]')
    lines.locator('a[data-line="1"]').click()
    with page.expect_request("**/claim?*"):
        page.get_by_label("Finding on new.txt:1").fill("Why one?")
    lines.locator('a[data-line="2"]').hover()
    page.mouse.down()
    with page.expect_response("**/claim?*"):
        waiting[0].continue_()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.mouse.up()
    expect(page.get_by_label("Finding on new.txt:2")).to_be_focused()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    page.unroute_all()


@pytest.mark.parametrize("button", ["Add to the verdict", pytest.param("Send now", marks=VARIATION)])
def test_the_redraw_after_the_claim_leaves_what_is_typed_alone(
    page: Page, shop: Desk, repo: Sandbox, button: str
) -> None:
    repo.write("new.txt", "".join(f"value {number}\n" for number in range(1, 41)))
    review = shown(page, shop, diff=staged(repo))
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/claim?*", hold)
    page.locator('table.diff[data-path="new.txt"] a[data-line="30"]').click()
    with page.expect_request("**/claim?*"):
        page.get_by_label("Finding on new.txt:30").fill("Three of them.")
    page.get_by_text("More", exact=True).click()
    end = page.locator("#change").get_by_label("To line")
    end.press_sequentially("32")
    end.press("ArrowLeft")
    waiting[0].continue_()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    expect(end).to_be_focused()
    expect(end).to_have_value("32")
    assert end.evaluate("(field) => field.selectionStart") == 1
    # As long as people press.
    page.get_by_role("button", name=button).click(delay=100)
    if button == "Add to the verdict":
        expect(page.locator(".pending-where")).to_contain_text("new.txt:30–32")
        write(page, "Your verdict on round 1", "Three.", "Request changes")
    expect(page.locator("table.diff .thread").get_by_text("Three of them.")).to_be_visible()
    [one] = [one for one in found(shop, review) if one["file"]]
    assert (one["line"], one["end_line"]) == (30, 32)
    page.unroute_all()
