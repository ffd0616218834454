"""An operation is declared once; every face of a real broker, the client and the reference have it from there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from typer.main import get_group

import python_client
import reference
from tandem import app, errors
from tandem.cli.generated import new_group
from tandem.client import TandemClient
from tandem.client.table import OPERATIONS
from tandem.contract.operation import Registry
from tandem.server.catalogue import REGISTRY
from tests.architecture.greeting import GREET, Greeting, greet
from tests.interfaces.serving import MODERN, Reached, answer_of, ask, broker_serving, call_tool, envelope_of

WORDS = ("Greet somebody by name.", "Whom to greet.")
TOY = Registry((GREET,))

pytestmark = pytest.mark.anyio


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Reached]:
    monkeypatch.setattr(app, "REGISTRY", Registry((*REGISTRY, GREET)))
    monkeypatch.setattr(app, "HANDLERS", {**app.HANDLERS, "greet": greet})
    async with broker_serving(tmp_path / "data") as served:
        yield served


def generated(name: str) -> dict[str, Any]:
    """What a module of the client has in it, once it is written for the operation."""
    made: dict[str, Any] = {}
    exec(python_client.render(TOY)[name], made)
    return made


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "greet", generated("table.py")["OPERATIONS"]["greet"])


async def test_mcp_lists_and_calls_it(broker: Reached) -> None:
    tools = answer_of(await ask(broker, MODERN, "tools/list"))["result"]["tools"]
    (tool,) = [tool for tool in tools if tool["name"] == "greet"]
    assert (tool["description"], tool["inputSchema"]["properties"]["name"]["description"]) == WORDS
    called = envelope_of(await call_tool(broker, MODERN, "greet", {"name": "Rita"}))
    assert called == {"ok": True, "data": {"text": "Hello, Rita!"}}


async def test_http_and_openapi_have_it(broker: Reached) -> None:
    called = await broker.http.post("/api/v1/greet", json={"name": "Rita"})
    assert called.json() == {"ok": True, "data": {"text": "Hello, Rita!"}}
    refused = await broker.http.post("/api/v1/greet", json={"name": "nobody"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "NOT_FOUND")
    document = (await broker.http.get("/api/v1/openapi.json")).json()
    assert document["paths"]["/api/v1/greet"]["post"]["description"] == WORDS[0]
    schemas = document["components"]["schemas"]
    assert schemas["Greet"]["properties"]["name"]["description"] == WORDS[1]
    assert schemas["Greeting"]["properties"]["text"]["description"] == "What is said."


@pytest.mark.usefixtures("known")
async def test_the_command_line_has_it(broker: Reached) -> None:
    group: Any = get_group(new_group("toy", "Toys."))
    shown = CliRunner().invoke(group, ["greet", "--help"], env={"COLUMNS": "200"})
    assert [words for words in WORDS if words not in shown.stdout] == []
    command = ["greet", "Rita", "--broker", broker.url, "--json"]
    called = await asyncio.to_thread(CliRunner().invoke, group, command)
    assert called.stdout == '{"ok":true,"data":{"text":"Hello, Rita!"}}\n'


@pytest.mark.usefixtures("known")
async def test_the_python_client_has_it(broker: Reached) -> None:
    made: Any = type("Client", (TandemClient, generated("methods.py")["Operations"]), {})
    async with made(broker.url) as client:
        assert await client.greet(name="Rita") == Greeting("Hello, Rita!")
        with pytest.raises(errors.NotFound):
            await client.greet(name="nobody")


async def test_the_reference_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REGISTRY", TOY)
    page = reference.operations()
    assert f"## greet\n\n{WORDS[0]}" in page
    assert "Codes of its own: `NOT_FOUND`." in page
    assert f"| `name` | text | required | 1 to 200 characters | {WORDS[1]} |" in page
    assert "| `text` | text | What is said. |" in page
