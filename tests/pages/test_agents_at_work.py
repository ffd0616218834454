"""Reviewers and cycles: a person watches agents at work, and steps in."""

from __future__ import annotations

import re
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.acceptance.cycling import Crew
from tests.acceptance.pooling import Steward, ended, started
from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import StaffedBroker, counter, only_posix
from tests.broker import BrokerProcess, fresh_project
from tests.modes import VARIATION
from tests.pages.conftest import Check, OpenWindows, Shot
from tests.pages.windows import write


@only_posix
def test_real_reviewers_are_watched_started_drained_and_ended(
    tmp_path: Path, browser_windows: OpenWindows, axe: Check, shot: Shot
):
    with (
        StaffedBroker(tmp_path, {"scaling_ratio": 1, "max_pool_size": 2}) as broker,
        counter(broker, tmp_path / "repository") as project,
        browser_windows(broker.url) as windows,
    ):
        page = windows.open(at="/reviewers")
        expect(page.get_by_role("heading", name=re.compile("custom on .* running"))).to_be_visible()
        review = project.ask("hold until-let")
        at_work = page.get_by_role("region", name=re.compile("^At work")).get_by_role("article")
        expect(at_work.first).to_contain_text("hold until-let")
        axe(page, "main")
        shot(page, "reviewers")
        start = page.get_by_role("button", name="Start", exact=True)
        old = windows.open(javascript=False, at="/reviewers")
        start.click()
        expect(at_work).to_have_count(2)
        # It is not offered in vain, and refused in a sentence where the page is older.
        expect(start).to_have_count(0)
        expect(page.get_by_text("The pool has as many reviewers as it may: another can")).to_be_visible()
        windows.allow("status of 409")
        old.get_by_role("button", name="Start", exact=True).click()
        refusal = old.get_by_role("alert")
        expect(refusal).to_have_text("The pool has as many reviewers as it may. End one, or wait until one has ended.")
        expect(refusal).to_have_attribute("title", "POOL_CAP_REACHED")
        # The log of the one that works, while it is written.
        name = at_work.filter(has_text="hold until-let").get_by_role("link").first.inner_text()
        page.get_by_role("link", name=name, exact=True).click()
        log = page.get_by_role("log")
        expect(log).to_contain_text(review)
        broker.let("until-let")
        expect(log).to_contain_text("verdict")
        axe(page, "[role=log]")
        page.goto("/reviewers")
        expect(at_work.filter(has_text=name)).to_contain_text("reviews done 1")
        write(page, "Why it is paused", "Out to lunch", "Pause")
        expect(page.get_by_text("Out to lunch")).to_be_visible()
        page.goto("/")
        expect(page.get_by_role("region", name="Problems")).to_contain_text("ada paused custom on")
        page.goto("/reviewers")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("heading", name=re.compile("running"))).to_be_visible()


def silent_for(steward: Steward, name: str, seconds: float) -> None:
    """Have a reviewer fall silent so long ago."""
    instant = round((time.time() - seconds) * 1_000_000)
    steward.activity[name] = {"output_us": instant, "silent_us": instant}
    steward.beat()


def test_p1_a_silent_reviewer_is_ended_and_its_review_taken_over_in_one_click(
    page: Page, shop: Desk, axe: Check, shot: Shot
):
    steward = started(shop)
    review = shop.put_up(intent="Wait between attempts")
    name = steward.one()
    generation = shop.claim(review, name)
    page.goto(f"/reviewers?project={shop.project}")
    card = page.get_by_role("article").filter(has_text="Wait between attempts")
    expect(card).to_contain_text("Has had Wait between attempts for")
    silent_for(steward, name, 24 * 60 + 1)
    expect(card).to_contain_text("Silent for 24 min")
    axe(page)
    shot(page, "reviewers-silent")
    # Its own page says the same, without ids and raw values.
    card.get_by_role("link", name="codex-r1", exact=True).click()
    one = page.locator("#reviewer")
    expect(one.get_by_role("heading", name="codex-r1")).to_contain_text("Silent for 24 min")
    expect(one).to_contain_text(re.compile("Has had Wait between attempts for .*pool codex on a-host", re.DOTALL))
    expect(one).to_contain_text(re.compile(r"cost\s+–"))
    for raw in (review, steward.supervisor_id, "4000000", "$0.00", "tokens in", "T00:", "+00:00"):
        expect(one).not_to_contain_text(raw)
    axe(page, "#reviewer")
    shot(page, "reviewer-silent")
    page.goto(f"/reviewers?project={shop.project}")
    page.goto(f"/reviews/{review}")
    for place in ("#review-head", "#stream"):
        expect(page.locator(place)).to_contain_text("codex-r1")
        expect(page.locator(place)).not_to_contain_text(name)
    # Nothing on the page is for a command line or a program.
    expect(page.locator("#review-head")).to_contain_text("codex-r1 has been silent for 24 min.")
    expect(page.locator("#review-head")).not_to_contain_text("tandem review")
    acts = page.locator("#acts")
    expect(acts).to_contain_text(re.compile("codex-r1 has had it for .*Silent for 24 min", re.DOTALL))
    page.go_back()
    card.get_by_role("button", name="End it and take over: codex-r1").click()
    expect(acts.get_by_text("You hold it.")).to_be_visible()
    steward.beat()
    assert steward.known[name] == "kill"
    # Its verdict comes too late.
    late = {"verdict": "approved", "reason": "Fine.", "claim_generation": generation, "round": 1}
    shop.refused("STALE_CLAIM", "submit_verdict", review_id=review, reviewer_id=name, **late)
    assert (shop.status(review)["reviewer_id"], shop.status(review)["verdict"]) == ("ada", None)


