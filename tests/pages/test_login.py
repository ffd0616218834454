"""Logging in where access tokens are required: by a token, by a link; what the browser keeps, and who is kept out."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from urllib.parse import quote, urljoin

import httpx
import pytest
from playwright.sync_api import Page, expect

from tandem.core.secret_key import Tokens, load_or_make
from tests.broker import BrokerProcess, StartBroker
from tests.modes import VARIATION
from tests.pages.conftest import Check, Shot
from tests.pages.elsewhere import serving_elsewhere
from tests.pages.guarded import Guarded, Issued, entered, form_token, post
from tests.pages.test_every_page import WIDTHS, assert_fits
from tests.pages.test_foreign import form
from tests.pages.windows import Windows, write

COOKIE = "tandem_person"
SEE_OTHER, UNAUTHENTICATED, FORBIDDEN = httpx.codes.SEE_OTHER, httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN


@pytest.fixture(scope="module")
def ada(guarded: Guarded) -> Issued:
    return guarded.issue("ada")


@pytest.fixture
def stranger(guarded: Guarded) -> Iterator[httpx.Client]:
    """A browser that is not logged in."""
    with guarded.client() as client:
        yield client


def is_in(client: httpx.Client) -> bool:
    return client.get("/queue").is_success


def steal(browser: httpx.Client, thief: httpx.Client) -> None:
    """Copy the host and the cookie that a browser sends with each request."""
    thief.headers["host"] = browser.headers["host"]
    thief.cookies.set(COOKIE, browser.cookies[COOKIE])


def cookie_of(answer: httpx.Response) -> Morsel[str]:
    [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie.key == COOKIE
    return cookie


@VARIATION
def test_the_login_page_is_accessible_and_fits(doors: Windows, axe: Check, shot: Shot, guarded: Guarded) -> None:
    doors.allow("status of 401")
    page = doors.open(None, at="/queue?status=closed")
    expect(page).to_have_url(f"{guarded.url}/login?to={quote('/queue?status=closed')}")
    expect(page.get_by_label("Access token")).to_be_focused()
    expect(page.get_by_label("Access token")).to_have_attribute("type", "password")
    expect(page.locator("main")).to_contain_text("tandem open logs in by itself")
    expect(page.locator("main")).to_contain_text("tandem token create")
    in_both_themes_and_widths(page, "login", axe, shot)
    write(page, "Access token", "tdm_no", "Log in")
    expect(page.get_by_role("alert").first).to_contain_text("knows no such access token")
    axe(page, "main")
    assert_fits(page)
    shot(page, "login-refused")


def in_both_themes_and_widths(page: Page, name: str, axe: Check, shot: Shot) -> None:
    """A page is accessible and fits; rules that do not depend on the theme are checked once."""
    axe(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert_fits(page)
        if width == 1280:
            shot(page, f"{name}-light-{width}")
    page.emulate_media(color_scheme="dark")
    axe(page, colours_only=True)
    shot(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")


def test_a_token_logs_in_and_leads_back(doors: Windows, guarded: Guarded, ada: Issued, axe: Check, shot: Shot) -> None:
    page = entered(doors, guarded, ada, "/queue?status=closed&sort=newest")
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    page.get_by_role("link", name="ada").click()
    facts = page.get_by_role("region", name="Logged in")
    expect(facts).to_contain_text("proposer, reviewer, operator")
    expect(facts).to_contain_text("all")
    expect(page.get_by_label("Name")).to_have_count(0)
    in_both_themes_and_widths(page, "you", axe, shot)
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login$"))
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_nothing_but_the_login_is_open(stranger: httpx.Client) -> None:
    for path in (
        "/",
        "/you",
        "/queue",
        "/reviews/rev_x",
        "/reviews/rev_x/parts",
        "/projects",
        "/activity",
        "/reviewers",
    ):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["location"]) == (
            SEE_OTHER,
            "/login" if path == "/" else f"/login?to={quote(path)}",
        )
    for headers in ({"hx-request": "true"}, {"sec-fetch-dest": "empty"}):
        answer = stranger.get("/events", headers=headers)
        assert answer.status_code == UNAUTHENTICATED
        assert answer.headers["www-authenticate"] == 'Bearer realm="tandem"'
    assert post(stranger, "/queue", review_id="rev_x").status_code == UNAUTHENTICATED
    assert stranger.post("/you", data={"name": "mallory"}).status_code == UNAUTHENTICATED
    styles = re.search(r'href="(/static/[^"]+/site\.css)"', stranger.get("/login").text)
    assert styles
    assert stranger.get(styles[1]).status_code == httpx.codes.OK


def test_a_wrong_revoked_or_expired_token_is_refused_with_what_to_do(guarded: Guarded, stranger: httpx.Client) -> None:
    revoked = guarded.issue("revoked")
    guarded.revoke(revoked)
    expired = guarded.do("create_token", name="expired", roles=["operator"], days=1e-9)["token"]
    unknown = revoked.token[:-4] + "AAAA"
    for token, told in (
        (revoked.token, "was revoked"),
        (expired, "has expired"),
        (unknown, "knows no such"),
        ("", "knows no such"),
        ("schlüssel", "knows no such"),
        ("x" * 5000, "knows no such"),
    ):
        answer = post(stranger, "/login", token=token)
        assert answer.status_code == UNAUTHENTICATED, token
        assert told in answer.text
        assert "from the person who runs the broker" in answer.text
        assert not token or token not in answer.text
        assert not is_in(stranger)


def test_the_cookie_holds_no_token_and_no_script_or_other_site_gets_it(
    guarded: Guarded, stranger: httpx.Client, ada: Issued
) -> None:
    cookie = cookie_of(post(stranger, "/login", token=ada.token))
    assert cookie["httponly"]
    assert (cookie["samesite"], cookie["path"], cookie["domain"]) == ("lax", "/", "")
    assert 0 < int(cookie["max-age"]) <= 30 * 86_400
    assert not cookie["secure"]
    body = base64.urlsafe_b64decode(cookie.value.partition(".")[0] + "==")
    assert ada.token_id.encode() in body
    for secret in (ada.token, ada.token[-43:], ada.token[4:22] + "_"):
        assert secret.encode() not in body
        assert secret not in cookie.value
    with guarded.client() as behind_tls:
        behind_tls.headers["host"] = "team.example"
        assert cookie_of(post(behind_tls, "/login", {"origin": "https://team.example"}, token=ada.token))["secure"]
        # Only a proxy that the settings name is believed this (tests/interfaces/test_proxies.py).
        by_link = behind_tls.get(guarded.link(ada.token), headers={"x-forwarded-proto": "https"})
        assert not cookie_of(by_link)["secure"]


def test_a_login_is_another_session_than_whatever_the_browser_had(
    guarded: Guarded, stranger: httpx.Client, ada: Issued
) -> None:
    before = form_token(stranger)
    planted = stranger.cookies[COOKIE]
    post(stranger, "/login", token=ada.token)
    assert is_in(stranger)
    assert stranger.cookies[COOKIE] != planted
    assert form_token(stranger, "/you") != before
    with guarded.client() as attacker:
        steal(stranger, attacker)
        attacker.cookies.set(COOKIE, planted)
        assert not is_in(attacker)
        # Nor is a form accepted from the logged-in person with a token that the attacker knew before.
        refused = stranger.post("/you", data={"form_token": before, "name": "mallory"})
        assert refused.status_code == FORBIDDEN


def test_a_cookie_that_is_made_up_or_a_trusted_brokers_logs_nobody_in(
    guarded: Guarded, stranger: httpx.Client, ada: Issued
) -> None:
    secret = Tokens(load_or_make(next(guarded.broker.data_dir.glob("*key*"))))
    body = base64.urlsafe_b64encode(f"session 9999999999 {ada.token_id} ada".encode()).decode().rstrip("=")
    for seal in (secret.seal(f"person {body}"), secret.seal(body), "0" * 64, ""):
        stranger.cookies.set(COOKIE, f"{body}.{seal}")
        assert not is_in(stranger)


def test_logging_out_ends_the_login_whoever_copied_its_cookie(guarded: Guarded, ada: Issued) -> None:
    with guarded.client(ada) as browser, guarded.client() as thief:
        steal(browser, thief)
        assert is_in(thief)
        assert post(browser, "/logout").headers["location"] == "/login"
        assert not is_in(browser)
        assert not is_in(thief)
    with guarded.client(ada) as again:
        assert is_in(again)
        assert again.get("/logout").status_code == httpx.codes.METHOD_NOT_ALLOWED


def test_a_login_its_link_and_its_end_count_at_every_node_and_after_a_restart(
    start_broker: StartBroker, postgres_url: str, tmp_path: Path
) -> None:
    shared = {"auth": "token", "database_url": postgres_url, "secret_key_file": str(tmp_path / "secret.key")}
    here, there = (Guarded(start_broker(**shared)) for _ in range(2))
    ada = here.issue("ada")
    link = here.link(ada.token)
    with there.client() as by_link, here.client() as again:
        by_link.get(link)
        assert is_in(by_link)
        assert again.get(link).status_code == UNAUTHENTICATED
    with here.client(ada) as browser, here.client(ada) as other, there.client() as thief:
        steal(browser, thief)
        assert is_in(thief)
        post(browser, "/logout")
        assert not is_in(thief)
        there.broker.stop()
        there.broker.start()
        assert not is_in(thief)
        steal(other, thief)
        assert is_in(thief), "a login elsewhere by the same token goes on"


def test_a_link_logs_in_once(guarded: Guarded, stranger: httpx.Client, ada: Issued) -> None:
    link = guarded.link(ada.token)
    assert ada.token not in link
    # A HEAD request does not use the link up; and no other site sends a person through it.
    assert stranger.head(link).status_code == httpx.codes.OK
    sent = stranger.get(link, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert (sent.status_code, is_in(stranger)) == (FORBIDDEN, False)
    assert "tandem open" in sent.text

    answer = stranger.get(f"{link}&to={quote('/queue?status=closed')}")
    assert (answer.status_code, answer.headers["location"]) == (SEE_OTHER, "/queue?status=closed")
    assert is_in(stranger)
    assert ">ada</a>" in stranger.get("/queue").text
    with guarded.client() as second:
        used = second.get(link)
        assert used.status_code == UNAUTHENTICATED
        assert "used already" in used.text
        assert not is_in(second)
        assert second.get("/login?code=made.up").status_code == UNAUTHENTICATED


def test_the_owner_logs_in_by_a_link_and_is_asked_for_a_name_once(
    doors: Windows, guarded: Guarded, axe: Check, shot: Shot
) -> None:
    page = doors.open(None, at=guarded.link())
    expect(page).to_have_url(re.compile(r"//[0-9a-f]{32}\.localhost:\d+/you"))
    expect(page.get_by_role("region", name="Logged in")).to_contain_text("the owner of this broker")
    page.get_by_label("Name").fill("Grace Hopper")
    axe(page, "main")
    shot(page, "you-owner")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    page.goto(guarded.link())
    expect(page.get_by_role("link", name="Grace Hopper")).to_be_visible()
    review = guarded.put_up()
    page.goto(urljoin(page.url, f"/reviews/{review}"))
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    assert guarded.status(review)["reviewer_id"] == "Grace Hopper"


def test_the_owners_login_ends_with_the_broker_and_that_of_a_token_does_not(start_broker: StartBroker) -> None:
    """A program that takes the port while no broker runs is sent the cookies of open pages."""
    broker = start_broker(auth="token")
    first = Guarded(broker)
    ada = first.issue("ada")
    with first.client() as owner, first.client(ada) as browser:
        link = first.link()
        unused = first.link()
        assert owner.get(link).status_code == SEE_OTHER
        owner.post("/you", data={"form_token": form_token(owner, "/you"), "name": "Grace"})
        assert is_in(owner)
        broker.stop()
        broker.start()
        assert is_in(browser)
        assert not is_in(owner)
        assert "end when the broker does" in owner.get("/", follow_redirects=True).text
        assert owner.get(unused).status_code == UNAUTHENTICATED
        owner.get(Guarded(broker).link())
        assert ">Grace</a>" in owner.get("/queue").text


def test_the_name_is_that_of_the_token(guarded: Guarded, ada: Issued) -> None:
    with guarded.client(ada) as browser:
        answer = browser.post("/you", data={"form_token": form_token(browser, "/you"), "name": "grace"})
        assert answer.status_code == FORBIDDEN
        assert ">ada</a>" in browser.get("/queue").text


@pytest.mark.parametrize(
    "there", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_the_way_back_never_leads_to_another_site(guarded: Guarded, ada: Issued, there: str) -> None:
    with guarded.client() as browser:
        answer = post(browser, "/login", token=ada.token, to=there)
        assert (answer.status_code, answer.headers["location"]) == (SEE_OTHER, "/")
        assert browser.get("/login", params={"to": there}).headers["location"] == "/"
    with guarded.client() as other:
        answer = other.get(f"{guarded.link(ada.token)}&to={quote(there)}")
        assert (answer.status_code, answer.headers["location"]) == (SEE_OTHER, "/")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:9"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_a_login_from_elsewhere_is_refused(stranger: httpx.Client, ada: Issued, headers: dict[str, str]) -> None:
    assert post(stranger, "/login", headers, token=ada.token).status_code == FORBIDDEN
    assert stranger.post("/login", data={"token": ada.token}).status_code == FORBIDDEN
    assert not is_in(stranger)


def test_no_page_elsewhere_logs_a_person_in_or_out(doors: Windows, guarded: Guarded, ada: Issued) -> None:
    """Not as somebody else either, whose inbox they would take for theirs."""
    doors.allow(r"^console error", r"^request to another host: GET http://[a-z0-9.]+:\d+/")
    mallory = guarded.issue("mallory")
    page = entered(doors, guarded, ada, "/you")
    home = page.url.removesuffix("/you")
    known = page.locator("[name=form_token]").first.input_value()
    with serving_elsewhere() as site:
        for path, fields in (("/login", {"token": mallory.token, "to": "/"}), ("/logout", {})):
            site.pages["/form"] = form(home + path, {"form_token": known, **fields})
            for host in ("127.0.0.1", "evil.rebound.test"):
                page.goto(site.at(host, "/form"))
                with page.expect_response(home + path) as answered:
                    page.evaluate("document.forms[0].submit()")
                assert answered.value.status == FORBIDDEN, host
                expect(page.locator("body")).to_contain_text("Pages of other sites may not")
        site.pages["/link"] = f'<!doctype html><a href="{guarded.url}{guarded.link(mallory.token)}">Look</a>'
        page.goto(site.at("localhost", "/link"))
        page.get_by_role("link", name="Look").click()
        expect(page.get_by_role("alert").filter(has_text="Another site's page")).to_be_visible()
        page.goto("/you")
        expect(page.get_by_role("heading", name="ada")).to_be_visible()


def test_a_trusted_broker_has_no_login(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.url, trust_env=False) as browser:
        assert browser.get("/login", params={"to": "/queue"}).headers["location"] == "/queue"
        text = browser.get("/you").text
        assert "Who are you?" in text
        assert "Log out" not in text
        assert "data-login" not in text
