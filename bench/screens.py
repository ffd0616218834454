"""What a person waits for: the first paint of the pages, in a real Chromium, from a broker that is warm."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from playwright.async_api import Page, async_playwright

from bench.processes import Broker
from bench.report import quartiles
from bench.repositories import SMALL, make_repository, rewrite
from bench.run import Run
from tandem.client import TandemClient
from tools.browser import find

MEASURE = "screens: first paint in Chromium"
REVIEW_MS = 300.0
_FILES = 50
_OPEN = 100
_FLAGS = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_PAINTED = """
() => new Promise((tell) => {
  new PerformanceObserver((list) => {
    const [paint] = list.getEntriesByName("first-contentful-paint");
    if (paint) tell(paint.startTime);
  }).observe({ type: "paint", buffered: true });
})
"""


async def measure(run: Run) -> None:
    """A review of many files, each of whose lines changed, and the other pages with a hundred open reviews."""
    record = run.recorder(MEASURE)
    root = make_repository(run.scratch / "shown", SMALL)
    with Broker(run.scratch / "showing") as broker:
        url = f"http://127.0.0.1:{broker.port}"
        async with TandemClient(url, project="shown") as client, async_playwright() as playwright:
            await client.register_project(root=str(root), name="shown")
            created = await client.create_review(
                intent="Rewrite them all", agent_type="bench", proposer_id="writer", diff=rewrite(_FILES)
            )
            for number in range(_OPEN):
                await client.create_review(
                    intent=f"Open review {number}", agent_type="bench", description="One of many."
                )
            browser = await playwright.chromium.launch(executable_path=find(), args=_FLAGS)
            page = await browser.new_page(viewport={"width": 1280, "height": 800}, base_url=url)
            await _sign_in(page)
            times = run.times(20, 5)
            painted = await _paints(page, f"/reviews/{created.review_id}", times)
            detail = f"{quartiles(painted, digits=0)}; {_FILES * 2 * 20} changed lines"
            record.add(f"a review of {_FILES} files", median(painted), "ms", REVIEW_MS, detail=detail)
            for name, path in (("the inbox", "/"), ("the queue", "/queue"), ("the activity", "/activity")):
                painted = await _paints(page, path, times)
                detail = f"{quartiles(painted, digits=0)}; {_OPEN} open reviews"
                record.add(name, median(painted), "ms", detail=detail)
            await browser.close()


async def _sign_in(page: Page) -> None:
    await page.goto("/you")
    await page.get_by_label("Name").fill("Bench")
    await page.get_by_role("button", name="Go on").click()
    await page.wait_for_url("**/")


async def _paints(page: Page, path: str, times: int) -> Sequence[float]:
    """Milliseconds from the start of each navigation to the first paint of its content; the first one warms."""
    found: list[float] = []
    for _ in range(times + 1):
        await page.goto(path, wait_until="commit")
        found.append(await page.evaluate(_PAINTED))
    return found[1:]
