"""What holds for every page: it is there, fits each window, is accessible in both themes, and reads without scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import NO_TLS, BrokerProcess
from tests.modes import VARIATION
from tests.pages.conftest import Check, OpenWindows, Shot
from tests.pages.plain import Plain
from tests.pages.stock import Stock, stocked
from tests.pages.windows import signed_in

TABS = ("/", "/queue", "/reviewers", "/cycles", "/activity", "/statistics", "/projects")
PAGES = {
    "inbox": "/",
    "queue": "/queue",
    "reviewers": "/reviewers",
    "reviewer": "/reviewers/{reviewer}",
    "cycles": "/cycles",
    "cycle": "/cycles/{project}/{cycle}",
    "activity": "/activity",
    "activity-by-review": "/activity/reviews",
    "statistics": "/statistics",
    "projects": "/projects",
    "project": "/projects/{project}",
    "lessons": "/projects/{project}/lessons",
    "webhooks": "/webhooks",
    "person": "/you",
    "review": "/reviews/{change}",
    "review-split": "/reviews/{change}?view=split",
    "review-since": "/reviews/{change}?since=1",
    "review-of-a-plan": "/reviews/{plan}",
    "review-of-mine": "/reviews/{mine}",
    "review-without-whitespace": "/reviews/{change}?whitespace=off",
    "text-source": "/reviews/{plan}?show=source",
    "text-changes": "/reviews/{plan}?show=changes&since=1",
    "file": "/reviews/{change}/files/0",
    "line": "/reviews/{change}/files/0/comment?after=14",
    "counter-patch": "/reviews/{change}/edit",
    "nowhere": "/reviews/nowhere",
}
WIDTHS = (320, 1024, 1280, 2560)
ONE_ROW = 50
"""The head of a page is lower than this, in pixels."""
# The same page in another form: one check by axe is enough, and one picture instead of three.
SAME = ("review-since", "review-without-whitespace", "text-source")
ALIKE = ("review-of-mine", "text-changes", "activity-by-review", "lessons", "webhooks", "person")
"""Pages that consist of what others have, too."""
FORMS = (*SAME, "review-split", "text-changes", "nowhere")
_HIGHEST_ROW = 250
_MOST_LINKS = 300
_MOST_CALLS = 5
"""Operations for a page of the log: its events, its pools, its cycles, and the inbox of the navigation twice."""
_TECHNICAL = r"\b(?:rv_[0-9a-z]{8}|sv_|ss_)\S*|\{\"|\.\d{6}Z|\b[0-9a-f]{40,}\b"
"""Ids, JSON, microseconds and whole hashes: for programs, and for people who ask for them."""
BELONGS = r'json=\{"order|headers=\{"Idem'
"""Places where it belongs: the code of the change itself, which is shown and edited as it is."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    with BrokerProcess(tmp_path_factory.mktemp("stocked")) as broker:
        yield stocked(broker.url, tmp_path_factory.mktemp("work"))


@pytest.fixture
def reader(stock: Stock) -> Iterator[httpx.Client]:
    """Ada's browser, as far as the broker knows one."""
    name, _, value = signed_in(stock.url, "ada").partition("=")
    with httpx.Client(base_url=stock.url, cookies={name: value}, timeout=60, verify=NO_TLS) as client:
        yield client


def address(name: str, stock: Stock) -> str:
    return PAGES[name].format_map(vars(stock))


def visit(page: Page, name: str, stock: Stock) -> None:
    """Show a page, and wait until its scripts are at work."""
    answer = page.goto(address(name, stock))
    assert answer is not None
    assert answer.status == (404 if name == "nowhere" else 200)
    expect(page.locator("#live")).to_have_text("live")


