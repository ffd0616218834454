"""What the endpoint of hand-offs tells agents: the loop as instructions, and a prompt for each role."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from mcp import Client

from tandem.server.catalogue import REGISTRY
from tandem.settings.workflows import load
from tests.interfaces.serving import HANDSHAKE, MODERN, Served, answer_of, ask, serving
from tests.relay import relay

pytestmark = pytest.mark.anyio
ENDPOINT = "/mcp/handoff"
ERAS = [HANDSHAKE, MODERN]
PAYLOAD = [
    *("cycle_id", "feature", "producer", "consumer"),
    *("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes", "extras"),
]
CONFIGURED = {
    "relay": relay(archiver="planner"),
    "gated": relay(mode="approval"),
    # Its archiver has no phase; and the two names below would be the same prompt's.
    "kept": relay(roles=["planner", "builder", "tester", "keeper"], archiver="keeper"),
    "a": relay(roles=["planner", "builder", "tester", "b_c"], archiver="b_c"),
    "a_b": relay(roles=["planner", "builder", "tester", "c"], archiver="c"),
}


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    async with serving(workflows=load(CONFIGURED)) as served:
        yield served


async def _prompts(served: Served, revision: str, path: str = ENDPOINT) -> dict[str, dict[str, Any]]:
    listed = answer_of(await ask(served, revision, "prompts/list", path=path))["result"]["prompts"]
    return {prompt["name"]: prompt for prompt in listed}


async def _text(served: Served, name: str, revision: str = MODERN, **arguments: str) -> str:
    params = {"name": name, "arguments": arguments}
    answer = answer_of(await ask(served, revision, "prompts/get", params, path=ENDPOINT))
    return answer["result"]["messages"][0]["content"]["text"]


def _part(text: str, heading: str) -> list[str]:
    """The lines below a heading, without their dashes."""
    return [line.removeprefix("- ") for line in text.partition(f"{heading}\n")[2].partition("\n\n")[0].split("\n")]


@pytest.mark.parametrize("revision", ERAS)
async def test_each_role_of_each_workflow_has_a_prompt(served: Served, revision: str):
    prompts = await _prompts(served, revision)
    assert set(prompts) == {
        *("frontend-backend_gemini", "frontend-backend_codex"),
        *(f"{workflow}_{role}" for workflow in CONFIGURED for role in ("planner", "builder", "tester")),
        *("kept_keeper", "a_b_c", "a_b_c_2"),
    }
    begins = [argument["name"] for argument in prompts["frontend-backend_gemini"]["arguments"]]
    joins = [argument["name"] for argument in prompts["frontend-backend_codex"]["arguments"]]
    assert (begins, joins) == (["project", "feature"], ["project"])
    assert not any(argument.get("required") for prompt in prompts.values() for argument in prompt["arguments"])


async def test_no_other_endpoint_has_them(served: Served):
    for path in ("/mcp", "/mcp/proposer", "/mcp/reviewer", "/mcp/operator"):
        assert not any("_gemini" in name for name in await _prompts(served, MODERN, path))


@pytest.mark.parametrize("revision", ERAS)
async def test_the_role_that_begins_is_told_so_with_its_own_values(served: Served, revision: str):
    given = {"project": "café", "feature": 'The "login" page'}
    text = await _text(served, "frontend-backend_gemini", revision, **given)
    assert _part(text, "Your part:") == [
        "The phase frontend, where a cycle begins: do its work, then hand off to codex (backend follows).",
        "The phase frontend_refine: do its work, then hand off to codex (backend follows) or complete the cycle.",
        "Once a cycle is complete, you archive it.",
    ]
    assert _part(text, "The others' part:") == ["codex in backend: hand off to gemini (frontend_refine follows)."]
    assert 'project="café"' in text
    assert 'cycle_start(workflow="frontend-backend", feature="The \\"login\\" page")' in text
    assert 'handoff_read(workflow="frontend-backend", target="gemini")' in text
    assert 'handoff_write(target="codex", payload, lock_token, session_token)' in text
    assert 'producer="gemini", consumer="codex"' in text
    assert "In frontend_refine, if nothing is left" in text
    assert "cycle_archive(lock_token, session_token)" in text


async def test_the_role_that_joins_neither_begins_completes_nor_archives(served: Served):
    text = await _text(served, "frontend-backend_codex")
    assert _part(text, "Your part:") == [
        "The phase backend: do its work, then hand off to gemini (frontend_refine follows)."
    ]
    assert "gemini archives a complete cycle." in _part(text, "The others' part:")
    assert 'producer="codex", consumer="gemini"' in text
    assert not {"cycle_start(", "cycle_complete(", "cycle_archive(", "project="} & set(re.findall(r"\w+[(=]", text))


async def test_a_configured_workflows_roles_get_its_own_ways(served: Served):
    planner, builder, tester = [await _text(served, f"relay_{role}") for role in ("planner", "builder", "tester")]
    assert "cycle_start(" in planner
    assert "cycle_archive(" in planner
    assert "cycle_complete(" not in planner
    assert 'handoff_write(target="tester", payload' in builder
    assert 'producer="tester", consumer="builder"' in tester
    assert "cycle_complete(" in tester
    assert "cycle_archive(" not in tester
    assert "review" not in builder


async def test_in_approval_mode_a_role_is_told_to_wait_for_the_review(served: Served):
    text = await _text(served, "gated_builder")
    assert "review.reason" in text
    tester = await _text(served, "gated_tester")
    assert "If it is you who completes a cycle, you also archive it." in _part(tester, "Your part:")


async def test_who_only_archives_is_told_no_more(served: Served):
    text = await _text(served, "kept_keeper")
    assert _part(text, "Your part:") == ["Once a cycle is complete, you archive it."]
    assert "cycle_archive(" in text
    assert not {"handoff_write(", "handoff_read(", "cycle_complete("} & set(re.findall(r"\w+\(", text))


async def test_prompts_name_only_tools_fields_and_facts_that_there_are(served: Served):
    endpoint = {operation.name: operation for operation in REGISTRY.for_role("handoff")}
    for name in await _prompts(served, MODERN):
        text = await _text(served, name)
        calls = re.findall(r"(\w+)\(([^()]*)\)", text)
        assert calls
        for tool, arguments in calls:
            fields = {argument.partition("=")[0] for argument in arguments.split(", ")}
            assert fields <= set(endpoint[tool].request.model_fields), (tool, fields)
        if "handoff_write(" in text:
            assert all(field in text for field in PAYLOAD)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_instructions_teach_the_loop_and_name_the_workflows(served: Served, mode: Any):
    async with Client(f"{served.url}{ENDPOINT}", mode=mode) as client:
        told = client.instructions or ""
    assert set(re.findall(r"\b(?:session|cycle|lock|handoff)_[a-z]+\b", told)) == {
        *(operation.name for operation in REGISTRY.for_role("handoff")),
        *("session_token", "lock_token"),
        # For a producer whose hand-off is reviewed, beside the loop.
    } - {"list_findings"}
    for code in ("LOCK_DENIED", "INVALID_SESSION", "SCHEMA_INVALID"):
        assert code in told
    assert "frontend-backend (gemini, codex)" in told
    assert "relay (planner, builder, tester)" in told
    assert len(told) < 2048


async def test_there_are_no_resources_that_its_role_may_not_read(served: Served):
    async with Client(f"{served.url}{ENDPOINT}") as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is not None
