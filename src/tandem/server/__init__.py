"""Dispatch of operations, and the protocols by which they are called: HTTP, MCP, ASGI."""