@VARIATION
def test_reviewers_that_ended_for_one_cause_are_one_line_and_the_pool_says_why_it_is_paused(
    page: Page, shop: Desk, axe: Check, shot: Shot
):
    steward = started(shop)
    said = 'Its program cannot be started, or failed at once. The end of its log: {"error": {"code": 429}}'
    shop.put_up()
    for _ in range(4):
        [name] = [one["reviewer_id"] for one in steward.beat()["reviewers"]] or [
            shop.do("spawn_reviewer")["reviewer_id"]
        ]
        steward.beat(ended(name, 3, quick=True, error=said))
    page.goto(f"/reviewers?project={shop.project}")
    pool = page.locator(f"#pool-{steward.supervisor_id}")
    expect(pool).to_contain_text(
        re.compile(r"The pool is paused until \d+:\d\d.*: 4 reviewers in a row were rate limited \(429\)\.")
    )
    expect(page.get_by_text("4 ended: rate limited (429)")).to_be_visible()
    reason = page.get_by_text("Its program cannot be started, or failed at once.")
    expect(reason).to_be_hidden()
    page.get_by_text("4 ended:").click()
    expect(reason).to_have_count(1)
    # JSON without a message is all that it said.
    expect(page.get_by_text('"code": 429')).to_have_count(1)
    pool.get_by_role("link", name="Review it myself").click()
    head = page.locator("#review-head")
    expect(head).to_contain_text("No reviewer comes:")
    expect(head).to_contain_text("4 reviewers in a row were rate limited (429).")
    expect(head).to_contain_text("What helps: see why, correct it, then resume the pool.")
    for raw in ("--wait", "Tell your person", "circuit", "tandem ", '{"'):
        expect(head).not_to_contain_text(raw)
    head.get_by_role("link", name="Reviewers").click()
    page.goto(f"/reviewers?project={shop.project}")
    page.get_by_text("4 ended:").click()
    axe(page)
    shot(page, "reviewers-ended")
    pool.get_by_role("button", name="Resume now").click()
    expect(pool).to_contain_text("Reviewers running: 0 of 3.")


@VARIATION
def test_a_cycle_goes_along_its_track_while_one_looks_on(page: Page, broker: BrokerProcess, axe: Check, shot: Shot):
    with Crew(broker.url, fresh_project()) as crew:
        crew.prepare()
        page.goto(f"/cycles?project={crew.project}")
        expect(page.get_by_text("No cycle is under way.")).to_be_visible()
        crew.start("Upload progress")
        row = page.get_by_role("listitem").filter(has_text="Upload progress")
        expect(row.locator("[aria-current=step]")).to_contain_text("frontend")
        row.get_by_role("link").first.click()
        current = page.locator("[aria-current=step]")
        expect(current).to_contain_text("frontend")
        crew.hand_over("codex", todos=["Say how far an upload is"])
        expect(current).to_contain_text("backend")
        handoff = page.get_by_role("article", name=re.compile("gemini to codex"))
        expect(handoff).to_contain_text("Say how far an upload is")
        crew.hand_over("gemini")
        expect(current).to_contain_text("frontend refine")
        crew.hand_over("codex")
        crew.hand_over("gemini")
        expect(page.get_by_role("list", name="Phases").get_by_text("2×")).to_be_visible()
        axe(page, "main")
        shot(page, "cycle")
        crew.complete()
        expect(current).to_contain_text("complete")
        expect(page.get_by_role("cell", name="cycle completed")).to_be_visible()
        content = page.content()
        assert not [one for one in crew.secrets if one in content]
