"""CONTRIBUTING's recipes for an operation and a field, taken step by step in a copy: all interfaces have both."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any, get_type_hints

import httpx
import pytest

import shapes
from tandem.cli.render import render
from tandem.contract.operation import READ, Operation, Registry
from tandem.contract.request import WORK, ProjectRequest
from tandem.present.shape import Shown, record
from tandem.present.shapes import SHAPES
from tandem.present.text import Group, drawn
from tandem.store.migrations import REVISIONS
from tests.architecture.source import ROOT
from tests.interfaces.serving import MODERN, Reached, answer_of, ask, call_tool, envelope_of
from tests.modes import VARIATION

GENERATED = ("docs/reference", "src/tandem/client", "src/tandem/bridge", "src/tandem/present")
WORDS = ("Count the reviews in a state.", "The state to count.")
TICKET_WORDS = "The ticket that the change resolves."
STEP = re.compile(r"^\d\. `([^`]+)`(?:.*\n)+?\n((?: {8}.*\n|\n)+)", re.MULTILINE)
IMPORTS = """\
from tandem.errors import NotFound
from tandem.reviews.answers import ReviewCount
from tandem.reviews.requests import CountReviews

"""
MIGRATION = """\
from alembic import op

revision = "{name}"
down_revision = "{before}"


def upgrade() -> None:
{step}
"""
CLIENT = """\
import asyncio
from tandem.client import TandemClient

async def main():
    async with TandemClient({url!r}, project="shop") as client:
        {lines}

asyncio.run(main())
"""
PROMPT = """\
import json, sys
from tandem.pool.reviewers import prompt
shown = prompt.build(
    prompt.load_template(None), json.load(sys.stdin)["data"], nonce="n", files="none", parts=(), diff_file="change.diff"
)
print(shown)
"""
TELLING = """\
from pathlib import Path
from types import SimpleNamespace
from tandem.gsd.rollback import report as telling
told = SimpleNamespace(review_id={review!r}, project="shop", head_after={commit!r})
again = await telling._put_up(client, Path({root!r}), {commit!r}, {review!r}, told)
print((await client.get_proposal(again.review_id)).ticket)
"""
LISTS = (
    ("review", "list"),
    ("review", "search", "--status", "pending"),
    ("review", "feed", "--limit", "1"),
    ("inbox", "show", "--person", "rita"),
)
"""Commands that list reviews."""
HOLDING = (
    "tests/acceptance/test_access_names.py::test_every_request_with_a_name_says_whose_it_is",
    "tests/acceptance/test_answers.py::test_no_operation_is_left_out",
    "tests/architecture/test_operations.py",
    "tests/interfaces/test_mcp_listing.py",
    "tests/migration/test_schema.py::test_the_migrations_lead_to_the_tables[sqlite]",
    "tests/migration/test_schema.py::test_the_listed_revisions_are_the_scripts_in_their_order",
    "tests/reviewers/test_prompt.py::test_the_example_is_what_get_proposal_answers",
)
FIELD_FILES = 6
"""The most files that somebody edits for a plain field of a review."""


@dataclass
class Copy:
    """A copy of the repository, in which the recipe was followed, and a broker that was started from it."""

    root: Path
    edited: dict[str, set[str]]
    """The files that somebody edits by each recipe."""
    url: str = ""

    @property
    def shop(self) -> Path:
        """The repository of a project."""
        return self.root / "shop"

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        environment = {name: one for name, one in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        environment |= {"PYTHONPATH": str(self.root / "src"), "TANDEM_DATA_DIR": str(self.root / "data")}
        words, pipe = list(map(str, command)), subprocess.PIPE
        place = self.shop if self.shop.exists() else self.root
        return subprocess.Popen(words, cwd=place, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, *command: str | Path, standard_input: str = "") -> str:
        with self.start(*command) as process:
            out, errors = process.communicate(standard_input, timeout=100)
        assert process.returncode == 0, out + errors
        return out

    def tandem(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "tandem", *words, "--broker", self.url)

    def data_of(self, *words: str) -> dict[str, Any]:
        return json.loads(self.tandem(*words, "--json"))["data"]

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data of an operation, over HTTP: a command is a start of Python."""
        return httpx.post(f"{self.url}/api/v1/{operation}", json={"project": "shop", **arguments}).json()["data"]

    def python(self, *lines: str) -> str:
        """What lines of a program print that has a `client`."""
        text = "\n".join(lines).strip().replace("\n", "\n        ")
        return self.run(sys.executable, "-c", CLIENT.format(url=self.url, lines=text))

    def page(self, path: str) -> str:
        """A page as somebody sees it who has said their name."""
        with httpx.Client(base_url=self.url) as browser:
            form = re.search(r'name="form_token" value="([^"]+)"', browser.get("/you").text)
            assert form is not None
            browser.post("/you", data={"form_token": form[1], "name": "rita"})
            answer = browser.get(path)
        assert answer.status_code == HTTPStatus.OK, answer.text
        return answer.text

    def generated(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for folder in GENERATED for path in (self.root / folder).glob("*.*")}

    def make_docs(self) -> None:
        # The environment is ours: the copy needs none of its own.
        self.run("make", "-C", self.root, "docs", "setup_command=true", f"python={sys.executable}")

    def change(self, text: str) -> None:
        (self.shop / "a.txt").write_text(text, "utf-8")

    def git(self, *words: str) -> str:
        return self.run("git", "-c", "user.name=Rita", "-c", "user.email=rita@example.org", *words).strip()