UNFIT = """() => {
  const width = document.documentElement.clientWidth;
  const told = (selector, isWrong) =>
    [...document.querySelectorAll(selector)].filter(isWrong).map((one) => one.outerHTML.slice(0, 120));
  const isSmall = (one) => {
    const box = one.getBoundingClientRect();
    const isVisible = box.width > 0 && box.height > 0 && getComputedStyle(one).visibility === "visible";
    return isVisible && Math.min(one.offsetWidth, one.offsetHeight) < 24;
  };
  return {
    wide: document.documentElement.scrollWidth <= width ? [] :
      told("body *", (one) => one.getBoundingClientRect().right > width + 1),
    cut: told(".scroll:has(> :is(.wide, .settings)), .review-bar .hint",
      (one) => one.scrollWidth > one.clientWidth + 1),
    small: told(".top a, .top button", isSmall),
  };
}"""
"""Finds elements that make a page wider than its window, hide a part of their text, or are too small to be hit."""


def assert_fits(page: Page) -> None:
    """Nothing makes the page wider than its window, and no list or bar hides a part of its text beyond its edge."""
    assert page.evaluate(UNFIT) == {"wide": [], "cut": [], "small": []}, f"{page.url} at {page.viewport_size}"


def assert_navigation(page: Page, place: str) -> None:
    """It is the same on every page, and says which of its pages this is."""
    tabs = page.get_by_role("navigation", name="Pages").get_by_role("link")
    assert tabs.evaluate_all("all => all.map((tab) => tab.getAttribute('href'))") == list(TABS)
    here = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    if place in TABS:
        expect(here).to_have_attribute("href", place)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=VARIATION) if name in (*SAME, *ALIKE) else name for name in PAGES]
)
def test_a_page_fits_its_window_and_is_accessible_in_both_themes(
    kept_windows: OpenWindows, stock: Stock, axe: Check, shot: Shot, name: str
) -> None:
    with kept_windows(stock.url) as windows:
        if name == "nowhere":
            windows.allow("status of 404")
        page = windows.open("ada", width=360, height=740)
        visit(page, name, stock)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page).to_have_title(re.compile(r".+ · Tandem$"))
        assert_navigation(page, PAGES[name])
        axe(page)
        if name not in FORMS:
            shot(page, f"{name}-360")
        # A theme is colours alone: no size depends on it.
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert_fits(page)
            # Also after the window was narrow, where they have more than one row.
            bars = page.locator("header.top, .change-bar" if width > 1024 else "header.top")
            assert max(bars.evaluate_all("all => all.map((bar) => bar.offsetHeight)")) < ONE_ROW, width
        page.set_viewport_size({"width": 1280, "height": 900})
        shot(page, f"{name}-light")
        page.emulate_media(color_scheme="dark")
        if name not in FORMS:
            axe(page, colours_only=True)
            shot(page, f"{name}-dark")


def test_every_page_reads_without_scripts_with_names_and_sentences_where_programs_have_ids_and_json(
    stock: Stock, reader: httpx.Client
) -> None:
    for name in PAGES:
        text = reader.get(address(name, stock)).text
        shown = re.sub(BELONGS, "", without_tags(text))
        found = [shown[max(0, one.start() - 60) : one.end() + 20] for one in re.finditer(_TECHNICAL, shown)]
        assert found == [], name
        main = text.partition("<main")[2].partition("</main>")[0]
        assert main.count("<h1") == 1, name
        # Nothing waits for a script to come and fill it in.
        assert not re.search(r"loading|please wait", re.sub(r"<[^>]*>", "", main), re.IGNORECASE), name
    with Plain(stock.url) as plain:
        plain.goto(address("inbox", stock)).follow("Charge again when the payment provider is away")
        for words in ("for some seconds after each of its releases", "Idempotency-Key", "charge twice", "codex-2"):
            assert words in plain.text()


def test_pages_are_compressed_for_who_takes_it(reader: httpx.Client, stock: Stock) -> None:
    for name in ("inbox", "review"):
        with reader.stream("GET", address(name, stock)) as packed:
            sent = sum(map(len, packed.iter_raw()))
        plain = reader.get(address(name, stock), headers={"accept-encoding": "identity"})
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert "content-encoding" not in plain.headers
        assert sent < len(plain.content) / 3


