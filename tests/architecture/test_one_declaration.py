"""CONTRIBUTING's recipe for an operation, taken step by step in a copy: every face has it from its one declaration."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from tandem.cli.render import render
from tandem.present.record import record
from tandem.present.text import Group, drawn
from tests.architecture.source import ROOT
from tests.interfaces.serving import MODERN, Reached, answer_of, ask, call_tool, envelope_of

GENERATED = ("docs/reference", "src/tandem/client")
WORDS = ("Greet somebody by name.", "Whom to greet.")
STEP = re.compile(r"^\d\. `([^`]+)`(?:.*\n)+?\n((?: {8}.*\n|\n)+)", re.MULTILINE)
IMPORTS = """\
from tandem.errors import NotFound
from tandem.reviews.answers import Greeting
from tandem.reviews.requests import Greet

"""
PROGRAM = """\
import asyncio
from tandem.client import TandemClient

async def main():
    async with TandemClient({url!r}) as client:
        print(await client.greet(name="Rita"))

asyncio.run(main())
"""


@dataclass
class Copy:
    """A copy of the repository, in which the recipe was followed, and a broker that was started from it."""

    root: Path
    url: str = ""

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        environment = {name: one for name, one in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        environment |= {"PYTHONPATH": str(self.root / "src"), "TANDEM_DATA_DIR": str(self.root / "data")}
        words, pipe = list(map(str, command)), subprocess.PIPE
        return subprocess.Popen(words, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *command: str | Path) -> str:
        with self.start(*command) as process:
            out, errors = process.communicate(timeout=100)
        assert process.returncode == 0, out + errors
        return out

    def tandem(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "tandem", *words, "--broker", self.url)

    def generated(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for folder in GENERATED for path in (self.root / folder).glob("*.*")}

    def make_docs(self) -> None:
        # The environment is ours: the copy needs none of its own.
        self.run("make", "docs", "setup_command=true", f"python={sys.executable}")


def follow(recipe: str, package: Path) -> None:
    """Write what each step of the recipe has, into the file that it names."""
    for file, indented in STEP.findall(recipe):
        place, written = package / file, dedent(indented).strip()
        text = place.read_text("utf-8")
        if file.endswith("operations.py"):
            text = re.sub(r"\n\)\n$", f"\n    {written}\n)\n", text)
        else:
            text = f"{text}\n{IMPORTS if 'async def' in written else ''}{written}\n"
        place.write_text(text, "utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    made = Copy(tmp_path_factory.mktemp("copy"))
    for folder in ("src", "tools", "docs/reference"):
        shutil.copytree(ROOT / folder, made.root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Makefile", made.root)
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    follow(recipe[recipe.index("## Adding an operation") : recipe.index("## Adding a field")], made.root / "src/tandem")
    made.make_docs()
    with made.start(sys.executable, "-m", "tandem", "up", "--port", "0", "--json") as broker:
        try:
            assert broker.stdout is not None
            made.url = json.loads(broker.stdout.readline())["data"]["url"]
            yield made
        finally:
            broker.terminate()
            broker.communicate(timeout=60)


def test_the_command_line_has_it(copy: Copy) -> None:
    shown = copy.tandem("review", "greet", "--help")
    assert [words for words in (*WORDS, "tandem review greet Rita") if words not in shown] == []
    assert copy.tandem("review", "greet", "Rita") == "text  Hello, Rita!\n"


def test_http_and_openapi_have_it(copy: Copy) -> None:
    with httpx.Client(base_url=f"{copy.url}/api/v1") as http:
        called = http.post("/greet", json={"name": "Rita"})
        assert called.json() == {"ok": True, "data": {"text": "Hello, Rita!"}}
        refused = http.post("/greet", json={"name": "nobody"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "NOT_FOUND")
        document = http.get("/openapi.json").json()
    assert document["paths"]["/api/v1/greet"]["post"]["description"] == WORDS[0]
    schemas = document["components"]["schemas"]
    assert schemas["Greet"]["properties"]["name"]["description"] == WORDS[1]
    assert schemas["Greeting"]["properties"]["text"]["description"] == "What is said."


@pytest.mark.anyio
async def test_mcp_lists_and_calls_it(copy: Copy) -> None:
    async with httpx.AsyncClient(base_url=copy.url) as http:
        broker = Reached(http, "127.0.0.1", httpx.URL(copy.url).port or 0, fast_path=True)
        tools = answer_of(await ask(broker, MODERN, "tools/list"))["result"]["tools"]
        (tool,) = [tool for tool in tools if tool["name"] == "greet"]
        assert (tool["description"], tool["inputSchema"]["properties"]["name"]["description"]) == WORDS
        called = envelope_of(await call_tool(broker, MODERN, "greet", {"name": "Rita"}))
    assert called == {"ok": True, "data": {"text": "Hello, Rita!"}}


def test_the_python_client_has_it(copy: Copy) -> None:
    assert copy.run(sys.executable, "-c", PROGRAM.format(url=copy.url)) == "Greeting(text='Hello, Rita!')\n"


def test_the_reference_has_it(copy: Copy) -> None:
    page = (copy.root / "docs/reference/operations.md").read_text("utf-8")
    assert f"## greet\n\n{WORDS[0]}" in page
    section = page.partition("## greet\n")[2].partition("\n## ")[0]
    assert "Codes of its own: `NOT_FOUND`." in section
    assert f"| `name` | text | required | 1 to 200 characters | {WORDS[1]} |" in section
    assert "| `text` | text | What is said. |" in section
    assert (
        "| `tandem review greet` | Greet somebody by name. |" in (copy.root / "docs/reference/commands.md").read_text()
    )


def test_make_docs_is_done_after_one_run(copy: Copy) -> None:
    once = copy.generated()
    copy.make_docs()
    assert {path.name for path, content in copy.generated().items() if once[path] != content} == set()


def test_any_answer_can_be_shown() -> None:
    answers: tuple[dict[str, object], ...] = (
        {
            "about": {"name": "\x1b[31mred", "is_new": True},
            "rows": [{"name": "a", "is_new": False, "tags": ["x", "y"]}],
            "nothing": None,
            "counts": [1, 2],
        },
        {"about": {"name": "none", "is_new": True}, "rows": [], "counts": [1, 2]},
    )
    shown = drawn(Group(*(render("Unknown", record(answer)) for answer in answers)), 80, coloured=False)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert [line for line in lines if line.strip("─ ")] == [
        "about name \\u001b[31mred", "about is new yes", "counts 1, 2", "rows", "name is new tags", "a no x, y",
        "about name none", "about is new yes", "counts 1, 2",
    ]  # fmt: skip
