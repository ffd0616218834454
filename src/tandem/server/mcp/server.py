"""The SDK's servers over the registry. Importing this takes most of a second: only `mount` does, in a thread.

Reviews and hand-off cycles are resources: everything about one of them in one JSON document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
import orjson
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import methods
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import Scope

from tandem.contract.caller import Caller
from tandem.cycles.answers import CyclePage
from tandem.errors import NotFound, TandemError
from tandem.reviews.answers import ReviewPage
from tandem.server.asgi.calls import AGENT_HEADER, access_in, identify
from tandem.server.mcp.fastpath import SERVER_NAME, SERVER_TITLE
from tandem.server.mcp.recognition import client_name
from tandem.server.mcp.teaching import instructions, prompts_for
from tandem.server.mcp.tools import Tools
from tandem.settings.workflows import Workflow

Context = ServerRequestContext[Any, Request]

_JSON = "application/json"
# Listings change with the broker's version only; reviews change all the time.
_LISTING = CacheHint(ttl_ms=60_000, scope="public")
_PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of resource.

    Attributes:
        name: What one of them is called.
        description: What its document has.
        prefix: The URI up to the id.
        parameter: What the id is called.
        lists: The operation that lists them; an endpoint whose role may not call both does not offer them.
        reads: The operation that reads one.
    """

    name: str
    description: str
    prefix: str
    parameter: str
    lists: str
    reads: str

    @property
    def template(self) -> str:
        """The URI with a blank for the id."""
        return f"{self.prefix}{{{self.parameter}}}"

    def listed(self, identity: str, description: str) -> types.Resource:
        """One of them in a list of resources."""
        uri = self.prefix + quote(identity, safe="")
        return types.Resource(uri=uri, name=identity, description=description, mime_type=_JSON)


REVIEW = ResourceKind(
    "review",
    "A review's proposal, status, rounds, checks and discussion.",
    "tandem://reviews/",
    "review_id",
    "list_reviews",
    "get_review",
)
CYCLE = ResourceKind(
    "cycle",
    "A hand-off cycle: its state, its workflow, and every hand-off with its payload.",
    "tandem://cycles/",
    "cycle_id",
    "list_cycles",
    "get_cycle",
)


def make_managers(
    *, endpoints: Mapping[str, Tools], workflows: Mapping[str, Workflow], version: str, body_limit_bytes: int
) -> dict[str, StreamableHTTPSessionManager]:
    """One SDK server for each endpoint, without sessions and with event streams.

    Args:
        endpoints: The tools of each path.
        workflows: The workflows of hand-off cycles by name.
        version: The broker's version.
        body_limit_bytes: The largest request body.
    """
    return {
        path: StreamableHTTPSessionManager(
            _Endpoint(tools, tuple(workflows.values())).server(version),
            stateless=True,
            max_request_body_size=body_limit_bytes,
        )
        for path, tools in endpoints.items()
    }


class _Endpoint:
    """The handlers of one endpoint."""

    def __init__(self, tools: Tools, workflows: Sequence[Workflow]) -> None:
        self._tools = tools
        self._kinds = tuple(kind for kind in (REVIEW, CYCLE) if tools.may(kind.lists) and tools.may(kind.reads))
        self._instructions = instructions(tools.role, workflows)
        self._listing = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools.listing()])
        self._prompts = {prompt.listed.name: prompt for prompt in prompts_for(tools.role, workflows)}

    def server(self, version: str) -> Server[Any]:
        return Server(
            SERVER_NAME,
            version=version,
            title=SERVER_TITLE,
            instructions=self._instructions,
            cache_hints={"tools/list": _LISTING, "prompts/list": _LISTING, "resources/templates/list": _LISTING},
            # Without it the SDK rebuilds the whole listing for every call.
            get_tool_input_schema=self._tools.input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            # Where there are none, clients are not to ask for any.
            on_list_resources=self._list_resources if self._kinds else None,
            on_list_resource_templates=self._list_templates if self._kinds else None,
            on_read_resource=self._read_resource if self._kinds else None,
        )

    async def _list_tools(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return self._listing

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        outcome = await self._tools.call(params.name, params.arguments, self._caller(context))
        body = outcome.body()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=body.decode())],
            structured_content=orjson.loads(body),
            is_error=not outcome.ok,
        )

    async def _list_prompts(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt.listed for prompt in self._prompts.values()])

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
            found: ReviewPage = await self._tools.dispatcher.call(REVIEW.lists, asked, caller)
            listed = [
                REVIEW.listed(row.review_id, f"{row.category}, {row.status}, round {row.round}: {row.intent}")
                for row in found.reviews
                if row.status != "closed"
            ]
            if found.next_page is None and CYCLE in self._kinds:
                newest: CyclePage = await self._tools.dispatcher.call(CYCLE.lists, {"limit": _PAGE_ROWS}, caller)
                listed += [
                    CYCLE.listed(row.cycle_id, f"{row.workflow}, {row.phase} ({row.active_role}): {row.feature}")
                    for row in newest.cycles
                    if row.archived_at is None
                ]
        except TandemError as refused:
            raise _protocol_error(refused) from refused
        return types.ListResourcesResult(resources=listed, next_cursor=found.next_page)

    async def _list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                uri_template=kind.template, name=kind.name, description=kind.description, mime_type=_JSON
            )
            for kind in self._kinds
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

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
        return orjson.dumps(await self._tools.dispatcher.call(kind.reads, {kind.parameter: identity}, caller)).decode()

    def _caller(self, context: Context) -> Caller:
        if context.request is None:
            raise RuntimeError("these servers are reached over HTTP only")
        scope: Scope = context.request.scope
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        agent = dict(headers).get(AGENT_HEADER)
        named = client_name(context.params)
        return identify(self._tools.role, scope["query_string"], agent, named, access_in(scope))


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