def test_an_address_without_a_page_leads_on(reader: httpx.Client) -> None:
    browser = {"accept": "text/html,*/*"}
    for path, told in (("/nope", "There is no page at this address."), ("/reviews/rv_x", "There is no review rv_x.")):
        answer = reader.get(path, headers=browser)
        assert (answer.status_code, told in answer.text, 'href="/queue"' in answer.text) == (404, True, True)
    assert reader.get("/nope", headers={"accept": "*/*"}).json()["error"]["code"] == "NOT_FOUND"


def test_every_link_leads_to_a_page(stock: Stock, reader: httpx.Client) -> None:
    seen: dict[str, str] = dict.fromkeys(TABS, "the navigation")
    shapes: dict[str, int] = {}
    left = list(seen)
    while left:
        here = left.pop()
        answer = reader.get(here)
        assert answer.status_code in {200, 303}, f"{here}, to which {seen[here]} has a link"
        if "text/html" not in answer.headers["content-type"]:
            continue
        for link in _links(answer.text, here):
            shape = re.sub(r"(?<==)[a-z]{2}_\w+|\d+", "0", link)
            shapes[shape] = shapes.get(shape, 0) + 1
            # The lines of a change have a link each: one of them stands for all.
            if link not in seen and shapes[shape] == 1 and len(seen) < _MOST_LINKS:
                seen[link] = here
                left.append(link)
    assert set(TABS) <= {urlsplit(link).path for link in seen}
    assert address("review", stock) in {urlsplit(link).path for link in seen}


def _links(text: str, here: str) -> Iterator[str]:
    for found in re.findall(r'<a\b[^>]*\bhref="([^"]*)"', text):
        there = urlsplit(urljoin(here, found.replace("&amp;", "&")))
        assert there.scheme in {"", "http", "https"}, f"{here} has a link to {found}"
        if not there.netloc:
            yield there.path + (f"?{there.query}" if there.query else "")


def plain(reader: httpx.Client, path: str) -> str:
    """A page without its tags."""
    return without_tags(reader.get(path).text)


