"""The SDK's servers over the registry. Importing this takes most of a second: only `mount` does, in a thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as types
import orjson
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from tandem.contract.caller import Caller
from tandem.domain.workflows import Workflow
from tandem.errors import TandemError
from tandem.faces.asgi.admission import access_in
from tandem.faces.asgi.identity import AGENT_HEADER, identify
from tandem.faces.mcp.messages import SERVER_NAME, SERVER_TITLE
from tandem.faces.mcp.prompts import Prompt
from tandem.faces.mcp.recognition import client_name
from tandem.faces.mcp.resources import Resources
from tandem.faces.mcp.teaching import instructions, prompts_for
from tandem.faces.mcp.tools import Tools

Context = ServerRequestContext[Any, Request]

_JSON = "application/json"
# Listings change with the broker's version only; reviews change all the time.
_LISTING = CacheHint(ttl_ms=60_000, scope="public")


class SdkServers:
    """One SDK server for each endpoint, without sessions and with event streams."""

    def __init__(
        self,
        *,
        endpoints: Mapping[str, Tools],
        resources: Resources,
        workflows: Mapping[str, Workflow],
        version: str,
        body_limit_bytes: int,
    ) -> None:
        """Build the servers and their listings.

        Args:
            endpoints: What each path offers.
            resources: Reviews and cycles as resources.
            workflows: The workflows of hand-off cycles by name.
            version: The broker's version.
            body_limit_bytes: The largest request body.
        """
        self._managers = {
            path: StreamableHTTPSessionManager(
                _Endpoint(tools, resources, tuple(workflows.values())).server(version),
                stateless=True,
                max_request_body_size=body_limit_bytes,
            )
            for path, tools in endpoints.items()
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Mapping[str, ASGIApp]]:
        """Run the servers; gives their applications by path."""
        async with AsyncExitStack() as stack:
            for manager in self._managers.values():
                await stack.enter_async_context(manager.run())
            yield {path: manager.handle_request for path, manager in self._managers.items()}


class _Endpoint:
    """The handlers of one endpoint."""

    def __init__(self, tools: Tools, resources: Resources, workflows: Sequence[Workflow]) -> None:
        self._tools = tools
        self._resources = resources
        self._kinds = resources.kinds(tools.role)
        self._instructions = instructions(tools.role, workflows)
        self._listing = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools.listing()])
        self._prompts = {prompt.name: prompt for prompt in prompts_for(tools.role, workflows)}

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
        return types.ListPromptsResult(prompts=[_listed_prompt(prompt) for prompt in self._prompts.values()])

    async def _get_prompt(self, _context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt '{params.name[:200]}' here.")
        given = params.arguments or {}
        missing = [argument.name for argument in prompt.arguments if argument.required and not given.get(argument.name)]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"The prompt {prompt.name} needs {', '.join(missing)}.")
        content = types.TextContent(type="text", text=prompt.render(given))
        return types.GetPromptResult(
            description=prompt.description, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        page = params.cursor if params is not None else None
        try:
            links, next_page = await self._resources.list_open(self._caller(context), page)
        except TandemError as refused:
            raise _protocol_error(refused) from refused
        listed = [
            types.Resource(uri=link.uri, name=link.name, description=link.description, mime_type=_JSON)
            for link in links
        ]
        return types.ListResourcesResult(resources=listed, next_cursor=next_page)

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
            text = await self._resources.read(uri, self._caller(context))
        except TandemError as refused:
            raise _protocol_error(refused, uri=uri) from refused
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=_JSON)])

    def _caller(self, context: Context) -> Caller:
        if context.request is None:
            raise RuntimeError("these servers are reached over HTTP only")
        scope: Scope = context.request.scope
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        agent = dict(headers).get(AGENT_HEADER)
        named = client_name(context.params)
        return identify("mcp", self._tools.role, scope["query_string"], agent, named, access_in(scope))


def _listed_prompt(prompt: Prompt) -> types.Prompt:
    return types.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            types.PromptArgument(name=argument.name, description=argument.description, required=argument.required)
            for argument in prompt.arguments
        ],
    )


def _protocol_error(refused: TandemError, **facts: str) -> MCPError:
    is_fault = refused.status >= TandemError.status
    code = types.INTERNAL_ERROR if is_fault else types.INVALID_PARAMS
    return MCPError(code, refused.message, {**facts, "error": refused.as_dict()})
