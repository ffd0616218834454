"""The ways in over the network: the JSON API and MCP, both generated from the registry of operations.

`asgi` holds what every route shares, `http` the JSON API and the application, `mcp` the MCP endpoints.
"""
