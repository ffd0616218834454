"""Texts that agents, repositories and people control: no page runs them, mistakes them, or breaks by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.cycling import Crew
from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.conftest import OpenWindows
from tests.pages.elsewhere import serving_elsewhere
from tests.pages.test_every_page import assert_fits

RAN = "window.ran"
SCRIPTS = (
    f"<script>{RAN}=1</script>",
    f"</script><script>{RAN}=2</script>",
    f'"><img src=x onerror={RAN}=3>',
    f"'><svg onload={RAN}=4>",
    f"</textarea></title></style><script>{RAN}=5</script>",
    f"[click](javascript:{RAN}=6) ![x](https://elsewhere.example/x.png)",
    f'<a href="javascript:{RAN}=7" onmouseover="{RAN}=8">press</a>',
    "<form action=https://elsewhere.example><button>go</button></form><iframe srcdoc='<script>top.ran=9</script>'>",
    "{{ 7199991 * 99991 }} {% raw %} ${7199991 * 99991} <%= 7199991 * 99991 %>",
    '<div hx-get="/stolen" hx-trigger="load" hx-target="body" hx-on:load="window.ran=10" data-key="stolen">x</div>',
    "<link rel=stylesheet href=https://elsewhere.example/x.css>",
    '<meta http-equiv=refresh content="0;url=https://elsewhere.example">',
    "<base href=https://elsewhere.example/><style>*{display:none}</style>",
)
TURNED = "safe\u202egpj.exe\u202c \u2066x\u2069"
CONTROL = "bell\x07 escape\x1b[31m"
LONG = "long" * 120
EVERYTHING = f"{' '.join(SCRIPTS)} {TURNED} {CONTROL} {LONG}"
SHORT = f'<img src=x onerror="{RAN}=11">{{{{7199991*99991}}}}{TURNED}'
PATHS = (
    f'"><img src=x onerror={RAN}=12>.py',
    "<script>window.ran=13<",
    "{{7199991*99991}}.md",
    "turned\u202egpj.py",
    f"{'deep/' * 20}{'long' * 40}.txt",
    "javascript:window.ran=14",
)
PAGES = ("/", "/queue", "/activity", "/statistics", "/projects", "/cycles", "/reviewers")

# A link to elsewhere may stand in Markdown; everything else stays with us.
_LOOK = """(own) => ({
  ran: window.ran ?? null,
  elements: [...document.querySelectorAll(
    '[onerror], [onmouseover], [onload], [hx-on\\\\:load], [srcdoc], [style], img[src="x"], iframe, base, style, '
    + '[data-key="stolen"], form[action*="elsewhere"], meta[http-equiv="refresh"]')]
    .filter((one) => !one.matches(own)).map((one) => one.outerHTML),
  links: [...document.querySelectorAll("[href], [src], [action]")]
    .filter((one) => !(one.matches("a[rel~=noopener][rel~=nofollow]") && one.protocol === "https:"))
    .flatMap((one) => ["href", "src", "action"].map((name) => one.getAttribute(name) ?? ""))
    .filter((there) => there && !/^([/][^/]|[/]$|#|[?])/.test(there)),
  text: document.body.innerText,
})"""


@dataclass(frozen=True)
class Planted:
    """A broker in which every text is hostile."""

    url: str
    project: str
    reviews: tuple[str, ...]
    cycle: str

    @property
    def reading(self) -> list[str]:
        """The pages of reviews."""
        change, waiting, document = (f"/reviews/{review}" for review in self.reviews)
        return [waiting, *(f"{review}{form}" for review in (change, document) for form in ("", "?view=split", "/edit"))]

    @property
    def lists(self) -> list[str]:
        """All other pages."""
        project = quote(self.project, safe="")
        return [*PAGES, f"/projects/{project}", f"/cycles/{project}/{self.cycle}"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with BrokerProcess(tmp_path_factory.mktemp("planted")) as broker:
        yield plant(broker.url, Sandbox(tmp_path_factory.mktemp("work") / "repository"))


def plant(url: str, repository: Sandbox) -> Planted:
    """Put hostile texts wherever the broker takes texts."""
    repository.write("README.md", "one\n")
    repository.commit("start")
    for path in PATHS:
        repository.write(path, f"{EVERYTHING}\r\n</pre></table>{SCRIPTS[1]}\n{'x' * 5000}\n")
    repository.git("add", "--all")
    diff = repository.diff("--cached")
    project = f"shop {SHORT[:63]}"
    text = {"intent": SHORT + SCRIPTS[1], "description": f"# {SHORT}\n\n{EVERYTHING}\n\n```html\n{EVERYTHING}\n```\n"}
    who = {"proposer_id": f"proposer {SHORT}", "agent_type": f"agent {SHORT}"}
    place = {"phase": SHORT, "plan": SHORT, "task": SHORT}
    with Desk(url, project) as desk:
        desk.register(repository.root)
        change = desk.put_up(**text, **who, **place, diff=diff, metadata={SHORT: EVERYTHING})
        generation = desk.claim(change, f"reviewer {SHORT}")
        desk.say(change, "reviewer", EVERYTHING, reviewer_id=f"reviewer {SHORT}")
        desk.say(change, "proposer", EVERYTHING, metadata={SHORT: SHORT})
        findings = [
            {
                "file": path,
                "line": 1,
                "severity": "nit",
                "claim": EVERYTHING,
                "failure": EVERYTHING,
                "suggestion": EVERYTHING,
                "category": EVERYTHING[:100],
            }
            for path in PATHS
        ]
        desk.verdict(change, "changes_requested", generation, reason=EVERYTHING, findings=findings, counter_patch=diff)
        waiting = desk.put_up(**text, **who, **place, diff=diff)
        plan = {"category": "plan_review", "path": PATHS[2]}
        document = desk.put_up(intent=SHORT, **who, **plan, description=EVERYTHING)
        desk.verdict(document, "changes_requested", desk.claim(document, SHORT), reason=SHORT)
        desk.revise(document, intent=SHORT, **who, **plan, description=f"{EVERYTHING}\n\nmore")
    with Crew(url, project) as crew:
        crew.prepare().start(SHORT)
        crew.hand_over("codex", notes=[EVERYTHING], endpoints=[EVERYTHING], extras={SHORT: SHORT})
    return Planted(url, project, (change, waiting, document), crew.cycle["cycle_id"])


def assert_harmless(page: Page, own: str = "none") -> None:
    """Nothing of it became part of the page; the windows look for scripts that were stopped and for requests.

    Args:
        own: A kind of element that the page may have itself, else suspected.
    """
    found = page.evaluate(_LOOK, own)
    assert (found["ran"], found["elements"], found["links"]) == (None, [], []), page.url
    # Twelve digits: nothing else on a page has them by chance, neither a time nor a digest.
    assert str(7199991 * 99991) not in found["text"], f"a template was run on {page.url}"
    for hidden in ("\u202e", "\u2066", "\x1b", "\x07"):
        assert hidden not in found["text"], f"{hidden!r} is not made visible on {page.url}"


@pytest.mark.parametrize("place", ["reviews", pytest.param("lists", marks=VARIATION)])
def test_hostile_texts_are_nothing_but_texts_on_every_page(
    kept_windows: OpenWindows, planted: Planted, place: str
) -> None:
    with kept_windows(planted.url) as windows:
        page = windows.open(SCRIPTS[0])
        for address in planted.reading if place == "reviews" else planted.lists:
            answer = page.goto(address)
            assert answer is not None
            assert answer.status == httpx.codes.OK, address
            expect(page.locator("#live")).to_have_text("live")
            assert_harmless(page)
            for width in (360, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                assert_fits(page)


@VARIATION
def test_hostile_texts_can_be_read_as_they_are(kept_windows: OpenWindows, planted: Planted) -> None:
    with kept_windows(planted.url) as windows:
        page = windows.open("ada", at=f"/reviews/{planted.reviews[0]}")
        main = page.locator("main")
        expect(page.get_by_role("heading", level=1)).to_contain_text(
            '<img src=x onerror="window.ran=11">{{7199991*99991}}'
        )
        for words in ("</script><script>window.ran=2</script>", "{{ 7199991 * 99991 }} {% raw %}", "\\u202e"):
            expect(main).to_contain_text(words)
        for path in PATHS[:3]:
            expect(main).to_contain_text(path)


def test_an_exported_page_is_as_harmless(browser_windows: OpenWindows, planted: Planted) -> None:
    """It leaves the broker's headers behind: somebody puts it on a server of theirs."""
    with serving_elsewhere() as site, browser_windows(site.at("127.0.0.1", "")) as windows:
        page = windows.open(None)
        for review in planted.reviews:
            exported = httpx.get(f"{planted.url}/reviews/{review}/export.html", timeout=60, trust_env=False)
            site.pages["/"] = exported.raise_for_status().text
            page.goto("/")
            expect(page.get_by_role("heading", level=1)).to_contain_text(SHORT[:20])
            assert_harmless(page, own="style")


def test_what_somebody_asks_for_is_nothing_but_text(kept_windows: OpenWindows, planted: Planted) -> None:
    """Words in an address come back on the page: filters, searches, wrong ids."""
    asked = httpx.QueryParams({"text": SCRIPTS[2], "path": SCRIPTS[1], "project": SHORT, "proposer": SCRIPTS[0]})
    with kept_windows(planted.url) as windows:
        windows.allow("status of 40[04]")
        page = windows.open("ada")
        for address in (f"/queue?{asked}", f"/activity?{asked}", f"/?{asked}", f"/statistics?{asked}"):
            page.goto(address)
            assert_harmless(page)
        for wrong in (
            "/reviews/%3Cscript%3Ewindow.ran=1%3C%2Fscript%3E",
            "/projects/%22%3E%3Cimg%20src=x%20onerror=window.ran=1%3E",
        ):
            page.goto(wrong)
            expect(page.get_by_role("heading", level=1)).to_have_text("Nothing here")
            assert_harmless(page)


def test_hostile_texts_that_come_live_are_nothing_but_texts(kept_windows: OpenWindows, planted: Planted) -> None:
    with kept_windows(planted.url) as windows, Desk(planted.url, planted.project) as desk:
        inbox, activity = windows.open("ada"), windows.open("ada")
        for page, address in ((inbox, "/"), (activity, "/activity")):
            page.goto(address)
            expect(page.locator("#live")).to_have_text("live")
        review = desk.put_up(intent=f"{SHORT} comes live", proposer_id=f"proposer {SHORT}")
        expect(inbox.get_by_role("region", name="Unclaimed")).to_contain_text("comes live")
        expect(activity.locator("main")).to_contain_text("comes live")
        desk.claim(review, SHORT)
        expect(inbox.get_by_role("region", name="Waiting on others")).to_contain_text("comes live")
        assert_harmless(inbox)
        assert_harmless(activity)
