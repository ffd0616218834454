"""Browsers that a person has opened by `tandem open`, at a broker without access tokens."""

from __future__ import annotations

import re
import time
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Page, expect

from tandem.core.clock import MICROSECONDS
from tandem.rulings import proof
from tandem.rulings.policy import FILE
from tests.acceptance.reviewing import Desk, edited
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.pages.windows import Windows, write

_BROWSER = {"user-agent": "Mozilla/5.0 Firefox/153.0"}


def put_up_under(shop: Desk, repo: Sandbox, *needs: str) -> str:
    """A review that needs this by the project's policy; its id."""
    repo.write(FILE, f"[[rule]]\nneeds = {[*needs]}\n")
    repo.commit("policy")
    return shop.put_up(diff=edited())


def opening(broker: BrokerProcess, path: str, *, age_s: int = 0) -> str:
    """The address that `tandem open` gives a person at a terminal."""
    key = proof.keys(str(broker.data_dir))[proof.PERSON]
    made = proof.opening(key, time.time_ns() // 1000 - age_s * MICROSECONDS)
    return f"/you?{urlencode({**made, 'next': path})}"


def sent_on(broker: BrokerProcess, path: str) -> httpx.URL:
    """The address to which that one sends a browser, at the host name of its own."""
    answer = httpx.get(f"{broker.url}{opening(broker, path)}", headers=_BROWSER, trust_env=False)
    return httpx.URL(answer.headers["location"])


def opened(windows: Windows, broker: BrokerProcess, person: str, path: str) -> Page:
    """A window of a person, at the host name where it is known to be a person's."""
    there = sent_on(broker, path)
    page = windows.open(None, url=str(there.copy_with(raw_path=b"/")).rstrip("/"), at=str(there))
    write(page, "Name", person, "Go on")
    expect(page).to_have_url(re.compile(f"{re.escape(path)}$"))
    return page