def steps(title: str, before: str) -> list[tuple[str, str]]:
    """The files of a recipe, each with the text that goes into it."""
    whole = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipe = whole[whole.index(f"## {title}") : whole.index(f"## {before}")]
    return [(file, dedent(indented).strip()) for file, indented in STEP.findall(recipe)]


def add_operation(package: Path) -> set[str]:
    """Write what each step of the recipe has, into the file that it names."""
    edited: set[str] = set()
    for file, written in steps("Adding an operation", "Adding a field"):
        place = (package.parent.parent if file.startswith("tests/") else package) / file
        text = place.read_text("utf-8")
        if "OPERATIONS = (" in text:
            declared, _, operations = text.partition("OPERATIONS = (")
            if written.startswith("class "):
                text = f"{declared}{written}\n\n\nOPERATIONS = ({operations}"
            else:
                text = re.sub(r"\n\)\n$", f"\n    {written}\n)\n", text)
        else:
            text = f"{text}\n{IMPORTS if 'async def' in written else ''}{written}\n"
        place.write_text(text, "utf-8")
        edited.add(file)
    return edited


def add_field(package: Path) -> set[str]:
    """Write the new field behind `task` in each file that the recipe names, and the migration."""
    edited: set[str] = set()
    for file, written in steps("Adding a field", "Adding a dependency"):
        place = package / file
        if place.is_dir():
            edited |= _add_migration(place, written)
            continue
        lines = place.read_text("utf-8").splitlines(keepends=True)
        (at,) = [number for number, line in enumerate(lines, 1) if line.startswith("    task: ")]
        while lines[at].startswith('    """'):
            at += 1
        place.write_text("".join((*lines[:at], indent(f"{written}\n", "    "), *lines[at:])), "utf-8")
        edited.add(file)
    return edited


