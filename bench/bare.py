"""The bare server: one Starlette route on the broker's HTTP server, parser and loop, and nothing behind it."""

from __future__ import annotations

import asyncio
import socket

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tandem.cli.broker import new_event_loop


async def echo(request: Request) -> Response:
    """The body's JSON, parsed and serialised again."""
    body = await request.body()
    return Response(orjson.dumps(orjson.loads(body) if body else {"ok": True}), media_type="application/json")


async def serve() -> None:
    """Serve on a free port, which is printed."""
    app = Starlette(routes=[Route("/", echo, methods=["GET", "POST"])])
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        config = uvicorn.Config(
            app, http="httptools", ws="none", log_config=None, access_log=False, server_header=False, date_header=False
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        print(listener.getsockname()[1], flush=True)
        await serving


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())
