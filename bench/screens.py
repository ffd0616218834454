"""How long a person waits, and the cost of it: pages in a real Chromium, from a broker that is warm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median

from playwright.async_api import Browser, Page, async_playwright, expect

from bench.processes import Broker
from bench.report import quartiles
from bench.repositories import make_repository, rewrite
from bench.run import Recorder, Run
from tandem.client import TandemClient
from tools.browser import find

MEASURE = "screens: first paint in Chromium, bytes over the wire, broker CPU"
REVIEW_MS = 300.0
_FILES = 50
_MANY_FILES = 300
_LONG = 5_000
_OPEN = 2_000
_WINDOWS = 20
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
    """Reviews of many files and of a long one, the other pages with many open reviews, and events that they show."""
    record = run.recorder(MEASURE)
    root = make_repository(run.scratch / "shown", _MANY_FILES)
    with Broker(run.scratch / "showing") as broker:
        url = f"http://127.0.0.1:{broker.port}"
        async with TandemClient(url, project="shown") as client, async_playwright() as playwright:
            await client.register_project(root=str(root), name="shown")
            pages = {
                f"a review of {_FILES} files": await _submit(client, rewrite(_FILES)),
                f"a review of {_MANY_FILES} files": await _submit(client, rewrite(_MANY_FILES)),
                f"a review of a file of {_LONG} lines": await _submit(client, _long_file()),
                f"the inbox with {_OPEN} open reviews": "/",
                "the queue": "/queue",
                "the activity": "/activity",
            }
            for number in range(_OPEN):
                await _open_review(client, f"Open review {number}")
            browser = await playwright.chromium.launch(executable_path=find(), args=_FLAGS)
            page = await browser.new_page(viewport={"width": 1280, "height": 800}, base_url=url)
            await _sign_in(page)
            for name, path in pages.items():
                await _measure_page(record, broker, page, name, path, run.times(20, 5))
            await _measure_events(record, broker, browser, client, run.times(10, 3))
            await browser.close()


async def _submit(client: TandemClient, diff: str) -> str:
    created = await client.create_review(intent="Rewrite", agent_type="bench", proposer_id="writer", diff=diff)
    return f"/reviews/{created.review_id}"


async def _open_review(client: TandemClient, intent: str) -> None:
    await client.create_review(intent=intent, agent_type="bench", description="One of many.")


def _long_file() -> str:
    lines = "".join(f"+value_{number} = compute({number})\n" for number in range(_LONG))
    head = "diff --git a/long.py b/long.py\nnew file mode 100644\n--- /dev/null\n+++ b/long.py"
    return f"{head}\n@@ -0,0 +1,{_LONG} @@\n{lines}"


async def _measure_page(record: Recorder, broker: Broker, page: Page, name: str, path: str, times: int) -> None:
    used = broker.cpu_ms()
    painted, sent = await _paints(page, path, times)
    cpu = (broker.cpu_ms() - used) / (times + 1)
    target = REVIEW_MS if str(_FILES) in name.split() else None
    record.add(name, median(painted), "ms", target, detail=f"{quartiles(painted, digits=0)}; {sent:,} bytes sent")
    record.add(f"{name}: broker CPU a view", cpu, "ms")


async def _measure_events(record: Recorder, broker: Broker, browser: Browser, client: TandemClient, times: int) -> None:
    """A review comes in and shows in each of the open inboxes."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{broker.port}")
    first = await context.new_page()
    await _sign_in(first)
    pages = [first, *[await context.new_page() for _ in range(_WINDOWS - 1)]]
    for page in pages:
        await page.goto("/")
    sent: list[int] = []
    context.on("response", lambda response: sent.append(int(response.headers.get("content-length", "0"))))
    cpu: list[float] = []
    for number in range(times + 1):
        used = broker.cpu_ms()
        await client.create_review(
            intent=f"Just in {number}", agent_type="bench", agent_role="planner", description="Urgent."
        )
        await asyncio.gather(
            *[
                expect(page.get_by_role("link", name=f"Just in {number}", exact=True)).to_be_attached(timeout=60_000)
                for page in pages
            ]
        )
        cpu.append(broker.cpu_ms() - used)
    await context.close()
    detail = f"{quartiles(cpu[1:])}; {sum(sent) // len(cpu) // _WINDOWS:,} bytes sent to each"
    record.add(f"a new review in {_WINDOWS} open inboxes: broker CPU", median(cpu[1:]), "ms", detail=detail)


async def _sign_in(page: Page) -> None:
    await page.goto("/you")
    await page.get_by_label("Name").fill("Bench")
    await page.get_by_role("button", name="Go on").click()
    await page.wait_for_url("**/")


async def _paints(page: Page, path: str, times: int) -> tuple[Sequence[float], int]:
    """Milliseconds from the start of each navigation to the first paint of its content, and the page's bytes as sent.

    The first navigation warms.
    """
    found: list[float] = []
    sent = 0
    for _ in range(times + 1):
        response = await page.goto(path, wait_until="commit")
        found.append(await page.evaluate(_PAINTED))
        assert response is not None
        await response.finished()
        sent = (await response.request.sizes())["responseBodySize"]
    return found[1:], sent