def _add_migration(versions: Path, written: str) -> set[str]:
    known = versions.parent / "__init__.py"
    name = f"{int(REVISIONS[-1].partition('_')[0]) + 1:04}_tickets"
    text = known.read_text("utf-8").replace(f'"{REVISIONS[-1]}",', f'"{REVISIONS[-1]}", "{name}",', 1)
    known.write_text(text, "utf-8")
    step = MIGRATION.format(name=name, before=REVISIONS[-1], step=indent(written, "    "))
    (versions / f"{name}.py").write_text(step, "utf-8")
    return {known.name, f"{name}.py"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    made = Copy(tmp_path_factory.mktemp("copy"), {})
    for folder in ("src", "tools", "docs/reference", "tests"):
        # With what Python has compiled: both are as old as they were.
        shutil.copytree(ROOT / folder, made.root / folder)
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / file, made.root)
    package = made.root / "src/tandem"
    made.edited = {"count_reviews": add_operation(package), "ticket": add_field(package)}
    made.make_docs()
    made.shop.mkdir()
    made.git("init", "-q", "-b", "main")
    made.change("one\n")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "First")
    with made.start(sys.executable, "-m", "tandem", "up", "--port", "0", "--json") as broker:
        try:
            assert broker.stdout is not None
            made.url = json.loads(broker.stdout.readline())["data"]["url"]
            made.tandem("project", "add")
            yield made
        finally:
            broker.terminate()
            broker.communicate(timeout=60)


@pytest.fixture(scope="module")
def review(copy: Copy) -> str:
    """A review with a ticket, in another state than the ones that tests add."""
    copy.change("two\n")
    made = copy.data_of("submit", "-m", "Two of them", "--task", "03-1", "--ticket", "T-77")["review_id"]
    copy.ask("close_review", review_id=made)
    return made


def test_the_command_line_has_it(copy: Copy, review: str) -> None:
    assert review
    shown = copy.tandem("review", "count", "--help")
    assert [words for words in (*WORDS, "tandem review count --status pending") if words not in shown] == []
    assert copy.tandem("review", "count", "--status", "closed") == "project  shop\nstatus   closed\nreviews  1\n"
    counted = {"project": "shop", "status": "closed", "number": 1}
    assert json.loads(copy.tandem("review", "count", "--status", "closed", "--json")) == {"ok": True, "data": counted}


def test_the_tests_that_hold_declarations_take_what_the_recipes_made(copy: Copy) -> None:
    held = [copy.root / one for one in HOLDING]
    copy.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", copy.root, *held)


