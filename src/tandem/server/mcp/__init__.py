"""MCP over Streamable HTTP: the SDK for the protocol, a path of our own for tool calls.

Only `server` and `teaching` import the SDK; they are imported in a thread once the port is open, because the SDK takes
most of a second.
"""
