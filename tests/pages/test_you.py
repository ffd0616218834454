"""The person at the browser is asked once for their name, and no one else can answer for them."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.conftest import Check
from tests.pages.guarded import form_token
from tests.pages.windows import Windows, signed_in, write


@VARIATION
def test_a_name_is_asked_once_and_leads_back(windows: Windows, axe: Check):
    page = windows.open(None, at="/")
    expect(page).to_have_url(re.compile("/you"))
    axe(page)
    write(page, "Name", "  Ada   Lovelace ", "Go on")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    expect(page.get_by_role("link", name="Ada Lovelace")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()


@pytest.fixture
def http(broker: BrokerProcess):
    with httpx.Client(base_url=broker.url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\u202eb", "a\nb\x00"])
def test_a_name_that_cannot_be_one_is_refused_and_stays_in_its_field(http: httpx.Client, name: str):
    answer = http.post("/you", data={"form_token": form_token(http, "/you"), "name": name})
    assert answer.status_code == 400
    assert "INVALID_INPUT" in answer.text
    if name.isalnum():
        assert f'value="{name}"' in answer.text
    assert http.get("/").headers["location"] == "/you"


@pytest.mark.parametrize(
    "following", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "a"]
)
def test_the_way_back_never_leads_to_another_site(http: httpx.Client, following: str):
    answer = http.post("/you", data={"form_token": form_token(http, "/you"), "name": "ada", "next": following})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_form_needs_the_token_of_its_own_browser(http: httpx.Client, broker: BrokerProcess):
    with httpx.Client(base_url=broker.url, trust_env=False) as elsewhere:
        foreign = form_token(elsewhere, "/you")
    form_token(http, "/you")
    for sent in ("", foreign, "0" * 64):
        answer = http.post("/you", data={"form_token": sent, "name": "mallory"})
        assert answer.status_code == 403
        assert "Load the page again" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:9"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_a_form_of_another_site_is_refused_even_on_this_machine(http: httpx.Client, headers: dict[str, str]):
    sent = {"form_token": form_token(http, "/you"), "name": "mallory"}
    assert http.post("/you", data=sent, headers=headers).status_code == 403
    assert http.get("/").headers["location"] == "/you"


def test_a_cookie_that_was_made_up_or_changed_names_nobody(broker: BrokerProcess):
    name, _, value = signed_in(broker.url, "ada").partition("=")
    body, _, seal = value.rpartition(".")
    for made_up in (f"{body[:-2]}AA.{seal}", f"{body}.{'0' * 64}", body, "", "x.y", "é"):
        answer = httpx.get(f"{broker.url}/", headers=[(b"cookie", f"{name}={made_up}".encode())])
        assert answer.headers.get("location") == "/you"
    assert httpx.get(f"{broker.url}/", headers={"cookie": f"{name}={value}"}).status_code == 200


def test_every_answer_forbids_scripts_from_elsewhere_and_frames(http: httpx.Client):
    for path in ("/", "/you", "/nothing/here", "/reviews/none", "/static/0/site.css", "/static/0/../../secret"):
        headers = http.get(path).headers
        if headers.get("content-type") != "application/json":
            policy = headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
