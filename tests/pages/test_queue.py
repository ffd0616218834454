"""The inbox, which notifies of new items, and the queue: found by words and paths; many can be closed at once."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import Desk, edited
from tests.broker import StartBroker, fresh_project
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.conftest import Check, OpenWindows, Shot
from tests.pages.plain import Plain
from tests.pages.windows import Windows, write


def test_reviews_are_found_by_state_words_path_and_people(page: Page, shop: Desk, repo: Sandbox, shot: Shot):
    repo.write("a.txt", "changed\n")
    found = shop.put_up(intent="Sort the names", diff=repo.diff("HEAD"), proposer_id="gsd-7")
    shop.put_up(intent="Count the names")
    rejected = shop.put_up(intent="Drop the names")
    shop.verdict(rejected, "rejected", shop.claim(rejected, "rita"))
    page.goto(f"/queue?project={shop.project}")
    rows = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(rows).to_have_count(2)
    shot(page, "queue")
    for field, text in (("Words", "SORT names"), ("Path", "a.tx"), ("Proposer", "gsd-7")):
        write(page, field, text, "Search", exact=True)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("Sort the names")
        page.goto(f"/queue?project={shop.project}")
    page.get_by_role("link", name="Rejected").click()
    expect(rows).to_contain_text("Drop the names")
    write(page, "Words", "nothing like it", "Search")
    expect(page.get_by_text("Nothing is found.")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    page.goto(f"/queue?project={shop.project}&status=all")
    page.get_by_label("Sort", exact=True).select_option("Newest first")
    expect(rows.first).to_contain_text("Drop the names")
    page.keyboard.press("/")
    expect(page.get_by_label("Words")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(f"#row-{found} a")).to_have_attribute("href", f"/reviews/{found}")


def test_nothing_moves_from_under_a_pointer_that_is_pressed(page: Page, shop: Desk):
    shop.put_up(intent="Pressed")
    page.goto(f"/queue?project={shop.project}&sort=newest")
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/queue?*", hold)
    with page.expect_request("**/queue?*"):
        shop.put_up(intent="Above it")
    page.get_by_role("link", name="Pressed").hover()
    page.mouse.down()
    with page.expect_response("**/queue?*"):
        waiting[0].continue_()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.mouse.up()
    expect(page.get_by_role("heading", name="Pressed")).to_be_visible()
    page.unroute_all()


def test_several_are_closed_at_once_and_each_tells_what_came_of_it(windows: Windows, shop: Desk):
    first, second, third = (shop.put_up(intent=f"Number {number}") for number in (1, 2, 3))
    windows.accept_dialogs()
    page = windows.open(at=f"/queue?project={shop.project}")
    page.get_by_role("checkbox", name="Choose Number 1").check()
    page.get_by_role("checkbox", name="Choose Number 3").check()
    page.get_by_text("Close several").click()
    write(page, "Reason", "Not needed any more", "Close the chosen ones")
    expect(page.get_by_role("status").filter(has_text="2 closed")).to_be_visible()
    assert [shop.status(one)["status"] for one in (first, second, third)] == ["closed", "pending", "closed"]
    event = shop.events(first)[-1]
    assert (event["kind"], event["actor"]) == ("review_closed", "ada")
    assert "approve" not in page.get_by_role("main").get_by_role("button").all_inner_texts()


def test_closing_nothing_says_so_and_keeps_the_reason(plain: Plain, shop: Desk):
    shop.put_up(intent="Not closed")
    plain.goto(f"/queue?project={shop.project}").fill("Reason", "Not needed any more").press("Close the chosen ones")
    assert "Tick the reviews" in plain.text()
    assert (plain.status, plain.value("Reason")) == (400, "Not needed any more")
    assert "Not closed" in plain.text("a")


def test_a_filter_that_cannot_be_is_refused_in_words(windows: Windows, shop: Desk):
    windows.allow("status of 400")
    page = windows.open(at=f"/queue?project={shop.project}&category=nonsense&text=kept")
    expect(page.get_by_role("alert")).to_contain_text("category")
    expect(page.get_by_role("alert")).not_to_contain_text("INVALID_INPUT")
    expect(page.get_by_label("Words")).to_have_value("kept")


def test_a_review_comes_to_an_empty_inbox_goes_to_others_and_away_while_one_looks_on(page: Page, shop: Desk):
    page.goto(f"/?project={shop.project}")
    begin = "To begin: tandem init --gate in a repository, then tandem commit"
    expect(page.get_by_role("main")).to_contain_text(begin)
    free, others = page.get_by_role("region", name="Unclaimed"), page.get_by_role("region", name="Waiting on others")
    expect(page.get_by_role("region", name="Needs you")).to_contain_text("Nothing waits for you.")
    review = shop.put_up(intent="Sort the names")
    row = free.get_by_role("listitem").filter(has_text="Sort the names")
    expect(row).to_contain_text("Not taken yet")
    expect(page.get_by_text("To begin")).to_have_count(0)
    expect(row.locator("time")).to_have_attribute("datetime", re.compile(r"^\d{4}-"))
    generation = shop.claim(review, "rita")
    row = others.get_by_role("listitem").filter(has_text="Sort the names")
    expect(row).to_contain_text("Being reviewed: rita")
    expect(free).to_have_count(0)
    shop.verdict(review, "rejected", generation)
    shop.do("close_review", review_id=review)
    expect(page.get_by_text("Sort the names")).to_have_count(0)


def test_what_ada_holds_or_put_up_is_hers_when_it_is_her_turn(page: Page, shop: Desk):
    held = shop.put_up(intent="Held by Ada")
    shop.claim(held, "ada")
    asked = shop.put_up(intent="Ada's change", proposer_id="ada")
    shop.claim(asked, "rita")
    shop.say(asked, "reviewer", "Why?", reviewer_id="rita")
    shop.put_up(intent="Ada's change, in the queue", proposer_id="ada")
    page.goto(f"/?project={shop.project}")
    yours = page.get_by_role("region", name="Needs you").get_by_role("listitem")
    expect(yours).to_have_count(2)
    expect(yours.filter(has_text="Held by Ada")).to_contain_text("Your verdict is asked for")
    expect(yours.filter(has_text="Ada's change")).to_contain_text("A question to you")
    others = page.get_by_role("region", name="Unclaimed").get_by_role("listitem")
    expect(others.filter(has_text="in the queue")).to_have_count(1)


def test_agents_that_do_not_agree_in_three_rounds_are_a_problem(page: Page, shop: Desk):
    review = shop.put_up(intent="Never good enough")
    for number in range(3):
        if number:
            shop.revise(review, intent="Never good enough")
        shop.verdict(review, "changes_requested", shop.claim(review, "rita"))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/?project={shop.project}")
    problems = page.get_by_role("region", name="Problems")
    row = problems.get_by_role("listitem")
    expect(row.get_by_role("link", name="Never good enough", exact=True)).to_be_visible()
    expect(row.locator(".reason")).to_have_text("Three rounds without agreement")
    assert row.locator(".reason").evaluate("one => one.offsetWidth <= one.parentElement.clientWidth")
    expect(page.get_by_text("Never good enough")).to_have_count(1)


def test_a_pool_that_is_paused_is_one_row_with_what_it_holds_up_folded(page: Page, shop: Desk, axe: Check, shot: Shot):
    steward = Steward(shop)
    steward.register()
    shop.do("pause_reviewers", supervisor_id=steward.supervisor_id, reason="The model is down")
    held = [shop.put_up(intent=intent) for intent in ("Sort the names", "Count the names", "Drop the names")]
    shop.claim(shop.put_up(intent="Held by Ada", diff=edited()), "ada")
    page.goto(f"/?project={shop.project}")
    problems = page.get_by_role("region", name="Problems")
    expect(problems).to_contain_text("codex on a-host is paused: The model is down; 3 reviews wait")
    expect(problems.locator("[data-item]")).to_have_count(1)
    expect(problems.get_by_role("link", name="Sort the names")).to_be_hidden()
    assert "sv_" not in page.get_by_role("main").inner_text()
    own = page.get_by_role("region", name="Needs you").get_by_role("listitem")
    expect(own).to_contain_text("+1 −1")
    expect(own.get_by_role("link", name="Give a verdict: Held by Ada")).to_be_visible()
    problems.get_by_text("Which").click()
    expect(problems.get_by_role("link", name="Sort the names")).to_have_attribute("href", f"/reviews/{held[0]}")
    # An open fold stays open while the page is brought up to date.
    shop.put_up(intent="The fourth")
    expect(problems.get_by_role("link", name="The fourth")).to_be_visible()
    axe(page)
    shot(page, "inbox-cause")
    problems.get_by_role("button", name="Resume now").click()
    expect(page.get_by_role("status").filter(has_text="The pool takes reviews again.")).to_be_visible()
    expect(own).to_be_focused()
    expect(page).to_have_url(re.compile(rf"/\?project={shop.project}$"))
    expect(page.get_by_role("region", name="Unclaimed")).to_contain_text("Queued for the pool: codex on a-host")
    expect(problems).to_have_count(0)


def test_reviews_at_which_reviewers_failed_are_one_row_with_a_button_that_tries_them_again(
    page: Page, shop: Desk, axe: Check, shot: Shot
):
    steward = Steward(shop)
    steward.register()
    failed = [shop.put_up(intent=intent) for intent in ("Sort the names", "Count the names")]
    reviewer = steward.one()
    for _ in range(6):
        steward.fail(reviewer, "crashed", reason='status 1: {"error":{"message":"Overloaded"}}')
    page.goto(f"/?project={shop.project}")
    problems = page.get_by_role("region", name="Problems")
    expect(problems.locator("[data-item]")).to_have_count(1)
    expect(problems).to_contain_text("3 reviewers gave no verdict: Overloaded; 2 reviews wait")
    expect(problems.get_by_role("link", name="Sort the names")).to_be_hidden()
    problems.get_by_text("Which").click()
    expect(problems.get_by_role("link", name="Count the names")).to_have_attribute("href", f"/reviews/{failed[1]}")
    axe(page)
    shot(page, "inbox-failure")
    age = problems.locator(".since")
    for width in (1440, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert age.evaluate(
            "one => { one.textContent = '23 h 59 min ago'; return one.scrollWidth <= one.clientWidth; }"
        )
    tops = problems.locator(".act").locator("button, a").evaluate_all("all => all.map(one => one.offsetTop)")
    assert len(set(tops)) < len(tops)
    # One that a person took meanwhile stays with them.
    shop.claim(failed[0], "rita")
    problems.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").filter(has_text="The reviews are in the queue again.")).to_be_visible()
    expect(problems).to_have_count(0)
    assert [shop.status(one)["attention"] for one in failed] == [None, None]
    assert shop.status(failed[0])["reviewer_id"] == "rita"


def test_an_override_of_the_gate_is_a_problem_until_it_is_seen_and_the_next_one_has_the_focus(page: Page, shop: Desk):
    steward = Steward(shop)
    steward.register()
    shop.do("pause_reviewers", supervisor_id=steward.supervisor_id, reason="The model is down")
    change = {"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}
    with Desk(shop.url, shop.project, agent="ann") as ann:
        ann.override(changes=[change], reason="The shop is down", branch="main")
    page.goto(f"/?project={shop.project}")
    problems = page.get_by_role("region", name="Problems").get_by_role("listitem")
    expect(problems).to_have_count(2)
    override = problems.filter(has_text=f"ann overrode the gate of {shop.project} on main: The shop is down")
    expect(override.get_by_role("link", name="Log")).to_have_attribute("href", re.compile("/activity"))
    override.get_by_role("button", name="Seen").click()
    expect(page.get_by_role("status").filter(has_text="Seen.")).to_be_visible()
    expect(problems).to_have_count(1)
    expect(problems).to_be_focused()
    expect(problems).to_contain_text("The model is down")


@VARIATION
def test_of_what_is_not_the_persons_ten_of_a_project_stand_unfolded(page: Page, shop: Desk):
    shop.put_up(intent="By Ada", proposer_id="ada")
    for number in range(10):
        shop.put_up(intent=f"Number {number:02}")
    shop.put_up(intent="Urgent", agent_type="planner")
    page.goto(f"/?project={shop.project}")
    free = page.get_by_role("region", name="Unclaimed")
    expect(free.get_by_role("listitem").first).to_contain_text("Urgent")
    expect(free.get_by_role("listitem").nth(1)).to_contain_text("By Ada")
    expect(page.get_by_role("link", name="Number 07", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Number 08", exact=True)).to_be_hidden()
    page.get_by_text(f"2 more in {shop.project}").click()
    expect(page.get_by_role("link", name="Number 09", exact=True)).to_be_visible()


@VARIATION
def test_the_title_of_every_page_counts_what_needs_the_person(
    start_broker: StartBroker, browser_windows: OpenWindows, shot: Shot
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        page, other = windows.open("ada"), windows.open("ada")
        page.goto("/")
        other.goto("/you")
        expect(page).to_have_title("Inbox · Tandem")
        first, second, _ = (desk.put_up(intent=intent) for intent in ("Sort the names", "Count them", "For others"))
        expect(page.get_by_role("region", name="Unclaimed").get_by_role("listitem")).to_have_count(3)
        expect(page).to_have_title("Inbox · Tandem")
        desk.claim(first, "ada")
        desk.claim(second, "ada")
        expect(page).to_have_title("(2) Inbox · Tandem")
        expect(other).to_have_title("(2) Who are you? · Tandem")
        expect(page.get_by_role("link", name="Inbox , your turn: 2")).to_be_visible()
        shot(page, "inbox")
        desk.verdict(first, "approved")
        expect(page).to_have_title("(1) Inbox · Tandem")
        expect(other).to_have_title("(1) Who are you? · Tandem")


# Headless browsers show no notifications; the page's calls to the browser are recorded.
_RECORD = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (Notification.permission = "granted"); }
  constructor(title, options) { super(); window.shown.push(`${title}: ${options.body}`); }
};
"""


@VARIATION
def test_only_what_is_new_is_told_and_only_once_it_was_asked_for(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        page = windows.open()
        page.add_init_script(_RECORD)
        page.goto("/")
        expect(page.get_by_role("status")).to_have_text("live")
        desk.put_up(intent="Before anybody asked")
        free = page.get_by_role("region", name="Unclaimed").get_by_role("listitem")
        expect(free).to_have_count(1)
        page.get_by_role("button", name="Notify").click()
        expect(page.get_by_role("button", name="Notifying")).to_be_visible()
        second = desk.put_up(intent="The second")
        expect(free).to_have_count(2)
        desk.claim(second, "rita")
        expect(free).to_have_count(1)
        desk.put_up(intent="The third")
        expect(free).to_have_count(2)
        page.wait_for_function("window.shown.length > 1")
        assert page.evaluate("window.shown") == [f"Tandem: a review waits: The {n}" for n in ("second", "third")]
        page.get_by_role("button", name="Notifying").click()
        desk.put_up(intent="The fourth")
        expect(free).to_have_count(3)
        assert len(page.evaluate("window.shown")) == 2