def test_http_and_openapi_have_it(copy: Copy, review: str) -> None:
    assert review
    with httpx.Client(base_url=f"{copy.url}/api/v1") as http:
        called = http.post("/count_reviews", json={"status": "closed"})
        assert called.json() == {"ok": True, "data": {"project": "shop", "status": "closed", "number": 1}}
        refused = http.post("/count_reviews", json={"status": "rejected"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "NOT_FOUND")
        document = http.get("/openapi.json").json()
    assert document["paths"]["/api/v1/count_reviews"]["post"]["description"] == WORDS[0]
    schemas = document["components"]["schemas"]
    assert schemas["CountReviews"]["properties"]["status"]["description"] == WORDS[1]
    assert schemas["ReviewCount"]["properties"]["number"]["description"] == "How many reviews there are."
    assert schemas["CreateReview"]["properties"]["ticket"]["description"] == TICKET_WORDS


@pytest.mark.anyio
async def test_mcp_calls_it(copy: Copy, review: str) -> None:
    async with httpx.AsyncClient(base_url=copy.url) as http:
        broker = Reached(http, "127.0.0.1", httpx.URL(copy.url).port or 0, fast_path=True)
        tools = answer_of(await ask(broker, MODERN, "tools/list"))["result"]["tools"]
        listed = {tool["name"]: tool for tool in tools}
        assert "count_reviews" not in listed
        assert listed["create_review"]["inputSchema"]["properties"]["ticket"]["description"] == TICKET_WORDS
        called = envelope_of(await call_tool(broker, MODERN, "count_reviews", {"status": "closed"}))
        about = {"review_id": review}
        told = [
            envelope_of(await call_tool(broker, MODERN, f"get_{name}", about)) for name in ("proposal", "review_status")
        ]
    assert called == {"ok": True, "data": {"project": "shop", "status": "closed", "number": 1}}
    assert [one["data"]["ticket"] for one in told] == ["T-77", "T-77"]


def test_the_python_client_has_it(copy: Copy, review: str) -> None:
    counted = copy.python('print(await client.count_reviews(status="closed"))')
    assert counted == "ReviewCount(project='shop', status='closed', number=1)\n"
    assert copy.python(f"print((await client.get_proposal({review!r})).ticket)") == "T-77\n"


def test_a_field_takes_few_files(copy: Copy) -> None:
    assert len(copy.edited["ticket"]) <= FIELD_FILES


def test_a_new_field_is_shown_wherever_the_task_is(copy: Copy, review: str) -> None:
    assert re.search(r"\bticket +T-77\b", copy.tandem("review", "proposal", review))
    assert re.search(r"\btask +03-1\b", copy.tandem("review", "show", review))
    head = copy.page(f"/reviews/{review}")
    assert "<dt>Ticket</dt><dd>T-77</dd>" in head
    assert "| **Ticket** | T-77 |" in copy.page(f"/reviews/{review}/export.md")
    assert '<tr><th scope="row">Ticket</th><td>T-77</td></tr>' in copy.page(f"/reviews/{review}/export.html")
    proposal = copy.tandem("review", "proposal", review, "--json")
    told = copy.run(sys.executable, "-c", PROMPT, standard_input=proposal)
    assert '"ticket": "T-77"' in told


def test_a_new_field_stands_in_every_list_of_reviews(copy: Copy) -> None:
    copy.change("six\n")
    plain = copy.data_of("submit", "-m", "Plain", "--agent", "plain")["review_id"]
    assert [place for place in LISTS if " work " in copy.tandem(*place).partition("\n\n")[0]] == []
    copy.change("seven\n")
    made = copy.data_of("submit", "-m", "Seven", "--phase", "03", "--task", "03-2", "--ticket", "T-7")["review_id"]
    assert re.search(r"\bticket +T-7\b", copy.tandem("review", "status", made))
    shown = {place: copy.tandem(*place) for place in LISTS}
    assert [place for place, lines in shown.items() if "03 · 03-2 · T-7" not in lines] == []
    pages = {path: copy.page(path) for path in ("/", "/queue", "/activity/reviews")}
    assert [path for path, page in pages.items() if "<span>ticket T-7</span>" not in page] == []
    [created, *_] = copy.ask("get_review_timeline", review_id=made)["events"]
    assert (created["kind"], created["data"]["ticket"], created["data"]["task"]) == ("review_created", "T-7", "03-2")
    for one in (plain, made):
        copy.ask("close_review", review_id=one)


def test_a_new_field_is_found_and_listed(copy: Copy, review: str) -> None:
    found = copy.ask("search_reviews", text="t-77")["reviews"]
    assert [(one["review_id"], one["ticket"]) for one in found] == [(review, "T-77")]
    listed = copy.data_of("review", "list", "--all")["reviews"]
    assert ("T-77", "03-1") in [(one["ticket"], one["task"]) for one in listed]


def test_reuse_and_revisions_keep_a_new_field(copy: Copy) -> None:
    copy.change("three\n")
    first, second, again = (
        copy.data_of("submit", "-m", "Three", "--task", "3", "--ticket", ticket) for ticket in ("T-1", "T-2", "T-2")
    )
    assert first["review_id"] != second["review_id"]
    assert (again["review_id"], again["existed"]) == (second["review_id"], True)
    copy.change("four\n")
    revised = copy.data_of("submit", "--revise", first["review_id"])
    assert (revised["round"], copy.ask("get_proposal", review_id=first["review_id"])["ticket"]) == (2, "T-1")


def test_a_rollback_keeps_a_new_field(copy: Copy) -> None:
    copy.change("five\n")
    made = copy.data_of("submit", "-m", "Five", "--ticket", "T-5")["review_id"]
    copy.git("commit", "-q", "-a", "-m", "Five")
    told = TELLING.format(review=made, root=str(copy.shop), commit=copy.git("rev-parse", "HEAD"))
    assert copy.python(told) == "T-5\n"
    copy.git("reset", "-q", "--hard", "HEAD^")


def test_the_reference_has_it(copy: Copy) -> None:
    page = (copy.root / "docs/reference/operations.md").read_text("utf-8")
    assert f"## count_reviews\n\n{WORDS[0]}" in page
    section = page.partition("## count_reviews\n")[2].partition("\n## ")[0]
    assert "Codes of its own: `NOT_FOUND`." in section
    assert f" {WORDS[1]} |" in section
    assert "| `number` | integer | How many reviews there are. |" in section
    commands = (copy.root / "docs/reference/commands.md").read_text("utf-8")
    assert f"| `tandem review count` | {WORDS[0]} |" in commands


@VARIATION
def test_make_docs_is_done_after_one_run(copy: Copy) -> None:
    # The first run is that of `copy`, whose pages `test_the_reference_has_it` looks at.
    once = copy.generated()
    copy.make_docs()
    assert {path.name for path, content in copy.generated().items() if once[path] != content} == set()


def test_every_answer_that_says_what_a_review_is_or_where_it_stands_has_its_work() -> None:
    named = {kind: {name for name, *_ in fields} for kind, fields in SHAPES.items()}
    about = {kind: names for kind, names in named.items() if names & {"intent", "verdict_reason"}}
    assert {"Proposal", "ReviewRow", "FoundReview", "ReviewStatus"} <= about.keys()
    assert [kind for kind, names in about.items() if not names.issuperset(WORK)] == []


class Mood(Enum):
    GOOD = "good"


@dataclass
class Undeclarable:
    """Fields that no build may let through: an interface would fail where it answers with one."""

    moment: datetime
    names: set[str]
    price: Decimal
    mood: Mood | None
    people: Annotated[tuple[str, ...], Shown("person")]
    cost: Annotated[str, Shown("money")]


@pytest.mark.parametrize("name", Undeclarable.__dataclass_fields__)
def test_a_field_that_an_interface_could_not_show_fails_the_build(name: str) -> None:
    hint = get_type_hints(Undeclarable, include_extras=True)[name]
    made = make_dataclass("Answer", [(name, hint)])
    listing = Operation("list_answers", "answer", "list", ProjectRequest, made, frozenset(), READ)
    with pytest.raises(ValueError, match=rf"Answer\.{name}: "):
        shapes.render(Registry((listing,)))


def test_two_operations_of_one_command_fail_the_build() -> None:
    one, other = (
        Operation(name, "review", "list", ProjectRequest, dict, frozenset(), READ) for name in ("list_a", "list_b")
    )
    with pytest.raises(ValueError, match="list_b and list_a have the same command: review list"):
        shapes.render(Registry((one, other)))


def test_any_answer_can_be_shown() -> None:
    answers: tuple[dict[str, object], ...] = (
        {
            "about": {"name": "\x1b[31mred", "is_new": True},
            "rows": [{"name": "a", "is_new": False, "tags": ["x", "y"]}],
            "nothing": None,
            "counts": [1, 2],
        },
        {"about": {"name": "none", "is_new": True}, "rows": [], "counts": [1, 2]},
        {
            "valid_until": "never",
            "share": 0.1 + 0.2,
            "seen_at": "2026-11-30T12:00:00",
            "work": "hard",
            "rows": [{"at": None}, {}],
        },
    )
    shown = drawn(Group(*(render("Unknown", record(answer)) for answer in answers)), 80, coloured=False)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert [line for line in lines if line.strip("─ ")] == [
        "about name \\u001b[31mred", "about is new yes", "counts 1, 2", "rows", "name is new tags", "a no x, y",
        "about name none", "about is new yes", "counts 1, 2",
        "valid until never", "share 0.3", "seen 2026-11-30T12:00:00", "work hard", "rows",
    ]  # fmt: skip
