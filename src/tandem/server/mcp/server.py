"""The SDK's servers over the registry. Importing this takes most of a second: only `endpoint` does, in a thread.

Reviews and hand-off cycles are resources: everything about one of them in one JSON document. Agents that connect are
told the loop to follow, with prompts to begin it; for cycles one for each role of each workflow. The texts are
templates under `texts/`; nothing here knows such a role or a phase, which are read from the workflows' definitions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, unquote

import anyio
import mcp_types as types
import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request, decode_header_value
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import methods
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import Scope

from tandem.bridge.messages import as_object
from tandem.contract.caller import Caller
from tandem.contract.operation import Role
from tandem.cycles.answers import CyclePage
from tandem.cycles.payloads import ARRAYS, EXTRAS, TEXTS
from tandem.errors import NotFound, TandemError
from tandem.reviews.answers import ReviewPage
from tandem.server.asgi.calls import AGENT_HEADER, access_in, identify
from tandem.server.mcp.fastpath import SERVER_NAME, SERVER_TITLE, server_stamp
from tandem.server.mcp.recognition import MODERN_REVISION, TASKS, client_name, declares_tasks
from tandem.server.mcp.tasks import LISTEN_SECONDS, Task, Tasks
from tandem.server.mcp.tools import Tools, tool_result
from tandem.settings.workflows import Workflow

Context = ServerRequestContext[Any, Request]
T = TypeVar("T")

_JSON = "application/json"
# Listings change with the broker's version only; reviews change all the time.
_LISTING = CacheHint(ttl_ms=60_000, scope="public")
_PAGE_ROWS = 50
_MOST_LISTENED = 100
_PAUSE_SECONDS = 0.2
"""Between looks for a client that listens: a look without the database is answered at once."""


class TaskParams(types.RequestParams):
    """What `tasks/get`, `tasks/update` and `tasks/cancel` name."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of resource: operations that have its name list them, and read one.

    Attributes:
        name: What one of them is called.
        description: What its document has.
    """

    name: str
    description: str

    @property
    def prefix(self) -> str:
        """The URI up to the id."""
        return f"tandem://{self.name}s/"

    @property
    def template(self) -> str:
        """The URI with a blank for the id."""
        return f"{self.prefix}{{{self.name}_id}}"

    def is_offered(self, tools: Tools) -> bool:
        """Whether an endpoint's role may list and read them."""
        return tools.may(f"list_{self.name}s") and tools.may(f"get_{self.name}")

    def listed(self, identity: str, description: str) -> types.Resource:
        """One of them in a list of resources."""
        uri = self.prefix + quote(identity, safe="")
        return types.Resource(uri=uri, name=identity, description=description, mime_type=_JSON)


REVIEW = ResourceKind("review", "A review's proposal, status, rounds, checks and discussion.")
CYCLE = ResourceKind("cycle", "A hand-off cycle: its state, its workflow, and every hand-off with its payload.")


def make_managers(
    *, endpoints: Mapping[str, Tools], workflows: Mapping[str, Workflow], version: str
) -> dict[str, StreamableHTTPSessionManager]:
    """One SDK server for each endpoint, without sessions and with event streams.

    Args:
        endpoints: The tools of each path.
        workflows: The workflows of hand-off cycles by name.
        version: The broker's version.
    """
    return {
        path: StreamableHTTPSessionManager(
            _Endpoint(tools, tuple(workflows.values())).server(version),
            stateless=True,
            # The body was read already, within the broker's own limit.
            max_request_body_size=sys.maxsize,
        )
        for path, tools in endpoints.items()
    }


