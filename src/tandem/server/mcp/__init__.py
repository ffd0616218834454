"""MCP over Streamable HTTP: the SDK for the protocol, a path of our own for tool calls.

Only `server` imports the SDK; it is imported in a thread once the port is open, because the SDK takes most
of a second.
"""
