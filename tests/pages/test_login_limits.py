"""Acts beyond a token's roles are not offered, and refused; one project's token sees no other; a login that is over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.acceptance.reviewing import edited
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.conftest import Check, Shot
from tests.pages.guarded import Guarded, Issued, entered, form_token, post
from tests.pages.test_every_page import TABS
from tests.pages.windows import Windows, write

SECRET = "Zanzibar"
"""In every text of the other project, and nowhere else."""


def registered(guarded: Guarded, folder: Path, name: str) -> str:
    made = Sandbox(folder / name)
    made.write("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    made.commit("start")
    guarded.do("register_project", root=str(made.root), name=name)
    return name


@dataclass(frozen=True)
class Two:
    """Two projects with a review each; people of the first must see nothing of the second."""

    own: str
    own_review: str
    other: str
    other_review: str


@pytest.fixture(scope="session")
def two(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Two:
    folder = tmp_path_factory.mktemp("work")
    own, other = registered(guarded, folder, "lighthouse"), registered(guarded, folder, SECRET)
    return Two(
        own,
        guarded.put_up(own, intent="Paint the lighthouse", diff=edited(), proposer_id="claude-7"),
        other,
        guarded.put_up(other, intent=f"Sail to {SECRET}", diff=edited(), proposer_id=f"{SECRET}-1"),
    )


def test_only_who_sees_everything_of_a_project_may_use_the_pages(guarded: Guarded) -> None:
    narrow = guarded.issue("narrow", ("reviewer", "proposer"))
    with guarded.client() as browser:
        answer = post(browser, "/login", token=narrow.token)
        assert answer.status_code == httpx.codes.FORBIDDEN
        for words in ("proposer, reviewer", "--role operator"):
            assert words in answer.text
        assert browser.get("/queue").status_code == httpx.codes.SEE_OTHER
        assert browser.get(guarded.link(narrow.token)).status_code == httpx.codes.FORBIDDEN


def test_what_a_token_is_not_for_is_not_offered_and_refused(doors: Windows, guarded: Guarded) -> None:
    doors.allow("status of 403")
    review = guarded.put_up(proposer_id="claude-7")
    watcher = guarded.issue("watcher", ("operator",))
    page = entered(doors, guarded, watcher, f"/reviews/{review}")
    expect(page.locator("#acts")).to_contain_text("It needs the role reviewer")
    for name in ("claim", "close", "message", "release", "retry"):
        expect(page.locator(f"#{name}-form")).to_have_count(0)
    page.goto("/queue")
    expect(page.get_by_role("link", name="Improve it").first).to_be_visible()
    expect(page.locator("#chosen input[type=checkbox], #close-chosen")).to_have_count(0)

    with guarded.client(watcher) as browser:
        for act in ("claim", "close", "message", "verdict"):
            fields = {"form_token": form_token(browser, "/you"), "body": "Hear me", "reason": "Why not"}
            answer = browser.post(f"/reviews/{review}/{act}", data=fields)
            assert answer.status_code == httpx.codes.FORBIDDEN, act
            assert "FORBIDDEN" in answer.text
        paused = browser.post("/reviewers/pause", data={"form_token": form_token(browser, "/you")})
        assert paused.status_code == httpx.codes.FORBIDDEN
    status = guarded.status(review)
    assert (status["status"], status["round"]) == ("pending", 1)


def test_a_reviewer_reviews_under_their_own_name_and_does_not_speak_for_the_proposer(
    doors: Windows, guarded: Guarded, two: Two
) -> None:
    page = entered(doors, guarded, guarded.issue("rita", ("operator", "reviewer")), f"/reviews/{two.own_review}")
    expect(page.locator("#in-place-form, #close-form")).to_have_count(0)
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    write(page, "Message as the reviewer", "Which colour?", "Send the message")
    expect(page.locator("#stream")).to_contain_text("Which colour?")
    write(page, "Your verdict on round 1", "White.", "Request changes")
    expect(page.locator("#acts")).to_contain_text("Changes were requested by rita")
    assert guarded.status(two.own_review)["reviewer_id"] == "rita"


def test_a_form_that_states_another_name_changes_nothing_about_who_it_is(guarded: Guarded) -> None:
    review = guarded.put_up()
    with guarded.client(guarded.issue("rita")) as browser:
        fields = {"form_token": form_token(browser, "/you"), "reviewer_id": "grace", "person": "grace", "name": "grace"}
        assert browser.post(f"/reviews/{review}/claim", data=fields).status_code == httpx.codes.OK
    assert guarded.status(review)["reviewer_id"] == "rita"


def test_a_token_of_one_project_sees_nothing_of_another_on_any_page(guarded: Guarded, two: Two) -> None:
    bound = guarded.issue("bound", project=two.own)
    with guarded.client(bound) as browser:
        assert two.own in browser.get("/you").text
        seen: set[str] = set()
        left = [*TABS, "/you", "/activity/reviews", "/queue?status=all", f"/reviews/{two.own_review}"]
        while left:
            here = left.pop()
            seen.add(here)
            answer = browser.get(here)
            assert answer.status_code == httpx.codes.OK, here
            assert SECRET not in answer.text, here
            assert two.other_review not in answer.text, here
            found = re.findall(r'href="(/[^"#]*)', answer.text.replace("&amp;", "&"))
            left += [
                one for one in dict.fromkeys(found) if one not in seen and one not in left and "/static/" not in one
            ]
            assert len(seen) < 300
        assert "Paint the lighthouse" in browser.get("/queue?status=all").text


def test_what_is_another_projects_is_as_if_it_were_not_there(guarded: Guarded, two: Two) -> None:
    with guarded.client(guarded.issue("bound", project=two.own)) as browser:
        for under in ("", "/parts", "/files/0", "/edit", "/viewed", "/export.md"):
            here, nowhere = (browser.get(f"/reviews/{name}{under}") for name in (two.other_review, "rev_nowhere"))
            assert here.status_code == nowhere.status_code == httpx.codes.NOT_FOUND, under
            assert SECRET not in here.text
            assert here.text.replace(two.other_review, "rev_nowhere").count("rev_nowhere") == nowhere.text.count(
                "rev_nowhere"
            )
        for path in ("/", "/queue", "/activity", "/statistics", "/cycles", "/reviewers"):
            refused = browser.get(path, params={"project": two.other})
            assert refused.status_code == httpx.codes.FORBIDDEN, path
            assert "Paint the lighthouse" not in refused.text
        assert browser.get(f"/projects/{two.other}").status_code == httpx.codes.FORBIDDEN
        assert browser.get(f"/projects/{two.own}").status_code == httpx.codes.OK
        fields = {"form_token": form_token(browser, "/you"), "reason": "because I can"}
        assert browser.post(f"/reviews/{two.other_review}/close", data=fields).status_code == httpx.codes.NOT_FOUND
    assert guarded.status(two.other_review)["status"] == "pending"


def test_a_page_hears_nothing_of_another_project(guarded: Guarded, two: Two) -> None:
    with guarded.client(guarded.issue("bound", project=two.own)) as browser, browser.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        guarded.put_up(two.other, intent=f"Sail to {SECRET} again")
        own = guarded.put_up(two.own, intent="Light the lamp")
        told = next(line for line in lines if line.startswith("data"))
        assert own in told
        assert SECRET not in told


def test_a_page_whose_token_is_revoked_goes_to_the_login_and_comes_back_with_what_was_written(
    doors: Windows, guarded: Guarded
) -> None:
    doors.allow("status of 401")
    issued = guarded.issue("grace")
    review = guarded.put_up(proposer_id="claude-7")
    page = entered(doors, guarded, issued, f"/reviews/{review}")
    second = page.context.new_page()
    second.goto("/activity")
    for one in (page, second):
        expect(one.locator("#live")).to_have_text("live")
    page.locator("#message-body").fill("A thought that took an hour.")
    guarded.revoke(issued)
    for one in (page, second):
        expect(one.get_by_role("heading", name="Log in")).to_be_visible()
        expect(one.locator("main")).to_contain_text("You are not logged in any more")
    write(page, "Access token", guarded.issue("grace").token, "Log in")
    expect(page).to_have_url(re.compile(f"/reviews/{review}$"))
    expect(page.locator("#message-body")).to_have_value("A thought that took an hour.")


@VARIATION
def test_a_page_with_something_on_it_that_no_window_keeps_stays(
    doors: Windows, guarded: Guarded, axe: Check, shot: Shot
) -> None:
    doors.allow("status of 401")
    issued = guarded.issue("grace")
    page = entered(doors, guarded, issued, "/queue")
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_text("Close several").click()
    page.get_by_label("Reason").fill("No one needs them.")
    guarded.revoke(issued)
    expect(page.locator("#notice")).to_contain_text("You are not logged in any more. Copy what you typed")
    expect(page.locator("#notice").get_by_role("link")).to_have_attribute("href", "/login?to=/queue")
    expect(page.get_by_label("Reason")).to_have_value("No one needs them.")
    shot(page, "login-over")
    page.get_by_role("button", name="Close the chosen ones").click()
    expect(page.get_by_role("heading", name="Not sent")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("No one needs them.")
    axe(page)
    shot(page, "login-kept")


@VARIATION
def test_a_form_that_is_sent_too_late_comes_back_with_what_was_typed(doors: Windows, guarded: Guarded) -> None:
    """Without a script, which would have kept it."""
    doors.allow("status of 401")
    issued = guarded.issue("grace")
    review = guarded.put_up(proposer_id="claude-7")
    page = entered(doors, guarded, issued, f"/reviews/{review}", javascript=False)
    page.get_by_label("Ask ").fill("A thought that took an hour.\nAnd <b>another</b>.")
    guarded.revoke(issued)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("heading", name="Not sent")).to_be_visible()
    expect(page.get_by_label("Body")).to_have_value("A thought that took an hour.\nAnd <b>another</b>.")
    expect(page.get_by_role("textbox")).to_have_count(1)
    expect(page.get_by_role("link", name="Log in")).to_have_attribute("href", f"/login?to=/reviews/{review}")


def test_a_windows_other_pages_leave_when_somebody_logs_out(doors: Windows, guarded: Guarded) -> None:
    doors.allow("status of 401")
    page = entered(doors, guarded, guarded.issue("grace"), "/queue")
    second = page.context.new_page()
    second.goto("/you")
    expect(page.locator("#live")).to_have_text("live")
    second.get_by_role("button", name="Log out").click()
    expect(second).to_have_url(re.compile("/login$"))
    guarded.put_up()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_program_may_send_its_token_with_each_request(guarded: Guarded, two: Two) -> None:
    ada: Issued = guarded.issue("ada", project=two.own)
    bearer = {"authorization": f"Bearer {ada.token}"}
    with guarded.client() as client:
        page = client.get(f"/reviews/{two.own_review}", headers=bearer)
        assert page.status_code == httpx.codes.OK
        assert ">ada</a>" in page.text
        assert client.get(f"/reviews/{two.other_review}", headers=bearer).status_code == httpx.codes.NOT_FOUND
        assert client.get("/queue").status_code == httpx.codes.SEE_OTHER
        guarded.revoke(ada)
        assert client.get("/queue", headers=bearer).status_code == httpx.codes.UNAUTHORIZED