def without_tags(text: str) -> str:
    """What of a document is text."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def texts(reader: httpx.Client, path: str, pattern: str) -> list[str]:
    """All that a pattern finds in a page without its tags."""
    return re.findall(pattern, plain(reader, path))


def test_a_page_of_the_log_names_all_that_it_is_about_with_few_operations(reader: httpx.Client, stock: Stock) -> None:
    before = calls(reader)
    shown = plain(reader, "/activity")
    assert calls(reader) - before - 1 <= _MOST_CALLS
    for told in (
        *("pool on a-host", "Upload progress", "session of codex", "reason Too many requests", "codex-r1"),
        "exit code 0",
    ):
        assert told in shown
    assert "circuit opened pool on a-host broker reason Too many requests exit code 3 until in " in shown


def test_what_a_person_writes_is_shown_whole_whatever_is_in_it(reader: httpx.Client, stock: Stock) -> None:
    with Desk(stock.url, stock.project) as desk:
        review = desk.put_up(intent="Name the list")
        reason = 'Use {"a": 1} instead of {"message": "the list"}, please'
        desk.do("release_claim", review_id=review, claim_generation=desk.claim(review, "ada"), reason=reason)
        for page in ("/activity", f"/reviews/{review}"):
            assert reason in plain(reader, page)
        desk.do("close_review", review_id=review)


def calls(reader: httpx.Client) -> int:
    """How many operations the broker has run."""
    return reader.get("/healthz").json()["data"]["calls"]


def test_numbers_on_pages_are_those_of_the_operations(reader: httpx.Client, stock: Stock) -> None:
    with Desk(stock.url, stock.project) as desk:
        inbox = desk.do("get_inbox", person="ada")
        total = desk.do("get_review_stats", since="2001-01-01")["total"]
        counts = {
            state: len(desk.do("list_reviews", status=state, limit=200)["reviews"]) for state in ("pending", "closed")
        }
        findings = desk.do("list_findings", review_id=stock.change)["counts"]
        files = desk.do("get_proposal", review_id=stock.change)["affected_files"]
    waiting = inbox["counts"]
    shown = [int(one) for one in texts(reader, "/", r"(?:Problems|Needs you|Unclaimed|Waiting on others) (\d+) ")]
    assert sum(shown) == waiting["problems"] + waiting["your_turn"] + waiting["waiting"]
    assert texts(reader, "/queue", r"Pending (\d+)") == [str(counts["pending"])]
    assert texts(reader, "/statistics", r"Submitted (\d+) Decided (\d+)") == [
        (str(total["submitted"]), str(total["approved"] + total["changes_requested"] + total["rejected"]))
    ]
    [told] = texts(reader, f"/reviews/{stock.change}", r"(\d+) open findings?")
    assert int(told) == findings["open"]
    assert texts(reader, f"/reviews/{stock.change}", r"(\d+) files? ")[0] == str(len(files))


def test_numbers_of_overviews_are_those_of_the_operations(reader: httpx.Client, stock: Stock) -> None:
    with Desk(stock.url, stock.project) as desk:
        lessons = desk.do("list_lessons")["lessons"]
        [cycle] = desk.do("list_cycles")["cycles"]
        handed = desk.do("get_cycle", cycle_id=stock.cycle)["handoffs"]
        listed = desk.do("list_reviewers")
        projects = desk.do_unscoped("list_projects")["projects"]
        settings = desk.do("get_project_settings")["settings"]
        [webhook] = desk.do_unscoped("list_webhooks")["webhooks"]
        events = desk.do_unscoped("get_audit_log", limit=100)["events"]
        graded = desk.do("get_review_stats", since="2001-01-01")["total"]["findings"]
    assert texts(reader, f"/projects/{stock.project}/lessons", r"Lessons (\d+) ") == [str(len(lessons))] == ["1"]
    assert texts(reader, "/cycles", r"(\d+) hand-off") == [str(cycle["handoffs"])]
    assert texts(reader, address("cycle", stock), r"Hand-offs (\d+) ") == [str(len(handed))]
    [pool], ended = listed["pools"], [one for one in listed["reviewers"] if one["state"] == "terminated"]
    assert texts(reader, "/reviewers", r"At work (\d+) ") == [str(pool["active"])]
    assert sum(map(int, texts(reader, "/reviewers", r"(\d+) ended: "))) == len(ended)
    assert sum(map(int, texts(reader, "/reviewers", r" verdict (\d+) "))) == sum(
        one["outcomes"].get("verdict", 0) for one in ended
    )
    assert reader.get("/projects").text.count('class="row" id="project-') == len(projects)
    assert reader.get(address("project", stock)).text.count('<th scope="row"') == len(settings)
    assert texts(reader, "/webhooks", r"(\d+) failed") == [str(webhook["failed"])]
    assert reader.get("/activity").text.count('<tr id="event-') == len(events)
    severities = tuple(str(graded[one]) for one in ("blocker", "major", "minor", "nit"))
    assert texts(reader, "/statistics", r"\bAll (\d+) (\d+) (\d+) (\d+)") == [severities]


def test_on_a_phone_settings_stay_whole_and_the_tabs_show_that_there_are_more(
    kept_windows: OpenWindows, stock: Stock
) -> None:
    with kept_windows(stock.url) as windows:
        page = windows.open("ada", width=390, height=900)
        visit(page, "project", stock)
        heights: list[float] = (
            page.get_by_role("main")
            .locator("tbody tr")
            .evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
        )
        assert 0 < max(heights) < _HIGHEST_ROW
        lines = page.get_by_text("trusted", exact=True).evaluate("one => one.getClientRects().length")
        assert lines == 1
        tabs = page.get_by_role("navigation", name="Pages").get_by_role("list")
        assert tabs.evaluate("one => one.scrollWidth > one.clientWidth && getComputedStyle(one).maskImage !== 'none'")
