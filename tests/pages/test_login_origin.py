"""A login has a host name of its own: what listens on another port of this machine is sent none of it."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.elsewhere import HERE, Elsewhere
from tests.pages.guarded import Guarded
from tests.pages.windows import Windows, write


@pytest.fixture
def doors(doors: Windows) -> Windows:
    """Windows in which pages of other sites are shown, too."""
    doors.allow(r"^request to another host: GET http://[a-z0-9.]+:\d+/", "status of 403")
    return doors


def owner(doors: Windows, guarded: Guarded) -> Page:
    """The owner's window, as `tandem open` opens it."""
    page = doors.open(None, at=guarded.link())
    write(page, "Name", "Grace", "Go on")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    return page


def test_a_page_on_another_port_is_not_sent_the_login(doors: Windows, guarded: Guarded, elsewhere: Elsewhere) -> None:
    page = owner(doors, guarded)
    home = httpx.URL(page.url)
    got = elsewhere.lure(page)
    for headers in got:
        # The cookies that it was sent log it in under none of the names.
        for name in (*HERE, home.host):
            stolen = {"cookie": headers.get("cookie", ""), "host": f"{name}:{home.port}"}
            answer = httpx.get(f"{guarded.url}/queue", headers=stolen, trust_env=False)
            assert answer.status_code == httpx.codes.SEE_OTHER, name
    assert home.host not in repr(got)
    page.goto(f"http://{home.host}:{home.port}/queue")
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()


@VARIATION
def test_a_token_that_is_pasted_under_this_machines_name_leads_to_the_persons_own(
    doors: Windows, guarded: Guarded
) -> None:
    ada = guarded.issue("ada")
    for javascript in (True, False):
        page = doors.open(None, javascript=javascript, at="/queue?status=closed")
        write(page, "Access token", ada.token, "Log in")
        expect(page).to_have_url(f"{guarded.home(ada.token)}/queue?status=closed")
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()
        page.goto("/queue")  # under 127.0.0.1 she is not logged in
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_everybody_has_another_name_and_none_is_told_to_who_is_not_logged_in(guarded: Guarded) -> None:
    ada, bob = guarded.issue("ada"), guarded.issue("bob")
    homes = {guarded.home(), guarded.home(ada.token), guarded.home(bob.token)}
    assert len(homes) == 3
    with guarded.client(ada) as browser:
        # Nor does a login count under somebody else's name.
        browser.headers["host"] = httpx.URL(guarded.home(bob.token)).netloc.decode()
        assert browser.get("/queue").headers["location"].startswith("/login")
    with guarded.client() as stranger:
        for path in ("/", "/queue", "/login", "/login?code=made.up", "/healthz", "/you"):
            answer = stranger.get(path, headers={"cookie": "tandem_person=x"})
            assert not re.search(r"[0-9a-f]{32}\.localhost", f"{answer.headers}{answer.text}"), path


def test_nobody_is_logged_in_as_somebody_else_by_a_link_to_that_ones_name(
    doors: Windows, guarded: Guarded, elsewhere: Elsewhere
) -> None:
    mallory = guarded.issue("mallory")
    page = owner(doors, guarded)
    own = page.url
    link = f"{guarded.home(mallory.token)}{guarded.link(mallory.token)}"
    elsewhere.pages["/link"] = f'<!doctype html><a href="{link}">Look</a>'
    for host in HERE:
        page.goto(elsewhere.at(host, "/link"))
        page.get_by_role("link", name="Look").click()
        expect(page.get_by_role("alert").filter(has_text="Another site's page")).to_be_visible()
    page.goto(own)
    expect(page.get_by_role("link", name="Grace")).to_be_visible()


def test_the_port_is_the_brokers_at_both_loopback_addresses(guarded: Guarded, broker: BrokerProcess) -> None:
    """Browsers look for names under localhost at ::1 first; another program there would be shown the login or proof."""
    for one in (guarded.broker, broker):
        assert httpx.get(f"http://[::1]:{one.port}/healthz", trust_env=False).is_success