class _Endpoint:
    """The handlers of one endpoint."""

    def __init__(self, tools: Tools, workflows: Sequence[Workflow]) -> None:
        self._tools = tools
        self._tasks = Tasks(tools)
        self._kinds = tuple(kind for kind in (REVIEW, CYCLE) if kind.is_offered(tools))
        self._instructions = instructions(tools.role, workflows)
        self._prompts = {prompt.listed.name: prompt for prompt in _prompts_for(tools.role, workflows)}

    def server(self, version: str) -> Server[Any]:
        listed = [types.Tool.model_validate(tool) for tool in self._tools.listing()]
        templates = [
            types.ResourceTemplate(
                uri_template=kind.template, name=kind.name, description=kind.description, mime_type=_JSON
            )
            for kind in self._kinds
        ]
        list_templates = _always(types.ListResourceTemplatesResult(resource_templates=templates))
        server: Server[Any] = Server(
            SERVER_NAME,
            version=version,
            title=SERVER_TITLE,
            instructions=self._instructions,
            cache_hints={"tools/list": _LISTING, "prompts/list": _LISTING, "resources/templates/list": _LISTING},
            # Without it the SDK rebuilds the whole listing for every call.
            get_tool_input_schema=self._tools.input_schema,
            on_list_tools=_always(types.ListToolsResult(tools=listed)),
            on_list_prompts=_always(types.ListPromptsResult(prompts=[one.listed for one in self._prompts.values()])),
            on_get_prompt=self._get_prompt,
            # Where there are none, clients are not to ask for any.
            on_list_resources=self._list_resources if self._kinds else None,
            on_list_resource_templates=list_templates if self._kinds else None,
            on_read_resource=self._read_resource if self._kinds else None,
        )
        server.extensions[TASKS] = {}
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("tasks/get", TaskParams, self._get_task)
        server.add_request_handler("tasks/update", TaskParams, self._acknowledge)
        server.add_request_handler("tasks/cancel", TaskParams, self._acknowledge)
        # As a handler it would have the SDK declare that listings and resources are listened to, too.
        server.middleware.append(self._listen_to_tasks)
        server.middleware.append(partial(self._call_oddly, orjson.loads(b"{%s}" % server_stamp(version)[1:])))
        return server

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        runner = self._tasks if _follows_tasks(context) else self._tools
        outcome = await runner.call(params.name, params.arguments, self._caller(context))
        if isinstance(outcome, Task):
            return outcome.stated("working", resultType="task")
        return types.CallToolResult.model_validate(tool_result(outcome))

    async def _call_oddly(
        self, stamp: dict[str, Any], ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Refuse a call whose arguments are no object as any other wrong call; the SDK would not say why."""
        params = ctx.params or {}
        name, given = params.get("name"), params.get("arguments")
        if ctx.method != "tools/call" or not isinstance(name, str) or isinstance(given, dict | None):
            return await call_next(ctx)
        outcome = await self._tools.call(name, given, self._caller(ctx))
        return tool_result(outcome) | (stamp if ctx.protocol_version == MODERN_REVISION else {})

    async def _get_task(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return await self._tasks.get(self._task(context, params))

    async def _acknowledge(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Take note of an update, which no task asks for, or of a cancellation: nothing runs but the client's polls."""
        self._task(context, params)
        return {}

    def _task(self, context: Context, params: TaskParams) -> Task:
        if context.protocol_version != MODERN_REVISION:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        _require_tasks(context)
        named = None if context.request is None else context.request.headers.get("mcp-name")
        if named is not None and decode_header_value(named) != params.task_id:
            raise MCPError(
                types.HEADER_MISMATCH, "mcp-name header does not match the request body's 'taskId' parameter"
            )
        try:
            return self._tasks.find(params.task_id, self._caller(context))
        except NotFound as refused:
            raise _protocol_error(refused) from refused

    async def _listen_to_tasks(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer `subscriptions/listen` for tasks: each one's end is told, and then the stream ends."""
        wanted = _listened(ctx)
        if not wanted:
            return await call_next(ctx)
        _require_tasks(ctx)
        caller = self._caller(ctx)
        found: list[Task] = []
        for task_id in wanted[:_MOST_LISTENED]:
            with suppress(NotFound):
                found.append(self._tasks.find(task_id, caller))
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}

        async def tell(method: str, **params: Any) -> None:
            notification: Any = types.Notification[dict[str, Any], str](method=method, params={**params, "_meta": meta})
            await ctx.session.send_notification(notification, related_request_id=ctx.request_id)

        async def follow(task: Task) -> None:
            while (state := await self._tasks.get(task, LISTEN_SECONDS))["status"] == "working":
                if self._tasks.is_closing(task):
                    return
                await anyio.sleep(_PAUSE_SECONDS)
            await tell("notifications/tasks", **state)

        accepted = {"taskIds": [task.id for task in found]}
        await tell("notifications/subscriptions/acknowledged", notifications=accepted)
        async with anyio.create_task_group() as group:
            for task in found:
                group.start_soon(follow, task)
        return {"resultType": "complete", "_meta": meta}

    async def _get_prompt(self, _context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt '{params.name[:200]}' here.")
        given = params.arguments or {}
        wanted = prompt.listed.arguments or ()
        missing = [argument.name for argument in wanted if argument.required and not given.get(argument.name)]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"The prompt {params.name} needs {', '.join(missing)}.")
        content = types.TextContent(type="text", text=prompt.render(given))
        return types.GetPromptResult(
            description=prompt.listed.description, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The reviews of one page that are not closed; on the last one, the cycles under way, too."""
        page = params.cursor if params is not None else None
        asked: dict[str, Any] = {"limit": _PAGE_ROWS, **({"page": page} if page else {})}
        try:
            caller = self._caller(context)
            found: ReviewPage = await self._tools.dispatcher.call("list_reviews", asked, caller)
            listed = [
                REVIEW.listed(row.review_id, f"{row.category}, {row.status}, round {row.round}: {row.intent}")
                for row in found.reviews
                if row.status != "closed"
            ]
            if found.next_page is None and CYCLE in self._kinds:
                newest: CyclePage = await self._tools.dispatcher.call("list_cycles", {"limit": _PAGE_ROWS}, caller)
                listed += [
                    CYCLE.listed(row.cycle_id, f"{row.workflow}, {row.phase} ({row.active_role}): {row.feature}")
                    for row in newest.cycles
                    if row.archived_at is None
                ]
        except TandemError as refused:
            raise _protocol_error(refused) from refused
        return types.ListResourcesResult(resources=listed, next_cursor=found.next_page)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await self._read(uri, self._caller(context))
        except TandemError as refused:
            raise _protocol_error(refused, uri=uri) from refused
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=_JSON)])

    async def _read(self, uri: str, caller: Caller) -> str:
        kind = next((kind for kind in self._kinds if uri.startswith(kind.prefix)), None)
        identity = unquote(uri.removeprefix(kind.prefix)) if kind else ""
        if kind is None or not identity:
            places = " and ".join(f"{kind.name}s are at {kind.template}" for kind in self._kinds)
            message = f"There is no resource {uri[:200]}; {places}."
            raise NotFound(message)
        found = await self._tools.dispatcher.call(f"get_{kind.name}", {f"{kind.name}_id": identity}, caller)
        return orjson.dumps(found).decode()

    def _caller(self, context: Context) -> Caller:
        if context.request is None:
            raise RuntimeError("these servers are reached over HTTP only")
        scope: Scope = context.request.scope
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        agent = dict(headers).get(AGENT_HEADER)
        named = client_name(context.params)
        return identify(self._tools.role, scope["query_string"], agent, named, access_in(scope))


def _always(listing: T) -> Callable[[Context, object], Awaitable[T]]:
    """A handler of a list that stays the same."""

    async def answer(_context: Context, _params: object) -> T:
        return listing

    return answer


def _follows_tasks(context: Context) -> bool:
    return context.protocol_version == MODERN_REVISION and declares_tasks(context.params)


def _require_tasks(context: Context) -> None:
    if not declares_tasks(context.params):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"Declare the extension {TASKS}", required)


def _listened(context: Context) -> list[str]:
    """The tasks that a request wants to hear of."""
    if (context.method, context.protocol_version) != ("subscriptions/listen", MODERN_REVISION):
        return []
    stated: Any = as_object((context.params or {}).get("notifications")).get("taskIds")
    return [one for one in cast("list[object]", stated) if isinstance(one, str)] if isinstance(stated, list) else []


def _protocol_error(refused: TandemError, **facts: str) -> MCPError:
    is_fault = refused.status >= TandemError.status
    code = types.INTERNAL_ERROR if is_fault else types.INVALID_PARAMS
    return MCPError(code, refused.message, {**facts, "error": refused.as_dict()})


def passes_modern_checks(message: dict[str, Any], headers: dict[str, str]) -> bool:
    """Whether the SDK accepts a `tools/call` of revision 2026-07-28, envelope, headers and parameters."""
    verdict = classify_inbound_request(message, headers=headers)
    if isinstance(verdict, InboundLadderRejection):
        return False
    try:
        methods.validate_client_request("tools/call", verdict.protocol_version, message["params"])
    except ValidationError:
        return False
    return True


_WORKFLOWS_NAMED = 8
"""Workflows that the instructions name; some clients cut long ones off."""

_texts = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "texts"),
    autoescape=False,  # noqa: S701 - plain text, which no browser reads
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_texts.filters["quoted"] = partial(json.dumps, ensure_ascii=False)


class Prompt(NamedTuple):
    """A text that begins the loop: how it is listed, and its template."""

    listed: types.Prompt
    render: Callable[[Mapping[str, str]], str]


def instructions(role: str | None, workflows: Sequence[Workflow]) -> str:
    """The loop, in a few lines, for an endpoint's role."""
    loops = (Role.PROPOSER, Role.REVIEWER) if role is None else (role,)
    return "\n\n".join(_text(name, workflows=workflows, named=_WORKFLOWS_NAMED) for name in (*loops, "envelope"))


def _prompts_for(role: str | None, workflows: Iterable[Workflow]) -> tuple[Prompt, ...]:
    """The prompts that an endpoint offers."""
    if role == Role.HANDOFF:
        return _cycle_prompts(workflows)
    return tuple(prompt for of_role, prompt in _PROMPTS.items() if role in (None, of_role))


def _text(name: str, **values: Any) -> str:
    return _texts.get_template(f"{name}.txt").render(values)


def _argument(name: str, description: str, *, required: bool = False) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=description, required=required)


_PROJECT = _argument("project", "The project; the endpoint's own if left out.")
_FEATURE = _argument("feature", "The feature to build, in a few words, should no cycle be under way.")


def _prompt(text: str, listed: types.Prompt, **values: Any) -> Prompt:
    """A prompt whose arguments are values of its text; those that are not given are empty."""

    def render(given: Mapping[str, str]) -> str:
        return _text(text, **values, **{each.name: given.get(each.name, "") for each in listed.arguments or ()})

    return Prompt(listed, render)


_PROMPTS: Mapping[str, Prompt] = {
    Role.REVIEWER: _prompt(
        "review_next_change",
        types.Prompt(
            name="review_next_change",
            title="Review the next change",
            description="Claim the next waiting review, judge it, and give a verdict.",
            arguments=[_argument("reviewer_id", "Who reviews; keep it the same.", required=True), _PROJECT],
        ),
    ),
    Role.PROPOSER: _prompt(
        "submit_my_change",
        types.Prompt(
            name="submit_my_change",
            title="Submit my change",
            description="Have the change that you made reviewed, and act on the verdict.",
            arguments=[_argument("intent", "What the change is for."), _PROJECT],
        ),
    ),
}
"""By the role that they are for."""


def _cycle_prompts(workflows: Iterable[Workflow]) -> tuple[Prompt, ...]:
    """A prompt for each role of each workflow, named after both: `<workflow>_<role>`."""
    found: dict[str, Prompt] = {}
    for workflow in workflows:
        for role in workflow.roles:
            name, number = f"{workflow.name}_{role}", 1
            while name in found:  # `a_b` and `c` make the same one as `a` and `b_c`
                number += 1
                name = f"{workflow.name}_{role}_{number}"
            found[name] = _cycle_prompt(workflow, role, name)
    return tuple(found.values())


def _cycle_prompt(workflow: Workflow, role: str, name: str) -> Prompt:
    own = [phase for phase in workflow.phases.values() if phase.role == role]
    listed = types.Prompt(
        name=name,
        title=f"Take part in {workflow.name} as {role}",
        description=f"Play the part of {role} in a hand-off cycle of {workflow.name}.",
        arguments=[_PROJECT, _FEATURE],
    )
    if workflow.phase(workflow.start).role != role:
        listed.arguments = [_PROJECT]
    return _prompt(
        "cycle_part",
        listed,
        workflow=workflow,
        role=role,
        own=own,
        targets=list(dict.fromkeys(target for phase in own for target in phase.handoffs)),
        texts=TEXTS,
        arrays=ARRAYS,
        extras=EXTRAS,
    )
