"""What proves a person has a host name of its own: nothing that another program is sent approves in their place."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.elsewhere import HERE, Elsewhere
from tests.pages.guarded import form_token
from tests.pages.opened import opened, opening, put_up_under, sent_on
from tests.pages.windows import Windows, write


def approve(page: Page, review: str) -> None:
    """Try to approve on the page of a review that the window is at, or a person holds."""
    page.goto(str(httpx.URL(page.url).join(f"/reviews/{review}")))
    claim, verdict = page.get_by_role("button", name="Claim"), page.get_by_role("button", name="Approve")
    expect(claim.or_(verdict).first).to_be_visible()
    if claim.count():
        claim.click()
    verdict.click()


def test_p11_a_browser_that_no_person_opened_by_a_command_gives_no_person_s_approval(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox
) -> None:
    windows.allow("status of 40[13]")
    review = put_up_under(shop, repo, "person")
    page = windows.open("ada")
    page.goto(opening(broker, f"/reviews/{review}", age_s=300))
    expect(page.get_by_role("alert")).to_contain_text("older than a minute")
    approve(page, review)
    expect(page.locator("#acts")).to_contain_text("tandem open")
    assert shop.status(review)["status"] == "claimed"
    page.goto(opening(broker, f"/reviews/{review}"))
    write(page, "Name", "ada", "Go on")
    expect(page).to_have_url(re.compile(rf"//[0-9a-f]{{32}}\.localhost:\d+/reviews/{review}$"))
    approve(page, review)
    expect(page.locator("#acts")).to_contain_text("Approved by ada")
    # Where everyone's browser is known by name only, as it was.
    page.goto(f"{broker.url}/you")
    expect(page.get_by_label("Name")).to_have_value("ada")


def test_a_second_link_leaves_the_pages_of_the_browser_as_they_work(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox
) -> None:
    review = put_up_under(shop, repo, "person")
    page = opened(windows, broker, "ada", f"/reviews/{review}")
    page.context.new_page().goto(str(sent_on(broker, "/")))
    page.get_by_role("button", name="Claim").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#acts")).to_contain_text("Approved by ada")


def test_p11_a_link_proves_once(windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox) -> None:
    windows.allow("status of 40[13]")
    review = put_up_under(shop, repo, "person")
    link, there = opening(broker, f"/reviews/{review}"), sent_on(broker, f"/reviews/{review}")
    # One that only asks for its head uses no link up.
    assert httpx.head(f"{broker.url}{link}", trust_env=False).status_code == httpx.codes.OK
    page, other = windows.open(None, at=link), windows.open("mallory", at=link)
    expect(page).to_have_url(re.compile("localhost"))
    # Nor does the second one work twice, which the first one leads to.
    windows.open(None, at=str(there))
    for used in (link, str(there)):
        other.goto(used)
        expect(other.get_by_role("alert")).to_contain_text("was used already")
        write(other, "Name", "mallory", "Go on")
        approve(other, review)
        expect(other.locator("#acts")).to_contain_text("tandem open")
    assert shop.status(review)["missing"] != []


def test_p11_a_server_on_another_port_is_sent_nothing_that_approves(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox, elsewhere: Elsewhere
) -> None:
    windows.allow(r"^request to another host: [A-Z]+ http://[a-z0-9.]+:\d+/")
    review = put_up_under(shop, repo, "person")
    page = opened(windows, broker, "ada", f"/reviews/{review}")
    home = httpx.URL(page.url)
    # She comes by her old bookmarks, too.
    for host in HERE:
        page.goto(f"http://{host}:{broker.port}/you")
        write(page, "Name", "ada", "Go on")
    got = elsewhere.lure(page)
    assert home.host not in repr(got)
    for headers in got:
        for name in (*HERE, home.host):
            forge(broker, f"{name}:{home.port}", headers["cookie"], review)
    assert (shop.status(review)["status"], shop.status(review)["owed"]) == ("claimed", [])
    # Only what the browser sends to its own host name approves.
    [own] = page.context.cookies(str(home))
    forge(broker, f"{home.host}:{home.port}", f"{own.get('name')}={own.get('value')}", review)
    assert shop.status(review)["status"] == "approved"


def forge(broker: BrokerProcess, host: str, cookie: str, review: str) -> None:
    """Send every form of a review's page by a program that has a browser's cookie."""
    headers = {"cookie": cookie, "host": host}
    with httpx.Client(base_url=broker.url, headers=headers, trust_env=False) as thief:
        for name, more in (
            ("claim", {}),
            ("verdict", {"verdict": "approved", "reason": ""}),
            ("waive", {"need": "person", "reason": "In a hurry", "days": "3"}),
        ):
            shown = thief.get(f"/reviews/{review}").text
            for form in re.findall(rf'<form[^>]*action="/reviews/{review}/{name}".*?</form>', shown, re.DOTALL):
                fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)) | more
                thief.post(f"/reviews/{review}/{name}", data=fields)


def cookie_of(broker: BrokerProcess, host: str, link: str) -> str:
    """The cookie of a browser in which ada has followed a link and said her name, as another program sends it."""
    with httpx.Client(base_url=broker.url, headers={"host": host}, trust_env=False) as browser:
        browser.get(link)
        browser.post("/you", data={"form_token": form_token(browser, "/you"), "name": "ada"})
        [cookie] = browser.cookies.jar
    return f"{cookie.name}={cookie.value}"


def test_p11_a_proof_ends_with_the_broker_and_counts_under_one_name(start_broker: StartBroker, repo: Sandbox) -> None:
    """While it does not run, browsers go on asking the program on its port."""
    own = start_broker(allowed_hosts="mybox,otherbox")
    there = sent_on(own, "/")
    host = there.netloc.decode()
    with Desk(own.url, fresh_project()) as desk:
        desk.register(repo.root)
        kept = cookie_of(own, host, there.raw_path.decode())
        other = cookie_of(own, "mybox", opening(own, "/"))
        reviews = [put_up_under(desk, repo, "person") for _ in range(3)]
        for cookie, name in ((kept, "mybox"), (other, "otherbox"), (other, host)):
            forge(own, name, cookie, reviews[2])
        assert desk.status(reviews[2])["status"] == "claimed"
        forge(own, "mybox", other, reviews[2])
        forge(own, host, kept, reviews[0])
        own.stop()
        own.start()
        forge(own, host, kept, reviews[1])
        assert [desk.status(one)["status"] for one in reviews] == ["approved", "claimed", "approved"]


@VARIATION
def test_a_browser_that_finds_no_such_names_stays_where_it_is_without_a_proof(broker: BrokerProcess) -> None:
    safari = {"user-agent": "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 Version/18.6 Safari/605.1.15"}
    answer = httpx.get(f"{broker.url}{opening(broker, '/queue')}", headers=safari, trust_env=False)
    assert answer.headers["location"] == "/queue"
    assert "set-cookie" not in answer.headers
